"""Predicts what scalemark's own trainer measured on one GPU, by the profile and the physics alone.

    python -m benchmarks.one_gpu

No share of a peak is fitted to these figures; `costs/` and `analysis/calibration/` never read
them. Constants of `costs/beside_products.py` are of profiles of three of these trials: of ResNet-50
in bf16 and GPT-2 without XLA, and of resnet18_cifar. How many kernels compiled updates are, those
around convolutions, and those of XLA's normalization and dropout are of profiles of ResNet-50 in
bf16 and of GPT-2 with XLA. That Hopper has no Winograd is of the profile of resnet18_cifar, looked
for because ResNet-50 in fp32 was predicted 87 % too fast.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from analysis.calibration.environments import Guess
from analysis.calibration.predicted import predicted
from analysis.calibration.predictive import Predictive
from analysis.calibration.row import Row
from costs.networks import network
from costs.profiles import profile
from costs.work import Work
from scalemark.abilities import PRECISIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A cell of one GPU; of several processes the median."""

    model: str
    precision: str
    throughput: float  # items/s
    batch_size: int = 256
    xla: bool = False
    seq_len: int | None = None  # None: the published one
    data_format: str = ""  # of images; empty: what scalemark takes on GPUs

    @property
    def row(self) -> Row:
        """Return it as the cost model sees it."""
        model = network(self.model, seq_len=self.seq_len)
        work = Work(
            network=model,
            num_gpus=1,
            batch_size=self.batch_size,
            variable_update="replicated",
            local_parameter_device="gpu",
            all_reduce="nccl",
            precision=self.precision,
            xla=self.xla,
            data_format=self.data_format or PRECISIONS[self.precision].data_format(xla=self.xla),
        )
        return Row(work=work, throughput=self.throughput, item=model.item)


# NVIDIA H200, 700 W, driver 580.159.04, TensorFlow 2.21, cuDNN 9.19, November 2026, synthetic data;
# each is one process, but bf16 of ResNet-50 without XLA (2) and resnet18_cifar (7)
H200 = (
    Measured(model="resnet50", precision="bf16", throughput=4113),
    Measured(model="resnet50", precision="bf16", throughput=7062, xla=True),
    Measured(model="resnet50", precision="fp16", throughput=5341),
    Measured(model="resnet50", precision="tf32", throughput=2128),
    Measured(model="resnet50", precision="tf32", throughput=1897, data_format="NHWC"),
    Measured(model="resnet50", precision="fp32", throughput=985),
    Measured(model="resnet18_cifar", precision="fp32", throughput=31477, batch_size=1024),
    Measured(model="gpt2", precision="bf16", throughput=54325, batch_size=8),
    Measured(model="gpt2", precision="bf16", throughput=236838, batch_size=8, xla=True),
    Measured(model="bert_base", precision="bf16", throughput=104718, batch_size=64, seq_len=128),
    Measured(
        model="bert_base",
        precision="bf16",
        throughput=504976,
        batch_size=128,
        xla=True,
        seq_len=128,
    ),
    Measured(model="vgg16", precision="fp16", throughput=2501, batch_size=128),
    Measured(
        model="inception3", precision="tf32", throughput=1174, batch_size=128, data_format="NHWC"
    ),
)


def main(arguments: Sequence[str]) -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args(arguments)
    print("| model | precision | XLA | batch | measured | predicted | interval | error | inside |")
    print("|---|---|---|---:|---:|---:|---:|---:|---|")
    for one, prediction in zip(H200, predictions(), strict=True):
        print(_line(one, prediction))


def predictions() -> list[Predictive]:
    """Predict each cell."""
    guess = Guess(hardware=profile("h200_8"), reason="its profile")
    return predicted((), [one.row for one in H200], guess)


def summary() -> str:
    """Tell the median of the errors, and how many cells lie inside their intervals."""
    found = list(zip(H200, predictions(), strict=True))
    errors = [abs(prediction.throughput / one.throughput - 1) for one, prediction in found]
    num_inside = sum(_is_inside(one, prediction) for one, prediction in found)
    return f"{median(errors):.0%}, {num_inside} of {len(found)} inside"


def _is_inside(one: Measured, prediction: Predictive) -> bool:
    return prediction.low <= one.throughput <= prediction.high


def _line(one: Measured, prediction: Predictive) -> str:
    cells = [
        one.model + (f", {one.seq_len} tokens" if one.seq_len else ""),
        f"{one.precision} {one.data_format}".rstrip(),
        "on" if one.xla else "off",
        f"{one.batch_size:,}",
        f"{one.throughput:,.0f} {one.row.item}/s",
        f"{prediction.throughput:,.0f}",
        f"{prediction.low:,.0f} to {prediction.high:,.0f}",
        f"{prediction.throughput / one.throughput - 1:+.0%}",
        "yes" if _is_inside(one, prediction) else "no",
    ]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main(sys.argv[1:])
