"""Turns one composed config with engine=command into a trial of the user's own program."""

import re
from collections.abc import Collection, Iterator
from enum import Enum
from typing import Any

from conf.schema import AXES_SET_BY_NAME, CommandConfig, Config, free_values
from scalemark.program import expression, template
from scalemark.readers.opening import ReadError, open_reader
from scalemark.records import axes
from scalemark.records.machine import DeviceKind
from scalemark.records.trial import AXES, LACKED_BY_COMMANDS, USED_BY_PROGRAMS, TrialSpec
from scalemark.text.untrusted import MASK, without_secrets
from scalemark.text.wording import as_typed, did_you_mean

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}", re.ASCII)
_OTHER_CHARACTERS = re.compile(r"[^A-Za-z0-9._-]+", re.ASCII)
_DEFAULT_GROUPS = {"model": "resnet50", "data": "synthetic"}


class ProgramRefusedError(ValueError):
    """Raised for a program that cannot be run or read; names setting, value and remedy."""

    def __init__(self, why: str, spec: TrialSpec | None = None) -> None:
        super().__init__(why)
        self.spec = spec  # the trial, where its axes are known


def trial_of(config: Config, device_kind: DeviceKind) -> TrialSpec:
    """Return the trial. Raises ValueError for what means nothing, or nothing uses."""
    program = config.command
    if not program.run:
        raise ProgramRefusedError(
            "engine=command: wanted command='PROGRAM ARGUMENT...', with {num_gpus} where the "
            "number of GPUs goes"
        )
    for name, value in config.axes.items():
        if template.is_taken(name):
            raise ProgramRefusedError(_taken(name, value))
    derived = derived_axes(config)
    run = template.substituted(program.run, derived)
    used = frozenset(name.removeprefix(axes.PREFIX) for name in template.names(run))
    free = {name: value for name, value in free_values(config).items() if name not in derived}
    known = [f"{axes.PREFIX}{name}" for name in config.axes]
    known += [f"{axes.ENV_PREFIX}{name}" for name in config.env]
    min_warm_up_steps = 0
    if config.min_warm_up_steps != axes.AUTO:
        min_warm_up_steps = int(config.min_warm_up_steps)
    # values of the axes that a program lacks unless it uses them
    lacking: dict[str, Any] = {name: AXES[name].lacking for name in LACKED_BY_COMMANDS}
    spec = TrialSpec(
        **lacking | _given(config, used) | _scaled(config, used),
        engine=axes.Engine.command.value,
        model=_name(program),
        num_gpus=config.num_gpus,
        hosts=config.hosts,
        device_kind=device_kind.value,
        min_warm_up_steps=min_warm_up_steps,
        seed=config.seed,
        command=run,
        shell=program.shell,
        read=program.read,
        item=program.item,
        items_per_step=expression.substituted(program.items_per_step, derived),
        per_gpu=program.per_gpu,
        flops_per_item=expression.substituted(program.flops_per_item, derived),
        compare=axes.full_name(program.compare, known),
        takes_apart=program.takes_apart,
        free=axes.free_axes(free),
    )
    try:
        problem = next(_problems(spec, config, used), "")
    except template.TemplateError as error:  # of an expression without a value
        problem = str(error)
    if problem:
        raise ProgramRefusedError(problem, spec)
    return spec


def derived_axes(config: Config) -> dict[str, str]:
    """Return the free axes that are arithmetic of others, as `global_batch // (micro*num_gpus)`.

    They stand for it in the command, and are no axes of the trial. Raises ProgramRefusedError.
    """
    derived = {}
    known = {*AXES, *config.axes}
    for name, value in config.axes.items():
        if f"{axes.PREFIX}{name}" != axes.REF and _is_derived(value):
            derived[name] = str(value)
    for name, value in derived.items():
        for other in expression.names(value):
            if other not in known:
                hint = did_you_mean(other, known, "wanted axes of this sweep")
                raise ProgramRefusedError(f"axes.{name}={value}: {other} is no axis; {hint}")
        counted = (config.command.items_per_step, config.command.flops_per_item)
        users = [*counted, config.command.run, *derived.values()]
        if not any(re.search(rf"\b{name}\b", text) for text in users):
            raise ProgramRefusedError(_unused(name))
    return derived


