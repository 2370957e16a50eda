"""What became of the jobs of a Slurm cluster."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass

from sweeper.launchers import JobState
from sweeper.slurm.commands import SlurmError, ask

_FORMAT = "%i|%T|%D|%r|%k"
_QUEUED = (
    "PENDING",
    "CONFIGURING",
    "REQUEUED",
    "REQUEUE_FED",
    "REQUEUE_HOLD",
    "SPECIAL_EXIT",
    "RESV_DEL_HOLD",
)
_ENDED = {
    "BOOT_FAIL": "its host did not start",
    "CANCELLED": "canceled",
    "COMPLETED": "",
    "COMPLETING": "",
    "DEADLINE": "its deadline passed",
    "FAILED": "failed",
    "NODE_FAIL": "its host failed",
    "OUT_OF_MEMORY": "out of memory; ask for more by launcher.slurm.options, as [--mem=64G]",
    "PREEMPTED": "preempted by another job",
    "REVOKED": "revoked",
    "TIMEOUT": "its time limit came; launcher.slurm.time_min sets it",
}
_ENDING = {
    "NonZeroExitCode": _ENDED["FAILED"],
    "NodeDown": _ENDED["NODE_FAIL"],
    "OutOfMemory": _ENDED["OUT_OF_MEMORY"],
    "TimeLimit": _ENDED["TIMEOUT"],
}
"""Why a job is COMPLETING: it has ended, and its nodes are being cleared up, which a dead one may
never be.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJob:
    """A job, or one of an array of jobs, as Slurm has it."""

    job_id: str  # 12, or 12_3 of an array
    state: JobState
    hosts: int  # that it has, or asks for
    why: str  # it waits, or ended
    comment: str  # that it was submitted with


def jobs_named(name: str) -> list[SlurmJob]:
    """Of this user, in order, also those that ended lately. Raises SlurmError."""
    return read_jobs(
        ask("squeue", "-h", "-r", "-t", "all", "-u", str(os.getuid()), "-n", name, "-o", _FORMAT)
    )


def read_jobs(text: str) -> list[SlurmJob]:
    """Of squeue in our format."""
    jobs = [_job(*line.split("|", 4)) for line in text.splitlines() if line.count("|") >= 4]
    return sorted(
        jobs, key=lambda job: [int(part) if part.isdigit() else 0 for part in job.job_id.split("_")]
    )


def why_gone(job_id: str) -> str:
    """How a job ended that Slurm's controller has forgotten, where the cluster keeps accounts; else
    nothing.
    """
    if not shutil.which("sacct"):
        return ""
    try:
        state = (
            ask("sacct", "-n", "-X", "-P", "-j", job_id, "-o", "State").partition(" ")[0].strip()
        )
    except SlurmError:  # it is installed, and there are no accounts
        return ""
    return _ENDED.get(state, state)


def _job(job_id: str, state: str, hosts: str, reason: str, comment: str) -> SlurmJob:
    return SlurmJob(
        job_id=job_id,
        state=JobState.QUEUED
        if state in _QUEUED
        else JobState.ENDED
        if state in _ENDED
        else JobState.RUNNING,
        hosts=int(hosts) if hosts.isdigit() else 1,
        why=_why(state, reason),
        comment=comment,
    )


def _why(state: str, reason: str) -> str:
    if state in _QUEUED:
        return reason if reason != "None" else ""
    return _ENDING.get(reason, "") if state == "COMPLETING" else _ENDED.get(state, "")
