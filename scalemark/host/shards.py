"""Checks a folder of shards without TensorFlow: its files are there, and as they were made.

Shards are named `train-00003-of-00008`. A set that the product makes has an index, written last and
checked before use.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

INDEX = "index.json"
_HIGH_BYTES = bytes(4)
_NAME = re.compile(r"train-(\d+)-of-(\d+)")


def paths(folder: Path) -> list[Path]:
    """Return the shards of a folder, in order."""
    return sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name))


def problem(folder: Path) -> str | None:
    """Say what is wrong with a set, by the ends of its files; None when all are there and whole."""
    if not folder.is_dir():
        return "no such folder"
    found = paths(folder)
    if not found:
        return "there are no shards in it; wanted files named train-*-of-*"
    totals = sorted({path.name.rpartition("-")[2] for path in found})
    if len(totals) > 1:
        return f"it holds shards of several sets: train-*-of-{', train-*-of-'.join(totals)}"
    numbers = {int(path.name.split("-")[1]) for path in found}
    missing = sorted(set(range(int(totals[0]))) - numbers)
    if missing:
        name = f"train-{missing[0]:0{len(totals[0])}d}-of-{totals[0]}"
        return f"{len(missing)} of {int(totals[0])} shards are missing, the first is {name}"
    for path in found:
        problem = _problem_of_file(path)
        if problem:
            return problem
    return None


def record_bounds(path: Path) -> Iterator[tuple[int, int]]:
    """Yield where the records of a TFRecord file begin and end, as far as headers can be followed.

    A record is its length (8 bytes), a checksum of that (4), the data, and a checksum of the data
    (4).
    """
    begin, num_bytes = 0, path.stat().st_size
    with path.open("rb") as file:
        while begin < num_bytes:
            file.seek(begin)
            end = begin + 16 + int.from_bytes(file.read(8), "little")
            yield begin, end
            begin = end


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
        found = json.loads((folder / INDEX).read_text())["set"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    if found == name:
        return None
    return f"it holds the set {found}, not {name}; give each set a folder of its own"


def _problem_of_file(path: Path) -> str | None:
    if path.stat().st_size == 0:
        return f"{path.name} is empty"
    if _ends_with_a_record(path):
        return None
    *_, (index, (begin, end)) = enumerate(record_bounds(path))
    if end == path.stat().st_size:
        return None
    return (
        f"{path.name} ends inside record {index}, which begins at byte {begin}: "
        "it is cut off, or it is not an uncompressed TFRecord file"
    )


def _ends_with_a_record(path: Path) -> bool:
    """Search backwards for a length that reaches to the end of the file, but for empty records.

    Following all headers instead would take minutes for ImageNet on a network file system. Without
    the check nothing reports a file that is cut off inside a header, not even TensorFlow.
    """
    num_bytes, window = path.stat().st_size, 256 * 1024
    with path.open("rb") as file:
        while True:
            begin = max(0, num_bytes - window)
            file.seek(begin)
            tail = file.read()
            at = tail.rfind(_HIGH_BYTES)  # of a length below 4 GiB
            while at >= 4:
                if 0 < int.from_bytes(tail[at - 4 : at], "little") == len(tail) - (at - 4) - 16:
                    return True
                at = tail.rfind(_HIGH_BYTES, 0, at + 3)
            if begin == 0:
                return False
            window *= 8


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
