"""Answers about a user's own program say what is known of it, and nothing of axes that it lacks."""

import json
import re
import shlex
from dataclasses import replace
from functools import partial

import pytest

from analysis import again
from analysis.pivot import pivot, varied_tables
from analysis.selection import Selection, load
from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import Verdict
from scalemark.records.overrides import overrides, with_changes
from scalemark.records.trial import TrialSpec
from scalemark.text.wording import natural
from tests.analysis.commands.command import advised
from tests.analysis.commands.command import analysis as run
from tests.analysis.gpu_box import GPU_BOX, around, fill_gpus, on_gpus, repeated
from tests.app import Ended
from tests.filled import MACHINE, STEPS, fill
from tests.programs import (
    COMMAND,
    ENVIRONMENT,
    OTHERS_WORDS,
    REPORTED,
    SEEN_FROM_OUTSIDE,
    fill_programs,
    grid,
    program,
)

EVERY = [
    ("scaling", "--all"),
    ("advise", "--all"),
    ("compare", "zero=0", "zero=2"),
    ("conclusions",),
    ("explain",),
    ("predict",),
    ("predict", "--to", "num_gpus=8"),
]


@pytest.fixture
def analysis(capsys, monkeypatch):
    return partial(run, capsys, monkeypatch)


def foreign_words(ended: Ended) -> list[str]:
    text = ended.stdout + ended.stderr
    return [word for word in OTHERS_WORDS if word in text]


@pytest.mark.parametrize("arguments", EVERY, ids=" ".join)
def test_every_answer_about_a_program_in_words(analysis, snapshot, arguments):
    fill_programs(grid())
    ended = analysis(*arguments)
    assert foreign_words(ended) == []
    assert (ended.exit_code, ended.stdout, ended.stderr) == snapshot


@pytest.mark.parametrize("arguments", EVERY, ids=" ".join)
def test_json_about_a_program_has_no_axis_of_ours(analysis, arguments):
    fill_programs(grid())
    assert foreign_words(analysis(*arguments, "--json")) == []


@pytest.mark.parametrize("arguments", EVERY, ids=" ".join)
def test_answers_on_cpu_devices_speak_of_no_axis_of_ours(analysis, arguments):
    fill_programs(grid(device_kind=DeviceKind.CPU_DEVICE), machine=MACHINE)
    ended = analysis(*arguments)
    assert foreign_words(ended) == []
    assert "Traceback" not in ended.stderr


ITEMS = {"items_per_step": "64*num_gpus"}
BY_LINES = {
    "verdict": Verdict.SUSPECT,
    "reasons": ("by its rates 9, by its lines 2; the second counts: does it time one?",),
}


@pytest.mark.parametrize(
    ("axes", "measured", "is_said"),
    [
        ({}, {}, True),
        (ITEMS, {}, False),
        (ITEMS, {"median_step_s": None}, True),  # no line has a step
        ({}, {"item": "steps"}, False),
        ({}, REPORTED, False),  # which says so itself
        # what it counts confirms its rate, or is all that it prints
        ({"read": r"regex:seen (?P<items>\d+) at (?P<mean_throughput>\S+)"}, {}, False),
        ({"read": "json:log.json,items=seen"}, {}, False),
        ({}, BY_LINES, False),
    ],
)
def test_a_rate_that_nothing_confirms_is_said_to_be_the_programs_word(
    analysis, axes, measured, is_said
):
    trials = grid(zeros=[0, 2], counts=[1, 2], **axes)
    fill_programs(trials, measured={**SEEN_FROM_OUTSIDE, **measured})
    for command in (["advise"], ["compare", "zero=0", "zero=2"], ["scaling"], ["scaling", "--all"]):
        text = analysis(*command).stdout
        do = "print steps and give" if "median_step_s" in measured else "give"
        said = f"nothing confirms the printed rates: {do} command.items_per"
        assert (said in text) is is_said
        assert ("nothing confirms" in text) is is_said


