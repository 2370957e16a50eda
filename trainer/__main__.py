"""`python -m trainer SPEC.json RUN_DIR`: what launchers start. Ends with the exit code of its outcome."""

from __future__ import annotations

import os
import re
import sys
import traceback
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import trainer
from store import switches
from store.records import ORCHESTRATOR_VARIABLE, TRAINER_EXIT_CODES, Doing, Outcome, Result, RunFolder, TrialSpec
from store.redact import without_secrets
from trainer import ending, environment, parent, placement, selfcheck
from trainer.errors import BadDataError, UnsupportedTrialError

_GPU_MEMORY = re.compile(r"CUDA_ERROR_OUT_OF_MEMORY|CUDNN_STATUS_ALLOC_FAILED|CUBLAS_STATUS_ALLOC_FAILED")  # of libraries
_EXIT_CODES = {outcome: code for code, outcome in TRAINER_EXIT_CODES.items()}


def main(spec: TrialSpec, folder: RunFolder) -> int:
    folder.write(folder.doing, Doing.BUILDING)
    environment.write(spec, folder)
    try:
        result = _run(spec, folder)
    except KeyboardInterrupt:
        result = _ended(Outcome.INTERRUPTED, "interrupted")
    folder.write(folder.result, result.to_json())
    return _EXIT_CODES[Outcome(result.outcome)]


def preload() -> None:
    """Import what trials import, so that a process forked from this one need not."""
    for module in walk_packages(trainer.__path__, "trainer."):
        if not module.name.endswith(("__main__", ".fork_server")):
            import_module(module.name)


def _run(spec: TrialSpec, folder: RunFolder) -> Result:
    if contradiction := next(switches.contradictions(spec, os.environ), None):
        return _ended(Outcome.UNSUPPORTED, contradiction)
    os.environ.update(switches.variables(spec, os.environ))
    try:
        if given := placement.read(folder):
            placement.take(given)
    except UnsupportedTrialError as error:
        return _ended(Outcome.UNSUPPORTED, str(error))
    # Imported here: TensorFlow takes seconds, and whatever goes wrong with it is an outcome of the trial.
    try:
        import tensorflow as tf

        from trainer.run import run
    except ImportError as error:
        traceback.print_exc()
        return _ended(Outcome.UNSUPPORTED, f"TensorFlow cannot be imported: {error}")
    try:
        environment.add_build(folder, tf.sysconfig.get_build_info())
        if given:
            placement.limit_memory(given)
        return run(spec, folder, given)
    except UnsupportedTrialError as error:
        return _ended(Outcome.UNSUPPORTED, str(error))
    except BadDataError as error:
        traceback.print_exc()
        return _ended(Outcome.FAILED, str(error))
    except (tf.errors.ResourceExhaustedError, MemoryError) as error:
        traceback.print_exc()
        return _ended(Outcome.OUT_OF_MEMORY, f"out of memory; try a smaller batch_size or image_px ({_allocation(error)})")
    except Exception as error:  # the border of the process: the log keeps the traceback, the result the sentence
        traceback.print_exc()
        if _GPU_MEMORY.search(str(error)):
            return _ended(Outcome.OUT_OF_MEMORY, f"out of GPU memory: {_first_line(error)}")
        return _ended(Outcome.FAILED, f"{type(error).__name__}: {_first_line(error)}")


def _ended(outcome: Outcome, message: str) -> Result:
    message = without_secrets(message)
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
    if orchestrator := os.environ.get(ORCHESTRATOR_VARIABLE):
        parent.die_with(int(orchestrator))
        parent.heed_signals()
    ending.run_and_exit(main, Path(sys.argv[1]), RunFolder(Path(sys.argv[2])))
