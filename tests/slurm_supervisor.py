"""Runs a private Slurm cluster of virtual nodes until the process that started this says so or ends; leaves nothing behind.

A process of its own, because only somebody else can clear up after a test run that was killed.
`tests.slurm.cluster` starts it. It prints the cluster's folder when all nodes are idle; a line on standard input, or its end,
stops it, and all that runs in the cluster's jobs.
"""

import itertools
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

NODES = ("n1", "n2", "n3", "n4")
GPUS_PER_NODE = 8
PORTS = range(30_000, 31_800)
START_TIMEOUT_S = 300.0
NULL_DEVICE = os.makedev(1, 3)

CONFIG = """\
ClusterName=scalemark
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort={controller_port}
AuthType=auth/none
CredType=cred/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmctldParameters=preempt_send_user_signal
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0,sched_min_interval=0
DefMemPerCPU=500
ReturnToService=2
GresTypes=gpu
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd-%n.log
SlurmctldTimeout=5
SlurmdTimeout=10
MessageTimeout=3
KillWait=10
BatchStartTimeout=1
AccountingStorageType=accounting_storage/none
SlurmdParameters=config_overrides
{nodes}
PartitionName=main Nodes={names} Default=YES MaxTime=60 State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime=15
PartitionName=high Nodes={names} MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=off
"""
NODE = "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=32 RealMemory=64000 Gres=gpu:{gpus} State=UNKNOWN"


def main() -> None:
    folder = Path(
        tempfile.mkdtemp(prefix="scalemark-slurm-", dir="/tmp")
    )  # a socket's path has 107 bytes at most
    try:
        _write_config(folder)
        _run(folder, "slurmctld", "-c")
        for node in NODES:
            start_node(folder, node)
        _wait_until_idle(folder)
        print(folder, flush=True)
        sys.stdin.readline()
    finally:
        end_all(folder)
        shutil.rmtree(folder)


def start_node(folder: Path, node: str) -> None:
    """It is idle a second or two later."""
    _run(folder, "slurmd", "-N", node)


def kill_node(folder: Path, node: str) -> None:
    """As if its power had gone: the daemons, and whatever jobs run there."""
    _kill_until_none(lambda: [*_with_log(folder, f"slurmd-{node}.log"), *_of_jobs(folder, node)])


def end_all(folder: Path) -> None:
    _kill_until_none(lambda: [*_with_log(folder, ""), *_of_jobs(folder, "")])


def jobs_processes(folder: Path, node: str = "") -> list[int]:
    """Process ids of all that runs in jobs, of one node or of all."""
    return list(_of_jobs(folder, node))


def states(folder: Path) -> list[str]:
    """Of the nodes; none while no controller answers."""
    command = ["sinfo", "-h", "-N", "-p", "main", "-o", "%T"]
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False
    ).stdout.split()


def _kill_until_none(find: Callable[[], list[int]]) -> None:
    while found := find():
        _kill(found)


def _kill(pids: list[int]) -> None:
    """And wait until they have ended, with all their threads: only then do they listen no more."""
    with ExitStack() as stack:
        signs = []
        for pid in pids:
            with suppress(ProcessLookupError):
                signs.append(stack.enter_context(os.fdopen(os.pidfd_open(pid))))
                os.kill(pid, signal.SIGKILL)
        for sign in signs:
            select.select([sign], [], [])


def _with_log(folder: Path, log: str) -> Iterator[int]:
    """Of the cluster's daemons, those that write this log: step daemons bear no other sign of their node."""
    begins = str(folder / "log" / log)
    for process in _processes():
        with suppress(OSError):  # it ends just now
            if any(
                str(opened.readlink()).startswith(begins) for opened in (process / "fd").iterdir()
            ):
                yield int(process.name)


def _of_jobs(folder: Path, node: str) -> Iterator[int]:
    """Whatever has the environment of a job of this cluster, also what left its session."""
    config = f"SLURM_CONF={folder}/slurm.conf".encode()
    for process in _processes():
        with suppress(OSError):
            variables = (process / "environ").read_bytes().split(b"\0")
            names = [text for text in variables if text.startswith(b"SLURMD_NODENAME=")]
            if (
                config in variables
                and names
                and (not node or names[0] == f"SLURMD_NODENAME={node}".encode())
            ):
                yield int(process.name)


def _processes() -> Iterator[Path]:
    return (
        path
        for path in Path("/proc").iterdir()
        if path.name.isdigit() and int(path.name) != os.getpid()
    )


def _write_config(folder: Path) -> None:
    for name in ("state", "log", *(f"spool/{node}" for node in NODES)):
        (folder / name).mkdir(parents=True)
    for number in range(GPUS_PER_NODE):
        os.mknod(folder / f"gpu{number}", 0o666 | 0o020000, NULL_DEVICE)
    host = socket.gethostname().split(".")[0]
    controller_port, *ports = _free_ports(1 + len(NODES))
    nodes = [
        NODE.format(name=name, host=host, port=port, gpus=GPUS_PER_NODE)
        for name, port in zip(NODES, ports, strict=True)
    ]
    config = CONFIG.format(
        host=host,
        controller_port=controller_port,
        folder=folder,
        nodes="\n".join(nodes),
        names=",".join(NODES),
    )
    (folder / "slurm.conf").write_text(config)
    (folder / "gres.conf").write_text(
        f"NodeName={','.join(NODES)} Name=gpu File={folder}/gpu[0-{GPUS_PER_NODE - 1}]\n"
    )


def _free_ports(num: int) -> list[int]:
    """Below those that Linux gives to whoever connects, and of clusters that begin side by side in different environments."""
    first = os.getpid() * 10 % len(PORTS)
    return list(
        itertools.islice(filter(_is_free, itertools.chain(PORTS[first:], PORTS[:first])), num)
    )


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("", port)).close()
    except OSError:
        return False
    return True


def _wait_until_idle(folder: Path) -> None:
    end_s = time.monotonic() + START_TIMEOUT_S
    while (seen := states(folder)) != ["idle"] * len(NODES):
        if time.monotonic() > end_s:
            for log in (folder / "log").iterdir():
                print(log.name, log.read_text(), sep="\n", file=sys.stderr)
            raise TimeoutError(
                f"the nodes of {folder} are not idle after {START_TIMEOUT_S:g} s: {seen}"
            )
        time.sleep(0.05)


def _run(folder: Path, program: str, *arguments: str) -> None:
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    subprocess.run(
        [shutil.which(program, path=path) or program, *arguments],
        check=True,
        cwd=folder,
        env={**os.environ, "PATH": path, "SLURM_CONF": str(folder / "slurm.conf")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )


if __name__ == "__main__":
    main()
