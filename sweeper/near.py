"""Has a command run an attempt elsewhere, and stands for it here: `python -m sweeper.near REQUEST`.

A child of the loop like any trainer: signals to it travel as lines to `sweeper.far`, which the
command starts; the run folder fills as if the attempt ran here; its exit status is the trainer's.
A lost host, a time limit and a refusal become the result.json of the attempt; what that needs is
imported then, for an attempt waits for the start of this process.
"""

from __future__ import annotations

import base64
import ctypes
import json
import os
import platform
import re
import secrets
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sweeper.far import MARK, TOKEN

ALIVE_EVERY_S = 2.0
LEEWAY_S = 5.0  # far gives up first: then nothing runs twice
END_WITHIN_S = 30.0  # of the command, once the attempt has ended
FAILED, INTERRUPTED = "failed", "interrupted"  # of scalemark.records.outcomes.Outcome
_SENT = ("SCALEMARK_", "TF_", "XLA_", "NCCL_", "OMP_", "KMP_")  # variables that travel
_KEPT_BACK = ("SCALEMARK_DB", "SCALEMARK_ORCHESTRATOR", "SCALEMARK_LOCK_DIR")
_SMALL_FILES = ("trial", "attempt", "machine", "placement", "rank_limits")


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """Where and how one attempt, or one rank of it, is run."""

    # what runs its arguments there; in a word, {command} is replaced by them, quoted for a shell
    prefix: tuple[str, ...]
    python: str  # there
    module: str  # the engine
    host: str = ""  # for people
    address: str = ""  # of the host, where its ranks can be reached
    flags: tuple[str, ...] = ()  # of a rank
    gpus: tuple[int, ...] | None = None  # to be visible, in PCI order; None = as the engine sets
    host_kind: str = ""  # as sweeper.far.host_kind has it; empty = not compared
    lock: str = ""  # folder of host locks there; empty = an engine hands out hosts
    shares_host: bool = False
    orphan_timeout_s: float = 60.0
    needs_folder: bool = False  # its ranks write to the run folder themselves
    # what the command says when the engine ends the attempt: pattern, outcome, message
    ends: tuple[tuple[str, str, str], ...] = ()
    log: str = "log.txt"
    rank: str = ""  # of a distributed trial; empty = the whole attempt

    def command(self, variables: dict[str, str]) -> list[str]:
        """Return what starts the far half."""
        far = [
            "env",
            f"PYTHONPATH={variables['PYTHONPATH']}",
            self.python,
            "-P",
            "-m",
            "sweeper.far",
        ]
        if not any("{command}" in word for word in self.prefix):
            return [*self.prefix, *far]
        return [word.replace("{command}", shlex.join(far)) for word in self.prefix]


