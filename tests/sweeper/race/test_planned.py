"""What a plan tells of races, and which settings of a race are refused."""

import io
import json

import pytest
from rich.console import Console

from conf.schema import Config, HardwareConfig, LauncherConfig, SweepConfig
from scalemark.records.machine import DeviceKind
from scalemark.records.trial import TrialSpec
from store.reading.earlier import CompletedRepeat
from sweeper.devices.machine import Inventory
from sweeper.errors import SweepRefusedError
from sweeper.planning.plan import make_plan
from sweeper.planning.plan_view import plan_json, print_plan
from sweeper.planning.settings import check
from sweeper.planning.simulate import Estimate
from sweeper.race.races import Tally, sort_into_races, with_races
from sweeper.way import Planned
from tests.filled import MACHINE
from tests.specs import small

CPU_DEVICES = Inventory(kind=DeviceKind.CPU_DEVICE, gpus=(), num_devices=4)
PS_CPU = {"variable_update": "parameter_server", "local_parameter_device": "cpu"}


def planned(specs: list[TrialSpec], completed: dict[TrialSpec, list[float]], repeats: int = 5):
    speeds = {spec.trial_id: found for spec, found in completed.items()}

    def read(trial_ids):
        return {
            id_: tuple(CompletedRepeat(throughput=one) for one in speeds.get(id_, ()))
            for id_ in trial_ids
        }

    plan = make_plan(
        specs,
        [],
        SweepConfig(repeats=repeats),
        {trial_id: len(found) for trial_id, found in speeds.items()},
    )
    return with_races(
        plan, Tally(sort_into_races(specs, ["strategy"]), repeats, read), ["strategy"]
    )


def shown(specs: list[TrialSpec], completed: dict[TrialSpec, list[float]]) -> list[str]:
    plan, races = planned(specs, completed)
    out = io.StringIO()
    shown = Planned(plan=plan, estimate=Estimate(), races=races)
    print_plan(Console(file=out, width=1000), shown, MACHINE, CPU_DEVICES)
    return out.getvalue().splitlines()


BOTH = [small(), small(**PS_CPU)]


def test_a_plan_tells_the_least_and_the_most_that_is_run():
    lines = shown([*BOTH, small(num_gpus=2)], {})
    assert all(line.endswith("5 to run at most") for line in lines[2:4])
    assert lines[4].endswith("5 to run")
    assert lines[5:8] == [
        "sweep.race: races: 1 (sweep.race_over=[strategy]), decided earlier: 0; attempts: 3 at least, 10 at most",
        "            without a rival, and run in full: 1: trivial-replicated_none-x2",
        "at most 15 attempts to run; no recorded durations of such trials on this machine: no estimate",
    ]


def test_a_race_that_earlier_results_decide_is_not_run():
    plan, races = planned(BOTH, {BOTH[0]: [100.0, 101.0], BOTH[1]: [40.0]})
    assert plan.num_attempts == 0
    assert [trial.is_decided for trial in plan.trials] == [True, True]
    shown = Planned(plan=plan, estimate=Estimate(), races=races)
    (reported,) = json.loads(plan_json(shown, MACHINE))["races"]
    assert reported == {
        "race": "trivial-x1",
        "trials": [spec.trial_id for spec in BOTH],
        "decided": True,
        "attempts_at_least": 0,
        "attempts_at_most": 0,
    }


def test_one_that_is_not_decided_goes_on():
    plan, _ = planned(BOTH, {BOTH[0]: [100.0], BOTH[1]: [99.0]})
    assert [trial.num_repeats for trial in plan.trials] == [4, 4]


def test_where_nothing_races_the_plan_says_so():
    lines = shown([small(), small(num_gpus=2)], {})
    assert (
        "sweep.race: nothing races, for no two trials differ in sweep.race_over=[strategy] alone"
        in lines
    )
    assert lines[-1].startswith("10 attempts to run")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"race": True},
            r"with sweep\.repeats=1 each trial runs once, and there is nothing to save; say .* as sweep\.repeats=5",
        ),
        (
            {"race": True, "repeats": 3, "race_over": []},
            r"sweep\.race_over=\[\]: nothing would race; name axes",
        ),
        (
            {"repeats": 3, "race_over": ["precision"]},
            r"sweep\.race_over=\[precision\]: nothing races; add sweep\.race=true",
        ),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings, message):
    config = Config(
        launcher=LauncherConfig(name="local"),
        hardware=HardwareConfig(device_kind="auto"),
        sweep=SweepConfig(**settings),
    )
    with pytest.raises(SweepRefusedError, match=message):
        check(config)
