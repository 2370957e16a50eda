"""Explicit towers: one model traced once, called once per replica, between reading variables and
updating them.

```
          read              tower on replica i            reduce                 apply
  variables ────► weights ─────────────────────► gradients ────► summed gradients ────► variables
  (placed by the variable update)       loss     (met by the all-reduce)  (by the optimizer, on the
  variable's device)
```

Updates with parameter servers share owners, staging, and sums per host:

```
  ps 0 ──┬─► CPU of host 0 ─┬─► replica 0        weights travel once per host,
  ps 1 ──┤                  └─► replica 1        and so do sums of gradients on their way back
         └─► CPU of host 1 ─┬─► replica 2
                            └─► replica 3
```
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from types import ModuleType
from typing import Any, NamedTuple, Protocol

import keras
import numpy as np
import tensorflow as tf

from scalemark.abilities import names
from scalemark.records.machine import DeviceKind
from scalemark.records.trial import TrialSpec
from simulator.costs.exchange import owners_of
from trainer import UnsupportedTrialError, model_tower
from trainer.devices import Devices, host_of, on_each
from trainer.keras_model import Template
from trainer.measured import StepClock
from trainer.model_tower import Batch, Losses, LossScale, ModelTower, Step


class TowerResult(NamedTuple):
    """The result of one tower, on its replica's device."""

    loss: tf.Tensor  # mean over its batch, or over those of all replicas; float32 scalar
    gradients: list[tf.Tensor]  # one per variable, float32, divided by VariableUpdate.num_summed


class Tower(Protocol):
    """Forward and backward pass of one replica; call it under the replica's device."""

    def __call__(self, replica: int, weights: Sequence[tf.Tensor], batch: Batch) -> TowerResult: ...


