"""How often a race ends with the winner of the full grid, and how many GPU-seconds of the full grid
it takes.

`python -m benchmarks.racing [GRIDS]` plays random grids (200 per row) twice with the same speeds:
once all repeats, once racing, by the sweep's own queue and policy. A grid is 5 strategies at 1, 2,
4 and 8 GPUs of some models: 4 races per model. Drawn anew are how far the slowest of each race is
behind (0 to 60 %), how far processes of a grid differ (0.5 to 3 %, in some cells twice as far as in
others), and steps within one (1 to 10 %, of 100 steps). A trial takes 20 s and the time of its
steps.

`winner` is the share of races won by who wins the full grid; `truth` of those won by who truly is
fastest, beside how often the full grid itself finds that one; `reported` of those where it leads,
or ties with the leader, as tables mark it. With flukes one repeat of twenty loses a tenth of its
speed to a neighbor.

A second table has what a budget finds: grids of 5 strategies at 1, 2, 4 and 8 GPUs and 2 batch
sizes or precisions, simulated on boxes, with 3 repeats at most and GPU-hours for a fifth of all of
them. `close` is the share of grids whose fastest trial is truly within 2 % of the fastest of all.
The constants of the search were chosen on the boxes of the first row alone.
"""

from __future__ import annotations

import itertools
import math
import random
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

sys.path[0] = str(Path(__file__).resolve().parent.parent)  # beside this file lies another `trainer`

from benchmarks.asking import head, parser, row
from benchmarks.made_up_results import spec_of
from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import Outcome
from scalemark.records.trial import STRATEGY_COLUMNS, TrialSpec
from scalemark.stats.welch import known_ratio_interval
from simulator.costs.box import profile
from simulator.costs.step import costs
from store.ledger import OpenRepeat
from store.reading.earlier import CompletedRepeat
from sweeper.early_stopping.budget import Budget
from sweeper.early_stopping.contests import Contest, Observer, Race, make_races
from sweeper.early_stopping.fastest import make_searches
from sweeper.grid.plan import PlannedTrial
from sweeper.loop.backlog import Backlog, Queue, Task, planned_repeats

