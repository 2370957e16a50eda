"""The two sides of a comparison."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from analysis.results import AXES, Result
from analysis.selection import NothingFoundError, Selection, load
from scalemark.records.axes import PREFIX, WHEN, is_free
from scalemark.records.references import Origin
from scalemark.records.trial import STRATEGY_AXES
from store.database import open_for_reading, reading
from store.errors import StoreError
from store.filters import looks_like_filter, parsed
from store.reading import listing, references
from store.reading.listing import full_names, newest_first, origin_note

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
    note: str = ""  # how to compare numbers of another origin that both sides have

    @property
    def axes(self) -> frozenset[str]:
        """Return the axes that the side names, and so wants compared."""
        named = {name for name in self.names if name in AXES or is_free(name)}
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
            "--origin published: published figures have no repeats to compare by; "
            "--origin elsewhere has those of imported tables"
        )
    if origin is None and sweep is None:
        with reading(open_for_reading(db)) as connection:
            if references.is_all(connection):
                origin = Origin.ELSEWHERE
    if origin is Origin.ELSEWHERE:
        return _elsewhere(db, a, b, common, sweep)
    return _ours(db, (a, b), common, sweep, origin)


def _side(text: str, selection: Selection, names: Sequence[str]) -> ComparedSide:
    """Raise NothingFoundError where it has no results."""
    try:
        results = load(selection)
    except NothingFoundError:
        # a sweep whose trials others had measured before
        own = selection.filters[0]
        if list(names) != ["sweep"] or not own.startswith("sweep=") or selection.sweep:
            raise
        asked = replace(selection, sweep=own.removeprefix("sweep="), filters=selection.filters[1:])
        results = load(asked)
    return ComparedSide(
        text=text, selection=selection, results=tuple(results), names=frozenset(names)
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
    with reading(open_for_reading(db)) as connection:
        common = full_names(connection, common)
        both_newest = []
        for own in filters:
            both_newest.append(newest_first(connection, [*own, *common], sweep=sweep))
    if origin is None:
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
    return both[0], both[1]


def _filters(db: str, text: str) -> list[str]:
    if looks_like_filter(text):
        with reading(open_for_reading(db)) as connection:
            return full_names(connection, _NEXT_FILTER.split(text.strip()))
    target = listing.find(open_for_reading(db), text)
    if target.column == "sweep_id":
        return [f"sweep={text}"]
    return [f"{target.column.removesuffix('_id')}={target.id}"]
