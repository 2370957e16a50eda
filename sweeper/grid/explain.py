"""Says in one line what is wrong with a command line: what was found, and what was wanted.

`check_forms` refuses what other programs take and Hydra answers with its usage or a traceback;
`explain` words the errors of Hydra and OmegaConf.
"""

import math
import re
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args, get_type_hints

from hydra import errors
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf.errors import (
    ConfigKeyError,
    MissingMandatoryValue,
    OmegaConfBaseException,
    ValidationError,
)

import conf
from conf.schema import Config
from scalemark import abilities, models
from scalemark.host.own_code import typed
from scalemark.records.axes import (
    PREFIX,
    PREFIXES,
    REF,
    free_axes,
    is_env_variable,
    is_free,
    number_of,
    whole_if_equal,
)
from scalemark.records.trial import AXES
from scalemark.text.untrusted import masked
from scalemark.text.wording import as_typed, did_you_mean
from sweeper import SweepRefusedError

_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\\.""")


def value_problem(argument: str) -> str:
    """Say how to write values of a variable, or of an axis of the user's own, that Hydra would
    write differently; empty where nothing is wrong, and for other axes.

    1e-3 is the number 0.001 for an axis, which a program reads alike: no name is written so.
    """
    axis, _, given = argument.partition("=")
    name = axis.lstrip("+~")
    if not name.startswith(PREFIXES) or name == REF:
        return ""
    plain = _QUOTED.sub("", given)
    is_computed = not set(plain).isdisjoint("()[]{}")
    read_as = {}
    for value in () if is_computed else map(str.strip, plain.split(",")):
        read = _read_as(value)
        if read != value and (is_env_variable(name) or "e" not in value.lower() or read in _TRUTHS):
            read_as[value] = read
    if not read_as and not (is_computed and is_env_variable(name)):
        return ""
    remedy = f"write each value in quotes, as {axis}='0.25','0.50'"
    if set(given).isdisjoint("()[]{}'\"\\"):
        quoted = ",".join(f"'{value.strip()}'" for value in given.split(","))
        remedy = f'put quotes around each value: "{masked(f"{axis}={quoted}")}"'
    shown = masked(argument)
    if is_env_variable(name):
        return (
            f"{shown}: a variable holds its very characters, and Hydra would change them; {remedy}"
        )
    changed = ", ".join(f"{value} as {read}" for value, read in read_as.items())
    return f"{shown}: the program would get {changed}; write that, or {remedy}"


_TRUTHS = ("true", "false")


def _read_as(value: str) -> str:
    """Return what a program gets for an unquoted value that Hydra reads as a number or a truth."""
    try:
        read = _PARSER.parse_rule(value, "primitive")
    except errors.HydraException:  # which is said of it where the whole override is parsed
        return value
    if isinstance(read, float) and math.isfinite(read):
        read = whole_if_equal(read)
    if isinstance(read, int | float):
        return as_typed(read)
    return value


_PARSER = OverridesParser.create()
ConfigError = errors.HydraException | OmegaConfBaseException

_GROUPS = ("model", "data", "strategy", "launcher", "hardware")  # every trial needs a choice
_NAMES = (*AXES, *_GROUPS, "engine", "experiment", "command", "read", "from")
_STORE = ("db", "database", "store")  # what people write for store.url
FLAGS = (  # of Hydra
    *("--help", "--hydra-help", "--version", "--cfg", "--resolve", "--package", "--run"),
    *("--multirun", "--shell-completion", "--config-path", "--config-name", "--config-dir"),
    "--info",
)
_SHORT_FLAGS = ("-h", "-c", "-p", "-r", "-m", "-sc", "-cp", "-cn", "-cd", "-i")


WANTED_NAME = "wanted letters, digits, '.', '_' and '-', 100 at most"  # of a sweep
_MOST_NAMED = 3
_TOO_LONG = re.compile(r"\d[\d_]{4300}")  # for Python's int()


def check_forms(arguments: Sequence[str]) -> None:
    """Raise SweepRefusedError for the first argument that means something else here."""
    if not arguments:
        raise SweepRefusedError(
            f"found nothing to measure; write {typed('sweep')} experiment=quick, or model=resnet50 "
            f"num_gpus=1,2; {typed('sweep')} --help all lists them"
        )
    for argument, following in pairwise([*arguments, ""]):
        problem = value_problem(argument) or _problem_of_form(argument)
        name, _, value = argument.partition("=")
        if name in ("--cfg", "-c") and (value or following) not in ("job", "hydra", "all"):
            problem = f"{name}: wanted job, hydra or all behind it; job prints the settings"
        if problem:
            raise SweepRefusedError(problem)


def _problem_of_form(argument: str) -> str:
    name, equals, value = argument.partition("=")
    if _TOO_LONG.search(value):
        return f"{name[:100]}: found a number of more than 4,300 digits; wanted a shorter one"
    if name.startswith("-"):
        return "" if name in (*FLAGS, *_SHORT_FLAGS) else _no_such_flag(name, value)
    if equals and not name:
        return f"{argument}: wanted AXIS=VALUE"
    if name in (*AXES, *_GROUPS) and value.startswith("[") and value.endswith("]"):
        return f"{argument}: brackets make one value of a list; write {name}={value[1:-1]}"
    setting = _setting(name)
    if equals and setting and "." not in name and name not in _NAMES:
        return f"{name}: no such axis; write the setting {setting}={value}"
    if name in _GROUPS and value == "null":
        return f"{argument}: wanted a file of conf/{name}/"
    texts = [text for text in value.split(",") if number_of(text) is None]
    is_own_axis = name.lstrip("+").startswith(PREFIX) and name.lstrip("+") != REF
    if is_own_axis and texts in (["max"], ["best"]):
        (goal,) = texts
        return (
            f"{argument}: {goal} alone would be text; wanted bounds to search in, as "
            f"'{name}={goal}(1,64)', or the text in quotes, as \"{name}='{goal}'\""
        )
    return ""


def _no_such_flag(flag: str, value: str) -> str:
    """Say how what this flag means is written; Hydra would take the beginning of one of its own."""
    name = flag.lstrip("-").replace("-", "_")
    meant = _setting(name)
    if meant or name in _NAMES:
        written = f"{meant or name}={value or 'VALUE'}"
        return f"{flag}: axes and settings have no dashes; write {written}"
    wanted = f"axes are written AXIS=VALUE, see {typed('sweep')} --help all"
    near = did_you_mean(flag, FLAGS) or did_you_mean(name, _NAMES, wanted, form="{}=...")
    return f"{flag}: no such flag; {near}"


def _setting(name: str) -> str:
    """Return the whole name of the setting that is called so without its group, or nothing."""
    if name in _STORE:
        return "store.url"
    for group in ("sweep", "store"):
        own = name.removeprefix(f"{group}.")
        if own in settings_of(group):
            return f"{group}.{own}"
    return ""


def explain(error: ConfigError, override: str = "") -> str:
    """Return one line; `override` is what was being applied, where the error does not know it."""
    text = str(error)
    if isinstance(error, errors.MissingConfigException):
        return _no_such_choice(error)
    if isinstance(error, errors.OverrideParseException):
        problem = _free_axis_name(error.override)
        form = "AXIS=VALUE or AXIS=VALUE,VALUE, with other characters in quotes"
        if error.override.startswith("sweep.exclude="):
            form = "each rule in quotes, as 'sweep.exclude=[\"model=vgg16 num_gpus>=4\"]'"
        if error.override.startswith("sweep.name="):
            return f"{error.override}: {WANTED_NAME}"
        return problem or f"{error.override}: cannot be read; wanted {form}"
    several = re.search(r"(?:value for argument|Sweep parameters) '(.+?)'", text)
    if several:
        return f"{several[1]}: more than one value, and --cfg shows one trial; give it one value"
    file = re.match(r"In '(.+)': \w+ raised while composing config:\n(.*)", text, re.DOTALL)
    if file:
        name = f"{file[1]}.yaml"  # of our own conf/, or of a folder of the user's
        shown = name
        if (Path(conf.__file__).parent / name).exists():
            shown = f"conf/{name}"
        named = re.search(r"full_key: (\S+)", file[2])
        where = f"{shown}: {named[1]}" if named else shown
        group = re.search(r"str is not a subclass of (\w+)Config. value: (.+)", file[2])
        if group and group[1].lower() in _GROUPS:
            return f"{where}: write `- override /{group[1].lower()}: {group[2]}` below defaults"
        return f"{where}: {_first_line(file[2])}"
    merged = re.search(r"Error merging override (.*)", text)
    if merged and not override:
        override = merged[1].strip()
    problem = _free_axis_name(override)
    if problem:
        return problem
    cause: object = error
    if isinstance(error, errors.ConfigCompositionException):
        cause = error.__cause__
    if isinstance(cause, ConfigKeyError | AttributeError):
        key = getattr(cause, "full_key", None) or getattr(cause, "key", "")
        return no_such_axis(str(key or override.split("=")[0]))
    if isinstance(cause, MissingMandatoryValue):
        key = cause.full_key or cause.key
        return f"{key}: missing; give it a value, or leave out what removes it"
    if isinstance(cause, ValidationError):
        return _wrong_value(override, str(cause))
    twice = re.search(r"An item is already at '(.+)'", text)
    if twice:
        if f"{twice[1]}." in PREFIXES:
            return f"+{twice[1]}: wanted a name with it, as +{twice[1]}.NAME=VALUE,VALUE"
        return f"{twice[1]}: given twice; give it once, as +{twice[1]}=VALUE,VALUE"
    unknown = re.search(r"Could not override '([^']+)'", text)
    if unknown:
        return no_such_axis(unknown[1])
    return f"{override}: {_first_line(text)}".removeprefix(": ")


def is_of_null(error: AssertionError) -> bool:
    """Return whether OmegaConf raised it, for a setting of something that is null."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return str(frame.f_globals["__name__"]).startswith("omegaconf.")


