"""Finds the GPUs at hand, and what the kit may ask of them."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.gpu.__main__ import main
from benchmarks.gpu.kit import StageResult
from benchmarks.gpu.running import result_file
from benchmarks.gpu.stages.selfcheck import checked_devices
from scalemark.host import gpu_libraries
from scalemark.host.gpu_libraries import Libraries
from tests.benchmarks.gpu.boxes import H100, V100, box


@pytest.mark.parametrize(
    ("gpu", "precision", "batch_size"), [(H100, "bf16", 256), (V100, "fp16", 32)]
)
def test_precision_and_batch_are_those_that_a_gpu_has_room_for(gpu, precision, batch_size):
    assert (box(gpu).half, box(gpu).batch_size) == (precision, batch_size)


@pytest.mark.parametrize(
    ("gpus", "num_cores", "num_modes"),
    [((H100,), 64, 8), ((H100,), 12, 6), ((H100,), 1, 1), ((H100, V100), 64, 1), ((), 64, 1)],
)
def test_as_many_modes_are_checked_at_once_as_memory_and_cores_have_room_for(
    gpus, num_cores, num_modes
):
    machine = replace(box(*gpus).machine, num_cores=num_cores)
    assert replace(box(*gpus), machine=machine).num_modes_at_once == num_modes


def test_a_program_is_shown_all_gpus_or_one_mig_device():
    """A bug: a box of MIG devices was proved on one replica, as CUDA shows a process one of them."""
    slices = [replace(H100, uuid=f"MIG-{n}", mig_parent="GPU-aaaa") for n in range(7)]
    two, one, cut, none = box(H100, replace(H100, uuid="GPU-b")), box(H100), box(*slices), box()
    assert two.mask_of_most() == {"CUDA_VISIBLE_DEVICES": "GPU-aaaa,GPU-b"}
    assert cut.mask_of_most() == {"CUDA_VISIBLE_DEVICES": "MIG-0"}
    assert none.mask_of_most() == {"CUDA_VISIBLE_DEVICES": ""}
    assert checked_devices(two) == ("gpu", "2 GPUs")
    assert checked_devices(one) == ("logical_gpu", "1 GPU")
    assert checked_devices(cut) == ("logical_gpu", "1 MIG device")
    assert checked_devices(none) == ("cpu_device", "CPU devices")


def test_a_box_without_gpus_says_that_its_numbers_are_of_cpu_devices():
    assert box().hardware == "cpu"
    assert box().devices == "CPU devices: not comparable with GPU results"
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
    said = capsys.readouterr().err
    assert "error: --device gpu: no usable GPU (" in said
    assert "; choose --device cpu for CPU devices" in said
    assert list(Path().iterdir()) == []


def test_a_stage_that_there_is_not_is_answered_with_those_there_are(capsys):
    with pytest.raises(SystemExit):
        main(["--device", "cpu", "--stages", "smok"])
    assert "choose from smoke,plain,peers,faults,scaling,selfcheck,xla" in capsys.readouterr().err


def test_a_folder_of_other_files_is_refused(capsys):
    Path("taken").mkdir()
    Path("taken", "thesis.tex").write_text("")
    with pytest.raises(SystemExit):
        main(["--device", "cpu", "--stages", "xla", "--out", "taken"])
    assert "found other files, wanted a new folder or one of the kit's" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--minutes", "0"], "argument --minutes: found 0, wanted more than 0"),
        (["--minutes", "nan"], "argument --minutes: found nan, wanted more than 0"),
        (["--out", "/proc/x"], "--out /proc/x: No such file or directory; choose a folder"),
        (["--json", "nowhere/kit.json"], "--json nowhere/kit.json: No such file or directory;"),
    ],
)
def test_what_would_fail_after_minutes_is_refused_at_once(arguments, said, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--device", "cpu", *arguments])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_stages_without_an_end_run_again(capsys, monkeypatch):
    """A bug: those whose time was over were taken for ended."""
    asked = []
    monkeypatch.setattr(
        "benchmarks.gpu.__main__.run_stages", lambda *given: asked.append(given) or ()
    )
    assert main(["--device", "cpu"]) == 3  # nothing ran
    (_, stages, total_s, _), kit = asked[0], asked[0][0]
    for name, ended in [("smoke", "completed"), ("plain", "out of time"), ("xla", "broken")]:
        result_file(kit, name).parent.mkdir(exist_ok=True)
        result = StageResult(
            stage=name, ended=ended, why="", took_s=1.0, numbers=(), judged=(), notes=()
        )
        result_file(kit, name).write_text(result.to_json())
    main(["--device", "cpu"])
    again = asked[1]
    assert list(again[1]) == [name for name in stages if name != "smoke"]
    assert again[2] == total_s
