"""The same cases by the way that simulated trials go: the simulator's process, run folders, a
database, and its reading.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from analysis.explain.ablations import AblationFinder
from analysis.explain.waterfall import observer
from analysis.selection import Selection as Selected
from analysis.selection import Source
from benchmarks.explaining.simulated import (
    CLEAR,
    KINDS,
    REPEATS,
    Answer,
    Selection,
    Setting,
    ablations,
    asked,
    drawn,
)
from scalemark.records.attempt import AttemptBegin, AttemptEnd, Placement
from scalemark.records.references import Origin
from scalemark.run_folder import RunFolder
from simulator.__main__ import main as simulate
from store.rebuild import rebuild
from sweeper.devices.machine import machine_of

_DIGEST = 4 * "ca5e"
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def played(
    seed: int, num_cases: int, folder: Path, *, selection: Selection = CLEAR
) -> list[Answer]:
    """One kind after the other, every ablation, into `folder`, which is to be empty."""
    random = np.random.default_rng(seed)
    names = [list(KINDS)[number % len(KINDS)] for number in range(num_cases)]
    cases = [(name, drawn(name, random, selection)) for name in names]
    runs = folder / "runs"
    for number, (_, setting) in enumerate(cases):
        _play_case(setting, runs / f"case-{number}", sweep_uid=f"{number:016x}")
    database = str(folder / "results.db")
    if rejected := rebuild(database, [str(runs)]).rejected:
        raise RuntimeError(f"the simulator left what cannot be read: {rejected[0]}")
    source = Source(selection=Selected(db=database, origin=Origin.SIMULATED))
    return list(_answers(cases, source))


def _play_case(setting: Setting, sweep: Path, sweep_uid: str) -> None:
    """Give each case a sweep of its own: two may ask for one trial on different machines."""
    for spec in (setting.spec, *ablations(setting.spec)):
        for repeat in range(1, REPEATS + 1):
            path = sweep / f"{spec.trial_id[:8]}-r{repeat}-a1"
            _play(replace(setting, spec=spec), repeat, path, sweep_uid)


def _play(setting: Setting, repeat: int, path: Path, sweep_uid: str) -> None:
    """As an orchestrator would have it, but in this process."""
    path.mkdir(parents=True)
    folder, spec = RunFolder(path), setting.spec
    folder.trial.write_text(spec.to_json())
    folder.machine.write_text(machine_of(setting.hardware).to_json())
    begin = AttemptBegin(
        sweep_uid=sweep_uid,
        sweep=path.parent.name,
        trial_id=spec.trial_id,
        repeat=repeat,
        attempt=1,
        started_at=NOON,
        software_key=_DIGEST,
    )
    folder.attempt.write_text(begin.to_json())
    exit_code = simulate(spec, folder)
    result = folder.read_result()
    if result is None:
        raise RuntimeError(f"{path.name}: ended with {exit_code}, and left no result")
    end = AttemptEnd(
        exit_code=exit_code,
        duration_s=1.0,
        ended_at=NOON + timedelta(seconds=1),
        placement=Placement(start="spawn", devices=tuple(range(spec.num_gpus)), visible_devices=""),
        outcome=result.outcome,
        message=result.message,
        result=None,
    )
    folder.ended.write_text(end.to_json())


def _answers(cases: list[tuple[str, Setting]], source: Source) -> Iterator[Answer]:
    finder, observe = AblationFinder(source.results), observer(source)
    results = {
        (result.environment.hardware_profile, result.trial_id): result for result in source.results
    }
    for name, setting in cases:
        target = results[machine_of(setting.hardware).hardware_profile, setting.spec.trial_id]
        yield asked(name, setting, target, finder, observe)
