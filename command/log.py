"""Keeps the output of a program in `log.txt`: its beginning as it comes, and its end."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from types import TracebackType

HEAD_BYTES = 8 * 2**20
TAIL_BYTES = 2**20


class Log:
    """A log that takes 9 MiB at most, however much is written."""

    def __init__(
        self, path: Path, *, head_bytes: int = HEAD_BYTES, tail_bytes: int = TAIL_BYTES
    ) -> None:
        """Raises OSError."""
        self._file = path.open("ab")  # after what this process itself has said
        self._head_left, self._most_tail = head_bytes, tail_bytes
        self._tail: deque[bytes] = deque()
        self._tail_size = self._num_left_out = 0

    def __enter__(self) -> Log:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def write(self, chunk: bytes) -> None:
        """Write what still belongs to the beginning, and keep the end. Raises OSError."""
        if self._head_left:
            self._file.write(chunk[: self._head_left])
            chunk, self._head_left = (
                chunk[self._head_left :],
                max(0, self._head_left - len(chunk)),
            )
        if not chunk:
            return
        self._tail.append(chunk)
        self._tail_size += len(chunk)
        while self._tail_size - len(self._tail[0]) >= self._most_tail:
            oldest = self._tail.popleft()
            self._tail_size -= len(oldest)
            self._num_left_out += len(oldest)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        """Write the end. Raises OSError."""
        tail = b"".join(self._tail)
        cut = max(0, len(tail) - self._most_tail)
        left_out = self._num_left_out + cut
        if left_out:
            self._file.write(f"\n[scalemark: {left_out} bytes are left out here]\n".encode())
        self._file.write(tail[cut:])
        self._file.close()
        self._tail.clear()
