"""`scalemark probe`: refuses what cannot be, waits for the host, and keeps what is whole."""

import json
import os
import subprocess
import sys
from functools import partial
from itertools import count

import pytest
import typer

from scalemark.host import gpu_libraries
from scalemark.host.files import read_probe
from scalemark.host.gpu_libraries import Libraries
from scalemark.records.machine import Machine
from store.errors import StoreError
from sweeper import probe as command
from sweeper.devices.host_lock import Held
from sweeper.probe import COMPILING_S, STALL_S, measure
from tests.conftest import PROJECT
from tests.sweeper.probing.probes import box, figures

BOX = box(2, "NVIDIA GeForce RTX 4090")
FIGURE = '{"what": "to_host", "value": 9e11, "source": 0}'
NO_GPUS = Machine(host="box", cpu="x", num_cores=8, memory_bytes=2**30, gpus=(), driver="")


@pytest.fixture
def on(monkeypatch, tmp_path):
    """on(BOX): this machine is that one, and what is measured of it is known."""
    monkeypatch.setenv("SCALEMARK_CACHE", str(tmp_path / "cache"))

    def be(machine, script=""):
        monkeypatch.setattr(command, "describe_machine", lambda hardware: machine)
        lines = [one.to_json().replace("\n", "") for one in figures(2, pair=11e9, bus=9e9)]
        script = script or f"print({chr(10).join(lines)!r})"
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
    tells_cache = "import json, os; print(json.dumps({'doubt': os.environ['CUDA_CACHE_PATH']}))"
    on(box(1, "NVIDIA B200", capability="10.0"), f"{tells_cache}; print({FIGURE!r})")
    driver((13, 0))
    command.probe(as_json=True)
    assert json.loads(capsys.readouterr().out)["doubts"] == [
        f"{os.environ['SCALEMARK_CACHE']}/cuda"
    ]


@pytest.mark.parametrize(
    ("machine", "wanted_s"),
    [
        (box(1, "NVIDIA B200", capability="10.0"), COMPILING_S),
        (box(1, "NVIDIA A100", capability="8.0"), STALL_S),
        (NO_GPUS, STALL_S),
    ],
)
def test_a_figure_may_take_as_long_as_compiling(on, driver, monkeypatch, machine, wanted_s):
    """A bug: CPU devices that hang were waited for half an hour."""
    on(machine, f"print({FIGURE!r})")
    driver((13, 0))
    waits, measuring = [], command.measure

    def waiting(*arguments, stall_s):
        waits.append(stall_s)
        measuring(*arguments)

    monkeypatch.setattr(command, "measure", waiting)
    command.probe()
    assert waits == [wanted_s]


def test_a_probe_is_kept_as_it_is_reported(on, capsys):
    on(BOX)
    command.probe(as_json=True)
    reported = json.loads(capsys.readouterr().out)
    assert (reported["machine"], reported["device_kind"]) == (BOX.key, "gpu")
    kept = read_probe(BOX.key, "gpu")
    assert kept
    assert json.loads(kept.to_json()) == reported


def test_a_probe_is_kept_though_nobody_reads_it(on, monkeypatch):
    """A bug: `scalemark probe | head -1` measured, and threw away."""
    on(BOX)

    def closed(*_, **__):
        raise BrokenPipeError

    monkeypatch.setattr(command, "_print", closed)
    with pytest.raises(BrokenPipeError):
        command.probe()
    assert read_probe(BOX.key, "gpu")


def test_what_is_incomplete_is_shown_and_not_kept(on, capsys):
    on(BOX, script=f"print('{FIGURE}', flush=True); raise SystemExit('no room')")
    with pytest.raises(typer.Exit) as ended:
        command.probe()
    assert ended.value.exit_code == 1
    said = capsys.readouterr()
    assert "900" in said.out
    assert "incomplete, and not kept: its process ended with 1: no room" in said.err
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


@pytest.mark.integration
def test_a_real_probe_of_cpu_devices_measures_all_of_them():
    ran = subprocess.run(
        [sys.executable, "-m", "scalemark", "probe", "--json"],
        env=os.environ | {"PYTHONPATH": str(PROJECT), "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(ran.stdout)
    figures = [(each["what"], each["source"], each["target"]) for each in found["figures"]]
    peaks = [figure for figure in figures if figure[0] == "peak"]
    assert set(peaks) == {("peak", 0, None)}
    assert figures[len(peaks) :] == [
        ("to_device", None, 0),
        ("to_host", 0, None),
        ("pair", 0, 1),
        ("pair", 1, 0),
        *[("all_reduce", None, None)] * 4,
    ]
    assert all(each["value"] for each in found["figures"])
