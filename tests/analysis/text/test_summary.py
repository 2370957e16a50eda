"""The summary says of a table what its numbers say, and what they do not."""

from pathlib import Path

import pytest

from analysis.pivot import article_tables, pivot
from analysis.published import published
from analysis.results import BaselineRule, measured
from analysis.text.summary import Summary, summarize
from scalemark.records.devices import DeviceKind
from scalemark.records.outcomes import Outcome, Verdict
from store.database import open_for_reading
from store.reading import queries
from store.writer import Writer
from tests.filled import NOON, PLACEMENT, attempt, begin, fill
from tests.specs import small

PS = {"variable_update": "parameter_server", "local_parameter_device": "cpu"}


def summary(
    results: list[tuple[object, float | None]], rule: BaselineRule = BaselineRule.SAME
) -> Summary:
    fill("results.db", results)
    (table,) = pivot(measured(queries.measured(open_for_reading("results.db")), rule))
    return summarize(table)


def repeated(spec, *values):
    return [(spec, value) for value in values]


def test_the_fastest_is_named_on_each_number_of_devices_with_its_lead():
    found = summary(
        [
            *repeated(small(), 100.0, 101.0, 99.0),
            *repeated(small(**PS), 80.0, 81.0, 79.0),
            *repeated(small(num_gpus=2), 150.0, 151.0, 149.0),
            *repeated(small(num_gpus=2, **PS), 120.0, 121.0, 119.0),
        ]
    )
    assert found.fastest == (
        "On 1 CPU stand-in replicated_none is fastest with 100 images/s, 25% ahead of ps_cpu.",
        "On 2 CPU stand-ins replicated_none is fastest with 150 images/s, 25% ahead of ps_cpu.",
    )
    assert found.scaling == (
        "On 2 CPU stand-ins replicated_none reaches 1.50x of replicated_none on 1: an efficiency of 75%.",
        "Going from 1 to 2 CPU stand-ins makes replicated_none 1.50x as fast; "
        "whether it pays is not said: stand-ins share the machine's cores.",
    )
    assert found.doubts == ()


def test_a_tie_is_called_a_tie():
    found = summary(
        [*repeated(small(), 100.0, 100.4, 99.6), *repeated(small(**PS), 99.7, 100.1, 99.3)]
    )
    assert found.fastest == (
        "On 1 CPU stand-in replicated_none and ps_cpu are as fast as each other (100 images/s and 99.7 images/s).",
    )


def test_a_lead_of_no_percent_is_a_tie():
    found = summary(
        [*repeated(small(), 100.0, 100.01, 99.99), *repeated(small(**PS), 99.7, 99.71, 99.69)]
    )
    assert "are as fast as each other" in found.fastest[0]


@pytest.mark.parametrize(
    ("of_none", "of_ps"),
    [
        ((100.0, 104.0, 96.0), (99.0, 103.0, 95.0)),
        ((20000.0, 2000.0, 90000.0), (12000.0, 8000.0, 17000.0)),
    ],
)
def test_what_cannot_be_told_apart_is_not_called_as_fast_as_each_other(of_none, of_ps):
    found = summary([*repeated(small(), *of_none), *repeated(small(**PS), *of_ps)])
    assert found.fastest[0].startswith(
        "On 1 CPU stand-in replicated_none and ps_cpu cannot be told apart ("
    )


def test_replicas_that_train_apart_are_the_ceiling_and_lead_nowhere():
    rows = [
        (small(variable_update="independent", num_gpus=2), 300.0, 301.0),
        (small(num_gpus=2), 150.0, 151.0),
    ]
    rows += [(small(num_gpus=2, **PS), 120.0, 121.0)]
    told = summary([pair for spec, *values in rows for pair in repeated(spec, *values)]).sentences
    assert (
        told[0]
        == "On 2 CPU stand-ins replicated_none is fastest with 150 images/s, 25% ahead of ps_cpu."
    )
    assert told[1] == (
        "independent is the ceiling and leads nowhere, for each of its replicas trains a model of its own: "
        "300 images/s on 2 CPU stand-ins."
    )
    assert not any("independent" in sentence for sentence in told[2:])


