"""The newest probe of a machine is kept, whole or not at all."""

from dataclasses import replace

import pytest

from scalemark.host.files import prepare_probes, read_probe, write_probe
from scalemark.records.machine import Probe, ProbedPeak

PROBE = Probe(
    machine="0123456789abcdef",
    host="box",
    device_kind="cpu_device",
    devices=("CPU device",),
    measured_at="2026-11-25T12:00:00.000000+00:00",
    peaks=(ProbedPeak(precision="fp32", device=0, value=2e10),),
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SCALEMARK_CACHE", str(tmp_path))
    return prepare_probes()


def test_the_newest_is_kept_for_each_kind_of_device(folder):
    gpus = replace(PROBE, device_kind="gpu")
    for one in (PROBE, gpus, newer := replace(PROBE, host="renamed")):
        write_probe(one)
    assert read_probe(PROBE.machine, "cpu_device") == newer
    assert read_probe(PROBE.machine, "gpu") == gpus
    assert read_probe("another", "gpu") is None
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize("text", ["", "{", "[]", '{"machine": 1}', PROBE.to_json()[:-9]])
def test_a_damaged_one_is_none_and_named(folder, text, capsys):
    write_probe(PROBE).write_text(text)
    assert read_probe(PROBE.machine, "cpu_device") is None
    said = capsys.readouterr().err
    assert said.startswith("the kept probe cannot be used: ")
    assert said.endswith("; run scalemark probe again\n")


def test_that_of_another_machine_is_not_believed(folder):
    file = write_probe(PROBE)
    file.write_text(replace(PROBE, machine="another").to_json())
    assert read_probe(PROBE.machine, "cpu_device") is None


@pytest.mark.parametrize("value", [0.0, -1.0, float("inf"), float("nan"), None])
def test_a_peak_without_a_value_has_a_problem(value):
    with pytest.raises(ValueError, match="wanted"):
        ProbedPeak(precision="fp32", device=0, value=value)
