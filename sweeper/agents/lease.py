"""Renews the lease of a controller, however long its process waits for the engine that runs its
agents.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from store.errors import StoreError
from store.sweeps.ledger import LostError
from store.sweeps.shared import SharedLedger

BEATS = 6  # in a lease: five may fail before it is over


class Lease:
    """Keeps the lease of `ledger`. `check` raises what went wrong, where it still does."""

    def __init__(self, ledger: SharedLedger) -> None:
        self._ledger = ledger
        self._problem: StoreError | LostError | None = None
        self._is_over = threading.Event()

    @contextmanager
    def renewed(self) -> Iterator[None]:
        """Renew it in a thread as long as the context lasts."""
        thread = threading.Thread(target=self._renew, name="lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            thread.join()

    def check(self) -> None:
        """Raises StoreError, or LostError when the lease was over and others have noticed."""
        if self._problem is not None:
            self.beat()

    def beat(self) -> None:
        """Renew the lease now. Raises as `check`."""
        try:
            self._ledger.beat(datetime.now(UTC))
        except (StoreError, LostError) as error:
            self._problem = error
            raise
        self._problem = None

    def _renew(self) -> None:
        while not self._is_over.wait(self._ledger.lease_s / BEATS):
            try:
                self.beat()
            except (StoreError, LostError):
                continue  # `check` raises it
