"""Results of all models side by side: what pictures of several models are drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.pivot import pivot
from analysis.results import Result
from analysis.tables.table import Table, table
from analysis.text.titles import title
from plots.pictures.lettering import wrapped
from plots.pictures.theme import SMALL_PT

_NAMED = ("batch_size", "image_px", "seq_len")  # axes that models have their own of


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """All models in one setting of one environment."""

    table: Table  # strategies and GPU counts down, perhaps hosts between them; models across

    @property
    def models(self) -> list[str]:
        return [str(model) for (model,) in self.table.columns]

    @property
    def gpus(self) -> list[int]:
        return sorted({num_gpus for _, num_gpus in self.table.rows})

    def of(self, model: str) -> Table:
        """Return strategies down, GPU counts across."""
        own = [one for one in self.table.results if one.axes["model"] == model]
        axes = tuple(self._own_axes)
        return table(own, ("strategy",), ("num_gpus",), self.table.setting, axes)

    def label(self, model: str, within_in: float) -> str:
        """Return the model, and in which of its own axes it differs from others, in lines that are
        no wider.
        """
        own = {}
        for axis, values in self._own_axes.items():
            value = self.table.of_models[model][axis]
            if len(values) > 1 and not self._lacks(value):
                own[axis] = value
        texts = [text for text in (model, title(own)) if text]
        return "\n".join(wrapped(text, SMALL_PT, within_in) for text in texts)

    def setting(self) -> str:
        """Return what all models have in common."""
        common: dict[str, object] = dict(self.table.setting)
        first = next(iter(self.table.of_models.values()), {})
        for axis, values in self._own_axes.items():
            if len(values) == 1 and not self._lacks(first[axis]):
                common[axis] = first[axis]
        common.pop("scaling", None)
        return title(common)

    def _lacks(self, value: object) -> bool:
        """Say whether trials have no such axis; what a source does not report is named so."""
        return value is None and self.table.environment.origin.is_ours

    @property
    def _own_axes(self) -> dict[str, set[str]]:
        """Return the different values of each axis worth naming that models have their own of."""
        models = list(self.table.of_models.values())
        if not models:
            return {}
        return {
            axis: {str(own.get(axis)) for own in models} for axis in models[0] if axis in _NAMED
        }


def by_model(results: Sequence[Result]) -> list[Models]:
    """Return one for each setting and environment."""
    return [Models(table=found) for found in pivot(results, ("strategy", "num_gpus"), ("model",))]
