"""Runs the commands of docs/tutorial.md in an empty folder, and writes what they print into it."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

PAGE = Path(__file__).resolve().parent / "tutorial.md"
_BLOCK = re.compile(r"^```console\n\$ (scalemark [^\n]+)\n.*?^```$", re.MULTILINE | re.DOTALL)


def renewed(page: str) -> str:
    """Return the page with what its commands print on stdout now. Raises CalledProcessError."""
    programs = Path(sys.executable).parent
    variables = os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    variables.pop("SCALEMARK_DB", None)
    with TemporaryDirectory() as folder:

        def block(found: re.Match[str]) -> str:
            run = subprocess.run(
                found[1],
                shell=True,
                cwd=folder,
                env=variables,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                check=True,
            )
            return f"```console\n$ {found[1]}\n{run.stdout.rstrip()}\n```"

        return _BLOCK.sub(block, page)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
