"""GPUs are watched from another process; what was seen in the measured window is summed up, and nothing is made up."""

import io
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import psutil
import pynvml
import pytest

from scalemark.host.processes import ORCHESTRATOR_VARIABLE
from scalemark.records.measurement import AttemptResult, GpuTelemetry, Outcome
from tests.conftest import PROJECT
from tests.sweeper.fake_nvml import FakeDriver, FakeGpu
from trainer.watching import telemetry
from trainer.watching.telemetry import NvmlReading

BUSY = NvmlReading(
    uuid="GPU-a",
    sm_clock_mhz=1400,
    max_sm_clock_mhz=1980,
    power_w=650.0,
    power_limit_w=700.0,
    temperature_c=60,
    utilization=1.0,
    memory_used_bytes=10_000,
    throttle_reasons=["sw_power_cap"],
    num_others=0,
)
SILENT = NvmlReading(
    uuid="GPU-b",
    sm_clock_mhz=None,
    max_sm_clock_mhz=None,
    power_w=None,
    power_limit_w=None,
    temperature_c=None,
    utilization=None,
    memory_used_bytes=None,
    throttle_reasons=None,
    num_others=None,
)

NO_PROCESS = 4194305  # more than Linux gives


class Clock:
    """Advances only when told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, duration_s: float) -> None:
        self.now += duration_s


@pytest.fixture(autouse=True)
def _this_code_in_child_processes(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))


def write(path, *samples: tuple[float, list[NvmlReading]]):
    path.write_text(
        "".join(
            telemetry.GpuSample(time_s=time_s, gpus=gpus).to_json() + "\n"
            for time_s, gpus in samples
        )
    )
    return path


def test_only_samples_of_the_measured_window_count(tmp_path):
    hot = replace(BUSY, temperature_c=99, sm_clock_mhz=300, memory_used_bytes=99_999)
    path = write(tmp_path / "t", (9.9, [hot]), (10.0, [BUSY]), (11.0, [BUSY]), (11.1, [hot]))
    (seen,) = telemetry.summarize(path, 10.0, 11.0)
    assert (seen.num_samples, seen.temperature_c, seen.sm_clock_mhz, seen.memory_used_bytes) == (
        2,
        60,
        1400,
        10_000,
    )


def test_a_summary_keeps_what_would_explain_a_slow_trial(tmp_path):
    first = replace(BUSY, sm_clock_mhz=1000, power_w=600.0, temperature_c=70, utilization=0.5)
    last = replace(
        BUSY,
        throttle_reasons=["gpu_idle", "hw_slowdown"],
        memory_used_bytes=20_000,
        power_limit_w=650.0,
    )
    path = write(tmp_path / "t", (1.0, [first]), (2.0, [BUSY]), (3.0, [last]))
    assert telemetry.summarize(path, 0.0, 9.0) == (
        GpuTelemetry(
            uuid="GPU-a",
            num_samples=3,
            sm_clock_mhz=1400,
            max_sm_clock_mhz=1980,
            power_w=pytest.approx((600 + 650 + 650) / 3),
            power_limit_w=650.0,
            temperature_c=70,
            utilization=pytest.approx(2.5 / 3),
            memory_used_bytes=20_000,
            throttle_reasons=("hw_slowdown", "sw_power_cap"),
            num_foreign_processes=0,
        ),
    )


@pytest.mark.parametrize(
    ("joules", "power_w"),
    [((5000.0, None, 5900.0), 300.0), ((None, 5500.0, None), 650.0), ((9000.0, 1.0, 2.0), 650.0)],
    ids=["counted", "not counted", "driver loaded again"],
)
def test_power_is_that_of_the_counted_energy_where_there_is_one(tmp_path, joules, power_w):
    """A bug: samples of power look back by a second, over the end of the warm-up."""
    readings = [replace(BUSY, energy_j=value) for value in joules]
    path = write(tmp_path / "t", *zip((1.0, 2.0, 4.0), [[one] for one in readings], strict=True))
    (seen,) = telemetry.summarize(path, 0.0, 9.0)
    assert seen.power_w == power_w


def test_energy_of_less_than_a_second_is_no_power(tmp_path):
    readings = [replace(BUSY, energy_j=value) for value in (1.0, 2.0)]
    path = write(tmp_path / "t", (1.0, readings[:1]), (1.5, readings[1:]))
    assert telemetry.summarize(path, 0.0, 9.0)[0].power_w == 650.0


def test_errors_count_from_the_start_of_the_trial_on(tmp_path):
    before, after = (
        replace(BUSY, num_corrected_errors=corrected, num_uncorrected_errors=uncorrected)
        for corrected, uncorrected in ((7, 1), (9, 2))
    )
    path = write(tmp_path / "t", (1.0, [before, SILENT]), (5.0, [after, SILENT]))
    with (tmp_path / "gpu_errors.jsonl").open("w") as file:
        for uuid, xid in (("GPU-a", 94), ("GPU-a", 63), ("GPU-b", 79), ("", 119)):
            file.write(json.dumps({"time_s": 2.0, "uuid": uuid, "xid": xid}) + "\n")
    busy, silent = telemetry.summarize(path, 5.0, 9.0)
    assert busy.xids == (63, 94, 119)
    assert (busy.num_corrected_errors, busy.num_uncorrected_errors) == (2, 1)
    assert silent.xids == (79, 119)
    assert (silent.num_corrected_errors, silent.num_uncorrected_errors) == (None, None)


def test_memory_errors_are_read_by_their_kind(monkeypatch):
    gpu = FakeGpu("GPU-a", ecc_errors=(5, 1))
    FakeDriver([gpu]).install(monkeypatch)
    assert (telemetry._num_errors(gpu, 0), telemetry._num_errors(gpu, 1)) == (5, 1)


def test_every_gpu_has_its_own_summary_and_unknowns_stay_none(tmp_path):
    path = write(tmp_path / "t", (1.0, [BUSY, SILENT]), (2.0, [BUSY, SILENT]))
    busy, silent = telemetry.summarize(path, 0.0, 9.0)
    assert (busy.uuid, busy.num_samples) == ("GPU-a", 2)
    assert silent == GpuTelemetry(
        uuid="GPU-b",
        num_samples=2,
        sm_clock_mhz=None,
        max_sm_clock_mhz=None,
        power_w=None,
        power_limit_w=None,
        temperature_c=None,
        utilization=None,
        memory_used_bytes=None,
        throttle_reasons=(),
        num_foreign_processes=None,
    )


@pytest.mark.parametrize(
    ("others", "most"), [([None, None], None), ([0, 0], 0), ([0, 2], 2), ([1, None], 1)]
)
def test_the_most_other_processes_at_once_are_kept(tmp_path, others, most):
    readings = [replace(BUSY, num_others=num) for num in others]
    path = write(tmp_path / "t", *enumerate([[reading] for reading in readings]))
    assert telemetry.summarize(path, 0.0, 9.0)[0].num_foreign_processes == most


@pytest.fixture
def processes():
    """An idle process of a trial, one of its children, and one that is nobody's."""
    waits = "import subprocess, sys; c = subprocess.Popen(['sleep', '60'], env={}); print(c.pid); c.wait()"
    ours = subprocess.Popen(
        [sys.executable, "-c", waits],
        env=os.environ | {ORCHESTRATOR_VARIABLE: "1"},
        stdout=subprocess.PIPE,
    )
    other = subprocess.Popen(["sleep", "60"])
    child = int(ours.stdout.readline())
    yield ours.pid, child, other.pid
    os.kill(child, signal.SIGKILL)
    for process in (ours, other):
        process.kill()
        process.communicate()


