"""The page says what the database holds, loads nothing, and takes no text for HTML."""

import base64
import hashlib
import json
import re
import sqlite3
from dataclasses import replace
from importlib.metadata import PackageNotFoundError

import pytest

from analysis.results import BaselineRule, Origin
from plots.pictures.theme import PALETTES, Theme
from plots.report import content, libraries
from plots.report.content import compose
from plots.report.page import data
from scalemark.host import own_version
from scalemark.records.devices import DeviceKind
from scalemark.records.measurement import ReplicaTimes
from scalemark.records.outcomes import Outcome, Verdict
from store.errors import StoreError
from store.writer import Writer
from tests.conftest import PROJECT
from tests.filled import MACHINE, NOON, PLACEMENT, attempt, begin, fill
from tests.over_hosts import mixed
from tests.plots.contrast import contrast
from tests.plots.report.conftest import (
    EVERYTHING,
    NASTY,
    PS,
    RESNET,
    VGG,
    WITH_GPU,
    Ended,
    parsed,
    rows_of,
    source,
    times,
    write,
)
from tests.specs import small

pytestmark = pytest.mark.integration


def test_every_trial_is_on_the_page_with_its_numbers(everything, make):
    results = source(everything).results
    trials = parsed(make(everything)).trials
    assert len(trials) == len({spec.trial_id for spec, _ in EVERYTHING}) == 10
    for result, trial in zip(results, trials, strict=True):
        assert trial["trial_id"] == result.trial_id
        assert (trial["model"], trial["strategy"], trial["num_gpus"]) == (
            result.axes["model"],
            result.strategy,
            result.num_gpus,
        )
        assert trial["outcome"] == result.outcome
        assert (trial["throughput"], trial["low"], trial["high"]) == (
            result.throughput,
            result.low,
            result.high,
        )
        assert (trial["speed_up"], trial["efficiency"]) == (result.speed_up, result.efficiency)
        assert trial["repeats"] == list(result.repeats)


def test_a_page_is_drawn_where_scalemark_is_not_installed(everything, make, monkeypatch):
    monkeypatch.setattr(own_version, "version", _not_installed)
    own_version.own_version.cache_clear()
    page = make(everything).read_text(encoding="utf-8")
    own_version.own_version.cache_clear()
    assert "by scalemark not installed</dd>" in page


def _not_installed(name: str) -> str:
    raise PackageNotFoundError(name)


def test_a_line_and_a_row_of_the_heat_map_have_one_number_of_hosts(make):
    fill("hosts.db", mixed())
    reported = data(source("hosts.db"), NOON)
    lines = {chart["kind"]: chart for chart in reported["charts"].values()}
    trials = rows_of(reported["trials"])
    whole = {spec.trial_id: value for spec, value in mixed()}
    assert {trial["trial_id"]: trial["throughput"] for trial in trials} == whole
    for trial, series in zip(
        (trials[at] for at in lines["scaling"]["trials"]), lines["scaling"]["series"], strict=True
    ):
        over = trial["width"].removeprefix(str(trial["num_gpus"]))
        assert series == f"{trial['strategy']}{over}"
    heat = lines["heat_map"]
    cells = [
        (trials[at]["num_gpus"], row, name)
        for at, row, name in zip(heat["trials"], heat["rows"], heat["series"], strict=True)
    ]
    assert len(cells) == len(set(cells)) == len(whole)
    assert {row.removeprefix("trivial") for row in heat["rows"]} == {
        "",
        " over 2 hosts",
        " over 4 hosts",
    }
    assert "processes of one machine" in make("hosts.db").read_text()


def test_numbers_are_those_of_the_database(everything, make):
    with sqlite3.connect(everything) as connection:
        rows = connection.execute(
            "SELECT trial_id, throughput FROM attempts JOIN measurements ON attempt_id = id "
            "WHERE verdict != 'invalid' ORDER BY id"
        )
        stored: dict[str, list[float]] = {}
        for trial_id, images in rows:
            stored.setdefault(trial_id, []).append(images)
    reported = {
        trial["trial_id"]: trial["repeats"]
        for trial in parsed(make(everything)).trials
        if trial["repeats"]
    }
    assert reported == stored


