"""Results of all models side by side: what a map of models is drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.pivot import Table, pivot, table
from analysis.results import Result
from analysis.text.titles import title
from plots.pictures.lettering import wrapped
from plots.pictures.theme import SMALL_PT


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """All models in one setting of one place."""

    table: Table  # strategies and GPU counts down, models across

    @property
    def models(self) -> list[str]:
        return [str(model) for (model,) in self.table.columns]

    @property
    def gpus(self) -> list[int]:
        return sorted({num_gpus for _, num_gpus in self.table.rows})

    @property
    def strategies(self) -> list[str]:
        return sorted({str(strategy) for strategy, _ in self.table.rows})

    def on(self, num_gpus: int) -> Table:
        """Strategies down, models across: who competes is in one column."""
        return self._part([of for of in self.table.results if of.num_gpus == num_gpus], ("model",))

    def of(self, model: str) -> Table:
        """Strategies down, GPU counts across."""
        return self._part(
            [of for of in self.table.results if of.axes["model"] == model], ("num_gpus",)
        )

    def label(self, model: str, within_in: float) -> str:
        """The model, and what it has its own of where models differ in it: in lines that are no
        wider.
        """
        own = {
            axis: value
            for axis, value in self.table.of_models[model].items()
            if axis in self._differing()
        }
        told = [str(model), *([title(own)] if own else [])]
        return "\n".join(wrapped(text, SMALL_PT, within_in) for text in told)

    def setting(self) -> str:
        """What all models have in common."""
        common = {
            axis: value for axis, value in self._shared().items() if axis not in self._differing()
        }
        return title(
            {
                axis: value
                for axis, value in {**self.table.setting, **common}.items()
                if axis != "scaling"
            }
        )

    def _part(self, results: Sequence[Result], columns_by: tuple[str, ...]) -> Table:
        return table(results, ("strategy",), columns_by, self.table.setting, tuple(self._shared()))

    def _shared(self) -> dict[str, object]:
        """Of the axes worth naming that models have their own of, the values of the first model."""
        first = next(iter(self.table.of_models.values()), {})
        return {axis: value for axis, value in first.items() if axis in _NAMED}

    def _differing(self) -> set[str]:
        of_models = self.table.of_models.values()
        return {
            axis for axis in self._shared() if len({str(own.get(axis)) for own in of_models}) > 1
        }


_NAMED = ("batch_size", "image_px")


def by_model(results: Sequence[Result]) -> list[Models]:
    """One for each setting and place."""
    return [Models(table=found) for found in pivot(results, ("strategy", "num_gpus"), ("model",))]
