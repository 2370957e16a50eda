"""Who leads, and from how many GPUs on another one does: only where the repeats can tell."""

from dataclasses import replace
from pathlib import Path

import pytest

from analysis.measured import measured
from analysis.pivot import pivot
from analysis.scaling.crossovers import Crossover, crossovers, leads
from scalemark.records.outcomes import Outcome
from store.database import open_for_reading
from store.reading import queries
from tests.filled import fill
from tests.specs import small

PS = {"variable_update": "parameter_server", "local_parameter_device": "cpu"}


def found(*cells: tuple[str, int, list[float | None]]):
    specs = {
        "none": small,
        "nccl": lambda **axes: small(all_reduce="nccl", **axes),
        "ps": lambda **axes: small(**PS, **axes),
    }
    fill(
        "results.db",
        [
            (specs[strategy](num_gpus=num_gpus), value)
            for strategy, num_gpus, values in cells
            for value in values
        ],
    )
    (table,) = pivot(measured(queries.measured(open_for_reading("results.db"))))
    return leads(table)


def test_the_lead_changes_where_the_old_leader_is_slower():
    led = found(
        ("none", 1, [100, 101]), ("ps", 1, [50, 51]), ("none", 2, [100, 101]), ("ps", 2, [200, 201])
    )
    assert [(lead.num_gpus, lead.strategy) for lead in led] == [
        (1, "replicated_none"),
        (2, "ps_cpu"),
    ]
    assert led[1].ahead == pytest.approx(((200 * 201) / (100 * 101)) ** 0.5)
    assert crossovers(led) == [Crossover(num_gpus=2, before="replicated_none", after="ps_cpu")]


def test_a_tie_is_no_crossover_until_it_is_none():
    led = found(
        ("none", 1, [100, 101]),
        ("ps", 1, [50, 51]),
        ("none", 2, [99, 130]),
        ("ps", 2, [100, 131]),
        ("none", 4, [100, 101]),
        ("ps", 4, [200, 201]),
    )
    assert led[1].tied == ("replicated_none",)
    assert [change.num_gpus for change in crossovers(led)] == [4]


def test_who_was_put_out_of_a_race_has_not_lost_the_lead_to_its_winner():
    """It would hardly have led after all repeats, which is not to be slower; it was reported as `is fastest, 2% ahead of`."""
    on_one = [
        *((small(), speed) for speed in (102.0, 101.0)),
        *((small(**PS), speed) for speed in (90.0, 91.0)),
    ]
    on_two = [
        (small(num_gpus=2), 100.0),
        *((small(num_gpus=2, **PS), speed) for speed in (102.0, 101.0)),
    ]
    fill("results.db", [*on_one, *on_two])
    results = [
        replace(one, out_of_race="race: 1.5 % behind ps_cpu")
        if (one.strategy, one.num_gpus) == ("replicated_none", 2)
        else one
        for one in measured(queries.measured(open_for_reading("results.db")))
    ]
    (table,) = pivot(results)
    led = leads(table)
    assert [(lead.strategy, lead.unknown, lead.out) for lead in led] == [
        ("replicated_none", (), ()),
        ("ps_cpu", (), ("replicated_none",)),
    ]
    (change,) = crossovers(led)
    assert (
        change.doubt
        == "replicated_none was put out of a race there, after too few repeats to be conclusive"
    )


@pytest.mark.integration
def test_of_equal_numbers_none_leads_whichever_was_run_first():
    for first, second in (("nccl", "ps"), ("ps", "nccl")):
        cells = [
            (first, 1, [100, 100]),
            (second, 1, [100, 100]),
            (first, 2, [180, 190, 200]),
            (second, 2, [190]),
        ]
        one, two = found(*cells)
        assert {one.strategy, *one.tied} == {"replicated_nccl", "ps_cpu"}
        assert two.unknown == tuple({"replicated_nccl", "ps_cpu"} - {two.strategy})
        assert [change.is_certain for change in crossovers([one, two])] == [False]
        Path("results.db").unlink()


