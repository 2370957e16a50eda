"""Turns what Hydra and OmegaConf raise into one line: what was found, what was wanted, the nearest
name.
"""

from __future__ import annotations

import difflib
import re
import traceback
from collections.abc import Iterable

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
from scalemark.records.free_axes import PREFIX

ConfigError = HydraException | OmegaConfBaseException


def explain(error: ConfigError, override: str = "") -> str:
    """One line for a failed composition; `override` is what was being applied, where the error does
    not know it.
    """
    if isinstance(error, MissingConfigException):
        return _no_such_choice(error)
    if isinstance(error, OverrideParseException):
        return (
            f"{error.override}: cannot be read; wanted AXIS=VALUE or AXIS=VALUE,VALUE, with "
            "other characters in quotes"
        )
    if found := re.search(
        r"Ambiguous value for argument '(.+)'|Sweep parameters '(.+)' requires", str(error)
    ):
        return (
            f"{found.group(1) or found.group(2)}: more than one value, and --cfg shows one "
            "trial; give it one value"
        )
    if found := re.match(
        r"In '(.+)': \w+ raised while composing config:\n(.*)", str(error), re.DOTALL
    ):
        return f"conf/{found[1]}.yaml: {_in_file(found[2])}"
    override = override or _override_in(str(error))
    cause = error.__cause__ if isinstance(error, ConfigCompositionException) else error
    if isinstance(cause, ConfigKeyError | AttributeError):
        return no_such_axis(
            str(
                getattr(cause, "full_key", None)
                or getattr(cause, "key", "")
                or override.split("=")[0]
            )
        )
    if isinstance(cause, MissingMandatoryValue):
        return (
            f"{cause.full_key or cause.key}: missing; give it a value, or leave out what removes it"
        )
    if isinstance(cause, ValidationError):
        return _wrong_value(override, str(cause))
    if found := re.search(r"Could not override '([^']+)'", str(error)):
        return no_such_axis(found.group(1))
    return f"{override}: {_first_line(str(error))}" if override else _first_line(str(error))


def is_of_null(error: AssertionError) -> bool:
    """OmegaConf's, of a setting of something that is null; any other is a mistake of ours."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return str(frame.f_globals["__name__"]).startswith("omegaconf.")


def nearest(name: str, choices: Iterable[str]) -> str:
    """'did you mean NAME? ' or nothing."""
    close = difflib.get_close_matches(name, list(choices), n=1, cutoff=0.5)
    return f"did you mean {close[0]}? " if close else ""


def no_such_axis(name: str) -> str:
    """One line for a name that is neither an axis nor a setting."""
    axes = [*Config.__dataclass_fields__, "strategy", "experiment"]
    if name.startswith(PREFIX):
        return f"{name}: no axis yet; a free axis is added with a plus: +{name}=VALUE,VALUE"
    if "." in name:
        head, _, tail = name.rpartition(".")
        return f"{name}: {head} has no setting {tail}; see python sweep.py --help"
    return f"{name}: no such axis; {nearest(name, axes)}All axes: python sweep.py --help"


def _no_such_choice(error: MissingConfigException) -> str:
    group, _, name = (error.missing_cfg_file or "").rpartition("/")
    choices = list(error.options or [])
    if group == "model" and name in models.definitions():
        return (
            f"model={name}: scalemark/models/ defines it, and its defaults are missing; add "
            f"conf/model/{name}.yaml"
        )
    return f"{group}={name}: no such {group}; {nearest(name, choices)}Choices: {', '.join(choices)}"


def _wrong_value(override: str, cause: str) -> str:
    value = override.partition("=")[2]
    if found := re.search(r"expected one of \[(.*)\]", cause):
        choices = found.group(1).split(", ")
        return f"{override}: no such value; {nearest(value, choices)}Choices: {', '.join(choices)}"
    if "is not a ListConfig" in cause:
        of_lists = (
            " of lists, as [[model,batch_size]]" if override.startswith("hydra.sweeper.zip") else ""
        )
        return f"{override}: wanted a list{of_lists} in square brackets"
    found = re.search(r"(?:could not be converted to|is not a valid) (\w+)", cause) or re.search(
        r"type hint '(?:Union)?\[?(.*?)\]?'", cause
    )
    if found:
        return f"{override}: wanted {_KINDS.get(found.group(1), found.group(1))}"
    return f"{override}: {_first_line(cause)}"


def _in_file(cause: str) -> str:
    """Key and value, as far as they are told, of what cannot be merged."""
    key, value = re.search(r"full_key: (\S+)", cause), re.search(r"^Value '(.*)' of type", cause)
    if key and value:
        return _wrong_value(f"{key[1]}={value[1]}", cause)
    return f"{key[1]}: {_first_line(cause)}" if key else _first_line(cause)


_KINDS = {
    "Integer": "a whole number",
    "Float": "a number",
    "bool": "true or false",
    "int, str": "a whole number or auto",
    "int, float, str": "a number or auto",
    "int, float, bool, str": "text, a number, true or false",
    "bool, str": "true, false or auto",
}


def _override_in(text: str) -> str:
    found = re.search(r"Error merging override (.*)", text)
    return found.group(1).strip() if found else ""


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), text)
