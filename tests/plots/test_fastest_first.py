"""Orders charts so that the first of each model shows its fastest setting."""

from plots.source import fastest_first
from tests.analysis.made import made


def test_each_model_begins_with_its_fastest_that_trains_together():
    results = made(
        ({"model": "vgg16"}, [10.0]),
        ({"model": "vgg16", "num_gpus": 2}, [19.0]),
        ({"model": "alexnet", "num_gpus": 2, "variable_update": "independent"}, [90.0]),
        ({"model": "alexnet"}, [40.0]),
        ({"model": "alexnet", "num_gpus": 2}, []),
        ({"model": "vgg16", "num_gpus": 4}, [15.0]),
    )
    ordered = [(one.axes["model"], one.throughput) for one in fastest_first(results)]
    assert ordered == [
        ("vgg16", 19.0),
        ("alexnet", 40.0),
        ("vgg16", 15.0),
        ("alexnet", None),
        ("vgg16", 10.0),
        ("alexnet", 90.0),
    ]
