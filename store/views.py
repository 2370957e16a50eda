"""The views: plain SQL that any reader of the database can run, for SQLite and for PostgreSQL.

Numbers of simulated GPUs have views and columns of their own, so that nobody takes the mean of
measured and computed numbers by accident.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from store.errors import StoreError

_SIMULATED = "trials.device_kind = 'simulated_gpu'"
_MEASURED = "trials.device_kind <> 'simulated_gpu'"

_RUN_DIR = """CASE WHEN substr(attempts.run_dir, 1, 1) = '/' THEN attempts.run_dir
            ELSE sweeps.run_dir || '/' || attempts.run_dir END AS run_dir"""

_ATTEMPTS = """FROM attempts
JOIN trials ON trials.id = attempts.trial_id
JOIN sweeps ON sweeps.id = attempts.sweep_id
JOIN machines ON machines.id = attempts.machine_id"""

# In all views the axes stand last, in the order of the table: a column for a new axis comes behind
# them, so that PostgreSQL can replace a view and keep the rights on it and the views on top of it.
_THROUGHPUT = """
SELECT attempts.id AS attempt_id, sweeps.name AS sweep, trials.id AS trial_id, machines.host,
       machines.gpu, environments.software_key, attempts.shares_host, attempts.repeat,
       measurements.item, measurements.throughput, measurements.throughput_low,
       measurements.throughput_high, measurements.median_step_s, measurements.p90_step_s,
       measurements.jitter_s, measurements.data_wait_share, measurements.cpu_s,
       measurements.peak_host_memory_bytes, measurements.peak_device_memory_bytes,
       measurements.mfu, measurements.peak_flops_per_s, measurements.variable_bytes,
       measurements.optimizer_state_bytes, measurements.verdict, attempts.started_at,
       {axes_but_item}
{attempts}
JOIN measurements ON measurements.attempt_id = attempts.id
LEFT JOIN environments ON environments.id = attempts.environment_id
WHERE attempts.outcome = 'completed' AND attempts.deleted_at IS NULL AND {which}
"""

_LATEST_ATTEMPTS = """
SELECT attempts.id AS attempt_id, sweeps.name AS sweep, trials.id AS trial_id, machines.host,
       attempts.repeat, attempts.attempt, attempts.outcome, attempts.message, attempts.exit_code,
       attempts.started_at, attempts.duration_s, measurements.item,
       CASE WHEN {measured} THEN measurements.throughput END AS throughput,
       measurements.verdict, {run_dir},
       CASE WHEN {simulated} THEN measurements.throughput END AS simulated_throughput,
       {axes_but_item}
{attempts}
LEFT JOIN measurements ON measurements.attempt_id = attempts.id
WHERE attempts.deleted_at IS NULL AND NOT EXISTS (
    SELECT 1 FROM attempts AS later
    WHERE later.trial_id = attempts.trial_id AND later.sweep_id = attempts.sweep_id
          AND later.repeat = attempts.repeat AND later.attempt > attempts.attempt
          AND later.deleted_at IS NULL
)
"""

_FAILURES = """
SELECT attempts.id AS attempt_id, sweeps.name AS sweep, trials.id AS trial_id, machines.host,
       attempts.repeat, attempts.attempt, attempts.outcome, attempts.message, attempts.exit_code,
       attempts.started_at, attempts.duration_s, {run_dir}, {axes}
{attempts}
WHERE attempts.outcome <> 'completed' AND attempts.deleted_at IS NULL
"""

# The median without a division: DuckDB, which runs the text of views itself, has no division of
# whole numbers.
_MEDIAN = """(
    SELECT avg(ranked.throughput)
    FROM (
      SELECT measurements.throughput,
             row_number() OVER (ORDER BY measurements.throughput) AS place,
             count(*) OVER () AS num
      FROM attempts
      JOIN measurements ON measurements.attempt_id = attempts.id
      JOIN environments ON environments.id = attempts.environment_id
      WHERE attempts.trial_id = {trial} AND attempts.machine_id = grouped.machine_id
            AND environments.software_key = grouped.software_key
            AND attempts.shares_host = grouped.shares_host AND measurements.item = grouped.item
            AND attempts.outcome = 'completed' AND attempts.deleted_at IS NULL
    ) AS ranked
    WHERE 2 * ranked.place BETWEEN ranked.num AND ranked.num + 2
  )"""

# One GPU is on one host: a curve has one such trial.
_ON_ONE_GPU = """(SELECT one.id FROM trials AS one
         WHERE one.curve = grouped.curve AND one.num_gpus = 1 AND one.hosts = 1)"""

# The axes in GROUP BY let conditions on them reach the tables' indices. DISTINCT changes no row:
# it keeps both engines from computing each median again wherever it is named.
_SCALING = """
SELECT compared.trial_id, compared.curve, compared.machine_id, compared.host, compared.gpu,
       compared.software_key, compared.shares_host, compared.item, compared.num_repeats,
       compared.lowest, compared.highest, compared.num_doubtful, compared.throughput,
       compared.throughput_on_1,
       compared.throughput / nullif(compared.throughput_on_1, 0) AS speed_up,
       compared.throughput / nullif(compared.throughput_on_1, 0)
           / compared.num_gpus AS efficiency, {compared_axes}
