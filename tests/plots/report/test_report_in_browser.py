"""In a real browser: the page needs nothing, complains of nothing, sorts, filters, draws the database's numbers, and harms nobody."""

import itertools
import json
import re
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest
from playwright.sync_api import Page

from analysis.results import BaselineRule, Origin
from benchmarks.storing import results
from plots.report.page import data, render
from scalemark.records.measurement import ReplicaTimes
from scalemark.records.outcomes import Outcome, Phase
from store.database import open_for_writing
from tests.browser import TIMEOUT_MS, Visit
from tests.filled import NOON, STEPS, fill
from tests.plots.report.conftest import NASTY, PS, RESNET, VGG, Ended, Make, source, times, write
from tests.specs import small

pytestmark = pytest.mark.integration

Show = Callable[..., Visit]


@pytest.fixture
def show(make: Make, open_page) -> Show:
    """show("results.db", width_px=375) is a page that has drawn all its charts."""

    def show(
        db: str = "results.db", *, live: bool = False, scripts: tuple[str, ...] = (), **window
    ) -> Visit:
        selection = {
            name: window.pop(name)
            for name in ("origin", "source", "sweep", "filters", "baseline")
            if name in window
        }
        visit = open_page(make(db, live=live, scripts=scripts, **selection), **window)
        drawn(visit.page)
        return visit

    return show


def drawn(page: Page) -> None:
    page.wait_for_selector("html[data-charts=drawn]")


def texts(page: Page, selector: str) -> list[str]:
    return page.eval_on_selector_all(selector, "nodes => nodes.map(node => node.innerText.trim())")


def column(page: Page, name: str) -> list[str]:
    """Of the list of trials, the rows that are made."""
    number = texts(page, "#trial-list thead th").index(name) + 1
    return texts(page, f"#trial-list tbody tr:not(.gap) > :nth-child({number})")


def points(page: Page, chart: str = "chart", name: str = "points") -> list[dict]:
    return page.evaluate(
        "([chart, name]) => window.scalemark.views.get(chart).data(name).map(row => ({...row}))",
        [chart, name],
    )


def heading(page: Page, name: str):
    return page.locator("#trial-list thead").get_by_role("button", name=name, exact=True)


def go(page: Page, address: str) -> None:
    """To another view, as by the address bar."""
    page.evaluate("address => { location.hash = address }", address)
    page.wait_for_function(
        "() => document.documentElement.dataset.view === location.hash.slice(1).split('?')[0].replace(/^t-.*/, 'trial')"
    )
    drawn(page)


def choose(page: Page, selector: str, value: str) -> None:
    page.locator(selector).select_option(value)
    drawn(page)


def key_of(page: Page, **axes: object) -> str:
    """The key of the one trial with these."""
    (found,) = page.evaluate(
        "axes => window.scalemark.data().trials.filter(trial => Object.entries(axes).every(([name, value]) => trial[name] === value)).map(trial => trial.key)",
        axes,
    )
    return found


def sorting(page: Page) -> list[str]:
    """Heading and direction of the column that the list is sorted by."""
    return page.eval_on_selector_all(
        "#trial-list thead th[aria-sort]",
        "all => all.flatMap(one => [one.textContent, one.getAttribute('aria-sort')])",
    )


@pytest.mark.parametrize("color_scheme", ["light", "dark"])
@pytest.mark.parametrize("width_px", [375, 1600])
def test_it_loads_from_a_file_without_any_request_or_complaint_and_fits(
    everything, show, width_px, color_scheme
):
    visit = show(width_px=width_px, color_scheme=color_scheme)
    visit.keep_screenshot("report")
    assert visit.page.url.startswith("file://")
    assert visit.requests == []
    assert visit.complaints == []
    assert visit.page.evaluate("document.documentElement.scrollWidth") == width_px


def test_charts_have_the_points_of_the_database(everything, show):
    page = show().page
    results = source(everything).results
    tables = page.eval_on_selector_all("#table option", "all => all.map(one => one.value)")
    names = {"scaling": "throughput", "speed_up": "speed_up", "efficiency": "efficiency"}
    for kind, quantity in names.items():
        choose(page, "#quantity", kind)
        reported = set()
        for table in tables:
            choose(page, "#table", table)
            for point in points(page):
                trial = point["trial"].split("-")[1]
                reported.add((trial, point["series"], point["num_gpus"], point[quantity]))
        stored = {
            (result.trial_id, result.strategy, result.num_gpus, getattr(result, quantity))
            for result in results
            if getattr(result, quantity) is not None
        }
        assert reported == stored
        assert reported


