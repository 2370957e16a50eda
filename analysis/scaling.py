"""Speed-up tables: per model, strategies against GPU counts, out of whole trials only."""

from __future__ import annotations

import hashlib
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from store.records import STRATEGY_AXES, DeviceKind, Outcome, TrialSpec, Verdict, unusual_axes

_ALWAYS_NAMED = ("batch_size", "image_px", "precision", "data", "scaling")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCell:
    """One trial on one machine."""

    trial_id: str
    images_per_second: float | None  # median over repeats; None when no attempt completed
    speed_up: float | None  # against the same strategy on 1 GPU; None when that is missing
    num_repeats: int  # completed attempts behind the number
    lowest: float | None  # images/s of the slowest repeat
    highest: float | None
    is_valid: bool  # no doubt about any of them: their verdicts
    outcome: str  # completed, or that of the newest attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingTable:
    """One model under one setting of all other axes, on one machine."""

    model: str
    setting: Mapping[str, object]  # the axes that name this table among its neighbors
    machine: str  # one line
    made_on: str  # digest that tells machine and software from others
    host: str
    versions: str
    device_kind: DeviceKind
    num_gpus: tuple[int, ...]  # columns
    cells: Mapping[str, Mapping[int, TableCell]]  # strategy -> GPU count -> trial

    @property
    def devices(self) -> str:
        """What the columns count."""
        return "GPUs" if self.device_kind is DeviceKind.GPU else "CPU stand-ins"


_SHARED = "shares_host"  # measured side by side with others: never in one number with what had the host to itself


def scaling_tables(attempts: Sequence[Mapping[str, Any]]) -> list[ScalingTable]:
    """Tables of all attempts in `store.queries.measured` form, one per model, other axes and machine.

    Nothing is averaged over an axis: trials that differ in anything but strategy and GPU count, in their machine, or in the
    software they ran with, get tables of their own.
    """
    groups: dict[tuple[object, ...], list[Mapping[str, Any]]] = defaultdict(list)
    last_software: dict[tuple[object, ...], str] = {}
    for attempt in attempts:
        where = (attempt["machine"], *_setting(attempt).values())
        # An attempt that ended before it could tell its software stands with its neighbors.
        software = attempt["software_key"] or last_software.get(where, "")
        last_software[where] = software
        groups[(*where, software)].append(attempt)
    told_apart = _differing_axes(groups.values())
    return [_table(group, told_apart[group[0]["model"]]) for group in groups.values()]


def _setting(attempt: Mapping[str, Any]) -> dict[str, object]:
    """All axes but strategy and GPU count, and whether others ran beside it.

    Strong scaling is told by its global batch, which does not change with GPUs.
    """
    axes = [field.name for field in fields(TrialSpec) if field.name not in (*STRATEGY_AXES, "num_gpus")]
    setting = {axis: attempt[axis] for axis in axes} | {_SHARED: bool(attempt["shares_host"])}
    if setting["scaling"] == "strong":
        setting["batch_size"] = f"{attempt['batch_size'] * attempt['num_gpus']} in all"
    return setting


def _differing_axes(groups: Any) -> dict[str, list[str]]:
    """Model -> the axes in which its groups differ, beside those always named."""
    settings: dict[str, list[dict[str, object]]] = defaultdict(list)
    for group in groups:
        settings[group[0]["model"]].append(_setting(group[0]))
    return {model: _named_axes(ofs) for model, ofs in settings.items()}


def _named_axes(settings: Sequence[Mapping[str, object]]) -> list[str]:
    named = {*_ALWAYS_NAMED}.union(*map(unusual_axes, settings))
    if any(of[_SHARED] for of in settings):
        named.add(_SHARED)
    return [axis for axis in settings[0] if axis in named or len({of[axis] for of in settings}) > 1]


def _table(group: Sequence[Mapping[str, Any]], named_axes: Sequence[str]) -> ScalingTable:
    by_trial: dict[tuple[str, int], list[Mapping[str, Any]]] = defaultdict(list)
    for attempt in group:
        by_trial[attempt["strategy"], attempt["num_gpus"]].append(attempt)
    measured = {
        key: [attempt["images_per_second"] for attempt in of_trial if attempt["outcome"] == Outcome.COMPLETED]
        for key, of_trial in by_trial.items()
    }
    medians = {key: statistics.median(of_trial) for key, of_trial in measured.items() if of_trial}
    cells: dict[str, dict[int, TableCell]] = defaultdict(dict)
    for (strategy, num_gpus), of_trial in by_trial.items():
        repeats = measured[strategy, num_gpus]
        median, baseline = medians.get((strategy, num_gpus)), medians.get((strategy, 1))
        cells[strategy][num_gpus] = TableCell(
            trial_id=of_trial[0]["id"],
            images_per_second=median,
            speed_up=median / baseline if median and baseline else None,
            num_repeats=len(repeats),
            lowest=min(repeats, default=None),
            highest=max(repeats, default=None),
            is_valid=all(map(_is_valid, (attempt for attempt in of_trial if attempt["outcome"] == Outcome.COMPLETED))),
            outcome=Outcome.COMPLETED if repeats else of_trial[-1]["outcome"],
        )
    first = group[0]
    setting = _setting(first)
    return ScalingTable(
        model=first["model"],
        setting={axis: setting[axis] for axis in named_axes},
        machine=_machine(first),
        made_on=hashlib.sha256(f"{first['machine']} {first['software_key']}".encode()).hexdigest()[:6],
        host=first["host"],
        versions=_versions(group),
        device_kind=DeviceKind(first["device_kind"]),
        num_gpus=tuple(sorted({num_gpus for _, num_gpus in by_trial})),
        cells={strategy: dict(sorted(cells[strategy].items())) for strategy in sorted(cells)},
    )


def _is_valid(attempt: Mapping[str, Any]) -> bool:
    """Rows of schema 0001 have no verdict, but say whether warm-up had ended."""
    return attempt["verdict"] == Verdict.VALID if attempt["verdict"] else bool(attempt["steady"])


def _versions(attempts: Sequence[Mapping[str, Any]]) -> str:
    """What the numbers were made with; all of it when they were not all made with the same."""
    found = {
        f"TensorFlow {attempt['tensorflow']}, scalemark {attempt['scalemark']}" for attempt in attempts if attempt["tensorflow"]
    }
    return " and ".join(sorted(found)) or "versions unknown"


def _machine(attempt: Mapping[str, Any]) -> str:
    cores = f"{attempt['host']}: {attempt['num_cores']} cores {attempt['cpu']}"
    if attempt["device_kind"] == DeviceKind.GPU:
        return f"{cores}, {attempt['machine_num_gpus']} x {attempt['gpu']}, driver {attempt['driver']}"
    return f"{cores}, CPU stand-ins"
