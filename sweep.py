"""`python sweep.py [-m] AXIS=VALUE,VALUE ...`: runs a grid of trials, stores the results, draws tables and charts."""

from __future__ import annotations

import os
import signal
import sys

INTERRUPTED = 130
signal.signal(signal.SIGINT, lambda *_: sys.exit(INTERRUPTED))  # a quiet end also while the imports below take their time

import hydra
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from conf.schema import register
from store.errors import StoreError
from store.records import State
from store.redact import masked, without_secrets
from store.terminal import silence
from sweeper.errors import SweepRefusedError
from sweeper.explain import explain
from sweeper.notify import notify
from sweeper.sweep import Report

OK, SOME_FAILED, USAGE = 0, 1, 2
MOST_SHOWN = 30  # tables at the end of a sweep; nobody looks through more
_reports: list[Report | None] = []  # Hydra drops what its function returns


@hydra.main(version_base="1.3", config_path="conf", config_name="config")
def _keep(report: Report | DictConfig | None) -> None:
    """What our Hydra sweeper (hydra_plugins/) calls with the report of the sweep it ran; Hydra itself calls with a config."""
    if isinstance(report, DictConfig):
        raise SweepRefusedError("hydra.mode=RUN: here one trial is a sweep of one; leave hydra.mode out")
    _reports.append(report)


def main() -> int:
    """Exit codes: 0 ok, 1 some trials failed or charts could not be drawn, 2 usage, 130 interrupted."""
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises, and we explain
    register()
    try:
        sys.argv[1:] = _without_multirun(sys.argv[1:])
        _keep()
        sys.stdout.flush()
        return _conclude(_reports[0]) if _reports and _reports[0] else OK
    except (SweepRefusedError, StoreError) as error:
        return _refuse(str(error))
    except (HydraException, OmegaConfBaseException) as error:
        return _refuse(explain(error))
    except KeyboardInterrupt:
        return _interrupted()
    except BrokenPipeError:  # who read the plan or the help has read enough
        silence(sys.stdout, sys.stderr)
        return OK
    except OSError as error:
        if error.filename:
            raise
        silence(sys.stdout)
        return _refuse(f"the output cannot be written: {error.strerror}")


_SHOWING = ("--cfg", "-c", "--info", "-i", "--shell-completion", "-sc")
_MULTIRUN = ("--multirun", "-m")
_MODES = (*_MULTIRUN, "--run", "-r")


def _without_multirun(arguments: list[str]) -> list[str]:
    """Every command is a multirun here, -m or not; Hydra takes -m neither between overrides nor with flags that show something.

    Raises SweepRefusedError for flags that Hydra answers with a traceback.
    """
    flags = {argument.split("=")[0] for argument in arguments}
    if "--resolve" in flags and not flags & {"--cfg", "-c", "--help", "-h"}:
        raise SweepRefusedError("--resolve: goes with --cfg job only")
    if "--experimental-rerun" in flags:
        raise SweepRefusedError("--experimental-rerun: no run is kept that way; repeat the command, finished trials are kept")
    dropped = _MODES if flags & set(_SHOWING) else _MULTIRUN
    return [argument for argument in arguments if argument not in dropped]


def _conclude(report: Report) -> int:
    """Tables on stdout, charts in the figures folder, what happened on stderr."""
    _tell(f"sweep {report.name}: {report.summary}; results in {masked(report.store_url)}")
    for line in report.failures[:MOST_SHOWN]:
        _tell(f"  {line}")
    num_completed = report.states[State.COMPLETED]
    drawn = _draw(report) if num_completed + report.num_finished_earlier and not report.failure else True
    all_completed = num_completed == report.states.total() and not report.num_not_started
    exit_code = INTERRUPTED if report.interrupted else OK if drawn and all_completed else SOME_FAILED
    if report.failure:
        exit_code = _refuse(report.failure)
    if report.notify and (problem := notify(report, exit_code)):
        _tell(f"sweep: {problem}")
    return _interrupted() if report.interrupted and not report.failure else exit_code


def _draw(report: Report) -> bool:
    """False when the charts could not be drawn."""
    from plots import tables  # here, because a refused sweep needs none of it

    found = tables.load(report.store_url, sweep=report.name)
    try:
        tables.print_terminal(found[:MOST_SHOWN])
        sys.stdout.flush()
    except OSError as error:
        silence(sys.stdout)
        if not isinstance(error, BrokenPipeError):
            _tell(f"sweep: the tables cannot be written: {error.strerror}; see python -m plots tables")
            return False
    if len(found) > MOST_SHOWN:
        told = f"{len(found)} tables, the first {MOST_SHOWN} are shown and no charts drawn"
        _tell(f"sweep: {told}: python -m plots tables (or charts) --sweep {report.name}")
        return True
    from plots import charts  # here, because matplotlib is slow to import

    try:
        for path in charts.draw_all(found, report.figures_dir):
            _tell(f"chart: {path}")
    except StoreError as error:
        _tell(f"sweep: {error}; the results are stored, draw them with python -m plots charts")
        return False
    return True


def _tell(text: str) -> None:
    """On stderr, if anybody still reads it: what it is about, a command or an error, may have a password in it."""
    try:
        print(without_secrets(text), file=sys.stderr, flush=True)
    except OSError:
        silence(sys.stderr)


def _interrupted() -> int:
    _tell("sweep: interrupted; repeat the command to run what is left")
    return INTERRUPTED


def _refuse(message: str) -> int:
    _tell(f"sweep: {message}")
    return USAGE


if __name__ == "__main__":
    sys.exit(main())
