"""`python -m store reference`: lists figures that others measured, and adds more, never without
their source.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from scalemark.cli.terminal import make_console, print_columns, print_json
from scalemark.records.measurement import IMAGES, unit_of
from scalemark.records.references import Reference, ReferenceKind
from scalemark.text.untrusted import visible
from store.command_line import Db, Json, make_app
from store.database import locate, open_existing, open_for_writing, writing
from store.errors import StoreError
from store.filters.reference_selection import chosen
from store.reading.queries import Row, known_references, list_references
from store.reference_rows import add_references, remove_references

app = make_app("Figures that others measured, with their sources.")

_COLUMNS = ("model", "hardware", "gpus", "throughput", "batch", "strategy", "precision", "data")
_RIGHT = frozenset({"gpus", "throughput", "batch"})


@app.command("list")
def list_(
    db: Db,
    filters: Annotated[
        list[str] | None,
        typer.Argument(
            help="As model=resnet50 'num_gpus>=4' 'hardware~*V100*' origin=added.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List one line per figure, then where each can be looked up. `?` marks what a source leaves in
    doubt.
    """
    engine = open_existing(db)
    if engine is None:
        print(
            f"{locate(db).name}: no such database yet; these are the published references",
            file=sys.stderr,
        )
    rows = known_references(None) if engine is None else list_references(engine)
    with_strategies = [row | {"strategy": _strategy(row)} for row in rows]
    found = [rows[position] for position in chosen(with_strategies, filters or ())]
    if as_json:
        print_json(found)
    elif found:
        _print(found)
    else:
        models = ", ".join(sorted({row["model"] for row in rows}))
        print(
            f"no reference is like that; there are {len(rows)}, of the models {visible(models)}",
            file=sys.stderr,
        )


@app.command()
def add(
    db: Db,
    model: Annotated[str, typer.Option(help="As in our trials where it is the same.")],
    hardware: Annotated[str, typer.Option(help="Machine and GPUs.")],
    gpus: Annotated[int, typer.Option(help="Number of GPUs.")],
    throughput: Annotated[float, typer.Option(help="Items per second of all GPUs together.")],
    source: Annotated[
        str, typer.Option(help="Short name, as in charts. Required.", show_default=False)
    ] = "",
    citation: Annotated[
        str, typer.Option(help="Where it can be looked up. Required.", show_default=False)
    ] = "",
    item: Annotated[str, typer.Option(help="What is counted, as tokens.")] = IMAGES,
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
    as_json: Json = False,
) -> None:
    """Add a figure. Write `?` behind what its source leaves in doubt, and leave out what it does
    not say.
    """
    for name, text in (("source", source), ("citation", citation)):
        if not text.strip(" ?"):
            raise StoreError(
                f"a figure that nobody can look up is no reference: give its {name} with --{name}"
            )
    try:
        reference = Reference(
            origin=ReferenceKind.ADDED.value,
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
            item=item,
        )
    except ValueError as error:
        raise StoreError(str(error)) from None
    with writing(open_for_writing(db)) as connection:
        added = add_references(connection, [reference])
    if as_json:
        return print_json({"added": added})
    print("added" if added else "it is there already; nothing was changed")


@app.command()
def remove(
    db: Db,
    filters: Annotated[
        list[str],
        typer.Argument(help="As source=results.csv; at least one.", show_default=False),
    ],
    as_json: Json = False,
) -> None:
    """Remove figures that were added or came in a table; those that scalemark brings stay."""
    engine = open_existing(db)
    if engine is None:
        raise StoreError(f"{locate(db).name}: no such database yet; there is nothing to remove")

    def meant(rows: Sequence[Mapping[str, Any]]) -> list[int]:
        return chosen([{**row, "strategy": _strategy(row)} for row in rows], filters)

    with writing(open_for_writing(db)) as connection:
        num_removed, num_kept = remove_references(connection, meant)
    if as_json:
        return print_json({"removed": num_removed, "kept": num_kept})
    print(f"{num_removed:,} removed")
    if num_kept:
        print(f"{num_kept:,} are like that and come with scalemark: they stay", file=sys.stderr)


def _print(found: Sequence[Row]) -> None:
    numbers: dict[str, int] = {}  # citation -> its number
    lines = []
    for row in found:
        number = numbers.setdefault(f"{row['source']}: {row['citation']}", len(numbers) + 1)
        lines.append([*_cells(row), f"[{number}]"])
    print_columns(make_console(), (*_COLUMNS, "source"), lines, _RIGHT)
    print()
    for citation, number in numbers.items():
        print(f"[{number}] {visible(citation)}")


def _cells(row: Row) -> list[str]:
    return [
        row["model"],
        row["hardware"],
        str(row["num_gpus"]),
        f"{row['throughput']:.5g} {unit_of(row['item'])}",
        "" if row["batch_size"] is None else str(row["batch_size"]),
        _strategy(row),
        row["precision"],
        row["data"],
    ]


def _strategy(row: Mapping[str, Any]) -> str:
    """Say in one column how variables are shared."""
    parts = [row["variable_update"], row["all_reduce"], row["local_parameter_device"]]
    parts += [f"{name}={value}" for name, value in row["axes"].items()]
    return " ".join(part for part in parts if part not in ("", "none", "n/a"))
