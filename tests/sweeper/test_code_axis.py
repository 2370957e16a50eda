"""`+axes.ref=main,HEAD~1` runs a program at each commit, and what was measured at a commit is finished."""

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from store.database import open_for_reading
from tests.forked_sweeps import SCRIPTED, ran
from tests.scalemark.host.test_refs import commit, git

PROGRAM = """
import time, speed
for step in range(12):
    time.sleep(0.005)
    print(f"step {step} images/sec: {speed.VALUE}", flush=True)
"""


def sweep(*arguments: str) -> subprocess.CompletedProcess:
    given = ["read=regex:images/sec: ([0-9.]+)", "hardware=cpu"]
    if not any(argument.startswith("command=") for argument in arguments):
        given.append(f"command={sys.executable} train.py")
    return ran(SCRIPTED, *given, *arguments)


def compare(*sides: str) -> subprocess.CompletedProcess:
    return ask("compare", *sides)


def command_of_best(*arguments: str) -> str:
    return json.loads(ask("advise", *arguments, "--json").stdout)["answers"][0]["command"]


def ask(*arguments: str) -> subprocess.CompletedProcess:
    words = [sys.executable, "-P", "-m", "scalemark", *arguments]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def plan(*arguments: str) -> dict:
    answer = sweep(*arguments, "sweep.dry_run=true", "sweep.plan_format=json")
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def planned(*arguments: str) -> dict[str, int]:
    """How many repeats of each ref are still to run."""
    trials = plan(*arguments)["trials"]
    return {trial["spec"]["free"]["axes.ref"]: trial["repeats_to_run"] for trial in trials}


@pytest.fixture
def commits(tmp_path, monkeypatch):
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    git("init", "-b", "main")
    Path(".gitignore").write_text("runs\nresults.db*\nfigures\n")
    old, new = commit(train=PROGRAM, speed="VALUE = 1000\n"), commit(speed="VALUE = 2000\n")
    Path("speed.py").write_text("VALUE = 3000\n")
    return old[:8], new[:8]


@pytest.mark.integration
def test_commits_are_measured_and_compared_by_their_refs(commits):
    old, new = commits
    swept = sweep("+axes.ref=main,HEAD~1")
    assert swept.returncode == 0, swept.stderr
    assert "changes that are not committed in" in swept.stderr
    with open_for_reading("results.db").connect() as connection:
        rows = connection.execute(
            sa.text(
                'SELECT "axes.ref", round(throughput), software_key,'
                " json_extract(description, '$.checked_out') FROM attempts"
                " JOIN trials ON trials.id = trial_id"
                " JOIN environments ON environments.id = environment_id"
                " JOIN measurements ON attempt_id = attempts.id ORDER BY throughput"
            )
        ).all()
    assert [row[:2] for row in rows] == [(f"HEAD~1@{old}", 1000), (f"main@{new}", 2000)]
    assert rows[0][2] == rows[1][2], "one software, whose commits are the trials' own"
    assert [row[3][:8] for row in rows] == [old, new]

    assert planned("+axes.ref=main,HEAD~1") == {f"main@{new}": 0, f"HEAD~1@{old}": 0}
    Path("speed.py").write_text("VALUE = 4000\n")
    assert planned("+axes.ref=main") == {f"main@{new}": 0}, "the checkout does not matter"
    moved = commit(speed="VALUE = 4000\n")[:8]
    assert planned("+axes.ref=main,HEAD~2") == {f"main@{moved}": 1, f"HEAD~2@{old}": 1}
    assert planned(f"+axes.ref=main@{new}") == {f"main@{new}": 0}, "as suggested commands have it"

    (pair,) = json.loads(compare("ref=main", "ref=HEAD~1", "--json").stdout)["pairs"]
    assert pair["judgement"]["ratio"]["ratio"] == pytest.approx(2.0)
    assert f"# first check out the code that was measured (commit {new})" in command_of_best()
    git("checkout", new)
    assert command_of_best() == f"{sys.executable} train.py"
    git("checkout", "main")
    assert sweep("+axes.ref=main", "sweep.name=moved").returncode == 0
    assert (
        "ref=main: measured at 2 commits; name one of main@"
        in compare("ref=main", "ref=HEAD~1").stderr
    )


@pytest.mark.integration
def test_a_dry_run_changes_nothing_in_a_worktree(commits, tmp_path, monkeypatch):
    monkeypatch.setenv("SCALEMARK_CACHE", str(tmp_path / "cache"))
    assert planned("+axes.ref=main") == {f"main@{commits[1]}": 1}
    (module,) = (tmp_path / "cache/code").glob("*/*/speed.py")
    module.write_text("VALUE = 5000\n")
    assert planned("+axes.ref=main") == {f"main@{commits[1]}": 1}
    assert module.read_text() == "VALUE = 5000\n"
    assert sweep("+axes.ref=main").returncode == 0
    assert module.read_text() == "VALUE = 2000\n"


@pytest.mark.integration
def test_what_was_edited_is_named(commits):
    """The program writes `log.json` itself, and may read `params.json`."""
    text = PROGRAM + "open('log.json', 'a').write('{}')\n"
    Path("params.json").write_text("{}")
    commit(train=text)
    assert sweep().returncode == 0
    unchanged = plan()
    assert [trial["repeats_to_run"] for trial in unchanged["trials"]] == [0]
    assert unchanged["changed"] == []
    Path("params.json").write_text('{"lr": 1}')
    edited = plan()
    assert [trial["repeats_to_run"] for trial in edited["trials"]] == [1]
    assert edited["changed"] == ["code of the program", "params.json"]


@pytest.mark.integration
def test_a_command_never_runs_old_code_with_new(commits):
    old = commit(speed="VALUE = 1000\n")
    assert sweep("sweep.name=old").returncode == 0
    new = commit(speed="VALUE = 2000\n")
    assert sweep("sweep.name=new").returncode == 0

    def to_run(other: str = "new") -> list[list[str]]:
        (pair,) = json.loads(compare("sweep=old", f"sweep={other}", "--json").stdout)["pairs"]
        return [shlex.split(text, comments=True)[3:] for text in pair["to_run"]]

    assert to_run() == [[f"+axes.ref={old[:8]}", "sweep.repeats=3"], ["sweep.repeats=3"]]
    assert command_of_best("--sweep", "new") == f"{sys.executable} train.py"
    assert f"(commit {old[:12]}): {sys.executable}" in command_of_best("--sweep", "old")
    Path("speed.py").write_text("VALUE = 3000\n")
    assert to_run() == [[f"+axes.ref={each[:8]}", "sweep.repeats=3"] for each in (old, new)]
    assert sweep("sweep.name=changed").returncode == 0
    git("checkout", "speed.py")
    assert to_run("changed")[1] == [], "no commit has what was measured"
    shutil.rmtree(".git")
    assert to_run() == [[], []], "nobody knows that this is what was measured"


@pytest.mark.integration
def test_a_ref_that_does_not_exist_is_refused_while_planning(commits):
    refused = sweep("+axes.ref=main,mian", "sweep.dry_run=true")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "axes.ref=mian: no commit of" in refused.stderr
    assert "did you mean main?" in refused.stderr
    gone = sweep("+axes.ref=HEAD~1", "sweep.dry_run=true", "command=python other.py")
    assert "other.py is not there; wanted a script" in gone.stderr
