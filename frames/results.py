"""The results of a database as frames, answers and pictures: what `scalemark.open` returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis.advice.aims import Aim, Goal
from analysis.advice.answer import answers
from analysis.compare.sides import sides
from analysis.newest import what_is_left
from analysis.results import Result
from analysis.selection import NothingFoundError
from frames import scaling, trials
from frames.advice import Advice, advice_of
from frames.choice import Choice, Wanted, one_of
from frames.comparison import comparison_frame
from frames.empty import empty
from frames.pictures import Pictures, drawn
from frames.sweeps import DTYPES as SWEEPS
from frames.sweeps import sweeps_frame
from plots.pictures.choices import Theme
from plots.source import Source
from scalemark.text.wording import counted
from store.database import default_url, open_existing, open_for_reading
from store.errors import NoSweepError, StoreError
from store.reading.every_sweep import every_sweep


def open(  # noqa: A001  # as scalemark.open it shadows nothing
    path_or_url: str | Path | None = None, *filters: str, **wanted: Wanted
) -> Results:
    """Open a results database: a file, a `sqlite:///` or a `postgresql://` URL; without one
    `SCALEMARK_DB`, else `results.db`. Filters choose of it, as `Results.where` says.

    Raises StoreError when there is no such database, or it cannot be read. Published figures
    (`origin="published"`) come with scalemark and need none.
    """
    found = Results(Choice(db=str(path_or_url or default_url()))).where(*filters, **wanted)
    if found.choice.needs_database:
        engine = open_existing(found.choice.db)
        if engine is None:
            raise NoSweepError(
                f"{found.choice.shown_db}: no database of scalemark; run a sweep first, as "
                "scalemark.sweep(...), or give scalemark.open another"
            )
        engine.dispose()
    return found


@dataclass(frozen=True, slots=True, repr=False)
class Results:
    """A choice of the results of a database. Each call reads it anew, and changes nothing.

    It is about the newest sweep until filters choose others, which every method takes as `where`
    does. Frames are sorted, and have the same columns and dtypes whatever was found. One without
    rows comes with a `NothingFoundWarning`, whose text stands in `frame.attrs["why"]`, too.
    """

    choice: Choice

    def where(self, *filters: str, **wanted: Wanted) -> Results:
        """Choose results, with the names and meanings of the command line.

        A keyword is an axis or another name that `store list` filters by: `model="vgg16"`,
        `model=["vgg16", "alexnet"]`, `num_gpus=">=4"`, `host="~box*"`. Text filters are those of
        the commands: `"num_gpus>=4"`, `"axes.zero=2"`. All must hold.

        Four names are options: `sweep` (the trials that it asked for), `origin` (`"measured"`,
        `"simulated"`, `"published"`, `"elsewhere"`; without it that of the newest sweep that
        matches), `source` (of published figures) and `baseline` (`"same"`, `"best"` or
        `"fewest"`: what speed-ups are against).

        Raises StoreError for an option that is none; methods raise it for a filter that is none.
        """
        return Results(self.choice.narrowed(filters, wanted))

    def sweeps(self) -> pd.DataFrame:
        """Return one row per sweep of the database, newest first, whatever is chosen.

        | column | dtype | |
        |---|---|---|
        | sweep | str | its name |
        | started_at, finished_at | datetime64[us, UTC] | finished: NaT while something is left |
        | models, engines | str | parted by commas |
        | num_trials | int64 | that it asked for |
        | num_attempts, num_completed | int64 | its own; what was finished earlier has none |
        | reason, command | str | what `sweep.reason` said, and the arguments |
        """
        found = every_sweep(open_for_reading(self.choice.db))
        if not found:
            return empty(SWEEPS, f"{self.choice.shown_db}: no sweep in it yet; run one first")
        return sweeps_frame(found)

    def trials(self, *filters: str, **wanted: Wanted) -> pd.DataFrame:
        """Return one row per trial and environment (machine and software), failed ones, too; never
        averaged over an axis. Sorted by model, batch, precision, strategy, hosts and GPUs.

        | column | dtype | |
        |---|---|---|
        | model, strategy, precision | str | |
        | num_gpus, hosts | int64 | |
        | batch_size | Int64 | per GPU, and micro-batch |
        | throughput, .._low, .._high | float64 | items per second over all replicas: geometric mean
        of the repeats and its 95 % CI; of one repeat that within it |
        | num_repeats, num_failed | int64 | processes behind the number; repeats without one |
        | speed_up, efficiency | float64 | against the baseline; per GPU, 1.0 is ideal |
        | outcome | str | completed, or how the newest attempt ended |
        | is_valid | bool | no verdict says anything against it |
        | item | str | what is counted: images, tokens |
        | | | all other axes follow |
        | mfu | float64 | model FLOPs utilization, 0..1 |
        | memory_bytes, variable_bytes, optimizer_state_bytes | Int64 | largest of any device |
        | origin, environment, host, machine, versions | str | where it was made: environment is a
        key, machine and versions a line each |
        | device_kind | str | what num_gpus counts |
        | shares_host | bool | others ran beside it |
        | trial_id | str | |
        | attempts, repeats | object | numbers of its attempts; throughput of each repeat |

        Free axes are last, by their full names (`axes.zero`).
        """
        return self._frame(filters, wanted, trials.trials_frame, trials.dtypes())

    def scaling(self, *filters: str, **wanted: Wanted) -> pd.DataFrame:
        """Return one row per number of GPUs on a strategy's curve, as `analysis scaling` has them;
        what failed is not on it. Sorted and with the columns of `trials`, and behind `item`:

        | column | dtype | |
        |---|---|---|
        | speed_up_low, speed_up_high | float64 | 95 % CI; NaN of single runs |
        | marginal_efficiency, .._low, .._high | float64 | what each GPU added since the row
        before brings, as a share of what each of the first does; below 0.5 it does not pay |
        | stops_paying_at | Int64 | of the curve: the most GPUs that pay; NA where all do |
        | baseline_strategy | str | what the speed-up is against |
        | baseline_num_gpus | Int64 | |
        """
        return self._frame(filters, wanted, scaling.scaling_frame, scaling.dtypes())

    def compare(
        self, a: str, b: str, *filters: str, trust_steps: bool = False, **wanted: Wanted
    ) -> pd.DataFrame:
        """Compare two sides, each a filter, a trial, an attempt or a sweep, as `analysis compare`:
        one row per pair of trials that are equal but for what is compared. Where nothing is chosen,
        the sides choose of all.

        `trust_steps` lets the steps of single runs decide.

        | column | dtype | |
        |---|---|---|
        | | | first the axes that tell the pairs apart |
        | a, b | str | what makes each side what it is |
        | a_throughput, b_throughput | float64 | items per second; NaN without a number |
        | item | str | what is counted |
        | ratio, ratio_low, ratio_high | float64 | of a to b, and its 95 % CI |
        | answer | str | a is faster, b is faster, tie, not conclusive, nothing to compare |
        | is_sure | bool | decided, and over processes |
        | a_num_repeats, b_num_repeats | int64 | |
        | why | str | the answer in a sentence |
        | a_trial_id, b_trial_id | str | |

        Raises StoreError for an empty side, and where no pair is left, with the reason.
        """
        choice = self.choice.narrowed(filters, wanted)
        both = sides(choice.db, a, b, choice.filters, choice.sweep, choice.origin)
        return comparison_frame(*both, trust_steps=trust_steps)

    def advise(
        self,
        *filters: str,
        goal: str = Goal.THROUGHPUT,
        usd_per_gpu_hour: float | None = None,
        **wanted: Wanted,
    ) -> Advice:
        """Recommend a strategy, GPU count, batch and precision, as `analysis advise` does.

        `goal` and `usd_per_gpu_hour` are the options of the command. Printed, the advice is the
        screen of the command; `headline` and `next_step` are two lines of it, and `choices` a frame
        of all that was tried, best first, with the columns of `trials` behind these:

        | column | dtype | |
        |---|---|---|
        | question | int64 | choices compete within one: the same work on the same machine |
        | standing | str | best, tie, unclear, raced out, worse |
        | is_taken | bool | the advice: the cheapest of those that tie |
        | score | float64 | by the goal, larger is better |
        | vs_best, vs_best_low, vs_best_high | float64 | share of the best score, and its CI |

        Raises StoreError where nothing was found, or the goal needs an input that is missing.
        """
        choice = self.choice.narrowed(filters, wanted)
        aim = Aim(
            goal=Goal(one_of("goal", goal, Goal)),
            usd_per_gpu_hour=usd_per_gpu_hour,
        )
        selection, newest = choice.of_advice()
        source = Source(selection=selection, command="")
        found = answers(source, aim, predicts=True, wanted=newest.has if newest else None)
        left = what_is_left(selection, newest)
        return advice_of(found, newest, source.notes, left)

    def chart(
        self,
        kind: str = "scaling",
        *filters: str,
        theme: str = Theme.LIGHT,
        width: int = 1200,
        **wanted: Wanted,
    ) -> Pictures:
        """Draw a chart, as `plots charts --chart KIND`; `plots charts --list` names the kinds.

        A notebook shows the pictures, and `save(folder)` writes them. `theme` is light or dark,
        `width` is in pixels. Raises StoreError for an unknown kind, and where nothing was found
        that it could show.
        """
        choice = self.choice.narrowed(filters, wanted)
        command = f"{choice.code}.chart({kind!r})"
        source = Source(selection=choice.source().selection, command=command)
        return drawn(source, kind, Theme(one_of("theme", theme, Theme)), width)

    def __repr__(self) -> str:
        return f"<{self._described()}>"

    def _described(self) -> str:
        try:
            found = self.choice.source()
            results = found.results
        except StoreError as error:
            return f"Results: {error}"
        able = sum(result.throughput is not None for result in results)
        models = {result.axes.get("model") for result in results}
        what = self.choice.words
        if self.choice.is_newest:
            what = f"newest sweep {found.selection.sweep}; where() chooses others"
        if others := self.choice.other_origins:
            named = " or ".join(f"origin={str(origin)!r}" for origin in others)
            what += f"; {named} has others"
        return (
            f"Results of {self.choice.shown_db}: {counted(len(results), 'trial')} of "
            f"{counted(len(models), 'model')}, {able:,} with a number "
            f"({found.selection.origin}, {what})"
        )

    def _frame(
        self,
        filters: Sequence[str],
        wanted: Mapping[str, Wanted],
        make: Callable[[Sequence[Result]], pd.DataFrame],
        dtypes: Mapping[str, str],
    ) -> pd.DataFrame:
        try:
            return make(self.choice.narrowed(filters, wanted).source().results)
        except NothingFoundError as error:
            return empty(dtypes, str(error))
