"""Agents that share a sweep: each repeat is run once, by whoever has room, and goes to another when its agent ends."""

import os
import signal
import subprocess
from pathlib import Path

import psycopg
import pytest

from conf.schema import OnFailure
from scalemark.records.axes import Engine
from scalemark.records.outcomes import State
from sweeper.agents.agent import _settings
from sweeper.agents.same_code import Code
from sweeper.devices.host_lock import HostLock
from sweeper.errors import SweepRefusedError
from sweeper.program_software import key_of_programs, words_of_programs
from tests.app import run_app
from tests.command.programs import ONE, script, spec_of
from tests.slurm import until
from tests.specs import small
from tests.sweeper.processes import assert_gone, wait_until
from tests.sweeper.sharing import agent, begin, completed, reported, rows, states

pytestmark = pytest.mark.integration

FAILS, ENDLESS, SLOW = 901, 903, 905  # seeds of tests.tiny_trainer


def once_running(url: str, process: subprocess.Popen[str], num: int = 1) -> list[int]:
    """Waits until so many attempts of that agent run; their processes."""
    found: list[int] = []

    def are_running() -> bool:
        sql = f"SELECT repeats.pid FROM repeats JOIN orchestrators ON orchestrators.id = orchestrator_id WHERE state = 'running' AND orchestrators.pid = {process.pid} AND repeats.pid IS NOT NULL"
        found[:] = [pid for (pid,) in rows(url, sql)]
        return len(found) >= num

    descriptor = os.pidfd_open(process.pid)
    try:
        wait_until(are_running, descriptor)
    finally:
        os.close(descriptor)
    return found


def test_two_agents_complete_each_repeat_once(postgresql_url, tmp_path):
    begin(
        postgresql_url,
        [small(seed=seed) for seed in range(10)] + [small(seed=1, num_gpus=4)],
        repeats=2,
    )
    one, two = agent(postgresql_url), agent(postgresql_url, locks=str(tmp_path / "other"))
    assert (reported(one) and one.wait(), reported(two) and two.wait()) == (0, 0)
    assert states(postgresql_url) == {State.COMPLETED: 22}
    assert len(set(completed(postgresql_url))) == len(completed(postgresql_url)) == 22
    ((finished,),) = rows(postgresql_url, "SELECT finished_at FROM sweeps")
    assert finished is not None  # also without its controller


def test_an_agent_runs_trials_side_by_side_and_says_what_it_ran(postgresql_url):
    begin(
        postgresql_url,
        [small(seed=ENDLESS), small(seed=ENDLESS, num_gpus=2), small(seed=2)],
        share_host=True,
        max_parallel=4,
    )
    process = agent(postgresql_url)
    descriptor = os.pidfd_open(process.pid)
    wait_until(lambda: states(postgresql_url)[State.COMPLETED] == 1, descriptor)
    os.close(descriptor)
    once_running(postgresql_url, process, 2)
    process.send_signal(signal.SIGTERM)
    said = reported(process)
    assert process.returncode == 128 + signal.SIGTERM, said
    assert "joined sweep s; " in said
    assert "runs trivial-replicated_none-x2 repeat 1 on devices" in said
    assert "runs trivial-replicated_none-x1 repeat 1 on device " in said
    assert states(postgresql_url) == {State.PENDING: 2, State.COMPLETED: 1}
    assert "1 completed, 2 interrupted" in said
    assert rows(postgresql_url, "SELECT DISTINCT note FROM orchestrators WHERE note <> ''") == [
        ("it was sent SIGTERM",)
    ]
    ends = rows(
        postgresql_url, "SELECT DISTINCT message FROM attempts WHERE outcome = 'interrupted'"
    )
    assert ends == [("its agent was ended by SIGTERM; others run it",)]
    assert "Ctrl-C" not in said


def test_what_a_killed_agent_ran_is_run_by_another(postgresql_url, tmp_path):
    begin(postgresql_url, [small(seed=ENDLESS)])
    first = agent(postgresql_url)
    (trial,) = once_running(postgresql_url, first)
    first.kill()
    first.communicate()
    assert_gone(trial)
    second = agent(postgresql_url, locks=str(tmp_path / "other"))
    once_running(postgresql_url, second)
    second.send_signal(signal.SIGINT)
    reported(second)
    assert second.returncode == 130
    assert states(postgresql_url) == {State.PENDING: 1}
    ends = rows(postgresql_url, "SELECT attempt, outcome, message FROM attempts ORDER BY attempt")
    by_signal = "its agent was ended by SIGINT; others run it"
    assert ends == [(1, "interrupted", "its agent was killed"), (2, "interrupted", by_signal)]


