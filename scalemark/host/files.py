"""Knows the file systems of this host, the cache folder, the probes kept there, and data shards.

Shards are named `train-00003-of-00008`. A set that the product makes has an index, written last and
checked before use.
"""

import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
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


_PROBES = "probes"


def read_probe(machine: str, device_kind: str) -> Probe | None:
    """Return what was measured of the machine of this key; None where nothing, or nothing whole."""
    try:
        probe = Probe.from_json(read_regular(_file(machine, device_kind)))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RuntimeError) as error:
        print(f"the kept probe cannot be used: {error}; run scalemark probe again", file=sys.stderr)
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
    """Make the folder, and return it. Raises OSError; RuntimeError for a user without a home."""
    folder = cache_folder() / _PROBES
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        raise PermissionError(13, os.strerror(13), str(folder))
    return folder


def _file(machine: str, device_kind: str) -> Path:
    return cache_folder() / _PROBES / f"{machine}-{device_kind}.json"


INDEX = "index.json"
_NAME = re.compile(r"train-(\d+)-of-(\d+)")


def paths(folder: Path) -> list[Path]:
    """Return the shards of a folder, in order."""
    return sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name))


def problem(folder: Path) -> str | None:
    """Say what is wrong with a set; None when all of its files are there."""
    if not folder.is_dir():
        return "no such folder"
    files = paths(folder)
    if not files:
        return "there are no shards in it; wanted files named train-*-of-*"
    totals = sorted({path.name.rpartition("-")[2] for path in files})
    if len(totals) > 1:
        return f"it holds shards of several sets: train-*-of-{', train-*-of-'.join(totals)}"
    numbers = {int(path.name.split("-")[1]) for path in files}
    missing = sorted(set(range(int(totals[0]))) - numbers)
    if missing:
        name = f"train-{missing[0]:0{len(totals[0])}d}-of-{totals[0]}"
        return f"{len(missing)} of {int(totals[0])} shards are missing, the first is {name}"
    for path in files:
        if path.stat().st_size == 0:
            return f"{path.name} is empty"
    return None


def write_index(folder: Path, name: str, shards: Iterable[Path]) -> None:
    """Write `index.json`, the name and the digests: the set is complete."""
    index = {"set": name, "shards": {path.name: _digest(path) for path in shards}}
    write_whole(folder / INDEX, json.dumps(index, indent=1, sort_keys=True))


def damage(folder: Path) -> str | None:
    """Say what is wrong with a set that has an index; None when every shard is as it says."""
    try:
        index: dict[str, str] = json.loads((folder / INDEX).read_text())["shards"]
        for name, digest in index.items():
            if not (folder / name).is_file():
                return f"{name} is missing"
            if _digest(folder / name) != digest:
                return f"{name} is not what {INDEX} says"
    except FileNotFoundError:
        return f"there is no {INDEX}"
    except (ValueError, AttributeError, TypeError, KeyError):
        return f"{INDEX} is damaged"
    except OSError as error:
        return str(error)
    return None


def other_set(folder: Path, name: str) -> str | None:
    """Say why a folder cannot hold this set: its index names another. None without an index."""
    try:
        held = json.loads((folder / INDEX).read_text())["set"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    if held == name:
        return None
    return f"it holds the set {held}, not {name}; give each set a folder of its own"


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
