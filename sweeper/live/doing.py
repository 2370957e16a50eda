"""Reads from a run folder what its trainer is doing."""

from __future__ import annotations

from scalemark.records.axes import Engine
from scalemark.records.outcomes import Doing, Phase
from scalemark.records.trial import TrialSpec
from scalemark.run_folder.folder import RunFolder


def doing_text(folder: RunFolder, spec: TrialSpec) -> str:
    """Say it to people, as "loading TensorFlow", "tracing" or "measuring, step 12 of about 40"."""
    try:
        doing, newest = folder.read_doing(), folder.newest_step()
        is_loaded = folder.loaded.exists()
    except (OSError, ValueError):  # its deadlines decide what comes of it
        return "unknown"
    if doing is Doing.BUILDING and spec.engine == Engine.tensorflow:
        return "tracing" if is_loaded else "loading TensorFlow"
    if doing is not Doing.STEPPING or newest is None:
        return str(doing)
    step, about = newest.step + 1, spec.min_warm_up_steps + spec.num_steps
    phase = "warming up" if newest.phase == Phase.WARM_UP else "measuring"
    # min_window_s decides, or warm-up
    return f"{phase}, step {step} of about {about}" if step <= about else f"{phase}, step {step}"
