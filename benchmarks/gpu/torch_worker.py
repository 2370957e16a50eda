"""PyTorch's side of a comparison, in a process of its own: obeys `run K`, as benchmarks/worker.py.

The model is of the same definition as ours. On a GPU the forward and backward pass are compiled
(torch.compile), images are channels last, and the update is fused.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import SupportsFloat, TextIO

import torch
from torch.nn import functional

from benchmarks.gpu.torch_model import Network
from benchmarks.trainer import Candidate, Turn
from benchmarks.worker import obey, serve, timed
from scalemark import models
from scalemark.layers import Tensor
from scalemark.records.machine import DeviceKind
from scalemark.records.trial import TrialSpec

_HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}


def main(candidate: Candidate, orders: TextIO, answers: TextIO) -> None:
    start = time.perf_counter()
    spec = TrialSpec.from_json(candidate.spec)
    logits = models.define(
        spec.model, image_px=spec.image_px, seq_len=spec.seq_len, num_classes=spec.num_classes
    )
    device = "cuda" if spec.device_kind == DeviceKind.GPU else "cpu"
    step, num_parameters = _training(spec, logits, device)
    synchronize = torch.cuda.synchronize if device == "cuda" else lambda: None

    def run(num_steps: int) -> Turn:
        return timed(step, num_steps, candidate.items_per_step, synchronize)

    serve(run, num_parameters, time.perf_counter() - start, orders, answers)


def _training(
    spec: TrialSpec, logits: Tensor, device: str
) -> tuple[Callable[[], SupportsFloat], int]:
    """Return what takes a step and gives its loss, and the number of trained parameters."""
    torch.manual_seed(spec.seed)
    torch.backends.cudnn.benchmark = True
    uses_tf32 = spec.precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = uses_tf32
    network = Network(logits).to(device, memory_format=torch.channels_last)
    inputs, labels = _batch(spec, logits, device)
    optimizer = torch.optim.SGD(
        network.parameters(), spec.learning_rate, spec.momentum, fused=device == "cuda"
    )
    dtype = _HALF.get(spec.precision)
    scaler = torch.amp.GradScaler(device, enabled=dtype is torch.float16)

    def loss_of(inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        with torch.autocast(device, dtype=dtype, enabled=dtype is not None):
            outputs = network(inputs)
        return functional.cross_entropy(outputs.float().flatten(0, -2), labels.flatten())

    forward = torch.compile(loss_of) if device == "cuda" else loss_of

    def step() -> SupportsFloat:
        optimizer.zero_grad(set_to_none=True)
        loss = forward(inputs, labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return _Loss(loss.detach()) if device == "cuda" else loss.detach()

    return step, sum(one.numel() for one in network.parameters())


class _Loss:
    """A loss on its way to the host. Asked for later, it would wait for the next step, too."""

    def __init__(self, on_gpu: torch.Tensor) -> None:
        self._on_host = torch.empty((), pin_memory=True)
        self._on_host.copy_(on_gpu, non_blocking=True)
        self._is_there = torch.cuda.Event()
        self._is_there.record()

    def __float__(self) -> float:
        self._is_there.synchronize()
        return float(self._on_host)


def _batch(spec: TrialSpec, logits: Tensor, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Make a batch that stays on the device, of the same kind as ours."""
    batch_size, num_classes = spec.batch_size, logits.channels
    if models.takes_tokens(logits):
        shape = (batch_size, *logits.shape[:-1])
        inputs = torch.randint(0, num_classes, (batch_size, spec.seq_len), device=device)
        return inputs, torch.randint(0, num_classes, shape, device=device)
    images = 0.47 * torch.randn(batch_size, 3, spec.image_px, spec.image_px, device=device)
    labels = torch.randint(0, num_classes, (batch_size,), device=device)
    return images.contiguous(memory_format=torch.channels_last), labels


if __name__ == "__main__":
    obey(main)
