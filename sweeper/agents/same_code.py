"""Checks that an agent runs the code that its sweep was planned with: versions of packages do not
distinguish one commit from another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scalemark.host import software
from sweeper.errors import SweepRefusedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """A checkout of this project, as far as git knows."""

    # commit, with "+dirty" when files differ from it; empty where git does not know
    revision: str = ""
    diff: str = ""  # digest of what differs from the commit

    @classmethod
    def here(cls) -> Code:
        return cls(revision=software.commit(), diff=software.diff())

    @classmethod
    def from_json(cls, values: Mapping[str, str]) -> Code:
        return cls(revision=values["revision"], diff=values["diff"])

    @property
    def is_known(self) -> bool:
        return bool(self.revision) and self.diff != software.UNKNOWN_DIFF

    @property
    def commit(self) -> str:
        return self.revision.removesuffix(software.DIRTY)

    def __str__(self) -> str:
        if not self.revision:
            return "code that git does not know"
        changes = f"changed: {self.diff}" if self.diff else "unchanged"
        return f"commit {self.commit[:12]} ({changes})"


def check_same(here: Code, of_sweep: Code, host: str) -> str | None:
    """Return what people should know where git does not know all. Raises SweepRefusedError where
    the two differ.
    """
    both = f"{host} has {here}, the sweep was begun with {of_sweep}"
    are_known = here.is_known and of_sweep.is_known
    is_other_commit = here.commit != of_sweep.commit and here.revision and of_sweep.revision
    if is_other_commit or (are_known and here != of_sweep):
        raise SweepRefusedError(
            f"{both}, and results of different code are never mixed; check out the sweep's commit "
            "here, with its changes and no others"
        )
    return None if are_known else f"{both}: whether they are the same is not known"
