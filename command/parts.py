"""Reads what `inside/scalemark_parts.py` wrote of each rank's steps: the parts of a step, and how
long each rank takes when it waits for no other.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from scalemark.records.measurement import Profile, ReplicaTimes, TimedPart
from scalemark.run_folder import read_regular

FEWEST_STEPS = 8
_LEAST_S = 1e-9  # a time above 0
_PART = {  # the others compute
    "input": TimedPart.INPUT,
    "collective": TimedPart.COMMUNICATION,
    "launch": TimedPart.LAUNCH,
}

Step = Mapping[str, Any]  # as it was written


def read(folder: Path, window_s: tuple[float, float]) -> tuple[Profile, ReplicaTimes | None]:
    """Return the parts of the steps within a window of the monotonic clock, and each rank's own
    times where the host sees them. Raises ValueError, which says why nothing is known.
    """
    steps_of: dict[int, list[Step]] = {}
    try:
        for path in folder.glob("parts-*.jsonl"):
            steps = [json.loads(line) for line in read_regular(path).splitlines()]
            if steps_of.setdefault(int(steps[0]["rank"]), steps) is not steps:
                raise ValueError("several programs took steps")
        return _summary([steps_of[rank] for rank in sorted(steps_of)], window_s)
    except (OSError, LookupError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise ValueError(f"the parts of its steps cannot be read: {error!r}") from error


def _summary(
    ranks: Sequence[Sequence[Step]], window_s: tuple[float, float]
) -> tuple[Profile, ReplicaTimes | None]:
    num_steps = min(map(len, ranks), default=0)
    within = []
    for place in range(num_steps):
        step = ranks[0][place]
        if window_s[0] <= step["begin"] and step["end"] <= window_s[1]:
            within.append(place)
    if len(within) < FEWEST_STEPS:  # lines of the program come late
        within = list(range(num_steps // 2, num_steps))
    if len(within) < FEWEST_STEPS:
        raise ValueError(
            f"{num_steps} steps were seen from inside, wanted {2 * FEWEST_STEPS} of an optimizer "
            "of PyTorch, tf.function, fit of Keras or jax.jit, in a Python that reads PYTHONPATH "
            "(not -I or -E)"
        )
    steps_of = [[_parts(rank[place]) for place in within] for rank in ranks]
    chosen = [rank[place] for rank in ranks for place in within]
    parts_s = {
        part: fmean(step[part] for steps in steps_of for step in steps) for part in TimedPart
    }
    if len(ranks) > 1:
        # the last to come to an exchange waits for none: what it takes is the exchange itself
        least = []
        for at_once in zip(*steps_of, strict=True):
            least.append(min(step[TimedPart.COMMUNICATION] for step in at_once))
        parts_s[TimedPart.RANKS] = parts_s[TimedPart.COMMUNICATION] - fmean(least)
        parts_s[TimedPart.COMMUNICATION] = fmean(least)
    is_of_gpus = any(step["device"] != "cpu" for step in chosen)
    cpu_s = [step["cpu"]["forward"] + step["cpu"]["backward"] for step in chosen]
    profile = Profile(
        num_steps=len(within),
        step_s=sum(parts_s.values()),
        reduction_s=parts_s[TimedPart.COMMUNICATION] + parts_s[TimedPart.RANKS],
        exposed_reduction_s=parts_s[TimedPart.COMMUNICATION],
        launch_gap_share=None,
        input_wait_s=parts_s[TimedPart.INPUT],
        problems="",
        folder="",
        parts_s={str(part): seconds for part, seconds in parts_s.items()},
        is_of_gpus=is_of_gpus,
        num_operations=int(ranks[0][-1]["operations"]),
        compute_cpu_s=fmean(cpu_s),
    )
    # GPUs and compiled functions wait for each other where the host does not see it
    if is_of_gpus or len(ranks) == 1 or not profile.reduction_s:
        return profile, None
    waits = (TimedPart.COMMUNICATION, TimedPart.CORE)
    own_s = {}
    for rank, steps in enumerate(steps_of):
        of_steps = [sum(step.values()) - sum(step[part] for part in waits) for step in steps]
        own_s[f"rank {rank}"] = tuple(max(_LEAST_S, seconds) for seconds in of_steps)
    return profile, ReplicaTimes(at_once=True, seconds=own_s)


def _parts(step: Step) -> dict[TimedPart, float]:
    """Return the seconds of each part. The wait for a core is taken off those that took less CPU
    time than they lasted.
    """
    gaps = {name: max(0.0, step["seconds"][name] - cpu) for name, cpu in step["cpu"].items()}
    gap_s = sum(gaps.values())
    core_s = min(step["core_wait"], gap_s)
    parts = dict.fromkeys(TimedPart, 0.0)
    parts[TimedPart.CORE] = core_s
    for name, seconds in step["seconds"].items():
        left_s = seconds - (core_s * gaps[name] / gap_s if gap_s else 0.0)
        if name == "other":
            parts[TimedPart.HOST] = min(left_s, step["cpu"][name])
            parts[TimedPart.IDLE] = left_s - parts[TimedPart.HOST]
        else:
            parts[_PART.get(name, TimedPart.COMPUTE)] += left_s
    return parts
