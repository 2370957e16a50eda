"""A plan is shown as a table, or as JSON."""

import io
import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from conf.schema import SweepConfig
from scalemark.records.machine import DeviceKind
from scalemark.records.trial import TrialSpec
from sweeper.devices.machine import Inventory
from sweeper.devices.nvml import GpuInUse
from sweeper.grid.from_trial import Taken
from sweeper.grid.plan import Plan, make_plan
from sweeper.grid.plan_view import (
    MOST_CELLS,
    MOST_REASONS,
    Estimate,
    Planned,
    machine_line,
    plan_json,
    print_plan,
)
from tests.filled import MACHINE
from tests.programs import program
from tests.specs import gpu, small

CPU_DEVICES = Inventory(kind=DeviceKind.CPU_DEVICE, gpus=(), num_devices=4)


def plan_of(specs: Sequence[TrialSpec], left_out=(), done=None, **settings) -> Plan:
    return make_plan(specs, left_out, SweepConfig(**settings), done or {})


def shown(plan: Plan, inventory: Inventory = CPU_DEVICES, **facts) -> list[str]:
    out = io.StringIO()
    planned = Planned(plan=plan, estimate=Estimate(), **facts)
    print_plan(Console(file=out, width=1000), planned, MACHINE, inventory)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def grid(num_seeds: int) -> list[TrialSpec]:
    return [small(seed=seed, num_gpus=num_gpus) for num_gpus in (1, 2) for seed in range(num_seeds)]


def on_gpus(names: Sequence[str]) -> Inventory:
    gpus = tuple(gpu(f"GPU-{number}", name=name) for number, name in enumerate(names))
    return Inventory(kind=DeviceKind.GPU, gpus=gpus, num_devices=4)


def test_a_plan_says_what_had_other_software():
    changed = ["timm 1.0 -> 2.0", *"abcde"]
    lines = shown(plan_of(grid(2)), num_of_other_software=2, changed=changed)
    other = "2 trials of these have finished with other software (changed: timm 1.0 -> 2.0, a, b, c, 2 more); "
    assert any(line.startswith(other) for line in lines)


def test_a_plan_says_which_trial_inherits_a_variable():
    lines = shown(plan_of([small(free=(("env.NCCL_ALGO", "Ring"),)), small()]))
    heading = next(place for place, line in enumerate(lines) if "env.NCCL_ALGO" in line)
    values = [line.split()[-4] for line in lines[heading + 1 : heading + 3]]
    assert values == ["Ring", "inherited"]
    _, heading, *rows = shown(plan_of([program(free={"env.NCCL_ALGO": "Ring"}), program(free={})]))
    assert heading.split() == ["model", "strategy", "devices", "repeats"]
    assert [row.split()[1] for row in rows[:2]] == ["NCCL_ALGO=Ring", "NCCL_ALGO=inherited"]


TAKEN = [
    GpuInUse(
        uuid="GPU-0", name="GPU 0", by="pid 4711 python of anna", used_bytes=30 * 2**30 + 2**27
    ),
    GpuInUse(uuid="GPU-2", name="GPU 2", by="pid 9", used_bytes=93 * 2**20),
]


@pytest.mark.parametrize("in_use", [[], TAKEN[:1], TAKEN], ids=["none", "one", "two"])
def test_a_plan_names_the_gpus_that_others_use(in_use, snapshot):
    specs = [small(num_gpus=num_gpus, device_kind="gpu") for num_gpus in (1, 2, 3, 4)]
    plan = plan_of(specs, done={specs[3].trial_id: 1})
    assert "\n".join(shown(plan, on_gpus(["H100"] * 4), in_use=in_use)) == snapshot
    reported = json.loads(
        plan_json(Planned(plan=plan, estimate=Estimate(), in_use=in_use), MACHINE)
    )
    assert [gpu["name"] for gpu in reported["gpus_in_use"]] == [gpu.name for gpu in in_use]


def test_one_gpu_is_singular_and_kinds_that_differ_are_named(snapshot):
    lines = shown(plan_of([small(device_kind="gpu")]), on_gpus(["H200"]))
    assert "8 GiB; 1 usable GPU: H200" in lines[0]
    mixed = plan_of([small(num_gpus=2, device_kind="gpu")])
    assert shown(mixed, on_gpus(["H100", "H100", "H200"]))[1] == snapshot


def test_a_small_plan_lists_every_trial_and_counts_cells_left_out():
    left_out = [(f"num_gpus={num_gpus} xla=on", "too many") for num_gpus in range(10, 20)]
    specs = grid(2)
    done = {specs[0].trial_id: 2, specs[1].trial_id: 1}
    lines = shown(plan_of(specs, left_out, done, repeats=2))
    assert lines[0] == machine_line(MACHINE, CPU_DEVICES)
    headings = "model strategy devices batch px precision data steps seed repeats"
    assert lines[1].split() == headings.split()
    assert [line.rpartition("  ")[2] for line in lines[2:6]] == [
        *("finished earlier", "1 to run", "2 to run", "2 to run")
    ]
    assert lines[6] == "left out: too many (10 cells)"
    assert lines[7].startswith("cells left out: sweep.dry_run=true")
    assert lines[8] == (
        "5 attempts to run; no recorded durations of such trials on this machine: no estimate"
    )
    assert "xla" in shown(plan_of([small(xla="on")]))[1], "unusual in all trials"