def test_intervals_are_drawn_where_they_are_known(everything, show):
    page = show().page
    results = {result.trial_id: result for result in source(everything).results}
    for point in points(page):
        result = results[point["trial"].split("-")[1]]
        assert (point["low"], point["high"]) == (result.low, result.high)
    rules = page.locator("#chart svg .mark-rule.role-mark line")
    assert rules.count() == 5


def test_points_stand_on_the_page_as_far_apart_as_their_numbers(everything, show):
    """Not only in the data: the marks themselves."""
    page = show().page
    environments = page.eval_on_selector_all(
        "#chart svg .mark-symbol.role-mark path",
        "marks => marks.map(mark => mark.getAttribute('transform'))",
    )
    found = [
        tuple(map(float, re.findall(r"[\d.]+", environment)[:2])) for environment in environments
    ]
    reported = [(point["num_gpus"], point["throughput"]) for point in points(page)]
    assert len(found) == len(reported) == 5
    (x0, y0), (x1, y1) = found[0], found[-1]
    (gpus0, images0), (gpus1, images1) = reported[0], reported[-1]
    for (x, y), (gpus, images) in zip(found, reported, strict=True):
        assert x == pytest.approx(x0 + (gpus - gpus0) / (gpus1 - gpus0) * (x1 - x0), abs=0.01)
        assert y == pytest.approx(
            y0 + (images - images0) / (images1 - images0) * (y1 - y0), abs=0.01
        )


def test_the_ideal_line_is_the_best_on_one_times_the_devices(everything, show):
    page = show().page
    ideal = {point["num_gpus"]: point["ideal"] for point in points(page, name="ideal")}
    assert ideal == {width: pytest.approx(100 * width, rel=1e-4) for width in (1, 2, 4)}


def test_the_ideal_starts_at_1_where_the_baseline_does(show):
    counts = ((2, 100.0), (4, 190.0), (8, 350.0))
    write("results.db", [end for n, images in counts for end in times(small(num_gpus=n), images)])
    page = show(baseline=BaselineRule.FEWEST).page
    reported = {}
    for kind in ("scaling", "speed_up", "efficiency"):
        choose(page, "#quantity", kind)
        ideal = points(page, name="ideal")
        reported[kind] = [(point["num_gpus"], point["ideal"]) for point in ideal]
    assert reported == {
        "scaling": [(2, 100), (4, 200), (8, 400)],
        "speed_up": [(2, 1), (4, 2), (8, 4)],
        "efficiency": [(2, 1), (4, 1), (8, 1)],
    }


def test_one_number_of_devices_has_no_ideal_line_to_complain_of(show):
    write("results.db", times(small(), 10.0))
    page = show().page
    choose(page, "#quantity", "speed_up")
    names = page.evaluate(
        "Object.keys(window.scalemark.views.get('chart').getState({data: () => true, signals: () => false}).data)"
    )
    assert "points" in names
    assert "ideal" not in names


def test_the_heat_map_has_strategies_of_the_chosen_number_of_devices(everything, show):
    page = show().page
    page.get_by_text("All tables side by side").click()
    page.locator("#heat-chart svg").wait_for()

    def shown() -> dict[tuple[str, str], tuple[str, float]]:
        return {
            (point["row"], point["series"]): (point["text"], point["share"])
            for point in points(page, "heat-chart")
        }

    assert shown() == {
        ("resnet50", "replicated_none"): ("300", 1),
        ("resnet50", "ps_cpu"): ("OOM", None),
    }
    choose(page, "#heat-count", "2")
    reported = shown()
    assert len(reported) == 4
    assert reported["resnet50", "ps_cpu"] == ("150", pytest.approx(150 / 180, rel=1e-4))
    assert reported["vgg16", "ps_cpu"] == ("HANG", None)


