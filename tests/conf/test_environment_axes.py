"""`+env.NAME=` sets a variable for the engines that run something, and is refused by others."""

import pytest

from conf.resolve import TrialRefusedError
from scalemark.records.machine import DeviceKind
from tests.conf.test_program import resolved
from tests.conf.test_resolve import trial


def test_a_variable_that_is_inherited_is_no_axis_of_the_trial():
    assert trial("+env.NCCL_ALGO=Ring").axes["env.NCCL_ALGO"] == "Ring"
    assert trial("+env.NCCL_ALGO=null") == trial("+env.NCCL_ALGO=inherited") == trial()


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ("+env.NVIDIA_TF32_OVERRIDE=0", "leave it out, and give precision= instead"),
        ("+env.MALLOC_ARENA_MAX=1", "a process reads it when it starts"),
        ("+env.LD_PRELOAD=libtcmalloc.so", "export it, and run a sweep for each value"),
        ("+env.CUDA_VISIBLE_DEVICES=0", "it is how a trial is pinned to its GPUs"),
    ],
)
def test_a_variable_that_tensorflow_cannot_be_given_is_refused(overrides, said):
    with pytest.raises(TrialRefusedError, match=r"env\.") as raised:
        trial(*overrides.split())
    assert said in str(raised.value)


def test_a_simulated_trial_reads_no_variable():
    with pytest.raises(TrialRefusedError, match=r"env.NCCL_ALGO: simulated trials run no program"):
        trial(
            "engine=simulated",
            "hardware=dgx1_p100",
            "+env.NCCL_ALGO=Ring",
            kind=DeviceKind.SIMULATED_GPU,
        )


def test_a_program_is_given_variables_that_its_command_does_not_name():
    spec = resolved("python t.py", "+env.NVIDIA_TF32_OVERRIDE=1", "+env.LD_PRELOAD=x.so")
    assert spec.strategy == "LD_PRELOAD=x.so NVIDIA_TF32_OVERRIDE=1"


@pytest.mark.parametrize("name", ["NCCL_ALGO", "env.NCCL_ALGO"])
def test_a_program_that_inherits_a_variable_is_compared_in_it(name):
    run = ("python t.py {zero}", "+axes.zero=1", f"command.compare={name}")
    ring, inherited = (resolved(*run, f"+env.NCCL_ALGO={value}") for value in ("Ring", "null"))
    assert (ring.strategy, inherited.strategy) == ("NCCL_ALGO=Ring", "t.py")


def test_no_placeholder_is_a_variable():
    with pytest.raises(ValueError, match=r"\{NCCL_ALGO\} is no placeholder"):
        resolved("python t.py {NCCL_ALGO}", "+env.NCCL_ALGO=Ring")
