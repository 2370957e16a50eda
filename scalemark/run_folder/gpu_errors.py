"""Names the Xid errors of an attempt's GPUs in the message of its failure."""

from __future__ import annotations

from dataclasses import replace

from scalemark.records.gpu_errors import XidError
from scalemark.records.measurement import Result
from scalemark.records.outcomes import Outcome
from scalemark.run_folder.folder import RunFolder

_MOST_NAMED = 3  # the first ones tell the cause; others follow from it


def with_gpu_errors(result: Result, folder: RunFolder) -> Result:
    """Add to the message of an attempt that failed or hung what its GPUs had reported."""
    if result.outcome not in (Outcome.FAILED, Outcome.HUNG):
        return result
    message = result.message
    for error in reported_errors(folder)[:_MOST_NAMED]:
        if str(error) not in message:  # a rank may have said it
            message = f"{message}; {error}"
    return replace(result, message=message)


def reported_errors(folder: RunFolder) -> list[XidError]:
    """Return the errors; none where the file makes no sense."""
    try:
        return folder.read_gpu_errors()
    except (OSError, ValueError):
        return []
