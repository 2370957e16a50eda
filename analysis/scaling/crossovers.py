"""Finds which strategy leads on how many GPUs, and from how many on another one does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from analysis.results import Result
from analysis.tables.table import Cell, RowRank, Table
from scalemark.records.outcomes import Outcome

_LEVEL = 1.005  # times: nobody would quote less of a difference as a percentage
# how one may end without having been too slow, or unable; out of memory is a loss, too
_NO_LOSS = {
    Outcome.INTERRUPTED: "was interrupted there",
    Outcome.INVALID: "has no number there that may be quoted",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lead:
    """The fastest strategy on one GPU count."""

    num_gpus: int
    best: Cell
    # that the repeats cannot tell from it, or that is no whole half percent behind it
    tied: tuple[str, ...]
    unknown: tuple[str, ...]  # slower, but a single run is not conclusive
    out: tuple[str, ...]  # put out of a race, which leaves open whether they are slower
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
        """Return `from 4 GPUs on`, or `on 4 GPUs` where it soon leads no more."""
        if self.until is None:
            return f"from {counted(self.num_gpus)} on"
        if self.until == self.num_gpus:
            return f"on {counted(self.until)}"
        return f"from {self.num_gpus} to {counted(self.until)}"

    def text(self, counted: Callable[[int], str]) -> str:
        """Say who leads from where, in place of whom, and how sure that is."""
        in_place = f", in place of {self.before}" if self.before else ""
        text = f"{self.after} leads {self.span(counted)}{in_place}"
        return f"{text}." if self.is_certain else f"Perhaps {text}: {self.doubt}."


def leads(table: Table) -> list[Lead]:
    """Return the leads of a table of strategies against `num_gpus`, by GPU count.

    Counts on which nothing completed are left out. Replicas that train apart lead nobody, unless
    the table is of them alone.
    """
    cells = list(table.cells.values())
    together = [cell for cell in cells if not cell.result.trains_apart]
    by_gpus: dict[int, list[Cell]] = defaultdict(list)
    for cell in sorted(together or cells, key=lambda one: one.result.strategy):
        by_gpus[cell.result.num_gpus].append(cell)
    found = (_lead(num_gpus, of) for num_gpus, of in sorted(by_gpus.items()))
    return [lead for lead in found if lead is not None]


def _lead(num_gpus: int, cells: Sequence[Cell]) -> Lead | None:
    able = [cell for cell in cells if cell.result.throughput is not None]
    if not able:
        return None
    # of equals the one that the ranks of the others are about comes first
    able.sort(key=lambda cell: (_throughput(cell), cell.rank is RowRank.BEST), reverse=True)
    best, *slower = able
    names: dict[RowRank, list[str]] = defaultdict(list)
    for cell in slower:
        is_level = cell.rank is RowRank.SLOWER and _throughput(best) < _LEVEL * _throughput(cell)
        names[RowRank.TIE if is_level else cell.rank].append(cell.result.strategy)
    return Lead(
        num_gpus=num_gpus,
        best=best,
        tied=tuple(names[RowRank.TIE]),
        unknown=tuple(names[RowRank.UNKNOWN]),
        out=tuple(names[RowRank.OUT]),
        ahead=_throughput(best) / _throughput(slower[0]) if slower else None,
        others=tuple(cell for cell in cells if cell is not best),
    )


def crossovers(found: Sequence[Lead]) -> list[Crossover]:
    """Return the changes of the lead.

    Who is as fast as the newly fastest has not lost it yet, and who is tied has not got it yet.
    """
    changes: list[Crossover] = []
    leading: tuple[str, ...] = ()  # one that leads, or several that led together at the last
    for position, lead in enumerate(found):
        if lead.tied:
            leading = leading if len(leading) == 1 and leading[0] in lead.top else lead.top
            continue
        if leading and leading != (lead.strategy,):
            doubts = [_doubt(lead, name) for name in leading if name != lead.strategy]
            changes.append(
                Crossover(
                    num_gpus=lead.num_gpus,
                    until=_until(found[position:]),
                    before=leading[0] if len(leading) == 1 else "",
                    after=lead.strategy,
                    doubt=next((doubt for doubt in doubts if doubt), ""),
                )
            )
        leading = (lead.strategy,)
    return changes


def _until(found: Sequence[Lead]) -> int | None:
    """Return the most GPUs on which the first leader leads without a break; None: on all."""
    last = first = found[0]
    for lead in found:
        if first.strategy not in lead.top:
            return last.num_gpus
        if not lead.tied:
            last = lead
    return None


def _doubt(lead: Lead, former: str) -> str:
    """Return why nobody knows whether a former leader has lost; empty where it has."""
    if former in lead.unknown:
        return "single run, not conclusive"
    if former in lead.out:
        return f"{former} was put out of a race there, after too few repeats to be conclusive"
    there: list[Result] = [cell.result for cell in lead.others if cell.result.strategy == former]
    if not there:
        return f"{former} was not run there"
    ended = _NO_LOSS.get(Outcome(there[0].outcome))
    return f"{former} {ended}" if ended else ""


def _throughput(cell: Cell) -> float:
    return cell.result.throughput or 0.0
