"""Says in one line which files were written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from scalemark.text.wording import counted

_MOST_NAMED = 8


def wrote(paths: Sequence[Path]) -> str:
    """Return `wrote 3 files to figures/: report.html, a.png, b.png`; all are in one folder."""
    names = [path.name for path in paths[:_MOST_NAMED]]
    if more := len(paths) - len(names):
        names.append(f"and {more} more")
    return f"wrote {counted(len(paths), 'file')} to {paths[0].parent}/: {', '.join(names)}"
