"""Variables that nothing in a trial reads are told from those that something may read."""

import pytest

from scalemark.records.machine import DeviceKind
from scalemark.records.switches import notes_of_unread
from tests.programs import program
from tests.specs import small

ALGO, FLAGS = ("env.NCCL_ALGO", "Ring"), ("env.XLA_FLAGS", "--xla_x=true")
ON_GPUS = {"device_kind": DeviceKind.GPU, "num_gpus": 2}
PS = {"variable_update": "parameter_server", "local_parameter_device": "cpu"}


@pytest.mark.parametrize(
    ("axes", "names"),
    [
        ({}, ["env.NCCL_ALGO", "env.XLA_FLAGS"]),
        ({"xla": "on"}, ["env.NCCL_ALGO"]),
        ({**ON_GPUS, "all_reduce": "pscpu"}, ["env.NCCL_ALGO"]),
        ({**ON_GPUS, **PS}, ["env.NCCL_ALGO"]),
        ({**ON_GPUS, "all_reduce": "nccl"}, []),
        ({**ON_GPUS, "variable_update": "mirrored", "all_reduce": "nccl"}, []),
    ],
    ids=str,
)
def test_what_takes_no_part_reads_nothing(axes, names):
    said = notes_of_unread([small(free=(ALGO, FLAGS), **axes)])
    assert [note.partition(":")[0] for note in said] == names


def test_a_variable_that_anything_may_read_is_never_named():
    assert notes_of_unread([small(free=(("env.OMP_NUM_THREADS", "1"), ("env.MY_OWN", "a")))]) == []
    assert notes_of_unread([program(free={"env.NCCL_ALGO": "Ring"})]) == []
    assert notes_of_unread([small()]) == []


def test_a_note_says_what_would_read_it():
    assert notes_of_unread([small(free=(ALGO,)), small(free=(ALGO,)), small()]) == [
        "env.NCCL_ALGO: nothing reads it in trials without NCCL (all_reduce=nccl, on GPUs). "
        "Their differences are chance."
    ]
