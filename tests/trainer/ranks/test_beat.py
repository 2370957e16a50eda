"""A rank gives a sign of life, or ends and says why."""

import subprocess
import sys
from io import StringIO

from scalemark.records.attempt import WORKER_0, Rank, RankLimits
from scalemark.run_folder import RunFolder
from trainer.own_rank import JOINING, wait_for_beats

WORKER_1 = Rank(job_name="worker", task_index=1)


def test_a_beat_is_a_growing_number(tmp_path):
    path = RunFolder(tmp_path).rank_beat(WORKER_1)
    script = (
        "import sys; from pathlib import Path; from scalemark.records.attempt import Rank; from scalemark.run_folder import RunFolder; from trainer.own_rank import start_beat\n"
        f"start_beat(RunFolder(Path({str(tmp_path)!r})), Rank(job_name='worker', task_index=1), every_s=0.01)\n"
        "sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE) as rank:
        reported: list[int] = []
        while rank.poll() is None and (not reported or reported[-1] < 3):
            reported += [int(path.read_text() or 0)] if path.exists() else []
        rank.stdin.close()
    assert rank.returncode == 0
    grown = [number for number in reported if number]  # 0: it was being written anew
    assert grown == sorted(grown)


PROGRAM = """
import sys
from pathlib import Path
from scalemark.records.attempt import Rank, RankLimits; from scalemark.run_folder import RunFolder
from trainer.own_rank import joining, start_beat
folder = RunFolder(Path(sys.argv[1]))
start_beat(folder, Rank(job_name="worker", task_index=1), every_s=0.01)
"""


def begun(
    folder: RunFolder, limits: RankLimits, program: str = "sys.stdin.read()"
) -> subprocess.Popen:
    """Worker 1, which gives signs of life until its standard input is closed."""
    folder.rank_limits.write_text(limits.to_json())
    command = [sys.executable, "-c", PROGRAM + program, str(folder.path)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def test_a_rank_that_cannot_write_its_beat_ends_and_says_so(tmp_path):
    folder = RunFolder(tmp_path)
    folder.rank_beat(WORKER_1).mkdir()
    with begun(folder, RankLimits(timeout_s=0.2)) as rank:
        reported = rank.stderr.read()
    assert rank.returncode == 1
    assert reported.splitlines()[-1].startswith(
        "failed: worker-1 cannot write its beat for 0.1 s: [Errno 21] Is a directory: "
    )


def test_a_beat_that_fails_for_a_while_ends_nothing(tmp_path):
    folder = RunFolder(tmp_path)
    folder.rank_beat(WORKER_1).mkdir()
    with begun(folder, RankLimits(timeout_s=600)) as rank:
        reported = rank.stderr.readline()
        folder.rank_beat(WORKER_1).rmdir()
        while rank.poll() is None and not (
            folder.rank_beat(WORKER_1).is_file() and folder.rank_beat(WORKER_1).read_text()
        ):
            pass
        rank.stdin.close()
    assert rank.returncode == 0
    assert reported.startswith(
        "worker-1 cannot write its beat, and tries for 300 s: [Errno 21] Is a directory: "
    )


def test_a_rank_tells_that_it_joins_before_it_falls_silent(tmp_path):
    folder = RunFolder(tmp_path)
    program = "with joining():\n    print(folder.rank_beat(Rank(job_name='worker', task_index=1)).read_text())\n"
    with begun(
        folder,
        RankLimits(),
        f"for _ in range(20):\n    {program.replace(chr(10), chr(10) + '    ')}",
    ) as rank:
        reported, _ = rank.communicate()
    assert rank.returncode == 0
    assert len(reported.splitlines()) == 20
    for line in reported.splitlines():
        assert line.endswith(JOINING) or not line  # it is being written anew


def test_a_rank_that_has_joined_tells_that_at_once(tmp_path):
    folder = RunFolder(tmp_path)
    program = "start_beat(folder, Rank(job_name='worker', task_index=0), every_s=3600)\nwith joining():\n    pass\nsys.stdin.read()"
    with begun(folder, RankLimits(), program) as rank:
        while rank.poll() is None and not _has_reported(folder):
            pass
        rank.stdin.close()
    assert rank.returncode == 0


def _has_reported(folder: RunFolder) -> bool:
    path = folder.rank_beat(WORKER_1)
    return path.exists() and path.read_text().isdecimal()


def test_who_waits_for_beats_says_for_whom(tmp_path, monkeypatch):
    folder = RunFolder(tmp_path)
    folder.rank_beat(WORKER_0).write_text("1")

    class Reported(StringIO):
        def flush(self) -> None:
            folder.rank_beat(WORKER_1).write_text("1")  # it comes once it was waited for

    reported = Reported()
    monkeypatch.setattr(sys, "stderr", reported)
    wait_for_beats(folder, [WORKER_0])
    assert reported.getvalue() == ""
    wait_for_beats(folder, [WORKER_1, WORKER_0])
    assert reported.getvalue() == "waiting for worker-1\n"
