"""Ranks as tasks of one `srun` over the nodes of the Slurm job that this process runs in.

```
  supervisor ── srun ──►  node 1: srun_task ──►  worker-0, its log, its share of the node's GPUs
     ▲             │              srun_task ──►  ps-0      no GPU
     │             └───►  node 2: srun_task ──►  worker-1, ...
     └── "rank worker-1 ended: -9" by srun's output, whatever a shared folder has to say yet
```

When a rank other than worker 0 fails srun ends all; so it does at SIGTERM, which it gets when this
process dies, however.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from scalemark.records.attempt import ORCHESTRATOR_VARIABLE, WORKER_0, Cluster, Rank
from scalemark.records.machine import DeviceKind
from trainer import own_process
from trainer.errors import UnsupportedTrialError
from trainer.rank_starts import RanksJob
from trainer.ranks import srun_task
from trainer.ranks.own_rank import AssignedRanks, reserved_ports

ANSWER_TIMEOUT_S = 60.0  # of Slurm's controller; its commands give up after 10 s
END_TIMEOUT_S = 60.0  # Slurm's KillWait is 30 s
_ADDRESS = re.compile(r"(?:^|\s)NodeName=(\S+).*?\sNodeAddr=(\S+)")  # a node is a line


@contextmanager
def start_ranks(job: RanksJob) -> Iterator[AssignedRanks]:
    hosts = _hosts(job)
    addresses = _addresses(hosts)
    # of this host; on others they are as likely to be free
    with reserved_ports(len(job.jobs) * len(hosts)) as reserved:
        cluster = job.cluster([addresses[host] for host in hosts], reserved)
        srun = _start(job, cluster, hosts)
        assert srun.stdout
        try:
            yield AssignedRanks(cluster, srun.stdout.fileno())
        finally:
            _end(srun)


def _end(srun: subprocess.Popen[bytes]) -> None:
    """Have Slurm kill what runs on all nodes; srun ends when that is done."""
    srun.send_signal(signal.SIGTERM)
    try:
        srun.wait(END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        print(f"srun did not end within {END_TIMEOUT_S:g} s, and was killed", file=sys.stderr)
        srun.kill()
        srun.wait()
    assert srun.stdout
    srun.stdout.close()


def _hosts(job: RanksJob) -> tuple[str, ...]:
    hosts = job.given.hosts if job.given else ()
    if job.given and not hosts and (nodes := os.environ.get("SLURM_JOB_NODELIST")):
        shown = subprocess.run(
            ["scontrol", "show", "hostnames", nodes], capture_output=True, text=True, check=False
        )
        hosts = tuple(shown.stdout.split())
        # it is recorded with the attempt
        job.folder.write(job.folder.placement, replace(job.given, hosts=hosts).to_json())
    if "SLURM_JOB_ID" not in os.environ:
        raise UnsupportedTrialError(
            "rank_start=srun: this is no Slurm job, on whose nodes srun could start ranks"
        )
    if len(set(hosts)) != job.spec.hosts:
        raise UnsupportedTrialError(
            f"rank_start=srun: hosts={job.spec.hosts} wanted as many different nodes, found "
            f"{', '.join(hosts) or 'none'}"
        )
    return hosts


def _addresses(hosts: Sequence[str]) -> dict[str, str]:
    """Ask Slurm for the nodes' addresses. Raises OSError."""
    command = ["scontrol", "-o", "show", "node", ",".join(hosts)]
    try:
        asked = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=ANSWER_TIMEOUT_S
        )
    except subprocess.TimeoutExpired as error:
        raise OSError(f"scontrol did not end within {ANSWER_TIMEOUT_S:g} s") from error
    found = dict(_ADDRESS.findall(asked.stdout))
    missing = set(hosts) - set(found)
    if missing:
        reason = asked.stderr.strip() or "it says nothing"
        raise OSError(f"scontrol gives no address of {', '.join(sorted(missing))}: {reason}")
    return found


def _start(job: RanksJob, cluster: Cluster, hosts: Sequence[str]) -> subprocess.Popen[bytes]:
    tasks: dict[str, list[Mapping[str, object]]] = {host: [] for host in hosts}
    for rank in cluster.ranks:
        tasks[hosts[rank.task_index]].append(_task(job, cluster, rank))
    options = (
        f"--nodes={len(hosts)} --ntasks={len(cluster.ranks)} --ntasks-per-node={len(job.jobs)} "
        "--distribution=block --kill-on-bad-exit=1 --wait=0 --overlap --mem=0 --cpu-bind=none "
        "--unbuffered --input=none"
    )
    places = [f"--nodelist={','.join(hosts)}", f"--chdir={job.folder.path}"]
    task = [sys.executable, "-I", "-S", srun_task.__file__, json.dumps(tasks)]
    environment = dict(os.environ)
    environment.pop("CUDA_VISIBLE_DEVICES", None)  # of this host: each node has its own GPUs
    environment.pop(ORCHESTRATOR_VARIABLE, None)
    supervisor = os.getpid()
    return subprocess.Popen(
        ["srun", *options.split(), *places, *task],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,  # who kills our group leaves it the time to end the step
        preexec_fn=lambda: own_process.die_with(supervisor, by=signal.SIGTERM),
    )


def _task(job: RanksJob, cluster: Cluster, rank: Rank) -> Mapping[str, object]:
    has_gpus = job.spec.device_kind == DeviceKind.GPU and rank.job_name == "worker"
    return {
        "job_name": rank.job_name,
        "task_index": rank.task_index,
        "log": str(job.folder.rank_log(rank)),
        "argv": job.command(cluster, rank),
        "devices": list(range(job.spec.gpus_per_host)) if has_gpus else None,
        # when worker 0 has failed, the supervisor sees first who made it fail
        "fails_all": rank != WORKER_0,
    }
