"""A training step as a tf.function that the host hands over to GPUs without waiting for them.

```
  host  call n | call n + 1 ......... waits | call n + 2 ......
  GPU       step n ───────────► loss n ─┘ step n + 1 ────────►
```
Each call brings the losses of the one before to the host. One that brought its own would end with
the GPU's work, and the GPU would wait while the next is prepared: 3 to 5 ms on an H200.

What else would wait, by TensorFlow 2.21's sources:

- A tensor or a control edge that goes to or from a GPU is copied when the GPU has done all that it
  was given so far, even if it has no bytes.
- A call ends when all that its devices receive is there, but before kernels that were only handed
  over have run. So whatever a step sends makes its call last as long as the step.
- A tensor that a tf.function returns waits by control edges for everything that the function does,
  on all devices. So this one returns a constant, and `_ordered` names by hand what must run.
- What copies a loss beside the function waits behind up to 1,024 kernels that were handed over by
  then; to memory that is not pinned, as `Tensor.numpy` copies, CUDA lets no thread start kernels
  meanwhile.
"""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf
from tensorflow.python.framework.auto_control_deps import AutomaticControlDependencies

from trainer.devices import Devices

# inputs and labels; of our models images (B, H, W, 3), uint8 where they are real and else float32,
# and labels (B,) int64
Batch = tuple[tf.Tensor, tf.Tensor]


class Losses:
    """The last loss of each replica, on its device, and the mean of the call before on the host."""

    def __init__(self, devices: Devices) -> None:
        self._last = []
        for device in devices.replicas:
            with tf.device(device):
                self._last.append(tf.Variable(0.0))
        self.host = devices.host
        with tf.device(self.host):
            self._before = tf.Variable(0.0)

    def bring_to_host(self) -> None:
        """Called in a training function before anything is kept.

        They are added, not stacked: TensorFlow rewrites a stack of one so that it waits for all of
        a step. And `xla=auto` takes none of it into a cluster, whose results come together.
        """
        with tf.xla.experimental.jit_scope(compile_ops=False):
            losses = [read_where_it_is(variable) for variable in self._last]
            with tf.device(self.host):
                self._before.assign(tf.add_n(losses) / len(losses))

    def keep(self, losses: Sequence[tf.Tensor]) -> None:
        """Called in a training function with the losses of a step."""
        for variable, loss in zip(self._last, losses, strict=True):
            with tf.device(variable.device):
                variable.assign(loss)

    def of_last_call(self) -> float:
        """Return the mean over all replicas. Waits for the devices."""
        return float(np.mean([read_where_it_is(variable).numpy() for variable in self._last]))

    def of_call_before(self) -> float:
        """Return the mean over all replicas, which is on the host."""
        return float(read_where_it_is(self._before).numpy())


def read_where_it_is(variable: tf.Variable) -> tf.Tensor:
    """Read it on its own device: elsewhere the first GPU takes it, when it has done all else."""
    with tf.device(variable.device):
        return variable.read_value()


class Loss:
    """The mean loss over all replicas, of a call that devices may still be at."""

    def __init__(self, last: Losses) -> None:
        self._last = last
        self.value: float | None = None  # known with the next call

    def __float__(self) -> float:
        return self._last.of_last_call() if self.value is None else self.value


class Step:
    """Takes K training steps of all replicas by a call of a tf.function."""

    def __init__(self, body: Callable[[list[Batch]], None], losses: Losses) -> None:
        """`body` keeps the losses."""
        self._body, self._losses = body, losses
        self._function = tf.function(
            self._call, autograph=False, experimental_attributes={"_disable_acd": True}
        )
        self._last = Loss(losses)

    def __call__(self, batches: list[Batch]) -> Loss:
        self._function(batches)
        self._last.value = self._losses.of_call_before()
        self._last = Loss(self._losses)
        return self._last

    def trace(self, batches: list[Batch]) -> tf.Graph:
        """Trace it without running it."""
        return self._function.get_concrete_function(batches).graph

    def _call(self, batches: list[Batch]) -> tf.Tensor:
        """Return a constant: a function without a result is not optimized."""
        _ordered(self._losses.bring_to_host, lambda: self._body(batches))
        with tf.device(self._losses.host):
            return tf.constant(0.0)


def _ordered(*parts: Callable[[], None]) -> None:
    """Called in a tf.function that was made with `_disable_acd`: have it do all parts, and what
    reads and changes a variable in their order, as any tf.function does.
    """
    with AutomaticControlDependencies() as order:
        for part in parts:
            part()
    tf.compat.v1.get_default_graph().control_outputs.extend(order.ops_which_must_run)
