"""Runs sweeps in the kit's folder, and reads their run folders as the trials end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from benchmarks.gpu.kit import (
    PROJECT,
    Finding,
    Judged,
    Kit,
    NotRunError,
    Number,
    Verdict,
    last_line,
    program,
)
from scalemark.records.attempt import AttemptEnd
from scalemark.records.measurement import AttemptResult, Measurement, Outcome
from scalemark.records.trial import TrialSpec
from scalemark.run_folder import RunFolder

_LOOK_EVERY_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One trial that ended, as its run folder has it."""

    spec: TrialSpec
    end: AttemptEnd
    result: AttemptResult | None
    folder: Path

    @property
    def label(self) -> str:
        words = [self.spec.model, self.spec.precision, f"batch {self.spec.batch_size}"]
        if self.spec.image_px:
            words.append(self.spec.data_format)
        if self.spec.xla != "off":
            words.append(f"xla={self.spec.xla}")
        if self.spec.num_gpus > 1:
            words.append(f"{self.spec.strategy} on {self.spec.num_gpus}")
        return " ".join(words)

    @property
    def measurement(self) -> Measurement | None:
        return self.result.measurement if self.result else None

    @property
    def failure(self) -> str:
        """Return how it ended; empty where it completed."""
        if self.end.outcome == Outcome.COMPLETED:
            return ""
        return f"{self.label}: {self.end.outcome}: {self.end.message}"

    def numbers(self) -> Iterator[Number]:
        """Yield what it measured."""
        found = self.measurement
        if found is None:
            return
        yield Number(
            what=self.label,
            value=found.throughput,
            unit=f"{found.item}/s",
            low=found.throughput_low,
            high=found.throughput_high,
        )
        if found.median_step_s is not None:
            yield Number(what=f"{self.label}, step", value=1e3 * found.median_step_s, unit="ms")
        if found.mfu is not None:
            yield Number(what=f"{self.label}, MFU", value=100 * found.mfu, unit="%")
        if found.peak_device_memory_bytes is not None:
            gib = found.peak_device_memory_bytes / 2**30
            yield Number(what=f"{self.label}, peak memory", value=gib, unit="GiB")


def sweep(
    kit: Kit,
    name: str,
    overrides: Sequence[str],
    *,
    variables: Mapping[str, str] | None = None,
    watch: Callable[[int, Path], None] | None = None,
) -> Iterator[Trial]:
    """Run a sweep; yield each trial as it ends. `watch` gets the sweep's pid and run folders, now
    and then.

    Raises NotRunError for a sweep that was refused.
    """
    unique = f"{name}-{datetime.now():%H%M%S}"
    folder, log = kit.runs / unique, kit.logs / f"{name}.log"
    command = [
        *_command(kit, overrides),
        f"sweep.name={unique}",
        "sweep.rerun=true",
        f"store.url={kit.database}",
        f"store.runs_dir={kit.runs}",
    ]
    seen: set[Path] = set()
    with program(command, log, {**os.environ, **(variables or {})}, kit.folder) as process:
        is_over = False
        while not is_over:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK_EVERY_S)
            is_over = process.poll() is not None  # asked before its folders are read
            if watch:
                watch(process.pid, folder)
            for path in sorted(set(_ended(folder)) - seen):
                seen.add(path)
                yield _read(path)
    if not seen:
        raise NotRunError(f"no trial ended, see logs/{log.name}: {last_line(log)}")


def measured(
    kit: Kit, name: str, overrides: Sequence[str]
) -> Generator[Finding, None, list[Trial]]:
    """Run a sweep; yield the numbers of each trial as it ends, and return all trials."""
    trials = []
    for trial in sweep(kit, name, overrides):
        trials.append(trial)
        yield from trial.numbers()
    return trials


def planned(kit: Kit, overrides: Sequence[str]) -> list[TrialSpec]:
    """Return the trials that a sweep would run, with all that `auto` means here.

    Raises NotRunError for a sweep that is refused.
    """
    command = [*_command(kit, overrides), "sweep.dry_run=true", "sweep.plan_format=json"]
    ended = subprocess.run(command, cwd=kit.folder, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise NotRunError(f"the plan was refused: {ended.stderr.strip().splitlines()[-1:]}")
    return [TrialSpec.of(trial["spec"]) for trial in json.loads(ended.stdout)["trials"]]


def mfu_is_sane(trials: Sequence[Trial]) -> Judged:
    """Judge whether the utilization of each trial is one that can be."""
    known = {}
    for trial in trials:
        if trial.measurement and trial.measurement.mfu is not None:
            known[trial.label] = trial.measurement.mfu
    if not known:
        why = "no trial has an MFU; others may have used the processors"
        return Judged(line="mfu", verdict=Verdict.NOT_RUN, why=why)
    wrong = [f"{label}: {mfu:.3f}" for label, mfu in known.items() if not 0 < mfu <= 1]
    if wrong:
        return Judged(line="mfu", verdict=Verdict.MISSED, why="; ".join(wrong))
    why = f"{min(known.values()):.3f} to {max(known.values()):.3f} in {len(known)} trials"
    return Judged(line="mfu", verdict=Verdict.MET, why=why)


def all_completed(line: str, trials: Sequence[Trial], *, must_run: bool = False) -> Judged:
    """Judge whether every trial did what it was asked to do; those that cannot run here tell
    nothing, unless the simplest `must_run`.
    """
    failed = [trial for trial in trials if trial.failure]
    if failed:
        can_run = must_run or any(trial.end.outcome != Outcome.UNSUPPORTED for trial in failed)
        verdict = Verdict.MISSED if can_run else Verdict.NOT_RUN
        why = "; ".join(trial.failure for trial in failed)
        return Judged(line=line, verdict=verdict, why=why)
    return Judged(line=line, verdict=Verdict.MET, why=f"{len(trials)} of {len(trials)} trials")


def _command(kit: Kit, overrides: Sequence[str]) -> list[str]:
    sweeping = [sys.executable, str(PROJECT / "sweep.py"), "-m"]
    return [*sweeping, *overrides, f"hardware={kit.box.hardware}"]


def _ended(folder: Path) -> Iterator[Path]:
    return (path.parent for path in folder.glob("*/ended.json"))


def _read(path: Path) -> Trial:
    folder = RunFolder(path)
    end = folder.read_ended()
    assert end
    return Trial(
        spec=folder.read_trial(), end=end, result=end.result or folder.read_result(), folder=path
    )
