"""Runs the stages one after the other, each in its share of the time, and keeps what they find."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.gpu.found import (
    Ended,
    Finding,
    Judged,
    Note,
    NotRunError,
    Number,
    OutOfTimeError,
    StageResult,
    Verdict,
)
from benchmarks.gpu.kit import Kit, limited, logged, say
from benchmarks.gpu.stages import Stage
from benchmarks.trainer import BrokenError
from scalemark.host import software


def minutes(stages: Iterable[Stage], size: str) -> float:
    """Return what these stages should take together on a box of this size."""
    return sum(stage.MINUTES[size] for stage in stages)


def share_s(left_s: float, stages: Sequence[Stage], size: str) -> float:
    """Return what the first of these stages may take: what others leave goes to those after."""
    return max(0.0, left_s) * stages[0].MINUTES[size] / minutes(stages, size)


def run_stages(
    kit: Kit,
    stages: Mapping[str, Stage],
    total_s: float,
    tell: Callable[[str, Finding], None],
) -> Iterator[StageResult]:
    """Run these stages, and write each one's result into the kit's folder once it has ended; an
    interruption ends the last.
    """
    over_s = time.monotonic() + total_s
    names = list(stages)
    for position, name in enumerate(names):
        waiting = [stages[one] for one in names[position:]]
        limit_s = share_s(over_s - time.monotonic(), waiting, kit.box.size)
        say(f"{name}: {stages[name].ABOUT} (up to {limit_s:.0f} s)")
        result = run_stage(kit, name, stages[name], limit_s, tell)
        path = result_file(kit, name)
        path.parent.mkdir(exist_ok=True)
        path.write_text(result.to_json() + "\n")
        yield result
        if result.ended == Ended.INTERRUPTED:
            return


def run_stage(
    kit: Kit, name: str, stage: Stage, limit_s: float, tell: Callable[[str, Finding], None]
) -> StageResult:
    """Run one stage; what it found before it ran out of time, was interrupted or broke is kept."""
    start_s, began_at, commit = time.monotonic(), datetime.now(UTC), software.commit()
    found: list[Finding] = []
    ended, why = Ended.COMPLETED, ""
    try:
        with limited(limit_s):
            for finding in stage.run(kit):
                found.append(finding)
                tell(name, finding)
    except NotRunError as error:
        ended, why = Ended.NOT_RUN, str(error)
    except OutOfTimeError as error:
        ended, why = Ended.OUT_OF_TIME, str(error)
    except KeyboardInterrupt:
        ended = Ended.INTERRUPTED
        why = f"after {time.monotonic() - start_s:.0f} s; the same command runs the stage again"
    except BrokenError as error:
        ended, why = Ended.BROKEN, logged(kit, f"{name}-broken", str(error))
    except Exception:  # a defect of ours: the other stages and the report are still worth it
        ended, why = Ended.BROKEN, logged(kit, f"{name}-broken", traceback.format_exc())
    judged = {one.line: one for one in found if isinstance(one, Judged)}
    for line in stage.LINES:
        if line not in judged:
            judged[line] = Judged(line=line, verdict=Verdict.NOT_RUN, why=ended.in_words(why))
            tell(name, judged[line])
    return StageResult(
        stage=name,
        ended=ended,
        why=why,
        took_s=round(time.monotonic() - start_s, 1),
        numbers=tuple(one for one in found if isinstance(one, Number)),
        judged=tuple(judged.values()),
        notes=tuple(one for one in found if isinstance(one, Note)),
        began_at=began_at,
        commit=commit,
    )


def result_file(kit: Kit, name: str) -> Path:
    return kit.folder / "stages" / f"{name}.json"


def earlier_results(kit: Kit, names: Sequence[str]) -> dict[str, StageResult]:
    """Return the results of stages that an earlier run of the kit has ended in this folder."""
    found = {}
    for name in names:
        path = result_file(kit, name)
        if path.exists():
            found[name] = StageResult.from_json(path.read_text())
    return found