def test_all_that_a_trial_started_is_its_own(processes):
    ours, child, other = processes
    assert telemetry.num_others([]) is None
    assert telemetry.num_others([ours, child]) == 0
    assert telemetry.num_others([ours, child, other, other]) == 1
    assert telemetry.num_others([other]) == 1
    assert telemetry.num_others([other, NO_PROCESS]) == 2


@pytest.mark.parametrize(("num", "others"), [(1, 0), (3, 2)])
def test_where_numbers_mean_nothing_one_process_is_ours(num, others):
    assert telemetry.num_others(range(NO_PROCESS, NO_PROCESS + num)) == others


def test_memory_is_that_of_the_trials_own_processes(processes):
    ours, child, other = processes

    def held(*processes):
        listed = [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in processes]
        return telemetry.own_bytes(listed)

    assert held((ours, 3), (child, 4), (other, 100)) == 7
    assert held((NO_PROCESS, 5)) == 5, "one alone in a container that counts otherwise"
    assert held((NO_PROCESS, 5), (NO_PROCESS + 1, 6)) is None
    assert held((ours, None)) is None
    assert (held(), telemetry.own_bytes(None)) == (0, None)


def test_the_peak_is_that_of_the_fullest_gpu_at_any_time(tmp_path):
    path = tmp_path / "telemetry.jsonl"
    assert telemetry.peak_own_bytes(path) is None

    def write(*samples):
        gpus = [
            [replace(BUSY, own_bytes=first), replace(SILENT, own_bytes=second)]
            for first, second in samples
        ]
        lines = [telemetry.GpuSample(time_s=1.0, gpus=both).to_json() for both in gpus]
        path.write_text("".join(line + "\n" for line in lines))

    write((0, 0), (5, 9), (7, 2))
    assert telemetry.peak_own_bytes(path) == 9
    write((0, 0), (5, None))
    assert telemetry.peak_own_bytes(path) is None, "no number of one GPU is that of all"