def test_hovering_shows_the_values(everything, show):
    page = show().page
    page.locator("#chart").scroll_into_view_if_needed()
    page.locator("#chart svg .mark-symbol.role-mark path").last.hover(force=True)
    tip = page.locator("#vg-tooltip-element.visible")
    tip.wait_for()
    assert "300" in tip.inner_text()
    assert "3.00x of replicated_none on 1" in tip.inner_text()


def test_cpu_devices_are_nowhere_called_gpus(everything, show):
    page = show().page
    assert not re.search(r"\d GPU", page.locator("main").inner_text())
    go(page, "#trials")
    assert "GPUs" not in page.locator("#trial-list").inner_text()
    assert heading(page, "CPU devices").count() == 1


def test_the_page_of_a_trial_has_its_steps_verdict_environment_and_command(everything, show):
    page = show().page
    page.locator("article.chosen td a", has_text="31").or_(
        page.locator("article.chosen td a", has_text="300")
    ).first.click()
    page.locator("#steps-chart svg").wait_for()
    assert {
        (point["number"], point["ms"], point["phase"]) for point in points(page, "steps-chart")
    } == {(0, 200, "warm-up"), (1, 100, "measured"), (2, 100, "measured")}
    assert [point["median"] for point in points(page, "steps-chart", "medians")] == [100]
    assert len(texts(page, "#steps-table tbody tr")) == 3
    shown = page.locator("#trial-page").inner_text()
    spec = small(**RESNET, num_gpus=4)
    assert shown.startswith("resnet50, replicated_none on 4")
    for reported in ("300 [", "3.00x of replicated_none on 1", "valid", "testbox", spec.trial_id):
        assert reported in shown, reported
    assert page.evaluate("document.activeElement.tagName") == "H2"
    command = page.locator("#trial-page code.command").inner_text()
    assert command.startswith(
        "python sweep.py model=resnet50 num_gpus=4 strategy=replicated_none hardware=cpu "
    )
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy").locator("visible=true").click()
    page.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == command
    page.go_back()
    assert page.locator("article.chosen").is_visible()


def test_two_trials_are_compared(everything, show):
    page = show().page
    go(page, "#trials")
    boxes = page.locator("input.compare")
    boxes.nth(0).check()
    boxes.nth(1).check()
    boxes.nth(4).check()
    assert [boxes.nth(at).is_checked() for at in (0, 1, 4)] == [False, True, True]
    page.locator("#compared a").click()
    page.locator("#steps-chart svg").wait_for()
    rows = {row.split("\t")[0]: row.split("\t")[1:] for row in texts(page, "#trial-page tbody tr")}
    one, other = (source(everything).results[at] for at in (1, 4))
    assert rows["strategy"] == [one.strategy, other.strategy]
    assert rows["throughput"][0].startswith(f"{one.throughput:.0f} [")
    assert "precision" not in rows
    ratio = one.throughput / other.throughput
    assert f"{ratio:.2f}x the throughput" in page.locator("#trial-page").inner_text()
    assert len({point["repeat"] for point in points(page, "steps-chart")}) == 6


def test_a_trial_that_is_not_on_the_page_is_said_to_be_missing(everything, show):
    page = show().page
    go(page, "#t-nothing")
    assert "No such trial" in page.locator("#trial-page").inner_text()


def test_the_first_measured_call_is_in_no_median(show):
    spans = [
        (Phase.WARM_UP, 0.2),
        (Phase.MEASURE, 0.05),
        (Phase.MEASURE, 0.1),
        (Phase.MEASURE, 0.12),
    ]
    steps = [
        replace(STEPS[0], step=at, phase=phase, duration_s=span)
        for at, (phase, span) in enumerate(spans)
    ]
    fill("results.db", [(small(), 100.0)], details=[{"steps": steps}])
    page = show().page
    go(page, "#t-" + key_of(page))
    assert [point["median"] for point in points(page, "steps-chart", "medians")] == [110]
    assert texts(page, "#steps-table tbody tr") == ["repeat 1\t1\t1\t2\t100\t110\t118\t120"]


