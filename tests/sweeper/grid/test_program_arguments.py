import os
import re
import shlex

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from conf import program
from scalemark.records import overrides
from scalemark.records.machine import DeviceKind
from scalemark.text.untrusted import quoted
from sweeper import SweepRefusedError
from sweeper.grid.arguments import refuse_repeated, with_expressions, with_program
from sweeper.grid.compose import expand
from sweeper.grid.explain import check_forms
from tests.command.programs import spec_of
from tests.composing import composing
from tests.conf.test_resolve import config

RUN = "torchrun --nproc-per-node={num_gpus} train.py --name \"a b\" --home ${HOME} --it 's'"


def values(arguments):
    """Return what Hydra makes of the arguments: key -> value."""
    parsed = OverridesParser.create().parse_overrides(with_program(arguments))
    return {one.key_or_group: one.value() for one in parsed}


def test_a_program_is_text_in_which_hydra_reads_nothing():
    found = values([f"command={RUN}", "read=regex:images/sec: ([0-9.]+), [a-z]{2}", "num_gpus=1"])
    assert found == {
        "engine": "command",
        "command.run": RUN.replace("${", "\\${"),
        "command.read": "regex:images/sec: ([0-9.]+), [a-z]{2}",
        "num_gpus": 1,
    }


@pytest.mark.parametrize("text", ["python train.py {zero}", "a\\", "it's", "\\'", "a, b=c"])
def test_any_text_comes_back_as_it_was_typed(text):
    assert values([f"command={text}"])["command.run"] == text, quoted(text, 80)


def test_settings_of_reading_have_short_names():
    assert with_program(["item=tokens", "items_per_step=64*num_gpus", "per_gpu=true"]) == [
        *("engine=command", "command.item=tokens"),
        *("command.items_per_step='64*num_gpus'", "command.per_gpu=true"),
    ]


def test_quotes_around_all_of_it_are_those_of_hydra():
    assert values(['command="python train.py"'])["command.run"] == "python train.py"
    assert values(["command='python' 'train.py'"])["command.run"] == "'python' 'train.py'"


@pytest.mark.parametrize(
    ("typed", "word"),
    [
        ("command=python q.py {num_gpus} read=json", "q.py"),
        ("command=torchrun --standalone bin/q.py num_gpus=1", "bin/q.py"),
        ("command=./train.sh --lr 0.1", "0.1"),
    ],
)
def test_a_command_line_without_quotes_is_refused_as_such(typed, word):
    with pytest.raises(SweepRefusedError, match=rf"^{word}: .* put the whole of that in quotes"):
        with_program(typed.split())


def test_words_of_hydra_are_none_of_the_command_line():
    arguments = ["command.run=python", "--cfg", "job", "-cd", "mine", "~data", "--multirun"]
    assert with_program(["command=python q.py", *arguments])[3:] == arguments[1:]


def test_a_named_engine_stays():
    arguments = ["engine=tensorflow,command", "command.run=ddp"]
    assert with_program(arguments) == arguments


@pytest.mark.parametrize("engine", ["simulated", "tensorflow", "tensorflow,simulated"])
def test_an_engine_that_runs_no_program_is_refused(engine):
    with pytest.raises(SweepRefusedError, match=f"^engine={engine}: it runs no program of yours"):
        with_program([f"engine={engine}", "command=python train.py"])


def test_other_commands_stay_as_they_are():
    arguments = ["-m", "model=resnet50,vgg16", "store.runs_dir=read=this", "+axes.zero=1,2"]
    assert with_program(arguments) == arguments


def test_a_command_that_ends_with_a_file_of_its_own_is_a_command():
    run = "torchrun train.py --config llama.yaml"
    assert values([f"command={run}"])["command.run"] == run


def test_an_empty_setting_of_a_file_is_its_default(tmp_path):
    path = tmp_path / "ddp.yaml"
    path.write_text("run: python train.py\nname:\n")
    assert set(values([f"command={path}"])) == {"engine", "command.run"}


def test_a_file_gives_all_settings(tmp_path):
    path = tmp_path / "ddp.yaml"
    path.write_text("run: python train.py {zero}\nread: 'regex:x (.*)'\nper_gpu: true\n")
    assert values([f"command={path}"]) == {
        "engine": "command",
        "command.run": "python train.py {zero}",
        "command.read": "regex:x (.*)",
        "command.per_gpu": True,
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("python train.py\n", "wanted settings, one per line"),
        ("- run\n", "wanted settings, one per line"),
        ("run: [\n", r"line 2: expected the node content.*text with braces"),
        ("run: x\nread: regex:a: (b)\n", "line 2: mapping values are not allowed here; .*text"),
        ("", "wanted settings"),
        ("run: a\nitem: b\nrun: c\n", "run is given twice; give it once"),
    ],
)
def test_a_wrong_file_is_refused_with_what_it_has_wrong(tmp_path, text, message):
    path = tmp_path / "wrong.yaml"
    path.write_text(text)
    with pytest.raises(SweepRefusedError, match=message):
        with_program([f"command={path}"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("runs: python\n", "command has no setting runs; did you mean run"),
        (
            "run: [python, train.py]\n",
            r"command.run=\[python,train.py\]: wanted text; with brackets",
        ),
        ("run: x\nshell: perhaps\n", "command.shell=perhaps: wanted true or false"),
    ],
)
def test_a_wrong_setting_of_a_file_is_refused_as_if_it_was_typed(tmp_path, text, message):
    path = tmp_path / "wrong.yaml"
    path.write_text(text)
    with composing() as (composer, loader):
        (cell,) = expand(with_program([f"command={path}"]), loader)
        with pytest.raises(SweepRefusedError, match=message):
            composer.compose(cell)


