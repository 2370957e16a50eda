"""Keeps the workers of a trial at the same step where each runs its own loop: worker 0 alone
decides when all stop.

```
  step        n-2    n-1     n      n+1     n+2
  worker 0    ──── measures ────►  says "n+2 is the last" within these two, which nobody measures
  worker 1    follows ──────────►  hears it when n+1 is done at the latest ──► takes n+2, and stops
```
Each step ends in a collective that waits for all workers: who took one more would wait for ever. So
what is said travels with the losses, which are reduced in every step anyway, and no clock but
worker 0's decides anything.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from typing import SupportsFloat

import tensorflow as tf

AHEAD = 2  # calls: a follower starts the next before it waits for the last


class Lockstep:
    """What one worker says and hears. Numbers of steps are of the whole attempt, and count from
    1.
    """

    def __init__(self, host: str, steps_per_call: int) -> None:
        self._steps_per_call = steps_per_call
        with tf.device(host):
            self._taken = tf.Variable(0, dtype=tf.int64)
            # the last step; 0 = go on
            self._said, self._heard = tf.Variable(0, dtype=tf.int64), tf.Variable(0, dtype=tf.int64)

    def say(self) -> tf.Tensor:
        """Inside a step: what this worker adds to the sum over all workers, float64 scalar."""
        return tf.cast(self._said.read_value(), tf.float64)

    def hear(self, total: tf.Tensor) -> tf.Operation:
        """Inside a step: take in that sum."""
        return tf.group(self._heard.assign(tf.cast(total, tf.int64)), self._taken.assign_add(1))

    def end(self, take_call: Callable[[], SupportsFloat]) -> None:
        """Of worker 0: let all stop after a few more calls, which this takes.

        All is measured by then: that another went meanwhile, as it may during the last call, fails
        nothing.
        """
        try:
            self._said.assign(self._taken + AHEAD * self._steps_per_call)
            for _ in range(AHEAD):
                float(take_call())
        except tf.errors.OpError:
            traceback.print_exc()
            print(
                "another worker went during the last calls, when all was measured",
                file=sys.stderr,
                flush=True,
            )

    def follow(self, take_call: Callable[[], SupportsFloat]) -> int:
        """Of every other worker: take calls until worker 0 ends them, as it does one ahead of what
        is waited for. How many.

        Worker 0 is done with its last call once all have begun it, and so have heard; then it goes,
        and this worker may be told in the middle of that call that it is gone. Raises what
        TensorFlow raises before that.
        """
        num_calls, last = 0, None
        try:
            while not self._is_over(num_calls):
                call = take_call()
                num_calls += 1
                if last is not None:
                    float(last)
                last = call
            if last is not None:
                float(last)
        except tf.errors.OpError:
            if not self._is_over(num_calls + 1):
                raise
            return int(self._heard) // self._steps_per_call
        return num_calls

    def _is_over(self, num_calls: int) -> bool:
        return 0 < int(self._heard) <= num_calls * self._steps_per_call
