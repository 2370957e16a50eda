"""One tower: the model forward and backward on one batch, to gradients that are ready to be summed.

```
  state ─► micro-batch 0 ─► state ─► micro-batch 1 ─► ... ─► state     batch statistics, seeds
                │                        │
  zeros ────────+────────────────────────+──────────► ... ─► gradients, summed in float32
```
Micro-batches are a loop of TensorFlow, so that the graph is as large as that of one, and of its
activations only those of one are held at a time. A loss scale keeps small half-precision gradients
from vanishing (Micikevicius et al. 2018, "Mixed Precision Training").

A training step is a tf.function that the host hands over to GPUs without waiting for them.

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

import inspect
from collections.abc import Callable, Sequence
from functools import partial

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.framework.auto_control_deps import AutomaticControlDependencies

from scalemark.abilities import OPTIMIZERS
from scalemark.records.trial import TrialSpec
from trainer.devices import Devices, on_each
from trainer.keras_model import Template

# inputs and labels; of our models images (B, H, W, 3), uint8 where they are real and else float32,
# and labels (B,) int64
Batch = tuple[tf.Tensor, tf.Tensor]


class Losses:
    """The last loss of each replica, on its device, and the mean of the call before on the host."""

    def __init__(self, devices: Devices) -> None:
        self._last = on_each(devices.replicas, lambda: tf.Variable(0.0))
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
        if self.value is None:
            return self._last.of_last_call()
        return self.value


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


# loss, gradients of the weights, new state
Pass = tuple[tf.Tensor, list[tf.Tensor], list[tf.Tensor]]
# weights, state, inputs, labels -> Pass
Compute = Callable[[list[tf.Tensor], list[tf.Tensor], tf.Tensor, tf.Tensor], Pass]


def accumulated(
    compute: Compute,
    num: int,
    weights: Sequence[tf.Tensor],
    state: Sequence[tf.Tensor],
    inputs: tf.Tensor,
    labels: tf.Tensor,
) -> Pass:
    """Return the mean loss of `num` micro-batches, their summed gradients, and the last state.

    `inputs` and `labels` are those of all, (num * B, ...); without accumulation there is no loop.
    """
    if num == 1:
        return compute(list(weights), list(state), inputs, labels)
    of_passes = []
    for part in (inputs, labels):
        of_passes.append(tf.reshape(part, (num, part.shape[0] // num, *part.shape[1:])))

    def body(
        index: tf.Tensor, loss: tf.Tensor, sums: list[tf.Tensor], state: list[tf.Tensor]
    ) -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor], list[tf.Tensor]]:
        own = [tf.identity(weight) for weight in weights]  # a tape watches tensors of its own graph
        parts = [part[index] for part in of_passes]
        added, gradients, new_state = compute(own, state, *parts)
        sums = [total + gradient for total, gradient in zip(sums, gradients, strict=True)]
        return index + 1, loss + added, sums, new_state

    # else TensorFlow makes the zeros a constant, which it keeps for ever beside the sums
    zero = tf.raw_ops.PlaceholderWithDefault(input=0.0, shape=[])
    zeros = [tf.fill(weight.shape, zero) for weight in weights]
    first = (tf.constant(0), tf.constant(0.0), zeros, list(state))
    _, loss, sums, last = tf.while_loop(
        lambda index, *_: index < num, body, first, parallel_iterations=1
    )
    return loss / num, sums, last


class ModelTower:
    """The tower of a trial's model, the same on every replica."""

    def __init__(self, spec: TrialSpec, template: Template, num_summed: int) -> None:
        """`num_summed` is how many replicas' gradients are summed into one."""
        self._template = template
        self._num_summed, self._num_passes = num_summed, spec.gradient_accumulation
        self._weight_decay = 0.0  # in the gradients
        if not OPTIMIZERS[spec.optimizer].decouples_decay:
            self._weight_decay = spec.weight_decay / num_summed

    def run(
        self,
        weights: list[tf.Tensor],
        state: list[tf.Tensor],
        inputs: tf.Tensor,
        labels: tf.Tensor,
        *scale: tf.Tensor,
    ) -> tuple[tf.Tensor, list[tf.Tensor], list[tf.Tensor]]:
        """Compute gradients that are ready to be summed: divided, decay included, not scaled.

        `scale` is the loss scale, float32 scalar, where there is one.
        """
        share = 1.0 / (self._num_summed * self._num_passes)
        loss, gradients, new_state = accumulated(
            partial(self._pass, scale[0] * share if scale else share),
            self._num_passes,
            weights,
            state,
            inputs,
            labels,
        )
        if scale or self._weight_decay:
            # one that is summed over replicas is sent as soon as it is there, and waits for none
            each = elementwise if self._num_summed == 1 else map
            gradients = list(each(partial(self._finished, scale), gradients, weights))
        return loss, gradients, new_state

    def _pass(
        self,
        share: tf.Tensor | float,
        weights: list[tf.Tensor],
        state: list[tf.Tensor],
        inputs: tf.Tensor,
        labels: tf.Tensor,
    ) -> Pass:
        """Take one batch forward and backward; its gradients are multiplied by `share`."""
        inputs = normalized(inputs, self._template.example.input_dtype)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(weights)
            model = self._template.model
            outputs, new_state, added = model.stateless_call(
                weights, state, inputs, return_losses=True, **_training_argument(model)
            )
            loss = self._template.loss(labels, outputs)
            for regularization in added:
                loss += tf.cast(tf.reduce_sum(regularization), tf.float32)
        gradients = tape.gradient(
            loss,
            weights,
            output_gradients=share,
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        return loss, [_dense(*pair) for pair in zip(gradients, weights, strict=True)], new_state

    def _finished(
        self, scale: Sequence[tf.Tensor], gradient: tf.Tensor, weight: tf.Tensor
    ) -> tf.Tensor:
        """Undo the loss scale, and add the gradient of the L2 loss, only now: else all products are
        made early and held.
        """
        if scale:
            gradient /= scale[0]
        if self._weight_decay:
            with tf.control_dependencies([gradient]):
                gradient += self._weight_decay * weight
        return gradient


_PER_BYTE = 1.0 / 127.5  # TensorFlow turns a division into this product anyway


def normalized(inputs: tf.Tensor, wanted: str) -> tf.Tensor:
    """Turn 0..255 uint8 to -1..1 float32 where a model takes these; leave all else as it is."""
    if inputs.dtype != tf.uint8 or wanted != "float32":
        return inputs
    return tf.cast(inputs, tf.float32) * _PER_BYTE - 1.0


def _training_argument(model: keras.Model) -> dict[str, bool]:
    """Return `training=True` where the model's call takes it."""
    parameters = inspect.signature(model.call).parameters.values()
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters)
    if takes_any or "training" in {p.name for p in parameters}:
        return {"training": True}
    return {}


