"""`scalemark db mark`: what people add to results. Nothing that was measured is changed or lost.
`scalemark db import|merge|rebuild`: takes results and figures of others in.
"""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import sqlalchemy as sa
import typer

from scalemark.cli.terminal import print_json, shown
from scalemark.records.references import Rejected
from scalemark.text.untrusted import visible
from scalemark.text.wording import counted
from store import rebuild as rebuilding
from store.command_line import Db, Json
from store.database import (
    locate,
    open_existing,
    open_for_reading,
    open_for_writing,
    own_command,
    reading,
    writing,
)
from store.errors import StoreError
from store.filters import ID_BEGINNING, attempt_ids, checked, deleted_at, looks_like_filter
from store.imports import FIELDS, Imported, ImportOptions, import_files
from store.merge import merge
from store.reading import listing
from store.reading.listing import Target, full_names
from store.reading.references import remove as remove_references
from store.rows import insert_all
from store.schema import AttemptRow, TagRow

_Tags = typer.Option("--tag", help="A word to find it by: `list tag=WORD`; may be repeated.")
_Untags = typer.Option("--untag", help="A tag to take away; may be repeated.")
_Delete = typer.Option(
    "--delete", help="Count nowhere; a sweep that wants these attempts measures them again."
)
_Restore = typer.Option("--restore", help="Count again, after --delete.")


def mark(
    what: Annotated[
        list[str],
        typer.Argument(
            help=f"Number of an attempt, {ID_BEGINNING}, or a sweep's name; with --delete and "
            "--restore also filters, as for `list`."
        ),
    ],
    db: Db,
    tags: Annotated[list[str] | None, _Tags] = None,
    untags: Annotated[list[str] | None, _Untags] = None,
    delete: Annotated[bool, _Delete] = False,
    restore: Annotated[bool, _Restore] = False,
    as_json: Json = False,
) -> None:
    """Tag, delete or restore attempts, a trial or a sweep. Nothing that was measured is lost."""
    if [bool(tags or untags), delete, restore].count(True) != 1:
        raise StoreError("wanted tags, or --delete, or --restore")
    open_for_reading(db).dispose()  # nobody marks what is in a database that is not there
    engine = open_for_writing(db)
    if tags or untags:
        if len(what) != 1:
            raise StoreError(f"{visible(' '.join(what))}: wanted one attempt, trial or sweep")
        target = listing.find(engine, what[0])
        reported = annotate(engine, target, datetime.now(UTC), tags or (), untags or ())
        if as_json:
            return print_json({"target": target.name, **reported})
        done = ", ".join(f"{name.replace('_', ' ')}: {count}" for name, count in reported.items())
        return print(f"{visible(target.name)}: {done}")
    chosen = choose(engine, what, deleted=restore)
    at, done = None, "restored"
    if delete:
        at, done = datetime.now(UTC), "deleted"
    num = set_deleted(engine, chosen, at)
    if as_json:
        return print_json({done: num})
    hint = ""
    if delete and num:
        again = own_command(db, "db mark", *what, "--restore")
        hint = f"; `{again}` brings them back"
    print(f"{num} {done}{hint}")


def annotate(
    engine: sa.Engine,
    target: Target,
    at: datetime,
    tags: Sequence[str] = (),
    untags: Sequence[str] = (),
) -> dict[str, int]:
    """Return how many tags were added and taken away. Raises StoreError, before anything is
    written, for a tag that is none.
    """
    for word in (*tags, *untags):
        if not word.strip():
            raise StoreError("an empty tag; wanted a word or more")
        checked(word, "")
    added = {target.column: target.id, "added_at": at}
    is_own = getattr(TagRow, target.column) == target.id
    done = {}
    with writing(engine) as connection:
        if tags:
            known = set(connection.scalars(sa.select(TagRow.tag).where(is_own)))
            new = [added | {"tag": tag} for tag in dict.fromkeys(tags) if tag not in known]
            insert_all(connection, TagRow, new)
            done["tags_added"] = len(new)
        if untags:
            taken_away = sa.delete(TagRow).where(is_own, TagRow.tag.in_(untags))
            done["tags_taken_away"] = connection.execute(taken_away).rowcount
    return done


