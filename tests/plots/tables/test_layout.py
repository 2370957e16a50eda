"""What stands in cells and below tables: numbers, marks, symbols with their legend, baselines by name."""

import json
from dataclasses import replace

import pytest

from analysis.measured import measured
from analysis.pivot import RowRank, pivot
from analysis.results import BaselineRule
from analysis.selection import Selection, load
from plots.layout import SYMBOLS, document, lay_out
from scalemark.records.measurement import Outcome
from scalemark.stats.welch import Spread
from store.database import open_for_reading
from store.reading import queries
from store.writer import Writer
from sweeper.early_stopping.rule import Contender, rule_race
from tests.filled import ENVIRONMENT, MACHINE, NOON, PLACEMENT, attempt, begin, fill
from tests.specs import small
from tests.tables import asked, changing

PS = {"variable_update": "parameter_server", "local_parameter_device": "cpu"}

SHOW = "scalemark show --db r.db"


def laid_out(entries=(), rule=BaselineRule.SAME, show=None, **options):
    if entries:
        fill("r.db", list(entries), **options)
    (table,) = pivot(measured(asked(queries.measured, open_for_reading("r.db")), rule))
    return lay_out(table, Selection(db="r.db", baseline=rule), show)


def texts(layout):
    return {", ".join(heads): [cell.text for cell in cells] for heads, cells in layout.rows}


def notes(layout):
    return "\n".join(layout.notes)


def repeated(spec, *speeds):
    return [(spec, speed) for speed in speeds]


ON_1, ON_2, PS_ON_2 = small(), small(num_gpus=2), small(num_gpus=2, **PS)
USED = {
    "mfu": 0.3125,
    "peak_host_memory_bytes": 900 * 2**20,
    "variable_bytes": 25 * 2**20,
    "optimizer_state_bytes": 2**19,
}
ON_A_GPU = USED | {"peak_device_memory_bytes": 2**30}
OF_DEVICES = ("mfu", "memory", "variables", "optimizer-state")
LAYOUTS = {  # entries, and what else is given
    "speed-up against a named baseline": (
        [(ON_1, 100.0), (ON_2, 180.0), (small(**PS), 90.0)],
        {},
    ),
    "repeats bring an interval and ties": (
        [
            *repeated(ON_1, 100.0, 102.0, 101.0, 101.0),
            *repeated(small(**PS), 99.0, 103.0, 100.0, 101.0),
        ],
        {},
    ),
    "few repeats are shown as runs": (
        repeated(ON_1, 159.0, 435.0) + repeated(ON_2, 100.0, 400.0, 100.0, 400.0),
        {"show": ("throughput", "interval")},
    ),
    "single runs": ([(ON_1, 100.0), (small(**PS), 90.0)], {}),
    "use of devices": (
        [(ON_1, 100.0), (ON_2, 9.0)],
        {
            "show": OF_DEVICES,
            "details": [USED, USED | {"mfu": 0.0012345, "variable_bytes": 2**30}],
        },
    ),
    "mean utilization and most bytes of repeats": (
        repeated(ON_1, 100.0, 160.0),
        {
            "show": OF_DEVICES,
            "details": [USED, USED | {"mfu": 0.5, "variable_bytes": 26 * 2**20}],
        },
    ),
    "memory of a GPU": ([(ON_1, 100.0)], {"show": ("memory",), "details": [ON_A_GPU]}),
    "what a repeat does not tell is unknown": (
        repeated(ON_1, 100.0, 160.0),
        {"show": OF_DEVICES, "details": [USED, dict.fromkeys(USED)]},
    ),
    "utilization of 0 is unknown": (
        repeated(ON_1, 100.0, 160.0),
        {"show": ("mfu",), "details": [USED, USED | {"mfu": 0.0}]},
    ),
    "some repeats failed": (
        [(ON_1, 100.0), (ON_1, None), (ON_2, 150.0)],
        {"details": [{}, {"outcome": Outcome.OUT_OF_MEMORY}, {}]},
    ),
    "a missing baseline": ([(ON_1, 100.0), (PS_ON_2, 150.0)], {}),
    "the fastest on 1": ([(ON_1, 100.0), (PS_ON_2, 150.0)], {"rule": BaselineRule.BEST}),
    "the fewest": ([(ON_1, 100.0), (PS_ON_2, 150.0)], {"rule": BaselineRule.FEWEST}),
    "a strategy that cannot run on 1": (
        [(ON_1, 100.0), (small(**PS), 50.0), (small(variable_update="sharded", num_gpus=2), 150.0)],
        {},
    ),
    "nothing on 1": ([(ON_2, 100.0)], {}),
    "a throughput of 0 is no number": ([(ON_1, 0.0), (ON_2, 10.0)], {}),
}


