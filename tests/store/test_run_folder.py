"""A run folder tells what is in it, or which of its files is damaged, and keeps what it was given."""

import json
import os
from dataclasses import asdict
from pathlib import Path

import pytest

from store.records import Doing, RunFolder
from tests.filled import ENVIRONMENT, STEPS

NOTHING = '{"outcome": "completed", "message": "", "measurement": null, "op_placement": {}}'


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path)


def test_an_empty_folder_tells_nothing(folder):
    assert folder.read_doing() is Doing.BUILDING
    assert (folder.read_steps(), folder.last_step(), folder.read_environment(), folder.read_result()) == ([], None, None, None)


def test_a_line_cut_off_is_left_out(folder):
    folder.steps.write_text("".join(json.dumps(asdict(step)) + "\n" for step in STEPS) + '{"step": 3, "pha')
    assert (folder.read_steps(), folder.last_step()) == (STEPS, 2)


@pytest.mark.parametrize("text", ["", "\0\0", "null", "[]", "3", "{}", NOTHING[:-1], NOTHING.replace("completed", "splendid")])
def test_a_result_that_is_none_is_a_value_error_with_its_name(folder, text):
    folder.result.write_text(text)
    with pytest.raises(ValueError, match=r"/result\.json is damaged: "):
        folder.read_result()


@pytest.mark.parametrize("measurement", ["{}", "3", '{"images_per_second": 3}', "[1]"])
def test_a_measurement_of_another_kind_is_damage(folder, measurement):
    folder.result.write_text(NOTHING.replace("null", measurement))
    with pytest.raises(ValueError, match=r"/result\.json is damaged: TypeError: "):
        folder.read_result()


@pytest.mark.parametrize("line", ["\0\0", "[]", "{}", "null", '{"step": null}'])
def test_steps_that_are_none_are_a_value_error_with_their_name(folder, line):
    folder.steps.write_text(line + "\n")
    for read in (folder.read_steps, folder.last_step):
        with pytest.raises(ValueError, match=r"/steps\.jsonl is damaged: "):
            read()


@pytest.mark.parametrize("text", ["", "null", "[]", "3", "{}"])
def test_an_environment_that_is_none_is_a_value_error_with_its_name(folder, text):
    folder.environment.write_text(text)
    with pytest.raises(ValueError, match=r"/environment\.json is damaged: "):
        folder.read_environment()


def test_an_environment_names_what_is_missing(folder):
    folder.environment.write_text(json.dumps({name: ENVIRONMENT[name] for name in ENVIRONMENT if name != "packages"}))
    with pytest.raises(ValueError, match="ValueError: packages missing"):
        folder.read_environment()


def test_bytes_that_are_no_text_are_damage(folder):
    folder.doing.write_bytes(b"\xff")
    with pytest.raises(ValueError, match=r"/doing\.txt is damaged: UnicodeDecodeError: "):
        folder.read_doing()


def test_what_cannot_be_opened_is_an_os_error(folder):
    for path in (folder.doing, folder.steps, folder.environment, folder.result):
        path.mkdir()
    for read in (folder.read_doing, folder.read_steps, folder.last_step, folder.read_environment, folder.read_result):
        with pytest.raises(IsADirectoryError):
            read()


def test_results_are_on_the_disk_before_they_have_their_name_and_what_is_told_beside_the_steps_waits_for_no_disk(
    folder, monkeypatch
):
    synced, fsync = [], os.fsync

    def seen(descriptor: int) -> None:
        fsync(descriptor)
        draft = Path(f"/proc/self/fd/{descriptor}").readlink()
        synced.append((draft.name, draft.read_text(), folder.result.exists()))

    monkeypatch.setattr(os, "fsync", seen)
    folder.write(folder.doing, Doing.STEPPING)
    folder.write(folder.environment, "{}")
    folder.write(folder.result, NOTHING)
    assert synced == [("environment.draft", "{}", False), ("result.draft", NOTHING, False)]
    assert folder.result.read_text() == NOTHING
