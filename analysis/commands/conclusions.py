"""`conclusions`: published claims checked against results, each by rules in a table."""

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files

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
from store.command_line import Db, Filters, Json, OriginOption, Sweep
from store.errors import StoreError
from store.filters import parsed

_STRATEGY = ("strategy", *STRATEGY_AXES)


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
class Pair:
    """Two results that differ in one axis, and the ratio of their throughputs."""

    says: str  # the statement that they are checked against
    first: Result
    second: Result
    low: float | None  # 95 % CI of the ratio over processes; None where it is not known
    high: float | None
    holds: bool | None  # whether the statement does; None: a tie, or single runs


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
    wanted: str  # the `Relation` of the first to `share` of the second
    share: str  # a number
    tie_holds: str  # `yes`, or nothing

    def pairs(self, results: Iterable[Result]) -> list[Pair]:
        """Return the pairs that speak for the statement, against it, or decide nothing."""
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
        pairs = []
        for group in alike(chosen, *free):
            first, second = self._fastest(group, self.first), self._fastest(group, self.second)
            if first is not None and second is not None:
                low, high = known_ratio_interval(first.repeats, second.repeats)
                holds = None  # of single runs, and of a tie that decides nothing
                if low is not None and high is not None:
                    relation = relation_by(low / float(self.share), high / float(self.share))
                    holds = relation == self.wanted
                    if relation is Relation.TIE:
                        holds = bool(self.tie_holds) or None
                pair = Pair(
                    says=self.says, first=first, second=second, low=low, high=high, holds=holds
                )
                pairs.append(pair)
        return pairs

    def _fastest(self, group: Sequence[Result], pattern: str) -> Result | None:
        """Return the fastest of one kind."""
        of_kind = []
        for result in group:
            if re.fullmatch(pattern, str(result.axes.get(self.by))):
                of_kind.append(result)
        return max(of_kind, key=lambda result: result.throughput or 0.0, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """A claim checked against results."""

    claim: PublishedClaim
    verdict: ClaimVerdict
    pairs: list[Pair]  # those of all its statements


def judged(results: Iterable[Result]) -> list[Conclusion]:
    """Judge every claim, in order. They are about GPUs: CPU devices supply no results."""
    on_gpus = []
    for result in results:
        if result.environment.device_kind is not DeviceKind.CPU_DEVICE:
            on_gpus.append(result)
    statements: dict[str, list[Statement]] = defaultdict(list)
    for row in _rows("statements.csv"):
        statements[row["claim"]].append(Statement(**row))
    answers = []
    for row in _rows("conclusions.csv"):
        pairs: list[Pair] = []
        are_all_for = True
        for statement in statements[row["id"]]:
            of_statement = statement.pairs(on_gpus)
            are_all_for &= any(pair.holds for pair in of_statement)
            pairs += of_statement
        verdict = _verdict({pair.holds for pair in pairs}, are_all_for=are_all_for)
        answers.append(Conclusion(claim=PublishedClaim(**row), verdict=verdict, pairs=pairs))
    return answers


def _verdict(said: set[bool | None], *, are_all_for: bool) -> ClaimVerdict:
    """Return what pairs say of a claim; `are_all_for`: each of its statements has one for it."""
    if not said:
        return ClaimVerdict.NO_RESULTS
    if said == {None}:
        return ClaimVerdict.CANNOT_BE_TOLD
    if True not in said:
        return ClaimVerdict.DOES_NOT_HOLD
    if False in said or not are_all_for:
        return ClaimVerdict.IN_PART
    return ClaimVerdict.HOLDS


def _rows(name: str) -> "csv.DictReader[str]":
    text = files("store").joinpath("published", name).read_text(encoding="utf-8")
    return csv.DictReader(text.splitlines())


def counting(results: Iterable[Result], filters: Sequence[str]) -> tuple[list[Result], list[str]]:
    """Return the results that count, with notes on those that do not: own programs, and trials
    with injected faults unless a filter asks for them.
    """
    are_asked_for = any(wanted.name == "injected" for wanted in parsed(filters))
    chosen, faulty = [], []
    kinds: dict[DeviceKind, None] = {}
    num_of_programs = num_suspect = 0
    for result in results:
        injected = read_injected(str(result.axes.get("injected") or ""))
        if result.is_of_program:
            num_of_programs += 1
        elif injected.keys() - set(NOISE) and not are_asked_for:
            faulty.append(result)
        else:
            chosen.append(result)
            num_suspect += result.is_suspect
            kinds[result.environment.device_kind] = None
    notes = [kind.note for kind in kinds if kind.note and kind is not DeviceKind.CPU_DEVICE]
    if DeviceKind.CPU_DEVICE in kinds:
        notes.append("The claims are about GPUs: results of CPU devices do not count.")
    if num_of_programs:
        trials = counted(num_of_programs, "trial")
        notes.append(f"Left out: {trials} of your own programs, which no claim is about.")
    if faulty:
        example = faulty[0].axes["injected"]
        trials = f"{counted(len(faulty), 'trial')} with injected faults (as {example})"
        notes.append(f"Left out: {trials}; the filter 'injected~{example}' takes them in.")
    if num_suspect:
        trials = f"{num_suspect} of {counted(len(chosen), 'trial')}"
        notes.append(f"{trials} suspect: {typed('show')} says why.")
    return chosen, notes


def alike(results: Iterable[Result], *free: str) -> list[list[Result]]:
    """Return groups of two or more results of one environment that differ in free axes alone."""
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


_COLUMNS = ("claim", "", "verdict", "pairs")
_VERBS = {
    ClaimVerdict.HOLDS: ("holds", "hold"),
    ClaimVerdict.IN_PART: ("holds in part", "hold in part"),
    ClaimVerdict.DOES_NOT_HOLD: ("does not hold", "do not hold"),
    ClaimVerdict.CANNOT_BE_TOLD: ("cannot be told", "cannot be told"),
    ClaimVerdict.NO_RESULTS: ("has no results", "have no results"),
}


def conclusions(
    db: Db,
    filters: Filters = None,
    sweep: Sweep = None,
    origin: OriginOption = None,
    as_json: Json = False,
) -> None:
    """Say which published conclusions hold for the results; --json has the pairs behind each."""
    read = selection.Source(selection=options.select(db, filters, sweep, origin))
    if not read.selection.origin.is_ours:
        raise StoreError(
            f"--origin {read.selection.origin}: the claims are about trials, of which a source "
            "says too little; wanted measured or simulated"
        )
    results, notes = counting(read.results, filters or ())
    notes += titles.sweep_notes(results)
    answers = judged(results) if results else []
    if as_json:
        return print_json({"claims": answers, "notes": notes})
    console = make_console()
    if answers:
        verdicts = Counter(answer.verdict for answer in answers)
        parts = []
        for verdict, (of_one, of_several) in _VERBS.items():
            if num := verdicts[verdict]:
                parts.append(f"{num} {of_one if num == 1 else of_several}")
        claims = counted(len(answers), "published claim")
        screen.say(console, f"Of {claims} {listed(parts)}.", "bold")
    for note in notes:
        screen.say(console, note)
    if not answers:
        return None
    console.print()
    rows = []
    for answer in answers:
        counts, shown = Counter(pair.holds for pair in answer.pairs), ""
        if counts:
            shown = f"{counts[True]}/{counts[False]}/{counts[None]}"
        rows.append((answer.claim.id, answer.claim.short, answer.verdict, shown))
    print_columns(console, _COLUMNS, rows, piped_width=reading_width(console))
    screen.say(console, "Pairs: of results that speak for the claim / against it / for neither.")
    screen.say(console, "--json has each pair, and the command that would supply more", "dim")
    return None
