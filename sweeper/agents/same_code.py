"""Whether an agent runs the code that its sweep was planned with: versions of packages do not tell
one commit from another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scalemark.host import software
from sweeper.errors import SweepRefusedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """A checkout of this project, as far as git tells."""

    # commit, with "+dirty" when files differ from it; empty where git does not tell
    revision: str = ""
    diff: str = ""  # digest of what differs from the commit

    @classmethod
    def here(cls) -> Code:
        return cls(revision=software.commit(), diff=software.diff())

    @classmethod
    def from_json(cls, told: Mapping[str, str]) -> Code:
        """Of settings that another version may have written."""
        return cls(revision=told.get("revision", ""), diff=told.get("diff", ""))

    @property
    def is_known(self) -> bool:
        return bool(self.revision) and self.diff != software.UNKNOWN_DIFF

    @property
    def commit(self) -> str:
        return self.revision.removesuffix("+dirty")

    def __str__(self) -> str:
        if not self.revision:
            return "code that git tells nothing of"
        changes = f"changed: {self.diff}" if self.diff else "unchanged"
        return f"commit {self.commit[:12]} ({changes})"


def check_same(here: Code, of_sweep: Code, host: str) -> str | None:
    """What to tell people where git does not know all. Raises SweepRefusedError where the two
    differ.
    """
    both = f"{host} has {here}, the sweep was begun with {of_sweep}"
    differ = (
        here != of_sweep if here.is_known and of_sweep.is_known else here.commit != of_sweep.commit
    )
    if here.revision and of_sweep.revision and differ:
        raise SweepRefusedError(
            f"{both}, and results of different code are never mixed; {_what_to_do(here, of_sweep)}"
        )
    if here.is_known and of_sweep.is_known:
        return None
    return (
        f"{both}: whether it is the same code is for you to know; packages are of the same versions"
    )


def _what_to_do(here: Code, of_sweep: Code) -> str:
    if of_sweep.diff:
        return (
            "copy the sweep's checkout here with its changes; or commit them, check that out "
            "here, and begin another sweep"
        )
    if here.commit == of_sweep.commit:
        return "take the changes back here, as with git stash --include-untracked"
    return f"here: git checkout {of_sweep.commit[:12]}{', without changes' if here.diff else ''}"