@pytest.mark.parametrize("case", LAYOUTS)
def test_a_table_says_in_cells_legend_and_notes(case, snapshot):
    entries, given = LAYOUTS[case]
    layout = laid_out(entries, **given)
    lines = [" | ".join([*layout.heads, *layout.columns])]
    for heads, cells in layout.rows:
        lines.append(" | ".join([*heads, *(cell.text for cell in cells)]))
    short = [cell.short for _, cells in layout.rows for cell in cells]
    lines += [f"short: {' | '.join(short)}", *layout.legend, *layout.notes]
    assert "\n".join(lines) == snapshot


def test_who_was_put_out_of_a_race_is_marked_so_and_not_as_a_tie():
    """Its two repeats alone are too few; a sweep that ran it without racing later lifts the mark."""
    entries = [
        (small(), 1101.0),
        (small(), 1105.0),
        (small(), 1100.0),
        (small(**PS), 990.0),
        (small(**PS), 1050.0),
    ]
    fill("r.db", entries)
    assert {name: cells[0].rank for (name,), cells in laid_out_from_file().rows} == {
        "ps_cpu": RowRank.TIE,
        "replicated_none": RowRank.BEST,
    }
    ruling = rule_race(
        [contender("a", 1101.0, 1105.0), contender("b", 990.0, 1050.0)],
        Spread(squares=0.006, freedom=60),
        5,
    )
    writer = Writer("r.db")
    raced = begin(writer, {small(**PS): 3}, name="race", rerun=True)
    raced.skip([repeat.repeat_id for repeat in raced.open_repeats()], ruling.out["b"])
    raced.end(NOON, finished=True)
    writer.close()
    layout = laid_out_from_file()
    assert texts(layout)["ps_cpu"][0].startswith("1020 ↓ (990 to 1050, n=2)")
    assert not layout.rows[0][1][0].is_bold
    assert layout.legend[0] == "↓ a race stopped it: it was unlikely to win"
    fill("r.db", [(small(**PS), 1090.0)], name="later")
    assert texts(laid_out_from_file())["ps_cpu"][0].startswith("1043 ≈ (990 to 1090, n=3)")


def laid_out_from_file():
    """As a command reads it."""
    (table,) = pivot(load(Selection(db="r.db")))
    return lay_out(table, Selection(db="r.db"))


def contender(name, *speeds):
    return Contender(trial_id=name, name=name, speeds=speeds, num_left=5 - len(speeds))


@pytest.mark.parametrize(
    ("show", "text"),
    [
        (("throughput",), "200"),
        (
            (
                "throughput",
                "interval",
                "speed-up",
                "efficiency",
                "repeats",
                "ms/step",
                "per-device",
            ),
            "200 (1.60x, 80.0 %, n=1, 20.0 ms, 100/CPU device)",
        ),
        (("efficiency",), "80.0 %"),
        (("ms/step", "repeats"), "20.0 ms, n=1"),
    ],
)
def test_other_quantities_can_stand_in_cells(show, text):
    layout = laid_out([(small(), 125.0), (small(num_gpus=2), 200.0)], show=show)
    assert texts(layout)["replicated_none"][1] == text


def test_each_reason_that_utilization_is_unknown_is_told_once(snapshot):
    own = small(model="my_model.py:build")
    fill(
        "r.db", [(one, 9.0) for one in (small(), small(num_gpus=2), own, replace(own, num_gpus=2))]
    )
    results = measured(asked(queries.measured, open_for_reading("r.db")))
    (table,) = pivot(results, ("model",), ("num_gpus",))
    notes = lay_out(table, Selection(db="r.db"), ("mfu",)).notes
    assert [line for line in notes if "unknown" in line] == snapshot


