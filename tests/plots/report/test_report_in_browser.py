"""In a real browser: the page complains of nothing, sorts, filters, works without scripts, and harms nobody."""

import itertools
from collections.abc import Callable
from importlib.resources import files

import pytest
from playwright.sync_api import Page

from tests.browser import Visit
from tests.plots.report.conftest import NASTY, PS, RESNET, Ended, Make, times, write
from tests.specs import small

pytestmark = pytest.mark.integration

Show = Callable[..., Visit]
VIEWS = ("#results", "#trials", "#t5", "#failures", "#provenance")
AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")


@pytest.fixture
def show(make: Make, open_page) -> Show:
    return lambda db="results.db", **window: open_page(make(db), **window)


def texts(page: Page, selector: str) -> list[str]:
    return page.eval_on_selector_all(selector, "nodes => nodes.map(node => node.innerText.trim())")


def visible(page: Page) -> list[str]:
    """The sections that are seen."""
    return page.evaluate(
        "[...document.querySelectorAll('section')].filter(one => one.offsetHeight).map(one => one.id)"
    )


def go(page: Page, address: str) -> None:
    page.evaluate("address => { location.hash = address }", address)
    arrive(page, address)


def arrive(page: Page, address: str) -> None:
    """Wait until the page has followed a link: it does so a moment after the click."""
    page.wait_for_function("address => document.querySelector(`${address}.shown`)", arg=address)


@pytest.mark.parametrize("color_scheme", ["light", "dark"])
@pytest.mark.parametrize("width_px", [390, 1400])
def test_it_fits_loads_nothing_and_axe_finds_nothing(everything, show, width_px, color_scheme):
    visit = show(width_px=width_px, color_scheme=color_scheme)
    page = visit.page
    for view in VIEWS:
        go(page, view)
        page.eval_on_selector_all("details", "all => all.forEach(one => { one.open = true })")
        found = page.evaluate(f"{AXE}; axe.run().then(found => found.violations)")
        assert [(one["id"], one["nodes"][0]["html"]) for one in found] == [], view
        assert page.evaluate("document.documentElement.scrollWidth") == width_px, view
    assert visit.complaints == []
    assert [request for request in visit.requests if not request.startswith("data:")] == []


@pytest.mark.parametrize(("width_px", "counts"), [(390, ["2", "1"]), (1400, ["1", "2"])])
@pytest.mark.parametrize("strategies", [({},), ({}, PS)], ids=["down", "across"])
def test_on_a_phone_the_largest_count_comes_first(make, show, width_px, counts, strategies):
    for num_gpus in (1, 2):
        for axes in strategies:
            write("results.db", times(small(**axes, num_gpus=num_gpus), 100.0 * num_gpus))
    make("results.db")
    page = show(width_px=width_px).page
    counted = "tbody th" if len(strategies) == 1 else "thead th:not(.head)"
    assert [text[0] for text in texts(page, f"#results {counted}")] == counts
    speeds = texts(
        page,
        "#results tbody tr:first-child td"
        if PS in strategies
        else "#results tbody td:nth-child(2)",
    )
    assert [text[0] for text in speeds] == counts


def test_tabs_and_links_lead_to_views_and_trials(everything, show):
    page = show().page
    assert visible(page) == ["results"]
    page.get_by_role("link", name="Failures (2)").click()
    arrive(page, "#failures")
    assert visible(page) == ["failures"]
    page.locator("#failures ul a").first.click()
    arrive(page, "#t5")
    assert visible(page) == ["t5"]
    assert texts(page, "nav a[aria-current]") == ["Trials (10)"]
    page.go_back()
    arrive(page, "#failures")
    assert visible(page) == ["failures"]


