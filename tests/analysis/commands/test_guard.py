"""`guard` tells what changed over nights, and its exit code says whether somebody has to look."""

import json
import shlex
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from analysis.commands.guard import next_command
from analysis.guard.changes import changes
from analysis.guard.histories import Night, histories
from analysis.guard.scan import LEAST
from analysis.selection import Selection
from store.commands import change as annotate
from store.database import open_for_writing
from store.imports import ImportOptions, import_files
from store.reading import listing
from tests.analysis.commands.command import advised
from tests.filled import ENVIRONMENT, fill
from tests.nights import FIRST, fill_nights, slower, steady, with_packages
from tests.specs import small

NUM_NIGHTS, SINCE = 26, 20
TRIALS = [small(model=model, num_gpus=num) for model in ("trivial", "resnet50") for num in (1, 2)]
HISTORY = {
    spec: slower(
        steady(NUM_NIGHTS, 100.0 * (place + 1), place),
        SINCE,
        0.9 if spec.model == "resnet50" else 1.0,
    )
    for place, spec in enumerate(TRIALS)
}
SOFTWARE = [ENVIRONMENT] * SINCE + [with_packages(tensorflow="2.22.0")]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = tmp_path_factory.mktemp("nights") / "results.db"
    fill_nights(str(path), HISTORY, environments=SOFTWARE)
    return path


@pytest.fixture
def nights(made):
    shutil.copy(made, "results.db")


def change_of(ended):
    (change,) = json.loads(ended.stdout)["changes"]
    return change


def test_a_regression_is_named_with_what_changed_then(nights, analysis, snapshot):
    ended = analysis("guard")
    assert ended.exit_code == 1
    assert ended.stderr == ""
    assert ended.stdout == snapshot


def test_json_has_trials_dates_and_interval(nights, analysis):
    ended = analysis("guard", "--json")
    assert ended.exit_code == 1
    change = change_of(ended)
    assert change["state"] == "regression"
    assert (change["first_night"], change["found"]) == ("2026-01-21", "2026-01-23")
    assert change["causes"] == ["tensorflow 2.21.0 -> 2.22.0"]
    assert change["change_low"] < -0.1 < change["change_high"]
    assert set(change["trials"]) == {spec.trial_id for spec in TRIALS[2:]}


def next_step(ended):
    (line,) = (line for line in ended.stdout.splitlines() if line.startswith("next: "))
    assert len(line) < 80
    return shlex.split(line.removeprefix("next: scalemark "))


def test_an_alarm_has_one_next_step_which_compares_its_trials_before_and_after(nights, analysis):
    step = next_step(analysis("guard"))
    assert step == ["compare", "sweep=night-19", "sweep=night-21", "model=resnet50"]
    pairs = json.loads(analysis(*step, "--json").stdout)["pairs"]
    assert [pair["a"]["model"] for pair in pairs] == ["resnet50", "resnet50"]
    change = change_of(analysis("guard", "--json"))
    assert change["next"] == f"scalemark {' '.join(step)}"


def test_two_versions_of_one_day_have_no_filter_that_tells_them_apart(nights):
    chosen = Selection(db="results.db")
    (change,) = changes(histories(chosen), LEAST)
    day = Night(day=change.first)
    assert next_command(replace(change, sides=(day, day)), chosen) == ""


def test_sweeps_of_a_night_that_share_no_trial_are_not_compared(nights):
    chosen = Selection(db="results.db")
    (change,) = changes(histories(chosen), LEAST)
    ids = [cell.trial_id for cell in change.cells]
    sides = tuple(
        Night(day=change.first, trials={name: frozenset({trial_id})})
        for name, trial_id in zip(("a", "b"), ids, strict=True)
    )
    assert next_command(replace(change, sides=sides), chosen) == ""


def test_the_next_step_names_sweeps_that_measured_the_trials(nights, analysis):
    """A bug: it named the last sweep of the night, whatever that had measured."""
    late = small(model="vgg16")
    fill_nights(
        "results.db",
        {late: steady(NUM_NIGHTS)},
        environments=SOFTWARE,
        first=FIRST + timedelta(hours=1),
        name="late",
    )
    step = next_step(analysis("guard"))
    assert step == ["compare", "sweep=night-19", "sweep=night-20", "model=resnet50"]


@pytest.mark.parametrize("value", ["1,2", "1 b=2"])
def test_the_next_step_names_values_as_filters_read_them(analysis, value):
    """A bug: a comma parted a value into two, and a space an argument."""
    history = {
        small(num_gpus=num, free=(("env.X", text),)): slower(
            steady(NUM_NIGHTS, 100.0, num), SINCE, 0.9 if text == value else 1.0
        )
        for text in ("1", value)
        for num in (1, 2)
    }
    fill_nights("results.db", history)
    step = next_step(analysis("guard"))
    assert step[3:] == [f"env.X={value}".replace(",", r"\,")]
    pairs = json.loads(analysis(*step, "--json").stdout)["pairs"]
    assert [pair["a"]["env.X"] for pair in pairs] == [value] * 2