def test_tables_and_summary_can_be_read_without_a_script(everything, make):
    text = parsed(make(everything)).text
    for reported in (
        "replicated_none 100",
        "(1.80x)",
        "(3.00x)",
        "OOM",
        "HANG",
        "31.0* (1.55x)",
        "OOM: out of memory",
    ):
        assert reported in text, reported
    assert (
        "On 2 CPU devices replicated_none is fastest with 180 images/s, 20% ahead of ps_cpu."
        in text
    )
    assert "10 trials of 2 models; 3 without a number; 1 suspect." in text


def test_cpu_devices_are_said_to_be_cpu_devices_before_any_number(everything, make):
    text = parsed(make(everything)).text
    assert text.index("(CPU devices) CPU devices") < text.index("images/s")
    assert DeviceKind.CPU_DEVICE.note in text
    assert "resnet50, vgg16 on testbox (CPU devices)" in text
    assert not re.search(r"\d GPUs?\b", text)


def test_failures_are_reported_with_message_log_and_command(everything, make):
    page = parsed(make(everything))
    assert "2 attempts did not complete." in page.text
    assert "OOM when allocating <b>tensor</b>" in page.text
    assert "no step for 600 s last: 17" in page.text
    assert "/runs/x/log.txt" in page.text
    failed = next(trial for trial in page.trials if trial["outcome"] == Outcome.HUNG)
    assert failed["command"].startswith("python sweep.py model=vgg16 num_gpus=2 ")
    (hung,) = [one for one in page.island["failures"] if one["outcome"] == Outcome.HUNG]
    assert (hung["message"], hung["log"]) == ("no step for 600 s\nlast: 17", "/runs/x/log.txt")
    assert "b" not in {tag for tag, _ in page.elements}


PARTLY = [
    *times(small(), 95.0),
    (small(), Ended(outcome=Outcome.OUT_OF_MEMORY, message="OOM of the second")),
    (
        small(),
        Ended(throughput=70.0, verdict=Verdict.INVALID, reasons=("2 reductions, wanted 1",)),
    ),
]


def test_failed_repeats_are_beside_the_number_of_the_others(make):
    write("results.db", PARTLY)
    page = parsed(make("results.db"))
    (trial,) = page.trials
    assert (trial["throughput"], trial["repeats"], trial["failed"]) == (
        95.0,
        [95.0],
        ["out_of_memory", "invalid"],
    )
    assert trial["reasons"] == ["2 reductions, wanted 1 (repeat 3, left out)"]
    assert "1 trial of 1 model; 1 with repeats that brought no number." in page.text
    assert "OOM of the second" in page.text
    assert "this repeat completed in another attempt" not in page.text


def test_a_slow_replica_is_told_of_the_trial_that_timed_them(make):
    seconds = {f"GPU:{number}": (0.0999, 0.1, 0.1001, 0.1) * 8 for number in range(3)}
    seconds["GPU:2"] = (0.1199, 0.12, 0.1201, 0.12) * 8
    timed = ReplicaTimes(at_once=True, seconds=seconds)
    ends = [(small(num_gpus=3), Ended(throughput=95.0, replica_times=timed)), *times(small(), 40.0)]
    write("results.db", ends)
    replicas = {trial["num_gpus"]: trial["replicas"] for trial in parsed(make("results.db")).trials}
    assert replicas[1] == []
    assert replicas[3][0].startswith("GPU:2 is slow: its own compute takes 20% [")


def test_trials_of_the_same_work_point_to_the_one_that_timed_its_replicas(make):
    seconds = {f"GPU:{number}": (0.0999, 0.1, 0.1001, 0.1) * 8 for number in range(3)}
    timed = ReplicaTimes(at_once=True, seconds=seconds)
    wide = {"num_gpus": 3, "variable_update": "independent"}
    exchanging = {"num_gpus": 3, "variable_update": "replicated", "all_reduce": "none"}
    timing, alike = small(**wide, replica_times=True), small(**wide)
    other, larger = small(**exchanging), small(**exchanging, batch_size=64)
    ends = [(timing, Ended(throughput=95.0, replica_times=timed))]
    ends += [(one, Ended(throughput=90.0)) for one in (alike, other, larger, small())]
    write("results.db", ends)
    trials = {trial["trial_id"]: trial for trial in parsed(make("results.db")).trials}
    key = trials[timing.trial_id]["key"]
    assert [
        trials[one.trial_id]["timed_by"] for one in (timing, alike, other, larger, small())
    ] == [
        "",
        key,
        key,
        "",
        "",
    ]
    assert trials[alike.trial_id]["replicas"] == []


