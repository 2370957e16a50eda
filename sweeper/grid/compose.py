"""Expands overrides into cells, and composes each: by Hydra once per groups, then on a copy."""

import copy
import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from functools import cached_property
from types import MappingProxyType
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.object_type import ObjectType
from hydra.core.override_parser import types
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import Container, DictConfig, OmegaConf, flag_override
from omegaconf.errors import OmegaConfBaseException

from conf.schema import Config, typed
from scalemark.host import own_code
from scalemark.records.axes import is_free
from scalemark.records.trial import STRATEGY_AXES
from scalemark.text.untrusted import masked
from scalemark.text.wording import counted
from sweeper import SweepRefusedError
from sweeper.grid.explain import explain, no_such_axis, settings_of, value_problem

# settings, not axes
WHOLE_SWEEP = ("sweep", "store", "launcher", "hardware", "engine", "experiment", "hydra")
MOST_CELLS = 100_000
# axis -> a sweep as on the command line, one value, or a list of values
Params = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class GridChoice:
    """An axis at one of its values: a parsed override that is no sweep."""

    text: str  # as on the command line
    override: types.Override = field(compare=False, repr=False)


Cell = tuple[GridChoice, ...]


def text_of(cell: Cell) -> str:
    """Return the axes of a cell as on the command line, without secrets and without settings that
    all cells share.
    """
    axes = []
    for choice in cell:
        group = re.split(r"[./=]", choice.text)[0]
        if group not in (*WHOLE_SWEEP, "command"):
            axes.append(masked(choice.text))
    return " ".join(axes)


def expand(
    arguments: Sequence[str],
    loader: ConfigLoader | None = None,
    *,
    params: Params = MappingProxyType({}),
    grids: Sequence[Params] = (),
    variants: Sequence[Params] = (),
) -> list[Cell]:
    """Return the distinct cells of a sweep, last axis fastest.

    Of an experiment are `params`, over which arguments win, `grids`, of each of which the cells are
    spanned together with params and arguments, and `variants`, with each of which every cell is
    made once: one value per axis, which win over arguments. `loader` finds what a glob matches.

    Raises SweepRefusedError for what no grid of at most MOST_CELLS can be made of.
    """
    parser = OverridesParser.create(loader)
    named = _last_of_each(_parse(parser, arguments))
    axes_of_grids = []
    for grid in grids or [{}]:
        texts = [_argument(axis, values) for axis, values in {**params, **grid}.items()]
        axes = _last_of_each(_parse(parser, texts))
        for axis in named:  # arguments win, and come last
            axes.pop(axis, None)
        axes.update(named)
        _refuse_contradictions(set(axes))
        axes_of_grids.append(axes)
    cells_of_variants = [_variant(variant, parser) for variant in variants or [{}]]
    num_cells = 0
    for axes in axes_of_grids:
        num_cells += math.prod(map(_num_values, axes.values())) * len(cells_of_variants)
    if num_cells > MOST_CELLS:
        raise SweepRefusedError(
            f"a grid of {counted(num_cells, 'cell')}: wanted {MOST_CELLS:,} at most; run a part of "
            "it at a time"
        )
    cells: dict[Cell, None] = {}  # in order, and each once
    for axes in axes_of_grids:
        for cell in itertools.product(*(_choices(axis, parser) for axis in axes.values())):
            for variant in cells_of_variants:
                cells[_varied(cell, variant)] = None
    return list(cells)


def _variant(axes: Params, parser: OverridesParser) -> Cell:
    """Parse a variant. Raises SweepRefusedError for an axis of several values."""
    asked = _parse(parser, [_argument(axis, value) for axis, value in axes.items()])
    for override in asked:
        if override.is_sweep_override():
            raise SweepRefusedError(
                f"hydra.sweeper.variants: {override.input_line}: one value per axis; give "
                "each a variant of its own"
            )
    return tuple(GridChoice(text=str(override.input_line), override=override) for override in asked)


def _varied(cell: Cell, variant: Cell) -> Cell:
    """Replace what a variant sets; a strategy replaces its parts, and a part a strategy."""
    named = {choice.override.get_key_element() for choice in variant}
    if "strategy" in named:
        named.update(STRATEGY_AXES)
    elif named.intersection(STRATEGY_AXES):
        named.add("strategy")
    kept = (choice for choice in cell if choice.override.get_key_element() not in named)
    return (*kept, *variant)


