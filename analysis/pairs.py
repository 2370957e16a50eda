"""Pairs whole trials of two sides that are equal but for what is compared, and judges each pair.

Nothing is averaged over another axis.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from operator import itemgetter

from analysis.again import command, repeated
from analysis.judgement import Decision, Judgement, judge, more_repeats
from analysis.labels import FOLLOWERS
from analysis.measured import differing
from analysis.results import AXES, GlobalBatch, Result, axes_of, global_batch
from analysis.selection import NothingFoundError, Selection, load
from scalemark.host.software import CODE, COMMIT
from scalemark.records.axes import INHERITED, PREFIX, WHEN, bare_name, is_env_variable, is_free
from scalemark.records.references import Origin
from scalemark.records.trial import STRATEGY_AXES
from scalemark.text.wording import as_typed, natural
from store.database import open_for_reading, reading
from store.errors import StoreError
from store.filters import looks_like_filter, parsed
from store.reading import listing, references
from store.reading.listing import full_names, newest_first, origin_note
from store.reading.queries import losses_apart

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


_USUAL = ("model", "num_gpus")
_SPEAKING = ("strategy", "model", "precision", "data")  # axes whose values need no name beside them
# of another size, or other examples: losses of as many steps differ then
_OF_WORK = frozenset(
    (
        *("model", "num_gpus", "batch_size", "gradient_accumulation"),
        *("image_px", "seq_len", "data", "seed"),
    )
)
_MOST_TRIED = 200  # of each side, to find the closest

_Pairs = Sequence[tuple[Result, Result]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRow:
    """One trial of A, the one of B that it is compared with, and the answer."""

    a: Result
    b: Result
    # what both have alike: their model and GPU count, and what other pairs have not
    setting: Mapping[str, object]
    compared: tuple[str, ...]  # axes in which they differ
    notes: tuple[str, ...]  # on machine and software, where they differ
    name_a: str  # what makes A what it is, as `ps_cpu`
    name_b: str
    judgement: Judgement | None  # None where a side has no number
    # of each side, that would show the difference seen; None where that is known, or takes too many
    more_repeats: int | None
    to_run: tuple[str, ...]  # commands that would bring them
    parity: str  # how the loss of the faster one differs; empty where it does not, or is not known

    @property
    def is_turned(self) -> bool:
        """Return whether its sentence names B first, because B is the faster one."""
        judgement = self.judgement
        if judgement is None or judgement.answer is not Decision.DIFFERENT:
            return False
        return judgement.ratio.ratio < 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All that two sides have in common, and what they have not."""

    rows: tuple[PairRow, ...]
    only_a: tuple[Result, ...]
    only_b: tuple[Result, ...]
    by: str = ""  # the one axis in which two sweeps differ


def comparison(a: ComparedSide, b: ComparedSide) -> Comparison:
    """Pair trials of one machine and software, unless the sides name these.

    Axes that follow from what is compared (`FOLLOWERS`) may differ where nothing else is equal.
    Raises StoreError when nothing is left.
    """
    free = _with_strategies(a.axes | b.axes, [*a.results, *b.results])
    if a.is_by_name and b.is_by_name:
        free = frozenset(axes_of([*a.results, *b.results]))
    anywhere = a.names_an_environment or b.names_an_environment
    pairs = _match(a.results, b.results, free, anywhere=anywhere)
    by = ""
    if not pairs and a.names == b.names == {"sweep"}:
        by, free = _only_difference(a.results, b.results)
        pairs = _match(a.results, b.results, free, anywhere=anywhere)
    followers: set[str] = set()
    for axis in free:
        followers.update(FOLLOWERS.get(axis, ()))
    if not followers <= free:
        loose = _match(*_unpaired(a, b, pairs), free | followers, anywhere=anywhere)
        if loose:
            free, pairs = free | followers, [*pairs, *loose]
    different = []
    for of_a, of_b in pairs:
        is_same = not set(of_a.attempt_ids).isdisjoint(of_b.attempt_ids)
        if not of_a.environment.origin.is_ours:  # attempts of tables are unknown
            is_same = of_a.trial_id == of_b.trial_id
        if not is_same:
            different.append((of_a, of_b))
    if not different:
        if pairs:
            raise StoreError(
                f"{a.text} and {b.text}: the same attempts on both sides; name what differs, as "
                "strategy=ps_cpu and strategy=ps_gpu"
            )
        raise StoreError(_why_none(a, b, free))
    only_a, only_b = _unpaired(a, b, pairs)
    rows = _rows(different, _fixed(a.results, b.results, free), a, b)
    return Comparison(rows=tuple(rows), only_a=only_a, only_b=only_b, by=by)


