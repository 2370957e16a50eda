"""What is kept by hand beside a folder that is a registry has all that the folder has."""

from scalemark import models
from scalemark.abilities import names
from scalemark.records.trial import STRATEGY_NAMES
from tests.conftest import PROJECT


def test_every_model_and_data_source_can_be_chosen():
    assert models.trainable() <= set(models.definitions())
    assert {path.stem for path in (PROJECT / "conf" / "data").glob("*.yaml")} == set(
        names("trainer/data")
    )


def test_every_strategy_that_trains_one_model_has_its_name():
    """Of the others one leaves all to the machine, and one trains as many models as replicas."""
    chosen = {path.stem for path in (PROJECT / "conf" / "strategy").glob("*.yaml")}
    assert chosen - {"auto", "independent"} == set(STRATEGY_NAMES.values())
