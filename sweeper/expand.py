"""Expands override strings into the cells of a grid, and composes each cell's config."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Mapping, Sequence

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, flag_override
from omegaconf.errors import OmegaConfBaseException

from conf.schema import Config, typed
from store.records import STRATEGY_AXES
from sweeper.errors import SweepRefusedError
from sweeper.explain import explain, no_such_axis

WHOLE_SWEEP = ("sweep", "store", "launcher", "hardware", "experiment", "hydra")  # settings, not axes
Cell = tuple[str, ...]  # override strings, none of them a sweep


def expand(arguments: Sequence[str], params: Mapping[str, str], max_trials: int) -> list[Cell]:
    """All cells that the arguments and an experiment's params span, last axis fastest; an argument wins over a param.

    Raises SweepRefusedError for what no grid of at most `max_trials` cells can be made of.
    """
    parser = OverridesParser.create()
    try:
        given = parser.parse_overrides(list(arguments))
        named = {override.get_key_element() for override in given}
        overrides = [
            *parser.parse_overrides([f"{axis}={values}" for axis, values in params.items() if axis not in named]),
            *given,
        ]
    except HydraException as error:
        raise SweepRefusedError(explain(error)) from error
    _refuse_contradictions({str(override.get_key_element()) for override in overrides})
    values = [_values(override, max_trials) for override in overrides]
    num_cells = math.prod(map(len, values))
    if num_cells > max_trials:
        raise SweepRefusedError(f"a grid of {num_cells} cells or more, sweep.max_trials={max_trials}; raise that if you mean it")
    return list(itertools.product(*values))


def _refuse_contradictions(axes: set[str]) -> None:
    """Settings that would silently lose against another, or that have a better name."""
    if "strategy" in axes and (also := sorted(axes & set(STRATEGY_AXES))):
        raise SweepRefusedError(f"strategy with {', '.join(also)}: a strategy sets {', '.join(STRATEGY_AXES)}; give either")
    for axis in sorted(axes):
        if (axis.startswith(("model.", "data.")) and axis != "data.dir") or axis == "launcher.name":
            group = axis.split(".")[0]
            raise SweepRefusedError(
                f"{axis}: a fact of the files in conf/{group}/, no setting; axes are in python sweep.py --help"
            )


def _values(override: Override, most: int) -> list[str]:
    axis = override.get_key_element()
    if not override.is_sweep_override():
        return [str(override.input_line)]
    if axis.split(".")[0] in WHOLE_SWEEP:
        raise SweepRefusedError(f"{override.input_line}: {axis} is one value for the whole sweep; run one sweep per value")
    if not override.is_discrete_sweep():
        raise SweepRefusedError(f"{override.input_line}: no finite list; write its values out, as in {axis}=1,2,4")
    values = [f"{axis}={value}" for value in itertools.islice(override.sweep_string_iterator(), most + 1)]
    if not values:
        raise SweepRefusedError(f"{override.input_line}: an empty axis; give it at least one value")
    return values


class Composer:
    """Composes cells: by Hydra once per combination of groups, then plain values on a copy, which is many times faster."""

    def __init__(self, loader: ConfigLoader, base: DictConfig) -> None:
        self._loader, self._base = loader, base
        self.base = typed(_without_hydra(base))  # sweeps not applied: what holds for the whole sweep
        self._parser = OverridesParser.create()
        self._composed: dict[Cell, DictConfig] = {}
        self._parsed: dict[str, Override] = {}
        self._groups: dict[str, bool] = {}

    def compose(self, cell: Cell) -> Config:
        """Raises SweepRefusedError, naming the override and the nearest choice."""
        for override in map(self._parse, cell):
            if override.is_add() and not self._is_group(override.key_or_group):
                raise SweepRefusedError(no_such_axis(override.key_or_group))
        structural = tuple(text for text in cell if not self._is_plain_value(text))
        config = copy.deepcopy(self._stock(structural))
        for text in cell:
            if text in structural:
                continue
            override = self._parse(text)
            try:
                OmegaConf.update(config, override.key_or_group, override.value(), merge=True)
            except OmegaConfBaseException as error:
                raise SweepRefusedError(explain(error, text)) from error
        try:
            return typed(config)
        except OmegaConfBaseException as error:
            raise SweepRefusedError(explain(error)) from error

    def _is_plain_value(self, text: str) -> bool:
        """AXIS=VALUE on a value, not on a group, with nothing unusual about it."""
        override = self._parse(text)
        key = override.key_or_group
        return (
            override.type is not None
            and override.type.name == "CHANGE"
            and override.package is None
            and not key.startswith("hydra")
            and not self._is_group(key)
        )

    def _parse(self, text: str) -> Override:
        if text not in self._parsed:
            (self._parsed[text],) = self._parser.parse_overrides([text])
        return self._parsed[text]

    def _is_group(self, key: str) -> bool:
        """Asked once per key: Hydra copies its whole repository to answer."""
        if key not in self._groups:
            self._groups[key] = bool(self._loader.get_group_options(key))
        return self._groups[key]

    def _stock(self, overrides: Cell) -> DictConfig:
        if overrides not in self._composed:
            try:
                config = self._loader.load_sweep_config(self._base, list(overrides))
            except (HydraException, OmegaConfBaseException) as error:
                raise SweepRefusedError(explain(error)) from error
            self._composed[overrides] = _without_hydra(config)
        return self._composed[overrides]


def _without_hydra(config: DictConfig) -> DictConfig:
    bare = copy.deepcopy(config)
    with flag_override(bare, ["struct", "readonly"], False):
        bare.pop("hydra")
    return bare
