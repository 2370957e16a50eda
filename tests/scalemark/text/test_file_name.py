"""Values of axes become names of files that every file system takes."""

import pytest

from scalemark.text.wording import safe_name


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