def _only_difference(of_a: Sequence[Result], of_b: Sequence[Result]) -> tuple[str, frozenset[str]]:
    """Return the one axis that has one value on each side, and another on the other side, and it
    with those that follow from it; none where there are several.
    """
    differing_axes = set()
    for axis in axes_of([*of_a, *of_b]):
        values_a = {result.axes.get(axis) for result in of_a}
        values_b = {result.axes.get(axis) for result in of_b}
        if len(values_a) == len(values_b) == 1 and values_a != values_b:
            differing_axes.add(axis)
    leading = set(differing_axes)
    for axis in differing_axes:
        leading.difference_update(FOLLOWERS.get(axis, ()))
    if "strategy" in leading:
        leading.difference_update(STRATEGY_AXES)
    if len(leading) != 1:
        return "", frozenset()
    return leading.pop(), frozenset(differing_axes)


def _fixed(of_a: Sequence[Result], of_b: Sequence[Result], free: Collection[str]) -> list[str]:
    """Return the axes that pairs must have alike, but for the item (`_counts_alike`)."""
    return [axis for axis in axes_of([*of_a, *of_b]) if axis not in free and axis != "item"]


def _with_strategies(free: frozenset[str], results: Sequence[Result]) -> frozenset[str]:
    """Return the free axes with what goes with them: a strategy may be the name of free axes."""
    parts: set[str] = set()
    for result in results:
        if result.is_named_by_free_axes:
            parts.update(result.strategy_axes)
    if "strategy" in free:
        return free | parts
    if free & parts:
        return free | {"strategy"}
    return free


def _match(
    of_a: Sequence[Result], of_b: Sequence[Result], free: frozenset[str], *, anywhere: bool
) -> list[tuple[Result, Result]]:
    pairs = []
    for result, partners in _alike(of_a, of_b, free):
        beside = [other for other in partners if other.environment.key == result.environment.key]
        if beside or not anywhere:
            partners = beside
        # where the sides name environments, their trials need not share one
        pairs += [(result, other) for other in partners if _counts_alike(result, other)]
    return pairs


def _alike(
    of_a: Sequence[Result], of_b: Sequence[Result], free: frozenset[str]
) -> Iterator[tuple[Result, list[Result]]]:
    """Yield each result of A with those of B that equal it but for the free axes."""
    fixed = _fixed(of_a, of_b, free)
    by_key: dict[tuple[object, ...], list[Result]] = defaultdict(list)
    for result in of_b:
        by_key[tuple(_fixed_axes(result, fixed, free).values())].append(result)
    for result in of_a:
        yield result, by_key.get(tuple(_fixed_axes(result, fixed, free).values()), [])


def _fixed_axes(result: Result, fixed: Sequence[str], free: Collection[str]) -> dict[str, object]:
    """Trials of other GPU counts share the batch of all GPUs under strong scaling."""
    axes = {axis: result.axes.get(axis) for axis in fixed}
    if result.axes.get("scaling") == "strong" and "num_gpus" in free and "batch_size" in axes:
        axes["batch_size"] = global_batch(result)
    return axes


def _counts_alike(of_a: Result, of_b: Result) -> bool:
    """Return whether their numbers are of one item; a result without a number has none."""
    return of_a.throughput is None or of_b.throughput is None or of_a.item == of_b.item