class Optimizer(Protocol):
    """An update rule: the slots beside a variable, and the op that applies a gradient."""

    UPDATE_OP: str  # the type of op that applies

    def create_slots(self, variable: tf.Variable) -> list[tf.Variable]: ...

    def begin_step(self, devices: Iterable[str]) -> None:
        """Called once before the gradients of a step are applied on these devices."""

    def apply(
        self, variable: tf.Variable, slots: Sequence[tf.Variable], gradient: tf.Tensor
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class Placed:
    """A variable with its optimizer slots, together on one device."""

    variable: tf.Variable
    slots: list[tf.Variable]

    @property
    def variables(self) -> Sequence[tf.Variable]:
        """All copies of the weights that belong to it."""
        return (self.variable,)

    @classmethod
    def create(cls, value: np.ndarray, device: str, optimizer: Optimizer) -> "Placed":
        with tf.device(device):
            variable = tf.Variable(value, dtype=tf.float32)
            return cls(variable, optimizer.create_slots(variable))

    def apply(self, gradient: tf.Tensor, optimizer: Optimizer) -> None:
        """Update in place, on the variable's own device."""
        with tf.device(self.variable.device), tf.name_scope("update"):
            optimizer.apply(self.variable, self.slots, gradient)


class Trained(Protocol):
    """The trainable variables of all replicas, and where a step changes them."""

    num_summed: int  # how many replicas' gradients are summed into one
    update_devices: tuple[str, ...]  # where update ops must be found afterwards
    reduction_devices: tuple[str, ...]  # where gradients must be found summed; empty = nowhere
    reduction_ops: tuple[str, ...]  # the types of op that must have summed them

    def weights(self, replica: int) -> list[np.ndarray]:
        """Return the trained weights of that replica."""

    def placed(self) -> Iterator[Placed]:
        """Yield all trained variables with their slots, and weights that are staged."""


class OwnLoop(Trained, Protocol):
    """A training loop of others, which takes its steps itself."""

    loss_scale: LossScale

    def step(self, batches: list[Batch]) -> float:
        """Take one step alone, and return its loss."""

    def run_steps(self, batches: list[Batch], clock: StepClock) -> None:
        """Take all steps that the clock wants."""


class VariableUpdate(Trained, Protocol):
    """A way of sharing the trainable variables among replicas."""

    inlines_towers: bool  # towers must be part of the step's graph

    def run_towers(self, tower: Tower, batches: Sequence[Batch]) -> list[TowerResult]:
        """Read the weights, and run the tower of every replica on them."""

    def reduce(self, gradients: Sequence[Sequence[tf.Tensor]]) -> list[tuple[Placed, tf.Tensor]]:
        """Turn gradients[replica][variable] into every variable's copies, each with its sum."""


def load(folder: str, name: str) -> ModuleType:
    """Import `trainer/<folder>/<name>.py`: the folder is the registry.

    Raises UnsupportedTrialError, listing the choices, when there is no such file.
    """
    choices = names(f"trainer/{folder}")
    if name not in choices:
        raise UnsupportedTrialError(
            f"{name!r} is not in trainer/{folder}/; choose one of {', '.join(choices)}"
        )
    return import_module(f"trainer.{folder}.{name}")


def variable_bytes(update: Trained) -> int:
    """Return the bytes of weights on the device, host included, that holds most of them."""
    return _most_bytes(variable for placed in update.placed() for variable in placed.variables)


def optimizer_state_bytes(update: Trained) -> int:
    """Return the bytes of slots on the device that holds most of them."""
    return _most_bytes(slot for placed in update.placed() for slot in placed.slots)


def _most_bytes(variables: Iterable[tf.Variable]) -> int:
    by_device: dict[str, int] = defaultdict(int)
    for variable in variables:
        by_device[variable.device] += variable.shape.num_elements() * variable.dtype.size
    return max(by_device.values(), default=0)


class AllReduce(Protocol):
    """A way of summing the replicas' copies of one gradient."""

    reduction_ops: tuple[str, ...]  # the types of op that sum, in the name scope `reduce`
    reduction_devices: tuple[str, ...]

    def sum(self, copies: Sequence[tf.Tensor], index: int) -> list[tf.Tensor]:
        """Return on every replica the sum of one tensor per replica; `index` is its number."""


class Input(Protocol):
    """A source of batches, of which a call takes K = steps_per_execution per replica."""

    def next(self) -> list[Batch]:
        """Wait for what one call takes, per replica and on its device.

        With K > 1 both tensors have a leading dimension K, unless every step takes the same batch.
        """

    def at(self, batches: list[Batch], index: tf.Tensor) -> list[Batch]:
        """Return what step `index` (int32, 0..K-1) takes, inside the training function."""


At = Callable[[list[Batch], tf.Tensor], list[Batch]]  # Input.at


def run_explicit_towers(
    tower: Tower, batches: Sequence[Batch], weights: Sequence[Sequence[tf.Tensor]], devices: Devices
) -> list[TowerResult]:
    """Build one tower after the other in the graph; TensorFlow runs them at once."""
    results = []
    for replica, (device, batch) in enumerate(zip(devices.replicas, batches, strict=True)):
        with tf.device(device), tf.name_scope(f"tower_{replica}"):
            results.append(tower(replica, weights[replica], batch))
    return results


class Towers:
    """The training step of a model over the devices of a trial."""

    def __init__(
        self,
        spec: TrialSpec,
        template: Template,
        update: VariableUpdate,
        optimizer: Optimizer,
        devices: Devices,
        at: At | None = None,
    ) -> None:
        """`at` is that of the input; None = every step of a call takes the same batches."""
        self._spec, self._at = spec, at
        self._update, self._optimizer, self._devices = update, optimizer, devices
        self.loss_scale = LossScale(spec.loss_scale, devices.host)
        self._state = [
            _copy_of_state(template.model, replica, device)
            for replica, device in enumerate(devices.replicas, devices.first)
        ]
        self._tower = tf.function(
            ModelTower(spec, template, update.num_summed).run,
            autograph=False,
            **_compilation(spec.xla, devices, update.inlines_towers),
        )
        # variables, because what a loop hands on goes through the host in every step
        self._losses = Losses(devices)
        self.step = Step(self._execution_body, self._losses)

    def state(self, replica: int) -> list[np.ndarray]:
        """Return non-trainable values of a replica: batch statistics and dropout seeds."""
        return [variable.numpy() for variable in self._state[replica]]

    def statistics(self, replica: int) -> list[np.ndarray]:
        """Return batch statistics of a replica: its state without seeds, which differ anyway."""
        return [values for values in self.state(replica) if values.dtype.kind == "f"]

    def own_compute(
        self, replica: int
    ) -> Callable[[Sequence[tf.Tensor], Batch], tuple[tf.Tensor, tf.Tensor]]:
        """Return a function of weights and a step's batch, on the replica's device, that takes them
        forward and backward, and changes nothing. It returns the seconds until all gradients are
        there, float64, by the clock of the replica's own host, and a number made of them.
        """
        device = self._devices.replicas[replica]
        host = host_of(device)

        def body(weights: Sequence[tf.Tensor], batch: Batch) -> tuple[tf.Tensor, tf.Tensor]:
            with tf.device(host), tf.control_dependencies([*weights, *batch]):
                begin = tf.timestamp()
            with tf.device(device), tf.control_dependencies([begin]):
                _, gradients, _ = self._run_tower(replica, weights, batch, self.loss_scale.read())
                ends = tf.add_n([tf.reshape(gradient, [-1])[0] for gradient in gradients])
            with tf.device(host):
                there = tf.identity(ends)  # returned: what nobody takes is not computed
                with tf.control_dependencies([there]):
                    return tf.timestamp() - begin, there

        function: Callable[..., tuple[tf.Tensor, tf.Tensor]] = tf.function(body, autograph=False)
        return function

    def traced_alone(self, batches: list[Batch]) -> Callable[[], tf.Tensor]:
        """Trace what runs the first replica's tower by itself, forgets what it computes, and
        returns its loss.

        A replica that lacks memory says so there. In a step with NCCL the others would wait for it
        without end, for NCCL's op hears no cancellation.
        """
        device = self._devices.replicas[0]
        own = []
        for placed in self._update.placed():
            if placed.variable.device == device:
                own.append(placed.variable)

        @tf.function(autograph=False)
        def alone(batches: list[Batch]) -> tuple[tf.Tensor, list[tf.Tensor], list[tf.Tensor]]:
            if self._at and self._spec.steps_per_execution > 1:
                batches = self._at(batches, tf.constant(0))
            scale = self.loss_scale.read()
            with tf.device(device):
                weights = [variable.read_value() for variable in own]
                state = [variable.read_value() for variable in self._state[0]]
                inputs = [tf.identity(part) for part in (*batches[0], *scale)]
                return self._tower(weights, state, *inputs)

        traced = alone.get_concrete_function(batches)
        return lambda: traced(batches)[0]

    def _execution_body(self, batches: list[Batch]) -> None:
        num_steps = self._spec.steps_per_execution
        if num_steps == 1:
            self._step_body(batches)
            return

        def body(index: tf.Tensor) -> tuple[tf.Tensor]:
            self._step_body(self._at(batches, index) if self._at else batches)
            return (index + 1,)

        # beside one GPU, the host would wait for it in each iteration; several wait for each other
        replicas, host = self._devices.replicas, self._devices.host
        with tf.device(replicas[0] if len(replicas) == 1 else host):
            tf.while_loop(
                lambda index: index < num_steps, body, (tf.constant(0),), parallel_iterations=1
            )

    def _step_body(self, batches: list[Batch]) -> None:
        """Take a step on the batch of every replica."""
        scale = self.loss_scale.read()

        def tower(replica: int, weights: Sequence[tf.Tensor], batch: Batch) -> TowerResult:
            loss, gradients, new_state = self._run_tower(replica, weights, batch, scale)
            for variable, value in zip(self._state[replica], new_state, strict=True):
                variable.assign(value)
            return TowerResult(loss, gradients)

        results = self._update.run_towers(tower, batches)
        updates = self._update.reduce([result.gradients for result in results])
        self.loss_scale.apply_if_finite(
            lambda: self._apply(updates), lambda: self._all_finite(updates)
        )
        self._losses.keep([result.loss for result in results])

    def _run_tower(
        self, replica: int, weights: Sequence[tf.Tensor], batch: Batch, scale: Sequence[tf.Tensor]
    ) -> tuple[tf.Tensor, list[tf.Tensor], list[tf.Tensor]]:
        """Return loss, gradients and new state; call it under the replica's device."""
        state = [variable.read_value() for variable in self._state[replica]]
        inputs = [tf.identity(part) for part in (*batch, *scale)]
        loss, gradients, new_state = self._tower(list(weights), state, *inputs)
        return loss, gradients, new_state

    def _apply(self, updates: Sequence[tuple[Placed, tf.Tensor]]) -> None:
        by_device: dict[str, list[tuple[Placed, tf.Tensor]]] = defaultdict(list)
        for placed, gradient in updates:
            by_device[placed.variable.device].append((placed, gradient))
        self._optimizer.begin_step(list(by_device))
        # summed gradients come one by one, and are applied while others are on their way
        is_compiled = self._spec.xla == "on" and self._update.num_summed == 1
        for device, of_device in by_device.items():
            if is_compiled and device in self._devices.replicas:
                with tf.device(device):
                    self._apply_compiled(of_device)
            else:
                self._apply_each(of_device)

    def _apply_each(self, updates: Sequence[tuple[Placed, tf.Tensor]]) -> None:
        for placed, gradient in updates:
            placed.apply(gradient, self._optimizer)

    def _apply_compiled(self, updates: Sequence[tuple[Placed, tf.Tensor]]) -> None:
        """Apply all at once: one by one they are two kernels each."""
        placed, gradients = zip(*updates, strict=True)

        @tf.function(jit_compile=True, autograph=False)
        def apply(gradients: Sequence[tf.Tensor]) -> None:
            self._apply_each(list(zip(placed, gradients, strict=True)))

        apply(gradients)

    def _all_finite(self, updates: Sequence[tuple[Placed, tf.Tensor]]) -> tf.Tensor:
        """Return a bool on the host: is the sum of squares finite of all gradients?"""
        by_device: dict[str, list[tf.Tensor]] = defaultdict(list)
        for placed, gradient in updates:
            by_device[placed.variable.device].append(gradient)
        finite = []
        for device, gradients in by_device.items():
            with tf.device(device):
                squares = tf.add_n(list(map(tf.nn.l2_loss, model_tower.joined(gradients))))
                finite.append(tf.math.is_finite(squares))
        with tf.device(self._devices.host):
            return tf.reduce_all(tf.stack(finite))


def _compilation(xla: str, devices: Devices, inlines_towers: bool) -> dict[str, Any]:
    """Choose how the tower's tf.function is compiled.

    Not inlined, its graph is compiled once instead of once per replica: half the start-up time on
    CPU devices. On GPUs it would hand over all gradients at once and forbid reducing them during
    the backward pass.
    """
    if xla == "on":
        return {"jit_compile": True}
    if devices.kind is DeviceKind.GPU or inlines_towers:
        return {}
    return {"experimental_attributes": {"_noinline": True}}


def _copy_of_state(model: keras.Model, replica: int, device: str) -> list[tf.Variable]:
    """Give each replica its own batch statistics, and its own seeds, as of dropout."""
    state = []
    for variable in model.non_trainable_variables:
        value = np.asarray(variable)
        if variable.name == "seed_generator_state":
            value = value + replica
        with tf.device(device):
            state.append(tf.Variable(value, dtype=variable.dtype))
    return state


def owners(spec: TrialSpec, initial: Sequence[np.ndarray], devices: Devices) -> list[str]:
    """Place whole variables, largest first, on the parameter server with the fewest bytes so far.

    Raises UnsupportedTrialError where there is no parameter server.
    """
    if not devices.parameter_servers:
        raise UnsupportedTrialError(
            f"variable_update={spec.variable_update}: wanted one ps task per host, the "
            "cluster has none"
        )
    by_size = sorted(range(len(initial)), key=lambda index: -initial[index].nbytes)
    placed = least_loaded([initial[index] for index in by_size], devices.parameter_servers)
    of_index = dict(zip(by_size, placed, strict=True))
    return [of_index[index] for index in range(len(initial))]


def least_loaded(values: Sequence[np.ndarray], places: Sequence[str]) -> list[str]:
    """Place each value, in order, where the fewest bytes are so far."""
    numbers = owners_of([value.nbytes for value in values], len(places))
    return [places[number] for number in numbers]


def on_hosts(variable: tf.Variable, hosts: Sequence[Devices]) -> list[tf.Tensor]:
    """Copy its value to the CPU of every host."""
    value = model_tower.read_where_it_is(variable)
    return on_each([host.host for host in hosts], lambda: tf.identity(value))


def met_on(device: str, parts: Sequence[tf.Tensor]) -> tf.Tensor:
    """Sum tensors, one per host or replica, on a device."""
    with tf.device(device), tf.name_scope("reduce"):
        if len(parts) == 1:
            return tf.identity(parts[0])
        return tf.add_n(parts)


class SharedVariables:
    """One copy of every variable, at its owner; where they are staged, also what waits."""

    def __init__(
        self,
        initial: Sequence[np.ndarray],
        owners: Sequence[str],
        devices: Devices,
        optimizer: Optimizer,
        *,
        staged: bool,
        hosts: Sequence[str] = (),
    ) -> None:
        """`hosts` are those on which gradients meet before they go to the owners."""
        self._shared = [
            Placed.create(value, owner, optimizer)
            for value, owner in zip(initial, owners, strict=True)
        ]
        self._staging = Staging(initial, devices) if staged else None
        self._devices = devices
        self.num_summed = len(devices.replicas)
        self.update_devices = tuple(dict.fromkeys(owners))
        self.reduction_devices = (*hosts, *self.update_devices)

    def weights(self, replica: int) -> list[np.ndarray]:
        return [placed.variable.numpy() for placed in self._shared]

    def _fetched(self, replica: int, values: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Return the weights that a replica computes on, given those that it fetches now."""
        with tf.device(self._devices.replicas[replica]):
            fetched = [tf.identity(value) for value in values]
            if self._staging:
                return self._staging.exchange(replica, fetched)
            return fetched

    def placed(self) -> Iterator[Placed]:
        yield from self._shared
        if self._staging:
            yield from self._staging.placed()


class Staging:
    """Weights that wait for a step on each replica, so that fetching hides behind computing.

    Each replica holds what it fetched in the step before; at first the initial weights.
    """

    def __init__(self, initial: Sequence[np.ndarray], devices: Devices) -> None:

        def variables() -> list[tf.Variable]:
            return [tf.Variable(value, dtype=tf.float32, trainable=False) for value in initial]

        self._staged = on_each(devices.replicas, variables)

    def exchange(self, replica: int, fetched: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Return this step's weights, and keep those fetched now for the next."""
        before = [variable.read_value() for variable in self._staged[replica]]
        for variable, value in zip(self._staged[replica], fetched, strict=True):
            variable.assign(value, read_value=False)
        return before

    def placed(self) -> Iterator[Placed]:
        """Yield the weights that wait, which no optimizer updates."""
        for variable in chain.from_iterable(self._staged):
            yield Placed(variable, [])
