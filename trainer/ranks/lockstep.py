"""Keeps workers that each run their own loop at the same step; worker 0 decides when all stop.

```
  step        n-2    n-1     n      n+1     n+2
  worker 0    ──── measures ────►  says "n+2 is the last" within these two, which nobody measures
  worker 1    follows ──────────►  hears it when n+1 is done at the latest ──► takes n+2, and stops
```
Each step ends in a collective that waits for all workers: one that took one more would wait for
ever. So the last step travels with the losses, which are reduced in every step anyway, and only
worker 0's clock decides.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from typing import SupportsFloat

import tensorflow as tf

AHEAD = 2  # calls: a follower starts the next before it waits for the last


class Lockstep:
    """Passes the last step from worker 0 to the others; steps count from 1."""

    def __init__(self, host: str, steps_per_call: int) -> None:
        self._steps_per_call = steps_per_call
        with tf.device(host):
            self._taken = tf.Variable(0, dtype=tf.int64)
            # the last step; 0 = go on
            self._said, self._heard = tf.Variable(0, dtype=tf.int64), tf.Variable(0, dtype=tf.int64)

    def say(self) -> tf.Tensor:
        """Return what this worker adds to a step's sum over all workers, float64 scalar."""
        return tf.cast(self._said.read_value(), tf.float64)

    def hear(self, total: tf.Tensor) -> tf.Operation:
        """Take in that sum, inside a step."""
        return tf.group(self._heard.assign(tf.cast(total, tf.int64)), self._taken.assign_add(1))

    def end(self, take_call: Callable[[], SupportsFloat]) -> None:
        """Let all workers stop after a few more calls, which this takes; worker 0 calls it.

        All is measured by then, so a worker that ends during the last call fails nothing.
        """
        try:
            self._said.assign(self._taken + AHEAD * self._steps_per_call)
            for _ in range(AHEAD):
                float(take_call())
        except tf.errors.OpError:
            traceback.print_exc()
            complaint = "another worker ended during the last calls, after all was measured"
            print(complaint, file=sys.stderr, flush=True)

    def follow(self, take_call: Callable[[], SupportsFloat]) -> int:
        """Take calls until worker 0 ends them; return how many. Every other worker calls it.

        It starts one call ahead of the one it waits for, as worker 0 does. Worker 0 goes once all
        have begun the last call, and so have heard of it: an error in that call is no failure.
        Raises what TensorFlow raises before.
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
