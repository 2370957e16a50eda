"""Says which origin the attempts have that filters choose, that of the newest sweep first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from scalemark.records.machine import DeviceKind
from scalemark.records.references import Origin
from scalemark.text.untrusted import visible
from store.database import reading
from store.filters.selection import attempt_ids, deleted_at
from store.schema import AttemptRow, MachineRow, SweepRow, SweepTrialRow, TrialRow


def origin_filter(origin: Origin) -> str:
    """Return the filter that chooses the attempts of an origin."""
    sign = "=" if origin is Origin.SIMULATED else "!="
    return f"device_kind{sign}{DeviceKind.SIMULATED_GPU}"


def origin_note(origin: str, sweep: str, others: Sequence[str]) -> str:
    """Say that an origin was taken for its newest sweep; empty where there are no others."""
    if not others:
        return ""
    options = " or ".join(f"--origin {other}" for other in others)
    return (
        f"origin: {origin}, as the newest sweep that matches ({visible(sweep)}); "
        f"{options} has the others"
    )


def newest_first(
    engine: sa.Engine,
    filters: Sequence[str] = (),
    *,
    sweep: str | None = None,
    deleted: bool = False,
) -> Mapping[Origin, str]:
    """Return the origins of the attempts that `filters` choose, each with its newest sweep: that
    measured one of them, or asked for its trial. With `sweep` it is of this sweep's trials alone.

    Raises StoreError for an unknown filter.
    """
    chosen = deleted_at(deleted)
    if filters:
        chosen = AttemptRow.id.in_(attempt_ids(filters, deleted=deleted))
    links = SweepTrialRow
    found: dict[Origin, int] = {}
    with reading(engine) as connection:
        profiles = sa.select(MachineRow.hardware_profile != "").distinct()
        for is_simulated in connection.scalars(profiles).all():
            # machines are few, so that neither all trials nor all attempts are looked through
            machines = sa.select(MachineRow.id).where(
                (MachineRow.hardware_profile != "") == is_simulated
            )
            of_origin = sa.and_(chosen, AttemptRow.machine_id.in_(machines))
            asked = sa.exists().where(AttemptRow.trial_id == links.trial_id, of_origin)
            for column, which in ((AttemptRow.sweep_id, of_origin), (links.sweep_id, asked)):
                newest = sa.select(column).where(which).order_by(column.desc()).limit(1)
                if sweep is not None:
                    named = sa.select(SweepRow.id).where(SweepRow.name == sweep)
                    newest = newest.where(column == named.scalar_subquery())
                sweep_id = connection.scalar(newest)
                if sweep_id is not None:
                    origin = Origin.SIMULATED if is_simulated else Origin.MEASURED
                    found[origin] = max(sweep_id, found.get(origin, 0))
        names = sa.select(SweepRow.id, SweepRow.name).where(SweepRow.id.in_(found.values()))
        name_of = {row.id: row.name for row in connection.execute(names)}
    # of one sweep that has both, measured ones
    in_order = sorted(found, key=lambda one: (-found[one], one))
    return {origin: name_of[found[origin]] for origin in in_order}


def newest_sweeps(engine: sa.Engine, origin: str, most: int) -> list[str]:
    """Return the names of the sweeps that asked for trials of an origin, the newest first."""
    is_simulated = TrialRow.device_kind == DeviceKind.SIMULATED_GPU
    of_origin = is_simulated if origin == Origin.SIMULATED else ~is_simulated
    asked = sa.select(SweepTrialRow.sweep_id).join(TrialRow, TrialRow.id == SweepTrialRow.trial_id)
    chosen = SweepRow.id.in_(asked.where(of_origin))
    names = sa.select(SweepRow.name).where(chosen).order_by(SweepRow.id.desc()).limit(most)
    with reading(engine) as connection:
        return list(connection.scalars(names))
