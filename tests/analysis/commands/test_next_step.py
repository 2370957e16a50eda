"""Advice goes on until nothing is worth a trial: what a sweep has left, suspect runs, repeats."""

import json
from itertools import takewhile

import pytest

from analysis.selection import Selection
from plots.report import compose
from plots.source import PlotSource
from scalemark.host.processes import this_process
from scalemark.records.measurement import Verdict
from tests.analysis.gpu_box import GPU_BOX, NCCL, PS, around, curve, fill_gpus, on_gpus, repeated
from tests.analysis.interrupted import interrupted
from tests.filled import NOON, fill
from tests.programs import SEEN_FROM_OUTSIDE, fill_programs, program
from tests.specs import small

SUSPECT = {"verdict": Verdict.SUSPECT}


def step(ended) -> str:
    """Return the next step as it is printed, with its commands."""
    assert ended.exit_code == 0, ended.stderr
    first, *rest = ended.stdout.partition("\nNext: ")[2].splitlines() or [""]
    return "\n".join([first, *takewhile(lambda line: line.startswith("  "), rest)])


def test_an_interrupted_sweep_is_unfinished_and_goes_on_first(analysis, snapshot):
    """A bug: it looked complete."""
    interrupted(2)
    ended = analysis("advise")
    assert ended.stdout == snapshot
    assert step(analysis("advise", "--all")) == step(ended)
    assert "unfinished" in analysis("advise", "--sweep", "night").stdout
    left = json.loads(analysis("advise", "--json").stdout)["not_run"]
    assert (left["num_trials"], left["num_asked_for"]) == (2, 4)


def test_a_sweep_is_finished_once_another_ran_what_it_had_left(analysis):
    interrupted(2)
    left = [(on_gpus(4, **PS), 390.0), (on_gpus(8, **PS), 700.0)]
    fill_gpus(left, name="second")
    for arguments in ((), ("--sweep", "night")):
        ended = analysis("advise", *arguments)
        assert "unfinished" not in ended.stdout
        assert "has left" not in step(ended)


def test_a_sweep_that_runs_is_unfinished_and_not_to_be_run(analysis):
    interrupted(2, running_by=this_process())
    ended = analysis("advise")
    assert "unfinished" in ended.stdout
    assert "has left" not in step(ended)


def test_an_interrupt_is_no_failure_of_a_trial_with_a_number(analysis):
    """A bug: the attempt that Ctrl-C ended was a doubt for ever."""
    interrupted(0)
    fill_gpus([(on_gpus(1, **PS), 100.0), (on_gpus(2, **PS), None)], name="second")
    whole = analysis("advise", "--all").stdout
    assert "failures" not in whole
    assert "interrupted" not in whole
    assert "1 of 2 choices brought no number, and cannot be judged (1 failed)" in whole


@pytest.mark.parametrize("command", ["advise", "explain"])
def test_advice_moves_on_from_what_stays_suspect(analysis, command):
    """A bug: on a busy machine one trial after the other was to be measured again."""
    alone = [(on_gpus(1, **PS), 100.0), (on_gpus(1, **NCCL), 100.0)]
    best, next_best = on_gpus(8, **PS), on_gpus(8, **NCCL)
    single = [*alone, (best, 400.0), (next_best, 350.0)]
    fill("results.db", single, machine=GPU_BOX, details=[SUSPECT] * 4)
    assert "again, for it is one suspect run:" in step(analysis(command))
    again = repeated(best, 330.0, 331.0, 332.0)
    fill("results.db", again, name="again", machine=GPU_BOX, details=[SUSPECT] * 3)
    ended = analysis(command, "--origin", "measured")
    assert step(ended)
    assert "again, for it is one suspect run" not in step(ended)


def test_repeats_that_contradict_each_other_are_asked_for_once(analysis):
    camps = (80.0, 81.0, 115.0, 80.5, 114.0, 116.0)
    for url, num in (("few.db", 3), ("many.db", 6)):
        rows = [
            *repeated(program(8, 0), *camps[:num]),
            *repeated(program(8, 2), *(0.93 * value for value in camps[:num])),
        ]
        fill_programs(rows, url)
    assert "while nothing else runs" in step(analysis("advise", "--db", "few.db"))
    assert step(analysis("advise", "--db", "many.db")).startswith("take any of them, ")


def test_the_likely_best_of_a_program_is_to_be_proven(analysis):
    """A bug: there was no next step, and --all had another word for it."""
    fill_programs([(program(8, 0), 100.0), (program(8, 2), 50.0)])
    ended = analysis("advise")
    assert "is probably fastest: " in ended.stdout
    assert step(ended).startswith("repeat the best and zero=2 on 8, 50.0% apart (")
    whole = analysis("advise", "--all")
    assert step(whole) == step(ended)


def test_where_the_best_was_repeated_only_the_other_is_said_to_be(analysis):
    fill_programs([*repeated(program(8, 0), 100.0, 101.0, 99.0), (program(8, 2), 85.0)])
    assert step(analysis("advise")).startswith("repeat zero=2 on 8, 15.0% behind the best (")


def test_the_report_of_an_interrupted_sweep_says_so():
    interrupted(2)
    selection = Selection(db="results.db", sweep="night")
    page = compose(PlotSource(selection=selection, command="plots report"), NOON)
    assert "The sweep is unfinished: 2 of 4 trials are left." in page.screen.headlines[0]


