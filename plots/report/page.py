"""Turns the content of a page into one HTML file, and into the data that updates an open page."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from analysis.results import Result, over
from analysis.tables.table import Rank
from plots.looks import NUM_COLORS, numbered
from plots.parts import Failed, attempted, in_words, stop
from plots.report import libraries
from plots.report.content import EnvironmentSection, Failure, Page, Section, Trial, compose
from plots.source import Source
from plots.tables.cells import SYMBOLS
from plots.tables.layout import Layout, Shown
from scalemark.cli.terminal import finite
from scalemark.text.untrusted import visible
from scalemark.text.wording import as_typed

_FOLDER = Path(__file__).parent
_PARTS = (
    "heading",
    "answers",
    "results",
    "reasons",
    "trials",
    "failures",
    "verdicts",
    "left_out",
    "provenance",
)
"""What is replaced while a page is open: each is a file of `parts/`, and the content of the element
`part-NAME`.
"""

_SCRIPTS = ("texts", "data", "route", "tables", "charts", "list", "trial", "page")
"""Files of `script/` in their order: together they are the page's one script."""

_FIRST = (
    "document.documentElement.className='scripted';document.documentElement.dataset.view='results'"
)
"""Runs before anything is painted: with scripts one view is shown at a time."""

_PATHS = {  # as Vega draws these shapes, for the buttons that show and hide lines
    "circle": "M4 0a4 4 0 1 1-8 0a4 4 0 1 1 8 0Z",
    "square": "M-4-4h8v8h-8Z",
    "triangle-up": "M0-4.5 4.5 4h-9Z",
    "diamond": "M0-5 5 0 0 5-5 0Z",
    "cross": "M-1.5-4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3Z",
    "triangle-down": "M0 4.5 4.5-4h-9Z",
}
_MOST_LISTED = 20  # trials below one message: the list has the others
_SHAPES = tuple(_PATHS)
_DASHES = ((1, 0), (6, 3), (2, 2), (8, 2, 2, 2))


def render(
    source: Source,
    now: datetime,
    *,
    live: bool = False,
    scripts: Sequence[str] = (),
    failed: Failed = stop,
) -> str:
    """Return the whole page; the page names parts that fail, and `failed` is called for each.
    Raises StoreError when nothing is found.

    A live page may ask the server that it came from, and no other; `scripts` run in it after its
    own, and see `window.scalemark.update(data)`, which takes what `data` below returns.
    """
    page = compose(source, now, failed)
    parts, page = _parts(page, failed)
    own = [libraries.safe(text) for text in (_script(), *scripts)]
    template = _environment().get_template("page.html.j2")
    return template.render(
        page=page,
        parts=parts,
        live=live,
        island=_island(_facts(page)),
        policy=policy([_FIRST, libraries.vega(), *own], live=live),
        css=Markup(_file("page.css")),
        first=Markup(_FIRST),
        vega=Markup(libraries.packed_vega()),
        scripts=[Markup(text) for text in own],
    )


def data(source: Source, now: datetime, failed: Failed = stop) -> dict[str, Any]:
    """Return for `window.scalemark.update` what the page's own data island has, and the HTML of the
    parts that change.
    """
    parts, page = _parts(compose(source, now, failed), failed)
    return _facts(page) | {"html": parts}


def _parts(page: Page, failed: Failed) -> tuple[dict[str, Markup], Page]:
    """Return the HTML of each part, and the page that knows which are missing: the heading, made
    last, names them.
    """
    found: dict[str, Markup] = {}
    missing: list[str] = []
    chosen = _chosen(page)

    def lack(part: str, error: Exception) -> None:
        failed(part, error)
        missing.append(f"{part}: {in_words(error)}")

    def made(name: str, of: Page) -> Markup:
        template = _environment().get_template(f"parts/{name}.html.j2")
        return Markup(template.render(page=of, chosen=chosen))

    lacking = Markup("<p>This part could not be made; the top of the page says why.</p>")
    for name in _PARTS[1:]:
        html = attempted(name.replace("_", " "), partial(made, name, page), lack)
        found[name] = lacking if html is None else html
    page = replace(page, missing=(*page.missing, *missing))
    return {_PARTS[0]: made(_PARTS[0], page), **found}, page


