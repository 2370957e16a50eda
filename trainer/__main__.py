"""`python -m trainer SPEC.json RUN_DIR`: what launchers start. Ends with the exit code of its
outcome.

A trial of several processes is started by a trainer that was not told which rank it is; the ranks
are trainers that were.
"""

from __future__ import annotations

import sys

from scalemark.cli import entry_point

if __name__ == "__main__":
    entry_point.loading()

import argparse
import os
import re
import traceback
from functools import partial
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import trainer
from scalemark.abilities import distributed, rank_jobs
from scalemark.host.host_memory import OUT_OF_HOST_MEMORY, is_lack_of_host_memory, other_limit
from scalemark.records import switches
from scalemark.records.cluster import RANK_LOST, Cluster, Rank
from scalemark.records.measurement import Result
from scalemark.records.outcomes import TRAINER_EXIT_CODES, Doing, Outcome
from scalemark.records.placement import ORCHESTRATOR_VARIABLE, Placement
from scalemark.records.trial import TrialSpec
from scalemark.run_folder.folder import RunFolder
from scalemark.text.error_line import telling_line
from scalemark.text.redact import without_secrets
from trainer import selfcheck
from trainer.errors import BadDataError, LostRankError, UnsupportedTrialError
from trainer.process import ending, environment, parent, placement
from trainer.process.ending import BAD_USAGE
from trainer.ranks import beat, own_rank
from trainer.ranks import supervision as ranks
from trainer.ranks.own_rank import NO_FLAGS, Flags, OwnRank

_GPU_MEMORY = re.compile(
    r"CUDA_ERROR_OUT_OF_MEMORY|CUDNN_STATUS_ALLOC_FAILED|CUBLAS_STATUS_ALLOC_FAILED"
)  # of libraries
_EXIT_CODES = {outcome: code for code, outcome in TRAINER_EXIT_CODES.items()}


def main(spec: TrialSpec, folder: RunFolder, flags: Flags = NO_FLAGS) -> int:
    """`flags` tell which rank this is, or TF_CONFIG does; without, it is all of the trial."""
    if problem := _make(folder.path):
        print(problem, file=sys.stderr)
        return BAD_USAGE
    try:
        own = own_rank.read(spec, flags, os.environ)
    except UnsupportedTrialError as error:
        refused = _ended(Outcome.UNSUPPORTED, str(error))
        # else the folder is worker 0's, which this may not be
        if not rank_jobs(spec.variable_update):
            folder.write(folder.result, refused.to_json())
        return _EXIT_CODES[Outcome.UNSUPPORTED]
    if refusal := _problem_of_hosts(
        spec, is_by_hand=own is not None and not os.environ.get(ORCHESTRATOR_VARIABLE)
    ):
        refused = _ended(Outcome.UNSUPPORTED, refusal)
        if own is None or own.leads:
            folder.write(folder.result, refused.to_json())
        return _EXIT_CODES[Outcome.UNSUPPORTED]
    if own is None and rank_jobs(spec.variable_update):
        return ranks.look_after(ranks.job(spec, folder))
    return _take_part(spec, folder, own)


