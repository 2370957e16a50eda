"""Starts an agent in Ray's worker on a host, and ends with it. See `sweeper.launchers.ray`.

Sent to the worker by value, as all of this folder, so it needs the standard library, and Ray.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from sweeper.ray.program import Canceled, end_of, start, why_not_started
from sweeper.ray.rank_service import HostsSilentError, rank_service

# an agent ends its trials by SIGINT, SIGTERM and SIGKILL, with launcher.grace_s between
END_TIMEOUT_S = 60.0


def run_agent(
    tied: str,
    argv: Sequence[str],
    environment: Mapping[str, str],
    log: str,
    bundles: Sequence[Mapping[str, float]],
) -> str:
    """Return why it ended, in a few words; empty when it had nothing left to do. A canceled task
    ends its agent.

    `tied` is the program sweeper/ray/tied.py; `bundles` what each host of the placement group
    gives. The agent has a session of its own, and what Ray says of GPUs.
    """
    with Canceled.heard() as canceled, ExitStack() as stack:
        service = None
        if len(bundles) > 1:
            try:
                service = stack.enter_context(rank_service(bundles, tied))
            except HostsSilentError as error:
                return str(error)
        of_service = service.environment if service else {}
        try:
            agent = start(tied, argv, {**environment, **of_service}, log)
        except OSError as error:
            return why_not_started(error)

        def is_to_end() -> bool:
            return service.serve(is_canceled=bool(canceled)) if service else bool(canceled)

        exit_code = end_of(agent, is_to_end, grace_s=END_TIMEOUT_S)
        if service and service.lost:
            return service.lost
        return _why(exit_code)


def _why(exit_code: int) -> str:
    number = -exit_code if exit_code < 0 else exit_code - 128
    if number in set(signal.Signals):
        return f"by {signal.Signals(number).name}"
    return f"exit code {exit_code}" if exit_code else ""
