"""Says how an attempt that ran elsewhere ended, by what is known of it here."""

from __future__ import annotations

import re
import shlex
import signal
import sys
from typing import TYPE_CHECKING

from scalemark.records.attempt import HOST_LOST, RANK_LOST, WORKER_0
from scalemark.records.measurement import EXIT_CODES, Outcome, ended, judge_kill
from scalemark.run_folder import RunFolder
from sweeper.ray_task import LOST

if TYPE_CHECKING:
    from sweeper.elsewhere import Near

# what ssh, kubectl, srun and Ray say of a host that another try may reach
_NO_HOST = re.compile(
    r"(?i)connection (refused|timed out|closed|reset)|no route to host|could not resolve|"
    r"broken pipe|kex_exchange|unable to contact slurm|unable to connect|socket timed out|"
    r"i/o timeout|handshake timeout|error dialing|pods .* not found"
)


def judge(near: Near, status: int) -> tuple[int, str, str]:
    """Return the exit status of the attempt, which is the trainer's where its end is known;
    outcome and message where it left no result that counts, else an empty message.
    """
    exit_code: int | None = near.end.get("exit_code")
    if exit_code is None or (exit_code and near.end["signal"]):
        outcome, message = _why(near, status)
        return 1 if outcome == Outcome.FAILED else HOST_LOST, outcome, message
    if exit_code != -signal.SIGKILL or RunFolder(near.folder).result.exists():
        return exit_code, "", ""
    # whether the kernel killed it, its host alone knows
    outcome, message = judge_kill(
        by_kernel=near.end["kernel_killed"], shares_host=near.where["shares_host"]
    )
    if outcome is Outcome.OUT_OF_MEMORY:
        return EXIT_CODES[outcome], outcome, f"{message} on {near.host}"
    if near.where["rank"]:
        return exit_code, "", ""  # its supervisor says that
    return RANK_LOST, outcome, f"{message} on {near.host}"  # worth a retry


def _why(near: Near, status: int) -> tuple[str, str]:
    """Return outcome and message of an attempt that did not end by itself."""
    if problem := near.end.get("problem"):
        return Outcome.FAILED, problem
    said = "".join(near.said)
    for pattern, outcome, message in near.where["ends"]:
        if re.search(pattern, said):
            return outcome, message
    where = near.host or near.where["host"] or "its host"
    if ended_by := near.end.get("signal"):
        return Outcome.INTERRUPTED, f"ended by {signal.Signals(ended_by).name} on {where}"
    if near.was_signaled:
        return Outcome.INTERRUPTED, "interrupted"
    last = [f"exit code {status}", *said.strip().splitlines()][-1]
    if near.host:
        return Outcome.INTERRUPTED, f"{where} was lost: {last}"
    if status == LOST or _NO_HOST.search(said):
        return Outcome.INTERRUPTED, f"{where}: {last}"
    return Outcome.FAILED, f"{shlex.join(near.where['prefix'])}: {last}"


def leave(near: Near, outcome: str, message: str) -> None:
    """Write a result; the supervisor of ranks quotes what the log says of others."""
    print(f"Error: {message}", file=sys.stderr, flush=True)
    if near.where["rank"] in ("", WORKER_0.name):
        folder = RunFolder(near.folder)
        folder.write(folder.result, ended(Outcome(outcome), message).to_json())
