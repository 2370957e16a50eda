"""Speed of the trainer's step against the best hand-written loops, both in one run, taking turns.

`python -m benchmarks.trainer [NAME ...] [--quick] [--json FILE]` prints a Markdown table; `--help`
lists the names.

```
  driver ── run K ─► worker A ─ wall, CPU ─►┐     one round: each has a turn, the others sleep
         ── run K ─► worker B ─ wall, CPU ─►┴─► ratio A / B of the round ─► median, 95 % interval
```

CPU seconds are those of all threads of a process: on a machine that others use too they say more
than wall time.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any

import numpy as np

from benchmarks.ratio import HEADING, Ratio, Want, machine, write_json

ROOT = Path(__file__).resolve().parent.parent
SEED = 1  # of orders
WARM_UP_STEPS = 10  # the ancestor's floor
AGREEING_STEPS = 3  # so many first losses must be those of the peer
FIRST_LOSS_TOLERANCE = 1e-3  # relative: same weights, same batch
FIRST_LOSS_TOLERANCE_OF_TEXT = 3e-3  # its models have dropout at every layer, of other numbers
DROPS_HALF = ("alexnet", "vgg16")  # of the features before each of the last layers
LOSS_TOLERANCE_OF_HALF = 0.3
LOSS_TOLERANCE = (
    # relative: normalization over a small batch enlarges rounding; with the same normalization they
    # agree to 1e-7
    0.05
)

MODES = {  # variable_update, local_parameter_device, all_reduce
    "replicated_none": ("replicated", "gpu", "none"),
    "replicated_pscpu": ("replicated", "gpu", "pscpu"),
    "replicated_psgpu": ("replicated", "gpu", "psgpu"),
    "ps_cpu": ("parameter_server", "cpu", "none"),
    "ps_gpu": ("parameter_server", "gpu", "none"),
}

TARGETS = {  # ours / peer in images or tokens per CPU second and per second: at least
    ("resnet50", "keras_loop"): 1.3,
    ("resnet18_cifar", "keras_loop"): 1.1,
    ("alexnet", "keras_loop"): 1.0,
    ("vgg16", "keras_loop"): 1.0,
    ("inception3", "keras_loop"): 1.0,
    ("resnet50", "mirrored"): 1.4,
    ("resnet50", "mirrored_fused"): 1.3,
    ("resnet18_cifar", "mirrored"): 1.3,
    ("resnet18_cifar", "mirrored_fused"): 1.3,
    ("bert_tiny", "keras_loop"): 1.1,
    ("gpt_mini", "keras_loop"): 1.1,
    ("bert_tiny", "mirrored"): 1.2,
    ("gpt_mini", "mirrored"): 1.2,
}
FIRST_STEP_TARGETS = {"resnet50": 1 / 3, "gpt_mini": 1 / 2}  # ours / peer: at most
MEMORY_TARGET = 2 / 3  # ours / peer: at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What a worker shall train."""

    kind: str  # ours, keras_loop, keras_fit, mirrored, mirrored_fused (see peers.py), torch
    spec: str = ""  # JSON of the trial to train; empty: a small one of the values below
    model: str = "trivial"  # a definition in scalemark/models/
    image_px: int = 32  # 0 of a model that takes tokens
    seq_len: int = 0
    batch_size: int = 1  # examples per replica and step
    num_replicas: int = 1
    mode: str = "replicated_none"  # a key of MODES; used by `ours` only
    device: str = "cpu"  # or gpu

    @property
    def num_classes(self) -> int:
        if self.seq_len:
            return 256
        return 10 if self.model.endswith("cifar") else 1001

    @property
    def items(self) -> str:
        return "tokens" if self.seq_len else "images"

    @property
    def items_per_step(self) -> int:
        return self.num_replicas * self.batch_size * (self.seq_len or 1)

    @property
    def label(self) -> str:
        return f"ours {self.mode}" if self.kind == "ours" and self.num_replicas > 1 else self.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A worker's first answer, after its first step."""

    import_s: float  # importing TensorFlow and Keras
    cpu_s: float  # of the process so far
    peak_memory_bytes: int
    num_parameters: int
    losses: list[float]  # of the first step


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The answer to `run K`."""

    work: float  # images or tokens
    wall_s: float
    cpu_s: float  # all threads of the process
    losses: list[float]
    idle_s: float = 0.0  # waited for the order
    idle_cpu_s: float = 0.0  # CPU seconds burnt while waiting
    peak_memory_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    num_rounds: int
    num_starts: int  # rounds of processes started anew
    turn_s: float  # a worker takes as many steps in a turn as fill this time, and two at least
    num_warm_up_steps: int
    modes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A name the user may choose."""

    name: str
    base: Candidate  # model and sizes that all sides share
    quick: Candidate  # the same, tiny
    peers: tuple[str, ...]  # kinds
    measure: Callable[[Comparison, Candidate, Settings], Iterator[Ratio]]


