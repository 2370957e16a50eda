"""Finds the GPUs at hand, and what the kit may ask of them."""

from pathlib import Path

import pytest

from benchmarks.gpu.__main__ import main
from scalemark.host import gpu_libraries
from scalemark.host.gpu_libraries import Libraries
from tests.benchmarks.gpu.boxes import H100, V100, box


@pytest.mark.parametrize(
    ("gpu", "precision", "batch_size"), [(H100, "bf16", 256), (V100, "fp16", 32)]
)
def test_precision_and_batch_are_those_that_a_gpu_has_room_for(gpu, precision, batch_size):
    assert (box(gpu).half, box(gpu).batch_size) == (precision, batch_size)


def test_a_box_without_gpus_says_that_its_numbers_are_of_cpu_devices():
    assert box().hardware == "cpu"
    assert box().devices == "CPU devices: parts of one machine's cores; nothing here speaks of GPUs"
    assert box().mask() == {"CUDA_VISIBLE_DEVICES": ""}


def test_a_driver_without_kernels_for_a_gpu_is_refused(capsys, monkeypatch):
    monkeypatch.setattr("benchmarks.gpu.box.describe_machine", lambda _: box(H100).machine)
    monkeypatch.setattr(gpu_libraries, "installed", lambda: Libraries(cuda=(12, 4)))
    with pytest.raises(SystemExit):
        main(["--device", "gpu"])
    assert "the driver knows CUDA 12.4, and TensorFlow's kernels" in capsys.readouterr().err


def test_a_machine_without_gpus_is_refused_and_nothing_is_written(capsys, monkeypatch):
    monkeypatch.setattr("benchmarks.gpu.box.describe_machine", lambda _: box().machine)
    with pytest.raises(SystemExit) as ended:
        main(["--device", "gpu"])
    assert ended.value.code == 2
    assert "--device gpu: hardware=gpu: no usable GPU" in capsys.readouterr().err
    assert list(Path().iterdir()) == []


def test_a_stage_that_there_is_not_is_answered_with_those_there_are(capsys):
    with pytest.raises(SystemExit):
        main(["--device", "cpu", "--stages", "smok"])
    assert "choose from smoke,plain,peers,faults,selfcheck,xla" in capsys.readouterr().err


def test_a_folder_of_other_files_is_refused(capsys):
    Path("taken").mkdir()
    Path("taken", "thesis.tex").write_text("")
    with pytest.raises(SystemExit):
        main(["--device", "cpu", "--stages", "xla", "--out", "taken"])
    assert "found other files, wanted a new folder or one of the kit's" in capsys.readouterr().err
