"""`python -m trainer TRIAL.json RUN_DIR`: runs one trial, and exits with the code of its outcome.

Launchers start this. A trainer that is not given a rank of a distributed trial starts the ranks,
which are trainers that are.
"""

import sys

from scalemark.cli import entry_point

if __name__ == "__main__":
    entry_point.loading()

import os
import re
import traceback
from importlib import import_module
from pkgutil import walk_packages

import trainer
from scalemark.abilities import rank_jobs
from scalemark.host import processes
from scalemark.records import switches
from scalemark.records.attempt import RANK_LOST, Cluster, Rank
from scalemark.records.measurement import EXIT_CODES, AttemptResult, Doing, Outcome, ended
from scalemark.records.trial import TrialSpec
from scalemark.run_folder import RunFolder, with_gpu_errors
from scalemark.text.untrusted import telling_line
from trainer import own_process, own_rank, selfcheck, supervision
from trainer.own_rank import OwnRank, start_beat


def main(spec: TrialSpec, folder: RunFolder, own: OwnRank | None = None) -> int:
    """Run a rank of a trial; without one, the whole trial."""
    try:
        folder.path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        print(f"{folder.path}: {error.strerror}; wanted a run folder", file=sys.stderr)
        return own_process.BAD_USAGE
    is_distributed = bool(rank_jobs(spec.variable_update))
    try:
        spec = own_rank.with_processes(spec)
        if own is None:
            own_rank.check_no_other(os.environ)
    except trainer.UnsupportedTrialError as error:
        result = _ended(Outcome.UNSUPPORTED, str(error))
        if not is_distributed:  # else its folder may be worker 0's
            folder.write(folder.result, result.to_json())
        return EXIT_CODES[Outcome.UNSUPPORTED]
    if own is None and is_distributed:
        return supervision.look_after(supervision.job(spec, folder))
    return _take_part(spec, folder, own)


def run_rank(spec: TrialSpec, folder: RunFolder, cluster: Cluster, rank: Rank) -> int:
    """Run one rank in a process that was forked for it."""
    spec = own_rank.with_processes(spec)
    return _take_part(spec, folder, OwnRank(cluster=cluster, rank=rank))


def preload() -> None:
    """Import what trials import, so that a process forked from this one need not."""
    for module in walk_packages(trainer.__path__, "trainer."):
        if not module.name.endswith(("__main__", ".fork_server")):
            import_module(module.name)


def _take_part(spec: TrialSpec, folder: RunFolder, own: OwnRank | None) -> int:
    """Run this process's part; only worker 0 writes what the trial leaves, the others a log.

    The exit code says too that another rank was lost, so that the supervisor can find out which
    one went first.
    """
    leads = own is None or own.leads
    if leads:
        folder.write(folder.doing, Doing.BUILDING)
        own_process.write(spec, folder)
    else:
        own_process.end_at_signals()
    try:
        result = _run(spec, folder, own)
        exit_code = EXIT_CODES[Outcome(result.outcome)]
    except KeyboardInterrupt:
        result = _ended(Outcome.INTERRUPTED, "interrupted")
        exit_code = EXIT_CODES[Outcome.INTERRUPTED]
    except trainer.LostRankError as error:
        traceback.print_exc()
        result, exit_code = _ended(Outcome.FAILED, str(error)), RANK_LOST
    if leads:
        folder.write(folder.result, with_gpu_errors(result, folder).to_json())
    return exit_code


def _run(spec: TrialSpec, folder: RunFolder, own: OwnRank | None) -> AttemptResult:
    """Turn whatever goes wrong into a result; the log keeps the traceback."""
    try:
        for contradiction in switches.contradictions(spec, os.environ):
            raise trainer.UnsupportedTrialError(contradiction)
        os.environ.update(switches.variables(spec, os.environ))
        own_process.write_lines_at_once()
        given = folder.read_placement()
        if given:
            own_process.take(given)
        _import_tensorflow()
        if own is None or own.leads:
            folder.write(folder.loaded, "")
        if given:
            # Only now: an import that finds no memory looks like a broken library.
            own_process.limit_memory(given, spec)
        return _work(spec, folder, own)
    except trainer.UnsupportedTrialError as error:
        return _ended(Outcome.UNSUPPORTED, str(error))
    except trainer.LostRankError:
        raise
    except Exception as error:
        traceback.print_exc()
        return _ended(*_outcome(error, own_process.tail(folder, own)))


