"""Every replica trains alone and shares nothing: the ceiling without communication."""

from collections.abc import Sequence

from scalemark.abilities import Sends, VariableUpdateAbilities

ABILITIES = VariableUpdateAbilities(
    local_parameter_devices=("gpu",),
    all_reduces=("none",),
    why="replicas train alone and exchange nothing",
    sends=Sends.NOTHING,
    in_your_code={"": "nothing: it trains as many models as there are replicas"},
    is_synchronous=False,
)

import numpy as np

from scalemark.records.trial import TrialSpec
from trainer.devices import Devices
from trainer.towers import Optimizer
from trainer.variable_updates.replicated import Replicated


def create(
    spec: TrialSpec, initial: Sequence[np.ndarray], devices: Devices, optimizer: Optimizer
) -> Replicated:
    return Replicated(initial, devices, optimizer, packs=None)
