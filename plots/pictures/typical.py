"""The attempts behind a result, and a typical one: nothing is averaged over processes."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.results import Result
from plots.source import Source
from scalemark.records.outcomes import Outcome
from scalemark.text.natural import natural
from store.reading.queries import Row


def completed(source: Source, result: Result) -> list[Row]:
    """Return its completed attempts, oldest first; details as `Source.attempts` has them."""
    found = (source.attempts[attempt_id] for attempt_id in result.attempt_ids)
    return [attempt for attempt in found if attempt["outcome"] == Outcome.COMPLETED]


def typical(source: Source, result: Result) -> Row:
    """Return the completed attempt with the median throughput (of an even number the slower of
    both), else the newest attempt.
    """
    able = sorted(completed(source, result), key=lambda attempt: float(attempt["throughput"] or 0))
    return able[(len(able) - 1) // 2] if able else source.attempts[result.attempt_ids[-1]]


NOT_ALL = "not all trials"
"""What the footer says where trials were left out."""


def at_most(results: Sequence[Result], most: int) -> tuple[list[Result], list[str]]:
    """Sort by number of GPUs and strategy, and keep at most `most`, those on the most GPUs; return
    them and a note on how to see the others.
    """
    ordered = sorted(results, key=lambda result: (result.num_gpus, natural(result.strategy)))
    num_others = max(len(ordered) - most, 0)
    others, kept = ordered[:num_others], ordered[num_others:]
    if not others:
        return kept, []
    how = f"strategy={others[0].strategy}"
    if others[0].num_gpus < kept[-1].num_gpus:
        how = f"num_gpus<={others[-1].num_gpus}"
    note = (
        f"left out: {len(others)} of {len(ordered)} trials, those on the fewest devices; see "
        f"them with {how}"
    )
    return kept, [note]
