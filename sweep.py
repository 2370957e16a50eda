"""Runs a grid of trials, stores the results, draws tables, charts and a report.

`python sweep.py [-m] AXIS=VALUE,VALUE ...`
"""

from __future__ import annotations

import sys

from scalemark.cli import entry_point

if __name__ == "__main__":
    entry_point.loading()

import errno
import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import hydra
import yaml
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from conf import completion
from conf.help import axes, folding, help_text, settings
from conf.schema import register
from scalemark.cli.terminal import silence
from scalemark.host.own_code import ROOT, own_version, typed
from scalemark.records.measurement import State
from scalemark.records.overrides import SETTING, key_of
from scalemark.text.untrusted import masked, quoted_lines
from simulator.costs.box import profiles
from store.errors import StoreError
from sweeper import FIGURES, SweepRefusedError
from sweeper.grid.arguments import (
    refuse_repeated,
    with_expressions,
    with_program,
)
from sweeper.grid.compose import Grid
from sweeper.grid.explain import check_forms, explain, is_of_null

if TYPE_CHECKING:
    from sweeper.grid.from_trial import Taken
    from sweeper.report import Report

OK, SOME_FAILED, USAGE, INTERRUPTED = 0, 1, 2, entry_point.INTERRUPTED
LONGEST_LINE = 5000  # characters of one message
_SHOWN = 60  # of a name that is too long
Begin: TypeAlias = "Callable[[Grid, Sequence[str], Taken | None], Report | None]"
"""Runs the grid that our Hydra sweeper composed, given the arguments as they were typed, and what
of them came from an earlier trial."""


def main() -> int:
    """Return 0, 1 for failed trials or charts, 2 for wrong usage, 130 after an interrupt."""
    # closed: nobody wants the tables
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: PTH123, SIM115
    if "--version" in sys.argv[1:]:
        print(f"scalemark {own_version()}")
        return OK
    try:
        if completion.is_asked(sys.argv[1:]):
            print(*completion.words(os.environ.get("COMP_LINE", "")), sep="\n", flush=True)
            return OK
        report = run(sys.argv[1:])
        sys.stdout.flush()
        return _conclude(report) if report else OK
    except (SweepRefusedError, StoreError) as error:
        return _refuse(str(error))
    except KeyboardInterrupt:
        return _interrupted()
    except MemoryError:
        return _refuse(
            "no memory is left for this command (see ulimit -v); the same command goes on "
            "where it ended"
        )
    except BrokenPipeError:  # who read the plan or the help has read enough
        silence(sys.stdout, sys.stderr)
        return OK
    except OSError as error:
        if error.filename:
            raise
        silence(sys.stdout)
        return _refuse(f"the output cannot be written: {error.strerror}")


def run(arguments: list[str], begin: Begin | None = None) -> Report | None:
    """Run the sweep that the arguments ask for; None where they ask for its plan, or for help.

    `begin` takes the place of `sweeper.sweep.run`. Raises SweepRefusedError or StoreError before
    anything runs.
    """
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises, and we explain
    shows_all = "all" in arguments and not {"--help", "-h"}.isdisjoint(arguments)
    if shows_all:
        arguments = [argument for argument in arguments if argument != "all"]
    for name, lines in (("axes_help", axes), ("settings_help", settings)):
        text = partial(help_text, lines, shows_all=shows_all)
        OmegaConf.register_new_resolver(name, text, replace=True)
    OmegaConf.register_new_resolver("typed", typed, replace=True)
    try:
        return _run(arguments, begin)
    except (HydraException, OmegaConfBaseException) as error:
        raise SweepRefusedError(explain(error)) from error
    except yaml.YAMLError as error:  # its text names the file and the line
        raise SweepRefusedError(" ".join(str(error).split())) from error
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        # Hydra looks for a group of settings in every name
        longest = max(str(error.filename).split("/"), key=len)
        raise SweepRefusedError(
            f"{longest[:_SHOWN]}...: found a name of {len(longest)} characters, which is too long "
            "for a file; shorten it"
        ) from error
    except AssertionError as error:
        if not is_of_null(error) or "hardware.profile." not in " ".join(arguments):
            raise
        raise SweepRefusedError(
            "hardware.profile: this hardware is no profile; choose "
            f"hardware={', '.join(profiles())}"
        ) from error


