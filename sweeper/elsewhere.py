"""Runs an attempt elsewhere: `near` stands for it here, and `far` runs it on its host.

```
  near ── starts a command, as ssh or srun, which starts ─────────────► far ── starts ──► trainer
   │  ── request, then "signal", "alive" ──► stdin                       │
   ▼  ◄── "ready", "file", "end" ─────────── stdout                      └── stdin ends or is
  the run folder, and an exit status                                         silent: SIGKILL
```

`python -m sweeper.elsewhere WHERE TRIAL.json RUN_DIR` is near, which the loop starts as it starts
trainers, and the supervisor of ranks for each of them; WHERE is the JSON of a
`sweeper.launchers.prefix.Elsewhere`. Signals to it travel; the run folder fills as if the attempt
ran here; its exit status is the trainer's. A lost host, a time limit and a refusal become the
result.json of the attempt. Without arguments it is far. The trainer works in a private folder,
whose files are sent back; a supervisor of ranks, which runs on this host, in the run folder itself.

An attempt waits for the start of both, which import little besides the standard library.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

from scalemark.host.processes import (
    ORCHESTRATOR_VARIABLE,
    die_with,
    num_kernel_kills,
    signal_at_end_of_parent,
    wait_readable,
)
from scalemark.host.variables import OF_THE_LOADER, TERRAFORM, VARIABLES
from scalemark.text.untrusted import names_a_secret
from sweeper import SweepRefusedError
from sweeper.devices import host_lock

MARK = b"\x1e scalemark "  # begins a message, a line of JSON: what else comes is a greeting
TOKEN = ".token"
GO = ".go"
RESULT = "result.json"
ALIVE_EVERY_S = 2.0
LEEWAY_S = 5.0  # far gives up first: then nothing runs twice
END_WITHIN_S = 30.0  # of the command, once the attempt has ended
_SENT = ("SCALEMARK_", *(begin for begin in VARIABLES if begin not in OF_THE_LOADER))
_KEPT_BACK = (  # of this host
    *("SCALEMARK_DB", ORCHESTRATOR_VARIABLE, host_lock.VARIABLE),
    *("CUDA_VISIBLE_DEVICES", "CUDA_HOME", "CUDA_PATH"),
)
LOOK_EVERY_S = 0.5
FORWARD_EVERY_S = 0.2  # signals
LAST_WORDS_S = 1.0  # of a command that has ended
PRIVATE = "scalemark-attempt-"  # begins the names of folders on a host
PART_BYTES = 2**16  # of a file, in one message


class Channel:
    """Messages both ways. One thread sends, and one receives."""

    def __init__(self, incoming: IO[bytes], outgoing: int) -> None:
        self.heard_s = time.monotonic()
        self.is_gone = threading.Event()  # the other half, or the way to it
        self._incoming, self._outgoing = incoming, outgoing

    def send(self, kind: str, **values: Any) -> None:
        line = MARK + json.dumps({"kind": kind, **values}).encode() + b"\n"
        with suppress(OSError):  # nobody reads it any more; `messages` notices that
            while line:
                line = line[os.write(self._outgoing, line) :]

    def messages(self, heed_other: Callable[[bytes], object]) -> Iterator[dict[str, Any]]:
        """Yield messages until nothing more comes; give away lines that are none."""
        for line in self._incoming:
            self.heard_s = time.monotonic()
            other, mark, message = line.partition(MARK)
            if other:
                heed_other(other)
            if mark and message.endswith(b"\n"):
                yield json.loads(message)
        self.is_gone.set()


def part(name: str, content: bytes, *, appends: bool = False) -> dict[str, Any]:
    """Return a message's values for a file, or for some of it."""
    return {"name": name, "content": base64.b64encode(content).decode(), "appends": appends}


def keep(folder: Path, values: Mapping[str, Any]) -> None:
    """Write such a part where it belongs. Raises OSError."""
    path = (folder / values["name"]).resolve()
    if not path.is_relative_to(folder.resolve()):
        return  # no file of an attempt
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab" if values["appends"] else "wb") as file:
        file.write(base64.b64decode(values["content"]))


def command(where: Mapping[str, Any], python_path: str) -> list[str]:
    """Return what starts the far half."""
    far = ["env", f"PYTHONPATH={python_path}", where["python"], "-P", "-m", "sweeper.elsewhere"]
    prefix = where["prefix"]
    if not any("{command}" in word for word in prefix):
        return [*prefix, *far]
    return [word.replace("{command}", shlex.join(far)) for word in prefix]


