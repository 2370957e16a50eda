"""On a terminal of 80 characters a table has fewer columns, and no word of it is broken."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest

from tests.filled import fill
from tests.specs import small

pytestmark = pytest.mark.integration


def on_a_terminal(width: int, *arguments: str) -> list[str]:
    """Its lines."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")
    }
    command = [sys.executable, "-m", "scalemark", *arguments, "--db", "r.db"]
    with subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, env=environment | {"TERM": "xterm"}
    ) as process:
        os.close(slave)
        reported = b""
        while piece := _read(master):
            reported += piece
    os.close(master)
    assert process.returncode == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", reported.decode()).splitlines()


def _read(master: int) -> bytes:
    try:
        return os.read(master, 65536)
    except OSError:  # how Linux tells that the other end is closed
        return b""


@pytest.fixture(autouse=True)
def filled() -> None:
    specs = [small(num_gpus=4, all_reduce="pscpu", model="resnet18_cifar"), small(model="vgg16")]
    fill("r.db", [(specs[0], 12345.0), (specs[1], None)], name="a_name_as_long_as_people_like")


def test_a_list_has_a_line_per_attempt():
    lines = on_a_terminal(80, "list")
    assert max(map(len, lines)) <= 80
    reported = next(number for number, line in enumerate(lines) if line.startswith("left out"))
    assert " ".join(" ".join(lines[reported:]).split()) == (
        "left out for width: device_kind, data, precision, trial, repeat, sweep; --json has them"
    )
    first, second = (line.split() for line in lines[reported - 2 : reported])
    assert first == [
        "1",
        "resnet18_cifar",
        "replicated_pscpu",
        "4",
        "2",
        "completed",
        "12345",
        "valid",
    ]
    assert second == ["2", "vgg16", "replicated_none", "1", "2", "failed"]
    assert "throughput" in " ".join(lines[:2]).split()


def test_a_wide_terminal_and_who_names_columns_get_all_of_them():
    assert "a_name_as_long_as_people_like" in on_a_terminal(200, "list")[1]
    assert "device_kind" in on_a_terminal(200, "list")[0]
    assert not any("left out" in line for line in on_a_terminal(200, "list"))
    assert [line.split() for line in on_a_terminal(80, "list", "--columns", "sweep,data")][1:] == [
        ["a_name_as_long_as_people_like", "synthetic"]
    ] * 2


def test_where_words_would_be_cut_each_cell_has_a_line():
    """A bug: columns of two letters, as `al` above `re`."""
    lines = on_a_terminal(40, "list")
    assert {"model: vgg16", "model: resnet18_cifar"} <= set(lines)
    assert max(map(len, lines)) <= 40
