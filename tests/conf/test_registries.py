"""What is kept by hand beside a folder that is a registry has all that the folder has."""

import subprocess
import sys

import pytest

from conf import rules, schema
from costs.registry import names
from scalemark import models
from tests.conftest import PROJECT
from trainer import registry


@pytest.mark.parametrize(
    ("choices", "folder"),
    [
        (schema.VariableUpdate, "variable_updates"),
        (schema.AllReduce, "all_reduces"),
        (schema.Precision, "precisions"),
        (schema.Optimizer, "optimizers"),
    ],
)
def test_every_file_of_a_registry_can_be_chosen(choices, folder):
    assert {choice.name for choice in choices} - {"auto"} == set(registry.names(folder))


@pytest.mark.parametrize("folder", ["all_reduces", "precisions"])
def test_registries_are_listed_as_the_trainer_has_them(folder):
    assert list(names(folder)) == registry.names(folder)


def test_every_model_and_data_source_can_be_chosen():
    assert models.trainable() <= set(models.definitions())
    assert {path.stem for path in (PROJECT / "conf" / "data").glob("*.yaml")} == set(
        registry.names("data")
    )


def test_every_variable_update_has_a_rule():
    assert set(rules.VARIABLE_UPDATES) == set(registry.names("variable_updates"))


@pytest.mark.parametrize("module", ["conf.rules", "costs.between_hosts"])
def test_a_distributed_update_that_is_left_out_stops_the_program(module):
    script = f"import scalemark.records.cluster; scalemark.records.cluster.RANK_JOBS['gossip'] = ('worker',); import {module}"
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=PROJECT
    )
    assert ended.returncode == 1
    assert "gossip: wanted both in" in ended.stderr
