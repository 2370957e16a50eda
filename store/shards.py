"""The index of a folder of shards: written last when the set is made, checked before it is used."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

INDEX = "index.json"


def write_index(folder: Path, shards: Iterable[Path]) -> None:
    """Write `index.json`, file name -> SHA-256, at once and whole: its presence says that the set is complete."""
    draft = folder / f"{INDEX}.draft"
    draft.write_text(json.dumps({path.name: _digest(path) for path in shards}, indent=1, sort_keys=True))
    draft.replace(folder / INDEX)


def damage(folder: Path) -> str | None:
    """What is wrong with a set of shards, in a few words; None when every shard is as its index says."""
    try:
        index: dict[str, str] = json.loads((folder / INDEX).read_text())
        for name, digest in index.items():
            if not (folder / name).is_file():
                return f"{name} is missing"
            if _digest(folder / name) != digest:
                return f"{name} is not what {INDEX} says"
    except FileNotFoundError:
        return f"there is no {INDEX}"
    except (ValueError, AttributeError, TypeError):
        return f"{INDEX} is damaged"
    except OSError as error:
        return str(error)
    return None


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