def test_a_second_attempt_that_completed_makes_up_for_the_first(make):
    writer = Writer("results.db")
    ledger = begin(writer, {small(): 2}, rerun=True)
    for images, again in ((None, "once more"), (100.0, None), (None, None)):
        repeat = min(ledger.open_repeats(), key=lambda one: one.repeat)
        ledger.claim(repeat, NOON)
        number = ledger.run(repeat, "/runs/x", PLACEMENT, NOON)
        finished = attempt(small(), images, repeat=repeat.repeat, number=number)
        ledger.finish(repeat.repeat_id, finished, NOON, again=again)
    ledger.end(NOON, finished=True)
    writer.close()
    made_up = [failure.is_made_up for failure in compose(source("results.db"), NOON).failures]
    assert made_up == [True, False]
    assert parsed(make("results.db")).text.count("this repeat completed in another attempt") == 1


def test_a_number_that_is_none_is_called_so(make):
    write("results.db", times(small(), 10.0))
    with sqlite3.connect("results.db") as connection:
        connection.execute("UPDATE measurements SET throughput = 0")
    (trial,) = parsed(make("results.db")).trials
    assert (trial["outcome"], trial["reasons"]) == ("invalid", ["its throughput is stored as 0.0"])


def test_verdicts_are_reported_with_their_reasons(everything, make):
    page = parsed(make(everything))
    assert "6 valid; 1 suspect; 1 invalid." in page.text
    for reason in ("others took 1.5 cores", "no steady state", "2 reductions, wanted 1"):
        assert reason in page.text
    of_suspect = next(trial for trial in page.trials if trial["verdict"] == "suspect")
    assert of_suspect["reasons"] == ["others took 1.5 cores", "no steady state"]


def test_every_trial_has_its_command(everything, make):
    for trial in parsed(make(everything)).trials:
        assert trial["command"].startswith(
            f"python sweep.py model={trial['model']} num_gpus={trial['num_gpus']} strategy="
        )
    assert "sweep.repeats=3 sweep.rerun=true" in parsed(make(everything)).trials[0]["command"]


def test_provenance_names_machine_software_sweep_and_command(everything, make):
    text = parsed(make(everything)).text
    for reported in (
        "testbox",
        "Testium",
        "8 GiB",
        MACHINE.key,
        "2.21.0",
        "3.15.1",
        "3.11.7",
        "abc",
        "first",
        "sweep.py",
        "results.db",
    ):
        assert reported in text, reported
    assert "made 2026-11-21 12:00:00 UTC by scalemark" in text
    assert "command python -m plots report" in text


def test_left_out_cells_are_reported_with_the_reason(everything, make):
    assert "later first 1: xla=on" in parsed(make(everything)).text


def test_gpus_are_named_and_nothing_is_said_of_cpu_devices(make):
    write("results.db", times(small(device_kind=DeviceKind.GPU), 10.0), machine=WITH_GPU)
    text = parsed(make("results.db")).text
    assert "Testla V9 (16 GiB) at 00:1E.0" in text
    assert "trivial on gpubox (GPUs)" in text
    assert "CPU device" not in text


def test_two_machines_stand_apart(make):
    write("results.db", times(small(), 10.0))
    write("results.db", times(small(), 30.0), machine=replace(MACHINE, host="other"), name="second")
    page = parsed(make("results.db"))
    assert [trial["throughput"] for trial in page.trials] == [10.0, 30.0]
    assert "made in 2 environments (machine and software), which are never mixed" in page.text
    assert [one["environment"] for one in page.island["tables"]] == [0, 1]
    assert "20" not in re.findall(r"(\d+) images/s", page.text)


