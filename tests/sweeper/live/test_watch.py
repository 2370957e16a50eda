"""`python -m sweeper status --watch` on a real terminal: it shows what lands, and ends with the sweep."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from scalemark.host.processes import this_process
from scalemark.records.machine import DeviceKind
from store.sweeps.ledger import Ledger
from store.writer import Writer
from tests.filled import NOON, PLACEMENT, SIMULATED_MACHINE, attempt, begin, fill
from tests.specs import small

pytestmark = pytest.mark.integration

PATIENCE_S = 180
TWO = small(num_gpus=2)


class Terminal:
    """Runs the command, and keeps all that it wrote."""

    def __init__(
        self, *arguments: str, width: int = 100, height: int = 40, env: dict[str, str] | None = None
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        environment = {
            name: value
            for name, value in os.environ.items()
            if name not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")
        }
        command = [sys.executable, "-m", "sweeper", "status", "--watch", *arguments]
        self.process = subprocess.Popen(
            command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment | {"TERM": "xterm"} | (env or {}),
            start_new_session=True,
        )
        os.close(slave)
        self._raw = b""

    @property
    def written(self) -> str:
        """Everything, without escapes."""
        return self._text.replace("\r", "")

    @property
    def lines(self) -> list[str]:
        """Everything, without escapes; what is drawn anew begins a line of its own."""
        return re.split(r"[\r\n]+", self._text)

    @property
    def _text(self) -> str:
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self._raw.decode(errors="replace"))

    def wait_for(self, text: str) -> None:
        """In what is written from now on."""
        deadline, since = time.monotonic() + PATIENCE_S, len(self.written)
        while text not in self.written[since:]:
            left_s = max(0.0, deadline - time.monotonic())
            assert select.select([self._master], [], [], left_s)[0], (
                f"no {text!r} in {self.written[since:][-2000:]}"
            )
            assert self._read(), f"it ended without {text!r}: {self.written[since:][-2000:]}"

    def rest(self) -> str:
        """What is written until it ends."""
        since = len(self.written)
        while self._read():
            pass
        self.process.wait()
        return self.written[since:]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)

    def _read(self) -> bool:
        """False at the end."""
        try:
            piece = os.read(self._master, 65536)
        except OSError:  # how Linux tells that the other end is closed
            return False
        self._raw += piece
        return bool(piece)


@contextmanager
def watching(*arguments: str, **options: object) -> Iterator[Terminal]:
    terminal = Terminal(*arguments, **options)
    try:
        yield terminal
    finally:
        terminal.close()


@contextmanager
def running(name: str, db: str = "results.db") -> Iterator[Ledger]:
    """A sweep of three repeats that this process runs."""
    writer = Writer(db)
    try:
        yield begin(
            writer,
            {small(): 2, TWO: 1},
            name=name,
            wanted_repeats=2,
            process=this_process(),
            started_at=datetime.now(UTC),
        )
    finally:
        writer.close()


def run_next(ledger: Ledger, throughput: float | None) -> None:
    repeat = ledger.open_repeats()[0]
    ledger.claim(repeat, NOON)
    ledger.run(repeat, "/runs/1", PLACEMENT, datetime.now(UTC))
    spec = small() if repeat.trial_id == small().trial_id else TWO
    ledger.finish(repeat.repeat_id, attempt(spec, throughput, repeat=repeat.repeat), NOON)


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_results_are_shown_as_they_land_until_the_sweep_has_ended(engine, request):
    db = "results.db" if engine == "sqlite" else request.getfixturevalue("postgresql_url")
    fill(db, [(small(model="vgg16"), 10.0)], name="before")
    with running("mine", db) as ledger, watching("--db", db) as terminal:
        terminal.wait_for("0 completed   0 running   3 pending")
        assert "vgg16" not in terminal.written
        run_next(ledger, 100.0)
        terminal.wait_for("100.00 images/s  trivial-replicated_none-x1")
        run_next(ledger, None)
        terminal.wait_for("1 failed: 1 failed")
        ledger.end(NOON, finished=True)
        last = terminal.rest()
    assert terminal.process.returncode == 0
    assert "finished 2026-11-21 12:00:00 UTC" in last


def test_without_a_sweep_that_runs_one_that_begins_is_waited_for():
    fill("results.db", [(small(model="vgg16"), 10.0)], name="before")
    with watching() as terminal:
        terminal.wait_for("no sweep is running; one that begins is shown")
        terminal.wait_for("sweep before")
        with running("mine") as ledger:
            terminal.wait_for("sweep mine")
            run_next(ledger, 100.0)
            ledger.end(NOON, finished=False)
            last = terminal.rest()
    assert terminal.process.returncode == 0
    assert "ended; what is left is run by: python sweep.py" in last
    assert "vgg16" not in last


def test_a_sweep_that_has_ended_before_is_shown_and_that_is_all():
    fill("results.db", [(small(), 100.0), (TWO, None)], name="before")
    with watching("--sweep", "before") as terminal:
        last = terminal.rest()
    assert terminal.process.returncode == 0
    assert "finished 2026-11-21 12:00:00 UTC" in last


def test_a_sweep_whose_process_was_killed_is_said_to_be():
    writer = Writer("results.db")
    begin(writer, {small(): 2}, name="mine")
    writer.close()
    with watching("--sweep", "mine") as terminal:
        last = terminal.rest()
    assert terminal.process.returncode == 0
    assert "killed; what is left is run by: python sweep.py" in last


def test_ctrl_c_leaves_what_was_shown_and_is_known_from_the_exit_code():
    fill("results.db", [(small(), 100.0)])
    with watching() as terminal:
        terminal.wait_for("sweep first")
        os.killpg(terminal.process.pid, signal.SIGINT)
        last = terminal.rest()
    assert terminal.process.returncode == 130
    assert "Traceback" not in last


def test_a_missing_database_is_waited_for():
    with watching(width=200) as terminal:
        terminal.wait_for(
            "results.db: no such database; run a sweep first, or name another with --db FILE or SCALEMARK_DB; waiting for it"
        )
        fill("results.db", [(small(), 100.0)])
        terminal.wait_for("100.00 images/s")
        for path in Path().glob("results.db*"):
            path.unlink()
        terminal.wait_for("results.db: no such database")
        fill("results.db", [(small(), 50.0)])
        terminal.wait_for("50.00 images/s  trivial")
        assert terminal.process.poll() is None, "it goes on watching"


def test_a_name_that_no_sweep_has_is_refused_at_once():
    fill("results.db", [(small(), 100.0)])
    with watching("--sweep", "misspelt") as terminal:
        last = terminal.rest()
    assert terminal.process.returncode == 2
    assert "misspelt: no such sweep" in last


def test_a_simulated_sweep_that_runs_is_watched_without_being_asked_for():
    writer = Writer("results.db")
    spec = small(device_kind=DeviceKind.SIMULATED_GPU)
    ledger = begin(
        writer, {spec: 1}, name="simulated", machine=SIMULATED_MACHINE, process=this_process()
    )
    with watching() as terminal:
        terminal.wait_for("sweep simulated")
        (repeat,) = ledger.open_repeats()
        ledger.claim(repeat, NOON)
        number = ledger.run(repeat, "/runs/x", PLACEMENT, NOON)
        ledger.finish(repeat.repeat_id, attempt(spec, 617.0, number=number), NOON)
        terminal.wait_for("617.00 images/s  simulated trivial")
        ledger.end(NOON, finished=True)
        terminal.rest()
    writer.close()
    assert terminal.process.returncode == 0


def test_where_nobody_watches_it_is_reported_once():
    command = [sys.executable, "-m", "sweeper", "status", "--watch"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 2
    fill("results.db", [(small(), 100.0), (TWO, None)], name="before")
    reported = subprocess.run(command, capture_output=True, text=True, check=False)
    assert reported.returncode == 0
    assert reported.stdout.startswith("sweep before\n")
    assert "\x1b" not in reported.stdout