@pytest.mark.parametrize(
    ("of_two", "axes", "is_said"),
    [
        (102.0, {}, True),
        (102.0, {"read": r"regex:seen (?P<items>\d+)"}, True),
        (180.0, {}, False),
        (102.0, {"per_gpu": True}, False),
    ],
)
def test_a_flat_curve_of_printed_rates_leads_to_the_rate_of_one_gpu(
    analysis, of_two, axes, is_said
):
    """A bug: where each rank printed its own rate, more GPUs were said to be useless."""
    trials = {spec.num_gpus: spec for spec, _ in grid(zeros=[0], counts=[1, 2], **axes)}
    fill_programs([(trials[1], 100.0), (trials[2], of_two)])
    for command in ("advise", "scaling"):
        text = analysis(command).stdout.replace("\n", " ")
        assert ("prints its own, give command.per_gpu=true" in text) is is_said


def test_advice_doubts_the_rates_of_the_trials_that_it_shows_alone(analysis):
    """A bug: it doubted those of another program in an earlier sweep."""
    fill_programs(grid(zeros=[0], counts=[1], model="earlier"), name="earlier")
    assert "nothing confirms" in analysis("advise").stdout
    fill_programs(grid(zeros=[0], counts=[1], **ITEMS), name="newest")
    assert "nothing confirms" not in analysis("advise").stdout
    assert "nothing confirms" in analysis("advise", "--sweep", "earlier").stdout


@pytest.mark.parametrize("shown", [(), ("--all",)], ids=["screen", "all"])
def test_the_winner_is_a_command_line_ready_to_paste(analysis, shown):
    template = "torchrun --master-port={free_port} train.py --note 'a b' --each {zero // num_gpus}"
    trials = grid(command=template)
    fill_programs(trials)
    filled = "torchrun --master-port=29500 train.py --note 'a b' --each 0"
    pasted = re.sub(r" \\\n\s*", " ", analysis("advise", *shown).stdout)
    assert re.search(rf"Command line of the best:\n +{re.escape(filled)}\n", pasted)


@pytest.mark.parametrize(
    ("changes", "filled"),
    [
        ({"free": {"env.NCCL_ALGO": "a b", "zero": 2}}, "NCCL_ALGO='a b' run --zero 2 --gpus 0,1"),
        ({"free": {"zero": "$(x)"}}, "run --zero '$(x)' --gpus 0,1"),
        ({"shell": True, "free": {"zero": 1}}, "/bin/sh -c 'run --zero 1 --gpus 0,1'"),
    ],
)
def test_a_command_line_has_variables_and_quotes(changes, filled):
    spec = program(2, command="run --zero {zero} --gpus {gpus}", **changes)
    fill_programs([(spec, 100.0)])
    (result,) = load(Selection(db="results.db"))
    assert again.filled_command(result) == filled


def test_values_are_in_the_order_of_their_numbers(analysis):
    fill_programs(grid(zeros=(10, 2, 0)))
    curves = json.loads(analysis("scaling", "--json").stdout)[0]["curves"]
    assert [one["strategy"] for one in curves] == [
        f"offload={offload} zero={zero}" for offload in ("cpu", "none") for zero in (0, 2, 10)
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [("zero=2", "zero=10"), ("0.05", "0.5"), ("stage9", "stage10"), ("zero=2", "zero=none")],
)
def test_natural_order_compares_digits_as_numbers(first, second):
    assert natural(first) < natural(second)


def test_two_programs_of_one_name_are_two_answers(analysis):
    other = "python other.py {num_gpus} {zero} {offload}"
    fill_programs([*around(program(), 100.0), *around(program(command=other), 400.0)])
    wanted = pytest.approx([100.0, 400.0], rel=1e-4)
    assert sorted(result.throughput for result in load(Selection(db="results.db"))) == wanted
    for asked in (["scaling", "--all"], ["advise", "--all"]):
        shown = analysis(*asked).stdout
        assert shown.count(f": {COMMAND}\n") == shown.count(f": {other}\n") == 1
    advice = advised(analysis("advise", "--all", "--origin", "measured", "--json"))
    assert [one["pick"]["throughput"] for one in advice] == wanted


