"""Which trials race against each other, what they are called, and what a plan tells of races."""

import io
import json
import math

import pytest
from rich.console import Console

from conf.schema import Config, HardwareConfig, LauncherConfig, SweepConfig
from scalemark.records.machine import DeviceKind
from scalemark.records.trial import TrialSpec
from store.reading.earlier import CompletedRepeat
from sweeper import SweepRefusedError
from sweeper.devices.machine import Inventory
from sweeper.early_stopping.budget import Budget
from sweeper.early_stopping.contests import Race, make_races, without_decided
from sweeper.grid.plan import check, make_plan
from sweeper.grid.plan_view import Estimate, Planned, plan_json, print_plan
from tests.filled import MACHINE
from tests.over_hosts import spread
from tests.programs import program
from tests.specs import small

CPU_DEVICES = Inventory(kind=DeviceKind.CPU_DEVICE, gpus=(), num_devices=4)
PS_CPU = {"variable_update": "parameter_server", "local_parameter_device": "cpu"}
WAYS = ({}, PS_CPU)
OVER_HOSTS = [
    spread(way, 4, hosts) for hosts in (1, 2) for way in ("distributed_ring", "distributed_ps")
]
PROGRAMS = [program(1, zero, offload) for zero in (0, 2) for offload in ("cpu", "none")]
COMPARED = [program(1, *axes, compare="axes.zero") for axes in ((0, "cpu"), (2, "cpu"), (2, "x"))]


def ids(specs):
    return tuple(spec.trial_id for spec in specs)


def races_of(specs: list[TrialSpec]) -> list[Race]:
    return make_races(specs, 5, lambda trial_ids: {})


@pytest.mark.parametrize(
    ("specs", "groups"),
    [
        (
            [small(num_gpus=num_gpus, **axes) for num_gpus in (1, 2) for axes in WAYS],
            [slice(0, 2), slice(2, 4)],
        ),
        (
            [small(batch_size=size, **axes) for size in (2, 4) for axes in WAYS],
            [slice(0, 2), slice(2, 4)],
        ),
        (
            [small(model="trivial", **axes) for axes in WAYS]
            + [small(model="vgg16", image_px=224, **axes) for axes in WAYS],
            [slice(0, 2), slice(2, 4)],
        ),
        (OVER_HOSTS, [slice(0, 2), slice(2, 4)]),
        ([small(num_gpus=1), small(num_gpus=2)], []),
        (PROGRAMS, [slice(0, 4)]),
        ([*COMPARED, program(2, 0)], [slice(0, 2)]),
    ],
)
def test_trials_race_where_all_but_the_strategy_is_equal(specs, groups):
    races = races_of(specs)
    assert [race.trial_ids for race in races] == [ids(specs[group]) for group in groups]


@pytest.mark.parametrize(
    ("specs", "names"),
    [
        ([small(**axes) for axes in WAYS], ("replicated_none", "ps_cpu")),
        (PROGRAMS[:2], ("offload=cpu zero=0", "offload=none zero=0")),
    ],
)
def test_contenders_are_named_by_their_strategies(specs, names):
    (race,) = races_of(specs)
    assert race.names == names


def planned(specs: list[TrialSpec], completed: dict[TrialSpec, list[float]]) -> Planned:
    speeds = {spec.trial_id: own for spec, own in completed.items()}

    def read(trial_ids):
        return {
            trial_id: tuple(CompletedRepeat(throughput=speed) for speed in speeds.get(trial_id, ()))
            for trial_id in trial_ids
        }

    num_completed = {trial_id: len(own) for trial_id, own in speeds.items()}
    plan = make_plan(specs, [], SweepConfig(repeats=5), num_completed)
    races = make_races(specs, 5, read)
    plan = without_decided(plan, races)
    return Planned(
        plan=plan, estimate=Estimate(), budget=Budget(math.inf, clock=lambda: 0.0), contests=races
    )


BOTH = [small(), small(**PS_CPU)]


def test_a_plan_tells_the_least_and_the_most_that_is_run():
    out = io.StringIO()
    plan = planned([*BOTH, small(num_gpus=2)], {})
    print_plan(Console(file=out, width=1000), plan, MACHINE, CPU_DEVICES)
    lines = out.getvalue().splitlines()
    assert [line.rpartition("5 to run")[2] for line in lines[2:5]] == [" at most", " at most", ""]
    assert lines[5:7] == [
        "sweep.budget=inf: 1 race, 0 decided earlier; trials without a rival run in full",
        "at most 15 attempts to run; no recorded durations of such trials on this machine: no estimate",
    ]
    out = io.StringIO()
    nothing = planned([small(), small(num_gpus=2)], {})
    print_plan(Console(file=out, width=1000), nothing, MACHINE, CPU_DEVICES)
    assert "sweep.budget=inf: nothing races, for no two trials differ in" in out.getvalue()
    assert out.getvalue().splitlines()[-1].startswith("10 attempts to run")


def test_a_race_that_earlier_results_decide_is_not_run():
    decided = planned(BOTH, {BOTH[0]: [100.0, 101.0], BOTH[1]: [40.0]})
    assert decided.plan.num_attempts == 0
    assert [trial.is_decided for trial in decided.plan.trials] == [True, True]
    (reported,) = json.loads(plan_json(decided, MACHINE))["races"]
    assert reported == {"trials": [spec.trial_id for spec in BOTH], "decided": True}
    undecided = planned(BOTH, {BOTH[0]: [100.0], BOTH[1]: [99.0]})
    assert [trial.num_repeats for trial in undecided.plan.trials] == [4, 4]


def test_a_race_of_single_runs_is_refused():
    config = Config(
        launcher=LauncherConfig(name="local"),
        hardware=HardwareConfig(device_kind="auto"),
        sweep=SweepConfig(budget="inf"),
    )
    with pytest.raises(SweepRefusedError, match=r"with sweep\.repeats=1 each trial runs once"):
        check(config)
