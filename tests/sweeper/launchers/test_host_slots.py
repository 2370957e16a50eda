"""Several hosts are slots of one loop: whole ones, or parts where trials share a host."""

import pytest

from sweeper.devices.slots import REST_S, HostSlots
from tests.specs import small
from tests.sweeper.loop.fakes import FakeClock

ONE = small(num_gpus=2)
TWO_HOSTS = small(
    num_gpus=4,
    hosts=2,
    variable_update="distributed_replicated",
    local_parameter_device="cpu",
    all_reduce="none",
)


def slots(*, shares: bool = False, names: tuple[str, ...] = ("a", "b", "c")) -> HostSlots:
    return HostSlots(names, per_host=4, on_gpus=True, shares=shares, clock=FakeClock())


@pytest.mark.parametrize(
    ("shares", "specs", "granted"),
    [
        (False, [ONE, ONE, ONE, ONE], [("a",), ("b",), ("c",), None]),
        (True, [ONE, ONE, ONE], [("a",), ("a",), ("b",)]),
        (False, [TWO_HOSTS, ONE, ONE], [("a", "b"), ("c",), None]),
        (True, [ONE, TWO_HOSTS, TWO_HOSTS], [("a",), ("b", "c"), None]),
    ],
)
def test_hosts_are_granted_whole_unless_trials_share_them(shares, specs, granted):
    hosts = slots(shares=shares)
    grants = [hosts.take_for(spec) for spec in specs]
    assert [grant and grant.hosts for grant in grants] == granted
    for grant in filter(None, grants):
        hosts.free(grant)
    assert hosts.fits(hosts.width(TWO_HOSTS))


def test_devices_are_numbered_through_and_seen_by_their_number_on_the_host():
    hosts = slots(shares=True)
    first, second, third = (hosts.take_for(ONE) for _ in range(3))
    assert [grant.devices for grant in (first, second, third)] == [(0, 1), (2, 3), (4, 5)]
    assert [grant.visible_devices for grant in (first, second, third)] == ["0,1", "2,3", "0,1"]
    assert slots().take_for(TWO_HOSTS).rank_start == "prefix"


def test_a_host_that_was_lost_rests_before_it_is_tried_again():
    hosts = slots(names=("a",))
    grant = hosts.take_for(ONE)
    hosts.free(grant, is_lost=True)
    assert hosts.take_for(ONE) is None
    hosts._clock.now_s += REST_S
    assert hosts.take_for(ONE).hosts == ("a",)


def test_an_engine_that_chooses_hosts_is_told_no_names():
    assert slots(names=("", "")).take_for(TWO_HOSTS).hosts == ()


def test_hosts_that_were_lost_come_after_the_others():
    hosts = slots()
    hosts.free(hosts.take_for(TWO_HOSTS), is_lost=True)
    hosts._clock.now_s += REST_S
    assert hosts.take_for(TWO_HOSTS).hosts == ("a", "c")
