"""What a sentence on scaling proposes can be run."""

from analysis.results import BaselineRule, with_baselines
from analysis.scaling.curves import scalings
from analysis.scaling.text import sentences
from tests.analysis.made import made


def test_one_replica_of_shards_is_measured_without_sharing():
    (found,) = scalings(
        made(
            ({"strategy": "sharded", "num_gpus": 2}, [100.0, 101.0]),
            ({"strategy": "sharded", "num_gpus": 4}, [180.0, 181.0]),
        )
    )
    (proposed,) = (one for one in sentences(found) if one.startswith("No number on 1"))
    assert proposed.endswith(" num_gpus=1 strategy=replicated_none")


def test_the_baseline_that_is_proposed_for_shards_is_taken_as_one():
    results = made(
        ({"num_gpus": 1}, [60.0, 61.0]),
        ({"strategy": "sharded", "num_gpus": 2}, [100.0, 101.0]),
    )
    alone, shards = with_baselines(results, BaselineRule.SAME)
    assert shards.baseline.trial_id == alone.trial_id
