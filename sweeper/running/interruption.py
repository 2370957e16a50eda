"""Why an attempt was interrupted: its sweep was, or its agent alone, whose trials others run."""

from __future__ import annotations

import signal

from store.errors import StoreError
from sweeper.running.supply import Supply, Wish
from sweeper.stop import Stop

OF_SWEEP = "the sweep was interrupted"


def why_interrupted(stop: Stop, supply: Supply | None) -> str:
    """`supply` of an agent. Whoever ends the sweep may send its agents signals, too, but says first
    what is wished.
    """
    if supply is None or stop.last_signal is None:
        return OF_SWEEP
    try:
        of_sweep = supply.wish() >= Wish.STOP
    except StoreError:
        of_sweep = False  # the signal is all that is known
    return (
        OF_SWEEP
        if of_sweep
        else f"its agent was ended by {signal.Signals(stop.last_signal).name}; others run it"
    )
