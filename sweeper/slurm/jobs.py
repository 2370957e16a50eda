"""Asks what became of the jobs of a Slurm cluster."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass

from sweeper.launchers import JobState
from sweeper.slurm.commands import SlurmError, ask

_FORMAT = "%i|%T|%D|%r|%k"
_QUEUED = (
    *("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT"),
    "RESV_DEL_HOLD",
)
# Slurm's word for how a job ended -> ours; of a newer Slurm's words jobs are taken for running
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
# Why a job is COMPLETING: it has ended, and its nodes are being cleared up, which a dead one may
# never be.
_ENDING = {
    "NonZeroExitCode": "FAILED",
    "NodeDown": "NODE_FAIL",
    "OutOfMemory": "OUT_OF_MEMORY",
    "TimeLimit": "TIMEOUT",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJob:
    """A job, or one of an array of jobs, as Slurm has it."""

    job_id: str  # 12, or 12_3 of an array
    state: JobState
    hosts: int  # that it has, or asks for
    why: str  # it waits, or ended
    comment: str  # that it was submitted with


def jobs_named(name: str) -> list[SlurmJob]:
    """Return this user's, in order, also those that ended lately. Raises SlurmError."""
    return read_jobs(
        ask("squeue", "-h", "-r", "-t", "all", "-u", str(os.getuid()), "-n", name, "-o", _FORMAT)
    )


def read_jobs(text: str) -> list[SlurmJob]:
    """Read what squeue prints in our format."""
    lines = [line.split("|", 4) for line in text.splitlines()]
    jobs = [_job(*fields) for fields in lines if len(fields) == 5]
    return sorted(jobs, key=lambda job: [int(part) for part in re.findall(r"\d+", job.job_id)])


def why_gone(job_id: str) -> str:
    """Say how a job ended that Slurm's controller has forgotten, where the cluster keeps accounts;
    else nothing.
    """
    if not shutil.which("sacct"):
        return ""
    try:
        words = ask("sacct", "-n", "-X", "-P", "-j", job_id, "-o", "State").split()
    except SlurmError:  # it is installed, and there are no accounts
        return ""
    state = words[0] if words else ""
    return _ENDED.get(state, state)


def _job(job_id: str, state: str, hosts: str, reason: str, comment: str) -> SlurmJob:
    now, why = JobState.RUNNING, ""
    if state in _QUEUED:
        now, why = JobState.QUEUED, reason.replace("None", "")
    elif state in _ENDED:
        now, why = JobState.ENDED, _ENDED[state]
        if state == "COMPLETING" and reason in _ENDING:
            why = _ENDED[_ENDING[reason]]
    num_hosts = int(hosts) if hosts.isdigit() else 1
    return SlurmJob(job_id=job_id, state=now, hosts=num_hosts, why=why, comment=comment)
