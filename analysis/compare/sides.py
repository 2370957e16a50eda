"""The two sides of a comparison, and the figures of a source that are of the same trials."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from analysis.guard.histories import version_axes
from analysis.published import of_source, precision_as_published, usual_size
from analysis.results import AXES, Result
from analysis.selection import NothingFoundError, Selection, choose, load, load_every_night
from scalemark.records.axes import PREFIX, WHEN, is_free
from scalemark.records.machine import DeviceKind
from scalemark.records.references import Origin
from scalemark.records.trial import STRATEGY_AXES, unusual_axes
from store.database import open_existing, open_for_reading
from store.errors import StoreError
from store.filters import looks_like_filter, parsed
from store.reading import listing, references
from store.reading.listing import full_names, newest_first, origin_note

OPEN = ("", "n/a", "?")  # what a source leaves open


_MAY_BE_OPEN = (*STRATEGY_AXES, "optimizer", "image_px", "seq_len")


def matched(results: Sequence[Result], figures: Sequence[Result]) -> list[tuple[Result, Result]]:
    """Pair our results with the figure of the same trial in each environment of a source; of
    several the most complete one.
    """
    by_size: dict[tuple[object, ...], list[tuple[Result, dict[str, Any]]]] = defaultdict(list)
    for figure in figures:
        if figure.throughput:
            work = work_of(figure)
            by_size[work["model"], work["batch_size"], figure.num_gpus].append((figure, work))
    pairs = []
    for result in results:
        if result.throughput is None:
            continue
        ours = work_of(result)
        best: dict[str, Result] = {}
        for figure, theirs in by_size[ours["model"], ours["batch_size"], result.num_gpus]:
            if _is_other_work(ours, theirs) or not figure.free.items() <= result.free.items():
                continue
            known = best.setdefault(figure.environment.key, figure)
            if len(_open_axes(figure)) < len(_open_axes(known)):
                best[figure.environment.key] = figure
        pairs += [(result, figure) for figure in best.values()]
    return pairs


def _is_other_work(ours: dict[str, Any], theirs: dict[str, Any]) -> bool:
    """Return whether what the source reports, or means, is not ours."""
    for name, value in theirs.items():
        is_open = value in OPEN and name in _MAY_BE_OPEN
        if not is_open and value != ours[name]:
            return True
    return False


def work_of(result: Result) -> dict[str, Any]:
    """Return what must be the same on both sides, as far as a source reports or means it."""
    axes, is_ours = result.axes, result.environment.origin.is_ours
    model, hosts = _sure(axes["model"]), result.hosts
    data = str(axes["data"] or "synthetic")  # unknown of a program
    sizes = {name: axes.get(name) for name in ("image_px", "seq_len")}
    if not is_ours:
        for name, size in sizes.items():
            sizes[name] = size or usual_size(model, name)
    is_real = data != "synthetic" if is_ours else data.startswith("real")
    work = {
        "item": result.item,
        "model": model,
        "batch_size": axes["batch_size"],
        "gradient_accumulation": axes.get("gradient_accumulation") or 1,
        "num_gpus": result.num_gpus,
        # what is not reported is not compared with one host
        "hosts": "not reported" if hosts == 1 and not result.is_on_one_host else hosts,
        "precision": precision_as_published(axes),
        "data": "real" if is_real else "synthetic",
    }
    for name, size in sizes.items():
        work[name] = "" if size is None else size
    for name in (*STRATEGY_AXES, "optimizer"):
        work[name] = _sure(axes.get(name, ""))
    return work


def _sure(value: Any) -> Any:
    if isinstance(value, str):
        return value.removesuffix("?")
    return value


def _open_axes(figure: Result) -> set[str]:
    """Return axes that the source does not report, or leaves in doubt."""
    axes = set()
    for axis, value in figure.axes.items():
        text = str(value or "")
        if axis != "strategy" and (text in OPEN or text.endswith("?")):
            axes.add(axis)
    return axes


def notes(pairs: Sequence[tuple[Result, Result]]) -> Iterator[str]:
    """Yield what a reader of the ratios must know."""
    results, figures = [result for result, _ in pairs], [figure for _, figure in pairs]
    kinds = {result.environment.device_kind for result in results}
    if DeviceKind.SIMULATED_GPU in kinds:
        yield "SIMULATED AGAINST PUBLISHED: these ratios say how near the cost model comes"
    elif DeviceKind.CPU_DEVICE in kinds:
        yield "CPU DEVICES AGAINST GPUs: these ratios say nothing of strategies"
    left_open = {axis for figure in figures for axis in _open_axes(figure)}
    if left_open:
        ordered = [axis for axis in results[0].axes if axis in left_open]
        yield f"the source leaves open or in doubt: {', '.join(ordered)}"
    reported = {axis for figure in figures for axis in (*figure.free, *figure.axes)}
    reported |= {"xla", "precision", "hosts"}
    values: dict[str, set[str]] = defaultdict(set)
    for result in results:
        for axis in ("image_px", "optimizer", *unusual_axes(result.axes)):
            if axis not in reported and result.axes[axis] is not None:
                values[axis].add(str(result.axes[axis]))
    if values:
        untold = [f"{axis} {' or '.join(sorted(of))}" for axis, of in values.items()]
        yield f"the source does not say what is here {', '.join(untold)}"
    datas = sorted({str(result.axes["data"]) for result in results} - {"synthetic", "None"})
    if datas:
        yield f"real data: here {', '.join(datas)}, there as the source had it"


_WHEN = f"{PREFIX}{WHEN}"
_STRATEGY = frozenset({"strategy", *STRATEGY_AXES})
_NEXT_FILTER = re.compile(r"\s+(?=[\w.]+\s*(?:>=|<=|!=|==|=|>|<|~))")


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSide:
    """The results on one side."""

    text: str  # as the user wrote it
    selection: Selection
    results: tuple[Result, ...]  # at least one
    names: frozenset[str] = frozenset()  # what its own filters ask for
    versions: frozenset[str] = frozenset()  # axes that only say what a night's software was
    note: str = ""  # how to compare numbers of another origin that both sides have

    @property
    def axes(self) -> frozenset[str]:
        """Return the axes that the side names, and so wants compared."""
        named = {name for name in self.names if name in AXES or is_free(name)} | self.versions
        return frozenset(named | _STRATEGY if named & _STRATEGY else named)

    @property
    def is_by_name(self) -> bool:
        """Return whether it is one trial or attempt: whatever its axes are, they are meant."""
        return not self.names.isdisjoint(("trial", "attempt"))

    @property
    def names_an_environment(self) -> bool:
        """Return whether it names a sweep, machine, time or software, which may differ then."""
        ours = {name for name in self.names if not is_free(name)}
        return _WHEN in self.names or not ours <= {*AXES, *STRATEGY_AXES}

    @property
    def is_published(self) -> bool:
        return self.selection.origin is Origin.PUBLISHED


def sides(
    db: str, a: str, b: str, common: Sequence[str], sweep: str | None, origin: Origin | None
) -> tuple[ComparedSide, ComparedSide]:
    """Return both sides, each with at least one result.

    Raises StoreError for an empty side, and for measured numbers against simulated ones.
    """
    if a == b:
        raise StoreError(
            f"{a} on both sides: nothing to compare; name what differs, as strategy=ps_cpu and "
            "strategy=ps_gpu"
        )
    if origin is Origin.PUBLISHED:
        raise StoreError(
            "--origin published: published figures have no repeats to compare by; name their "
            "source as a side, as tf-benchmarks-2017"
        )
    if _is_source(db, b):
        chosen = choose(db, [*_filters(db, a), *common], sweep, origin)
        published = Selection(db=db, origin=Origin.PUBLISHED, source=b)
        return _side(a, chosen, note=chosen.origin_note), _side(b, published)
    if origin is None and sweep is None and references.is_all(open_for_reading(db)):
        origin = Origin.ELSEWHERE
    if origin is Origin.ELSEWHERE:
        return _elsewhere(db, a, b, common, sweep)
    return _ours(db, (a, b), common, sweep, origin)


def _side(
    text: str, selection: Selection, names: Sequence[str] = (), note: str = ""
) -> ComparedSide:
    """Raise NothingFoundError where it has no results."""
    results = tuple(load(selection))
    return ComparedSide(
        text=text, selection=selection, results=results, names=frozenset(names), note=note
    )


def _ours(
    db: str, texts: tuple[str, str], common: Sequence[str], sweep: str | None, origin: Origin | None
) -> tuple[ComparedSide, ComparedSide]:
    """Return sides of the first origin that both have, that of the newest sweep first."""
    filters = [_filters(db, text) for text in texts]
    if sorted(filters[0]) == sorted(filters[1]):
        raise StoreError(f"{texts[0]} and {texts[1]} are the same filters; name what differs")
    newest: dict[Origin, str] = {}  # the origins that both sides have, with A's newest sweep
    tried = [origin] if origin else [Origin.MEASURED, Origin.SIMULATED]
    if origin is None:
        engine = open_for_reading(db)
        both_newest = []
        for own in filters:
            names = full_names(engine, [*own, *common])
            both_newest.append(newest_first(engine, names, sweep=sweep))
        of_a, of_b = both_newest
        newest = {Origin(known): name for known, name in of_a.items() if known in of_b}
        tried = list(dict.fromkeys([*newest, *tried]))
    errors: list[tuple[str, NothingFoundError]] = []
    for chosen in tried:
        both: list[ComparedSide] = []
        for label, text, own in zip("AB", texts, filters, strict=True):
            selection = Selection(db=db, sweep=sweep, filters=(*own, *common), origin=chosen)
            try:
                both.append(_side(text, selection, [wanted.name for wanted in parsed(own)]))
            except NothingFoundError as error:
                errors.append((label, error))
        if len(both) == 2:
            others = [known for known in newest if known is not chosen]
            note = origin_note(chosen, newest.get(chosen, ""), others)
            return replace(both[0], note=note), both[1]
    for label in "AB":
        of_side = [error for failed, error in errors if failed == label]
        if len(of_side) == len(tried):
            raise StoreError(f"{label}: {of_side[-1]}")
    label, why = errors[0]  # of the side without measured numbers; the other has these alone
    raise StoreError(
        f"{label}: {why}; both sides must be measured, or both simulated: numbers of "
        "a cost model are never compared with measurements"
    )


def _elsewhere(
    db: str, a: str, b: str, common: Sequence[str], sweep: str | None
) -> tuple[ComparedSide, ComparedSide]:
    """Return two sides of tables that were imported; filters alone name them."""
    both = []
    for label, text in (("A", a), ("B", b)):
        own = _NEXT_FILTER.split(text.strip())
        selection = Selection(db=db, sweep=sweep, filters=(*own, *common), origin=Origin.ELSEWHERE)
        full = [references.full_name(condition) for condition in own]
        names = [condition.name for condition in references.parsed(full)]
        try:
            both.append(_side(text, selection, names))
        except NothingFoundError as error:
            raise StoreError(f"{label}: {error}") from None
    if all(_WHEN in side.names for side in both):
        every = load_every_night(Selection(db=db, origin=Origin.ELSEWHERE))
        both = [replace(side, versions=version_axes(every)) for side in both]
    return both[0], both[1]


def _is_source(db: str, text: str) -> bool:
    """Return whether it names a source of published figures, as `tf-benchmarks-2017/k80`."""
    if looks_like_filter(text):
        return False
    with suppress(StoreError):
        listing.find(open_for_reading(db), text)
        return False
    with suppress(StoreError):
        return bool(of_source(references.known_references(open_existing(db)), text))
    return False


def _filters(db: str, text: str) -> list[str]:
    if looks_like_filter(text):
        return full_names(open_for_reading(db), _NEXT_FILTER.split(text.strip()))
    target = listing.find(open_for_reading(db), text)
    if target.column == "sweep_id":
        return [f"sweep={text}"]
    return [f"{target.column.removesuffix('_id')}={target.id}"]