def test_who_led_together_with_others_is_not_replaced():
    led = found(
        ("none", 1, [100, 101]),
        ("ps", 1, [50, 51]),
        ("nccl", 1, [40, 41]),
        ("none", 2, [100, 101]),
        ("ps", 2, [190, 191]),
        ("nccl", 2, [189.8, 191.1]),
        ("none", 4, [100, 101]),
        ("ps", 4, [200, 201]),
        ("nccl", 4, [300, 301]),
    )
    assert crossovers(led) == [Crossover(num_gpus=4, before="", after="replicated_nccl")]


def test_a_lead_that_is_lost_again_is_reported_with_its_end():
    led = found(
        ("none", 1, [100, 101]),
        ("ps", 1, [50, 51]),
        ("none", 2, [100, 101]),
        ("ps", 2, [200, 201]),
        ("none", 4, [100, 101]),
        ("ps", 4, [200, 201]),
        ("none", 8, [300, 301]),
        ("ps", 8, [200, 201]),
    )
    first, second = crossovers(led)
    assert (first.num_gpus, first.until, first.span(lambda num: f"{num} GPUs")) == (
        2,
        4,
        "from 2 to 4 GPUs",
    )
    assert (second.until, second.span(lambda num: f"{num} GPUs")) == (None, "from 8 GPUs on")
    (other,) = crossovers(led[:1] + led[2:3])
    assert other.until is None
    assert crossovers([led[0], led[1], led[3]])[0].span(lambda num: f"{num} GPUs") == "on 2 GPUs"


def test_single_processes_make_an_uncertain_crossover():
    led = found(("none", 1, [100]), ("ps", 1, [50]), ("none", 2, [100]), ("ps", 2, [110]))
    assert led[0].unknown == ("ps_cpu",)
    assert crossovers(led) == [
        Crossover(
            num_gpus=2,
            before="replicated_none",
            after="ps_cpu",
            doubt="single run, not conclusive",
        )
    ]


def test_a_leader_that_fails_has_lost_the_lead():
    led = found(
        ("none", 1, [100, 101]), ("ps", 1, [50, 51]), ("none", 2, [None]), ("ps", 2, [60, 61])
    )
    assert led[1].ahead is None
    assert [cell.result.outcome for cell in led[1].others] == ["failed"]
    assert [change.after for change in crossovers(led)] == ["ps_cpu"]


def test_a_leader_that_was_not_run_there_has_not_lost_for_certain():
    led = found(("none", 1, [100, 101]), ("ps", 1, [50, 51]), ("ps", 2, [60, 61]))
    (change,) = crossovers(led)
    assert (change.after, change.is_certain, change.doubt) == (
        "ps_cpu",
        False,
        "replicated_none was not run there",
    )


@pytest.mark.parametrize(
    ("outcome", "doubt"),
    [
        (Outcome.OUT_OF_MEMORY, ""),
        (Outcome.HUNG, ""),
        (Outcome.INTERRUPTED, "replicated_none was interrupted there"),
    ],
)
def test_how_the_former_leader_ended_tells_whether_it_lost(outcome, doubt):
    specs = [small(), small(**PS), small(num_gpus=2), small(num_gpus=2, **PS)]
    results = list(
        zip(
            [spec for spec in specs for _ in range(2)],
            [100, 101, 50, 51, None, None, 60, 61],
            strict=True,
        )
    )
    fill("results.db", results, details=[{"outcome": outcome}] * len(results))
    (table,) = pivot(measured(queries.measured(open_for_reading("results.db"))))
    assert [change.doubt for change in crossovers(leads(table))] == [doubt]


@pytest.mark.parametrize("axes", [(("strategy",), ("num_gpus",)), (("num_gpus",), ("strategy",))])
def test_strategies_may_stand_down_or_across(axes):
    fill("results.db", [(small(), 100), (small(num_gpus=2), 190), (small(num_gpus=2, **PS), 120)])
    (table,) = pivot(measured(queries.measured(open_for_reading("results.db"))), *axes)
    assert [(lead.num_gpus, lead.strategy, lead.unknown) for lead in leads(table)] == [
        (1, "replicated_none", ()),
        (2, "replicated_none", ("ps_cpu",)),
    ]


def test_where_nothing_completed_nobody_leads():
    assert [lead.num_gpus for lead in found(("none", 1, [100]), ("none", 2, [None, 0.0]))] == [1]
