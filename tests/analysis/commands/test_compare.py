"""`scalemark compare` sets whole trials side by side, says how sure it is, and what would make it surer."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from functools import partial

import pytest

from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import Outcome, Verdict
from store.writer import Writer
from tests.analysis.commands.command import analysis
from tests.filled import ENVIRONMENT, MACHINE, begin, fill
from tests.programs import fill_programs, program
from tests.specs import small
from tests.tables import changing

PS = {"variable_update": "parameter_server", "local_parameter_device": "cpu"}
SIDES = ("strategy=ps_cpu", "strategy=replicated_none")


@pytest.fixture
def compare(capsys, monkeypatch):
    return partial(analysis, capsys, monkeypatch, "compare")


@pytest.fixture
def compared(compare):
    """What a script reads."""

    def run(*arguments):
        ended = compare(*arguments, "--json", "--db", "r.db")
        assert ended.exit_code == 0, ended.stderr
        return json.loads(ended.stdout)

    return run


def several(spec, *throughput):
    return [(spec, one) for one in throughput]


def test_repeats_without_a_number_are_noted(compare, compared):
    a, b = [*several(small(**PS), 50, 51, None, None)], [*several(small(), 100, 101, 99)]
    ways = [
        {"outcome": one}
        for one in (Outcome.FAILED, Outcome.FAILED, Outcome.HUNG, Outcome.OUT_OF_MEMORY)
    ]
    fill("r.db", [*a, *b], details=[*ways, {}, {}, {}])
    found = compared(*SIDES)
    assert found["pairs"][0]["a"]["failed"] == ["hung", "out_of_memory"]
    assert found["pairs"][0]["b"]["failed"] == []
    reported = compare(*SIDES, "--db", "r.db").stdout
    assert "repeats without a number, which are left out: " in reported
    assert " trivial ps_cpu on 1 (2 of 4: hung, out of memory)\n" in reported


def test_a_doubt_is_said_once_with_all_trials_that_have_it(compare):
    taken = ("others took 1.9 of 2 cores; stop them", "others took 1.8 of 2 cores; stop them")
    doubts = [{"verdict": Verdict.SUSPECT, "reasons": (reason,)} for reason in taken]
    fill("r.db", [(small(**PS), 50.0), (small(), 100.0)], details=doubts)
    lines = compare(*SIDES, "--db", "r.db").stdout.splitlines()
    (said,) = [line for line in lines if line.startswith("others took")]
    assert said.startswith("others took 1.9 of 2 cores, see scalemark show: ")
    assert said.count(" trivial ") == 2


def test_what_follows_from_a_precision_may_differ_where_nothing_is_equal(compared):
    single = small(precision="fp32", data_format="NCHW")
    half = small(precision="fp16", data_format="NHWC", loss_scale="dynamic")
    fill("r.db", [*several(single, 50, 51, 49), *several(half, 100, 101, 99)])
    (pair,) = compared("precision=fp32", "precision=fp16")["pairs"]
    assert list(pair["compared"]) == ["precision", "loss_scale", "data_format"]
    assert pair["words"].startswith("fp16 loss_scale=dynamic data_format=NHWC is 2.00x [")

    like_half = [
        small(precision="fp32", data_format="NHWC", loss_scale="dynamic", num_gpus=num)
        for num in (1, 2)
    ]
    fill("r.db", [pair for spec in like_half for pair in several(spec, 60, 61, 59)], name="second")
    found = compared("precision=fp32", "precision=fp16")
    (pair,) = found["pairs"]
    assert list(pair["compared"]) == ["precision"]
    assert len(found["only_a"]) == 2


def test_each_setting_is_a_pair_of_its_own(compared):
    fill(
        "r.db",
        [
            *several(small(**PS), 50, 51, 49),
            *several(small(), 100, 101, 99),
            *several(small(num_gpus=2, **PS), 99, 101, 100),
            *several(small(num_gpus=2), 100, 99, 101.5),
        ],
    )
    on_1, on_2 = compared(*SIDES)["pairs"]
    assert (on_1["setting"], on_1["answer"]) == ({"model": "trivial", "num_gpus": 1}, "different")
    assert on_1["judgement"]["ratio"]["ratio"] == pytest.approx(0.5, rel=0.01)
    assert (on_2["setting"]["num_gpus"], on_2["answer"]) == (2, "tie")
    assert [side["repeats"] for side in (on_2["a"], on_2["b"])] == [
        [99, 101, 100],
        [100, 99, 101.5],
    ]


def test_an_answer_a_table_and_commands(compare, snapshot):
    fill("r.db", [*several(small(**PS), 97, 99, 98), *several(small(), 100, 101, 99)])
    ended = compare(*SIDES, "--db", "r.db")
    assert ended.stdout == snapshot


@pytest.mark.parametrize(
    ("repeats", "word"), [((95.0, 102.0, 99.0), "tie"), ((90.0, 115.0, 91.0), "noisy")]
)
def test_tie_and_noisy_mean_the_same_in_compare_advise_and_tables(
    capsys, monkeypatch, compare, repeats, word
):
    fill("r.db", [*several(small(**PS), *repeats), *several(small(), 100, 101, 102)])
    line = compare(*SIDES, "--db", "r.db").stdout.splitlines()[5]
    assert line.endswith(f" {word}")
    advised = analysis(capsys, monkeypatch, "advise", "--db", "r.db").stdout
    (row,) = [row for row in advised.splitlines() if row.startswith("ps_cpu on 1")]
    assert row.endswith(f"  {word}")
    assert ("may be as good" in advised, "ties with" in advised) == (word != "tie", word == "tie")
    table = analysis(capsys, monkeypatch, "table", "--db", "r.db").stdout
    assert ("≈" in table) is (word == "tie")


def test_what_badges_mean_fits_the_columns_that_are_asked_for(compare, monkeypatch):
    fill("r.db", [(small(), 100.0), (small(**PS), 101.0)])
    (line,) = _meanings(compare(*SIDES, "--db", "r.db").stdout)
    monkeypatch.setenv("COLUMNS", "40")
    lines = _meanings(compare(*SIDES, "--db", "r.db").stdout)
    assert " ".join(lines) == line
    assert max(map(len, lines)) <= 40


def _meanings(stdout: str) -> list[str]:
    lines = stdout.splitlines()
    return lines[next(at for at, line in enumerate(lines) if line.startswith("single run: ")) :]


def test_programs_have_short_names_and_the_first_commands_are_named(compare):
    read = "regex:step (?P<step>\\d+): (?P<throughput>[\\d.]+) samples/s"
    trials = [
        program(num_gpus, zero, command=f"python {file} {{zero}}", read=read.replace("step ", file))
        for file in ("old.py", "new.py")
        for num_gpus in (1, 2)
        for zero in (0, 1)
    ]
    fill_programs([(spec, 100.0 + spec.num_gpus) for spec in trials], "r.db")
    ended = compare("zero=0", "zero=1", "--db", "r.db")
    table = [line for line in ended.stdout.splitlines() if line.startswith("train ")]
    assert len(table) == 4
    assert all("program " in line and "python " not in line for line in table)
    assert max(map(len, table)) < 150
    assert ended.stdout.count("scalemark sweep from=") == 2
    assert "and 6 more commands: --json has them" in ended.stdout


def test_the_faster_side_is_reported_first(compare):
    fill("r.db", [*several(small(**PS), 50, 51, 49), *several(small(), 100, 101, 99)])
    reported = compare(*SIDES, "--db", "r.db").stdout
    assert (
        "trivial, num_gpus 1: replicated_none is 2.00x [1.92, 2.08] as fast as ps_cpu, over 3 repeats each."
        in reported
    )
    assert "B faster" in reported


def test_one_repeat_is_never_a_verdict(compare, compared):
    fill("r.db", [(small(**PS), 50.0), (small(), 100.0)])
    (pair,) = compared(*SIDES)["pairs"]
    assert pair["answer"] == "not conclusive"
    assert pair["words"] == "ps_cpu is 0.500x as fast as replicated_none in a single run"
    assert [text.rsplit(" ", 1)[1] for text in pair["to_run"]] == ["sweep.repeats=3"] * 2
    assert "in a single run. Repeat both before deciding." in compare(*SIDES, "--db", "r.db").stdout


def test_contradictory_repeats_are_not_conclusive(compared):
    fill("r.db", [*several(small(**PS), 100, 60, 101), *several(small(), 100, 99)])
    (pair,) = compared(*SIDES)["pairs"]
    assert pair["answer"] == "not conclusive"
    assert "the repeats of A contradict each other: 60.0 against 100, 101 images/s" in pair["words"]
    assert pair["to_run"] == []


def test_a_side_without_a_number_says_how_it_ended(compared):
    fill(
        "r.db",
        [(small(**PS), None), (small(), 100.0)],
        details=[{"outcome": Outcome.OUT_OF_MEMORY}, {}],
    )
    (pair,) = compared(*SIDES)["pairs"]
    assert (pair["answer"], pair["judgement"]) == (None, None)
    assert pair["words"] == "nothing to compare: ps_cpu has no number (out of memory)"


def test_trials_without_a_counterpart_are_listed(compared):
    fill("r.db", [(small(**PS), 50.0), (small(), 100.0), (small(num_gpus=4), 300.0)])
    found = compared(*SIDES)
    assert found["only_a"] == []
    assert [one["num_gpus"] for one in found["only_b"]] == [4]


def test_other_filters_choose_on_both_sides(compared):
    fill(
        "r.db",
        [
            (small(**PS), 50.0),
            (small(), 100.0),
            (small(num_gpus=4), 300.0),
            (small(num_gpus=4, **PS), 300.0),
        ],
    )
    assert [pair["setting"]["num_gpus"] for pair in compared(*SIDES, "num_gpus=4")["pairs"]] == [4]


def test_several_axes_may_differ_where_a_side_names_them(compared):
    fill("r.db", [(small(batch_size=8, **PS), 50.0), (small(batch_size=4), 100.0)])
    (pair,) = compared("strategy=ps_cpu batch_size=8", "strategy=replicated_none batch_size=4")[
        "pairs"
    ]
    assert (pair["a"]["name"], pair["b"]["name"]) == (
        "ps_cpu batch_size=8",
        "replicated_none batch_size=4",
    )


def test_a_side_is_named_by_what_its_filters_leave_open(compare):
    """A bug: trials of another strategy were called `precision=fp32`."""
    fill("r.db", [(small(**PS), 50.0), (small(), 100.0)])
    lines = compare("strategy=ps_cpu", "precision=fp32", "--db", "r.db").stdout.splitlines()
    assert lines[:2] == ["A: strategy=ps_cpu", "B: precision=fp32 (replicated_none)"]


def test_gpu_counts_of_strong_scaling_share_the_batch_of_all(compared):
    fill(
        "r.db",
        [
            (small(scaling="strong", batch_size=8), 50.0),
            (small(scaling="strong", num_gpus=2, batch_size=4), 100.0),
        ],
    )
    (pair,) = compared("num_gpus=1", "num_gpus=2")["pairs"]
    assert pair["b"]["throughput"] == 100.0


def test_trials_and_attempts_are_named_by_what_store_list_shows(compared):
    fill("r.db", [*several(small(), 100, 101), *several(small(xla="on", batch_size=4), 150, 151)])
    (by_trial,) = compared(small().trial_id[:9], small(xla="on", batch_size=4).trial_id[:9])[
        "pairs"
    ]
    assert set(by_trial["compared"]) == {"xla", "batch_size"}
    (by_attempt,) = compared("1", "attempt=4")["pairs"]
    assert (by_attempt["a"]["attempts"], by_attempt["b"]["attempts"]) == ([1], [4])


def test_two_sweeps_are_compared_trial_by_trial(compared):
    newer = ENVIRONMENT | {"packages": ENVIRONMENT["packages"] | {"tensorflow": "2.22.0"}}
    fill("r.db", several(small(), 100, 101), name="a")
    fill("r.db", several(small(), 120, 121), name="b", environment=newer)
    for sides in (("sweep=a", "sweep=b"), ("a", "b")):
        (pair,) = compared(*sides)["pairs"]
        assert (pair["answer"], pair["compared"]) == ("different", {})
        assert "different software" in pair["notes"][0]


def test_two_sweeps_that_differ_in_two_axes_are_refused_with_both(compare):
    fill("r.db", several(small(), 100, 101), name="a")
    fill("r.db", several(small(batch_size=4, precision="bf16"), 100, 101), name="b")
    ended = compare("sweep=a", "sweep=b", "--db", "r.db")
    assert ended.exit_code == 2
    assert "the closest differ in precision (A fp32, B bf16), batch_size (A 2, B 4)" in (
        " ".join(ended.stderr.split())
    )


@pytest.fixture
def two_machines():
    fill("r.db", several(small(), 100, 101), name="a")
    fill(
        "r.db", several(small(**PS), 120, 121), name="b", machine=replace(MACHINE, host="otherbox")
    )


def test_two_machines_are_compared_where_the_sides_name_them(compared, two_machines):
    (pair,) = compared("host=testbox strategy=replicated_none", "host=otherbox strategy=ps_cpu")[
        "pairs"
    ]
    assert pair["notes"][0].startswith("different machines: testbox: ")


@pytest.mark.parametrize(
    ("changes", "compared_axes"),
    [
        (PS, ["local_parameter_device", "strategy", "variable_update"]),
        ({"batch_size": 8}, ["batch_size"]),
    ],
)
def test_two_sweeps_that_differ_in_one_axis_are_compared_by_it(compared, changes, compared_axes):
    for name, axes in (("a", {}), ("b", changes)):
        fill("r.db", [(small(num_gpus=num, **axes), 50.0 * num) for num in (1, 2)], name=name)
    pairs = compared("sweep=a", "sweep=b")["pairs"]
    assert [pair["setting"]["num_gpus"] for pair in pairs] == [1, 2]
    assert sorted(pairs[0]["compared"]) == compared_axes


def test_the_axis_in_which_two_sweeps_differ_is_said(compare, compared):
    for name, axes in (("a", {}), ("b", {"precision": "fp16", "loss_scale": "dynamic"})):
        fill("r.db", [(small(num_gpus=num, **axes), 50.0 * num) for num in (1, 2)], name=name)
    lines = compare("sweep=a", "sweep=b", "--db", "r.db").stdout.splitlines()
    assert lines[2] == "The sweeps differ in precision, and are compared by it."
    assert compared("sweep=a", "sweep=b")["compared_by"] == "precision"
    assert compared("precision=fp32", "precision=fp16")["compared_by"] == ""


def test_a_sweep_that_found_its_trials_measured_is_compared_by_them(compared):
    fill("r.db", [(small(num_gpus=num), 50.0 * num) for num in (1, 2)], name="a")
    fill("r.db", [(small(num_gpus=2, batch_size=8), 120.0)], name="b")
    begin(Writer("r.db"), {small(num_gpus=2): 1}, name="again")
    answer = compared("sweep=again", "sweep=b")
    assert [pair["a"]["throughput"] for pair in answer["pairs"]] == [100.0]
    assert answer["compared_by"] == "batch_size"


def test_two_machines_are_not_compared_by_accident(compare, two_machines):
    ended = compare("strategy=replicated_none", "strategy=ps_cpu", "--db", "r.db")
    assert ended.exit_code == 2
    assert ended.stderr.startswith("compare: different machines: testbox: ")
    assert (
        "name the two as 'host=testbox strategy=replicated_none' and 'host=otherbox strategy=ps_cpu'"
        in ended.stderr
    )


def test_other_software_is_not_compared_by_accident(compare):
    newer = ENVIRONMENT | {"packages": ENVIRONMENT["packages"] | {"tensorflow": "2.22.0"}}
    fill("r.db", [(small(), 100.0)])
    fill("r.db", [(small(**PS), 100.0)], name="b", environment=newer)
    ended = compare(*SIDES, "--db", "r.db")
    assert ended.exit_code == 2
    assert "different software: " in ended.stderr
    assert "with host=, software_key=, sweep= or shares_host= on both sides" in ended.stderr


def test_a_side_that_shared_its_host_is_noted_once(compared):
    """A bug: another note said that the machine or its software is not quite the same."""
    fill("r.db", [*several(small(), 100, 101), *several(small(**PS), 80, 81)])
    with closing(sqlite3.connect("r.db")) as connection, connection:
        connection.execute("UPDATE attempts SET shares_host = true WHERE id > 2")
    sides = ("shares_host=false strategy=replicated_none", "shares_host=true strategy=ps_cpu")
    (pair,) = compared(*sides)["pairs"]
    notes = [note for note in pair["notes"] if "host" in note or "machine" in note]
    assert notes == ["B shared its host with other trials, A did not"]


@pytest.mark.parametrize(
    ("sides", "message"),
    [
        (("strategy=ps_cpu", "strategy=ps_cpu"), "strategy=ps_cpu on both sides: nothing to compare; name what differs"),
        (("strategy=replicated_none", "all_reduce=none num_gpus=1"), "the same attempts on both sides; name what differs"),
        (("strategy=replicated_none", "strategy=ps_gpu"), "B: r.db: no attempt is like strategy=ps_gpu; did you mean strategy=ps_cpu? see scalemark list"),
        (("strategi=ps_cpu", "strategy=ps_gpu"), "strategi: no such filter; did you mean strategy?"),
        (("ffff", "strategy=ps_gpu"), "ffff: no attempt, trial or sweep"),
        (("strategy=replicated_none", "strategy=ps_cpu"), "no setting in common; the closest differ in batch_size (A 2, B 16): name it on both sides, as 'strategy=replicated_none batch_size=2' 'strategy=ps_cpu batch_size=16', or run the rest"),
        ((*SIDES, "--origin", "published"), "published figures have no repeats to compare by"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_refused_with_the_way_out(compare, sides, message):
    fill("r.db", [(small(), 100.0), (small(batch_size=16, **PS), 100.0)])
    ended = compare(*sides, "--db", "r.db")
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert message in ended.stderr


def test_strong_scaling_is_refused_by_the_batch_of_all_gpus(compare):
    trials = [small(scaling="strong", batch_size=32, num_gpus=num_gpus) for num_gpus in (4, 8)]
    fill("r.db", [(trial, 100.0) for trial in trials])
    ended = compare("num_gpus=4", "num_gpus=8", "--db", "r.db")
    assert "the closest differ in batch_size (A 128 in all, B 256 in all): run more" in ended.stderr


SIMULATED = small(device_kind=DeviceKind.SIMULATED_GPU, num_gpus=2)


def test_simulated_trials_are_compared_with_each_other_and_called_so(compared):
    both = [*several(SIMULATED, 100, 101), *several(replace(SIMULATED, **PS), 50, 51)]
    fill("r.db", both)
    found = compared(*SIDES)
    assert [pair["a"]["origin"] for pair in found["pairs"]] == ["simulated"]
    assert any(note.startswith("simulated GPUs: ") for note in found["notes"])


def test_commands_for_simulated_trials_name_them(compared):
    fill(
        "r.db",
        [
            *several(SIMULATED, 100, 101),
            *several(replace(SIMULATED, **PS), 99, 101),
            (replace(SIMULATED, num_gpus=4), 150.0),
        ],
    )
    found = compared(*SIDES)
    (pair,) = found["pairs"]
    assert pair["answer"] == "tie"
    assert f"from={found['only_b'][0]['trial_id'][:8]}" in found["only_b"][0]["command"]


def test_axes_that_a_model_implies_are_not_shown_and_models_stand_together(compared):
    other = {"model": "vgg16", "learning_rate": 0.5}
    fill(
        "r.db",
        [
            (small(num_gpus=2), 9.0),
            (small(**other), 9.0),
            (small(), 9.0),
            *((small(**PS, **one), 9.0) for one in (other, {}, {"num_gpus": 2})),
        ],
    )
    reported = [pair["setting"] for pair in compared(*SIDES)["pairs"]]
    assert reported == [
        {"model": "trivial", "num_gpus": 1},
        {"model": "trivial", "num_gpus": 2},
        {"model": "vgg16", "num_gpus": 1},
    ]


def test_simulated_trials_are_never_compared_with_measured_ones(compare, snapshot):
    fill("r.db", several(SIMULATED, 100, 101))
    fill("r.db", several(small(num_gpus=2, **PS), 50, 51), name="second")
    ended = compare("strategy=replicated_none", "strategy=ps_cpu", "--db", "r.db")
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr == snapshot


def test_measured_trials_are_taken_where_there_are_simulated_ones_too(compared):
    fill("r.db", [*several(SIMULATED, 100, 101), *several(replace(SIMULATED, **PS), 50, 51)])
    fill("r.db", [*several(small(), 10, 11), *several(small(**PS), 5, 6)], name="second")
    assert [pair["a"]["origin"] for pair in compared(*SIDES)["pairs"]] == ["measured"]
    assert [pair["a"]["origin"] for pair in compared(*SIDES, "--origin", "simulated")["pairs"]] == [
        "simulated"
    ]


def test_tokens_are_never_compared_with_images(compare):
    fill("r.db", [(small(**PS), 50.0), (small(), 100.0)])
    with changing("r.db") as connection:
        connection.exec_driver_sql("UPDATE measurements SET item = 'tokens' WHERE attempt_id = 2")
    ended = compare(*SIDES, "--db", "r.db")
    assert ended.exit_code == 2
    reported = " ".join(ended.stderr.split())
    assert (
        "strategy=ps_cpu is measured in images/s and strategy=replicated_none in tokens/s, which "
        "are never compared: choose trials that count the same"
    ) in reported


def test_a_side_that_matches_nothing_of_any_origin_is_the_one_blamed(compare):
    fill("r.db", several(replace(SIMULATED, **PS), 50, 51))
    ended = compare("strategy=ps_cpu", "strategy=ps_gpuu", "--db", "r.db")
    assert ended.exit_code == 2
    assert ended.stderr.startswith("compare: B: ")
    assert "both sides must be measured" not in ended.stderr


def test_the_side_without_measured_numbers_is_the_one_blamed(compare):
    fill("r.db", several(SIMULATED, 100, 101))
    fill("r.db", several(small(num_gpus=2, **PS), 50, 51), name="second")
    ended = compare("strategy=ps_cpu", "strategy=replicated_none", "--db", "r.db")
    assert ended.stderr.startswith("compare: B: r.db: only simulated numbers are like")
    assert "both sides must be measured" in ended.stderr


def test_a_free_axis_is_a_filter_among_others(compared):
    fill("r.db", [(small(free=(("lr", 0.1),)), 50.0), (small(free=(("lr", 0.2),)), 100.0)])
    found = compared("host=testbox axes.lr=0.1", "host=testbox axes.lr=0.2")
    assert len(found["pairs"]) == 1


def test_the_column_of_ratios_has_one_direction_whichever_side_is_faster(compare):
    fill("results.db", [(small(**axes), speed) for axes, speed in SLOW_AND_FAST])
    for sides in (("fp32", "fp16"), ("fp16", "fp32")):
        ended = compare(*(f"precision={side}" for side in sides)).stdout
        assert "fp16 is 2.80x" in ended
        ratio = "  0.357 [" if sides[0] == "fp32" else "  2.80 ["
        assert "A / B [95 % CI]" in ended
        assert ratio in ended


SLOW_AND_FAST = [
    ({"precision": precision}, speed * by)
    for precision, speed in (("fp32", 100.0), ("fp16", 280.0))
    for by in (1.0, 1.001)
]