def sent_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that an attempt needs wherever it runs; no secrets are among them."""
    chosen = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    for name, value in variables.items():
        if name in _KEPT_BACK or name.startswith(TERRAFORM):
            continue
        if name.startswith(_SENT) and not names_a_secret(name):
            chosen[name] = value
    return chosen


class Near:
    """One attempt, from the start of its command to its end."""

    def __init__(self, where: dict[str, Any], folder: Path) -> None:
        self.where, self.folder = where, folder
        self.token = folder / f"{TOKEN}{where['rank']}"  # as long as it waits for its host
        self.token.touch()
        self.has_begun = False  # far was heard
        self.host = ""  # once it runs there
        self.end: dict[str, Any] = {}  # far's last word
        self.said: deque[str] = deque(maxlen=40)  # lines of the command
        self.signals: list[int] = []  # to be sent on
        self.was_signaled = False
        self.sent_signs = {f"beat-{where['rank']}.txt"}
        self.process = subprocess.Popen(
            command(where, os.environ["PYTHONPATH"]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            start_new_session=True,
            # when near is killed; what the command runs sees the end of its input
            preexec_fn=partial(signal_at_end_of_parent, signal.SIGTERM),
        )
        assert self.process.stdin
        assert self.process.stdout
        self.input = self.process.stdin
        self.far = Channel(self.process.stdout, self.input.fileno())
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._signaled)

    def run(self) -> int:
        files = []
        for path in self.folder.glob("*.json"):  # trial, attempt, machine, placement, rank_limits
            files.append(part(path.name, path.read_bytes()))
        variables = {**sent_variables(os.environ), "PYTHONPATH": os.environ["PYTHONPATH"]}
        self.far.send("attempt", **self.where, environment=variables, files=files)
        # here, while the command starts, because an attempt waits for the start of this module
        from sweeper import end_elsewhere

        status = self._follow()
        self.token.unlink(missing_ok=True)
        exit_code, outcome, message = end_elsewhere.judge(self, status)
        if message:
            end_elsewhere.leave(self, outcome, message)
        if exit_code < 0:  # the same to whoever waits for us, as a shell has it
            if -exit_code != signal.SIGKILL:  # whose handling cannot be set
                signal.signal(-exit_code, signal.SIG_DFL)
            os.kill(os.getpid(), -exit_code)
        return exit_code

    def _follow(self) -> int:
        """Keep what far sends until it ends or is silent too long; return its exit status."""
        hearing = threading.Thread(target=self._hear, daemon=True)
        errors = threading.Thread(target=self._copy_errors, daemon=True)
        hearing.start()
        errors.start()
        limit_s = self.where["orphan_timeout_s"] + LEEWAY_S
        alive_s = time.monotonic()
        while hearing.is_alive():
            hearing.join(FORWARD_EVERY_S)
            while self.signals:
                self.far.send("signal", number=self.signals.pop(0))
            self._send_signs()
            now_s = time.monotonic()
            if now_s - alive_s >= ALIVE_EVERY_S:
                alive_s = now_s
                self.far.send("alive")
            # without a lock it waits in the queue of an engine, for as long as that takes
            can_be_lost = self.has_begun or self.where["locks"]
            if can_be_lost and now_s - self.far.heard_s > limit_s and not self.end:
                self.host = self.host or self.where["host"] or "its host"
                self.said.append(f"it said nothing for {limit_s:g} s")
                self.process.kill()
                return int(self.process.wait())
        self.input.close()
        try:
            status = self.process.wait(END_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        errors.join(LAST_WORDS_S)  # whoever still holds its output has nothing more to say
        return int(status)

    def _signaled(self, number: int, _frame: object) -> None:
        self.was_signaled = True
        if self.host:
            self.signals.append(number)
        else:
            self.process.terminate()  # it waits for a host

    def _send_signs(self) -> None:
        """Let a rank know that all have their hosts, and which others listen."""
        if not self.where["rank"] or not self.host:
            return
        for path in (*self.folder.glob(GO), *self.folder.glob("beat-*.txt")):
            if path.name not in self.sent_signs:
                self.sent_signs.add(path.name)
                self.far.send("file", **part(path.name, path.read_bytes()))

    def _copy_errors(self) -> None:
        assert self.process.stderr
        for line in self.process.stderr:
            self._say(line)

    def _say(self, line: bytes) -> None:
        """Keep a line of the command, in the log, too."""
        self.said.append(line.decode(errors="replace"))
        sys.stderr.buffer.write(line)
        sys.stderr.flush()

    def _hear(self) -> None:
        try:
            for message in self.far.messages(self._say):
                self._heed(message)
                if self.end:
                    return
        except OSError as error:
            self.end = {"problem": f"{self.folder}: {error.strerror}"}

    def _heed(self, message: dict[str, Any]) -> None:
        self.has_begun = True
        if message["kind"] == "ready":
            self.host = message["host"]
            self.token.unlink(missing_ok=True)
        elif message["kind"] == "end":
            self.end = message
        elif message["kind"] == "file":
            keep(self.folder, message)
            if self.where["rank"] and self.token.exists():
                beat = self.folder / f"beat-{self.where['rank']}.txt"
                beat.write_text(f"{time.monotonic()}")
        elif message["kind"] == "sending":  # what an ended trainer left: no deadline is for that
            self.token.touch()


class Far:
    """One attempt."""

    def __init__(self, near: Channel) -> None:
        self._near = near
        self._request: dict[str, Any] = {}
        self._sent: dict[str, tuple[int, int, int]] = {}  # name -> inode, mtime, size as sent
        self._trainer: subprocess.Popen[bytes] | None = None
        self._ended_by = 0  # signal that this process got, as at a time limit
        self._private: Path | None = None
        self._held: object = None  # the lock of the host, until the end

    def run(self) -> None:
        messages = self._near.messages(lambda _line: None)
        self._request = next(messages, {})
        if not self._request:
            return
        if self._request["kind"] == "describe":
            from sweeper.launchers.prefix import describe

            self._near.send("described", **describe(self._request))
            return
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGXCPU):
            signal.signal(number, self._interrupted)
        threading.Thread(target=self._obey, args=[messages], daemon=True).start()
        threading.Thread(target=self._watch, daemon=True).start()
        self._near.send("begun")
        exit_code, problem, num_kills = None, "", num_kernel_kills()
        wanted, here = self._request["host_kind"], host_kind()
        if wanted and here != wanted:
            problem = (
                f"{platform.node()} is another kind of host ({here}) than the sweep was planned "
                f"for ({wanted}), and their results do not mix; choose hosts of one kind"
            )
        elif self._request["locks"]:
            problem = self._wait_for_lock()
        if not problem and not self._is_given_up():
            folder = self._request["folder"]  # the run folder, where this is its host
            if not folder:
                folder = self._private = make_private()
                for file in self._request["files"]:
                    self._receive(file)
            os.chdir(folder)
            self._near.send("ready", host=platform.node())
            needs_go = self._request["rank"] and self._request["locks"]
            # until all ranks of the trial have their hosts, so that none gives up on another
            while needs_go and not self._is_given_up() and not Path(GO).exists():
                self._near.is_gone.wait(LOOK_EVERY_S)
                self._near.send("alive")
            if not self._is_given_up():
                self._start()
                exit_code = self._follow()
        self._near.send(
            "end",
            exit_code=exit_code,
            signal=self._ended_by,
            problem=problem,
            kernel_killed=num_kernel_kills() > num_kills,
        )
        self._remove_private()

    def _is_given_up(self) -> bool:
        return self._near.is_gone.is_set() or bool(self._ended_by)

    def _wait_for_lock(self) -> str:
        """Wait until no other sweep measures on this host; the lock is held until the end. Return
        why it cannot be had, or nothing.
        """
        gpus = [f"gpu{number}" for number in self._request["gpus"] or ()]
        try:
            lock = host_lock.HostLock()
            while not self._is_given_up():
                self._held = lock.try_hold(gpus, shares_host=self._request["shares_host"])
                if self._held:
                    break
                self._near.is_gone.wait(LOOK_EVERY_S)
                self._near.send("alive")
        except SweepRefusedError as error:
            return f"{platform.node()}: {error}"
        return ""

    def _receive(self, file: Mapping[str, Any]) -> None:
        if self._private:
            keep(self._private, file)
            self._sent[file["name"]] = _state(self._private / file["name"])

    def _start(self) -> None:
        environment = {**os.environ, **self._request["environment"]}
        environment[ORCHESTRATOR_VARIABLE] = str(os.getpid())  # it dies with this process
        if (gpus := self._request["gpus"]) is not None:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, gpus))
        folder = Path.cwd()
        command = [sys.executable, "-P", "-m", self._request["module"]]
        with (folder / self._request["log"]).open("ab") as log:
            self._trainer = subprocess.Popen(
                [*command, str(folder / "trial.json"), str(folder), *self._request["flags"]],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _follow(self) -> int:
        """Return the exit code of the trainer; nothing of it runs then."""
        assert self._trainer
        end = os.pidfd_open(self._trainer.pid)
        while not wait_readable([end], LOOK_EVERY_S):
            if self._is_given_up():
                self._signal(signal.SIGKILL)
            self._near.send("alive")
            self._send_files()
        self._signal(signal.SIGKILL)  # what it left in its group
        exit_code = self._trainer.wait()
        self._near.send("sending")
        self._send_files(is_over=True)
        return exit_code

    def _obey(self, messages: Iterator[dict[str, Any]]) -> None:
        """Do what near says, until it is gone."""
        for message in messages:
            if message["kind"] == "signal":
                self._signal(message["number"])
            elif message["kind"] == "file":
                self._receive(message)
        self._signal(signal.SIGKILL)

    def _interrupted(self, number: int, _frame: object) -> None:
        """Note that the host's engine is about to kill all."""
        self._ended_by = number

    def _signal(self, number: int) -> None:
        if self._trainer:
            with suppress(ProcessLookupError):  # it has ended
                os.killpg(self._trainer.pid, number)

    def _send_files(self, *, is_over: bool = False) -> None:
        """Send what is new in a private folder: of the log, and of lines of JSON, what was added;
        of others all, but large ones and the result only once the trainer `is_over`.
        """
        if not self._private:
            return
        for path in sorted(self._private.rglob("*"), key=lambda each: (each.name == RESULT, each)):
            with suppress(OSError):  # it was renamed just now
                if path.is_file() and not path.is_symlink():
                    self._send_file(path, str(path.relative_to(self._private)), is_over)

    def _send_file(self, path: Path, name: str, is_over: bool) -> None:
        before, now = self._sent.get(name), _state(path)
        is_log, has_lines = name == self._request["log"], path.suffix == ".jsonl"
        # lines may have been written anew, in the same place: in the end all count
        if before == now and not (is_over and has_lines):
            return
        grows = before is not None and before[0] == now[0] and before[2] < now[2]
        adds = is_log or (has_lines and grows and not is_over)
        if not adds and not is_over and (now[2] > PART_BYTES or name == RESULT):
            return
        offset = 0
        if before and grows and adds:
            offset = before[2]
        appends, is_last = adds, False
        with path.open("rb") as file:
            file.seek(offset)
            while not is_last:
                content = file.read(min(PART_BYTES, now[2] - offset))
                offset += len(content)
                is_last = not content or offset == now[2]
                self._near.send("file", **part(name, content, appends=appends))
                appends = True
        self._sent[name] = (now[0], now[1], offset)

    def _remove_private(self) -> None:
        if self._private:
            shutil.rmtree(self._private, ignore_errors=True)

    def _watch(self) -> None:
        """Kill all when near was silent for too long, also while a write to it blocks."""
        while time.monotonic() - self._near.heard_s < self._request["orphan_timeout_s"]:
            time.sleep(1.0)
        self._signal(signal.SIGKILL)
        self._remove_private()
        os._exit(1)