@pytest.mark.integration
@pytest.mark.parametrize(
    ("outcome", "symbol"),
    [(outcome, symbol) for outcome, symbol in SYMBOLS.items() if outcome is not Outcome.INVALID],
)
def test_failures_are_symbols_with_a_legend_and_a_command(outcome, symbol):
    from store.writer import Writer

    writer = Writer("r.db")
    ledger = begin(writer, {small(): 1})
    (repeat,) = ledger.open_repeats()
    ledger.claim(repeat)
    number = ledger.run(repeat, "/runs/x", PLACEMENT, NOON)
    ledger.finish(repeat.repeat_id, attempt(small(), None, number=number, outcome=outcome))
    ledger.end(NOON, finished=True)
    writer.close()
    layout = laid_out()
    assert texts(layout) == {"replicated_none": [symbol]}
    assert [line.partition(":")[0] for line in layout.legend] == ["CPU devices", symbol]
    assert f"no number: {SHOW} 1 says what happened" in layout.notes
    assert "cells:" not in notes(layout)


def test_every_outcome_but_completed_has_a_symbol():
    assert set(SYMBOLS) == set(Outcome) - {Outcome.COMPLETED}


def suspect(reasons, *attempts):
    with changing("r.db") as connection:
        for attempt_id in attempts:
            connection.exec_driver_sql(
                "UPDATE measurements SET verdict = 'suspect', verdict_reasons = ?"
                " WHERE attempt_id = ?",
                (json.dumps(reasons), attempt_id),
            )


def test_a_doubt_about_one_number_is_marked_and_explained_below():
    fill("r.db", [(small(), 100.0), (small(), 101.0), (small(num_gpus=2), 150.0)])
    suspect(["steps drift"], 1, 2)
    found = document(pivot(load(Selection(db="r.db"))), Selection(db="r.db"), ("throughput",))
    assert texts(found.tables[0]) == {"replicated_none": ["100*", "150"]}
    assert f"* steps drift: see {SHOW} 1" in found.tables[0].notes
    assert found.doubts == ()


def test_a_speed_up_over_a_doubted_baseline_is_marked_and_explained():
    """A bug: 4.97x over a number in doubt looked sure, also where a filter left that number out."""
    fill("r.db", [(small(), 7.31), (small(num_gpus=4), 36.3)])
    suspect(["steps became 60 % faster"], 1)
    alone = Selection(db="r.db", filters=("num_gpus=4",))
    marked = "* steps became 60 % faster: see scalemark show --db r.db 1"
    for selection, last in ((Selection(db="r.db"), "4.97x*"), (alone, "36.3 (4.97x*)")):
        found = document(pivot(load(selection)), selection, as_curves=selection is not alone)
        (table,) = found.tables
        ((_, cells), *_) = table.rows[-1:]
        assert last in [cell.text for cell in cells]
        assert marked in table.notes
        assert "* superlinear: " in table.notes[-1]


def test_a_speed_up_over_itself_and_one_of_sure_numbers_have_no_mark():
    fill("r.db", [(small(), 100.0), (small(num_gpus=2), 150.0), (small(num_gpus=4), 250.0)])
    suspect(["steps drift"], 1)
    found = document(pivot(load(Selection(db="r.db"))), Selection(db="r.db"), as_curves=False)
    assert texts(found.tables[0]) == {
        "replicated_none": ["100* (1.00x)", "150 (1.50x*)", "250 (2.50x*)"]
    }
    with changing("r.db") as connection:
        connection.exec_driver_sql(
            "UPDATE measurements SET verdict_reasons = '[]', verdict = 'valid'"
        )
    found = document(pivot(load(Selection(db="r.db"))), Selection(db="r.db"), as_curves=False)
    assert "*" not in "".join(texts(found.tables[0])["replicated_none"])


def test_what_failed_adds_no_doubt_to_the_number_of_the_other_repeats():
    ended = [{}, {"outcome": Outcome.FAILED}, {}]
    fill("r.db", [(small(), 100.0), (small(), None), (small(num_gpus=2), 150.0)], details=ended)
    suspect(["steps drift"], 1)
    found = document(pivot(load(Selection(db="r.db"))), Selection(db="r.db"), ("throughput",))
    assert [note for note in found.tables[0].notes if note.startswith("*")] == [
        f"* steps drift: see {SHOW} 1"
    ]


def test_of_many_doubts_those_that_are_not_shown_name_their_attempts():
    fill("r.db", [(small(num_gpus=num), 100.0 * num) for num in (1, 2, 4, 8, 16)])
    for number, reason in enumerate(("drift", "heat", "noise", "swap"), 1):
        suspect([reason], number)
    found = document(pivot(load(Selection(db="r.db"))), Selection(db="r.db"), ("throughput",))
    assert f"* 1 more reason: see {SHOW} 4" in found.tables[0].notes
    suspect(["fans", "frost"], 5)
    found = document(pivot(load(Selection(db="r.db"))), Selection(db="r.db"), ("throughput",))
    assert f"* 3 more reasons: see {SHOW} 4, and attempts 5" in found.tables[0].notes