def _rows(
    pairs: _Pairs, fixed: Sequence[str], a: ComparedSide, b: ComparedSide
) -> Iterator[PairRow]:
    models = {of_a.axes["model"] for of_a, _ in pairs}
    shown = []
    for axis in fixed:
        # a model's name implies what is its own
        values = {(of_a.axes["model"], of_a.axes.get(axis)) for of_a, _ in pairs}
        if axis not in STRATEGY_AXES and (axis in _USUAL or len(values) > len(models)):
            shown.append(axis)
    keyed, places = [], {}
    for of_a, of_b in pairs:
        # also by the free axes of which a strategy is the name
        own = natural(of_a.strategy) if of_a.is_named_by_free_axes else ()
        keyed.append(((str(of_a.axes["model"]), of_a.num_gpus, own), (of_a, of_b)))
    ordered = [pair for _, pair in sorted(keyed, key=itemgetter(0))]
    for of_a, _ in ordered:
        places[of_a.environment.key] = of_a.environment
    # each is named by what not all have alike, as `program commit 3f2a1c`
    facts = []
    for place in places.values():
        own_facts = {"host": place.host, "shares_host": str(place.shares_host)}
        facts.append({**own_facts, "devices": place.devices, **place.software})
    environments = dict(zip(places, differing(facts), strict=True))
    for of_a, of_b in ordered:
        # a table that was imported need not say them
        setting = {
            axis: of_a.axes[axis] for axis in shown if of_a.axes.get(axis) not in (None, "?")
        }
        if len(environments) > 1:
            setting["environment"] = environments[of_a.environment.key]
        compared = _differing_axes(of_a.axes, of_b.axes, axes_of([of_a, of_b]))
        name_a, name_b = _names(of_a, of_b, compared, a, b)
        judgement, more, to_run = _judged(of_a, of_b)
        yield PairRow(
            a=of_a,
            b=of_b,
            setting=setting,
            compared=tuple(compared),
            notes=tuple(_environments(of_a, of_b)),
            name_a=name_a,
            name_b=name_b,
            judgement=judgement,
            more_repeats=more,
            to_run=tuple(to_run),
            parity=_parity(a.selection.db, of_a, of_b, compared, judgement),
        )


def _parity(
    db: str, a: Result, b: Result, compared: Sequence[str], judgement: Judgement | None
) -> str:
    """Say that the faster one trains otherwise, where both do the same work in a step."""
    is_known = a.environment.origin.is_ours and b.environment.origin.is_ours
    if judgement is None or not is_known or _OF_WORK.intersection(compared):
        return ""
    faster, slower = a, b
    if judgement.ratio.ratio < 1:
        faster, slower = b, a
    text = losses_apart(open_for_reading(db), faster.attempt_ids, slower.attempt_ids)
    if text and "read" in compared:
        text += "; A and B are read in different ways: check that it is the same loss"
    return text


def _judged(of_a: Result, of_b: Result) -> tuple[Judgement | None, int | None, list[str]]:
    """Return the judgement, how many more repeats would tell, and the commands that run them."""
    if of_a.throughput is None or of_b.throughput is None:
        return None, None, []
    judgement = judge(of_a.repeats, of_b.repeats)
    are_ours = of_a.environment.origin.is_ours and of_b.environment.origin.is_ours
    if judgement.answer is Decision.DIFFERENT or not are_ours:
        return judgement, None, []
    is_single = min(judgement.ratio.num_a, judgement.ratio.num_b) == 1
    more = 2 if is_single else None
    if not is_single and not judgement.contradictions:  # which more repeats would not mend
        more = more_repeats(of_a.repeats, of_b.repeats)
    to_run = []
    # a command runs both on this machine, with the packages that are here now: they are of one
    # environment, or of one but for the code of a program
    a, b = of_a.environment, of_b.environment
    apart = set(_differing_axes(a.software, b.software, {**a.software, **b.software}))
    is_alike = (a.machine, a.shares_host) == (b.machine, b.shares_host)
    is_by_code = is_alike and CODE in apart and apart <= {CODE, COMMIT}
    if more and (a.key == b.key or is_by_code):
        for result in (of_a, of_b):
            wanted = repeated(len(result.repeats) + more)
            to_run.append(command(result.spec, [result], *wanted))
    return judgement, more, to_run


def _names(
    of_a: Result, of_b: Result, compared: Sequence[str], a: ComparedSide, b: ComparedSide
) -> tuple[str, str]:
    """Name both by the axes in which they differ; a strategy stands for its three axes."""
    shown = list(compared)
    if of_a.is_named_by_free_axes or of_b.is_named_by_free_axes:
        shown = [axis for axis in shown if axis != "strategy"]
    elif "strategy" in shown:
        shown = [axis for axis in shown if axis not in STRATEGY_AXES]
    if shown:
        return _name(of_a, shown), _name(of_b, shown)
    software = differing([of_a.environment.software, of_b.environment.software])
    names = []
    for side, versions in zip((a, b), software, strict=True):
        names.append(f"{side.text} ({versions})" if versions else side.text)
    return names[0], names[1]


