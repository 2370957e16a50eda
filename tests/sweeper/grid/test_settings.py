"""Settings that cannot be are refused before anything is planned."""

import pytest

from sweeper import SweepRefusedError
from sweeper.grid.plan import check
from tests.conf.test_resolve import config


def test_a_profile_is_no_machine_to_measure_on():
    with pytest.raises(SweepRefusedError) as refused:
        check(config("hardware=dgx1_p100"))
    assert str(refused.value) == (
        "hardware=dgx1_p100: a profile is not a machine; add engine=simulated, or choose "
        "hardware=auto, gpu or cpu to measure on real devices"
    )


def test_a_profile_runs_no_program():
    """A bug: the remedy was engine=simulated, which refuses programs."""
    program = ("engine=command", "command.run='python train.py'", "command.read=json")
    with pytest.raises(SweepRefusedError) as refused:
        check(config("hardware=dgx_a100", *program))
    assert str(refused.value) == (
        "hardware=dgx_a100: a profile is not a machine, and the cost model knows nothing of "
        "programs of your own; leave it out, or choose hardware=gpu or cpu, to run yours on real "
        "devices"
    )
