"""Takes the attempts of a database as values of nights."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime

from analysis.history.record import Night
from analysis.history.values import UNKNOWN, Value
from analysis.results import AXES
from analysis.text.versions import described
from scalemark.records.earlier_trial import ID_DIGITS
from scalemark.records.free_axes import PREFIX, is_free
from scalemark.text.wording import counted
from store.reading.nights import Process, Processes, SweepHead
from store.reading.queries import Row


def of_attempts(found: Processes, *, across_machines: bool) -> list[Value]:
    """Return a value per trial and night. A sweep belongs to the day on which it began, so that
    midnight parts no repeats.
    """
    by_night: dict[tuple[str, date, str], list[Process]] = defaultdict(list)
    for process in found.rows:
        machine = _ALL if across_machines else _machine(process, found)
        by_night[machine, *_when(process, found)].append(process)
    axes = {trial_id: _axes(trial) for trial_id, trial in found.trials.items()}
    values: list[Value] = []
    for (machine, day, _), of_night in by_night.items():
        night = _night(day, of_night, found, across_machines=across_machines)
        host = found.machines[of_night[0].machine_id]["host"]
        throughputs: dict[tuple[str, str], list[float]] = defaultdict(list)
        for process in of_night:
            throughputs[process.trial_id, process.item].append(process.throughput)
        for (trial_id, item), of_trial in throughputs.items():
            value = Value(
                machine=machine,
                host=host,
                trial_id=trial_id,
                label=_label(trial_id, axes[trial_id]),
                axes=axes[trial_id],
                item=item,
                night=night,
                throughputs=of_trial,
            )
            values.append(value)
    return values


_ALL = "all machines"


def _night(
    day: date, of_night: Sequence[Process], found: Processes, *, across_machines: bool
) -> Night:
    first = of_night[0]
    software = _software(first, found)
    if across_machines:
        software["machine"] = _machine(first, found)
    trials: dict[int, set[str]] = defaultdict(set)  # by the id of their sweep
    for process in of_night:
        trials[process.sweep_id].add(process.trial_id)
    heads = {sweep_id: found.sweeps[sweep_id] for sweep_id in trials}
    return Night(
        day=day,
        software=software,
        trials={head.name: frozenset(trials[sweep_id]) for sweep_id, head in heads.items()},
        accepted=next((head.name for head in heads.values() if head.is_accepted), ""),
    )


def _axes(trial: Row) -> dict[str, object]:
    free = [name for name in trial if is_free(name)]
    return {
        name.removeprefix(PREFIX): trial[name]
        for name in (*AXES, *free)
        if trial.get(name) not in UNKNOWN
    }


def _label(trial_id: str, axes: Mapping[str, object]) -> str:
    words = dict.fromkeys(str(axes[name]) for name in ("model", "strategy") if name in axes)
    return " ".join([*words, f"num_gpus={axes['num_gpus']}", trial_id[:ID_DIGITS]])


def _when(process: Process, found: Processes) -> tuple[date, str]:
    """Return the day, and the software and machine, by which nights are told apart."""
    environment = found.environments.get(process.environment_id or 0)
    software = environment["software_key"] if environment else ""
    driver = found.machines[process.machine_id]["driver"]
    where = f"{software} {driver} {_machine(process, found)}"
    return found.sweeps[process.sweep_id].started_at.date(), where


def _machine(process: Process, found: Processes) -> str:
    """Name the hardware without its driver, which is software to a history."""
    machine = found.machines[process.machine_id]
    parts = [f"{machine['num_cores']} cores {machine['cpu']}"]
    if machine["num_gpus"]:
        parts.append(f"{machine['num_gpus']} x {machine['gpu']}")
    if process.shares_host:
        parts.append("shared host")
    return f"{machine['host']}: {', '.join(parts)}"


def _software(process: Process, found: Processes) -> dict[str, str]:
    environment = found.environments.get(process.environment_id or 0)
    known = described([environment] if environment else [])
    if environment and environment["revision"]:
        known["commit of scalemark"] = environment["revision"][:12]
    if driver := found.machines[process.machine_id]["driver"]:
        known["driver"] = driver
    return known


def clock_notes(sweeps: Iterable[SweepHead]) -> list[str]:
    """Tell of sweeps of our own that are dated before one that was stored earlier."""
    latest: datetime | None = None
    back = []
    for sweep in sweeps:
        if sweep.is_imported:
            continue
        if latest is not None and sweep.started_at.date() < latest.date():
            back.append(sweep.name)
        latest = max(latest or sweep.started_at, sweep.started_at)
    if not back:
        return []
    what = counted(len(back), "sweep")
    return [
        f"a clock went backwards: {what} ({back[0]} first) dated before one that was stored "
        "earlier; nights are in the order of their dates"
    ]