FROM (
  SELECT DISTINCT grouped.*,
  {median} AS throughput,
  {median_on_1} AS throughput_on_1
  FROM (
    SELECT trials.id AS trial_id, trials.curve, {axes_but_item},
           attempts.machine_id, machines.host, machines.gpu, environments.software_key,
           attempts.shares_host, measurements.item, count(*) AS num_repeats,
           min(measurements.throughput) AS lowest,
           max(measurements.throughput) AS highest,
           sum(CASE WHEN measurements.verdict = 'valid' THEN 0 ELSE 1 END) AS num_doubtful
    FROM attempts
    JOIN trials ON trials.id = attempts.trial_id
    JOIN machines ON machines.id = attempts.machine_id
    JOIN measurements ON measurements.attempt_id = attempts.id
    JOIN environments ON environments.id = attempts.environment_id
    WHERE attempts.outcome = 'completed' AND attempts.deleted_at IS NULL AND {which}
    GROUP BY trials.id, trials.curve, {axes_but_item},
             attempts.machine_id, machines.host, machines.gpu, environments.software_key,
             attempts.shares_host, measurements.item
  ) AS grouped
) AS compared
"""

_STEP_SAMPLES = {
    "sqlite": """
SELECT attempt_id, step,
       CASE WHEN place < num_warm_up THEN 'warm_up' ELSE 'measure' END AS phase,
       (sum(gap_us + duration_us) OVER (PARTITION BY attempt_id ORDER BY place) - duration_us)
           / 1e6 AS start_s,
       duration_us / 1e6 AS duration_s, wait_us / 1e6 AS data_wait_s, loss, num_steps
FROM (
  SELECT arrays.attempt_id, each.key AS place,
         arrays.first_step + each.key * arrays.num_steps AS step, arrays.num_warm_up,
         arrays.num_steps,
         (arrays.least_duration + each.value) * arrays.time_unit_us AS duration_us,
         coalesce(json_extract(arrays.data_wait, '$[' || each.key || ']'), 0)
             * arrays.time_unit_us AS wait_us,
         json_extract(arrays.gap_before, '$[' || each.key || ']') * arrays.time_unit_us AS gap_us,
         arrays.least_loss
             + json_extract(arrays.loss_over_least, '$[' || each.key || ']') * arrays.loss_unit
             AS loss
  FROM step_arrays AS arrays
  JOIN attempts ON attempts.id = arrays.attempt_id AND attempts.deleted_at IS NULL
  CROSS JOIN json_each(arrays.duration_over_least) AS each
)
""",
    "postgresql": """
SELECT attempt_id, step,
       CASE WHEN place < num_warm_up THEN 'warm_up' ELSE 'measure' END AS phase,
       CAST(sum(gap_us + duration_us) OVER (PARTITION BY attempt_id ORDER BY place) - duration_us
            AS double precision) / 1e6 AS start_s,
       CAST(duration_us AS double precision) / 1e6 AS duration_s,
       CAST(wait_us AS double precision) / 1e6 AS data_wait_s, loss, num_steps
FROM (
  SELECT arrays.attempt_id, each.number - 1 AS place,
         arrays.first_step + (each.number - 1) * arrays.num_steps AS step,
         arrays.num_warm_up, arrays.num_steps,
         (arrays.least_duration + CAST(each.over_least AS bigint)) * arrays.time_unit_us
             AS duration_us,
         coalesce(CAST(each.wait AS bigint), 0) * arrays.time_unit_us AS wait_us,
         CAST(each.gap AS bigint) * arrays.time_unit_us AS gap_us,
         arrays.least_loss + CAST(each.loss AS double precision) * arrays.loss_unit AS loss
  FROM step_arrays AS arrays
  JOIN attempts ON attempts.id = arrays.attempt_id AND attempts.deleted_at IS NULL
  CROSS JOIN LATERAL ROWS FROM (
      json_array_elements_text(arrays.duration_over_least),
      json_array_elements_text(arrays.data_wait),
      json_array_elements_text(arrays.gap_before),
      json_array_elements_text(arrays.loss_over_least)
  ) WITH ORDINALITY AS each (over_least, wait, gap, loss, number)
) AS unpacked
""",
}

_TIME_OF_EVENT = {
    "sqlite": (
        "strftime('%Y-%m-%d %H:%M:%S', events.at_unix_us / 1000000, 'unixepoch') "
        "|| printf('.%06d', events.at_unix_us % 1000000)"
    ),
    "postgresql": "timestamp '1970-01-01' + events.at_unix_us * interval '1 microsecond'",
}

_STATE_CHANGES = """
SELECT events.repeat_id, sweeps.name AS sweep, repeats.trial_id, repeats.repeat, events.number,
       events.attempt, events.state, events.detail, {time} AS at
