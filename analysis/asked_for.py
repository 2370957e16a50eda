"""Results of the trials that a sweep asked for, where it ran or found them finished, and the order
in which sweeps asked for trials.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from analysis.results import Result, is_quotable
from store.reading.queries import AskedFor


def belonging(
    results: Sequence[Result], attempts: Sequence[Mapping[str, Any]], asked: AskedFor
) -> list[Result]:
    """Return them in the sweep's order, each with its number of repeats by other sweeps; `attempts`
    are those behind all results.
    """
    own = {attempt["attempt_id"] for attempt in attempts if _counted(attempt, asked)}
    environments = {
        result.environment.key for result in results if not own.isdisjoint(result.attempt_ids)
    }
    if not environments and not asked.counted:  # imported without a word on where it ran
        environments = {result.environment.key for result in results}
    of_others = {
        attempt["attempt_id"]
        for attempt in attempts
        if attempt["sweep_id"] != asked.sweep_id and is_quotable(attempt)
    }
    found = [
        replace(result, of_other_sweeps=len(of_others.intersection(result.attempt_ids)))
        for result in results
        if result.trial_id in asked.positions and result.environment.key in environments
    ]
    return sorted(found, key=lambda result: asked.positions[result.trial_id])


def in_order_asked(
    results: Sequence[Result],
    attempts: Sequence[Mapping[str, Any]],
    positions: Mapping[tuple[int, str], int],
) -> list[Result]:
    """Return them as the sweeps that first ran them asked for them, oldest first: attempts of a
    sweep are run in random order. `attempts` are those behind them.
    """
    sweeps = {attempt["attempt_id"]: attempt["sweep_id"] for attempt in attempts}

    def place(result: Result) -> tuple[int, int]:
        sweep = sweeps[result.attempt_ids[0]]
        return sweep, positions.get((sweep, result.trial_id), 0)

    return sorted(results, key=place)


def _counted(attempt: Mapping[str, Any], asked: AskedFor) -> bool:
    """Say whether the sweep made it, or would take it for its own."""
    software = attempt["environment"] and attempt["environment"]["software_key"]
    where = (attempt["machine"]["key"], software, bool(attempt["shares_host"]))
    return attempt["sweep_id"] == asked.sweep_id or where in asked.counted
