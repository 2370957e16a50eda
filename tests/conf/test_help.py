"""`python sweep.py --help` says of every axis and setting what it is, and which values it takes."""

import re
import subprocess
import sys
from dataclasses import fields

import pytest

from conf.help import FIRST, axes, help_text, settings
from conf.schema import AXES_SET_BY_NAME, LauncherConfig, SweepConfig
from scalemark.records.measurement import INJECTED
from tests.conftest import PROJECT


def test_every_axis_stands_there_with_its_meaning():
    reported = " ".join(help_text(axes, shows_all=True).split())
    for axis in AXES_SET_BY_NAME:
        assert f"{axis.name}=" in reported
        assert axis.help in reported
    assert "auto = clusters of operations (off, on, auto)" in reported
    assert "how gradients meet (auto, collective, hierarchical_copy," in reported
    assert "staged_vars=false use the weights" in reported
    assert "optimizer=momentum * how gradients change weights (adam, adamw," in reported
    assert max(map(len, help_text(axes, shows_all=True).splitlines())) <= 80
    assert [line.name for line in axes()] == [axis.name for axis in AXES_SET_BY_NAME]


def test_every_setting_of_a_sweep_stands_there_with_its_default():
    names = {line.name for line in settings()}
    groups = (("sweep", SweepConfig), ("launcher", LauncherConfig))
    for group, record in groups:
        own = {f"{group}.{one.name}" for one in fields(record)}
        # what a file of conf/launcher/ says, and what has settings below it
        groups_of = {f"launcher.{name}" for name in ("name", "prefix", "slurm")}
        assert own - names <= groups_of
    assert not {f"injected.{name}" for name in INJECTED} & names
    assert {"launcher.timeout_s", "launcher.slurm.account", "data.dir", "store.url"} <= names
    text = help_text(settings, shows_all=True)
    assert all(line.help for line in settings())
    assert "  sweep.repeats=1         fresh processes per trial" in text
    assert "(fork, spawn)" in text
    assert "  store.url=results.db" in text
    assert "  sweep.exclude=[]" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.integration
def test_the_command_prints_twenty_of_them_or_all():
    command = [sys.executable, str(PROJECT / "sweep.py"), "--help"]
    first = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    shown = set(re.findall(r"^  ([a-z_.]+)=", first, re.MULTILINE)) - {"command", "read"}
    assert shown == FIRST
    assert len(shown) == 20
    everything = subprocess.run(
        [*command, "all"], capture_output=True, text=True, check=True
    ).stdout
    assert everything.startswith(first[: first.index("Axes with")])
    assert (
        "  gradient_repacking=0    number of packs; 0 = one message per tensor, or those\n"
        in everything
    )
