"""Starts the ranks of an agent's trials on the hosts of its placement group, as
trainer/rank_starts/ray.py asks for them.

```
  supervisor of a trial ── connects ──────────────►  the agent's Ray task
     ◄── {"hosts": [{"address": ..., "gpus": ...}]} ──
     ── {"environment": ..., "ranks": [...]} ──────►     ── a Ray task each ──►  ranks on hosts
     ◄── rank worker-1 ended: -9 ──────────────────
     ── closes, or dies ───────────────────────────►     ── cancels ──►  those that still run
     ◄── closes: nothing of it runs ───────────────
```

Lines go over a socket that is a file of the user's own. Sent to Ray's workers by value: it needs
the standard library, and Ray.
"""

from __future__ import annotations

import json
import os
import platform
import select
import socket
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from types import ModuleType
from typing import Any

from scalemark.records.attempt import ORCHESTRATOR_VARIABLE, RANK_SOCKET_VARIABLE
from sweeper.launchers import HOSTS_VARIABLE, RANK_START_VARIABLE
from sweeper.ray.program import placed, run_rank

# A host that was given to us just now starts a worker process first: that takes seconds.
HOST_TIMEOUT_S = 60.0
LOST = "one of its hosts died"


class HostsSilentError(Exception):
    """Some host of the placement group does not answer."""


class RankService:
    """Starts and watches ranks, as long as `serve` is called again and again."""

    def __init__(
        self, bundles: Sequence[Mapping[str, float]], tied: str, listening: socket.socket
    ) -> None:
        """Raises HostsSilentError."""
        import ray

        self._ray, self._tied, self._listening = ray, tied, listening
        self._group = ray.util.get_current_placement_group()
        self._run_rank = ray.remote(run_rank)
        self._hosts = [_describe_host(), *self._describe_others(bundles)]
        self._trials: list[_Trial] = []
        self._is_canceled = False
        self.lost = ""
        """Why the agent cannot go on; empty when it can."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the variables by which an agent, and its trials, find this service."""
        return {
            HOSTS_VARIABLE: ",".join(host["name"] for host in self._hosts),
            RANK_START_VARIABLE: "ray",
            RANK_SOCKET_VARIABLE: self._listening.getsockname(),
        }

    def serve(self, *, is_canceled: bool) -> bool:
        """Do what there is to do now. True when the agent has to end: a host is lost, or our task
        was canceled.

        Ray ends all tasks that a canceled one has started, and says no more of them to it.
        """
        self._is_canceled |= is_canceled
        while select.select([self._listening], [], [], 0)[0]:
            self._trials.append(_Trial(self._ray, self._listening.accept()[0], self._hosts))
        for trial in self._trials:
            asked = trial.hear()
            if asked and not self._is_ending():
                self._start(trial, asked)
            if not self._is_canceled:
                self._look_after(trial)
        self._trials = [trial for trial in self._trials if not trial.is_over(self._is_canceled)]
        return self._is_ending()

    def close(self) -> None:
        """End what still runs."""
        for trial in self._trials:
            trial.cancel()

    def _is_ending(self) -> bool:
        return bool(self.lost) or self._is_canceled

    def _start(self, trial: _Trial, asked: Mapping[str, Any]) -> None:
        for rank in asked["ranks"]:
            environment = {**asked["environment"], "CUDA_VISIBLE_DEVICES": rank["gpus"]}
            # the group has host and GPUs for all its trials
            run = placed(self._run_rank, self._group, rank["host"], {})
            node = self._hosts[rank["host"]]["node"]
            task = run.remote(
                self._tied, node, rank["argv"], environment, rank["log"], ORCHESTRATOR_VARIABLE
            )
            trial.add(rank["name"], rank["log"], task)

    def _look_after(self, trial: _Trial) -> None:
        try:
            is_lost = trial.note_ends(tell=not self.lost)
        except self._ray.exceptions.TaskCancelledError:  # our own task
            self._is_canceled = True
        else:
            self.lost = LOST if is_lost else self.lost

    def _describe_others(
        self, bundles: Sequence[Mapping[str, float]]
    ) -> Sequence[Mapping[str, Any]]:
        """Raises HostsSilentError."""
        task = self._ray.remote(_describe_host)
        asked = [
            placed(task, self._group, host, bundles[host]).remote()
            for host in range(1, len(bundles))
        ]
        try:
            return list(self._ray.get(asked, timeout=HOST_TIMEOUT_S))
        except self._ray.exceptions.RayError as error:
            raise HostsSilentError(f"its hosts do not answer: {_plain(error)}") from error


