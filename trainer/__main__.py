"""`python -m trainer SPEC.json RUN_DIR`: what launchers start. Ends with the exit code of its outcome."""

from __future__ import annotations

import json
import os
import re
import sys
import traceback
from pathlib import Path

from store import software, switches
from store.records import ORCHESTRATOR_VARIABLE, TRAINER_EXIT_CODES, Outcome, Result, RunFolder, TrialSpec
from trainer import parent, selfcheck

_GPU_MEMORY = re.compile(r"CUDA_ERROR_OUT_OF_MEMORY|CUDNN_STATUS_ALLOC_FAILED|CUBLAS_STATUS_ALLOC_FAILED")  # of libraries
_EXIT_CODES = {outcome: code for code, outcome in TRAINER_EXIT_CODES.items()}


def main(spec: TrialSpec, folder: RunFolder) -> int:
    if orchestrator := os.environ.get(ORCHESTRATOR_VARIABLE):
        parent.die_with(int(orchestrator))
    environment = software.describe() | {"commit": software.commit(), "set_by_trial": switches.variables(spec, os.environ)}
    folder.write(folder.environment, json.dumps(environment, indent=1, sort_keys=True))
    if contradiction := next(switches.contradictions(spec, os.environ), None):
        result = _ended(Outcome.UNSUPPORTED, contradiction)
    else:
        os.environ.update(switches.variables(spec, os.environ))
        result = _run(spec, folder)
    folder.write(folder.result, result.to_json())
    return _EXIT_CODES[Outcome(result.outcome)]


def _run(spec: TrialSpec, folder: RunFolder) -> Result:
    # Imported here: TensorFlow takes seconds, and whatever goes wrong with it is an outcome of the trial.
    try:
        import tensorflow as tf

        from trainer.errors import BadDataError, UnsupportedTrialError
        from trainer.run import run
    except ImportError as error:
        traceback.print_exc()
        return _ended(Outcome.UNSUPPORTED, f"TensorFlow cannot be imported: {error}")
    try:
        return run(spec, folder)
    except UnsupportedTrialError as error:
        return _ended(Outcome.UNSUPPORTED, str(error))
    except BadDataError as error:
        traceback.print_exc()
        return _ended(Outcome.FAILED, str(error))
    except (tf.errors.ResourceExhaustedError, MemoryError) as error:
        traceback.print_exc()
        return _ended(Outcome.OUT_OF_MEMORY, f"out of memory; try a smaller batch_size or image_px ({_allocation(error)})")
    except KeyboardInterrupt:
        return _ended(Outcome.INTERRUPTED, "interrupted")
    except Exception as error:  # the border of the process: the log keeps the traceback, the result the sentence
        traceback.print_exc()
        if _GPU_MEMORY.search(str(error)):
            return _ended(Outcome.OUT_OF_MEMORY, f"out of GPU memory: {_first_line(error)}")
        return _ended(Outcome.FAILED, f"{type(error).__name__}: {_first_line(error)}")


def _ended(outcome: Outcome, message: str) -> Result:
    print(f"{outcome}: {message}", file=sys.stderr)
    return Result(outcome=outcome, message=message, measurement=None, op_placement={})


def _allocation(error: BaseException) -> str:
    """What could not be allocated, out of TensorFlow's long message."""
    found = re.search(r"OOM when allocating [^\n]*?(?= and type|\n|$)", str(error))
    return found.group(0) if found else type(error).__name__


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


if __name__ == "__main__":
    if sys.argv[1:2] == ["selfcheck"]:
        sys.exit(selfcheck.main(sys.argv[2:]))
    if len(sys.argv) != 3:
        sys.exit("usage: python -m trainer SPEC.json RUN_DIR, or python -m trainer selfcheck --help")
    try:
        trial = TrialSpec.from_json(Path(sys.argv[1]).read_text())
    except (OSError, ValueError, TypeError) as error:
        print(f"{sys.argv[1]}: {error}; wanted the trial.json of a run folder", file=sys.stderr)
        sys.exit(2)
    exit_code = main(trial, RunFolder(Path(sys.argv[2])))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)  # the result is written: a crash of a library at interpreter exit shall not spoil it
