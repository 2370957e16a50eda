"""Checks a folder of shards without TensorFlow: its files are there, and as they were made.

Shards are named `train-00003-of-00008`. A set that the product makes has an index, written last and
checked before use.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path

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
    """Write `index.json`, the name and the digests, at once and whole: the set is complete."""
    draft = folder / f"{INDEX}.draft"
    index = {"set": name, "shards": {path.name: _digest(path) for path in shards}}
    draft.write_text(json.dumps(index, indent=1, sort_keys=True))
    draft.replace(folder / INDEX)


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
