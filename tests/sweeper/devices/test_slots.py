"""Devices and cores are handed out in order, never twice, never wider than inherited, and given back once."""

import os
import random
from dataclasses import replace

import pytest

from scalemark.records.machine import DeviceKind
from sweeper.devices.machine import Inventory
from sweeper.devices.slots import DeviceSlots
from tests.specs import gpu


def gpus(num: int, cores=lambda _: ()) -> Inventory:
    """GPUs 0, 1, ..."""
    boards = tuple(gpu(f"GPU-{n}", cores=tuple(cores(n))) for n in range(num))
    return Inventory(kind=DeviceKind.GPU, gpus=boards, num_devices=num)


def cpu_devices(num: int) -> Inventory:
    return Inventory(kind=DeviceKind.CPU_DEVICE, gpus=(), num_devices=num)


def exclusive(inventory: Inventory, cores=tuple(range(16))) -> DeviceSlots:
    return DeviceSlots(inventory, share_host=False, cores=cores)


def shared(inventory: Inventory, cores=tuple(range(16))) -> DeviceSlots:
    return DeviceSlots(inventory, share_host=True, cores=cores)


TWO_SOCKETS = gpus(8, cores=lambda n: range(8) if n < 4 else range(8, 16))


@pytest.mark.parametrize("num", [1, 2, 4])
def test_an_exclusive_trial_gets_the_first_gpus_of_the_mask(num):
    assert exclusive(gpus(4)).take(num).devices == tuple(range(num))


def test_an_exclusive_trial_runs_on_the_cores_near_its_gpus():
    slots = exclusive(TWO_SOCKETS)
    grant = slots.take(4)
    assert (grant.devices, grant.cores, grant.spare_core) == ((0, 1, 2, 3), tuple(range(8)), 15)
    slots.free(grant)
    assert slots.take(8).cores == tuple(range(15))


@pytest.mark.parametrize("near", [(), (90, 91)])
def test_unknown_near_cores_are_all_allowed_ones(near):
    grant = exclusive(gpus(2, cores=lambda _: near), cores=(3, 5)).take(1)
    assert (grant.cores, grant.spare_core) == ((3, 5), None)


def test_an_exclusive_trial_on_cpu_devices_is_not_pinned():
    grant = exclusive(cpu_devices(4)).take(2)
    assert (grant.cores, grant.spare_core, grant.visible_devices) == ((), None, "")


def test_cores_never_leave_those_of_this_process():
    slots = DeviceSlots(gpus(2), share_host=True)
    assert set(slots.take(1).cores) <= os.sched_getaffinity(0)


@pytest.mark.parametrize(
    "inventory", [gpus(4), gpus(4, cores=lambda _: (7,)), cpu_devices(4), cpu_devices(1)]
)
@pytest.mark.parametrize("share_host", [True, False])
def test_a_process_of_one_core_gives_it_to_every_trial(inventory, share_host):
    slots = DeviceSlots(inventory, share_host=share_host, cores=(7,))
    grant = slots.take(1)
    assert grant.cores in (
        (7,),
        () if inventory.kind is DeviceKind.CPU_DEVICE and not share_host else (7,),
    )
    assert grant.spare_core is None


@pytest.mark.parametrize(("cores", "share_host", "inventory", "spare"), [
    (7, True, gpus(2), None), (8, True, gpus(2), 7), (8, False, gpus(2), 7), (8, True, cpu_devices(2), 7), (8, False, cpu_devices(2), None),
])  # fmt: skip
def test_of_eight_cores_the_last_is_kept_free_for_watchers(cores, share_host, inventory, spare):
    slots = DeviceSlots(inventory, share_host=share_host, cores=tuple(range(cores)))
    grant = slots.take(2)
    assert grant.spare_core == spare
    assert spare not in grant.cores


@pytest.mark.parametrize(
    ("slots", "steps", "devices"),
    [
        # exclusive: one has the host to itself
        (exclusive(gpus(4)), [1, 1, -1, 4], ["0", "", "0123"]),
        # side by side: the first that are free
        (shared(gpus(8)), [1, 2, 4, 1, 1], ["0", "12", "3456", "7", ""]),
        (shared(gpus(4)), [1, 1, 1, 1, -2, -3, 2], ["0", "1", "2", "3", "12"]),
        (shared(cpu_devices(4)), [1, 1, 1, 1, -2, -3, 2], ["0", "1", "2", "3", "12"]),
    ],
)
def test_devices_are_handed_out_while_they_are_free(slots, steps, devices):
    """A step takes so many devices, or gives back the grant of that number."""
    grants, taken = [], []
    for step in steps:
        if step < 0:
            slots.free(grants[-step - 1])
            continue
        fits, grant = slots.fits(step), slots.take(step)
        assert fits == (grant is not None)
        grants.append(grant)
        taken.append("".join(map(str, grant.devices)) if grant else "")
    assert taken == devices


OVERLAPPING = gpus(2, cores=lambda n: (0, 1) if n else (0, 1, 2, 3))


