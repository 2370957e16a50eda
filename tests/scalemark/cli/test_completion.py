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


def test_the_own_shell_reads_it_once_installed(monkeypatch, tmp_path):
    monkeypatch.setenv("SHELL", "/usr/bin/zsh")
    monkeypatch.setenv("ZDOTDIR", str(tmp_path))
    (tmp_path / ".zshrc").write_text("alias x=y")
    for _ in range(2):
        assert main(["--install-completion"]) == 0
    assert (tmp_path / ".zshrc").read_text().splitlines() == [
        "alias x=y",
        'eval "$(scalemark --show-completion)"',
    ]


def test_another_shell_is_refused(monkeypatch, capsys):
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    assert main(["--install-completion"]) == 2
    assert capsys.readouterr().err == (
        "scalemark: --install-completion: the shell is tcsh; wanted bash or zsh\n"
    )


def test_the_script_is_shown(capsys):
    assert main(["--show-completion"]) == 0
    assert capsys.readouterr().out == SCRIPT
