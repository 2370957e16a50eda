"""Packs the kit's folder as one file to attach: report, numbers, logs, database, failed trials."""

from __future__ import annotations

import sqlite3
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.gpu.anonymous import Names
from benchmarks.gpu.kit import Kit
from scalemark.records.outcomes import Outcome
from scalemark.run_folder.folder import RunFolder

PACK = "gpu-kit.tar.gz"
_TOP = "gpu-kit"  # the folder in the file
_MOST_BYTES = 4 * 2**20  # of one text; a profile is larger, and stays behind


def pack(kit: Kit, names: Names) -> Path:
    """Write the file beside what is in it, with names masked; replace an earlier one."""
    path = kit.folder / PACK
    with TemporaryDirectory() as scratch, tarfile.open(path, "w:gz") as archive:
        for source in _texts(kit):
            text = names.masked(source.read_text(errors="replace"))
            copy = Path(scratch) / "text"
            copy.write_text(text)
            where = names.masked(str(source.relative_to(kit.folder)))
            archive.add(copy, f"{_TOP}/{where}", filter=_without_owner)
        if kit.database.exists():
            copy = Path(scratch) / "results.db"
            _copy_database(kit.database, copy)
            names.mask_database(copy)
            archive.add(copy, f"{_TOP}/{kit.database.name}", filter=_without_owner)
    return path


def _texts(kit: Kit) -> Iterator[Path]:
    """Yield what is attached: the files of the folder, logs, stages, and failed trials."""
    for pattern in ("report.md", "*.json", "stages/*.json", "logs/*.log"):
        yield from sorted(kit.folder.glob(pattern))
    for path in sorted(kit.runs.glob("*/*/")):
        if _failed(path):
            yield from (file for file in sorted(path.iterdir()) if _is_text(file))


def _failed(path: Path) -> bool:
    end = RunFolder(path).read_ended()
    return end is None or end.outcome != Outcome.COMPLETED


def _is_text(path: Path) -> bool:
    return path.is_file() and path.stat().st_size <= _MOST_BYTES


def _copy_database(source: Path, copy: Path) -> None:
    """Copy with what still lies in the write-ahead log."""
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(copy)) as new:
        old.backup(new)


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o644
    return entry