FILLED = {
    "of one model": [*curve([100.0, 190.0], **PS), *curve([98.0, 180.0], **NCCL)],
    "of two": [*curve([100.0, 190.0], **PS), *curve([98.0, 180.0], **NCCL, model="vgg16")],
    "single runs": [(on_gpus(8, **PS), 400.0), (on_gpus(8, **NCCL), 390.0)],
    "failures": [(on_gpus(8, **PS), None)],
}


@pytest.mark.parametrize("filled", FILLED.values(), ids=FILLED)
def test_all_names_the_same_next_step(analysis, filled):
    """A bug: --all named another one first."""
    fill_gpus(filled)
    whole = analysis("advise", "--all")
    assert step(whole) == step(analysis("advise"))
    (command, *_) = [
        one for one in step(whole).splitlines() if one.startswith(("  python", "  scalemark"))
    ]
    assert whole.stdout.count(f"{command}\n") == 1


def test_repeats_by_other_sweeps_are_counted_aloud(analysis):
    fill_gpus([(on_gpus(8, **PS), 400.0), (on_gpus(8, **NCCL), 300.0)])
    said = "measured by other sweeps: 3 of 5 repeats"
    assert said not in analysis("advise", "--sweep", "first").stdout
    fill_gpus(around(on_gpus(8, **PS), 390.0), name="second")
    for command in ("advise", "scaling", "explain", "conclusions"):
        assert said in analysis(command, "--sweep", "first").stdout
    sides = "strategy=ps_cpu", "strategy=replicated_nccl"
    assert said in analysis("compare", *sides, "--sweep", "first").stdout
    assert "measured by other sweeps" not in analysis("advise").stdout


def test_a_suspect_number_is_never_surely_the_best(analysis):
    """A bug: `suspect, sure`."""
    pairs = [(on_gpus(8, **PS), 400.0), (on_gpus(8, **PS), 401.0)]
    others = [(on_gpus(8, **NCCL), 300.0), (on_gpus(8, **NCCL), 301.0)]
    suspect = {"verdict": Verdict.SUSPECT}
    fill_gpus([*pairs, *others], details=[suspect, suspect, {}, {}])
    shown = analysis("advise").stdout
    assert "ps_cpu on 8 GPUs, batch_size 2, fp32 may be fastest: " in shown
    assert " Repeat before deciding: its verdict is suspect." in shown


def test_rows_of_one_model_are_told_apart_by_what_differs(analysis, snapshot):
    """A bug: two rows of gpt_mini looked the same."""
    tokens = {"model": "gpt_mini", "image_px": 0}
    rows = [
        (small(**tokens, seq_len=length, num_gpus=num, scaling=scaling), 100.0 * num / length)
        for length in (64, 128)
        for num in (1, 2)
        for scaling in ("weak", "strong")
    ]
    fill("results.db", [*rows, (small(num_gpus=2), 50.0)])
    table = analysis("advise").stdout.split("\n\n")[1]
    assert table == snapshot
    one_length = analysis("advise", "seq_len=64").stdout.split("\n\n")[1]
    cells = [line.partition("  ")[0] for line in one_length.splitlines()[1:]]
    assert len(set(cells)) == len(cells)


def test_axes_in_which_one_model_differs_are_not_those_of_others(analysis):
    """A bug: each row had the axes of all models."""
    batches = [curve([100.0, 190.0], **PS, batch_size=size, model="vgg16") for size in (2, 4)]
    fill_gpus([*batches[0], *batches[1], *curve([50.0, 90.0], **NCCL)])
    rows = analysis("explain").stdout.split("\n\n")[1].splitlines()
    names_batch = {line.split()[0]: "batch_size" in line for line in rows[1:]}
    assert names_batch == {"vgg16": True, "trivial": False}


@pytest.mark.parametrize(
    ("changes", "measured", "longer"),
    [
        ({}, {}, ""),
        ({"num_steps": 10}, {"throughput_low": None, "throughput_high": None}, "num_steps=40 "),
        ({"num_steps": 10}, {"throughput_low": 80.0, "throughput_high": 120.0}, "num_steps=40 "),
        ({"num_steps": 1}, {"throughput_low": None, "throughput_high": None}, "num_steps=9 "),
        ({"min_warm_up_steps": 2}, {"steady": False}, "min_warm_up_steps=8 "),
    ],
)
@pytest.mark.parametrize("command", ["advise", "explain"])
def test_a_run_that_was_too_short_is_longer_in_the_next_step(
    analysis, command, changes, measured, longer
):
    spec = small(**changes)
    fill("results.db", [(spec, 100.0)], details=[SUSPECT | measured])
    wanted = f"scalemark sweep from={spec.trial_id[:8]} {longer}sweep.repeats=3 sweep.rerun=true"
    assert wanted in " ".join(step(analysis(command)).replace("\\\n", "").split())


def test_a_program_that_was_too_short_runs_for_longer_where_it_takes_a_number_of_steps(analysis):
    short = SUSPECT | {"throughput_low": None, "throughput_high": None}
    for num_steps, longer in ((None, ""), (10, "num_steps=40 ")):
        given = {} if num_steps is None else {"num_steps": num_steps}
        spec = program(**given)
        url = f"{num_steps}.db"
        fill_programs([(spec, 100.0)], url, measured=SEEN_FROM_OUTSIDE | short)
        assert f"store.url={url} {longer}sweep.repeats=3" in step(analysis("advise", "--db", url))
