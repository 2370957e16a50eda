"""Says which origin the attempts have that filters choose, that of the newest sweep first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

import sqlalchemy as sa

from scalemark.records.devices import DeviceKind
from scalemark.text.untrusted import visible
from store.database import reading
from store.filters.selection import attempt_ids, deleted_at
from store.schema import AttemptRow, SweepRow, SweepTrialRow, TrialRow


class Origin(StrEnum):
    """The maker of an attempt's number, as `analysis` and `plots` call it."""

    MEASURED = "measured"
    SIMULATED = "simulated"

    @property
    def filter(self) -> str:
        """The filter that chooses its attempts."""
        sign = "=" if self is Origin.SIMULATED else "!="
        return f"device_kind{sign}{DeviceKind.SIMULATED_GPU}"


def told(origin: str, sweep: str, others: Sequence[str]) -> str:
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
    own = sa.func.max(AttemptRow.sweep_id).label("own")
    attempts = sa.select(AttemptRow.trial_id, own).where(chosen).group_by(AttemptRow.trial_id)
    of_trial = attempts.subquery()
    links = SweepTrialRow.__table__
    asking = sa.func.coalesce(links.c.sweep_id, of_trial.c.own)
    is_simulated = TrialRow.device_kind == DeviceKind.SIMULATED_GPU
    newest = sa.func.max(sa.case((asking > of_trial.c.own, asking), else_=of_trial.c.own))
    found = (
        sa.select(is_simulated.label("is_simulated"), newest.label("sweep_id"))
        .select_from(of_trial)
        .join(TrialRow, TrialRow.id == of_trial.c.trial_id)
        .outerjoin(links, links.c.trial_id == of_trial.c.trial_id)
        .group_by(is_simulated)
    )
    with reading(engine) as connection:
        if sweep is not None:
            named = sa.select(SweepRow.id).where(SweepRow.name == sweep).scalar_subquery()
            found = found.where(sa.or_(links.c.sweep_id == named, of_trial.c.own == named))
        by_age = found.subquery()
        rows = connection.execute(
            sa.select(by_age.c.is_simulated, SweepRow.name)
            .join(SweepRow, SweepRow.id == by_age.c.sweep_id)
            .order_by(SweepRow.id.desc(), by_age.c.is_simulated)
        ).all()
    return {Origin.SIMULATED if simulated else Origin.MEASURED: name for simulated, name in rows}
