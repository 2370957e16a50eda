"""What variable updates with parameter servers on several hosts share: who owns a variable, and
what crosses the network.

```
  ps 0 ──┬─► CPU of host 0 ─┬─► replica 0        weights travel once per host,
  ps 1 ──┤                  └─► replica 1        and so do sums of gradients on their way back
         └─► CPU of host 1 ─┬─► replica 2
                            └─► replica 3
```
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from scalemark.records.trial import TrialSpec
from trainer.devices import Devices
from trainer.errors import UnsupportedTrialError
from trainer.towers import Placed


def owners(spec: TrialSpec, initial: Sequence[np.ndarray], devices: Devices) -> list[str]:
    """Place whole variables, largest first, on the parameter server with the fewest bytes so far.

    Raises UnsupportedTrialError where there is no parameter server.
    """
    if not devices.parameter_servers:
        raise UnsupportedTrialError(
            f"variable_update={spec.variable_update}: wanted one ps task per host, the "
            "cluster has none"
        )
    load = dict.fromkeys(devices.parameter_servers, 0)
    found = [""] * len(initial)
    for index in sorted(range(len(initial)), key=lambda index: -initial[index].nbytes):
        found[index] = min(load, key=load.__getitem__)
        load[found[index]] += initial[index].nbytes
    return found


def on_hosts(variable: tf.Variable, hosts: Sequence[Devices]) -> list[tf.Tensor]:
    """Copy its value to the CPU of every host."""
    with tf.device(variable.device):
        value = variable.read_value()
    copies = []
    for host in hosts:
        with tf.device(host.host):
            copies.append(tf.identity(value))
    return copies


def met_at_owner(placed: Placed, sums: Sequence[tf.Tensor]) -> tf.Tensor:
    """Sum one tensor per host on the variable's device."""
    with tf.device(placed.variable.device), tf.name_scope("reduce"):
        return tf.add_n(sums) if len(sums) > 1 else tf.identity(sums[0])
