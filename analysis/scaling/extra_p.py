"""Has Extra-P model curves, too, where it is installed (Calotoiu et al. 2013,
https://github.com/extra-p/extrap): throughput = c0 + c1 * num_gpus^i * log2(num_gpus)^j.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from analysis.results import Result
from store.errors import StoreError

FEWEST_COUNTS = 5  # numbers of GPUs that Extra-P asks for

_PROGRAM = "extrap"
_WITHIN_S = 600.0
_PRINTED = "{callpath}\t{smape}\t{model}"
_LINE = re.compile(r"(\d+)\t(\S+)\t(.+)")
_LONG_NUMBER = re.compile(r"\d+\.\d+(?:e[+-]?\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """The function of num_gpus that Extra-P fits to throughput."""

    function: str
    smape_percent: float  # the symmetric mean absolute error, as Extra-P reports it


def models(curves: Sequence[Sequence[Result]]) -> list[Model | None]:
    """Return the model of each curve; None of fewer than FEWEST_COUNTS numbers of GPUs. Raises
    StoreError where Extra-P is not installed, or fails.
    """
    program = _program()
    together: dict[tuple[int, ...], list[int]] = defaultdict(list)  # a file has equal numbers
    for place, curve in enumerate(curves):
        counts = tuple(one.num_gpus for one in curve)
        if len(counts) >= FEWEST_COUNTS:
            together[counts].append(place)
    found: dict[int, Model] = {}
    for places in together.values():
        found |= _modeled(program, {place: curves[place] for place in places})
    return [found.get(place) for place in range(len(curves))]


def _program() -> str:
    beside = str(Path(sys.executable).parent)
    program = shutil.which(_PROGRAM) or shutil.which(_PROGRAM, path=beside)
    if program is None:
        raise StoreError(
            f"--extra-p: no program {_PROGRAM} in PATH or beside this Python; install Extra-P, as "
            f"with pip install {_PROGRAM}, and into an environment of its own: it needs an older "
            "numpy"
        )
    return program


def _modeled(program: str, curves: Mapping[int, Sequence[Result]]) -> dict[int, Model]:
    with TemporaryDirectory() as folder:
        file = Path(folder, "curves.jsonl")
        file.write_text("\n".join(_lines(curves)) + "\n")
        asked = [program, "--json", str(file), "--disable-progress", "--print", _PRINTED]
        try:
            ended = subprocess.run(
                asked, capture_output=True, text=True, timeout=_WITHIN_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise StoreError(f"--extra-p: {program}: {error}; leave it out") from None
    lines = filter(None, map(_LINE.fullmatch, ended.stdout.splitlines()))
    found = {int(line[1]): _model(line[2], line[3]) for line in lines}
    if ended.returncode or found.keys() != curves.keys():
        said = (ended.stderr or ended.stdout).strip().splitlines()
        raise StoreError(
            f"--extra-p: {program} ended with {ended.returncode} and {len(found)} models of "
            f"{len(curves)}: {said[-1] if said else 'it said nothing'}; try {program} --version, "
            "or leave the option out"
        )
    return found


def _lines(curves: Mapping[int, Sequence[Result]]) -> list[str]:
    return [
        json.dumps(
            {
                "params": {"num_gpus": result.num_gpus},
                "callpath": str(place),
                "metric": "throughput",
                "value": list(result.repeats),
            }
        )
        for place, curve in curves.items()
        for result in curve
    ]


def _model(smape: str, function: str) -> Model:
    """Keep as many digits as people read, and no exponent of 1."""
    short = _LONG_NUMBER.sub(lambda number: f"{float(number[0]):.4g}", function)
    return Model(function=short.replace("^(1)", ""), smape_percent=float(smape))
