"""A trainer leaves a run folder, and ends with the exit code of its outcome."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing

import pytest

from scalemark.abilities import VARIABLE_UPDATES
from scalemark.host import software
from scalemark.records.measurement import Outcome, Phase
from scalemark.records.trial import TrialSpec
from scalemark.run_folder import RunFolder
from simulator.costs.networks import network
from sweeper.starts import Fork, environment
from tests.ran import ran
from tests.specs import small
from tests.sweeper.processes import wait_for_end
from tests.trainer import image_sets
from trainer import ImportFailedError
from trainer.__main__ import _import_tensorflow, _outcome

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def fork():
    """As sweeps start trainers: TensorFlow is imported once for all."""
    with closing(Fork()) as fork:
        yield fork


def of_all_tests(variables: Mapping[str, str]) -> dict[str, str]:
    """Without those that differ from test to test: an environment of its own has a server of its own."""
    return {
        name: value
        for name, value in variables.items()
        if name not in ("PYTEST_CURRENT_TEST", "SCALEMARK_LOCK_DIR")
    }


@pytest.fixture
def run(fork, tmp_path, tmp_path_factory, monkeypatch):
    """run(spec): its exit code and its run folder. From one folder, which is part of the environment."""
    workdir = tmp_path_factory.getbasetemp() / "of_real_trials"
    workdir.mkdir(exist_ok=True)
    monkeypatch.chdir(workdir)

    def run(spec: TrialSpec) -> tuple[int, RunFolder]:
        folder = _folder(tmp_path, spec)
        process = fork.start(folder, environment(of_all_tests(os.environ), ""))
        wait_for_end(process.descriptor)
        assert (fork.problem, process.start) == (None, "fork")
        return process.reap(), folder

    return run


def _folder(tmp_path, spec: TrialSpec) -> RunFolder:
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir(exist_ok=True)
    folder.trial.write_text(spec.to_json())
    return folder


SMOKE = {
    "parameter_server": {"local_parameter_device": "cpu"},
    "replicated": {},
    "sharded": {},
    "independent": {},
    "mirrored": {},
    "fit": {"all_reduce": "collective"},
    "distributed_parameter_server": {"local_parameter_device": "cpu", "hosts": 2},
    "distributed_replicated": {"local_parameter_device": "cpu", "hosts": 2},
    "distributed_all_reduce": {"all_reduce": "ring", "hosts": 2},
    "distributed_sharded": {"all_reduce": "ring", "hosts": 2},
    "multi_worker_mirrored": {"all_reduce": "ring", "hosts": 2},
    "process_per_gpu": {"all_reduce": "ring"},
}


@pytest.mark.parametrize("variable_update", VARIABLE_UPDATES)
def test_a_trial_of_each_variable_update_completes(run, variable_update):
    axes = {"all_reduce": "none"} | SMOKE[variable_update]
    exit_code, folder = run(small(variable_update=variable_update, num_gpus=2, **axes))
    result = folder.read_result()
    assert (exit_code, result.outcome, result.message) == (0, Outcome.COMPLETED, "")
    assert result.measurement.throughput > 0


def test_a_trial_on_photographs_leaves_all_its_files_and_its_loss_falls(run):
    spec = small(
        model="resnet18_cifar",
        data="photos",
        distortions=True,
        num_gpus=2,
        batch_size=8,
        num_steps=25,
        learning_rate=0.02,
        all_reduce="pscpu",
    )
    exit_code, folder = run(spec)
    result, steps = folder.read_result(), folder.read_steps()
    assert (exit_code, result.outcome) == (0, Outcome.COMPLETED)
    measured = [step for step in steps if step.phase == Phase.MEASURE]
    assert len(measured) == result.measurement.num_steps == 25
    assert len(steps) - 25 == result.measurement.num_warm_up_steps
    assert result.measurement.last_loss < result.measurement.first_loss
    assert result.measurement.num_parameters == 701_466
    assert result.measurement.throughput == pytest.approx(2 * 8 * 25 / result.measurement.window_s)
    assert result.measurement.window_s > sum(step.duration_s for step in measured)
    assert result.op_placement["reduction"] == {"AddN @ CPU:0": 62}
    environment = json.loads(folder.environment.read_text())
    assert environment["packages"]["tensorflow"].startswith("2.")


def test_auto_clustering_compiles_and_updates_are_found_in_place(run):
    changes = {"num_gpus": 2, "variable_update": "parameter_server", "all_reduce": "none"}
    exit_code, folder = run(small(xla="auto", model="resnet18_cifar", **changes))
    result = folder.read_result()
    assert (exit_code, result.message) == (0, "")
    assert set(result.op_placement["xla"]) == {"_XlaRun @ CPU:1", "_XlaRun @ CPU:2"}
    assert set(result.op_placement["compute_type"]) == {"float @ CPU:1", "float @ CPU:2"}
    assert (
        "--tf_xla_auto_jit=2"
        in json.loads(folder.environment.read_text())["set_by_trial"]["TF_XLA_FLAGS"]
    )


def test_a_profile_is_stored_and_can_be_opened(run):
    exit_code, folder = run(
        small(model="lenet5", image_px=28, profile=True, num_gpus=2, all_reduce="none")
    )
    profile = folder.read_result().profile
    assert exit_code == 0
    assert 0 < profile.reduction_s < profile.step_s
    assert list((folder.path / profile.folder).glob("plugins/profile/*/*.xplane.pb"))


def test_each_replica_is_timed_by_its_own_compute(run):
    exit_code, folder = run(
        small(model="lenet5", image_px=28, num_gpus=2, replica_times=True, steps_per_execution=2)
    )
    result = folder.read_result()
    assert (exit_code, result.message) == (0, "")
    assert list(result.replica_times.seconds) == ["CPU:1", "CPU:2"]


def test_a_profile_that_fails_does_not_take_the_measurement_with_it(run, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "profile").write_text("a file in the way")
    exit_code, run_folder = run(small(profile=True))
    result = run_folder.read_result()
    assert (exit_code, result.profile) == (0, None)
    assert result.message.startswith("no profile: ")
    assert result.measurement.throughput > 0


def test_tf32_is_refused_on_cpu_devices(run):
    exit_code, folder = run(small(precision="tf32"))
    assert (exit_code, folder.read_result().message) == (
        3,
        "precision=tf32: a way of GPUs; these replicas are CPU devices",
    )


def test_an_inherited_variable_that_contradicts_the_trial_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("TF_XLA_FLAGS", "--tf_xla_auto_jit=1")
    folder = _folder(tmp_path, small())
    command = [sys.executable, "-m", "trainer", str(folder.trial), str(folder.path)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 3
    assert "take tf_xla_auto_jit out and set xla=auto instead" in folder.read_result().message


def test_what_does_not_fit_into_memory_is_typed_and_names_the_tensor(run):
    exit_code, folder = run(small(batch_size=50_000_000))
    assert exit_code == 4
    assert "OOM when allocating tensor with shape[50000000,32,32,3]" in folder.read_result().message


def test_a_limit_of_memory_that_tensorflow_does_not_fit_into_is_typed(tmp_path):
    (tmp_path / "trial.json").write_text(small().to_json())
    trainer = 'ulimit -v 800000; exec "$@"'
    command = [
        "bash",
        "-c",
        trainer,
        "sh",
        sys.executable,
        "-m",
        "trainer",
        str(tmp_path / "trial.json"),
        str(tmp_path / "run"),
    ]
    ended = ran(command)
    assert ended.returncode == 4, ended.stderr
    assert RunFolder(tmp_path / "run").read_result().outcome == Outcome.OUT_OF_MEMORY


@pytest.mark.parametrize("text", [None, "{}", "garbage"])
def test_a_spec_that_is_none_is_refused_in_one_line(tmp_path, text):
    path = tmp_path / "trial.json"
    if text is not None:
        path.write_text(text)
    ended = ran([sys.executable, "-m", "trainer", str(path), str(tmp_path)])
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert str(path) in ended.stderr


def test_a_trial_of_which_every_step_overflowed_is_invalid(run):
    exit_code, folder = run(small(precision="fp16", loss_scale="1e38"))
    assert exit_code == 5
    assert "every step overflowed and was skipped" in folder.read_result().message


@pytest.mark.parametrize("variable_update", ["replicated", "process_per_gpu"])
def test_nccl_without_gpus_is_unsupported(run, variable_update):
    exit_code, folder = run(small(variable_update=variable_update, all_reduce="nccl", num_gpus=2))
    assert exit_code == 3
    assert folder.read_result().outcome == Outcome.UNSUPPORTED
    assert "one physical GPU per replica" in folder.read_result().message


def test_a_gpu_trial_without_gpus_is_unsupported_and_never_runs_on_the_cpu(run):
    exit_code, folder = run(small(device_kind="gpu"))
    assert exit_code == 3
    assert "TensorFlow sees 0 GPUs where the trial wants 1" in folder.read_result().message
    environment = folder.read_environment()  # it tells its software all the same
    assert software.key(environment) == software.key(software.describe())
    assert software.own_checkout().items() <= environment.items()


def test_a_loss_that_is_not_finite_is_invalid_and_the_evidence_is_kept(run):
    exit_code, folder = run(small(learning_rate=1e30))
    result = folder.read_result()
    assert (exit_code, result.outcome) == (5, Outcome.INVALID)
    assert "try a smaller learning_rate" in result.message
    assert result.measurement.throughput > 0
    assert result.measurement.last_loss is None
    assert result.op_placement["update"]


def test_data_that_cannot_be_read_fails_a_trial_in_one_sentence(run, tmp_path, all_devices):
    records = [image_sets.good(1)] * 9 + [image_sets.record(10, image_sets.jpeg(7))]
    (path,) = image_sets.write(tmp_path / "set", records)
    exit_code, folder = run(small(data="imagenet", data_dir=str(path.parent), num_classes=10))
    assert exit_code == 1
    assert folder.read_result().outcome == Outcome.FAILED
    message = folder.read_result().message
    assert message.startswith(f"data.dir={path.parent}: ")
    assert "wanted a label below num_classes=10" in message


def broken_import(monkeypatch, error):
    class Broken:
        def find_spec(self, name, path=None, target=None):
            if name == "tensorflow":
                raise error

    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])


def test_any_error_of_tensorflows_import_is_said_to_be_one(monkeypatch):
    broken_import(monkeypatch, AttributeError("module numpy has no attribute x"))
    reported = "TensorFlow cannot be imported: AttributeError: module numpy has no attribute x"
    with pytest.raises(ImportFailedError) as raised:
        _import_tensorflow()
    assert _outcome(raised.value, "") == (Outcome.FAILED, reported)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "DNN library error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED in conv.cc",
            "out of GPU memory: ",
        ),
        ("DNN library error: CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED", "out of host "),
        ("Dst tensor is not initialized.", "out of GPU memory: "),
    ],
)
def test_what_libraries_of_cuda_say_of_memory_is_out_of_memory(line, message):
    outcome, reported = _outcome(RuntimeError(line), "")
    assert outcome == Outcome.OUT_OF_MEMORY
    assert reported.startswith(message)


class CancelledError(Exception):
    """TensorFlow's, by its name."""


