"""Logs of other programs become references, or say what they leave open.

The logs beside this file are excerpts of what people posted, cut to some of their lines.
tf_cnn_1.14_one_gpu: a README with ROCm and CUDA results; 1.4_hung: tensorflow/benchmarks#146; 1.10_worker: #232;
1.10_horovod: bytedance/byteps#29; kubeflow: notes on a TFJob, two runs in one file;
mlperf_0.7: github.com/mlcommons/training_results_v0.7 DellEMC/results/C4140/resnet/result_0.txt;
mlperf_2.0: training_results_v2.0 NVIDIA/results/2xa30_ngc22.04_mxnet/resnet/result_0.txt.
"""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from store.exchange.foreign_columns import ImportOptions
from store.exchange.imports import reference_of

LOGS = Path(__file__).parent / "logs"
OF_READERS = Path(__file__).parents[2] / "scalemark" / "readers" / "logs"
ABOUT = {
    "source": "a log",
    "citation": "https://example.org/log",
    "hardware": "DGX-1",
    "model": "m",
    "num_gpus": "4",
}
SOURCE = ImportOptions(constants=ABOUT)


@pytest.mark.parametrize(
    ("path", "said", "throughput", "item", "how"),
    [
        (LOGS / "tf_cnn_1.14_one_gpu.txt", {}, 180.26, "images", "total of the run"),
        (LOGS / "tf_cnn_1.10_worker.txt", {}, 521.47, "images", "total of the run"),
        (LOGS / "tf_cnn_1.10_horovod.txt", {}, 201.595, "images", "total of the run"),
        (LOGS / "mlperf_2.0_2xa30.txt", {"per_gpu": False}, 3197.8816, "images", "median of 3"),
        (LOGS / "mlperf_0.7_c4140.txt", {"per_gpu": False}, 5662.68, "samples", "median of 1"),
        (OF_READERS / "torchtitan_ranks.log", {"read": "torchtitan"}, None, "tokens", "median"),
    ],
    ids=lambda value: value.stem if isinstance(value, Path) else "",
)
def test_a_log_gives_its_total_or_the_median_of_its_rates(path, said, throughput, item, how):
    found = reference_of(path, replace(SOURCE, **said))
    assert found.item == item
    assert how in found.evidence
    assert (found.origin, found.num_gpus, found.model) == ("added", 4, "m")
    if throughput is not None:
        assert found.throughput == pytest.approx(throughput)


def test_a_rate_of_one_gpu_counts_for_each(tmp_path):
    lines = [
        f"step: {step}  loss: 3.1  tps: {tps}  mfu: 1%"
        for step, tps in enumerate([90, 110, 100], 1)
    ]
    (tmp_path / "log").write_text("\n".join(lines))
    with pytest.raises(ValueError, match="of one GPU or of all 4: say it with"):
        reference_of(tmp_path / "log", SOURCE)
    assert reference_of(tmp_path / "log", replace(SOURCE, per_gpu=True)).throughput == 400
    assert reference_of(tmp_path / "log", replace(SOURCE, per_gpu=False)).throughput == 100


@pytest.mark.parametrize(
    ("name", "said", "reason"),
    [
        ("tf_cnn_1.4_hung.txt", {}, "no reader finds items per second in it"),
        ("tf_cnn_kubeflow.txt", {}, "2 totals, from 82.4 to 167.4; wanted one run"),
        ("mlperf_2.0_2xa30.txt", {}, "of one GPU or of all 4: say it with --per-gpu or --all-gpus"),
        ("tf_cnn_1.10_worker.txt", {"constants": ABOUT | {"item": "tokens"}}, "the log counts images; wanted --set item=images"),
        ("tf_cnn_1.10_worker.txt", {"read": "torchtitan"}, "no rate in it"),
        ("tf_cnn_1.10_worker.txt", {"read": "torchtitn"}, "did you mean torchtitan"),
        ("tf_cnn_1.10_worker.txt", {"read": "regex:s/sec: ([0-9.]+)"}, "say what is counted with --set item=NAME"),
    ],
)  # fmt: skip
def test_what_a_log_leaves_open_is_asked_for(name, said, reason):
    with pytest.raises(ValueError, match=re.escape(reason)):
        reference_of(LOGS / name, replace(SOURCE, **said))


def test_what_is_no_text_is_no_log(tmp_path):
    (tmp_path / "log").write_bytes(bytes(range(1, 9)) * 9)
    with pytest.raises(ValueError, match="it is binary"):
        reference_of(tmp_path / "log", SOURCE)
    shutil.rmtree(tmp_path)
    with pytest.raises(ValueError, match="No such file"):
        reference_of(tmp_path / "log", SOURCE)
