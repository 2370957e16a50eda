"""Merges results databases of SQLite: what is there stays, what is new is added.

A copy of the other database is attached, and its rows are added by what identifies them in every
database, table by table; their ids become ids of this one. All is one transaction.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from scalemark.cli.terminal import Progress, silent
from scalemark.host.own_code import typed
from scalemark.records.attempt import spec_of
from scalemark.records.measurement import IN_FLIGHT
from scalemark.records.references import Rejected
from scalemark.records.trial import READING
from scalemark.records.validation import parsed
from scalemark.text.untrusted import masked
from scalemark.text.wording import listed
from store.checks import check
from store.database import explained, locate, open_for_writing
from store.errors import StoreError
from store.rebuild import free_name
from store.schema import Base
from store.sqlite import SqliteFile, copy_whole
from store.tables import insert_trials

_RUNS = f"({', '.join(repr(str(state)) for state in IN_FLIGHT)})"
_SHARED: dict[str, tuple[str, ...]] = {
    "machines": ("key",),
    "environments": ("key",),
    "placements": ("key",),
    "op_placements": ("key",),
    "reference_results": ("key",),
    "gpus": ("machine_id", "uuid"),
    "gpu_links": ("machine_id", "first_uuid", "second_uuid"),
}
"""Tables of what many attempts share, and the columns that identify a row in every database."""

_OF_SWEEPS: dict[str, tuple[str, ...]] = {
    "sweep_trials": ("sweep_id", "trial_id"),
    "left_out": ("sweep_id", "overrides"),
}
_OF_ATTEMPTS: dict[str, tuple[str, ...]] = {
    "measurements": ("attempt_id",),
    "step_arrays": ("attempt_id",),
    "tags": ("sweep_id", "trial_id", "attempt_id", "tag"),
}
_ATTEMPT = ("sweep_id", "trial_id", "repeat", "attempt")
_OF_HOST = ("orchestrator_id", "started_at", "run_dir", "placement", "pid", "start_ticks")
"""What only the host of a running repeat knows."""

_NOT_COMPARED = ("id", "run_dir", "deleted_at", "attempt_id")


@dataclass(slots=True)
class Merged:
    """What became of the rows of other databases."""

    num_new: int = 0  # attempts
    num_known: int = 0  # attempts that were there already
    num_references: int = 0  # new references, and rows of tables of others
    renamed: dict[str, str] = field(default_factory=dict)  # sweep -> its name here
    rejected: list[Rejected] = field(default_factory=list)  # attempts that lost a conflict


def merge(url: str, others: Sequence[str], progress: Progress = silent) -> Merged:
    """Add what other databases hold to the one at `url`, which is made when it is not there.

    Raises StoreError, before anything is changed, for what is no SQLite database of this version,
    or is damaged.
    """
    target = locate(url)
    if not isinstance(target, SqliteFile):
        raise StoreError(
            f"{target.name}: a server's database; only SQLite files are merged. "
            f"`{typed('db')} rebuild` reads run folders into it"
        )
    merged = Merged()
    with tempfile.TemporaryDirectory(prefix="scalemark-merge-") as folder:
        copies = []
        for number, other in enumerate(others):
            copy = Path(folder) / f"{number}.db"
            _copy_sound(other, copy, target.path, progress)
            copies.append((Path(other).name, copy))
        engine = open_for_writing(url)
        try:
            for name, copy in copies:
                _merge_one(engine, name, copy, merged)
        finally:
            engine.dispose()
    return merged


def _copy_sound(other: str, copy: Path, target: Path, progress: Progress) -> None:
    """Copy a database that can be merged. Raises StoreError for any other."""
    database = locate(other)
    if not isinstance(database, SqliteFile):
        raise StoreError(f"{masked(other)}: a server's database; only SQLite files are merged")
    if target.exists() and database.path.exists() and target.samefile(database.path):
        raise StoreError(f"{other}: the database itself; name another one")
    with database.explained():
        if not database.is_made():
            raise StoreError(f"{other}: no such database, or an empty one; nothing was merged")
        copy_whole(database.path, copy, progress)
    open_for_writing(str(copy)).dispose()  # gives it the axes that were defined since
    for finding in check(str(copy), progress):
        where = f"{finding.table} {finding.row}".strip()
        raise StoreError(
            f"{other}: damaged ({where}: {finding.what}); nothing was merged. "
            f"`{typed('db')} check --db {other}` lists all, and what to do"
        )


def _merge_one(engine: sa.Engine, name: str, copy: Path, merged: Merged) -> None:
    with explained(engine), engine.connect() as connection:
        driver: Any = connection.connection.driver_connection  # attached outside a transaction
        driver.execute("ATTACH ? AS other", (str(copy),))
        try:
            with connection.begin():
                _Merging(connection, name, merged).run()
        # cells of another kind than their columns, which SQLite takes
        except (sa.exc.IntegrityError, ValueError, TypeError, AttributeError) as error:
            why = " ".join(str(error).partition("\n")[0].split())
            raise StoreError(f"{name}: damaged ({why}); nothing of it was merged") from error
        driver.execute("DETACH other")


@dataclass
class _Merging:
    """Adds the rows of the attached database. `id_of_TABLE` has the new id of each old one."""

    _connection: sa.Connection
    _name: str
    _merged: Merged
    _mapped: list[str] = field(default_factory=list)  # tables of which new ids are known

    def run(self) -> None:
        for table, key in _SHARED.items():
            num = self._add(table, key)
            if table == "reference_results":
                self._merged.num_references += num
        self._add_trials()
        self._add_sweeps()
        for table, key in _OF_SWEEPS.items():
            self._add(table, key)
        self._add_repeats()
        self._add_attempts()
        for table, key in _OF_ATTEMPTS.items():
            self._add(table, key)
        for table in self._mapped:
            self._sql(f"DROP TABLE temp.id_of_{table}")

    def _sql(self, sql: str, **values: Any) -> sa.CursorResult[Any]:
        return self._connection.execute(sa.text(sql), values)

    def _columns(self, table: str) -> list[str]:
        return [column.name for column in Base.metadata.tables[table].columns]

    def _taken(self, table: str, columns: Sequence[str]) -> tuple[dict[str, str], str]:
        """Return each column as SQL, with ids of this database, and the joins that it needs."""
        taken = {name: f'there."{name}"' for name in columns}
        joins = ""
        for other in self._mapped:
            name = f"{other.removesuffix('s')}_id"
            if name in columns:
                taken[name] = f"of_{other}.new"
                joins += (
                    f" LEFT JOIN temp.id_of_{other} AS of_{other} ON of_{other}.old = there.{name}"
                )
        return taken, joins

    def _add(self, table: str, key: Sequence[str], where: str = "true", **instead: str) -> int:
        """Add the rows that are not there by their key; `instead` are other values of columns."""
        columns = self._columns(table)
        has_id = "id" in columns
        taken, joins = self._taken(table, [name for name in columns if name != "id"])
        same = " AND ".join(f'here."{name}" IS {taken[name]}' for name in key)
        # what belongs to a row that lost a conflict is left out with it
        whole = " AND ".join(
            f"(there.{name} IS NULL OR {value} IS NOT NULL)"
            for name, value in taken.items()
            if value.endswith(".new")
        )
        taken |= {name: value for name, value in instead.items() if name in taken}
        names = ", ".join(f'"{name}"' for name in taken)
        added = self._sql(
            f"INSERT INTO main.{table} ({names}) SELECT {', '.join(taken.values())} "
            f"FROM other.{table} AS there{joins} WHERE {where} AND {whole or 'true'} "
            f"AND NOT EXISTS (SELECT 1 FROM main.{table} AS here WHERE {same})"
        )
        if has_id and table not in ("tags", "reference_results"):
            self._map(
                table, f"FROM other.{table} AS there{joins} JOIN main.{table} AS here ON {same}"
            )
        return added.rowcount

    def _map(self, table: str, pairs: str) -> None:
        self._sql(
            f"CREATE TEMP TABLE id_of_{table} AS SELECT there.id AS old, here.id AS new {pairs}"
        )
        self._sql(f"CREATE INDEX temp.ix_{table} ON id_of_{table} (old)")
        self._mapped.append(table)

    def _add_trials(self) -> None:
        """Add trials by their specs, so that free axes get their columns.

        Raises ReadOtherwiseError.
        """
        same = " AND ".join(f"here.{name} IS there.{name}" for name in ("id", *READING))
        here = f"SELECT id FROM main.trials AS here WHERE {same}"
        new = f"SELECT id, spec FROM other.trials AS there WHERE NOT EXISTS ({here})"
        specs = {row.id: spec_of(parsed(row.spec)) for row in self._sql(new)}
        insert_trials(self._connection, specs)

    def _add_sweeps(self) -> None:
        (own_id,) = self._sql("SELECT value FROM main.database_info WHERE name = 'id'").one()
        (other_id,) = self._sql("SELECT value FROM other.database_info WHERE name = 'id'").one()
        new = "SELECT * FROM other.sweeps WHERE uid NOT IN (SELECT uid FROM main.sweeps)"
        for row in self._sql(f"{new} ORDER BY id").mappings().all():
            values = {name: row[name] for name in self._columns("sweeps") if name != "id"}
            values["name"] = free_name(self._connection, row["name"])
            if values["name"] != row["name"]:
                self._merged.renamed[row["name"]] = values["name"]
            origin = row["origin"] or f"{other_id} {self._name}"
            # what comes back to where it was measured is at home
            values["origin"] = "" if origin.split(" ")[0] == own_id else origin
            names = ", ".join(values)
            wanted = ", ".join(f":{name}" for name in values)
            self._sql(f"INSERT INTO main.sweeps ({names}) VALUES ({wanted})", **values)
        self._map(
            "sweeps", "FROM other.sweeps AS there JOIN main.sweeps AS here ON here.uid = there.uid"
        )
        self._sql(
            "UPDATE main.sweeps SET finished_at = there.finished_at FROM other.sweeps AS there "
            "WHERE there.uid = main.sweeps.uid AND main.sweeps.origin != '' AND "
            "there.finished_at > ifnull(main.sweeps.finished_at, '')"
        )

    def _add_repeats(self) -> None:
        """Add repeats; what runs elsewhere waits here, and one with fewer attempts here stands
        where the other one does.
        """
        key = ("sweep_id", "trial_id", "repeat")
        state = f"CASE WHEN there.state IN {_RUNS} THEN 'pending' ELSE there.state END"
        num_attempts = "there.num_attempts - (there.state = 'running')"
        self._add(
            "repeats",
            key,
            state=state,
            num_attempts=num_attempts,
            **dict.fromkeys(_OF_HOST, "NULL"),
        )
        self._sql(
            f"""
            UPDATE main.repeats SET state = {state}, reason = there.reason,
                num_attempts = {num_attempts}
            FROM other.repeats AS there JOIN temp.id_of_repeats AS pair ON pair.old = there.id
            WHERE main.repeats.id = pair.new AND main.repeats.state NOT IN {_RUNS}
                AND {num_attempts} > main.repeats.num_attempts
            """
        )

    def _add_attempts(self) -> None:
        """Add attempts; of those that are known the ones that differ lose, which is reported."""
        columns = self._columns("attempts")
        taken, joins = self._taken("attempts", [name for name in columns if name != "id"])
        same = " AND ".join(f"here.{name} = {taken[name]}" for name in _ATTEMPT)
        both = f"FROM other.attempts AS there{joins} JOIN main.attempts AS here ON {same}"
        self._reject_differing(both, taken)
        busy = (
            "EXISTS (SELECT 1 FROM main.repeats AS running WHERE running.sweep_id = "
            f"{taken['sweep_id']} AND running.trial_id = there.trial_id "
            f"AND running.repeat = there.repeat AND running.state IN {_RUNS})"
        )
        is_new = f"NOT EXISTS (SELECT 1 FROM main.attempts AS here WHERE {same})"
        there = f"FROM other.attempts AS there{joins} {_SWEEP}"
        for row in self._sql(f"SELECT {_WHICH} {there} WHERE {is_new} AND {busy}"):
            self._reject(row, "it is being run here; merge again once it has ended")
        (known,) = self._sql(f"SELECT count(*) {both}").one()
        self._merged.num_known += known
        # where the same sweep has its folders elsewhere, the whole path is stored
        run_dir = f"""
            (SELECT CASE WHEN ours.run_dir IS theirs.run_dir OR there.run_dir LIKE '/%'
                THEN there.run_dir ELSE theirs.run_dir || '/' || there.run_dir END
            FROM main.sweeps AS ours, other.sweeps AS theirs
            WHERE ours.id = {taken["sweep_id"]} AND theirs.id = there.sweep_id)
        """
        self._merged.num_new += self._add("attempts", _ATTEMPT, f"NOT {busy}", run_dir=run_dir)
        self._merged.num_known -= self._sql(
            "DELETE FROM temp.id_of_attempts WHERE old IN (SELECT id FROM temp.differing)"
        ).rowcount
        self._sql("DROP TABLE temp.differing")

    def _reject_differing(self, both: str, taken: dict[str, str]) -> None:
        """Note the attempts that are known with other values, and say which columns differ."""
        pairs = {f"here.{name}": value for name, value in taken.items()}
        measured, of_ops = self._taken("measurements", self._columns("measurements"))
        pairs |= {
            f"ours.{name}": value.replace("there.", "theirs.") for name, value in measured.items()
        }
        told = []
        for ours, theirs in pairs.items():
            name = ours.partition(".")[2]
            if name not in (*_ATTEMPT, *_NOT_COMPARED):
                told.append(f"CASE WHEN {ours} IS NOT {theirs} THEN '{name} ' ELSE '' END")
        self._sql(
            f"CREATE TEMP TABLE differing AS SELECT there.id AS id, {' || '.join(told)} AS columns "
            f"{both} LEFT JOIN main.measurements AS ours ON ours.attempt_id = here.id "
            "LEFT JOIN other.measurements AS theirs ON theirs.attempt_id = there.id"
            f"{of_ops.replace('there.', 'theirs.')}"
        )
        self._sql("DELETE FROM temp.differing WHERE columns = ''")
        for row in self._sql(
            f"SELECT {_WHICH}, differing.columns FROM other.attempts AS there {_SWEEP} "
            "JOIN temp.differing ON differing.id = there.id ORDER BY there.id"
        ):
            names = [name.removesuffix("_id") for name in row[-1].split()]
            self._reject(row, f"differs in {listed(names)} from what is here, which stays")

    def _reject(self, row: Any, why: str) -> None:
        attempt, repeat, trial_id, sweep = row[:4]
        which = f"attempt {attempt} of repeat {repeat} of trial {trial_id[:8]} of sweep {sweep}"
        self._merged.rejected.append(Rejected(where=self._name, reason=f"{which}: {why}"))


_WHICH = "there.attempt, there.repeat, there.trial_id, of_sweep.name"
_SWEEP = "JOIN other.sweeps AS of_sweep ON of_sweep.id = there.sweep_id"