ONE_DNN = (
    "OP_REQUIRES failed at mkl_maxpooling_op.cc:391 : ABORTED: Compute received an "
    "exception:Status:1, message: could not create a memory object."
)


def test_what_onednn_says_of_memory_is_out_of_memory():
    assert _outcome(RuntimeError(ONE_DNN), "")[0] == Outcome.OUT_OF_MEMORY


def test_an_op_that_waited_for_one_without_memory_lacks_memory():
    """A bug: a trial on a CPU device had failed, and a search for the largest batch ended."""
    cancelled = CancelledError("RecvAsync is cancelled.")
    assert _outcome(cancelled, f"it starts\nW0000 {ONE_DNN}\n")[0] == Outcome.OUT_OF_MEMORY
    assert _outcome(cancelled, "it starts\n")[0] == Outcome.FAILED


NCCL_FAILED = "{{node NcclAllReduce}} NCCL: unhandled cuda error. Set NCCL_DEBUG=WARN for detail."


def warned(what):
    """What NCCL 2.32 logs, with an empty line before it."""
    where = "box:7:31 [1] transport/p2p.cc:275 (p2pMap)"
    return f"\n[2026-11-25 12:00:00] {where} NCCL WARN Cuda failure '{what}'\n"


def test_what_cuda_refuses_nccl_is_told_and_only_a_lack_of_memory_is_one():
    """A bug: without peer access every trial was out of memory, and larger ones were skipped."""
    refused = "peer access is not supported between these two devices"
    assert _outcome(RuntimeError(NCCL_FAILED), warned(refused)) == (
        Outcome.FAILED,
        f"RuntimeError: {NCCL_FAILED} (Cuda failure '{refused}')",
    )
    assert _outcome(RuntimeError(NCCL_FAILED), "") == (
        Outcome.FAILED,
        f"RuntimeError: {NCCL_FAILED}",
    )
    outcome, _ = _outcome(RuntimeError(NCCL_FAILED), warned("out of memory"))
    assert outcome == Outcome.OUT_OF_MEMORY


