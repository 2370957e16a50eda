"""What is attached says nothing of who ran the kit."""

import json
import sqlite3
import tarfile
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.gpu.kit import Kit
from benchmarks.gpu.packing import Names, pack
from scalemark.records.attempt import AttemptEnd, Placement
from tests.benchmarks.gpu.boxes import box

NAMES = Names(homes=("/srv/people/anna",), words=("anna", "box7", "gpu"))


def test_homes_hosts_users_and_secrets_are_masked():
    text = "box7: /srv/people/anna/runs of anna, annabel, /home/ben/.cache, password=hunter2"
    assert NAMES.masked(text) == "***: ~/runs of ***, annabel, /home/***/.cache, password=***"


def test_a_host_named_as_a_word_of_ours_stays():
    assert NAMES.masked('"device_kind": "gpu"') == '"device_kind": "gpu"'


def test_a_masked_database_has_no_name_left_in_its_file():
    path = Path("results.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE machine (host TEXT, num_cores INTEGER)")
        connection.execute("INSERT INTO machine VALUES ('box7', 64)")
        long = "/srv/people/anna " * 2000  # of several pages, most of which are free afterwards
        connection.execute("INSERT INTO machine VALUES (?, 64)", (long,))
        connection.commit()
    num_bytes = path.stat().st_size
    NAMES.mask_database(path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT * FROM machine").fetchall() == [
            ("***", 64),
            ("~ " * 2000, 64),
        ]
    assert b"box7" not in path.read_bytes()
    assert b"anna" not in path.read_bytes()
    assert path.stat().st_size < num_bytes  # SQLite may zero free pages itself, or may not


def test_logs_and_failed_trials_are_packed_and_completed_ones_are_not():
    kit = Kit(box=box(), folder=Path("kit").absolute(), torch_python="python")
    for name, outcome in (("fine", "completed"), ("large", "out_of_memory")):
        end = AttemptEnd(
            exit_code=0,
            duration_s=1.0,
            ended_at=datetime(2026, 1, 1, tzinfo=UTC),
            placement=Placement(start="fork", devices=(0,), visible_devices=""),
            outcome=outcome,
            message="",
            result=None,
        )
        folder = kit.runs / "faults-120000" / name
        folder.mkdir(parents=True)
        (folder / "ended.json").write_text(end.to_json())
        (folder / "log.txt").write_text("on box7")
    kit.logs.mkdir()
    (kit.logs / "faults.log").write_text("by anna")
    (kit.folder / "kit.json").write_text(json.dumps({"host": "box7"}))
    with tarfile.open(pack(kit, NAMES)) as archive:
        texts = {one.name: archive.extractfile(one).read().decode() for one in archive}
        owners = {(one.uid, one.uname) for one in archive}
    assert texts.keys() == {
        "gpu-kit/kit.json",
        "gpu-kit/logs/faults.log",
        "gpu-kit/runs/faults-120000/large/ended.json",
        "gpu-kit/runs/faults-120000/large/log.txt",
    }
    assert texts["gpu-kit/logs/faults.log"] == "by ***"
    assert texts["gpu-kit/runs/faults-120000/large/log.txt"] == "on ***"
    assert owners == {(0, "")}
