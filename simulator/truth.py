"""What a simulated step takes: the cost model's parts with what is planted in them, before any
noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace

from costs.step import Costs
from costs.work import Work


def with_planted(costs: Costs, planted: Mapping[str, float], work: Work) -> Costs:
    """`planted` as `TrialSpec.planted_values` has it; see `scalemark.records.planted.PLANTED`.

    Gradients are reduced, and batches made, only where they are: one GPU alone never waits for
    `reduction_s`, synthetic data never for `input_s`. All GPUs draw from one pipeline, so that a
    step waits for a batch of each.
    """
    slower_clock = 1 / (1 - planted.get("throttling", 0.0))
    fewer_cores = 1 / (1 - planted.get("contention", 0.0))
    reduces = work.num_gpus > 1 and costs.communication_s > 0
    reduction_s = planted.get("reduction_s", 0.0) if reduces else 0.0
    late_s = planted.get("input_s", 0.0) * work.num_gpus if work.real_data else 0.0
    return _summed(
        replace(
            costs,
            compute_s=costs.compute_s * slower_clock,
            update_s=costs.update_s * slower_clock,
            sync_s=costs.sync_s * slower_clock,
            launch_s=costs.launch_s * fewer_cores + planted.get("launch_s", 0.0),
            host_s=costs.host_s * fewer_cores,
            communication_s=costs.communication_s + reduction_s,
            exposed_s=costs.exposed_s + reduction_s,
            input_s=costs.input_s * fewer_cores + late_s,
        )
    )


def told(costs: Costs, planted: Mapping[str, float], process_factor: float) -> dict[str, float]:
    """As `Result.truth` has it: seconds per step by part, planted values as `planted.NAME`, and
    what the process drew.
    """
    parts = {
        name: float(value) for name, value in asdict(costs).items() if not isinstance(value, str)
    }
    return (
        parts
        | {f"planted.{name}": value for name, value in planted.items()}
        | {"process_factor": process_factor}
    )


def _summed(costs: Costs) -> Costs:
    return replace(costs, step_s=max(costs.input_s, costs.busy_s))