def test_doubts_that_differ_in_numbers_are_one_note_that_names_the_attempt():
    """A bug: it named the first attempt of the trial, which may be valid."""
    numbers = [(small(num_gpus=num), 100.0) for num in (1, 1, 2, 4, 8)]
    fill("r.db", numbers)
    suspect(["others took 0.5 of 2 cores"], 2)
    suspect(["others took 1.5 of 2 cores"], 3, 4)
    found = document(pivot(load(Selection(db="r.db"))), Selection(db="r.db"), ("throughput",))
    assert [note for note in found.tables[0].notes if note.startswith("*")] == [
        f"* others took 0.5 of 2 cores: see {SHOW} 2; 2 more like it"
    ]


def test_a_tie_is_marked_only_where_throughput_is_shown():
    """A bug: `5950 MiB ≈` marked a tie of throughput beside the memory."""
    fill("r.db", [(small(**PS), 100.0), (small(**PS), 102.0), (small(), 101.0), (small(), 103.0)])
    for shown, is_marked in (("throughput", True), ("memory", False)):
        found = document(pivot(load(Selection(db="r.db"))), Selection(db="r.db"), (shown,))
        marked = [text for row in texts(found.tables[0]).values() for text in row if "≈" in text]
        assert bool(marked) is is_marked
        assert any("≈" in line for line in found.tables[0].legend) is is_marked


def test_single_runs_of_one_strategy_are_said_to_be_that():
    fill("r.db", [(small(), 100.0), (small(num_gpus=2), 150.0)])
    found = document(pivot(load(Selection(db="r.db"))), Selection(db="r.db"), ("throughput",))
    assert (
        "single run: one run each; use sweep.repeats=3 to see the spread"
        in found.tables[0].notes[-1]
    )


def test_a_doubt_that_all_numbers_share_is_said_once_above():
    fill("r.db", [(small(), 100.0), (small(num_gpus=2), 150.0)])
    suspect(["2 of 2 cores were busy"], 1)
    suspect(["2 of 2 cores were busy", "steps drift"], 2)
    found = document(pivot(load(Selection(db="r.db"))), Selection(db="r.db"), ("throughput",))
    assert found.doubts == (
        "Every number is in doubt: 2 of 2 cores were busy. Repeat before deciding.",
    )
    assert texts(found.tables[0]) == {"replicated_none": ["100", "150*"]}


def test_a_doubt_that_all_share_in_other_numbers_marks_none():
    fill("r.db", [(small(), 100.0), (small(num_gpus=2), 150.0)])
    suspect(["others took 1.9 of 2 cores; stop those programs"], 1)
    suspect(["others took 1.2 of 2 cores; stop those programs"], 2)
    found = document(pivot(load(Selection(db="r.db"))), Selection(db="r.db"), ("throughput",))
    said = "Every number is in doubt, for example: others took 1.9 of 2 cores; stop those programs."
    assert found.doubts == (said,)
    assert texts(found.tables[0]) == {"replicated_none": ["100", "150"]}


def test_a_doubt_about_a_trial_is_that_of_the_version_that_ran_it():
    fill("r.db", [(small(), 100.0)])
    other = ENVIRONMENT | {"packages": ENVIRONMENT["packages"] | {"tensorflow": "2.22.0"}}
    fill("r.db", [(small(), 120.0)], name="second", environment=other)
    suspect(["steps drift"], 1)
    suspect(["2 of 2 cores were busy"], 2)
    found = document(pivot(load(Selection(db="r.db"))), Selection(db="r.db"), ("throughput",))
    assert found.doubts == ()
    assert [texts(table) for table in found.tables] == [
        {"replicated_none": ["100*"]},
        {"replicated_none": ["120*"]},
    ]


def test_an_invalid_number_is_not_shown():
    fill("r.db", [(small(), 100.0)])
    with changing("r.db") as connection:
        connection.exec_driver_sql("UPDATE measurements SET verdict = 'invalid'")
    layout = laid_out()
    assert texts(layout) == {"replicated_none": ["INVALID"]}
    assert f"no number: {SHOW} 1 says what happened" in layout.notes
    assert layout.legend[-1] == "INVALID: completed without a usable number"


