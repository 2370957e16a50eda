"""One candidate in a process of its own: takes a first step, then obeys lines `run K`; answers are
JSON lines on stdout.

`benchmarks/trainer.py` starts it. Waiting for a line sleeps in the kernel, and what the process
burns meanwhile is reported.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, SupportsFloat, TextIO

from benchmarks.trainer import MODES, Candidate, Ready, Turn
from scalemark.records import switches
from scalemark.records.machine import DeviceKind
from scalemark.records.trial import TrialSpec
from tests.specs import small

if TYPE_CHECKING:
    from benchmarks.peers import Loop


def main(candidate: Candidate, orders: TextIO, answers: TextIO) -> None:
    # before TensorFlow is imported; all kinds have the same
    os.environ.update(switches.variables(_spec(candidate), os.environ))
    start = time.perf_counter()
    import keras  # noqa: F401  # both imports are timed apart from the first step
    import tensorflow as tf

    if candidate.device == "cpu":
        tf.config.set_visible_devices([], "GPU")
    import_s = time.perf_counter() - start
    run, num_parameters = _training(candidate)
    serve(run, num_parameters, import_s, orders, answers)


def serve(
    run: Callable[[int], Turn],
    num_parameters: int,
    import_s: float,
    orders: TextIO,
    answers: TextIO,
) -> None:
    """Take the first step, then as many as each order wants, until there are no more orders."""
    first = run(1)
    _answer(
        answers,
        Ready(
            import_s=import_s,
            cpu_s=time.process_time(),
            peak_memory_bytes=_peak_memory_bytes(),
            num_parameters=num_parameters,
            losses=first.losses,
        ),
    )
    slept, slept_cpu = time.perf_counter(), time.process_time()
    for order in orders:
        idle_s, idle_cpu_s = time.perf_counter() - slept, time.process_time() - slept_cpu
        turn = run(int(order.removeprefix("run ")))
        _answer(
            answers,
            replace(
                turn, idle_s=idle_s, idle_cpu_s=idle_cpu_s, peak_memory_bytes=_peak_memory_bytes()
            ),
        )
        slept, slept_cpu = time.perf_counter(), time.process_time()


def _training(candidate: Candidate) -> tuple[Callable[[int], Turn], int]:
    from benchmarks import peers

    builders = {
        "ours": _ours,
        "keras_loop": peers.one_replica,
        "keras_fit": peers.fit,
        "mirrored": peers.mirrored,
        "mirrored_fused": peers.mirrored_fused,
    }
    loop = builders[candidate.kind](_spec(candidate))
    num_items = candidate.items_per_step
    step = loop.step if candidate.kind == "ours" else _copying(loop.step, candidate)
    return lambda num_steps: _synchronized(step, num_steps, num_items), loop.num_parameters


def _copying(
    step: Callable[[], SupportsFloat], candidate: Candidate
) -> Callable[[], SupportsFloat]:
    """Let a peer's loss come to the host of a GPU as ours does, with the next step.

    MirroredStrategy on several GPUs has the host wait for each step anyway, as with its users.
    """
    from benchmarks.peers import device_names
    from trainer.devices import Devices
    from trainer.model_tower import Losses, Step

    spec = _spec(candidate)
    if spec.device_kind is DeviceKind.CPU_DEVICE:
        return step
    first, *_ = device_names(spec)
    losses = Losses(Devices(kind=spec.device_kind, host="CPU:0", replicas=(first,)))
    copying = Step(lambda batches: losses.keep([step()]), losses)
    return lambda: copying([])


def _ours(spec: TrialSpec) -> Loop:
    """The only environment that knows how the trainer is driven."""
    from benchmarks.peers import Loop
    from trainer import devices
    from trainer.data import synthetic
    from trainer.run import build

    training = build(spec, devices.prepare(spec))
    data = synthetic.open_input(spec, training.devices)
    return Loop(
        step=lambda: training.towers.step(data.next()),
        num_parameters=sum(weights.size for weights in training.update.weights(0)),
    )


def _spec(candidate: Candidate) -> TrialSpec:
    """The same for every kind, so that seeds, batches and update rule are."""
    if candidate.spec:
        return TrialSpec.from_json(candidate.spec)
    variable_update, local_parameter_device, all_reduce = MODES[candidate.mode]
    return small(
        model=candidate.model,
        num_gpus=candidate.num_replicas,
        device_kind=DeviceKind.GPU if candidate.device == "gpu" else DeviceKind.CPU_DEVICE,
        variable_update=variable_update,
        local_parameter_device=local_parameter_device,
        all_reduce=all_reduce,
        learning_rate=1e-3,
        weight_decay=0.0,
        image_px=candidate.image_px,
        seq_len=candidate.seq_len,
        num_classes=candidate.num_classes,
        batch_size=candidate.batch_size,
    )


def _synchronized(step: Callable[[], SupportsFloat], num_steps: int, work_per_step: int) -> Turn:
    import tensorflow as tf

    return timed(step, num_steps, work_per_step, tf.test.experimental.sync_devices)


def timed(
    step: Callable[[], SupportsFloat],
    num_steps: int,
    work_per_step: int,
    synchronize: Callable[[], object],
) -> Turn:
    """Take steps. A loss is read once the next step is on its way, so that a GPU never waits."""
    start, start_cpu = time.perf_counter(), time.process_time()
    losses: list[float] = []
    last = step()
    for _ in range(num_steps - 1):
        following = step()
        losses.append(float(last))
        last = following
    losses.append(float(last))
    synchronize()
    wall_s, cpu_s = time.perf_counter() - start, time.process_time() - start_cpu
    return Turn(work=num_steps * work_per_step, wall_s=wall_s, cpu_s=cpu_s, losses=losses)


def _peak_memory_bytes() -> int:
    """VmHWM, because ru_maxrss begins with the peak of the process that started this one."""
    found = re.search(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found
    return int(found.group(1)) * 1024


def _answer(answers: TextIO, record: Ready | Turn) -> None:
    answers.write(json.dumps(asdict(record)) + "\n")
    answers.flush()


def obey(train: Callable[[Candidate, TextIO, TextIO], None]) -> NoReturn:
    """Train the candidate of the command line by the lines of stdin, then end the process."""
    with os.fdopen(os.dup(1), "w") as stdout:
        os.dup2(2, 1)  # whatever libraries print is no answer
        train(Candidate(**json.loads(sys.argv[1])), sys.stdin, stdout)
    os._exit(0)  # a crash of a library at interpreter exit means nothing


if __name__ == "__main__":
    obey(main)
