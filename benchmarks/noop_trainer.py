"""A trainer that trains nothing, started as the real one is: `python -m benchmarks.noop_trainer
SPEC.json RUN_DIR`.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from scalemark.host import software
from scalemark.records.measurement import AttemptResult, Measurement, Outcome, Phase, StepSample
from scalemark.records.trial import TrialSpec
from scalemark.run_folder import RunFolder

EXIT_CODE = 0  # of a completed attempt, see scalemark.records.measurement.TRAINER_EXIT_CODES
STEP = StepSample(
    step=0, phase=Phase.MEASURE, start_s=0.0, duration_s=1.0, data_wait_s=0.0, loss=None
)
MEASUREMENT = Measurement(
    throughput=1.0,
    throughput_low=1.0,
    throughput_high=1.0,
    median_step_s=1.0,
    jitter_s=0.0,
    p90_step_s=1.0,
    num_steps=1,
    window_s=1.0,
    num_warm_up_steps=0,
    steady=True,
    time_to_first_step_s=0.0,
    trace_s=0.0,
    first_step_s=0.0,
    data_wait_share=0.0,
    cpu_s=0.0,
    cores_taken_by_others=None,
    peak_host_memory_bytes=0,
    peak_device_memory_bytes=None,
    first_loss=None,
    last_loss=None,
    num_skipped_steps=0,
    last_loss_scale=None,
    num_parameters=0,
)


def preload() -> None:
    """What the real trainer has a fork server load."""
    # here, because started by itself this one needs no TensorFlow
    from trainer.__main__ import preload as of_the_trainer

    of_the_trainer()


def main(spec: TrialSpec, folder: RunFolder) -> int:
    """Leaves what every trainer leaves, as of one step."""
    environment = software.describe() | {"commit": "", "set_by_trial": {}}
    folder.write(folder.environment, json.dumps(environment, indent=1, sort_keys=True))
    folder.steps.write_text(f"{json.dumps(asdict(STEP))}\n")
    message = f"nothing of {spec.model} trained"
    result = AttemptResult(
        outcome=Outcome.COMPLETED, message=message, measurement=MEASUREMENT, op_placement={}
    )
    folder.write(folder.result, result.to_json())
    return EXIT_CODE


if __name__ == "__main__":
    sys.exit(main(TrialSpec.from_json(Path(sys.argv[1]).read_text()), RunFolder(Path(sys.argv[2]))))
