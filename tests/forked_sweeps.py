"""Runs sweep.py in forks of one process: what a short command takes is importing mostly, which is done once here.

`ran(SCRIPT, ARGUMENT, ...)` gives what `subprocess.run` gives of `python SCRIPT ARGUMENT ...`, in the folder and with the
variables of the test.
"""

import atexit
import json
import os
import runpy
import subprocess
import sys
import traceback
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

PROJECT = Path(__file__).resolve().parent.parent
REAL = str(PROJECT / "sweep.py")
SCRIPTED = str(PROJECT / "tests" / "tiny_sweep.py")  # trials of tests/tiny_trainer.py, no charts


def ran(script: str, *arguments: str, cwd: str = ".") -> subprocess.CompletedProcess[str]:
    server = _server()
    assert server.stdin
    assert server.stdout
    with TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in ("stdout", "stderr")]
        order: dict[str, object] = {"argv": [script, *arguments], "cwd": str(Path(cwd).resolve())}
        order |= {"environment": dict(os.environ), "streams": list(map(str, paths))}
        server.stdin.write(f"{json.dumps(order)}\n")
        server.stdin.flush()
        exit_code = int(server.stdout.readline())
        stdout, stderr = (path.read_text() for path in paths)
    return subprocess.CompletedProcess([script, *arguments], exit_code, stdout, stderr)


@cache
def _server() -> subprocess.Popen[str]:
    server = subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    atexit.register(server.wait)
    atexit.register(server.kill)  # the end of its input may not come: a forked child has it, too
    return server


def main() -> None:
    sys.path[0] = str(PROJECT)
    import sweep  # noqa: F401  # all that a command imports
    import sweeper.grid.compose
    import sweeper.sweep  # noqa: F401

    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _run(**json.loads(line))
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _run(argv: list[str], cwd: str, environment: dict[str, str], streams: list[str]) -> None:
    """In the fork: never returns."""
    exit_code = 1
    try:
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(environment)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, path in enumerate(streams, start=1):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
        sys.argv = argv
        sys.path[0] = str(PROJECT)
        runpy.run_path(argv[0], run_name="__main__")
    except SystemExit as ended:
        exit_code = int(ended.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(exit_code)


if __name__ == "__main__":
    main()
