"""The mutator: every place is reached, the right value stays as it is, and a seed tells all."""

from __future__ import annotations

import json

import pytest

from tests.mutations import MISSING, TOO_DEEP, UNKNOWN, WRONG, as_json, every, places, sampled

RIGHT = {"kind": "attempt", "steps": [1, {"loss": 0.5}]}


def test_every_place_gets_every_wrong_value() -> None:
    reached = {mutation.at for mutation in every(RIGHT)}
    assert (
        reached
        == set(places(RIGHT))
        == {(), ("kind",), ("steps",), ("steps", 0), ("steps", 1), ("steps", 1, "loss")}
    )
    reported = [mutation.wrong for mutation in every(RIGHT) if mutation.at == ("kind",)]
    assert len(reported) == len(WRONG) + 1
    assert reported[-1] == MISSING


def test_the_right_value_stays_as_it_is() -> None:
    before = json.dumps(RIGHT)
    assert all(as_json(mutation.value) != before for mutation in every(RIGHT))
    assert json.dumps(RIGHT) == before


def test_names_are_taken_out_and_added() -> None:
    reported = {
        (mutation.at, mutation.wrong): mutation.value
        for mutation in every(RIGHT)
        if mutation.wrong in (MISSING, UNKNOWN)
    }
    assert reported[("kind",), MISSING] == {"steps": [1, {"loss": 0.5}]}
    assert reported[("steps", 0), MISSING] == {"kind": "attempt", "steps": [{"loss": 0.5}]}
    assert reported[("steps", 1), UNKNOWN] == {
        "kind": "attempt",
        "steps": [1, {"loss": 0.5, "surprise": 1}],
    }


def test_a_seed_tells_which_are_chosen() -> None:
    chosen = [str(mutation) for mutation in sampled(RIGHT, 40, seed=3)]
    assert len(chosen) == 40
    assert chosen == [str(mutation) for mutation in sampled(RIGHT, 40, seed=3)]
    assert chosen != [str(mutation) for mutation in sampled(RIGHT, 40, seed=4)]


def test_nesting_is_written_that_no_reader_follows() -> None:
    text = as_json({"kind": TOO_DEEP})
    with pytest.raises(RecursionError):
        json.loads(text)
