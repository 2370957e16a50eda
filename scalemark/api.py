"""The Python API, for notebooks and programs: results as frames."""

import inspect
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.results import BaselineRule, Result
from analysis.selection import NothingFoundError, Source, choose, newest
from scalemark.host.own_code import import_ours, typed
from scalemark.records.references import Origin
from scalemark.records.trial import AXES
from scalemark.text.untrusted import masked
from scalemark.text.wording import SortKey, as_typed, natural
from store.database import default_url, open_existing
from store.errors import NoSweepError, StoreError
from store.filters import escaped, nearest
from sweeper import SweepRefusedError

Value = str | int | float | bool
Wanted = Value | Iterable[Value] | None
"""A value, several of which one must hold, or text that begins with an operator, as `>=4`; None
stands for no filter.
"""

_OPERATOR = re.compile(r"\s*(>=|<=|!=|==|=|>|<|~)")


class NothingFoundWarning(UserWarning):
    """A frame is empty. The text says why; `frame.attrs["why"]` has it, too."""


@dataclass(frozen=True, slots=True)
class FrameColumn:
    """One column of a frame."""

    name: str
    dtype: str
    meaning: str = ""
    fill: str | Callable[[Any], object] = ""  # an attribute; empty: the one of this name

    def cell(self, source: object) -> object:
        """Return its value in the row that is made from `source`."""
        fill = self.fill or self.name
        value = attrgetter(fill)(source) if isinstance(fill, str) else fill(source)
        if isinstance(value, StrEnum):
            return str(value)
        return value


def _axis(name: str) -> Callable[[Result], object]:
    """Sources report some numbers in words, and most axes not at all."""
    wants_text = AXES[name].type is str

    def fill(result: Result) -> object:
        value = result.axes.get(name)
        if wants_text and value is not None:
            return str(value)
        if isinstance(value, bool | int | float):
            return value
        return None

    return fill


_FIRST = (
    FrameColumn("model", "str", fill=_axis("model")),
    FrameColumn("strategy", "str"),
    FrameColumn("num_gpus", "int64"),
    FrameColumn("hosts", "int64"),
    FrameColumn("batch_size", "Int64", "per GPU, and micro-batch", _axis("batch_size")),
    FrameColumn("precision", "str", fill=_axis("precision")),
    FrameColumn("throughput", "float64", "items/s of all replicas: geometric mean of the repeats"),
    FrameColumn("throughput_low", "float64", "95 % CI over repeats; within the only one", "low"),
    FrameColumn("throughput_high", "float64", fill="high"),
    FrameColumn(
        "num_repeats", "int64", "processes behind the number", lambda row: len(row.repeats)
    ),
    FrameColumn("num_failed", "int64", "repeats without a number", lambda row: len(row.failed)),
    FrameColumn("speed_up", "float64", "against the baseline"),
    FrameColumn("efficiency", "float64", "speed-up per GPU; 1.0 is ideal"),
    FrameColumn("outcome", "str", "completed, or how the newest attempt ended"),
    FrameColumn("is_valid", "bool", "no verdict says anything against it"),
    FrameColumn("item", "str", "what is counted: images, tokens; all other axes follow"),
)
_DTYPES = {bool: "boolean", int: "Int64", float: "float64", str: "str"}
_OTHER_AXES = tuple(
    FrameColumn(name, _DTYPES[axis.type], fill=_axis(name))
    for name, axis in AXES.items()
    if name not in ("model", "num_gpus", "hosts", "batch_size", "precision")
)
_LAST = (
    FrameColumn("mfu", "float64", "model FLOPs utilization, 0..1", "usage.mfu"),
    FrameColumn("memory_bytes", "Int64", "of the device that needs most", "usage.memory_bytes"),
    FrameColumn("variable_bytes", "Int64", fill="usage.variable_bytes"),
    FrameColumn("optimizer_state_bytes", "Int64", fill="usage.optimizer_state_bytes"),
    FrameColumn("origin", "str", "who made the number", "environment.origin"),
    FrameColumn("environment", "str", "key of machine and software", "environment.key"),
    FrameColumn("host", "str", fill="environment.host"),
    FrameColumn("machine", "str", "one line", "environment.machine"),
    FrameColumn("versions", "str", "one line", "environment.versions"),
    FrameColumn("device_kind", "str", "what num_gpus counts", "environment.device_kind"),
    FrameColumn("shares_host", "bool", "others ran beside it", "environment.shares_host"),
    FrameColumn("trial_id", "str"),
    FrameColumn("attempts", "object", "numbers of its attempts", "attempt_ids"),
    FrameColumn("repeats", "object", "throughput of each; free axes follow, as axes.zero"),
)
TRIALS = (*_FIRST, *_OTHER_AXES, *_LAST)


