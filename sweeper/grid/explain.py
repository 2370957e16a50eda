"""Turns errors of Hydra and OmegaConf into one line: what was found, and what was wanted."""

from __future__ import annotations

import difflib
import re
import traceback
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

from hydra.errors import (
    ConfigCompositionException,
    HydraException,
    MissingConfigException,
    OverrideParseException,
)
from omegaconf.errors import (
    ConfigKeyError,
    MissingMandatoryValue,
    OmegaConfBaseException,
    ValidationError,
)

from conf.schema import Config
from scalemark import models
from scalemark.host.own_code import typed
from scalemark.records.free_axes import PREFIX, PREFIXES, free_axes, is_free
from sweeper.grid.variable_text import unreadable

ConfigError = HydraException | OmegaConfBaseException


def explain(error: ConfigError, override: str = "") -> str:
    """Return one line; `override` is what was being applied, where the error does not know it."""
    text = str(error)
    if isinstance(error, MissingConfigException):
        return _no_such_choice(error)
    if isinstance(error, OverrideParseException):
        if problem := _free_axis_name(error.override) or unreadable(error.override):
            return problem
        wanted = "AXIS=VALUE or AXIS=VALUE,VALUE, with other characters in quotes"
        if str(error.override).startswith("sweep.exclude="):
            wanted = "each rule in quotes, as 'sweep.exclude=[\"model=vgg16 num_gpus>=4\"]'"
        if str(error.override).startswith("sweep.name="):
            wanted = "a name of letters, digits, '.', '_' and '-', as sweep.name=night-1"
        return f"{error.override}: cannot be read; wanted {wanted}"
    found = re.search(r"(?:Ambiguous value for argument|Sweep parameters) '(.+?)'", text)
    if found:
        return f"{found[1]}: more than one value, and --cfg shows one trial; give it one value"
    found = re.match(r"In '(.+)': \w+ raised while composing config:\n(.*)", text, re.DOTALL)
    if found:
        return f"conf/{found[1]}.yaml: {_in_file(found[2])}"
    if not override:
        found = re.search(r"Error merging override (.*)", text)
        override = found[1].strip() if found else ""
    if problem := _free_axis_name(override):
        return problem
    cause = error.__cause__ if isinstance(error, ConfigCompositionException) else error
    if isinstance(cause, ConfigKeyError | AttributeError):
        key = getattr(cause, "full_key", None) or getattr(cause, "key", "")
        return no_such_axis(str(key or override.split("=")[0]))
    if isinstance(cause, MissingMandatoryValue):
        key = cause.full_key or cause.key
        return f"{key}: missing; give it a value, or leave out what removes it"
    if isinstance(cause, ValidationError):
        return unreadable(override) or _wrong_value(override, str(cause))
    found = re.search(r"An item is already at '(.+)'", text)
    if found and f"{found[1]}." in PREFIXES:
        name = "zero" if found[1] == PREFIX[:-1] else "NAME"
        return f"+{found[1]}: wanted a name with it, as +{found[1]}.{name}=VALUE,VALUE"
    if found:
        return f"{found[1]}: given twice; give it once, as +{found[1]}=VALUE,VALUE"
    found = re.search(r"Could not override '([^']+)'", text)
    if found:
        return no_such_axis(found[1])
    return f"{override}: {_first_line(text)}" if override else _first_line(text)


