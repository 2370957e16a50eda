"""Widens predictions that may be further off than rows and priors suggest, and says why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from analysis.calibration.efficiency import is_mostly_products
from analysis.calibration.fit import Fit, Prepared
from analysis.calibration.layout import precision_class
from analysis.calibration.priors import BATCH_START
from analysis.calibration.row import Row
from costs.topology import BETWEEN_CLIQUES
from scalemark.records.strategies import strategy_name

_VISIBLE = 0.08  # of a step: communication below it cannot spoil much
_MUCH = 0.4  # of a step: where links are guessed, a curve alone does not tell how it goes on
_WRONG_BY = 0.5  # of the communication, where no row shows how fast it is
# of the communication through a host's memory, which may lie at another socket
_HOST_WRONG_BY = 0.25
# of the communication of more GPUs than rows have, in a box that no profile describes
_GUESSED_WRONG_BY = 0.25
# of what biases' gradients wait in half precision, of which one H200 was profiled, with 8,192 rows
_BIASES_WRONG_BY = 0.5
_SATURATED = 0.7  # of a step: an input pipeline that is so long may become the longest
_SATURATION_ERROR = 0.25
_TIMES_GPUS = 2  # the most that rows have: beyond, what grows with GPUs is a guess
_GAIN_EXPECTED = 0.75  # of what further GPUs should bring: curves that bring less have met a limit
_CONTRADICTS = 0.12  # of a step time that the model cannot follow
_WIDE = 0.25  # half of an interval, over its middle: it may be off by a quarter


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """One reason for doubt."""

    reason: str  # empty: no more than a wider interval
    error: float  # standard deviation that it adds, of the step time's logarithm


def doubts(target: Prepared, fit: Fit) -> list[Doubt]:
    """Return the doubts about one target, before its interval is known."""
    case = _Case(target=target, fit=fit, share=_share(target, fit))
    return [doubt for check in _CHECKS if (doubt := check(case)) is not None]


def guess_doubt(fits: Sequence[tuple[float, Fit]], index: int, *, has_curve: bool = False) -> str:
    """Return a doubt where it matters how GPUs are linked, and nothing shows it; a curve shows it,
    but where communication is most of what comes.
    """
    visible = _MUCH if has_curve else _VISIBLE
    target = fits[0][1].targets[index]
    share = sum(weight * _share(fit.targets[index], fit) for weight, fit in fits)
    most = _Case(target=target, fit=fits[0][1], share=share).most_gpus
    if len(fits) == 1 or share < visible or target.row.work.num_gpus <= most:
        return ""
    return (
        f"how the GPUs are linked is not known, and communication is about {share:.0%} of the "
        "step; see --hardware"
    )


def is_beyond_rules(target: Prepared, fit: Fit) -> bool:
    """Return whether what comes cannot be seen in the curve's rows, so that no rule foretells it.

    Communication then takes links of a known box that no row shows, or the curve has met a limit.
    """
    case = _Case(target=target, fit=fit, share=_share(target, fit))
    is_new_link = fit.is_known and _topology(case) is not None
    return is_new_link or _turned(case) is not None


def width_doubt(half_width: float) -> str:
    """Return a doubt about an interval that is too wide to decide by. It is the same of every
    interval, whose ends are shown, so that one sentence is of all.
    """
    return f"the interval is wide: over {_WIDE:.0%} to each side" if half_width > _WIDE else ""


def _share(target: Prepared, fit: Fit) -> float:
    costs = target.costs(fit.vector)
    return costs.communication_s / costs.step_s


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    target: Prepared
    fit: Fit
    share: float  # of the step, that is communication

    @property
    def num_gpus(self) -> int:
        return self.target.row.work.num_gpus

    @property
    def of_strategy(self) -> list[Prepared]:
        """The rows of the target's strategy."""
        strategy = self.target.row.strategy
        return [one for one in self.fit.rows if one.row.strategy == strategy]

    @property
    def of_curve(self) -> list[Row]:
        """The rows that differ from the target in the number of GPUs alone."""
        curve = self.target.row.curve
        return [one.row for one in self.fit.rows if one.row.curve == curve]

    @property
    def has_row_of_precision(self) -> bool:
        """Say whether a row has the target's model in its precision."""
        wanted, network = precision_class(self.target.row), self.target.row.work.network
        return any(
            precision_class(one.row) == wanted and one.row.work.network == network
            for one in self.fit.rows
        )

    @property
    def most_gpus(self) -> int:
        """The most that a row of the strategy has; one GPU does not communicate."""
        return max((one.row.work.num_gpus for one in self.of_strategy), default=1)


def _topology(case: _Case) -> Doubt | None:
    crossed = _crossings(case.target)
    for one in case.of_strategy:
        crossed -= _crossings(one)
    if not crossed or case.share < _VISIBLE:
        return None
    error = _WRONG_BY * case.share
    if not case.fit.is_known:
        return Doubt(reason="", error=error)  # where cliques and sockets end is a guess, too
    links = " and ".join(sorted(crossed))
    reason = f"communication ({case.share:.0%} of the step) crosses {links}, which no row does"
    return Doubt(reason=reason, error=error)


def _crossings(one: Prepared) -> set[str]:
    return {name for kind, name in _CROSSED.items() if kind in _kinds(one)}


_CROSSED = {
    BETWEEN_CLIQUES: "from one NVLink clique to another",
    "sockets": "from one CPU socket to another",
}


def _kinds(one: Prepared) -> set[str]:
    """Return the kinds of links that its traffic takes."""
    exchange = one.step.exchange
    return {kind for kind, _, _ in (*exchange.pull.busy_s, *exchange.push.busy_s)}


