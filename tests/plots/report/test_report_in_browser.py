"""In a real browser: the page needs nothing, complains of nothing, sorts, filters, draws the database's numbers, and harms nobody."""

import itertools
import json
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from playwright.sync_api import Page, expect

from analysis.results import BaselineRule, Origin
from plots.report.page import data
from scalemark.records.outcomes import Outcome, Phase
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


def column(page: Page, number: int) -> list[str]:
    """Of the list of trials, the lines that are to be seen."""
    return texts(page, f"#trial-list tbody tr:not([hidden]) > :nth-child({number})")


def points(page: Page, chart: str, name: str = "points") -> list[dict]:
    return page.evaluate(
        "([chart, name]) => window.scalemark.views.get(chart).data(name).map(row => ({...row}))",
        [chart, name],
    )


def charts(page: Page) -> list[str]:
    return page.evaluate("[...window.scalemark.views.keys()]")


def heading(page: Page, name: str):
    return page.locator("#trial-list thead").get_by_role("button", name=name, exact=True)


def sorting(page: Page) -> list[str]:
    """Heading and direction of the column that the list is sorted by."""
    return page.eval_on_selector_all(
        "#trial-list thead th:not([aria-sort=none])",
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
    names = {"scaling": "throughput", "speed_up": "speed_up", "efficiency": "efficiency"}
    for kind, quantity in names.items():
        reported = {
            (point["trial"].split("-")[1], point["series"], point["num_gpus"], point[quantity])
            for chart in charts(page)
            if chart.endswith(f"-{kind}")
            for point in points(page, chart)
        }
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
    chart = next(chart for chart in charts(page) if chart.endswith("-0-scaling"))
    for point in points(page, chart):
        result = results[point["trial"].split("-")[1]]
        assert (point["low"], point["high"]) == (result.low, result.high)
    rules = page.locator(f'[data-chart="{chart}"] svg .mark-rule.role-mark line')
    assert rules.count() == 5


def test_points_stand_on_the_page_as_far_apart_as_their_numbers(everything, show):
    """Not only in the data: the marks themselves."""
    page = show().page
    chart = next(chart for chart in charts(page) if chart.endswith("-0-scaling"))
    environments = page.eval_on_selector_all(
        f'[data-chart="{chart}"] svg .mark-symbol.role-mark path',
        "marks => marks.map(mark => mark.getAttribute('transform'))",
    )
    found = [
        tuple(map(float, re.findall(r"[\d.]+", environment)[:2])) for environment in environments
    ]
    reported = [(point["num_gpus"], point["throughput"]) for point in points(page, chart)]
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
    chart = next(chart for chart in charts(page) if chart.endswith("-0-scaling"))
    ideal = {point["num_gpus"]: point["ideal"] for point in points(page, chart, "ideal")}
    assert ideal == {width: pytest.approx(100 * width, rel=1e-4) for width in (1, 2, 4)}


def test_the_ideal_starts_at_1_where_the_baseline_does(show):
    write(
        "results.db",
        [
            end
            for n, images in ((2, 100.0), (4, 190.0), (8, 350.0))
            for end in times(small(num_gpus=n), images)
        ],
    )
    page = show(baseline=BaselineRule.FEWEST).page
    reported = {
        chart.rpartition("-")[2]: [
            (point["num_gpus"], point["ideal"]) for point in points(page, chart, "ideal")
        ]
        for chart in charts(page)
        if chart.endswith(("-scaling", "-speed_up", "-efficiency"))
    }
    assert reported == {
        "scaling": [(2, 100), (4, 200), (8, 400)],
        "speed_up": [(2, 1), (4, 2), (8, 4)],
        "efficiency": [(2, 1), (4, 1), (8, 1)],
    }


def test_one_number_of_devices_has_no_ideal_line_to_complain_of(show):
    write("results.db", times(small(), 10.0))
    page = show().page
    (chart,) = [chart for chart in charts(page) if chart.endswith("-speed_up")]
    names = page.evaluate(
        f"Object.keys(window.scalemark.views.get('{chart}').getState({{data: () => true, signals: () => false}}).data)"
    )
    assert "points" in names
    assert "ideal" not in names


def test_the_heat_map_has_strategies_of_the_chosen_number_of_devices(everything, show):
    page = show().page
    (chart,) = [chart for chart in charts(page) if chart.endswith("-heat_map")]
    reported = {
        (point["row"], point["series"]): (point["text"], point["share"])
        for point in points(page, chart)
    }
    assert reported == {
        ("resnet50", "replicated_none"): ("300", 1),
        ("resnet50", "ps_cpu"): ("OOM", None),
    }
    page.get_by_label("Number of CPU devices").select_option("2")
    page.wait_for_function(
        f"() => window.scalemark.views.get('{chart}').data('points').length === 4"
    )
    reported = {
        (point["row"], point["series"]): (point["text"], point["share"])
        for point in points(page, chart)
    }
    assert reported["resnet50", "ps_cpu"] == ("150", pytest.approx(150 / 180, rel=1e-4))
    assert reported["vgg16", "ps_cpu"] == ("HANG", None)


def test_hovering_shows_the_values(everything, show):
    page = show().page
    chart = next(chart for chart in charts(page) if chart.endswith("-0-scaling"))
    page.locator(f'[data-chart="{chart}"]').scroll_into_view_if_needed()
    page.locator(f'[data-chart="{chart}"] svg .mark-symbol.role-mark path').last.hover(force=True)
    tip = page.locator("#vg-tooltip-element.visible")
    tip.wait_for()
    assert "300" in tip.inner_text()
    assert "3.00x of replicated_none on 1" in tip.inner_text()


def test_cpu_devices_are_nowhere_called_gpus(everything, show):
    page = show().page
    assert "GPUs" not in page.locator("#trial-list").inner_text()
    assert heading(page, "CPU devices").count() == 1
    assert not re.search(r"\d GPU", page.locator("main").inner_text())


def test_steps_of_a_chosen_trial_are_those_of_the_database(everything, show):
    page = show().page
    assert {(point["number"], point["ms"], point["phase"]) for point in points(page, "steps")} == {
        (0, 200, "warm-up"),
        (1, 100, "measured"),
        (2, 100, "measured"),
    }
    assert [point["median"] for point in points(page, "steps", "medians")] == [100]
    choice = page.locator("#steps-trial option").last.get_attribute("value")
    page.locator("#steps-trial").select_option(choice)
    page.wait_for_function("() => window.scalemark.views.get('steps').data('points').length === 3")
    assert (
        texts(page, "#steps-table tbody tr") == ["1\t25\t1\t1\t100\t100\t100\t100"]
        or len(texts(page, "#steps-table tbody tr")) == 1
    )


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
    assert [point["median"] for point in points(page, "steps", "medians")] == [110]
    assert texts(page, "#steps-table tbody tr") == ["1\t1\t1\t2\t100\t110\t118\t120"]


def test_lines_are_hidden_and_shown_again_by_click_and_by_key(everything, show):
    page = show().page
    chart = next(chart for chart in charts(page) if chart.endswith("-0-scaling"))
    toggle = page.locator("button.line", has_text="ps_cpu").first
    toggle.click()
    assert toggle.get_attribute("aria-pressed") == "false"
    drawn(page)
    assert {point["series"] for point in points(page, chart)} == {"replicated_none"}
    toggle.focus()
    page.keyboard.press("Space")
    assert toggle.get_attribute("aria-pressed") == "true"
    drawn(page)
    assert {point["series"] for point in points(page, chart)} == {"replicated_none", "ps_cpu"}


def test_the_list_is_sorted_by_click_upward_downward_and_back(everything, show):
    page = show().page
    first = column(page, 8)
    button = heading(page, "images/s")
    button.click()
    assert sorting(page) == ["images/s", "ascending"]
    assert column(page, 8) == ["20", "31", "100", "100", "150", "180", "300", "", "", ""]
    button.click()
    assert sorting(page) == ["images/s", "descending"]
    assert column(page, 8) == ["300", "180", "150", "100", "100", "31", "20", "", "", ""]
    button.click()
    assert sorting(page) == []
    assert column(page, 8) == first


@pytest.mark.parametrize("key", ["Enter", "Space"])
def test_the_list_is_sorted_by_keyboard_alone(everything, show, key):
    page = show().page
    heading(page, "model").focus()
    page.keyboard.press(key)
    page.keyboard.press(key)
    assert column(page, 2) == sorted(column(page, 2), reverse=True)
    assert page.locator("#said").inner_text() == "Sorted by model, descending."
    assert page.evaluate("document.activeElement.textContent") == "model"


def test_a_table_is_sorted_by_a_column_and_failures_stay_last(everything, show):
    page = show().page
    table = page.locator("article.table table").first
    button = table.get_by_role("button", name="4 CPU devices")
    rows = "article.table:first-of-type tbody tr th"
    for _ in range(2):
        button.click()
        assert texts(page, rows)[:2] == ["replicated_none", "ps_cpu"]
    table.get_by_role("button", name="2 CPU devices").click()
    assert texts(page, rows)[:2] == ["ps_cpu", "replicated_none"]


def test_filters_leave_what_fits_in_tables_charts_and_list(everything, show):
    page = show().page
    page.get_by_label("Model").select_option("vgg16")
    assert set(column(page, 2)) == {"vgg16"}
    assert page.locator("#count").inner_text() == "4 of 10 trials"
    assert texts(page, "article.table:not([hidden]) h4") == [
        text for text in texts(page, "article.table h4") if "vgg16" in text
    ]
    page.get_by_label("Outcome").select_option("hung")
    assert column(page, 7) == ["hung"]
    page.get_by_role("button", name="Clear").click()
    page.wait_for_function(
        "() => document.querySelector('#count').textContent === '10 of 10 trials'"
    )
    page.get_by_role("searchbox").fill("RESNET50 ps_cpu memory")
    assert column(page, 7) == ["out of memory"]
    page.get_by_role("searchbox").fill("no such thing")
    assert column(page, 7) == []
    assert page.locator("#count").inner_text() == "0 of 10 trials"
    page.get_by_role("searchbox").fill("1.5 cores")
    assert column(page, 13) == ["suspect"]


def test_charts_that_were_hidden_by_a_filter_are_as_wide_as_before(everything, show):
    page = show().page
    chart = page.locator(".charts .chart svg").first
    before = chart.bounding_box()
    page.get_by_label("Model").select_option("vgg16")
    assert chart.bounding_box() is None
    page.get_by_label("Model").select_option("")
    assert chart.bounding_box() == before


def test_charts_follow_the_width_of_the_window(everything, show):
    visit = show(width_px=1600)
    visit.page.set_viewport_size({"width": 375, "height": 800})
    visit.page.wait_for_function(
        "() => document.querySelector('.chart svg').getAttribute('width') < 375"
    )
    assert visit.page.evaluate("document.documentElement.scrollWidth") == 375
    assert visit.complaints == []


def test_a_cell_leads_to_its_trial_and_to_the_command_that_repeats_it(everything, show):
    page = show().page
    page.get_by_label("Model").select_option("vgg16")
    page.get_by_label("Model").select_option("")
    page.locator("article.table td a", has_text="300").click()
    line = page.locator("tr.chosen + tr.trial-details")
    reported = line.locator("code.command").inner_text()
    spec = small(**RESNET, num_gpus=4)
    assert reported.startswith(
        "python sweep.py model=resnet50 num_gpus=4 strategy=replicated_none hardware=cpu "
    )
    assert spec.trial_id in line.inner_text()
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    line.get_by_role("button", name="Copy").click()
    page.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == reported


def test_reasons_stand_in_the_details_of_a_trial(everything, show):
    page = show().page
    page.get_by_role("searchbox").fill("suspect")
    page.locator("#trial-list tr:not([hidden]) summary").click()
    expect(page.locator("#trial-list tr.trial-details")).to_contain_text("others took 1.5 cores")
    page.locator("#trial-list tr:not([hidden]) summary").click()
    expect(page.locator("#trial-list tr.trial-details")).to_have_count(0)


BOX = "node => { const {left, top, right, bottom} = node.getBoundingClientRect(); return {left, top, right, bottom}; }"


@pytest.mark.parametrize("width_px", [1400, 800, 390])
def test_details_of_a_trial_stand_below_all_its_cells_and_above_the_next(
    everything, show, width_px
):
    visit = show(width_px=width_px)
    page = visit.page
    rows = page.locator("#trial-list tbody tr")
    widths = page.locator("#trial-list thead th").evaluate_all(
        "all => all.map(one => one.offsetWidth)"
    )
    rows.nth(1).locator("summary").click()
    command = rows.nth(2).locator("code.command")
    command.wait_for()
    visit.keep_screenshot("opened trial")
    texts_end = (
        rows.nth(1)
        .locator("th, td")
        .evaluate_all(
            "cells => cells.map(cell => { const range = document.createRange(); range.selectNodeContents(cell);"
            " return range.getBoundingClientRect().bottom; })"
        )
    )
    reported, box = (
        rows.nth(2).locator("dl").evaluate(BOX),
        page.locator("#trials .scroll").evaluate(BOX),
    )
    assert reported["top"] >= max(texts_end)
    assert reported["bottom"] <= rows.nth(3).evaluate(BOX)["top"]
    assert box["left"] <= reported["left"] < reported["right"] <= box["right"]
    assert command.evaluate(BOX)["right"] <= reported["right"]
    assert (
        page.locator("#trial-list thead th").evaluate_all("all => all.map(one => one.offsetWidth)")
        == widths
    )
    assert page.evaluate("document.documentElement.scrollWidth") == width_px


def test_sorting_keeps_the_details_below_their_trial(everything, show):
    page = show().page
    page.locator("#trial-list summary").first.click()
    below = page.locator("#trial-list tr:has(details[open]) + tr.trial-details")
    reported = below.inner_text()
    heading(page, "images/s").click()
    heading(page, "images/s").click()
    assert sorting(page) == ["images/s", "descending"]
    assert below.inner_text() == reported
    assert page.locator("#trial-list tr.trial-details").count() == 1
    page.get_by_role("searchbox").fill("nothing is like this")
    expect(below).to_be_hidden()


def test_an_address_with_a_trial_opens_it(everything, make, open_page):
    path = make(everything)
    key = source(everything).results[-1]
    visit = open_page(f"{path.resolve().as_uri()}#t-{key.environment.key}-{key.trial_id}")
    drawn(visit.page)
    assert visit.page.locator("#trial-list details[open]").count() == 1


def test_the_list_names_failed_repeats_of_completed_trials(
    show,
):
    ends = [
        (small(), Ended(throughput=95.0)),
        (small(), Ended(outcome=Outcome.OUT_OF_MEMORY)),
    ]
    write("results.db", [*ends, *times(small(num_gpus=2), 100.0)])
    page = show().page
    assert column(page, 7) == ["completed, but 1 of 2 repeats: out of memory", "completed"]
    cell = page.locator("#trial-list tbody tr").last.locator("td.outcome")
    assert cell.evaluate(
        "node => getComputedStyle(node).color === getComputedStyle(document.body).color"
    )


def test_the_list_has_utilization_where_any_is_known(show):
    entries = [(small(), 100.0), (small(num_gpus=2), 9.0), (small(num_gpus=4), 100.0)]
    fill("results.db", entries, details=[{"mfu": 0.312}, {"mfu": 0.00123}, {}])
    page = show().page
    assert heading(page, "MFU").count() == 1
    assert column(page, 12) == ["31.2 %", "0.123 %", "unknown"]


def test_without_any_utilization_the_list_has_no_such_column(show):
    fill("results.db", [(small(), 100.0)])
    assert heading(show().page, "MFU").count() == 0


def test_intervals_within_and_over_processes_are_distinguished(show):
    write("results.db", [*times(small(), 100.0), *times(small(num_gpus=2), 99.0, 100.0, 101.0)])
    page = show().page
    within, over = column(page, 9)
    assert within == "95..105 within one"
    assert re.fullmatch(r"[\d.]+", over.replace("..", ""))
    chart = next(chart for chart in charts(page) if chart.endswith("-scaling"))
    assert [point["interval"].partition(" ")[2] for point in points(page, chart)] == [
        "within one process",
        "over processes",
    ]


def test_a_damaged_address_opens_nothing_and_does_no_harm(everything, make, open_page):
    visit = open_page(f"{make(everything).resolve().as_uri()}#t-%E0%A4")
    drawn(visit.page)
    assert visit.page.locator("#trial-list details[open]").count() == 0
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


def test_many_charts_are_drawn_as_they_come_into_sight(show):
    ends = [
        end
        for seed in range(31)
        for n in (1, 2)
        for end in times(small(seed=seed, num_gpus=n), 10.0 * n)
    ]
    write("results.db", ends)
    page = show().page
    few = len(charts(page))
    assert few < 60
    page.locator("article.table").last.scroll_into_view_if_needed()
    page.wait_for_function(f"() => window.scalemark.views.size > {few}")
    page.get_by_role("button", name="Draw all charts").click()
    page.wait_for_function("() => window.scalemark.views.size === 95")


@pytest.mark.parametrize("nasty", NASTY)
def test_texts_of_others_do_no_harm(show, nasty):
    ends = [*times(small(model=nasty), 10.0), *times(small(model=nasty, num_gpus=2), 18.0)]
    write(
        "results.db", [*ends, (small(model=nasty, num_gpus=4), Ended(message=nasty))], name="first"
    )
    visit = show()
    page = visit.page
    page.locator("#trial-list summary").first.click()
    page.get_by_label("Model").select_option(index=1)
    page.get_by_role("searchbox").fill("completed")
    heading(page, "model").click()
    assert len(column(page, 2)) == 2
    chart = next(chart for chart in charts(page) if chart.endswith("-scaling"))
    assert [point["throughput"] for point in points(page, chart)] == [10, 18]
    page.locator(f'[data-chart="{chart}"] svg .mark-symbol.role-mark path').last.hover(force=True)
    page.locator("#vg-tooltip-element.visible").wait_for()
    assert page.evaluate("window.scalemark.data().trials[0].model") == nasty
    assert page.locator("article.table h4 *").count() == 0
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
    assert texts(page, ".chart.lacking") == ["Not known: there is no baseline to compare with."] * 2


def test_published_figures_make_no_complaint(show):
    visit = show("no.db", origin=Origin.PUBLISHED, source="tf-benchmarks-2017/dgx-1")
    visit.keep_screenshot("report-published")
    assert visit.complaints == []
    assert visit.page.locator("#steps-none").is_visible()


MORE = [*times(small(**VGG, num_gpus=4), 60.0), *times(small(**VGG, **PS, num_gpus=4), 55.0)]


def test_newer_data_replace_what_is_shown_and_the_reader_stays(everything, show):
    visit = show(live=True)
    page = visit.page
    heading(page, "images/s").click()
    page.get_by_label("Model").select_option("vgg16")
    page.locator("#trial-list tr:not([hidden]) summary").first.click()
    opened = page.locator("#trial-list details[open]").evaluate("node => node.closest('tr').id")
    environment = f"document.getElementById('{opened}').getBoundingClientRect().top"
    page.evaluate(f"scrollBy(0, {environment} - 100)")
    assert page.evaluate(environment) == pytest.approx(100, abs=1)
    write(everything, MORE, name="second")
    newer = data(source(everything), NOON)
    page.evaluate("newer => window.scalemark.update(newer)", json.loads(json.dumps(newer)))
    assert column(page, 8) == ["20", "31", "55", "60", "", ""]
    assert page.locator("#count").inner_text() == "6 of 12 trials"
    assert page.locator(f"#{opened} + tr.trial-details code.command").count() == 1
    assert sorting(page) == ["images/s", "ascending"]
    assert page.evaluate(environment) == pytest.approx(100, abs=1)
    assert "12 trials of 2 models" in page.locator("#summary").inner_text()
    chart = next(chart for chart in charts(page) if chart.endswith("-1-scaling"))
    assert sorted(point["throughput"] for point in points(page, chart)) == [20, 31, 55, 60]
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
    assert page.locator(".needs-script[hidden]").count() == 0


def test_without_scripts_tables_are_there_and_controls_are_not(everything, make, chromium):
    with chromium.new_context(java_script_enabled=False) as context:
        context.set_default_timeout(TIMEOUT_MS)
        page = context.new_page()
        page.goto(make(everything).resolve().as_uri())
        assert page.locator("article.table table").first.is_visible()
        assert "is fastest with 180 images/s" in page.locator("#summary").inner_text()
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
            ".chart", "all => all.filter(one => !one.getAttribute('aria-label')).length"
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
