"""Which strategy leads on how many GPUs, and from how many on another one does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from analysis.pivot import Cell, Rank, Table
from scalemark.records.outcomes import Outcome

_LEVEL = 1.005  # times


@dataclass(frozen=True, slots=True, kw_only=True)
class Lead:
    """The fastest strategy on one GPU count."""

    num_gpus: int
    best: Cell
    # that the repeats cannot tell from it, or that is no whole half percent behind it
    tied: tuple[str, ...]
    unknown: tuple[str, ...]  # slower, but a process alone cannot tell whether it would be again
    out: tuple[str, ...]  # put out of a race, which does not tell whether they are slower
    ahead: float | None  # times the next; None where it is the only one with a number
    others: tuple[Cell, ...]  # the rest, failures included

    @property
    def strategy(self) -> str:
        return self.best.result.strategy

    @property
    def top(self) -> tuple[str, ...]:
        """All that may be the fastest."""
        return (self.strategy, *self.tied)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossover:
    """Another strategy leads from here on."""

    num_gpus: int
    # the most GPUs on which it does; None: no larger number that was tried takes the lead from it
    until: int | None = None
    before: str  # empty where several led together
    after: str
    doubt: str = ""  # why nobody knows; empty where it is certain

    @property
    def is_certain(self) -> bool:
        return not self.doubt

    def span(self, counted: Callable[[int], str]) -> str:
        """As `from 4 GPUs on`, or as `on 4 GPUs` where it soon leads no more."""
        if self.until is None:
            return f"from {counted(self.num_gpus)} on"
        return (
            f"on {counted(self.until)}"
            if self.until == self.num_gpus
            else f"from {self.num_gpus} to {counted(self.until)}"
        )


def leads(table: Table) -> list[Lead]:
    """By GPU count; of a table of strategies against `num_gpus`. Counts on which nothing completed
    are left out.

    Replicas that train apart lead nobody, unless the table is of them alone.
    """
    found = []
    by_gpus: dict[int, list[Cell]] = defaultdict(list)
    together = [cell for cell in table.cells.values() if not cell.result.trains_apart]
    for cell in sorted(
        together or table.cells.values(), key=lambda one: (one.result.num_gpus, one.result.strategy)
    ):
        by_gpus[cell.result.num_gpus].append(cell)
    for cells in by_gpus.values():
        able = sorted(filter(_is_able, cells), key=_order, reverse=True)
        if able:
            best, *slower = able
            found.append(
                Lead(
                    num_gpus=best.result.num_gpus,
                    best=best,
                    tied=tuple(
                        cell.result.strategy
                        for cell in slower
                        if cell.rank is Rank.TIE or _is_level(best, cell)
                    ),
                    unknown=tuple(
                        cell.result.strategy for cell in slower if cell.rank is Rank.UNKNOWN
                    ),
                    out=tuple(cell.result.strategy for cell in slower if cell.rank is Rank.OUT),
                    ahead=_throughput(best) / _throughput(slower[0]) if slower else None,
                    others=tuple(cell for cell in cells if cell is not best),
                )
            )
    return found


def crossovers(found: Sequence[Lead]) -> list[Crossover]:
    """Changes of the lead. Who is as fast as the newly fastest has not lost it yet, and who is tied
    has not got it yet.
    """
    changes: list[Crossover] = []
    leading: tuple[str, ...] = ()  # one that leads, or several that led together at the last
    for position, lead in enumerate(found):
        if lead.tied:
            leading = leading if len(leading) == 1 and leading[0] in lead.top else lead.top
            continue
        if leading and leading != (lead.strategy,):
            changes.append(
                Crossover(
                    num_gpus=lead.num_gpus,
                    until=_until(found[position:]),
                    before=leading[0] if len(leading) == 1 else "",
                    after=lead.strategy,
                    doubt=_doubt(lead, leading),
                )
            )
        leading = (lead.strategy,)
    return changes


def _until(found: Sequence[Lead]) -> int | None:
    """The most GPUs on which the leader of the first leads without a break; None where it loses the
    lead on none.
    """
    last = first = found[0]
    for lead in found:
        if first.strategy not in lead.top:
            return last.num_gpus
        if not lead.tied:
            last = lead
    return None


_NO_LOSS = {
    Outcome.INTERRUPTED: "was interrupted there",
    Outcome.INVALID: "has no number there that may be quoted",
}
"""How one may end without having been too slow, or unable."""


def _doubt(lead: Lead, former: Iterable[str]) -> str:
    """Whether the former leaders have lost on this count."""
    return next(
        (doubt for name in former if name != lead.strategy and (doubt := _doubt_of(lead, name))), ""
    )


def _doubt_of(lead: Lead, former: str) -> str:
    """Out of memory is a loss, too."""
    if former in lead.unknown:
        return "a process alone cannot tell"
    if former in lead.out:
        return f"{former} was put out of a race there, and its few repeats cannot tell"
    there = next((cell.result for cell in lead.others if cell.result.strategy == former), None)
    if there is None:
        return f"{former} was not run there"
    ended = _NO_LOSS.get(Outcome(there.outcome))
    return f"{former} {ended}" if ended else ""


def _is_level(best: Cell, cell: Cell) -> bool:
    """Slower for sure, and by what nobody would tell as a percentage."""
    return cell.rank is Rank.SLOWER and _throughput(best) < _LEVEL * _throughput(cell)


def _order(cell: Cell) -> tuple[float, bool]:
    """Of equals the one that the ranks of the others are about."""
    return _throughput(cell), cell.rank is Rank.BEST


def _is_able(cell: Cell) -> bool:
    return cell.result.throughput is not None


def _throughput(cell: Cell) -> float:
    return cell.result.throughput or 0.0