def choose(engine: sa.Engine, words: Sequence[str], *, deleted: bool) -> sa.ColumnElement[bool]:
    """Return the condition of the attempts of one target (see `store.reading.listing`), or those
    chosen by filters (see `store.filters`), that are deleted, or not.

    Raises StoreError for what is neither.
    """
    if any(map(looks_like_filter, words)):
        with reading(engine) as connection:
            ids = attempt_ids(full_names(connection, words), deleted=deleted)
        return AttemptRow.id.in_(ids)
    if len(words) != 1:
        raise StoreError(
            "wanted one attempt, trial or sweep, or filters, as model=resnet50 'num_gpus>=4'"
        )
    return sa.and_(listing.find(engine, words[0]).has_attempt(), deleted_at(deleted))


def set_deleted(engine: sa.Engine, chosen: sa.ColumnElement[bool], at: datetime | None) -> int:
    """Delete or restore them; return how many in the end: others may have been quicker."""
    update = sa.update(AttemptRow).where(chosen).values(deleted_at=at)
    with writing(engine) as connection:
        return connection.execute(update).rowcount


SOME_REJECTED = 1
MOST_SHOWN = 20


def merge_(
    others: Annotated[
        list[str],
        typer.Argument(help="SQLite files with results.", metavar="OTHER.db", show_default=False),
    ],
    db: Db,
    as_json: Json = False,
) -> None:
    """Add the results of other databases; what is there already stays as it is, and merging again
    changes nothing. Exit code 1 when an attempt differs from what is here, which is listed.
    """
    with shown() as progress:
        merged = merge(db, others, progress)
    if as_json:
        print_json(merged)
    else:
        for name, renamed in merged.renamed.items():
            print(
                f"another sweep is named {visible(name)}: the merged one is named "
                f"{visible(renamed)}",
                file=sys.stderr,
            )
        new = counted(merged.num_new, "attempt")
        print(f"{new} merged, {merged.num_known:,} were there already")
        if merged.num_references:
            print(f"{counted(merged.num_references, 'reference')} merged")
        _print_rejected(merged.rejected)
    if merged.rejected:
        raise typer.Exit(SOME_REJECTED)


def rebuild(
    runs_dirs: Annotated[
        list[str],
        typer.Argument(help="Folders with sweeps in them, or of sweeps.", show_default=False),
    ],
    db: Db,
    as_json: Json = False,
) -> None:
    """Make a lost database again out of run folders; what is in it stays as it is. Exit code 1 when
    folders are damaged.
    """
    with shown() as progress:
        done = rebuilding.rebuild(db, runs_dirs, progress)
    if as_json:
        print_json(done)
    else:
        for warning in done.warnings:
            print(f"db rebuild: {visible(warning)}", file=sys.stderr)
        print(f"{counted(done.num_sweeps, 'sweep')} found")
        attempts = counted(done.num_new, "attempt")
        print(f"{attempts} imported, {done.num_known:,} were there already")
        _print_rejected(done.rejected)
    if done.rejected:
        raise typer.Exit(SOME_REJECTED)


_Map = typer.Option(
    "--map",
    metavar="COLUMN=NAME",
    help=f"The column that is one of {', '.join(FIELDS)}. A column of such a name need "
    "not be mapped.",
)
_Axis = typer.Option("--axis", metavar="COLUMN[=NAME]", help="A column that is a free axis.")
_Set = typer.Option(
    "--set",
    metavar="NAME=VALUE",
    help="What all rows share, as precision=bf16 or axes.framework=jax. A citation "
    "says where it can be looked up, and makes each row of a table a reference.",
)
_Ignore = typer.Option(
    "--ignore",
    metavar="COLUMN",
    help="A column that says nothing; '*' is all that have no meaning yet.",
)
_Compare = typer.Option(
    help="The free axis that plays the part of the strategy.",
    show_default="all of them",
)
_PerGpu = typer.Option(
    "--per-gpu/--all-gpus",
    help="Whether a throughput is that of one GPU.",
    show_default="all",
)
_DecimalComma = typer.Option(
    "--decimal-comma/--decimal-point",
    help="Whether 1,234 is 1.234 or 1234.",
    show_default="asked for where a table leaves it open",
)
_Remove = typer.Option("--remove", help="Take figures out again, as source=results.csv.")