def test_only_failures_make_a_page_that_says_so(make):
    write("results.db", [(small(), Ended()), (small(num_gpus=2), Ended())])
    page = parsed(make("results.db"))
    assert "There is no number that may be quoted. 2 of 2 trials failed" in page.text
    assert "No number to judge." in page.text


def test_one_point_is_enough(make):
    write("results.db", times(small(), 10.0))
    assert (
        "Only replicated_none was run: 10.0 images/s on 1 CPU device."
        in parsed(make("results.db")).text
    )


def test_a_missing_baseline_is_said_and_another_can_be_had(make):
    write("results.db", [*times(small(num_gpus=2), 10.0), *times(small(num_gpus=4), 15.0)])
    page = parsed(make("results.db"))
    assert "it has no number on 1 to compare with (--baseline fewest takes another)" in page.text
    assert [trial["speed_up"] for trial in page.trials] == [None, None]
    other = parsed(make("results.db", baseline=BaselineRule.FEWEST))
    assert [(trial["speed_up"], trial["baseline"]) for trial in other.trials][1] == (
        1.5,
        "replicated_none on 2",
    )


def test_an_empty_database_is_refused():
    write("results.db", [])
    with pytest.raises(StoreError, match="no attempt in it yet; run a sweep first"):
        compose(source("results.db"), NOON)


def test_what_is_not_finite_is_unknown(make):
    write("results.db", times(small(), 10.0))
    with sqlite3.connect("results.db") as connection:
        connection.execute(
            "UPDATE measurements SET throughput_high = 9e999, throughput_low = NULL, last_loss = 9e999"
        )
    (trial,) = parsed(make("results.db")).trials
    assert (trial["throughput"], trial["low"], trial["high"]) == (10.0, None, None)


def test_published_figures_are_distinguished_from_measured_ones(make):
    page = parsed(make("no.db", origin=Origin.PUBLISHED, source="tf-benchmarks-2017"))
    assert "published: measured by others, without repeats" in page.text
    assert "published: TensorFlow benchmarks page (2017)" in page.text
    assert {trial["command"] for trial in page.trials} == {""}
    assert "CPU device" not in page.text


def test_steps_are_those_of_the_database(everything, make):
    steps = parsed(make(everything)).island["steps"]
    assert len(steps) == 18  # attempts that completed
    assert {(tuple(one["ms"]), one["num_warm_up"]) for one in steps} == {((200.0, 100.0, 100.0), 1)}


def test_steps_beyond_the_room_are_left_out_and_counted(everything, make, monkeypatch):
    monkeypatch.setattr(content, "MOST_STEPS", 10)  # each attempt has 3: the newest of three trials
    island = parsed(make(everything)).island
    assert [one["repeat"] for one in island["steps"]] == [3, 3, 3]
    assert island["num_without_steps"] == 5


def test_a_long_message_is_cut(make):
    write("results.db", [(small(), Ended(message="x" * 5000))])
    text = parsed(make("results.db")).text
    assert "x" * 1999 + "…" in text
    assert "x" * 2000 not in text


@pytest.mark.parametrize("nasty", NASTY)
def test_no_text_of_others_becomes_html(make, nasty):
    ends = [*times(small(model=nasty), 10.0), *times(small(model=nasty, num_gpus=2), 10.0)]
    write("results.db", [*ends, (small(model=nasty, num_gpus=4), Ended(message=nasty))])
    harmless = times(small(model="harmless"), 10.0) + times(
        small(model="harmless", num_gpus=2), 10.0
    )
    write("other.db", [*harmless, (small(model="harmless", num_gpus=4), Ended(message="harmless"))])
    page, other = parsed(make("results.db")), parsed(make("other.db"))
    assert [tag for tag, _ in page.elements] == [tag for tag, _ in other.elements]
    assert [sorted(attributes) for _, attributes in page.elements] == [
        sorted(attributes) for _, attributes in other.elements
    ]
    assert page.trials[0]["model"] == nasty
    assert len(page.scripts) == 4
    raw = make("results.db").read_text()
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u200b-\u200f\u2028-\u202e\u2066-\u2069]", raw)


