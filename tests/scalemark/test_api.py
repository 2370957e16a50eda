"""`scalemark.open` gives the numbers of the commands as frames, says what it chose, and why there is nothing."""

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

import scalemark
from analysis.options import select
from analysis.selection import load
from scalemark.api import Results
from scalemark.cli.terminal import make_console
from scalemark.records.machine import DeviceKind
from scalemark.records.references import Origin
from tests.conftest import PROJECT
from tests.empty import make_empty
from tests.filled import fill
from tests.ran import ran
from tests.specs import small

ONE = small(model="resnet50")
FOUR = small(model="resnet50", num_gpus=4)
OTHER = small(model="resnet50", num_gpus=4, variable_update="parameter_server")
VGG = small(model="vgg16")


@pytest.fixture
def results() -> Results:
    """An older sweep of vgg16, one repeat of which failed, and a newer one of resnet50."""
    fill("results.db", [(VGG, 50.0), (VGG, None)], name="old")
    newer = [(ONE, 100.0), (FOUR, 350.0), (FOUR, 370.0), (OTHER, 200.0), (OTHER, 210.0)]
    fill("results.db", newer, name="night")
    return scalemark.open()


def test_the_entry_is_imported_without_any_library():
    script = "import sys, scalemark; print([n for n in ('pandas', 'numpy', 'sqlalchemy', 'rich', 'hydra', 'matplotlib') if n in sys.modules])"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_frames_have_the_numbers_of_the_commands(results):
    (expected,) = [
        one
        for one in load(select("results.db", None, None, Origin.MEASURED, None))
        if one.trial_id == FOUR.trial_id
    ]
    frame = results.trials()
    (row,) = frame[frame["trial_id"] == FOUR.trial_id].to_dict("records")
    assert row["throughput"] == expected.throughput == pytest.approx((350 * 370) ** 0.5)
    assert (row["throughput_low"], row["throughput_high"]) == (expected.low, expected.high)
    assert row["speed_up"] == pytest.approx(3.6, rel=0.01)
    assert row["repeats"] == (350.0, 370.0)
    assert row["num_repeats"] == 2


def test_rows_are_sorted(results):
    frame = results.trials(origin="measured")
    assert frame[["model", "strategy", "num_gpus"]].to_numpy().tolist() == [
        ["resnet50", OTHER.strategy, 4],
        ["resnet50", ONE.strategy, 1],
        ["resnet50", FOUR.strategy, 4],
        ["vgg16", VGG.strategy, 1],
    ]


def test_without_filters_it_is_about_the_newest_sweep(results, snapshot):
    assert set(results.trials()["model"]) == {"resnet50"}
    assert set(results.trials(origin="measured")["model"]) == {"resnet50", "vgg16"}
    assert repr(results) == snapshot
    assert repr(results.where("num_gpus>=4", sweep="night")) == snapshot


@pytest.mark.parametrize(
    ("wanted", "num_gpus"),
    [
        ({"num_gpus": 4, "sweep": "night"}, [4, 4]),
        ({"num_gpus": ">=2"}, [4, 4]),
        ({"num_gpus": [1, 4], "model": "resnet50"}, [4, 1, 4]),
        ({"model": "~resnet*"}, [4, 1, 4]),
        ({"sweep": "~ni*"}, [4, 1, 4]),
        ({"sweep": ["old", "night"]}, [4, 1, 4, 1]),
        ({"num_gpus": pd.Series([1, 2])}, [1, 1]),
        ({"staged_vars": False, "model": ["vgg16", "alexnet"]}, [1]),
        ({"model": None, "sweep": "old"}, [1]),
    ],
)
def test_keywords_are_the_filters_of_the_commands(results, wanted, num_gpus):
    assert results.trials(**wanted)["num_gpus"].tolist() == num_gpus


def test_filters_of_the_commands_narrow_what_where_chose(results):
    chosen = results.where("num_gpus>=2").where(variable_update="replicated")
    assert chosen.trials()["trial_id"].tolist() == [FOUR.trial_id]


@pytest.mark.parametrize("wanted", [{"modle": "x"}, {"origin": "dreamt"}, {"baseline": "first"}])
def test_a_wrong_filter_is_refused(results, wanted, snapshot):
    with pytest.raises(scalemark.StoreError) as refusal:
        results.trials(**wanted)
    assert str(refusal.value) == snapshot