def _strategy(case: _Case) -> Doubt | None:
    if case.most_gpus > 1 or case.share < _VISIBLE:
        return None
    name = strategy_name(*case.target.row.strategy)
    return Doubt(reason=f"no row has {name} on more than one GPU", error=_WRONG_BY * case.share)


def _input(case: _Case) -> Doubt | None:
    costs = case.target.costs(case.fit.vector)
    share = costs.input_s / costs.step_s
    if share < _SATURATED or not case.target.row.work.real_data:
        return None
    reason = f"making batches takes {share:.0%} of the step: input is, or is near, the limit"
    return Doubt(reason=reason, error=_SATURATION_ERROR)


def _turned(case: _Case) -> Doubt | None:
    """Doubt a curve whose last rows gain little, or lose: it has met a limit."""
    rows = case.of_curve
    rows.sort(key=lambda row: row.work.num_gpus)
    if len(rows) < 2 or case.num_gpus <= rows[-1].work.num_gpus:
        return None
    before, last = rows[-2], rows[-1]
    more_gpus = last.work.num_gpus / before.work.num_gpus - 1
    gained = before.step_s / last.step_s * (more_gpus + 1) - 1
    if more_gpus <= 0 or gained > _GAIN_EXPECTED * more_gpus:
        return None
    reason = (
        f"from {before.work.num_gpus} to {last.work.num_gpus} GPUs its rows gain {gained:.0%} of "
        f"{more_gpus:.0%}"
    )
    return Doubt(reason=reason, error=_SATURATION_ERROR)


def _misfit(case: _Case) -> Doubt | None:
    """Doubt rows that the model cannot follow: they know what it does not, or contradict."""
    network = case.target.row.work.network
    worst = 0.0
    for one, residual in zip(case.fit.rows, case.fit.residuals, strict=True):
        if one.row.strategy == case.target.row.strategy and one.row.work.network == network:
            worst = max(worst, abs(float(residual)))
    if worst < _CONTRADICTS:
        return None
    reason = f"a row like it is {worst:.0%} off the model, as if rows contradicted each other"
    return Doubt(reason=reason, error=worst / 2)


def _unreported(case: _Case) -> Doubt | None:
    """Doubt a strategy that is assumed, unless the curve shows what sharing variables costs."""
    is_shown = any(row.work.num_gpus > 1 for row in case.of_curve)
    if case.target.row.is_known or case.num_gpus == 1 or is_shown:
        return None
    reason = "how variables are shared is assumed"
    return Doubt(reason=reason, error=_WRONG_BY * case.share)


def _host(case: _Case) -> Doubt | None:
    """Doubt GPUs of a second socket, which reach the memory of the first as no row shows.

    Mostly that costs little.
    """
    is_seen = any(_reaches_far_memory(one) for one in case.of_strategy)
    if is_seen or not _reaches_far_memory(case.target):
        return None
    return Doubt(reason="", error=_HOST_WRONG_BY * case.share)


def _reaches_far_memory(one: Prepared) -> bool:
    is_far = one.row.work.num_gpus > one.step.hardware.gpus_per_socket
    return is_far and "host memory" in _kinds(one)


def _guessed(case: _Case) -> Doubt | None:
    """Doubt GPUs that no row has: slots differ in width, sockets in what hangs off them."""
    if case.fit.is_known or case.num_gpus <= case.most_gpus:
        return None
    return Doubt(reason="", error=_GUESSED_WRONG_BY * case.share)


def _extrapolation(case: _Case) -> Doubt | None:
    """Doubt many more GPUs than rows have, in a box whose links nobody described."""
    if case.fit.is_known:
        return None
    most = max((one.row.work.num_gpus for one in case.fit.rows), default=0)
    if not most or case.num_gpus <= _TIMES_GPUS * most or case.share < _VISIBLE:
        return None
    times = case.num_gpus / most
    return Doubt(reason=f"it has {times:g} times the most GPUs that rows have, {most}", error=0.0)


def _precision(case: _Case) -> Doubt | None:
    if case.has_row_of_precision:
        return None
    wanted, name = precision_class(case.target.row), case.target.row.work.network.name
    return Doubt(reason=f"no row has {name} in {wanted}", error=0.0)


def _biases(case: _Case) -> Doubt | None:
    """Doubt what gradients of biases wait, where no row shows it."""
    waited_s = case.target.step.beside.bias_gradients_s
    if not waited_s or case.has_row_of_precision:
        return None
    share = waited_s / case.target.costs(case.fit.vector).step_s
    return Doubt(reason="", error=_BIASES_WRONG_BY * share)


def _batch(case: _Case) -> Doubt | None:
    """Doubt another batch where no model of such layers has two: what a kernel takes whatever the
    batch and what grows with it cannot be told apart by one, and the step is then off by the first.
    """
    work = case.target.row.work
    batches: dict[str, set[int]] = defaultdict(set)
    for one in case.fit.rows:
        of = one.row.work
        if is_mostly_products(of.network) is is_mostly_products(work.network):
            batches[of.network.name].add(of.batch_size)
    known = batches.get(work.network.name, set())
    if work.batch_size in known or len(known) != 1 or any(len(of) > 1 for of in batches.values()):
        return None
    (batch,) = known
    rates = case.target.rates(case.fit.vector)
    whatever_s = float(rates.start) * case.target.step.kernels_s
    share = whatever_s / case.target.costs(case.fit.vector).step_s
    return Doubt(
        reason=f"all rows have batch_size {batch}: none shows how a larger or smaller batch scales",
        error=BATCH_START.spread * abs(work.batch_size / batch - 1) * share,
    )


_CHECKS: tuple[Callable[[_Case], Doubt | None], ...] = (
    _topology,
    _strategy,
    _input,
    _turned,
    _misfit,
    _unreported,
    _host,
    _guessed,
    _extrapolation,
    _precision,
    _biases,
    _batch,
)
