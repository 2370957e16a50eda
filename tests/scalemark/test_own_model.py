"""A reference to a model of the user's own is checked by its text; nothing of it is run."""

from pathlib import Path

import pytest

from scalemark.models import ModelError
from scalemark.own_model import find, folder_of
from scalemark.records.attempt import WORKDIR_VARIABLE
from tests.own_models import written

HERE = "raise AssertionError('it was run')\n\n\ndef build(width=3, *, depth=2):\n    pass\n"


def test_the_file_is_found_and_not_run(tmp_path):
    own = find(written(HERE), tmp_path)
    assert (own.reference, own.path) == ("my_model.py:build", tmp_path / "my_model.py")
    assert own.function == "build"


def test_each_spelling_of_a_path_is_one_reference(tmp_path, monkeypatch):
    written(HERE, "nets/my_model.py")
    monkeypatch.setenv("HOME", str(tmp_path))
    spellings = [
        "nets/my_model.py",
        "./nets/../nets/my_model.py",
        str(tmp_path / "nets/my_model.py"),
    ]
    spellings.append("~/nets/my_model.py")
    found = {find(f"{spelling}:build", tmp_path).reference for spelling in spellings}
    assert found == {"nets/my_model.py:build"}


def test_a_file_elsewhere_keeps_its_whole_path(tmp_path):
    (tmp_path / "sweeps").mkdir()
    reference = find(f"../{written(HERE)}", tmp_path / "sweeps").reference
    assert reference == f"{tmp_path}/my_model.py:build"


def test_the_digest_is_that_of_the_content(tmp_path):
    first = find(written(HERE), tmp_path).digest
    assert find(written(HERE, "copy.py"), tmp_path).digest == first
    assert find(written(HERE + "# other\n"), tmp_path).digest != first


@pytest.mark.parametrize(
    "text",
    [
        "from nets import build",
        "import nets as build",
        "build = make_builder()",
        "build: object = 3",
        "class build: pass",
        "try:\n    import fast\nexcept ImportError:\n    def build(): pass",
        "if True:\n    pass\nelse:\n    def build(): pass",
        "from nets import *",
        "def build(*, width=3, **others): pass",
    ],
)
def test_a_name_may_be_defined_in_any_way(tmp_path, text):
    assert find(written(text), tmp_path).function == "build"


REFUSED = {
    "no such file": ("my_modle.py:build", HERE),
    "a folder": ("folder.py:build", HERE),
    "no such function": ("my_model.py:biuld", HERE),
    "only inside a function": ("my_model.py:build", "def outer():\n    def build(): pass"),
    "not python": ("my_model.py:build", "def build(:\n  pass"),
    "a null byte": ("my_model.py:build", "def build(): pass\0"),
    "no function named": ("my_model.py:", HERE),
    "no name of a function": ("my_model.py:3x", HERE),
    "nothing": (":", HERE),
    "no python file": ("my_model.yaml:build", HERE),
    "invisible": ("my_model.py:build\n", HERE),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_model_is_refused_with_what_was_wanted(tmp_path, snapshot, case):
    reference, text = REFUSED[case]
    written(text)
    (tmp_path / "folder.py").mkdir()
    with pytest.raises(ModelError) as refusal:
        find(reference, tmp_path)
    assert str(refusal.value).replace(str(tmp_path), "FOLDER") == snapshot


def test_references_start_from_the_folder_of_the_sweep(tmp_path):
    assert folder_of({}) == Path.cwd()
    assert folder_of({WORKDIR_VARIABLE: "/elsewhere"}) == Path("/elsewhere")
