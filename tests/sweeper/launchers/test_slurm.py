"""`launcher=slurm` on a real cluster of four virtual nodes: what is refused, what agents get, and what becomes of them."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from conf.schema import Config, DataConfig, HardwareConfig, LauncherConfig, ModelConfig
from scalemark.records.machine import DeviceKind
from sweeper.errors import SweepRefusedError
from sweeper.launchers import AgentCommand, AgentJob, JobState, load
from sweeper.launchers.slurm import NOT_SENT, SILENT_AT_MOST_S, Launcher, refusal
from sweeper.slurm.commands import SlurmError
from tests.slurm import until

AGENT = """
trap 'echo gave back; exit 0' TERM
echo agent on $SLURMD_NODENAME of $SCALEMARK_HOSTS by $SCALEMARK_RANK_START with $SCALEMARK_DB GPUs ${CUDA_VISIBLE_DEVICES-none} $WORD
while :; do sleep 0.1; done
"""
"""In the place of an agent: works until it is reported to stop."""


@pytest.fixture
def config(tmp_path) -> Config:
    hardware = HardwareConfig(device_kind="cpu_device")
    config = Config(
        model=ModelConfig(),
        data=DataConfig(),
        launcher=LauncherConfig(name="slurm"),
        hardware=hardware,
    )
    config.store.runs_dir = str(tmp_path / "runs")
    config.launcher.agents.num_hosts = 2
    return config


def command(hosts: int = 1, agent: str = AGENT, sweep: str = "s") -> AgentCommand:
    logs = Path("runs/s/agents").resolve()
    logs.mkdir(parents=True, exist_ok=True)
    environment = {"SCALEMARK_DB": "postgresql://me:secret@db/x, y"}
    return AgentCommand(
        sweep=sweep, hosts=hosts, argv=("bash", "-c", agent), environment=environment, logs=logs
    )


def started(launcher: Launcher, num: int, asked: AgentCommand) -> list[AgentJob]:
    """When all their agents have said so."""
    launcher.start(num, asked)

    def all_said() -> list[AgentJob]:
        jobs = list(launcher.look(asked.sweep))
        return (
            jobs
            if all(
                job.log and job.log.exists() and "agent on" in job.log.read_text() for job in jobs
            )
            else []
        )

    jobs = until(all_said)
    assert len(jobs) >= num
    return jobs


def ended(launcher: Launcher, sweep: str = "s") -> list[AgentJob]:
    """All, when they have."""
    return looked(launcher, lambda job: job.state is JobState.ENDED, sweep)


def looked(
    launcher: Launcher, wanted: Callable[[AgentJob], bool], sweep: str = "s"
) -> list[AgentJob]:
    """All, when each is as wanted."""

    def look() -> list[AgentJob]:
        jobs = list(launcher.look(sweep))
        return jobs if all(map(wanted, jobs)) else []

    return until(look)


def said(job: AgentJob) -> str:
    assert job.log
    return job.log.read_text()


def words(log: str) -> str:
    return log.split("agent on ", 1)[1].splitlines()[0]


# What is refused before anything runs


def test_without_slurm_it_says_where_to_start(config, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(
        SweepRefusedError,
        match=r"^launcher=slurm: no sbatch on the path; start this on a host .*launcher=agents",
    ):
        load(config).check()


@pytest.mark.cluster
def test_a_controller_that_does_not_answer_is_refused(config, slurm_cluster):
    slurm_cluster.kill_controller()
    with pytest.raises(
        SweepRefusedError,
        match=r"^launcher=slurm: Slurm's controller does not answer .*see `scontrol ping`",
    ):
        load(config).check()


def refused(config: Config) -> str:
    with pytest.raises(SweepRefusedError) as error:
        load(config).check()
    return str(error.value)


def test_what_the_cluster_can_never_give_is_refused_in_one_sentence_each(config, slurm_cluster):
    """In one test, because each wants a cluster."""
    launcher = config.launcher
    launcher.slurm.partition = "gpu"
    assert (
        refused(config) == "launcher.slurm.partition=gpu: no such partition; there are main, high"
    )
    launcher.slurm.partition = "high,gpu"
    assert refused(config).startswith("launcher.slurm.partition=high,gpu: no such partition; ")
    launcher.slurm.partition, launcher.agents.num_hosts = "main", 5
    assert refused(config) == (
        "launcher.agents.num_hosts=5: the partition main has 4 nodes that are up and have 0 GPUs or more; ask for fewer hosts or GPUs"
    )
    launcher.agents.num_hosts, launcher.slurm.time_min = 4, 61
    assert refused(config) == (
        "launcher.slurm.time_min=61: wanted 3 minutes, to 60 in the partition main; agents whose time is over are replaced, so "
        "less than the whole sweep takes will do"
    )
    launcher.slurm.time_min, launcher.slurm.gres = 60, "gpu:9"
    assert refused(config).startswith(
        "launcher.agents.num_hosts=4: the partition main has 0 nodes that are up and have 9 GPUs or more; "
    )
    launcher.slurm.gres, launcher.agents.gpus_per_host, config.hardware.device_kind = (
        None,
        16,
        "gpu",
    )
    assert "has 0 nodes that are up and have 16 GPUs or more" in refused(config)
    launcher.agents.gpus_per_host, launcher.slurm.time_min = None, 2
    assert refused(config).startswith("launcher.slurm.time_min=2: wanted 3 minutes, to 60 ")
    launcher.slurm.time_min, launcher.slurm.partition, launcher.slurm.options = (
        None,
        None,
        ["--nonsense"],
    )
    assert refused(config) == (
        "launcher=slurm: sbatch refuses a job of 1 host: sbatch: unrecognized option '--nonsense'; see launcher.slurm.options="
        "[--nonsense] and the other settings of launcher.slurm"
    )
    launcher.slurm.options = []
    slurm_cluster.run("scontrol", "update", "PartitionName=main", "State=DOWN")
    assert (
        refused(config)
        == "launcher=slurm: the partition main is not up; choose another by launcher.slurm.partition"
    )
    slurm_cluster.run("scontrol", "update", "PartitionName=main", "State=UP")
    assert load(config).check().num_hosts == 4
    slurm_cluster.run("scontrol", "update", "NodeName=n2", "State=DRAIN", "Reason=broken")
    assert "the partition main has 3 nodes that are up and have 0 GPUs or more; " in refused(config)


def test_jobs_are_as_wide_as_a_partition_and_its_limits_allow(config, slurm_cluster):
    slurm_cluster.run("scontrol", "update", "PartitionName=main", "MaxNodes=2")
    config.launcher.agents.num_hosts = 4
    launcher = load(config)
    found = launcher.check()
    assert (found.num_hosts, found.more_hosts) == (
        2,
        "jobs of the partition main have no more nodes; another is chosen by launcher.slurm.partition",
    )
    launcher.check_width(2)
    with pytest.raises(
        SweepRefusedError, match=r"^launcher=slurm: sbatch refuses a job of 3 hosts: "
    ):
        launcher.check_width(3)
    config.launcher.slurm.partition, config.launcher.slurm.time_min = "main,high", 120
    assert load(config).check().num_hosts == 4


def test_an_account_that_slurm_refuses_is_reported_as_such(config):
    """By its words: only a cluster that keeps accounts refuses any."""
    config.launcher.slurm.account = "chemistry"
    error = SlurmError(
        "Batch job submission failed: Invalid account or account/partition combination specified"
    )
    assert str(refusal(error, config)) == (
        f"launcher.slurm.account=chemistry: Slurm refuses it ({error}); name one of yours, which "
        "`sacctmgr show associations user=$USER` lists"
    )


def test_devices_are_counted_as_slurm_or_the_settings_tell(config, slurm_cluster):
    config.hardware.device_kind = "auto"
    found = load(config).check()
    assert (found.kind, found.num_devices, found.num_hosts) == (DeviceKind.GPU, 8, 2)
    config.launcher.slurm.gres = "gpu:3"
    assert load(config).check().num_devices == 3
    config.launcher.slurm.gres, config.launcher.agents.gpus_per_host = None, 2
    assert load(config).check().num_devices == 2
    config.launcher.agents.gpus_per_host, config.hardware.device_kind = None, "cpu_device"
    assert load(config).check().kind is DeviceKind.CPU_DEVICE


# What agents get


@pytest.mark.cluster
def test_each_agent_has_a_host_of_its_own_and_gives_back_when_stopped(config, slurm_cluster):
    config.launcher.slurm.setup = ["export WORD='two words'"]
    launcher = load(config)
    launcher.check()
    jobs = started(launcher, 4, command())
    assert [job.job_id.partition("_")[2] for job in jobs] == ["1", "2", "3", "4"]
    assert {(job.state, job.hosts) for job in jobs} == {(JobState.RUNNING, 1)}
    reported = [words(said(job)) for job in jobs]
    assert sorted(reported) == [
        f"n{n} of by with postgresql://me:secret@db/x, y GPUs 0,1,2,3,4,5,6,7 two words"
        for n in (1, 2, 3, 4)
    ]
    shown = slurm_cluster.run("scontrol", "show", "job", jobs[0].job_id)
    assert "secret" not in shown
    assert "secret" not in slurm_cluster.run(
        "scontrol", "write", "batch_script", jobs[0].job_id, "-"
    )
    launcher.start(1, command())
    assert until(
        lambda: [job.why for job in launcher.look("s") if job.state is JobState.QUEUED and job.why]
    ) in (
        ["Resources"],
        ["Priority"],
    )
    launcher.stop("s", at_once=False)
    assert [job.why for job in ended(launcher)] == ["", "", "", "", "canceled"]
    assert all(said(job).endswith("gave back\n") for job in jobs)
    until(lambda: slurm_cluster.processes() == [])


def test_an_agent_over_hosts_knows_them_and_has_all_their_gpus(config, slurm_cluster):
    config.hardware.device_kind = "gpu"
    launcher = load(config)
    launcher.check()
    (job,) = started(launcher, 1, command(hosts=2))
    assert job.hosts == 2
    assert words(said(job)).startswith("n1 of n1,n2 by srun with ")
    assert words(said(job)).endswith(" GPUs 0,1,2,3,4,5,6,7")
    launcher.stop("s", at_once=True)
    assert [job.state for job in ended(launcher)] == [JobState.ENDED]


# What becomes of them


def test_an_agent_that_the_user_cancels_is_reported_and_the_others_run_on(config, slurm_cluster):
    launcher = load(config)
    first, _ = started(launcher, 2, command())
    slurm_cluster.run("scancel", first.job_id)
    until(lambda: [job.why for job in launcher.look("s")] == ["canceled", ""])
    assert launcher.look("s")[1].state is JobState.RUNNING
    assert said(first).endswith("gave back\n")


@pytest.mark.cluster
def test_a_preempted_agent_gives_back_and_is_not_run_again(config, slurm_cluster):
    launcher = load(config)
    jobs = started(launcher, 4, command())
    slurm_cluster.run(
        "sbatch", "--partition=high", "--wait", "--exclusive", "--output=/dev/null", "--wrap=true"
    )
    (taken,) = until(lambda: [job for job in launcher.look("s") if job.state is JobState.ENDED])
    assert said(taken).endswith("gave back\n")
    assert sum(job.state is JobState.RUNNING for job in launcher.look("s")) == len(jobs) - 1


def test_a_new_controller_finds_the_agents_of_a_killed_one_and_only_those(
    config, slurm_cluster, tmp_path
):
    started(load(config), 2, command())
    other = slurm_cluster.run(
        "sbatch", "--parsable", "--job-name=scalemark-s", "--output=/dev/null", "--wrap=sleep 600"
    )  # of somebody else
    config.store.runs_dir = str(tmp_path / "others")
    assert list(load(config).look("s")) == []
    config.store.runs_dir = str(tmp_path / "runs")
    successor = load(config)
    assert [(job.job_id, job.state) for job in successor.look("s")] == [
        ("1_1", JobState.RUNNING),
        ("1_2", JobState.RUNNING),
    ]
    successor.stop("s", at_once=True)
    ended(successor)
    assert list(load(config).look("s")) == []  # what ended before counts for nobody
    until(lambda: "RUNNING" in slurm_cluster.run("squeue", "-h", "-j", other.strip(), "-o", "%T"))


@pytest.mark.cluster
def test_jobs_of_an_earlier_cluster_have_ended(config, slurm_cluster):
    launcher = load(config)
    started(launcher, 1, command())
    slurm_cluster.kill_controller()
    slurm_cluster.start_controller("-c")
    slurm_cluster.run(
        "sbatch", "--array=1-1", "--job-name=other", "--output=/dev/null", "--wrap=sleep 600"
    )
    assert [(job.job_id, job.state, job.why) for job in launcher.look("s")] == [
        ("1_1", JobState.ENDED, "")
    ]


@pytest.mark.cluster
def test_a_controller_that_is_away_is_waited_for(config, slurm_cluster):
    now_s = 0.0
    launcher = Launcher(config, clock=lambda: now_s)
    (job,) = started(launcher, 1, command())
    slurm_cluster.kill_controller()
    launcher.start(1, command())
    assert [(job.job_id, job.state, job.why) for job in launcher.look("s")] == [
        ("1_1", JobState.RUNNING, ""),
        ("", JobState.QUEUED, NOT_SENT),
    ]
    now_s += SILENT_AT_MOST_S
    with pytest.raises(SweepRefusedError, match="does not answer"):
        launcher.look("s")
    slurm_cluster.start_controller()
    found = looked(launcher, lambda job: job.job_id != "")
    assert len(found) == 2
    assert found[0].job_id == job.job_id


SBATCH = """#!/bin/sh
[ -e {folder}/heard ] && exec {sbatch} "$@"
{sbatch} "$@" >{folder}/heard
echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation" >&2
exit 1
"""
"""The first submission arrives, and its answer is lost."""


@pytest.mark.cluster
def test_what_arrived_without_an_answer_is_not_sent_again(
    config, slurm_cluster, tmp_path, monkeypatch
):
    program = tmp_path / "bin" / "sbatch"
    program.parent.mkdir()
    program.write_text(SBATCH.format(folder=tmp_path, sbatch=shutil.which("sbatch")))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    launcher = load(config)
    jobs = started(launcher, 2, command())
    assert (tmp_path / "heard").read_text() == "1\n"
    assert [job.job_id for job in jobs] == ["1_1", "1_2"]
    assert len(slurm_cluster.run("squeue", "-h", "-r").splitlines()) == 2
    launcher.start(1, command())
    assert [job.job_id.partition("_")[2] for job in launcher.look("s")] == ["1", "2", "1"]


SQUEUE = """#!/bin/sh
{squeue} "$@"
{scancel} {job_id}
until {squeue} -h -t all -j {job_id} -o %T | grep -q CANCELLED; do :; done
"""
"""A job ends when it has just been seen to run."""


@pytest.mark.parametrize("at_once", [False, True])
def test_jobs_that_end_while_they_are_stopped_are_no_error(
    config, slurm_cluster, tmp_path, monkeypatch, at_once
):
    launcher = load(config)
    first, second = started(launcher, 2, command())
    program = tmp_path / "bin" / "squeue"
    program.parent.mkdir()
    program.write_text(
        SQUEUE.format(
            squeue=shutil.which("squeue"), scancel=shutil.which("scancel"), job_id=first.job_id
        )
    )
    program.chmod(0o755)
    with monkeypatch.context() as only_now:
        only_now.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
        launcher.stop("s", at_once=at_once)
    until(lambda: not slurm_cluster.run("squeue", "-h"))
    assert at_once or said(second).endswith("gave back\n")


def test_jobs_with_a_rewritten_comment_are_known_by_number(config, slurm_cluster):
    launcher = load(config)
    (job,) = started(launcher, 1, command())
    slurm_cluster.run("scontrol", "update", f"JobId={job.job_id}", "Comment=billed to chemistry")
    assert [job.state for job in launcher.look("s")] == [JobState.RUNNING]
    launcher.stop("s", at_once=True)
    ended(launcher)
