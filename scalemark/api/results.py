"""`scalemark.open()` and `scalemark.sweep()`: results as frames, advice and pictures."""

from __future__ import annotations

import sys
import threading
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
from rich.console import Console

from analysis.advise.advise_words import screen
from analysis.advise.answer import recommend
from analysis.advise.questions import Goal, Objective
from analysis.compare.sides import sides
from analysis.options import show, what_is_left
from analysis.results import Result
from analysis.selection import NothingFoundError
from plots.drawing import Resolution, draw
from plots.options import PictureFormat, Theme, draft_of
from plots.source import PlotSource
from scalemark.api import frames
from scalemark.api.choice import Choice, Wanted, one_of
from scalemark.cli.terminal import PIPE_WIDTH
from scalemark.host.own_code import import_ours, typed
from scalemark.records.references import Origin
from scalemark.text.wording import counted
from store.database import default_url, open_existing, open_for_reading
from store.errors import NoSweepError, StoreError
from store.reading.sweeps import every_sweep
from sweeper.errors import SweepRefusedError


def open(  # noqa: A001  # as scalemark.open it shadows nothing
    path_or_url: str | Path | None = None, *filters: str, **wanted: Wanted
) -> Results:
    """Open a results database: a file, a `sqlite:///` or a `postgresql://` URL; without one
    `SCALEMARK_DB`, else `results.db`. Filters choose of it, as `Results.where` says.

    Raises StoreError when there is no such database, or it cannot be read. Published figures
    (`origin="published"`) come with scalemark and need none.
    """
    results = Results(Choice(db=str(path_or_url or default_url()))).where(*filters, **wanted)
    choice = results.choice
    if choice.origin is not Origin.PUBLISHED:
        engine = open_existing(choice.db)
        if engine is None:
            raise NoSweepError(
                f"{choice.shown_db}: no database of scalemark; run a sweep first, as "
                "scalemark.sweep(...), or give scalemark.open another"
            )
        engine.dispose()
    return results


