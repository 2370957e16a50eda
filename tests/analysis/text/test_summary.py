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


def test_the_fastest_is_named_on_each_number_of_devices(snapshot):
    found = summary(
        [
            *repeated(small(), 100.0, 101.0, 99.0),
            *repeated(small(**PS), 80.0, 81.0, 79.0),
            *repeated(small(num_gpus=2), 150.0, 151.0, 149.0),
            *repeated(small(num_gpus=2, **PS), 120.0, 121.0, 119.0),
        ]
    )
    assert (found.fastest, found.scaling) == snapshot
    assert found.doubts == ()


@pytest.mark.parametrize(
    ("of_none", "of_ps"),
    [
        pytest.param((100.0, 100.4, 99.6), (99.7, 100.1, 99.3), id="close"),
        pytest.param((100.0, 100.01, 99.99), (99.7, 99.71, 99.69), id="a lead of no percent"),
        pytest.param((100.0, 104.0, 96.0), (99.0, 103.0, 95.0), id="noisy"),
        pytest.param((20e3, 2e3, 90e3), (12e3, 8e3, 17e3), id="very noisy"),
        pytest.param((100.0,), (50.0,), id="single runs"),
    ],
)
def test_a_tie_and_single_runs_have_no_leader(of_none, of_ps, snapshot):
    found = summary([*repeated(small(), *of_none), *repeated(small(**PS), *of_ps)])
    assert found.fastest == snapshot


def test_replicas_that_train_apart_are_the_ceiling_and_lead_nowhere(snapshot):
    rows = [
        (small(variable_update="independent", num_gpus=2), 300.0, 301.0),
        (small(num_gpus=2), 150.0, 151.0),
    ]
    rows += [(small(num_gpus=2, **PS), 120.0, 121.0)]
    found = summary([pair for spec, *values in rows for pair in repeated(spec, *values)])
    assert found.fastest == snapshot
    assert not any("independent" in sentence for sentence in found.scaling)


def test_replicas_that_train_apart_and_were_run_alone_are_named(snapshot):
    found = summary([(small(variable_update="independent"), 100.0)])
    Path("results.db").unlink()
    both = summary([(small(variable_update="independent"), 100.0), (small(), 90.0)])
    assert (found.fastest, both.fastest) == snapshot


def test_a_published_figure_that_stands_alone_did_not_complete_anything():
    references = [row for row in queries.known_references(None) if row["num_gpus"] == 1][:1]
    results = published(
        [*references, {**references[0], "variable_update": "mirrored", "num_gpus": 2}]
    )
    (table,) = pivot(results)
    assert " has a figure, " in summarize(table).fastest[0]


def test_a_crossover_is_named(snapshot):
    rows = [(small(), 100.0, 101.0), (small(**PS), 120.0, 121.0)]
    rows += [(small(num_gpus=2), 190.0, 191.0), (small(num_gpus=2, **PS), 130.0, 131.0)]
    found = summary([pair for spec, *values in rows for pair in repeated(spec, *values)])
    assert found.scaling[-1] == snapshot


def test_a_tie_on_the_way_is_no_crossover_where_the_chart_has_none():
    rows = [(small(), 50.0, 51.0), (small(**PS), 120.0, 121.0)]
    rows += [(small(num_gpus=2), 190.0, 231.0), (small(num_gpus=2, **PS), 189.0, 230.0)]
    found = summary([pair for spec, *values in rows for pair in repeated(spec, *values)])
    assert not [reported for reported in found.scaling if "leads" in reported]


@pytest.mark.parametrize(
    "on_2",
    [
        pytest.param([(small(num_gpus=2), 190.0), (small(num_gpus=2, **PS), 130.0)], id="single"),
        pytest.param([(small(num_gpus=2), 190.0)], id="not run"),
    ],
)
def test_an_uncertain_crossover_has_its_doubt(on_2, snapshot):
    found = summary([(small(), 100.0), (small(**PS), 120.0), *on_2])
    assert found.scaling[-1] == snapshot


@pytest.mark.parametrize(
    ("on_1", "on_2"),
    [
        pytest.param((100.0,), (80.0,), id="slower"),
        pytest.param((100.0, 110.0, 90.0), (104.0, 114.0, 94.0), id="tie"),
    ],
)
def test_whether_cpu_devices_pay_is_not_said(on_1, on_2, snapshot):
    found = summary([*repeated(small(), *on_1), *repeated(small(num_gpus=2), *on_2)])
    assert found.scaling == snapshot


