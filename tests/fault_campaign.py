"""Runs a real sweep, breaks it again and again, repeats its command until it ends well, and counts what is in the database.

`python -m tests.fault_campaign --faults 40 --seed 1` is the longest one; `tests/test_fault_campaign.py` holds shorter ones.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

PROJECT = Path(__file__).resolve().parent.parent
MARK = "SCALEMARK_CAMPAIGN"  # environment variable by which all processes of a campaign are found
MOST_ROUNDS = 30
WITHIN_S = 300.0  # of a sweep that nothing disturbs any more; and of whatever else is waited for


@dataclass(slots=True)
class Campaign:
    """One sweep, the faults it is to survive, and what happened."""

    folder: Path
    overrides: list[str]
    num_trials: int
    repeats: int
    seed: int
    num_faults: int
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    injected: Counter[str] = field(default_factory=Counter)
    exit_codes: list[list[int]] = field(default_factory=list)  # of each round
    num_rivals: int = 1  # sweeps that run at once, with the same command
    faults: Sequence[str] = ()  # only these; none: all that can be

    @property
    def database(self) -> Path:
        return self.folder / "results.db"

    def run(self) -> None:
        """Until all commands of a round end with 0 and no faults are left. Raises TimeoutError when that never comes."""
        chance = random.Random(self.seed)
        names = _in_turns(self.faults or self.possible_faults(), chance)
        name = next(names)
        for _ in range(MOST_ROUNDS):
            processes = [self._start(number) for number in range(self.num_rivals)]
            while self.num_faults > self.injected.total() and (victim := self._wait_for_work(processes, chance)):
                if FAULTS[name](self, victim):
                    self.injected[name] += 1
                    name = next(names)
            exit_codes = [process.wait(WITHIN_S) for process in processes]
            self.exit_codes.append(exit_codes)
            if not any(exit_codes):
                return
        raise TimeoutError(f"not through after {MOST_ROUNDS} commands: {self.exit_codes}; see {self.folder / 'sweep0.log'}")

    def possible_faults(self) -> set[str]:
        """All, but only a small disk of the campaign's own is filled, and where attempts are spawned there is no fork server."""
        impossible = set() if self.folder.is_mount() else {"full disk"}
        return set(FAULTS) - impossible - ({"kill -9 fork server"} if "launcher.start=spawn" in self.overrides else set())

    def problems(self) -> list[str]:
        """What is not as it must be: every repeat completed exactly once, nothing lost, nothing left running."""
        found = []
        with closing(sqlite3.connect(self.database)) as connection:
            completed = dict(
                connection.execute("SELECT trial_id, count(*) FROM attempts WHERE outcome = 'completed' GROUP BY trial_id")
            )
            if set(completed.values()) != {self.repeats} or len(completed) != self.num_trials:
                found.append(f"completed {completed}, wanted {self.num_trials} trials x {self.repeats}")
            (check,) = connection.execute("PRAGMA integrity_check").fetchone()
            if check != "ok":
                found.append(f"the database is damaged: {check}")
            samples = dict(connection.execute("SELECT attempt_id, count(*) FROM step_samples GROUP BY attempt_id"))
            of_completed = "SELECT attempt_id, run_dir FROM latest_attempts WHERE outcome = 'completed'"
            for attempt_id, run_dir in connection.execute(of_completed):
                lines = len((Path(run_dir) / "steps.jsonl").read_text().splitlines())
                if samples.get(attempt_id, 0) != lines:
                    found.append(f"attempt {attempt_id}: {samples.get(attempt_id, 0)} samples of {lines}")
            in_flight = connection.execute("SELECT count(*) FROM repeats WHERE state IN ('claimed', 'running')").fetchone()
            if in_flight != (0,):
                found.append(f"{in_flight[0]} repeats are still claimed or running")
        results = [json.loads(path.read_text())["outcome"] for path in self.folder.glob("runs/*/*/result.json")]
        if results.count("completed") != sum(completed.values()):
            found.append(f"{results.count('completed')} run folders are completed, {sum(completed.values())} attempts")
        found.extend(f"left running: {process}" for process in self.processes())
        return found

    def processes(self) -> list[psutil.Process]:
        """All of this campaign that live."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == self.mark:
                    found.append(process)
        return found

    def trainers(self, orchestrator: subprocess.Popen[bytes]) -> list[psutil.Process]:
        own = _children(orchestrator)
        forked = [trainer for server in own if _runs(server, "trainer.fork_server") for trainer in _children(server)]
        return forked + [process for process in own if _runs(process, "trainer")]

    def servers(self, orchestrator: subprocess.Popen[bytes]) -> list[psutil.Process]:
        return [process for process in _children(orchestrator) if _runs(process, "trainer.fork_server")]

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, str(PROJECT / "sweep.py"), "-m", *self.overrides, f"sweep.repeats={self.repeats}"]
        environment = {**os.environ, MARK: self.mark, "SCALEMARK_LOCK_DIR": str(self.folder / "locks")}
        with (self.folder / f"sweep{number}.log").open("ab") as log:
            return subprocess.Popen(command, cwd=self.folder, env=environment, stdout=log, stderr=log)

    def _wait_for_work(self, processes: list[subprocess.Popen[bytes]], chance: random.Random) -> subprocess.Popen[bytes] | None:
        """The sweep whose trainer runs, a little later; None when all have ended."""
        deadline = time.monotonic() + WITHIN_S
        while alive := [process for process in processes if process.poll() is None]:
            if found := [process for process in alive if self.trainers(process)]:
                victim = chance.choice(found)
                with suppress(subprocess.TimeoutExpired):
                    victim.wait(chance.uniform(0.0, 2.0))
                if victim.poll() is None:
                    return victim
            if time.monotonic() > deadline:
                raise TimeoutError(f"no trainer within {WITHIN_S:g} s; see {self.folder / 'sweep0.log'}")
            time.sleep(0.05)
        return None


def _in_turns(names: Iterable[str], chance: random.Random) -> Iterator[str]:
    """Each once before any comes again, in random orders."""
    ordered = sorted(names)
    while True:
        yield from chance.sample(ordered, len(ordered))


def _children(process: subprocess.Popen[bytes] | psutil.Process) -> list[psutil.Process]:
    try:
        return psutil.Process(process.pid).children()
    except psutil.NoSuchProcess:
        return []


def _runs(process: psutil.Process, module: str) -> bool:
    """False, too, for one that has ended, be it a zombie still."""
    try:
        return module in process.cmdline()
    except psutil.NoSuchProcess:
        return False


def _kill_orchestrator(campaign: Campaign, process: subprocess.Popen[bytes]) -> bool:
    process.kill()
    process.wait()
    return True


def _kill_server(campaign: Campaign, process: subprocess.Popen[bytes]) -> bool:
    return _signal_first(campaign.servers(process), signal.SIGKILL)


def _kill_trainer(campaign: Campaign, process: subprocess.Popen[bytes]) -> bool:
    return _signal_first(campaign.trainers(process), signal.SIGKILL)


def _stop_trainer(campaign: Campaign, process: subprocess.Popen[bytes]) -> bool:
    return _signal_first(campaign.trainers(process), signal.SIGSTOP)


def _signal_first(processes: list[psutil.Process], number: signal.Signals) -> bool:
    """False when there is none, or it ended meanwhile."""
    try:
        processes[0].send_signal(number)
    except (IndexError, psutil.NoSuchProcess):
        return False
    return True


def _lock_database(campaign: Campaign, process: subprocess.Popen[bytes]) -> bool:
    with closing(sqlite3.connect(campaign.database, timeout=WITHIN_S, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        time.sleep(2.0)
        connection.execute("ROLLBACK")
    return True


def _fill_disk(campaign: Campaign, process: subprocess.Popen[bytes]) -> bool:
    """For some seconds."""
    ballast = campaign.folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (2**20, 2**12, 1):
            with suppress(OSError):
                while True:
                    file.write(b"0" * size)
    with suppress(subprocess.TimeoutExpired):
        process.wait(5.0)
    ballast.unlink()
    return True


FAULTS: dict[str, Callable[[Campaign, subprocess.Popen[bytes]], bool]] = {
    "kill -9 orchestrator": _kill_orchestrator,
    "kill -9 fork server": _kill_server,
    "kill -9 trainer": _kill_trainer,
    "SIGSTOP trainer": _stop_trainer,
    "locked database": _lock_database,
    "full disk": _fill_disk,
}
"""Each returns False when it could not be done just then."""


def small_disk(folder: Path, megabytes: int) -> bool:
    """Mount one there, if this container may."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    return subprocess.run(mount, capture_output=True, check=False).returncode == 0


