"""Completes what `scalemark sweep` takes: axes, groups and settings with their values, flags, and
trials of the database. Each part imports no more than it needs, for somebody waits for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scalemark.abilities.choices import choices_of
from scalemark.host.own_code import ROOT
from scalemark.records.earlier_trial import ID_DIGITS, SETTING
from scalemark.records.trial import AXES

GROUPS = ("model", "data", "strategy", "launcher", "hardware", "experiment")
PREFIXES = (
    "command.",
    "data.",
    "hardware.",
    "injected.",
    "launcher.",
    "retry.",
    "store.",
    "sweep.",
)
"""The beginnings of settings, which `conf.help` lists."""

_OTHERS = ("command", "read", "engine", SETTING)
_FROM = f"--{SETTING}"
_MOST_TRIALS = 50


def candidates(words: Sequence[str], current: str) -> list[str]:
    """Return what the current word may become, after these words of a command."""
    name, equals, value = current.partition("=")
    if words[-1:] == [_FROM]:
        return _trials(words, current)
    if not equals:
        return [one for one in _names(current) if one.startswith(current)]
    earlier, comma, last = value.rpartition(",")  # of a list only the last is completed
    values = _trials(words, value) if name in (SETTING, _FROM) else _values(name)
    return [f"{name}={earlier}{comma}{one}" for one in values if one.startswith(last)]


def _names(current: str) -> Iterator[str]:
    if current.startswith("-"):
        from sweeper.grid.explain import FLAGS  # here, because it imports Hydra

        yield from (*FLAGS, _FROM)
    elif current.startswith(PREFIXES):
        for name in _settings():
            yield f"{name}="
    else:
        for axis in AXES.values():
            if not axis.set_by:
                yield f"{axis.name}="
        for name in (*GROUPS, *_OTHERS):
            yield f"{name}="
        yield from PREFIXES


def _values(name: str) -> Sequence[str]:
    if name in GROUPS:
        return sorted(file.stem for file in (ROOT / "conf" / name).glob("*.yaml"))
    if name.startswith(PREFIXES):
        return _settings().get(name, ())
    if name not in AXES:
        return ()
    return choices_of(AXES[name]) or _switch(AXES[name].type is bool)


def _settings() -> dict[str, Sequence[str]]:
    """Return every setting with its choices."""
    from conf.help import settings  # here, because it imports Hydra

    found: dict[str, Sequence[str]] = {}
    for line in settings():
        is_switch = line.default in ("true", "false")
        found[line.name] = line.choices or _switch(is_switch)
    return found


def _switch(is_one: bool) -> tuple[str, ...]:
    return ("true", "false") if is_one else ()


def _trials(words: Sequence[str], beginning: str) -> list[str]:
    """Return the newest trials that begin so, of the database that the sweep would write to.

    Raises StoreError where it cannot be read.
    """
    import sqlalchemy as sa  # here, because nothing else needs a database

    from store.database import default_url, open_for_reading, reading
    from store.filters.selection import id_begins_with
    from store.schema import AttemptRow, TrialRow

    url = default_url()
    for word in words:
        if word.startswith("store.url="):
            url = word.partition("=")[2]
    newest = sa.func.max(AttemptRow.id)
    alike = (
        sa.select(TrialRow.id)
        .join(AttemptRow, AttemptRow.trial_id == TrialRow.id)
        .where(id_begins_with(beginning))
        .group_by(TrialRow.id)
        .order_by(newest.desc())
    )
    with reading(open_for_reading(url)) as connection:
        found = connection.scalars(alike.limit(_MOST_TRIALS))
        return [one[: max(ID_DIGITS, len(beginning))] for one in found]
