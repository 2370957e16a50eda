"""How many more repeats would tell a choice from the best, and why none that are worth it would."""

from __future__ import annotations

import math

from analysis.advice.ranking import Behind, Ranking
from analysis.statistics.contradictions import contradiction
from analysis.statistics.planning import plan, repeats_to_tell
from analysis.statistics.sample import Sample


def more_repeats(ranking: Ranking, behind: Behind) -> int | None:
    """Of each, of which there are two or more; judged as the ranking does. None where `compare`
    says that none are worth it.
    """
    if why_none(ranking, behind):
        return None
    top, other = ranking.top.scores, behind.candidate.scores
    if not behind.freedom:
        return plan(Sample.of(top), Sample.of(other), ranking.level).more
    nums = len(top), len(other)
    return repeats_to_tell(
        nums, math.log(behind.ratio), behind.variance, behind.freedom, ranking.level
    )


def why_none(ranking: Ranking, behind: Behind) -> str:
    """In the words of `compare`; empty where more repeats may tell, or one side is a process
    alone.
    """
    top, other = Sample.of(ranking.top.scores), Sample.of(behind.candidate.scores)
    if min(top.num_processes, other.num_processes) < 2:
        return ""
    if contradiction(top) or contradiction(other):
        return "repeats contradict each other, and more of them would not mend that"
    found = plan(top, other)
    return found.words if found.more is None else ""
