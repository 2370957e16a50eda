"""An assertion of OmegaConf about a null setting is distinguished from one of our own, which is nothing that a user can mend."""

import pytest
from omegaconf import OmegaConf

from conf.schema import HardwareConfig
from sweeper.grid.explain import is_of_null


def test_a_setting_of_something_null_is_no_mistake_of_ours():
    with pytest.raises(AssertionError) as of_null:
        OmegaConf.update(OmegaConf.structured(HardwareConfig), "profile.num_gpus", 4, merge=True)
    assert is_of_null(of_null.value)
    with pytest.raises(AssertionError) as of_ours:
        assert OmegaConf.structured(HardwareConfig).profile is not None
    assert not is_of_null(of_ours.value)