@pytest.mark.parametrize(
    ("argument", "instead"),
    [
        ("optimizer=sgd,lion", "+axes.my_optimizer=sgd,lion instead, and {my_optimizer} into"),
        ("precision=fp8", "+axes.my_precision=fp8 instead, and {my_precision} into"),
        ("strategy=ddp,fsdp", "+axes.strategy=ddp,fsdp instead, and {strategy} into"),
        ("model=llama", "+axes.my_model=llama instead, and {my_model} into"),
        ("mode=a,b", "mode=a,b: no axis of scalemark; for a program write +axes.mode=a,b instead"),
        ("pp=1", "pp=1: no axis of scalemark; for a program write +axes.pp=1 instead"),
    ],
)
def test_a_word_for_our_own_models_is_refused_with_the_axis_to_add(argument, instead):
    with pytest.raises(SweepRefusedError, match=re.escape(instead)):
        with_program(["command=python train.py --{mode} {num_gpus // pp}", argument])


def test_what_is_typed_wins_over_a_file_wherever_it_stands(tmp_path):
    path = tmp_path / "program.yaml"
    path.write_text("run: python train.py\nname: of-file\n")
    assert values(["command.name=typed", f"command={path}"])["command.name"] == "typed"
    refuse_repeated(["command.run=python other.py", f"command={path}"])


def test_a_choice_of_ours_stays_as_it_is():
    assert "optimizer=sgd,adam" in with_program(["command=python train.py", "optimizer=sgd,adam"])


@pytest.mark.parametrize("text", ["null", "true", "1e3"])
def test_a_word_that_hydra_would_convert_stays_text(text):
    assert values([f"command.run={text}"])["command.run"] == text


def test_a_missing_file_is_refused():
    with pytest.raises(
        SweepRefusedError,
        match=r"command=none.yaml: No such file or directory; wanted a file of settings, or a",
    ):
        with_program(["command=none.yaml"])
    os.mkfifo("fifo.yaml")
    with pytest.raises(SweepRefusedError, match="found a FIFO, wanted a regular file"):
        with_program(["command=fifo.yaml"])


@pytest.mark.parametrize(
    ("run", "read"),
    [
        ("python train.py {num_gpus} {zero}", "metric"),
        ("python train.py --name \"it's  {zero}\" --x {{y}} '$5' {num_gpus}", "regex:a: (b), 'c'"),
        ('"my program"', "regex:[a]{2} ([0-9.]+)"),
        ("'my program'", "json"),
    ],
)
@pytest.mark.parametrize(
    "zero", [1, 1e-5, 1e16, "max", "2.10", "true", "null", "a  b", "it's", "${x}"]
)
def test_a_command_that_is_suggested_runs_the_same_trial(run, read, zero):
    used = {"free": (("zero", zero),)} if "{zero}" in run else {"num_gpus": 1}
    spec = spec_of(run, read, **used)
    words = shlex.split(overrides.sweep(overrides.overrides(spec, ())))
    arguments = words[words.index("sweep") + 1 :]
    assert program.trial_of(config(*with_program(arguments)), DeviceKind.CPU_DEVICE) == spec


@pytest.mark.parametrize("given", ["max", "8,max", "best"])
def test_a_search_without_bounds_is_no_text_of_a_program(given):
    with pytest.raises(SweepRefusedError, match=r"alone would be text; wanted bounds .*\(1,64\)"):
        check_forms([f"+axes.mb={given}"])
    for text in ("'max'", "mean,max", "8,'max'", "max(1,8)"):
        check_forms([f"+axes.mb={text}"])


def test_a_rule_in_quotes_needs_no_list():
    assert with_expressions(["sweep.exclude='a > 1'"]) == ["sweep.exclude=['a > 1']"]


def test_all_strategies_are_those_of_one_host_that_share_what_they_learn():
    (argument,) = with_expressions(["strategy=all"])
    chosen = argument.removeprefix("strategy=").split(",")
    assert {"ps_cpu", "mirrored", "fit", "sharded", "process_per_gpu_ring"} <= set(chosen)
    assert not {"independent", "distributed_ps", "multi_worker_mirrored_ring"} & set(chosen)


def test_a_command_line_that_is_longer_than_the_name_of_a_file_is_no_file():
    """A bug: OSError, as it ends like a file of settings."""
    line = f"python train.py --note {'n' * 300} --config llama.yaml"
    assert f"command.run='{line}'" in with_program([f"command={line}"])
