"""`python -m store reference`: lists figures that others measured, and adds more, never without
their source.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from scalemark.cli.terminal import make_console, print_columns
from scalemark.records.references import Origin, Reference, ReferenceFilter
from scalemark.text.untrusted import visible
from store.command_line import Db, Json, make_app
from store.database import locate, open_existing, open_for_writing, writing
from store.errors import StoreError
from store.reading.queries import Row, known_references
from store.reference_rows import add_references

app = make_app("Figures that others measured, with their sources.")

_COLUMNS = (
    "model",
    "hardware",
    "gpus",
    "images/s",
    "batch",
    "strategy",
    "precision",
    "data",
    "source",
)
_RIGHT = frozenset({"gpus", "images/s", "batch"})


@app.command("list")
def list_(
    db: Db,
    model: Annotated[
        str | None,
        typer.Option(help="Name of a model; also where its source leaves it in doubt (resnet50?)."),
    ] = None,
    hardware: Annotated[str | None, typer.Option(help="Part of the hardware's name.")] = None,
    source: Annotated[str | None, typer.Option(help="Part of the source's name.")] = None,
    origin: Annotated[Origin | None, typer.Option(help="Where it comes from.")] = None,
    gpus: Annotated[int | None, typer.Option(help="Number of GPUs.", min=1)] = None,
    as_json: Json = False,
) -> None:
    """One line per figure, and below them where each can be looked up. `?` marks what a source
    leaves in doubt.
    """
    everything = _all(db)
    wanted = ReferenceFilter(
        model=model, hardware=hardware, source=source, origin=origin, num_gpus=gpus
    )
    found = [row for row in everything if wanted.wants(row)]
    if as_json:
        print(json.dumps(found, indent=1))
        return
    if not found:
        models = sorted({str(row["model"]) for row in everything})
        print(
            (
                f"no reference is like that; there are {len(everything)}, of the models "
                f"{visible(', '.join(models))}"
            ),
            file=sys.stderr,
        )
        return
    _print(found)


@app.command()
def add(
    db: Db,
    model: Annotated[str, typer.Option(help="As in our trials where it is the same.")],
    hardware: Annotated[str, typer.Option(help="Machine and GPUs.")],
    gpus: Annotated[int, typer.Option(help="Number of GPUs.")],
    throughput: Annotated[float, typer.Option(help="Of all GPUs together.")],
    source: Annotated[
        str, typer.Option(help="Short name, as in charts. Required.", show_default=False)
    ] = "",
    citation: Annotated[
        str, typer.Option(help="Where it can be looked up. Required.", show_default=False)
    ] = "",
    batch_size: Annotated[int | None, typer.Option(help="Per GPU.")] = None,
    data: Annotated[str, typer.Option(help="As synthetic or real.")] = "",
    variable_update: Annotated[str, typer.Option(help="As parameter_server or replicated.")] = "",
    all_reduce: Annotated[str, typer.Option(help="As nccl.")] = "",
    local_parameter_device: Annotated[str, typer.Option(help="cpu or gpu.")] = "",
    precision: Annotated[str, typer.Option(help="As fp32 or fp16+XLA.")] = "",
    evidence: Annotated[
        str, typer.Option(help="How sure it is that the source says so.")
    ] = "added by hand",
    note: Annotated[str, typer.Option(help="What else must be known about it.")] = "",
) -> None:
    """Add a figure. Write `?` behind what its source leaves in doubt, and leave out what it does
    not tell.
    """
    for name, text in (("source", source), ("citation", citation)):
        if not text.strip(" ?"):
            raise StoreError(
                f"a figure that nobody can look up is no reference: give its {name} with --{name}"
            )
    try:
        reference = Reference(
            origin=Origin.ADDED.value,
            source=source,
            citation=citation,
            hardware=hardware,
            model=model,
            batch_size=batch_size,
            data=data,
            variable_update=variable_update,
            all_reduce=all_reduce,
            local_parameter_device=local_parameter_device,
            precision=precision,
            num_gpus=gpus,
            throughput=throughput,
            evidence=evidence,
            note=note,
        )
    except ValueError as error:
        raise StoreError(str(error)) from None
    with writing(open_for_writing(db)) as connection:
        added = add_references(connection, [reference])
    print("added" if added else "it is there already; nothing was changed")


def _all(db: str) -> list[Row]:
    engine = open_existing(db)
    if engine is None:
        print(
            f"{locate(db).name}: no such database yet; these are the published references",
            file=sys.stderr,
        )
    return known_references(engine)


def _print(found: Sequence[Row]) -> None:
    cited = dict.fromkeys((row["source"], row["citation"]) for row in found)
    numbers = {citation: number for number, citation in enumerate(cited, 1)}
    lines = (_line(row, numbers[row["source"], row["citation"]]) for row in found)
    print_columns(make_console(), _COLUMNS, lines, _RIGHT)
    print()
    for (source, citation), number in numbers.items():
        print(f"[{number}] {visible(f'{source}: {citation}')}")


def _line(row: Row, number: int) -> list[str]:
    return [
        row["model"],
        row["hardware"],
        str(row["num_gpus"]),
        f"{row['throughput']:.5g}",
        "" if row["batch_size"] is None else str(row["batch_size"]),
        _strategy(row),
        row["precision"],
        row["data"],
        f"[{number}]",
    ]


def _strategy(row: Row) -> str:
    """What is told about how variables are shared, in one column."""
    parts = (row["variable_update"], row["all_reduce"], row["local_parameter_device"])
    return " ".join(part for part in parts if part not in ("", "none", "n/a"))
