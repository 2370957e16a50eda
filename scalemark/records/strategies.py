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
"""The five columns of the cloud article (source 004): variable_update, local_parameter_device,
all_reduce -> name.
"""

STRATEGY_NAMES = STRATEGY_COLUMNS | {
    ("distributed_parameter_server", "cpu", "none"): "distributed_ps",
    ("distributed_replicated", "cpu", "none"): "distributed_replicated",
    ("distributed_all_reduce", "gpu", "ring"): "distributed_ring",
    ("distributed_all_reduce", "gpu", "nccl"): "distributed_nccl",
    ("multi_worker_mirrored", "gpu", "ring"): "multi_worker_mirrored_ring",
    ("multi_worker_mirrored", "gpu", "nccl"): "multi_worker_mirrored_nccl",
}
"""All that `strategy=NAME` can choose which train one model: the article's, and those that can go
over several hosts.
"""


def strategy_name(variable_update: str, local_parameter_device: str, all_reduce: str) -> str:
    """The name of a combination where it has one, else a name made of its parts."""
    if named := STRATEGY_NAMES.get((variable_update, local_parameter_device, all_reduce)):
        return named
    told = [
        variable_update,
        "" if all_reduce == "none" else all_reduce,
        "cpu" if local_parameter_device == "cpu" else "",
    ]
    return "_".join(filter(None, told))
