"""What can be reported about a folder of shards from outside."""

from pathlib import Path

import pytest

from scalemark.host import files

pytestmark = pytest.mark.integration


def touch(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).write_bytes(b"x")
    return folder


def test_a_complete_folder_has_no_problem_whatever_else_is_in_it(tmp_path):
    touch(
        tmp_path,
        "train-00000-of-00002",
        "train-00001-of-00002",
        "validation-00000-of-00128",
        "train-notes",
        "README",
    )
    assert files.problem(tmp_path) is None
    assert [path.name for path in files.paths(tmp_path)] == [
        "train-00000-of-00002",
        "train-00001-of-00002",
    ]


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        ([], "there are no shards in it; wanted files named train-*-of-*"),
        (
            ["validation-00000-of-00001"],
            "there are no shards in it; wanted files named train-*-of-*",
        ),
        (["train-00001-of-00004"], "3 of 4 shards are missing, the first is train-00000-of-00004"),
        (
            ["train-0-of-2", "train-0-of-1"],
            "it holds shards of several sets: train-*-of-1, train-*-of-2",
        ),
    ],
)
def test_a_folder_in_which_shards_are_missing_or_foreign_has_a_problem(tmp_path, names, problem):
    assert files.problem(touch(tmp_path, *names)) == problem


def test_an_empty_shard_is_a_problem(tmp_path):
    touch(tmp_path, "train-0-of-1").joinpath("train-0-of-1").write_bytes(b"")
    assert files.problem(tmp_path) == "train-0-of-1 is empty"


def test_a_folder_that_does_not_exist_is_a_problem(tmp_path):
    assert files.problem(tmp_path / "missing") == "no such folder"


def test_an_index_tells_its_set_and_any_change_of_a_shard(tmp_path):
    touch(tmp_path, "train-0-of-1")
    assert files.damage(tmp_path) == "there is no index.json"
    assert files.other_set(tmp_path, "digits") is None
    files.write_index(tmp_path, "photos", files.paths(tmp_path))
    assert files.damage(tmp_path) is None
    assert files.other_set(tmp_path, "photos") is None
    assert (
        files.other_set(tmp_path, "digits")
        == "it holds the set photos, not digits; give each set a folder of its own"
    )
    (tmp_path / "train-0-of-1").write_bytes(b"y")
    assert files.damage(tmp_path) == "train-0-of-1 is not what index.json says"


@pytest.mark.parametrize(
    "text", ["[1", "[]", "{}", '{"train-0-of-1": "0"}', '{"set": "photos", "shards": 1}']
)
def test_an_index_that_says_nothing_is_damaged(tmp_path, text):
    (tmp_path / "index.json").write_text(text)
    assert files.damage(tmp_path) == "index.json is damaged"