class BrokenError(Exception):
    """A worker died, or two candidates did not do the same work."""


class Worker:
    """A candidate's process; ended by leaving the `with`."""

    def __init__(
        self,
        candidate: Candidate,
        program: Sequence[str] = (sys.executable, "-m", "benchmarks.worker"),
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.candidate = candidate
        self.ready: Ready
        self.first_step_s = math.nan  # from the start of the process
        self.turns: list[Turn] = []
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # closed by __exit__
        self._start = time.perf_counter()
        self._process = subprocess.Popen(
            [*program, json.dumps(asdict(candidate))],
            cwd=ROOT,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()
        self._log.close()

    def wait_until_ready(self) -> Ready:
        self.ready = Ready(**self._answer())
        self.first_step_s = time.perf_counter() - self._start
        _say(f"  {self.candidate.label}: first step after {self.first_step_s:.1f} s")
        return self.ready

    def first_losses(self) -> list[float]:
        return [*self.ready.losses, *self.turns[0].losses][:AGREEING_STEPS]

    def run(self, num_steps: int) -> Turn:
        assert self._process.stdin
        with suppress(BrokenPipeError):  # then there is no answer either
            self._process.stdin.write(f"run {num_steps}\n")
            self._process.stdin.flush()
        turn = Turn(**self._answer())
        if not all(math.isfinite(loss) for loss in turn.losses):
            raise BrokenError(f"{self.candidate}: a loss is not finite: {turn.losses}")
        self.turns.append(turn)
        return turn

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout
        if line := self._process.stdout.readline():
            return json.loads(line)
        self._process.wait()
        self._log.seek(0)
        tail = "\n".join(self._log.read().decode(errors="replace").splitlines()[-12:])
        raise BrokenError(f"{self.candidate} ended with {self._process.returncode}:\n{tail}")


def main(arguments: Sequence[str]) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    names = [comparison.name for comparison in COMPARISONS]
    for wanted, known in ((options.names, names), (options.modes or [], [*MODES])):
        if unknown := set(wanted) - set(known):
            parser.error(f"unknown: {', '.join(sorted(unknown))}; choose from {', '.join(known)}")
    settings = _settings(options)
    where = machine() if options.device == "cpu" else machine("on its GPUs")
    rows: list[Ratio] = []
    broken: dict[str, str] = {}
    print(HEADING)
    for comparison in COMPARISONS:
        if comparison.name not in (options.names or names):
            continue
        _say(comparison.name)
        base = comparison.quick if options.quick else comparison.base
        base = replace(base, device=options.device)
        if options.batch_size:
            base = replace(base, batch_size=options.batch_size)
        try:
            for row in comparison.measure(comparison, base, settings):
                print(row.line(), flush=True)  # a run takes hours: what is measured is shown
                rows.append(row)
        except BrokenError as error:
            broken[comparison.name] = str(error)
            _say(f"  broken: {error}")
        reported = [row.reported() for row in rows]
        write_json(options.json, reported, where, settings=asdict(settings), broken=broken)
    turns = f"{settings.num_rounds} rounds of {settings.turn_s} s a turn"
    print(f"\n{where}; {turns}, {settings.num_starts} starts.")
    if options.quick:
        print("\nA smoke test: the numbers mean nothing.")
    return 1 if broken else 0


def steps(comparison: Comparison, base: Candidate, settings: Settings) -> Iterator[Ratio]:
    """Let every mode of ours take turns with all peers, which are started once."""
    with ExitStack() as stack:
        peers = []
        for kind in comparison.peers:
            peers.append(stack.enter_context(Worker(replace(base, kind=kind))))
            warm(peers[-1], settings)
        for mode in settings.modes if base.num_replicas > 1 else ("replicated_none",):
            with Worker(replace(base, kind="ours", mode=mode)) as ours:
                warm(ours, settings)
                for peer in peers:
                    _check_same_work(ours, peer)
                rounds = take_rounds([ours, *peers], settings)
            for position, peer in enumerate(peers, start=1):
                target = None  # those known are of CPU devices
                if base.device == "cpu":
                    target = TARGETS.get((base.model, peer.candidate.kind))
                labels = {"ours": ours.candidate.label, "peer": peer.candidate.label}
                pairs = [(turns[0], turns[position]) for turns in rounds]
                names = {"name": comparison.name, **labels}
                yield from _throughputs(names, pairs, base.items, target)


def start(comparison: Comparison, base: Candidate, settings: Settings) -> Iterator[Ratio]:
    """Start processes anew, one at a time, in random order."""
    peers = [replace(base, kind=kind) for kind in comparison.peers]
    ours = [replace(base, kind="ours", mode=mode) for mode in settings.modes]
    seen: dict[Candidate, list[dict[str, float]]] = {each: [] for each in (*peers, *ours)}
    order = random.Random(SEED)
    for _ in range(settings.num_starts):
        for candidate in order.sample(list(seen), len(seen)):
            with Worker(candidate) as worker:
                ready = worker.wait_until_ready()
                peak_bytes = worker.run(2).peak_memory_bytes
            seen[candidate].append(
                {
                    "first step, s": worker.first_step_s,
                    "first step without import, s": worker.first_step_s - ready.import_s,
                    "first step, CPU s": ready.cpu_s,
                    "peak memory, GB": peak_bytes / 1e9,
                }
            )
    for mine, peer in itertools.product(ours, peers):
        labels = {"ours": mine.label, "peer": peer.label}
        for metric in seen[mine][0]:
            pairs = [(a[metric], b[metric]) for a, b in zip(seen[mine], seen[peer], strict=True)]
            target = MEMORY_TARGET if "memory" in metric else FIRST_STEP_TARGETS[base.model]
            names = {"name": comparison.name, "metric": metric, **labels}
            yield Ratio(**names, pairs=pairs, target=target, want=Want.AT_MOST)


def warm(worker: Worker, settings: Settings) -> None:
    """Wait for the first step, then take those whose time does not count."""
    worker.wait_until_ready()
    worker.run(settings.num_warm_up_steps)


def _check_same_work(ours: Worker, peer: Worker) -> None:
    """As many parameters, and the same first losses: so initial weights, batches and updates are
    the same.
    """
    mine, theirs = ours.first_losses(), peer.first_losses()
    tolerances = [FIRST_LOSS_TOLERANCE] + [LOSS_TOLERANCE] * (AGREEING_STEPS - 1)
    if ours.candidate.seq_len:
        tolerances[0] = FIRST_LOSS_TOLERANCE_OF_TEXT
    if ours.candidate.model in DROPS_HALF:
        tolerances = [LOSS_TOLERANCE_OF_HALF] * AGREEING_STEPS
    agree = np.isclose(mine, theirs, rtol=tolerances)
    _say(f"  first losses {_numbers(mine)} and {_numbers(theirs)} ({peer.candidate.label})")
    if ours.ready.num_parameters != peer.ready.num_parameters or not agree.all():
        raise BrokenError(
            f"{ours.candidate} and {peer.candidate} do different work: "
            f"{ours.ready.num_parameters} and {peer.ready.num_parameters} parameters, "
            f"first losses {mine} and {theirs}"
        )


def take_rounds(workers: Sequence[Worker], settings: Settings) -> list[list[Turn]]:
    """The turns of every round, in the order of the workers."""
    order = random.Random(SEED)
    counts = []
    for worker in workers:
        last = worker.turns[-1]
        counts.append(max(2, math.ceil(settings.turn_s / (last.wall_s / max(1, len(last.losses))))))
    rounds = []
    for number in range(settings.num_rounds):
        turns = {
            position: workers[position].run(counts[position])
            for position in order.sample(range(len(workers)), len(workers))
        }
        rounds.append([turns[position] for position in range(len(workers))])
        _say(f"  round {number + 1} of {settings.num_rounds}", end="\r")
    idle = [
        (sum(turn.idle_cpu_s for turn in turns), sum(turn.idle_s for turn in turns))
        for turns in zip(*rounds, strict=True)
    ]
    idle_share = max(cpu_s / idle_s for cpu_s, idle_s in idle)
    _say(
        f"  {settings.num_rounds} rounds of {counts} steps; a waiting worker used at most "
        f"{100 * idle_share:.2f} % of a core"
    )
    return rounds


def _throughputs(
    names: Mapping[str, str], pairs: Sequence[Sequence[Turn]], unit: str, target: float | None
) -> list[Ratio]:
    """Compare work per CPU second and per second."""
    per_cpu_s = [(ours.work / ours.cpu_s, peer.work / peer.cpu_s) for ours, peer in pairs]
    per_s = [(ours.work / ours.wall_s, peer.work / peer.wall_s) for ours, peer in pairs]
    return [
        Ratio(**names, metric=f"{unit} per CPU s", pairs=per_cpu_s, target=target),
        Ratio(**names, metric=f"{unit} per s", pairs=per_s, target=target),
    ]


def _numbers(values: Sequence[float]) -> str:
    return " ".join(f"{value:.4f}" for value in values)


def _say(text: str, end: str = "\n") -> None:
    print(text, end=end, file=sys.stderr, flush=True)


def _settings(options: argparse.Namespace) -> Settings:
    modes = tuple(options.modes or (["replicated_none"] if options.quick else MODES))
    if options.quick:
        return Settings(
            num_rounds=2,
            num_starts=1,
            turn_s=0.1,
            num_warm_up_steps=AGREEING_STEPS - 1,
            modes=modes,
        )
    return Settings(
        num_rounds=options.rounds,
        num_starts=options.starts,
        turn_s=options.turn_s,
        num_warm_up_steps=WARM_UP_STEPS,
        modes=modes,
    )


def _images(model: str, num_replicas: int, batch_size: int, px: int, quick_px: int) -> Comparison:
    base = Candidate(
        kind="ours",
        model=model,
        batch_size=batch_size,
        image_px=px,
        num_replicas=num_replicas,
    )
    quick = replace(base, batch_size=4, image_px=quick_px)
    if num_replicas == 1:
        return Comparison(name=model, base=base, quick=quick, peers=("keras_loop",), measure=steps)
    name, peers = f"{model}_x{num_replicas}", ("mirrored", "mirrored_fused")
    return Comparison(name=name, base=base, quick=quick, peers=peers, measure=steps)


def _tokens(model: str, num_replicas: int) -> Comparison:
    base = Candidate(
        kind="ours", model=model, batch_size=8, image_px=0, seq_len=128, num_replicas=num_replicas
    )
    quick = replace(base, batch_size=1, seq_len=16)
    if num_replicas == 1:
        return Comparison(name=model, base=base, quick=quick, peers=("keras_loop",), measure=steps)
    name = f"{model}_x{num_replicas}"
    return Comparison(name=name, base=base, quick=quick, peers=("mirrored",), measure=steps)


COMPARISONS = (
    _images("resnet50", 1, 8, 224, 64),
    _images("resnet18_cifar", 1, 32, 32, 32),
    _images("alexnet", 1, 16, 227, 67),
    _images("vgg16", 1, 8, 64, 32),
    _images("inception3", 1, 8, 139, 75),
    _images("resnet50", 2, 4, 64, 64),
    _images("resnet50", 8, 4, 64, 64),
    _images("resnet18_cifar", 2, 32, 32, 32),
    _images("resnet18_cifar", 8, 32, 32, 32),
    *(_tokens(model, num) for num in (1, 2, 8) for model in ("bert_tiny", "gpt_mini")),
    replace(_images("resnet50", 8, 4, 64, 64), name="start", measure=start),
    replace(_tokens("gpt_mini", 8), name="start_gpt_mini", measure=start),
)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Speed of the trainer's step against hand-written loops, taking turns."
    )
    names = [comparison.name for comparison in COMPARISONS]
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"default all of: {', '.join(names)}"
    )
    parser.add_argument(
        "--modes",
        type=lambda text: text.split(","),
        help=f"of several replicas; default all of: {','.join(MODES)}",
    )
    parser.add_argument("--rounds", type=int, default=12, help="turns of every worker (default 12)")
    parser.add_argument(
        "--starts", type=int, default=5, help="processes of every candidate of `start` (default 5)"
    )
    parser.add_argument(
        "--turn-s", type=float, default=3.0, help="length of a turn in seconds (default 3)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="a tiny smoke test; one mode unless --modes is given"
    )
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu", help="default cpu")
    parser.add_argument(
        "--batch-size", type=int, metavar="N", help="examples per replica, where GPUs want more"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all rounds there")
    return parser


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