def test_the_unit_is_that_of_what_the_records_count():
    fill("r.db", [(small(), 100.0), (small(num_gpus=2), 150.0)])
    with changing("r.db") as connection:
        connection.exec_driver_sql("UPDATE measurements SET item = 'tokens'")
    layout = laid_out(rule=BaselineRule.BEST)
    assert "cells: tokens/s (speed-up)" in layout.notes
    assert "images" not in notes(layout)
    assert notes(layout).count("replicated_none, 100 tokens/s") == 1


def test_different_items_never_share_a_table_or_a_baseline():
    fill("r.db", [(small(), 100.0), (small(num_gpus=2), 150.0), (small(**PS), None)])
    with changing("r.db") as connection:
        connection.exec_driver_sql("UPDATE measurements SET item = 'tokens' WHERE attempt_id = 2")
    tables = pivot(measured(asked(queries.measured, open_for_reading("r.db"))))
    assert {table.unit for table in tables} == {"images/s", "tokens/s"}
    assert all(
        result.baseline is None
        for table in tables
        for result in table.results
        if result.item == "tokens"
    )


def reported(entries, **options):
    fill("r.db", entries, **options)
    return document(
        pivot(measured(asked(queries.measured, open_for_reading("r.db")))),
        Selection(db="r.db"),
    )


def test_one_table_says_everything_itself():
    found = reported([(small(), 100.0)])
    assert (found.heading, found.notes) == ("", ())
    assert (
        found.tables[0].title
        == "trivial (fp32, synthetic data, image_px 32, batch_size 2, weak scaling)"
    )


def test_several_tables_say_once_what_they_have_in_common():
    found = reported(
        [
            (small(), 100.0),
            (small(precision="bf16"), 200.0),
            (small(model="vgg16", num_gpus=2), None),
        ]
    )
    assert found.heading == "synthetic data, image_px 32, batch_size 2, weak scaling"
    assert [layout.title for layout in found.tables] == [
        "trivial (fp32)",
        "trivial (bf16)",
        "vgg16 (fp32)",
    ]
    assert found.notes[0].startswith("testbox: 2 cores Testium")
    assert found.notes[-1].endswith("; FAIL: failed")
    assert [len(layout.notes) for layout in found.tables] == [1, 1, 1]


def test_tables_of_several_machines_are_distinguished_by_their_titles():
    fill("r.db", [(small(), 10.0)])
    found = reported([(small(), 99.0)], name="second", machine=replace(MACHINE, host="other"))
    assert [layout.title for layout in found.tables] == ["trivial, on testbox", "trivial, on other"]


def test_software_of_one_machine_is_named_by_the_package_that_differs():
    fill("r.db", [(small(), 10.0)])
    packages = ENVIRONMENT["packages"] | {"numpy": "2.5.0"}
    found = reported(
        [(small(), 99.0)], name="second", environment=ENVIRONMENT | {"packages": packages}
    )
    assert [layout.title for layout in found.tables] == [
        "trivial, TensorFlow 2.21.0, scalemark 0.1.0, numpy 2.4.6",
        "trivial, TensorFlow 2.21.0, scalemark 0.1.0, numpy 2.5.0",
    ]


def test_a_variable_that_only_one_place_had_tells_it_apart():
    fill("r.db", [(small(), 10.0)])
    found = reported(
        [(small(), 99.0)],
        name="second",
        environment=ENVIRONMENT | {"variables": {"NCCL_ALGO": "Tree"}},
    )
    assert [layout.title.rpartition(", ")[2] for layout in found.tables] == [
        "no NCCL_ALGO",
        "NCCL_ALGO Tree",
    ]


def test_machines_that_read_alike_are_distinguished_by_their_keys():
    fill("r.db", [(small(), 10.0)])
    found = reported([(small(), 99.0)], name="second", machine=replace(MACHINE, memory_bytes=2**40))
    first, second = found.tables
    assert (
        first.title
        == f"trivial, TensorFlow 2.21.0, scalemark 0.1.0, environment {first.table.environment.key}"
    )
    assert first.title != second.title


def test_of_many_differences_three_are_named():
    fill("r.db", [(small(), 10.0)])
    others = {f"TF_{letter}": "1" for letter in "ABCDE"}
    found = reported(
        [(small(), 99.0)], name="second", environment=ENVIRONMENT | {"variables": others}
    )
    assert [layout.title.rpartition("0.1.0, ")[2] for layout in found.tables] == [
        "no TF_A, no TF_B, no TF_C and 2 more",
        "TF_A 1, TF_B 1, TF_C 1 and 2 more",
    ]