def _last_of_each(overrides: Sequence[types.Override]) -> dict[str, types.Override]:
    """Keep the last override of each axis, as stock Hydra does."""
    return {override.get_key_element(): override for override in overrides}


def _parse(parser: OverridesParser, texts: Sequence[str]) -> list[types.Override]:
    for text in texts:
        problem = value_problem(text)
        if problem:
            raise SweepRefusedError(problem)
    try:
        return parser.parse_overrides(list(texts))
    except HydraException as error:
        raise SweepRefusedError(explain(error)) from error


def _argument(axis: str, values: object) -> str:
    """Write a param as on the command line."""
    if isinstance(values, list):
        if not values:
            raise SweepRefusedError(
                f"hydra.sweeper: {axis}=[]: an empty axis; give it at least one value"
            )
        return f"{axis}={','.join(map(_value_text, values))}"
    return f"{axis}={_value_text(values)}"


def _value_text(value: object) -> str:
    """Write a value of YAML in Hydra's syntax, which text is in already."""
    if isinstance(value, str):
        return value
    return str(types.Transformer.str(value))  # type: ignore[arg-type]  # YAML has no other types


def _refuse_contradictions(axes: set[str]) -> None:
    """Refuse settings that would silently lose against another, or that have a better name."""
    if "strategy" in axes and (also := sorted(axes & set(STRATEGY_AXES))):
        raise SweepRefusedError(
            f"strategy with {', '.join(also)}: a strategy sets {', '.join(STRATEGY_AXES)}; "
            "give either"
        )
    for axis in sorted(axes):
        if (axis.startswith(("model.", "data.")) and axis != "data.dir") or axis == "launcher.name":
            group = axis.split(".")[0]
            raise SweepRefusedError(
                f"{axis}: a fact of the files in conf/{group}/, no setting; axes are in "
                f"{own_code.typed('sweep')} --help all"
            )


def _num_values(override: types.Override) -> int:
    """Count the values of an override without making them.

    Raises SweepRefusedError for none, and for no finite number.
    """
    if not override.is_sweep_override():
        return 1
    axis = override.get_key_element()
    if re.split(r"[./]", axis)[0] in WHOLE_SWEEP:
        raise SweepRefusedError(
            f"{override.input_line}: {axis} is one value for the whole sweep; run one sweep "
            "per value"
        )
    sweep = override.value()
    num_values = None
    if isinstance(sweep, types.RangeSweep):
        num_values = _num_in_range(sweep)
    elif isinstance(sweep, types.ChoiceSweep):
        num_values = len(sweep.list)
    elif override.value_type is types.ValueType.GLOB_CHOICE_SWEEP:
        num_values = len(list(override.sweep_string_iterator()))
    if num_values is None:
        raise SweepRefusedError(
            f"{override.input_line}: no finite list; write its values out, as in {axis}=1,2,4"
        )
    if not num_values:
        raise SweepRefusedError(
            f"{override.input_line}: an empty axis; give it at least one value, see "
            f"{own_code.typed('sweep')} --help all for the choices"
        )
    return num_values


def _num_in_range(sweep: types.RangeSweep) -> int | None:
    """Count the values of a range; None where it never ends."""
    start, stop, step = (Decimal(bound or 0) for bound in (sweep.start, sweep.stop, sweep.step))
    try:
        return max(0, math.ceil((stop - start) / step))
    # a step of 0, an endless bound, or what is no number
    except (ArithmeticError, InvalidOperation, ValueError):
        return None


def _choices(override: types.Override, parser: OverridesParser) -> list[GridChoice]:
    if not override.is_sweep_override():
        return [GridChoice(text=str(override.input_line), override=override)]
    choices = []
    for value in override.sweep_iterator():
        if isinstance(value, int | float | types.QuotedString):  # these are what their text means
            choices.append(choice_of(override, value))
        else:  # other text may come from a cast, and read as a number
            text = f"{override.get_key_element()}={types.Transformer.str(value)}"
            (parsed,) = _parse(parser, [text])
            choices.append(GridChoice(text=text, override=parsed))
    return choices


