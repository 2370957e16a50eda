"""Forks trainers from a server that has TensorFlow loaded: launcher.start=fork.

A fork takes hundredths of a second. TensorFlow reads variables while it is imported, so attempts of
another environment get another server. Where forking is not safe, or servers die, attempts are
spawned instead.
"""

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
from functools import partial
from typing import Any

import psutil

from scalemark.host import own_code, processes, software
from scalemark.records import switches
from scalemark.records.axes import Engine
from scalemark.run_folder import RunFolder
from sweeper.starts.spawn import Process, Spawn, Start

MOST_SERVERS = 8  # more only while all are busy
# its own; 370 MiB of libraries are shared: PSS 655 MiB alone, 380 of four (TensorFlow 2.21)
SERVER_BYTES = 284 * 2**20
MOST_MEMORY = 0.25  # of what is free, for all servers together
LOAD_TIMEOUT_S = 300.0
REPLY_TIMEOUT_S = 10.0  # it takes hundredths of a second
_TRIES = 2  # a server may be killed by anybody; two in a row have a reason

Key = frozenset[tuple[str, str]]


class Fork(Start):
    """Starts trainers by fork servers, one per environment, until `problem` says why it spawns."""

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
        self._spawn = Spawn(own_code.module_command(module))
        self._servers: dict[Key, Server] = {}  # the one used last comes last
        self._num_lost: Counter[Key] = Counter()  # servers in a row

    def prepare(self, folder: RunFolder, environment: Mapping[str, str]) -> int | None:
        try:
            server = self._server(_at_import(folder, environment), waits=False)
        except OSError:
            return None  # `start` meets it again, and raises it
        if server is None or server.is_loaded:
            return None
        return server.descriptor

    def start(self, folder: RunFolder, environment: Mapping[str, str]) -> Process:
        at_import = _at_import(folder, environment)
        key = _key(at_import)
        while server := self._server(at_import, waits=True):
            try:
                forked = server.fork(folder, environment)
            except ServerLostError as error:
                self._lose(key, error)
            else:
                del self._num_lost[key]
                return forked
        if given := folder.read_placement():
            folder.write(folder.placement, replace(given, start=Spawn.name).to_json())
        return self._spawn.start(folder, environment)

    def close(self) -> None:
        for server in self._servers.values():
            server.close()
        self._servers.clear()

    def _server(self, variables: Mapping[str, str], *, waits: bool) -> "Server | None":
        """Return a living server, loaded if one `waits`; None when trainers are to be spawned."""
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

    def _kept(self, key: Key, variables: Mapping[str, str]) -> "Server":
        server = self._servers.pop(key, None)
        if server is not None and server.has_ended:
            server.close()
            server = None
        if server is None:
            self._make_room()
            server = Server(self._module, variables, self._clock)
        self._servers[key] = server
        return server

    def _lose(self, key: Key, error: "ServerLostError") -> None:
        self._num_lost[key] += 1
        if self._num_lost[key] >= _TRIES:
            self.problem = str(error)

    def _make_room(self) -> None:
        """Close idle servers so that one more has room, but those that were not used yet."""
        free_bytes = self._free_bytes() + len(self._servers) * SERVER_BYTES  # without any server
        most = min(MOST_SERVERS, max(1, int(MOST_MEMORY * free_bytes) // SERVER_BYTES))
        for key, server in list(self._servers.items()):
            if len(self._servers) < most:
                break
            if server.was_used and server.num_running == 0:
                self._servers.pop(key).close()


class ServerLostError(Exception):
    """Raised when a fork server has ended, or does not answer; its trainers end with it."""


class UnsafeToForkError(Exception):
    """Raised when the loaded server has what a fork does not carry over."""


class Server:
    """One `python -m trainer.fork_server`. Nothing here waits for it without end."""

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
                own_code.module_command("trainer.fork_server", str(its.fileno()), module),
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
        """A descriptor that is readable when the server has loaded, or has ended."""
        return self._socket.fileno()

    @property
    def has_ended(self) -> bool:
        """A loaded server says nothing unasked: what there is to read is its end."""
        return self.is_lost or (self.is_loaded and bool(processes.wait_readable([self.descriptor])))

    def load(self, *, waits: bool) -> None:
        """Check whether it has loaded, or wait. Raises ServerLostError, UnsafeToForkError."""
        if self.is_loaded:
            return
        left_s = max(0.0, self._load_by_s - self._clock())
        loaded = self._answer(left_s if waits else 0.0)
        if loaded is None:
            if waits or left_s == 0:
                raise self._lost(f"not loaded within {LOAD_TIMEOUT_S:g} s")
            return
        problem = ""
        if loaded["libcuda"]:
            problem = "libcuda is loaded"
        elif loaded["num_threads"] != 1:
            problem = f"{loaded['num_threads']} threads run"
        if problem:
            self.close()
            raise UnsafeToForkError(
                f"forking is not safe: {problem} after the import; attempts are spawned instead"
            )
        self.is_loaded = True

    def fork(self, folder: RunFolder, environment: Mapping[str, str]) -> Process:
        """Fork a trainer. Raises ServerLostError, and OSError when the server may not fork."""
        self.was_used = True
        folder.log.touch()
        answer = self.ask({"start": str(folder.path.absolute()), "environment": dict(environment)})
        if "error" in answer:
            raise OSError(answer["error"], os.strerror(answer["error"]))
        pid: int = answer["pid"]
        try:
            forked = Process(pid, Fork.name, partial(self._reap, pid))
        except OSError as error:
            if isinstance(error, ProcessLookupError):
                raise self._lost("it ended, and what it had started with it") from error
            os.kill(pid, signal.SIGKILL)
            self.ask({"reap": pid})
            raise
        self.num_running += 1
        return forked

    def _reap(self, pid: int) -> int | None:
        """Return the exit status; None where this is lost: its end kills a trainer."""
        self.num_running -= 1
        if self.is_lost:
            return None
        try:
            return int(self.ask({"reap": pid})["exit_code"])
        except ServerLostError:
            return None

    def ask(self, order: Mapping[str, object]) -> dict[str, Any]:
        """Return its answer. Raises ServerLostError."""
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
        """End it and what it has started."""
        self.is_lost = True
        self._socket.close()
        self._process.kill()
        self._process.wait()
        self._log.close()

    def _answer(self, timeout_s: float) -> dict[str, Any] | None:
        """Return its answer; None when it has not come in time, and the beginning of it is kept.

        Raises ServerLostError.
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
        log = self._log.read().decode(errors="replace").strip()
        self.close()
        if log:
            how += f": {log.splitlines()[-1].strip()[:300]}"
        return ServerLostError(f"the fork server was lost: {how}; attempts are spawned instead")


def _at_import(folder: RunFolder, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for importing TensorFlow. Raises OSError."""
    try:
        spec = folder.read_trial()
    except ValueError as error:
        raise OSError(errno.EINVAL, f"no trial: {error}", str(folder.trial)) from error
    if spec.engine == Engine.command:  # its program is given them, and nothing of ours
        return dict(environment)
    return {**environment, **switches.variables(spec, environment)}


def _key(variables: Mapping[str, str]) -> Key:
    kept = {**variables}
    for name in (*software.PLACEMENT, processes.ORCHESTRATOR_VARIABLE):
        kept.pop(name, None)
    return frozenset(kept.items())
