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
    ("here", "of_sweep"),
    [
        (OTHER, PLAIN),
        (CHANGED, OTHER),
        (CHANGED, PLAIN),
        (WITH_A_NEW_FILE, PLAIN),
        (PLAIN, CHANGED),
        (CHANGED, WITH_A_NEW_FILE),
        (Code(revision="b" * 40, diff="unknown"), PLAIN),
    ],
)
def test_other_code_is_refused(here, of_sweep):
    with pytest.raises(
        SweepRefusedError, match="results of different code are never mixed"
    ) as error:
        check_same(here, of_sweep, "node1")
    assert str(error.value).startswith(f"node1 has {here}, the sweep was begun with {of_sweep}")


@pytest.mark.parametrize(
    ("here", "of_sweep"),
    [
        (Code(), PLAIN),
        (PLAIN, Code()),
        (Code(), Code()),
        (Code(revision="a" * 40, diff="unknown"), CHANGED),
    ],
)
def test_what_git_does_not_know_is_said(here, of_sweep):
    reported = check_same(here, of_sweep, "node1")
    assert (
        reported
        == f"node1 has {here}, the sweep was begun with {of_sweep}: whether they are the same is not known"
    )


def test_code_is_named_by_its_commit_and_changes():
    assert str(CHANGED) == "commit aaaaaaaaaaaa (changed: d1)"
    assert str(Code()) == "code that git does not know"
