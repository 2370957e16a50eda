"""Names, counts, numbers, names of files and shell commands read as people and programs write them."""

import subprocess

import pytest

from scalemark.text.wording import continued, counted, fixed, joined, listed, safe_name, shortened


def test_one_of_something_is_no_plural():
    assert [counted(count, "trial") for count in (0, 1, 2)] == ["0 trials", "1 trial", "2 trials"]


@pytest.mark.parametrize(
    ("names", "reported"), [("a", "a"), ("ab", "a and b"), ("abc", "a, b and c")]
)
def test_names_are_listed(names, reported):
    assert listed(names) == reported


def test_many_names_are_shortened_to_the_first_and_a_count():
    assert shortened("abca", 3) == ["a", "b", "c"]
    assert shortened("abcd", 3) == ["a", "b", "2 more"]


def test_each_line_of_a_comment_is_one():
    """A bug: a shell ran the second line of a command that stood behind a comment."""
    lines = continued("# check out 2cec: scalemark sweep from=2cec3d8f a=1", 24)
    assert len(lines) > 2
    assert all(line.startswith("# ") for line in lines)
    assert all(line.endswith(" \\") for line in lines[:-1])


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [
        (91.8, 2, "91.80"),
        (999e12, 0, "999000000000000"),
        (1e15, 2, "1e+15"),
        (1.23456e300, 0, "1.235e+300"),
        (-1e300, 0, "-1e+300"),
    ],
)
def test_huge_numbers_are_written_with_an_exponent(value, decimals, text):
    assert fixed(value, decimals) == text


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("resnet50-precision=fp16", "resnet50-precision=fp16"),
        ("models/my_model.py:build", "models_my_model.py_build"),
        ("/home/me/my_model.py:build-ps_cpu-x4", "_home_me_my_model.py_build-ps_cpu-x4"),
        ("../../x", "_.._x"),
        ('a"b*c?<d>|\\e\n', "a_b_c_d_e_"),
        ("größe", "gr_e"),
        ("x" * 300, "x" * 150),
    ],
)
def test_what_is_unsafe_becomes_an_underscore(text, name):
    assert safe_name(text) == name


ARGUMENTS = [
    'command=torchrun --n={num_gpus} "a  b" {{x}}',
    "it's",
    "$HOME `id` !x",
    "",
    "two\nlines\t\\n",
    "r\u202eight",
]


@pytest.mark.integration
def test_a_shell_gives_the_arguments_back():
    script = f"printf '%s\\0' {joined(ARGUMENTS)}"
    given = subprocess.run(["bash", "-c", script], capture_output=True, check=True, text=True)
    assert given.stdout.split("\0")[:-1] == ARGUMENTS


@pytest.mark.integration
@pytest.mark.parametrize("width", [10, 40, 1000])
def test_a_shell_joins_the_lines_of_a_long_command(width):
    script = "\n".join(continued(f"printf '%s\\0' {joined(ARGUMENTS)}", width))
    given = subprocess.run(["bash", "-c", script], capture_output=True, check=True, text=True)
    assert given.stdout.split("\0")[:-1] == ARGUMENTS


def test_lines_keep_the_width_where_words_do():
    lines = continued(
        "python sweep.py " + " ".join(f"axis_{number}='a b'" for number in range(9)), 40
    )
    assert max(map(len, lines)) <= 40
    assert len(lines) > 1


def test_one_reads_what_one_pastes():
    assert joined(ARGUMENTS).isprintable()