def test_lines_are_hidden_and_shown_again_by_click_and_by_key(everything, show):
    page = show().page
    toggle = page.locator("button.line", has_text="ps_cpu").first
    toggle.click()
    assert toggle.get_attribute("aria-pressed") == "false"
    drawn(page)
    assert {point["series"] for point in points(page)} == {"replicated_none"}
    toggle.focus()
    page.keyboard.press("Space")
    assert toggle.get_attribute("aria-pressed") == "true"
    drawn(page)
    assert {point["series"] for point in points(page)} == {"replicated_none", "ps_cpu"}


def test_the_list_is_sorted_by_click_downward_upward_and_back(everything, show):
    page = show().page
    go(page, "#trials")
    name = "images/s [95 % CI]"

    def shown() -> list[str]:
        return [text.partition(" ")[0] for text in column(page, name)]

    first = shown()
    button = heading(page, name)
    button.click()
    assert sorting(page) == [name, "descending"]
    assert shown() == ["300", "180", "150", "100", "100", "31.0", "20.0", "", "", ""]
    assert page.evaluate("location.hash") == "#trials?sort=-throughput"
    button.click()
    assert sorting(page) == [name, "ascending"]
    assert shown() == ["20.0", "31.0", "100", "100", "150", "180", "300", "", "", ""]
    button.click()
    assert sorting(page) == []
    assert shown() == first


@pytest.mark.parametrize("key", ["Enter", "Space"])
def test_the_list_is_sorted_by_keyboard_alone(everything, show, key):
    page = show().page
    go(page, "#trials")
    heading(page, "model").focus()
    page.keyboard.press(key)
    page.keyboard.press(key)
    assert column(page, "model") == sorted(column(page, "model"), reverse=True)
    assert page.locator("#said").inner_text() == "Sorted by model, descending."
    assert page.evaluate("document.activeElement.textContent") == "model"


def test_columns_that_differ_are_shown_and_others_can_be_had(everything, show):
    page = show().page
    go(page, "#trials")
    assert {"model", "strategy", "batch", "outcome"} <= set(texts(page, "#trial-list thead th"))
    assert "precision" not in texts(page, "#trial-list thead th")
    assert "fp32" in page.locator("#part-trials").inner_text()
    page.locator("#columns summary").click()
    page.get_by_label("precision", exact=True).check()
    page.get_by_label("batch", exact=True).uncheck()
    assert column(page, "precision") == ["fp32"] * 10
    assert "batch" not in texts(page, "#trial-list thead th")
    page.reload()
    drawn(page)
    assert column(page, "precision") == ["fp32"] * 10


def test_a_table_is_sorted_by_a_column_and_failures_stay_last(everything, show):
    page = show().page
    table = page.locator("article.chosen table")
    button = table.get_by_role("button", name="4 CPU devices")
    rows = "article.chosen tbody tr th"
    for _ in range(2):
        button.click()
        assert texts(page, rows) == ["replicated_none", "ps_cpu"]
    table.get_by_role("button", name="2 CPU devices").click()
    table.get_by_role("button", name="2 CPU devices").click()
    assert texts(page, rows) == ["ps_cpu", "replicated_none"]


def test_filters_leave_what_fits_in_tables_charts_and_list(everything, show):
    page = show().page
    choose(page, "#filter-model", "vgg16")
    assert page.locator("#count").inner_text() == "4 of 10 trials"
    assert "vgg16" in page.locator("article.chosen h2").inner_text()
    assert {point["throughput"] for point in points(page)} == {20, 31}
    page.get_by_role("link", name="Trials", exact=True).click()
    assert set(column(page, "model")) == {"vgg16"}
    page.locator("#filter-outcome").select_option("hung")
    assert column(page, "outcome") == ["hung"]
    assert page.evaluate("location.hash") == "#trials?model=vgg16&outcome=hung"
    page.reload()
    drawn(page)
    assert column(page, "outcome") == ["hung"]
    page.get_by_role("button", name="Clear").click()
    page.wait_for_function(
        "() => document.querySelector('#count').textContent === '10 of 10 trials'"
    )
    page.get_by_role("searchbox").fill("RESNET50 ps_cpu memory")
    assert column(page, "outcome") == ["out of memory"]
    page.get_by_role("searchbox").fill("no such thing")
    assert column(page, "outcome") == []
    assert page.locator("#no-match").inner_text() == "No trial matches these filters."
    page.get_by_role("searchbox").fill("1.5 cores")
    assert [badge for badge in column(page, "doubts") if "suspect" in badge]


