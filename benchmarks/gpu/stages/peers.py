"""Our step beside compiled PyTorch's and compiled Keras', on the same device, taking turns.

```
  ours ───── run K ─►┐
  Keras ──── run K ─►├─ a round, in random order ──► ratio ours / peer ──► median, 95 % interval
  PyTorch ── run K ─►┘
```
Peers start together, for they import and compile for a minute each; they warm up one after the
other.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack

from benchmarks.gpu.box import Box
from benchmarks.gpu.kit import Finding, Judged, Kit, Note, Number, OutOfTimeError, Verdict, logged
from benchmarks.gpu.trials import planned
from benchmarks.ratio import Ratio
from benchmarks.trainer import BrokenError, Candidate, Settings, Turn, Worker, take_rounds, warm
from scalemark.records.trial import TrialSpec

ABOUT = "our step beside compiled PyTorch's and Keras', taking turns"
LINES: Mapping[str, str] = {
    "torch_images": "ResNet-50, bf16, batch 256: at least 0.90 x compiled PyTorch",
    "keras_images": "ResNet-50, bf16, batch 256: at least 1.10 x plain compiled Keras",
    "torch_tokens": "the better of BERT-base and GPT-2, bf16: at least 0.80 x compiled PyTorch",
}
TARGETS = {"torch_images": 0.9, "keras_images": 1.1, "torch_tokens": 0.8}
MINUTES: Mapping[str, float] = {"gpus": 6.75, "gpu": 6.75, "cpu": 1.0}
WANTED = ("bf16", 256)  # of the lines about images
_SHARING = {
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",  # else the first side takes all of the GPU's memory
    # PyTorch's threads else spin while they wait: on busy cores a step took 80 times as long
    "OMP_WAIT_POLICY": "PASSIVE",
}
_SAME_UPDATE = ("optimizer=momentum", "learning_rate=0.001", "weight_decay=0")  # of all sides


def run(kit: Kit) -> Iterator[Finding]:
    torch_lack = lack_of_torch(kit.torch_python)
    if torch_lack:
        yield Note(text=f"PyTorch: not run: {torch_lack}; --torch-python names a Python")
    broken = []
    for compare in (_images, _tokens):
        try:
            yield from compare(kit, torch_lack)
        except BrokenError as error:  # the other comparison is still worth it
            broken.append(error)
    if broken:
        raise broken[0]


def _images(kit: Kit, torch_lack: str) -> Iterator[Finding]:
    lines = ("keras_images", "torch_images")
    specs = planned(kit, images_grid(kit.box))
    ratios = yield from _compared(kit, specs, torch_lack, lines)
    for line in lines:
        of_line = [ratio for ratio in ratios if ratio.name == line]
        yield judged(line, of_line, specs[0], on_gpus=kit.box.on_gpus, torch_lack=torch_lack)


def _tokens(kit: Kit, torch_lack: str) -> Iterator[Finding]:
    """Compare one model after the other, and judge by the better; also where time is over between
    them, somebody interrupts, or one is broken.
    """
    line = "torch_tokens"
    if torch_lack:
        yield Judged(line=line, verdict=Verdict.NOT_RUN, why=torch_lack)
        return
    plans = [planned(kit, grid) for grid in tokens_grids(kit.box)]
    ratios: list[Ratio] = []
    stopped: list[BrokenError | OutOfTimeError | KeyboardInterrupt] = []
    unmeasured = [specs[0].model for specs in plans]
    for specs in plans:
        try:
            found = yield from _compared(kit, specs, torch_lack, (line,))
        except BrokenError as error:
            stopped.append(error)
            continue
        except (OutOfTimeError, KeyboardInterrupt) as error:
            stopped.append(error)
            break
        ratios += found
        if found:
            unmeasured.remove(specs[0].model)
    if ratios or not stopped:
        yield judged(
            line,
            ratios,
            plans[0][0],
            on_gpus=kit.box.on_gpus,
            unmeasured=unmeasured,
        )
    if stopped:
        raise stopped[-1]


def lack_of_torch(python: str) -> str:
    """Return what keeps this Python from using PyTorch; empty where nothing does."""
    ended = subprocess.run(
        [python, "-c", "import numpy, torch"], capture_output=True, text=True, check=False
    )
    if ended.returncode == 0:
        return ""
    said = ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"]
    return f"{python} has no PyTorch that can be imported: {said[-1]}"


def images_grid(box: Box) -> list[str]:
    """Return the overrides of the trials of images that take turns with the peers."""
    if not box.on_gpus:
        return ["model=lenet5", "batch_size=16", "xla=off", *_SAME_UPDATE]
    precision = f"precision={box.half}"
    return [
        "model=resnet50",
        precision,
        f"batch_size={box.batch_size}",
        "xla=off,on",
        *_SAME_UPDATE,
    ]


def tokens_grids(box: Box) -> list[list[str]]:
    """Return those of tokens, a list for each model."""
    if not box.on_gpus:
        small = ["batch_size=2", "seq_len=32", "xla=off", *_SAME_UPDATE]
        return [["model=bert_tiny", *small], ["model=gpt_mini", *small]]
    # with XLA alone: without it a step of GPT-2 took four times as long on an H200
    usual = [f"precision={box.half}", "xla=on", *_SAME_UPDATE]
    # of 128 tokens, as 90 % of the steps of its training (Devlin et al. 2018)
    bert = ["model=bert_base", "seq_len=128", f"batch_size={max(1, box.batch_size // 2)}"]
    return [
        [*bert, *usual],
        ["model=gpt2", f"batch_size={max(1, box.batch_size // 32)}", *usual],
    ]


def _compared(
    kit: Kit, specs: Sequence[TrialSpec], torch_lack: str, lines: Sequence[str]
) -> Generator[Finding, None, list[Ratio]]:
    """Take turns with the peers of these lines, with each of these trials of ours; return ratios
    of each line, named after it.

    Raises BrokenError where none of ours trained.
    """
    settings = _settings(kit.box)
    ratios: list[Ratio] = []
    broken: list[BrokenError] = []
    with ExitStack() as stack:
        started: dict[str, Worker] = {}
        for line in lines:
            kind = line.partition("_")[0]
            if kind != "torch" or not torch_lack:
                started[line] = stack.enter_context(_worker(kit, specs[0], kind))
        peers = yield from _warm(kit, started, settings)
        for spec in specs:
            try:
                found, numbers = _turns(kit, spec, peers, settings)
            except BrokenError as error:
                broken.append(error)
                log = f"peers-{spec.model}-xla-{spec.xla}"
                yield Note(text=f"{_name(spec)} broke: {logged(kit, log, str(error))}")
                continue
            ratios += found
            yield from numbers
        if len(broken) == len(specs):
            raise broken[-1]
        for peer in peers.values():
            yield _speed(_peer_name(peer.candidate), peer, peer.turns[-settings.num_rounds :])
    return ratios


def _warm(
    kit: Kit, started: Mapping[str, Worker], settings: Settings
) -> Generator[Finding, None, dict[str, Worker]]:
    """Wait for all, then let each warm up alone; return those that work."""
    peers = dict(started)
    for are_started in (False, True):
        for line, peer in tuple(peers.items()):
            try:
                if are_started:
                    peer.run(settings.num_warm_up_steps)
                else:
                    peer.wait_until_ready()
            except BrokenError as error:
                del peers[line]
                log = f"peers-{line}-{peer.candidate.model}"
                why = logged(kit, log, str(error))
                yield Note(text=f"{_peer_name(peer.candidate)} broke: {why}")
    return peers


def _turns(
    kit: Kit, spec: TrialSpec, peers: Mapping[str, Worker], settings: Settings
) -> tuple[list[Ratio], list[Number]]:
    """Start ours, and take turns with the peers. Raises BrokenError."""
    with _worker(kit, spec, "ours") as ours:
        warm(ours, settings)
        _check_parameters(ours, list(peers.values()))
        rounds = take_rounds([ours, *peers.values()], settings)
    mine = _name(spec)
    ratios = []
    numbers = [_speed(mine, ours, [turns[0] for turns in rounds])]
    for position, (line, peer) in enumerate(peers.items(), start=1):
        ratio = Ratio(
            name=line,
            ours=mine,
            peer=_peer_name(peer.candidate),
            metric=f"{peer.candidate.items} per s",
            pairs=[(_rate(turns[0]), _rate(turns[position])) for turns in rounds],
            target=TARGETS[line],
        )
        ratios.append(ratio)
        what = f"{mine} / {ratio.peer}"
        numbers.append(
            Number(what=what, value=ratio.ratio, unit="x", low=ratio.low, high=ratio.high)
        )
    return ratios, numbers


def judged(
    line: str,
    ratios: Sequence[Ratio],
    spec: TrialSpec,
    *,
    on_gpus: bool,
    torch_lack: str = "",
    unmeasured: Sequence[str] = (),
) -> Judged:
    """Judge by the best of ours, and tell the others. On other devices, or with another batch,
    nothing is settled; nor is a line missed while models that may meet it are unmeasured.
    """
    if line.startswith("torch") and torch_lack:
        return Judged(line=line, verdict=Verdict.NOT_RUN, why=torch_lack)
    if not ratios:
        return Judged(line=line, verdict=Verdict.NOT_RUN, why="the peer did not run, see the notes")
    ordered = sorted(ratios, key=lambda ratio: ratio.ratio, reverse=True)
    ratios = [f"{one.ours}: {one.ratio:.3f} [{one.low:.3f}, {one.high:.3f}]" for one in ordered]
    if unmeasured:
        ratios.append(f"not measured: {', '.join(unmeasured)}")
    why = "; ".join(ratios)
    if not on_gpus:
        return Judged(line=line, verdict=Verdict.NOT_RUN, why=f"on CPU devices {why}")
    is_wanted = (spec.precision, spec.batch_size) == WANTED or line == "torch_tokens"
    if spec.precision != WANTED[0] or not is_wanted:
        return Judged(line=line, verdict=Verdict.NOT_RUN, why=f"the GPU has no room or bf16; {why}")
    verdict = Verdict(ordered[0].verdict)
    if unmeasured and verdict != Verdict.MET:
        verdict = Verdict.NOT_RUN
    return Judged(line=line, verdict=verdict, why=why)


def _worker(kit: Kit, spec: TrialSpec, kind: str) -> Worker:
    """Start a side. Only ours with XLA has `xla=on`: the peers are compiled in their own ways."""
    candidate = Candidate(
        kind="keras_fit" if kind == "keras" else kind,
        model=spec.model,
        image_px=spec.image_px,
        seq_len=spec.seq_len,
        batch_size=spec.batch_size,
        device=kit.box.hardware,
        spec=spec.to_json(),
    )
    given = {**kit.box.mask(), **_SHARING}
    module = "benchmarks.gpu.torch_worker" if kind == "torch" else "benchmarks.worker"
    python = kit.torch_python if kind == "torch" else sys.executable
    return Worker(candidate, (python, "-m", module), given)


def _settings(box: Box) -> Settings:
    return Settings(
        num_rounds=6 if box.on_gpus else 4,
        num_starts=0,
        turn_s=1.0 if box.on_gpus else 0.2,
        num_warm_up_steps=30 if box.on_gpus else 5,
        modes=(),
    )


def _check_parameters(ours: Worker, peers: Sequence[Worker]) -> None:
    for peer in peers:
        if peer.ready.num_parameters != ours.ready.num_parameters:
            raise BrokenError(
                f"{_peer_name(peer.candidate)} has {peer.ready.num_parameters} parameters, ours "
                f"{ours.ready.num_parameters}: they do different work"
            )


def _name(spec: TrialSpec) -> str:
    return f"ours {spec.model} {spec.precision} batch {spec.batch_size} xla={spec.xla}"


def _peer_name(candidate: Candidate) -> str:
    names = {"keras_fit": "Keras", "torch": "PyTorch"}
    return f"{names[candidate.kind]} {candidate.model} batch {candidate.batch_size}"


def _speed(what: str, worker: Worker, turns: Sequence[Turn]) -> Number:
    rates = sorted(_rate(turn) for turn in turns)
    return Number(what=what, value=rates[len(rates) // 2], unit=f"{worker.candidate.items}/s")


def _rate(turn: Turn) -> float:
    return turn.work / turn.wall_s