def test_a_ratio_is_of_the_numbers_beside_it_though_a_repeat_is_far_off(analysis):
    """It was of geometric means, and the numbers were medians."""
    rows = repeated(program(1, 0), 99.0, 100.0, 30.0) + repeated(program(1, 2), 98.0, 97.0, 99.0)
    fill_programs(rows)
    (advice,) = advised(analysis("advise", "--all", "--origin", "measured", "--json"))
    top, (other,) = advice["top"], advice["worse"] + advice["unclear"] + advice["tied"]
    assert other["throughput"] == other["score"] == pytest.approx(66.7, rel=1e-3)
    assert other["throughput"] / top["throughput"] == pytest.approx(1 / other["ratio"])
    assert other["throughput"] == pytest.approx(
        (other["throughput_low"] * other["throughput_high"]) ** 0.5
    )
    shown = {one["trial_id"]: one["throughput"] for one in (top, other)}
    (scaling,) = json.loads(analysis("scaling", "--json").stdout)
    points = [point for curve in scaling["curves"] for point in curve["points"]]
    assert {one["trial_id"]: one["throughput"] for one in points} == shown
    (pair,) = json.loads(analysis("compare", "zero=2", "zero=0", "--json").stdout)["pairs"]
    assert pair["judgement"]["ratio"]["ratio"] == pytest.approx(
        pair["a"]["throughput"] / pair["b"]["throughput"]
    )


def test_a_missing_cell_is_proposed_as_a_command_of_the_same_program(analysis):
    left_out = program(8, 10, "none")
    fill_programs([one for one in grid() if one[0] != left_out])
    asked = ("advise", "--all", "--origin", "measured", "--json")
    proposed = advised(analysis(*asked))[0]["next_trials"]
    ((suggested,),) = [one["commands"] for one in proposed]
    specs = {spec.trial_id[:8]: spec for spec, _ in grid()}
    named, *changes = shlex.split(suggested)[2:]
    like = specs[named.removeprefix("from=")]
    assert changes.pop() == "sweep.repeats=3"
    assert with_changes(overrides(like, ()), changes) == overrides(left_out, ())


def test_a_value_beside_the_best_is_proposed(analysis):
    rows = [*grid(zeros=(0,), counts=(1, 2)), *around(program(2, 5, "cpu"), 100.0)]
    fill_programs(rows)
    proposed = advised(analysis("advise", "--all", "--origin", "measured", "--json"))[0][
        "next_trials"
    ]
    assert "offload=none zero=5 was not tried at all" in [one["why"] for one in proposed]


def test_the_compared_axis_is_the_strategy_and_others_are_the_setting(analysis):
    fill_programs(grid(zeros=(0, 2), counts=(1, 2), compare="axes.zero"))
    scalings = json.loads(analysis("scaling", "--json").stdout)
    assert [[curve["strategy"] for curve in one["curves"]] for one in scalings] == [
        ["zero=0", "zero=2"],
        ["zero=0", "zero=2"],
    ]
    assert [one["setting"]["axes.offload"] for one in scalings] == ["cpu", "none"]
    assert [
        one["work"]["axes.offload"]
        for one in advised(analysis("advise", "--all", "--origin", "measured", "--json"))
    ]


def with_algorithm(value: str | None, model: str = "train", **free: object) -> TrialSpec:
    """A trial that sets a variable beside free axes, or inherits it."""
    return program(model=model, free=free | ({"env.NCCL_ALGO": value} if value else {}))


def test_values_of_a_variable_beside_other_free_axes_are_rows_beside_them():
    """A bug: one table had rows zero=0, zero=0 NCCL_ALGO=Ring, zero=0 NCCL_ALGO=Tree, ..."""
    values = (None, "Ring", "Tree")
    fill_programs([(with_algorithm(one, zero=zero), 9.0) for one in values for zero in (0, 2)])
    (table,) = varied_tables(load(Selection(db="results.db")))
    assert table.rows_by == ("strategy",)
    assert table.columns_by == ("env.NCCL_ALGO",)
    assert table.rows == (("zero=0",), ("zero=2",))
    assert {value for (value,) in table.columns} == {None, "Ring", "Tree"}


