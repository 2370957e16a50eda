"""Describes a sweep for the database."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from conf.schema import Config
from scalemark.host.processes import this_process
from scalemark.records.machine import Machine
from scalemark.records.validation import storable
from scalemark.text.untrusted import command_line, without_secrets
from store.writer import NewSweep
from sweeper.planning.plan import Plan


def new_sweep(
    config: Config,
    name: str,
    plan: Plan,
    machine: Machine,
    software_key: str,
    typed: Sequence[str],
) -> NewSweep:
    """Return the sweep as this process begins it now; `typed` are the arguments of its command."""
    program = sys.argv[0]
    program_words = program.split() if program.startswith("scalemark ") else [program]
    return NewSweep(
        name=name,
        reason=storable(without_secrets(config.sweep.reason)),
        command=storable(command_line([*program_words, *typed])),
        started_at=datetime.now(UTC),
        trials=[trial.spec for trial in plan.trials],
        num_repeats={trial.spec.trial_id: trial.num_repeats for trial in plan.trials},
        left_out=plan.left_out,
        wanted_repeats=config.sweep.repeats,
        rerun=config.sweep.rerun,
        machine=machine,
        software_key=software_key,
        shares_host=config.launcher.share_host,
        process=this_process(),
    )
