"""A sweep of tiny trials over the four nodes of a Slurm cluster, some of which are killed on the way: what became of each repeat."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from tests.conftest import PROJECT
from tests.slurm import NODES, Cluster, until

LEASE_S = 20.0
NUM_CPU_DEVICES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Became:
    """Of a campaign."""

    states: dict[str, int]  # of repeats
    num_twice: int  # repeats that have more than one completed attempt
    num_interrupted: int  # attempts that did not complete
    wall_s: float  # of the whole command
    overhead_s: float  # median: from the end of an attempt to the start of its agent's next
    said: str  # by the command


def arguments(folder: Path, *more: str) -> list[str]:
    """Of sweep.py. Nodes are this one host: each gets locks of its own, so that they do not take turns."""
    return [
        *(
            "-m",
            "launcher=slurm",
            "launcher.agents.num_hosts=4",
            "launcher.agents.pool=virtual",
            "hardware=cpu",
        ),
        *(
            f"hardware.num_cpu_devices={NUM_CPU_DEVICES}",
            "model=trivial",
            f"launcher.agents.lease_s={LEASE_S:g}",
            "sweep.name=s",
        ),
        f"launcher.slurm.setup=['export SCALEMARK_LOCK_DIR={folder}/locks/$SLURMD_NODENAME']",
        *(f"store.runs_dir={folder}/runs", f"store.figures_dir={folder}/figures", *more),
    ]


def start(url: str, folder: Path, *more: str) -> subprocess.Popen[str]:
    """The controller, whose trials are those of tests.tiny_trainer."""
    return subprocess.Popen(
        [sys.executable, str(PROJECT / "tests" / "tiny_sweep.py"), *arguments(folder, *more)],
        env={**os.environ, "PYTHONPATH": str(PROJECT), "SCALEMARK_DB": url},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run(
    cluster: Cluster,
    url: str,
    folder: Path,
    num_trials: int,
    kill_at: Sequence[int],
    timeout_s: float,
) -> Became:
    """`kill_at`: a node is killed when so many repeats are completed, another one when so many more are, and so on."""
    began_s = time.monotonic()
    controller = start(url, folder, f"seed=range(1,{num_trials + 1})")
    victims = list(NODES[: len(kill_at)])
    try:
        for num, victim in zip(kill_at, victims, strict=True):
            until(
                lambda num=num: num_completed(url) >= num or controller.poll() is not None,
                timeout_s,
            )  # type: ignore[misc]  # a value that stays
            cluster.kill_node(victim)
        _, said = controller.communicate(timeout=timeout_s)
        if controller.returncode not in (0, 1):
            raise RuntimeError(f"sweep.py ended with exit code {controller.returncode}: {said}")
    finally:
        controller.kill()
        controller.wait()
    return became(url, time.monotonic() - began_s, said)


def num_completed(url: str) -> int:
    """Repeats; none before there is a sweep."""
    try:
        return int(rows(url, "SELECT count(*) FROM repeats WHERE state = 'completed'")[0][0])
    except sa.exc.ProgrammingError:
        return 0


def became(url: str, wall_s: float, said: str) -> Became:
    twice = "SELECT count(*) FROM (SELECT 1 FROM attempts WHERE outcome = 'completed' GROUP BY trial_id, repeat HAVING count(*) > 1) t"
    return Became(
        states=dict(rows(url, "SELECT state, count(*) FROM repeats GROUP BY state")),  # type: ignore[arg-type]  # two columns
        num_twice=int(rows(url, twice)[0][0]),
        num_interrupted=int(
            rows(url, "SELECT count(*) FROM attempts WHERE outcome <> 'completed'")[0][0]
        ),
        wall_s=wall_s,
        overhead_s=_overhead_s(url),
        said=said,
    )


def _overhead_s(url: str) -> float:
    """By the clock of the hosts, which are one."""
    gaps = (
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY gap) FROM (SELECT extract(epoch FROM lead(attempts.started_at) "
        "OVER (PARTITION BY orchestrator_id ORDER BY attempts.started_at) - attempts.started_at) - duration_s AS gap "
        "FROM attempts JOIN repeats USING (sweep_id, trial_id, repeat) WHERE outcome = 'completed') t WHERE gap IS NOT NULL"
    )
    return float(rows(url, gaps)[0][0] or 0.0)  # type: ignore[arg-type]  # a number


def rows(url: str, statement: str) -> list[tuple[object, ...]]:
    engine = sa.create_engine(url)
    try:
        with engine.connect() as connection:
            return [tuple(row) for row in connection.execute(sa.text(statement))]
    finally:
        engine.dispose()
