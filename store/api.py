"""Gives results as pandas frames, for notebooks and scripts. Nothing can be changed through it.

>>> import store.api
>>> db = store.api.open("results.db")
>>> frame = db.scaling("model=resnet50")
>>> frame[["strategy", "num_gpus", "throughput", "speed_up"]].to_dict("records")
[{'strategy': 'replicated_nccl', 'num_gpus': 1, 'throughput': 100.0, 'speed_up': 1.0}, \
{'strategy': 'replicated_nccl', 'num_gpus': 4, 'throughput': 360.0, 'speed_up': 3.6}]

Every method takes filters as `python -m store list` does: `"model=resnet50"`, `"num_gpus>=4"`,
`"model=resnet50,vgg16"`,
`"model!=vgg16"`, `"sweep~night*"`. Deleted attempts are in no frame. No frame has simulated numbers
beside measured ones: with `simulated=True` it has simulated ones instead. Units stand in the names
of columns; times are UTC.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pandas as pd
import sqlalchemy as sa

from scalemark.host.own_code import typed
from scalemark.records import step_arrays
from scalemark.records.measurement import StepSample
from scalemark.records.outcomes import Phase
from store.database import default_url, open_for_reading, reading
from store.errors import StoreError
from store.filters.bare_names import with_prefixes
from store.reading.attempt_columns import (
    ALL,
    NEEDED_FOR_GROUPS,
    chosen_by,
    read_attempts,
    read_others,
)
from store.reading.columns import take
from store.reading.groups import grouped, kinds_of
from store.reading.scaling_frame import scaling_frame
from store.reading.trial_columns import read_trials
from store.schema import AttemptRow, StepArraysRow


def open(url: str | None = None) -> Database:  # noqa: A001  # as store.api.open it shadows nothing
    """Open a file, a sqlite:/// or a postgresql:// URL; without one SCALEMARK_DB, that of
    the user's settings, else results.db.

    Raises StoreError when there is no such database, or it cannot be read.
    """
    return Database(open_for_reading(url or default_url()))


@dataclass(frozen=True, slots=True)
class Database:
    """A results database, open for reading. Every method raises StoreError for a filter that is
    none.
    """

    engine: sa.Engine

    def attempts(self, *filters: str, simulated: bool = False) -> pd.DataFrame:
        """Return one row per attempt, oldest first.

        >>> frame = db.attempts("outcome=completed", "num_gpus=4")
        >>> frame[["model", "repeat", "throughput"]].values.tolist()
        [['resnet50', 1, 350.0], ['resnet50', 2, 370.0]]
        >>> db.attempts("outcome!=completed")[["model", "outcome"]].values.tolist()
        [['vgg16', 'failed']]

        | column | dtype | |
        |---|---|---|
        | attempt_id | int64 | as `python -m store show` takes it |
        | trial_id | category | all axes follow: category, int64, float64 or bool |
        | sweep, origin | category | origin: where it was imported from, empty for our own |
        | repeat, attempt | int64 | counted from 1 within the sweep, and within the repeat |
        | outcome | category | `scalemark.records.outcomes.Outcome` |
        | shares_host | bool | others ran beside it |
        | started_at | datetime64[us, UTC] | |
        | duration_s | float64 | |
        | num_measured_steps | Int64 | |
        | throughput, .._low, .._high | float64 | of all replicas; 95 % CI within the attempt |
        | median_step_s, jitter_s, p90_step_s, time_to_first_step_s | float64 | |
        | data_wait_share | float64 | 0..1 |
        | cores_taken_by_others | float64 | |
        | steady | boolean | |
        | peak_host_memory_bytes, peak_device_memory_bytes | Int64 | |
        | mfu, peak_flops_per_s | float64 | 0..1; of one device, that mfu was divided by |
        | variable_bytes, optimizer_state_bytes | Int64 | largest of any device |
        | verdict | category | `scalemark.records.outcomes.Verdict` |
        | item | category | what is counted per second: images, tokens |
        | machine, host, cpu, gpu, driver | category | machine: the key that identifies it |
        | software_key, tensorflow, keras, scalemark, revision | category | may be missing |

        Where there is no measurement its columns are missing (NaN or NA). All other columns there
        are: `python -m store list --columns ... --format parquet`.
        """
        with reading(self.engine) as connection:
            chosen = chosen_by(with_prefixes(connection, filters), simulated=simulated)
            attempts = read_attempts(connection, ALL, chosen)
            others = read_others(connection, attempts)
            trials = read_trials(connection, attempts["trial_id"])
        of_trials = trials.of(trials.places_of(attempts["trial_id"]))
        columns = {name: attempts[name] for name in ALL}
        ids = {"attempt_id": columns.pop("attempt_id")}
        sweep = {name: others.pop(name) for name in ("sweep", "origin")}
        return pd.DataFrame(ids | of_trials | sweep | columns | others, copy=False)

    def trials(self, *filters: str, simulated: bool = False) -> pd.DataFrame:
        """Return one row per trial, machine, software and whether others ran beside it: nothing is
        averaged over these. Oldest first.

        >>> frame = db.trials("num_gpus=4", "model=resnet50")
        >>> frame[["num_completed", "throughput", "lowest", "highest"]].values.tolist()
        [[2.0, 360.0, 350.0, 370.0]]

        | column | dtype | |
        |---|---|---|
        | trial_id | category | all axes follow, as in `attempts` |
        | machine, host, cpu, gpu, driver | category | |
        | software_key, tensorflow, keras, scalemark | category | may be missing |
        | shares_host | bool | |
        | num_attempts, num_completed | int64 | |
        | throughput, lowest, highest | float64 | median, slowest and fastest completed |
        | median_step_s | float64 | median of theirs |
        | num_doubtful | int64 | completed, but not of verdict valid |
        """
        with reading(self.engine) as connection:
            chosen = chosen_by(with_prefixes(connection, filters), simulated=simulated)
            attempts = read_attempts(connection, NEEDED_FOR_GROUPS, chosen)
            others = read_others(connection, attempts)
            trials = read_trials(connection, attempts["trial_id"])
        groups = grouped(
            kinds_of(trials.places_of(attempts["trial_id"]), attempts, others), attempts
        )
        first = groups["first"].to_numpy()
        columns = trials.of(groups["trial"].to_numpy()) | {
            name: take(others[name], first) for name in _OF_A_TRIAL
        }
        numbers = groups.drop(columns=["trial", "machine_id", "software", "first"])
        return pd.DataFrame(
            columns | {name: numbers[name].to_numpy() for name in numbers}, copy=False
        )

    def scaling(self, *filters: str, simulated: bool = False) -> pd.DataFrame:
        """Return the view `scaling`, or `simulated_scaling`: each trial against the same on 1 GPU,
        with machine, software and neighbors alike.

        Filters of axes choose rows, which keep their baseline; all others (sweep, host, tag,
        started_at, ...) choose the attempts that rows and baselines are made of.

        >>> frame = db.scaling("model=resnet50", "num_gpus>1")
        >>> frame[["num_repeats", "throughput", "efficiency"]].values.tolist()
        [[2.0, 360.0, 0.9]]

        | column | dtype | |
        |---|---|---|
        | trial_id, curve | category | trials of one curve differ in the numbers of GPUs and hosts,
        and their links, alone |
        | machine_id | int64 | |
        | host, gpu, software_key | category | |
        | shares_host | bool | |
        | item | category | what is counted per second: images, tokens |
        | num_repeats | int64 | completed |
        | lowest, highest, throughput | float64 | slowest, fastest and median of the repeats |
        | num_doubtful | int64 | repeats that are not of verdict valid |
        | throughput_on_1, speed_up, efficiency | float64 | NaN without a baseline |
        | strategy, engine, model, .. injected, seed | category, int64 | all axes, free ones last |
        """
        with reading(self.engine) as connection:
            named = with_prefixes(connection, filters)
            return scaling_frame(connection, named, simulated=simulated)

    def steps(self, attempt: int) -> pd.DataFrame:
        """Return one row per call of the training function of this attempt, in order; none when it
        never stepped.

        >>> db.steps(1)[["step", "phase", "duration_s"]].values.tolist()
        [[0, 'warm_up', 0.2], [1, 'measure', 0.1], [2, 'measure', 0.1]]

        | column | dtype | |
        |---|---|---|
        | step | int64 | its first, counted from 0 |
        | phase | category | warm_up or measure |
        | start_s | float64 | since the first began |
        | duration_s, data_wait_s | float64 | waiting for data is a part of the duration |
        | loss | float64 | NaN where it was not finite |
        | num_steps | int64 | training steps in the call |

        Raises StoreError when there is no such attempt, or it is deleted.
        """
        with reading(self.engine) as connection:
            found = connection.execute(
                sa.select(AttemptRow.deleted_at).where(AttemptRow.id == attempt)
            ).first()
            if found is None:
                raise StoreError(f"{attempt}: no such attempt; see `{typed('store')} list`")
            if found.deleted_at is not None:
                raise StoreError(
                    f"{attempt}: deleted; `{typed('store')} restore {attempt}` brings it back"
                )
            statement = sa.select(StepArraysRow.__table__).where(
                StepArraysRow.attempt_id == attempt
            )
            row = connection.execute(statement).mappings().first()
        steps = step_arrays.unpack(dict(row)) if row else []
        columns = {name: [getattr(step, name) for step in steps] for name in _STEP_DTYPES}
        return pd.DataFrame(
            {name: pd.Series(cells, dtype=_STEP_DTYPES[name]) for name, cells in columns.items()}
        )


_MACHINE = ("machine", "host", "cpu", "gpu", "driver")
_OF_A_TRIAL = (*_MACHINE, "software_key", "tensorflow", "keras", "scalemark")

_PHASES = pd.CategoricalDtype([str(phase) for phase in Phase])
_STEP_DTYPES: dict[str, Any] = {
    field.name: {"int": np.int64, "str": _PHASES}.get(str(field.type), np.float64)
    for field in fields(StepSample)
}
