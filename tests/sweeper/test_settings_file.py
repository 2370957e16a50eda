"""The user's own defaults hold below the command line and environment variables, and every command says whence they are."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from store.api import open as open_database
from store.database import default_url
from store.errors import StoreError
from sweeper.__main__ import main
from sweeper.errors import SweepRefusedError
from sweeper.planning.own_defaults import own_defaults
from tests.conftest import PROJECT
from tests.filled import fill
from tests.specs import small


@pytest.fixture
def path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    path = tmp_path / "settings" / "scalemark" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text('launcher = "agents"\nstore.url = "mine.db"\nsweep.repeats = 3\n')
    return path


def test_the_database_is_that_of_the_file_unless_a_variable_names_another(path, monkeypatch):
    assert default_url() == "mine.db"
    fill("mine.db", [(small(), 100.0)])
    assert len(open_database().attempts()) == 1
    monkeypatch.setenv("SCALEMARK_DB", "other.db")
    assert default_url() == "other.db"
    path.unlink()
    monkeypatch.delenv("SCALEMARK_DB")
    assert default_url() == "results.db"


def test_what_is_typed_wins(path):
    found = own_defaults(["sweep.repeats=2", "launcher=local", "model=trivial"])
    assert found.values == {"store.url": "mine.db"}
    assert found.typed(["model=trivial"]) == ["model=trivial"]
    assert found.line == f"from {path}: store.url=mine.db"


def test_a_variable_wins_and_a_password_is_not_shown(path, monkeypatch):
    path.write_text('store.url = "postgresql://me:hidden@db/x"')
    assert own_defaults([]).line == f"from {path}: store.url=postgresql://me:***@db/x"
    monkeypatch.setenv("SCALEMARK_DB", "other.db")
    assert (own_defaults([]).values, own_defaults([]).line) == ({}, "")


def test_simulated_trials_need_no_launcher(path):
    assert own_defaults(["engine=simulated"]).typed(["num_gpus=2"]) == ["num_gpus=2"]


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ([], ["launcher=agents"]),
        (["--cfg", "job"], ["--cfg", "job", "launcher=agents"]),
        (["--cfg", "job", "num_gpus=2"], ["--cfg", "job", "launcher=agents", "num_gpus=2"]),
        (["num_gpus=2", "--cfg", "job"], ["launcher=agents", "num_gpus=2", "--cfg", "job"]),
    ],
)
def test_the_launcher_is_put_where_hydra_takes_it(path, typed, found):
    assert own_defaults(typed).typed(typed) == found


def test_a_wrong_file_is_refused_by_all(path):
    path.write_text("repeats = 3")
    for refused, ask in ((StoreError, default_url), (SweepRefusedError, lambda: own_defaults([]))):
        with pytest.raises(refused, match=r"repeats: no such setting; did you mean sweep\.repeats"):
            ask()


def shown(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr("sys.argv", ["scalemark settings", "settings", *arguments])
    with pytest.raises(SystemExit, match=r"^0$"):
        main()


def test_what_is_in_force_is_shown_with_where_it_is_from(path, monkeypatch, capsys):
    path.write_text("sweep.repeats = 3")
    monkeypatch.setenv("SCALEMARK_DB", "postgresql://me:hidden@db/x")
    shown(monkeypatch, "--json")
    assert json.loads(capsys.readouterr().out) == [
        {
            "setting": "store.url",
            "value": "postgresql://me:***@db/x",
            "source": "SCALEMARK_DB",
        },
        {"setting": "launcher", "value": "local", "source": "scalemark"},
        {"setting": "sweep.repeats", "value": 3, "source": str(path)},
    ]
    path.unlink()
    shown(monkeypatch)
    out, err = capsys.readouterr()
    assert out.splitlines()[-1].split() == ["sweep.repeats", "1", "scalemark"]
    assert err == f"no settings file; {path} would be one (docs/install.md)\n"


@pytest.mark.integration
def test_a_sweep_goes_by_the_file_and_its_plan_says_so(path):
    sweep = [sys.executable, str(PROJECT / "sweep.py")]
    asked = ["engine=simulated", "hardware=dgx1_p100", "model=trivial", "sweep.dry_run=true"]
    plan = subprocess.run([*sweep, *asked], check=True, capture_output=True, text=True).stdout
    assert plan.splitlines()[0] == f"from {path}: store.url=mine.db sweep.repeats=3"
    assert plan.splitlines()[-2].endswith(" 3 to run")
    conf = Path("conf/experiment")
    conf.mkdir(parents=True)
    (conf / "twice.yaml").write_text("# @package _global_\nsweep:\n  repeats: 2\n")
    own = ["--config-dir", str(conf.parent.absolute()), "experiment=twice"]
    plan = subprocess.run([*sweep, *own, *asked], check=True, capture_output=True, text=True).stdout
    assert plan.splitlines()[-2].endswith(" 2 to run")  # an experiment is chosen, too
