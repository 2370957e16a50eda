"""What hosts have that were not seen: by the settings, else by what the engine tells; and which trials find room there."""

import pytest

from conf.resolve import Hosts, TrialRefusedError, resolve
from scalemark.records.machine import DeviceKind
from sweeper.devices.agent_hosts import devices_of_hosts
from sweeper.errors import SweepRefusedError
from sweeper.launchers import load
from tests.conf.test_resolve import config

DISTRIBUTED = "variable_update=distributed_replicated"


def refused(gpus_per_host: int | None, *overrides: str) -> str:
    with pytest.raises(SweepRefusedError) as error:
        devices_of_hosts(config("launcher=slurm", *overrides), gpus_per_host)
    return str(error.value)


def test_the_settings_come_first_then_what_the_engine_tells():
    reported = devices_of_hosts(config("launcher=slurm", "launcher.agents.num_hosts=3"), 8)
    assert (reported.kind, reported.num_devices, reported.num_hosts, reported.is_per_host) == (
        DeviceKind.GPU,
        8,
        3,
        True,
    )
    assert (
        devices_of_hosts(config("launcher=slurm", "launcher.agents.gpus_per_host=4"), 8).num_devices
        == 4
    )
    cpu_devices = devices_of_hosts(
        config("launcher=slurm", "hardware=cpu", "hardware.num_cpu_devices=2"), 8
    )
    assert (cpu_devices.kind, cpu_devices.num_devices) == (DeviceKind.CPU_DEVICE, 2)
    assert devices_of_hosts(config("launcher=slurm"), 0).kind is DeviceKind.CPU_DEVICE


def test_what_is_left_open_or_contradicted_is_refused():
    assert (
        "the number of GPUs per host is unknown; set launcher.agents.gpus_per_host=8, or choose hardware=cpu"
        in refused(None)
    )
    assert "launcher=slurm knows hosts with 4 at most" in refused(
        4, "launcher.agents.gpus_per_host=8"
    )
    assert "with hardware=cpu each host has hardware.num_cpu_devices; leave it out" in refused(
        None, "hardware=cpu", "launcher.agents.gpus_per_host=8"
    )
    assert "knows no host with GPUs; choose hardware=cpu" in refused(0, "hardware=gpu")
    assert "launcher.agents.num_hosts=0: wanted 1 or more" in refused(
        8, "launcher.agents.num_hosts=0"
    )
    assert "launcher.agents.gpus_per_host=0: wanted 1 or more, or null" in refused(
        8, "launcher.agents.gpus_per_host=0"
    )
    assert "hardware.num_cpu_devices=0: wanted 1 or more" in refused(
        8, "hardware=cpu", "hardware.num_cpu_devices=0"
    )


def test_a_trial_may_have_as_many_devices_as_its_hosts_together():
    two = Hosts(most=2, remedy="raise it")
    assert (
        resolve(
            config(DISTRIBUTED, "num_gpus=8", "hosts=2"), DeviceKind.CPU_DEVICE, 4, hosts=two
        ).gpus_per_host
        == 4
    )
    with pytest.raises(
        TrialRefusedError, match="num_gpus=16 hosts=2: 8 on each host, which has 4 CPU devices"
    ):
        resolve(config(DISTRIBUTED, "num_gpus=16", "hosts=2"), DeviceKind.CPU_DEVICE, 4, hosts=two)
    with pytest.raises(TrialRefusedError, match="hosts=4: here a trial has 2 at most; raise it"):
        resolve(config(DISTRIBUTED, "num_gpus=4", "hosts=4"), DeviceKind.CPU_DEVICE, 4, hosts=two)


def test_hosts_that_are_processes_of_this_machine_share_its_devices():
    assert (
        resolve(config(DISTRIBUTED, "num_gpus=4", "hosts=2"), DeviceKind.CPU_DEVICE, 4).hosts == 2
    )
    with pytest.raises(TrialRefusedError, match="num_gpus=8: there are 4 CPU devices"):
        resolve(config(DISTRIBUTED, "num_gpus=8", "hosts=2"), DeviceKind.CPU_DEVICE, 4)


def test_agents_that_people_start_run_trials_of_one_host():
    here = load(config("launcher=agents", "hardware=cpu")).check()
    assert here.num_hosts == 1
    assert (
        here.more_hosts
        == "choose launcher=ray or slurm, or launcher=local, whose hosts are processes of this machine"
    )


def test_a_launcher_without_its_file_is_refused_by_name():
    asked = config("launcher=agents")
    asked.launcher.name = "kubernetes"
    with pytest.raises(
        SweepRefusedError,
        match=r"launcher=kubernetes: sweeper/launchers/kubernetes.py is missing",
    ):
        load(asked)
