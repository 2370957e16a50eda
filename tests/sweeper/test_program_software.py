"""A sweep of programs goes by the software of the programs, and refuses to mix two."""

import os
from pathlib import Path

import pytest

from scalemark.host import software
from scalemark.program.template import software_words
from scalemark.records.trial import TrialSpec
from sweeper import SweepRefusedError
from sweeper.launchers import describe_programs, programs_of
from sweeper.starts import environment
from tests.command.programs import environment_of, run, script, spec_of


def described(*specs: TrialSpec) -> tuple[dict, list[str]]:
    """Of the attempts of a sweep of this host."""
    return describe_programs(programs_of(specs), environment(os.environ, ""))


@pytest.mark.integration
def test_the_sweep_finds_the_same_key_as_the_attempt():
    specs = [
        spec_of(script("print()") + " {zero} {run_dir}", free=(("zero", zero),)) for zero in (1, 2)
    ]
    _, folder = run(specs[0])
    assert software.key(environment_of(folder)) == software.key(described(*specs)[0])
    shell = spec_of(specs[0].command + " | cat", shell=True, free=specs[0].free)
    _, folder = run(shell, "second")
    assert software.key(environment_of(folder)) == software.key(described(shell)[0])


def test_scripts_side_by_side_are_one_software_and_others_are_refused():
    for name in ("a.py", "b.py", "below/c.py", "../other/d.py"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(name)
    specs = [
        spec_of("python {name}.py --x {zero}", free=(("name", name), ("zero", zero)))
        for name, zero in (("a", 1), ("a", 2), ("b", 1), ("below/c", 1), ("../other/d", 1))
    ]
    assert software_words(specs[0]) == ["python", "a.py", "--x", "", "{name}.py"]
    assert described(*specs[:4])[0]
    with pytest.raises(SweepRefusedError) as refused:
        described(*specs)
    assert "`python a.py --x` and `python ../other/d.py --x` have different" in str(refused.value)


def test_scripts_that_an_expression_names_are_one_software():
    for num in (2, 4):
        Path(f"train_{num}.py").write_text(f"{num}")
    specs = [spec_of("python train_{num_gpus*2}.py {num_gpus}", num_gpus=num) for num in (1, 2)]
    assert described(*specs)[0]


def test_a_python_that_is_not_found_is_doubted():
    _, (doubt,) = described(spec_of("env docker run image train.py"))
    assert doubt.startswith("`env docker run image train.py`: what docker runs is in another place")
    assert described(spec_of("ls a"))[1] == []


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("pythn a.py", "in PATH; activate the environment that has it, or name it by its path"),
        ("python nothere.py --x", "nothere.py is not there; wanted a script, by a path from /"),
        ("./a.py", "a.py is not executable; chmod"),
        ("bin/{tool} x", "bin/none is not there"),
    ],
)
def test_a_program_that_is_not_there_is_refused_before_anything_runs(command, problem):
    Path("a.py").touch()
    with pytest.raises(SweepRefusedError, match=r"^command\.run: ") as refused:
        described(spec_of(command, free=(("tool", "none"),)))
    assert problem in str(refused.value)


def test_programs_that_only_an_attempt_can_find_are_left_to_it():
    shell = spec_of("my_function a.py; none", shell=True)
    later = spec_of("{run_dir}/made_by_another x.py")
    left = (shell, spec_of("python -m module"), spec_of("env python nothere.py"))
    assert [described(spec)[1] for spec in left] == [[], [], []]
    (doubt,) = described(later)[1]
    assert doubt.startswith("`x.py`: the Python that runs it was not found")
