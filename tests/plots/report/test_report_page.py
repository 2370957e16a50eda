"""The page has the numbers of the database, quotes the texts of others, and loads nothing."""

import base64
import hashlib
import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest

from analysis import badges
from benchmarks import made_up_results as results
from scalemark.records.measurement import Verdict
from scalemark.records.references import Origin
from store.database import open_for_writing
from tests.filled import STEPS, TWO_GPUS, fill
from tests.plots.report.conftest import NASTY, Ended, parsed, times, write
from tests.programs import fill_programs, program
from tests.specs import small

pytestmark = pytest.mark.integration


def section(page: str, key: str) -> str:
    """The page of a trial."""
    found = re.search(rf'<section id="{key}".*?</section>', page, re.DOTALL)
    assert found
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", found[0]))


def test_tables_and_trials_have_the_numbers_of_the_database(everything, make):
    page = parsed(make(everything)).text
    for text in ("150 (149 to 151, n=3) (1.50x)", "300 (297 to 303, n=3) (3.00x)", "OOM", "HANG"):
        assert text in page
    assert "Trials (10)" in page
    assert "Failures (2)" in page


def test_a_trial_has_a_page_with_its_doubts_failures_and_command(everything, make):
    page = make(everything).read_text()
    first = section(page, "t0")
    assert "resnet50, replicated_none on 1 CPU device" in first
    assert "images/s 100 (99.0 to 101, n=3)" in first
    assert "repeats 100, 101, 99.0" in first
    assert "run it again scalemark sweep model=resnet50 num_gpus=1" in first
    assert "3 steps of the newest process" in first
    sections = [section(page, f"t{place}") for place in range(10)]
    (suspect,) = [text for text in sections if "others took 1.5 cores" in text]
    assert "in doubt no steady state" in suspect
    (hung,) = [text for text in sections if "no step for 600 s" in text]
    assert "hung: no step for 600 s" in hung
    assert "/runs/x/log.txt" in hung


def test_the_command_line_of_the_best_is_on_the_page(make):
    fill_programs([(program(), 100.0), (program(zero=2), 200.0)])
    text = parsed(make("results.db")).text
    assert (
        "torchrun --nproc-per-node=1 train.py --zero 2 --offload cpu"
        in text[: text.index("cells:")]
    )
    assert "train (offload cpu): tokens/s" in text


def test_the_longest_step_is_stated_though_not_every_step_is_drawn(make):
    durations = [1.0] * 98 + [9.0, 1.0]
    steps = []
    for number, duration_s in enumerate(durations):
        steps.append(replace(STEPS[1], step=number, start_s=10.0 * number, duration_s=duration_s))
    fill("results.db", [(small(), 10.0)], details=[{"steps": steps}])
    page = make("results.db").read_text()
    assert "100 steps of the newest process, the longest 9000 ms" in section(page, "t0")
    (points,) = re.findall(r'<polyline points="([^"]*)"', page)
    assert len(points.split()) == 20
    assert points.split()[-1] == "300,0"


def test_a_doubt_about_one_environment_is_not_said_of_all_numbers(make):
    doubt = badges.ORIGINS["CPU devices"]
    fill("results.db", [(small(), 10.0)])
    assert doubt in header(make("results.db"))
    on_gpu = small(device_kind="gpu")
    fill("results.db", [(on_gpu, 100.0)], name="second", machine=TWO_GPUS)
    assert doubt not in header(make("results.db"))


def header(path: Path) -> str:
    text = parsed(path).text
    return text[: text.index("Results")]


def test_failures_are_grouped_by_their_message(make):
    fails = [(small(seed=seed), Ended(message="the disk is full")) for seed in range(25)]
    write("results.db", [*fails, *times(small(num_gpus=2), 10.0)])
    page = parsed(make("results.db")).text
    assert page.count("the disk is full") == 26  # once with the failures, and for each trial
    assert "And 5 more." in page