def tiny_campaign(
    folder: Path,
    *,
    num_trials: int,
    repeats: int,
    num_faults: int,
    seed: int,
    overrides: Iterable[str] = (),
    num_rivals: int = 1,
    faults: Sequence[str] = (),
) -> Campaign:
    seeds = ",".join(map(str, range(1, num_trials + 1)))
    tiny = ["model=trivial", "num_steps=200", "min_warm_up_steps=1", f"seed={seeds}"]
    deadlines = ["launcher.step_timeout_s=5", "launcher.start_timeout_s=60", "launcher.grace_s=0.5"]
    return Campaign(
        folder=folder,
        overrides=[*tiny, *deadlines, *overrides],
        num_trials=num_trials,
        repeats=repeats,
        num_faults=num_faults,
        seed=seed,
        num_rivals=num_rivals,
        faults=faults,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=40)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rivals", type=int, default=2, help="sweeps at once")
    parser.add_argument("overrides", nargs="*", help="for sweep.py")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        mounted = small_disk(Path(folder), 300)
        try:
            campaign = tiny_campaign(
                Path(folder),
                num_trials=asked.trials,
                repeats=asked.repeats,
                num_faults=asked.faults,
                seed=asked.seed,
                overrides=asked.overrides,
                num_rivals=asked.rivals,
            )
            start = time.monotonic()
            campaign.run()
            told = {"injected": dict(campaign.injected), "exit_codes": campaign.exit_codes, "problems": campaign.problems()}
            print(json.dumps(told | {"wall_s": round(time.monotonic() - start, 1)}, indent=1))
            return 1 if told["problems"] else 0
        finally:
            if mounted:
                subprocess.run(["umount", "--lazy", folder], check=True)


if __name__ == "__main__":
    sys.exit(main())
