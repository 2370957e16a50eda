"""Adds the generated reference pages to the site while mkdocs builds it: they are not committed."""

from __future__ import annotations

import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from docs import make_commands, make_python, make_settings


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add settings, commands and Python, written from the definitions that `--help` prints."""
    pages = {
        "settings.md": make_settings.page(),
        "commands.md": make_commands.page(),
        "python.md": make_python.page(),
    }
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files
