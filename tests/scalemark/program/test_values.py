"""Placeholders are the axes that a trial has and the place of its attempt, as variables, too."""

from pathlib import Path

from scalemark.program.template import PLACES, Place, known, of_axes

AXES = {
    "engine": "command",
    "command": "train {zero}",
    "batch_size": 64,
    "learning_rate": 1e-05,
    "shell": True,
    "optimizer": None,
    "axes.zero": 3,
    "axes.batch_size": 7,
}
PLACE = Place(run_dir=Path("/runs/a b"), free_port=4711, gpus_per_host=2, sees_gpus=True)


def test_an_axis_goes_by_its_name_and_a_free_one_by_both():
    assert of_axes(AXES) == {
        "batch_size": "64",
        "learning_rate": "1e-05",
        "axes.zero": "3",
        "zero": "3",
        "axes.batch_size": "7",
    }


def test_a_place_fills_what_it_promises():
    assert PLACE.values() == {
        "run_dir": "/runs/a b",
        "free_port": "4711",
        "gpus": "0,1",
        "gpus_per_host": "2",
        "host_rank": "0",
        "num_hosts": "1",
        "main_host": "127.0.0.1",
    }
    assert tuple(PLACE.values()) == PLACES
    assert known(AXES) == {*of_axes(AXES), *PLACES}