def among(name: str, choices: Iterable[str]) -> str:
    """Name the nearest choice, if any is near, and all of them."""
    known = list(choices)
    near = did_you_mean(name, known, cutoff=0.5)
    holding = sorted((choice for choice in known if name and name in choice), key=len)
    if holding:  # as nccl of replicated_nccl
        near = f"did you mean {' or '.join(holding[:_MOST_NAMED])}?"
    return f"{near} Choices: {', '.join(known)}".lstrip()


def no_such_axis(name: str) -> str:
    """Return one line for a name that is neither an axis nor a setting."""
    if is_free(name):
        return f"{name}: no axis yet; a free axis is added with a plus: +{name}=VALUE,VALUE"
    own = name.removeprefix("+").removeprefix("axis.")
    if "." in own:
        group, _, setting = own.rpartition(".")
        settings = settings_of(group)
        return f"{name}: {group} has no setting {setting}; {among(setting, settings)}"
    near = did_you_mean(own, [*Config.__dataclass_fields__, "strategy", "experiment"])
    if near and own == name:
        return f"{name}: no such axis; {near} {typed('sweep')} --help all has them"
    return (
        f"{name}: no such axis; {typed('sweep')} --help all has them. A program that command= "
        f"gives takes axes of your own, as +{PREFIX}{own}=VALUE,VALUE"
    )


