"""Knows the file systems of this host, the cache folder, and the probes kept in it."""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from scalemark.records.machine import Probe
from scalemark.run_folder import read_regular

_ESCAPED = re.compile(rb"\\([0-7]{3})")  # how spaces and the like are written there
_MOUNTS = Path("/proc/self/mountinfo")
_NETWORK = (
    *("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs"),
    *("lustre", "gpfs", "beegfs", "orangefs", "panfs"),
)
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
            os.fsdecode(_ESCAPED.sub(lambda escape: bytes([int(escape[1], 8)]), before.split()[4]))
        )
        # of two at one place the later one hides
        if existing.is_relative_to(mount_point) and len(mount_point.parts) >= depth:
            depth, kind = len(mount_point.parts), os.fsdecode(after.split()[0])
    is_shared = kind in (*_NETWORK, *_OF_HOSTS) or kind.startswith("fuse.")
    if not is_shared or kind in _LOCAL:
        return None
    return kind


def cache_folder(variables: Mapping[str, str] = os.environ) -> Path:
    """Return SCALEMARK_CACHE, else `scalemark` in the user's cache folder.

    Raises RuntimeError for a user without a home, as a container may have.
    """
    chosen = variables.get("SCALEMARK_CACHE")
    if chosen:
        return Path(chosen)
    caches = variables.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "scalemark"


def write_whole(file: Path, text: str) -> None:
    """Write a file, in place of an earlier one, whole or not at all. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_suffix(f".{os.getpid()}")
    draft.write_text(text, encoding="utf-8")
    draft.replace(file)


_MOST_BYTES = 2**24  # a machine of 256 GPUs has 65,280 pairs


def read_probe(machine: str, device_kind: str) -> Probe | None:
    """Return what was measured of the machine of this key; None where nothing, or nothing whole."""
    try:
        probe = Probe.from_json(read_regular(_file(machine, device_kind), _MOST_BYTES))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RuntimeError) as error:
        print(f"the kept probe cannot be used: {error}", file=sys.stderr)
        return None
    if (probe.machine, probe.device_kind) != (machine, device_kind):
        return None
    return probe


def write_probe(probe: Probe) -> Path:
    """Keep a probe in place of an earlier one. Raises OSError."""
    file = _file(probe.machine, probe.device_kind)
    write_whole(file, probe.to_json())
    return file


def prepare_probes() -> Path:
    """Make the folder, and return it. Raises OSError where it cannot be written to, and
    RuntimeError for a user without a home.
    """
    folder = _folder()
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        raise PermissionError(13, os.strerror(13), str(folder))
    return folder


def _folder() -> Path:
    return cache_folder() / "probes"


def _file(machine: str, device_kind: str) -> Path:
    return _folder() / f"{machine}-{device_kind}.json"
