"""Keeps the proposals that `judge` has judged in this database: the error that they spent counts
for all that follow.

The table is made by the first that needs it; no other part of the database depends on it.
"""

from dataclasses import asdict, dataclass
from datetime import datetime

import sqlalchemy as sa

from scalemark.stats.welch import level_of
from store.database import reading, writing
from store.errors import StoreError
from store.schema import UtcDateTime

_METADATA = sa.MetaData()
_TABLE = sa.Table(
    "judgements",
    _METADATA,
    sa.Column("series", sa.Text, primary_key=True),  # proposals whose false wins are bounded
    sa.Column("number", sa.Integer, primary_key=True),  # counted from 1 within the series
    sa.Column("sweep", sa.Text, nullable=False),  # the name of the sweep that has its attempts
    sa.Column("baseline_trial", sa.Text, nullable=False),
    sa.Column("change_trial", sa.Text, nullable=False),
    sa.Column("change", sa.Text, nullable=False),  # as on the command line, with --metric
    sa.Column("margin", sa.Double, nullable=False),  # the gain that matters, as 0.02
    sa.Column("allowed", sa.Double, nullable=False),  # share of the series' wins that may be false
    sa.Column("level", sa.Double, nullable=False),  # of a false win of this proposal
    sa.Column("started_at", UtcDateTime, nullable=False),
    sa.Column("ended_at", UtcDateTime),  # null while it is judged, and after a crash
    sa.Column("verdict", sa.Text),  # as what follows; sweeper.early_stopping.rule.ChangeVerdict
    sa.Column("num_attempts", sa.Integer),
    sa.Column("gain", sa.Double),  # as 0.02; null without two numbers
    sa.Column("gain_low", sa.Double),  # of the interval that holds it at all looks
    sa.Column("gain_high", sa.Double),
)
WON = "better"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJudgement:
    """A proposal, before anything of it runs."""

    series: str
    sweep: str
    baseline_trial: str
    change_trial: str
    change: str
    margin: float
    allowed: float
    started_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedProposal:
    """The result of it."""

    verdict: str
    num_attempts: int
    gain: float | None
    gain_low: float | None
    gain_high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesPlace:
    """The place of a proposal in its series."""

    number: int
    num_wins: int  # known before it
    level: float


def begin(engine: sa.Engine, new: NewJudgement) -> SeriesPlace:
    """Give a proposal the next number of its series, and with it its level, in one transaction: two
    that begin at once have two numbers.

    Raises StoreError where the series allows another share of false wins.
    """
    with writing(engine) as connection:
        _METADATA.create_all(connection)
        place = _next_place(connection, new.series, new.allowed)
        row = asdict(new) | {"number": place.number, "level": place.level}
        connection.execute(sa.insert(_TABLE).values(row))
    return place


def end(engine: sa.Engine, series: str, number: int, judged: JudgedProposal, at: datetime) -> None:
    which = (_TABLE.c.series == series, _TABLE.c.number == number)
    with writing(engine) as connection:
        connection.execute(sa.update(_TABLE).where(*which).values(ended_at=at, **asdict(judged)))


def next_place(engine: sa.Engine, series: str, allowed: float) -> SeriesPlace:
    """Return the place that a proposal would have now. Raises StoreError as `begin`."""
    with reading(engine) as connection:
        if not sa.inspect(connection).has_table(_TABLE.name):
            return SeriesPlace(number=1, num_wins=0, level=level_of(1, 0, allowed))
        return _next_place(connection, series, allowed)


def _next_place(connection: sa.Connection, series: str, allowed: float) -> SeriesPlace:
    won = sa.func.count().filter(_TABLE.c.verdict == WON)
    known = sa.select(sa.func.max(_TABLE.c.number), won, sa.func.max(_TABLE.c.allowed))
    last, num_wins, before = connection.execute(known.where(_TABLE.c.series == series)).one()
    if before is not None and before != allowed:
        name = "the series of this database"
        if series:
            name = f"series {series!r}"
        raise StoreError(
            f"--false-wins {100 * allowed:g}: {name} began with {100 * before:g}; leave it as it "
            "is, or begin another series with --series NAME"
        )
    number = (last or 0) + 1
    return SeriesPlace(number=number, num_wins=num_wins, level=level_of(number, num_wins, allowed))