def test_values_of_a_variable_that_is_the_only_free_axis_are_rows_of_one_table():
    """A bug: the row of trials that inherit it was called as the program is."""
    fill_programs([(with_algorithm(one), 9.0) for one in (None, "Ring", "Tree")])
    (table,) = varied_tables(load(Selection(db="results.db")))
    assert set(table.rows) == {
        ("NCCL_ALGO=inherited",),
        ("NCCL_ALGO=Ring",),
        ("NCCL_ALGO=Tree",),
    }


@pytest.mark.parametrize("asked", [["scaling", "--all"], ["advise"], ["advise", "--all"]])
def test_answers_name_what_is_inherited_as_tables_do(analysis, asked):
    """A bug: they called it `train`, or `train on 1, env.NCCL_ALGO inherited`."""
    fill_programs([(with_algorithm(one), 9.0) for one in (None, "Ring", "Tree")])
    shown = analysis(*asked).stdout
    assert "NCCL_ALGO=inherited" in shown
    assert "train on" not in shown
    assert "env.NCCL_ALGO" not in shown


def test_a_cell_that_inherits_a_variable_is_suggested_as_such(analysis):
    """A bug: the suggested trial kept the variable of the best one."""
    ring, tree = {"env.NCCL_ALGO": "Ring"}, {"env.NCCL_ALGO": "Tree"}
    of_one = [(program(num_gpus=1, free=free), 9.0) for free in (ring, tree, {})]
    of_two = [(program(num_gpus=2, free=free), 17.0) for free in (ring, tree)]
    fill_programs([*of_one, *of_two])
    shown = analysis("advise", "--all").stdout
    assert "NCCL_ALGO=inherited on 2 GPUs was not run, and might win" in shown
    assert f"from={program(num_gpus=1, free={}).trial_id[:8]} num_gpus=2" in shown


def test_programs_that_inherit_a_variable_share_a_row():
    """A bug: two rows, or columns, were called NCCL_ALGO=inherited, one per program."""
    specs = [with_algorithm(value, model) for model in ("a", "b") for value in (None, "Ring")]
    fill_programs([(spec, 9.0) for spec in specs])
    results = load(Selection(db="results.db"))
    strategies = [("NCCL_ALGO=Ring",), ("NCCL_ALGO=inherited",)]
    (down,) = pivot(results, ("strategy",), ("model",))
    assert (sorted(down.rows), len(down.cells)) == (strategies, 4)
    (across,) = pivot(results, ("model",), ("strategy",))
    assert (sorted(across.columns), len(across.cells)) == (strategies, 4)


def test_bare_names_of_free_axes_are_their_filters(analysis):
    fill_programs(grid(zeros=(0, 2), counts=(1, 2)))
    bare = analysis("compare", "zero=0", "zero=2", "offload=cpu", "num_gpus=2", "--json")
    full = analysis(
        "compare", "axes.zero=0", "axes.zero=2", "axes.offload=cpu", "num_gpus=2", "--json"
    )
    (pair,) = json.loads(bare.stdout)["pairs"]
    assert pair == json.loads(full.stdout)["pairs"][0]
    assert pair["a"]["name"] == "zero=0"


def test_a_slip_in_the_name_of_a_free_axis_gets_the_nearest(analysis):
    fill_programs(grid(zeros=(0,), counts=(1,)))
    ended = analysis("scaling", "zer=0")
    assert (ended.exit_code, ended.stderr) == (
        2,
        "scaling: zer: no such filter; did you mean zero?\n",
    )


def test_a_trial_timed_from_inside_is_no_row_of_tables(analysis):
    fill_programs([*around(program(2), 900.0), (program(2, takes_apart=True), None)])
    (table,) = varied_tables(load(Selection(db="results.db")))
    assert [result.throughput for result in table.results] == pytest.approx([900.0], rel=1e-4)
    for asked in ("scaling", "advise"):
        assert "takes_apart" not in analysis(asked).stdout


