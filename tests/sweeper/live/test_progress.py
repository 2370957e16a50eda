"""The lines of a sweep's log, one per ended attempt: what was asked for is in columns."""

import io

from rich.console import Console

from conf.schema import SweepConfig
from scalemark.records.measurement import State
from sweeper.grid.plan import make_plan
from sweeper.live.progress import Progress
from tests.command.programs import spec_of
from tests.filled import attempt
from tests.specs import small
from tests.sweeper.world import EIGHT

OVER_HOSTS = {"variable_update": "distributed_replicated", "hosts": 2, "num_gpus": 2}


def test_speeds_are_in_one_column_however_long_the_labels():
    specs = [
        small(),
        *(
            small(model="resnet18_cifar", injected=injected, **OVER_HOSTS)
            for injected in ("", "reduction_s=1")
        ),
    ]
    plan = make_plan(specs, [], SweepConfig(), {})
    reported = io.StringIO()
    progress = Progress("s", "here", EIGHT, plan, Console(file=reported, width=500))
    for trial in plan.trials:
        progress.settled(State.COMPLETED)
        result = attempt(trial.spec, 1234.5).result
        progress.attempt_ended(trial, result, 1.0, again=None, eta_s=None)
    lines = reported.getvalue().splitlines()
    assert [line.index("1234.50 images/s") for line in lines] == [
        lines[0].index("1234.50 images/s")
    ] * 3
    for trial, line in zip(plan.trials, lines, strict=True):
        assert progress.label(trial) in line
    assert "resnet18_cifar-distributed_replicated-x2h2 injected=reduction_s=1 " in lines[2]


def test_a_label_names_an_axis_that_the_sweep_brought():
    specs = [small(free=(("zero", 1),)), small(free=(("zero", 2),)), small()]
    plan = make_plan(specs, [], SweepConfig(), {})
    progress = Progress("s", "here", EIGHT, plan, Console(file=io.StringIO()))
    ends = [progress.label(trial).split(" ")[-1] for trial in plan.trials]
    assert sorted(ends) == ["zero=1", "zero=2", "zero=nothing"]


def test_a_label_names_an_axis_of_a_program_once():
    specs = [
        spec_of("train.sh", free=(("axes.zero", 1),)),
        spec_of("train.sh", free=(("axes.zero", 2),)),
    ]
    plan = make_plan(specs, [], SweepConfig(), {})
    progress = Progress("s", "here", EIGHT, plan, Console(file=io.StringIO()))
    labels = [progress.label(trial) for trial in plan.trials]
    assert labels == ["program-x2 zero=1", "program-x2 zero=2"]
