"""The sentences of the cloud article's section 5 (source 004), drawn from whatever results there
are, each with its rows.

Each topic is a file with `conclude(results) -> Iterator[Conclusion]`.
"""

from __future__ import annotations

from collections.abc import Sequence

from analysis.conclusions import (
    batch_size,
    data_format,
    leading,
    models,
    nccl,
    parameter_server,
    precision,
    real_data,
    repacking,
    slowdown,
    staged_vars,
)
from analysis.conclusions.conclusion import Conclusion
from analysis.results import Result

_TOPICS = (
    leading,
    nccl,
    parameter_server,
    models,
    slowdown,
    batch_size,
    precision,
    real_data,
    data_format,
    staged_vars,
    repacking,
)


def concluded(results: Sequence[Result]) -> list[Conclusion]:
    """Of results of one origin (`conclusions.noted.with_notes` for published ones), by topic."""
    return [conclusion for topic in _TOPICS for conclusion in topic.conclude(results)]