def _make(folder: Path) -> str | None:
    """Where there is none yet, as when ranks are started by hand. What is wrong, if it cannot
    be.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return (
            f"{folder}: {error.strerror}; wanted a run folder, or the name of one that can be made"
        )
    return None


def _problem_of_hosts(spec: TrialSpec, *, is_by_hand: bool) -> str | None:
    """What a sweep refuses; a trial may have been written, or a rank of it started, by hand."""
    if spec.hosts > 1 and not rank_jobs(spec.variable_update):
        choices = ", ".join(distributed())
        return (
            f"hosts={spec.hosts}: variable_update={spec.variable_update} is of one host; choose "
            f"variable_update={choices}"
        )
    if spec.hosts == 1 and "link_mbit" in spec.planted_values:
        return (
            "planted.link_mbit: one host has no link to limit; choose hosts=2 or more, or leave "
            "it out"
        )
    if is_by_hand and "link_mbit" in spec.planted_values:
        return (
            "planted.link_mbit: nothing limits the links of ranks that are started by hand; leave it out, or have this machine's "
            f"trainer start all ranks (no --job_name, no {own_rank.VARIABLE})"
        )
    return None


def run_rank(spec: TrialSpec, folder: RunFolder, cluster: Cluster, rank: Rank) -> int:
    """As `main` of a process that was told so."""
    return _take_part(spec, folder, OwnRank(cluster=cluster, rank=rank))


def _take_part(spec: TrialSpec, folder: RunFolder, own: OwnRank | None) -> int:
    """Of all processes of a trial, worker 0 alone writes what the trial leaves; of the others there
    is a log.

    That another rank was lost is told by the exit code, too, so that who looks after the ranks can
    ask which went first.
    """
    exit_code: int | None = None
    tells = own is None or own.leads
    if tells:
        folder.write(folder.doing, Doing.BUILDING)
        environment.write(spec, folder)
    else:
        parent.end_at_signals()
    try:
        result = _run(spec, folder, own)
    except KeyboardInterrupt:
        result = _ended(Outcome.INTERRUPTED, "interrupted")
    except LostRankError as error:
        traceback.print_exc()
        result, exit_code = _ended(Outcome.FAILED, str(error)), RANK_LOST
    if tells:
        folder.write(folder.result, result.to_json())
    return _EXIT_CODES[Outcome(result.outcome)] if exit_code is None else exit_code


def preload() -> None:
    """Import what trials import, so that a process forked from this one need not."""
    for module in walk_packages(trainer.__path__, "trainer."):
        if not module.name.endswith(("__main__", ".fork_server")):
            import_module(module.name)


def _run(spec: TrialSpec, folder: RunFolder, own: OwnRank | None) -> Result:
    if contradiction := next(switches.contradictions(spec, os.environ), None):
        return _ended(Outcome.UNSUPPORTED, contradiction)
    os.environ.update(switches.variables(spec, os.environ))
    try:
        if given := placement.read(folder):
            placement.take(given)
    except UnsupportedTrialError as error:
        return _ended(Outcome.UNSUPPORTED, str(error))
    # Imported here: TensorFlow takes seconds, and whatever goes wrong with it is an outcome of the
    # trial.
    try:
        import tensorflow as tf
    except ImportError as error:
        traceback.print_exc()
        if is_lack_of_host_memory(error):
            return _ended(Outcome.OUT_OF_MEMORY, OUT_OF_HOST_MEMORY)
        return _ended(Outcome.UNSUPPORTED, f"TensorFlow cannot be imported: {error}")
    except Exception as error:  # what a library makes of a lack of memory may be anything
        traceback.print_exc()
        outcome = Outcome.OUT_OF_MEMORY if is_lack_of_host_memory(error) else Outcome.FAILED
        return _ended(
            outcome, f"TensorFlow cannot be imported: {type(error).__name__}: {_first_line(error)}"
        )
    try:
        if given:
            placement.limit_memory(given, spec)
        return _work(spec, folder, given, own)
    except UnsupportedTrialError as error:
        return _ended(Outcome.UNSUPPORTED, str(error))
    except LostRankError:
        raise
    except BadDataError as error:
        traceback.print_exc()
        return _ended(Outcome.FAILED, str(error))
    except (tf.errors.ResourceExhaustedError, MemoryError) as error:
        traceback.print_exc()
        return _ended(
            Outcome.OUT_OF_MEMORY,
            f"out of memory; try a smaller batch_size or image_px ({_allocation(error)})",
        )
    # the border of the process: the log keeps the traceback, the result the sentence
    except Exception as error:
        traceback.print_exc()
        if _GPU_MEMORY.search(str(error)):
            return _ended(Outcome.OUT_OF_MEMORY, f"out of GPU memory: {_first_line(error)}")
        if is_lack_of_host_memory(error):
            return _ended(Outcome.OUT_OF_MEMORY, f"{OUT_OF_HOST_MEMORY} ({_first_line(error)})")
        why = f"{remedy}: " if (remedy := other_limit(str(error))) else ""
        return _ended(Outcome.FAILED, f"{why}{type(error).__name__}: {_first_line(error)}")


def _work(
    spec: TrialSpec, folder: RunFolder, given: Placement | None, own: OwnRank | None
) -> Result:
    """What needs TensorFlow."""
    import tensorflow as tf

    from trainer import run
    from trainer.ranks import rank_work

    if own and not own.leads:
        return rank_work.accompany(spec, folder, own)
    environment.add_build(folder, tf.sysconfig.get_build_info())
    if own:
        beat.start(folder, own.rank)  # whom it waits for can be reached or not, it lives
    return run.run(spec, folder, given, own.cluster if own else None)


def _ended(outcome: Outcome, message: str) -> Result:
    message = without_secrets(message)
    print(f"{outcome}: {message}", file=sys.stderr)
    return Result(outcome=outcome, message=message, measurement=None, op_placement={})


def _allocation(error: BaseException) -> str:
    """What could not be allocated, out of TensorFlow's long message."""
    found = re.search(r"OOM when allocating [^\n]*?(?= and type|\n|$)", str(error))
    return found.group(0) if found else type(error).__name__


def _first_line(error: BaseException) -> str:
    return telling_line(str(error)) or type(error).__name__


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m trainer",
        description="Runs one trial, and leaves steps, result and more in its run folder.",
        epilog=(
            "`python -m trainer selfcheck --help` tells of another use: it proves every mode on "
            "the devices of this machine."
        ),
        allow_abbrev=False,
    )
    parser.add_argument(
        "spec", type=Path, metavar="SPEC.json", help="the trial: the trial.json of any run folder"
    )
    parser.add_argument(
        "folder", type=Path, metavar="RUN_DIR", help="the run folder; one that all ranks see"
    )
    Flags.add_to(parser)
    return parser


if __name__ == "__main__":
    if sys.argv[1:2] == ["selfcheck"]:
        sys.exit(entry_point.run(lambda: selfcheck.main(sys.argv[2:])))
    asked = _parser().parse_args()
    if orchestrator := os.environ.get(ORCHESTRATOR_VARIABLE):
        parent.die_with(int(orchestrator))
        parent.heed_signals()
    told = partial(main, flags=Flags.from_arguments(asked))
    sys.exit(
        entry_point.run(lambda: ending.run_and_exit(told, asked.spec, RunFolder(asked.folder)))
    )
