"""An input that seems too slow is held against trials that read the same data faster."""

import pytest

from analysis.explanation.faster_readers import FasterReaders
from tests.analysis.explanation.explained import ELSEWHERE, PHOTOS, result

LARGE = {"image_px": 224, "num_gpus": 8}
SLOW = result(200, **LARGE, **PHOTOS)  # 1,280 images/s


@pytest.mark.parametrize(
    "faster",
    [
        result(99, **LARGE, model="alexnet", **PHOTOS),
        result(99, num_gpus=8, model="alexnet", image_px=227, **PHOTOS),
    ],
)
def test_another_model_that_reads_twice_as_fast_is_named(faster):
    said = FasterReaders([SLOW, faster]).than(SLOW)
    assert said == (
        "alexnet reads 2,586 images/s of the same data there, and this one 1,280: batches could "
        "come in time"
    )
    assert FasterReaders([SLOW, faster]).than(faster) == ""


@pytest.mark.parametrize(
    "other",
    [
        result(120, **LARGE, model="alexnet", **PHOTOS),  # not twice as fast
        result(50, **LARGE, model="alexnet"),  # reads nothing
        result(50, ELSEWHERE, **LARGE, model="alexnet", **PHOTOS),
        result(50, **LARGE, model="alexnet", **PHOTOS, data_threads=8),
        result(50, **LARGE, model="alexnet", **PHOTOS, distortions=True),
        result(50, num_gpus=8, model="resnet18_cifar", image_px=32, **PHOTOS),  # smaller images
    ],
)
def test_what_reads_otherwise_says_nothing(other):
    assert FasterReaders([SLOW, other]).than(SLOW) == ""