def choice_of(override: types.Override, value: types.ElementType) -> GridChoice:
    """Return the choice of one value, which is what its text means, of an axis with several."""
    text = f"{override.get_key_element()}={types.Transformer.str(value)}"
    kind = types.ValueType.ELEMENT
    parsed = replace(override, value_type=kind, _value=value, input_line=text)
    return GridChoice(text=text, override=parsed)


_WORD = re.compile(r"\w+")
_AXES_AND_GROUPS = Config.__dataclass_fields__


class _Composed:
    """A config that Hydra composed."""

    def __init__(self, config: DictConfig) -> None:
        # words of its interpolations: setting what they name changes more than one value
        self.mentioned: set[str] = set()
        for interpolation in _interpolations(config):
            self.mentioned.update(_WORD.findall(interpolation))
        # once `typed` is made of it, leaves are set in it to have them converted and checked
        self.scratch = config

    @cached_property
    def typed(self) -> Config:
        """Raises omegaconf errors for missing values."""
        return typed(self.scratch)


class Composer:
    """Composes cells exactly as stock Hydra does, many times faster."""

    def __init__(self, loader: ConfigLoader, base: DictConfig) -> None:
        self._loader, self._base = loader, base
        # without sweeps: the settings of the whole sweep
        self.base = typed(without_hydra(copy.deepcopy(base)))
        self._composed: dict[Cell, _Composed] = {}
        self._plain: dict[GridChoice, bool] = {}
        self._fields_of: dict[GridChoice, set[str]] = {}
        self._first: dict[tuple[str, ...], Cell] = {}  # that was composed of each set of keys
        self._leaves: dict[GridChoice, Any] = {}  # as the schema has them, in whatever config

    def compose(self, cell: Cell) -> Config:
        """Raises SweepRefusedError, naming the override and the nearest choice."""
        for choice in cell:
            if choice not in self._plain:
                self._plain[choice] = self._is_plain(choice)
        keys = {choice.override.key_or_group for choice in cell}
        # of interpolations, and of what is given in two ways, Hydra alone knows what becomes
        if len(keys) < len(cell) or any("${" in choice.text for choice in cell):
            return self._wholly_stock(cell)
        others = tuple(choice for choice in cell if not self._plain[choice])
        # words of keys that cannot be set one by one
        entangled = {*self._stock(others).mentioned, *(_words(choice)[0] for choice in others)}
        by_hydra, singly = [], []
        for choice in cell:
            if self._plain[choice] and entangled.isdisjoint(_words(choice)):
                singly.append(choice)
            else:
                by_hydra.append(choice)
        composed = self._stock(tuple(by_hydra))
        try:
            config = copy.copy(composed.typed)
        except OmegaConfBaseException:  # something is missing, which the other choices may bring
            return self._wholly_stock(cell)
        for choice in singly:
            if choice not in self._leaves:
                self._leaves[choice] = _leaf(composed.scratch, choice)
            _set(config, _words(choice), self._leaves[choice])
        return config

    def _wholly_stock(self, cell: Cell) -> Config:
        try:
            return self._stock(cell).typed
        except OmegaConfBaseException as error:
            raise SweepRefusedError(explain(error)) from error

    def _is_plain(self, choice: GridChoice) -> bool:
        """Return whether it is AXIS=VALUE with nothing unusual about it: no group, no list, no
        deletion, no setting of Hydra's own.
        """
        override = choice.override
        key = override.key_or_group
        group, _, name = key.rpartition(".")
        is_known = is_free(key) or name in (settings_of(group) if group else _AXES_AND_GROUPS)
        is_added = override.is_add() or override.is_force_add()
        if is_added and not is_known:
            # asked of the sources: the loader would copy its whole repository to answer
            for source in self._loader.get_sources():
                if source.is_group(key) and source.list(key, ObjectType.CONFIG):
                    break
            else:
                raise SweepRefusedError(no_such_axis(key))
        usual = types.OverrideType.ADD if is_free(key) else types.OverrideType.CHANGE
        if not is_known or override.type is not usual or override.package is not None:
            return False
        try:
            has_more = isinstance(OmegaConf.select(self._base, key), Container)  # as data.dir
        except OmegaConfBaseException:  # composing will say what is missing
            return False
        return not isinstance(override.value(), list | dict) and not has_more

    def _put_together(self, choices: Cell) -> _Composed | None:
        """Take the fields that files of groups set from configs that Hydra composed with one of
        them each; None where only Hydra knows what comes of several.
        """
        keys = tuple(choice.override.key_or_group for choice in choices)
        first = self._first.setdefault(keys, choices)
        places = [place for place, choice in enumerate(choices) if choice != first[place]]
        pairs = [(self._fields(first[place]), self._fields(choices[place])) for place in places]
        fields = [usual | other for usual, other in pairs]
        distinct = set().union(*fields)
        if len(places) < 2 or sum(map(len, fields)) > len(distinct) or not all(map(all, pairs)):
            return None
        together = copy.copy(self._stock(first))
        try:
            together.typed = copy.copy(together.typed)
            for place, names in zip(places, fields, strict=True):
                near = self._stock((*first[:place], choices[place], *first[place + 1 :]))
                if distinct & (near.mentioned | together.mentioned):
                    return None
                for name in names:
                    setattr(together.typed, name, getattr(near.typed, name))
        except OmegaConfBaseException:  # something is missing
            return None
        return together

    def _fields(self, choice: GridChoice) -> set[str]:
        """Return the fields that the file of a group sets; none where it may change more."""
        if choice not in self._fields_of:
            group = choice.override.key_or_group
            path = f"{group}/{choice.override.value()}"
            sources = [source for source in self._loader.get_sources() if source.is_config(path)]
            fields = set()
            if sources and choice.override.type is types.OverrideType.CHANGE:
                file = sources[0].load_config(path)
                # without a package it is that of the group
                of_package = {None: {group}, "_global_": {str(name) for name in file.config}}
                fields = of_package.get(file.header["package"], set())
                if "defaults" in file.config or not fields <= _AXES_AND_GROUPS.keys():
                    fields = set()
            self._fields_of[choice] = fields
        return self._fields_of[choice]

    def _stock(self, choices: Cell) -> _Composed:
        """Compose as Hydra alone does, once."""
        if choices not in self._composed and (composed := self._put_together(choices)):
            self._composed[choices] = composed
        elif choices not in self._composed:
            try:
                config = without_hydra(
                    self._loader.load_sweep_config(self._base, [choice.text for choice in choices])
                )
            except (HydraException, OmegaConfBaseException) as error:
                raise SweepRefusedError(explain(error)) from error
            self._composed[choices] = _Composed(config)
        return self._composed[choices]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The cells of a sweep, and what composes them."""

    cells: Sequence[Cell]
    composer: Composer


def _words(choice: GridChoice) -> list[str]:
    """Return the words of a key: of data.dir data and dir."""
    return choice.override.key_or_group.split(".")


def _leaf(scratch: DictConfig, choice: GridChoice) -> Any:
    """Return the value as the schema has it, checked by OmegaConf."""
    key = choice.override.key_or_group
    try:
        is_added = choice.override.is_add()
        value = choice.override.value()
        OmegaConf.update(scratch, key, value, merge=True, force_add=is_added)
        return OmegaConf.select(scratch, key, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise SweepRefusedError(explain(error, choice.text)) from error


def _set(config: Config, words: Sequence[str], value: object) -> None:
    """Set a leaf in copies of all that holds it, because other cells share it."""
    node: Any = config
    for word in words[:-1]:
        inner = copy.copy(getattr(node, word))
        setattr(node, word, inner)
        node = inner
    if isinstance(node, dict):  # as hardware.profile.tflops, which has no fields
        node[words[-1]] = value
    else:
        setattr(node, words[-1], value)


def _interpolations(config: DictConfig) -> Iterator[str]:
    waiting: list[object] = [OmegaConf.to_container(config, resolve=False)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
        elif isinstance(node, str) and "${" in node:
            yield node


def without_hydra(config: DictConfig) -> DictConfig:
    """Remove what a trial does not see from a composed config."""
    with flag_override(config, ["struct", "readonly"], False):
        config.pop("hydra")
    return config
