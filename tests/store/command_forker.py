"""`python tests/store/command_forker.py`: runs `scalemark` in forks of one process, which has imported all that it imports.

Reads a JSON line per command and answers each with its exit code. What becomes of a command is what becomes of a process: it has
a folder, an environment, standard streams, connections and locks of its own. Only starting and importing is done once.
"""

import gc
import json
import os
import runpy
import sys
import traceback
from contextlib import redirect_stderr, suppress
from io import StringIO
from pathlib import Path
from typing import TextIO

PROJECT = Path(__file__).resolve().parent.parent.parent


def main() -> None:
    sys.path[0] = str(PROJECT)
    _import_all()
    gc.collect()
    gc.freeze()
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _run(answers, **json.loads(line))
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), file=answers, flush=True)


def _import_all() -> None:
    """What commands import at once or when they want it, and what they in turn import."""

    from scalemark.cli.commands import COMMANDS, DB
    from store.command_line import typer_app

    typer_app(DB)
    typer_app({"list": COMMANDS["list"], "show": COMMANDS["show"]})
    with (
        redirect_stderr(StringIO()),
        suppress(SystemExit),
    ):  # typer imports some when it reads a command
        _store("list", "--limit", "1", "--db", "/nowhere/r.db")


def _store(*arguments: str) -> None:
    sys.argv = ["scalemark", *arguments]
    runpy.run_module("scalemark", run_name="__main__", alter_sys=True)


def _run(
    answers: TextIO,
    arguments: list[str],
    folder: str,
    environment: dict[str, str],
    stdout: str,
    stderr: str,
) -> None:
    """In the fork: never returns."""
    answers.close()
    exit_code = 1
    try:
        for descriptor, path in enumerate((os.devnull, stdout, stderr)):
            opened = os.open(path, os.O_WRONLY if descriptor else os.O_RDONLY)
            os.dup2(opened, descriptor)
            os.close(opened)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        exit_code = _exit_code(arguments)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(exit_code)


def _exit_code(arguments: list[str]) -> int:
    try:
        _store(*arguments)
    except SystemExit as ended:
        return int(ended.code or 0)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    main()
