import pytest

from conf import program
from conf.schema import CommandConfig
from scalemark.records import overrides
from scalemark.records.machine import DeviceKind
from scalemark.records.trial import TrialSpec
from tests.conf.test_resolve import config
from tests.conftest import PROJECT

READ = "command.read=metric"


def resolved(run: str, *arguments: str) -> TrialSpec:
    composed = config("engine=command", f"command.run='{run}'", READ, *arguments)
    return program.trial_of(composed, DeviceKind.CPU_DEVICE)


def test_a_program_has_the_axes_that_it_uses_and_lacks_the_others():
    spec = resolved("python train.py {num_gpus} {zero}", "num_gpus=2", "+axes.zero=3")
    known = {name: value for name, value in spec.axes.items() if value is not None}
    assert known == {
        "engine": "command",
        "model": "train.py",
        "num_gpus": 2,
        "hosts": 1,
        "device_kind": "cpu_device",
        "min_warm_up_steps": 0,
        "seed": 1,
        "command": "python train.py {num_gpus} {zero}",
        "shell": False,
        "read": "metric",
        "item": "",
        "items_per_step": "",
        "per_gpu": False,
        "flops_per_item": "",
        "compare": "",
        "takes_apart": False,
        "axes.zero": 3,
    }
    assert spec.strategy == "zero=3"
    assert TrialSpec.from_json(spec.to_json()) == spec


def test_a_derived_axis_stands_for_its_expression_and_is_no_axis():
    accum = "'+axes.accum=\"gb // (tp*num_gpus)\"'"[1:-1]
    axes = ("+axes.gb=64", "+axes.tp=2", "num_gpus=4", accum)
    spec = resolved("x {tp} {accum}", *axes, "command.items_per_step=accum*2")
    assert spec.command == "x {tp} {(gb // (tp*num_gpus))}"
    assert spec.items_per_step == "(gb // (tp*num_gpus))*2"
    assert spec.strategy == "gb=64 tp=2"
    assert resolved("x {kind}", "+axes.kind=fp16-O2").strategy == "kind=fp16-O2"
    of_axes = resolved("x {kind} {seed}", "+axes.kind=hosts/seed")  # by names of axes
    assert of_axes.strategy == "kind=hosts/seed"
    assert resolved("x {kind}", "+axes.kind=seed-1").free == (("axes.kind", "seed-1"),)


def test_the_axis_that_is_named_plays_the_part_of_the_strategy():
    axes = ("+axes.zero=3", "+axes.offload=cpu")
    assert resolved("x {zero} {offload}", *axes).strategy == "offload=cpu zero=3"
    assert resolved("x {zero} {offload}", *axes, "command.compare=zero").strategy == "zero=3"
    assert resolved("x").strategy == resolved("x").model


@pytest.mark.parametrize(
    ("run", "name"),
    [
        ("python train.py", "train.py"),
        ("torchrun --nproc-per-node 2 examples/ddp.py", "ddp.py"),
        ("./run.sh --x", "run.sh"),
        ("bin/train model", "train"),
        ("python -m package.train --x 1", "package.train"),
    ],
)
def test_a_program_is_named_by_its_script(run, name):
    assert resolved(run).model == name


