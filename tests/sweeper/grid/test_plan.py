"""A plan holds every distinct trial once, skips the finished, and lists what it leaves out."""

from pathlib import Path

import pytest

from conf.schema import StoreConfig, SweepConfig
from scalemark.host import files
from scalemark.records.machine import DeviceKind
from sweeper import SweepRefusedError
from sweeper.devices.machine import Inventory
from sweeper.grid.compose import GridChoice
from sweeper.grid.plan import (
    PlannedTrial,
    check_folders,
    data_folder_problem,
    make_plan,
    resolve_grid,
    varying_axes,
)
from tests.conf.test_resolve import config
from tests.over_hosts import spread
from tests.specs import gpu, small

CPU_DEVICES = Inventory(kind=DeviceKind.CPU_DEVICE, gpus=(), num_devices=4)


def resolve(
    *cells: tuple[str, ...], sweep: SweepConfig | None = None, inventory: Inventory = CPU_DEVICES
):
    given = [tuple(GridChoice(text=text, override=None) for text in cell) for cell in cells]
    return resolve_grid(
        given,
        lambda cell: config(*(choice.text for choice in cell)),
        inventory,
        sweep or SweepConfig(),
    )


def test_what_means_nothing_is_left_out_of_a_grid_and_listed():
    specs, left_out = resolve(("strategy=replicated_nccl",), ("strategy=ps_cpu",))
    assert [spec.variable_update for spec in specs] == ["parameter_server"]
    ((overrides, reason),) = left_out
    assert overrides == "strategy=replicated_nccl"
    assert reason.startswith("all_reduce=nccl: NCCL needs")


def test_hosts_of_single_host_strategies_are_left_out_of_a_grid_and_listed():
    cells = [
        (f"hosts={hosts}", f"strategy={way}", "num_gpus=4")
        for hosts in (1, 2)
        for way in ("ps_cpu", "distributed_ring")
    ]
    specs, left_out = resolve(*cells)
    assert [(spec.hosts, spec.variable_update) for spec in specs] == [
        *((1, "parameter_server"), (1, "distributed_all_reduce"), (2, "distributed_all_reduce"))
    ]
    ((overrides, reason),) = left_out
    assert overrides == "hosts=2 strategy=ps_cpu num_gpus=4"
    assert reason.startswith(
        "hosts=2: variable_update=parameter_server is of one host; choose strategy=distributed_ps, "
    )


def test_replicas_that_hosts_cannot_share_are_left_out():
    cells = [
        (f"hosts={hosts}", "strategy=distributed_ring", f"num_gpus={num}")
        for hosts in (1, 2)
        for num in (1, 2, 3)
    ]
    specs, left_out = resolve(*cells)
    assert [(spec.num_gpus, spec.hosts) for spec in specs] == [(1, 1), (2, 1), (3, 1), (2, 2)]
    assert [reason.split(":")[0] for _, reason in left_out] == ["num_gpus=1", "num_gpus=3"]


def test_a_trials_name_says_over_how_many_hosts_it_is():
    labels = [
        PlannedTrial(spec=spread("distributed_ring", 8, hosts), num_repeats=1).label
        for hosts in (1, 2)
    ]
    assert labels == ["trivial-distributed_ring-x8", "trivial-distributed_ring-x8h2"]


def test_a_trial_of_two_mig_devices_is_left_out_with_the_reason():
    part = gpu("MIG-1", compute_capability="8.0", mig_parent="GPU-a")
    slices = Inventory(kind=DeviceKind.GPU, gpus=(part, part), num_devices=2)
    specs, left_out = resolve(("num_gpus=1",), ("num_gpus=2",), inventory=slices)
    assert [spec.num_gpus for spec in specs] == [1]
    assert left_out == [
        (
            "num_gpus=2",
            "num_gpus=2 hosts=1: the usable devices are MIG slices, and CUDA shows a process only one",
        )
    ]


def test_a_gpu_without_kernels_is_refused_before_anything_runs():
    k80 = gpu("GPU-a", name="Tesla K80", compute_capability="3.7")
    old = Inventory(kind=DeviceKind.GPU, gpus=(k80,), num_devices=1)
    with pytest.raises(SweepRefusedError, match=r"K80 \(compute capability 3.7\): TensorFlow has"):
        resolve(("num_gpus=1",), inventory=old)


def test_what_means_nothing_is_an_error_when_asked_for_alone():
    with pytest.raises(SweepRefusedError, match="all_reduce=nccl: NCCL needs"):
        resolve(("strategy=replicated_nccl",))


def test_a_grid_of_which_nothing_is_left_says_how_many_reasons_there_are():
    with pytest.raises(
        SweepRefusedError,
        match=r"num_gpus=0: wanted 1 or more \(and 1 more reason for 2 cells left out\)",
    ):
        resolve(("num_gpus=0",), ("num_gpus=99",))


def test_a_rule_leaves_out_the_trials_for_which_all_of_it_holds():
    sweep = SweepConfig(exclude=["num_gpus>=2 model=resnet50"])
    specs, left_out = resolve(
        ("num_gpus=1",), ("num_gpus=4",), ("model=vgg16", "num_gpus=2"), sweep=sweep
    )
    assert [(spec.model, spec.num_gpus) for spec in specs] == [("resnet50", 1), ("vgg16", 2)]
    assert left_out == [("num_gpus=4", "sweep.exclude: num_gpus>=2 model=resnet50")]


