"""Hosts of one sweep are of one kind and have the same versions; else the plan is refused, with what differs."""

from dataclasses import replace

import pytest

from scalemark.host import software
from scalemark.records.machine import DeviceKind
from sweeper.errors import SweepRefusedError
from sweeper.launchers import Elsewheres, SeenHost
from tests.conf.test_resolve import config
from tests.filled import MACHINE

ONE = SeenHost(
    machine=replace(MACHINE, pool="ssh"),
    kind=DeviceKind.CPU_DEVICE,
    num_devices=4,
    host_kind="0123",
    software=software.describe(),
    commit="0" * 40,
)
PACKAGES = ONE.software["packages"]
OTHER_KIND = replace(ONE, machine=replace(ONE.machine, num_cores=999))
OTHER_VERSION = replace(ONE, software=ONE.software | {"packages": PACKAGES | {"numpy": "0.1"}})


@pytest.fixture
def hosts(monkeypatch):
    monkeypatch.setattr(software, "commit", lambda: ONE.commit)
    return Elsewheres(config("launcher=ssh"))


def test_equal_hosts_under_other_names_are_one_machine(hosts):
    other = replace(ONE, machine=replace(ONE.machine, host="another"))
    assert hosts.compare({"a": ONE, "b": other}) is ONE


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (OTHER_KIND, "a and b are different kinds of hosts"),
        (replace(ONE, host_kind="4567"), "a and b are different kinds of hosts"),
        (OTHER_VERSION, f"different versions: numpy {PACKAGES['numpy']} and 0.1"),
        (replace(ONE, commit="1" * 40), "different versions: commit 000000000000 and 111111111111"),
    ],
)
def test_what_differs_is_named(hosts, other, said):
    with pytest.raises(SweepRefusedError, match=said):
        hosts.compare({"a": ONE, "b": other})


def test_other_code_than_this_hosts_is_refused(hosts):
    with pytest.raises(SweepRefusedError, match="results of different code are never mixed"):
        hosts.compare({"a": replace(ONE, commit="2" * 40)})


def test_more_gpus_than_a_host_has_are_refused(hosts):
    with pytest.raises(SweepRefusedError, match=r"8 CPU devices on each host were asked for, .* 4"):
        hosts.inventory_of(ONE, 8, 2, "")
