"""What is kept by hand beside a folder that is a registry has all that the folder has."""

from scalemark import models
from scalemark.abilities.folder import names
from tests.conftest import PROJECT


def test_every_model_and_data_source_can_be_chosen():
    assert models.trainable() <= set(models.definitions())
    assert {path.stem for path in (PROJECT / "conf" / "data").glob("*.yaml")} == set(
        names("trainer/data")
    )
