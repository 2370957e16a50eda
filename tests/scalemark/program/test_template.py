"""A command line becomes an argument vector whose values stay one argument, or a shell's text that no value escapes from."""

import subprocess

import pytest

from scalemark.program.template import TemplateError, filled, names, problems

VALUES = {
    "batch_size": "64",
    "zero": "two words; rm -rf 'x' $HOME `id`",
    "num_gpus": "8",
    "axes.zero": "z",
}


def test_values_fill_words_that_were_split_before():
    assert filled("train --zero={zero} {batch_size}", VALUES, shell=False) == [
        "train",
        f"--zero={VALUES['zero']}",
        "64",
    ]


def test_doubled_braces_are_braces_for_the_program():
    assert filled("""train '{{"n": {num_gpus}}}'""", VALUES, shell=False) == ["train", '{"n": 8}']


def test_names_come_once_in_their_order():
    assert names("{zero} {batch_size} {{num_gpus}} {zero} {axes.zero}") == [
        "zero",
        "batch_size",
        "axes.zero",
    ]


def test_arithmetic_of_axes_is_computed():
    assert filled("train {num_gpus * 2} x={batch_size//num_gpus}", VALUES, shell=False)[1:] == [
        *("16", "x=8")
    ]
    assert names("{batch_size // num_gpus}") == ["batch_size", "num_gpus"]
    command = filled("echo {batch_size / num_gpus / 16} | cat", VALUES, shell=True)
    assert command[-1] == "echo 0.5 | cat"
    for wrong in ("{zero * 2}", "{batch_size // (num_gpus - num_gpus)}"):
        with pytest.raises(TemplateError, match=r"command\.run: "):
            filled(f"train {wrong}", VALUES, shell=False)


def test_a_shell_gets_each_value_as_one_word_whatever_is_in_it():
    command = filled("printf '%s|' a {zero} b && echo end", VALUES, shell=True)
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said == f"a|{VALUES['zero']}|b|end\n"


@pytest.mark.parametrize("quote", ["'", '"'])
def test_a_placeholder_between_quotes_of_a_shells_text_is_refused(quote):
    with pytest.raises(TemplateError, match="quoted already; leave the quotes out"):
        filled(f"sh -c {quote}echo {{zero}}{quote}", VALUES, shell=True)


@pytest.mark.parametrize("shell", [False, True])
@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("train {batchsize}", "{batchsize} is no placeholder, did you mean {batch_size}?"),
        ("train {bath}", "{bath} is no placeholder, +axes.bath=VALUE,VALUE declares it; there are"),
        ("train 'x", "no closing quotation; close the quote"),
        ("train {zero", "a single brace at '{zero'; wanted a placeholder as {num_gpus}"),
        ("train }", "a single brace at '}'"),
        ("train { zero }", "'{ zero }' is no placeholder: that is the name of an axis"),
        ("train {}", "'{}' is no placeholder"),
        ("train {my-num_gpus}", "{my} is no placeholder, +axes.my=VALUE,VALUE declares it"),
        ("train {num_gpus:03d}", "'{num_gpus:03d}' is no placeholder"),
        ("train {2}", "'{2}' is no placeholder"),
        ("train {print $1}", "'{print $1}' is no placeholder"),
        ("train {min(num_gpus, 2)}", "'{min(num_gpus, 2)}' is no placeholder"),
        ("  ", "found nothing to start"),
    ],
)
def test_what_cannot_be_filled_is_named(template, problem, shell):
    (found,) = problems(template, VALUES, shell=shell)
    assert problem in found


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("'' x", "found nothing to start"),
        ("OMP_NUM_THREADS=4 python x.py", "write `env OMP_NUM_THREADS=4 ...`"),
        ("cd x && python y", "&& is for a shell"),
        ("train > log", "> is for a shell"),
        ("train|tee log", "| is for a shell"),
        ("train --data $DATA/imagenet", "$DATA/imagenet is for a shell"),
        ("train --data=$HOME", "--data=$HOME is for a shell"),
        ("~/train.py", "~/train.py is for a shell"),
        ("train --x=$(date +%s)", "--x=$(date is for a shell"),
        ("train `date`", "`date` is for a shell"),
        ("train data/*.txt", "data/*.txt is for a shell"),
        ("train 'a b' model?.pt", "model?.pt is for a shell"),
        ("train x # the first", "# is for a shell"),
    ],
)
def test_a_shells_words_are_refused_without_a_shell(template, problem):
    (found,) = problems(template, VALUES, shell=False)
    assert problem in found
    assert list(problems("cd x && y > z", VALUES, shell=True)) == []


def test_quoted_operators_are_arguments():
    assert filled("train '&&' '|' a=b", VALUES, shell=False) == ["train", "&&", "|", "a=b"]
    assert filled(r"""train 'a *' "x?" \* a#b""", VALUES, shell=False)[1:] == [
        *("a *", "x?", "*", "a#b")
    ]
    assert filled("train '$HOME' x~ '~/y'", VALUES, shell=False) == ["train", "$HOME", "x~", "~/y"]
