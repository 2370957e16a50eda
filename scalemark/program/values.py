"""Values of the placeholders of one attempt, and the same as environment variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from scalemark.records import environment_axes
from scalemark.records.axes import AxisValue
from scalemark.records.free_axes import PREFIX
from scalemark.records.trial import AXES, PROGRAM_AXES
from scalemark.text.wording import as_typed

VARIABLE_PREFIX = "SCALEMARK_"
RUN_DIR_VARIABLE = "SCALEMARK_RUN_DIR"
HOST_RANK_VARIABLE = "SCALEMARK_HOST_RANK"

PLACES = (
    *("run_dir", "free_port", "gpus", "gpus_per_host"),
    *("host_rank", "num_hosts", "main_host"),
)
"""Names that an attempt fills. A free axis of such a name cannot be told apart from it."""

# PROGRAM_AXES say how a program is run and read, and are of no use to it
_NOT_FOR_PROGRAMS = frozenset({"engine", *PROGRAM_AXES})
# our own variables, without the prefix
_TAKEN = frozenset(
    {"CACHE", "DB", "LOCK_DIR", "ORCHESTRATOR", "PYTHONPATH", "RANK_SOCKET", "WORKDIR"}
)


def is_taken(name: str) -> bool:
    """Return whether a free axis of that bare name could not be told apart from one of ours."""
    return name in AXES or name in PLACES or name.upper() in _TAKEN


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where one process of an attempt runs."""

    run_dir: Path
    free_port: int  # of the main host; nothing listened there a moment ago
    gpus_per_host: int  # or CPU devices
    sees_gpus: bool  # numbered from 0
    host_rank: int = 0
    num_hosts: int = 1
    main_host: str = "127.0.0.1"  # the host of rank 0

    def values(self) -> dict[str, str]:
        """Return the placeholders of PLACES."""
        gpus = range(self.gpus_per_host if self.sees_gpus else 0)
        return {
            "run_dir": str(self.run_dir),
            "free_port": str(self.free_port),
            "gpus": ",".join(map(str, gpus)),
            "gpus_per_host": str(self.gpus_per_host),
            "host_rank": str(self.host_rank),
            "num_hosts": str(self.num_hosts),
            "main_host": self.main_host,
        }


def of_axes(axes: Mapping[str, AxisValue | None]) -> dict[str, str]:
    """Return the placeholders of a trial's axes, by `TrialSpec.axes`; it may lack some.

    A free axis goes by its bare name, and by `axes.NAME`, which is its own where an axis of ours
    has the bare name.
    """
    found: dict[str, str] = {}
    for name, value in axes.items():
        if value is None or environment_axes.is_variable(name):
            continue
        if name.startswith(PREFIX):
            found[name] = as_typed(value)
            found.setdefault(name.removeprefix(PREFIX), as_typed(value))
        elif name not in _NOT_FOR_PROGRAMS:
            found[name] = as_typed(value)
    return found


def known(axes: Mapping[str, AxisValue | None]) -> frozenset[str]:
    """Return all names that the command line of such a trial may use."""
    return frozenset({*of_axes(axes), *PLACES})


def variables(values: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables of these values, as `SCALEMARK_NUM_GPUS`."""
    found = {}
    for name, value in values.items():
        if name.startswith(PREFIX):
            continue
        found[f"{VARIABLE_PREFIX}{name.upper()}"] = value
    return found
