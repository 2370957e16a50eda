"""`python -m benchmarks.gpu`: proves in 15 to 25 minutes what must hold on a box of GPUs.

```
  smoke ─► plain ─► peers ─► faults ─► scaling ─► selfcheck ─► xla ──► report.md, gpu-kit.tar.gz
```
Numbers are lines of stdout, progress is told on stderr. A second run into the same folder goes on
with the stages that did not end in time, or broke; stages that are named run again.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.gpu.box import find_box
from benchmarks.gpu.kit import (
    Ended,
    Finding,
    Judged,
    Kit,
    Note,
    Number,
    StageResult,
    Verdict,
    say,
    say_result,
)
from benchmarks.gpu.packing import Names, pack
from benchmarks.gpu.report import counted, machine_values, report, verdicts
from benchmarks.gpu.running import (
    ClaimError,
    check_writable,
    claimed,
    earlier_results,
    found_python,
    interruptible,
    minutes,
    run_stages,
)
from benchmarks.gpu.stages import Stage, faults, peers, plain, scaling, selfcheck, smoke, xla
from scalemark.run_folder import RunFolder
from sweeper import SweepRefusedError

STAGES: dict[str, Stage] = {
    "smoke": smoke,
    "plain": plain,
    "peers": peers,
    "faults": faults,
    "scaling": scaling,
    "selfcheck": selfcheck,
    "xla": xla,
}
_NOTHING_PROVED = 3  # 2 is wrong usage
_ENDED = (Ended.COMPLETED, Ended.NOT_RUN)  # another run of them would be no other


def main(arguments: Sequence[str]) -> int:
    """Return 0 when lines were met, 1 when one was missed or a stage broke, 3 when nothing was met
    or missed, 130 when interrupted.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    named = list(STAGES) if options.stages is None else options.stages.split(",")
    if unknown := [name for name in named if name not in STAGES]:
        parser.error(f"--stages {','.join(unknown)}: choose from {','.join(STAGES)}")
    try:
        box = find_box(options.device)
    except SweepRefusedError as error:
        parser.error(str(error).replace("hardware=", "--device "))  # as sweeps call it
    try:
        torch_python = found_python(options.torch_python)
        kit = Kit(box=box, folder=options.out.resolve(), torch_python=torch_python)
        if options.json:
            check_writable("--json", options.json)
        with claimed(kit), interruptible():
            return _prove(kit, named, options)
    except ClaimError as error:
        parser.error(str(error))


def _prove(kit: Kit, named: list[str], options: argparse.Namespace) -> int:
    """Run the stages that are left of those named, and write the report; return the exit code."""
    results = earlier_results(kit, list(STAGES))
    total_s = 60 * (options.minutes or minutes(STAGES.values(), kit.box.size))
    if options.stages is None:
        ended = [name for name, result in results.items() if result.ended in _ENDED]
        for name in ended:
            say(f"{name}: ended in an earlier run; --stages {name} runs it again")
        named = [name for name in named if name not in ended]
    stages = {name: STAGES[name] for name in named}
    is_interrupted = _run(kit, stages, total_s, results)
    judged = _write(kit, results, named, options.json)
    if is_interrupted:
        return 130
    found = {one.verdict for one in judged}
    if Verdict.MISSED in found or any(one.ended == Ended.BROKEN for one in results.values()):
        return 1
    if Verdict.MET not in found:
        say("no line was met or missed: the report says why")
        return _NOTHING_PROVED
    return 0


def _run(
    kit: Kit, stages: Mapping[str, Stage], total_s: float, results: dict[str, StageResult]
) -> bool:
    """Add the results of these stages to those there are; return whether it was interrupted."""
    is_interrupted = False
    try:
        for result in run_stages(kit, stages, total_s, _tell):
            results[result.stage] = result
            is_interrupted = result.ended == Ended.INTERRUPTED
    except KeyboardInterrupt:  # between two stages
        is_interrupted = True
    if is_interrupted:
        say("interrupted: the same command goes on from here")
    return is_interrupted


def _minutes(text: str) -> float:
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"found {text}, wanted more than 0")
    return value


def _tell(stage: str, finding: Finding) -> None:
    """Print one line for a finding."""
    match finding:
        case Number():
            say_result(f"{stage}  {finding.what}: {finding.text}")
        case Judged():
            text = STAGES[stage].LINES[finding.line]
            say_result(f"{stage}  {finding.verdict}: {text} ({finding.why})")
        case Note():
            say_result(f"{stage}  {finding.text}")


def _write(
    kit: Kit, results: dict[str, StageResult], asked: Sequence[str], also: Path | None
) -> list[Judged]:
    """Write the report, the numbers as JSON, and the file to attach; return all verdicts."""
    names = Names.of_this_machine()
    ordered = {name: results[name] for name in STAGES if name in results}
    values = machine_values(kit.box, _environment(kit))
    made_at = datetime.now(UTC)
    lines = list(verdicts(STAGES, ordered, asked))
    content = {
        "made_at": made_at.isoformat(timespec="seconds"),
        "device": kit.box.hardware,
        "machine": values,
        "lines": [{"text": text, **asdict(one)} for text, one in lines],
        "stages": {name: json.loads(result.to_json()) for name, result in ordered.items()},
    }
    text = names.masked(json.dumps(content, indent=1)) + "\n"
    (kit.folder / "kit.json").write_text(text)
    if also:
        also.write_text(text)
    page = kit.folder / "report.md"
    page.write_text(names.masked(report(STAGES, ordered, asked, values, made_at)))
    judged = [one for _, one in lines]
    say_result(counted(judged))
    say(f"report: {page}\nto attach: {pack(kit, names)}")
    return judged


def _environment(kit: Kit) -> dict[str, Any]:
    """Return the software that any trial of the kit recorded; nothing before the first trial."""
    for path in kit.runs.glob("*/*/environment.json"):
        return RunFolder(path.parent).read_environment() or {}
    return {}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu",
        description=(__doc__ or "").replace("```\n", ""),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--device", choices=("gpu", "cpu"), default="gpu", help="default gpu; cpu tries the kit"
    )
    parser.add_argument("--stages", help=f"default all: {','.join(STAGES)}")
    parser.add_argument(
        "--minutes",
        type=_minutes,
        help="for all stages together, or for those named (default 18, on CPU devices 3)",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("gpu-kit"), help="folder of all files (default gpu-kit)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers there, too")
    parser.add_argument(
        "--torch-python",
        default=sys.executable,
        metavar="PYTHON",
        help="a Python that has PyTorch and numpy (default: this one)",
    )
    return parser


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