def test_a_missing_database_is_refused_unless_it_is_not_needed():
    with pytest.raises(scalemark.StoreError, match=r"nope\.db: no database of scalemark"):
        scalemark.open("nope.db")
    published = scalemark.open("nope.db", origin="published", model="resnet50")
    assert len(published.trials()) > 50


def documented() -> dict[str, str]:
    """Column -> dtype of a docstring's tables."""
    text = re.sub(r"\n +(?=[^| \n])", " ", Results.trials.__doc__ or "")
    found = {}
    for names, dtype in re.findall(r"^ *\| ([\w., ]+?) \| (\w[^|]*?) \|", text, re.MULTILINE):
        stem, *_ = names.split(",")
        for name in names.split(", "):
            found[name.replace("..", stem)] = dtype
    del found["column"]
    return found


def test_every_documented_column_is_there_with_its_dtype(results):
    frame = results.trials()
    columns = documented()
    assert len(columns) > 5
    assert {name: str(frame[name].dtype) for name in columns} == columns


def test_an_empty_frame_says_why_and_has_the_same_columns(results):
    whole = results.trials()
    with pytest.warns(scalemark.NothingFoundWarning, match="no attempt is like model=nope") as said:
        none = results.trials(model="nope")
    assert none.attrs["why"] == str(said[0].message)
    assert said[0].filename == __file__
    assert len(none) == 0
    assert dict(none.dtypes) == dict(whole.dtypes)


def test_filters_take_the_origin_of_the_newest_sweep_that_they_match(results):
    played = small(model="alexnet", device_kind=DeviceKind.SIMULATED_GPU)
    fill("results.db", [(played, 9.0)], name="played")
    assert results.trials()["origin"].tolist() == ["simulated"]
    assert results.trials(model="alexnet")["origin"].tolist() == ["simulated"]
    assert set(results.trials("num_gpus>=1")["origin"]) == {"simulated"}
    assert set(results.trials("num_gpus>=2")["origin"]) == {"measured"}
    with pytest.warns(scalemark.NothingFoundWarning, match="only simulated numbers"):
        assert len(results.trials(model="alexnet", origin="measured")) == 0


def test_frames_of_an_empty_database_say_what_to_do():
    make_empty("empty.db")
    none = scalemark.open("empty.db")
    with pytest.warns(scalemark.NothingFoundWarning, match=r"empty\.db: no .* in it yet; run"):
        assert len(none.trials()) == 0


def test_failed_trials_are_rows_and_not_points(results):
    fill("results.db", [(small(num_gpus=2), None), (small(), 7.0)], name="failing")
    frame = results.trials(model="trivial")
    assert frame["outcome"].tolist() == ["completed", "failed"]
    assert frame["num_failed"].tolist() == [0, 1]


def in_jupyter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")


def test_a_notebook_gets_plain_lines_on_the_streams(monkeypatch, capsys):
    in_jupyter(monkeypatch)
    make_console(stderr=True).print("one line " * 20, style="bold")
    assert capsys.readouterr().err == "one line " * 20 + "\n"


def test_files_of_the_user_take_no_place_of_ours():
    for name in ("plots", "analysis", "store", "simulator", "conf"):
        Path(f"{name}.py").write_text(f"raise SystemExit('imported {name}.py of the user')")
    script = "import scalemark; print(len(scalemark.open(origin='published').trials()) > 400)"
    environment = {"PYTHONPATH": f".:{PROJECT}", "PATH": ""}
    command = [sys.executable, "-c", script]
    run = ran(command, env=environment)
    assert run.stdout == "True\n", run.stderr

    Path("plots.py").write_text("")
    command[-1] = f"import plots; {script}"
    run = ran(command, env=environment)
    assert "plots.py was imported as plots" in run.stderr.splitlines()[-1]


def test_names_of_the_entry_are_listed():
    assert {"open", "sweep", "Results", "StoreError"} <= set(dir(scalemark))
    with pytest.raises(AttributeError, match="no attribute 'read_csv'"):
        scalemark.read_csv  # noqa: B018
