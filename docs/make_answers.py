"""`python -m docs.make_answers`: runs the commands of `answers.md`, and writes what they say anew.

A block begins with ```` ```console ```` and `$ python -m plots` or `$ python -m analysis`. All of
them read the published references alone, so that every machine gets the same pages.
"""

import argparse
import io
import re
import sys
import textwrap
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from shlex import split

from store.command_line import run

PAGES = tuple(Path(__file__).parent / name for name in ("answers.md",))
_BLOCK = re.compile(
    r"^```console\n\$ python -m (?P<module>plots|analysis) (?P<arguments>[^\n]+)\n.*?^```$",
    re.MULTILINE | re.DOTALL,
)
_WIDTH = 130


def renewed(page: str) -> str:
    """The page, with what its commands say now."""
    return _BLOCK.sub(lambda found: _block(found["module"], found["arguments"]), page)


def _block(module: str, arguments: str) -> str:
    lines = (_folded(line) for line in _said(module, split(arguments)).rstrip().splitlines())
    return "\n".join(["```console", f"$ python -m {module} {arguments}", *lines, "```"])


def _folded(line: str) -> str:
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return (
        textwrap.fill(
            line, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
        or ""
    )


def _said(module: str, arguments: list[str]) -> str:
    before, sys.argv = sys.argv, [module, *arguments]
    said = io.StringIO()
    try:
        with redirect_stdout(said):
            run(import_module(f"{module}.__main__").app, module)
    except SystemExit as ended:
        if ended.code:
            raise
    finally:
        sys.argv = before
    return said.getvalue()


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    for page in PAGES:
        page.write_text(renewed(page.read_text(encoding="utf-8")), encoding="utf-8")
