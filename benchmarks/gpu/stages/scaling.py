"""Speed on several GPUs by three ways of summing gradients, and whether all train the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from benchmarks.gpu.box import Box
from benchmarks.gpu.kit import Finding, Judged, Kit, NotRunError, Number, Verdict
from benchmarks.gpu.stages.faults import LOSS_TOLERANCE
from benchmarks.gpu.stages.plain import EFFORT
from benchmarks.gpu.trials import Trial, all_completed, measured

ABOUT = "speed on 1, 2 and all GPUs, by towers without and with NCCL and by a process per GPU"
LINES: Mapping[str, str] = {
    "sums": "trials of every strategy complete, with gradients summed as asked, where asked",
    "losses": "all strategies have the same first loss on the same number of GPUs",
    "efficiency": "efficiency is more than 0, and 1.05 at most",
}
MINUTES: Mapping[str, float] = {"gpus": 4.75, "gpu": 0.1, "cpu": 0.5}
MOST_EFFICIENCY = 1.05  # more cannot be, but for noise: GPUs share nothing that one has alone


def run(kit: Kit) -> Iterator[Finding]:
    box = kit.box
    if box.on_gpus and box.most_gpus_per_trial < 2:
        found = "MIG devices, of which a program sees one" if box.is_mig else "one"
        raise NotRunError(f"needs two GPUs, found {found}")
    trials = yield from measured(kit, "scaling", grid(box))
    efficiency = efficiencies(trials)
    for label, value in efficiency.items():
        yield Number(what=f"{label}, efficiency", value=100 * value, unit="%")
    yield all_completed("sums", trials)
    yield losses_agree("losses", trials)
    yield efficiency_is_sane("efficiency", efficiency, on_gpus=box.on_gpus)


def grid(box: Box) -> list[str]:
    """Return the overrides of the sweep: one GPU once, for there is nothing to sum."""
    overrides = ["model=lenet5", "precision=fp32"]
    numbers, summing = "2", "ring"
    if box.on_gpus:
        batch_size = f"batch_size={box.batch_size}"
        overrides = ["model=resnet50", f"precision={box.half}", batch_size, *EFFORT]
        numbers, summing = ",".join(map(str, sorted({2, box.most_gpus_per_trial}))), "nccl"
    grids = [
        "{variable_update:replicated,all_reduce:none,num_gpus:1}",
        f"{{variable_update:replicated,all_reduce:[none,{summing}],num_gpus:[{numbers}]}}",
        f"{{variable_update:process_per_gpu,all_reduce:{summing},num_gpus:[{numbers}]}}",
    ]
    return [*overrides, f"hydra.sweeper.grids=[{','.join(grids)}]"]


def efficiencies(trials: Sequence[Trial]) -> dict[str, float]:
    """Return the speed on several GPUs over as many times that on one, by the trial's label."""
    measured = [(trial, trial.measurement.throughput) for trial in trials if trial.measurement]
    alone = [speed for trial, speed in measured if trial.spec.num_gpus == 1]
    found = {}
    for trial, speed in measured:
        if alone and trial.spec.num_gpus > 1:
            found[trial.label] = speed / (trial.spec.num_gpus * alone[0])
    return found


def losses_agree(line: str, trials: Sequence[Trial]) -> Judged:
    """Judge by first losses: each replica has a batch of its own, the same in all strategies."""
    losses: dict[int, list[float]] = defaultdict(list)
    for trial in trials:
        if trial.measurement and trial.spec.num_gpus > 1:
            if trial.measurement.first_loss is None:
                why = f"{trial.label}: the first loss is not finite"
                return Judged(line=line, verdict=Verdict.MISSED, why=why)
            losses[trial.spec.num_gpus].append(trial.measurement.first_loss)
    spans = []
    verdict = Verdict.MET
    for num_gpus, found in losses.items():
        if len(found) < 2:
            continue
        low, high = min(found), max(found)
        spans.append(f"{low:.6g} to {high:.6g} in {len(found)} strategies on {num_gpus}")
        if high - low > LOSS_TOLERANCE * abs(high):
            verdict = Verdict.MISSED
    if not spans:
        why = "no two strategies were measured on the same number of GPUs"
        return Judged(line=line, verdict=Verdict.NOT_RUN, why=why)
    return Judged(line=line, verdict=verdict, why="; ".join(spans))


def efficiency_is_sane(line: str, found: Mapping[str, float], *, on_gpus: bool) -> Judged:
    """Judge whether the efficiency of each trial is one that can be."""
    if not found:
        why = "no trial on one GPU, or none on several, was measured"
        return Judged(line=line, verdict=Verdict.NOT_RUN, why=why)
    span = f"{min(found.values()):.3f} to {max(found.values()):.3f} in {len(found)} trials"
    if not on_gpus:
        return Judged(line=line, verdict=Verdict.NOT_RUN, why=f"on CPU devices {span}")
    wrong = [f"{one}: {value:.3f}" for one, value in found.items() if not _can_be(value)]
    if wrong:
        return Judged(line=line, verdict=Verdict.MISSED, why="; ".join(wrong))
    return Judged(line=line, verdict=Verdict.MET, why=span)


def _can_be(efficiency: float) -> bool:
    return 0 < efficiency <= MOST_EFFICIENCY
