"""Children find our packages, whatever folder they run in and whatever they inherit."""

import sys
from pathlib import Path

from scalemark.host import own_code
from scalemark.host.own_code import ROOT, import_ours_first, module_command, python_path, typed
from tests.conftest import PROJECT


def test_our_packages_come_first_on_the_path_of_children(tmp_path):
    assert ROOT == PROJECT
    assert python_path({}) == str(PROJECT)
    inherited = {"PYTHONPATH": ":relative:/absolute:"}
    assert python_path(inherited) == f"{PROJECT}:{tmp_path}/relative:/absolute"


def test_a_module_is_run_without_the_current_folder_on_its_path():
    assert module_command("scalemark", "list") == (sys.executable, "-P", "-m", "scalemark", "list")


def test_the_current_folder_leaves_the_path_and_ours_comes_first():
    path = ["", ".", str(Path.cwd()), "/elsewhere", str(PROJECT), "/last"]
    import_ours_first(path)
    assert path == [str(PROJECT), "/elsewhere", "/last"]


def test_a_wheel_leaves_the_standard_library_in_front(monkeypatch, tmp_path):
    packages = tmp_path / "site-packages"
    monkeypatch.setattr(own_code, "ROOT", packages)
    path = ["", "/usr/lib/python3", str(packages)]
    import_ours_first(path)
    assert path == ["/usr/lib/python3", str(packages)]
    assert python_path({}) == ""
    inherited = {"PYTHONPATH": f".:other:/absolute:{packages}"}
    assert python_path(inherited) == f"{tmp_path}/other:/absolute"


def test_commands_are_reported_as_they_are_typed_in_a_checkout(monkeypatch):
    assert (typed("sweep"), typed("list")) == ("scalemark sweep", "scalemark list")
    monkeypatch.chdir(PROJECT)  # where sweep.py lies
    assert (typed("sweep"), typed("list")) == ("python sweep.py", "scalemark list")
    monkeypatch.setenv("PATH", "/nowhere")  # no environment is activated
    beside = Path(sys.executable).parent
    if beside.is_relative_to(PROJECT):
        beside = beside.relative_to(PROJECT)
    assert typed("list") == f"{beside}/scalemark list"
    assert typed("sweep") == f"{beside}/python sweep.py"


def test_commands_are_named_as_they_are_typed(monkeypatch):
    monkeypatch.setattr("sys.argv", ["scalemark sweep"])
    monkeypatch.chdir(PROJECT)
    assert typed("sweep") == "scalemark sweep"
