"""A Bayesian fit of the cost model to the step times of rows.

log t(row) = log t(model, rates) + what the physics leaves out + noise. Priors of the rates:
`analysis.calibration.priors`. What is left out is a Gaussian process: a walk along log2(GPUs), one
per curve and one per strategy, and an error of each curve's overhead as a whole; so a curve that
lies off the physics at 2 and 4 GPUs is expected to do so at 8. The most probable rates come from
least squares; around them they are taken to be normal (Laplace).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.calibration.efficiency import Efficiency
from analysis.calibration.layout import Floats, Key, Layout, RatesOf
from analysis.calibration.priors import LEFT_OUT, LeftOut
from analysis.calibration.row import Row
from costs.hardware import Hardware
from costs.step import Costs, Step

_ROUNDS = 2  # of the fit, each with overheads of the one before
_MAX_CALLS = 60
_CLOSE = 1e-5  # share of the misfit that one more round of least squares takes off
_SMALL = 1e-4  # standard deviations of a prior


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A row with all of its step that does not depend on rates."""

    row: Row
    step: Step
    rates: RatesOf

    def costs(self, vector: Floats) -> Costs:
        return self.step.costs(self.rates(vector))

    def log_step(self, vectors: Floats) -> Floats:
        """Return the log of the step time, for each of many vectors (D, P), or for one."""
        return np.log(self.step.seconds(self.rates(vectors)).step_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The most probable rates of one environment, and how sure they are."""

    rows: tuple[Prepared, ...]  # it rests on
    targets: tuple[Prepared, ...]
    names: tuple[Key, ...]  # of the P rates: those of rows first
    vector: Floats  # (P,) most probable rates
    covariance: Floats  # (P, P)
    inner: Floats  # (R, R) of what physics leaves out and of noise, among rows
    cross: Floats  # (T, R) among targets and rows
    outer: Floats  # (T,) variance of targets, noise included
    # (R,) logs of measured over computed step times, by the most probable rates
    residuals: Floats
    is_known: bool  # a profile describes the hardware

    @property
    def log_evidence(self) -> float:
        """Return the log evidence of the rows for this hardware, all rates considered (Laplace).

        It compares fits of the same rows alone.
        """
        if not self.rows:
            return 0.0
        misfit = float(
            self.residuals @ np.linalg.solve(self.inner, self.residuals) + self.vector @ self.vector
        )
        return 0.5 * float(
            np.linalg.slogdet(self.covariance)[1] - np.linalg.slogdet(self.inner)[1] - misfit
        )


def fit(
    rows: Sequence[Row],
    targets: Sequence[Row],
    hardware: Hardware,
    target_hardware: Hardware | None = None,
    *,
    is_known: bool = True,
    left_out: LeftOut = LEFT_OUT,
    start: Floats | None = None,
    efficiency: Efficiency | None = None,
) -> Fit:
    """Fit the rates to rows, for targets on `target_hardware` where it is another.

    `is_known` says that a profile describes the hardware, whose links else are guesses. `start` are
    rates to begin at, as those of the same rows and targets on hardware like it.

    Raises MissingLinkError, and ValueError for what the hardware cannot do.
    """
    layout = Layout.of([*rows, *targets], is_known=is_known, efficiency=efficiency)
    known = tuple(_prepared(row, hardware, layout) for row in rows)
    asked = tuple(_prepared(row, target_hardware or hardware, layout) for row in targets)
    vector = layout.start if start is None else start
    for _ in range(_ROUNDS):
        noise = [_noise(one.row, left_out) ** 2 for one in known]
        inner = _left_out(known, known, vector, left_out) + np.diag(noise)
        vector, covariance = _most_probable(known, vector, inner)
    outer = []
    for one in asked:
        variance = float(_left_out([one], [one], vector, left_out)[0, 0])
        outer.append(variance + left_out.noise**2)
    return Fit(
        rows=known,
        targets=asked,
        names=tuple(layout.priors),
        vector=vector,
        covariance=covariance,
        inner=inner,
        cross=_left_out(asked, known, vector, left_out),
        outer=np.array(outer),
        residuals=_residuals(known, vector),
        is_known=is_known,
    )


def _prepared(row: Row, hardware: Hardware, layout: Layout) -> Prepared:
    return Prepared(row=row, step=Step.of(row.work, hardware), rates=layout.rates(row, hardware))


def _residuals(rows: Sequence[Prepared], vector: Floats) -> Floats:
    return np.array([np.log(one.row.step_s) - float(one.log_step(vector)) for one in rows])


def _most_probable(rows: Sequence[Prepared], start: Floats, inner: Floats) -> tuple[Floats, Floats]:
    if not rows:
        return start, np.eye(len(start))
    from scipy.optimize import least_squares  # here: its import takes longer than most commands do

    # inverted once, and multiplied: BLAS solves systems as small as these in threads, which wait
    # longer than they compute
    whitening = np.linalg.inv(np.linalg.cholesky(inner))

    def misfits(vector: Floats) -> Floats:
        return np.concatenate([whitening @ _residuals(rows, vector), vector])

    def slopes(vector: Floats) -> Floats:
        return np.vstack([whitening @ _slopes(rows, vector), np.eye(len(vector))])

    found = least_squares(
        misfits, start, jac=slopes, method="trf", max_nfev=_MAX_CALLS, ftol=_CLOSE
    )
    return found.x, np.linalg.inv(found.jac.T @ found.jac)


def _slopes(rows: Sequence[Prepared], vector: Floats) -> Floats:
    """Return (R, P) slopes of the residuals: a rate is tried on the rows alone that have it."""
    found = np.zeros((len(rows), len(vector)))
    for index, one in enumerate(rows):
        places = one.rates.places
        tried = np.tile(vector, (1 + len(places), 1))
        tried[np.arange(1, len(tried)), places] += _SMALL
        logs = one.log_step(tried)
        found[index, places] = (logs[0] - logs[1:]) / _SMALL
    return found


def _noise(row: Row, left_out: LeftOut) -> float:
    """Return the noise of a row; processes that agree still differ from those of another day."""
    return float(np.hypot(row.spread, left_out.noise / 2)) if row.spread else left_out.noise


def _left_out(
    some: Sequence[Prepared], others: Sequence[Prepared], vector: Floats, of: LeftOut
) -> Floats:
    """Return the covariance (S, O) of what physics leaves out."""
    if not some or not others:
        return np.zeros((len(some), len(others)))
    walked = np.minimum.outer(_doublings(some), _doublings(others))
    same_curve = _same(some, others, lambda one: one.row.curve)
    same_kind = _same(some, others, lambda one: (one.row.strategy, one.row.work.real_data))
    same_overhead = _same(
        some,
        others,
        lambda one: (one.row.strategy, one.row.work.real_data, one.row.work.network.name),
    )
    overhead = np.outer(_overheads(some, vector), _overheads(others, vector))
    return walked * (of.walk**2 * same_curve + of.shared_walk**2 * same_kind) + (
        of.overhead**2 * overhead * same_overhead
    )


def _doublings(rows: Sequence[Prepared]) -> Floats:
    return np.log2([one.row.work.num_gpus for one in rows])


def _overheads(rows: Sequence[Prepared], vector: Floats) -> Floats:
    """Return the shares of the steps that are not computing."""
    seconds = [one.step.seconds(one.rates(vector)) for one in rows]
    return np.array([1 - min(1.0, float(one.compute_s / one.step_s)) for one in seconds])


def _same(
    some: Sequence[Prepared], others: Sequence[Prepared], of: Callable[[Prepared], object]
) -> Floats:
    left, right = [of(one) for one in some], [of(one) for one in others]
    return np.array([[float(one == other) for other in right] for one in left])
