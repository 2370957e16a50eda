"""Writes odd values into what an attempt left in its run folder: JSON that parses, and that no result can be."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

Change = Callable[[dict[str, Any]], object]


def poison(run_dir: Path, name: str) -> None:
    """One value of one file, by a name of ODD. Raises FileNotFoundError where the attempt left no such file."""
    file, change = ODD[name]
    path = run_dir / file
    lines = path.read_text().splitlines() if file == "steps.jsonl" else [path.read_text()]
    reported = json.loads(lines[-1])
    change(reported)
    lines[-1] = json.dumps(reported)
    path.write_text("".join(f"{line}\n" for line in lines))


def _measured(name: str, value: object) -> tuple[str, Change]:
    return "result.json", lambda reported: reported["measurement"].update({name: value})


def _of(file: str, name: str, value: object) -> tuple[str, Change]:
    return file, lambda reported: reported.update({name: value})


ODD: dict[str, tuple[str, Change]] = {
    "throughput Infinity": _measured("throughput", math.inf),
    "throughput NaN": _measured("throughput", math.nan),
    "throughput negative": _measured("throughput", -1.0),
    "memory 2**70": _measured("peak_host_memory_bytes", 2**70),
    "parameters 2**70": _measured("num_parameters", 2**70),
    "number of steps as text": _measured("num_steps", "three"),
    "message null": _of("result.json", "message", None),
    "message an object": _of("result.json", "message", {"text": ""}),
    "lone surrogate": _of("result.json", "verdict_reasons", ["\ud800"]),
    "unknown verdict": _of("result.json", "verdict", "splendid"),
    "unknown outcome": _of("result.json", "outcome", "splendid"),
    "completed without a measurement": _of("result.json", "measurement", None),
    "environment a lone surrogate": _of("environment.json", "kernel", "\ud800"),
    "environment without packages": _of("environment.json", "packages", None),
    "environment Infinity": _of("environment.json", "variables", {"TF_X": math.inf}),
    "duration as text": _of("steps.jsonl", "duration_s", "long"),
    "duration NaN": _of("steps.jsonl", "duration_s", math.nan),
    "duration negative": _of("steps.jsonl", "duration_s", -1.0),
    "step 2**70": _of("steps.jsonl", "step", 2**70),
    "loss as text": _of("steps.jsonl", "loss", "small"),
    "phase null": _of("steps.jsonl", "phase", None),
}
"""What is odd -> file, and how it is changed; of steps.jsonl the last line."""