@pytest.mark.parametrize("origin", [Origin.SIMULATED, Origin.PUBLISHED])
def test_numbers_of_another_origin_say_so(make, origin):
    fill("results.db", [(small(device_kind="simulated_gpu"), 10.0)])
    page = parsed(make("results.db", origin=origin)).text
    assert str(origin) in page[: page.index("Results")]


@pytest.mark.parametrize("nasty", NASTY)
def test_no_text_of_others_becomes_html(make, nasty):
    def pages_of(name: str) -> list[tuple[str, list[str]]]:
        ends = [*times(small(model=name), 10.0), *times(small(model=name, num_gpus=2), 10.0)]
        doubt = Ended(throughput=9.0, verdict=Verdict.SUSPECT, reasons=(name,))
        failed = (small(model=name, num_gpus=4), Ended(message=name))
        write(f"{len(name)}.db", [*ends, failed, (small(model=name, num_gpus=8), doubt)])
        page = parsed(make(f"{len(name)}.db"))
        return [(tag, sorted(attributes)) for tag, attributes in page.elements]

    assert pages_of(nasty) == pages_of("harmless" * 8)
    raw = make(f"{len(nasty)}.db").read_text()
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u200b-\u200f\u2028-\u202e\u2066-\u2069]", raw)
    for picture in parsed(make(f"{len(nasty)}.db")).attributes("img"):
        assert "<script" not in unquote(str(picture["src"]))
        assert "onload" not in re.sub(r">[^<]*<", "><", unquote(str(picture["src"])))


def test_numbers_in_the_text_of_pictures_keep_their_digits(make):
    """A bug: `lr=0.123` and `lr=0.128` were both `lr=0.1`, as if they were coordinates."""
    rates = ("0.123", "0.128", '"0.1234"')
    trials = [(program(num, zero), 10.0 * num) for zero in rates for num in (1, 2)]
    fill_programs(trials)
    texts: set[str] = set()
    for picture in parsed(make("results.db")).attributes("img"):
        svg = unquote(str(picture["src"]))
        texts.update(re.findall(r">([^<>]+)</text>", svg))
        assert not re.search(r"<[^<>]*\d\.\d\d[^<>]*>", svg), "coordinates are short"
    assert {f"zero={rate}" for rate in rates} <= texts


def test_nothing_is_loaded_from_anywhere(everything, make):
    path = make(everything)
    page = parsed(path)
    loading = {"srcset", "poster", "data", "action", "formaction", "background", "ping"}
    for tag, attributes in page.elements:
        assert not loading & set(attributes), (tag, attributes)
        assert str(attributes.get("src") or "data:").startswith("data:image/svg+xml,")or "src" not in attributes  # fmt: skip
        assert (attributes.get("href") or "#").startswith(("#", "data:,"))
    assert {"iframe", "object", "embed", "base"}.isdisjoint({tag for tag, _ in page.elements})
    (style,) = re.findall(r"<style>(.*?)</style>", path.read_text(), re.DOTALL)
    assert not re.search(r"url\(|@import|@font-face", style)


def test_the_policy_forbids_all_scripts_but_the_pages_own(everything, make):
    page = parsed(make(everything))
    ((_, script),) = page.scripts
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = [
        meta["content"]
        for meta in page.attributes("meta")
        if meta.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy == (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'"
    )


@pytest.mark.parametrize(
    ("grid", "num_trials", "num_repeats", "most_bytes"),
    [
        (results.ARTICLE, 100, 3, 300_000),
        # between the bounds of 100 and of 2,000 trials, as far as their numbers are
        (results.GRID, 500, 1, 489_000),
        pytest.param(results.GRID, 2_000, 1, 1_200_000, marks=pytest.mark.slow),
    ],
)
def test_many_trials_are_few_bytes(make, grid, num_trials, num_repeats, most_bytes):
    engine = open_for_writing("results.db")
    results.add(engine, results.attempts(num_trials, 34, grid=grid, num_repeats=num_repeats))
    engine.dispose()
    assert make("results.db").stat().st_size < most_bytes
