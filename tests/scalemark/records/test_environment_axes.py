"""Environment variables are axes of a trial, unless they are not the user's to set."""

import pytest

from scalemark.records.overrides import overrides
from scalemark.records.trial import TrialSpec
from tests.specs import small


def trial(**variables: object) -> TrialSpec:
    return small(free=tuple((f"env.{name}", value) for name, value in variables.items()))


def test_a_variable_belongs_to_the_identity_of_a_trial():
    ring = trial(NCCL_ALGO="Ring", NCCL_NTHREADS=256)
    assert ring == trial(NCCL_NTHREADS="256", NCCL_ALGO="Ring")
    assert len({ring.trial_id, trial(NCCL_ALGO="Tree").trial_id, small().trial_id}) == 3
    assert ring.axes["env.NCCL_NTHREADS"] == "256"
    assert TrialSpec.from_json(ring.to_json()) == TrialSpec.of_axes(ring.axes) == ring


def test_commands_that_run_it_again_have_it():
    spec = trial(NCCL_ALGO="Ring", OMP_NUM_THREADS="1", XLA_FLAGS="--a=1 --b=2", X="0x1", Y="01")
    assert overrides(spec, ())[-5:] == [
        "+env.NCCL_ALGO=Ring",
        "+env.OMP_NUM_THREADS=1",
        "+env.X=0x1",
        "+env.XLA_FLAGS='--a=1 --b=2'",
        "+env.Y='01'",
    ]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nccl_algo", "env.nccl_algo: wanted the name of an environment variable in capital"),
        ("1ST", "env.1ST: wanted the name"),
        ("A-B", "env.A-B: wanted the name"),
        ("A" * 60, "59 characters at most"),
        ("CUDA_VISIBLE_DEVICES", "choose how many by num_gpus=, and export a mask"),
        ("HIP_VISIBLE_DEVICES", "choose how many by num_gpus=, and export a mask"),
        ("RANK", "choose hosts by hosts=, and let the command start the ranks"),
        ("MASTER_ADDR", "choose hosts by hosts=, and let the command start the ranks"),
        ("TF_CONFIG", "choose these by hosts="),
        ("PYTHONPATH", "export it, and run a sweep for each value"),
        ("SCALEMARK_DB", "it controls scalemark itself; leave it out"),
        ("HF_TOKEN", "env.HF_TOKEN seems to hold a password or a token"),
        ("WANDB_API_KEY", "export it instead, and it is inherited"),
    ],
)
def test_a_variable_that_is_not_the_users_to_set_is_refused(name, said):
    with pytest.raises(ValueError, match=r"env\.") as raised:
        trial(**{name: "a"})
    assert said in str(raised.value)


def test_a_name_that_only_looks_like_a_secret_is_an_axis():
    assert trial(TOKENIZERS_PARALLELISM="false").axes["env.TOKENIZERS_PARALLELISM"] == "false"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("", "printable characters, or inherited"),
        ("two\nlines", r"'two\nlines': wanted a line"),
        ("a\0b", "printable characters"),
        ("a" * 1001, "wanted a line of 1 to 1000"),
        (1.5, "put what you wrote in quotes, as \"+env.X='1.5'\""),
        (True, "put what you wrote in quotes, as \"+env.X='true'\""),
        ("ghp_" + "a" * 20, "seems to hold a password or a token"),
    ],
)
def test_a_value_that_no_variable_can_have_is_refused(value, said):
    with pytest.raises(ValueError, match=r"env\.X") as raised:
        trial(X=value)
    assert said in str(raised.value)