def make_private() -> Path:
    """Make a folder for an attempt, and remove those whose process was killed: Slurm kills what is
    left of a job. It is locked, until this process ends, before it has the name that others see.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{PRIVATE}*"):
        with suppress(OSError):  # its process lives, or it is another user's
            os.close(_lock(left))
            shutil.rmtree(left, ignore_errors=True)
    made = Path(tempfile.mkdtemp(prefix="."))
    _lock(made)
    return made.rename(made.with_name(f"{PRIVATE}{made.name[1:]}"))


def _lock(folder: Path) -> int:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def host_kind() -> str:
    """Name what makes hosts differ, as far as Linux tells without a library."""
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    parts = [f"{os.cpu_count()} cores", f"{round(memory_bytes / 2**30)} GiB"]
    for path in (Path("/proc/cpuinfo"), *sorted(Path("/proc/driver/nvidia").glob("**/*"))):
        if path.name in ("cpuinfo", "version", "information"):
            for line in path.read_text(errors="replace").splitlines():
                if line.startswith(("model name", "Model:", "NVRM")):
                    parts.append(" ".join(line.partition(":")[2].split()))
                    break  # the first core stands for all
    return ", ".join([*parts, f"Python {platform.python_version()}"])


def _state(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_ino, status.st_mtime_ns, status.st_size


if __name__ == "__main__":
    if len(sys.argv) > 1:
        # the command is not killed as a process of a dead sweep: far ends first
        die_with(int(os.environ.pop(ORCHESTRATOR_VARIABLE)))
        exit_code = Near(json.loads(sys.argv[1]), Path(sys.argv[3])).run()
        sys.stderr.flush()
        os._exit(exit_code)  # whatever its threads wait for
    outgoing = os.dup(1)
    os.dup2(2, 1)  # whatever prints goes to the log
    if os.getpgrp() != os.getpid():
        os.setsid()  # whoever kills near's group leaves this process to end the trainer
    Far(Channel(sys.stdin.buffer, outgoing)).run()
    os._exit(0)  # whatever its threads wait for
