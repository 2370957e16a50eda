"""Loss scaling: the loss is multiplied so that small half-precision gradients do not vanish;
overflowing steps are skipped.

Micikevicius et al. 2018, "Mixed Precision Training". The dynamic rule is Keras': start at 2^15,
halve on overflow, double after 2,000 steps without one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import tensorflow as tf

INITIAL_DYNAMIC_SCALE = 2.0**15
STEPS_TO_GROW = 2000


@dataclass(frozen=True, slots=True)
class LossScale:
    """None, static or dynamic, as `TrialSpec.loss_scale` says; its variables live on the host."""

    scale: tf.Variable | None  # float32; none = no scaling
    is_dynamic: bool
    skipped: tf.Variable | None  # int32, steps so far
    good_steps: tf.Variable | None  # int32, since the last change of the scale
    host: str

    @classmethod
    def create(cls, told: str, host: str) -> LossScale:
        if told == "none":
            return cls(None, False, None, None, host)
        is_dynamic = told == "dynamic"
        with tf.device(host):
            scale = tf.Variable(
                INITIAL_DYNAMIC_SCALE if is_dynamic else float(told), dtype=tf.float32
            )
            return cls(scale, is_dynamic, tf.Variable(0), tf.Variable(0), host)

    @property
    def num_skipped(self) -> int:
        return 0 if self.skipped is None else int(self.skipped.numpy())

    @property
    def current(self) -> float | None:
        return None if self.scale is None else float(self.scale.numpy())

    def read(self) -> tuple[tf.Tensor, ...]:
        """Return the scale, on the host; a constant 1 would have each tower compiled again."""
        with tf.device(self.host):
            return () if self.scale is None else (self.scale.read_value(),)

    def apply_if_finite(
        self, apply: Callable[[], None], all_finite: Callable[[], tf.Tensor]
    ) -> None:
        """Apply; with a loss scale only if all gradients are finite, else count a skipped step."""
        if self.scale is None:
            apply()
            return

        def applied() -> tf.Tensor:
            apply()
            if self.is_dynamic:
                self._grow()
            return tf.constant(0)

        with tf.device(self.host):
            tf.cond(all_finite(), applied, self._skip)

    def _grow(self) -> None:
        assert self.scale is not None
        assert self.good_steps is not None
        with tf.device(self.host):
            is_time = tf.equal(self.good_steps.assign_add(1), STEPS_TO_GROW)
            self.scale.assign(tf.where(is_time, 2.0 * self.scale, self.scale))
            self.good_steps.assign(tf.where(is_time, 0, self.good_steps))

    def _skip(self) -> tf.Tensor:
        assert self.scale is not None
        assert self.skipped is not None
        assert self.good_steps is not None
        with tf.device(self.host):
            self.skipped.assign_add(1)
            if self.is_dynamic:
                self.scale.assign(tf.maximum(1.0, self.scale / 2.0))
                self.good_steps.assign(0)
            return tf.constant(1)