def _name(result: Result, axes: Sequence[str]) -> str:
    names = []
    for axis in axes:
        value, name = result.axes.get(axis), bare_name(axis)
        if value is None and is_env_variable(axis):
            names.append(f"{name} {INHERITED}")
        elif axis in _SPEAKING and value:
            names.append(str(value))
        elif value is not None or not result.environment.origin.is_ours:
            names.append(f"{name}={as_typed(value)}")
    return " ".join(names)


def _differing_axes(
    a: Mapping[str, object], b: Mapping[str, object], axes: Iterable[str]
) -> list[str]:
    return [axis for axis in axes if a.get(axis) != b.get(axis)]


def _environments(of_a: Result, of_b: Result) -> Iterator[str]:
    a, b = of_a.environment, of_b.environment
    if a.key == b.key:
        return
    if a.machine != b.machine:
        yield f"different machines: {a.machine} against {b.machine}; repeat each on its own"
    own_a, own_b = differing([a.software, b.software])
    if not own_a:
        own_a, own_b = a.versions, b.versions
    if own_a != own_b:
        yield f"different software: {own_a} against {own_b}; repeat each with its own"
    if a.shares_host != b.shares_host:
        shared, other = "AB" if a.shares_host else "BA"
        yield f"{shared} shared its host with other trials, {other} did not"
    elif (a.machine, own_a) == (b.machine, own_b):
        yield "the machine or its software is not quite the same"


def _unpaired(
    a: ComparedSide, b: ComparedSide, pairs: _Pairs
) -> tuple[tuple[Result, ...], tuple[Result, ...]]:
    """Return the results of both sides that are in no pair."""
    left = []
    for place, side in enumerate((a, b)):
        taken = {(pair[place].trial_id, pair[place].environment.key) for pair in pairs}
        rest = [each for each in side.results if (each.trial_id, each.environment.key) not in taken]
        left.append(tuple(rest))
    return left[0], left[1]


def _why_none(a: ComparedSide, b: ComparedSide, free: frozenset[str]) -> str:
    pairs = []
    for of_a, partners in _alike(a.results, b.results, free):
        for of_b in partners:
            pairs.append((of_a, of_b))
    for of_a, of_b in pairs:
        if _counts_alike(of_a, of_b):
            how = "with host=, software_key=, sweep= or shares_host= on both sides"
            hosts = of_a.environment.host, of_b.environment.host
            if hosts[0] != hosts[1]:
                how = f"as 'host={hosts[0]} {a.text}' and 'host={hosts[1]} {b.text}'"
            why = "; ".join(_environments(of_a, of_b))
            return f"{why}: name the two {how}, to compare them nonetheless"
    if pairs:
        of_a, of_b = pairs[0]
        return (
            f"{a.text} is measured in {of_a.unit} and {b.text} in {of_b.unit}, which are never "
            "compared: choose trials that count the same"
        )
    fixed = _fixed(a.results, b.results, free)
    ours = [_fixed_axes(result, fixed, free) for result in a.results]
    theirs = [_fixed_axes(result, fixed, free) for result in b.results]
    # the two settings that have the most in common, and the axes in which they differ
    candidates = []
    for here, there in product(ours[:_MOST_TRIED], theirs[:_MOST_TRIED]):
        candidates.append((_differing_axes(here, there, there), here, there))
    axes, here, there = min(candidates, key=lambda each: ("model" in each[0], len(each[0])))
    remedy = "run more"
    # a trial's own batch is of one GPU
    if axes and not isinstance(here[axes[0]], GlobalBatch):
        own_a, own_b = f"{axes[0]}={here[axes[0]]}", f"{axes[0]}={there[axes[0]]}"
        remedy = f"name it on both sides, as '{a.text} {own_a}' '{b.text} {own_b}', or run the rest"
    differences = [f"{axis} (A {here[axis]}, B {there[axis]})" for axis in axes]
    return (
        f"{a.text} and {b.text} have no setting in common; the closest differ in "
        f"{', '.join(differences)}: {remedy}"
    )
