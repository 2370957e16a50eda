"""`scalemark probe`: refuses what cannot be, waits for the host, and keeps and prints what is whole."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from itertools import count

import pytest

from scalemark.host import gpu_libraries
from scalemark.host.files import read_probe
from scalemark.host.gpu_libraries import Libraries
from scalemark.records.machine import Machine, Probe, ProbedPeak, ProbeRequest
from store.errors import StoreError
from sweeper import SweepRefusedError
from sweeper import probe as command
from sweeper.devices.host_lock import Held
from sweeper.probe import measure, print_probe
from tests.conftest import PROJECT
from tests.specs import gpu

GIB = 2**30
NAME = "NVIDIA GeForce RTX 4090"
REQUEST = ProbeRequest(device_kind="cpu_device", num_devices=1, precisions=("fp32",))


def box(num_gpus, name=NAME, capability="8.9"):
    facts = {"name": name, "memory_bytes": 24 * GIB, "compute_capability": capability}
    gpus = tuple(gpu(f"GPU-{number}", **facts) for number in range(num_gpus))
    return Machine(host="box", cpu="a CPU", num_cores=64, memory_bytes=GIB, gpus=gpus, driver="570")


def peaks(num_gpus):
    """The last GPU is slower than others."""
    found = []
    for number in range(num_gpus):
        peak = 150e12 if number < num_gpus - 1 else 140e12
        found.append(ProbedPeak(value=peak, precision="bf16", device=number))
        found.append(ProbedPeak(value=peak / 2, precision="fp32", device=number))
    return tuple(found)


BOX = box(2)
PEAKS = [json.loads(each.to_json()) for each in peaks(2)]
MEASURES = f"""
import json, sys
(precision,) = json.loads(sys.argv[1])["precisions"]
print("oneDNN is on")
found = [peak for peak in {PEAKS!r} if peak["precision"] == precision]
print(json.dumps({{"peaks": found, "doubts": []}}))
"""


@pytest.fixture
def on(monkeypatch, tmp_path):
    """on(BOX): this machine is that one, and what is measured of it is known."""
    monkeypatch.setenv("SCALEMARK_CACHE", str(tmp_path / "cache"))

    def be(machine, script=MEASURES):
        monkeypatch.setattr(command, "describe_machine", lambda hardware: machine)
        faked = partial(measure, command=(sys.executable, "-c", script))
        monkeypatch.setattr(command, "measure", faked)

    return be


@pytest.mark.parametrize(("override", "overridden"), [("0", "tf32"), ("1", "bf16")])
def test_a_variable_that_overrides_a_precision_is_refused(on, monkeypatch, override, overridden):
    """A bug: the peak of tf32 was that of fp32."""
    on(BOX)
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", override)
    with pytest.raises(StoreError, match=f"override precision={overridden}; unset it$"):
        command.probe()


def test_a_folder_that_cannot_be_written_to_is_refused(on, monkeypatch):
    on(BOX)
    monkeypatch.setenv("SCALEMARK_CACHE", "/proc/nowhere")
    with pytest.raises(StoreError, match="choose a folder that can be written to with SCALEMARK_C"):
        command.probe()


@pytest.fixture
def driver(monkeypatch):
    """driver((12, 4)): the newest CUDA that it knows."""

    def knows(cuda):
        monkeypatch.setattr(gpu_libraries, "installed", lambda: Libraries(cuda=cuda))

    return knows


def test_a_driver_without_kernels_is_refused_before_a_device_is_taken(on, driver):
    """A bug: CUDA's raw error was all that a probe said of an H100 with driver 550."""
    on(box(2, "NVIDIA H100 80GB HBM3", capability="9.0"))
    driver((12, 4))
    with pytest.raises(StoreError, match=r"H100 .* knows CUDA 12\.4, and .* want 12\.5 or newer"):
        command.probe()


def test_kernels_that_the_driver_compiles_are_kept_for_trials(on, driver, capsys):
    answer = "{'peaks': [], 'doubts': [os.environ['CUDA_CACHE_PATH']]}"
    on(box(1, "NVIDIA B200", capability="10.0"), f"import json, os; print(json.dumps({answer}))")
    driver((13, 0))
    command.probe(as_json=True)
    said = f"bf16: {os.environ['SCALEMARK_CACHE']}/cuda"
    assert said in json.loads(capsys.readouterr().out)["doubts"]


def test_a_probe_is_kept_as_it_is_reported(on, capsys):
    on(BOX)
    command.probe(as_json=True)
    reported = json.loads(capsys.readouterr().out)
    assert (reported["machine"], reported["device_kind"]) == (BOX.key, "gpu")
    kept = read_probe(BOX.key, "gpu")
    assert kept
    assert sorted(map(str, kept.peaks)) == sorted(map(str, peaks(2)))
    assert json.loads(kept.to_json()) == reported


