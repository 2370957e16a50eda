"""A trial of two workers and two parameter servers on two hosts, as tests of what starts ranks there see it."""

from pathlib import Path

import psutil

from scalemark.records.attempt import Placement, Rank
from scalemark.run_folder import RunFolder
from tests.slurm import until
from tests.specs import small
from tests.trainer.tiny_ranks import write_script

RANKS = ("worker-0", "ps-0", "worker-1", "ps-1")

TRAINS = """
listen()
beat()
if name == "worker-0":
    for other in ("ps-0", "worker-1", "ps-1"):
        until(folder / f"beat-{other}.txt")
    end(Outcome.COMPLETED)
else:
    wait()
"""


def new_trial(
    path: Path, rank_start: str, hosts: tuple[str, ...], script: str, **spec: object
) -> RunFolder:
    """All its ranks run the script, where they are those of tests/trainer/tiny_ranks.py."""
    folder = RunFolder(path)
    folder.path.mkdir()
    asked = {"variable_update": "distributed_replicated", "hosts": 2, "num_gpus": 4}
    folder.trial.write_text(small(**asked | spec).to_json())
    given = Placement(
        start="spawn", devices=(0, 1), visible_devices="", hosts=hosts, rank_start=rank_start
    )
    folder.placement.write_text(given.to_json())
    write_script(folder.path, script)
    return folder


class Ranks:
    """Of a trial that runs."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder

    def wait_until_all_serve(self) -> None:
        until(lambda: all((self.folder.path / f"beat-{rank}.txt").exists() for rank in RANKS))

    def pid(self, rank: str) -> int:
        return int((self.folder.path / f"pid-{rank}.txt").read_text())

    def log(self, rank: str) -> str:
        job_name, _, task_index = rank.partition("-")
        return self.folder.rank_log(Rank(job_name=job_name, task_index=int(task_index))).read_text()

    def alive(self) -> list[int]:
        """Processes of ranks, on whatever host; an orphan may stay a zombie where nobody reaps it."""
        pids = [int(path.read_text()) for path in self.folder.path.glob("pid-*.txt")]
        return [pid for pid in pids if _lives(pid)]

    def outcome(self) -> tuple[str, str]:
        """And message. No rank lives."""
        until(lambda: not self.alive())
        result = self.folder.read_result()
        assert result
        return result.outcome, result.message


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
