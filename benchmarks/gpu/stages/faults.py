"""Is a lack of memory reported as such, and do both ways of starting a trial give equal numbers?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.gpu.kit import Finding, Judged, Kit, NotRunError, Number, Verdict
from benchmarks.gpu.trials import Trial, sweep
from benchmarks.ratio import Ratio, Want
from scalemark.records.measurement import Measurement, Outcome

ABOUT = "a lack of memory is reported as such; both ways to start a trial give the same numbers"
LINES: Mapping[str, str] = {
    "memory": "a trial without enough memory is reported as out of memory",
    "starts": "fork and spawn start trials with equal losses and, on GPUs, equal speed",
}
MINUTES: Mapping[str, float] = {"gpus": 2.5, "gpu": 2.5, "cpu": 0.6}
STARTS = ("fork", "spawn")
EFFORT = ("num_steps=50", "min_warm_up_s=1", "min_window_s=2")  # of each start: there are six
LOSS_TOLERANCE = 1e-3  # relative: sums in another order
# 366 GB by the cost model, more than any GPU has. Activations of twice the batch have more than
# 2**31 numbers: cuDNN takes none so large, and ends the process before memory is asked for.
TOO_LARGE_FOR_GPUS = ("model=resnet152", "batch_size=2048", "precision=fp32", "num_steps=3")
# of the host: CPU devices have no other memory
TOO_LARGE_FOR_CPUS = ("model=lenet5", "batch_size=200000", "launcher.host_memory_gib=1.5")


def run(kit: Kit) -> Iterator[Finding]:
    grid = TOO_LARGE_FOR_GPUS if kit.box.on_gpus else TOO_LARGE_FOR_CPUS
    *_, trial = sweep(kit, "memory", grid)
    is_told = trial.end.outcome == Outcome.OUT_OF_MEMORY
    yield Judged(
        line="memory",
        verdict=Verdict.MET if is_told else Verdict.MISSED,
        why=f"{trial.label}: {trial.end.outcome}: {trial.end.message}"[:300],
    )
    yield from _starts(kit)


def _starts(kit: Kit) -> Iterator[Finding]:
    """Run one trial in both ways, in turns."""
    model, num_rounds = ("resnet18_cifar", 3) if kit.box.on_gpus else ("lenet5", 1)
    rounds = []
    for number in range(num_rounds):
        found = []
        for start in STARTS:
            overrides = [f"model={model}", "precision=fp32", f"launcher.start={start}", *EFFORT]
            *_, trial = sweep(kit, f"starts-{number}-{start}", overrides)
            found.append(_measurement(trial, start))
            yield Number(
                what=f"{trial.label} by {start}, round {number + 1}",
                value=found[-1].throughput,
                unit=f"{found[-1].item}/s",
            )
        rounds.append((found[0], found[1]))
    if not kit.box.on_gpus:
        yield starts_agree(rounds, None)
        return
    ratio = Ratio(
        name=model,
        ours="fork",
        peer="spawn",
        metric="throughput",
        pairs=[(fork.throughput, spawn.throughput) for fork, spawn in rounds],
        target=1.0,
        want=Want.EQUAL,
    )
    yield Number(what="fork / spawn", value=ratio.ratio, unit="x", low=ratio.low, high=ratio.high)
    yield starts_agree(rounds, Verdict(ratio.verdict))


def starts_agree(
    rounds: Sequence[tuple[Measurement, Measurement]], speed: Verdict | None
) -> Judged:
    """Judge the first losses of both ways, then their speed where it was judged, on GPUs."""
    for fork, spawn in rounds:
        if fork.first_loss is None or spawn.first_loss is None:
            return Judged(line="starts", verdict=Verdict.MISSED, why="a first loss is not finite")
        if abs(fork.first_loss - spawn.first_loss) > LOSS_TOLERANCE * abs(spawn.first_loss):
            why = f"first losses {fork.first_loss} by fork and {spawn.first_loss} by spawn"
            return Judged(line="starts", verdict=Verdict.MISSED, why=why)
    judged = f"speed: {speed}" if speed else "speed is judged on GPUs alone"
    return Judged(line="starts", verdict=speed or Verdict.MET, why=f"equal first losses; {judged}")


def _measurement(trial: Trial, start: str) -> Measurement:
    if trial.measurement is None:
        raise NotRunError(f"by {start}: {trial.failure}")
    return trial.measurement