def test_of_replicas_that_train_apart_alone_it_is_said_that_they_were_run():
    found = summary([(small(variable_update="independent"), 100.0)])
    assert found.fastest == ("Only independent was run: 100 images/s on 1 CPU stand-in.",)
    Path("results.db").unlink()
    both = summary([(small(variable_update="independent"), 100.0), (small(), 90.0)])
    assert both.fastest[0].startswith(
        "Of those that train one model only replicated_none was run: 90.0 images/s on 1 CPU"
    )


def test_a_published_figure_that_stands_alone_did_not_complete_anything():
    references = [row for row in queries.known_references(None) if row["num_gpus"] == 1][:1]
    results = published(
        [*references, {**references[0], "variable_update": "mirrored", "num_gpus": 2}]
    )
    (table,) = pivot(results)
    assert " has a figure, " in summarize(table).fastest[0]


def test_one_process_each_decides_nothing():
    found = summary([(small(), 100.0), (small(**PS), 50.0)])
    assert found.fastest == (
        "On 1 CPU stand-in replicated_none leads with 100 images/s; "
        "against ps_cpu a process alone cannot tell, sweep.repeats=3 would.",
    )


def test_a_crossover_is_told():
    rows = [(small(), 100.0, 101.0), (small(**PS), 120.0, 121.0)]
    rows += [(small(num_gpus=2), 190.0, 191.0), (small(num_gpus=2, **PS), 130.0, 131.0)]
    found = summary([pair for spec, *values in rows for pair in repeated(spec, *values)])
    assert found.scaling[-1] == "replicated_none leads from 2 CPU stand-ins on, in place of ps_cpu."


def test_a_tie_on_the_way_is_no_crossover_where_the_chart_has_none():
    rows = [(small(), 50.0, 51.0), (small(**PS), 120.0, 121.0)]
    rows += [(small(num_gpus=2), 190.0, 231.0), (small(num_gpus=2, **PS), 189.0, 230.0)]
    found = summary([pair for spec, *values in rows for pair in repeated(spec, *values)])
    assert not [told for told in found.scaling if "leads" in told]


@pytest.mark.parametrize(
    ("on_2", "doubt"),
    [
        (
            [(small(num_gpus=2), 190.0), (small(num_gpus=2, **PS), 130.0)],
            "a process alone cannot tell",
        ),
        ([(small(num_gpus=2), 190.0)], "ps_cpu was not run there"),
    ],
)
def test_a_crossover_that_nobody_knows_is_told_with_its_doubt(on_2, doubt):
    found = summary([(small(), 100.0), (small(**PS), 120.0), *on_2])
    assert (
        found.scaling[-1]
        == f"Perhaps replicated_none leads from 2 CPU stand-ins on, in place of ps_cpu: {doubt}."
    )


@pytest.mark.parametrize(
    ("on_1", "on_2", "told"),
    [
        (
            (100.0,),
            (80.0,),
            "Going from 1 to 2 CPU stand-ins makes replicated_none 0.80x as fast; "
            "whether it pays is not said: stand-ins share the machine's cores.",
        ),
        (
            (100.0, 110.0, 90.0),
            (104.0, 114.0, 94.0),
            "Going from 1 to 2 CPU stand-ins makes replicated_none 1.04x as fast, which its repeats cannot tell from 1x; "
            "whether it pays is not said: stand-ins share the machine's cores.",
        ),
    ],
)
def test_of_stand_ins_nothing_is_said_about_paying(on_1, on_2, told):
    found = summary([*repeated(small(), *on_1), *repeated(small(num_gpus=2), *on_2)])
    assert told in found.scaling


