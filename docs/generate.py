"""Adds the generated pages to the site while mkdocs builds it: they are not committed."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from docs import make_commands, make_python, make_settings


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the README as first page, and the reference of settings, commands and Python."""
    readme = (PROJECT / "README.md").read_text().replace("](docs/", "](")
    pages = {"index.md": _without_files_outside(readme), "reference.md": reference()}
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def reference() -> str:
    """Return the page of settings, commands and Python."""
    parts = (make_settings.page(), make_commands.page(), make_python.page())
    return "\n".join(["# Reference", "", *(_one_level_lower(part) for part in parts)])


def _one_level_lower(page: str) -> str:
    lines = []
    is_code = False
    for line in page.splitlines():
        is_code ^= line.startswith("```")
        lines.append(f"#{line}" if line.startswith("#") and not is_code else line)
    return "\n".join([*lines, ""])


def _without_files_outside(page: str) -> str:
    """Name the files that the site does not have, instead of linking to them."""
    return re.sub(r"\[(\w+\.md)\]\(\1\)", r"`\1`", page)
