"""A trainer that trains nothing, started as the real one is: `python -m benchmarks.noop_trainer SPEC.json RUN_DIR`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from store import software
from store.records import Outcome, Result, RunFolder, TrialSpec

EXIT_CODE = 0  # of a completed attempt, see store.records.TRAINER_EXIT_CODES


def preload() -> None:
    """What the real trainer has a fork server load."""
    from trainer.__main__ import preload as of_the_trainer  # here, because started by itself this one needs no TensorFlow

    of_the_trainer()


def main(spec: TrialSpec, folder: RunFolder) -> int:
    """Leaves what every trainer leaves, but for steps and a measurement."""
    environment = software.describe() | {"commit": "", "set_by_trial": {}}
    folder.write(folder.environment, json.dumps(environment, indent=1, sort_keys=True))
    result = Result(outcome=Outcome.COMPLETED, message=f"nothing of {spec.model} trained", measurement=None, op_placement={})
    folder.write(folder.result, result.to_json())
    return EXIT_CODE


if __name__ == "__main__":
    sys.exit(main(TrialSpec.from_json(Path(sys.argv[1]).read_text()), RunFolder(Path(sys.argv[2]))))
