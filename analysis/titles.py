"""Names of tables, charts and their parts, numbers for people, and notes that readers need."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from analysis.labels import Label
from analysis.results import Environment, Result, over, scales_strongly, with_number
from scalemark.own_model import is_own
from scalemark.records.axes import INHERITED, bare_name, is_env_variable
from scalemark.text.wording import as_typed, counted, fixed, listed

if TYPE_CHECKING:
    from analysis.pivot import Table

METRICS_ABOUT = "last printed value (loss: median of the last tenth), mean of the repeats"
"""How a number that programs print beside their speed is made of its values."""


def mean_printed(result: Result, name: str) -> float | None:
    """Return a number that a program printed beside its speed."""
    values = result.metrics.get(name)
    return fmean(values) if values else None


def printed(result: Result, name: str) -> str:
    """Return such a number for people."""
    value = mean_printed(result, name)
    return "unknown" if value is None else f"{value:.4g}"


def number(value: float, *, exactly: bool = False) -> str:
    """Return 0.0123, 3.14, 91.8, 142 or 10509; with `exactly` all digits of another number."""
    if not math.isfinite(value):
        if math.isnan(value):
            return "not a number"
        return "infinite"
    text = fixed(value, _decimals(abs(value)))
    if exactly and float(text) != value and 1e-4 <= abs(value) < 1e10:
        return f"{value:.10g}"
    return text


def span(low: float, high: float, around: float) -> str:
    """Return `88.7, 93.2`, with as many decimals as the number that they lie around."""
    decimals = _decimals(abs(around))
    return f"{fixed(low, decimals)}, {fixed(high, decimals)}"


def with_interval(value: float, low: float | None, high: float | None) -> str:
    """Return `91.8 [88.7, 93.2]`, the one notation of an interval."""
    if low is None or high is None:
        return number(value)
    return f"{number(value)} [{span(low, high, value)}]"


FEW_REPEATS = 4  # below so many, runs are shown instead of an interval


def has_interval(results: Iterable[Result]) -> bool:
    """Return whether any is shown with an interval, and not as runs."""
    return any(len(result.repeats) >= FEW_REPEATS for result in results)


def spread(repeats: Sequence[float], low: float | None, high: float | None, around: float) -> str:
    """Return `[88.7, 93.2]`, or `(159 to 435, n=2)` where repeats are too few for an interval, or
    it is wider than the number. A single run has no spread.
    """
    ends = spread_ends(repeats, low, high, around)
    if ends is None:
        return ""
    if ends == (low, high):
        return f"[{span(*ends, around)}]"
    return f"({number(ends[0])} to {number(ends[1])}, n={len(repeats)})"


def spread_ends(
    repeats: Sequence[float], low: float | None, high: float | None, around: float
) -> tuple[float, float] | None:
    """Return the ends of what `spread` writes."""
    if len(repeats) < 2:
        return None
    is_few = len(repeats) < FEW_REPEATS
    if is_few or low is None or high is None or high - low > around:
        return min(repeats), max(repeats)
    return low, high


def _decimals(size: float) -> int:
    """Keep three digits, or one behind the point below 100."""
    if size >= 99.95:
        return 0
    if size >= 9.995:
        return 1
    if 0 < size < 0.1:
        return min(2 - math.floor(math.log10(size)), 6)
    return 2


SIMULATED = "simulated: "  # before the title of such a table
_SIZES = ("image_px", "seq_len")  # 0 of a model that takes no such input, or has its own
_BARE = {
    "model": "{}",
    "precision": "{}",
    "data": "{} data",
    "scaling": "{} scaling",
    "hosts": "{} hosts",
    "strategy": "{}",
    "environment": "{}",
}
_OF_A_MODEL = ("batch_size", *_SIZES, "strategy")
_SPEAKING = ("strategy", "variable_update", "precision", "model")


def title(setting: Mapping[str, object]) -> str:
    """Name a table by its setting, as `resnet50 (batch_size 4, fp32, synthetic data)`."""
    texts = []
    for axis, value in setting.items():
        is_name = axis == "strategy" and value == setting.get("model")  # of a program without axes
        if axis != "model" and not is_name and not _says_nothing(axis, value):
            texts.append(named(axis, value))
    if "model" not in setting:
        return ", ".join(texts)
    if texts:
        return f"{setting['model']} ({', '.join(texts)})"
    return str(setting["model"])


def table_title(environment: Environment, setting: Mapping[str, object]) -> str:
    """Return the title, and say so of a simulated table."""
    text = title(setting)
    if text and environment.is_simulated:
        return f"{SIMULATED}{text}"
    return text


def named(axis: str, value: object) -> str:
    """Return `batch_size 64`, `synthetic data` or `2 hosts`; sources do not report everything."""
    if axis == "injected" and value == "":
        return "nothing injected"
    name = bare_name(axis)
    if value is None and is_env_variable(axis):
        return f"{name} {INHERITED}"
    if value in (None, ""):
        return f"{name} not reported"
    if axis == "hosts" and str(value).isdecimal():  # or `1 to 4`
        return counted(int(str(value)), "host")
    if axis == "command":
        return program_name(str(value))
    if axis in ("image_px", "num_classes") and value == 0:
        return f"{axis} of its own"
    return _BARE.get(axis, f"{name} {{}}").format(as_typed(value))


def program_name(command_line: str) -> str:
    """Return `program 3f2a1c`, which tells a command line from others; a note has it in full."""
    return f"program {hashlib.sha256(command_line.encode()).hexdigest()[:6]}"


def _says_nothing(axis: str, value: object) -> bool:
    """Return whether a size is said by the model alone, or of an input that it does not take."""
    return axis in (*_SIZES, "num_classes") and value == 0


def headings(table: Table, what: str) -> tuple[str, str]:
    """Return headline and setting of a picture, as `resnet50: images/s (weak scaling)` and
    `batch_size 64, fp32, synthetic data`.
    """
    setting = {axis: value for axis, value in table.setting.items() if axis != "scaling"}
    model, what = setting.pop("model", None), scaled(what, table)
    if model is not None:
        what = f"{model}: {what}"
    return what, title(setting)


def scaled(what: str, table: Table) -> str:
    """Return a headline as `images/s (weak scaling)`."""
    how = scaling(table)
    return f"{what} ({how})" if how else what


def scaling(table: Table) -> str:
    """Return `weak scaling`, or `simulated, weak scaling`; empty of programs, whose scaling is
    their own.

    Figures of others are quoted by their batch per GPU: where that is known, scaling was weak, but
    for sources that accumulate fewer micro-batches on more GPUs.
    """
    if not table.environment.origin.is_ours:
        batches = {result.axes.get("batch_size") for result in table.results}
        if None in batches:
            return "scaling unknown"
        ways = {"strong" if scales_strongly(result) else "weak" for result in table.results}
        return " and ".join(f"{way} scaling" for way in sorted(ways))
    values = sorted({str(result.axes["scaling"]) for result in table.results} - {"None"})
    text = " and ".join(f"{value} scaling" for value in values)
    if table.environment.is_simulated:
        return f"simulated, {text}"
    return text


def short_title(table: Table, axes: Sequence[str], label: Label) -> str:
    """Name a row or a column above `model_notes`, as `ps_cpu`, `4 GPUs` or `vgg16 over 2 hosts`."""
    texts = []
    for axis, value in zip(axes, label, strict=True):
        texts.append(str(value) if axis == "model" else _value(table, axis, value))
    if tuple(axes[:2]) == ("strategy", "hosts"):  # hosts go with the strategy before them
        texts[:2] = [f"{texts[0]}{over(int(label[1]))}"]
    return ", ".join(texts)


def model_notes(table: Table) -> list[str]:
    """Return what varies with the model, as `batch_size: 64 (alexnet 512)`."""
    notes = []
    for axis in dict.fromkeys(axis for of in table.of_models.values() for axis in of):
        by_value: dict[str, list[str]] = {}
        is_of_some = False
        for model, of in table.of_models.items():
            if of[axis] is None and table.environment.origin.is_ours:
                continue
            if axis in _SIZES and of[axis] == 0 and not is_own(model):
                is_of_some = True
                continue
            value = "not reported" if of[axis] in (None, "") else as_typed(of[axis])
            if _says_nothing(axis, of[axis]):
                value = "of its own"
            by_value.setdefault(value, []).append(model)
        if not by_value:
            continue
        if axis not in _OF_A_MODEL and (len(by_value) == 1 or not table.environment.origin.is_ours):
            continue
        texts = [f"{value}: {', '.join(models)}" for value, models in by_value.items()]
        if len(by_value) == 1 and not is_of_some:
            texts = [*by_value]
        notes.append(f"{axis} {'; '.join(texts)}")
    return notes


def _value(table: Table, axis: str, value: object) -> str:
    if axis == "num_gpus":
        return table.environment.counted(int(str(value)))
    if value and axis in _SPEAKING:
        return str(value)
    return named(axis, value)


def made_with(environment: Environment) -> str:
    """Return machine and software in one line."""
    return f"{environment.machine}; {environment.versions}"


def environment_notes(environment: Environment) -> list[str]:
    """Return what must stand below every number of this environment."""
    notes = [made_with(environment)]
    if environment.shares_host:
        notes.append(f"{environment.origin} side by side with other trials on the same machine")
    if environment.device_kind.note:
        notes.append(environment.device_kind.note)
    return notes


def host_notes(results: Iterable[Result]) -> list[str]:
    """Say where hosts are no machines of their own."""
    numbers = sorted({result.hosts for result in results if result.is_on_one_machine})
    if not numbers:
        return []
    return [
        f"over {listed([str(hosts) for hosts in numbers])} hosts: processes of one machine, which "
        "share its cores and memory; machines of their own may be faster or slower"
    ]


def program_notes(results: Iterable[Result]) -> list[str]:
    """Say once what was run, of programs of the user's own."""
    lines = {str(result.axes["command"]) for result in results if result.is_of_program}
    return [f"{program_name(line)}: {line}" for line in sorted(lines)]


