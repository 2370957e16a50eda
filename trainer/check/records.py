"""What the self-check asks a process to check, and what it is told."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from scalemark.records.devices import DeviceKind
from scalemark.records.strategies import strategy_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """A way of sharing variables and reducing gradients."""

    variable_update: str
    local_parameter_device: str
    all_reduce: str
    is_distributed: bool = False  # checked over several hosts

    @property
    def name(self) -> str:
        return strategy_name(self.variable_update, self.local_parameter_device, self.all_reduce)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing looked at in one mode. `problem` is empty when it is as it must be."""

    mode: str
    options: str  # what differs from the plain mode, as overrides; "-" for nothing
    # passed, failed, unsupported: it cannot run here, or not reached: its mode's time was over, or
    # somebody interrupted
    outcome: str
    problem: str = ""  # what is wrong, or why it cannot run or was not reached
    difference: float | None = None  # largest absolute difference of any weight from the reference
    loss_difference: float | None = None  # of the last step's loss from the reference's
    bound: float | None = None  # that both must be under
    throughput: float | None = None  # of a short run; none for checks of exactness


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """The devices the checks run on."""

    kind: str  # cpu_device, logical_gpu, gpu
    num_replicas: int  # of all hosts
    num_hosts: int = 1  # more are processes of this machine
    model: str = ""  # of the user's own, as my_model.py:build; empty: small ones of ours
    model_digest: str = ""

    @property
    def device_kind(self) -> str:
        """The kind that its trials name."""
        return str(DeviceKind.GPU) if self.kind == "logical_gpu" else self.kind

    @property
    def described(self) -> str:
        per_host = self.num_replicas // self.num_hosts
        if self.kind == "logical_gpu":
            devices = f"{per_host} logical GPU{'s' if per_host > 1 else ''} cut from one GPU"
        else:
            devices = DeviceKind(self.kind).counted(per_host)
        if self.num_hosts == 1:
            return devices
        return f"{self.num_hosts} hosts with {devices} each (processes of this machine)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The checks of one mode that a process makes, because they need the same environment."""

    mode: Mode
    bench: Bench
    precisions: tuple[str, ...]  # with fp32 come the checks that vary something else

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Part:
        found = json.loads(text)
        return cls(
            mode=Mode(**found["mode"]),
            bench=Bench(**found["bench"]),
            precisions=tuple(found["precisions"]),
        )
