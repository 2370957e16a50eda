"""Runs an attempt on the host to which a command took it: the far half of `sweeper.near`.

```
  near ── request, then "signal", "alive" ──► stdin   far ── starts ──► trainer, in a session
       ◄── frames: ready, file, end ───────── stdout   └── stdin ends or is silent: SIGKILL
```

Needs the standard library only, until a request asks to describe the host. Where the run folder is
seen (`.token` says so) the trainer works in it, else in a private folder whose files are sent back.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import platform
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

MARK = b"\x1e scalemark "  # begins the header of a frame: what else comes is somebody's greeting
TOKEN = ".token"
LOOK_EVERY_S = 0.5
GRACE_S = 5.0  # from SIGTERM by the host's engine to SIGKILL


class Far:
    """One attempt."""

    def __init__(self, request: dict[str, Any], received: bytes, descriptor: int) -> None:
        self._request, self._received, self._descriptor = request, received, descriptor
        self._heard_s = time.monotonic()
        self._sent: dict[str, tuple[int, int, int]] = {}  # name -> inode, mtime, size as sent
        self._trainer: subprocess.Popen[bytes] | None = None
        self._ended_by = 0  # signal that this process got, as at a time limit
        self._kill_s = float("inf")
        self._is_gone = False  # near, or the way to it
        self._private: Path | None = None
        self.folder = Path(request["folder"])

    def run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGXCPU):
            signal.signal(number, self._interrupted)
        threading.Thread(target=self._watch, daemon=True).start()
        if problem := self._problem():
            self.send({"kind": "refused", "message": problem})
            return
        lock = self._lock()
        if self._is_gone or self._ended_by:
            self.send({"kind": "end", "exit_code": None, "signal": self._ended_by})
            return
        self._enter()
        self.send({"kind": "ready", "host": platform.node(), "in_place": self._private is None})
        self._start()
        self._follow()
        exit_code = self._end()
        self.send({"kind": "end", "exit_code": exit_code, "signal": self._ended_by})
        if lock is not None:
            os.close(lock)
        if self._private:
            shutil.rmtree(self._private, ignore_errors=True)

    def send(self, header: dict[str, Any], payload: bytes = b"") -> None:
        line = MARK + json.dumps(header | {"size": len(payload)}).encode() + b"\n"
        view = memoryview(line + payload)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError:
            self._is_gone = True

    def _problem(self) -> str:
        """Return why the attempt cannot run on this host; empty when it can."""
        wanted, here = self._request["host_kind"], host_kind()
        if wanted and here != wanted:
            return (
                f"{platform.node()} is another kind of host ({here}) than the sweep was planned "
                f"for ({wanted}), and their results do not mix; choose hosts of one kind"
            )
        if (python := platform.python_version()) != self._request["python"]:
            return f"{platform.node()} has Python {python}, wanted {self._request['python']}"
        workdir = self._request["workdir"]
        if workdir and not Path(workdir).is_dir():
            return f"{platform.node()} has no folder {workdir}, where the program's sweep began"
        return ""

    def _lock(self) -> int | None:
        """Wait until no other sweep measures on this host; None where an engine sees to that."""
        if not self._request["lock"]:
            return None
        folder = Path(os.environ.get("SCALEMARK_LOCK_DIR") or self._request["lock"])
        folder.mkdir(mode=0o1777, parents=True, exist_ok=True)
        lock = os.open(folder / "host.lock", os.O_RDWR | os.O_CREAT, 0o666)
        how = fcntl.LOCK_SH if self._request["shares_host"] else fcntl.LOCK_EX
        while not self._is_gone and not self._ended_by:
            try:
                fcntl.flock(lock, how | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                self._hear(LOOK_EVERY_S)
        return lock

    def _enter(self) -> None:
        """Work in the run folder where it is seen from here, else in a private one."""
        try:
            token = (self.folder / f"{TOKEN}{self._request['rank']}").read_text()
            is_shared = token == self._request["token"] and os.access(self.folder, os.W_OK)
        except OSError:
            is_shared = False
        if not is_shared:
            self._private = self.folder = Path(tempfile.mkdtemp(prefix="scalemark-"))
            for name, content in self._request["files"].items():
                self._receive(name, content)
        os.chdir(self.folder)

    def _receive(self, name: str, content: str) -> None:
        if self._private:
            path = self.folder / Path(name).name
            path.write_bytes(base64.b64decode(content))
            self._sent[path.name] = _state(path)

    def _start(self) -> None:
        environment = {**os.environ, **self._request["environment"]}
        environment["SCALEMARK_ORCHESTRATOR"] = str(os.getpid())  # it dies with this process
        if (gpus := self._request["gpus"]) is not None:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(_gpu_names(gpus))
        module, flags = self._request["module"], self._request["flags"]
        command = [sys.executable, "-P", "-m", module, str(self.folder / "trial.json")]
        with (self.folder / self._request["log"]).open("ab") as log:
            self._trainer = subprocess.Popen(
                [*command, str(self.folder), *flags],
                env=environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _follow(self) -> None:
        assert self._trainer
        while self._trainer.poll() is None and not self._is_gone:
            self._hear(LOOK_EVERY_S)
            self.send({"kind": "alive"})
            self._send_files()
            if time.monotonic() >= self._kill_s:
                return

    def _hear(self, timeout_s: float) -> None:
        """Obey what near says; return as soon as the trainer has ended."""
        ended = None if self._trainer is None else os.pidfd_open(self._trainer.pid)
        try:
            readable, _, _ = select.select([0, *([ended] if ended else [])], [], [], timeout_s)
        finally:
            if ended is not None:
                os.close(ended)
        if 0 not in readable:
            return
        part = os.read(0, 2**20)
        self._heard_s = time.monotonic()
        self._is_gone = self._is_gone or not part
        *lines, self._received = (self._received + part).split(b"\n")
        for line in lines:
            order = json.loads(line)
            if order["kind"] == "signal" and self._trainer:
                self._signal(order["number"])
            if order["kind"] == "file":
                self._receive(order["name"], order["content"])

    def _interrupted(self, number: int, _frame: object) -> None:
        """Have the trainer end in order: the host's engine is about to kill all."""
        self._ended_by = number
        if self._kill_s == float("inf"):
            self._kill_s = time.monotonic() + GRACE_S
            self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        if self._trainer:
            with suppress(ProcessLookupError):  # it has ended
                os.killpg(self._trainer.pid, number)

    def _end(self) -> int:
        assert self._trainer
        if self._trainer.poll() is None:
            self._signal(signal.SIGKILL)
        exit_code = self._trainer.wait()
        self._signal(signal.SIGKILL)  # what it left in its group
        self._send_files()
        return exit_code

    def _send_files(self) -> None:
        """Send what is new in a private folder: of a file that grew the rest, of others all."""
        if not self._private:
            return
        for path in sorted(self.folder.rglob("*")):
            name = str(path.relative_to(self.folder))
            try:
                before, now = self._sent.get(name), _state(path)
                if path.is_symlink() or not path.is_file() or before == now:
                    continue
                grows = before is not None and before[0] == now[0] and before[2] < now[2]
                offset = before[2] if before and grows else 0
                with path.open("rb") as file:
                    file.seek(offset)
                    content = file.read(now[2] - offset)
            except OSError:
                continue  # it was renamed just now
            appends = grows or (before is None and name.startswith("log"))
            self._sent[name] = (now[0], now[1], offset + len(content))
            self.send({"kind": "file", "name": name, "appends": appends}, content)

    def _watch(self) -> None:
        """Kill all when near was silent for too long, also while a write to it blocks."""
        while time.monotonic() - self._heard_s < self._request["orphan_timeout_s"]:
            time.sleep(1.0)
        self._signal(signal.SIGKILL)
        if self._private:
            shutil.rmtree(self._private, ignore_errors=True)
        os._exit(1)


