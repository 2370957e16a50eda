"""Composes each cell: by Hydra once per combination of groups, then values on a copy."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, is_dataclass
from enum import Enum, auto
from functools import cached_property
from typing import Any, get_type_hints

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.types import OverrideType
from hydra.errors import HydraException
from omegaconf import Container, DictConfig, OmegaConf, flag_override
from omegaconf.errors import OmegaConfBaseException

from conf.schema import Config, typed
from scalemark.records.free_axes import is_free
from sweeper.errors import SweepRefusedError
from sweeper.grid.expand import Cell, GridChoice
from sweeper.grid.explain import explain, no_such_axis

_WORD = re.compile(r"\w+")


class _Kind(Enum):
    GROUP = auto()  # choices of config groups
    VALUE = auto()  # AXIS=VALUE with nothing unusual about it
    ODD = auto()  # lists, dicts, additions, deletions, Hydra's own settings


class _Composed:
    """A config that Hydra composed, and the values of further axes, checked against it."""

    def __init__(self, config: DictConfig) -> None:
        # words of its interpolations: setting what they name changes more than one value
        self.mentioned: set[str] = set()
        for interpolation in _interpolations(config):
            self.mentioned.update(_WORD.findall(interpolation))
        self.leaves: dict[GridChoice, Any] = {}  # converted by OmegaConf
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
        self._kinds: dict[GridChoice, _Kind] = {}
        self._groups: dict[str, bool] = {}
        self._holders: dict[str, bool] = {}

    def compose(self, cell: Cell) -> Config:
        """Raises SweepRefusedError, naming the override and the nearest choice."""
        kinds = [self._kind(choice) for choice in cell]
        keys = {choice.override.key_or_group for choice in cell}
        # of interpolations, and of what is given in two ways, Hydra alone knows what becomes
        if len(keys) < len(cell) or any("${" in choice.text for choice in cell):
            return self._wholly_stock(cell)
        groups = [choice for choice, kind in zip(cell, kinds, strict=True) if kind is _Kind.GROUP]
        # words of keys that cannot be set one by one
        entangled = set(self._stock(tuple(groups)).mentioned)
        for choice, kind in zip(cell, kinds, strict=True):
            if kind is _Kind.ODD:
                entangled.add(_words(choice)[0])
        by_hydra, singly = [], []
        for choice, kind in zip(cell, kinds, strict=True):
            if kind is _Kind.VALUE and entangled.isdisjoint(_words(choice)):
                singly.append(choice)
            else:
                by_hydra.append(choice)
        composed = self._stock(tuple(by_hydra))
        try:
            config = copy.copy(composed.typed)
        except OmegaConfBaseException:  # something is missing, which the other choices may bring
            return self._wholly_stock(cell)
        for choice in singly:
            _set(config, _words(choice), _leaf(composed, choice))
        return config

    def _wholly_stock(self, cell: Cell) -> Config:
        try:
            return self._stock(cell).typed
        except OmegaConfBaseException as error:
            raise SweepRefusedError(explain(error)) from error

    def _kind(self, choice: GridChoice) -> _Kind:
        if choice not in self._kinds:
            self._kinds[choice] = self._look_at(choice)
        return self._kinds[choice]

    def _look_at(self, choice: GridChoice) -> _Kind:
        override = choice.override
        key = override.key_or_group
        if self._is_group(key):
            return _Kind.GROUP
        is_free_axis = is_free(key)
        is_added = override.is_add() or override.is_force_add()
        if is_added and not is_free_axis and not _is_setting(key):
            raise SweepRefusedError(no_such_axis(key))
        usual = OverrideType.ADD if is_free_axis else OverrideType.CHANGE
        if override.type is not usual or override.package is not None or key.startswith("hydra"):
            return _Kind.ODD
        if isinstance(override.value(), list | dict) or self._holds_more(key):
            return _Kind.ODD
        return _Kind.VALUE

    def _is_group(self, key: str) -> bool:
        """Ask once per key: Hydra copies its whole repository to answer."""
        if key not in self._groups:
            self._groups[key] = bool(self._loader.get_group_options(key))
        return self._groups[key]

    def _holds_more(self, key: str) -> bool:
        """Return whether a key is no leaf, as `data` with its data.dir."""
        if key not in self._holders:
            try:
                self._holders[key] = isinstance(OmegaConf.select(self._base, key), Container)
            except OmegaConfBaseException:  # composing will say what is missing
                self._holders[key] = True
        return self._holders[key]

    def _stock(self, choices: Cell) -> _Composed:
        """Compose by Hydra alone, once."""
        if choices not in self._composed:
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


def _leaf(composed: _Composed, choice: GridChoice) -> Any:
    """Return the value as the schema has it, checked by OmegaConf once."""
    if choice not in composed.leaves:
        key = choice.override.key_or_group
        try:
            is_added = choice.override.is_add()
            value = choice.override.value()
            OmegaConf.update(composed.scratch, key, value, merge=True, force_add=is_added)
            composed.leaves[choice] = OmegaConf.select(composed.scratch, key, throw_on_missing=True)
        except OmegaConfBaseException as error:
            raise SweepRefusedError(explain(error, choice.text)) from error
    return composed.leaves[choice]


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


def _is_setting(key: str) -> bool:
    """Return whether ++ would change it, and not add it."""
    of: object = Config
    for word in key.split("."):
        hints = get_type_hints(of) if isinstance(of, type) and is_dataclass(of) else {}
        if word not in hints:
            return False
        of = hints[word]
    return True
