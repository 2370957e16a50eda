"""Takes the attempts of a database as values of nights."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import date, datetime

from analysis.history.record import Night
from analysis.history.values import UNKNOWN, Value
from analysis.results import AXES
from analysis.text.versions import described
from scalemark.records.free_axes import PREFIX
from scalemark.text.wording import counted
from store.reading.nights import Process, Processes, SweepHead
from store.reading.queries import Row


def of_attempts(found: Processes, *, across_machines: bool) -> list[Value]:
    """Each sweep belongs to the day on which it began, so that midnight parts no repeats."""
    nights: dict[tuple[str, date, str], Night] = {}
    values: dict[tuple[str, str, str, int], Value] = {}
    names = _sweeps_by_night(found)
    axes = {trial_id: _axes(found.trials[trial_id]) for trial_id in found.trials}
    for process in found.rows:
        where = (_machine(process, found, across_machines), *_when(process, found))
        if where not in nights:
            heads = [found.sweeps[sweep_id] for sweep_id in names[where[1:]]]
            nights[where] = Night(
                day=where[1],
                software=_software(process, found, across_machines),
                sweeps=tuple(head.name for head in heads),
                accepted=next((head.name for head in heads if head.is_accepted), ""),
            )
        night = nights[where]
        key = (where[0], process.trial_id, process.item, id(night))
        if key not in values:
            values[key] = Value(
                machine=where[0],
                host=found.machines[process.machine_id]["host"],
                trial_id=process.trial_id,
                axes=axes[process.trial_id],
                item=process.item,
                night=night,
                throughputs=[],
            )
        values[key].throughputs.append(process.throughput)
    return list(values.values())


def _axes(trial: Row) -> dict[str, object]:
    free = [name for name in trial if name.startswith(PREFIX)]
    return {
        name.removeprefix(PREFIX): trial[name]
        for name in (*AXES, *free)
        if trial.get(name) not in UNKNOWN
    }


def _when(process: Process, found: Processes) -> tuple[date, str]:
    """Return the day and the software, by which nights are told apart."""
    environment = found.environments.get(process.environment_id or 0)
    software = environment["software_key"] if environment else ""
    driver = found.machines[process.machine_id]["driver"]
    return found.sweeps[process.sweep_id].started_at.date(), f"{software} {driver}"


def _sweeps_by_night(found: Processes) -> dict[tuple[date, str], dict[int, None]]:
    names: dict[tuple[date, str], dict[int, None]] = defaultdict(dict)
    for process in found.rows:
        names[_when(process, found)][process.sweep_id] = None
    return names


def _machine(process: Process, found: Processes, across_machines: bool) -> str:
    """Name the hardware without its driver, which is software to a history."""
    if across_machines:
        return "all machines"
    machine = found.machines[process.machine_id]
    parts = [f"{machine['num_cores']} cores {machine['cpu']}"]
    if machine["num_gpus"]:
        parts.append(f"{machine['num_gpus']} x {machine['gpu']}")
    if process.shares_host:
        parts.append("shared host")
    return f"{machine['host']}: {', '.join(parts)}"


def _software(process: Process, found: Processes, across_machines: bool) -> dict[str, str]:
    environment = found.environments.get(process.environment_id or 0)
    known = described([environment] if environment else [])
    if environment and environment["revision"]:
        known["commit of scalemark"] = environment["revision"][:12]
    if driver := found.machines[process.machine_id]["driver"]:
        known["driver"] = driver
    if across_machines:
        known["machine"] = _machine(process, found, across_machines=False)
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