def _run(typed: list[str], begin: Begin | None) -> Report | None:
    """Have Hydra run what the arguments ask for."""
    reports: list[Report | None] = []  # Hydra drops what its function returns
    refuse_repeated(typed)
    asked, taken = typed, None
    if any(key_of(argument) == SETTING for argument in typed):
        from sweeper.grid.from_trial import with_trial  # here, because it reads the database

        asked, taken = with_trial(typed)
    register()
    sys.argv[1:] = with_program(with_expressions(_without_multirun(asked)))

    @hydra.main(version_base="1.3", config_path=str(ROOT / "conf"), config_name="config")
    def begin_sweep(grid: Grid | DictConfig) -> None:
        from sweeper import sweep  # here, because help needs none of it

        if isinstance(grid, DictConfig):  # Hydra itself calls with a config
            raise SweepRefusedError(
                "hydra.mode=RUN: here one trial is a sweep of one; leave hydra.mode out"
            )
        reports.append((begin or sweep.run)(grid, typed, taken))

    with folding() if {"--help", "-h"} & {*asked} else nullcontext():
        begin_sweep()
    return reports[0] if reports else None


_SHOWING = ("--cfg", "-c", "--info", "-i", "--shell-completion", "-sc")
_MULTIRUN = ("--multirun", "-m")
_MODES = (*_MULTIRUN, "--run", "-r")
_OTHER_MODES = {"--run", "-r", "--help", "-h", "--hydra-help", "--version"}


def _without_multirun(arguments: Sequence[str]) -> list[str]:
    """Make every command a multirun, -m or not: one trial is a sweep of one.

    Hydra takes -m neither between overrides nor with flags that show something. Raises
    SweepRefusedError for flags that Hydra answers with a traceback.
    """
    check_forms(arguments)
    flags = {argument.split("=")[0] for argument in arguments}
    if "--resolve" in flags and not flags & {"--cfg", "-c", "--help", "-h"}:
        raise SweepRefusedError("--resolve: goes with --cfg job only")
    shows = bool(flags & set(_SHOWING))
    dropped = _MODES if shows else _MULTIRUN
    kept = [argument for argument in arguments if argument not in dropped]
    if not shows and not flags & _OTHER_MODES:
        kept.append("--multirun")  # explicit, or a mistyped setting makes Hydra forget it
    return kept


def _conclude(report: Report) -> int:
    """Print tables, draw charts and a report, and say on stderr what happened."""
    from store.database import own_command  # here, because help and the shell's TAB need none

    tell(report)
    num_completed = report.ran.states[State.COMPLETED]
    is_drawn: bool | None = True
    has_results = num_completed + report.num_finished_otherwise > 0
    if has_results and not report.ran.was_interrupted and not report.ran.failure:
        is_drawn = _draw(report)
    exit_code = OK if is_drawn and report.all_completed else SOME_FAILED
    if report.ran.was_interrupted or is_drawn is None:
        exit_code = INTERRUPTED
    if report.ran.failure:
        exit_code = _refuse(report.ran.failure)
    if report.ran.was_interrupted and not report.ran.failure:
        if num_completed:
            draws = own_command(report.store_url, "chart", "--sweep", report.name)
            _say(f"sweep: nothing was drawn; {draws} --out FOLDER draws what there is")
        return _interrupted()
    return exit_code


def tell(report: Report) -> None:
    """Say on stderr how a sweep ended, and what failed."""
    from sweeper.report import in_lines  # here, because help and the shell's TAB need none

    _say(f"sweep {report.name}: {report.summary}; results in {masked(report.store_url)}")
    for line in report.conclusions:
        _say(line)
    for line in in_lines(report.ran.failures):
        _say(f"  {line}")


def _draw(report: Report) -> bool | None:
    """Return False when something could not be drawn, None when that was interrupted."""
    from analysis.results import Origin  # here, because a refused sweep needs none of it
    from plots import at_end

    try:
        origin = Origin.SIMULATED if report.is_simulated else Origin.MEASURED
        return at_end.show(report.store_url, report.name, FIGURES, _say, origin)
    except KeyboardInterrupt:
        return None


def _say(text: str) -> None:
    """Print on stderr, quoted: the text may come from a trainer, a command or the database."""
    try:
        print(quoted_lines(text, LONGEST_LINE), file=sys.stderr, flush=True)
    except OSError:
        silence(sys.stderr)


def _interrupted() -> int:
    _say("sweep: interrupted; repeat the command to run what is left")
    return INTERRUPTED


def _refuse(message: str) -> int:
    _say(f"sweep: {message}")
    return USAGE


if __name__ == "__main__":
    sys.exit(entry_point.run(main, hears_ignored=True))
