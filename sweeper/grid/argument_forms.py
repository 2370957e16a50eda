"""Refuses what other programs take on a command line, and says how it is written here; Hydra would
answer with a traceback or the usage of its own flags.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import pairwise
from typing import get_type_hints

from conf.schema import Config
from scalemark.host.own_code import typed
from scalemark.records.trial import AXES
from sweeper.errors import SweepRefusedError
from sweeper.grid.explain import nearest

_GROUPS = ("model", "data", "strategy", "launcher", "hardware")  # every trial needs a choice
_NAMES = (*AXES, *_GROUPS, "engine", "experiment", "command", "read")
_SETTINGS = ("sweep", "retry", "store")  # whose settings people write as flags, or alone
_OTHER_NAMES = {"db": "store.url", "database": "store.url", "store": "store.url"}
FLAGS: Mapping[str, tuple[str, ...]] = {  # of Hydra, with what is short for them
    "--help": ("-h",),
    "--hydra-help": (),
    "--version": (),
    "--cfg": ("-c",),
    "--resolve": (),
    "--package": ("-p",),
    "--run": ("-r",),
    "--multirun": ("-m",),
    "--shell-completion": ("-sc",),
    "--config-path": ("-cp",),
    "--config-name": ("-cn",),
    "--config-dir": ("-cd",),
    "--experimental-rerun": (),
    "--info": ("-i",),
}
_VALUES: Mapping[str, tuple[str, ...]] = {  # of flags that Hydra answers with its usage
    "--cfg": ("job", "hydra", "all"),
    "-c": ("job", "hydra", "all"),
}
_KNOWN = {*FLAGS, *(short for shorts in FLAGS.values() for short in shorts)}


def check_forms(arguments: Sequence[str]) -> None:
    """Raise SweepRefusedError for the first argument that means something else here."""
    if not arguments:
        raise SweepRefusedError(
            f"found nothing to measure; write {typed('sweep')} experiment=quick, or model=resnet50 "
            f"num_gpus=1,2; {typed('sweep')} --help lists all"
        )
    for argument, following in pairwise([*arguments, ""]):
        # a word behind a flag or a name may be its value
        value = "" if "=" in following or following.startswith("-") else following
        _check(argument, value)


def _check(argument: str, following: str) -> None:
    name, equals, value = argument.partition("=")
    if equals and not name:
        raise SweepRefusedError(f"{argument}: wanted AXIS=VALUE")
    if name.startswith("-") and name not in _KNOWN:
        raise SweepRefusedError(_no_such_flag(name, value or following))
    if name in _VALUES and (value or following) not in _VALUES[name]:
        *others, last = _VALUES[name]
        raise SweepRefusedError(
            f"{name}: wanted {', '.join(others)} or {last} behind it; write {typed('sweep')} --cfg "
            "job, which prints the settings of the command"
        )
    if not equals and name in _NAMES and following and name != "command":
        raise SweepRefusedError(
            f"{name} {following}: an equals sign joins them; write {name}={following}"
        )
    if name in (*AXES, *_GROUPS) and value.startswith("[") and value.endswith("]"):
        raise SweepRefusedError(
            f"{argument}: brackets make one value of a list; write {name}={value[1:-1]}"
        )
    if equals and "." not in name and name not in _NAMES and (meant := _setting(name)):
        raise SweepRefusedError(f"{name}: no such axis; write the setting {meant[0]}={value}")
    if name == "data" and "/" in value:
        raise SweepRefusedError(
            f"{argument}: wanted the kind of data, as imagenet; a folder of it is data.dir={value}"
        )
    if name in _GROUPS and value == "null":
        raise SweepRefusedError(f"{argument}: wanted a file of conf/{name}/")


def _no_such_flag(name: str, value: str) -> str:
    """Say how what this flag means is written; Hydra would take the beginning of one of its own."""
    own = name.lstrip("-").replace("-", "_")
    if own in _NAMES:
        return f"{name}: axes have no dashes; write {own}={value or 'VALUE'}"
    if found := _setting(own):
        meant, usual = found
        return f"{name}: settings have no dashes; write {meant}={value or usual}"
    # without the dashes, which are alike in all flags
    if meant := nearest(name.lstrip("-"), [flag.lstrip("-") for flag in FLAGS]).rstrip():
        return f"{name}: no such flag; {meant.replace('did you mean ', 'did you mean --')}"
    if meant := nearest(own, _NAMES).rstrip():
        return f"{name}: no such flag; {meant[:-1]}={value or 'VALUE'}?"
    return f"{name}: no such flag; axes are written AXIS=VALUE, see {typed('sweep')} --help"


def _setting(name: str) -> tuple[str, str] | None:
    """Return the whole name of the setting that is called so without its group, and what is written
    for its value; None where there is none.
    """
    if name in _OTHER_NAMES:
        return _OTHER_NAMES[name], "FILE"
    for group in _SETTINGS:
        kind = get_type_hints(Config)[group]
        types = get_type_hints(kind)
        own = name.removeprefix(f"{group}.")
        if own in {field.name for field in fields(kind)}:
            return f"{group}.{own}", "true" if types[own] is bool else "VALUE"
    return None