def _chosen(page: Page) -> str:
    """Return the key of the table that is shown first: that of the first answer."""
    keys = [section.key for one in page.environments for section in one.sections]
    found = [page.table_of.get(one.trial) for one in page.answers if one.trial is not None]
    return next((key for key in found if key), keys[0] if keys else "")


def _facts(page: Page) -> dict[str, Any]:
    """Return what the script draws from, as plain JSON."""
    charts: dict[str, Any] = {}
    for number, environment in enumerate(page.environments):
        charts |= _line_charts(environment) | _heat_map(environment, number)
    facts = {
        "made_at": page.made_at.isoformat(timespec="seconds"),
        "trials": _columns([_plain(trial) for trial in page.trials]),
        "axes": _columns([_typed(trial.axes) for trial in page.trials]),
        "differing": page.differing,
        "environments": [
            {"machine": environment.environment.machine, "notes": environment.notes}
            for environment in page.environments
        ],
        "failures": [
            _plain(failure) | {"message": _shown(failure.message)} for failure in page.failures
        ],
        "devices": page.devices,
        "unit": page.unit,
        "charts": charts,
        "steps": [asdict(steps) for steps in page.steps],
        "num_without_steps": page.num_without_steps,
        "tables": _sections(page),
        "chosen": _chosen(page),
        "paths": _PATHS,
        "styles": _styles(page),
        "specs": json.loads(_file("charts.json")),
        "symbols": SYMBOLS,
    }
    plain: dict[str, Any] = finite(facts)
    return plain


def _plain(one: Trial | Failure) -> dict[str, Any]:
    """Return its fields, but for the axes of a trial."""
    names = (field.name for field in fields(one) if field.name != "axes")
    return {name: getattr(one, name) for name in names}