def test_without_samples_there_is_no_telemetry(tmp_path):
    assert telemetry.summarize(tmp_path / "none", 0.0, 9.0) == ()
    assert telemetry.summarize(write(tmp_path / "t", (10.0, [BUSY])), 0.0, 9.0) == ()


def test_a_line_cut_off_by_the_end_of_the_sampler_is_left_out(tmp_path):
    path = write(tmp_path / "t", (1.0, [BUSY]), (2.0, [BUSY]))
    path.write_text(path.read_text()[:-20])
    assert telemetry.summarize(path, 0.0, 9.0)[0].num_samples == 1


def test_a_sample_travels_as_json():
    sample = telemetry.GpuSample(time_s=1.25, gpus=[BUSY, SILENT])
    assert telemetry.GpuSample.from_json(sample.to_json()) == sample


def test_telemetry_travels_in_a_result(tmp_path):
    seen = telemetry.summarize(write(tmp_path / "t", (1.0, [BUSY, SILENT])), 0.0, 9.0)
    result = AttemptResult(
        outcome=Outcome.COMPLETED, message="", measurement=None, op_placement={}, gpu_telemetry=seen
    )
    assert AttemptResult.from_json(result.to_json()) == result


@pytest.mark.parametrize(
    ("read_s", "wanted_s"), [(0.01, [100.0, 100.5, 101.0]), (0.8, [100.0, 100.8, 101.6])]
)
def test_samples_are_half_a_second_apart_and_never_closer(read_s, wanted_s):
    clock, out = Clock(), io.StringIO()

    def read() -> list[NvmlReading]:
        clock.now += read_s
        return [BUSY]

    telemetry.take_samples(read, out, num_samples=3, clock=clock, sleep=clock.sleep)
    samples = [telemetry.GpuSample.from_json(line) for line in out.getvalue().splitlines()]
    assert [sample.time_s for sample in samples] == pytest.approx(wanted_s)
    assert samples[0].gpus == [BUSY]


@pytest.mark.parametrize(
    ("bits", "names"),
    [
        (0, []),
        (1, ["gpu_idle"]),
        (0x4 | 0x40, ["sw_power_cap", "hw_thermal_slowdown"]),
        (0x80 | 0x1000, ["hw_power_brake_slowdown", "0x1000"]),
    ],
)
def test_throttle_reasons_have_names_and_new_ones_a_number(bits, names):
    assert telemetry.reason_names(bits) == names


def test_an_old_driver_tells_who_computes(monkeypatch):
    """A bug: pynvml's error of a driver before 510, which is no NVMLError, ended the sampler."""
    gpu = FakeGpu("GPU-a", computing={NO_PROCESS: 9, NO_PROCESS + 1: 9}, drawing={NO_PROCESS: 9})
    FakeDriver([gpu], is_old=True).install(monkeypatch)
    (found,) = telemetry.NvmlGpus(["GPU-a"]).read()
    assert (found.num_others, found.memory_used_bytes) == (0, 27 * 2**20)


def test_memory_that_the_driver_reserves_is_nobodys(monkeypatch):
    """An idle H200 in a virtual machine, as driver 580.159 tells of it: 615 MiB are reserved."""
    gpu = FakeGpu("GPU-a", name="NVIDIA H200", memory_bytes=150_754_820_096)
    FakeDriver([gpu], reserved_mib=615).install(monkeypatch)
    (found,) = telemetry.NvmlGpus(["GPU-a"]).read()
    assert found.memory_used_bytes == 0


def test_every_reason_that_pynvml_knows_has_a_name():
    known = {
        getattr(pynvml, name) for name in dir(pynvml) if name.startswith("nvmlClocksThrottleReason")
    }
    bits = {value for value in known if value.bit_count() == 1}
    assert len(bits) >= 9
    assert not [bit for bit in bits if telemetry.reason_names(bit)[0].startswith("0x")]