def host_kind() -> str:
    """Return a digest of what makes hosts differ, as far as Linux tells without a library."""
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    parts = [str(os.cpu_count()), str(round(memory_bytes / 2**30))]
    for path in (Path("/proc/cpuinfo"), *sorted(Path("/proc/driver/nvidia").glob("**/*"))):
        if path.name in ("cpuinfo", "version", "information"):
            lines = path.read_text(errors="replace").splitlines()
            telling = ("model name", "Model:", "NVRM")
            parts += [line for line in lines if line.startswith(telling)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def _gpu_names(numbers: list[int]) -> list[str]:
    """Return the UUIDs of GPUs by their numbers in PCI order, where the driver tells them."""
    uuids = []
    for path in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        for line in path.read_text(errors="replace").splitlines():
            if line.startswith("GPU UUID:") and "?" not in line:
                uuids.append(line.partition(":")[2].strip())
    if numbers and max(numbers) < len(uuids):
        return [uuids[number] for number in numbers]
    return [str(number) for number in numbers]


def _state(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_ino, status.st_mtime_ns, status.st_size


def main() -> int:
    channel = os.dup(1)
    os.dup2(2, 1)  # whatever prints goes to the log
    if os.getpgrp() != os.getpid():
        os.setsid()  # whoever kills near's group leaves this process to end the trainer
    received = b""
    while b"\n" not in received:
        part = os.read(0, 2**20)
        if not part:
            return 1
        received += part
    line, _, rest = received.partition(b"\n")
    request = json.loads(line)
    if "describes" in request:
        from sweeper.launchers import describe

        answer = {"host_kind": host_kind(), **describe(request["describes"])}
        os.write(channel, MARK + json.dumps(answer).encode() + b"\n")
    else:
        Far(request, rest, channel).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
