"""Published figures as results and as tables."""

from dataclasses import asdict, replace

import pytest

from analysis.pivot import pivot, varied_tables
from analysis.published import of_others, of_source
from scalemark.records.references import published as shipped
from store.errors import StoreError
from tests.store.test_references import MINE

REFERENCES = [asdict(reference) for reference in shipped()]


def like(**changes):
    return asdict(replace(MINE, **changes))


def test_no_strategy_is_named_by_what_its_source_does_not_tell():
    strategies = {result.strategy for result in of_others(REFERENCES)}
    assert not [strategy for strategy in strategies if "n/a" in strategy or not strategy]
    assert "distributed_replicated" in strategies
    assert "not reported" in strategies


def test_every_shipped_figure_stands_in_one_cell():
    found = of_others(REFERENCES)
    cells = [result.trial_id for table in varied_tables(found) for result in table.results]
    assert sorted(cells) == sorted(result.trial_id for result in found)
    assert len(cells) == 423


def test_a_source_that_accumulates_is_one_curve():
    """Its batch in all stays, so that each of more GPUs accumulates fewer micro-batches."""
    (table, *_) = pivot(of_others(of_source(REFERENCES, "BERT")))
    assert table.columns == ((1,), (4,), (8,), (16,))
    assert table.unit == "sequences/s"
    assert str(table.setting["gradient_accumulation"]) == "1024 in all"
    speed_ups = [round(result.speed_up, 2) for result in table.results]
    assert sorted(speed_ups) == [1.0, 3.82, 7.56, 14.91]  # the source has 1.00 3.82 7.56 14.9


def test_a_figure_reported_twice_gets_a_table_of_its_own():
    tables = pivot(of_others([like(throughput=10.0), like(throughput=20.0, note="on another day")]))
    assert [[result.throughput for result in table.results] for table in tables] == [
        [10.0],
        [20.0],
    ]


def test_what_is_in_doubt_is_marked():
    (doubtful,) = of_others([like(model="resnet50?")])
    (sure,) = of_others([like(model="resnet50", data="real")])
    assert (doubtful.is_valid, sure.is_valid) == (False, True)


@pytest.mark.parametrize(
    "name", ["tensorflow/tensorflow#10723", "tensorflow/tensorflow#10723/8x Titan", "10723/titan"]
)
def test_a_source_may_have_slashes_of_its_own(name):
    found = of_source(REFERENCES, name)
    assert {(one["source"], one["hardware"]) for one in found} == {
        ("tensorflow/tensorflow#10723", "8x Titan X 12GB PCIe")
    }


def test_hardware_may_have_slashes_of_its_own():
    (hardware,) = {
        one["hardware"]
        for one in of_source(REFERENCES, "tf-benchmarks-2017/AWS p2.8xlarge x n/8 nodes K80")
    }
    assert hardware == "AWS p2.8xlarge x n/8 nodes K80"


def test_an_unknown_source_or_machine_lists_those_there_are():
    with pytest.raises(
        StoreError,
        match=r"nowhere: no such source; there are tf-benchmarks-2017, TensorFlow benchmarks page",
    ):
        of_source(REFERENCES, "nowhere")
    with pytest.raises(
        StoreError, match=r"tf-benchmarks-2017/tpu: no such source; there are NVIDIA DGX-1"
    ):
        of_source(REFERENCES, "tf-benchmarks-2017/tpu")
