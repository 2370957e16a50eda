"""Holds what variable updates with parameter servers share: owners, staging, and sums per host.

```
  ps 0 ──┬─► CPU of host 0 ─┬─► replica 0        weights travel once per host,
  ps 1 ──┤                  └─► replica 1        and so do sums of gradients on their way back
         └─► CPU of host 1 ─┬─► replica 2
                            └─► replica 3
```
"""

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
import tensorflow as tf

from scalemark.records.trial import TrialSpec
from trainer.devices import Devices
from trainer.errors import UnsupportedTrialError
from trainer.towers import Optimizer, Placed


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
    load = dict.fromkeys(places, 0)
    owners = []
    for value in values:
        owner = min(load, key=load.__getitem__)
        load[owner] += value.nbytes
        owners.append(owner)
    return owners


def on_hosts(variable: tf.Variable, hosts: Sequence[Devices]) -> list[tf.Tensor]:
    """Copy its value to the CPU of every host."""
    with tf.device(variable.device):
        value = variable.read_value()
    copies = []
    for host in hosts:
        with tf.device(host.host):
            copies.append(tf.identity(value))
    return copies


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

    def placed(self) -> Iterator[Placed]:
        yield from self._shared
        if self._staging:
            yield from self._staging.placed()


class Staging:
    """Weights that wait for a step on each replica, so that fetching hides behind computing.

    Each replica holds what it fetched in the step before; at first the initial weights.
    """

    def __init__(self, initial: Sequence[np.ndarray], devices: Devices) -> None:
        self._staged = [_variables(initial, device) for device in devices.replicas]

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


def _variables(values: Sequence[np.ndarray], device: str) -> list[tf.Variable]:
    with tf.device(device):
        return [tf.Variable(value, dtype=tf.float32, trainable=False) for value in values]
