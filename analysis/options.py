"""Options that commands about results share, and the selection they make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from analysis.results import BaselineRule, Origin
from analysis.selection import Selection
from store.errors import StoreError

Filters = Annotated[
    list[str] | None,
    typer.Argument(
        help="As model=resnet50 'num_gpus>=4' model=vgg16,alexnet 'sweep~night*'; see store list.",
        show_default=False,
    ),
]
Sweep = Annotated[str | None, typer.Option(help="Only the trials this sweep asked for.")]
OriginOption = Annotated[
    Origin,
    typer.Option(
        "--origin", help="Numbers that we measured or simulated, or those that others published."
    ),
]
SourceOption = Annotated[
    str | None,
    typer.Option(
        "--source",
        help="Of published figures: only these, as tf-benchmarks-2017 or tf-benchmarks-2017/k80.",
    ),
]
BaselineOption = Annotated[
    BaselineRule,
    typer.Option(
        "--baseline",
        help=(
            "What speed-ups are against: the same strategy on 1 GPU, the best on 1, or the same "
            "on the fewest it ran on."
        ),
    ),
]


def own(origin: Origin) -> Origin:
    """For commands about sweeps. Raises StoreError for published figures."""
    if not origin.is_ours:
        raise StoreError(
            "--origin published: others ran no sweep here; see python -m plots tables "
            "--origin published"
        )
    return origin


def selection(
    db: str,
    sweep: str | None,
    filters: Sequence[str] | None,
    origin: Origin = Origin.MEASURED,
    source: str | None = None,
    baseline: BaselineRule = BaselineRule.SAME,
) -> Selection:
    """Raises StoreError for options that would have no effect."""
    if origin is Origin.PUBLISHED and sweep is not None:
        raise StoreError(
            f"--sweep {sweep}: published figures belong to no sweep; leave one of both out"
        )
    if origin.is_ours and source is not None:
        beside = f"python -m plots tables --against {source} has them beside our own"
        raise StoreError(
            f"--source {source}: of published figures only; add --origin published; {beside}"
        )
    return Selection(
        db=db,
        sweep=sweep,
        filters=tuple(filters or ()),
        origin=origin,
        source=source,
        baseline=baseline,
    )
