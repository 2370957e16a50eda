"""Sweeps are listed, newest first, with the progress of those that run; each has a page of its own."""

import json
from contextlib import closing
from datetime import UTC, datetime

import pytest

from analysis.results import Origin
from analysis.selection import Selection
from plots.serve import current, site
from plots.serve.current import What
from plots.serve.site import Shown, Site, path_of
from scalemark.host.process_identity import this_process
from store.writer import Writer
from tests.filled import NOON, PLACEMENT, attempt, begin, fill
from tests.specs import small

PATIENCE_S = 300  # it costs nothing where all is well, and a busy machine may need much


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current, "_PATIENCE_S", dict.fromkeys(What, PATIENCE_S))


def site_of(db: str = "r.db", *, origin: Origin | None = None) -> Site:
    selection = Selection(db=db, origin=origin or Origin.MEASURED)
    return Site(Shown(selection=selection, origin=origin, command="", every_s=0))


def trials(found: Site, path: str) -> list[object]:
    """Throughputs of the report at a path."""
    answer = found.answer(f"{path}data.json")
    assert answer is not None
    reported = json.loads(answer.body)
    assert reported["problem"] is None
    packed = reported["report"]["trials"]
    same = [packed["same"].get("throughput")] * packed["num"]
    return packed["columns"].get("throughput", same)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_the_newest_sweep_is_first_and_one_that_runs_tells_how_far_it_is(request, kind):
    db = "r.db" if kind == "sqlite" else request.getfixturevalue("postgresql_url")
    fill(db, [(small(), 100.0)], name="<before>")
    with closing(Writer(db)) as writer:
        ledger = begin(
            writer,
            {small(): 3},
            name="mine",
            process=this_process(),
            started_at=datetime.now(UTC),
            rerun=True,
        )
        first, second, _ = ledger.open_repeats()
        for repeat in (first, second):
            ledger.claim(repeat, NOON)
            ledger.run(repeat, "/runs/1", PLACEMENT, datetime.now(UTC))
        ledger.finish(first.repeat_id, attempt(small(), 100.0, duration_s=60.0), NOON)
        page = site_of(db).answer("/").body
        assert page.index(">mine</a>") < page.index(">&lt;before&gt;</a>")
        assert '<a href="sweeps/%3Cbefore%3E/">' in page
        assert '<progress max="3" value="1" aria-label="mine">' in page
        assert "1 of 3 done, about 2 min left" in page
        assert f"now: trivial-replicated_none-x1 {small().trial_id[:8]} repeat 2" in page
        ledger.end(NOON, finished=True)
    assert "<progress" not in site_of(db).answer("/").body


def test_a_page_has_the_results_of_its_sweep_and_of_its_origin():
    fill("r.db", [(small(), 100.0)], name="measured")
    simulated = small(engine="simulated", device_kind="simulated_gpu")
    fill("r.db", [(simulated, 900.0)], name="played by night")
    found = site_of()
    assert trials(found, path_of("measured")) == [100.0]
    assert trials(found, path_of("played by night")) == [900.0]
    assert trials(found, path_of(None)) == [900.0]
    page = found.answer("/").body
    assert "All simulated results</a>" in page
    assert "(--origin measured serves the others)" in page
    asked = site_of(origin=Origin.SIMULATED)
    assert ">All results</a>" in asked.answer("/").body
    assert trials(asked, path_of(None)) == [900.0]
    assert trials(site_of(origin=Origin.MEASURED), path_of(None)) == [100.0]
    reported = json.loads(asked.answer("/sweeps/measured/data.json").body)
    assert reported["problem"].endswith("show them with --origin measured")


def test_a_sweep_that_is_not_there_is_waited_for():
    fill("r.db", [(small(), 100.0)])
    found = site_of()
    assert "later: no such sweep; the newest are first" in found.answer("/sweeps/later/").body
    fill("r.db", [(small(num_gpus=2), 190.0)], name="later")
    assert trials(found, "/sweeps/later/") == [190.0]


def test_a_database_that_cannot_be_read_is_said_on_the_list_and_to_probes():
    found = site_of("none.db")
    assert "none.db: no such database; run a sweep first" in found.answer("/").body
    assert found.answer("/healthz").status == 503
    Writer("none.db").close()
    assert "no sweep in this database yet" in found.answer("/").body
    assert found.answer("/healthz").status == 200


@pytest.mark.parametrize(
    "path", ["", "/all", "/sweeps/", "/sweeps/a/b/", "/sweeps//", "/all/results.db", "/data.json"]
)
def test_there_is_nothing_else(path):
    assert site_of().answer(path) is None


def test_pages_that_nobody_asks_for_are_let_go(monkeypatch):
    monkeypatch.setattr(site, "_MOST_KEPT", 2)
    fill("r.db", [(small(), 100.0)])
    found = site_of()
    first = found._current("first")
    for name in ("second", "first", "third"):
        found._current(name)
    assert list(found._kept) == ["first", "third"]
    assert found._current("first") is first