@pytest.mark.parametrize(
    ("start", "arguments"),
    [
        ("0 regressions", ("model=trivial",)),
        ("0 regressions", ("--min-change", "15")),
        ("Too early to find regressions", ("sweep~night-?",)),
    ],
)
def test_nothing_new_to_look_at_is_exit_code_0(nights, analysis, start, arguments):
    ended = analysis("guard", *arguments)
    assert ended.exit_code == 0, ended.stdout
    assert ended.stdout.startswith(start)


def test_a_sweep_with_the_tag_accepts_a_regression(nights, analysis):
    engine = open_for_writing("results.db")
    sweep = listing.find(engine, "night-20")
    annotate.annotate(engine, sweep, datetime.now(UTC), ["accepted"])
    engine.dispose()
    ended = analysis("guard", "--json")
    assert ended.exit_code == 0
    assert change_of(ended)["accepted"] == "night-20"


def test_one_night_says_that_more_are_needed(analysis, snapshot):
    fill("results.db", [(small(), 100.0), (small(num_gpus=2), 190.0)])
    ended = analysis("guard")
    assert ended.exit_code == 0
    assert ended.stdout == snapshot


def test_published_figures_have_no_history(nights, analysis):
    ended = analysis("guard", "--origin", "published")
    assert ended.exit_code == 2
    assert "have no history; wanted measured or simulated" in ended.stderr


def table():
    lines = ["date,gpus,way,version,img_s"]
    for night in range(NUM_NIGHTS):
        for place, way in enumerate(("ddp", "fsdp")):
            for gpus in (1, 2):
                value = HISTORY[TRIALS[2 if way == "fsdp" else 0]][night] * gpus
                version = "2.9" if night < SINCE else "2.10"
                lines.append(f"2026-01-{night + 1:02d},{gpus},{way},v{version},{value + place}")
    Path("mine.csv").write_text("\n".join(lines))


def take_in(when="date=when"):
    meanings = ImportOptions(
        maps=("img_s=throughput", "gpus=num_gpus"), axes=(when, "way", "version")
    )
    import_files("results.db", ["mine.csv"], said=meanings)


def test_advice_is_about_the_newest_night_of_a_table(analysis):
    """A bug: each night was a choice of its own, and the best one was that of the luckiest night."""
    table()
    take_in()
    (answer,) = advised(analysis("advise", "--all", "--json"))
    picked = answer["pick"]
    assert picked["num_gpus"] == 2
    assert "axes.when" not in picked
    assert picked["versions"] == "measured elsewhere: mine.csv, newest night 2026-01-26"
    assert "when=" not in analysis("advise", "--all").stdout


def test_strategies_are_scaled_and_compared_on_the_newest_night(analysis):
    table()
    take_in()
    (found,) = json.loads(analysis("scaling", "--json").stdout)
    assert len(found["curves"]) == 2
    pairs = json.loads(analysis("compare", "way=ddp", "way=fsdp", "--json").stdout)["pairs"]
    assert [pair["a"]["num_gpus"] for pair in pairs] == [1, 2]


def test_nights_that_are_named_are_compared(analysis):
    table()
    take_in()
    asked = ("compare", "when=2026-01-20", "when=2026-01-19", "way=ddp", "--json")
    pairs = json.loads(analysis(*asked).stdout)["pairs"]
    assert [pair["a"]["axes.when"] for pair in pairs] == ["2026-01-20"] * 2
    assert [pair["b"]["axes.when"] for pair in pairs] == ["2026-01-19"] * 2


def test_rows_of_one_night_are_repeats_at_whatever_time(analysis):
    Path("mine.csv").write_text(
        "date,gpus,img_s\n2026-01-01,1,70\n2026-01-02T01:00,1,99\n2026-01-02T02:00,1,101\n,1,5\n"
    )
    maps = ("img_s=throughput", "gpus=num_gpus")
    import_files("results.db", ["mine.csv"], said=ImportOptions(maps=maps, axes=("date=when",)))
    for asked in ((), ("when~2026*",)):
        (found,) = json.loads(analysis("scaling", "--json", *asked).stdout)
        (point,) = found["curves"][0]["points"]
        assert point["repeats"] == [99, 101]


def test_of_two_regressions_one_is_compared_and_accepted(analysis):
    first = slower(steady(NUM_NIGHTS, 100.0, 1), 10, 0.8)
    second = slower(steady(NUM_NIGHTS, 200.0, 2), SINCE, 0.8)
    fill_nights("results.db", {small(): first, small(num_gpus=2): second})
    text = analysis("guard").stdout
    assert text.startswith("2 regressions")
    assert "compare sweep=night-19 sweep=night-21\n" in text
    assert "are the levels of 2026-01-21 intended?" in text
    assert f"db mark night-{SINCE} --tag accepted" in text
