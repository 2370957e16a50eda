"""`python -m trainer selfcheck` finds what is right and what is wrong, and says what cannot run here."""

import io
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from threading import Barrier, Event

import pynvml
import pytest

from tests.conftest import PROJECT
from tests.own_models import DENSE, TOKENS, written
from tests.sweeper.fake_nvml import FakeDriver, FakeGpu
from tests.trainer import passing_for_gpus
from trainer import selfcheck
from trainer.check import trials
from trainer.check.records import Bench, Check, Mode, Part
from trainer.selfcheck import NOT_REACHED, choose_bench

pytestmark = pytest.mark.integration

PLAIN = {"mode": "ring", "options": "-"}
REPLICATED = Mode(variable_update="replicated", local_parameter_device="gpu", all_reduce="none")


def plain_part() -> Part:
    return Part(
        mode=REPLICATED, bench=Bench(kind="cpu_device", num_replicas=2), precisions=("fp32",)
    )


def run(*arguments):
    command = [sys.executable, "-m", "trainer", "selfcheck", *arguments]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """Of two modes at once: what it printed, and what it wrote as JSON."""
    path = tmp_path_factory.mktemp("selfcheck") / "found.json"
    ended = run(
        "--modes", "ps_cpu", "replicated_nccl", "--devices", "cpu_device", "--out", str(path)
    )
    assert ended.returncode == 0, ended.stderr
    return ended, json.loads(path.read_text())


def test_a_mode_is_proven_measured_and_written_as_json(asked):
    ended, found = asked
    checks = {check["options"]: check for check in found["checks"] if check["mode"] == "ps_cpu"}
    assert found["devices"] == {
        **{"kind": "cpu_device", "num_replicas": 2, "num_hosts": 1},
        **{"model": "", "model_digest": ""},
    }
    assert checks["staged_vars=True"]["difference"] < checks["staged_vars=True"]["bound"] == 1e-6
    assert checks["precision=fp32"]["throughput"] > 0
    assert checks["precision=tf32"]["outcome"] == "unsupported"
    assert "CPU devices: parts of one machine's cores" in ended.stdout
    assert (
        "precision=tf32: a way of GPUs; these replicas are CPU devices (precision=tf32 with ps_cpu)"
        in ended.stdout
    )
    assert "2 GPUs" not in ended.stdout
    assert "2 CPU devices" in ended.stdout


def test_nccl_cannot_run_on_cpu_devices_and_is_no_failure(asked):
    ended, _ = asked
    assert ended.returncode == 0
    assert (
        "all_reduce=nccl needs one physical GPU per replica; these replicas are CPU devices (replicated_nccl)"
        in ended.stdout
    )


def test_a_model_of_ones_own_is_proven_in_the_mode(tmp_path):
    found = tmp_path / "found.json"
    path = f"{tmp_path}/{written(TOKENS)}"
    ended = run("--modes", "mirrored_ring", "--model", path, "--out", str(found))
    assert ended.returncode == 0, ended.stderr
    exact, *others, fast = json.loads(found.read_text())["checks"]
    assert exact["difference"] < exact["bound"] == 1e-6
    assert [check["options"] for check in others] == [
        "steps_per_execution=3",
        "gradient_accumulation=4",
    ]
    assert fast["throughput"] > 0
    assert f"examples/s of {path} in a second" in ended.stdout


def test_a_model_that_drops_out_trains_and_is_not_compared(tmp_path):
    layers = "keras.layers.Dropout(0.5), keras.layers.Dense(4)"
    path = f"{tmp_path}/{written(DENSE.replace('keras.layers.Dense(4)', layers))}"
    ended = run("--modes", "ps_cpu", "--model", path)
    assert ended.returncode == 0, ended.stderr
    assert "cannot be compared with one device (ps_cpu)" in ended.stdout
    assert "1 checks passed, 0 failed, 1 cannot run here" in ended.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--model", "my_modle.py:build"], "my_modle.py: there is no such file"),
        (["--modes", "telepathy"], "no mode telepathy with --hosts 1; choose from "),
        (["--modes", "ps_cpu,telepathy"], "no mode telepathy with --hosts 1; choose from "),
        (["--devices", "gpu"], "--devices gpu: NVML finds no GPU here; choose cpu_device"),
        (["--replicas", "99"], "--replicas 99: wanted 1 to 16"),
        (["--jobs", "0"], "--jobs 0: wanted 1 or more"),
        (["--hosts", "0"], "--hosts 0: wanted 1 to 8"),
        (
            ["--hosts", "2", "--modes", "ps_cpu"],
            "no mode ps_cpu with --hosts 2; choose from distributed_",
        ),
        (
            ["--modes", "distributed_ring"],
            "no mode distributed_ring with --hosts 1; choose from independent, ",
        ),
        (["--out", "/nowhere/x.json"], "there is no folder /nowhere"),
        (["--out", "/proc"], "--out /proc: a folder, wanted a file"),
        (
            ["--out", "/proc/x.json"],
            "--out /proc/x.json: No such file or directory; choose another",
        ),
    ],
)
def test_a_wrong_question_is_refused_at_once(arguments, said, capsys):
    with pytest.raises(SystemExit) as ended:
        selfcheck.main(arguments)
    assert (ended.value.code, said in capsys.readouterr().err) == (2, True)


