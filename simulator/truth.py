"""Computes a simulated step before any noise: the cost model's parts with injected faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace

from costs.step import Costs
from costs.work import Work


def with_injected(costs: Costs, injected: Mapping[str, float], work: Work) -> Costs:
    """Add injected faults, as `TrialSpec.injected_values` has them.

    Gradients are reduced, and batches made, only where they are: one GPU alone never waits for
    `reduction_s`, synthetic data never for `input_s`. All GPUs draw from one pipeline, so that a
    step waits for a batch of each.
    """
    slower_clock = 1 / (1 - injected.get("throttling", 0.0))
    slowest = max(replica_factors(injected, work.num_gpus))  # for which all others wait
    fewer_cores = 1 / (1 - injected.get("contention", 0.0))
    reduction_s = late_s = 0.0
    if work.num_gpus > 1 and costs.communication_s > 0:
        reduction_s = injected.get("reduction_s", 0.0)
    if work.real_data:  # text, too, which takes no time to decode
        late_s = injected.get("input_s", 0.0) * work.num_gpus
    slowed = replace(
        costs,
        compute_s=costs.compute_s * slower_clock * slowest,
        update_s=costs.update_s * slower_clock,
        sync_s=costs.sync_s * slower_clock,
        launch_s=costs.launch_s * fewer_cores + injected.get("launch_s", 0.0),
        host_s=costs.host_s * fewer_cores,
        communication_s=costs.communication_s + reduction_s,
        exposed_s=costs.exposed_s + reduction_s,
        input_s=costs.input_s * fewer_cores + late_s,
    )
    return replace(slowed, step_s=max(slowed.input_s, slowed.busy_s))


def replica_factors(injected: Mapping[str, float], num_gpus: int) -> list[float]:
    """Return how many times as long each replica computes."""
    slow = int(injected.get("slow_replica", 0.0))
    by = injected.get("slow_replica_by", 0.0)
    return [1.0 + by if replica == slow else 1.0 for replica in range(num_gpus)]


def recorded(
    costs: Costs, injected: Mapping[str, float], process_factor: float
) -> dict[str, float]:
    """Return `Result.truth`: seconds per step by part, faults as `injected.NAME`, and the
    factor."""
    found = {name: value for name, value in asdict(costs).items() if not isinstance(value, str)}
    found |= {f"injected.{name}": value for name, value in injected.items()}
    return {name: float(value) for name, value in found.items()} | {
        "process_factor": process_factor
    }