FROM events
JOIN repeats ON repeats.id = events.repeat_id
JOIN sweeps ON sweeps.id = repeats.sweep_id
"""


_ATTEMPT_VIEWS = {"latest_attempts": _LATEST_ATTEMPTS, "failures": _FAILURES}
_TRIAL_VIEWS = {"throughput": _THROUGHPUT, "scaling": _SCALING}
_PREFIXES = {"": _MEASURED, "simulated_": _SIMULATED}

WITH_AXES = (*_ATTEMPT_VIEWS, *(f"{prefix}{name}" for prefix in _PREFIXES for name in _TRIAL_VIEWS))
"""Views that have a column for every axis of the table `trials`."""

_NOT_AXES = ("id", "curve", "spec")


def create_views(connection: sa.Connection) -> None:
    """Create all of them, inside the caller's transaction."""
    dialect = connection.dialect.name
    replace_views(connection)
    _replace(connection, "step_samples", _STEP_SAMPLES[dialect])
    _replace(connection, "state_changes", _STATE_CHANGES.format(time=_TIME_OF_EVENT[dialect]))


def replace_views(connection: sa.Connection) -> None:
    """Make those of `WITH_AXES` for the axes that the table has now.

    On PostgreSQL rights on them and views on top of them stay; SQLite has no rights, and looks up
    what a view names when it is read.
    """
    columns = [one["name"] for one in sa.inspect(connection).get_columns("trials")]
    axes = [name for name in columns if name not in _NOT_AXES]
    parts = {
        # quoted, because a sweep may have called an axis `order`
        "axes": ", ".join(f'trials."{name}"' for name in axes),
        "compared_axes": ", ".join(f'compared."{name}"' for name in axes if name != "item"),
        "attempts": _ATTEMPTS,
        "run_dir": _RUN_DIR,
        "measured": _MEASURED,
        "simulated": _SIMULATED,
        "median": _MEDIAN.format(trial="grouped.trial_id"),
        "median_on_1": _MEDIAN.format(trial=_ON_ONE_GPU),
    }
    # a measured item has the column of that name, where there is one
    parts["axes_but_item"] = ", ".join(f'trials."{name}"' for name in axes if name != "item")
    for name, view in _ATTEMPT_VIEWS.items():
        _replace(connection, name, view.format(**parts))
    for prefix, which in _PREFIXES.items():
        for name, view in _TRIAL_VIEWS.items():
            _replace(connection, f"{prefix}{name}", view.format(which=which, **parts))


@contextmanager
def views_dropped(connection: sa.Connection, why: str) -> Iterator[None]:
    """Drop those of `WITH_AXES` while a column that they name changes its type, and make them
    again with the rights that others have on them; rights on single columns are not kept.

    Raises StoreError where a view of somebody else is on top of one: no server changes the type of
    a column that views name.
    """
    rights: list[tuple[str, str, str, str]] = []
    if connection.dialect.name == "postgresql":
        rights = [(row[0], row[1], row[2], row[3]) for row in connection.execute(_RIGHTS)]
        above = connection.execute(_VIEWS_ABOVE, {"names": list(WITH_AXES)}).first()
        if above is not None:
            raise StoreError(
                f"{why}, which the view {above.name} on top of {above.of} does not let the "
                f"database store; drop {above.name}, repeat the command, and create it again"
            )
    for name in WITH_AXES:
        connection.exec_driver_sql(f"DROP VIEW IF EXISTS {name}")
    yield
    replace_views(connection)
    quote = connection.dialect.identifier_preparer.quote_identifier
    for name, right, user, is_grantable in rights:
        to = "PUBLIC" if user == "PUBLIC" else quote(user)
        option = " WITH GRANT OPTION" if is_grantable == "YES" else ""
        if name in WITH_AXES:
            connection.exec_driver_sql(f"GRANT {right} ON {name} TO {to}{option}")


_RIGHTS = sa.text("""
SELECT table_name, privilege_type, grantee, is_grantable
FROM information_schema.table_privileges
WHERE table_schema = current_schema() AND grantee <> current_user
""")

_VIEWS_ABOVE = sa.text("""
SELECT above.relname AS name, ours.relname AS of
FROM pg_depend JOIN pg_rewrite ON pg_rewrite.oid = pg_depend.objid
JOIN pg_class AS above ON above.oid = pg_rewrite.ev_class
JOIN pg_class AS ours ON ours.oid = pg_depend.refobjid
JOIN pg_namespace ON pg_namespace.oid = ours.relnamespace
WHERE pg_namespace.nspname = current_schema() AND ours.relname = ANY(:names)
      AND above.oid <> ours.oid
ORDER BY 1
""")


def _replace(connection: sa.Connection, name: str, query: str) -> None:
    # text of its own: SQLAlchemy would take a colon, and psycopg a percent sign, for a parameter
    query = query.replace(":", "\\:")
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text(f"CREATE OR REPLACE VIEW {name} AS {query}"))
    else:
        connection.execute(sa.text(f"DROP VIEW IF EXISTS {name}"))
        connection.execute(sa.text(f"CREATE VIEW {name} AS {query}"))
