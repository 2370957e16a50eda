"""Multiplies the loss so that small half-precision gradients do not vanish.

Micikevicius et al. 2018, "Mixed Precision Training". The dynamic rule is Keras': start at 2^15,
halve on overflow, whose step is skipped, and double after 2,000 steps without one.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

INITIAL_DYNAMIC_SCALE = 2.0**15
STEPS_TO_GROW = 2000


class LossScale:
    """None, static or dynamic, as `TrialSpec.loss_scale` says; its variables live on the host."""

    def __init__(self, kind: str, host: str) -> None:
        self._is_scaled, self._is_dynamic = kind != "none", kind == "dynamic"
        self._host = host
        if self._is_scaled:
            with tf.device(host):
                initial = INITIAL_DYNAMIC_SCALE if self._is_dynamic else float(kind)
                self._scale = tf.Variable(initial, dtype=tf.float32)
                self._skipped = tf.Variable(0)  # steps so far
                self._good_steps = tf.Variable(0)  # since the last change of the scale

    @property
    def num_skipped(self) -> int:
        return int(self._skipped.numpy()) if self._is_scaled else 0

    @property
    def current(self) -> float | None:
        return float(self._scale.numpy()) if self._is_scaled else None

    def read(self) -> tuple[tf.Tensor, ...]:
        """Return the scale, on the host; a constant 1 would have each tower compiled again."""
        if not self._is_scaled:
            return ()
        with tf.device(self._host):
            return (self._scale.read_value(),)

    def apply_if_finite(
        self, apply: Callable[[], None], all_finite: Callable[[], tf.Tensor]
    ) -> None:
        """Apply; with a loss scale only if all gradients are finite, else count a skipped step."""
        if not self._is_scaled:
            apply()
            return

        def applied() -> tf.Tensor:
            apply()
            if self._is_dynamic:
                self._grow()
            return tf.constant(0)

        with tf.device(self._host):
            tf.cond(all_finite(), applied, self._skip)

    def _grow(self) -> None:
        with tf.device(self._host):
            is_time = tf.equal(self._good_steps.assign_add(1), STEPS_TO_GROW)
            self._scale.assign(tf.where(is_time, 2.0 * self._scale, self._scale))
            self._good_steps.assign(tf.where(is_time, 0, self._good_steps))

    def _skip(self) -> tf.Tensor:
        with tf.device(self._host):
            self._skipped.assign_add(1)
            if self._is_dynamic:
                self._scale.assign(tf.maximum(1.0, self._scale / 2.0))
                self._good_steps.assign(0)
            return tf.constant(1)
