"""`scalemark selfcheck` finds what is right and what is wrong, and says what cannot run here."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import psutil
import pynvml
import pytest

from tests.conftest import PROJECT
from tests.ran import ran
from tests.sweeper.fake_nvml import FakeDriver, FakeGpu
from tests.sweeper.processes import assert_gone
from tests.trainer import passing_for_gpus
from trainer import selfcheck, supervision
from trainer.selfcheck import Bench, Check, choose_bench, modes

pytestmark = pytest.mark.integration

PLAIN = {"mode": "ring", "options": "-"}
TWO = Bench(kind="cpu_device", num_replicas=2)
REPLICATED = modes(TWO)["replicated_none"]


def run(*arguments):
    command = [sys.executable, "-m", "trainer", "selfcheck", *arguments]
    return ran(command, cwd=PROJECT)


def test_a_mode_is_proven_and_nccl_cannot_run_on_cpu_devices():
    ended = run("--modes", "ps_cpu", "replicated_nccl", "--devices", "cpu_device", "--json")
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    checks = {check["options"]: check for check in found["checks"] if check["mode"] == "ps_cpu"}
    assert found["devices"] == {"kind": "cpu_device", "num_replicas": 2, "num_hosts": 1}
    staged = checks["staged_vars=True weight_decay=0.0"]
    assert staged["difference"] < staged["bound"] == 1e-6
    assert checks["precision=tf32"]["outcome"] == "unsupported"
    (refused,) = (check for check in found["checks"] if check["mode"] == "replicated_nccl")
    assert (refused["outcome"], refused["problem"]) == (
        "unsupported",
        "all_reduce=nccl needs one physical GPU per replica; these replicas are CPU devices",
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--modes", "telepathy"], "no mode telepathy with --hosts 1; choose from "),
        (["--modes", "ps_cpu,telepathy"], "no mode telepathy with --hosts 1; choose from "),
        (["--devices", "gpu"], "--devices gpu: NVML finds no GPU here; choose cpu_device"),
        (["--replicas", "99"], "--replicas 99: wanted 1 to 16"),
        (["--hosts", "0"], "--hosts 0: wanted 1 to 8"),
        (
            ["--hosts", "2", "--modes", "ps_cpu"],
            "no mode ps_cpu with --hosts 2; choose from distributed_",
        ),
        (
            ["--modes", "distributed_ring"],
            "no mode distributed_ring with --hosts 1; choose from fit, independent, ",
        ),
    ],
)
def test_a_wrong_question_is_refused_at_once(arguments, said, capsys):
    with pytest.raises(SystemExit) as ended:
        selfcheck.main(arguments)
    assert (ended.value.code, said in capsys.readouterr().err) == (2, True)


@pytest.fixture
def checked(monkeypatch):
    """checked(OUTCOME): what the process of each mode finds; the modes that it was asked for."""
    modes = []

    def answer(*outcomes, then=None):
        def check(name, spec, bench):
            modes.append((name, bench))
            if then:
                then(name)
            problems = ["" if outcome == "passed" else "wanted 2 GPUs" for outcome in outcomes]
            return [
                Check(mode=name, options="-", outcome=outcome, problem=problem)
                for outcome, problem in zip(outcomes, problems, strict=True)
            ]

        monkeypatch.setattr(selfcheck, "_check", check)
        return modes

    return answer


def test_modes_of_several_hosts_are_checked_over_so_many(checked, capsys):
    modes = checked("passed")
    assert selfcheck.main(["--devices", "cpu_device", "--hosts", "3"]) == 0
    assert {name.split("_")[0] for name, _ in modes} == {"distributed"}
    assert {bench for _, bench in modes} == {Bench(kind="cpu_device", num_replicas=6, num_hosts=3)}
    said = capsys.readouterr().out
    assert "3 hosts with 2 CPU devices each (processes of this machine)" in said


def test_modes_are_parted_by_commas_or_spaces(checked):
    modes = checked("passed")
    selfcheck.main(["--devices", "cpu_device", "--modes", "ps_cpu,sharded,", "independent"])
    assert [name for name, _ in modes] == ["ps_cpu", "sharded", "independent"]


def test_a_box_on_which_nothing_could_be_checked_has_not_passed(checked, capsys):
    checked("unsupported")
    assert selfcheck.main(["--devices", "cpu_device"]) == 1
    said = capsys.readouterr()
    assert "nothing could be checked here" in said.err
    assert "Not checked\nwanted 2 GPUs (fit, independent, " in said.out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_prints_what_was_checked(checked, capsys, number):
    """A bug: `timeout` left nothing."""

    def interrupt(name):
        if name == "mirrored_ring":
            os.kill(os.getpid(), number)

    checked("passed", then=interrupt)
    modes = ["--modes", "ps_cpu", "mirrored_ring", "independent"]
    assert selfcheck.main(["--devices", "cpu_device", *modes]) == 130
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    said = capsys.readouterr()
    assert "interrupted: 2 modes are left" in said.err
    assert "1 checks passed, 0 failed, 0 cannot run here" in said.out


def test_a_mode_that_crashes_or_hangs_is_one_failure(monkeypatch):
    (crashed,) = selfcheck._check("ring", REPLICATED, replace(TWO, kind="no_such_kind"))
    monkeypatch.setattr(selfcheck, "CHECK_TIMEOUT_S", 0.1)
    monkeypatch.setattr(selfcheck, "LOOK_EVERY_S", 0.1)
    (hung,) = selfcheck._check("ring", REPLICATED, TWO)
    assert (crashed.outcome, hung.outcome) == ("failed", "failed")
    assert "worker-0 ended with exit code 1: ValueError: 'no_such_kind'" in crashed.problem
    assert hung.problem.startswith("hung for")


def test_no_rank_outlives_the_self_check():
    """Whatever ends it: Linux ends the processes of a mode with it."""
    command = [sys.executable, "-m", "trainer", "selfcheck", "--hosts", "2"]
    one_mode = ("--devices", "cpu_device", "--modes", "distributed_ring")
    with subprocess.Popen([*command, *one_mode], cwd=PROJECT) as process:
        ranks: list[psutil.Process] = []
        while len(ranks) < 2:
            ranks = psutil.Process(process.pid).children()
            assert process.poll() is None
        process.kill()
    for rank in ranks:
        assert_gone(rank.pid)


def test_processes_on_gpus_have_the_variables_that_their_checks_need(monkeypatch):
    """A bug: on any GPU every check was unsupported, for lack of a variable."""

    def command(module, *arguments):
        return (*passing_for_gpus.COMMAND, module, *arguments)

    monkeypatch.setattr(supervision, "module_command", command)
    two = Bench(kind="logical_gpu", num_replicas=2)
    found = selfcheck._check("independent", modes(two)["independent"], two)
    assert [(check.options, check.outcome) for check in found[:2]] == [
        ("-", "passed"),
        ("precision=bf16", "passed"),
    ]


@pytest.mark.parametrize(
    ("asked", "num_replicas", "num_gpus", "bench"),
    [
        ("auto", None, 0, Bench(kind="cpu_device", num_replicas=2)),
        ("auto", None, 1, Bench(kind="logical_gpu", num_replicas=2)),
        ("auto", None, 4, Bench(kind="gpu", num_replicas=4)),
        ("auto", None, 16, Bench(kind="gpu", num_replicas=8)),
        ("cpu_device", 4, 8, Bench(kind="cpu_device", num_replicas=4)),
    ],
)
def test_the_devices_are_those_that_are_there(asked, num_replicas, num_gpus, bench):
    assert choose_bench(asked, num_replicas, num_gpus) == bench


def cut(uuid: str) -> FakeGpu:
    return FakeGpu(uuid, mig_devices=[FakeGpu(f"MIG-{uuid}-{n}") for n in range(7)])


@pytest.mark.parametrize(
    ("gpus", "mask", "num_devices"),
    [
        ([FakeGpu("GPU-a"), FakeGpu("GPU-b")], None, 2),
        ([FakeGpu("GPU-a"), FakeGpu("GPU-b")], "GPU-b", 1),
        ([FakeGpu("GPU-a"), FakeGpu("GPU-b")], "-1", 0),
        ([cut("a"), cut("b")], None, 1),
        ([cut("a"), cut("b")], "MIG-a-0,MIG-b-3", 1),
        ([cut("a"), cut("b")], "0,1", 1),
        ([cut("a"), FakeGpu("GPU-b"), FakeGpu("GPU-c")], None, 1),
        ([cut("a"), FakeGpu("GPU-b"), FakeGpu("GPU-c")], "GPU-b,GPU-c", 2),
        ([FakeGpu("GPU-a", error=pynvml.NVML_ERROR_GPU_IS_LOST), FakeGpu("GPU-b")], None, 2),
        ([], "0", 0),
    ],
)
def test_devices_are_counted_as_cuda_shows_them(gpus, mask, num_devices, monkeypatch):
    """A bug: GPUs in MIG mode were counted, of whose devices a process sees one."""
    FakeDriver(gpus).install(monkeypatch)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if mask is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", mask)
    assert selfcheck._num_devices() == num_devices


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "found 1 replica, over which every sum is exact; wanted 2 or more: choose --devices"),
        (["--replicas", "2"], "2 GPUs are wanted, and CUDA shows a process 1 device here"),
    ],
)
def test_a_mig_device_alone_proves_nothing(arguments, said, monkeypatch, capsys):
    """A bug: sums over its one replica are exact whatever is summed, and passed."""
    FakeDriver([cut("a"), cut("b")]).install(monkeypatch)
    with pytest.raises(SystemExit) as ended:
        selfcheck.main(["--devices", "gpu", *arguments])
    assert (ended.value.code, said in " ".join(capsys.readouterr().err.split())) == (2, True)


def test_the_report_has_a_table_what_cannot_run_and_what_failed(snapshot, capsys):
    passed = Check(**PLAIN, outcome="passed", difference=1e-8, loss_difference=2e-8, bound=1e-6)
    refused = Check(**PLAIN, outcome="unsupported", problem="wanted GPUs")
    wrong = replace(passed, outcome="failed", problem="differs by 2.0e-03", difference=2e-3)
    checks = [passed, refused, wrong]
    selfcheck.report(checks, Bench(kind="gpu", num_replicas=2))
    assert capsys.readouterr().out.removesuffix("\n") == snapshot


@pytest.mark.parametrize("slip", [lambda total: total / 2, lambda total: total * float("nan")])
def test_the_check_fails_when_a_mode_is_wrong(make_devices, monkeypatch, slip):
    """Gradients averaged where they are summed already: the classic slip; and, a bug, NaN passed."""
    from trainer import mode_check
    from trainer.all_reduces import pscpu

    def slipped(self, copies, index):
        return [slip(total) for total in right(self, copies, index)]

    right = pscpu.SumOnOneDevice.sum
    checker = mode_check.ModeCheck(REPLICATED, make_devices(2), 1e-6)
    assert next(checker.all()).outcome == "passed"
    monkeypatch.setattr(pscpu.SumOnOneDevice, "sum", slipped)
    assert next(checker.all()).outcome == "failed"
