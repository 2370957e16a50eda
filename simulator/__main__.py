"""`python -m simulator TRIAL.json RUN_DIR`: what launchers start with engine=simulated.

It ends with the exit code of its outcome.
"""

import sys

from scalemark.cli import entry_point

if __name__ == "__main__":
    entry_point.loading()

import os
import traceback
from functools import cache
from typing import Any

from scalemark.host import software
from scalemark.host.processes import is_lack_of_host_memory
from scalemark.records.measurement import EXIT_CODES, Doing, Outcome, ended
from scalemark.records.trial import TrialSpec
from scalemark.run_folder import RunFolder
from simulator.run import NoResultError, NotSimulatedError, run
from trainer import own_process


def main(spec: TrialSpec, folder: RunFolder) -> int:
    folder.write(folder.doing, Doing.BUILDING)
    variables = {"variables": software.result_changing(os.environ)}
    own_process.write_environment(folder, _software() | variables, {})
    try:
        result = run(spec, folder)
    except KeyboardInterrupt:
        result = ended(Outcome.INTERRUPTED, "simulated: interrupted")
    except NotSimulatedError as error:
        result = ended(Outcome.UNSUPPORTED, f"simulated: {error}")
    except NoResultError as error:
        print(f"Error: simulated: {error}", file=sys.stderr)
        return EXIT_CODES[Outcome.FAILED]
    # The border of the process: the log keeps the traceback, the result the sentence.
    except Exception as error:
        traceback.print_exc()
        outcome = Outcome.FAILED
        if is_lack_of_host_memory(error):
            outcome = Outcome.OUT_OF_MEMORY
        result = ended(outcome, f"simulated: {type(error).__name__}: {error}")
    if result.message:
        print(f"{result.outcome}: {result.message}", file=sys.stderr)
    folder.write(folder.result, result.to_json())
    return EXIT_CODES[Outcome(result.outcome)]


def preload() -> None:
    """Ask once, for all that are forked from this process; imports are above."""
    _software()
    own_process.own_checkout()


@cache
def _software() -> dict[str, Any]:
    return software.describe({})


if __name__ == "__main__":
    own_process.run_by_command(
        main,
        "python -m simulator",
        "Simulates one trial on the hardware that its run folder names, and leaves there what a "
        "trainer would.",
    )