def test_a_large_plan_is_a_line_for_each_axis(snapshot):
    """The precision decides the data format, and the batch is none of the smallest GPU count."""
    specs = []
    for num_gpus, batch_size in itertools.product((1, 2, 4, 8), range(4, 20)):
        for precision, data_format in (("fp32", "NCHW"), ("fp16", "NHWC")):
            layout = {"precision": precision, "data_format": data_format}
            if num_gpus > 1 or batch_size < 12:
                specs.append(small(num_gpus=num_gpus, batch_size=batch_size, **layout))
    done = {specs[0].trial_id: 1}
    assert "\n".join(shown(plan_of(specs, done=done))[1:]) == snapshot


def test_many_reasons_are_cut_short():
    left_out = []
    for number in range(MOST_REASONS + 5):
        left_out.append((f"num_gpus={number} xla=on", f"reason {number}"))
    assert "left out: cells for 5 more reasons" in shown(plan_of([small()], left_out))
    many = [(f"num_gpus={number} xla=on", "too many") for number in range(MOST_CELLS + 5)]
    assert f"left out: too many ({MOST_CELLS + 5} cells)" in shown(plan_of([small()], many))


def test_a_rule_that_leaves_nothing_out_is_reported():
    left_out = [("num_gpus=9", "sweep.exclude: num_gpus>4")]
    plan = plan_of([small()], left_out, exclude=["num_gpus>4", "model=vgg61"])
    assert "sweep.exclude: model=vgg61: matches no trial that could run" in shown(plan)
    assert plan.useless_rules == ("model=vgg61",)


def test_what_a_user_wrote_is_not_read_as_markup():
    plan = plan_of([small(data_dir="/[bold]x")], [("[red]a[/red]", "[/nonsense]")])
    assert "left out: [/nonsense] ([red]a[/red])" in shown(plan)


def test_scripts_get_the_whole_plan_as_one_object():
    specs = grid(1)
    recorded = specs[0].axes | {"trial_id": specs[0].trial_id, "duration_s": 7.0}
    plan = plan_of(specs, [("xla=on", "why")], repeats=2)
    planned = Planned(plan=plan, estimate=Estimate([recorded]))
    assert json.loads(plan_json(planned, MACHINE))["from"] is None
    taken = Taken(trial="abcd", arguments=("model=trivial",))
    reported = json.loads(plan_json(planned, MACHINE, taken))
    assert reported["from"] == {"trial": "abcd", "arguments": ["model=trivial"]}
    assert [trial["trial"] for trial in reported["trials"]] == [spec.trial_id for spec in specs]
    assert [trial["expected_s"] for trial in reported["trials"]] == [7.0, None]
    assert reported["trials"][0]["spec"]["num_gpus"] == 1
    assert reported["trials"][0]["repeats_to_run"] == 2
    assert reported["left_out"] == [{"overrides": "xla=on", "reason": "why"}]
    assert reported["estimate"] == {"expected_s": 14.0, "num_attempts": 4, "num_unknown": 2}


@pytest.mark.parametrize(
    ("command", "counts", "free", "is_named"),
    [
        ("torchrun --nproc-per-node {num_gpus} train.py", (1, 2), {}, True),
        ("python -m torch.distributed.run train.py", (1, 2), {}, True),
        ("torchrun --nproc-per-node {num_gpus} train.py", (2, 4), {}, False),
        ("torchrun train.py", (1, 2), {"env.OMP_NUM_THREADS": "4"}, False),
        ("env OMP_NUM_THREADS=1 torchrun train.py", (1, 2), {}, False),
        ("python train.py", (1, 2), {}, False),
        ("bash launch.sh {num_gpus}", (1, 2), {}, True),
        ("bash one_thread.sh {num_gpus}", (1, 2), {}, False),
    ],
)
def test_threads_that_differ_between_one_process_and_several_are_named(
    command, counts, free, is_named, monkeypatch
):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    Path("launch.sh").write_text("torchrun --nproc-per-node $1 train.py\n")
    Path("one_thread.sh").write_text("export OMP_NUM_THREADS=1\ntorchrun train.py\n")
    plan = plan_of([program(num_gpus=num, command=command, free=free) for num in counts])
    assert any("set it for all, as +env.OMP_NUM_THREADS=1" in line for line in shown(plan)) is (
        is_named
    )


def test_quotients_of_0_are_named():
    command = "python train.py {8//(num_gpus*micro)} {micro//num_gpus} {num_gpus - 2}"
    specs = [program(num_gpus=num, command=command, free={"axes.micro": 2}) for num in (2, 4, 8)]
    lines = shown(plan_of(specs))
    assert [line for line in lines if " is 0 in " in line] == [
        "micro//num_gpus is 0 in 2 trials; sweep.exclude='micro//num_gpus < 1' leaves them out",
        "8//(num_gpus*micro) is 0 in 1 trial; sweep.exclude='8//(num_gpus*micro) < 1' leaves them out",
    ]
