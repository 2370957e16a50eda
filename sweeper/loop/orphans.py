"""Kills what attempts left behind: those of dead orchestrators, and those that were killed."""

import os
from pathlib import Path

from scalemark.host.processes import kill_all, start_ticks
from scalemark.records.attempt import ORCHESTRATOR_VARIABLE

_END_WITHIN_S = 30.0  # what was killed: the kernel may be freeing much memory
# orphans: who waits for them has other attempts and a heartbeat to look after, and tries again
_ORPHANS_END_WITHIN_S = 5.0
_OWN = Path("/proc/self")


def end_orphans(variable: str, folder: Path, default: Path) -> tuple[int, list[int]]:
    """Kill the orphans of one folder of locks; return how many ended, and the ids of the others.

    An orphan was started for an orchestrator, or by a trainer, that does not run any more, and its
    `variable`, or else the `default`, names the folder. What is in another container is left alone,
    for the number of its orchestrator means nothing here, and so is what we may not look at.
    """

    def is_orphan(process: Path, variables: dict[bytes, bytes]) -> bool:
        starter = _starter(variables)
        if starter is None or int(process.name) == os.getpid():
            return False
        locks = Path(os.fsdecode(variables.get(variable.encode()) or os.fsencode(default)))
        if locks != folder or not _is_of_this_container(process):
            return False
        began, starter_began = start_ticks(int(process.name)), start_ticks(starter)
        # else the number is another's by now
        return began is not None and (starter_began is None or starter_began > began)

    return kill_all(is_orphan, _ORPHANS_END_WITHIN_S)


def end_started_by(starter: int) -> None:
    """Kill what a process of ours had started, which has just been killed itself.

    A user's program runs in a session of its own, and its children may do so, too. What SIGKILL
    does not end within seconds is left.
    """

    def was_started(process: Path, variables: dict[bytes, bytes]) -> bool:
        return _starter(variables) == starter and _is_of_this_container(process)

    kill_all(was_started, _ORPHANS_END_WITHIN_S)


def end_attempt(orchestrator: int, trainer: int, run_dir: str | None) -> None:
    """Kill what still runs of a dead orchestrator's attempt, and wait until it has ended, for it
    holds devices: the group of its trainer, and its ranks, which lead groups of their own and work
    in its run folder.
    """

    def is_of_attempt(process: Path, variables: dict[bytes, bytes]) -> bool:
        if _starter(variables) not in (orchestrator, trainer):
            return False
        if os.getpgid(int(process.name)) == trainer:
            return True
        if run_dir is None:
            return False
        return (process / "cwd").readlink() == Path(run_dir).resolve()

    kill_all(is_of_attempt, _END_WITHIN_S)


def _starter(variables: dict[bytes, bytes]) -> int | None:
    """Return the process that a process was started for."""
    starter = variables.get(ORCHESTRATOR_VARIABLE.encode(), b"")
    if starter.isdigit():
        return int(starter)
    return None


def _is_of_this_container(process: Path) -> bool:
    return (process / "ns/pid").readlink() == (_OWN / "ns/pid").readlink()