def _import_tensorflow() -> None:
    """Import it here and not above: it takes seconds, and its failure is the trial's outcome."""
    try:
        import tensorflow  # noqa: F401
    except ImportError as error:
        if processes.is_lack_of_host_memory(error):
            raise
        traceback.print_exc()
        raise trainer.UnsupportedTrialError(f"TensorFlow cannot be imported: {error}") from error
    except Exception as error:  # what a library makes of a lack of memory may be anything
        if processes.is_lack_of_host_memory(error):
            raise
        raise trainer.ImportFailedError(
            f"{type(error).__name__}: {telling_line(str(error))}"
        ) from error


def _work(spec: TrialSpec, folder: RunFolder, own: OwnRank | None) -> AttemptResult:
    """Train; TensorFlow is imported."""
    import tensorflow as tf

    from trainer import run

    if own and not own.leads:
        return run.accompany(spec, folder, own)
    own_process.add_build(folder, tf.sysconfig.get_build_info())
    if own:
        start_beat(folder, own.rank)  # it lives, whether or not it can reach those it waits for
    return run.run(spec, folder, folder.read_placement(), own.cluster if own else None)


def _outcome(error: Exception, log: str) -> tuple[Outcome, str]:
    """Return what an error makes of the trial, and the sentence that says so.

    Errors of several causes are judged by what the process has logged.
    """
    line = telling_line(str(error)) or type(error).__name__
    if isinstance(error, trainer.BadDataError):
        return Outcome.FAILED, str(error)
    if isinstance(error, trainer.ImportFailedError):
        return Outcome.FAILED, f"TensorFlow cannot be imported: {error}"
    # by name, because TensorFlow may be what could not be imported
    if isinstance(error, MemoryError) or type(error).__name__ == "ResourceExhaustedError":
        allocation = re.search(r"OOM when allocating [^\n]*?(?= and type|\n|$)", str(error))
        what = allocation[0] if allocation else type(error).__name__
        remedy = "try a smaller batch_size, image_px or seq_len"
        return Outcome.OUT_OF_MEMORY, f"out of memory; {remedy} ({what})"
    if processes.is_lack_of_gpu_memory(str(error), log):
        return Outcome.OUT_OF_MEMORY, f"out of GPU memory: {line}"
    # TensorFlow may report the op that waited for the one without memory
    of_another_op = type(error).__name__ == "CancelledError"
    logged_lack = of_another_op and any(map(processes.says_so, log.splitlines()))
    if logged_lack or processes.is_lack_of_host_memory(error):
        return Outcome.OUT_OF_MEMORY, f"{processes.OUT_OF_HOST_MEMORY} ({line})"
    remedy = processes.other_limit(str(error))
    message = f"{type(error).__name__}: {line}"
    cause = processes.cause_of_nccl(str(error), log)
    if cause:
        message = f"{message} ({cause})"
    if remedy:
        message = f"{remedy}: {message}"
    return Outcome.FAILED, message


def _ended(outcome: Outcome, message: str) -> AttemptResult:
    result = ended(outcome, message)
    print(f"{outcome}: {result.message}", file=sys.stderr)
    return result


if __name__ == "__main__":
    if sys.argv[1:2] == ["selfcheck"]:
        sys.exit(entry_point.run(lambda: selfcheck.main(sys.argv[2:])))
    what = (
        "Runs one trial; writes steps, result and more to its run folder. `python -m trainer "
        "selfcheck` proves every mode on the devices of this machine; see its --help."
    )
    own_process.run_by_command(main, "python -m trainer", what, has_ranks=True)