@pytest.mark.parametrize("others", [[], ["4 % pp"], ["accum < 1"]])
def test_a_rule_names_the_cells_whose_expressions_have_no_value(others):
    """A bug: "division by zero" was the reason, and the rule was said to match no trial."""
    run = "command.run='python t.py {num_gpus//pp} {accum}'"
    program = ("engine=command", run, "command.read=metric", "+axes.accum='8 // pp'")
    cells = [(*program, f"+axes.pp={pp}") for pp in (0, 2)]
    specs, left_out = resolve(*cells, sweep=SweepConfig(exclude=[*others, "pp=0"]))
    assert [dict(spec.free) for spec in specs] == [{"axes.pp": 2}]
    assert [reason for _, reason in left_out] == ["sweep.exclude: pp=0"]


def test_rules_that_leave_nothing_are_an_error():
    with pytest.raises(SweepRefusedError, match=r"sweep\.exclude leaves out every trial \(2\)"):
        resolve(("num_gpus=1",), ("num_gpus=2",), sweep=SweepConfig(exclude=["num_gpus>0"]))


def test_a_wrong_rule_is_refused_before_anything_is_composed():
    with pytest.raises(SweepRefusedError, match="did you mean num_gpus"):
        resolve(("no_such_axis=1",), sweep=SweepConfig(exclude=["num_gpu>0"]))


def test_two_cells_that_mean_the_same_trial_are_one():
    specs, _ = resolve(("strategy=auto",), ("strategy=replicated_none",))
    assert len(specs) == 1


def test_finished_repeats_are_not_run_again():
    specs = [small(), small(num_gpus=2), small(num_gpus=4)]
    done = {specs[0].trial_id: 3, specs[1].trial_id: 1}
    plan = make_plan(specs, [], SweepConfig(repeats=3), done)
    assert [trial.num_repeats for trial in plan.trials] == [0, 2, 3]
    assert plan.num_attempts == 5


def test_a_rerun_runs_finished_trials_again():
    assert (
        make_plan([small()], [], SweepConfig(rerun=True), {small().trial_id: 9}).num_attempts == 1
    )


def test_varying_axes_are_those_a_reader_must_see():
    specs = [small(seed=1), small(seed=2), small(model="vgg16", image_px=64)]
    assert varying_axes(specs) == {"seed"}


def test_left_out_cells_are_known_from_what_they_do_not_share():
    left_out = [("a=1 b=1 c=1", "x"), ("a=1 b=2 c=1", "x"), ("a=1 b=3 c=2", "y")]
    assert make_plan([], left_out, SweepConfig(), {}).left_out_by_reason() == {
        "x": ["b=1 c=1", "b=2 c=1"],
        "y": ["b=3 c=2"],
    }


def test_where_charts_go_is_said_where_they_cannot():
    """A bug: it asked to choose another folder, which no setting does."""
    Path("figures").touch()
    with pytest.raises(SweepRefusedError, match="draws charts where it starts"):
        check_folders(StoreConfig())


def test_a_data_folder_is_checked_before_anything_runs(tmp_path):
    photos = config("data=photos").data
    assert "no such folder; make it (an empty one is filled)" in str(
        data_folder_problem(photos, tmp_path / "missing")
    )
    assert data_folder_problem(photos, tmp_path) is None
    (tmp_path / "train-00000-of-00001").write_text("x")
    assert (
        data_folder_problem(photos, tmp_path)
        == "there is no index.json; empty the folder to have the set made again"
    )
    (tmp_path / "index.json").write_text("[1")
    assert "index.json is damaged" in str(data_folder_problem(photos, tmp_path))
    files.write_index(tmp_path, "photos", files.paths(tmp_path))
    assert data_folder_problem(photos, tmp_path) is None
    assert "it holds the set photos, not digits" in str(
        data_folder_problem(config("data=digits").data, tmp_path)
    )


def test_a_set_that_the_user_brings_needs_its_shards_and_no_index(tmp_path):
    imagenet = config("data=imagenet").data
    assert data_folder_problem(imagenet, tmp_path / "missing") == "no such folder"
    assert (
        data_folder_problem(imagenet, tmp_path)
        == "there are no shards in it; wanted files named train-*-of-*"
    )
    (tmp_path / "train-00000-of-00001").write_bytes(bytes(16))  # one record without any data
    assert data_folder_problem(imagenet, tmp_path) is None
    (tmp_path / "train-00000-of-00001").write_text("")
    assert data_folder_problem(imagenet, tmp_path) == "train-00000-of-00001 is empty"


def test_one_folder_is_judged_for_each_data_source_that_reads_it(tmp_path):
    (tmp_path / "train-00000-of-00001").write_bytes(bytes(16))
    resolve(("data=imagenet", f"data.dir={tmp_path}"))
    with pytest.raises(SweepRefusedError, match=r"there is no index\.json; empty the folder"):
        resolve(("data=imagenet", f"data.dir={tmp_path}"), ("data=photos", f"data.dir={tmp_path}"))
