"""A Ray cluster whose nodes are processes of this machine, with 2 CPUs and 2 made-up GPUs each."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.slurm import until

MARK = "SCALEMARK_TEST_NODE"
NODES = ("head", "b", "c")
RESOURCES = (
    *("--num-cpus=2", "--num-gpus=2", "--object-store-memory=100000000"),
    "--node-ip-address=127.0.0.1",
)
VARIABLES = {
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    # a driver or node that lost its head gives up after this
    "RAY_gcs_rpc_server_reconnect_timeout_s": "5",
}


@dataclass(slots=True)
class Cluster:
    """Nodes that run; programs on them inherit a variable that tells which node it is."""

    folder: Path
    port: int
    down: set[str] = field(default_factory=lambda: set(NODES))

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def variables(self) -> dict[str, str]:
        return {**VARIABLES, "RAY_ADDRESS": self.address}

    def start(self, node: str) -> None:
        role = ["--address", self.address]
        if node == "head":
            role = ["--head", f"--port={self.port}", "--include-dashboard=false"]
            role.append(f"--temp-dir={self.folder}")
        ray = [str(Path(sys.executable).with_name("ray")), "start", *role]
        own = {**os.environ, **VARIABLES, MARK: f"{self.folder}/{node}"}
        own |= {
            "SCALEMARK_LOCK_DIR": f"{self.folder}/locks",
            "SCALEMARK_CACHE": f"{self.folder}/cache",
        }
        own.pop("RAY_ADDRESS", None)
        subprocess.run(
            [*ray, *RESOURCES],
            cwd=self.folder,
            env=own,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
        )
        self.down.discard(node)

    def restart(self) -> None:
        """Begin anew: all nodes, with a head that knows of nothing before."""
        for node in NODES:
            self.kill(node)
        for node in NODES:
            self.start(node)

    def kill(self, node: str) -> None:
        """As if its power had gone: Ray's processes there, and what they run."""
        until(lambda: not self._kill(f"{MARK}={self.folder}/{node}"))
        self.down.add(node)

    def running(self) -> list[int]:
        """Process ids of trainers that Ray's workers run."""
        far = b"\0sweeper.elsewhere\0"
        return [pid for pid, words in self._processes(f"{MARK}={self.folder}/") if far in words]

    def _kill(self, mark: str) -> bool:
        processes = self._processes(mark)
        for pid, _ in processes:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return bool(processes)

    def _processes(self, mark: str) -> list[tuple[int, bytes]]:
        marked = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has ended
                if any(
                    variable.startswith(mark.encode())
                    for variable in (process / "environ").read_bytes().split(b"\0")
                ):
                    marked.append((int(process.name), (process / "cmdline").read_bytes()))
        return marked


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Start one; a driver needs its variables in its environment."""
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder:
        with socket.create_server(("127.0.0.1", 0)) as free:
            started = Cluster(Path(folder), free.getsockname()[1])
        try:
            for node in NODES:
                started.start(node)
            yield started
        finally:
            for node in reversed(NODES):
                started.kill(node)