@pytest.mark.parametrize(
    ("on_1", "on_2", "told"),
    [
        (
            (100.0,),
            (80.0,),
            "Perhaps going from 1 to 2 GPUs makes replicated_none slower: 100 to 80.0 images/s.",
        ),
        (
            (100.0,),
            (106.0,),
            "Perhaps going from 1 to 2 GPUs hardly pays for replicated_none: 100 to 106 images/s, "
            "each that was added brings 6% of one before.",
        ),
        (
            (100.0, 101.0),
            (180.0, 181.0),
            "Going from 1 to 2 GPUs still pays for replicated_none: 100 to 180 images/s, "
            "each that was added brings 80% of one before.",
        ),
        (
            (100.0, 101.0),
            (150.0, 151.0),
            "Perhaps going from 1 to 2 GPUs hardly pays for replicated_none: 100 to 150 images/s, "
            "each that was added brings 50% of one before.",
        ),
        (
            (100.0, 30.0),
            (104.0, 214.0),
            "Whether going from 1 to 2 GPUs brings replicated_none anything its repeats cannot tell: 65.0 to 159 images/s, 2.45x.",
        ),
    ],
)
def test_whether_more_gpus_still_pay(on_1, on_2, told):
    on_gpus = [small(num_gpus=num, device_kind=DeviceKind.GPU) for num in (1, 2)]
    assert told in summary([*repeated(on_gpus[0], *on_1), *repeated(on_gpus[1], *on_2)]).scaling


def test_what_the_last_gpus_bring_is_told_of_what_the_first_did():
    """From 4 to 8: 100 images/s more by 4 GPUs, where 1 alone makes 100."""
    counts = {1: 100.0, 4: 350.0, 8: 450.0}
    found = summary(
        [
            (small(num_gpus=num, device_kind=DeviceKind.GPU), images)
            for num, images in counts.items()
        ]
    )
    assert (
        "Perhaps going from 4 to 8 GPUs hardly pays for replicated_none: 350 to 450 images/s, "
        "each that was added brings 25% of one before."
    ) in found.scaling


def test_the_largest_speed_up_is_told_where_the_fastest_has_another():
    found = summary(
        [
            (small(), 100.0),
            (small(num_gpus=2), 150.0),
            (small(**PS), 50.0),
            (small(num_gpus=2, **PS), 100.0),
        ]
    )
    assert "ps_cpu has the largest speed-up there: 2.00x, from a slower start." in found.scaling


def test_a_missing_baseline_is_said_and_the_other_one_named():
    results = [(small(num_gpus=2), 10.0), (small(num_gpus=4), 15.0)]
    assert summary(results).scaling[0] == (
        "No speed-up of replicated_none on 4 CPU stand-ins: it has no number on 1 to compare with (--baseline fewest takes another)."
    )


def test_the_alternative_baseline_is_named():
    found = summary([(small(num_gpus=2), 10.0), (small(num_gpus=4), 15.0)], BaselineRule.FEWEST)
    assert (
        found.scaling[0]
        == "On 4 CPU stand-ins replicated_none reaches 1.50x of replicated_none on 2: an efficiency of 75%."
    )


def test_failures_are_counted_by_how_they_ended():
    found = summary([(small(), 100.0), (small(num_gpus=2), None), (small(num_gpus=4), None)])
    assert found.doubts == ("2 of 3 trials failed: replicated_none on 2 and replicated_none on 4.",)
    assert found.fastest == ("Only replicated_none was run: 100 images/s on 1 CPU stand-in.",)


def ended(*outcomes: Outcome) -> tuple[str, ...]:
    fill(
        "results.db",
        [(small(seed=1), 10.0), *((small(num_gpus=2 + at), None) for at in range(len(outcomes)))],
        details=[{}, *({"outcome": outcome} for outcome in outcomes)],
    )
    (table,) = pivot(measured(queries.measured(open_for_reading("results.db"))))
    return summarize(table).doubts


