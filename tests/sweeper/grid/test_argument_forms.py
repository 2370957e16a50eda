"""What Hydra would answer with its usage is answered with what to write."""

import pytest

from sweeper.errors import SweepRefusedError
from sweeper.grid.argument_forms import check_forms


@pytest.mark.parametrize("arguments", [["--cfg"], ["-c"], ["--cfg", "model=vgg16"], ["--cfg=jobs"]])
def test_a_flag_without_its_value_names_the_values(arguments):
    with pytest.raises(SweepRefusedError, match="wanted job, hydra or all behind it"):
        check_forms(arguments)


@pytest.mark.parametrize("arguments", [["--cfg", "job"], ["-c", "all", "num_gpus=2"]])
def test_a_flag_with_its_value_is_hydras(arguments):
    check_forms(arguments)


def test_no_argument_is_answered_with_what_to_write():
    """A bug: it ended in a traceback."""
    with pytest.raises(SweepRefusedError, match="found nothing to measure; write python sweep"):
        check_forms([])
