"""Reads what stands after the colon of `read=KIND:ARGUMENT`."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from pathlib import PurePosixPath

from scalemark.readers.reading import ReadError
from scalemark.text.untrusted import quoted

_MOST_SHOWN = 60


def refuse_argument(kind: str, argument: str) -> None:
    """Raises ReadError where a kind that takes no argument got one."""
    if argument:
        raise ReadError(
            f"found read={kind}:{quoted(argument, _MOST_SHOWN)}, but {kind} takes nothing after "
            f"its name; write read={kind}"
        )


def settings(kind: str, argument: str, names: Collection[str]) -> tuple[str, dict[str, str]]:
    """Return the first part where it has no name, and the settings, of `FILE,key=a.b,step=c`.

    Raises ReadError for a setting that the kind does not have.
    """
    first, given = "", {}
    for place, part in enumerate(argument.split(",") if argument else ()):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals and place == 0:
            first = name
        elif name in names and value:
            given[name] = value
        else:
            raise ReadError(_wrong(kind, part.strip(), names))
    return first, given


def path_below(kind: str, path: str) -> PurePosixPath:
    """Return a path within the run folder. Raises ReadError for one that leads out of it."""
    wanted = PurePosixPath(path)
    if wanted.is_absolute() or ".." in wanted.parts:
        raise ReadError(
            f"found read={kind}:{quoted(path, _MOST_SHOWN)}; wanted the path of a file below the "
            "run folder, as metrics.jsonl: let the program write into {run_dir}"
        )
    return wanted


def _wrong(kind: str, part: str, names: Collection[str]) -> str:
    close = get_close_matches(part.partition("=")[0], list(names), n=1)
    meant = f"did you mean {close[0]}=...?" if close else f"choose one of {', '.join(names)}"
    return f"found {quoted(part, _MOST_SHOWN)!r} in read={kind}:..., wanted NAME=VALUE; {meant}"
