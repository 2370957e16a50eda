"""Measures whether slow links between hosts are explained: real distributed trials over links of
limited rate, and what `explain` says.

`python benchmarks/links.py FOLDER [--mbit 1000 200 50] [--strategies ...] [--repeats N] [--model M]
[--batch-size B]` prints a Markdown table. Sweeps of some minutes go into a database in that folder,
which is kept and continued; bytes are counted only of trials that run meanwhile. Needs the right to
make networks: see `injected.link_mbit` in docs/hosts.md.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
sys.path[0] = str(PROJECT)  # beside this file lies a `store.py`

from analysis.explain.ablations import Ablation, AblationFinder, several_hosts
from analysis.explain.explanations import Explanation, explain_all
from analysis.explain.observed import observer
from analysis.explain.waterfall import step_s
from analysis.results import Result
from analysis.selection import Selection
from analysis.source import Source
from benchmarks.linking.counted import Counts, counting
from store.reading import queries

STRATEGIES = (
    "distributed_ps",
    "distributed_replicated",
    "distributed_ring",
    "multi_worker_mirrored_ring",
)
COLUMNS = (
    *(
        "strategy",
        "link, Mbit/s",
        "rate, Mbit/s",
        "out + in, MB/step, counted",
        "MB one after another",
    ),
    *("step, ms", "expected, ms", "error", "verdict"),
)


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    common = [
        "-m",
        "hardware=cpu",
        "data=synthetic",
        f"model={options.model}",
        f"batch_size={options.batch_size}",
    ]
    common += [f"sweep.repeats={options.repeats}", f"num_steps={options.steps}", "min_window_s=2"]
    hosts = options.hosts
    rates = ",".join(f"{rate:g}" for rate in (0, *options.mbit))
    over_hosts = [
        f"strategy={','.join(options.strategies)}",
        f"hosts={hosts}",
        f"num_gpus={hosts}",
        f"injected.link_mbit={rates}",
    ]
    with counting(options.folder / "runs") as counts:
        _sweep(options.folder, [*common, "strategy=independent", f"num_gpus=1,{hosts}"])
        _sweep(
            options.folder, [*common, "strategy=independent", f"num_gpus={hosts}", "model=trivial"]
        )
        _sweep(options.folder, [*common, *over_hosts])
    print(table(options.folder / "r.db", counts))
    return 0


def table(database: Path, counts: Counts) -> str:
    """A line for each trial over several hosts."""
    source = Source(selection=Selection(db=str(database)))
    targets = [
        result
        for result in source.results
        if several_hosts(result.axes) and result.throughput is not None
    ]
    finder = AblationFinder(source.results)
    found = explain_all(targets, finder, observer(source))
    lines = [f"| {' | '.join(COLUMNS)} |", f"|---|{'---:|' * (len(COLUMNS) - 2)}---|"]
    folders = {
        row["attempt"]: Path(row["run_dir"])
        for row in queries.attempt_details(source.engine, list(source.attempts))
    }
    explained = sorted(
        zip(targets, found, strict=True),
        key=lambda pair: (pair[0].strategy, pair[0].environment.key, -_mbit(pair[0])),
    )
    for target, explanation in explained:
        fast = finder.around(target).found.get(Ablation.FAST_LINKS)
        fast_s = step_s(fast).value if fast else None
        cells = _cells(target, explanation, fast_s, counts, folders)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _cells(
    target: Result,
    one: Explanation,
    fast_s: float | None,
    counts: Counts,
    folders: dict[int, Path],
) -> list[str]:
    """`fast_s` is the step of the same trial over fast links."""
    links, took_s = one.links, one.steps.step.value
    is_limited = _mbit(target) < UNLIMITED  # else its link is not its own
    counted = (
        [counts.bytes_per_s(folders[number].resolve()) for number in target.attempt_ids]
        if is_limited
        else []
    )
    known = [
        (sent * took_s / 1e6, received * took_s / 1e6) for sent, received in filter(None, counted)
    ]
    expected_s = fast_s + links.check_s if links and fast_s else None
    return [
        target.strategy,
        f"{_mbit(target):g}" if is_limited else "as it is",
        f"{links.bytes_per_s * 8e-6:.0f} ({links.known_by.split()[0].rstrip(',')})"
        if links
        else "",
        ", ".join(f"{sent:.2f} + {received:.2f}" for sent, received in known),
        f"{links.sent_bytes / 1e6:.2f}" if links else "",
        f"{took_s * 1e3:.1f}",
        f"{expected_s * 1e3:.1f}" if expected_s else "",
        f"{expected_s / took_s - 1:+.1%}" if expected_s else "",
        f"{one.diagnosis.bound or 'cannot tell'} ({one.diagnosis.confidence})",
    ]


UNLIMITED = 1e9


def _mbit(target: Result) -> float:
    return target.spec.injected_values.get("link_mbit", UNLIMITED)


def _sweep(folder: Path, arguments: Sequence[str]) -> None:
    paths = [
        f"store.url={folder / 'r.db'}",
        f"store.runs_dir={folder / 'runs'}",
        f"store.figures_dir={folder}",
    ]
    ended = subprocess.run(
        [sys.executable, PROJECT / "sweep.py", *arguments, *paths],
        env=os.environ | {"PYTHONPATH": str(PROJECT)},
        stdout=sys.stderr,
        check=False,
    )
    if ended.returncode:
        raise SystemExit(f"{' '.join(arguments)} ended with {ended.returncode}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="for the database and the run folders")
    parser.add_argument(
        "--mbit", type=float, nargs="+", default=[1000, 200, 50], help="rates of the links"
    )
    parser.add_argument("--strategies", nargs="+", default=list(STRATEGIES))
    parser.add_argument("--hosts", type=int, default=2, help="of one replica each")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--model", default="resnet18_cifar")
    parser.add_argument("--batch-size", type=int, default=8)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
