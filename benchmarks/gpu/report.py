"""The kit's report, one page of Markdown: verdicts, machine, numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from benchmarks.gpu.box import Box
from benchmarks.gpu.kit import Ended, Judged, StageResult, Verdict
from benchmarks.gpu.stages import Stage

_KEY = (
    "Met and missed were measured; open: measured, and the limit is within the 95 % interval, "
    "which stands in brackets, or a part of it cannot run here. Logs are in the file to attach."
)


def verdicts(
    stages: Mapping[str, Stage], results: Mapping[str, StageResult], asked: Collection[str]
) -> Iterator[tuple[str, Judged]]:
    """Yield every line that must hold, in words, with its verdict; `not run` of stages that were
    left out, or not reached though `asked` for.
    """
    for name, stage in stages.items():
        found = {judged.line: judged for judged in results[name].judged} if name in results else {}
        for line, text in stage.LINES.items():
            why = f"the stage was {_missing(name, asked)}"
            missing = Judged(line=line, verdict=Verdict.NOT_RUN, why=why)
            yield text, found.get(line, missing)


def machine_values(box: Box, environment: Mapping[str, Any]) -> dict[str, str]:
    """Return what the numbers depend on, without the name of the host."""
    machine = box.machine
    values = {
        "devices": box.devices,
        "processor": f"{machine.num_cores} cores {machine.cpu}",
        "memory of the host": f"{machine.memory_bytes / 2**30:.0f} GiB",
    }
    for number, gpu in enumerate(box.gpus):
        words = [gpu.name, "no memory of its own", f"compute capability {gpu.compute_capability}"]
        if gpu.memory_bytes is not None:
            words[1] = f"{gpu.memory_bytes / 2**30:.0f} GiB"
        if gpu.power_limit_w is not None:
            words.append(f"power limit {gpu.power_limit_w:.0f} W")
        values[f"GPU {number}"] = ", ".join([*words, gpu.uuid])
    if machine.driver:
        values["driver"] = machine.driver
    for name in ("kernel", "python", "cuda", "cudnn", "cuda_build", "cudnn_build"):
        if environment.get(name):
            values[name] = str(environment[name])
    packages = environment.get("packages", {})
    values |= {name: str(version) for name, version in sorted(packages.items())}
    return values


def report(
    stages: Mapping[str, Stage],
    results: Mapping[str, StageResult],
    asked: Collection[str],
    values: Mapping[str, str],
    made_at: datetime,
) -> str:
    """Write the page."""
    judged = list(verdicts(stages, results, asked))
    total = counted([one for _, one in judged])
    sections = [
        ["# scalemark's GPU kit", "", f"{values['devices']}; {made_at:%Y-%m-%d %H:%M} UTC"],
        ["## What must hold", "", f"{total}. {_KEY}", "", *_verdict_table(judged)],
        ["## Stages", "", *_stage_table(stages, results, asked)],
    ]
    for name, result in results.items():
        sections.append([f"## {name}: {stages[name].ABOUT}", "", *_findings(result)])
    sections.append(["## Machine and versions", "", *_table(("what", "value"), values.items())])
    return "\n\n".join("\n".join(section) for section in sections) + "\n"


def counted(judged: Sequence[Judged]) -> str:
    """Count the verdicts, as `5 met, 0 missed, 1 open, 6 not run`."""
    counts = []
    for verdict in Verdict:
        number = sum(one.verdict == verdict for one in judged)
        counts.append(f"{number} {verdict.value}")
    return ", ".join(counts)


def _verdict_table(judged: Sequence[tuple[str, Judged]]) -> list[str]:
    rows = [(text, f"**{one.verdict}**", one.why) for text, one in judged]
    return _table(("line", "verdict", "why"), rows)


def _missing(name: str, asked: Collection[str]) -> str:
    return "not reached" if name in asked else "left out"


def _stage_table(
    stages: Mapping[str, Stage], results: Mapping[str, StageResult], asked: Collection[str]
) -> list[str]:
    rows = []
    for name, stage in stages.items():
        if name in results:
            result = results[name]
            ended = Ended(result.ended).in_words(result.why)
            began = f"{result.began_at:%Y-%m-%d %H:%M}" if result.began_at else ""
            took = f"{result.took_s:.0f} s"
            rows.append((name, stage.ABOUT, ended, took, began, _short(result.commit)))
        else:
            rows.append((name, stage.ABOUT, _missing(name, asked), "", "", ""))
    return _table(("stage", "about", "ended", "took", "began (UTC)", "commit"), rows)


def _short(commit: str) -> str:
    revision, plus, changed = commit.partition("+")
    return f"{revision[:12]}{plus}{changed}"


def _findings(result: StageResult) -> list[str]:
    lines = [f"- {note.text}" for note in result.notes]
    if result.notes:
        lines.append("")
    if result.numbers:
        return lines + _table(("what", "value"), [(one.what, one.text) for one in result.numbers])
    if result.ended == Ended.COMPLETED:
        return [*lines, "No numbers."]
    return [*lines, Ended(result.ended).in_words(result.why)]


def _table(heading: Sequence[str], rows: Any) -> list[str]:
    lines = [_row(heading), "|" + "---|" * len(heading)]
    return lines + [_row(row) for row in rows]


def _row(cells: Sequence[str]) -> str:
    plain = [" ".join(cell.split()).replace("|", "\\|") for cell in cells]
    return f"| {' | '.join(plain)} |"