def test_an_agent_that_stood_still_past_its_lease_writes_nothing(postgresql_url, tmp_path):
    begin(postgresql_url, [small(seed=ENDLESS)], lease_s=12.0)
    stale = agent(postgresql_url)
    (trial,) = once_running(postgresql_url, stale)
    stale.send_signal(signal.SIGSTOP)
    other = agent(postgresql_url, locks=str(tmp_path / "other"))
    once_running(postgresql_url, other)
    stale.send_signal(signal.SIGCONT)
    said = reported(stale)
    assert stale.returncode == 2, said
    assert (
        "gave no sign for 12 s, so that others run what it ran: it is ended here; start another agent"
        in said
    )
    assert_gone(trial)
    assert rows(postgresql_url, "SELECT state, pid = 0 FROM repeats") == [("running", False)]
    other.send_signal(signal.SIGTERM)
    reported(other)
    assert rows(postgresql_url, "SELECT attempt, outcome FROM attempts ORDER BY attempt") == [
        (1, "interrupted"),
        (2, "interrupted"),
    ]


def test_an_agent_of_other_software_is_refused(postgresql_url):
    begin(postgresql_url, [small()], key="0123456789abcdef")
    process = agent(postgresql_url)
    said = reported(process)
    assert process.returncode == 2
    assert "0123456789abcdef" in said
    assert states(postgresql_url) == {State.PENDING: 1}


def test_an_agent_of_another_commit_is_refused(postgresql_url):
    begin(postgresql_url, [small()], code=Code(revision="0123456789abcdef" * 2))
    process = agent(postgresql_url)
    said = reported(process)
    assert process.returncode == 2
    assert (
        "the sweep was begun with commit 0123456789ab (unchanged), and results of different code are never mixed"
        in said
    )
    ((note,),) = rows(postgresql_url, "SELECT note FROM orchestrators WHERE note <> ''")
    assert note.startswith("refused: ")
    assert states(postgresql_url) == {State.PENDING: 1}


def test_settings_of_another_version_are_refused_in_a_sentence():
    with pytest.raises(
        SweepRefusedError, match="the sweep's settings have no 'launcher', or it is not known here"
    ):
        _settings({"code": {"revision": "", "diff": ""}, "runs_dir": "runs"})


def test_an_agent_whose_code_cannot_be_compared_says_so_and_runs(postgresql_url):
    begin(postgresql_url, [small()], code=Code())
    process = agent(postgresql_url)
    said = " ".join(reported(process).split())
    assert process.returncode == 0
    assert "the sweep was begun with code that git does not know" in said
    assert states(postgresql_url) == {State.COMPLETED: 1}


def test_an_agent_that_does_not_see_the_run_folders_is_refused(
    postgresql_url,
):
    begin(postgresql_url, [small()])
    Path("runs").rename("elsewhere")
    process = agent(postgresql_url)
    said = reported(process)
    assert process.returncode == 2
    assert "does not hold the folder of sweep s" in said
    assert (
        "all hosts must see one folder by one path: choose one with store.runs_dir=, or mount it here"
        in said
    )
    ((note,),) = rows(postgresql_url, "SELECT note FROM orchestrators WHERE note <> ''")
    assert note.startswith("refused: ")
    assert states(postgresql_url) == {State.PENDING: 1}


def test_a_wrong_password_is_reported_without_it(tmp_path):
    process = agent("postgresql://nobody:hush-hush@127.0.0.1:1/none")
    said = reported(process)
    assert process.returncode == 2
    assert "are user, password and database right?" in said
    assert "hush" not in said


def test_an_agent_of_no_sweep_or_of_a_file_is_refused(postgresql_url, capsys, monkeypatch):
    from sweeper.__main__ import app

    def refused(*arguments: str) -> str:
        ended = run_app(app, "sweeper", capsys, monkeypatch, "agent", "--wait", "0", *arguments)
        assert ended.exit_code == 2
        return ended.stderr

    assert "share a sweep by way of PostgreSQL; set --db or SCALEMARK_DB" in refused(
        "--sweep", "s", "--db", "results.db"
    )
    begin(postgresql_url, [small()])
    assert "none" in refused("--sweep", "none", "--db", postgresql_url)
    assert "--hosts 2: wanted the names of as many hosts in SCALEMARK_HOSTS" in refused(
        "--sweep", "s", "--db", postgresql_url, "--hosts", "2"
    )
    assert "--wait -1: wanted seconds, 0 or more" in refused(
        "--sweep", "s", "--db", postgresql_url, "--wait", "-1"
    )


def test_an_agent_that_is_started_before_its_sweep_waits_for_it(postgresql_url):
    early = agent(postgresql_url, "--wait", "600")
    assert early.stderr is not None
    first = early.stderr.readline()
    assert "waiting 600 s for its command (--wait)" in first
    begin(postgresql_url, [small()])
    reported(early)
    assert early.returncode == 0
    assert states(postgresql_url) == {State.COMPLETED: 1}


