"""A trial's identity is the hash of its spec, and its columns tell what the spec does."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import sqlalchemy as sa

from scalemark.cli.progress import Progress
from scalemark.records.strategies import strategy_name
from scalemark.records.trial import AXES, TrialSpec
from store.checks.finding import MADE_BY_HAND, Finding
from store.checks.streaming import streamed
from store.schema import TrialRow


def trials(connection: sa.Connection, progress: Progress) -> Iterator[Finding]:
    for row in streamed(connection, sa.select(*TrialRow.__table__.columns), "trials", progress):
        if what := _problem(row):
            yield Finding(table="trials", row=row["id"], what=what, remedy=MADE_BY_HAND)


def _problem(row: sa.RowMapping) -> str:
    wanted = hashlib.sha256(row["spec"].encode()).hexdigest()[:16]
    if wanted != row["id"]:
        return f"its id is not the hash of its spec, which is {wanted}"
    try:
        spec = TrialSpec.from_json(row["spec"])
    except (ValueError, TypeError) as error:
        return f"its spec makes no sense: {error}"
    if spec.to_json() != row["spec"]:
        return "its spec is not canonical JSON"
    if different := [name for name in AXES if getattr(spec, name) != row[name]]:
        told = ", ".join(f"{name}={row[name]} (spec: {getattr(spec, name)})" for name in different)
        return f"columns differ from its spec: {told}"
    if row["curve"] != spec.curve:
        return f"its curve is {row['curve']}; its spec's is {spec.curve}"
    strategy = strategy_name(spec.variable_update, spec.local_parameter_device, spec.all_reduce)
    return (
        ""
        if row["strategy"] == strategy
        else f"its strategy is {row['strategy']}; its spec's is {strategy}"
    )
