"""`launcher.start=fork`: a server that has TensorFlow loaded forks a trainer per attempt, in
hundredths of a second.

What TensorFlow reads of the environment while it is imported is the same for all trainers of a
server, so attempts of another environment get another server. Where forking is not safe, or servers
die, attempts are spawned instead.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import psutil

from scalemark.host.own_code import module_command
from scalemark.host.software import PLACEMENT
from scalemark.records import switches
from scalemark.records.placement import ORCHESTRATOR_VARIABLE
from scalemark.run_folder.folder import RunFolder
from sweeper.running.readable import is_readable
from sweeper.starts.process import signal_group
from sweeper.starts.spawn import Spawn, Spawned
from sweeper.starts.supervisor import Supervisor

MOST_SERVERS = 8  # more only while all are busy
# its own; 370 MiB of libraries are shared: PSS 655 MiB alone, 380 of four (TensorFlow 2.21)
SERVER_BYTES = 284 * 2**20
MOST_MEMORY = 0.25  # of what is free, for all servers together
LOAD_TIMEOUT_S = 300.0
REPLY_TIMEOUT_S = 10.0  # it takes hundredths of a second
_TRIES = 2  # a server may be killed by anybody; two in a row have a reason

Key = frozenset[tuple[str, str]]


class Fork:
    """Starts trainers by fork servers, one per environment. `problem`: why it spawns instead; none
    as long as it forks.
    """

    name = "fork"

    def __init__(
        self,
        module: str = "trainer.__main__",
        *,
        clock: Callable[[], float] = time.monotonic,
        free_bytes: Callable[[], int] = lambda: int(psutil.virtual_memory().available),
    ) -> None:
        self.problem: str | None = None
        self._module, self._clock, self._free_bytes = module, clock, free_bytes
        self._supervisor = Supervisor()
        self._spawn = Spawn(module_command(module))
        self._servers: dict[Key, Server] = {}  # the one used last comes last
        self._num_lost: Counter[Key] = Counter()  # servers in a row

    def prepare(self, folder: RunFolder, environment: Mapping[str, str]) -> int | None:
        try:
            server = self._server(_at_import(folder, environment), waits=False)
        except OSError:
            return None  # `start` meets it again, and tells
        return None if server is None or server.is_loaded else server.descriptor

    def start(self, folder: RunFolder, environment: Mapping[str, str]) -> Forked | Spawned:
        at_import = _at_import(folder, environment)
        key = _key(at_import)
        while server := self._server(at_import, waits=True):
            try:
                forked = server.fork(folder, environment, self._supervisor)
            except ServerLostError as error:
                self._lose(key, error)
            else:
                del self._num_lost[key]
                return forked
        return self._start_by_spawn(folder, environment)

    def close(self) -> None:
        for server in self._servers.values():
            server.close()
        self._servers.clear()
        self._supervisor.close()
        self._spawn.close()

    def _server(self, variables: Mapping[str, str], *, waits: bool) -> Server | None:
        """A living one, which may still be loading unless one `waits`; None when trainers are to be
        spawned. Raises OSError.
        """
        key = _key(variables)
        while self.problem is None:
            server = self._kept(key, variables)
            try:
                server.load(waits=waits)
                return server
            except ServerLostError as error:
                self._lose(key, error)
            except UnsafeToForkError as error:
                self.problem = str(error)
        return None

    def _kept(self, key: Key, variables: Mapping[str, str]) -> Server:
        server = self._servers.pop(key, None)
        if server is not None and server.has_ended:
            server.close()
            server = None
        if server is None:
            self._make_room()
            server = Server(self._module, variables, self._clock)
        self._servers[key] = server
        return server

    def _lose(self, key: Key, error: ServerLostError) -> None:
        self._num_lost[key] += 1
        if self._num_lost[key] >= _TRIES:
            self.problem = str(error)

    def _make_room(self) -> None:
        """For one more. One that nobody has used yet is left: it was prepared for somebody."""
        # as if there were none yet
        free_bytes = self._free_bytes() + len(self._servers) * SERVER_BYTES
        most = min(MOST_SERVERS, max(1, int(MOST_MEMORY * free_bytes) // SERVER_BYTES))
        idle = [
            key
            for key, server in self._servers.items()
            if server.was_used and server.num_running == 0
        ]
        for key in idle[: max(0, len(self._servers) + 1 - most)]:
            self._servers.pop(key).close()

    def _start_by_spawn(self, folder: RunFolder, environment: Mapping[str, str]) -> Spawned:
        if given := folder.read_placement():
            folder.write(folder.placement, replace(given, start=Spawn.name).to_json())
        return self._spawn.start(folder, environment)


class ServerLostError(Exception):
    """A fork server has ended, or does not answer; what it had started ends with it."""


class UnsafeToForkError(Exception):
    """The loaded server has what a fork does not carry over."""


class Server:
    """One `python -m trainer.process.fork_server`. Nothing here waits for it without end."""

    def __init__(
        self, module: str, variables: Mapping[str, str], clock: Callable[[], float]
    ) -> None:
        self.num_running = 0
        self.was_used = self.is_loaded = self.is_lost = False
        self._received = b""
        self._clock, self._load_by_s = clock, clock() + LOAD_TIMEOUT_S
        ours, its = socket.socketpair()
        self._socket = ours
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - it is open as long as the server
        with its:
            self._process = subprocess.Popen(
                module_command("trainer.process.fork_server", str(its.fileno()), module),
                env=variables,
                cwd="/",
                pass_fds=[its.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._log,
                start_new_session=True,
            )

    @property
    def descriptor(self) -> int:
        """Readable when it has loaded, or has ended."""
        return self._socket.fileno()

    @property
    def has_ended(self) -> bool:
        """Once it has loaded it says nothing unasked: what there is to read then is its end."""
        return self.is_lost or (self.is_loaded and is_readable(self.descriptor))

    def load(self, *, waits: bool) -> None:
        """Look whether it has loaded, or wait until it has. Raises ServerLostError and
        UnsafeToForkError.
        """
        if self.is_loaded:
            return
        left_s = max(0.0, self._load_by_s - self._clock())
        loaded = self._answer(left_s if waits else 0.0)
        if loaded is None:
            if waits or left_s == 0:
                raise self._lost(f"not loaded within {LOAD_TIMEOUT_S:g} s")
            return
        if problem := _problem(loaded["num_threads"], loaded["libcuda"]):
            self.close()
            raise UnsafeToForkError(
                f"forking is not safe: {problem} after the import; attempts are spawned instead"
            )
        self.is_loaded = True

    def fork(
        self, folder: RunFolder, environment: Mapping[str, str], supervisor: Supervisor
    ) -> Forked:
        """Raises ServerLostError, and OSError when the server may not fork."""
        self.was_used = True
        folder.log.touch()
        answer = self.ask({"start": str(folder.path.absolute()), "environment": dict(environment)})
        if "error" in answer:
            raise OSError(answer["error"], os.strerror(answer["error"]))
        pid: int = answer["pid"]
        try:
            return Forked(pid, self, supervisor)
        except OSError as error:
            if isinstance(error, ProcessLookupError):
                raise self._lost("it ended, and what it had started with it") from error
            os.kill(pid, signal.SIGKILL)
            self.ask({"reap": pid})
            raise

    def ask(self, order: Mapping[str, object]) -> dict[str, Any]:
        """Its answer. Raises ServerLostError."""
        self._socket.settimeout(REPLY_TIMEOUT_S)
        try:
            self._socket.sendall(json.dumps(order).encode() + b"\n")
        except OSError as error:
            raise self._lost(str(error)) from error
        answer = self._answer(REPLY_TIMEOUT_S)
        if answer is None:
            raise self._lost(f"no answer within {REPLY_TIMEOUT_S:g} s")
        return answer

    def close(self) -> None:
        """End it, and with it what it has started."""
        self.is_lost = True
        self._socket.close()
        self._process.kill()
        self._process.wait()
        self._log.close()

    def _answer(self, timeout_s: float) -> dict[str, Any] | None:
        """None when it has not come within this time; what has come of it is kept. Raises
        ServerLostError.
        """
        self._socket.settimeout(timeout_s)
        try:
            while not self._received.endswith(b"\n"):
                if not (part := self._socket.recv(4096)):
                    raise self._lost("it ended")
                self._received += part
        except (TimeoutError, BlockingIOError):
            return None
        except OSError as error:
            raise self._lost(str(error)) from error
        answer: dict[str, Any] = json.loads(self._received)
        self._received = b""
        return answer

    def _lost(self, how: str) -> ServerLostError:
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").split("\n")
        said = next((line.strip() for line in reversed(lines) if line.strip()), "")
        self.close()
        return ServerLostError(
            f"the fork server was lost: {how}{': ' if said else ''}{said[:300]}; attempts "
            "are spawned instead"
        )


class Forked:
    """A child of a fork server."""

    start = Fork.name

    def __init__(self, pid: int, server: Server, supervisor: Supervisor) -> None:
        """Raises OSError."""
        self.pid = pid
        self.descriptor = os.pidfd_open(pid)  # the number is its own until the server reaps it
        self._server, self._supervisor = server, supervisor
        server.num_running += 1
        supervisor.add(pid)

    def signal_group(self, which: signal.Signals) -> None:
        signal_group(self.pid, self.descriptor, which)

    def reap(self) -> int | None:
        """None where the server is lost. Its end kills a trainer, but this one may have come
        through before.
        """
        self._supervisor.remove(self.pid)
        os.close(self.descriptor)
        self._server.num_running -= 1
        if self._server.is_lost:
            return None
        try:
            return int(self._server.ask({"reap": self.pid})["exit_code"])
        except ServerLostError:
            return None


def _at_import(folder: RunFolder, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment that TensorFlow is to be imported in. Raises OSError."""
    try:
        spec = folder.read_trial()
    except ValueError as error:
        raise OSError(errno.EINVAL, f"no trial: {error}", str(folder.trial)) from error
    return {**environment, **switches.variables(spec, environment)}


def _key(variables: Mapping[str, str]) -> Key:
    return frozenset(
        (name, value)
        for name, value in variables.items()
        if name not in (*PLACEMENT, ORCHESTRATOR_VARIABLE)
    )


def _problem(num_threads: int, libcuda: bool) -> str:
    if libcuda:
        return "libcuda is loaded"
    return f"{num_threads} threads run" if num_threads != 1 else ""