def test_one_sweep_can_be_chosen_and_all_are_seen_without_scripts(make, show, chromium):
    write("results.db", times(small(**RESNET), 100.0), name="first")
    write("results.db", times(small(**RESNET, num_gpus=2), 180.0), name="second")
    write("results.db", times(small(**PS, num_gpus=2), 70.0), name="third")
    page = show().page
    found = page.evaluate(f"{AXE}; axe.run().then(found => found.violations)")
    assert found == []
    assert texts(page, "#sweep option") == ["all", "third", "second", "first"]
    page.select_option("#sweep", label="first")
    seen = "nodes => nodes.filter(node => node.checkVisibility({visibilityProperty: true})).length"
    assert page.eval_on_selector_all("#results tbody td[data-s]", seen) == 1
    assert page.eval_on_selector_all("#results img, .answer", seen) == 0
    go(page, "#trials")
    assert page.eval_on_selector_all("#list tbody tr", seen) == 1
    page.select_option("#sweep", label="all")
    assert page.eval_on_selector_all("#list tbody tr", seen) == 3
    with chromium.new_context(java_script_enabled=False) as context:
        plain = context.new_page()
        plain.goto(make("results.db").absolute().as_uri())
        assert plain.locator("#list tbody tr").count() == 3
        assert not plain.locator("#sweep").is_visible()
    assert "<select" not in make("results.db", sweep="second").read_text()


def test_the_list_is_sorted_by_click_and_by_key_and_failures_stay_last(everything, show):
    page = show().page
    go(page, "#trials")
    place = texts(page, "#list thead th").index("images/s") + 1
    rows = f"#list tbody tr > :nth-child({place})"
    button = page.locator("#list").get_by_role("button", name="images/s")
    button.click()
    down = texts(page, rows)
    assert down[:2] == ["300", "180"]
    assert {"OOM", "HANG"} <= set(down[-3:])
    button.press("Enter")
    assert texts(page, rows)[0] == "20.0"
    assert {"OOM", "HANG"} <= set(texts(page, rows)[-3:])


def test_a_filter_leaves_the_rows_that_fit(everything, show):
    page = show().page
    go(page, "#trials")
    page.get_by_role("searchbox").fill("VGG16 ps_cpu")
    assert len(texts(page, "#list tbody tr:not([hidden])")) == 2
    assert texts(page, "#count") == ["2 of 10"]


def test_a_table_is_copied_as_csv(everything, show):
    page = show().page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text }")
    page.locator("#results .copy").first.click()
    lines = page.evaluate("window.copied").splitlines()
    assert lines[0] == "strategy,1 CPU device,2 CPU devices,4 CPU devices"
    assert lines[1].startswith('ps_cpu,"100')


def test_without_scripts_everything_can_be_read(everything, make, chromium):
    path = make(everything)
    with chromium.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(f"{path.resolve().as_uri()}#t5")
        shown = page.inner_text("body")
    for text in ("300 (297 to 303, n=3)", "All trials", "OOM when allocating", "Provenance"):
        assert text in shown
    assert "run it again" in shown, "the trial that the address names"


def test_two_noisy_repeats_make_no_long_page(open_page, make):
    noisy = [
        end
        for (place, strategy), num in itertools.product(enumerate(({}, PS)), (1, 2, 4))
        for end in times(small(**RESNET, **strategy, num_gpus=num), 159.0 + place, 435.0 + place)
    ]
    write("results.db", noisy)
    page = open_page(make("results.db"), width_px=1400).page
    assert "unknown" not in page.inner_text("table")
    assert page.evaluate("document.documentElement.scrollHeight") < 1200


@pytest.mark.parametrize("nasty", NASTY)
def test_texts_of_others_do_no_harm(show, nasty):
    ends = [*times(small(model=nasty), 10.0), *times(small(model=nasty, num_gpus=2), 18.0)]
    write("results.db", [*ends, (small(model=nasty, num_gpus=4), Ended(message=nasty))])
    visit = show()
    page = visit.page
    for view in ("#trials", "#t2", "#failures"):
        go(page, view)
    page.evaluate("location.hash = '#%E0%A4%A'")
    assert visit.complaints in ([], ["page error: URIError: URI malformed"])
    assert [request for request in visit.requests if not request.startswith("data:")] == []


def test_what_runs_as_a_script_in_spite_of_all_is_stopped_by_the_policy(everything, show):
    visit = show()
    visit.page.evaluate(
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"alert(1)\"><svg onload=alert(2)>')"
    )
    assert all("Content Security Policy" in text for text in visit.complaints)
    assert len(visit.complaints) >= 2
