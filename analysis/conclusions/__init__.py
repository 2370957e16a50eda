"""The sentences of the cloud article's section 5 (source 004), drawn from any results, with the
rows behind each.

A topic is a function `(results) -> Iterator[Conclusion]`.
"""

from __future__ import annotations

from collections.abc import Sequence

from analysis.conclusions import efficiency, leading, models, slowdown, strategies, switches
from analysis.conclusions.conclusion import Conclusion
from analysis.results import Result

_TOPICS = (
    leading.leading,
    strategies.nccl,
    strategies.parameter_server,
    models.models,
    slowdown.slowdown,
    efficiency.batch_size,
    efficiency.precision,
    switches.real_data,
    switches.data_format,
    switches.staged_vars,
    switches.repacking,
)


def concluded(results: Sequence[Result]) -> list[Conclusion]:
    """Return all conclusions from results of one origin, by topic.

    Published results must have passed `conclusions.noted.with_notes`.
    """
    return [conclusion for topic in _TOPICS for conclusion in topic(results)]
