"""The command that measures a cell which rows do not tell: as the trials were run that it is
like.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from analysis.neighbors import with_strategy
from analysis.results import Result
from costs.work import Work
from scalemark.records import overrides
from scalemark.records.strategies import STRATEGY_AXES
from scalemark.records.trial import TrialSpec


def measuring(work: Work, alike: Sequence[Result]) -> str:
    """`alike`: results of the same place. Of published ones, which have not all axes, those of the
    work alone are said.
    """
    ours = [result for result in alike if result.place.origin.is_ours]
    if not ours:
        return overrides.sweep(overrides.of_axes(_axes(work)))
    like = next((result for result in ours if result.axes["model"] == work.network.name), ours[0])
    return overrides.command(_spec(work, like.spec), like.place.hardware)


def _spec(work: Work, like: TrialSpec) -> TrialSpec:
    told = replace(
        like,
        model=work.network.name,
        image_px=work.network.image_px,
        num_gpus=work.num_gpus,
        batch_size=work.batch_size,
        precision=work.precision,
        gradient_repacking=work.gradient_repacking,
        compact_gradients=work.compact_gradients,
        staged_vars=work.staged_vars,
        steps_per_execution=work.steps_per_execution,
        distortions=work.distortions,
    )
    if work.xla != (like.xla != "off"):
        told = replace(told, xla="on" if work.xla else "off")
    if work.real_data != (like.data != "synthetic"):
        told = replace(told, data="imagenet" if work.real_data else "synthetic", data_dir="")
    return with_strategy(told, *(getattr(work, axis) for axis in STRATEGY_AXES))


def _axes(work: Work) -> dict[str, object]:
    told: dict[str, object] = {
        "model": work.network.name,
        "num_gpus": work.num_gpus,
        "batch_size": work.batch_size,
    }
    told |= {axis: getattr(work, axis) for axis in ("precision", *STRATEGY_AXES)}
    told |= {"image_px": work.network.image_px, "xla": "on" if work.xla else "off"}
    told |= {"data": "imagenet" if work.real_data else "synthetic", "distortions": work.distortions}
    unusual = {
        "gradient_repacking": 0,
        "compact_gradients": False,
        "staged_vars": False,
        "steps_per_execution": 1,
    }
    return told | {
        axis: value for axis, usual in unusual.items() if (value := getattr(work, axis)) != usual
    }
