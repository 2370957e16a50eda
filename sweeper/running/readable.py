"""Whether a descriptor has something to read now, or has come to its end. Never waits."""

from __future__ import annotations

import select


def is_readable(descriptor: int) -> bool:
    """Of a pidfd: whether its process has ended. Also for numbers above 1023, which select.select
    refuses.
    """
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))
