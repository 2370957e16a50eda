"""Runs a real sweep, breaks it again and again, repeats its command until it ends well, and counts what is in the database.

`python -m tests.fault_campaign --faults 40 --seed 1` is the longest one; `tests/test_fault_campaign.py` holds shorter ones.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import random
import shlex
import signal
import socket
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

from tests import agreement, overlap, tiny_program
from tests.phases import Watched
from tests.strikes import STRIKES

PROJECT = Path(__file__).resolve().parent.parent
MARK = "SCALEMARK_CAMPAIGN"  # environment variable by which all processes of a campaign are found
MOST_ROUNDS = 30  # and as many as there are faults
WITHIN_S = 900.0  # of a sweep that nothing disturbs any more; and of whatever else is waited for


class BrokenError(Exception):
    """A command that was to survive a fault did not. Says which fault of which seed, and what the command said."""


@dataclass(slots=True)
class Campaign:
    """One sweep, the faults it is to survive, and what happened."""

    folder: Path
    overrides: list[str]
    num_trials: int
    repeats: int  # more are asked for when all are completed and faults are left
    seed: int
    num_faults: int
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    injected: Counter[str] = field(default_factory=Counter)
    exit_codes: list[list[int]] = field(default_factory=list)  # of each round
    num_rivals: int = 1  # sweeps that run at once, with the same command
    faults: Sequence[str] = ()  # only these; none: all that can be
    script: str = "sweep.py"  # of the project
    history: list[str] = field(default_factory=list)  # faults, in their order

    @property
    def database(self) -> Path:
        return self.folder / "results.db"

    def run(self) -> None:
        """Until all commands of a round end with 0 and no faults are left. Raises BrokenError when that never comes."""
        try:
            self._run()
        except BaseException as error:
            for process in self.processes():
                process.kill()
            if isinstance(error, TimeoutError | subprocess.TimeoutExpired):
                raise BrokenError(f"{error}; {self._reported(self.num_rivals)}") from error
            raise

    def _run(self) -> None:
        chance = random.Random(self.seed)
        names = _in_turns(self.faults or self.possible_faults(), chance)
        name = next(names)
        for _ in range(MOST_ROUNDS + 2 * self.num_faults):
            sweeps = [
                Watched(self._start(number), self.database) for number in range(self.num_rivals)
            ]
            while self.num_faults > self.injected.total():
                done = self._inject(name, sweeps, chance)
                if done is None:
                    break
                if done:
                    self.injected[name] += 1
                    self.history.append(name)
                    name = next(names)
            exit_codes = [sweep.process.wait(WITHIN_S) for sweep in sweeps]
            self.exit_codes.append(exit_codes)
            self._check_said()
            if not any(exit_codes):
                if self.injected.total() == self.num_faults:
                    return
                self.repeats += 1
        raise TimeoutError(f"not through after {len(self.exit_codes)} commands")

    def _inject(self, name: str, sweeps: list[Watched], chance: random.Random) -> bool | None:
        """None when all sweeps have ended."""
        if strike := STRIKES.get(name):
            return strike(sweeps, chance)
        victim = self._wait_for_work([sweep.process for sweep in sweeps], chance)
        return victim and (FAULTS | PROGRAM_FAULTS)[name](self, victim)

    def _check_said(self) -> None:
        """Whatever happens, nobody sees a traceback. Raises BrokenError."""
        for number in range(self.num_rivals):
            if "Traceback (most recent call last)" in self._log(number).read_text(errors="replace"):
                raise BrokenError(f"a traceback; {self._reported(number + 1)}")

    def _reported(self, num_logs: int) -> str:
        said = "".join(
            f"\n--- {self._log(n).name}\n{self._log(n).read_text(errors='replace')[-4000:]}"
            for n in range(num_logs)
        )
        return f"seed {self.seed}, {self.script}, faults {self.history}, exit codes {self.exit_codes}; at the end of the logs:{said}"

    def _log(self, number: int) -> Path:
        return self.folder / f"sweep{number}.log"

    def possible_faults(self) -> set[str]:
        """All, but only a small disk of the campaign's own is filled, and where attempts are spawned there is no fork server."""
        impossible = set() if self.folder.is_mount() else {"full disk"}
        return (
            set(FAULTS)
            - impossible
            - ({"kill -9 fork server"} if "launcher.start=spawn" in self.overrides else set())
        )

    def problems(self) -> list[str]:
        """What is not as it must be: every repeat completed exactly once, nothing lost, nothing left running."""
        found = []
        with closing(sqlite3.connect(self.database)) as connection:
            completed = dict(
                connection.execute(
                    "SELECT trial_id, count(*) FROM attempts WHERE outcome = 'completed' GROUP BY trial_id"
                )
            )
            if set(completed.values()) != {self.repeats} or len(completed) != self.num_trials:
                found.append(
                    f"completed {completed}, wanted {self.num_trials} trials x {self.repeats}"
                )
            (check,) = connection.execute("PRAGMA integrity_check").fetchone()
            if check != "ok":
                found.append(f"the database is damaged: {check}")
            in_flight = connection.execute(
                "SELECT count(*) FROM repeats WHERE state IN ('claimed', 'running')"
            ).fetchone()
            if in_flight != (0,):
                found.append(f"{in_flight[0]} repeats are still claimed or running")
        results = self.folder.glob("runs/*/*/result.json")
        num_results = [json.loads(path.read_text())["outcome"] for path in results].count(
            "completed"
        )
        if num_results != sum(completed.values()):
            found.append(
                f"{num_results} run folders are completed, {sum(completed.values())} attempts"
            )
        found.extend(agreement.problems(self.database, self.folder / "runs"))
        found.extend(
            f"two attempts at once: {line}" for line in overlap.found(self.folder / "overlap")
        )
        found.extend(f"left running: {process}" for process in self.processes())
        found.extend(f"still locked: {path}" for path in self._locked())
        found.extend(f"port {port} is still in use" for port in self._ports_in_use())
        return [f"{problem}; seed {self.seed}, faults {self.history}" for problem in found]

    def processes(self) -> list[psutil.Process]:
        """All of this campaign that live."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if (
                    process.status() != psutil.STATUS_ZOMBIE
                    and process.environ().get(MARK) == self.mark
                ):
                    found.append(process)
        return found

    def _locked(self) -> list[Path]:
        """Locks of the host that somebody still holds."""
        found = []
        for path in (self.folder / "locks").glob("*.lock"):
            with path.open() as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    found.append(path)
        return found

    def _ports_in_use(self) -> list[int]:
        """Ports on which a program of the campaign listened."""
        found = []
        listened = self.folder / tiny_program.PORTS
        ports = set(listened.read_text().split()) if listened.exists() else set()
        for port in map(int, ports):
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", port)) == 0:
                    found.append(port)
        return found

    def trainers(self, orchestrator: subprocess.Popen[bytes]) -> list[psutil.Process]:
        own = _children(orchestrator)
        forked = [
            trainer
            for server in own
            if _runs(server, "trainer.fork_server")
            for trainer in _children(server)
        ]
        spawned = [
            process
            for process in own
            if any(_runs(process, f"{room}.__main__") for room in ("trainer", "command"))
        ]
        return forked + spawned

    def watched(self, orchestrator: subprocess.Popen[bytes]) -> list[psutil.Process]:
        """What runs below its trainers, the program and its children first."""
        found = []
        for trainer in self.trainers(orchestrator):
            with suppress(psutil.NoSuchProcess):
                found += trainer.children(recursive=True)
        return found

    def servers(self, orchestrator: subprocess.Popen[bytes]) -> list[psutil.Process]:
        return [
            process for process in _children(orchestrator) if _runs(process, "trainer.fork_server")
        ]

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        command = [
            sys.executable,
            str(PROJECT / self.script),
            "-m",
            *self.overrides,
            f"sweep.repeats={self.repeats}",
        ]
        (self.folder / "overlap").mkdir(exist_ok=True)
        own = {
            MARK: self.mark,
            "SCALEMARK_LOCK_DIR": str(self.folder / "locks"),
            overlap.VARIABLE: str(self.folder / "overlap"),
        }
        environment = {**os.environ, **own}
        with self._log(number).open("ab") as log:
            return subprocess.Popen(
                command, cwd=self.folder, env=environment, stdout=log, stderr=log
            )

    def _wait_for_work(
        self, processes: list[subprocess.Popen[bytes]], chance: random.Random
    ) -> subprocess.Popen[bytes] | None:
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
                raise TimeoutError(
                    f"no trainer within {WITHIN_S:g} s; see {self.folder / 'sweep0.log'}"
                )
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
    with closing(
        sqlite3.connect(campaign.database, timeout=WITHIN_S, isolation_level=None)
    ) as connection:
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


def _of_program(process: psutil.Process) -> bool:
    return tiny_program.__file__ in _command(process)


def _deaf_child(process: psutil.Process) -> bool:
    return "signal.SIG_IGN" in " ".join(_command(process))


def _guard(process: psutil.Process) -> bool:
    return any(
        module in _command(process) for module in ("trainer.fork_server", "command.__main__")
    )


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def _strike_watched(
    *wanted: Callable[[psutil.Process], bool],
    number: signal.Signals = signal.SIGKILL,
    with_watcher: bool = False,
) -> Callable[[Campaign, subprocess.Popen[bytes]], bool]:
    """Signal the first process of each kind that runs below a trainer, the trainer before them if asked for."""

    def strike(campaign: Campaign, process: subprocess.Popen[bytes]) -> bool:
        watched = campaign.watched(process)
        struck = campaign.trainers(process)[:1] if with_watcher else []
        for is_wanted in wanted:
            found = [one for one in watched if is_wanted(one)]
            if not found:
                return False
            struck.append(found[0])
        was_there = False
        for one in struck:  # each, though one has ended meanwhile
            was_there = _signal_first([one], number) or was_there
        return was_there

    return strike


PROGRAM_FAULTS: dict[str, Callable[[Campaign, subprocess.Popen[bytes]], bool]] = {
    "kill -9 program": _strike_watched(_of_program),
    "SIGTERM program": _strike_watched(_of_program, number=signal.SIGTERM),
    "SIGSTOP program": _strike_watched(_of_program, number=signal.SIGSTOP),
    "kill -9 child of program": _strike_watched(_deaf_child),
    "kill -9 guard": _strike_watched(_guard),
    "kill -9 watcher and guard": _strike_watched(_guard, with_watcher=True),
}
"""What else befalls a program of a user's own, its children, and what watches it."""


