"""Xid errors are written as they come, each once, for the GPUs that a trial has."""

import io
import time

import pynvml

from scalemark.records.machine import XidError
from tests.sweeper.fake_nvml import WHOLE_GPU, FakeDriver, FakeGpu
from trainer.watching.telemetry import XidEvents


class Clock:
    """Advances by a second whenever it is read."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def heard(driver, monkeypatch, *devices, sleep=time.sleep):
    """Return what is written of all that has happened, as UUIDs and numbers."""
    driver.install(monkeypatch)
    out = io.StringIO()
    events = XidEvents({device.uuid: device for device in devices}, out, Clock(), sleep)
    events.sleep(20.0)
    errors = map(XidError.from_json, out.getvalue().splitlines())
    return [(error.uuid, error.xid) for error in errors]


def test_each_kind_of_error_is_written_once_per_gpu(monkeypatch, capfd):
    one, other = FakeGpu("GPU-a"), FakeGpu("GPU-b")
    happened = [(one, 63, WHOLE_GPU), (one, 79, WHOLE_GPU), (one, 79, WHOLE_GPU)]
    driver = FakeDriver([one, other], xids=[*happened, (other, 79, WHOLE_GPU)])
    found = heard(driver, monkeypatch, one, other)
    assert found == [("GPU-a", 63), ("GPU-a", 79), ("GPU-b", 79)]
    assert driver.registered == ["GPU-a", "GPU-b"]
    assert "GPU-a reported Xid 79 (see docs.nvidia.com/deploy/xid-errors)" in capfd.readouterr().err


def test_an_error_of_a_gpu_that_is_cut_in_pieces_is_written_without_its_name(monkeypatch):
    one, two = FakeGpu("MIG-1", gpu_instance=1), FakeGpu("MIG-2", gpu_instance=2)
    gpu = FakeGpu("GPU-a", mig_devices=[one, two])
    driver = FakeDriver([gpu], xids=[(gpu, 94, 1), (gpu, 79, WHOLE_GPU)])
    assert heard(driver, monkeypatch, one, two) == [("", 94), ("", 79)]
    assert driver.registered == ["GPU-a"]


def test_an_error_of_a_gpu_that_is_lost_is_written_without_its_name(monkeypatch):
    gpu = FakeGpu("GPU-a")
    driver = FakeDriver([gpu], xids=[(gpu, 79, WHOLE_GPU)])
    driver.install(monkeypatch)
    out = io.StringIO()
    events = XidEvents({"GPU-a": gpu}, out, Clock())
    gpu.is_lost = True
    events.sleep(5.0)
    error = XidError.from_json(out.getvalue())
    assert str(error) == "a GPU reported Xid 79 (see docs.nvidia.com/deploy/xid-errors)"


def test_a_driver_without_events_leaves_the_sleep(monkeypatch, capfd):
    slept = []
    driver = FakeDriver([FakeGpu("GPU-a")], has_events=False)
    assert heard(driver, monkeypatch, *driver.gpus, sleep=slept.append) == []
    assert slept
    assert capfd.readouterr().err == "Xid errors of GPUs are not watched: NVML: Not Supported\n"


def test_where_waiting_fails_the_rest_is_slept(monkeypatch, capfd):
    def lost(*_: object) -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)

    monkeypatch.setattr(FakeDriver, "nvmlEventSetWait", lost)
    slept: list[float] = []
    gpu = FakeGpu("GPU-a")
    assert heard(FakeDriver([gpu]), monkeypatch, gpu, sleep=slept.append) == []
    assert slept
    assert capfd.readouterr().err == "Xid errors of GPUs are not watched: NVML: GPU is lost\n"
