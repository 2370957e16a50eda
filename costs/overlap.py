"""Estimates how much communication stays visible behind the passes that it runs beside.

```
 backward   last layer ◄──────────────── first layer │
 gradients      g9  g8  g7 ... are ready one by one  │
 link              [g9][g8 ][g7]..............[g0]───┤ exposed
```
Dense layers come first in the backward pass: VGG16's 411 MB of fc6 have nearly all of it to hide
behind.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Values = float | Floats


def exposed_after(
    shares: Floats, ready: Floats, transfer_s: Values, latency_s: Values, pass_s: Values
) -> Values:
    """Return seconds from the end of the backward pass to that of the last message.

    Messages go one after another, as they are ready.

    `shares` (M,) of the bytes and `ready` (M,) as a share of the pass, both in the order in which
    messages are ready. Seconds are numbers, or (D,) of as many cases.
    """
    num = len(shares)
    if num == 0:
        return 0.0
    still_to_send = np.multiply.outer(np.cumsum(shares[::-1])[::-1], transfer_s)
    still_to_wait = np.multiply.outer(np.arange(num, 0, -1) / num, latency_s)
    ends = np.multiply.outer(ready, pass_s) + still_to_send + still_to_wait
    return _waited(ends.max(axis=0) - pass_s, transfer_s, latency_s)


def exposed_before(wanted: Floats, transfer_s: Values, latency_s: Values, pass_s: Values) -> Values:
    """Return seconds that the forward pass waits for variables.

    All set out at once and come in no order: of the first k layers' the last is there after
    k / (k + 1) of the time.

    `wanted` (M,) as a share of the pass, in the order of the layers. Seconds are numbers, or (D,)
    of as many cases.
    """
    if len(wanted) == 0:
        return 0.0
    layers = np.arange(1, len(wanted) + 1)
    arrived = np.multiply.outer(layers / (layers + 1), np.add(transfer_s, latency_s))
    return _waited((arrived - np.multiply.outer(wanted, pass_s)).max(axis=0), transfer_s, latency_s)


def _waited(seconds: Values, transfer_s: Values, latency_s: Values) -> Values:
    """Return the wait; where nothing is sent there is none."""
    waited: Floats = np.where(np.add(transfer_s, latency_s) > 0, np.maximum(0.0, seconds), 0.0)
    return waited