def test_a_filter_hides_rows_of_a_table_and_its_lines(everything, show):
    page = show().page
    page.locator("#filter-strategy").select_option("ps_cpu")
    drawn(page)
    assert page.locator("article.chosen tbody tr:visible th").all_inner_texts() == ["ps_cpu"]
    assert {point["series"] for point in points(page)} == {"ps_cpu"}


def test_charts_follow_the_width_of_the_window(everything, show):
    visit = show(width_px=1600)
    visit.page.set_viewport_size({"width": 375, "height": 800})
    visit.page.wait_for_function(
        "() => document.querySelector('.chart svg').getAttribute('width') < 375"
    )
    assert visit.page.evaluate("document.documentElement.scrollWidth") == 375
    assert visit.complaints == []


def test_reasons_stand_on_the_page_of_a_trial(everything, show):
    page = show().page
    go(page, "#t-" + key_of(page, verdict="suspect"))
    assert "others took 1.5 cores" in page.locator("#trial-page").inner_text()


def test_a_trial_leads_to_the_one_that_timed_its_replicas(show):
    seconds = {f"GPU:{number}": (0.0999, 0.1, 0.1001, 0.1) * 8 for number in range(3)}
    timed = ReplicaTimes(at_once=True, seconds=seconds)
    timing = small(num_gpus=3, variable_update="independent", replica_times=True)
    target = small(num_gpus=3)
    ends = [(timing, Ended(throughput=95.0, replica_times=timed)), (target, Ended(throughput=90.0))]
    write("results.db", ends)
    page = show().page
    go(page, "#t-" + key_of(page, trial_id=target.trial_id))
    shown = page.locator("#trial-page").inner_text()
    assert "No replica is slow: GPU:0, the slowest, takes at most" in shown
    assert f" Timed in {timing.trial_id[:4]}." in shown
    page.locator("#trial-page dd a").click()
    page.wait_for_function(
        "id => document.querySelector('#trial-page').innerText.includes(id)", arg=timing.trial_id
    )
    assert "Timed in" not in page.locator("#trial-page").inner_text()


def test_failures_stand_on_the_page_of_a_trial(everything, show):
    page = show().page
    go(page, "#t-" + key_of(page, outcome="hung"))
    shown = page.locator("#trial-page").inner_text()
    assert "no step for 600 s\nlast: 17" in shown
    assert "/runs/x/log.txt" in shown
    assert page.locator("#steps-none").inner_text() == "No steps are stored."


def test_an_address_with_a_trial_opens_it(everything, make, open_page):
    path = make(everything)
    result = source(everything).results[-1]
    visit = open_page(f"{path.resolve().as_uri()}#t-{result.environment.key}-{result.trial_id}")
    drawn(visit.page)
    assert result.trial_id in visit.page.locator("#trial-page").inner_text()


def test_the_list_names_failed_repeats_of_completed_trials(show):
    ends = [(small(), Ended(throughput=95.0)), (small(), Ended(outcome=Outcome.OUT_OF_MEMORY))]
    write("results.db", [*ends, *times(small(num_gpus=2), 100.0)])
    page = show().page
    go(page, "#trials")
    assert column(page, "outcome") == ["completed, but 1 of 2 repeats: out of memory", "completed"]


def test_the_list_has_utilization_where_any_is_known(show):
    entries = [(small(num_gpus=2**at), one) for at, one in enumerate((100.0, 9.0, 100.0, None))]
    fill("results.db", entries, details=[{"mfu": 0.312}, {"mfu": 0.00123}, {}, {}])
    page = show().page
    go(page, "#trials")
    assert column(page, "MFU") == ["31.2 %", "0.123 %", "unknown", ""]


def test_without_any_utilization_the_list_has_no_such_column(show):
    fill("results.db", [(small(), 100.0)])
    page = show().page
    go(page, "#trials")
    assert heading(page, "MFU").count() == 0


def test_a_single_run_has_a_badge_beside_its_interval(show):
    write("results.db", [*times(small(), 100.0), *times(small(num_gpus=2), 99.0, 100.0, 101.0)])
    page = show().page
    go(page, "#trials")
    assert column(page, "doubts") == ["single run", ""]
    single, repeated = column(page, "images/s [95 % CI]")
    assert single == "100 [95, 105]"
    assert re.fullmatch(r"100 \[\d+, \d+\]", repeated)
    assert {point["doubts"] for point in points(page)} == {"single run", "none"}


