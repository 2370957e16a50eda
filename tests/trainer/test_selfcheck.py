"""`scalemark selfcheck` finds what is right and what is wrong, and says what cannot run here."""

import json
import os
import signal
import sys
from dataclasses import replace

import pynvml
import pytest

from tests.conftest import PROJECT
from tests.ran import ran
from tests.sweeper.fake_nvml import FakeDriver, FakeGpu
from tests.trainer import passing_for_gpus
from trainer import selfcheck
from trainer.selfcheck import Bench, Check, Mode, Part, choose_bench

pytestmark = pytest.mark.integration

PLAIN = {"mode": "ring", "options": "-"}
REPLICATED = Mode(variable_update="replicated", local_parameter_device="gpu", all_reduce="none")


def plain_part() -> Part:
    return Part(
        mode=REPLICATED, bench=Bench(kind="cpu_device", num_replicas=2), precisions=("fp32",)
    )


def run(*arguments):
    command = [sys.executable, "-m", "trainer", "selfcheck", *arguments]
    return ran(command, cwd=PROJECT)


def test_a_mode_is_proven_and_nccl_cannot_run_on_cpu_devices():
    ended = run("--modes", "ps_cpu", "replicated_nccl", "--devices", "cpu_device", "--json")
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    checks = {check["options"]: check for check in found["checks"] if check["mode"] == "ps_cpu"}
    assert found["devices"] == {"kind": "cpu_device", "num_replicas": 2, "num_hosts": 1}
    assert checks["staged_vars=True"]["difference"] < checks["staged_vars=True"]["bound"] == 1e-6
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
            "no mode distributed_ring with --hosts 1; choose from independent, ",
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
        def check(part, variables, checks):
            modes.append((part.mode.name, part.bench))
            for outcome in outcomes:
                problem = "" if outcome == "passed" else "wanted 2 GPUs"
                checks.append(
                    Check(mode=part.mode.name, options="-", outcome=outcome, problem=problem)
                )
            if then:
                then(part)

        monkeypatch.setattr(selfcheck, "_check_in_own_process", check)
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


def test_a_mode_that_cannot_run_says_so_once(checked):
    """On GPUs its checks are of two processes."""
    modes = checked("unsupported")
    checks, _ = selfcheck._checked([REPLICATED], Bench(kind="gpu", num_replicas=3))
    assert ([check.outcome for check in checks], len(modes)) == (["unsupported"], 1)


def test_a_box_on_which_nothing_could_be_checked_has_not_passed(checked, capsys):
    checked("unsupported")
    assert selfcheck.main(["--devices", "cpu_device"]) == 1
    said = capsys.readouterr()
    assert "nothing could be checked here" in said.err
    assert "Not checked\nwanted 2 GPUs (independent, " in said.out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_prints_what_was_checked(checked, capsys, number):
    """A bug: `timeout` left nothing."""

    def interrupt(part):
        if part.mode.variable_update == "mirrored":
            os.kill(os.getpid(), number)

    checked("passed", then=interrupt)
    modes = ["--modes", "ps_cpu", "mirrored_ring", "independent"]
    assert selfcheck.main(["--devices", "cpu_device", *modes]) == 130
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    said = capsys.readouterr()
    assert "interrupted: 2 modes are left" in said.err
    assert "1 checks passed, 0 failed, 0 cannot run here" in said.out


def test_a_mode_that_crashes_or_hangs_is_one_failure(monkeypatch):
    part = plain_part()
    checks: list[Check] = []
    strange = replace(part, bench=Bench(kind="no_such_kind", num_replicas=2))
    selfcheck._check_in_own_process(strange, {}, checks)
    monkeypatch.setattr(selfcheck, "CHECK_TIMEOUT_S", 0.1)
    monkeypatch.setattr(selfcheck, "LOOK_EVERY_S", 0.1)
    selfcheck._check_in_own_process(part, {}, checks)
    crashed, hung = checks
    assert (crashed.outcome, hung.outcome) == ("failed", "failed")
    assert "its process ended with 1: ValueError: 'no_such_kind'" in crashed.problem
    assert hung.problem.startswith("hung for")


def test_processes_on_gpus_have_the_variables_that_their_checks_need(monkeypatch):
    """A bug: on any GPU every check was unsupported, for lack of a variable."""

    def command(module, *arguments):
        return (*passing_for_gpus.COMMAND, module, *arguments)

    monkeypatch.setattr(selfcheck, "module_command", command)
    apart = Mode(variable_update="independent", local_parameter_device="gpu", all_reduce="none")
    found: list[Check] = []
    two = Bench(kind="logical_gpu", num_replicas=2)
    for part, variables in selfcheck.parts(apart, two, os.environ):
        first = replace(part, precisions=part.precisions[:1])
        selfcheck._check_in_own_process(first, variables, found)
    assert [(check.options, check.outcome, check.problem) for check in found] == [
        ("precision=fp32", "passed", ""),
        ("precision=bf16", "passed", ""),
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


def test_the_report_has_a_table_what_cannot_run_and_what_failed(snapshot):
    passed = Check(**PLAIN, outcome="passed", difference=1e-8, loss_difference=2e-8, bound=1e-6)
    refused = Check(**PLAIN, outcome="unsupported", problem="wanted GPUs")
    wrong = replace(passed, outcome="failed", problem="differs by 2.0e-03", difference=2e-3)
    checks = [passed, refused, wrong]
    assert "\n".join(selfcheck.report(checks, Bench(kind="gpu", num_replicas=2))) == snapshot


def test_the_check_fails_when_a_mode_is_wrong(make_devices, monkeypatch):
    """Gradients averaged where they are summed already: the classic slip."""
    from trainer import mode_check
    from trainer.all_reduces import pscpu

    def halved(self, copies, index):
        return [total / 2 for total in right(self, copies, index)]

    right = pscpu.SumOnOneDevice.sum
    checker = mode_check.ModeCheck(plain_part(), make_devices(2))
    one = next(checker.all())
    assert one.outcome == "passed"
    monkeypatch.setattr(pscpu.SumOnOneDevice, "sum", halved)
    assert next(checker.all()).outcome == "failed"