def test_nothing_is_loaded_from_anywhere(everything, make):
    path = make(everything)
    page = parsed(path)
    loading = {"src", "srcset", "poster", "data", "action", "formaction", "background", "ping"}
    for tag, attributes in page.elements:
        assert not loading & set(attributes), (tag, attributes)
        assert (attributes.get("href") or "#").startswith("#") or (tag, attributes["href"]) == (
            "link",
            "data:,",
        )
    assert {"iframe", "object", "embed", "base", "img"}.isdisjoint(
        {tag for tag, _ in page.elements}
    )
    style = re.search(r"<style>(.*?)</style>", path.read_text(), re.DOTALL)
    assert style
    assert not re.search(r"url\(|@import|@font-face", style[1])


def policy(page) -> str:
    (found,) = [
        attributes["content"]
        for tag, attributes in page.elements
        if attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    return found


def test_the_policy_forbids_the_network_and_all_scripts_but_the_pages_own(everything, make):
    page = parsed(make(everything))
    reported = dict(part.strip().split(" ", 1) for part in policy(page).split(";"))
    assert reported["default-src"] == "'none'"
    assert "connect-src" not in reported
    scripts = [text for attributes, text in page.scripts if attributes.get("id") is None]
    scripts.append(libraries.vega())
    hashes = {
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for text in scripts
    }
    assert set(reported["script-src"].split()) == hashes
    assert len(hashes) == 3


def test_a_live_page_may_ask_its_own_server_and_runs_what_it_was_given(everything, make):
    page = parsed(make(everything, live=True, scripts=("window.extra = 1;",)))
    assert "connect-src 'self'" in policy(page)
    assert page.scripts[-1][1] == "window.extra = 1;"
    assert any(attributes.get("id") == "live" for _, attributes in page.elements)


def test_newer_data_has_the_island_and_every_part(everything, make):
    reported = data(source(everything), NOON)
    json.dumps(reported, allow_nan=False)
    page = make(everything).read_text()
    for name, html in reported.pop("html").items():
        assert f'id="part-{name}"' in page
        assert html.strip() in page
    assert json.loads(json.dumps(reported)) == parsed(make(everything)).island


def test_scripts_cannot_end_their_element():
    reported = libraries.safe(
        "a = '</script>'; b = '</SCRIPT'; c = '<script'; d = '<!--'; e = 1 </script/.test(x);"
    )
    assert not re.search(r"</?script|<!--", reported, re.IGNORECASE)
    assert reported.startswith("a = '<\\/script>'")


def test_the_page_has_the_colors_of_the_charts_where_these_can_be_seen():
    css = (PROJECT / "plots" / "report" / "page.css").read_text()
    light, dark = css.split("@media print")[0].split("@media (prefers-color-scheme: dark)", 1)
    of_page = dict(re.findall(r"--(s\d|ground): (#\w{6})", light))
    changes = re.findall(r"--(s\d|ground): (#\w{6})", dark)
    assert changes[: len(changes) // 2] == changes[len(changes) // 2 :]
    for theme, colors in ((Theme.LIGHT, of_page), (Theme.DARK, of_page | dict(changes))):
        for number, wanted in enumerate(PALETTES[theme].series):
            color = colors[f"s{number}"]
            assert contrast(color, colors["ground"]) >= 3, (theme, color)
            is_seen = contrast(wanted, colors["ground"]) >= 3
            assert not is_seen or color.lower() == wanted.lower()


def test_only_the_trials_asked_for_are_on_the_page(everything, make):
    page = parsed(make(everything, filters=("model=vgg16",)))
    assert {trial["model"] for trial in page.trials} == {"vgg16"}
    assert VGG["model"] in page.text
    assert RESNET["model"] not in page.text


def test_a_table_cell_leads_to_its_trial(everything, make):
    page = parsed(make(everything))
    keys = {f"#t-{trial['key']}" for trial in page.trials}
    cells = [
        attributes["href"]
        for tag, attributes in page.elements
        if tag == "a" and str(attributes.get("href")).startswith("#t-")
    ]
    assert set(cells) == keys
    assert PS["variable_update"] == "parameter_server"