def settings_of(group: str) -> list[str]:
    """Return the names of the settings of a group, as `sweep` or `hardware.profile`."""
    kind: Any = Config
    for part in group.split("."):
        hint = get_type_hints(kind).get(part) if is_dataclass(kind) else None
        kind = next(filter(is_dataclass, (hint, *get_args(hint))), None)  # of `Profile | None`
    if is_dataclass(kind):
        return [field.name for field in fields(kind)]
    return []


def _free_axis_name(override: str) -> str:
    """Say what is wrong with the name of a free axis; empty where nothing is, and of other axes."""
    named = re.match(r"\++((?:axes|env)\.(.*?))=", override)
    try:
        free_axes({named[1]: 0} if named else {})
    except ValueError as error:
        return str(error)
    return ""


_OF_OTHERS = {
    **dict.fromkeys(
        ("ddp", "distributeddataparallel", "horovod"),
        "process_per_gpu_nccl, or process_per_gpu_ring without GPUs",
    ),
    **dict.fromkeys(("fsdp", "fullyshard", "fullyshardeddataparallel", "zero"), "sharded"),
    **dict.fromkeys(("dp", "dataparallel"), "ps_gpu"),
    "centralstorage": "ps_cpu",
    "parameterserver": "ps_cpu, or distributed_ps over several hosts",
    **dict.fromkeys(("keras", "kerasfit", "modelfit"), "fit"),
    "multiworkermirrored": "multi_worker_mirrored_nccl",
}
"""Names of PyTorch and tf.distribute, without `strategy` at their ends -> our strategies."""


