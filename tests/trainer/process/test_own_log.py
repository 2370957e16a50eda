"""What libraries write is in the log at once, and its end can be read."""

import os
import subprocess
import sys

from scalemark.records.attempt import Rank
from scalemark.run_folder import RunFolder
from trainer import own_process
from trainer.own_rank import OwnRank

PRINTS_AND_IS_KILLED = """
import ctypes, os, signal
from trainer import own_process
own_process.write_lines_at_once()
ctypes.CDLL(None).printf(b"NCCL WARN\\n")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_line_of_a_library_outlives_its_process(tmp_path):
    # by this Python itself would have C write at once
    variables = {name: os.environ[name] for name in os.environ if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-c", PRINTS_AND_IS_KILLED]
    with (tmp_path / "log.txt").open("wb") as log:
        subprocess.run(command, stdout=log, env=variables, check=False)
    assert own_process.tail(RunFolder(tmp_path), None) == "NCCL WARN\n"


def test_each_rank_has_a_log_of_its_own(tmp_path):
    folder = RunFolder(tmp_path)
    rank = Rank(job_name="worker", task_index=1)
    folder.rank_log(rank).write_text("x" * 2**20 + "the end")
    assert own_process.tail(folder, OwnRank(cluster=None, rank=rank)).endswith("xthe end")
    assert own_process.tail(folder, None) == ""
