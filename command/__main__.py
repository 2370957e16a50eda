"""`python -m command TRIAL.json RUN_DIR`: what launchers start with engine=command.

It ends with the exit code of its outcome.
"""

import sys

from scalemark.cli import entry_point

if __name__ == "__main__":
    entry_point.loading()

import traceback
from collections.abc import Callable
from dataclasses import replace

from command import outcomes, start
from command.run import accompany, run
from scalemark.host.own_code import own_version
from scalemark.host.processes import is_lack_of_host_memory
from scalemark.readers.opening import KINDS, about
from scalemark.records.attempt import RANK_CRASHED, RANK_LOST
from scalemark.records.measurement import EXIT_CODES, AttemptResult, Doing, Outcome, ended
from scalemark.records.trial import TrialSpec
from scalemark.run_folder import RunFolder, with_gpu_errors
from trainer import UnsupportedTrialError, own_process, supervision
from trainer.own_rank import OwnRank

GRACE_S = 30.0
"""How long ranks on other hosts may go on once that on the first has completed."""


def main(spec: TrialSpec, folder: RunFolder, own: OwnRank | None = None) -> int:
    """Run the program on the host of a rank; without one, on all that the trial has."""
    if spec.hosts > 1 and own is None:
        job = replace(
            supervision.job(spec, folder),
            module="command.__main__",
            slow_import="",
            grace_s=GRACE_S,
        )
        return supervision.look_after(job)
    given = folder.read_placement()
    if own and not own.leads:
        _, exit_code = _caught(lambda: accompany(spec, folder, given, own))
    else:
        folder.write(folder.doing, Doing.BUILDING)
        result, exit_code = _caught(lambda: run(spec, folder, given, own))
        folder.write(folder.result, with_gpu_errors(result, folder).to_json())
    if own and exit_code == RANK_LOST:
        return RANK_CRASHED
    return exit_code


def _caught(work: Callable[[], AttemptResult]) -> tuple[AttemptResult, int]:
    """Turn whatever goes wrong into a result and an exit code; the log keeps the traceback."""
    exit_code: int | None = None
    try:
        result = work()
    except KeyboardInterrupt:
        result = ended(Outcome.INTERRUPTED, "interrupted")
    except outcomes.CrashedError as error:
        # a rank lost: by this the orchestrator knows that it is worth another attempt
        result, exit_code = ended(Outcome.FAILED, str(error)), RANK_LOST
    except (UnsupportedTrialError, start.CannotStartError) as error:
        result = ended(Outcome.UNSUPPORTED, str(error))
    except Exception as error:
        traceback.print_exc()
        outcome = Outcome.FAILED
        if is_lack_of_host_memory(error):
            outcome = Outcome.OUT_OF_MEMORY
        result = ended(outcome, f"{type(error).__name__}: {error}")
    if result.message:
        print(f"{result.outcome}: {result.message}", file=sys.stderr)
    return result, EXIT_CODES[Outcome(result.outcome)] if exit_code is None else exit_code


def preload() -> None:
    """Ask git once, and import all readers, for all that are forked from this process."""
    own_process.own_checkout()
    own_version()
    for kind in KINDS:
        about(kind)


if __name__ == "__main__":
    what = "Runs a user's program as one trial; writes steps and result to its run folder."
    own_process.run_by_command(main, "python -m command", what, has_ranks=True)
