"""Speed of the trainer's step against the best hand-written loops, both in one run, taking turns.

`python benchmarks/trainer.py [NAME ...] [--quick] [--json FILE]` prints a Markdown table; `--help`
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
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any

import numpy as np

from benchmarks.ratio import Ratio, Want, machine, table, write_json

ROOT = Path(__file__).resolve().parent.parent
SEED = 1  # of orders
WARM_UP_STEPS = 10  # the ancestor's floor
AGREEING_STEPS = 3  # so many first losses must be those of the peer
FIRST_LOSS_TOLERANCE = 1e-3  # relative: same weights, same batch
FIRST_LOSS_TOLERANCE_OF_TEXT = 3e-3  # its models have dropout at every layer, of other numbers
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
    ("resnet50", "keras_loop"): 1.25,
    ("resnet18_cifar", "keras_loop"): 1.1,
    ("alexnet", "keras_loop"): 1.0,
    ("vgg16", "keras_loop"): 1.0,
    ("inception3", "keras_loop"): 1.0,
    ("resnet50", "mirrored"): 1.3,
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

# 2 x multiply-adds of the convolutions and the affine layer of ResNet-50 version 1 at 224 px and
# 1001 classes, counted layer by
# layer from tf_cnn_benchmarks' definition: 7.716e9. A training step counts three times that: the
# backward pass is twice the
# forward pass. (Normalization, ReLU and the update are not counted, nor is it subtracted that
# images need no gradient.)
FORWARD_FLOPS = 7.716e9
AFFINE_FLOPS = 2 * 2048 * 1001  # independent of the image size
TRAINING_FACTOR = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What a worker shall train."""

    kind: str  # ours, keras_loop, keras_fit, mirrored, mirrored_fused (see peers.py), gemm, torch
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

    work: float  # images or tokens, or FLOP of a matrix product
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
    measure: Callable[[Comparison, Candidate, Settings], list[Ratio]]


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
    rows: list[Ratio] = []
    broken: dict[str, str] = {}
    for comparison in COMPARISONS:
        if comparison.name not in (options.names or names):
            continue
        _say(comparison.name)
        base = comparison.quick if options.quick else comparison.base
        base = replace(base, device=options.device)
        if options.batch_size:
            base = replace(base, batch_size=options.batch_size)
        try:
            rows += comparison.measure(comparison, base, settings)
        except BrokenError as error:
            broken[comparison.name] = str(error)
            _say(f"  broken: {error}")
    print(table(rows))
    where = machine() if options.device == "cpu" else machine("on its GPUs")
    print(
        f"\n{where}; {settings.num_rounds} rounds of {settings.turn_s} s a turn, "
        f"{settings.num_starts} starts."
    )
    if options.quick:
        print("\nA smoke test: the numbers mean nothing.")
    found = [row.reported() for row in rows]
    write_json(options.json, found, where, settings=asdict(settings), broken=broken)
    return 1 if broken else 0


def steps(comparison: Comparison, base: Candidate, settings: Settings) -> list[Ratio]:
    """Every mode of ours takes turns with all peers; peers are started once."""
    rows = []
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
                pairs = [(turns[0], turns[position]) for turns in rounds]
                rows += _throughputs(
                    comparison.name,
                    ours.candidate.label,
                    peer.candidate.label,
                    pairs,
                    base.items,
                    1.0,
                    target,
                )
    return rows


def start(comparison: Comparison, base: Candidate, settings: Settings) -> list[Ratio]:
    """Processes started anew, one at a time, in random order."""
    candidates = [replace(base, kind=kind) for kind in comparison.peers]
    candidates += [replace(base, kind="ours", mode=mode) for mode in settings.modes]
    seen: dict[Candidate, list[dict[str, float]]] = {candidate: [] for candidate in candidates}
    order = random.Random(SEED)
    for _ in range(settings.num_starts):
        for candidate in order.sample(candidates, len(candidates)):
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
    rows = []
    for ours in candidates[len(comparison.peers) :]:
        for peer in candidates[: len(comparison.peers)]:
            for metric in seen[ours][0]:
                pairs = [
                    (a[metric], b[metric]) for a, b in zip(seen[ours], seen[peer], strict=True)
                ]
                target = FIRST_STEP_TARGETS[base.model]
                if "memory" in metric:
                    target = MEMORY_TARGET
                names = {
                    "name": comparison.name,
                    "ours": ours.label,
                    "peer": peer.label,
                    "metric": metric,
                }
                rows.append(Ratio(**names, pairs=pairs, target=target, want=Want.AT_MOST))
    return rows