def _is_derived(value: object) -> bool:
    """Return whether text is arithmetic, as `a - b`: data/train, fp16-O2 and seed-1 are not."""
    if not isinstance(value, str) or not expression.is_computed(value):
        return False
    return any(sign in value for sign in ("*", "//", "%", "(", " "))


def _given(config: Config, used: Collection[str]) -> dict[str, Any]:
    """Return the axes of ours that the program uses; what nothing uses is refused."""
    given: dict[str, Any] = {}
    for axis in AXES_SET_BY_NAME:
        value = _plain(getattr(config, axis.name))
        if axis.name in USED_BY_PROGRAMS and axis.name in used:
            given[axis.name] = _number_or_text(axis, value)
        elif value != axis.given and axis.name not in _WITHOUT_PROGRAM and axis.name not in used:
            # a placeholder that no trial could have comes first
            known = {*AXES, *template.PLACES, *config.axes}
            known.update(f"{axes.PREFIX}{name}" for name in config.axes)
            command = config.command
            misspelled = next(template.problems(command.run, known, shell=command.shell), "")
            raise ProgramRefusedError(misspelled or _useless(axis, value))
    for group, default in _DEFAULT_GROUPS.items():
        chosen = getattr(config, group).name
        if chosen != default:
            raise ProgramRefusedError(
                f"{group}={chosen}: engine=command runs a program of yours, which nothing tells of "
                "it; name what it trains by command.name="
            )
    return given