def test_one_and_several_that_ended_alike_are_told_in_right_words():
    assert ended(Outcome.INTERRUPTED) == ("1 of 2 trials was interrupted: replicated_none on 2.",)
    Path("results.db").unlink()
    told = ended(Outcome.INTERRUPTED, Outcome.INTERRUPTED)
    assert told == (
        "2 of 3 trials were interrupted: replicated_none on 2 and replicated_none on 3.",
    )


def test_repeats_that_brought_no_number_are_told_beside_those_that_did():
    fill(
        "results.db",
        [(small(), 95.0), (small(), None), (small(), 70.0)],
        details=[{}, {"outcome": Outcome.OUT_OF_MEMORY}, {"verdict": Verdict.INVALID}],
    )
    (table,) = pivot(measured(queries.measured(open_for_reading("results.db"))))
    assert summarize(table).doubts == (
        "1 trial has repeats that brought no number: replicated_none on 1 (2 of 3: out of memory, invalid).",
    )


def test_a_suspect_number_is_called_so_and_counted_among_numbers():
    fill(
        "results.db",
        [(small(), 176.0), (small(**PS), 17816.4), (small(num_gpus=2), None)],
        details=[{}, {"verdict": Verdict.SUSPECT}, {}],
    )
    (table,) = pivot(measured(queries.measured(open_for_reading("results.db"))))
    found = summarize(table)
    assert found.fastest[0].startswith(
        "On 1 CPU stand-in ps_cpu leads with 17816 images/s (suspect); against replicated_none"
    )
    assert found.doubts[-1] == "1 of 2 numbers is suspect: see the verdicts."


def test_a_number_that_is_none_is_not_called_another_trial_than_asked_for():
    found = summary([(small(), 10.0), (small(num_gpus=2), 0.0)])
    assert found.doubts == (
        "1 of 2 trials completed without a number that may be quoted: replicated_none on 2.",
    )


def test_only_failures_leave_no_number():
    found = summary([(small(), None)])
    assert found.sentences == (
        "There is no number that may be quoted.",
        "1 of 1 trial failed: replicated_none on 1.",
    )


def test_who_alone_completed_and_what_ran_out_of_memory_is_said():
    writer = Writer("results.db")
    ledger = begin(writer, {small(): 1, small(**PS): 1})
    for repeat in ledger.open_repeats():
        ledger.claim(repeat, NOON)
        spec, images = (
            (small(), 10.0) if repeat.trial_id == small().trial_id else (small(**PS), None)
        )
        number = ledger.run(repeat, "/runs/x", PLACEMENT, NOON)
        ledger.finish(
            repeat.repeat_id,
            attempt(spec, images, number=number, outcome=Outcome.OUT_OF_MEMORY),
            NOON,
        )
    ledger.end(NOON, finished=True)
    writer.close()
    (table,) = pivot(measured(queries.measured(open_for_reading("results.db"))))
    found = summarize(table)
    assert found.fastest == (
        "On 1 CPU stand-in only replicated_none completed with 10.0 images/s.",
    )
    assert found.doubts == ("1 of 2 trials ran out of memory: ps_cpu on 1.",)


def test_models_do_not_compete():
    """In the form of the article: GPUs down, models across."""
    references = [
        row
        for row in queries.known_references(None)
        if "DGX-1" in row["hardware"] and row["data"] == "synthetic"
    ]
    table = article_tables(published(references))[0]
    found = summarize(table)
    assert found.fastest == ()
    assert (
        "inception3: 1131 images/s on 8 GPUs, 7.96x of 1: an efficiency of 100%." in found.scaling
    )


def test_of_a_strategy_that_the_source_does_not_tell_it_is_said_so():
    references = [row for row in queries.known_references(None) if row["num_gpus"] in (1, 2)]
    results = published(
        [
            {**row, "variable_update": "", "local_parameter_device": "", "all_reduce": ""}
            for row in references
        ]
    )
    (one,) = {result.place.key for result in results[:1]}
    table = pivot([result for result in results if result.place.key == one][:1])[0]
    told = summarize(table).fastest[0]
    assert told.endswith("; of which strategy the source does not tell.")
    assert "not told" not in told
