"""Reads from a run folder what its trainer is doing."""

from __future__ import annotations

from scalemark.records.outcomes import Doing
from scalemark.records.trial import TrialSpec
from scalemark.run_folder.folder import RunFolder


def doing_text(folder: RunFolder, spec: TrialSpec) -> str:
    """Say it to people, as "step 12 of about 40"."""
    try:
        doing, last_step = folder.read_doing(), folder.last_step()
    except (OSError, ValueError):  # its deadlines decide what comes of it
        return "unknown"
    if doing is not Doing.STEPPING or last_step is None:
        return str(doing)
    step, about = last_step + 1, spec.min_warm_up_steps + spec.num_steps
    # min_window_s decides, or warm-up
    return f"step {step} of about {about}" if step <= about else f"step {step}"
