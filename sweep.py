"""`python sweep.py [-m] AXIS=VALUE,VALUE ...`: runs a grid of trials, stores the results, draws tables and charts."""

from __future__ import annotations

import os
import signal
import sys

INTERRUPTED = 130
signal.signal(signal.SIGINT, lambda *_: sys.exit(INTERRUPTED))  # a quiet end also while the imports below take their time

import hydra
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from conf.schema import register
from store.errors import StoreError
from store.records import Outcome
from sweeper.errors import SweepRefusedError
from sweeper.explain import explain
from sweeper.sweep import Report

OK, SOME_FAILED, USAGE = 0, 1, 2
_reports: list[Report | None] = []  # Hydra drops what its function returns


@hydra.main(version_base="1.3", config_path="conf", config_name="config")
def _keep(report: Report | None) -> None:
    """What our Hydra sweeper (hydra_plugins/) calls with the report of the sweep it ran."""
    _reports.append(report)


def main() -> int:
    """Exit codes: 0 ok, 1 some trials failed or charts could not be drawn, 2 usage, 130 interrupted."""
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises, and we explain
    register()
    try:
        _keep()
        return _conclude(_reports[0]) if _reports and _reports[0] else OK
    except (SweepRefusedError, StoreError) as error:
        return _refuse(str(error))
    except (HydraException, OmegaConfBaseException) as error:
        return _refuse(explain(error))
    except KeyboardInterrupt:
        return _interrupted()


def _conclude(report: Report) -> int:
    """Tables on stdout, charts in the figures folder, what happened on stderr."""
    num_completed = report.outcomes[Outcome.COMPLETED]
    parts = [f"{count} {outcome}" for outcome, count in sorted(report.outcomes.items())]
    if report.num_not_started:
        parts.append(f"{report.num_not_started} not started")
    if report.num_finished_earlier:
        parts.append(f"{report.num_finished_earlier} finished earlier")
    print(f"sweep {report.name}: {', '.join(parts)}; results in {report.store_url}", file=sys.stderr)
    drawn = _draw(report) if num_completed + report.num_finished_earlier else True
    if report.interrupted:
        return _interrupted()
    return OK if drawn and num_completed == report.outcomes.total() else SOME_FAILED


def _draw(report: Report) -> bool:
    """False when the charts could not be drawn."""
    from plots import charts, tables  # here, because matplotlib is slow to import and a refused sweep needs none of it

    found = tables.load(report.store_url, sweep=report.name)
    tables.print_terminal(found)
    try:
        for path in charts.draw_all(found, report.figures_dir):
            print(f"chart: {path}", file=sys.stderr)
    except StoreError as error:
        print(f"sweep: {error}; the results are stored, draw them with python -m plots charts", file=sys.stderr)
        return False
    return True


def _interrupted() -> int:
    print("sweep: interrupted; repeat the command to run what is left", file=sys.stderr)
    return INTERRUPTED


def _refuse(message: str) -> int:
    print(f"sweep: {message}", file=sys.stderr)
    return USAGE


if __name__ == "__main__":
    sys.exit(main())