def _scaled(config: Config, used: Collection[str]) -> dict[str, Any]:
    """Return what strong scaling changes: the batch is that of all GPUs, and one has its share."""
    if config.scaling.name == "weak":
        return {}
    if "batch_size" not in used:
        raise ProgramRefusedError(
            "scaling=strong: it splits batch_size over the GPUs; write {batch_size}, the share of "
            "one, into the command, or {batch_size*num_gpus} where the program splits it itself"
        )
    batch_size = _number_or_text(AXES["batch_size"], _plain(config.batch_size))
    num_parts = max(1, config.num_gpus)  # none is refused later
    if int(batch_size) % num_parts:
        raise ProgramRefusedError(
            f"batch_size={batch_size}: scaling=strong splits it over num_gpus={config.num_gpus}, "
            "which does not divide it"
        )
    return {"scaling": "strong", "batch_size": int(batch_size) // num_parts}


_SECRET = (
    " seems to hold a password or a token, and command lines are stored; pass that by the "
    "environment, which the program inherits"
)
_AROUND = re.compile(r"\S+{0}|(?:\S+\s+)?{0}".format(re.escape(MASK)))
# `_problems` looks at hosts; GPUs a program sees; warm-up is a matter of measuring
_WITHOUT_PROGRAM = ("num_gpus", "hosts", "min_warm_up_steps", "scaling")


def _useless(axis: axes.Axis, value: object) -> str:
    shown = as_typed(value)
    if axis.name in (*USED_BY_PROGRAMS, "seed"):
        return f"{axis.name}={shown}: {_nothing_uses(axis.name)}"
    return (
        f"{axis.name}={shown}: engine=command does not know it; an axis of your own has another "
        f"name, as +axes.my_{axis.name}={shown}"
    )


def _taken(name: str, value: object) -> str:
    if name in ("num_gpus", "hosts", "seed", *USED_BY_PROGRAMS):
        return f"axes.{name}: it is an axis already; write {name}={value} without +axes."
    return f"axes.{name}: that is a name of ours; call it otherwise, as +axes.my_{name}"


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.name
    return value


_IF_AUTO = {"precision": "fp32"}  # what a program is told that nothing is known of


def _number_or_text(axis: axes.Axis, value: Any) -> axes.AxisValue:
    if value == axes.AUTO:
        value = _IF_AUTO.get(axis.name, value)
    if value == axes.AUTO:
        raise ProgramRefusedError(
            f"{axis.name}: the command uses it, and no default is known; give {axis.name}="
        )
    if value == axis.lacking:  # 0 of what has to be more
        raise ProgramRefusedError(
            f"{axis.name}={value}: wanted more than 0, as the command uses it"
        )
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if axis.type is int and (not is_number or value != int(value)):
        raise ProgramRefusedError(f"{axis.name}={value}: wanted a whole number")
    if axis.type is float and not is_number:
        raise ProgramRefusedError(f"{axis.name}={value}: wanted a number")
    if axis.type is float:
        return float(value)
    number: axes.AxisValue = value
    return number


def _name(program: CommandConfig) -> str:
    """Return the program's name: as given, or that of its script or module, or its first word."""
    if program.name:
        if not _NAME.fullmatch(program.name):
            raise ProgramRefusedError(
                f"command.name={program.name[:200]}: wanted a word of letters, digits, '.', '_' "
                "and '-', 60 characters at most"
            )
        return program.name
    words = template.words(program.run, shell=program.shell)
    scripts = [word for word in words if word.endswith(template.SCRIPTS)]
    if "-m" in words[:-1]:
        scripts.append(words[words.index("-m") + 1])
    script = [*scripts, *words, ""][0]
    stem = script.rpartition("/")[2]
    return _OTHER_CHARACTERS.sub("_", stem).strip("._-")[:60] or "program"


def _secret_in(command: str) -> str:
    """Return the argument that seems to hold a secret, masked; empty without one."""
    masked = without_secrets(command)
    if masked == command:
        return ""
    return str(_AROUND.findall(masked)[0])


def _unused(name: str) -> str:
    return f"axes.{name}: {_nothing_uses(name)}"


def _nothing_uses(name: str) -> str:
    return (
        f"nothing uses it; write {{{name}}} into the command, or env {name.upper()}={{{name}}} "
        "before it"
    )


def _problems(spec: TrialSpec, config: Config, used: frozenset[str]) -> Iterator[str]:
    free = [axes.bare_name(name) for name, _ in spec.free if name.startswith(axes.PREFIX)]
    if secret := _secret_in(spec.command):
        yield f"command.run: {secret}{_SECRET}"
    yield from template.problems(spec.command, template.known(spec.axes), shell=spec.shell)
    values = template.of_axes(spec.axes)
    template.check_values(spec.command, values)
    places = {name: name for name in template.names(spec.command) if name not in values}
    filled = template.replaced(spec.command, places | values)
    if secret := _secret_in(filled):
        yield f"command.run with the values of its axes: {secret}{_SECRET}"
    for name in free:
        named = f"{name}={values.get(name, '')}"
        if without_secrets(named) != named:
            yield f"axes.{name}{_SECRET}"
        if name not in used and f"{axes.PREFIX}{name}" != axes.REF:
            yield _unused(name)
    try:
        expression.check(spec.axes)
    except expression.ExpressionError as error:
        yield str(error)
    # a variable that is null is inherited here, and compared with other trials' values of it
    is_inherited = axes.bare_name(spec.compare) in config.env
    if spec.compare and spec.axes.get(spec.compare) is None and not is_inherited:
        others = ", ".join(axes.bare_name(name) for name, _ in spec.free)
        yield (
            f"command.compare={config.command.compare}: no axis of this trial; wanted one of "
            f"{others or 'its free axes, of which it has none'}"
        )
    try:
        open_reader(spec.read)
    except ReadError as error:
        yield str(error)
    if spec.hosts > 1 and not used & {"host_rank", "hosts", "num_hosts", "main_host"}:
        yield (
            f"hosts={spec.hosts}: nothing uses it, and each host would run the same; write "
            "{host_rank}, {num_hosts} and {main_host} into the command, or env "
            "HOST_RANK={host_rank} and so on before it"
        )
    on_cpu = spec.device_kind == DeviceKind.CPU_DEVICE  # GPUs it may count itself
    if on_cpu and spec.num_gpus > 1 and not used & {"num_gpus", "gpus_per_host"}:
        yield (
            f"num_gpus={spec.num_gpus}: nothing uses it, and CPU devices are no GPUs that a "
            "program could count; write {num_gpus} into the command, or env NUM_GPUS={num_gpus} "
            "before it"
        )
