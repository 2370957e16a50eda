"""What TAB completes: commands, options and their choices, axes and settings with their values, trials of the database."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conf.help import settings
from scalemark.__main__ import COMMANDS, main
from scalemark.cli.completion import complete
from sweeper.grid.completion import PREFIXES
from tests.filled import fill
from tests.needed import needed
from tests.specs import small

PATIENCE_S = 300  # it costs nothing where all is well, and a busy machine may need much
MODULES = {name: command.module for name, command in COMMANDS.items()}


def completed(line: str) -> list[str]:
    return complete(f"scalemark {line}", MODULES)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("s", ["sweep", "store", "status", "settings", "selfcheck"]),
        ("nonsense ", []),
        ("sweep mod", ["model="]),
        ("sweep -m num_g", ["num_gpus="]),
        ("sweep model=vgg", ["model=vgg16"]),
        ("sweep model=lenet5,vgg", ["model=lenet5,vgg16"]),
        ("sweep precision=", ["precision=auto", "precision=bf16", "precision=fp16", "precision=fp32", "precision=tf32"]),
        ("sweep staged_vars=t", ["staged_vars=true"]),
        ("sweep batch_size=", []),
        ("sweep sw", ["sweep."]),
        ("sweep sweep.rep", ["sweep.repeats="]),
        ("sweep sweep.invalid=", ["sweep.invalid=skip", "sweep.invalid=error"]),
        ("sweep sweep.race=f", ["sweep.race=false"]),
        ("sweep --mu", ["--multirun"]),
        ("store sh", ["show"]),
        ("store reference a", ["add"]),
        ("plots tables --orig", ["--origin"]),
        ("plots tables --origin p", ["published"]),
        ("plots serve --origin s", ["simulated"]),
        ("status --wa", ["--watch"]),
        ("read train", []),
    ],
)  # fmt: skip
def test_a_word_is_completed_from_the_definitions(line, found):
    assert completed(line) == found


def test_every_setting_is_below_a_prefix():
    below = {f"{line.name.partition('.')[0]}." for line in settings() if "." in line.name}
    assert below == set(PREFIXES)


@pytest.mark.parametrize("form", ["from=", "--from=", "--from "])
def test_earlier_trials_are_completed_the_newest_first(form):
    first, second = small(), small(num_gpus=2)
    fill("results.db", [(first, 100.0), (second, 190.0)])
    ids = [second.trial_id[:8], first.trial_id[:8]]
    before = form.strip() if form.endswith("=") else ""
    assert completed(f"sweep {form}") == [f"{before}{one}" for one in ids]
    assert completed(f"sweep {form}{ids[1][:5]}") == [f"{before}{ids[1]}"]
    Path("results.db").rename("other.db")
    assert completed(f"sweep store.url=other.db {form}{ids[1][:5]}") == [f"{before}{ids[1]}"]


def test_completing_imports_no_hydra_pandas_or_database():
    heavy = "{'hydra', 'pandas', 'sqlalchemy', 'typer'}"
    script = (
        "import sys; from scalemark.__main__ import main;"
        "assert main(['--complete', 'scalemark sweep model=vgg']) == 0;"
        f"assert not {heavy} & sys.modules.keys()"
    )
    run = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert run.stdout == "model=vgg16\n"


TYPED = "scalemark sw\tmodel=lenet5,vg\tprec\tbf\tsweep.repea\t3\r"


@pytest.mark.integration
@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_real_shell_completes_once_it_was_installed(shell, monkeypatch, tmp_path):
    program = shutil.which(shell)
    if program is None:
        needed(f"no {shell} on PATH: run scripts/install-zsh")
    home, folder = tmp_path / "home", tmp_path / "bin"
    home.mkdir()
    folder.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_DATA_HOME", "ZDOTDIR"):
        monkeypatch.delenv(name, raising=False)
    for _ in range(2):
        assert main(["--install-completion", shell]) == 0
    settings = (home / f".{shell}rc").read_text()
    assert settings.count("source ") == 1
    real, heard = f'"{sys.executable}" -m scalemark', tmp_path / "heard"
    stand_in = folder / "scalemark"  # completes, and only tells what it was started with
    stand_in.write_text(
        "#!/bin/sh\n"
        f'if [ "$1" = --complete ]; then exec {real} "$@"; fi\n'
        f'printf "%s\\n" "$@" >"{heard}.new" && mv "{heard}.new" "{heard}"\n'
    )
    stand_in.chmod(0o755)
    variables = {
        "HOME": str(home),
        "PATH": f"{folder}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(__file__).parents[3]),
        "TERM": "dumb",
    }
    ours, its = pty.openpty()
    with subprocess.Popen(
        [program, "-i"], stdin=its, stdout=its, stderr=its, env=variables, start_new_session=True
    ) as process:
        os.close(its)
        os.write(ours, TYPED.encode())
        deadline_s = time.monotonic() + PATIENCE_S
        shown = b""
        while not heard.exists():
            assert time.monotonic() < deadline_s, shown
            if select.select([ours], [], [], 0.01)[0]:
                shown += os.read(ours, 65536)
        process.kill()
    os.close(ours)
    assert heard.read_text().split() == [
        "sweep",
        "model=lenet5,vgg16",
        "precision=bf16",
        "sweep.repeats=3",
    ]


@pytest.mark.parametrize("flag", ["--show-completion", "--install-completion"])
def test_another_shell_is_refused(flag, monkeypatch, capsys):
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    assert main([flag]) == 2
    assert capsys.readouterr().err == (
        f"scalemark: {flag}: the shell is tcsh; wanted {flag} bash or zsh\n"
    )
    assert main([flag, "fish"]) == 2
    assert capsys.readouterr().err == f"scalemark: {flag} fish; wanted {flag} bash or zsh\n"


def test_the_script_of_the_own_shell_is_shown(monkeypatch, capsys):
    monkeypatch.setenv("SHELL", "/usr/bin/zsh")
    assert main(["--show-completion"]) == 0
    assert "compdef _scalemark scalemark" in capsys.readouterr().out