def test_a_probe_is_kept_though_nobody_reads_it(on, monkeypatch):
    """A bug: `scalemark probe | head -1` measured, and threw away."""
    on(BOX)

    def closed(*_, **__):
        raise BrokenPipeError

    monkeypatch.setattr(command, "print_probe", closed)
    with pytest.raises(BrokenPipeError):
        command.probe()
    assert read_probe(BOX.key, "gpu")


def test_a_process_that_fails_is_refused_and_nothing_is_kept(on):
    on(BOX, script="raise SystemExit('no room')")
    with pytest.raises(
        StoreError, match="bf16: nothing was measured: its process ended with 1: no r"
    ):
        command.probe()
    assert read_probe(BOX.key, "gpu") is None


def test_a_probe_waits_until_no_trial_measures(capsys):
    tries = count(1)

    class Busy:
        held_by = "process 4711 (python sweep.py) holds host.lock"
        taken = None
        num_orphans = 0

        def try_hold(self, uuids=(), *, shares_host):
            assert not shares_host
            return Held() if next(tries) > 3 else None

    waited = []
    command._taken(Busy(), waited.append)
    assert len(waited) == 3
    assert capsys.readouterr().err == f"waiting: {Busy.held_by}\n"


def problem_of(script, within_s=60.0):
    with pytest.raises(SweepRefusedError) as refused:
        measure(REQUEST, dict(os.environ), (sys.executable, "-c", script), within_s)
    return str(refused.value)


def test_the_last_line_is_the_cause_and_not_the_first_that_a_library_logs():
    """A bug: of a probe that failed, "WARNING: All log messages before absl::..." was all said."""
    log = "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR"
    problem = problem_of(f"import sys; print({log!r}, file=sys.stderr); sys.exit('no GPU is seen')")
    assert problem.endswith("its process ended with 1: no GPU is seen")


def test_of_a_process_that_a_library_ends_the_error_in_its_log_is_the_cause():
    log = "F0101 cuda_dnn.cc:1] Check failed: no room\n*** Check failure stack trace: ***\n@ 0x7f"
    script = f"import os, sys; print({log!r}, file=sys.stderr, flush=True); os.abort()"
    assert problem_of(script).endswith("ended with -6: F0101 cuda_dnn.cc:1] Check failed: no room")


def test_a_process_that_ends_well_and_says_nothing_has_measured_nothing():
    """A bug: IndexError."""
    assert problem_of("").endswith("its process ended with 0: it said nothing")


def test_each_precision_is_named_and_has_a_time_of_its_own(on, monkeypatch, capsys):
    """A bug: one limit held for all GPUs and precisions together, and nothing told how far it was."""
    on(BOX)
    command.probe()
    said = capsys.readouterr().err.splitlines()[:-1]
    assert said == [f"measuring {name} on 2 GPUs" for name in ("bf16", "fp16", "fp32", "tf32")]


def test_the_real_process_says_in_a_sentence_what_it_lacks():
    asked = replace(REQUEST, device_kind="gpu")
    with pytest.raises(SweepRefusedError, match="1: TensorFlow sees 0 GPUs where the trial wants"):
        measure(asked, os.environ | {"CUDA_VISIBLE_DEVICES": ""})


def test_a_process_that_hangs_is_ended(tmp_path):
    file = tmp_path / "pid"
    script = f"import os, time; open({str(file)!r}, 'w').write(str(os.getpid())); time.sleep(3600)"
    assert problem_of(script, within_s=10.0) == "fp32: nothing was measured within 10 s"
    with pytest.raises(ProcessLookupError):
        os.kill(int(file.read_text()), 0)


@pytest.fixture
def shown(capsys):
    def show(probe):
        print_probe(probe)
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= 80
        return "\n".join(lines)

    return show


def probe_of(machine, found, doubts=()):
    return Probe(
        machine=machine.key,
        host=machine.host,
        device_kind="gpu",
        devices=tuple(gpu.name for gpu in machine.gpus),
        measured_at="2026-11-25T12:00:00.000000+00:00",
        peaks=found,
        doubts=doubts,
    )


def test_each_gpu_has_a_row(shown, snapshot):
    lacks = ProbedPeak(precision="tf32", device=1, value=None, problem="GPU 1: no memory")
    probe = probe_of(BOX, (*peaks(2), lacks), doubts=("GPU 0 is in use by others",))
    assert shown(probe) == snapshot


def test_cpu_devices_are_never_called_gpus(shown):
    probe = replace(probe_of(BOX, peaks(1)), device_kind="cpu_device", devices=("CPU device",))
    assert "GPU" not in shown(probe).replace("not comparable with GPU results", "")


@pytest.mark.integration
def test_a_real_probe_of_cpu_devices_measures_their_cores_once():
    ran = subprocess.run(
        [sys.executable, "-m", "scalemark", "probe", "--json"],
        env=os.environ | {"PYTHONPATH": str(PROJECT), "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(ran.stdout)["peaks"]
    assert {peak["precision"] for peak in found} >= {"fp32", "bf16"}
    assert all(peak["value"] and peak["device"] == 0 for peak in found)
