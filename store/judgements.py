"""Keeps the proposals that `judge` has judged in this database: the error that they spent counts
for all that follow.

The table is made by the first that needs it; no other part of the database depends on it.
"""

from dataclasses import dataclass

import sqlalchemy as sa

from scalemark.stats.welch import level_of
from store.database import reading, writing
from store.schema import UtcDateTime

_SERIES = ""
_METADATA = sa.MetaData()
_TABLE = sa.Table(
    "judgements",
    _METADATA,
    sa.Column("series", sa.Text, primary_key=True),  # empty; earlier versions had named ones
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
ALLOWED = 0.05
"""Share of the wins that may be false. A database that began with another share, as an earlier
version allowed, goes on with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesPlace:
    """The place of a proposal among all of its database."""

    number: int
    num_wins: int  # known before it
    allowed: float = ALLOWED

    @property
    def level(self) -> float:
        """Return how often it may win by chance."""
        return level_of(self.number, self.num_wins, self.allowed)


def begin(engine: sa.Engine, **proposal: object) -> SeriesPlace:
    """Give a proposal, by the columns that say what it is, the next number, and with it its level,
    in one transaction: two that begin at once have two numbers.
    """
    with writing(engine) as connection:
        _METADATA.create_all(connection)
        place = _next_place(connection)
        known = {"number": place.number, "allowed": place.allowed, "level": place.level}
        connection.execute(sa.insert(_TABLE).values(series=_SERIES, **known, **proposal))
    return place


def end(engine: sa.Engine, number: int, **found: object) -> None:
    """Write down what became of a proposal, by the columns that say it."""
    which = (_TABLE.c.series == _SERIES, _TABLE.c.number == number)
    with writing(engine) as connection:
        connection.execute(sa.update(_TABLE).where(*which).values(**found))


def next_place(engine: sa.Engine) -> SeriesPlace:
    """Return the place that a proposal would have now."""
    with reading(engine) as connection:
        if not sa.inspect(connection).has_table(_TABLE.name):
            return SeriesPlace(number=1, num_wins=0)
        return _next_place(connection)


def _next_place(connection: sa.Connection) -> SeriesPlace:
    won = sa.func.count().filter(_TABLE.c.verdict == WON)
    known = sa.select(sa.func.max(_TABLE.c.number), won, sa.func.max(_TABLE.c.allowed))
    last, num_wins, allowed = connection.execute(known.where(_TABLE.c.series == _SERIES)).one()
    return SeriesPlace(number=(last or 0) + 1, num_wins=num_wins, allowed=allowed or ALLOWED)
