"""Reads `fit` of Keras 2 and 3: `422/422 [===] - 13s 29ms/step`, `16/16 ━━━ 5s 300ms/step`.

A bar is of an epoch: steps are counted over epochs. Its time per step is the mean of the epoch so
far. Bars of `evaluate` and `predict`, which no `Epoch` line precedes, are left out. Of several
ranks the first counts: as long as not all have begun an epoch, bars in its second half are of the
epoch before.
"""

import re

from scalemark.readers.fields import metrics_of
from scalemark.readers.opening import Reader, Reading
from scalemark.readers.words import NOT_FINITE, seconds, whole

ABOUT = "keras reads progress lines of fit: steps over all epochs, and their time where it is shown"
_EPOCH = re.compile(r"\bEpoch (\d+)(?:/\d+)?:?\s*$")
_BAR = re.compile(
    r"(?<!\d)(?<!Epoch )(?P<step>\d+)/(?:(?P<total>\d+)\s+(?:\[[=>.\s]*\]|━+|-)|Unknown\s)\s*"
    r"(?:-\s*)?(?:ETA:\s*[\d:]+s?\s*|(?P<epoch_s>\d+)(?:s|ms|us)\b)?\s*(?:-\s*)?"
    r"(?:(?P<time>[\d.]+\s?(?:ms|us|µs|s))/(?P<per>step|sample|epoch))?(?P<after>.*)"
)
_TRAIN_ON = re.compile(r"\bTrain on ([\d,]+) samples")
_FASTEST_S = 1e-3  # of a step of Keras 1
_METRIC = re.compile(rf"(?:^|\s-\s|\s)([A-Za-z_]\w*): (-?{NOT_FINITE}|[-+\d.eE]+)")


class KerasReader(Reader):
    """Follows the bar of each epoch."""

    def __init__(self) -> None:
        self._before = 0  # steps of the epochs before
        self._total = 0  # steps of an epoch, where it is known
        self._done = 0  # steps of this epoch
        self._is_open = True  # a bar may begin: an epoch has, or no line said that one has
        self._epoch = ""
        self._num_began = self._num_ranks = 0  # ranks in this epoch, and in the one before
        self._half = 0  # of the steps of the epoch before
        self._num_samples = 0  # of an epoch, where a line says so

    def read_line(self, line: str) -> Reading | None:
        epoch = _EPOCH.search(line)
        if epoch:
            self._begin(epoch[1])
            return None
        trained = _TRAIN_ON.search(line)
        if trained:
            self._num_samples = whole(trained[1]) or 0
        bar = _BAR.search(line)
        if bar is None:
            return None
        step, total = int(bar["step"]), int(bar["total"] or 0)
        is_behind = self._num_began < self._num_ranks and step > self._half
        if is_behind or not self._is_of_this_epoch(total) or step <= self._done:
            return None
        self._done = step
        return self._reading(bar, step, total)

    def _begin(self, epoch: str) -> None:
        """Begin an epoch, unless another rank has; each call of `fit` has a first one."""
        has_ended = self._done > self._total / 2
        if epoch == self._epoch and not has_ended:
            self._num_began += 1
            return
        self._epoch, self._num_ranks, self._num_began = epoch, self._num_began, 1
        self._before += self._done
        self._half = self._done // 2
        self._done, self._is_open = 0, True

    def _is_of_this_epoch(self, total: int) -> bool:
        if self._is_open:
            self._total, self._is_open = total, False
            return True
        return total in (self._total, self._done) or self._total == 0

    def _reading(self, bar: re.Match[str], step: int, total: int) -> Reading:
        time_s = seconds(bar["time"]) if bar["time"] else None
        metrics = metrics_of(dict(_METRIC.findall(bar["after"])))
        if bar["per"] == "sample" or total == self._num_samples > 0:  # Keras before 2.3
            rate = 1 / time_s if time_s else None
            if rate is None and bar["epoch_s"] and total == step:
                rate = step / max(1, int(bar["epoch_s"]))
            return Reading(
                throughput=rate, is_mean=True, item="samples", per_gpu=False, metrics=metrics
            )
        if bar["epoch_s"] and not time_s and total == step:  # verbose=2 of Keras 2
            time_s = int(bar["epoch_s"]) / step
            if "[=" in bar[0] and time_s < _FASTEST_S:  # of Keras 1, which counts samples
                return Reading(throughput=1 / (time_s or 1 / step), is_mean=True, item="samples")
        return Reading(
            step=self._before + step, step_s=time_s or None, is_mean=True, metrics=metrics
        )


create = KerasReader