class _Trial:
    """The connection of a trial that asks for ranks, and the tasks that run for it."""

    def __init__(
        self, ray: ModuleType, connection: socket.socket, hosts: Sequence[Mapping[str, Any]]
    ) -> None:
        self._ray, self._connection = ray, connection
        self._ranks: dict[Any, tuple[str, str]] = {}  # of tasks: name and log
        self._heard = b""
        self._has_left = False
        self._tell(json.dumps({"hosts": hosts}))

    def hear(self) -> Mapping[str, Any] | None:
        """Return what it asks for, once, when all of that has come. When it has left, its ranks are
        ended.
        """
        while not self._has_left and select.select([self._connection], [], [], 0)[0]:
            try:
                part = self._connection.recv(65536)
            except ConnectionError:  # it died
                part = b""
            self._heard += part
            if part.endswith(b"\n"):
                return dict(json.loads(self._heard))
            if not part:
                self._has_left = True
                self.cancel()
        return None

    def add(self, name: str, log: str, task: Any) -> None:
        self._ranks[task] = name, log

    def cancel(self) -> None:
        """Cancel the tasks: they kill their ranks."""
        for task in self._ranks:
            self._ray.cancel(task)

    def note_ends(self, *, tell: bool) -> bool:
        """Pass on how ranks ended. True when a host is lost: then what becomes of the trial is not
        its fault, and not passed on.

        Raises ray.exceptions.TaskCancelledError when our own task was canceled.
        """
        if not self._ranks:
            return False
        ended, _ = self._ray.wait(list(self._ranks), num_returns=len(self._ranks), timeout=0)
        ends = {self._ranks.pop(task): self._end_of(task) for task in ended}
        if None in ends.values():
            return True
        for (name, log), end in ends.items():
            if not tell:
                break
            if isinstance(end, str):
                self._tell(f"{name}: {end}")
                _note(log, f"Error: {end}\n")
            self._tell(f"rank {name} ended: {'unseen' if isinstance(end, str) else end}")
        return False

    def is_over(self, is_canceled: bool) -> bool:
        """Say whether it has left, and nothing of it runs, or Ray ends what does; then close."""
        is_over = self._has_left and (is_canceled or not self._ranks)
        if is_over:
            self._connection.close()
        return is_over

    def _end_of(self, task: Any) -> int | str | None:
        """Return what `run_rank` does; None, too, when its host died, and a text when Ray has
        something to say.
        """
        errors = self._ray.exceptions
        try:
            end: int | str | None = self._ray.get(task)
        except errors.NodeDiedError:
            return None
        except errors.RayError as error:
            return _plain(error)
        return end

    def _tell(self, line: str) -> None:
        with suppress(ConnectionError):  # it died, and needs no telling
            self._connection.sendall(f"{line}\n".encode())


@contextmanager
def rank_service(bundles: Sequence[Mapping[str, float]], tied: str) -> Iterator[RankService]:
    """Serve an agent that runs in this block. Raises HostsSilentError."""
    with (
        tempfile.TemporaryDirectory(prefix="scalemark-ray-", ignore_cleanup_errors=True) as folder,
        socket.socket(socket.AF_UNIX) as listening,
    ):
        listening.bind(f"{folder}/ranks")
        listening.listen()
        with closing(RankService(bundles, tied, listening)) as service:
            yield service


def _describe_host() -> Mapping[str, Any]:
    """Describe the host that this runs on; a Ray task runs it that has all of the host."""
    import ray

    return {
        "name": platform.node(),
        "node": ray.get_runtime_context().get_node_id(),
        "address": ray.util.get_node_ip_address(),  # type: ignore[no-untyped-call]
        "gpus": os.environ.get("CUDA_VISIBLE_DEVICES"),
    }


def _plain(error: Exception) -> str:
    return " ".join(str(error).split())


def _note(log: str, text: str) -> None:
    """Write in the log of a rank that may have been unable to: what a trial failed of is looked for
    there. The trial's own log has it, too.
    """
    with suppress(OSError), open(log, "a") as file:  # noqa: PTH123
        file.write(text)
