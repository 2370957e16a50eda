"""Prints what `store.reading.show` found, section by section, so that one can read it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console

from scalemark.cli.terminal import for_people, is_narrow, make_console, print_columns, tell_left_out
from scalemark.records.devices import DeviceKind
from store.reading.queries import Row

_NOT_OF_A_TRIAL = ("spec",)
_NOT_WHERE_NARROW = ("precision", "data", "num_attempts")  # of the trials of a sweep
_ATTEMPT = (
    *(
        "sweep",
        "repeat",
        "attempt",
        "outcome",
        "message",
        "exit_code",
        "started_at",
        "duration_s",
        "deleted_at",
    ),
    *(
        "start",
        "devices",
        "visible_devices",
        "cores",
        "spare_core",
        "shares_host",
        "host_memory_bytes",
        "hosts",
        "rank_start",
    ),
    "run_dir",
)
_MACHINE = (
    "key",
    "host",
    "cpu",
    "num_cores",
    "memory_bytes",
    "num_gpus",
    "driver",
    "hardware_profile",
    "pool",
)
_MEASUREMENT = (
    *(
        "throughput",
        "throughput_low",
        "throughput_high",
        "median_step_s",
        "jitter_s",
        "p90_step_s",
    ),
    *(
        "num_steps",
        "window_s",
        "num_warm_up_steps",
        "steady",
        "time_to_first_step_s",
        "trace_s",
        "first_step_s",
    ),
    *(
        "data_wait_share",
        "cpu_s",
        "cores_taken_by_others",
        "peak_host_memory_bytes",
        "peak_device_memory_bytes",
    ),
    *(
        "first_loss",
        "last_loss",
        "num_skipped_steps",
        "last_loss_scale",
        "num_parameters",
        "link_bytes_per_s",
    ),
)
_ENVIRONMENT = ("packages", "variables")  # have sections of their own


def print_sections(found: Row) -> None:
    """On stdout: of a sweep its trials, else a trial and each of its attempts."""
    console = make_console()
    if "sweep" in found:
        return _print_sweep(console, found)
    trial = found["trial"]
    _facts(
        console,
        f"trial {trial['id']}",
        {name: trial[name] for name in trial if name not in _NOT_OF_A_TRIAL},
    )
    if note := DeviceKind(trial["device_kind"]).note:
        console.print(note, style="dim", markup=False)
    if not found["attempts"]:
        _annotations(console, found)
    for attempt in found["attempts"]:
        _print_attempt(console, attempt)


def _print_attempt(console: Console, row: Row) -> None:
    _facts(console, f"attempt {row['attempt_id']}", {name: row[name] for name in _ATTEMPT})
    if row["throughput"] is not None:
        _facts(
            console,
            "simulation" if row["machine_facts"]["hardware_profile"] else "measurement",
            {name: row[name] for name in _MEASUREMENT},
        )
        _facts(console, "truth behind the simulation", row["truth"] or {})
        told = {"verdict": row["verdict"]} | {
            f"reason {count}": why for count, why in enumerate(row["verdict_reasons"] or (), 1)
        }
        _facts(console, "verdict", told)
    if row["steps"]:
        _facts(console, "steps", row["steps"])
    if row["profile"]:
        _facts(console, "profile", row["profile"])
    _table(console, "GPU telemetry", row["gpu_telemetry"] or ())
    roles = [
        {"role": role, "op @ device": what, "nodes": num}
        for role, of in (row["op_placement"] or {}).items()
        for what, num in of.items()
    ]
    _table(console, "op placement", roles)
    _facts(console, "machine", {name: row["machine_facts"][name] for name in _MACHINE})
    _table(console, "GPUs", row["gpus"])
    _table(console, "links", row["links"])
    _environment(console, row["environment"])
    _annotations(console, row)


def _environment(console: Console, environment: Mapping[str, Any] | None) -> None:
    if environment is None:
        return
    _facts(
        console,
        "environment",
        {name: value for name, value in environment.items() if name not in _ENVIRONMENT},
    )
    for section in _ENVIRONMENT:
        _facts(console, section, environment.get(section) or {})


def _annotations(console: Console, row: Row) -> None:
    _table(console, "tags", row["tags"])
    _table(console, "notes", row["notes"])


def _print_sweep(console: Console, found: Row) -> None:
    sweep = found["sweep"]
    _facts(
        console,
        f"sweep {sweep['name']}",
        {name: value for name, value in sweep.items() if name != "name"},
    )
    _facts(console, "repeats", found["counts"])
    left_out = _NOT_WHERE_NARROW if is_narrow(console) else ()
    trials = [row | {"trial": row["trial"][:8]} for row in found["trials"]]
    _table(
        console,
        "trials",
        [{name: row[name] for name in row if name not in left_out} for row in trials],
    )
    if trials and left_out:
        tell_left_out(left_out, "--json has them")
    _table(console, "left out", found["left_out"])
    _annotations(console, found)


def _facts(console: Console, title: str, facts: Mapping[str, object]) -> None:
    """One line each; nothing of what there is none of."""
    if facts:
        console.print()
        print_columns(
            console,
            (for_people(title), ""),
            ([for_people(name), for_people(value)] for name, value in facts.items()),
        )


def _table(console: Console, title: str, rows: Sequence[Row]) -> None:
    if rows:
        _title(console, title)
        print_columns(console, list(rows[0]), _cells(rows))


def _cells(rows: Sequence[Row]) -> Iterable[list[str]]:
    return ([for_people(cell) for cell in row.values()] for row in rows)


def _title(console: Console, title: str) -> None:
    console.print(f"\n{for_people(title)}", style="bold", markup=False)
