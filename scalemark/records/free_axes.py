"""Axes that a sweep brings itself, as `+axes.zero=0,1,2` on the command line: names and values."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from scalemark.records.axes import AxisValue

FreeAxes = tuple[tuple[str, AxisValue], ...]
"""Name and value of each, in the order of the names: hashable, and equal when they are equal."""

PREFIX = "axes."
"""Before the name of a free axis wherever names of ours can stand, too."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII)
_LONGEST_TEXT = 200

_OURS = """
    cmax cmin ctid oid tableoid xmax xmin
    attempt attempt_id axes citation commit cores_taken_by_others cpu cpu_s cuda cudnn curve
    data_wait_share deleted_at diff driver duration_s efficiency engine environment_id evidence exit_code
    experiment first_loss first_step_s free gpu hardware highest host id throughput
    throughput_high throughput_low throughput_on_1 item jitter_s keras
    last_loss last_loss_scale launcher link_bytes_per_s lowest machine machine_id machine_num_gpus
    key median_step_s message note num_attempts num_completed num_cores num_doubtful num_measured_steps
    num_parameters num_repeats num_skipped_steps num_warm_up_steps origin outcome p90_step_s
    peak_device_memory_bytes peak_host_memory_bytes profile python repeat retry revision run_dir
    scalemark shares_host simulated_throughput software software_key source
    spec speed_up started_at steady store strategy sweep sweep_id tag tensorflow
    time_to_first_step_s trace_s trial trial_id
    verdict window_s
"""
RESERVED = frozenset(_OURS.split())
"""Columns of tables and views, groups and settings: no free axis can have such a name."""


def free_axes(values: Mapping[str, object], taken: Mapping[str, object]) -> FreeAxes:
    """Return them in their canonical form. `taken` has the names of all defined axes.

    Raises ValueError for a name or a value that none can have.
    """
    for name, value in values.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(
                f"{PREFIX}{name}: wanted a name of lower-case letters, digits and _, with a "
                "letter first and 40 characters at most"
            )
        if name in taken or name in RESERVED:
            raise ValueError(f"{PREFIX}{name}: {name} is a name of ours; choose another")
        if problem := _problem(value):
            raise ValueError(f"{PREFIX}{name}={str(value)[:60]}: wanted {problem}")
    return tuple(sorted((name, _shortest(value)) for name, value in values.items()))


def _shortest(value: Any) -> AxisValue:
    """Return 1 for 1.0, so that both are one trial."""
    found: AxisValue = int(value) if isinstance(value, float) and value.is_integer() else value
    return found


def _problem(value: object) -> str:
    if isinstance(value, str):
        is_short = 0 < len(value) <= _LONGEST_TEXT and value.isprintable()
        return "" if is_short else f"a line of 1 to {_LONGEST_TEXT} printable characters"
    if isinstance(value, bool):
        return ""
    if isinstance(value, int):
        return "" if abs(value) < 2**53 else "a whole number below 2**53"
    if isinstance(value, float):
        return "" if math.isfinite(value) else "a finite number"
    return "text, a number, true or false"
