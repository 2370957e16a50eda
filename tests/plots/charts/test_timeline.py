"""The timeline: attempts stand on the slots and at the times of the database, with failures and second tries."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest
from matplotlib.figure import Figure

from plots.pictures.drawing import NothingToShow
from plots.pictures.theme import Theme
from scalemark.records.outcomes import Outcome
from scalemark.records.trial import TrialSpec
from store.writer import Writer
from tests.filled import NOON, PLACEMENT, attempt, begin, fill
from tests.plots.charts.charting import (
    checked,
    overlaps,
    picture,
    picture_test,
    pictures,
    resnet,
    words,
)


@dataclass(frozen=True, kw_only=True)
class Ran:
    """One attempt; those of the same trial follow one another."""

    spec: TrialSpec
    start_s: float
    duration_s: float | None
    devices: tuple[int, ...]
    outcome: Outcome = Outcome.COMPLETED


def fill_with(shown: Sequence[Ran], name: str = "first") -> None:
    """A sweep in which what did not complete is tried again, if it is there again."""
    writer = Writer("results.db")
    ledger = begin(writer, dict.fromkeys((ran.spec for ran in shown), 1), name=name, rerun=True)
    for index, ran in enumerate(shown):
        repeat = next(one for one in ledger.open_repeats() if one.trial_id == ran.spec.trial_id)
        ledger.claim(repeat, NOON)
        placement = replace(PLACEMENT, devices=ran.devices)
        finished = attempt(
            ran.spec,
            100.0 if ran.outcome is Outcome.COMPLETED else None,
            number=ledger.run(repeat, "/runs/x", placement, NOON),
            outcome=ran.outcome,
            placement=placement,
            started_at=NOON + timedelta(seconds=ran.start_s),
            duration_s=ran.duration_s,
        )
        again = any(later.spec == ran.spec for later in shown[index + 1 :])
        ledger.finish(repeat.repeat_id, finished, NOON, again="it may pass" if again else None)
    ledger.end(NOON, finished=True)
    writer.close()


def of_models(num_models: int) -> list[Ran]:
    """Each on 1, 2 and 4 of four slots; some fail in all the ways there are, one is tried again, one is lost."""
    ways = [*Outcome]
    found = []
    for index in range(num_models):
        model = f"model_{index}"
        for place, devices in enumerate([(0,), (1, 2), (0, 1, 2, 3)]):
            outcome = ways[(index + place) % len(ways)] if place == 1 else Outcome.COMPLETED
            start_s = 40 * index + (0, 0, 17)[place]
            found.append(
                Ran(
                    spec=resnet(0, len(devices), model=model),
                    start_s=start_s,
                    duration_s=15,
                    devices=devices,
                    outcome=outcome,
                )
            )
    found.append(
        Ran(
            spec=resnet(0, 1, seed=2, model="model_0"),
            start_s=40 * num_models,
            duration_s=9,
            devices=(3,),
            outcome=Outcome.HUNG,
        )
    )
    found.append(
        Ran(
            spec=resnet(0, 1, seed=2, model="model_0"),
            start_s=40 * num_models + 11,
            duration_s=9,
            devices=(3,),
        )
    )
    lost = resnet(0, 1, seed=3, model="model_0")
    return [
        *found,
        Ran(
            spec=lost,
            start_s=40 * num_models + 22,
            duration_s=None,
            devices=(2,),
            outcome=Outcome.INTERRUPTED,
        ),
    ]


@pytest.mark.integration
@picture_test
@pytest.mark.parametrize("num_series", [1, 5, 12])
def test_the_picture_with_no_text_on_another(num_series: int) -> Figure:
    fill_with(of_models(num_series))
    return checked(picture("timeline"))


@pytest.mark.integration
@picture_test
def test_the_picture_in_the_dark() -> Figure:
    fill_with(of_models(3))
    return checked(picture("timeline", Theme.DARK))


def boxes(figure: Figure, kind: str) -> list[tuple[float, float, float, float]]:
    """Start, end, and from which slot to which, of all bars of the kind."""
    found = [
        path.get_extents()
        for bars in figure.axes[0].collections
        if bars.get_gid() == kind
        for path in bars.get_paths()
    ]
    return sorted((box.x0, box.x1, round(box.y0 / 0.3), round(box.y1 / 0.3) - 1) for box in found)


def marks(figure: Figure, label: str) -> list[float]:
    return [
        float(line.get_xdata()[0])
        for line in figure.axes[0].get_lines()
        if line.get_label() == label
    ]


def test_bars_stand_on_their_slots_and_at_their_times():
    shown = [
        (resnet(), 0, 10.0, (1,)),
        (resnet(num_gpus=2), 20.5, 5.0, (0, 1)),
        (resnet(num_gpus=4), 30.0, 8.0, (0, 2)),
    ]
    fill_with(
        [
            Ran(spec=spec, start_s=start_s, duration_s=duration_s, devices=devices)
            for spec, start_s, duration_s, devices in shown
        ]
    )
    figure = picture("timeline")
    assert boxes(figure, "done") == [
        (0, 10, 1, 1),
        (20.5, 25.5, 0, 1),
        (30, 38, 0, 0),
        (30, 38, 2, 2),
    ]
    assert boxes(figure, "failed") == []
    reported = words(figure)
    assert "s since 2026-11-21 12:00:00 UTC" in reported
    assert "CPU device 2" in reported
    assert (
        "3 attempts, 0 of them not completed; the slots it used were held 32 % of the time"
        in reported
    )


def test_failures_are_hollow_and_marked_and_second_tries_too():
    tries = [(0, Outcome.HUNG), (20, Outcome.COMPLETED)]
    fill_with(
        [
            Ran(spec=resnet(), start_s=start_s, duration_s=10, devices=(0,), outcome=outcome)
            for start_s, outcome in tries
        ]
    )
    figure = picture("timeline")
    assert boxes(figure, "failed") == [(0, 10, 0, 0)]
    assert boxes(figure, "done") == [(20, 30, 0, 0)]
    assert marks(figure, "_failure") == [5.0]
    assert marks(figure, "tried again") == [20.0]
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["resnet50", "hung", "tried again"]


def test_an_attempt_whose_end_nobody_saw_has_a_mark_and_no_bar():
    fill_with(
        [Ran(spec=resnet(), start_s=0, duration_s=None, devices=(0,), outcome=Outcome.INTERRUPTED)]
    )
    figure = picture("timeline")
    assert boxes(figure, "failed") == []
    assert marks(figure, "end not seen") == [0.0]
    assert overlaps(figure) == []


@pytest.mark.integration
def test_slots_that_were_not_stored_have_a_row_of_their_own():
    fill_with(
        [
            Ran(spec=resnet(), start_s=0, duration_s=10, devices=(0,)),
            Ran(spec=resnet(1), start_s=0, duration_s=10, devices=()),
        ]
    )
    assert "not stored" in words(picture("timeline"))


@pytest.mark.parametrize(("duration_s", "unit"), [(100, "s"), (1000, "min"), (10_000, "h")])
def test_long_sweeps_are_reported_in_longer_units(duration_s, unit):
    fill_with([Ran(spec=resnet(), start_s=0, duration_s=duration_s, devices=(0,))])
    figure = picture("timeline")
    assert f"{unit} since" in words(figure)
    ((_, end, _, _),) = boxes(figure, "done")
    assert end == pytest.approx(duration_s / {"s": 1, "min": 60, "h": 3600}[unit])


@pytest.mark.integration
def test_the_newest_sweeps_are_drawn_and_the_others_reported():
    for day in range(7):
        fill_with(
            [Ran(spec=resnet(seed=day), start_s=86_400 * day, duration_s=10, devices=(0,))],
            name=f"day{day}",
        )
    found = pictures("timeline")
    assert [one.name for one in found] == ["day2", "day3", "day4", "day5", "day6"]
    assert "older sweeps are not drawn: 2; see one with --sweep NAME" in found[0].about
    assert [one.name for one in pictures("timeline", sweep="day1")] == ["day1"]


def test_a_sweep_on_two_machines_has_two_pictures(second_machine):
    fill("results.db", [(resnet(), 100.0)])
    fill("results.db", [(resnet(), 50.0)], name="second", machine=second_machine)
    found = pictures("timeline")
    assert [("testbox" in words(one.figure), "otherbox" in words(one.figure)) for one in found] == [
        (True, False),
        (False, True),
    ]


def test_published_figures_have_no_timeline(published):
    with pytest.raises(NothingToShow, match="no attempt of such a sweep"):
        pictures("timeline", origin=published)