NUM_GRIDS = 200
WIDTHS = (1, 2, 4, 8)
MODELS = ("inception3", "resnet50", "resnet152", "alexnet", "vgg16")
BATCH_SIZE = 64
NUM_STEPS = 100
START_S = 20.0
Axes = tuple[Mapping[str, object], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One trial, and what each of its repeats will show."""

    spec: TrialSpec
    true_speed: float  # images/s
    repeats: tuple[CompletedRepeat, ...]

    @property
    def gpu_seconds(self) -> float:
        return self.spent_s(len(self.repeats))

    def spent_s(self, num_run: int) -> float:
        """Return the GPU-seconds of the first so many repeats."""
        width = self.spec.num_gpus
        num_images = NUM_STEPS * width * BATCH_SIZE
        took_s = [START_S + num_images / one.throughput for one in self.repeats[:num_run]]
        return width * sum(took_s)

    @property
    def mean(self) -> float:
        return fmean(math.log(repeat.throughput) for repeat in self.repeats)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What grids of a row have in common."""

    num_models: int = 5
    most_repeats: int = 5
    most_behind: float = 0.6
    fluke_rate: float = 0.0

    @property
    def reported(self) -> str:
        flukes = ", flukes" if self.fluke_rate else ""
        return f"{self.num_models} models, up to {self.most_behind:.0%} behind{flukes}".replace(
            "%", " %"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Sums over races."""

    num_races: int = 0
    num_same: int = 0
    num_true: int = 0
    num_true_of_full: int = 0
    num_reported: int = 0
    spent_s: float = 0.0
    full_s: float = 0.0

    def __add__(self, other: Score) -> Score:
        return Score(
            **{name: getattr(self, name) + getattr(other, name) for name in Score.__slots__}
        )


ROWS = (
    *(Kind(most_repeats=num) for num in (3, 5, 10)),
    *(Kind(num_models=1, most_repeats=num) for num in (3, 5, 10)),
    *(Kind(most_behind=most) for most in (0.1, 0.3)),
    Kind(fluke_rate=0.05),
    Kind(num_models=1, fluke_rate=0.05),
)


def grid(kind: Kind, rng: random.Random) -> list[Cell]:
    """With all that its repeats would show, run or not."""
    spread = math.exp(rng.uniform(math.log(0.005), math.log(0.03)))
    step_spread = rng.uniform(0.01, 0.1)
    cells = []
    for model in MODELS[: kind.num_models]:
        single_speed = math.exp(rng.uniform(4.0, 6.0))
        for width in WIDTHS:
            behind = rng.uniform(0, kind.most_behind)
            for axes in STRATEGY_COLUMNS:
                speed = 0.9 * width * single_speed * (1 - rng.uniform(0, behind))
                of_processes = math.hypot(
                    spread * 2 ** rng.uniform(-0.5, 0.5), step_spread / math.sqrt(NUM_STEPS)
                )
                spec = spec_of(
                    model=model,
                    strategy=axes,
                    num_gpus=width,
                    device_kind=DeviceKind.SIMULATED_GPU,
                    batch_size=BATCH_SIZE,
                    num_steps=NUM_STEPS,
                )
                repeats = tuple(
                    _repeat(speed, of_processes, kind, rng) for _ in range(kind.most_repeats)
                )
                cells.append(Cell(spec=spec, true_speed=speed, repeats=repeats))
    return cells


def play(cells: Sequence[Cell], most_repeats: int, seed: int) -> Score:
    """The grid raced, against the grid run in full."""
    by_id = {cell.spec.trial_id: cell for cell in cells}
    num_run = dict.fromkeys(by_id, 0)

    def read(trial_ids: Sequence[str]) -> Mapping[str, tuple[CompletedRepeat, ...]]:
        return {trial_id: by_id[trial_id].repeats[: num_run[trial_id]] for trial_id in trial_ids}

    races = make_races([cell.spec for cell in cells], most_repeats, read)
    for trial_id in _run(races, list(by_id), cells, most_repeats, seed):
        num_run[trial_id] += 1
    return sum((_score(race, by_id, num_run) for race in races), Score())


def _run(
    contests: Sequence[Contest],
    trial_ids: Sequence[str],
    cells: Sequence[Cell],
    most_repeats: int,
    seed: int,
    failing: Collection[str] = (),
) -> Iterator[str]:
    """Yield the trial of each repeat that is run; whoever takes it has run it."""
    open_ = [
        OpenRepeat(
            repeat_id=place * most_repeats + turn,
            trial_id=trial_id,
            repeat=turn + 1,
            num_attempts=0,
        )
        for place, trial_id in enumerate(trial_ids)
        for turn in range(most_repeats)
    ]
    trials = [PlannedTrial(spec=cell.spec, num_repeats=most_repeats) for cell in cells]
    repeats = planned_repeats(open_, trials, lambda spec: None, {})
    backlog = Backlog(repeats, seed=seed, packs=False)
    observer = Observer(contests, backlog, lambda keys, reason: None)
    observer.steer_all()
    for task in _in_turn(backlog.queue, observer):
        trial_id = backlog[task.key].open.trial_id
        observer.begun(task.key)
        yield trial_id
        outcome = Outcome.OUT_OF_MEMORY if trial_id in failing else Outcome.COMPLETED
        observer.ended(task.key, outcome)
        observer.steer(task.key)


TUNED_ON = ("p100_pcie_8", "dgx1_v100", "k80_8", "dgx_a100", "titanx_pcie_8")
HELD_OUT = ("v100_pcie_8", "dgx1_p100", "dgx2_v100", "dgx_a100_80", "h100_8", "h200_8")
SHARE = 0.2  # of the GPU-seconds of the full grid
FULL_REPEATS = 3
CLOSE = 0.02
TWO_BATCHES: Axes = tuple({"batch_size": size} for size in (32, 64))
TWO_PRECISIONS: Axes = tuple(
    {"batch_size": BATCH_SIZE, "precision": name} for name in ("fp32", "fp16")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Results of searches within a budget, in some grids."""

    num_grids: int = 0
    num_close: int = 0
    num_illegal: int = 0  # whose trial does not fit into the memory
    num_late: int = 0  # that took more than was given
    share: float = 0.0  # of GPU-seconds of the full grid, summed

    def __add__(self, other: Found) -> Found:
        return Found(
            **{name: getattr(self, name) + getattr(other, name) for name in Found.__slots__}
        )


def simulated_grid(
    box: str, model: str, variants: Axes, rng: random.Random
) -> tuple[list[Cell], set[str]]:
    """Return the trials of a grid on a box, and those of them that run out of memory. Raises
    ValueError where the box lacks a precision.
    """
    hardware = profile(box)
    spread = math.exp(rng.uniform(math.log(0.005), math.log(0.03)))
    cells: list[Cell] = []
    failing: set[str] = set()
    for strategy, axes, width in itertools.product(STRATEGY_COLUMNS, variants, WIDTHS):
        spec = spec_of(
            model=model,
            strategy=strategy,
            num_gpus=width,
            device_kind=DeviceKind.SIMULATED_GPU,
            num_steps=NUM_STEPS,
            **axes,
        )
        truth = costs(spec, hardware)
        speed = truth.items / truth.step_s
        repeats = []
        for _ in range(FULL_REPEATS):
            repeats.append(CompletedRepeat(throughput=speed * math.exp(rng.gauss(0, spread))))
        cells.append(Cell(spec=spec, true_speed=speed, repeats=tuple(repeats)))
        if truth.memory_bytes > hardware.memory_gib * 2**30:
            failing.add(spec.trial_id)
    return cells, failing


def play_within_budget(cells: Sequence[Cell], failing: Collection[str], seed: int) -> Found:
    """Search the fastest trial for a share of the GPU-seconds of the full grid."""
    by_id = {cell.spec.trial_id: cell for cell in cells}
    num_run = dict.fromkeys(by_id, 0)
    full_s = sum(cell.gpu_seconds for cell in cells)
    now_s = 0.0

    def read(trial_ids: Sequence[str]) -> Mapping[str, tuple[CompletedRepeat, ...]]:
        return {
            trial_id: by_id[trial_id].repeats[: num_run[trial_id]]
            for trial_id in trial_ids
            if trial_id not in failing
        }

    budget = Budget(SHARE * full_s, of_devices=True, clock=lambda: now_s)
    searches = make_searches(
        [cell.spec for cell in cells], FULL_REPEATS, read, budget, lambda spec: None
    )
    for trial_id in _run(searches, list(by_id), cells, FULL_REPEATS, seed, failing):
        cell = by_id[trial_id]
        now_s += (cell.spent_s(num_run[trial_id] + 1) - cell.spent_s(num_run[trial_id])) / (
            cell.spec.num_gpus
        )
        num_run[trial_id] += 1
    (search,) = searches
    leader = search.search({}).leader
    assert leader is not None
    legal = [cell.true_speed for trial_id, cell in by_id.items() if trial_id not in failing]
    return Found(
        num_grids=1,
        num_close=by_id[leader.trial_id].true_speed >= (1 - CLOSE) * max(legal),
        num_illegal=leader.trial_id in failing,
        num_late=budget.spent_s > budget.most_s,
        share=budget.spent_s / full_s,
    )


def found_on(boxes: Sequence[str], num_draws: int, models: Sequence[str] = MODELS) -> Found:
    """Sum over all grids of these boxes; those without fp16 have batch sizes alone."""
    found = Found()
    for box, model, variants in itertools.product(boxes, models, (TWO_BATCHES, TWO_PRECISIONS)):
        if variants is TWO_PRECISIONS and "fp16" not in profile(box).tflops:
            continue
        for seed in range(num_draws):
            cells, failing = simulated_grid(box, model, variants, random.Random(seed))
            found += play_within_budget(cells, failing, seed)
    return found


def main(num_grids: int) -> None:
    head("grids", "repeats at most", "races", "winner", "truth", "truth, full grid", "reported",
         "GPU-seconds of the full grid")  # fmt: skip
    for kind in ROWS:
        score = Score()
        for seed in range(num_grids):
            score += play(grid(kind, random.Random(seed)), kind.most_repeats, seed)
        counts = (score.num_same, score.num_true, score.num_true_of_full, score.num_reported)
        shares = [f"{count / score.num_races:.1%}" for count in counts]
        spent = f"{score.spent_s / score.full_s:.1%}"
        row(kind.reported, kind.most_repeats, score.num_races, *shares, spent)
    print()
    head("boxes", "grids", "close", "illegal", "over budget", "GPU-seconds of the full grid")
    for name, boxes in (("chosen on", TUNED_ON), ("held out", HELD_OUT)):
        found = found_on(boxes, max(1, num_grids // 20))
        close, share = found.num_close / found.num_grids, found.share / found.num_grids
        counts = (found.num_grids, f"{close:.1%}", found.num_illegal, found.num_late)
        row(name, *counts, f"{share:.1%}")


def _in_turn(queue: Queue, observer: Observer) -> Iterator[Task]:
    """Each repeat that is still wanted when its turn comes; exclusive, as a sweep runs."""
    while (task := queue.pop(lambda num_gpus: True, is_idle=True)) is not None:
        if observer.wants(task):
            yield task
        else:
            queue.put_back(task)
            observer.steer(task.key)


def _score(race: Race, by_id: Mapping[str, Cell], num_run: Mapping[str, int]) -> Score:
    ids = race.trial_ids
    speeds = {}
    for trial_id in ids:
        ran = by_id[trial_id].repeats[: num_run[trial_id]]
        if trial_id not in race.rule({}).out:
            speeds[trial_id] = [repeat.throughput for repeat in ran]
    leader = max(speeds, key=lambda trial_id: fmean(map(math.log, speeds[trial_id])))
    full = max(ids, key=lambda trial_id: by_id[trial_id].mean)
    true = max(ids, key=lambda trial_id: by_id[trial_id].true_speed)
    low = None  # of the leader over the fastest, where that is not out
    if true in speeds:
        low, _ = known_ratio_interval(speeds[leader], speeds[true])
    return Score(
        num_races=1,
        num_same=leader == full,
        num_true=leader == true,
        num_true_of_full=full == true,
        num_reported=leader == true or (low is not None and low <= 1),
        spent_s=sum(by_id[trial_id].spent_s(num_run[trial_id]) for trial_id in ids),
        full_s=sum(by_id[trial_id].gpu_seconds for trial_id in ids),
    )


def _repeat(speed: float, of_processes: float, kind: Kind, rng: random.Random) -> CompletedRepeat:
    fluke = 0.9 if rng.random() < kind.fluke_rate else 1.0
    found = speed * math.exp(rng.gauss(0, of_processes)) * fluke
    return CompletedRepeat(throughput=found)


if __name__ == "__main__":
    main(parser(__doc__, number=NUM_GRIDS).parse_args().number)
