"""Attempts are written for other programs, and nothing is overwritten."""

from pathlib import Path

import pandas as pd
import pytest

from store.errors import StoreError
from store.exchange.exports import ExportFormat, export
from tests.filled import fill
from tests.specs import small
from tests.store.command import store

KINDS = (ExportFormat.CSV, ExportFormat.PARQUET)


def read(path: str) -> pd.DataFrame:
    return pd.read_csv(path) if path.endswith("csv") else pd.read_parquet(path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_is_an_attempt_with_its_axes_and_what_it_measured(kind):
    free = small(seed=2, free=(("axes.zero", 3),))
    fill("r.db", [(small(), 100.0), (free, None)])
    done = export("r.db", f"out.{kind}", kind)
    assert (done.num_attempts, done.path) == (2, f"out.{kind}")
    frame = read(f"out.{kind}")
    assert list(frame["outcome"]) == ["completed", "failed"]
    assert list(frame["throughput"].fillna(0)) == [100.0, 0]
    assert list(frame["axes.zero"].fillna(0).astype(int)) == [0, 3]
    assert {"model", "num_gpus", "sweep", "machine", "software_key", "started_at"} <= set(frame)


@pytest.mark.parametrize("kind", KINDS)
def test_measured_and_simulated_attempts_are_told_apart_by_their_devices(kind):
    fill("r.db", [(small(), 100.0)])
    simulated = small(device_kind="simulated_gpu", engine="simulated")
    fill("r.db", [(simulated, 900.0)], name="second")
    export("r.db", f"out.{kind}", kind)
    frame = read(f"out.{kind}")
    assert list(frame["device_kind"]) == ["cpu_device", "simulated_gpu"]


def test_filters_choose_and_deleted_attempts_do_not_count():
    fill("r.db", [(small(), 100.0), (small(seed=2), 50.0), (small(seed=3), 25.0)])
    assert store("delete", "3", "--yes", "--db", "r.db").returncode == 0
    ended = store("export", "seed>=2", "--db", "r.db", "--format", "csv", "--out", "out.csv")
    assert (ended.returncode, ended.stdout) == (0, "1 attempt exported to out.csv\n")
    assert list(read("out.csv")["throughput"]) == [50.0]


def test_no_cell_is_taken_for_a_formula():
    fill(
        "r.db", [(small(data_dir="=1+1"), 100.0), (small(data_dir="+1", seed=2), 100.0)], name="@x"
    )
    export("r.db", "out.csv", ExportFormat.CSV)
    frame = read("out.csv")
    assert list(frame["data_dir"]) == ["'=1+1", "'+1"]
    assert set(frame["sweep"]) == {"'@x"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["out", "out.draft"])
def test_what_is_there_is_not_overwritten(kind, name):
    fill("r.db", [(small(), 100.0)])
    Path(name).write_text("precious")
    with pytest.raises(StoreError, match=f"^{name}: it is there already; remove it, or give"):
        export("r.db", "out", kind)
    assert Path(name).read_text() == "precious"


@pytest.mark.parametrize(
    ("out", "reason"),
    [
        ("missing/out.csv", r"missing/out\.csv: .*; give another file with --out"),
        ("postgresql://me:secret@host/x", r"postgresql://me:\*\*\*@host/x: a URL; wanted a file"),
    ],
)
def test_an_export_that_cannot_be_written_leaves_nothing(out, reason):
    fill("r.db", [(small(), 100.0)])
    with pytest.raises(StoreError, match=reason):
        export("r.db", out, ExportFormat.CSV)
    assert sorted(path.name for path in Path().glob("out*")) == []


def test_an_export_of_a_database_that_is_not_there_says_so():
    ended = store("export", "--db", "none.db", "--format", "csv", "--out", "x.csv")
    assert (ended.returncode, ended.stderr[:27]) == (2, "store: none.db: no such dat")