def is_of_null(error: AssertionError) -> bool:
    """Return whether OmegaConf raised it, for a setting of something that is null."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return str(frame.f_globals["__name__"]).startswith("omegaconf.")


def nearest(name: str, choices: Iterable[str]) -> str:
    """Return 'did you mean NAME? ' or nothing; of names that hold a word, up to three."""
    known = list(choices)
    begun = [choice for choice in known if name and choice.startswith(name)]
    # as nccl of replicated_nccl
    holding = sorted((choice for choice in known if name in choice.split("_")), key=len)
    close = begun[:1] or holding[:3] or difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {' or '.join(close)}? " if close else ""


def among(name: str, choices: Iterable[str]) -> str:
    """Name the nearest choice, if any is near, and all of them."""
    known = list(choices)
    near = nearest(name, known)
    return f"{near}Choices: {', '.join(known)}" if near else f"choose one of {', '.join(known)}"


def no_such_axis(name: str) -> str:
    """Return one line for a name that is neither an axis nor a setting."""
    axes = [*Config.__dataclass_fields__, "strategy", "experiment"]
    if is_free(name):
        return f"{name}: no axis yet; a free axis is added with a plus: +{name}=VALUE,VALUE"
    own = name.removeprefix("+").removeprefix("axis.")
    if own.isidentifier() and own != name:
        return (
            f"{name}: no such axis; a program that command= gives takes it as "
            f"+{PREFIX}{own}=VALUE,VALUE"
        )
    if "." in name:
        head, _, tail = name.rpartition(".")
        settings = _settings(head)
        others = f"it has {', '.join(settings)}" if settings else f"see {typed('sweep')} --help"
        hint = nearest(tail, settings).rstrip() or others
        return f"{name}: {head} has no setting {tail}; {hint}"
    if near := nearest(name, axes):
        return f"{name}: no such axis; {near}{typed('sweep')} --help has them all"
    return (
        f"{name}: no such axis; {typed('sweep')} --help has them all. A "
        f"program that command= gives takes axes of your own, as +{PREFIX}{name}=VALUE"
    )


def _settings(group: str) -> list[str]:
    """Return the names of the settings of a group, as `sweep` or `hardware.profile`."""
    kind: Any = Config
    for part in group.split("."):
        hint = get_type_hints(kind).get(part) if is_dataclass(kind) else None
        kind = next(filter(is_dataclass, (hint, *get_args(hint))), None)  # of `Profile | None`
    return [field.name for field in fields(kind)] if is_dataclass(kind) else []


def _free_axis_name(override: str) -> str:
    """Say what is wrong with the name of a free axis; empty where nothing is, and of other axes."""
    found = re.match(r"\++((?:axes|env)\.(.*?))=", override)
    if not found:
        return ""
    try:
        free_axes({found[1]: 0})
    except ValueError as error:
        return str(error)
    return ""


def _no_such_choice(error: MissingConfigException) -> str:
    file = error.missing_cfg_file or ""
    group, _, name = file.rpartition("/")
    if file.startswith(("model/", "hardware/")):  # there are no folders in it: a path is meant
        group, _, name = file.partition("/")
    choices = list(error.options or [])
    if group == "model" and name in models.definitions():
        return (
            f"model={name}: its layers are known, and its defaults are not; add "
            f"conf/model/{name}.yaml, or take another: {among(name, choices)}"
        )
    if group == "model" and name.endswith(".py"):
        return f"model={name}: which of its functions? wanted model={name}:FUNCTION"
    if group == "hardware" and name.endswith(".yaml"):
        where = f"by a path from {Path.cwd()}"
        return f"hardware={name}: there is no such file; wanted a profile, {where}"
    own = ", or FILE.py:FUNCTION of your own" if group == "model" else ""
    return f"{group}={name}: no such {group}; {among(name, choices)}{own}"


def _wrong_value(override: str, cause: str) -> str:
    value = override.partition("=")[2]
    found = re.search(r"expected one of \[(.*)\]", cause)
    if found:
        return f"{override}: no such value; {among(value, found[1].split(', '))}"
    if re.search(r"is not Optional|Incompatible value 'None'", cause):
        return f"{override}: null is nothing; give it a value, or leave it out"
    if re.search(r"Cannot convert '\w+' to string", cause):
        return f"{override}: wanted text; brackets and braces in it need quotes"
    if "is not a ListConfig" in cause:
        is_zip = override.startswith("hydra.sweeper.zip")
        wanted = "a list of lists, as [[model,batch_size]]," if is_zip else "a list"
        return f"{override}: wanted {wanted} in square brackets"
    for pattern in (
        r"(?:could not be converted to|is not a valid) (\w+)",
        r"type hint '(?:Optional\[)?(?:Union)?\[?(.*?)\]*'",
    ):
        found = re.search(pattern, cause)
        if found:
            several = re.fullmatch(r"(\d+)(?:\.\.|-|:|\s*to\s*)(\d+)", value)
            hint = f"; several are 'range({several[1]},{int(several[2]) + 1})'" if several else ""
            return f"{override}: wanted {_KINDS.get(found[1], found[1])}{hint}"
    return f"{override}: {_first_line(cause)}"


def _in_file(cause: str) -> str:
    """Return one line for a value of a YAML file that cannot be merged."""
    key, value = re.search(r"full_key: (\S+)", cause), re.search(r"^Value '(.*)' of type", cause)
    if not key:
        return _first_line(cause)
    return _wrong_value(f"{key[1]}={value[1]}" if value else key[1], cause)


_KINDS = {
    "Integer": "a whole number",
    "Float": "a number",
    "bool": "true or false",
    "int, str": "a whole number or auto",
    "int, float, str": "a number or auto",
    "int, float, bool, str": "text, a number, true or false",
    "bool, str": "true, false or auto",
}


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), text)
