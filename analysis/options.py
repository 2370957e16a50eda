"""Options that commands about results share."""

from __future__ import annotations

from typing import Annotated

import typer

from analysis.results import BaselineRule, Origin
from scalemark.host.own_code import typed
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
            f"--origin published: others ran no sweep here; see {typed('plots')} tables "
            "--origin published"
        )
    return origin
