"""The machine of a profile: nothing of the one that the tests run on."""

from dataclasses import replace

import pytest

from conf.schema import HardwareConfig
from scalemark.records.machine import DeviceKind
from simulator.costs.box import Hardware, profile
from sweeper import SweepRefusedError
from sweeper.devices.host_lock import HostLock, Lock
from sweeper.devices.machine import hardware_of, inventory_of, machine_of, simulation_problem
from sweeper.devices.slots import DeviceSlots
from sweeper.grid.plan_view import machine_line
from tests.conf.test_resolve import config
from tests.specs import small

DGX = profile("dgx1_p100")


def test_a_profile_makes_a_machine_with_its_gpus():
    machine = machine_of(DGX)
    inventory = inventory_of(machine)
    assert (machine.host, machine.driver, len(machine.gpus)) == (
        "simulated-dgx1_p100",
        "simulated",
        8,
    )
    assert {gpu.name for gpu in machine.gpus} == {"Tesla P100-SXM2-16GB"}
    assert (inventory.kind, inventory.num_devices, inventory.compute_capability) == (
        DeviceKind.SIMULATED_GPU,
        8,
        (6, 0),
    )


def test_other_figures_make_another_machine():
    faster = replace(DGX, pcie_gb_per_s=25.0)
    assert machine_of(faster).key != machine_of(DGX).key
    assert machine_of(faster).host == "simulated-dgx1_p100+pcie_gb_per_s=25.0"


def test_the_machine_tells_its_hardware_to_who_plays_its_trials():
    assert Hardware.from_json(machine_of(DGX).hardware_profile) == DGX


def test_an_inherited_mask_means_nothing_to_simulated_gpus(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    slots = DeviceSlots(inventory_of(machine_of(DGX)), share_host=False)
    grant = slots.take(8)
    assert grant is not None
    assert (len(grant.devices), grant.visible_devices) == (8, "")


def test_simulated_trials_neither_wait_for_nor_block_the_host():
    with HostLock().try_hold(shares_host=False) as held:
        assert held is not None
        with Lock().try_hold(["SIM-dgx1_p100-0"], shares_host=False) as simulated:
            assert simulated is not None
    with Lock().try_hold(shares_host=False), HostLock().try_hold(shares_host=False) as real:
        assert real is not None


def test_every_line_about_the_machine_says_simulated():
    machine = machine_of(DGX)
    line = machine_line(machine, inventory_of(machine))
    assert line.startswith("simulated-dgx1_p100: 8 simulated GPUs like Tesla P100-SXM2-16GB: ")


@pytest.mark.parametrize("chosen", ["auto", "gpu", "cpu"])
def test_the_simulated_engine_wants_a_profile_and_lists_them(chosen):
    with pytest.raises(
        SweepRefusedError,
        match=rf"engine=simulated: hardware={chosen} is no profile; choose one of hardware=dgx1_p100, ",
    ):
        hardware_of(config("engine=simulated", f"hardware={chosen}").hardware)


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        ("pcie_gb_per_s=0", r"pcie_gb_per_s=0: wanted 0\.001 to 1e\+06"),
        ("pcie_gb_per_s=1e308", r"pcie_gb_per_s=1e\+308: wanted 0\.001 to 1e\+06"),
        ("pcie_gb_per_s=1e-300", r"pcie_gb_per_s=1e-300: wanted 0\.001 to 1e\+06"),
        ("launch_us=-1", r"launch_us=-1: wanted 0 to 1e\+06"),
        ("tflops.fp32=1e300", r"tflops\.fp32=1e\+300: wanted 0\.001 to 1e\+06"),
        ("num_gpus=1000", "num_gpus=1000: wanted 1 to 256"),
    ],
)
def test_a_profile_that_cannot_be_is_refused(change, reported):
    with pytest.raises(SweepRefusedError, match=f"hardware.profile: dgx1_p100: {reported}"):
        hardware_of(config("hardware=dgx1_p100", f"hardware.profile.{change}").hardware)


def test_a_box_that_is_no_profile_has_none():
    assert HardwareConfig(device_kind="auto").profile is None


def test_a_missing_link_is_named_with_what_would_supply_it():
    spec = small(
        model="resnet50",
        image_px=224,
        num_classes=1001,
        num_gpus=8,
        variable_update="replicated",
        device_kind=DeviceKind.SIMULATED_GPU,
    )
    blind = replace(profile("p100_pcie_8"), socket_gb_per_s=None)
    assert "hardware.profile.socket_gb_per_s=" in (simulation_problem(spec, blind) or "")
    assert simulation_problem(spec, profile("p100_pcie_8")) is None


def test_what_the_hardware_cannot_do_is_refused_while_planning():
    spec = small(
        model="resnet50",
        image_px=224,
        num_classes=1001,
        precision="fp16",
        device_kind=DeviceKind.SIMULATED_GPU,
    )
    assert "fp16" in (simulation_problem(spec, profile("titanx_pcie_8")) or "")
    assert "model=nobody" in (simulation_problem(replace(spec, model="nobody"), DGX) or "")