def reported_notes(results: Iterable[Result]) -> list[str]:
    """Say which numbers programs reported themselves, so that nothing is known of their steps."""
    having = list(with_number(results))
    which = _counted_of(sum(result.is_reported for result in having), len(having))
    if which:
        return [f"as reported by the program, whose steps were not timed: {which}"]
    return []


def _counted_of(num: int, num_all: int) -> str:
    """Return `all numbers` or `2 of 3 numbers`; empty for none."""
    if num == num_all:
        return "all numbers" if num else ""
    return f"{num} of {counted(num_all, 'number')}" if num else ""


_FLAT = 1.1  # speed-up on several GPUs
_COUNTS_ITEMS = re.compile(r"[<,]items(?:_per_step)?[>=]")  # of a pattern, or of JSON


def unconfirmed_notes(results: Iterable[Result]) -> list[str]:
    """Say which rates nothing confirms: one that is wrong by a constant factor goes unseen. Items
    that a program counts confirm its rate, but may be those of one GPU, too.
    """
    having = list(with_number(results))
    own = [result for result in having if result.is_unconfirmed]
    rated = [result for result in own if not _COUNTS_ITEMS.search(result.spec.read)]
    said = []
    if which := _counted_of(len(rated), len(having)):
        do = "print steps and give"
        if all("<step>" in one.spec.read or one.quotable[0]["median_step_s"] for one in rated):
            do = "give"
        rates = "the printed rates" if len(rated) == len(having) else which
        said.append(f"nothing confirms {rates}: {do} command.items_per_step")
    for result in own:
        is_flat = result.speed_up is not None and result.speed_up < _FLAT
        if is_flat and result.num_gpus > 1 and not result.spec.per_gpu:
            devices = result.environment.devices
            said.append(f"where each of N {devices} prints its own, give command.per_gpu=true")
            break
    return ["; ".join(said)] if said else []


