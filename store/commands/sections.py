"""Prints what `store.reading.show` found, section by section."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from rich.console import Console

from scalemark.cli.terminal import for_people, make_console, print_columns
from scalemark.records.attempt import Placement
from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import Measurement
from scalemark.records.outcomes import Outcome
from scalemark.stats.welch import two_modes
from scalemark.text.wording import counted
from store.reading.queries import Row

_SPARE = ("num_attempts", "data", "precision")  # of the trials of a sweep, for narrow terminals
_ATTEMPT = (
    *("sweep", "repeat", "attempt", "outcome", "message", "exit_code"),
    *("started_at", "duration_s", "deleted_at"),
    *(field.name for field in fields(Placement)),
    "run_dir",
)
_MEASUREMENT = tuple(field.name for field in fields(Measurement))


def print_sections(record: Row) -> None:
    """Print a sweep with its trials, or a trial with each of its attempts."""
    console = make_console()
    if "sweep" in record:
        return _print_sweep(console, record)
    trial = record["trial"]
    # an axis that the trial lacks is none
    lacked = [name for name, value in trial.items() if value is None]
    _facts(console, f"trial {trial['id']}", _without(trial, ("spec", *lacked)))
    note = DeviceKind(trial["device_kind"]).note
    if note:
        console.print(note, style="dim", markup=False)
    for text in _modes(record["attempts"]):
        console.print(text, style="dim", markup=False)
    if not record["attempts"]:
        _annotations(console, record)
    for attempt in record["attempts"]:
        _print_attempt(console, attempt)


def _modes(attempts: Sequence[Row]) -> Iterator[str]:
    """Say where repeats with the same software on the same machine fall into two modes."""
    alike: dict[tuple[object, ...], list[float]] = defaultdict(list)
    for row in attempts:
        if row["outcome"] == Outcome.COMPLETED and row["throughput"] and not row["deleted_at"]:
            where = row["machine_id"], row["software_key"], row["shares_host"]
            alike[where].append(row["throughput"])
    for speeds in alike.values():
        if modes := two_modes(speeds):
            yield modes.words


def _print_attempt(console: Console, row: Row) -> None:
    _facts(console, f"attempt {row['attempt_id']}", {name: row[name] for name in _ATTEMPT})
    if row["throughput"] is not None:
        is_simulated = bool(row["machine_facts"]["hardware_profile"])
        measured = {name: row[name] for name in _MEASUREMENT}
        if row["mfu"] is None:
            measured["mfu"] = "unknown"
        _facts(console, "simulation" if is_simulated else "measurement", measured)
        _facts(console, "truth behind the simulation", row["truth"])
        _facts(console, "other metrics", row["metrics"])
        verdict = {"verdict": row["verdict"]}
        for number, reason in enumerate(row["verdict_reasons"] or (), 1):
            verdict[f"reason {number}"] = reason
        for number, note in enumerate(gpu_notes(row["gpu_telemetry"] or ()), 1):
            verdict[f"note {number}"] = note
        _facts(console, "verdict", verdict)
    _facts(console, "steps", row["steps"])
    _facts(console, "profile", row["profile"])
    _table(console, "each replica's own compute", _rounds(row["replica_times"]))
    _table(console, "GPU telemetry", row["gpu_telemetry"])
    roles = []
    for role, nodes in (row["op_placement"] or {}).items():
        for where, num in nodes.items():
            roles.append({"role": role, "op @ device": where, "nodes": num})
    _table(console, "op placement", roles)
    _facts(console, "machine", row["machine_facts"])
    _table(console, "GPUs", row["gpus"])
    _table(console, "links", row["links"])
    environment = row["environment"] or {}
    nested = ("packages", "variables")
    _facts(console, "environment", _without(environment, nested))
    for section in nested:
        _facts(console, section, environment.get(section))
    _annotations(console, row)


def _rounds(times: Row | None) -> list[Row]:
    rows = []
    seconds: Mapping[str, Sequence[float]] = (times or {}).get("seconds", {})
    for replica, rounds in seconds.items():
        middle, fastest, slowest = statistics.median(rounds), min(rounds), max(rounds)
        row = {"replica": replica, "rounds": len(rounds), "median_s": middle}
        rows.append(row | {"fastest_s": fastest, "slowest_s": slowest})
    return rows


def _annotations(console: Console, row: Row) -> None:
    _table(console, "tags", row["tags"])
    _table(console, "notes", row["notes"])


def _print_sweep(console: Console, record: Row) -> None:
    sweep = record["sweep"]
    _facts(console, f"sweep {sweep['name']}", _without(sweep, ("name",)))
    _facts(console, "repeats", record["counts"])
    lacked = []
    for name in ("batch_size", "precision", "data"):
        if all(row[name] is None for row in record["trials"]):
            lacked.append(name)
    trials = [_without(row | {"trial": row["trial"][:8]}, lacked) for row in record["trials"]]
    _table(console, "trials", trials, _SPARE)
    _table(console, "left out", record["left_out"])
    _annotations(console, record)


def _without(row: Row, names: Sequence[str]) -> Row:
    return {name: value for name, value in row.items() if name not in names}


def _facts(console: Console, title: str, facts: Mapping[str, object] | None) -> None:
    """Print one line for each fact; nothing where there is none."""
    if facts:
        console.print(f"\n{for_people(title)}", style="bold", markup=False)
        lines = ([for_people(name), for_people(value)] for name, value in facts.items())
        print_columns(console, ("", ""), lines)


def _table(
    console: Console, title: str, rows: Sequence[Row] | None, spare: Sequence[str] = ()
) -> None:
    if rows:
        console.print(f"\n{title}", style="bold", markup=False)
        lines = ([for_people(cell) for cell in row.values()] for row in rows)
        print_columns(console, list(rows[0]), lines, spare=spare)


_POWER_CAP = "sw_power_cap"  # as trainer/watching/nvml.py names it
_NEAR_HIGHEST = 0.9  # of the highest clock; above nothing is said


def gpu_notes(telemetry: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a sentence for each of these recorded GpuTelemetry of which there is something to say.

    Cards of little power for their size, as T4, L4, A10 and H100 PCIe, work at their power limit
    all the time, and then below their highest clock.
    """
    for gpu in telemetry:
        yield from _clock_notes(gpu)
        if num_corrected := gpu.get("num_corrected_errors"):
            yield f"ECC corrected {counted(num_corrected, 'memory error')} of {gpu['uuid']}"


def _clock_notes(gpu: Mapping[str, Any]) -> Iterator[str]:
    clock, highest = gpu.get("sm_clock_mhz"), gpu.get("max_sm_clock_mhz")
    if not clock or not highest:
        return
    is_capped = _POWER_CAP in gpu.get("throttle_reasons", ())
    if is_capped or clock < _NEAR_HIGHEST * highest:
        limit = gpu.get("power_limit_w")
        why = f", at its power limit of {limit:.0f} W" if is_capped and limit else ""
        yield f"{gpu['uuid']} ran at {clock:.0f} of {highest:.0f} MHz{why}"
