"""Hosts of one sweep are of one kind and have the same versions; else the plan is refused, with what differs."""

from dataclasses import replace

import pytest

from scalemark.host import software
from scalemark.host.software import VARIABLES
from scalemark.records.machine import DeviceKind
from sweeper.elsewhere import sent_variables
from sweeper.errors import SweepRefusedError
from sweeper.launchers.prefix import Launcher, SeenHost
from tests.conf.test_resolve import config
from tests.filled import MACHINE

FACTS = {"commit": "0" * 40, "kind of host": "A", "cores": 4, "machine": "k", "numpy": "2.0"}
ONE = SeenHost(
    machine=replace(MACHINE, pool="ssh"),
    devices=DeviceKind.CPU_DEVICE,
    num_devices=4,
    software=software.describe(),
    facts=FACTS,
)


def test_variables_that_change_numbers_travel_and_those_of_the_host_do_not():
    sent = sent_variables(dict.fromkeys((f"{name}X" for name in VARIABLES), "1"))
    assert {f"{name}X" for name in VARIABLES} - set(sent) == {"LD_PRELOADX"}
    assert sent_variables({"CUDA_VISIBLE_DEVICES": "1", "PATH": "/bin"}) == sent_variables({})


def with_facts(**facts: object) -> SeenHost:
    return replace(ONE, facts=FACTS | facts)


@pytest.fixture
def hosts(monkeypatch):
    monkeypatch.setattr(software, "commit", lambda: FACTS["commit"])
    monkeypatch.setattr(Launcher, "look", lambda *_, **__: ONE)
    return Launcher(config("launcher=prefix"), "s")


def test_equal_hosts_under_other_names_are_one_machine(hosts):
    other = replace(ONE, machine=replace(ONE.machine, host="another"))
    assert hosts.compare({"a": ONE, "b": other}) is ONE


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (with_facts(cores=9), "a and b differ in cores: 4 and 9, and their results do not mix"),
        (with_facts(numpy="0.1"), "a and b differ in numpy: 2.0 and 0.1"),
        (with_facts(keras="3"), "a and b differ in keras: none and 3"),
    ],
)
def test_what_differs_is_named(hosts, other, said):
    with pytest.raises(SweepRefusedError, match=said):
        hosts.compare({"a": ONE, "b": other})


def test_other_code_than_this_hosts_is_refused(hosts):
    with pytest.raises(SweepRefusedError, match="results of different code are never mixed"):
        hosts.compare({"a": with_facts(commit="2" * 40)})


def test_more_gpus_than_a_host_has_are_refused(hosts):
    with pytest.raises(SweepRefusedError, match=r"8 CPU devices on each host were asked for, .* 4"):
        hosts.inventory_of(ONE, 8)
