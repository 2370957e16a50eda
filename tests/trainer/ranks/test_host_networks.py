"""Hosts of one machine reach each other over limited links, which are gone with the processes that had them."""

import json
import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests import host_networks as for_tests
from tests.conftest import PROJECT
from tests.needed import needed
from trainer.errors import UnsupportedTrialError
from trainer.ranks.host_networks import HostNetworks, host_networks

LINKS_CHANGED = 1  # linux/rtnetlink.h: RTMGRP_LINK
LINK_DELETED = 17  # RTM_DELLINK


def socket_on(networks: HostNetworks, host: int, *kind: int) -> socket.socket:
    """Of a host, though this thread is on none."""

    def make() -> socket.socket:
        networks.enter(host)
        return socket.socket(*kind)

    with ThreadPoolExecutor(1) as thread:  # which stays on that host until it ends
        return thread.submit(make).result()


def rates(namespace: int) -> list[float]:
    """Bits per second of all limits in that namespace."""
    command = [
        "nsenter",
        f"--net=/proc/{os.getpid()}/fd/{namespace}",
        "--",
        "tc",
        "-json",
        "qdisc",
        "show",
    ]
    reported = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return [8 * one["options"]["rate"] for one in reported if one["kind"] == "tbf"]


def test_hosts_reach_each_other_by_their_addresses():
    with (
        for_tests.networks(3, 1000) as networks,
        socket_on(networks, 2) as listening,
        socket_on(networks, 0) as calling,
    ):
        listening.bind((networks.addresses[2], 2222))
        listening.listen()
        calling.connect((networks.addresses[2], 2222))
        accepted, (address, _) = listening.accept()
        accepted.close()
    assert networks.addresses == ("10.77.0.1", "10.77.0.2", "10.77.0.3")
    assert address == "10.77.0.1"


def test_a_command_runs_on_its_host():
    with for_tests.networks(2, 0) as networks:
        reported = subprocess.run(
            [*networks.command(1), "ip", "-json", "address", "show", "eth0"],
            capture_output=True,
            check=True,
        )
    (link,) = json.loads(reported.stdout)
    assert link["addr_info"][0]["local"] == "10.77.0.2"


def test_links_are_limited_at_both_ends():
    with for_tests.networks(2, 200) as networks:
        assert rates(networks.switch) == [200e6, 200e6]
        assert [rates(file) for file in networks.files] == [[200e6], [200e6]]


def test_links_of_0_megabits_are_as_they_are():
    with for_tests.networks(2, 0) as networks:
        assert [rates(file) for file in (networks.switch, *networks.files)] == [[], [], []]


def test_two_trials_have_the_same_addresses_side_by_side():
    with for_tests.networks(2, 50) as one, for_tests.networks(2, 50) as other:
        assert one.addresses == other.addresses
        with socket_on(one, 0) as first, socket_on(other, 0) as second:
            for listening in (first, second):
                listening.bind((one.addresses[0], 2222))


def test_links_are_gone_when_their_process_was_killed():
    needed(for_tests.impossible())
    code = """
import signal
from trainer.ranks.host_networks import host_networks
with host_networks(2, 200) as networks:
    print(networks.files[0], flush=True)
    signal.pause()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=PROJECT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        number = int(process.stdout.readline())
        kept = os.open(
            f"/proc/{process.pid}/fd/{number}", os.O_RDONLY
        )  # of a host that lives on, and sees its link end
        with socket_on(
            HostNetworks(files=(kept,), switch=-1), 0, socket.AF_NETLINK, socket.SOCK_RAW, 0
        ) as watching:
            watching.bind((0, LINKS_CHANGED))
            watching.settimeout(300)
            process.send_signal(signal.SIGKILL)
            while int.from_bytes(watching.recv(65536)[4:6], sys.byteorder) != LINK_DELETED:
                pass
        os.close(kept)
        left = subprocess.run(["ip", "-json", "link"], capture_output=True, check=True)
    assert not {"bridge", "port0", "port1"} & {
        link.get("ifname") for link in json.loads(left.stdout)
    }


def test_a_process_without_the_right_is_reported():
    code = """
import os
from trainer.errors import UnsupportedTrialError
from trainer.ranks.host_networks import host_networks
if os.geteuid() == 0:
    os.setuid(65534)
try:
    with host_networks(2, 200):
        pass
except UnsupportedTrialError as error:
    print(error)
"""
    needed(for_tests.impossible())
    reported = subprocess.run(
        [sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True
    ).stdout
    assert reported == (
        "injected.link_mbit: no network namespace: Operation not permitted; this process has not the right; run as root "
        "(CAP_SYS_ADMIN and CAP_NET_ADMIN), or leave injected.link_mbit out\n"
    )


def test_a_machine_without_the_programs_is_reported_how_to_get_them(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    wanted = r"no ip and tc and nsenter on PATH.*run scripts/install-iproute2"
    with pytest.raises(UnsupportedTrialError, match=wanted), host_networks(2, 200):
        pass


def test_more_hosts_than_addresses_are_refused():
    with (
        pytest.raises(UnsupportedTrialError, match="hosts=255: wanted 254 or fewer"),
        host_networks(255, 200),
    ):
        pass


def test_what_the_kernel_refuses_is_reported():
    needed(for_tests.impossible())
    with (
        pytest.raises(UnsupportedTrialError, match="tc could not make the hosts' networks"),
        host_networks(2, 1e-9),
    ):
        pass


def test_in_ci_a_test_without_the_right_fails():
    with pytest.raises(pytest.fail.Exception, match="no right"):
        needed("no right", in_ci=True)
    with pytest.raises(pytest.skip.Exception, match="no right"):
        needed("no right", in_ci=False)
