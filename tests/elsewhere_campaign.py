"""A sweep of tiny trials on several hosts, whose hosts, jobs and orchestrator are killed on the way: what became of each repeat."""

import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from tests import ray_cluster, slurm, slurm_supervisor, sshd
from tests.conftest import PROJECT

FINISH_WITHIN_S = 1800.0
KILL_SWEEP = "kill the sweep"
FAULTS = {
    "slurm": (
        *("kill a node", "preempt", KILL_SWEEP, "kill a node"),
        *("preempt", KILL_SWEEP, "kill a node"),
    ),
    "ssh": ("kill a host", KILL_SWEEP),
    "ray": ("kill a node", KILL_SWEEP, "restart the cluster"),
}


@dataclass(slots=True)
class Campaign:
    """One sweep; `faults` come in their order, at equal distances of completed repeats."""

    folder: Path
    overrides: Sequence[str]
    num_trials: int
    faults: Sequence[str]
    inject: Mapping[str, Callable[[], object]]
    restore: Callable[[], object] = lambda: None
    said: list[str] = field(default_factory=list)
    num_commands: int = 0
    wall_s: float = 0.0

    def run(self) -> None:
        """Repeat the command until it ends well. Raises TimeoutError."""
        began_s, left = time.monotonic(), list(self.faults)
        num_injected = 0
        sweep = self._start()
        try:
            while time.monotonic() - began_s < FINISH_WITHIN_S:
                due = (num_injected + 1) * self.num_trials // (len(self.faults) + 1)
                if left and self.num_completed() >= due:
                    fault = left.pop(0)
                    num_injected += 1
                    if fault == KILL_SWEEP:
                        sweep.kill()
                    else:
                        self.inject[fault]()
                if sweep.poll() is not None:
                    if sweep.returncode in (0, 1) and not left:
                        return
                    if sweep.returncode in (0, 1, 2):
                        raise RuntimeError(f"ended too early: {self._log().read_text()}")
                    self.restore()
                    sweep = self._start()
                time.sleep(0.2)
            raise TimeoutError(
                f"not through within {FINISH_WITHIN_S:g} s: {self._log().read_text()}"
            )
        finally:
            self.wall_s = time.monotonic() - began_s
            sweep.kill()
            sweep.wait()

    def num_completed(self) -> int:
        try:
            ((num,),) = self.rows("SELECT count(*) FROM repeats WHERE state = 'completed'")
        except sqlite3.Error:
            return 0  # there is no sweep yet
        return int(num)

    def rows(self, statement: str) -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(self.folder / "results.db", timeout=30)) as connection:
            return connection.execute(statement).fetchall()

    def problems(self) -> list[str]:
        """What is not as it must be: every repeat once, none lost, nothing in flight."""
        found = []
        states = dict(self.rows("SELECT state, count(*) FROM repeats GROUP BY state"))
        if states != {"completed": self.num_trials}:
            found.append(f"states {states}, wanted {self.num_trials} completed")
        twice = self.rows(
            "SELECT trial_id, count(*) FROM attempts WHERE outcome = 'completed' GROUP BY trial_id "
            "HAVING count(*) > 1"
        )
        if twice:
            found.append(f"completed more than once: {twice}")
        for log in self.folder.glob("sweep*.log"):
            if "Traceback" in log.read_text(errors="replace"):
                found.append(f"a traceback in {log.name}: {log.read_text()[-3000:]}")
        return found

    def summary(self) -> str:
        ends = self.rows(
            "SELECT outcome, message, count(*) FROM attempts GROUP BY 1, 2 ORDER BY 3 DESC"
        )
        lines = [f"  {num} {outcome} {str(message)[:90]}" for outcome, message, num in ends]
        faults = ", ".join(self.faults)
        head = f"{self.num_trials} trials in {self.wall_s:.0f} s, {self.num_commands} commands; {faults}"
        return "\n".join([head, *lines, f"problems: {self.problems() or 'none'}"])

    def _start(self) -> subprocess.Popen[bytes]:
        self.num_commands += 1
        with self._log().open("ab") as log:
            return subprocess.Popen(
                [
                    *(sys.executable, str(PROJECT / "tests" / "tiny_sweep.py"), "-m"),
                    *("model=trivial", "hardware=cpu", "hardware.num_cpu_devices=4"),
                    *("sweep.name=s", f"seed=range(1,{self.num_trials + 1})", *self.overrides),
                ],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _log(self) -> Path:
        return self.folder / f"sweep{self.num_commands}.log"


def on_slurm(
    cluster: slurm.Cluster, folder: Path, num_trials: int, faults: Sequence[str]
) -> Campaign:
    """Nodes are killed one after the other, and come back; jobs of the partition high take nodes."""
    nodes = list(slurm_supervisor.NODES)

    def kill_node() -> None:
        node = nodes.pop(0)
        nodes.append(node)
        cluster.kill_node(node)
        slurm.until(lambda: "down" in cluster.run("sinfo", "-h", "-n", node, "-o", "%T"))
        cluster.restart_node(node)

    def preempt() -> None:
        busy = cluster.run("squeue", "-h", "-t", "running", "-o", "%N").split()
        if busy:
            job = ("--partition=high", "--exclusive", f"--nodelist={busy[0]}", "--time=1")
            cluster.run("sbatch", *job, "--output=/dev/null", "--wrap=sleep 1")

    return Campaign(
        folder,
        ("launcher=slurm", "launcher.num_hosts=4", "launcher.slurm.partition=main"),
        num_trials,
        faults,
        {"kill a node": kill_node, "preempt": preempt},
    )


def on_ssh(hosts: sshd.Hosts, folder: Path, num_trials: int, faults: Sequence[str]) -> Campaign:
    """A host is killed, and comes back when the command is repeated, or at the next fault."""

    def kill_host() -> None:
        hosts.kill("b")
        time.sleep(5.0)
        hosts.start("b")

    options = (f"launcher.options={hosts.options}", "launcher.hosts=[a,b]")
    overrides = ("launcher=ssh", *options)
    return Campaign(folder, overrides, num_trials, faults, {"kill a host": kill_host})


def on_ray(
    cluster: ray_cluster.Cluster, folder: Path, num_trials: int, faults: Sequence[str]
) -> Campaign:
    """A node is killed and comes back; the head is killed, with which a cluster begins anew."""

    def kill_node() -> None:
        cluster.kill("b")
        time.sleep(5.0)
        cluster.start("b")

    return Campaign(
        folder,
        ("launcher=ray", "launcher.num_hosts=3"),
        num_trials,
        faults,
        {"kill a node": kill_node, "restart the cluster": cluster.restart},
    )