def open(  # noqa: A001  # as scalemark.open it shadows nothing
    path_or_url: str | Path | None = None, *filters: str, **wanted: Wanted
) -> "Results":
    """Open a results database: a file, a `sqlite:///` or a `postgresql://` URL; without one
    `SCALEMARK_DB`, else `results.db`. Filters choose of it, as `Results.where` says.

    Raises StoreError when there is no such database, or it cannot be read. Published figures
    (`origin="published"`) come with scalemark and need none.
    """
    results = Results(db=str(path_or_url or default_url())).where(*filters, **wanted)
    if results.origin is not Origin.PUBLISHED:
        engine = open_existing(results.db)
        if engine is None:
            raise NoSweepError(
                f"{masked(results.db)}: no database of scalemark; run a sweep first, as "
                "scalemark.sweep(...), or give scalemark.open another"
            )
        engine.dispose()
    return results


def sweep(*overrides: str) -> "Results":
    """Run the sweep that `overrides` ask for, as `python sweep.py -m` does, and return its results.

    `overrides` are those of the command line: `"model=resnet50,vgg16", "num_gpus=1,2,4,8"`. Each
    trial runs in a process of its own; progress is written to stderr. What finished earlier is not
    run again, and failed trials are results, too. Nothing is drawn.

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
    return Results(db=report.store_url, sweep=report.name)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Results:
    """A choice of the results of a database. Each call reads it anew, and changes nothing.

    It is about the newest sweep until filters choose others, which every method takes as `where`
    does. Frames are sorted, and have the same columns and dtypes whatever is in them. One without
    rows comes with a `NothingFoundWarning`, whose text stands in `frame.attrs["why"]`, too.
    """

    db: str  # file or URL
    filters: tuple[str, ...] = ()
    sweep: str | None = None
    origin: Origin | None = None  # None: that of the newest sweep that matches
    source: str | None = None  # of figures of others
    baseline: BaselineRule = BaselineRule.SAME

    def where(self, *filters: str, **wanted: Wanted) -> "Results":
        """Choose results, with the names and meanings of the command line.

        A keyword is an axis or another name that `list` filters by: `model="vgg16"`,
        `model=["vgg16", "alexnet"]`, `num_gpus=">=4"`, `host="~box*"`. Text filters are those of
        the commands: `"num_gpus>=4"`, `"axes.zero=2"`. All must hold.

        Four names are options: `sweep` (the trials that it asked for), `origin` (`"measured"`,
        `"simulated"`, `"published"`, `"elsewhere"`; without it that of the newest sweep that
        matches), `source` (of published figures) and `baseline` (`"same"`, `"best"` or
        `"fewest"`: what speed-ups are against).

        Raises StoreError for an option that is none; methods raise it for a filter that is none.
        """
        options: dict[str, Any] = {}
        texts = [*self.filters, *filters]
        for name, value in wanted.items():
            if value is None:
                continue
            # one sweep is an option; several, or a pattern of names, are a filter
            is_one = isinstance(value, str) and not _OPERATOR.match(value)
            if name == "origin":
                options[name] = Origin(_one_of(name, value, Origin))
            elif name == "baseline":
                options[name] = BaselineRule(_one_of(name, value, BaselineRule))
            elif name == "source" or (name == "sweep" and is_one):
                options[name] = str(value)
            else:
                texts.append(_filter(name, value))
        return replace(self, filters=tuple(texts), **options)

    def trials(self, *filters: str, **wanted: Wanted) -> pd.DataFrame:
        """Return one row per trial and environment (machine and software), failed ones, too; never
        averaged over an axis. Sorted by model, batch, precision, strategy, hosts and GPUs.
        """
        try:
            results = self.where(*filters, **wanted)._chosen().results
        except NothingFoundError as error:
            nothing = _frame(TRIALS, [])
            nothing.attrs["why"] = str(error)
            warnings.warn(str(error), NothingFoundWarning, stacklevel=2)
            return nothing
        rows = []
        for result in sorted(results, key=_order):
            cells = {column.name: column.cell(result) for column in TRIALS}
            rows.append(cells | result.free)
        # axes that only some results have, as those of a user's program
        free = dict.fromkeys(chain.from_iterable(result.free for result in results))
        return _frame((*TRIALS, *(FrameColumn(name, "object") for name in free)), rows)

    def __repr__(self) -> str:
        chosen = {"sweep": self.sweep, "origin": self.origin, "source": self.source}
        words = [f"{name}={value}" for name, value in chosen.items() if value]
        words += self.filters
        return f"<Results of {masked(self.db)}: {' '.join(words) or 'newest sweep'}>"

    def _chosen(self) -> Source:
        """Return what is chosen, with at least one result. Raises NothingFoundError, and StoreError
        where the database cannot be read or a filter is none.
        """
        if not (self.filters or self.sweep or self.origin or self.source):
            sweep = newest(self.db, self.baseline)
            if sweep is not None:
                return sweep.source
        options = (self.filters, self.sweep, self.origin, self.source, self.baseline)
        chosen = Source(selection=choose(self.db, *options))
        _ = chosen.results
        return chosen


def _one_of(name: str, wanted: Wanted, choices: type[StrEnum]) -> str:
    """Raise StoreError unless it is the text of a choice."""
    known = list(map(str, choices))
    if str(wanted) not in known:
        raise StoreError(f"{name}={str(wanted)[:100]!r}: {nearest(str(wanted)[:100], known)}")
    return str(wanted)


def _filter(name: str, wanted: Wanted) -> str:
    """Return it as it is typed on a command line."""
    if isinstance(wanted, str):
        if _OPERATOR.match(wanted):
            return f"{name}{wanted}"
        return f"{name}={wanted}"
    if isinstance(wanted, Iterable):
        values = [escaped(as_typed(value)) for value in wanted]
        return f"{name}={','.join(values)}"
    return f"{name}={as_typed(wanted)}"


def _frame(columns: Sequence[FrameColumn], rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the rows with these columns; what a row lacks is missing (NaN or NA)."""
    cells = {}
    for column in columns:
        values = [row.get(column.name) for row in rows]
        cells[column.name] = pd.Series(values, dtype=column.dtype)
    return pd.DataFrame(cells)


_COLUMNS = ["", "", "| column | dtype | |", "|---|---|---|"]
for _column in TRIALS:
    _COLUMNS.append(f"| {_column.name} | {_column.dtype} | {_column.meaning} |")
Results.trials.__doc__ = inspect.cleandoc(Results.trials.__doc__ or "") + "\n".join(_COLUMNS)


def _order(result: Result) -> tuple[SortKey, ...]:
    """Sort by model, then batch and precision, then as strategies scale, then by all axes."""
    first = ("model", "batch_size", "precision", "strategy", "hosts", "num_gpus")
    names = dict.fromkeys([*first, *AXES, *result.free])
    texts = [str(result.axes.get(name, "")) for name in names]
    return tuple(map(natural, [*texts, result.environment.key]))