def test_a_reading_that_the_gpu_does_not_support_is_none(monkeypatch):
    def unsupported(*_: object, **__: object) -> None:
        raise pynvml.NVMLError_NotSupported

    for name in dir(pynvml):
        if name.startswith("nvmlDeviceGet"):
            monkeypatch.setattr(pynvml, name, unsupported)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetPowerUsage", lambda _: 123_400)
    assert telemetry._read("GPU-b", object()) == replace(SILENT, power_w=123.4)


def test_energy_is_read_in_joules(monkeypatch):
    FakeDriver([gpu := FakeGpu("GPU-a")]).install(monkeypatch)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetTotalEnergyConsumption", lambda _: 123_400)  # mJ
    assert telemetry._read("GPU-a", gpu).energy_j == 123.4


def test_a_driver_with_the_old_name_of_throttle_reasons_is_asked_by_it(monkeypatch):
    def missing(*_: object) -> None:
        raise pynvml.NVMLError_FunctionNotFound

    monkeypatch.setattr(pynvml, "nvmlDeviceGetCurrentClocksEventReasons", missing)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCurrentClocksThrottleReasons", lambda _: 4)
    assert telemetry._reasons(object()) == 4


def test_without_gpus_no_process_is_started(tmp_path, monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", None)
    with telemetry.watching([], tmp_path / "t"):
        pass
    assert telemetry.summarize(tmp_path / "t", 0.0, 1e9) == ()


def test_a_trial_goes_on_when_its_gpus_cannot_be_watched(tmp_path, capfd):
    """The real sampler: it finds no NVML, or no GPU of that name."""
    path = tmp_path / "telemetry.jsonl"
    before = {child.pid for child in psutil.Process().children()}
    with telemetry.watching(["GPU-00000000-0000-0000-0000-000000000000"], path):
        (sampler,) = {child.pid for child in psutil.Process().children()} - before
        os.waitid(os.P_PID, sampler, os.WEXITED | os.WNOWAIT)
        went_on = True
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("no GPU telemetry: NVML: ")
    assert went_on
    assert telemetry.summarize(path, 0.0, 1e9) == ()


def test_the_sampler_ends_with_the_block_it_watches(tmp_path, monkeypatch):
    endless = tmp_path / "endless"
    endless.write_text("#!/bin/sh\nexec sleep 100\n")
    endless.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(endless))
    children = set(psutil.Process().children())  # of other tests: a process pool
    with telemetry.watching(["GPU-a"], tmp_path / "t"):
        assert len(set(psutil.Process().children()) - children) == 1
    assert set(psutil.Process().children()) <= children


@pytest.mark.parametrize(
    ("arguments", "core"), [([], max(os.sched_getaffinity(0))), (["--core", "7"], 7)]
)
def test_the_sampler_runs_on_the_spare_core_or_else_on_the_last(
    tmp_path, monkeypatch, arguments, core
):
    """There is no such GPU, so it ends where it would take the first sample."""
    reported = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, cores: reported.append(cores))
    monkeypatch.setattr(os, "nice", reported.append)
    assert (
        telemetry.main(
            [
                "--uuids",
                "GPU-00000000-0000-0000-0000-000000000000",
                "--out",
                str(tmp_path / "t"),
                *arguments,
            ]
        )
        == 1
    )
    assert reported == [{core}, 19]


def test_the_sampler_is_started_on_the_spare_core(tmp_path, monkeypatch):
    script = tmp_path / "python"
    script.write_text(
        f'#!/bin/sh\necho "$@" > {tmp_path}/arguments.draft; mv {tmp_path}/arguments.draft {tmp_path}/arguments\nexec sleep 100\n'
    )
    script.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(script))
    with telemetry.watching(["GPU-a"], tmp_path / "t", 5):
        while not (tmp_path / "arguments").exists():
            os.sched_yield()
    assert " --core 5 " in (tmp_path / "arguments").read_text()


def test_a_python_that_cannot_be_started_is_reported_too(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with telemetry.watching(["GPU-a"], tmp_path / "t"):
        pass
    assert capfd.readouterr().err.startswith("no GPU telemetry: [Errno 2]")


def test_the_sampler_imports_no_tensorflow():
    script = "import sys, trainer.watching.telemetry; print({'tensorflow', 'keras', 'numpy'} & set(sys.modules))"
    assert (
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        ).stdout
        == "set()\n"
    )


def test_a_process_dies_with_the_parent_it_is_tied_to():
    child = "import os, time; from scalemark.host.processes import die_with; die_with(os.getppid()); print('tied', flush=True); time.sleep(600); print('survived')"
    script = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
    ) as started:
        assert started.stdout.readline() == "tied\n"
        started.kill()
        assert started.stdout.read() == ""