def test_numbers_of_other_items_are_refused_with_their_units(analysis):
    rows = [(program(), 900.0), (program(zero=2, item="samples"), 90.0)]
    for row, item in zip(rows, ("tokens", "samples"), strict=True):
        fill_programs([row], measured=SEEN_FROM_OUTSIDE | {"item": item}, name=item)
    ended = analysis("compare", "zero=0", "zero=2")
    assert "zero=0 is measured in tokens/s and zero=2 in samples/s, which are never" in ended.stderr


@pytest.mark.parametrize("asked", [["scaling"], ["scaling", "--all"], ["advise", "--all"]])
def test_a_number_that_the_program_reported_is_called_so(analysis, asked):
    fill_programs(grid(zeros=(0,), counts=(1, 2)), measured=REPORTED)
    assert "as reported by the program, whose steps were not timed: all" in analysis(*asked).stdout


def test_trials_of_ours_and_of_a_program_are_explained_beside_each_other(analysis):
    fill_gpus([*around(on_gpus(), 100.0), *around(program(), 900.0)])
    ended = analysis("explain", "--origin", "measured", "--json")
    assert [one["target"]["throughput"] for one in json.loads(ended.stdout)] == pytest.approx(
        [900.0, 100.0], rel=1e-4
    )
    of_filter = analysis("explain", "model=trivial", "--origin", "measured")
    assert (of_filter.exit_code, "takes_apart" in of_filter.stdout) == (0, False)


@pytest.mark.parametrize(
    ("packages", "said"),
    [
        ({"torch": "2.9.0", "numpy": "2.4.6"}, "Python 3.12.1 with PyTorch 2.9.0 installed"),
        (
            {"tensorflow": "2.21.0", "torch": "2.9.0"},
            "Python 3.12.1 with PyTorch 2.9.0 and TensorFlow 2.21.0 installed",
        ),
        ({"numpy": "2.4.6"}, "Python 3.12.1"),
    ],
)
def test_of_a_program_it_is_said_what_is_installed_and_not_what_it_uses(packages, said):
    """A bug: a program in an environment that has TensorFlow, too, was called TensorFlow's."""
    rows = around(program(), 900.0)
    environment = ENVIRONMENT | {"packages": packages | {"scalemark": "0.1.0"}}
    fill("results.db", rows, environment=environment, details=[SEEN_FROM_OUTSIDE] * len(rows))
    (versions,) = {one.environment.versions for one in load(Selection(db="results.db"))}
    assert versions == f"{said}, scalemark 0.1.0"


def test_another_commit_of_the_program_is_another_environment(snapshot):
    rows = around(program(), 900.0)
    changed = ENVIRONMENT | {"program": {"commit": "9d8e7f", "diff": "", "scripts": "77aa"}}
    for name, environment in (("first", ENVIRONMENT), ("second", changed)):
        fill(
            "results.db",
            rows,
            name=name,
            environment=environment,
            details=[SEEN_FROM_OUTSIDE] * len(rows),
        )
    found = load(Selection(db="results.db"))
    assert sorted(one.environment.versions for one in found) == snapshot


def test_repeats_that_contradict_each_other_are_in_the_unit_of_the_program(analysis):
    fill_programs([(program(), value) for value in (500.0, 501.0, 900.0)])
    assert (
        "contradict each other (500, 501 against 900 tokens/s)"
        in analysis("advise", "--all", "--origin", "measured").stdout
    )


def test_pairs_are_in_the_order_of_free_axes(analysis):
    """A bug: pairs of one program were in the order in which they had been run."""
    rows = [row for zero in (10, 2, 0) for row in around(program(1, zero, "cpu"), 100.0)]
    rows += [row for zero in (2, 10, 0) for row in around(program(1, zero, "none"), 120.0)]
    fill_programs(rows)
    pairs = json.loads(analysis("compare", "offload=cpu", "offload=none", "--json").stdout)["pairs"]
    assert [pair["setting"]["axes.zero"] for pair in pairs] == [0, 2, 10]


