"""Writes a rank's heartbeat every few seconds, by which the supervisor knows it is alive."""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from scalemark.records.attempt import Rank
from scalemark.records.outcomes import Outcome
from scalemark.run_folder.folder import RunFolder
from trainer.process.ending import EXIT_CODES

BEAT_EVERY_S = 2.0
LOOK_EVERY_S = 0.1
JOINING = " joining"  # follows the number of a rank that may be silent until it has met the others

# of this process, which is one rank
_joins, _announced, _hurry = threading.Event(), threading.Event(), threading.Event()


def start(folder: RunFolder, rank: Rank, every_s: float = BEAT_EVERY_S) -> None:
    """Beat until the process ends; call once others can connect, before waiting for them.

    A rank that cannot write for half of the heartbeat timeout is ended: it would be taken for hung,
    and nobody would learn why.
    """
    end_after_s = folder.read_rank_limits().timeout_s / 2
    threading.Thread(
        target=_beat, args=(folder, rank, every_s, end_after_s), name="beat", daemon=True
    ).start()


@contextmanager
def joining() -> Iterator[None]:
    """Announce that no beat can come: waiting for other ranks holds the interpreter."""
    _announced.clear()
    _joins.set()
    _hurry.set()
    _announced.wait()
    try:
        yield
    finally:
        _joins.clear()
        _hurry.set()


def wait_for(folder: RunFolder, ranks: Iterable[Rank]) -> None:
    """Wait until the folder holds a beat of each; unlike TensorFlow's waiting, signals end it."""
    pause = threading.Event()
    for rank in ranks:
        if not folder.rank_beat(rank).exists():
            print(f"waiting for {rank.name}", file=sys.stderr, flush=True)
        while not folder.rank_beat(rank).exists():
            pause.wait(LOOK_EVERY_S)


def _beat(folder: RunFolder, rank: Rank, every_s: float, end_after_s: float) -> None:
    failing_since_s: float | None = None
    for number in itertools.count(1):
        _hurry.clear()
        joins = _joins.is_set()
        try:
            # In place: hosts that share the folder over a network see a file change sooner than its
            # name.
            folder.rank_beat(rank).write_text(f"{number}{JOINING if joins else ''}")
        except OSError as error:  # of a folder on a network it may pass
            if failing_since_s is None:
                failing_since_s = time.monotonic()
                _say(f"{rank.name} cannot write its beat, and tries for {end_after_s:g} s: {error}")
            if time.monotonic() - failing_since_s >= end_after_s:
                _end(
                    f"{Outcome.FAILED}: {rank.name} cannot write its beat for {end_after_s:g} s: "
                    f"{error}"
                )
        else:
            failing_since_s = None
            if joins:
                _announced.set()
        _hurry.wait(every_s)


def _say(text: str) -> None:
    with suppress(OSError):  # the log may be on the same full disk
        print(text, file=sys.stderr, flush=True)


def _end(text: str) -> NoReturn:
    try:
        _say(text)
    finally:
        os._exit(EXIT_CODES[Outcome.FAILED])