_COMMAND = shlex.join([sys.executable, tiny_program.__file__])
_DEADLINES = ("launcher.step_timeout_s=10", "launcher.grace_s=0.5")
GRIDS: dict[str, Sequence[str]] = {
    "tensorflow": (
        "model=trivial",
        "num_steps=200",
        "min_warm_up_steps=1",
        "launcher.start_timeout_s=600",
        *_DEADLINES,
    ),
    "tiny": ("hardware=cpu", "model=trivial", "seed=905,1", "launcher.grace_s=0.5"),
    "simulated": (
        "engine=simulated",
        "hardware=dgx1_p100",
        "model=resnet50",
        "num_gpus=1,8",
        "num_steps=3000",
    ),
    "program": (
        "hardware=cpu",
        f"command={_COMMAND} {{free_port}} {{run_dir}} {{kind}}",
        f"read={tiny_program.READ}",
        "+axes.kind=1,2",
        "launcher.start_timeout_s=30",  # one may be stopped before its first line
        *_DEADLINES,
    ),
}
"""What is swept -> overrides: TensorFlow's trials, those of tests.tiny_trainer, simulated ones, whose charts are drawn, and a user's program."""


def campaign(
    swept: str,
    folder: Path,
    faults: Sequence[str] = (),
    *,
    seed: int,
    num_faults: int | None = None,
    num_trials: int = 2,
    repeats: int = 1,
    num_rivals: int = 1,
    overrides: Iterable[str] = (),
) -> Campaign:
    """Return one that injects all of these faults, or so many of those that there are."""
    grid = list(GRIDS[swept])
    if swept == "tensorflow":
        grid.append(f"seed={','.join(map(str, range(1, num_trials + 1)))}")
    return Campaign(
        folder=folder,
        overrides=[*grid, *overrides],
        num_trials=num_trials,
        repeats=repeats,
        num_faults=len(faults) if num_faults is None else num_faults,
        seed=seed,
        num_rivals=num_rivals,
        faults=faults or possible(swept),
        script="tests/tiny_sweep.py" if swept in ("tiny", "program") else "sweep.py",
    )


