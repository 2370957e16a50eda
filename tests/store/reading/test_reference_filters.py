"""Published figures are chosen by filters like those of attempts, over the fields of references."""

import pytest

from store.errors import StoreError
from store.reading.references import FIELDS, chosen

REFERENCES = [
    {
        **dict.fromkeys(FIELDS, ""),
        "model": "resnet50",
        "hardware": "8x V100",
        "num_gpus": 8,
        "batch_size": 64,
        "throughput": 5000.5,
    },
    {
        **dict.fromkeys(FIELDS, ""),
        "model": "resnet50?",
        "hardware": "[K80]",
        "num_gpus": 1,
        "batch_size": None,
        "throughput": 52.0,
    },
    {
        **dict.fromkeys(FIELDS, ""),
        "model": "vgg16",
        "hardware": "K80",
        "num_gpus": 4,
        "batch_size": 32,
        "throughput": 120.0,
    },
]


@pytest.mark.parametrize(
    ("filters", "places"),
    [
        ((), [0, 1, 2]),
        (("model=ResNet50",), [0, 1]),
        (("model!=resnet50",), [2]),
        (("model=resnet50,vgg16", "num_gpus>=4"), [0, 2]),
        (("hardware~*k80*",), [1, 2]),
        (("hardware~[k80]",), [1]),
        (("model~resnet50?",), [1]),
        (("batch_size<=64",), [0, 2]),
        (("batch_size!=64",), [1, 2]),
        (("batch_size=32,64",), [0, 2]),
        (("throughput>100.5", "throughput<5000"), [2]),
    ],
)
def test_filters_compare_as_they_do_for_attempts(filters, places):
    assert chosen(REFERENCES, filters) == places


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("image_px=64", "image_px: no such filter; there are strategy, origin, source"),
        ("hardwear=x", r"hardwear: no such filter; did you mean hardware\?"),
        ("model", "model: no operator found; wanted NAME, one of .*, as model=VALUE"),
        ("model<x", "model<x: < does not suit model; wanted one of = != ~"),
        ("num_gpus~4", "num_gpus~4: ~ does not suit num_gpus; wanted one of = != < <= > >="),
        ("num_gpus=x", "num_gpus=x: num_gpus is a whole number; found x"),
        ("throughput>nan", "throughput>nan: throughput is a number; found nan"),
        ("num_gpus>1,2", "num_gpus>1,2: > compares with one value"),
        ("num_gpus=1 num_gpus=4", "nothing is both .*; num_gpus=1,4 asks for either"),
    ],
)
def test_what_is_no_filter_is_refused(text, said):
    with pytest.raises(StoreError, match=said):
        chosen(REFERENCES, text.split())
    assert chosen(REFERENCES, ["num_gpus=1,4", "num_gpus=4"]) == [2]