def _dense(gradient: tf.Tensor | tf.IndexedSlices, weight: tf.Tensor) -> tf.Tensor:
    """Return the gradient of a lookup as a tensor of the shape of its table, ready to be summed."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    return tf.math.unsorted_segment_sum(gradient.values, gradient.indices, weight.shape[0])


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
        if self._is_scaled:
            return int(self._skipped.numpy())
        return 0

    @property
    def current(self) -> float | None:
        if self._is_scaled:
            return float(self._scale.numpy())
        return None

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


# Small tensors are joined: two of three gradients of ResNet-50 belong to normalizations and have 64
# to 2,048 elements, for which starting a kernel takes longer than running it. This is the most
# elements of a small tensor; no normalization has more. With 2^16, of which copies take long, steps
# of resnet18_cifar took 2 to 3 % longer on CPU devices; with 2^11 as long as with none.
MOST_ELEMENTS = 2**11


def joined(tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Return the large ones as they are, and behind them all others as a single flat one."""
    small: list[tf.Tensor] = []
    large: list[tf.Tensor] = []
    for tensor in tensors:
        (small if _is_small(tensor) else large).append(tensor)
    if small:
        return [*large, _flat(small)]
    return large


def elementwise(function: Callable[..., tf.Tensor], *lists: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Map a function that works element by element, and joins no shapes, over tensors in parallel
    lists. The shapes of one place are equal.
    """
    places = [place for place, tensor in enumerate(lists[0]) if _is_small(tensor)]
    results = {}
    if places:
        small = function(*(_flat([tensors[place] for place in places]) for tensors in lists))
        parts = tf.split(small, [lists[0][place].shape.num_elements() for place in places])
        for place, part in zip(places, parts, strict=True):
            results[place] = tf.reshape(part, lists[0][place].shape)
    for place, tensors in enumerate(zip(*lists, strict=True)):
        if place not in results:
            results[place] = function(*tensors)
    return [results[place] for place in range(len(results))]


def _is_small(tensor: tf.Tensor) -> bool:
    num_elements = tensor.shape.num_elements()  # None where a model of one's own leaves it open
    return num_elements is not None and num_elements <= MOST_ELEMENTS


def _flat(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    return tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], 0)
