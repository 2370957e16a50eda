"""What is said of an environment's software: what it has, and what another lacks."""

from analysis.measured import described, differing


def program(**found: str) -> dict[str, str]:
    return described([{"description": {"python": "3.11.7", "program": found}}])


def test_what_is_not_known_of_a_program_is_not_named():
    in_checkout = program(commit="a611fc324928", code="", diff="")
    outside = program(commit="", code="77aa", diff="")
    assert in_checkout == {"python": "3.11.7", "program commit": "a611fc324928"}
    assert differing([in_checkout, outside]) == ["program commit a611fc324928", "program code 77aa"]


def test_what_one_environment_lacks_is_named():
    both = [{"keras": "3.15.1", "numpy": "2.4.6"}, {"numpy": "2.5.0"}]
    assert differing(both) == ["keras 3.15.1, numpy 2.4.6", "no keras, numpy 2.5.0"]


def test_changes_of_a_program_that_the_other_has_not_are_named_as_missing():
    clean, changed = program(commit="a6", diff=""), program(commit="a6", diff="0b1c")
    assert differing([clean, changed]) == ["no program diff", "program diff 0b1c"]