def _typed(axes: Mapping[str, Any]) -> dict[str, Any]:
    """Keep numbers, which a list is sorted by; write all else as it is typed."""
    found = {}
    for axis, value in axes.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        found[axis] = value if is_number else as_typed(value)
    return found


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Write once what all rows have, and the others by columns."""
    same, columns = {}, {}
    for name in {name: None for row in rows for name in row}:
        values = [row.get(name) for row in rows]
        if all(value == values[0] for value in values):
            same[name] = values[0]
        else:
            columns[name] = values
    return {"num": len(rows), "same": same, "columns": columns}


def _sections(page: Page) -> list[dict[str, Any]]:
    """Return what the choice of a table offers, the one of the first answer chosen."""
    return [
        {
            "key": section.key,
            "title": section.layout.title,
            "environment": number,
            "trials": section.trials,
            "has_charts": bool(section.series),
        }
        for number, environment in enumerate(page.environments)
        for section in environment.sections
    ]


def _styles(page: Page) -> dict[str, Any]:
    """Return the style of each line by its name, so that it looks the same in all charts."""
    sections = [section for environment in page.environments for section in environment.sections]
    names = {name for section in sections for name in section.series}
    results = [result for section in sections for result in section.table.results]
    over_hosts = {}
    for result in sorted(results, key=lambda result: result.hosts):
        if result.hosts > 1 and result.line in names:
            over_hosts[result.line] = result.way
    looks = numbered(names, over_hosts)
    return {name: style(number) for name, number in looks.items() if name in names}


def style(number: int) -> dict[str, Any]:
    """Distinguish the line of this number by color, in grey by shape, and beyond the number of
    colors by dashes. Colors are CSS variables, so that charts follow the page from light to dark.
    """
    return {
        "color": f"var(--s{number % NUM_COLORS})",
        "shape": _SHAPES[number % len(_SHAPES)],
        "dash": list(_DASHES[number // NUM_COLORS % len(_DASHES)]),
    }


def _line_charts(environment: EnvironmentSection) -> dict[str, Any]:
    """Return throughput, speed-up and efficiency of each section that is about GPUs."""
    found: dict[str, Any] = {}
    for section in environment.sections:
        if not section.series:
            continue
        words = ["simulated"] if environment.environment.is_simulated else []
        if section.scaling:
            words.append(f"{section.scaling} scaling")
        scaling = f" ({', '.join(words)})" if words else ""
        kinds = {"scaling": section.table.unit, "speed_up": "speed-up", "efficiency": "efficiency"}
        for kind, quantity in kinds.items():
            found[f"{section.key}-{kind}"] = {
                "kind": kind,
                "section": section.key,
                "x": f"number of {environment.environment.devices}",
                "y": f"{quantity}{scaling}",
                "ideal": _ideal(kind, section),
                "trials": section.trials,
                "series": section.series,
            }
    return found


def _ideal(kind: str, section: Section) -> list[dict[str, float]]:
    """Return what perfect scaling from the fewest GPUs on would bring; nothing of one count, or
    where models are the lines, which do not compete.
    """
    results = section.table.results
    if kind == "scaling":
        able = [one for one in results if one.throughput is not None]
        if not able or not section.is_of_strategies:
            return []
        best = min(able, key=lambda one: (one.num_gpus, -(one.throughput or 0.0)))
        fewest, at_fewest = best.num_gpus, best.throughput or 0.0
    else:
        # `--baseline fewest` need not begin at 1 GPU
        baselines = [one.baseline.num_gpus for one in results if one.baseline]
        if not baselines:
            return []
        fewest, at_fewest = min(baselines), 1.0
    counts = sorted({one.num_gpus for one in results if one.num_gpus >= fewest})
    if len(counts) < 2:
        return []
    found = []
    for count in counts:
        value = 1.0 if kind == "efficiency" else at_fewest * count / fewest
        found.append({"num_gpus": count, "ideal": value})
    return found


def _heat_map(environment: EnvironmentSection, number: int) -> dict[str, Any]:
    """Return the chart of all strategies: a row per table and number of hosts."""
    trials: list[int] = []
    rows: list[str] = []
    results: list[Result] = []
    for section in environment.sections:
        if section.is_of_strategies:
            trials += section.trials
            results += section.table.results
            rows += [f"{section.shortly}{over(one.hosts)}" for one in section.table.results]
    if not rows:
        return {}
    series = [result.strategy for result in results]
    chart = {
        "kind": "heat_map",
        "environment": number,
        "trials": trials,
        "rows": rows,
        "series": series,
    }
    return {f"{environment.key}-heat_map": chart}


def _island(facts: Mapping[str, Any]) -> Markup:
    return Markup(libraries.packed(json.dumps(facts, separators=(",", ":"), allow_nan=False)))


def policy(scripts: Sequence[str], *, live: bool) -> str:
    """Return a Content-Security-Policy: nothing is loaded, and no script runs but those that the
    page was made with.
    """
    digests = [hashlib.sha256(text.encode()).digest() for text in scripts]
    hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    asks = "connect-src 'self'; " if live else ""
    return (
        f"default-src 'none'; {asks}script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


@cache
def _script() -> str:
    return "".join(_file(f"script/{name}.js") for name in _SCRIPTS)


@cache
def _file(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"moment": moment}
    environment.globals |= {"value_of": _value_of, "mark_of": _mark_of, "row_trials": _row_trials}
    environment.globals |= {"notes_of": _notes_of, "MOST_LISTED": _MOST_LISTED}
    return environment


def _shown(value: object) -> object:
    """Keep text as it is, but for controls and what turns the direction of reading."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return "\n".join(map(visible, value.split("\n")))
    return value


def moment(value: datetime | None) -> str:
    return f"{value:%Y-%m-%d %H:%M:%S} UTC" if value else ""


def _value_of(shown: Shown) -> float | None:
    """Return what a column is sorted by; cells without a number come last."""
    return shown.result.throughput if shown.result else None


def _notes_of(environment: EnvironmentSection, layout: Layout) -> list[str]:
    """Return what the machine is, and what the table needs; each once."""
    return list(dict.fromkeys([*environment.notes, *layout.notes, *layout.legend]))


_MARKS = {Rank.BEST: "best", Rank.TIE: "tie", Rank.UNKNOWN: "unknown"}


def _mark_of(shown: Shown) -> str:
    """Return the CSS class of a cell."""
    if shown.result is None:
        return "missing"
    return "failed" if _value_of(shown) is None else _MARKS.get(shown.rank, "")


@pass_context
def _row_trials(context: Context, section: Section, cells: Sequence[Shown]) -> str:
    """Return the numbers of the trials in a row, for filters."""
    page: Page = context["page"]
    by_id = {page.trials[number].trial_id: number for number in section.trials}
    return " ".join(str(by_id[shown.result.trial_id]) for shown in cells if shown.result)