@pytest.mark.parametrize(
    ("on_1", "on_2"),
    [
        pytest.param((100.0,), (80.0,), id="slower"),
        pytest.param((100.0,), (106.0,), id="hardly"),
        pytest.param((100.0, 101.0), (180.0, 181.0), id="pays"),
        pytest.param((100.0, 101.0), (150.0, 151.0), id="on the edge"),
        pytest.param((100.0, 30.0), (104.0, 214.0), id="tie"),
    ],
)
def test_whether_more_gpus_still_pay(on_1, on_2, snapshot):
    on_gpus = [small(num_gpus=num, device_kind=DeviceKind.GPU) for num in (1, 2)]
    found = summary([*repeated(on_gpus[0], *on_1), *repeated(on_gpus[1], *on_2)])
    assert found.scaling[-1] == snapshot


def test_the_marginal_efficiency_is_against_the_first_gpu(snapshot):
    """From 4 to 8: 100 images/s more by 4 GPUs, where 1 alone makes 100."""
    counts = {1: 100.0, 4: 350.0, 8: 450.0}
    found = summary(
        [
            (small(num_gpus=num, device_kind=DeviceKind.GPU), images)
            for num, images in counts.items()
        ]
    )
    assert "efficiency of 25%" in found.scaling[-1]
    assert found.scaling[-1] == snapshot


def test_the_largest_speed_up_is_named_where_the_fastest_has_another(snapshot):
    found = summary(
        [
            (small(), 100.0),
            (small(num_gpus=2), 150.0),
            (small(**PS), 50.0),
            (small(num_gpus=2, **PS), 100.0),
        ]
    )
    assert found.scaling == snapshot


@pytest.mark.parametrize("rule", [BaselineRule.SAME, BaselineRule.FEWEST])
def test_a_missing_baseline_is_said_and_the_other_one_named(rule, snapshot):
    found = summary([(small(num_gpus=2), 10.0), (small(num_gpus=4), 15.0)], rule)
    assert found.scaling[0] == snapshot


def test_failures_are_counted_by_how_they_ended(snapshot):
    found = summary([(small(), 100.0), (small(num_gpus=2), None), (small(num_gpus=4), None)])
    assert (found.doubts, found.fastest) == snapshot


def ended(*outcomes: Outcome) -> tuple[str, ...]:
    fill(
        "results.db",
        [(small(seed=1), 10.0), *((small(num_gpus=2 + at), None) for at in range(len(outcomes)))],
        details=[{}, *({"outcome": outcome} for outcome in outcomes)],
    )
    (table,) = pivot(measured(queries.measured(open_for_reading("results.db"))))
    return summarize(table).doubts


def test_one_and_several_that_ended_alike_agree_in_number(snapshot):
    one = ended(Outcome.INTERRUPTED)
    Path("results.db").unlink()
    assert (one, ended(Outcome.INTERRUPTED, Outcome.INTERRUPTED)) == snapshot


def test_repeats_without_a_number_are_counted(snapshot):
    fill(
        "results.db",
        [(small(), 95.0), (small(), None), (small(), 70.0)],
        details=[{}, {"outcome": Outcome.OUT_OF_MEMORY}, {"verdict": Verdict.INVALID}],
    )
    (table,) = pivot(measured(queries.measured(open_for_reading("results.db"))))
    assert summarize(table).doubts == snapshot


def test_a_suspect_number_is_called_so_and_counted(snapshot):
    fill(
        "results.db",
        [(small(), 176.0), (small(**PS), 17816.4), (small(num_gpus=2), None)],
        details=[{}, {"verdict": Verdict.SUSPECT}, {}],
    )
    (table,) = pivot(measured(queries.measured(open_for_reading("results.db"))))
    found = summarize(table)
    assert (found.fastest[0], found.doubts) == snapshot


def test_a_trial_without_a_quotable_number_is_counted(snapshot):
    assert summary([(small(), 10.0), (small(num_gpus=2), 0.0)]).doubts == snapshot


def test_only_failures_leave_no_number(snapshot):
    assert summary([(small(), None)]).sentences == snapshot


def test_who_alone_completed_and_what_ran_out_of_memory_is_said(snapshot):
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
    assert (found.fastest, found.doubts) == snapshot


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


def test_a_source_without_a_strategy_is_said_to_have_none():
    references = [row for row in queries.known_references(None) if row["num_gpus"] in (1, 2)]
    results = published(
        [
            {**row, "variable_update": "", "local_parameter_device": "", "all_reduce": ""}
            for row in references
        ]
    )
    (one,) = {result.environment.key for result in results[:1]}
    table = pivot([result for result in results if result.environment.key == one][:1])[0]
    reported = summarize(table).fastest[0]
    assert reported.endswith("; the source does not name the strategy.")
    assert "not reported" not in reported


def test_of_equal_single_runs_none_leads():
    (fastest,) = summary([(small(), 100.0), (small(**PS), 100.0)]).fastest
    assert "replicated_none and ps_cpu have the same number, 100 images/s; single run" in fastest
