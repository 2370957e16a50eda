"""A trainer in a hundredth of a second, for tests of what starts trainers: what it does is known from its trial's seed.

| seed | does |
|---|---|
| 900 | crashes, when it is the first attempt of its repeat |
| 901 | says that it failed |
| 902 | runs out of memory with a batch larger than 4 |
| 903 | takes steps until it is ended, and writes then that it was interrupted |
| 904 | hears no signal but SIGKILL, says then that it takes steps, and takes none |
| 905 | completes after a second |
| 906 | completes with 9,000 images/s once, and says that it failed in later repeats |
| 907 | completes once there is a file `go` beside the folder of all runs |
| 908 | completes, and copies what the folder `poison` beside the folder of all runs holds over what it left |
| 909 | completes, and leaves a large file |
| 1000 and more | completes with as many images/s, a quarter with a parameter server, but for 1 % by which repeats differ |
| else | completes with 100 images/s per GPU, and two steps |
"""

import json
import math
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from zlib import crc32

from scalemark.host import software
from scalemark.records.measurement import EXIT_CODES, AttemptResult, Doing, Outcome
from scalemark.records.trial import TrialSpec
from scalemark.run_folder import RunFolder
from tests import overlap
from tests.filled import STEPS, measurement


def preload() -> None:
    """Nothing to load."""


def main(spec: TrialSpec, folder: RunFolder) -> int:
    overlap.hold(folder)
    folder.write(
        folder.environment, json.dumps(software.describe() | {"commit": "", "set_by_trial": {}})
    )
    outcome, message = _do(spec, folder)
    measured = measurement(_throughput(spec, folder)) if outcome is Outcome.COMPLETED else None
    folder.steps.write_text(
        "".join(f"{json.dumps(_step(number))}\n" for number in range(3)) if measured else ""
    )
    folder.write(
        folder.result,
        AttemptResult(
            outcome=outcome, message=message, measurement=measured, op_placement={}
        ).to_json(),
    )
    if spec.seed == 909:
        (folder.path / "model.bin").write_bytes(bytes(range(256)) * 2**14)
    if spec.seed == 908:
        shutil.copytree(folder.path.parents[2] / "poison", folder.path, dirs_exist_ok=True)
    return EXIT_CODES[outcome]


def _do(spec: TrialSpec, folder: RunFolder) -> tuple[Outcome, str]:
    if spec.seed == 900 and folder.path.name.endswith("-a1"):
        os.kill(os.getpid(), signal.SIGSEGV)
    if spec.seed == 901:
        return Outcome.FAILED, "as it was reported"
    if spec.seed == 906 and "-r1-" not in folder.path.name:
        return Outcome.FAILED, "as it was reported"
    if spec.seed == 902 and spec.batch_size > 4:
        return Outcome.OUT_OF_MEMORY, "as it was reported"
    if spec.seed == 904:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])
        folder.write(folder.doing, Doing.STEPPING)
        time.sleep(600)
    if spec.seed == 905:
        time.sleep(1)
    while spec.seed == 907 and not (folder.path.parents[2] / "go").exists():
        time.sleep(0.02)
    if spec.seed == 903:
        try:
            folder.write(folder.doing, Doing.STEPPING)
            with folder.steps.open("w") as steps:
                for number in range(10_000):
                    steps.write(json.dumps(_step(number)) + "\n")
                    steps.flush()
                    time.sleep(0.05)
        except KeyboardInterrupt:
            return Outcome.INTERRUPTED, "interrupted"
    return Outcome.COMPLETED, ""


def _throughput(spec: TrialSpec, folder: RunFolder) -> float:
    if spec.seed == 906:
        return 9000.0
    if spec.seed < 1000:
        return 100.0 * spec.num_gpus
    speed = spec.seed / 4 if spec.variable_update == "parameter_server" else spec.seed
    return speed * (1 + 0.01 * math.sin(crc32(folder.path.name.encode())))


def _step(number: int) -> dict[str, object]:
    return {**_STEP, "step": number}


_STEP = {
    name: getattr(STEPS[1], name)
    for name in ("phase", "start_s", "duration_s", "data_wait_s", "loss")
}

if __name__ == "__main__":
    sys.exit(main(TrialSpec.from_json(Path(sys.argv[1]).read_text()), RunFolder(Path(sys.argv[2]))))
