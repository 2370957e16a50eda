"""Rules leave out the trials that all of their conditions hold for, and a rule that cannot be is refused."""

import pytest

from sweeper import SweepRefusedError
from sweeper.grid.exclude import read_rules
from tests.command.programs import spec_of
from tests.specs import small


def holds(text: str, **axes: object) -> bool:
    (rule,) = read_rules([text])
    return rule.holds(small(**axes))


@pytest.mark.parametrize(
    ("text", "axes", "held"),
    [
        ("model=vgg16,alexnet num_gpus>=4", {"model": "vgg16", "num_gpus": 4}, True),
        ("model=vgg16,alexnet num_gpus>=4", {"model": "alexnet", "num_gpus": 8}, True),
        ("model=vgg16,alexnet num_gpus>=4", {"model": "alexnet", "num_gpus": 2}, False),
        ("model=vgg16,alexnet num_gpus>=4", {"model": "trivial", "num_gpus": 8}, False),
        ("num_gpus>4", {"num_gpus": 4}, False),
        ("num_gpus<=4", {"num_gpus": 4}, True),
        ("num_gpus<4", {"num_gpus": 4}, False),
        ("num_gpus!=1,2", {"num_gpus": 2}, False),
        ("num_gpus!=1,2", {"num_gpus": 4}, True),
        ("learning_rate=1e-2", {"learning_rate": 0.01}, True),
        ("staged_vars=False", {}, True),
        ("staged_vars=true", {}, False),
        ("precision=fp32", {}, True),
        ("strategy=replicated_none", {}, True),
        ("strategy=ps_cpu", {}, False),
        ("data_dir!=/x", {}, True),
    ],
)
def test_a_rule_is_about_the_resolved_trial(text, axes, held):
    assert holds(text, **axes) is held


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("axes.zero=2", True),
        ("+axes.zero=2.0 num_gpus=1", True),
        ("axes.zero>=1,", True),
        ("axes.zero<2", False),
        ("axes.zero!=1,3", True),
        ("axes.offload=cpu", True),
        ("axes.offload>1", False),
        ("axes.bucket=true", True),
        ("axes.other=1", False),
        ("axes.other!=1", True),
        ("env.OMP_NUM_THREADS>=8", True),
        ("env.OMP_NUM_THREADS<8", False),
        ("env.OMP_NUM_THREADS=16", True),
        ("env.OMP_NUM_THREADS=inherited", False),
        ("env.NCCL_ALGO=inherited", True),
        ("env.NCCL_ALGO=null", True),
        ("env.NCCL_ALGO!=Ring", True),
    ],
)
def test_a_rule_may_be_about_free_axes(text, held):
    free = (("bucket", True), ("offload", "cpu"), ("zero", 2), ("env.OMP_NUM_THREADS", "16"))
    spec = spec_of("true", free=free, num_gpus=1)
    (rule,) = read_rules([text])
    assert rule.holds(spec) is held
    (bare,) = read_rules([text.replace("axes.", "")], [*dict(spec.free), "axes.other"])
    assert bare.holds(spec) is held


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("dp=2", True),
        ("dp>2", False),
        ("not dp*pp == num_gpus", False),
        ("accum % dp", True),
        ("not num_gpus>4", True),
    ],
)
def test_a_rule_may_be_about_derived_axes(text, held):
    """A bug: `dp is no axis of this trial`, and `dp=2` held for none."""
    derived = {"dp": "num_gpus // (tp*pp)", "accum": "6 // dp"}
    (rule,) = read_rules([text], ["axes.tp", "axes.pp", "axes.dp", "axes.accum"])
    assert rule.holds(spec_of("true", free=(("tp", 1), ("pp", 2)), num_gpus=4), derived) is held


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("num_gpu>=4", "num_gpu: no axis of a trial; did you mean num_gpus[?] An axis of your "),
        ("zero>=4", "; there are .*[.] An axis of your own is called axes.zero"),
        (
            "precision=fp61",
            "precision is never fp61; did you mean fp16[?] Choices: auto, bf16, fp16, fp32, tf32",
        ),
        ("staged_vars=yes", "staged_vars is never yes; Choices: true, false"),
        ("axes.tp<2*3", "axes.tp<2[*]3: < compares with a number; an expression has spaces"),
        ("num_gpus>=many", "num_gpus is a number, many is none"),
        ("num_gpus>=1,2", ">= compares a number with one number"),
        ("model<vgg16", "< compares a number with one number; for others there are = and !="),
        ("num_gpus = 4", "num_gpus: no condition; wanted AXIS=VALUE,VALUE"),
        ("f(num_gpus)>4", r"f\(num_gpus\)>4: no condition; wanted .* or an expression of axes"),
        ("num_gpus=>4", "num_gpus=>4: no condition"),
        ("model=", "model=: no condition"),
        ("model=a,", "no value after a comma"),
        (" ", "an empty rule would leave out every trial"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(text, message):
    with pytest.raises(SweepRefusedError, match=message):
        read_rules([text])


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("tp>num_gpus", True),
        ("tp*pp > 8", False),
        ("tp*pp > num_gpus and pp != 1", True),
        ("batch_size % (tp*num_gpus)", True),
        ("batch_size % num_gpus", False),
        ("num_gpus >= 4", False),
        ("parallel == 'fsdp' or strategy == 'none'", True),
        ("staged_vars > num_gpus", False),  # which programs lack
    ],
)
def test_a_rule_may_compute_with_axes(text, held):
    free = (("parallel", "fsdp"), ("pp", 2), ("tp", 4))
    spec = spec_of("true", free=free, num_gpus=2, batch_size=12)
    (rule,) = read_rules([text], dict(spec.free))
    assert rule.holds(spec) is held


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tp*num_gpu > 2", "num_gpu is no axis of this trial, did you mean num_gpus[?]"),
        ("num_gpus // (tp - tp)", "division or modulo by zero"),
        ("parallel*9 > num_gpus", "found fsdp, which is no number"),
    ],
)
def test_a_rule_without_a_value_is_refused(text, message):
    spec = spec_of("true", free=(("parallel", "fsdp"), ("tp", 4)), num_gpus=2)
    (rule,) = read_rules([text], dict(spec.free))
    with pytest.raises(SweepRefusedError, match=message):
        rule.holds(spec)