def sweep_notes(results: Iterable[Result]) -> list[str]:
    """Say how many repeats by other sweeps than the one that was asked for are in the numbers."""
    num, of_all = 0, 0
    for result in with_number(results):
        num += result.of_other_sweeps
        of_all += len(result.repeats)
    if num:
        return [f"measured by other sweeps: {num} of {counted(of_all, 'repeat')}"]
    return []


ITEMS_OF_STEPS = "'command.items_per_step=batch_size*num_gpus' command.item=samples"
"""What tells how many items a step has, as an example."""


def step_notes(results: Iterable[Result]) -> list[str]:
    """Say what steps/s on several numbers of GPUs leave open, and how items are counted."""
    counting = [result for result in with_number(results) if result.counts_steps]
    if len({result.num_gpus for result in counting}) < 2:
        return []
    environment = counting[0].environment
    how = f"; to count items, add e.g. {ITEMS_OF_STEPS}" if environment.origin.is_ours else ""
    return [
        f"counts steps: where each of N {environment.devices} keeps its batch, a step does N times "
        f"the work, so that efficiency and whether more pay are not said{how}"
    ]


def result_notes(results: Sequence[Result]) -> list[str]:
    """Return what must stand below these numbers, but for their environments."""
    return [
        *program_notes(results),
        *reported_notes(results),
        *unconfirmed_notes(results),
        *step_notes(results),
        *host_notes(results),
        *sweep_notes(results),
    ]


def table_facts(table: Table) -> list[str]:
    """Return what must stand below every number of this table, but for what badges say."""
    return [*model_notes(table), made_with(table.environment), *result_notes(table.results)]
