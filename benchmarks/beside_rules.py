"""Sets predictions of published figures beside one-line rules, and tells chance from a defect."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from analysis.calibration.layout import Floats
from analysis.calibration.rules import RULES
from benchmarks.predicting import Checked, rested, summary_of

ByFew = Mapping[int, Sequence[Checked]]
"""Figures by how many GPUs the rows have at most that they were predicted from."""

Statistic = Callable[[Floats], Floats]
"""Of the last axis of errors."""

_STATISTICS: dict[str, Statistic] = {
    "median": lambda errors: np.median(errors, axis=-1),
    "90th percentile": lambda errors: np.quantile(errors, 0.9, axis=-1),
}
_MORE = 0.001  # of an error: a rule is nearer by more than a tenth of a percent
_LEAST_FIGURES = 10  # of a group, from which on a rule is compared
_RESAMPLES = 4000


def beside_rules(found: ByFew) -> str:
    """Tabulate the median and the 90th percentile of absolute errors, in Markdown."""
    lines = [
        f"| rows | figures | program | {' | '.join(RULES)} | bias | over 25 % | of these not "
        "flagged | flagged | half-width | inside 95 % |",
        "|---|---:|" + "---:|" * (len(RULES) + 7),
    ]
    return "\n".join([*lines, *(_beside(name, of) for name, of in _groups(found))])


def nearer_rules(found: ByFew) -> str:
    """Tabulate where a rule is nearer than the program, with the 95 % interval of the difference
    when the same figures are drawn again with replacement: one that holds 0 may be chance.
    """
    lines = ["| rows | of the errors | rule | program | difference |", "|---|---|---|---:|---:|"]
    for group, of in _groups(found):
        for rule in RULES:
            errors = _errors(of, rule)
            if len(errors) < _LEAST_FIGURES:
                continue
            for name, statistic in _STATISTICS.items():
                program, by_rule = statistic(errors.T)
                if program - by_rule > _MORE:
                    low, high = difference(errors, statistic)
                    lines.append(
                        f"| {group} | {name} | {rule} {by_rule:.1%} | {program:.1%} "
                        f"| {low:+.1%} to {high:+.1%} |"
                    )
    return "\n".join(lines)


def _errors(of: Sequence[Checked], rule: str) -> Floats:
    """Return (F, 2) absolute errors of the program and of a rule, of figures that both predict."""
    both = [(abs(one.error), abs(one.rule_error(rule))) for one in of if rule in one.by_rule]
    return np.array(both).reshape(-1, 2)


def difference(errors: Floats, statistic: Statistic) -> tuple[float, float]:
    """Return the 95 % interval of the program's error less the rule's, of errors (F, 2), by the
    bootstrap (Efron 1979).
    """
    drawn = np.random.default_rng(0).integers(0, len(errors), (_RESAMPLES, len(errors)))
    program, rule = (statistic(of[drawn]) for of in errors.T)
    low, high = np.quantile(program - rule, [0.025, 0.975])
    return float(low), float(high)


def is_on(one: Checked, num_gpus: int | None) -> bool:
    """Return whether a figure is on so many GPUs; with None, on others than 8."""
    return one.row.work.num_gpus == num_gpus if num_gpus else one.row.work.num_gpus != 8


def _groups(found: ByFew) -> Iterator[tuple[str, list[Checked]]]:
    for few, on in ((4, 8), (4, None), (2, 4), (2, 8), (1, 2), (1, 4), (1, 8)):
        of = [one for one in found[few] if is_on(one, on) and _num_rules(one) >= min(few, 2)]
        yield f"{on or 'other than 8'} from up to {few}", rested(of)
    eight = [one for one in rested(found[4]) if is_on(one, 8)]
    curves = [one for one in eight if _num_rules(one) > 1]
    yield "8 from up to 4, rings", [one for one in curves if one.row.strategy[2] == "nccl"]
    servers = [one for one in curves if one.row.strategy[0] == "parameter_server"]
    yield "8 from up to 4, parameter servers", servers
    one_row = [one for one in eight if _num_rules(one) < 2]
    yield "8 from up to 4, at most one row of the curve", one_row


def _num_rules(one: Checked) -> int:
    """Return how many rules carry its curve on: one where the curve has one row alone."""
    return len(one.by_rule)


def _beside(name: str, of: Sequence[Checked]) -> str:
    one = summary_of(of)
    cells = [name, one.num, f"{one.median_error:.1%} / {one.p90_error:.1%}"]
    for rule in RULES:
        errors = _errors(of, rule)[:, 1]
        if not len(errors):
            cells.append("")
            continue
        some = f" of {len(errors)}" if len(errors) < one.num else ""
        cells.append(f"{np.median(errors):.1%} / {np.quantile(errors, 0.9):.1%}{some}")
    cells += [f"{one.bias:+.1%}", one.num_far, one.num_far_unflagged]
    cells += [f"{one.share_uncertain:.0%}", f"{one.half_width:.0%}", f"{one.share_inside:.0%}"]
    return f"| {' | '.join(map(str, cells))} |"
