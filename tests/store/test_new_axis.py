"""An axis is added by its definition alone: one field in a copy of the program, and all else follows."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import PROJECT
from tests.filled import fill
from tests.ran import ran
from tests.specs import small

PACKAGES = ("analysis", "conf", "hydra_plugins", "plots", "scalemark", "simulator")
PACKAGES += ("store", "sweeper", "trainer", "tests")
DEFINITION = """
    nudge: int = axis("steps to the left", default=0, least=0, most=9)
"""

READ_BEFORE = """
import sys
from store.database import open_for_reading
from store.reading import queries
from tests.tables import asked
engine = open_for_reading(sys.argv[1])
(row,) = asked(queries.measured, engine, ["nudge=0"])
print(row["trial"]["nudge"], len(asked(queries.measured, engine, ["nudge>=1"])))
"""
WRITE = """
import sys
import sqlalchemy as sa
from store.database import open_for_reading
from store.reading import queries
from tests.tables import asked
from tests.filled import fill
from tests.specs import small
opened_before = open_for_reading(sys.argv[1])
assert asked(queries.measured, opened_before, ["nudge>=2"]) == []
assert small(nudge=3).trial_id != small().trial_id == small(nudge=0).trial_id
fill(sys.argv[1], [(small(nudge=3), 30.0)], name="second")
engine = open_for_reading(sys.argv[1])
for one in (engine, opened_before):
    print(*(row["throughput"] for row in asked(queries.measured, one, ["nudge>=2"])))
with engine.connect() as connection:
    for sql in ("SELECT nudge FROM trials ORDER BY 1", "SELECT nudge FROM throughput ORDER BY 1"):
        print(*connection.scalars(sa.text(sql)))
"""


pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this program with one more axis."""
    folder = tmp_path_factory.mktemp("program")
    for name in PACKAGES:
        shutil.copytree(PROJECT / name, folder / name, ignore=shutil.ignore_patterns("*.pyc"))
    shutil.copy(PROJECT / "sweep.py", folder)
    defined = folder / "scalemark" / "records" / "trial_axes.py"
    text = defined.read_text()
    defined.write_text(text.rstrip() + DEFINITION)
    return folder


def run(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return ran([sys.executable, *arguments], env=os.environ | {"PYTHONPATH": str(program)})


def test_the_command_line_takes_checks_and_shows_a_new_axis(program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sweep = [str(program / "sweep.py"), "-m", "sweep.dry_run=true"]
    assert "  nudge=0 " in run(program, str(program / "sweep.py"), "--help", "all").stdout
    planned = run(program, *sweep, "nudge=1,2", "hardware=cpu")
    assert planned.returncode == 0, planned.stderr
    assert "nudge" in planned.stdout
    assert "wanted 9 or less" in run(program, *sweep, "nudge=10", "hardware=cpu").stderr
    simulated = run(program, *sweep, "nudge=1", "engine=simulated", "hardware=dgx1_p100")
    assert "nudge=1: the cost model does not know what it changes" in simulated.stderr


def test_a_database_of_before_takes_a_new_axis_without_a_migration(program, db):
    fill(db, [(small(), 10.0)])
    before = run(program, "-c", READ_BEFORE, db)
    assert before.stdout == "0 0\n", before.stderr
    written = run(program, "-c", WRITE, db)
    assert written.stdout == "30.0\n30.0\n0 3\n0 3\n", written.stderr
    tables = run(program, "-m", "scalemark", "table", "--db", db)
    assert "\n3 " in tables.stdout, tables.stderr
    # the program of before shows the column that it does not know
    assert (
        "nudge"
        in subprocess.run(
            [sys.executable, "-m", "scalemark", "list", "--db", db, "--columns", "nudge"],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"PYTHONPATH": str(PROJECT)},
        ).stdout
    )
