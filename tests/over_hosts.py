"""Trials over one host and over several: one curve, on which a number of GPUs does not yet tell the trial."""

from dataclasses import replace

from scalemark.records.trial import TrialSpec
from tests.filled import PLACEMENT
from tests.specs import small

WAYS = {
    "distributed_ring": {
        "variable_update": "distributed_all_reduce",
        "local_parameter_device": "gpu",
        "all_reduce": "ring",
    },
    "distributed_ps": {
        "variable_update": "distributed_parameter_server",
        "local_parameter_device": "cpu",
        "all_reduce": "none",
    },
    "replicated_none": {},
}
"""Strategy -> its axes; the last is of one host."""

SPREADS = ((1, 1), (2, 1), (4, 1), (2, 2), (4, 2), (8, 2), (4, 4), (8, 4))
"""Replicas, and over how many hosts."""

OVER_TWO_MACHINES = replace(PLACEMENT, hosts=("node1", "node2"))


def spread(strategy: str, num_gpus: int, hosts: int = 1, **axes: object) -> TrialSpec:
    return small(**{"num_gpus": num_gpus, "hosts": hosts} | WAYS[strategy] | axes)


def mixed(**axes: object) -> list[tuple[TrialSpec, float]]:
    """Every number is of one trial alone: no two are alike, and neither are their means."""
    shown = [
        (way, *of) for way in WAYS for of in SPREADS if of[1] == 1 or way.startswith("distributed")
    ]
    return [
        (spread(*of, **axes), 100.0 * of[1] * 0.9**number + 0.37 * number**2)
        for number, of in enumerate(shown)
    ]
