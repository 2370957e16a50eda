"""`python tests/forked_sweeps.py < commands.json`: runs many sweep.py one after another in forks of one process.

Reads [[FOLDER, [ARGUMENT, ...]], ...] and leaves in each folder's neighbor FOLDER.json the exit code and what was said. What a
short command takes is importing mostly, which is done once here.
"""

import json
import os
import runpy
import sys
import traceback
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent


def main() -> None:
    sys.path[0] = str(PROJECT)
    import sweep  # noqa: F401  # all that a command imports
    import sweeper.grid.compose
    import sweeper.sweep  # noqa: F401

    for folder, arguments in json.load(sys.stdin):
        log = Path(f"{folder}.stderr")
        pid = os.fork()
        if pid == 0:
            _run(folder, log, arguments)
        _, status = os.waitpid(pid, 0)
        reported = {"returncode": os.waitstatus_to_exitcode(status), "stderr": log.read_text()}
        Path(f"{folder}.json").write_text(json.dumps(reported))


def _run(folder: str, log: Path, arguments: list[str]) -> None:
    """In the fork: never returns."""
    exit_code = 1
    try:
        os.chdir(folder)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT), 2)
        sys.argv = [str(PROJECT / "sweep.py"), *arguments]
        runpy.run_path(sys.argv[0], run_name="__main__")
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