@pytest.mark.parametrize(
    ("losses", "is_said"),
    [
        ((2.0, 2.02, 2.6, 2.62), True),
        ((2.0, 2.6, 2.5, 2.1), False),
        ((2.0, 2.0, 2.01, 2.01), False),  # of one seed each, with other rounding
    ],
)
def test_a_faster_one_whose_loss_differs_beyond_its_repeats_is_told(analysis, losses, is_said):
    slower, faster = program(zero=0), program(zero=1)
    rows = [(slower, 10.0), (slower, 10.1), (faster, 20.0), (faster, 20.1)]
    details = []
    for loss in losses:
        steps = [replace(step, loss=loss) for step in STEPS]
        details.append(SEEN_FROM_OUTSIDE | {"last_loss": loss, "steps": steps})
    fill("results.db", rows, machine=GPU_BOX, environment=ENVIRONMENT, details=details)
    shown = analysis("compare", "zero=1", "zero=0", "--show", "loss").stdout
    assert f"{(losses[2] + losses[3]) / 2:.4g}" in shown
    said = "after 3 steps its loss is 2.61 and that of the other 2.01, which is more than their"
    assert (said in " ".join(shown.split())) == is_said


def test_a_number_that_no_program_printed_is_refused(analysis):
    trials = [program(command=f"python {name}.py {{zero}} {{offload}}") for name in ("a", "b")]
    details = [SEEN_FROM_OUTSIDE | {"last_loss": None}] * 2
    rows = [(trial, 10.0) for trial in trials]
    fill(
        "results.db",
        rows,
        machine=GPU_BOX,
        environment=ENVIRONMENT,
        details=details,
    )
    ended = analysis("compare", *(trial.trial_id for trial in trials), "--show", "loss")
    assert "--show loss: the trials compared lack it; they have throughput alone" in ended.stderr


def test_losses_that_are_read_in_different_ways_are_not_compared_in_silence(analysis):
    details, rows, trials = [], [], []
    for name, speed, loss in (("train", 20.0, 2.0), ("valid", 10.0, 2.6)):
        read = rf"regex:{name} loss (?P<loss>\S+) speed (?P<throughput>\S+)"
        trial = program(command=f"python {name}.py {{zero}} {{offload}}", read=read)
        for share in (1.0, 1.01):
            steps = [replace(step, loss=loss * share) for step in STEPS]
            details.append(SEEN_FROM_OUTSIDE | {"last_loss": loss * share, "steps": steps})
            rows.append((trial, speed * share))
        trials.append(trial.trial_id)
    fill("results.db", rows, machine=GPU_BOX, environment=ENVIRONMENT, details=details)
    shown = analysis("compare", *trials, "--show", "loss").stdout
    words = "A and B are read in different ways: check that loss means the same in both"
    assert words in " ".join(shown.split())
    (pair,) = json.loads(analysis("compare", *trials, "--json").stdout)["pairs"]
    assert pair["notes"] == []
    unknown = analysis("compare", *trials, "--show", "los").stderr
    assert "--show los: the trials compared lack it; they have loss" in unknown
    assert "check that it is the same loss" in shown


def counting_steps(*throughputs):
    rows = [one for num, of in enumerate(throughputs, 1) for one in around(program(num), of)]
    fill_programs(rows, measured=SEEN_FROM_OUTSIDE | {"item": "steps"})


def test_steps_on_more_gpus_tell_no_efficiency(analysis):
    """Of a program that keeps its batch per GPU, 2 GPUs of as many steps/s do twice the work."""
    counting_steps(100.0, 99.0)
    (scaling,) = json.loads(analysis("scaling", "--json").stdout)
    (curve,) = scaling["curves"]
    assert [point["efficiency"] for point in curve["points"]] == [None, None]
    assert [point["added_share"] for point in curve["points"]] == [None, None]
    assert curve["stops_paying"] is None
    for advice in advised(analysis("advise", "--all", "--origin", "measured", "--json")):
        assert advice["pick"]["num_gpus"] == advice["work"]["num_gpus"]
        assert advice["worse"] == advice["tied"] == []
        assert advice["next_trials"] == []


