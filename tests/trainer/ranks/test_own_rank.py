"""A trainer learns which rank it is from its command line, and refuses what makes no sense."""

import subprocess
import sys

import pytest

from scalemark.records.attempt import WORKER_0, Cluster
from scalemark.run_folder import RunFolder
from tests.ran import ran
from tests.specs import small
from trainer import UnsupportedTrialError
from trainer.own_rank import OwnRank, check_no_other

MIRRORED = small(variable_update="multi_worker_mirrored", all_reduce="ring", num_gpus=2, hosts=2)
OF_WORKERS = Cluster(worker_hosts=("a:1", "[::1]:1"))
OF_SERVERS = Cluster(worker_hosts=("a:1", "b:1"), ps_hosts=("a:2", "b:2"))


@pytest.mark.parametrize("cluster", [OF_WORKERS, OF_SERVERS])
def test_a_command_line_tells_each_rank(cluster):
    for rank in cluster.ranks:
        own = OwnRank(cluster=cluster, rank=rank)
        (argument,) = own.arguments()
        assert OwnRank.from_json(argument.removeprefix("--rank=")) == own
        assert own.leads == (rank == WORKER_0)
        assert {rank, *own.others} == set(cluster.ranks)


@pytest.mark.parametrize("variables", [{}, {"TF_CONFIG": ""}, {"TF_CONFIG": "{}"}])
def test_what_tells_nothing_makes_no_rank(variables):
    check_no_other(variables)


OF_TF_CONFIG = {"TF_CONFIG": '{"task": {"type": "worker", "index": 1}}'}


def test_a_rank_that_only_tf_config_names_is_refused():
    with pytest.raises(UnsupportedTrialError, match="TF_CONFIG is set and is not read; unset it"):
        check_no_other(OF_TF_CONFIG)


def command(folder, *flags: str) -> subprocess.CompletedProcess[str]:
    """TensorFlow is not imported for what is refused."""
    asked = [sys.executable, "-m", "trainer", str(folder / "trial.json"), str(folder), *flags]
    return ran(asked)


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


def test_a_refusal_makes_the_run_folder_and_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {}}')
    (tmp_path / "trial.json").write_text(small().to_json())
    started = [sys.executable, "-m", "trainer", str(tmp_path / "trial.json")]
    folder = tmp_path / "new" / "folder"
    ended = ran([*started, str(folder)])
    assert (ended.returncode, ended.stderr.count("\n")) == (3, 1)
    assert "TF_CONFIG is set" in RunFolder(folder).read_result().message
    (tmp_path / "file").touch()
    ended = ran([*started, str(tmp_path / "file" / "folder")])
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert "Not a directory; wanted a run folder" in ended.stderr


def test_the_help_tells_every_flag(tmp_path):
    reported = subprocess.run(
        [sys.executable, "-m", "trainer", "--help"], capture_output=True, text=True, check=True
    ).stdout
    for flag in ("TRIAL.json", "RUN_DIR", "--rank", "selfcheck"):
        assert flag in reported


def test_an_unknown_flag_is_refused(tmp_path):
    (tmp_path / "trial.json").write_text(MIRRORED.to_json())
    ended = command(tmp_path, "--rnk=0")
    assert ended.returncode == 2
    assert "unrecognized arguments: --rnk=0" in ended.stderr
