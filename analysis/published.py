"""Published figures as results, so that they can be tabled and drawn like our own, and compared
with them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from analysis.results import BaselineRule, Origin, Place, Result, with_baselines
from costs.networks import UnknownNetworkError, network
from scalemark.records.devices import DeviceKind
from scalemark.records.outcomes import Outcome
from scalemark.records.strategies import STRATEGY_AXES, strategy_name
from store.errors import StoreError
from store.reading.queries import Row

SHORT_NAMES = {"tf-benchmarks-2017": "TensorFlow benchmarks page (2017)"}
"""Of sources, for command lines."""

_AXES = (
    "model",
    "batch_size",
    "data",
    "precision",
    "variable_update",
    "local_parameter_device",
    "all_reduce",
    "num_gpus",
)


def published(
    references: Sequence[Mapping[str, Any]], rule: BaselineRule = BaselineRule.SAME
) -> list[Result]:
    """Of references in `store.reading.queries.list_references` form. One figure is one result without an
    interval.
    """
    places: dict[tuple[str, str], Place] = {}
    found = []
    for reference in references:
        where = (reference["source"], reference["hardware"])
        if where not in places:
            places[where] = _place(reference)
        found.append(_result(reference, places[where]))
    return with_baselines(found, rule)


def named(references: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """With the strategy's name, too."""
    return [{**reference, "strategy": _strategy(reference)} for reference in references]


def precision_as_published(axes: Mapping[str, Any]) -> str:
    """Of a trial or of a published figure, as sources tell it: `fp16+XLA` wherever XLA compiled
    anything, and without doubts.
    """
    compiled = "" if axes.get("xla", "off") == "off" else "+XLA"
    return f"{axes['precision']}".rstrip("?") + compiled


_FAMILIES = {"resnet": "resnet50"}  # of a source that does not say how deep


def usual_image_px(model: str) -> int | None:
    """Return the image size that sources mean, which name none; None for an unknown model."""
    told = model.rstrip("?")
    try:
        return network(_FAMILIES.get(told, told)).image_px
    except UnknownNetworkError:
        return None


def key_of(reference: Mapping[str, Any]) -> str:
    """The `trial_id` of its result."""
    return hashlib.sha256(repr([*reference.values()]).encode()).hexdigest()[:16]


def of_source(references: Sequence[Row], name: str) -> list[Row]:
    """Those of the source of this short name, or whose source has `name` as a part; after a slash a
    part of the hardware, as in
    `tf-benchmarks-2017/k80`. A source may have slashes of its own. Raises StoreError when there are
    none.
    """
    readings = [
        (name, ""),
        *((name[:at], name[at + 1 :]) for at in reversed(range(len(name))) if name[at] == "/"),
    ]
    of_sources = [(_of(references, source), hardware.casefold()) for source, hardware in readings]
    for of, hardware in of_sources:
        if found := [reference for reference in of if hardware in reference["hardware"].casefold()]:
            return found
    known = next((of for of, _ in of_sources if of), [])
    raise StoreError(
        f"{name[:100]}: no such source; there are "
        f"{', '.join(_choices(references, known)) or 'none'}"
    )


def _of(references: Sequence[Row], source: str) -> list[Row]:
    wanted = SHORT_NAMES.get(source, source).casefold()
    return [reference for reference in references if wanted in reference["source"].casefold()]


def _choices(references: Sequence[Row], known: Sequence[Row]) -> list[str]:
    """Of the hardware where the source is known, else of sources."""
    hardware = [reference["hardware"] for reference in known]
    return list(
        dict.fromkeys(
            hardware or [*SHORT_NAMES, *(reference["source"] for reference in references)]
        )
    )


def _place(reference: Mapping[str, Any]) -> Place:
    return Place(
        key=hashlib.sha256(f"{reference['source']}\n{reference['hardware']}".encode()).hexdigest()[
            :6
        ],
        host=reference["hardware"],
        machine=reference["hardware"],
        versions=f"published: {reference['source']}",
        device_kind=DeviceKind.GPU,
        origin=Origin.PUBLISHED,
    )


def _strategy(axes: Mapping[str, Any]) -> str:
    """Named by what the source tells of it."""
    told = ("" if axes[axis] == "n/a" else axes[axis] for axis in STRATEGY_AXES)
    return strategy_name(*told) or "not told"


def _result(reference: Mapping[str, Any], place: Place) -> Result:
    axes = {axis: reference[axis] for axis in _AXES}
    axes["strategy"] = _strategy(axes)
    on_curve = repr([value for axis, value in axes.items() if axis != "num_gpus"])
    return Result(
        trial_id=key_of(reference),
        place=place,
        axes=axes,
        curve=hashlib.sha256(on_curve.encode()).hexdigest()[:16],
        attempt_ids=(),
        outcome=Outcome.COMPLETED,
        repeats=(reference["throughput"],),
        throughput=reference["throughput"],
        item=reference["item"],
        low=None,
        high=None,
        is_valid="?" not in f"{reference['model']}{reference['data']}{reference['precision']}",
    )
