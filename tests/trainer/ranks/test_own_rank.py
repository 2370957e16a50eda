"""A trainer learns which rank it is from tf_cnn_benchmarks' flags, and refuses what makes no sense."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from scalemark.records.attempt import WORKER_0, Cluster, Rank
from scalemark.run_folder import RunFolder
from tests.ran import ran
from tests.specs import small
from trainer import UnsupportedTrialError
from trainer.own_rank import NO_FLAGS, Flags, OwnRank, read

MIRRORED = small(variable_update="multi_worker_mirrored", all_reduce="ring", num_gpus=2, hosts=2)
WITH_SERVERS = small(
    variable_update="distributed_parameter_server",
    local_parameter_device="cpu",
    num_gpus=2,
    hosts=2,
)
WORKERS = Flags(job_name="worker", task_index="1", worker_hosts="a:1,b:1")
SERVER = Flags(job_name="ps", task_index="0", worker_hosts="a:1,b:1", ps_hosts="a:2,b:2")
WORKER_1 = Rank(job_name="worker", task_index=1)
OF_WORKERS = Cluster(worker_hosts=("a:1", "b:1"))
OF_SERVERS = Cluster(worker_hosts=("a:1", "b:1"), ps_hosts=("a:2", "b:2"))


@pytest.mark.parametrize("variables", [{}, {"TF_CONFIG": ""}, {"TF_CONFIG": "{}"}])
@pytest.mark.parametrize("spec", [small(), MIRRORED])
def test_what_tells_nothing_makes_no_rank(spec, variables):
    assert read(spec, NO_FLAGS, variables) is None


def test_flags_tell_a_worker():
    own = read(MIRRORED, WORKERS, {})
    assert own == OwnRank(cluster=OF_WORKERS, rank=WORKER_1)
    assert (own.leads, own.others) == (False, [WORKER_0])


def test_flags_tell_a_parameter_server():
    assert read(WITH_SERVERS, SERVER, {}) == OwnRank(
        cluster=OF_SERVERS, rank=Rank(job_name="ps", task_index=0)
    )


def test_worker_0_leads():
    assert read(MIRRORED, replace(WORKERS, task_index="0"), {}).leads


def test_an_address_may_be_of_version_6():
    assert (
        read(
            MIRRORED, replace(WORKERS, worker_hosts="[::1]:1,[fe80::2]:1"), {}
        ).cluster.worker_hosts[1]
        == "[fe80::2]:1"
    )


@pytest.mark.parametrize("cluster", [OF_WORKERS, OF_SERVERS])
def test_the_flags_of_a_rank_are_read_as_that_rank(cluster):
    spec = WITH_SERVERS if cluster.ps_hosts else MIRRORED
    for rank in cluster.ranks:
        own = OwnRank(cluster=cluster, rank=rank)
        assert read(spec, Flags.of(cluster, rank), {"TF_CONFIG": "ignored"}) == own


OF_TF_CONFIG = {"TF_CONFIG": '{"task": {"type": "worker", "index": 1}}'}


@pytest.mark.parametrize("spec", [small(), MIRRORED])
def test_a_rank_that_only_tf_config_names_is_refused(spec):
    with pytest.raises(UnsupportedTrialError, match="TF_CONFIG is set and is not read; unset it"):
        read(spec, NO_FLAGS, OF_TF_CONFIG)


def test_flags_go_on_a_command_line():
    assert Flags.of(OF_WORKERS, WORKER_1).arguments() == [
        "--job_name=worker",
        "--task_index=1",
        "--worker_hosts=a:1,b:1",
    ]


SENSELESS = {
    "unknown job": (MIRRORED, replace(WORKERS, job_name="chief")),
    "unknown job with ps": (WITH_SERVERS, replace(SERVER, job_name="chief")),
    "index too high": (MIRRORED, replace(WORKERS, task_index="2")),
    "index negative": (MIRRORED, replace(WORKERS, task_index="-1")),
    "index no number": (MIRRORED, replace(WORKERS, task_index="one")),
    "job without hosts": (MIRRORED, replace(WORKERS, job_name="ps")),
    "no hosts": (MIRRORED, replace(WORKERS, worker_hosts="")),
    "only ps": (WITH_SERVERS, Flags(ps_hosts="a:2")),
    "no port": (MIRRORED, replace(WORKERS, worker_hosts="a:1,b")),
    "port 0": (MIRRORED, replace(WORKERS, worker_hosts="a:1,b:0")),
    "port too high": (MIRRORED, replace(WORKERS, worker_hosts="a:1,b:65536")),
    "empty address": (MIRRORED, replace(WORKERS, worker_hosts="a:1,")),
    "address with a scheme": (MIRRORED, replace(WORKERS, worker_hosts="a:1,grpc://b:1")),
    "address twice": (MIRRORED, replace(WORKERS, worker_hosts="a:1,a:1")),
    "address of a worker and a ps": (WITH_SERVERS, replace(SERVER, ps_hosts="a:1,b:2")),
    "too many workers": (MIRRORED, replace(WORKERS, worker_hosts="a:1,b:1,c:1")),
    "no parameter servers": (WITH_SERVERS, WORKERS),
    "too few parameter servers": (WITH_SERVERS, replace(SERVER, ps_hosts="a:2")),
    "needless parameter servers": (MIRRORED, SERVER),
    "trial of one process": (small(), WORKERS),
}


@pytest.mark.parametrize("case", SENSELESS)
def test_flags_that_make_no_sense_are_refused(case, snapshot):
    spec, flags = SENSELESS[case]
    with pytest.raises(UnsupportedTrialError) as refused:
        read(spec, flags, {})
    assert str(refused.value) == snapshot


def command(folder, *flags: str) -> subprocess.CompletedProcess[str]:
    """TensorFlow is not imported for what is refused."""
    asked = [sys.executable, "-m", "trainer", str(folder / "trial.json"), str(folder), *flags]
    return ran(asked)


def test_a_refused_rank_leaves_no_result_in_the_shared_folder(tmp_path):
    (tmp_path / "trial.json").write_text(MIRRORED.to_json())
    ended = command(tmp_path, "--job_name=chief", "--task_index=0", "--worker_hosts=a:1,b:1")
    assert (ended.returncode, ended.stderr) == (
        3,
        "unsupported: --job_name=chief: wanted worker\n",
    )
    assert not (tmp_path / "result.json").exists()


@pytest.mark.parametrize("flag", ["--job_name", "--task_index", "--worker_hosts", "--ps_hosts"])
def test_a_flag_that_is_given_empty_is_not_taken_for_one_that_is_not_given(tmp_path, flag):
    (tmp_path / "trial.json").write_text(MIRRORED.to_json())
    ended = command(tmp_path, f"{flag}=")
    assert ended.returncode == 2
    assert f"argument {flag}: it is empty; wanted a value, or leave the flag out" in ended.stderr
    assert not (tmp_path / "result.json").exists()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            small(hosts=2, num_gpus=2),
            "hosts=2: variable_update=replicated is of one host; choose variable_update=distributed_",
        ),
    ],
)
def test_hosts_that_a_hand_written_trial_cannot_have_are_refused(tmp_path, spec, message):
    (tmp_path / "trial.json").write_text(spec.to_json())
    ended = command(tmp_path)
    assert ended.returncode == 3
    assert ended.stdout == ""
    assert ended.stderr.startswith(f"unsupported: {message}")
    assert RunFolder(tmp_path).read_result().message.startswith(message)
    assert not RunFolder(tmp_path).environment.exists()


def test_a_refused_trial_of_one_process_says_so_in_its_result(tmp_path, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {}}')
    (tmp_path / "trial.json").write_text(small().to_json())
    assert command(tmp_path).returncode == 3
    assert "TF_CONFIG is set" in RunFolder(tmp_path).read_result().message


def test_a_refusal_makes_the_run_folder_and_is_one_sentence(tmp_path):
    (tmp_path / "trial.json").write_text(small().to_json())
    started = [sys.executable, "-m", "trainer", str(tmp_path / "trial.json")]

    def refused(folder: Path) -> subprocess.CompletedProcess[str]:
        return ran([*started, str(folder), "--job_name=worker"])

    ended = refused(tmp_path / "new" / "folder")
    assert (
        ended.returncode,
        ended.stderr.count("\n"),
        "unsupported: a trial of variable_update=replicated is one process" in ended.stderr,
    ) == (3, 1, True)
    assert "is one process" in RunFolder(tmp_path / "new" / "folder").read_result().message
    (tmp_path / "file").touch()
    ended = refused(tmp_path / "file" / "folder")
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert "Not a directory; wanted a run folder" in ended.stderr


def test_the_help_tells_every_flag_and_the_variable(tmp_path):
    reported = subprocess.run(
        [sys.executable, "-m", "trainer", "--help"], capture_output=True, text=True, check=True
    ).stdout
    for flag in (
        "TRIAL.json",
        "RUN_DIR",
        "--job_name",
        "--task_index",
        "--worker_hosts",
        "--ps_hosts",
        "selfcheck",
    ):
        assert flag in reported


def test_an_unknown_flag_is_refused(tmp_path):
    (tmp_path / "trial.json").write_text(MIRRORED.to_json())
    ended = command(tmp_path, "--task_indx=0")
    assert ended.returncode == 2
    assert "unrecognized arguments: --task_indx=0" in ended.stderr
