import subprocess

import pytest

from scalemark.text.shell_words import joined

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


def test_one_reads_what_one_pastes():
    assert joined(ARGUMENTS).isprintable()