def sweep(*overrides: str) -> Results:
    """Run the sweep that `overrides` ask for, as `python sweep.py -m` does, and return its results.

    `overrides` are those of the command line: `"model=resnet50,vgg16", "num_gpus=1,2,4,8"`. Each
    trial runs in a process of its own; progress is written to stderr. What finished earlier is not
    run again, and failed trials are results, too. Nothing is drawn; `Results.chart` does that.

    Raises SweepRefusedError or StoreError where the command would refuse to start, and for a plan
    alone (`sweep.dry_run=true`), which is printed and has no results; StoreError when
    the database is lost on the way, and KeyboardInterrupt after an interrupt, when what was running
    has ended; the same call then goes on.
    """
    if threading.current_thread() is not threading.main_thread():
        raise SweepRefusedError(
            "scalemark.sweep: it runs in the main thread alone, where an interrupt reaches it; "
            f"another thread can start `{typed('sweep')}`"
        )
    program = import_ours("sweep")
    before, sys.argv = sys.argv, ["sweep.py"]  # Hydra reads it, and the database keeps it
    try:
        report = program.run(list(overrides))
    finally:
        sys.argv = before
    if report is None:
        raise SweepRefusedError(
            f"{' '.join(overrides)}: a plan and help are printed, and have no results; leave "
            "sweep.dry_run and flags out"
        )
    program.tell(report)
    if report.ran.failure:
        raise StoreError(report.ran.failure)
    if report.ran.was_interrupted:
        raise KeyboardInterrupt
    return Results(Choice(db=report.store_url, sweep=report.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What to take, how sure that is, and what to run next. Printed, it is the screen of
    `analysis advise`.
    """

    headline: str  # the answer, in a sentence for each question
    next_step: str  # commands of trials that could change it, a line each; empty without one
    choices: pd.DataFrame  # see `Results.advise`
    text: str = field(repr=False)  # what the command prints

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Pictures:
    """The pictures of one chart; a notebook shows them."""

    files: Mapping[str, bytes]  # PNG, by the name that the command gives the file

    def save(self, folder: str | Path = "figures") -> list[Path]:
        """Write the files into a folder, and return their paths. Raises OSError."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        paths = [Path(folder) / name for name in self.files]
        for path in paths:
            with draft_of(path) as draft:
                draft.write_bytes(self.files[path.name])
        return paths

    def __repr__(self) -> str:
        return f"{counted(len(self.files), 'picture')}: {', '.join(self.files)}"

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """Return what Jupyter shows: one picture as it is, several below each other."""
        encoded = {name: b64encode(data).decode() for name, data in self.files.items()}
        if len(encoded) == 1:
            return {"text/plain": repr(self), "image/png": next(iter(encoded.values()))}
        shown = [
            f'<img alt="{escape(name)}" src="data:image/png;base64,{data}">'
            for name, data in encoded.items()
        ]
        return {"text/plain": repr(self), "text/html": "\n".join(shown)}


@dataclass(frozen=True, slots=True, repr=False)
class Results:
    """A choice of the results of a database. Each call reads it anew, and changes nothing.

    It is about the newest sweep until filters choose others, which every method takes as `where`
    does. Frames are sorted, and have the same columns and dtypes whatever is in them. One without
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

    @frames.lists(frames.SWEEPS)
    def sweeps(self) -> pd.DataFrame:
        """Return one row per sweep of the database, newest first, whatever is chosen."""
        listed = every_sweep(open_for_reading(self.choice.db))
        if not listed:
            why = f"{self.choice.shown_db}: no sweep in it yet; run one first"
            return frames.empty(frames.SWEEPS, why)
        return frames.sweeps_frame(listed)

    @frames.lists(frames.TRIALS)
    def trials(self, *filters: str, **wanted: Wanted) -> pd.DataFrame:
        """Return one row per trial and environment (machine and software), failed ones, too; never
        averaged over an axis. Sorted by model, batch, precision, strategy, hosts and GPUs.
        """
        return self._frame(filters, wanted, frames.trials_frame, frames.TRIALS)

    @frames.lists((*frames.SCALING, frames.STOP))
    def scaling(self, *filters: str, **wanted: Wanted) -> pd.DataFrame:
        """Return one row per number of GPUs on a strategy's curve, as `analysis scaling` has them;
        what failed is not on it. Sorted and with the columns of `trials`, and behind `item`:
        """
        return self._frame(filters, wanted, frames.scaling_frame, frames.SCALING_ROW)

    @frames.lists(frames.COMPARISON)
    def compare(self, a: str, b: str, *filters: str, **wanted: Wanted) -> pd.DataFrame:
        """Compare two sides, each a filter, a trial, an attempt or a sweep, as `analysis compare`:
        one row per pair of trials that are equal but for what is compared, which begins with the
        axes that tell the pairs apart. Where nothing is chosen, the sides choose of all.

        Raises StoreError for an empty side, and where no pair is left, with the reason.
        """
        choice = self.choice.narrowed(filters, wanted)
        both = sides(choice.db, a, b, choice.filters, choice.sweep, choice.origin)
        return frames.comparison_frame(*both)

    @frames.lists(frames.CHOICES)
    def advise(
        self,
        *filters: str,
        goal: str = Goal.THROUGHPUT,
        usd_per_gpu_hour: float | None = None,
        **wanted: Wanted,
    ) -> Advice:
        """Recommend a strategy, GPU count, batch and precision, as `analysis advise` does.

        `goal` and `usd_per_gpu_hour` are options of the command. Printed, the advice is the screen
        of the command; `headline` and `next_step` are two lines of it, and `choices` a frame of all
        that was tried, best first, with the columns below before those of `trials`.

        Raises StoreError where there is nothing, or the goal needs an input that is missing.
        """
        choice = self.choice.narrowed(filters, wanted)
        wanted_goal = Goal(one_of("goal", goal, Goal))
        objective = Objective(goal=wanted_goal, usd_per_gpu_hour=usd_per_gpu_hour)
        selection, newest = choice.for_advice()
        source = PlotSource(selection=selection, command="")
        given = recommend(source, objective, wanted=newest.has if newest else None)
        shown = screen(given, what_is_left(selection, newest))
        paper = StringIO()
        console = Console(
            file=paper,
            width=PIPE_WIDTH,
            highlight=False,
            force_terminal=False,
            force_jupyter=False,
        )
        show(console, shown, newest, source.notes, brief=False)
        return Advice(
            headline=" ".join(shown.headlines),
            next_step="\n".join(shown.next_step.commands) if shown.next_step else "",
            choices=frames.choices_frame(given),
            text=paper.getvalue().rstrip(),
        )

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
        `width` is in pixels. Raises StoreError for an unknown kind, and where there is nothing
        that it could show.
        """
        choice = self.choice.narrowed(filters, wanted)
        command = f"{choice.code}.chart({kind!r})"
        source = PlotSource(selection=choice.source().selection, command=command)
        themes = [Theme(one_of("theme", theme, Theme))]
        size = Resolution(width_px=width)
        reasons: list[str] = []

        def pass_over(name: str, why: str) -> None:
            reasons.append(f"{name}: {why}")

        with TemporaryDirectory() as folder:
            png = [PictureFormat.PNG]
            paths = draw(source, Path(folder), [kind], png, themes, pass_over, resolution=size)
            files = {path.name: path.read_bytes() for path in paths}
        if not files:
            raise StoreError("; ".join(reasons))
        return Pictures(files=files)

    def __repr__(self) -> str:
        return f"<{self._described()}>"

    def _described(self) -> str:
        try:
            source = self.choice.source()
        except StoreError as error:
            return f"Results: {error}"
        selection, results = source.selection, source.results
        able = sum(result.throughput is not None for result in results)
        models = {result.axes.get("model") for result in results}
        options = [f"{name}={value}" for name, value in self.choice.options.items()]
        what = " ".join([*options, *self.choice.filters])
        if self.choice.is_newest:
            what = f"newest sweep {selection.sweep}; where() chooses others"
        if others := self.choice.other_origins():
            named = " or ".join(f"origin={str(origin)!r}" for origin in others)
            what += f"; {named} has others"
        return (
            f"Results of {self.choice.shown_db}: {counted(len(results), 'trial')} of "
            f"{counted(len(models), 'model')}, {able:,} with a number ({selection.origin}, {what})"
        )

    def _frame(
        self,
        filters: Sequence[str],
        wanted: Mapping[str, Wanted],
        make: Callable[[Sequence[Result]], pd.DataFrame],
        columns: Sequence[frames.FrameColumn],
    ) -> pd.DataFrame:
        try:
            return make(self.choice.narrowed(filters, wanted).source().results)
        except NothingFoundError as error:
            return frames.empty(columns, str(error))