@dataclass(slots=True)
class Near:
    """One attempt, from the start of its command to its end."""

    where: Elsewhere
    folder: Path  # the run folder
    host: str = ""  # once it runs there
    end: dict[str, Any] | None = None  # far's last word
    refusal: str = ""
    said: str = ""  # by the command, the end of it
    heard_s: float = 0.0
    signals: list[int] = field(default_factory=list)
    sent_beats: set[str] = field(default_factory=set)  # names of files of other ranks
    process: Any = None
    _out: bytes = b""

    def run(self) -> int:
        self.token.write_text(secrets.token_hex(16))
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._forward)
        variables = dict(os.environ)
        request = self._request(variables)
        variables.pop("SCALEMARK_ORCHESTRATOR", None)  # the command outlives us until far has ended
        self.process = subprocess.Popen(
            self.where.command(variables),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=variables,
            cwd=self.folder,
            bufsize=0,
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )
        self._tell(request)
        self._follow()
        self.token.unlink(missing_ok=True)
        return self._conclude()

    @property
    def token(self) -> Path:
        """By this file far knows the run folder; each rank has one of its own."""
        return self.folder / f"{TOKEN}{self.where.rank}"

    def _request(self, variables: dict[str, str]) -> dict[str, Any]:
        files = {}
        for name in _SMALL_FILES:
            path = self.folder / f"{name}.json"
            if path.exists():
                files[path.name] = base64.b64encode(path.read_bytes()).decode()
        is_program = self.where.module == "command"
        return {
            **asdict(self.where),
            "folder": str(self.folder),
            "token": self.token.read_text(),
            "environment": {**sent_variables(variables), "PYTHONPATH": variables["PYTHONPATH"]},
            "files": files,
            "workdir": variables.get("SCALEMARK_WORKDIR", "") if is_program else "",
            "python": platform.python_version(),
        }

    def _tell(self, order: dict[str, Any]) -> None:
        line = json.dumps(order).encode() + b"\n"
        with suppress(BrokenPipeError, ValueError):  # the command has ended, or is about to
            while line:
                line = line[self.process.stdin.write(line) :]

    def _forward(self, number: int, _frame: object) -> None:
        self.signals.append(number)
        if self.host:
            self._tell({"kind": "signal", "number": number})
        elif self.process:
            self.process.terminate()  # it waits for a host

    def _follow(self) -> None:
        """Keep what the other side sends, until it ends or is silent for too long."""
        out, err = self.process.stdout.fileno(), self.process.stderr.fileno()
        poll = select.poll()
        opened = {out, err}
        for descriptor in opened:
            poll.register(descriptor, select.POLLIN)
        self.heard_s = alive_s = time.monotonic()
        while opened:
            for descriptor, _ in poll.poll(200):
                part = os.read(descriptor, 2**20)
                if not part:
                    poll.unregister(descriptor)
                    opened.remove(descriptor)
                elif descriptor == out:
                    self._receive(part)
                else:
                    self._print(part)
            now_s = time.monotonic()
            if now_s - alive_s >= ALIVE_EVERY_S:
                alive_s = now_s
                self._tell({"kind": "alive"})
                self._tell_beats()
            limit_s = self.where.orphan_timeout_s + LEEWAY_S
            if self.end is not None or self.refusal:
                limit_s = END_WITHIN_S
                self.process.stdin.close()
                if self.process.poll() is not None:
                    return  # whoever still holds its output has nothing more to say
            elif not self.host:
                continue  # it waits for a host
            if now_s - self.heard_s > limit_s:
                self.process.kill()
                return

    def _receive(self, part: bytes) -> None:
        self.heard_s = time.monotonic()
        self._out += part
        while b"\n" in self._out:
            line, _, rest = self._out.partition(b"\n")
            if not line.startswith(MARK):
                self._out = rest
                self._print(line + b"\n")  # somebody's greeting
                continue
            header = json.loads(line.removeprefix(MARK))
            if len(rest) < header["size"]:
                return
            self._out = rest[header["size"] :]
            self._heed(header, rest[: header["size"]])

    def _heed(self, header: dict[str, Any], payload: bytes) -> None:
        kind = header["kind"]
        if kind == "ready":
            self.host = header["host"]
            self.token.unlink(missing_ok=True)
            if self.where.needs_folder and not header["in_place"]:
                self.refusal = (
                    f"{self.folder} is not seen on {self.host}; trials over several hosts "
                    "need one run folder: choose a shared one by store.runs_dir="
                )
                self._tell({"kind": "signal", "number": signal.SIGKILL})
        elif kind == "refused":
            self.refusal = header["message"]
        elif kind == "end":
            self.end = header
        elif kind == "file":
            self._keep(header["name"], payload, appends=header["appends"])

    def _keep(self, name: str, content: bytes, *, appends: bool) -> None:
        path = (self.folder / name).resolve()
        if not path.is_relative_to(self.folder.resolve()):
            return  # no file of an attempt
        path.parent.mkdir(parents=True, exist_ok=True)
        if appends:
            with path.open("ab") as file:
                file.write(content)
        elif name.startswith("beat-"):
            path.write_bytes(content)
        else:
            draft = path.with_name(f"{path.name}.near")
            draft.write_bytes(content)
            draft.replace(path)

    def _tell_beats(self) -> None:
        """Let a rank that does not see the folder know that the others listen."""
        if not self.where.rank or not self.host:
            return
        for path in self.folder.glob("beat-*.txt"):
            if path.name not in self.sent_beats and path.stem != f"beat-{self.where.rank}":
                self.sent_beats.add(path.name)
                content = base64.b64encode(path.read_bytes()).decode()
                self._tell({"kind": "file", "name": path.name, "content": content})

    def _print(self, part: bytes) -> None:
        self.said = (self.said + part.decode(errors="replace"))[-4000:]
        sys.stderr.buffer.write(part)
        sys.stderr.flush()

    def _conclude(self) -> int:
        """Return the exit status, and leave a result where the trainer left none that counts."""
        try:
            status = self.process.wait(END_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        exit_code = self.end["exit_code"] if self.end else None
        if self.where.rank and exit_code is None:
            from scalemark.records.attempt import RANK_CRASHED

            return RANK_CRASHED
        if exit_code is not None and (exit_code == 0 or self.where.rank):
            return _status(exit_code)
        where = self.host or self.where.host or "its host"
        last = self.said.strip().splitlines()[-1] if self.said.strip() else f"exit code {status}"
        if self.refusal:
            return self._leave(FAILED, self.refusal)
        if exit_code is None or (self.end and self.end["signal"]):
            for pattern, outcome, message in self.where.ends:
                if re.search(pattern, self.said):
                    return self._leave(outcome, message)
        if self.signals and exit_code is None:
            return self._leave(INTERRUPTED, "interrupted")
        if self.end and self.end["signal"]:
            name = signal.Signals(self.end["signal"]).name
            return self._leave(INTERRUPTED, f"ended by {name} on {where}")
        if exit_code is not None:
            return _status(exit_code)
        if self.host:
            return self._leave(INTERRUPTED, f"{where} was lost: {last}")
        if re.search(_NO_PROJECT, self.said):
            return self._leave(
                FAILED,
                f"{where} has no environment with this project at {self.where.python}: {last}; "
                "install it there, or set launcher.python",
            )
        if re.search(_NO_HOST, self.said):
            return self._leave(INTERRUPTED, f"{where}: {last}")
        return self._leave(FAILED, f"{shlex.join(self.where.prefix)}: {last}")

    def _leave(self, outcome: str, message: str) -> int:
        """Write a result; return the exit status that goes with it."""
        from scalemark.records.attempt import HOST_LOST
        from scalemark.records.measurement import AttemptResult
        from scalemark.run_folder import RunFolder

        result = AttemptResult(outcome=outcome, message=message, measurement=None, op_placement={})
        folder = RunFolder(self.folder)
        folder.write(folder.result, result.to_json())
        return 1 if outcome == FAILED else HOST_LOST


_NO_PROJECT = r"No module named|No such file or directory|not found|can't open file"
_NO_HOST = (
    r"(?i)connection (refused|timed out|closed|reset)|no route to host|could not resolve|"
    r"broken pipe|kex_exchange|unable to contact slurm|unable to connect"
)


def sent_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that an attempt needs wherever it runs; no secrets are among them."""
    chosen = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    for name, value in variables.items():
        if name.startswith(_SENT) and name not in _KEPT_BACK:
            chosen[name] = value
    return chosen


def _status(exit_code: int) -> int:
    """Return an exit status that says the same: a signal becomes our own end, as a shell has it."""
    if exit_code < 0:
        signal.signal(-exit_code, signal.SIG_DFL)
        os.kill(os.getpid(), -exit_code)
    return exit_code


def _die_with_parent() -> None:
    """The command gets SIGTERM when near is killed; what it runs sees the end of its input."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def main(arguments: Sequence[str]) -> int:
    values = json.loads(arguments[0])
    values = {name: _tuples(value) for name, value in values.items()}
    return Near(Elsewhere(**values), Path.cwd()).run()


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
