"""An agent runs a sweep with the sweep's own code, as far as git can tell."""

import pytest

from sweeper.agents.same_code import Code, check_same
from sweeper.errors import SweepRefusedError

PLAIN = Code(revision="a" * 40)
CHANGED = Code(revision="a" * 40 + "+dirty", diff="d1")
WITH_A_NEW_FILE = Code(revision="a" * 40, diff="d2")  # git describe does not tell of those
OTHER = Code(revision="b" * 40)


@pytest.mark.parametrize("code", [PLAIN, CHANGED, WITH_A_NEW_FILE])
def test_the_same_code_is_taken_without_a_word(code):
    assert check_same(code, code, "node1") is None


@pytest.mark.parametrize(
    ("here", "of_sweep", "told"),
    [
        (
            OTHER,
            PLAIN,
            "node1 has commit bbbbbbbbbbbb (unchanged), the sweep was begun with commit aaaaaaaaaaaa (unchanged), and ",
        ),
        (OTHER, PLAIN, "here: git checkout aaaaaaaaaaaa"),
        (CHANGED, OTHER, "here: git checkout bbbbbbbbbbbb, without changes"),
        (
            CHANGED,
            PLAIN,
            "has commit aaaaaaaaaaaa (changed: d1), the sweep was begun with commit aaaaaaaaaaaa (unchanged)",
        ),
        (CHANGED, PLAIN, "take the changes back here, as with git stash"),
        (WITH_A_NEW_FILE, PLAIN, "take the changes back here"),
        (PLAIN, CHANGED, "copy the sweep's checkout here with its changes; or commit them"),
        (CHANGED, WITH_A_NEW_FILE, "copy the sweep's checkout here"),
        (Code(revision="b" * 40, diff="unknown"), PLAIN, "here: git checkout aaaaaaaaaaaa"),
    ],
)
def test_other_code_is_refused_with_what_to_do(here, of_sweep, told):
    with pytest.raises(SweepRefusedError) as refused:
        check_same(here, of_sweep, "node1")
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("here", "of_sweep", "told"),
    [
        (
            Code(),
            PLAIN,
            "node1 has code that git tells nothing of, the sweep was begun with commit aaaaaaaaaaaa (unchanged): whether",
        ),
        (
            PLAIN,
            Code(),
            "the sweep was begun with code that git tells nothing of: whether it is the same code is for you to know",
        ),
        (
            Code(),
            Code(),
            "node1 has code that git tells nothing of, the sweep was begun with code that git tells nothing of: ",
        ),
        (
            Code(revision="a" * 40, diff="unknown"),
            CHANGED,
            "node1 has commit aaaaaaaaaaaa (changed: unknown), the sweep was",
        ),
    ],
)
def test_what_git_does_not_know_is_told(here, of_sweep, told):
    assert told in (check_same(here, of_sweep, "node1") or "")