def test_an_agent_without_an_answer_ends_its_trial_within_its_lease(postgresql_url):
    begin(postgresql_url, [small(seed=ENDLESS)], lease_s=12.0)
    process = agent(postgresql_url)
    (trial,) = once_running(postgresql_url, process)
    with psycopg.connect(postgresql_url.replace("+psycopg", ""), autocommit=True) as connection:
        sql = "SELECT pid FROM pg_stat_activity WHERE application_name = 'scalemark'"
        backends = until(
            lambda: found if len(found := connection.execute(sql).fetchall()) == 1 else []
        )  # ours have ended
    ((backend,),) = backends
    try:
        os.kill(backend, signal.SIGSTOP)
        assert_gone(trial)
    finally:
        os.kill(backend, signal.SIGCONT)
    said = reported(process)
    assert process.returncode == 2, said
    assert "no sign could be given for nearly as long as the lease: what ran here is killed" in said
    assert (
        rows(postgresql_url, "SELECT outcome FROM attempts") == []
    )  # killed by itself: that is no outcome


def test_an_agent_whose_host_is_taken_ends_with_its_sweep(postgresql_url, tmp_path):
    begin(postgresql_url, [small(seed=SLOW)])
    held = HostLock().try_hold((), shares_host=False)
    assert held
    kept_out, other = agent(postgresql_url), agent(postgresql_url, locks=str(tmp_path / "other"))
    assert (reported(other) and other.wait(), reported(kept_out) and kept_out.wait()) == (0, 0)
    held.close()
    assert states(postgresql_url) == {State.COMPLETED: 1}


def test_retries_of_an_agent_that_starts_no_more_are_left_to_others(
    postgresql_url,
):
    specs = [small(seed=ENDLESS), small(seed=FAILS)]
    begin(postgresql_url, specs, on_failure=OnFailure.stop, share_host=True, max_parallel=2)
    process = agent(postgresql_url)
    descriptor = os.pidfd_open(process.pid)
    wait_until(lambda: states(postgresql_url)[State.FAILED] == 1, descriptor)
    os.close(descriptor)
    (trial,) = once_running(postgresql_url, process)
    os.kill(trial, signal.SIGKILL)
    said = reported(process)
    assert process.returncode == 0, said
    assert states(postgresql_url) == {State.PENDING: 1, State.FAILED: 1}
    assert rows(postgresql_url, "SELECT orchestrator_id FROM repeats WHERE state = 'pending'") == [
        (None,)
    ]
    assert "1 failed, 1 to be tried again" in said


def test_an_agent_is_called_as_its_node_of_slurm_is(postgresql_url, monkeypatch):
    monkeypatch.setenv("SLURMD_NODENAME", "n3")
    begin(postgresql_url, [small()])
    reported(agent(postgresql_url))
    assert rows(postgresql_url, "SELECT host FROM orchestrators ORDER BY id DESC LIMIT 1") == [
        ("n3",)
    ]


def test_an_agent_runs_programs_in_the_folder_of_the_sweep(postgresql_url, tmp_path):
    spec = spec_of(script("import os; print('total:', 5); print(os.getcwd())"), read=ONE)
    programs = words_of_programs([spec])
    begin(
        postgresql_url,
        [spec],
        engine=Engine.command,
        programs=programs,
        key=key_of_programs(programs),
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    one = agent(postgresql_url, folder=elsewhere)
    assert (reported(one), one.wait())[1] == 0
    assert states(postgresql_url) == {State.COMPLETED: 1}
    (log,) = Path("runs").glob("s/*/log.txt")
    assert log.read_text().splitlines()[-1] == str(Path.cwd())


def test_an_agent_with_another_program_is_refused(postgresql_url):
    spec = spec_of(script("print('total:', 5)"), read=ONE)
    programs = words_of_programs([spec])
    key = key_of_programs(programs)
    begin(postgresql_url, [spec], engine=Engine.command, programs=programs, key=key)
    script("print('total:', 6)")
    one = agent(postgresql_url)
    assert "its controller has the software " in reported(one)
    assert one.wait() == 2
    assert states(postgresql_url) == {State.PENDING: 1}


def test_an_agent_without_the_folder_of_the_program_is_refused(postgresql_url, tmp_path):
    spec = spec_of("true")
    folder = tmp_path / "programs"
    folder.mkdir()
    os.chdir(folder)
    begin(postgresql_url, [spec], engine=Engine.command, programs=[["true"]])
    os.chdir(tmp_path)
    folder.rename("moved")
    one = agent(postgresql_url)
    assert f"{folder}, where the sweep was started: No such file" in reported(one)
    assert one.wait() == 2