@pytest.mark.parametrize(
    ("inventory", "cores", "nums", "given"),
    [
        # near their GPUs, each its own; a spare one is left for watchers
        (TWO_SOCKETS, range(16), [2] * 4, ["0 1 2 3", "4 5 6 7", "8 9 10", "11 12 13 14"]),
        # threads of one core stay together
        (gpus(2), (0, 2, 1, 3), [1, 1], ["0 2", "1 3"]),
        # near cores that overlap in parts: all are divided
        (OVERLAPPING, range(4), [1, 1], ["0 1", "2 3"]),
        # CPU devices: disjoint where there are enough, else they overlap as little as can be
        (cpu_devices(4), range(7), [1] * 4, ["0", "1 2", "3 4", "5 6"]),
        (cpu_devices(16), (0, 1), [1, 8], ["0", "1"]),
        (cpu_devices(16), (0, 1), [16], ["0 1"]),
    ],
)
def test_trials_side_by_side_have_cores_of_their_own(inventory, cores, nums, given):
    slots = shared(inventory, cores=tuple(cores))
    assert [" ".join(map(str, slots.take(num).cores)) for num in nums] == given


@pytest.mark.parametrize("inventory", [gpus(4), cpu_devices(4)], ids=["gpus", "CPU devices"])
def test_what_another_sweep_has_is_not_handed_out_until_it_is_forgotten(inventory):
    slots = shared(inventory)
    slots.mark_taken([inventory.uuids((0,))[0], "GPU-of-another-machine"])
    slots.mark_taken(inventory.uuids((2,)))
    assert (slots.fits(3), slots.take(3)) == (False, None)
    grants = [slots.take(1) for _ in range(2)]
    assert [grant.devices for grant in grants] == [(1,), (3,)]
    assert not slots.fits(1)
    slots.clear_taken()
    assert [slots.take(1).devices for _ in range(2)] == [(0,), (2,)]


@pytest.mark.parametrize(
    "near", [lambda _: (), lambda n: range(8) if n < 4 else range(8, 16)], ids=["unknown", "known"]
)
def test_sweeps_of_other_gpus_of_one_machine_have_other_cores(near):
    whole = gpus(8, cores=near)
    halves = [
        replace(
            whole,
            gpus=tuple(whole.gpus[n] for n in numbers),
            num_devices=4,
            machine_gpus=whole.gpus,
        )
        for numbers in ((3, 2, 1, 0), (4, 5, 6, 7))
    ]
    grants = [slots.take(1) for slots in map(shared, halves) for _ in range(4)]
    cores = [core for grant in grants for core in grant.cores]
    assert [grant.visible_devices for grant in grants] == [
        f"GPU-{n}" for n in (3, 2, 1, 0, 4, 5, 6, 7)
    ]
    assert sorted(cores) == list(range(15))


def test_sweeps_side_by_side_begin_on_other_cores():
    one, other = (shared(cpu_devices(16), cores=(0, 1)) for _ in range(2))
    other.mark_taken(["cpu-device-0"])
    assert (one.take(1).cores, other.take(1).cores) == ((0,), (1,))


@pytest.mark.parametrize(
    ("inventory", "cores", "wanted"),
    [(gpus(4), 2, 4), (cpu_devices(16), 2, 2), (cpu_devices(3), 6, 3)],
)
def test_trials_run_side_by_side_up_to_the_limit(inventory, cores, wanted):
    slots = shared(inventory, cores=tuple(range(cores)))
    taken = [slots.take(1) for _ in range(20)]
    assert sum(grant is not None for grant in taken) == wanted
    assert not slots.fits(1)


@pytest.mark.parametrize("num", [0, -1, 5])
def test_what_can_never_fit_is_distinguished_from_no_room_now(num):
    for slots in (shared(gpus(4)), exclusive(gpus(4)), shared(cpu_devices(4))):
        for ask in (slots.take, slots.fits):
            with pytest.raises(ValueError, match=f"num_gpus={num} can never fit: wanted 1 to 4"):
                ask(num)


def test_two_mig_devices_can_never_be_one_trials():
    slices = tuple(gpu(f"MIG-{n}", mig_parent="GPU-0") for n in range(56))
    slots = shared(Inventory(kind=DeviceKind.GPU, gpus=slices, num_devices=56))
    assert {slots.take(1).visible_devices for _ in range(56)} == {gpu.uuid for gpu in slices}
    with pytest.raises(ValueError, match="num_gpus=2 can never fit: wanted 1 to 1"):
        slots.take(2)


def test_a_grant_is_given_back_once():
    slots = shared(gpus(4))
    grant = slots.take(2)
    slots.free(grant)
    with pytest.raises(ValueError, match=r"devices \(0, 1\) are not held: freed twice\?"):
        slots.free(grant)


@pytest.mark.parametrize(
    "inventory",
    [gpus(8), TWO_SOCKETS, gpus(6), cpu_devices(8)],
    ids=["8", "sockets", "6", "CPU devices"],
)
def test_whatever_comes_and_goes_nothing_is_held_twice_and_all_comes_back(inventory):
    chance = random.Random(1)
    slots = shared(inventory)
    held = []
    for _ in range(500):
        num = chance.choice([1, 1, 2, 3, 4, inventory.num_devices])
        fitted = slots.fits(num)
        grant = slots.take(num)
        assert fitted == (grant is not None)
        held += [grant] if grant else []
        devices = [device for grant in held for device in grant.devices]
        cores = [core for grant in held for core in grant.cores]
        assert len(devices) == len(set(devices))
        assert len(cores) == len(set(cores))
        assert all(grant.cores and grant.spare_core == 15 for grant in held)
        if held and (not grant or chance.random() < 0.4):
            slots.free(held.pop(chance.randrange(len(held))))
    for grant in held:
        slots.free(grant)
    assert slots.take(inventory.num_devices)
