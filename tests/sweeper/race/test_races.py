"""Which trials race against each other, and what they are called."""

import pytest

from sweeper.errors import SweepRefusedError
from sweeper.race.races import sort_into_races
from tests.over_hosts import spread
from tests.programs import program
from tests.specs import small

PS_CPU = {"variable_update": "parameter_server", "local_parameter_device": "cpu"}


def ids(specs):
    return tuple(spec.trial_id for spec in specs)


def test_strategies_race_where_all_else_is_equal():
    specs = [small(num_gpus=num_gpus, **axes) for num_gpus in (1, 2) for axes in ({}, PS_CPU)]
    races = sort_into_races(specs, ["strategy"])
    assert [race.trial_ids for race in races] == [ids(specs[:2]), ids(specs[2:])]
    assert [(race.label, race.names) for race in races] == [
        ("trivial-x1", ("replicated_none", "ps_cpu")),
        ("trivial-x2", ("replicated_none", "ps_cpu")),
    ]


def test_what_tells_races_apart_is_in_their_names():
    specs = [small(batch_size=size, **axes) for size in (2, 4) for axes in ({}, PS_CPU)]
    assert [race.label for race in sort_into_races(specs, ["strategy"])] == [
        "trivial-x1 batch_size=2",
        "trivial-x1 batch_size=4",
    ]


def test_what_each_model_has_of_its_own_is_in_no_name():
    specs = [
        small(model=model, image_px=px, **axes)
        for model, px in (("trivial", 32), ("vgg16", 224))
        for axes in ({}, PS_CPU)
    ]
    assert [race.label for race in sort_into_races(specs, ["strategy"])] == [
        "trivial-x1",
        "vgg16-x1",
    ]


def test_strategies_race_over_as_many_hosts_and_say_over_how_many():
    specs = [
        spread(way, 4, hosts) for hosts in (1, 2) for way in ("distributed_ring", "distributed_ps")
    ]
    races = sort_into_races(specs, ["strategy"])
    assert [race.trial_ids for race in races] == [ids(specs[:2]), ids(specs[2:])]
    assert [race.label for race in races] == ["trivial-x4", "trivial-x4h2"]
    assert [race.label for race in sort_into_races(specs[2:], ["strategy"])] == ["trivial-x4h2"]
    (race,) = sort_into_races([specs[0], specs[2]], ["hosts"])
    assert (race.label, race.names) == ("trivial-x4", ("hosts=1", "hosts=2"))


def test_who_has_no_rival_is_in_no_race():
    assert sort_into_races([small(num_gpus=1), small(num_gpus=2)], ["strategy"]) == []


def test_other_axes_can_race():
    specs = [
        small(precision=precision, **axes)
        for precision in ("fp32", "bf16")
        for axes in ({}, PS_CPU)
    ]
    (race,) = sort_into_races(specs, ["strategy", "precision"])
    assert race.names == (
        "replicated_none precision=fp32",
        "ps_cpu precision=fp32",
        "replicated_none precision=bf16",
        "ps_cpu precision=bf16",
    )
    (race,) = sort_into_races([small(num_gpus=1), small(num_gpus=2)], ["num_gpus"])
    assert (race.label, race.names) == ("trivial", ("num_gpus=1", "num_gpus=2"))


def test_an_axis_that_is_none_is_refused():
    with pytest.raises(
        SweepRefusedError,
        match=r"race_over=zeros: no axis of these trials; did you mean zero\? They differ in axes\.zero$",
    ):
        sort_into_races([program(1, 0), program(1, 2)], ["strategy", "zeros"])


def test_a_free_axis_races_with_and_without_its_prefix():
    specs = [program(1, zero, offload) for zero in (0, 2) for offload in ("cpu", "none")]
    bare = sort_into_races(specs, ["zero"])
    assert [race.trial_ids for race in bare] == [ids(specs[0::2]), ids(specs[1::2])]
    assert sort_into_races(specs, ["axes.zero"]) == bare


def test_settings_of_a_program_race_by_the_axes_that_are_its_strategy():
    """A bug: nothing of a program raced unless its axes were named."""
    specs = [program(1, zero, offload) for zero in (0, 2) for offload in ("cpu", "none")]
    (race,) = sort_into_races(specs, ["strategy"])
    assert race.trial_ids == ids(specs)
    assert race.names[0] == "axes.offload=cpu axes.zero=0"
    compared = [program(1, *one, compare="axes.zero") for one in ((0, "cpu"), (2, "cpu"), (2, "x"))]
    (race,) = sort_into_races(
        [*compared, program(2, 0), program(2, 2, item="samples")], ["strategy"]
    )
    assert race.trial_ids == ids(compared[:2])