def import_(
    paths: Annotated[
        list[str],
        typer.Argument(help="Tables of other programs; filters with --remove.", show_default=False),
    ],
    db: Db,
    remove: Annotated[bool, _Remove] = False,
    maps: Annotated[list[str] | None, _Map] = None,
    axes: Annotated[list[str] | None, _Axis] = None,
    constants: Annotated[list[str] | None, _Set] = None,
    ignored: Annotated[list[str] | None, _Ignore] = None,
    compare: Annotated[str, _Compare] = "",
    per_gpu: Annotated[bool | None, _PerGpu] = None,
    decimal_comma: Annotated[bool | None, _DecimalComma] = None,
    as_json: Json = False,
) -> None:
    """Add figures of others, out of CSV, TSV or Markdown; what is there already stays as
    it is. Exit code 1 when anything was rejected, which is listed with its reason.

    The rows of a table are numbers that were measured elsewhere: `--origin elsewhere` shows them.
    """
    if remove:
        return _remove(db, paths, as_json=as_json)
    said = ImportOptions(
        maps=maps or (),
        axes=axes or (),
        constants=_constants(constants or ()),
        ignored=ignored or (),
        compare=compare,
        decimal_comma=decimal_comma,
        per_gpu=per_gpu,
    )
    with shown() as progress:
        added = import_files(db, paths, said, progress=progress)
    if as_json:
        print_json(added)
    else:
        _print_added(added, db)
    if added.rejected:
        raise typer.Exit(SOME_REJECTED)


def _constants(given: Sequence[str]) -> dict[str, str]:
    constants: dict[str, str] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not name or not sign or not value.strip():
            raise StoreError(f"--set {visible(text)}: wanted NAME=VALUE, as model=resnet50")
        if name in constants:
            raise StoreError(f"--set {visible(text)}: {visible(name)} is given twice")
        constants[name] = value.strip()
    return constants


def _print_added(added: Imported, db: str) -> None:
    """Print what became of all figures, the first rejected ones on stderr."""
    done = []
    if added.num_references:
        done.append(f"{counted(added.num_references, 'reference')} imported")
    if added.num_elsewhere:
        done.append(f"{counted(added.num_elsewhere, 'row')} imported as measured elsewhere")
    if added.num_known:
        done.append(f"{added.num_known:,} were there already")
    print("; ".join(done) or "nothing imported")
    if added.num_corrected:
        again = own_command(db, "db import", "--remove", "source=FILE")
        print(
            f"{counted(added.num_corrected, 'trial')} had other figures in an earlier import of "
            "the same file, and both count now; where these correct them, remove all first: "
            f"`{again}`"
        )
    if added.num_elsewhere:
        print(f"shown by: {own_command(db, 'table', '--origin', 'elsewhere')}")
    _print_rejected(added.rejected)


def _print_rejected(rejected: Sequence[Rejected]) -> None:
    """Print the first of what was left out, with the reasons, on stderr."""
    if not rejected:
        return
    print(f"{len(rejected):,} rejected:", file=sys.stderr)
    for row in rejected[:MOST_SHOWN]:
        print(f"  {visible(row.where)}: {visible(row.reason)}", file=sys.stderr)
    if len(rejected) > MOST_SHOWN:
        print(f"  and {len(rejected) - MOST_SHOWN:,} more; --json lists all", file=sys.stderr)


def _remove(db: str, filters: Sequence[str], *, as_json: bool) -> None:
    """Remove figures that were added or came in a table; those that scalemark brings stay."""
    engine = open_existing(db)
    if engine is None:
        raise StoreError(f"{locate(db).name}: no such database yet; there is nothing to remove")
    with writing(open_for_writing(db)) as connection:
        num_removed, num_kept = remove_references(connection, filters)
    if as_json:
        return print_json({"removed": num_removed, "kept": num_kept})
    print(f"{num_removed:,} removed")
    if num_kept:
        print(f"{num_kept:,} are like that and come with scalemark: they stay", file=sys.stderr)