def test_a_lack_of_memory_at_tensorflows_import_stays_one(monkeypatch):
    broken_import(monkeypatch, MemoryError())
    with pytest.raises(MemoryError):
        _import_tensorflow()


@pytest.fixture(scope="module")
def of_other_variables(fork, tmp_path_factory):
    """A trial with a cache of its own and a secret in its environment, which take a new server."""
    place = tmp_path_factory.mktemp("other")
    folder = _folder(place, small(num_gpus=2, optimizer="adam", min_window_s=0.1))
    variables = of_all_tests(os.environ) | {
        "SCALEMARK_CACHE": str(place / "cache"),
        "NCCL_SOCKET_IFNAME": "http://me:hidden@host",
    }
    process = fork.start(folder, environment(variables, ""))
    wait_for_end(process.descriptor)
    assert process.reap() == 0
    return place, folder


def test_the_environment_has_tensorflows_build_and_no_secret(of_other_variables):
    _, folder = of_other_variables
    environment = folder.read_environment()
    assert (
        environment["cuda_build"].split(".")[0].isdecimal()
    )  # the packaged TensorFlow is built for GPUs, too
    assert environment["cudnn_build"].split(".")[0].isdecimal()
    assert environment["variables"]["NCCL_SOCKET_IFNAME"] == "http://***@host"
    assert "hidden" not in folder.environment.read_text()


def test_a_trial_tells_its_utilization_unless_others_took_cores_and_its_bytes(of_other_variables):
    place, folder = of_other_variables
    found = folder.read_result().measurement
    flops = network("trivial", 32, 10).training_flops
    kept = [json.loads(file.read_text()) for file in (place / "cache" / "peaks").glob("*.json")]
    if kept:
        (peak,) = kept
        assert found.peak_flops_per_s == peak["flops_per_s"] / 2
        assert found.mfu == pytest.approx(found.throughput / 2 * flops / found.peak_flops_per_s)
        assert 0 < found.mfu < 1
    else:
        assert (found.mfu, found.peak_flops_per_s) == (None, None)
        assert "model FLOPs utilization is not known: others took" in folder.log.read_text()
    weights = 4 * found.num_parameters
    assert (found.variable_bytes, found.optimizer_state_bytes) == (weights, 2 * weights)
