"""A plan is shown as a table, cut where it is long, or as JSON."""

import io
import json
from collections.abc import Sequence

import pytest
from rich.console import Console

from conf.schema import SweepConfig
from scalemark.records.machine import DeviceKind, Gpu
from scalemark.records.outcomes import Outcome
from scalemark.records.trial import TrialSpec
from sweeper.devices.gpu_users import GpuInUse
from sweeper.devices.machine import Inventory
from sweeper.grid.from_trial import Taken
from sweeper.planning.plan import Plan, make_plan
from sweeper.planning.plan_view import (
    MOST_CELLS,
    MOST_LISTED,
    MOST_REASONS,
    machine_line,
    plan_json,
    print_plan,
)
from sweeper.planning.simulate import Estimate
from sweeper.way import Planned
from tests.filled import MACHINE
from tests.programs import program
from tests.specs import small

CPU_DEVICES = Inventory(kind=DeviceKind.CPU_DEVICE, gpus=(), num_devices=4)


def shown(plan: Plan, estimate: Estimate | None = None) -> list[str]:
    out = io.StringIO()
    planned = Planned(plan=plan, estimate=estimate or Estimate())
    print_plan(Console(file=out, width=1000), planned, MACHINE, CPU_DEVICES)
    return out.getvalue().splitlines()


def grid(num_seeds: int) -> list[TrialSpec]:
    return [small(seed=seed, num_gpus=num_gpus) for num_gpus in (1, 2) for seed in range(num_seeds)]


def test_a_plan_says_what_it_runs_again_after_a_failure():
    plan = make_plan(grid(2), [], SweepConfig(), {})
    first, second, third = (trial.spec.trial_id for trial in plan.trials[:3])
    failed = {first: Outcome.HUNG, second: Outcome.FAILED, third: Outcome.HUNG}
    out = io.StringIO()
    planned = Planned(plan=plan, estimate=Estimate(), failed_last=failed)
    print_plan(Console(file=out, width=1000), planned, MACHINE, CPU_DEVICES)
    wanted = (
        "run again after a failure: 3 trials (1 failed, 2 hung); sweep.exclude leaves trials out"
    )
    assert wanted in out.getvalue().splitlines()


def test_a_plan_says_what_has_finished_with_other_software():
    plan = make_plan(grid(1), [], SweepConfig(), {})
    out = io.StringIO()
    planned = Planned(plan=plan, estimate=Estimate(), num_of_other_software=2)
    print_plan(Console(file=out, width=1000), planned, MACHINE, CPU_DEVICES)
    wanted = "2 trials of these have finished with other packages, variables or code; "
    assert any(line.startswith(wanted) for line in out.getvalue().splitlines())


def test_a_plan_says_which_trial_inherits_a_variable():
    trials = [small(free=(("env.NCCL_ALGO", "Ring"),)), small()]
    lines = shown(make_plan(trials, [], SweepConfig(), {}))
    heading = next(place for place, line in enumerate(lines) if "env.NCCL_ALGO" in line)
    assert lines[heading + 3].startswith("env.NCCL_ALGO: nothing reads it in trials without NCCL")
    values = [line.split()[-4] for line in lines[heading + 1 : heading + 3]]
    assert values == ["Ring", "inherited"]


def test_a_plan_says_which_program_inherits_a_variable():
    trials = [program(free={"env.NCCL_ALGO": "Ring"}), program(free={})]
    _, heading, *rows = shown(make_plan(trials, [], SweepConfig(), {}))
    assert heading.split() == ["model", "strategy", "devices", "repeats"]
    assert [row.split()[1] for row in rows[:2]] == ["NCCL_ALGO=Ring", "NCCL_ALGO=inherited"]


def shown_on_gpus(
    plan: Plan, in_use: Sequence[GpuInUse], names: Sequence[str] = ("H100",) * 4
) -> list[str]:
    gpus = tuple(
        Gpu(
            uuid=f"GPU-{number}",
            name=name,
            memory_bytes=1,
            pci_bus_id=str(number),
            compute_capability="9.0",
            power_limit_w=None,
        )
        for number, name in enumerate(names)
    )
    inventory = Inventory(kind=DeviceKind.GPU, gpus=gpus, num_devices=4)
    out = io.StringIO()
    planned = Planned(plan=plan, estimate=Estimate(), in_use=in_use)
    print_plan(Console(file=out, width=1000), planned, MACHINE, inventory)
    return [line.rstrip() for line in out.getvalue().splitlines()]


TAKEN = [
    GpuInUse(
        uuid="GPU-0", name="GPU 0", by="pid 4711 python of anna", used_bytes=30 * 2**30 + 2**27
    ),
    GpuInUse(uuid="GPU-2", name="GPU 2", by="pid 9", used_bytes=93 * 2**20),
]


@pytest.mark.parametrize("in_use", [[], TAKEN[:1], TAKEN], ids=["none", "one", "two"])
def test_a_plan_names_the_gpus_that_others_use(in_use, snapshot):
    specs = [small(num_gpus=num_gpus, device_kind="gpu") for num_gpus in (1, 2, 3, 4)]
    plan = make_plan(specs, [], SweepConfig(), {specs[3].trial_id: 1})
    assert "\n".join(shown_on_gpus(plan, in_use)) == snapshot
    reported = json.loads(
        plan_json(Planned(plan=plan, estimate=Estimate(), in_use=in_use), MACHINE)
    )
    assert [gpu["name"] for gpu in reported["gpus_in_use"]] == [gpu.name for gpu in in_use]


