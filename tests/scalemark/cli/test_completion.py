"""What TAB completes: commands, subcommands and their options."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scalemark.__main__ import COMMANDS, main
from scalemark.cli.completion import SCRIPT, candidates
from tests.needed import needed

MODULES = {name: command.module for name, command in COMMANDS.items()}


@pytest.mark.parametrize(
    ("words", "some"),
    [
        ([], {"sweep", "store", "guard", "--version"}),
        (["store"], {"list", "show", "--help"}),
        (["plots", "tables"], {"--origin", "--help"}),
        (["guard"], {"--since", "--json"}),
        (["status"], {"--json"}),
        (["sweep"], set()),
        (["nonsense"], set()),
    ],
)
def test_words_are_completed_from_the_definitions(words, some):
    found = candidates(words, MODULES)
    assert some <= set(found)
    assert bool(found) == bool(some)


def test_completing_a_command_imports_no_room():
    script = (
        "import sys; from scalemark.__main__ import main;"
        "assert main(['--complete']) == 0;"
        "assert not {'hydra', 'pandas', 'sqlalchemy', 'typer'} & sys.modules.keys()"
    )
    run = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert run.stdout.split() == [*COMMANDS, "--help", "--version"]


@pytest.mark.integration
@pytest.mark.parametrize(
    ("shell", "ask"),
    [
        ("bash", 'COMP_WORDS=(scalemark sto); COMP_CWORD=1; _scalemark; echo "${COMPREPLY[@]}"'),
        ("zsh", "print -r -- ${_comps[scalemark]}"),
    ],
)
def test_a_real_shell_reads_the_script(shell, ask, tmp_path):
    program = shutil.which(shell)
    if program is None:
        needed(f"no {shell} on PATH: run scripts/install-zsh")
    stand_in = tmp_path / "scalemark"
    stand_in.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m scalemark "$@"\n')
    stand_in.chmod(0o755)
    variables = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(__file__).parents[3]),
        "HOME": str(tmp_path),
    }
    asked = [program, "-c", f"{SCRIPT}\n{ask}"]
    run = subprocess.run(asked, env=variables, capture_output=True, text=True, check=True)
    wanted = "store" if shell == "bash" else "_bash_complete -o default -F _scalemark"
    assert run.stdout.strip() == wanted, run.stderr


def test_the_script_is_shown(capsys):
    assert main(["--show-completion"]) == 0
    assert capsys.readouterr().out == SCRIPT