def peak(comparison: Comparison, base: Candidate, settings: Settings) -> list[Ratio]:
    """Share of the machine's matrix product rate that our step reaches."""
    flops_per_image = (
        AFFINE_FLOPS + (FORWARD_FLOPS - AFFINE_FLOPS) * (base.image_px / 224) ** 2
    ) * TRAINING_FACTOR
    with Worker(Candidate(kind="gemm")) as gemm:
        warm(gemm, settings)
        with Worker(replace(base, kind="ours")) as ours:
            warm(ours, settings)
            rounds = take_rounds([ours, gemm], settings)
    best = max(turn.work / turn.wall_s for turn in gemm.turns)
    reached = [flops_per_image * turns[0].work / turns[0].wall_s for turns in rounds]
    return [  # per round first, which drift spares; then against the best product of all rounds
        *_throughputs(
            comparison.name,
            "ours",
            "gemm",
            rounds,
            "GFLOP",
            flops_per_image / 1e9,
            None,
            peer_scale=1e-9,
        ),
        Ratio(
            name=comparison.name,
            ours="ours",
            peer="best gemm",
            metric="GFLOP per s",
            pairs=[(rate / 1e9, best / 1e9) for rate in reached],
            target=None,
        ),
    ]


def warm(worker: Worker, settings: Settings) -> None:
    """Wait for the first step, then take those whose time does not count."""
    worker.wait_until_ready()
    worker.run(1 if worker.candidate.kind == "gemm" else settings.num_warm_up_steps)


def _check_same_work(ours: Worker, peer: Worker) -> None:
    """As many parameters, and the same first losses: so initial weights, batches and updates are
    the same.
    """
    mine, theirs = ours.first_losses(), peer.first_losses()
    first_tolerance = FIRST_LOSS_TOLERANCE
    if ours.candidate.seq_len:
        first_tolerance = FIRST_LOSS_TOLERANCE_OF_TEXT
    agree = np.isclose(
        mine, theirs, rtol=[first_tolerance] + [LOSS_TOLERANCE] * (AGREEING_STEPS - 1)
    )
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
    name: str,
    ours: str,
    peer: str,
    pairs: Sequence[Sequence[Turn]],
    unit: str,
    scale: float,
    target: float | None,
    *,
    peer_scale: float | None = None,
) -> list[Ratio]:
    """Work per CPU second and per second; the scales turn a turn's work into units."""
    other = scale if peer_scale is None else peer_scale
    per_cpu_s = [(scale * a.work / a.cpu_s, other * b.work / b.cpu_s) for a, b in pairs]
    per_s = [(scale * a.work / a.wall_s, other * b.work / b.wall_s) for a, b in pairs]
    return [
        Ratio(
            name=name,
            ours=ours,
            peer=peer,
            metric=f"{unit} per CPU s",
            pairs=per_cpu_s,
            target=target,
        ),
        Ratio(name=name, ours=ours, peer=peer, metric=f"{unit} per s", pairs=per_s, target=target),
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


def _one(model: str, batch_size: int, image_px: int, quick_px: int) -> Comparison:
    base = Candidate(kind="ours", model=model, batch_size=batch_size, image_px=image_px)
    quick = replace(base, batch_size=4, image_px=quick_px)
    return Comparison(name=model, base=base, quick=quick, peers=("keras_loop",), measure=steps)


def _many(model: str, num_replicas: int, batch_size: int, image_px: int) -> Comparison:
    base = Candidate(
        kind="ours",
        model=model,
        batch_size=batch_size,
        image_px=image_px,
        num_replicas=num_replicas,
    )
    peers = ("mirrored", "mirrored_fused")
    return Comparison(
        name=f"{model}_x{num_replicas}",
        base=base,
        quick=replace(base, batch_size=4),
        peers=peers,
        measure=steps,
    )


def _text(model: str, num_replicas: int, batch_size: int, seq_len: int) -> Comparison:
    base = Candidate(
        kind="ours",
        model=model,
        batch_size=batch_size,
        image_px=0,
        seq_len=seq_len,
        num_replicas=num_replicas,
    )
    return Comparison(
        name=model if num_replicas == 1 else f"{model}_x{num_replicas}",
        base=base,
        quick=replace(base, batch_size=1, seq_len=16),
        peers=("keras_loop",) if num_replicas == 1 else ("mirrored",),
        measure=steps,
    )


COMPARISONS = (
    _one("resnet50", 8, 224, 64),
    _one("resnet18_cifar", 32, 32, 32),
    _one("alexnet", 16, 227, 67),
    _one("vgg16", 8, 64, 32),
    _one("inception3", 8, 139, 75),
    _many("resnet50", 2, 4, 64),
    _many("resnet50", 8, 4, 64),
    _many("resnet18_cifar", 2, 32, 32),
    _many("resnet18_cifar", 8, 32, 32),
    _text("bert_tiny", 1, 8, 128),
    _text("gpt_mini", 1, 8, 128),
    _text("bert_tiny", 2, 8, 128),
    _text("gpt_mini", 2, 8, 128),
    _text("bert_tiny", 8, 8, 128),
    _text("gpt_mini", 8, 8, 128),
    replace(_many("resnet50", 8, 4, 64), name="start", measure=start),
    replace(_text("gpt_mini", 8, 8, 128), name="start_gpt_mini", measure=start),
    replace(_one("resnet50", 8, 224, 64), name="peak", peers=(), measure=peak),
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