def possible(swept: str) -> list[str]:
    """Return the faults that can befall it; of TensorFlow's, where the campaign itself knows.

    Simulated trials end at once, and wait for no host. The others are begun by a script of the tests, and nothing is drawn.
    """
    of_simulated = ("imports", "planning", "starting", "ending", "drawing")
    strikes = [name for name in STRIKES if not name.endswith(("imports", "drawing"))]
    if swept == "simulated":
        return [name for name in STRIKES if name.endswith(of_simulated)]
    if swept == "tiny":
        return strikes
    if swept == "program":
        return [*(name for name in FAULTS if name != "full disk"), *PROGRAM_FAULTS, *strikes]
    return []


def small_disk(folder: Path, megabytes: int) -> bool:
    """Mount one there, if this container may."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    return subprocess.run(mount, capture_output=True, check=False).returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=40)
    parser.add_argument("--trials", type=int, default=20, help="of TensorFlow's")
    parser.add_argument("--repeats", type=int, default=2, help="of TensorFlow's")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rivals", type=int, default=2, help="sweeps at once")
    parser.add_argument(
        "--trainer",
        choices=GRIDS,
        help="what is swept; all, one after another, unless it is reported",
    )
    parser.add_argument("overrides", nargs="*", help="for sweep.py")
    asked = parser.parse_args()
    return max(_run(swept, asked) for swept in ([asked.trainer] if asked.trainer else GRIDS))


def _run(swept: str, asked: argparse.Namespace) -> int:
    """Exit code: 1 when something was lost, done twice, left or not as it was measured."""
    sizes = {}
    if swept == "tensorflow":
        sizes = {"num_trials": asked.trials, "repeats": asked.repeats}
    with tempfile.TemporaryDirectory() as folder:
        mounted = small_disk(Path(folder), 300)
        try:
            asked_for = campaign(
                swept,
                Path(folder),
                seed=asked.seed,
                num_faults=asked.faults,
                num_rivals=asked.rivals,
                overrides=asked.overrides,
                **sizes,
            )
            start = time.monotonic()
            asked_for.run()
            problems = asked_for.problems()
            reported = {
                "trainer": swept,
                "injected": dict(asked_for.injected),
                "exit_codes": asked_for.exit_codes,
                "problems": problems,
                "wall_s": round(time.monotonic() - start, 1),
            }
            print(json.dumps(reported, indent=1), flush=True)
            return 1 if problems else 0
        finally:
            if mounted:
                subprocess.run(["umount", "--lazy", folder], check=True)


if __name__ == "__main__":
    sys.exit(main())
