import subprocess

import pytest

from scalemark.text.wording import continued, joined

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