@pytest.mark.parametrize(
    "asked",
    [("scaling", "--all"), ("advise",), ("compare", "num_gpus=1", "num_gpus=2")],
    ids=" ".join,
)
def test_steps_on_several_numbers_of_gpus_say_how_items_are_counted(analysis, snapshot, asked):
    counting_steps(100.0, 150.0)
    ended = analysis(*asked)
    assert foreign_words(ended) == []
    assert ended.stdout == snapshot


def test_steps_on_one_number_of_gpus_need_no_caveat(analysis):
    rows = [*around(program(1, 0), 100.0), *around(program(1, 2), 150.0)]
    fill_programs(rows, measured=SEEN_FROM_OUTSIDE | {"item": "steps"})
    assert "counts steps" not in analysis("advise", "--all", "--origin", "measured").stdout


def test_a_program_without_axes_is_called_by_its_name(analysis, snapshot):
    rows = [*around(program(1, free={}), 100.0), *around(program(2, free={}), 190.0)]
    fill_programs(rows)
    assert analysis("advise", "--all", "--origin", "measured").stdout == snapshot
    assert analysis("scaling", "--all").stdout == snapshot


def two_versions():
    """The same trials with another commit of the program, which is a tenth faster."""
    for commit, throughput in (("3f2a1c", 100.0), ("9d8e7f", 110.0)):
        changed = ENVIRONMENT | {"program": {"commit": commit, "diff": "", "scripts": "77aa"}}
        rows = [*around(program(1, 0), throughput), *around(program(1, 2), 2 * throughput)]
        fill_programs(rows, name=f"of_{commit}", environment=changed)


def test_two_versions_of_a_program_are_told_apart_by_what_differs(analysis):
    """The sentence named sweeps alone, and the note said that something is not quite the same."""
    two_versions()
    asked = ("compare", "sweep=of_9d8e7f", "sweep=of_3f2a1c")
    first = json.loads(analysis(*asked, "--json").stdout)["pairs"][0]
    assert first["a"]["name"] == "sweep=of_9d8e7f (program commit 9d8e7f)"
    assert first["b"]["name"] == "sweep=of_3f2a1c (program commit 3f2a1c)"
    assert first["notes"] == [
        "different software: program commit 9d8e7f against program commit 3f2a1c; repeat each with its own"
    ]
    shown = analysis(*asked).stdout.splitlines()
    assert shown[0] == "A: sweep=of_9d8e7f (program commit 9d8e7f)"


def test_pairs_of_two_versions_say_of_which_they_are(analysis):
    two_versions()
    found = json.loads(analysis("compare", "zero=2", "zero=0", "--json").stdout)
    environments = [pair["setting"]["environment"] for pair in found["pairs"]]
    assert environments == ["program commit 3f2a1c", "program commit 9d8e7f"]
    shown = analysis("compare", "zero=2", "zero=0").stdout
    assert re.search(r"\ntrain +1  program commit 9d8e7f ", shown)


def test_steps_on_more_gpus_are_compared_as_steps(analysis):
    counting_steps(100.0, 150.0)
    shown = analysis("compare", "num_gpus=2", "num_gpus=1").stdout
    assert "num_gpus=2 does 1.50x [1.48, 1.52] the steps/s of num_gpus=1, over" in shown


@pytest.mark.parametrize(("on_4", "is_doubted"), [(395.0, False), (470.0, True)])
def test_a_speed_up_above_the_number_of_gpus_is_doubted(analysis, on_4, is_doubted):
    fill_programs([*around(program(), 100.0), *around(program(4), on_4)])
    for command in ("advise", "scaling"):
        assert ("superlinear: more than N times" in analysis(command).stdout) is is_doubted
