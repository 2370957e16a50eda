"""Recognizes file systems whose locks do not reach all writers: they damage databases."""

from __future__ import annotations

import os
import re
from pathlib import Path

_ESCAPED = re.compile(rb"\\([0-7]{3})")  # how spaces and the like are written there
_MOUNTS = Path("/proc/self/mountinfo")
_NETWORK: tuple[str, ...] = (
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "9p",
    "afs",
    "ceph",
    "glusterfs",
)
_NETWORK += ("lustre", "gpfs", "beegfs", "orangefs", "panfs")
_OF_HOSTS = ("vboxsf", "virtiofs")  # folders of a host, seen from its virtual machine
_LOCAL = ("fuse.fuse-overlayfs",)  # the root of containers that are run without root


def without_reliable_locks(path: Path, mounts: Path = _MOUNTS) -> str | None:
    """Return the type of the path's file system where SQLite should not be; None elsewhere."""
    try:
        lines = mounts.read_bytes().splitlines()
    except OSError:
        return None
    existing = next(
        folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists()
    ).resolve()
    depth, kind = 0, ""
    for line in lines:
        before, _, after = line.partition(b" - ")
        mount_point = Path(
            os.fsdecode(_ESCAPED.sub(lambda found: bytes([int(found[1], 8)]), before.split()[4]))
        )
        # of two at one place the later one hides
        if existing.is_relative_to(mount_point) and len(mount_point.parts) >= depth:
            depth, kind = len(mount_point.parts), os.fsdecode(after.split()[0])
    shared = kind in _NETWORK or kind in _OF_HOSTS or kind.startswith("fuse.")
    return kind if shared and kind not in _LOCAL else None