@pytest.mark.parametrize("address", ["#t-%E0%A4", "#trials?columns=%E0", "#nothing"])
def test_a_damaged_address_does_no_harm(everything, make, open_page, address):
    visit = open_page(f"{make(everything).resolve().as_uri()}{address}")
    drawn(visit.page)
    assert visit.page.evaluate("window.scalemark.data().trials.length") == 10
    assert visit.complaints == []


def test_dark_and_light_are_chosen_by_a_button_and_charts_follow(everything, show):
    page = show(color_scheme="light").page
    label = page.locator(".chart svg .mark-text text").first
    ground = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(ground) == "rgb(255, 255, 255)"
    before = label.evaluate("node => getComputedStyle(node).fill")
    page.get_by_role("button", name="Dark").click()
    assert page.evaluate(ground) == "rgb(22, 24, 29)"
    assert label.evaluate("node => getComputedStyle(node).fill") != before
    page.get_by_role("button", name="Light").click()
    assert page.evaluate(ground) == "rgb(255, 255, 255)"


def test_on_paper_there_are_no_controls_but_tables_and_charts_in_ink(everything, show):
    visit = show(color_scheme="dark")
    page = visit.page
    page.emulate_media(media="print")
    visit.keep_screenshot("report-print")
    assert not page.locator("#filters").is_visible()
    assert not page.get_by_role("button", name="Light").is_visible()
    assert page.locator("article.table table").first.is_visible()
    assert page.locator(".chart svg").first.is_visible()
    assert (
        page.locator(".chart svg .mark-text text").first.evaluate(
            "node => getComputedStyle(node).fill"
        )
        == "rgb(0, 0, 0)"
    )
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert len(page.pdf()) > 10_000


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of 2,000 trials."""
    folder = tmp_path_factory.mktemp("many")
    engine = open_for_writing(str(folder / "many.db"))
    results.add(engine, results.attempts(2_000, 34, grid=results.GRID, num_repeats=1))
    engine.dispose()
    path = folder / "many.html"
    path.write_text(render(source(str(folder / "many.db")), NOON), encoding="utf-8")
    return path


def test_two_thousand_trials_are_few_words_and_bytes(many, open_page):
    assert many.stat().st_size < 2_000_000
    page = open_page(many, width_px=1400).page
    drawn(page)
    for shown in ("results", "trials"):
        go(page, f"#{shown}")
        assert page.evaluate("document.body.innerText.split(/\\s+/).length") < 3_000


def test_rows_of_a_long_list_are_made_as_they_come_into_view(many, open_page):
    page = open_page(many).page
    drawn(page)
    go(page, "#trials")
    assert 20 < page.locator("#trial-list tbody tr:not(.gap)").count() < 100
    assert page.locator("#trial-list").get_attribute("aria-rowcount") == "2001"
    page.locator("#trial-box").evaluate("box => { box.scrollTop = box.scrollHeight }")
    page.locator('#trial-list tr[aria-rowindex="2001"]').wait_for()
    assert page.locator("#trial-list tbody tr:not(.gap)").count() < 100
    assert page.locator("#trial-list thead").is_visible()


def test_the_answer_table_and_chart_stand_on_the_first_screen(open_page):
    engine = open_for_writing("results.db")
    results.add(engine, results.attempts(100, 34, grid=results.ARTICLE, num_repeats=3))
    engine.dispose()
    path = Path("report.html")
    path.write_text(render(source("results.db"), NOON), encoding="utf-8")
    page = open_page(path, width_px=1400, height_px=900).page
    drawn(page)
    words = page.evaluate("""() => {
        const seen = document.body.innerText;
        const table = document.querySelector("#best table").innerText;
        return seen.slice(0, seen.indexOf(table)).split(/\\s+/).filter(Boolean).length;
    }""")
    assert 0 < words < 60
    for selector in ("#best table", "article.chosen table", "#chart svg"):
        assert page.locator(selector).bounding_box()["y"] < 900, selector
    box = page.locator("#chart svg").bounding_box()
    assert box["y"] + box["height"] < 900


VIEWS = ("#results", "#trials", "#t-{key}", "#compare?of={key},{other}", "#failures", "#provenance")
AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("color_scheme", ["light", "dark"])
@pytest.mark.parametrize("width_px", [390, 768, 1400])
def test_axe_finds_nothing_that_hinders_a_reader(everything, show, width_px, color_scheme):
    page = show(width_px=width_px, color_scheme=color_scheme).page
    key, other = (key_of(page, outcome=outcome) for outcome in ("hung", "out_of_memory"))
    for view in VIEWS:
        go(page, view.format(key=key, other=other))
        page.eval_on_selector_all("details", "all => all.forEach(one => { one.open = true })")
        drawn(page)
        found = page.evaluate(f"{AXE}; axe.run().then(found => found.violations)")
        assert [(one["id"], one["nodes"][0]["html"]) for one in found] == [], view
        assert page.evaluate("document.documentElement.scrollWidth") == width_px, view


@pytest.mark.parametrize("nasty", NASTY)
def test_texts_of_others_do_no_harm(show, nasty):
    ends = [*times(small(model=nasty), 10.0), *times(small(model=nasty, num_gpus=2), 18.0)]
    write(
        "results.db", [*ends, (small(model=nasty, num_gpus=4), Ended(message=nasty))], name="first"
    )
    visit = show()
    page = visit.page
    page.locator("#chart svg .mark-symbol.role-mark path").last.hover(force=True)
    page.locator("#vg-tooltip-element.visible").wait_for()
    assert [point["throughput"] for point in points(page)] == [10, 18]
    go(page, "#trials")
    page.get_by_role("searchbox").fill("completed")
    page.locator("#columns summary").click()
    page.get_by_label("model", exact=True).check()
    heading(page, "model").click()
    assert len(column(page, "model")) == 2
    page.locator("#trial-list tbody a").first.click()
    drawn(page)
    go(page, "#t-" + key_of(page, num_gpus=4))
    go(page, f"#compare?of={key_of(page, num_gpus=4)},{key_of(page, num_gpus=2)}")
    assert page.evaluate("window.scalemark.data().trials[0].model") == nasty
    assert page.locator("article.table h2 *").count() == 0
    assert visit.complaints == []
    assert visit.requests == []


def test_what_runs_as_a_script_in_spite_of_all_is_stopped_by_the_policy(everything, show):
    visit = show()
    visit.page.evaluate(
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"alert(1)\"><svg onload=alert(2)>')"
    )
    visit.page.evaluate(
        "() => { const one = document.createElement('script'); one.textContent = 'alert(3)'; document.body.append(one) }"
    )
    assert not [complaint for complaint in visit.complaints if complaint.startswith("alert")]
    assert any("Content Security Policy" in complaint for complaint in visit.complaints)


@pytest.mark.parametrize(
    "ends",
    [
        [(small(), Ended()), (small(num_gpus=2), Ended())],
        times(small(), 10.0),
        [*times(small(num_gpus=2), 10.0), *times(small(num_gpus=4), 15.0)],
    ],
    ids=["only failures", "one point", "no baseline"],
)
def test_odd_results_make_no_complaint(show, ends):
    write("results.db", ends)
    visit = show()
    visit.page.locator("button.line").first.click()
    drawn(visit.page)
    assert visit.complaints == []
    assert "NaN" not in visit.page.locator("body").inner_text()
    assert "undefined" not in visit.page.locator("body").inner_text()


def test_what_cannot_be_drawn_is_said(show):
    write("results.db", times(small(num_gpus=2), 10.0))
    page = show().page
    choose(page, "#quantity", "efficiency")
    assert texts(page, "#chart") == ["Not known: there is no baseline to compare with."]


def test_published_figures_make_no_complaint(show):
    visit = show("no.db", origin=Origin.PUBLISHED, source="tf-benchmarks-2017/dgx-1")
    visit.keep_screenshot("report-published")
    assert visit.complaints == []
    go(visit.page, "#trials")
    visit.page.locator("#trial-list tbody a").first.click()
    assert visit.page.locator("#steps-none").inner_text() == "No steps are stored."


MORE = [*times(small(**VGG, num_gpus=4), 60.0), *times(small(**VGG, **PS, num_gpus=4), 55.0)]


def test_newer_data_replace_what_is_shown_and_the_reader_stays(everything, show):
    visit = show(live=True)
    page = visit.page
    go(page, "#trials")
    heading(page, "images/s [95 % CI]").click()
    choose(page, "#filter-model", "vgg16")
    page.locator("input.compare").first.check()
    page.locator("#trial-list tbody a").nth(1).focus()
    write(everything, MORE, name="second")
    newer = data(source(everything), NOON)
    page.evaluate("newer => window.scalemark.update(newer)", json.loads(json.dumps(newer)))
    shown = [text.partition(" ")[0] for text in column(page, "images/s [95 % CI]")]
    assert shown == ["60.0", "55.0", "31.0", "20.0", "", ""]
    assert page.locator("#count").inner_text() == "6 of 12 trials"
    assert page.locator("input.compare:checked").count() == 1
    assert sorting(page) == ["images/s [95 % CI]", "descending"]
    assert page.evaluate("document.activeElement.closest('#trial-list tbody tr') !== null")
    assert "12 trials of 2 models" in page.locator("#part-trials").inner_text()
    go(page, "#results?model=vgg16")
    assert sorted(point["throughput"] for point in points(page)) == [20, 31, 55, 60]
    assert visit.complaints == []
    assert visit.requests == []


def test_data_that_are_the_same_redraw_nothing(everything, show):
    page = show(live=True).page
    page.evaluate(
        "() => { for (const svg of document.querySelectorAll('.chart svg')) svg.dataset.mine = 1 }"
    )
    count = page.locator(".chart svg").count()
    newer = json.loads(json.dumps(data(source(everything), NOON)))
    page.evaluate("newer => window.scalemark.update(newer)", newer)
    assert page.locator(".chart svg[data-mine]").count() == count
    assert page.locator(".needs-script[hidden]:not(#no-match)").count() == 0


def test_without_scripts_tables_are_there_and_controls_are_not(everything, make, chromium):
    with chromium.new_context(java_script_enabled=False) as context:
        context.set_default_timeout(TIMEOUT_MS)
        page = context.new_page()
        page.goto(make(everything).resolve().as_uri())
        assert page.locator("article.table table").first.is_visible()
        page.get_by_text("In words, and how to read it").first.click()
        assert "is fastest with 180 images/s" in page.locator("#results").inner_text()
        assert "no step for 600 s" in page.locator("#failures").inner_text()
        assert not page.locator("#filters").is_visible()
        assert "needs JavaScript" in page.locator("#trials").inner_text()


def test_a_keyboard_reaches_everything_and_screen_readers_are_reported(everything, show):
    page = show().page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the results"
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#main"
    assert (
        page.locator("main").count()
        == page.locator("header").count()
        == page.locator("h1").count()
        == 1
    )
    assert (
        page.eval_on_selector_all(
            "table",
            "all => all.filter(one => !one.caption || !one.caption.textContent.trim()).length",
        )
        == 0
    )
    assert (
        page.eval_on_selector_all(
            "thead th", "all => all.filter(one => one.scope !== 'col').length"
        )
        == 0
    )
    assert (
        page.eval_on_selector_all(
            ".chart",
            "all => all.filter(one => one.checkVisibility({ contentVisibilityAuto: true }) && !one.getAttribute('aria-label')).length",
        )
        == 0
    )
    assert (
        page.eval_on_selector_all(
            "[aria-labelledby]",
            "all => all.filter(one => !document.getElementById(one.getAttribute('aria-labelledby'))).length",
        )
        == 0
    )
    assert (
        page.eval_on_selector_all(
            "select, input", "all => all.filter(one => !one.labels.length && !one.ariaLabel).length"
        )
        == 0
    )
    assert (
        page.eval_on_selector_all(
            "[id]", "all => all.length - new Set(all.map(one => one.id)).size"
        )
        == 0
    )
    levels = page.eval_on_selector_all(
        "h1, h2, h3, h4", "all => all.map(one => Number(one.tagName[1]))"
    )
    assert all(later <= earlier + 1 for earlier, later in itertools.pairwise(levels)), levels
