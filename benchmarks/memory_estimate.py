"""Is the estimate of memory right? Trials on CPU devices, each in a process of its own, one at a
time: the peak of its resident memory, less that of a process with a model of next to nothing,
beside what `costs.memory` counts.

    python -m benchmarks.memory_estimate [--only TEXT]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from costs.memory import process_bytes
from costs.work import Work
from scalemark.records.trial import TrialSpec

_BASE = {"model": "lenet5", "image_px": 28, "num_classes": 10, "batch_size": 1}
_TOKENS = {"optimizer": "adam", "num_classes": 256, "seq_len": 128, "momentum": 0.0}
_GPT2 = {**_TOKENS, "model": "gpt2", "num_classes": 50257, "seq_len": 64}

FITTED: Mapping[str, Mapping[str, Any]] = {
    "gpt_mini, batch 64": {**_TOKENS, "model": "gpt_mini", "batch_size": 64},
    "gpt2, seq_len 64, batch 1": {**_GPT2, "batch_size": 1},
}
"""The cases that the constants of `costs.memory` were taken from."""

JUDGED: Mapping[str, Mapping[str, Any]] = {
    "gpt_mini, batch 16, seq_len 512": {
        **_TOKENS, "model": "gpt_mini", "batch_size": 16, "seq_len": 512,
    },
    "gpt_mini, batch 64, recompute": {
        **_TOKENS, "model": "gpt_mini", "batch_size": 64, "recompute": True,
    },
    "gpt_mini, 4 replicas, batch 32": {
        **_TOKENS, "model": "gpt_mini", "batch_size": 32, "num_gpus": 4,
    },
    "bert_tiny, batch 64": {**_TOKENS, "model": "bert_tiny", "batch_size": 64},
    "bert_base, seq_len 64, batch 4": {
        **_GPT2, "model": "bert_base", "num_classes": 30522, "batch_size": 4,
    },
    "gpt2, seq_len 64, batch 1, sgd": {**_GPT2, "batch_size": 1, "optimizer": "sgd"},
    "gpt2, seq_len 256, batch 2": {**_GPT2, "batch_size": 2, "seq_len": 256},
    "gpt2, accumulation 4": {**_GPT2, "batch_size": 1, "gradient_accumulation": 4},
    "gpt2, 2 replicas": {**_GPT2, "batch_size": 1, "num_gpus": 2},
    "gpt2, 2 replicas, ps_cpu": {
        **_GPT2, "batch_size": 1, "num_gpus": 2,
        "variable_update": "parameter_server", "local_parameter_device": "cpu",
    },
    "gpt2, 2 replicas, sharded": {
        **_GPT2,
        "batch_size": 1,
        "num_gpus": 2,
        "variable_update": "sharded",
    },
    "vit_tiny, batch 128": {
        **_TOKENS, "model": "vit_tiny", "num_classes": 10, "seq_len": 0, "image_px": 32,
        "batch_size": 128,
    },
    **{
        f"{model}, {image_px} px, batch 16": {
            "model": model,
            "image_px": image_px,
            "num_classes": 1001,
            "batch_size": 16,
        }
        for model, image_px in (("resnet50", 64), ("resnet50", 128), ("vgg16", 64))
    },
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="the cases whose name has this text")
    asked = parser.parse_args()
    base = measured(spec(_BASE))
    print(f"A process with a model of next to nothing: {base / 1e6:.0f} MB\n")
    print("| case | measured, MB | counted, MB | error |")
    print("|---|---:|---:|---:|")
    for line in lines(base, asked.only):
        print(line, flush=True)


def lines(base: int, only: str) -> Iterator[str]:
    for title, cases in (("fitted", FITTED), ("judged", JUDGED)):
        for name, axes in cases.items():
            if only not in name:
                continue
            trial = spec(axes)
            found = (measured(trial) - base) / 1e6
            counted = process_bytes(Work.of(asdict(trial)), os.cpu_count() or 1) / 1e6
            error = counted / found - 1
            yield f"| {name} ({title}) | {found:.0f} | {counted:.0f} | {error:+.0%} |"


def spec(axes: Mapping[str, Any]) -> TrialSpec:
    usual: dict[str, Any] = {
        "num_gpus": 1,
        "device_kind": "cpu_device",
        "variable_update": "replicated",
        "local_parameter_device": "gpu",
        "all_reduce": "none",
        "precision": "fp32",
        "optimizer": "momentum",
        "learning_rate": 0.001,
        "momentum": 0.9,
        "weight_decay": 0.0,
        "data": "synthetic",
        "distortions": False,
        "image_px": 0,
        "min_warm_up_steps": 1,
        "num_steps": 3,
        "seed": 1,
    }
    return TrialSpec(**{**usual, **axes})


def measured(trial: TrialSpec) -> int:
    """Return the peak of the resident memory of its process."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trial.json"
        path.write_text(trial.to_json(), encoding="utf-8")
        command = [sys.executable, "-m", "trainer", str(path), folder]
        subprocess.run(command, check=True, capture_output=True)
        result = json.loads((Path(folder) / "result.json").read_text(encoding="utf-8"))
        return int(result["measurement"]["peak_host_memory_bytes"])


if __name__ == "__main__":
    main()
