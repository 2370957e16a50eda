"""Asks whether a descriptor has something to read, or has come to its end. Never waits."""

from __future__ import annotations

import select


def is_readable(descriptor: int) -> bool:
    """Return True for a pidfd whose process has ended.

    Unlike select.select this takes numbers above 1023.
    """
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))