def test_a_plan_counts_one_gpu_in_the_singular():
    lines = shown_on_gpus(
        make_plan([small(device_kind="gpu")], [], SweepConfig(), {}), [], ["H200"]
    )
    assert "8 GiB; 1 usable GPU: H200" in lines[0]


@pytest.mark.parametrize(
    ("axes", "is_noted"),
    [
        ([{"precision": "bf16"}, {"precision": "fp32"}], True),
        ([{"precision": "bf16"}, {"precision": "bf16", "xla": "on"}], False),
        ([{"precision": "fp32"}, {"precision": "tf32"}], False),
    ],
)
def test_a_plan_of_half_precision_without_xla_says_once_what_xla_brought(axes, is_noted):
    plan = make_plan([small(device_kind="gpu", **one) for one in axes], [], SweepConfig(), {})
    note = (
        "xla=off: on an H200 xla=on was 1.7 times as fast for ResNet-50, and 4 times for GPT-2, "
        "in bf16; xla=off,on compares"
    )
    assert shown_on_gpus(plan, [], ["H200"]).count(note) == is_noted


def test_a_plan_names_kinds_of_gpus_that_differ(snapshot):
    plan = make_plan([small(num_gpus=2, device_kind="gpu")], [], SweepConfig(), {})
    assert shown_on_gpus(plan, [], names=["H100", "H100", "H200"])[1] == snapshot


def test_a_small_plan_lists_every_trial_and_every_cell_left_out():
    left_out = [(f"num_gpus={num_gpus} xla=on", "too many") for num_gpus in range(10, 20)]
    specs = grid(2)
    lines = shown(
        make_plan(
            specs, left_out, SweepConfig(repeats=2), {specs[0].trial_id: 2, specs[1].trial_id: 1}
        )
    )
    assert lines[0] == machine_line(MACHINE, CPU_DEVICES)
    assert lines[1].split() == [
        "model",
        "strategy",
        "devices",
        "batch",
        "px",
        "precision",
        "data",
        "steps",
        "seed",
        "repeats",
    ]
    assert [line.split()[-2:] for line in lines[2:6]] == [
        ["finished", "earlier"],
        ["to", "run"],
        ["to", "run"],
        ["to", "run"],
    ]
    assert lines[6] == "left out: too many (10 cells)"
    assert lines[7].startswith("cells left out: sweep.dry_run=true")
    assert (
        lines[8]
        == "5 attempts to run; no recorded durations of such trials on this machine: no estimate"
    )


def test_axes_that_are_unusual_in_all_trials_are_shown():
    assert "xla" in shown(make_plan([small(xla="on")], [], SweepConfig(), {}))[1]


def test_of_a_large_plan_the_first_trials_are_listed():
    left_out = [(f"num_gpus={number} xla=on", "too many") for number in range(MOST_CELLS + 5)]
    lines = shown(make_plan(grid(40), left_out, SweepConfig(), {}))
    assert [line.split()[-1] for line in lines[2 : 2 + MOST_LISTED]] == ["run"] * MOST_LISTED
    assert lines[2 + MOST_LISTED].startswith(f"and {80 - MOST_LISTED} more trials")
    assert lines[3 + MOST_LISTED] == f"left out: too many ({MOST_CELLS + 5} cells)"


def test_many_reasons_are_cut_short():
    left_out = [
        (f"num_gpus={number} xla=on", f"reason {number}") for number in range(MOST_REASONS + 5)
    ]
    lines = shown(make_plan([small()], left_out, SweepConfig(), {}))
    assert "left out: cells for 5 more reasons" in lines


def test_a_rule_that_leaves_nothing_out_is_reported():
    left_out = [("num_gpus=9", "sweep.exclude: num_gpus>4")]
    plan = make_plan([small()], left_out, SweepConfig(exclude=["num_gpus>4", "model=vgg61"]), {})
    assert "sweep.exclude: model=vgg61: matches no trial of this grid" in shown(plan)
    assert plan.useless_rules == ("model=vgg61",)


def test_what_a_user_wrote_is_not_read_as_markup():
    lines = shown(
        make_plan(
            [small(data_dir="/[bold]x")], [("[red]a[/red]", "[/nonsense]")], SweepConfig(), {}
        )
    )
    assert "left out: [/nonsense] ([red]a[/red])" in lines


def test_scripts_get_the_whole_plan_as_one_object():
    specs = grid(1)
    recorded = [
        {
            "trial_id": specs[0].trial_id,
            "model": "trivial",
            "device_kind": "cpu_device",
            "num_gpus": 1,
            "hosts": 1,
            "duration_s": 7.0,
        }
    ]
    plan = make_plan(specs, [("xla=on", "why")], SweepConfig(repeats=2), {})
    planned = Planned(plan=plan, estimate=Estimate(recorded))
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