@pytest.mark.parametrize(
    ("run", "arguments", "message"),
    [
        ("", (), "wanted command="),
        ("python t.py {zreo}", ("+axes.zero=1",), r"\{zreo\} is no placeholder.*zero"),
        ("python t.py", ("+axes.zero=1",), r"axes.zero: nothing .* or env ZERO=\{zero\} b"),
        ("x {a}", ("+axes.a=bs*num_gpus",), r"axes\.a=bs\*num_gpus: bs is no axis; wanted"),
        ("x {a}", ("+axes.a=a*num_gpus",), "axes.a: derived from itself"),
        ("x {a}", ("+axes.a=1//num_gpus//0",), "by zero"),
        ("x {num_gpus}", ("+axes.a=num_gpus*2",), "axes.a: nothing uses it"),
        ("python t.py", ("batch_size=8",), r"batch_size=8: nothing uses it; write \{batch_size\}"),
        (
            "python t.py {batch_sise}",
            ("batch_size=8",),
            r"\{batch_sise\} is no placeholder, did you mean \{batch_size\}[?]",
        ),
        ("python t.py {batch_size}", (), "batch_size: the command uses it, and no default"),
        ("python t.py {batch_size}", ("batch_size=0",), "batch_size=0: wanted more than 0"),
        (
            "python t.py {num_gpus}",
            ("+axes.num_gpus=2",),
            "it is an axis already; write num_gpus=2",
        ),
        ("python t.py {batch_size}", ("batch_size=x",), "batch_size=x: wanted a whole number"),
        ("python t.py {learning_rate}", ("learning_rate=x",), "learning_rate=x: wanted a number"),
        ("python t.py {read}", (), r"\{read\} is no placeholder"),
        ("python t.py {engine}", (), r"\{engine\} is no placeholder"),
        ("python t.py", ("xla=on",), "xla=on: engine=command does not know it"),
        ("python t.py", ("model=vgg16",), "model=vgg16: engine=command runs a program of yours"),
        ("python t.py {seed}", ("+axes.seed=1",), "axes.seed: it is an axis already; write seed=1"),
        ("python t.py", ("num_gpus=2",), r"num_gpus=2: nothing uses it.* env NUM_GPUS=\{n"),
        ("python t.py", ("seed=2",), r"seed=2: nothing .* or env SEED=\{seed\} before it"),
        (
            "python t.py",
            ("batch_size=8", "command.items_per_step=batch_size"),
            "batch_size=8: nothing uses it",
        ),
        (
            "python t.py --lr 1 --token hf_abcdefghijklmnopqrstu --steps 2",
            (),
            r"command\.run: --token \*\*\* seems to hold a password or a token",
        ),
        (
            "python t.py --url https://me:geheim@host/x",
            (),
            r"command\.run: https://\*\*\* seems to hold",
        ),
        ("python t.py {gpus}", ("+axes.gpus=1",), "axes.gpus: that is a name of ours"),
        ("python t.py", ("command.compare=zero",), "command.compare=zero: no axis of this trial"),
        ("python t.py", ("command.items_per_step=batch*2",), "batch is no axis of this trial"),
        ("python t.py", ("command.items_per_step=1/0",), "1/0: division by zero"),
        ("python t.py", ("command.items_per_step=num_gpus-1",), "is 0; wanted more than 0"),
        ("python t.py", ("command.read=",), "nothing says how its numbers are read; give 'read="),
        ("python t.py", ("command.name=a/b",), "command.name=a/b: wanted a word"),
        ("python t.py", ("command.read=regx",), "regex"),
        ("python t.py", ("command.read=regex:abc",), "group"),
        ("python t.py", ("command.item=Tok",), "item=Tok: wanted a word"),
        (
            "python t.py {num_gpus}",
            ("scaling=strong",),
            r"splits batch_size over the GPUs; write \{b",
        ),
        (
            "python t.py {num_gpus} {batch_size}",
            ("scaling=strong", "batch_size=10", "num_gpus=4"),
            "batch_size=10: scaling=strong splits it over num_gpus=4, which does not divide it",
        ),
        (
            "python t.py",
            ("hosts=2", "num_gpus=2"),
            r"hosts=2: nothing .* env HOST_RANK=\{host_rank\}",
        ),
    ],
)
def test_what_means_nothing_is_refused_with_what_to_do(run, arguments, message):
    with pytest.raises(ValueError, match=message):
        resolved(run, *arguments)


def test_strong_scaling_shares_one_batch_and_is_one_curve():
    run, asked = "x {num_gpus} {batch_size}", ("scaling=strong", "batch_size=64")
    one, four = resolved(run, *asked), resolved(run, *asked, "num_gpus=4")
    assert (one.batch_size, four.batch_size) == (64, 16)
    assert one.axes["scaling"] == four.axes["scaling"] == "strong"
    assert one.curve == four.curve != resolved(run, "batch_size=64").curve
    assert TrialSpec.from_json(four.to_json()) == four


def test_the_command_of_a_trial_makes_the_same_trial():
    run = "python t.py {zero} {num_gpus} {batch_size}"
    spec = resolved(run, "num_gpus=2", "+axes.zero=1", "batch_size=8")
    arguments = overrides.overrides(spec, ())
    assert {f"command.run={run}", "num_gpus=2", "batch_size=8", "+axes.zero=1"} <= set(arguments)


def test_every_setting_of_a_program_is_in_its_page():
    page = (PROJECT / "docs" / "your_program.md").read_text()
    for name in CommandConfig.__dataclass_fields__:
        assert f"| `{name}` |" in page, name
