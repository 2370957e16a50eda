"""The TAB of a shell is answered from the axes, the settings and the files of conf/."""

import pytest

from conf.completion import words

FORMATS = {"precision=auto", "precision=bf16", "precision=fp16", "precision=fp32", "precision=tf32"}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("python sweep.py precision=", FORMATS),
        ("python sweep.py model=lenet5,vit_", {"model=lenet5,vit_b16", "model=lenet5,vit_tiny"}),
        ("python sweep.py strategy=a", {"strategy=all", "strategy=auto"}),
        ("python sweep.py num_gpus=1 sweep.re", {"sweep.repeats=", "sweep.rerun="}),
        ("python sweep.py sweep.rerun=", {"sweep.rerun=false", "sweep.rerun=true"}),
        ("python sweep.py comm", {"command=", "command."}),
        ("python sweep.py hyperdrive=", set()),
        ("python", set()),
        ("scalemark sw", {"sweep"}),
        ("scalemark sweep xla=o", {"xla=off", "xla=on"}),
        ("scalemark list mod", set()),
    ],
)
def test_the_last_word_is_completed(line, found):
    assert set(words(line)) == found
