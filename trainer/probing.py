"""`python -m trainer.probing REQUEST`: measures the fastest matrix product of each device in each
precision, and prints a line of JSON. `scalemark probe` starts it.
"""

import json
import os
import sys
import traceback
from dataclasses import asdict, replace

import tensorflow as tf

from scalemark.abilities import PRECISIONS
from scalemark.host.processes import ORCHESTRATOR_VARIABLE, die_with
from scalemark.records.machine import DeviceKind, ProbedPeak, ProbeRequest
from scalemark.records.measurement import MAX_FOREIGN_SHARE
from scalemark.text.untrusted import telling_line
from trainer import UnsupportedTrialError, own_process
from trainer import devices as devices_of
from trainer.devices import Devices
from trainer.watching import telemetry
from trainer.watching.utilization import peak_flops_per_s


def main(request: ProbeRequest) -> None:
    devices = devices_of.claim(DeviceKind(request.device_kind), request.num_devices)
    before = telemetry.now()
    peaks = []
    for precision in request.precisions:
        for number in range(len(devices.replicas)):
            peaks.append(asdict(_peak(devices, precision, number)))
    taken = telemetry.cores_taken_by_others(before, telemetry.now())
    num_cores = len(os.sched_getaffinity(0))
    doubts = []
    if taken is not None and taken > MAX_FOREIGN_SHARE * num_cores:
        doubts.append(f"others took {taken:.1f} of {num_cores} cores; stop them, and probe again")
    print(json.dumps({"peaks": peaks, "doubts": doubts}), flush=True)


def _peak(devices: Devices, precision: str, number: int) -> ProbedPeak:
    abilities = PRECISIONS[precision]
    tf.config.experimental.enable_tensor_float_32_execution(abilities.tensor_float_32)
    alone = replace(devices, replicas=(devices.replicas[number],))
    peak = peak_flops_per_s(alone, tf.as_dtype(abilities.compute_type))
    problem = "" if peak else f"{devices.kind.singular} {number}: no memory for a large matrix"
    return ProbedPeak(precision=precision, device=number, value=peak, problem=problem)


if __name__ == "__main__":
    orchestrator = os.environ.get(ORCHESTRATOR_VARIABLE)
    if orchestrator:
        die_with(int(orchestrator))
    own_process.heed_signals()
    own_process.end_at_signals()
    try:
        main(ProbeRequest.from_json(sys.argv[1]))
    except UnsupportedTrialError as refusal:
        sys.exit(str(refusal))
    except Exception as error:
        traceback.print_exc()  # of a graph's error the last line says nothing
        sys.exit(f"{type(error).__name__}: {telling_line(str(error))}")
