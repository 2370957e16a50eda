"""The named strategies: combinations of variable update, parameter device, and all-reduce."""

from __future__ import annotations

STRATEGY_AXES = ("variable_update", "local_parameter_device", "all_reduce")
"""The axes that together are one strategy: a row of the article's tables."""

STRATEGY_COLUMNS = {
    ("parameter_server", "cpu", "none"): "ps_cpu",
    ("parameter_server", "gpu", "none"): "ps_gpu",
    ("replicated", "gpu", "nccl"): "replicated_nccl",
    ("replicated", "gpu", "none"): "replicated_none",
    ("replicated", "gpu", "pscpu"): "replicated_pscpu",
}
"""The strategies of the cloud article (source 004): values of STRATEGY_AXES -> name."""

STRATEGY_NAMES = STRATEGY_COLUMNS | {
    ("sharded", "gpu", "none"): "sharded",
    ("sharded", "gpu", "nccl"): "sharded_nccl",
    ("distributed_parameter_server", "cpu", "none"): "distributed_ps",
    ("distributed_replicated", "cpu", "none"): "distributed_replicated",
    ("distributed_all_reduce", "gpu", "ring"): "distributed_ring",
    ("distributed_all_reduce", "gpu", "nccl"): "distributed_nccl",
    ("distributed_sharded", "gpu", "ring"): "distributed_sharded",
    ("multi_worker_mirrored", "gpu", "ring"): "multi_worker_mirrored_ring",
    ("multi_worker_mirrored", "gpu", "nccl"): "multi_worker_mirrored_nccl",
    ("process_per_gpu", "gpu", "nccl"): "process_per_gpu_nccl",
    ("process_per_gpu", "gpu", "ring"): "process_per_gpu_ring",
}
"""The strategies that `strategy=NAME` can choose: the article's, sharded and distributed ones."""


def strategy_name(variable_update: str, local_parameter_device: str, all_reduce: str) -> str:
    """Return the name of a combination, made of its parts where it has none of its own."""
    axes = (variable_update, local_parameter_device, all_reduce)
    if axes in STRATEGY_NAMES:
        return STRATEGY_NAMES[axes]
    parts = [variable_update]
    if all_reduce not in ("none", ""):
        parts.append(all_reduce)
    if local_parameter_device == "cpu":
        parts.append("cpu")
    return "_".join(parts)
