"""Refuses those of launcher.slurm.options by which a job would not run an agent, or not one that is
found again.
"""

from __future__ import annotations

from collections.abc import Sequence

from sweeper.errors import SweepRefusedError

# what the launcher itself says, or what would keep an agent from starting
_OURS = (
    *("array", "clusters", "comment", "exclusive", "export", "export-file", "help", "hold"),
    *("job-name", "nodes", "output", "oversubscribe", "requeue", "signal", "test-only", "uid"),
    *("usage", "version", "wait", "wrap"),
)
# option -> the setting of launcher.slurm that is checked before anything is submitted
_SETTINGS = {"account": "account", "gres": "gres", "partition": "partition", "time": "time_min"}


def check(options: Sequence[str]) -> None:
    """Raises SweepRefusedError. Only long options are taken: in short ones flags, values and
    several letters in a word could hide what is refused here.
    """
    for option in options:
        name = option.removeprefix("--").partition("=")[0]
        if not option.startswith("--") or not name:
            raise SweepRefusedError(
                f"launcher.slurm.options: {option!r}: wanted sbatch's long options, each with its "
                "value, as --qos=long"
            )
        # sbatch takes long names that are cut short, as --comm
        for ours in _OURS:
            if ours.startswith(name):
                raise SweepRefusedError(
                    f"launcher.slurm.options: {option} changes how agents are started and "
                    f"found again (--{ours}); leave it out"
                )
        for known, setting in _SETTINGS.items():
            if known.startswith(name):
                raise SweepRefusedError(
                    f"launcher.slurm.options: {option} is said by launcher.slurm.{setting}; "
                    "set that"
                )
