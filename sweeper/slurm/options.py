"""Refuses those of launcher.slurm.options by which a job would not run an agent, or not one that is
found again.
"""

from __future__ import annotations

from collections.abc import Sequence

from sweeper.errors import SweepRefusedError

_OURS = {
    "array": "a",
    "clusters": "M",
    "comment": "",
    "exclusive": "",
    "export": "",
    "export-file": "",
    "help": "h",
    "hold": "H",
    "job-name": "J",
    "nodes": "N",
    "output": "o",
    "oversubscribe": "s",
    "requeue": "",
    "signal": "",
    "test-only": "",
    "uid": "",
    "usage": "",
    "version": "V",
    "wait": "W",
    "wrap": "",
}
_SETTINGS = {
    "account": ("A", "account"),
    "gres": ("", "gres"),
    "partition": ("p", "partition"),
    "time": ("t", "time_min"),
}
"""Name -> its letter, and the setting of launcher.slurm that is checked before anything is
submitted.
"""

_FLAGS = "HOQVWhksuv"
"""Letters that take no value: others may follow in the same word, as in -QJname, which is -Q and -J
name.
"""

_LONG_FLAGS = (
    *(
        "contiguous",
        "get-user-env",
        "ignore-pbs",
        "no-kill",
        "no-requeue",
        "overcommit",
        "parsable",
        "quiet",
        "reboot",
    ),
    *("spread-job", "use-min-nodes", "verbose"),
)


def check(options: Sequence[str]) -> None:
    """Raises SweepRefusedError. Getopt takes long names that are cut short, as --comm."""
    before = ""
    for option in options:
        if not option.startswith("-") and not _wants_value(before):
            raise SweepRefusedError(
                f"launcher.slurm.options: {option!r} is no option of sbatch, which begin "
                "with -; leave it out"
            )
        for name, (letter, setting) in _SETTINGS.items():
            if _is(option, name, letter):
                raise SweepRefusedError(
                    f"launcher.slurm.options: {option} is said by launcher.slurm.{setting}; "
                    "set that"
                )
        for name, letter in _OURS.items():
            if _is(option, name, letter):
                raise SweepRefusedError(
                    f"launcher.slurm.options: {option} changes how agents are started and "
                    f"found again (--{name}); leave it out"
                )
        before = option


def _is(option: str, name: str, letter: str) -> bool:
    if option.startswith("--"):
        return name.startswith(option[2:].partition("=")[0])
    return bool(letter) and letter in _letters(option)


def _letters(word: str) -> str:
    """Q and J of -QJname; the last may take what follows as its value."""
    letters = word.removeprefix("-")
    return letters[: len(letters) - len(letters.lstrip(_FLAGS)) + 1] if word.startswith("-") else ""


def _wants_value(word: str) -> bool:
    """Whether the next word is said to it."""
    if word.startswith("--"):
        return "=" not in word and not any(flag.startswith(word[2:]) for flag in _LONG_FLAGS)
    return (
        len(word) > 1
        and word.startswith("-")
        and word[-1] not in _FLAGS
        and word[1:] == _letters(word)
    )
