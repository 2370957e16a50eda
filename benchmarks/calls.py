"""Through how many functions and files a reader follows a command of `plots` to its first row.

`python benchmarks/calls.py [--database FILE] [--list] [--json FILE] [COMMAND OPTIONS]` prints a
Markdown table; the command is `tables` unless another is named. Without a database one is
simulated: two models, two strategies, 1 to 8 GPUs.

A call is a function, method or property of the project's own that is called from another file,
counted once however often that happens: each is a place where a reader must open a file and find
something. A call into a file that was entered before is a return. Counting begins where the
function of the command is entered, and ends with the first text on stdout.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import TextIO

ROOT = Path(__file__).resolve().parent.parent
sys.path[0] = str(ROOT)  # beside this file lies a `plots.py`

from plots.__main__ import app
from store.command_line import run

COMMANDS = ROOT / "plots" / "commands"
SIMULATED = (
    "-m",
    "engine=simulated",
    "hardware=dgx1_p100",
    "model=resnet50,vgg16",
    "strategy=ps_cpu,replicated_nccl",
    "num_gpus=1,2,4,8",
)


@dataclass(slots=True)
class Calls:
    """Collects calls between files, as the function that `sys.setprofile` takes."""

    found: dict[CodeType, str] = field(default_factory=dict)  # to whom -> from which file

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or code in self.found or not _is_named_and_ours(code):
            return
        caller = _caller(frame)
        is_begun = self.found or Path(code.co_filename).parent == COMMANDS
        if is_begun and caller != code.co_filename:
            self.found[code] = caller

    @property
    def files(self) -> set[str]:
        return {code.co_filename for code in self.found}

    def figures(self) -> dict[str, int]:
        num_calls, num_files = len(self.found), len(self.files)
        return {"calls": num_calls, "files": num_files, "returns": num_calls - num_files}


class FirstRow:
    """A stream that ends the counting with the first text that is written to it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        sys.setprofile(None)
        return self._stream.write(text)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


def main(arguments: Sequence[str]) -> int:
    options, command = _parser().parse_known_args(arguments)
    command = command or ["tables"]
    with tempfile.TemporaryDirectory() as folder:
        where = ["--db", str(options.database)]
        if options.database is None:
            where = ["--db", str(_simulated(Path(folder))), "--origin", "simulated"]
        calls = _counted([*command, *where])
    if options.list:
        for code, caller in calls.found.items():
            name = f"{os.path.relpath(code.co_filename, ROOT)}: {code.co_qualname}"
            print(f"{name}  from {os.path.relpath(caller, ROOT)}")
    print(f"| plots {' '.join(command)} | to the first row |\n|---|---:|")
    for what, number in calls.figures().items():
        print(f"| {what} | {number} |")
    if options.json:
        options.json.write_text(json.dumps(calls.figures(), indent=1) + "\n")
    return 0


def _counted(command: Sequence[str]) -> Calls:
    calls, stdout = Calls(), sys.stdout
    sys.argv = ["plots", *command]
    with Path(os.devnull).open("w") as nowhere, suppress(SystemExit):
        sys.stdout = FirstRow(nowhere)  # type: ignore[assignment]
        sys.setprofile(calls)
        try:
            run(app, "plots")
        finally:
            sys.setprofile(None)
            sys.stdout = stdout
    return calls


def _caller(frame: FrameType) -> str:
    """Return the nearest file of ours up the stack: libraries in between are passed over."""
    above = frame.f_back
    while above is not None and not _is_ours(above.f_code):
        above = above.f_back
    return above.f_code.co_filename if above else ""


def _is_named_and_ours(code: CodeType) -> bool:
    """Comprehensions, generators and lambdas belong to the function that they stand in."""
    return not code.co_name.startswith("<") and _is_ours(code)


def _is_ours(code: CodeType) -> bool:
    """The virtual environment may lie below our folder."""
    name = code.co_filename
    return name.startswith(f"{ROOT}{os.sep}") and "site-packages" not in name and name != __file__


def _simulated(folder: Path) -> Path:
    command = [sys.executable, str(ROOT / "sweep.py"), *SIMULATED]
    subprocess.run(command, check=True, cwd=folder, capture_output=True)
    return folder / "results.db"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--database", type=Path, help="read this file, instead of a simulated one")
    parser.add_argument("--list", action="store_true", help="list the calls, too")
    parser.add_argument("--json", type=Path, help="file for the figures")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
