"""Sends the part of the config that agents heed through the database, as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from conf.schema import (
    AgentsConfig,
    Config,
    HardwareConfig,
    LauncherConfig,
    OnFailure,
    RetryConfig,
    SweepConfig,
)
from scalemark.records.axes import Engine
from scalemark.records.machine import DeviceKind
from sweeper.agents.same_code import Code
from sweeper.devices.machine import Inventory
from sweeper.program_software import Words

REFUSED = "refused: "
"""Begins the note of an agent that does not run anything, and will not when it is started again;
the reason follows.
"""

_Settings = TypeVar("_Settings", LauncherConfig, RetryConfig, AgentsConfig)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedSettings:
    """The settings of one shared sweep, as its agents heed them."""

    code: Code  # that the sweep was begun with
    runs_dir: str  # absolute; a folder that all hosts see
    engine: Engine
    folder: str  # absolute; that the sweep was started in
    programs: Words  # of the user's own
    hardware: HardwareConfig
    num_devices: int  # of each host
    launcher: LauncherConfig
    retry: RetryConfig
    sweep: SweepConfig

    @property
    def lease_s(self) -> float:
        return self.launcher.agents.lease_s

    def to_json(self) -> dict[str, Any]:
        launcher = self.launcher
        return {
            "code": asdict(self.code),
            "runs_dir": self.runs_dir,
            "engine": self.engine.name,
            "folder": self.folder,
            "programs": self.programs,
            "device_kind": self.hardware.device_kind,
            "num_devices": self.num_devices,
            "lease_s": self.lease_s,
            "pool": launcher.agents.pool,
            "launcher": _reported(launcher),
            "retry": _reported(self.retry),
            "on_failure": self.sweep.on_failure.name,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> SharedSettings:
        launcher = _filled(LauncherConfig(), values["launcher"])
        launcher.agents = AgentsConfig(lease_s=values["lease_s"], pool=values["pool"])
        return cls(
            code=Code.from_json(values["code"]),
            runs_dir=values["runs_dir"],
            engine=Engine[values["engine"]],
            folder=values["folder"],
            programs=values["programs"],
            hardware=HardwareConfig(
                device_kind=values["device_kind"], num_cpu_devices=values["num_devices"]
            ),
            num_devices=values["num_devices"],
            launcher=launcher,
            retry=_filled(RetryConfig(), values["retry"]),
            sweep=SweepConfig(on_failure=OnFailure[values["on_failure"]]),
        )


def shared_settings(
    config: Config, inventory: Inventory, runs_dir: str, programs: Words = ()
) -> SharedSettings:
    """Return the settings of a sweep on hosts with these devices, started in this folder."""
    kind = {DeviceKind.GPU: "gpu", DeviceKind.CPU_DEVICE: "cpu_device"}[inventory.kind]
    return SharedSettings(
        code=Code.here(),
        runs_dir=runs_dir,
        engine=config.engine,
        folder=str(Path.cwd()),
        programs=programs,
        hardware=HardwareConfig(device_kind=kind, num_cpu_devices=inventory.num_devices),
        num_devices=inventory.num_devices,
        launcher=config.launcher,
        retry=config.retry,
        sweep=config.sweep,
    )


def _reported(settings: object) -> dict[str, Any]:
    """Return plain values; what is a group of its own is sent apart, or meant for the controller
    alone.
    """
    assert is_dataclass(settings)
    values = {field.name: getattr(settings, field.name) for field in fields(settings)}
    return {
        name: value.name if isinstance(value, Enum) else value
        for name, value in values.items()
        if not is_dataclass(value)
    }


def _filled(settings: _Settings, values: Mapping[str, Any]) -> _Settings:
    for name, value in values.items():
        default = getattr(settings, name)
        setattr(settings, name, type(default)[value] if isinstance(default, Enum) else value)
    return settings