def test_modes_of_several_hosts_are_checked_over_so_many(monkeypatch, capsys):
    checked = []

    def check(mode, bench, over):
        checked.append((mode.variable_update, bench))
        return [
            Check(
                mode=mode.name,
                options="-",
                outcome="passed",
                difference=1e-8,
                loss_difference=2e-8,
                bound=1e-6,
            )
        ]

    monkeypatch.setattr(selfcheck, "_check", check)
    assert selfcheck.main(["--devices", "cpu_device", "--hosts", "3"]) == 0
    updates, benches = map(set, zip(*checked, strict=True))
    assert updates == {
        "distributed_parameter_server",
        "distributed_replicated",
        "distributed_all_reduce",
        "distributed_sharded",
    }
    assert benches == {Bench(kind="cpu_device", num_replicas=6, num_hosts=3)}
    reported = capsys.readouterr().out
    assert "3 hosts with 2 CPU devices each (processes of this machine)" in reported
    assert re.search(r"^distributed_ring +- +1\.0e-08 +2\.0e-08 +1e-06", reported, re.MULTILINE)


def test_modes_are_parted_by_commas_or_spaces(monkeypatch):
    checked = []

    def check(mode, bench, over):
        checked.append(mode.name)
        return []

    monkeypatch.setattr(selfcheck, "_check", check)
    selfcheck.main(["--devices", "cpu_device", "--modes", "ps_cpu,sharded,", "independent"])
    assert checked == ["ps_cpu", "sharded", "independent"]


def test_a_mode_that_crashes_or_hangs_is_one_failure(monkeypatch):
    part = plain_part()
    strange = replace(part, bench=Bench(kind="no_such_kind", num_replicas=2))
    (check,) = selfcheck._check_in_own_process(strange, {}, Event())
    assert (
        check.outcome,
        "its process ended with 1: ValueError: 'no_such_kind'" in check.problem,
    ) == ("failed", True)
    monkeypatch.setattr(selfcheck, "CHECK_TIMEOUT_S", 0.1)
    monkeypatch.setattr(selfcheck, "LOOK_EVERY_S", 0.1)
    (check,) = selfcheck._check_in_own_process(part, {}, Event())
    assert (check.outcome, check.problem.startswith("hung for")) == ("failed", True)


def test_processes_on_gpus_have_the_variables_that_their_checks_need(monkeypatch):
    """A bug: on any GPU every check was unsupported, for lack of a variable."""

    def command(module, *arguments):
        return (*passing_for_gpus.COMMAND, module, *arguments)

    monkeypatch.setattr(selfcheck, "module_command", command)
    apart = Mode(variable_update="independent", local_parameter_device="gpu", all_reduce="none")
    found = []
    for part, variables in trials.parts(
        apart, Bench(kind="logical_gpu", num_replicas=2), os.environ
    ):
        one = replace(part, precisions=part.precisions[:1])
        found += selfcheck._check_in_own_process(one, variables, Event())
    assert [(check.options, check.outcome, check.problem) for check in found] == [
        ("-", "passed", ""),
        ("precision=fp32", "passed", ""),
        ("precision=bf16", "passed", ""),
    ]


def test_a_mode_that_cannot_run_says_so_once(monkeypatch):
    """On GPUs its checks are of two processes."""
    refused = Check(**PLAIN, outcome="unsupported", problem="wanted an even number of GPUs")
    monkeypatch.setattr(selfcheck, "_check_in_own_process", lambda *_: [refused])
    assert selfcheck._check(REPLICATED, Bench(kind="gpu", num_replicas=3), Event()) == [refused]


