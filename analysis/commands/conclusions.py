"""`conclusions`: published claims held against results, each by rules in a table."""

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any

from analysis import options, screen, selection, titles
from analysis.labels import axes_of
from analysis.results import Result, by_item
from scalemark.cli.terminal import make_console, print_columns, print_json, reading_width
from scalemark.host.own_code import typed
from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import NOISE, read_injected
from scalemark.records.trial import STRATEGY_AXES
from scalemark.stats.welch import Relation, known_ratio_interval, relation_by
from scalemark.text.wording import counted, listed
from store.command_line import Db, Json
from store.errors import StoreError
from store.filters import parsed

_STRATEGY = ("strategy", *STRATEGY_AXES)
# what may make two results of a pair differ, in the order in which it is named
_NAMED = (
    *("model", "strategy", "num_gpus", "hosts", "batch_size", "precision", "data"),
    *("staged_vars", "gradient_repacking"),
)


class ClaimVerdict(StrEnum):
    """Whether a claim holds for the results."""

    HOLDS = "holds"
    IN_PART = "in part"  # some of it; for the rest results say otherwise, or are missing
    DOES_NOT_HOLD = "does not hold"
    CANNOT_BE_TOLD = "cannot be told"  # ties, or single runs
    NO_RESULTS = "no results"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedClaim:
    """A row of `store/published/conclusions.csv`."""

    id: str
    short: str  # in a few words
    claim: str  # in full
    source: str
    citation: str
    supply: str  # the command that would supply results


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A row of `store/published/statements.csv`: of results that differ in one axis alone, the
    fastest of one kind reaches more (or less) than a share of the fastest of another.
    """

    claim: str  # its id
    says: str
    by: str  # the axis that tells the kinds apart
    # patterns of its values
    first: str
    second: str
    # patterns of a machine's name, of numbers of GPUs and of models
    machine: str
    gpus: str
    models: str
    wanted: Relation  # of the first to `share` of the second
    share: float
    tie_holds: bool

    def pairs(self, results: Iterable[Result]) -> "Iterator[Contrast]":
        """Yield the pairs that speak for the statement, against it, or decide nothing."""
        chosen = []
        for result in results:
            is_about = (
                re.search(self.machine, result.environment.machine, re.IGNORECASE)
                and re.fullmatch(self.gpus, str(result.num_gpus))
                and re.fullmatch(self.models, str(result.axes["model"]))
            )
            if is_about and result.throughput and not result.trains_apart:
                chosen.append(result)
        free = _STRATEGY if self.by == "strategy" else (self.by,)
        for group in alike(chosen, *free):
            first, second = self._best(group, self.first), self._best(group, self.second)
            if first is not None and second is not None:
                low, high = known_ratio_interval(first.repeats, second.repeats)
                contrast = Contrast(first=first, second=second, low=low, high=high)
                yield replace(contrast, holds=self._holds(contrast))

    def _best(self, group: Sequence[Result], pattern: str) -> Result | None:
        """Return the fastest of one kind."""
        of_kind = []
        for result in group:
            if re.fullmatch(pattern, str(result.axes.get(self.by))):
                of_kind.append(result)
        return max(of_kind, key=lambda result: result.throughput or 0.0, default=None)

    def _holds(self, contrast: "Contrast") -> bool | None:
        """Return None for a tie that decides nothing, and for single runs."""
        relation = contrast.relation(self.share)
        if relation is Relation.UNKNOWN:
            return None
        if relation is Relation.TIE:
            return True if self.tie_holds else None
        return relation is self.wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """Two results, and the ratio of their throughputs."""

    first: Result
    second: Result
    low: float | None  # 95 % CI of the ratio over processes; None where it is not known
    high: float | None
    holds: bool | None = None  # of a statement; None: a tie, or single runs

    def relation(self, share: float = 1.0) -> Relation:
        """Compare the first with a share of the second."""
        if self.low is None or self.high is None:
            return Relation.UNKNOWN
        return relation_by(self.low / share, self.high / share)

    def names(self) -> tuple[str, str, str]:
        """Return what both results have, as `vgg16 on 8`, and what each has alone."""
        shared, own_first, own_second = [], [], []
        for axis in _NAMED:
            value, other = self.first.axes.get(axis), self.second.axes.get(axis)
            if value != other:
                own_first.append(_named(axis, value))
                own_second.append(_named(axis, other))
            elif axis in ("model", "strategy", "num_gpus", "batch_size"):
                shared.append(_named(axis, value))
        return " ".join(shared), ", ".join(own_first), ", ".join(own_second)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedStatement:
    """One of the statements that a claim makes, with the pairs of results behind the verdict."""

    says: str
    verdict: ClaimVerdict
    num_for: int
    num_against: int
    num_open: int  # ties and single runs
    pairs: tuple[Contrast, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """A claim held against results."""

    claim: PublishedClaim
    verdict: ClaimVerdict
    statements: tuple[JudgedStatement, ...]


def judged(results: Iterable[Result]) -> list[Conclusion]:
    """Judge every claim, in order. They are about GPUs: CPU devices supply no results."""
    on_gpus = []
    for result in results:
        if result.environment.device_kind is not DeviceKind.CPU_DEVICE:
            on_gpus.append(result)
    judged = defaultdict(list)
    for statement in statements():
        judged[statement.claim].append(_judged(statement, on_gpus))
    answers = []
    for claim in claims():
        of_claim = judged[claim.id]
        verdict = verdict_of([statement.verdict for statement in of_claim])
        answers.append(Conclusion(claim=claim, verdict=verdict, statements=tuple(of_claim)))
    return answers


@cache
def claims() -> tuple[PublishedClaim, ...]:
    """Return all, in their order."""
    return tuple(PublishedClaim(**row) for row in _rows("conclusions.csv"))


@cache
def statements() -> tuple[Statement, ...]:
    """Return the statements of all claims, in their order."""
    made = []
    for row in _rows("statements.csv"):
        values: dict[str, Any] = dict(row)
        values["wanted"] = Relation(row["wanted"])
        values["share"] = float(row["share"])
        values["tie_holds"] = bool(row["tie_holds"])
        made.append(Statement(**values))
    return tuple(made)


def _rows(name: str) -> "csv.DictReader[str]":
    text = files("store").joinpath("published", name).read_text(encoding="utf-8")
    return csv.DictReader(text.splitlines())


def _judged(statement: Statement, results: Sequence[Result]) -> JudgedStatement:
    pairs = tuple(statement.pairs(results))
    counts = Counter(pair.holds for pair in pairs)
    if not pairs:
        verdict = ClaimVerdict.NO_RESULTS
    elif counts[True] and counts[False]:
        verdict = ClaimVerdict.IN_PART
    elif counts[True]:
        verdict = ClaimVerdict.HOLDS
    elif counts[False]:
        verdict = ClaimVerdict.DOES_NOT_HOLD
    else:
        verdict = ClaimVerdict.CANNOT_BE_TOLD
    return JudgedStatement(
        says=statement.says,
        verdict=verdict,
        num_for=counts[True],
        num_against=counts[False],
        num_open=counts[None],
        pairs=pairs,
    )


def verdict_of(verdicts: Sequence[ClaimVerdict]) -> ClaimVerdict:
    """Return the verdict on a claim from those on its statements."""
    different = set(verdicts)
    if len(different) == 1:
        return different.pop()
    undecided = {ClaimVerdict.CANNOT_BE_TOLD, ClaimVerdict.NO_RESULTS}
    if different <= undecided:
        return ClaimVerdict.CANNOT_BE_TOLD
    if different <= {ClaimVerdict.DOES_NOT_HOLD, *undecided}:
        return ClaimVerdict.DOES_NOT_HOLD
    return ClaimVerdict.IN_PART


def counting(
    results: Iterable[Result], filters: Sequence[str]
) -> tuple[list[Result], tuple[str, ...]]:
    """Return the results that count, with notes on those that do not: own programs, and trials
    with injected faults unless a filter asks for them.
    """
    are_asked_for = any(wanted.name == "injected" for wanted in parsed(filters))
    chosen, faulty = [], []
    num_of_programs = 0
    for result in results:
        injected = read_injected(str(result.axes.get("injected") or ""))
        if result.is_of_program:
            num_of_programs += 1
        elif injected.keys() - set(NOISE) and not are_asked_for:
            faulty.append(result)
        else:
            chosen.append(result)
    notes = []
    if num_of_programs:
        trials = counted(num_of_programs, "trial")
        notes.append(f"Left out: {trials} of your own programs, which no claim is about.")
    if faulty:
        example = faulty[0].axes["injected"]
        trials = f"{counted(len(faulty), 'trial')} with injected faults (as {example})"
        notes.append(f"Left out: {trials}; the filter 'injected~{example}' takes them in.")
    num_suspect = sum(result.is_suspect for result in chosen)
    if num_suspect:
        trials = f"{num_suspect} of {counted(len(chosen), 'trial')}"
        notes.append(f"{trials} suspect: {typed('show')} says why.")
    return chosen, tuple(notes)


def alike(results: Iterable[Result], *free: str) -> list[list[Result]]:
    """Return groups of two or more results of one environment that differ in the free axes
    alone.
    """
    groups: dict[tuple[object, ...], list[Result]] = defaultdict(list)
    for result in results:
        fixed = tuple(result.axes.get(axis) for axis in axes_of([result]) if axis not in free)
        groups[result.environment.key, *fixed].append(result)
    parts = []
    for group in groups.values():
        for part in by_item(group):
            if len(part) > 1:
                parts.append(part)
    return parts


def _named(axis: str, value: object) -> str:
    if axis in ("model", "strategy", "precision"):
        return str(value)
    words = {"num_gpus": f"on {value}", "data": f"{value} data", "batch_size": f"batch {value}"}
    return words.get(axis, f"{axis} {value}")


_COLUMNS = ("claim", "", "verdict", "pairs")
_VERBS = {
    ClaimVerdict.HOLDS: "hold",
    ClaimVerdict.IN_PART: "hold in part",
    ClaimVerdict.DOES_NOT_HOLD: "do not hold",
}
_OPEN = {ClaimVerdict.CANNOT_BE_TOLD, ClaimVerdict.NO_RESULTS}
_DOUBT = {Relation.TIE: ", a tie", Relation.UNKNOWN: ", single runs"}
_SAYS = {False: "against", None: "open", True: "for"}  # in this order
_MOST_PAIRS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusions:
    """The answer: each claim, and notes on the results."""

    claims: tuple[Conclusion, ...]
    notes: tuple[str, ...]


def conclusions(
    db: Db,
    filters: options.Filters = None,
    sweep: options.Sweep = None,
    origin: options.OriginOption = None,
    shows_all: options.All = False,
    as_json: Json = False,
) -> None:
    """Say which published conclusions hold for the results; --all has the numbers behind each."""
    read = selection.Source(selection=options.select(db, filters, sweep, origin))
    if not read.selection.origin.is_ours:
        raise StoreError(
            f"--origin {read.selection.origin}: the claims are about trials, of which a source "
            "says too little; wanted measured or simulated"
        )
    results, notes = counting(read.results, filters or ())
    notes = (*_kinds(results), *notes, *titles.sweep_notes(results))
    answer = Conclusions(claims=tuple(judged(results)) if results else (), notes=notes)
    if as_json:
        return print_json(answer)
    console = make_console()
    if answer.claims:
        screen.say(console, _headline(answer.claims), "bold")
    for note in notes:
        screen.say(console, note)
    if not answer.claims:
        return None
    console.print()
    if shows_all:
        for conclusion in answer.claims:
            for line in _lines(conclusion):
                screen.say(console, line)
            if _OPEN & {conclusion.verdict, *(each.verdict for each in conclusion.statements)}:
                screen.say(console, "  To supply results:")
                screen.say_command(console, conclusion.claim.supply, "      ")
            console.print()
        return None
    rows = map(_row, answer.claims)
    print_columns(console, _COLUMNS, rows, piped_width=reading_width(console))
    screen.say(console, "Pairs: of results that speak for the claim / against it / for neither.")
    screen.say(console, "--all has the numbers, and what would supply more", "dim")
    return None


def _kinds(results: Iterable[Result]) -> list[str]:
    """Say once what CPU devices and simulated GPUs are to a claim."""
    notes: dict[str, None] = {}
    for result in results:
        kind = result.environment.device_kind
        note = kind.note
        if kind is DeviceKind.CPU_DEVICE:
            note = "The claims are about GPUs: results of CPU devices do not count."
        if note:
            notes[note] = None
    return list(notes)


def _headline(answers: Sequence[Conclusion]) -> str:
    counts = Counter(answer.verdict for answer in answers)
    parts = []
    for verdict, verb in _VERBS.items():
        if counts[verdict]:
            parts.append(f"{counts[verdict]} {verb}")
    num_open = sum(counts[verdict] for verdict in _OPEN)
    if num_open:
        parts.append(f"{num_open} cannot be told from these results")
    return f"Of {counted(len(answers), 'published claim')} {listed(parts)}."


def _row(answer: Conclusion) -> tuple[str, str, str, str]:
    sums = [0, 0, 0]
    for statement in answer.statements:
        sums[0] += statement.num_for
        sums[1] += statement.num_against
        sums[2] += statement.num_open
    pairs = "/".join(map(str, sums)) if any(sums) else ""
    return answer.claim.id, answer.claim.short, str(answer.verdict), pairs


def _lines(answer: Conclusion) -> list[str]:
    """Say what a claim says, and what the pairs say to each of its statements."""
    claim = answer.claim
    lines = [f"{claim.id} {answer.verdict} ({claim.source})", f"  {claim.claim}."]
    for statement in answer.statements:
        counts = "no results"
        if statement.pairs:
            counts = f"{statement.num_for} for, {statement.num_against} against, "
            counts += f"{statement.num_open} open"
        lines.append(f"  - {statement.says}: {counts}")
        against_first = sorted(statement.pairs, key=lambda pair: list(_SAYS).index(pair.holds))
        for pair in against_first[:_MOST_PAIRS]:
            lines.append(f"      {_pair(pair)}")
        if len(against_first) > _MOST_PAIRS:
            lines.append(f"      and {len(against_first) - _MOST_PAIRS} more (--json)")
    return lines


def _pair(pair: Contrast) -> str:
    first_speed = titles.number(pair.first.throughput or 0)
    second_speed = titles.number(pair.second.throughput or 0)
    doubt = _DOUBT.get(pair.relation(), "") if pair.holds is None else ""
    shared, first, second = pair.names()
    return (
        f"{_SAYS[pair.holds]}: {shared}: {first} {first_speed}, {second} {second_speed} "
        f"{pair.first.unit}{doubt}; {pair.first.environment.host}"
    )