def _no_such_choice(error: errors.MissingConfigException) -> str:
    group, _, name = (error.missing_cfg_file or "").partition("/")
    choices = among(name, error.options or [])
    if group == "model" and name in models.definitions():
        return (
            f"model={name}: its layers are known, and its defaults are not; add "
            f"conf/model/{name}.yaml, or take another: {choices}"
        )
    if group == "model" and name.endswith(".py"):
        return f"model={name}: which of its functions? wanted model={name}:FUNCTION"
    if group == "hardware" and name.endswith(".yaml"):
        own = name.rpartition("/")[2].removesuffix(".yaml")
        return f"hardware={name}: for DIR/hardware/{own}.yaml write --config-dir=DIR hardware={own}"
    if group == "strategy":
        known_here = _OF_OTHERS.get(re.sub("[^a-z]|strategy$", "", name.lower()))
        if known_here:
            return f"strategy={name}: here it is {known_here}; strategy=all compares all"
        for update in abilities.choices_of(AXES["variable_update"]):
            if name == update:
                return f"strategy={name}: no such strategy; did you mean variable_update={update}?"
            all_reduce = name.removeprefix(f"{update}_")  # as tables name it
            if all_reduce != name and all_reduce in abilities.choices_of(AXES["all_reduce"]):
                axes = f"variable_update={update} all_reduce={all_reduce}"
                return f"strategy={name}: no such strategy; did you mean {axes}?"
    own = ", or FILE.py:FUNCTION of your own" if group == "model" else ""
    return f"{group}={name}: no such {group}; {choices}{own}"


_KINDS = {
    "Integer": "a whole number",
    "Float": "a number",
    "bool": "true or false",
    "int, str": "a whole number or auto",
    "int, float, str": "a number or auto",
    "int, float, bool, str": "text, a number, true or false",
    "bool, str": "true, false or auto",
}


def _wrong_value(override: str, cause: str) -> str:
    name = override.partition("=")[0]
    if "is not Optional" in cause and name.lstrip("+").startswith(PREFIXES):
        return f"{override}: null is no value; text stands in quotes, as \"{name}='null'\""
    if "is not Optional" in cause:
        return f"{override}: wanted a value; leave it out for its default"
    if "ListConfig" in cause:
        return f"{override}: wanted a list, as {name}=[a,b]"
    if re.match("Cannot convert '(list|dict)' to string", cause):
        return f"{override}: wanted text; with brackets or braces it stands in quotes"
    choices = re.search(r"expected one of \[(.*)\]", cause)
    if choices:
        value = override.partition("=")[2]
        return f"{override}: no such value; {among(value, choices[1].split(', '))}"
    kind = re.search(r"(?:could not be converted to|is not a valid) (\w+)", cause) or re.search(
        r"type hint '(?:Optional\[)?(?:Union)?\[?(.*?)\]*'", cause
    )
    if not kind:
        return f"{override}: {_first_line(cause)}"
    return f"{override}: wanted {_KINDS.get(kind[1], kind[1])}"


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), text)