@pytest.mark.parametrize("modes", [[], ["--modes", "replicated_nccl"]])
def test_a_box_on_which_nothing_could_be_checked_has_not_passed(modes, monkeypatch, capsys):
    refused = Check(**PLAIN, outcome="unsupported", problem="TensorFlow sees 0 GPUs")
    monkeypatch.setattr(selfcheck, "_check_in_own_process", lambda *_: [refused])
    assert selfcheck.main(["--devices", "cpu_device", *modes]) == 1
    said = capsys.readouterr()
    assert "nothing could be checked here" in said.err


def test_an_interrupt_ends_it_with_what_was_found(monkeypatch, capsys):
    def interrupted(_part, _variables, over):
        os.kill(os.getpid(), signal.SIGINT)
        assert over.wait(60)
        return []

    monkeypatch.setattr(selfcheck, "_check_in_own_process", interrupted)
    modes = ["--modes", "ps_cpu", "mirrored_ring", "independent"]
    assert selfcheck.main(["--devices", "cpu_device", *modes]) == 130
    reported = capsys.readouterr().out
    assert "Not reached (interrupted): ps_cpu, mirrored_ring, independent" in reported
    assert "0 checks passed, 0 failed, 0 cannot run here, 3 not reached" in reported
    assert "Largest difference" not in reported  # no table without a row


def test_modes_that_would_have_followed_those_alone_are_not_reached_either(monkeypatch):
    def interrupted(mode, bench, over):
        assert over.wait(60)
        return []

    monkeypatch.setattr(selfcheck, "_check", interrupted)
    modes = [replace(REPLICATED, all_reduce="nccl"), REPLICATED]
    checks, is_interrupted = selfcheck._checked(modes, Bench(kind="gpu", num_replicas=2), 2, [9.0])
    assert [(check.mode, check.outcome) for check in checks] == [("replicated_none", NOT_REACHED)]
    assert is_interrupted


def test_sigterm_ends_it_as_an_interrupt_does_and_what_was_found_is_written(
    monkeypatch, capsys, tmp_path
):
    """A bug: `timeout` left an empty file. Modes that had not ended, or not begun, are reported."""

    def terminated(part, variables, over):
        if part.mode.variable_update == "parameter_server":
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)  # as `timeout` does, to the process and its group
            assert over.wait(60)
        return [Check(mode=part.mode.name, options="-", outcome="passed")]

    monkeypatch.setattr(selfcheck, "_check_in_own_process", terminated)
    out = tmp_path / "found.json"
    modes = ["--modes", "mirrored_ring", "ps_cpu", "independent"]
    assert selfcheck.main(["--devices", "cpu_device", *modes, "--out", str(out)]) == 130
    found = [(one["mode"], one["outcome"]) for one in json.loads(out.read_text())["checks"]]
    assert found == [
        ("mirrored_ring", "passed"),
        ("ps_cpu", "passed"),
        ("ps_cpu", NOT_REACHED),
        ("independent", NOT_REACHED),
    ]
    reported = capsys.readouterr().out
    assert "\nNot all checks were reached (interrupted): ps_cpu\n" in reported
    assert "\nNot reached (interrupted): independent\n" in reported
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) == signal.default_int_handler


def test_a_second_ctrl_c_ends_it_at_once(monkeypatch):
    """A bug: a process that the driver does not let go kept it for ever."""
    monkeypatch.setattr(selfcheck, "AGAIN_S", -1.0)

    def interrupted(part, variables, over):
        os.kill(os.getpid(), signal.SIGINT)
        assert over.wait(60)
        return []

    monkeypatch.setattr(selfcheck, "_check_in_own_process", interrupted)
    with pytest.raises(KeyboardInterrupt):
        selfcheck.main(["--devices", "cpu_device", "--modes", "ps_cpu"])
    assert signal.getsignal(signal.SIGINT) == signal.default_int_handler


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_the_report_is_printed_loses_no_line_of_it(number, monkeypatch):
    """A bug: the report ended there; and what had not been flushed was lost to a later signal."""
    passed = Check(**PLAIN, outcome="passed")
    whole = list(selfcheck.report([passed], Bench(kind="cpu_device", num_replicas=2)))

    def report(*_):
        for line in whole:
            os.kill(os.getpid(), number)
            yield line

    monkeypatch.setattr(selfcheck, "_check_in_own_process", lambda *_: [passed])
    monkeypatch.setattr(selfcheck, "report", report)
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written))
    assert selfcheck.main(["--devices", "cpu_device", "--modes", "ps_cpu"]) == 0
    printed = written.getvalue().decode()
    assert printed.startswith("\n".join(whole))
    assert "checks passed, 0 failed" in printed


