"""A shell that starts a Python per trial, one after the other or several at once by xargs."""

from __future__ import annotations

import os
import sys


def main(trainer: str, num_at_once: int, folders: list[str]) -> None:
    trial = f'"$PYTHON" -m {trainer} "$1/trial.json" "$1" >>"$1/log.txt" 2>&1'
    if num_at_once == 1:
        script = f'for folder; do set -- "$folder"; {trial} || exit; done'
        arguments = folders
    else:
        script = f"printf '%s\\n' \"$@\" | xargs -P {num_at_once} -I{{}} sh -c '{trial}' trial {{}}"
        arguments = folders
    os.environ["PYTHON"] = sys.executable
    os.execvp("sh", ["sh", "-c", script, "loop", *arguments])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
