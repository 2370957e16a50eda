"""Which GPUs of a trial the process that measures it watches: all that are in its own machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from scalemark.records.devices import DeviceKind
from scalemark.records.placement import Placement
from scalemark.records.trial import TrialSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedGpus:
    # in the order of the replicas; none where the launcher named the GPUs otherwise
    uuids: Sequence[str]
    num_wanted: int  # of which nothing less is a measurement without doubt


def watched(spec: TrialSpec, given: Placement | None) -> WatchedGpus:
    """Of hosts that are processes of one machine all, as the launcher gave them; else those that
    are visible here.
    """
    if spec.device_kind != DeviceKind.GPU:
        return WatchedGpus(uuids=(), num_wanted=0)
    is_one_machine = spec.hosts > 1 and given is not None and not given.rank_start
    visible = (
        given.visible_devices
        if given and is_one_machine
        else os.environ.get("CUDA_VISIBLE_DEVICES", "")
    )
    num_wanted = spec.num_gpus if is_one_machine else spec.gpus_per_host
    uuids = [uuid for uuid in visible.split(",")[:num_wanted] if uuid.startswith(("GPU-", "MIG-"))]
    return WatchedGpus(uuids=uuids, num_wanted=num_wanted)