def test_a_process_is_ended_when_the_check_is_over():
    over = Event()
    over.set()
    assert selfcheck._check_in_own_process(plain_part(), {}, over) == []


def test_modes_at_once_are_printed_as_they_end_and_told_in_their_order(monkeypatch, capsys):
    both, second_ended = Barrier(2, timeout=60), Event()

    def check(mode, bench, over):
        both.wait()
        if mode.variable_update == "mirrored":
            assert second_ended.wait(60)
        return [Check(mode=mode.name, options="-", outcome="passed", difference=1e-8)]

    def printed(checks):
        second_ended.set()
        return counted(checks)

    counted = selfcheck._counted
    monkeypatch.setattr(selfcheck, "_check", check)
    monkeypatch.setattr(selfcheck, "_counted", printed)
    modes = ["--modes", "mirrored_ring", "ps_cpu"]
    assert selfcheck.main(["--devices", "cpu_device", "--jobs", "2", *modes]) == 0
    said = capsys.readouterr()
    assert re.findall(r"^\[\d/2\] (\w+)", said.err, re.MULTILINE) == ["ps_cpu", "mirrored_ring"]
    assert re.findall(r"^(\w+) +-  ", said.out, re.MULTILINE) == ["mirrored_ring", "ps_cpu"]
    assert "not a measurement, and less so beside 1 other mode" in said.out


def test_modes_with_nccl_have_several_gpus_for_themselves(monkeypatch):
    """Processes take turns on a GPU, and a kernel of NCCL waits for those on the other GPUs."""
    others_at_once, running, beside = Barrier(2, timeout=60), set(), {}

    def check(mode, bench, over):
        running.add(mode.all_reduce)
        beside[mode.all_reduce] = running - {mode.all_reduce}
        if mode.all_reduce in ("ring", "none"):
            others_at_once.wait()
        running.remove(mode.all_reduce)
        return [Check(mode=mode.name, options="-", outcome="passed")]

    monkeypatch.setattr(selfcheck, "_check", check)
    modes = [
        replace(REPLICATED, all_reduce=name) for name in ("ring", "nccl", "none", "collective")
    ]
    checks, interrupted = selfcheck._checked(modes, Bench(kind="gpu", num_replicas=2), 4, [])
    assert ([check.mode for check in checks], interrupted) == ([mode.name for mode in modes], False)
    assert (beside["nccl"], beside["collective"]) == (set(), set())


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
    timed = Check(mode="ring", options="precision=fp32", outcome="passed", throughput=123.456)
    refused = Check(**PLAIN, outcome="unsupported", problem="wanted GPUs")
    wrong = replace(passed, outcome="failed", problem="differs by 2.0e-03", difference=2e-3)
    late = replace(passed, outcome=NOT_REACHED, problem="the mode's 480 s were over")
    checks = [passed, timed, refused, wrong, late]
    assert "\n".join(selfcheck.report(checks, Bench(kind="gpu", num_replicas=2))) == snapshot


def test_what_a_mode_has_no_time_for_is_not_reached_and_no_failure(make_devices):
    """A bug: a mode that took longer than its time counted as hung, and so as failed."""
    from trainer.check import mode_check

    times_s = iter([0.0, 0.0])  # it begins, and so does its first check
    checker = mode_check.ModeCheck(
        plain_part(),
        make_devices(2),
        clock=lambda: next(times_s, selfcheck.MODE_BUDGET_S + 1),
    )
    first, *others = checker.all()
    assert first.outcome == "passed"
    assert {check.outcome for check in others} == {NOT_REACHED}
    # XLA takes longest: it compiles the same tower in every combination
    assert sum("xla=on" in check.options for check in others) == 1


def test_the_check_fails_when_a_mode_is_wrong(make_devices, monkeypatch):
    """Gradients averaged where they are summed already: the classic slip."""
    from trainer.all_reduces import pscpu
    from trainer.check import mode_check

    def halved(self, copies, index):
        return [total / 2 for total in right(self, copies, index)]

    right = pscpu.SumOnOneDevice.sum
    checker = mode_check.ModeCheck(plain_part(), make_devices(2))
    one = next(checker.all())
    assert one.outcome == "passed"
    monkeypatch.setattr(pscpu.SumOnOneDevice, "sum", halved)
    assert next(checker.all()).outcome == "failed"
