"""How long expanding, checking and planning a large grid takes: our dry run against stock Hydra
composing the same grid.

Stock Hydra's time per job is measured between two numbers of jobs, so that its start is not
counted; ours is, from the start of the process. What stock Hydra would take for the whole grid is
extrapolated, in a straight line.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.orchestration.cost import Cost, module, run, sweep
from benchmarks.orchestration.settings import BrokenError, Settings, rounds
from benchmarks.ratio import Ratio, Want

WALL_LIMIT_S = 10.0
MEMORY_LIMIT_BYTES = 500e6
STOCK = "stock Hydra (extrapolated)"
_GRID = {
    "model": "resnet50,vgg16,alexnet,resnet18_cifar,trivial",
    "strategy": "ps_cpu,ps_gpu,replicated_none,replicated_pscpu",
    "num_gpus": "1,2,4,8",
}
_SEEDS_PER_TRIAL = 80  # cells of the axes above


def measure(settings: Settings) -> list[Ratio]:
    few, many = settings.num_composed
    seen: dict[str, list[Cost]] = {"ours": [], "few": [], "many": []}
    for sides in rounds(settings.num_rounds, list(seen)):
        for side in sides:
            with tempfile.TemporaryDirectory() as folder:
                if side == "ours":
                    cost = _ours(settings.num_planned, Path(folder))
                else:
                    cost = _stock(few if side == "few" else many, Path(folder))
            seen[side].append(cost)
    stock = [
        _extrapolated(a, b, few, many, settings.num_planned)
        for a, b in zip(seen["few"], seen["many"], strict=True)
    ]
    return [
        *_against(STOCK, seen["ours"], stock, (None, None, None)),
        *_against(
            "limit",
            seen["ours"],
            [Cost(wall_s=WALL_LIMIT_S, cpu_s=WALL_LIMIT_S, peak_bytes=int(MEMORY_LIMIT_BYTES))]
            * settings.num_rounds,
            (1.0, None, 1.0),
        ),
    ]


def grid(num_trials: int) -> list[str]:
    """Sweeps that span about so many trials, all of which can be run on CPU devices."""
    seeds = max(1, num_trials // _SEEDS_PER_TRIAL)
    return [*(f"{axis}={values}" for axis, values in _GRID.items()), f"seed=range(1,{seeds + 1})"]


def _ours(num_trials: int, folder: Path) -> Cost:
    cost = run(
        sweep("-m", *grid(num_trials), "hardware=cpu", "sweep.dry_run=true"),
        folder,
        watch_memory=True,
    )
    if not (folder / "output.txt").stat().st_size:
        raise BrokenError("the dry run printed no plan")
    return cost


def _stock(num_jobs: int, folder: Path) -> Cost:
    """The same axes; so many values of one of them that there are `num_jobs` jobs."""
    axes = ["strategy=ps_cpu,replicated_none", f"seed=range(1,{num_jobs // 2 + 1})"]
    cost = run(
        module("benchmarks.orchestration.stock_hydra", "-m", *axes), folder, watch_memory=True
    )
    reported = (folder / "output.txt").read_text()
    if reported.count("composed\n") != num_jobs:
        raise BrokenError(
            f"stock Hydra composed {reported.count('composed')} jobs, wanted {num_jobs}"
        )
    return cost


def _extrapolated(few_cost: Cost, many_cost: Cost, few: int, many: int, wanted: int) -> Cost:
    def at(a: float, b: float) -> float:
        return (b - a) / (many - few) * wanted

    return Cost(
        wall_s=at(few_cost.wall_s, many_cost.wall_s),
        cpu_s=at(few_cost.cpu_s, many_cost.cpu_s),
        peak_bytes=int(few_cost.peak_bytes + at(few_cost.peak_bytes, many_cost.peak_bytes)),
    )


def _against(
    peer: str,
    ours: list[Cost],
    theirs: list[Cost],
    targets: tuple[float | None, float | None, float | None],
) -> list[Ratio]:
    metrics = {
        "wall s": [(a.wall_s, b.wall_s) for a, b in zip(ours, theirs, strict=True)],
        "CPU s": [(a.cpu_s, b.cpu_s) for a, b in zip(ours, theirs, strict=True)],
        "peak MB": [
            (a.peak_bytes / 1e6, b.peak_bytes / 1e6) for a, b in zip(ours, theirs, strict=True)
        ],
    }
    return [
        Ratio(
            name="planning",
            ours="dry run",
            peer=peer,
            metric=metric,
            pairs=pairs,
            target=target,
            want=Want.AT_MOST,
        )
        for (metric, pairs), target in zip(metrics.items(), targets, strict=True)
        if peer != "limit" or target is not None
    ]
