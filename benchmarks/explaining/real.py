"""Real sweeps on CPU devices with a bottleneck each, and what `explain` says of them.

Each scenario is the set of `experiment=explain` around one trial, run by `sweep.py` as a user would
run it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.explain.causes import Bound

PROJECT = Path(__file__).resolve().parent.parent.parent
EFFORT = (
    "num_steps=10",
    "min_window_s=2",
    "hardware=cpu",
    "model=resnet18_cifar",
    "strategy=replicated_none",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What is run, which of its trials is to be explained, and what is wanted of it."""

    wanted: Bound
    sweeps: Sequence[Sequence[str]]  # arguments of each
    target: Sequence[str]  # filters that choose it


SCENARIOS = {
    "injected.input_s=0.3": Scenario(
        wanted=Bound.INPUT,
        sweeps=[["experiment=explain", "num_gpus=2", "batch_size=8", "injected.input_s=0.3"]],
        target=["batch_size=8", "injected~*input_s*", "distortions=false", "data=photos"],
    ),
    "one thread decodes and distorts": Scenario(
        wanted=Bound.INPUT,
        sweeps=[
            [
                "experiment=explain",
                "num_gpus=2",
                "model=trivial",
                "batch_size=64",
                "image_px=96",
                "data_threads=1",
                "cache=false",
            ]
        ],
        target=["model=trivial", "data=photos", "distortions=true"],
    ),
    "injected.reduction_s=0.5": Scenario(
        wanted=Bound.COMMUNICATION,
        sweeps=[
            [
                "experiment=explain",
                "data=synthetic",
                "num_gpus=2",
                "batch_size=8",
                "injected.reduction_s=0.5",
            ]
        ],
        target=["batch_size=8", "injected~*reduction_s*", "variable_update=replicated"],
    ),
    "a batch of 1": Scenario(
        wanted=Bound.LAUNCH,
        sweeps=[
            ["experiment=explain", "data=synthetic", "num_gpus=1", "batch_size=1"],
            ["data=synthetic", "num_gpus=1", "variable_update=independent", "batch_size=2"],
        ],
        target=["model=resnet18_cifar", "batch_size=1", "variable_update=replicated"],
    ),
    "the trivial model": Scenario(
        wanted=Bound.LAUNCH,
        sweeps=[
            ["experiment=explain", "data=synthetic", "num_gpus=2", "model=trivial", "batch_size=4"]
        ],
        target=["model=trivial", "data=synthetic", "batch_size=4", "variable_update=replicated"],
    ),
    "nothing": Scenario(
        wanted=Bound.HEALTHY,
        sweeps=[["experiment=explain", "data=synthetic", "num_gpus=2", "batch_size=32"]],
        target=["batch_size=32", "variable_update=replicated"],
    ),
}


def run(name: str, folder: Path, repeats: int) -> dict[str, Any]:
    """Run what is missing of a scenario, and return what `explain --json` has as diagnosis."""
    scenario = SCENARIOS[name]
    for arguments in scenario.sweeps:
        asked = [*_without(EFFORT, arguments), *arguments, f"sweep.repeats={repeats}"]
        _run(
            [
                "sweep.py",
                *asked,
                f"store.url={folder / 'r.db'}",
                f"store.runs_dir={folder / 'runs'}",
                f"store.figures_dir={folder}",
            ]
        )
    reported = _run(
        ["-m", "analysis", "explain", "--db", str(folder / "r.db"), "--json", *scenario.target]
    )
    found = json.loads(reported)
    if len(found) != 1:
        raise RuntimeError(
            f"{name}: wanted one explanation, found {[one['target']['trial_id'] for one in found]}"
        )
    return dict(found[0]["diagnosis"])


def table(folder: Path, repeats: int = 3) -> str:
    """Markdown."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["| bottleneck | wanted | verdict | confidence | in words |", "|---|---|---|---|---|"]
    for name, scenario in SCENARIOS.items():
        found = run(name, folder, repeats)
        reported = [name, str(scenario.wanted), str(found["bound"]), found["confidence"]]
        reported.append(found["why"])
        lines.append(f"| {' | '.join(reported)} |")
        print(f"{name}: {found['why']}; {'; '.join(found['doubts'])}", file=sys.stderr)
    return "\n".join(lines)


def _without(defaults: Sequence[str], arguments: Sequence[str]) -> list[str]:
    """Those that the arguments do not set themselves."""
    named = {one.partition("=")[0] for one in arguments}
    replaced = {"strategy"} if "variable_update" in named else set()
    return [one for one in defaults if one.partition("=")[0] not in named | replaced]


def _run(arguments: Sequence[str]) -> str:
    ended = subprocess.run(
        [sys.executable, *arguments],
        cwd=PROJECT,
        env=os.environ | {"PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise RuntimeError(
            f"{' '.join(arguments)} ended with {ended.returncode}: {ended.stderr[-2000:]}"
        )
    return ended.stdout
