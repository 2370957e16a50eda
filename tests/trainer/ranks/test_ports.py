"""Attempts side by side never get the same port."""

import os
import signal
import socket
import subprocess
import sys

import pytest

from trainer import own_rank
from trainer.own_rank import reserved_ports


def test_ports_are_reserved_and_free():
    with reserved_ports(3) as first, reserved_ports(3) as second:
        assert len({*first, *second}) == 6
        for port in (*first, *second):
            with socket.create_server(("127.0.0.1", port)):
                pass


def test_a_port_in_use_is_passed_over(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        used = server.getsockname()[1]
        monkeypatch.setattr(own_rank, "PORTS", range(used, used + 1))
        with (
            pytest.raises(OSError, match=rf"1 free ports wanted, 0 found of {used} to {used}"),
            reserved_ports(1),
        ):
            pass


def test_ports_of_a_killed_process_can_be_reserved_again(monkeypatch):
    monkeypatch.setattr(own_rank, "PORTS", range(31_800, 31_803))
    program = """
import signal
from trainer import own_rank
own_rank.PORTS = range(31_800, 31_803)
with own_rank.reserved_ports(3):
    print("reserved", flush=True)
    signal.pause()
"""
    holder = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    with holder:
        assert holder.stdout.readline() == "reserved\n"
        with pytest.raises(OSError, match="0 found"), reserved_ports(1):
            pass
        os.kill(holder.pid, signal.SIGKILL)
    with reserved_ports(3) as again:
        assert len(again) == 3
