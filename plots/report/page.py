"""Turns what the page says into one HTML file, and into the data that a page which is open takes in
place of what it shows.
"""

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

from analysis.pivot import Rank
from analysis.results import over
from plots.looks import numbered
from plots.parts import Failed, attempted, in_words, stop
from plots.report import ideal, interactive, libraries
from plots.report.content import Page, PlaceSection, Section, Trial, compose
from plots.source import Source
from plots.tables.layout import SYMBOLS, Shown
from scalemark.cli.terminal import finite
from scalemark.text.untrusted import visible

_FOLDER = Path(__file__).parent
_PARTS = (
    "heading",
    "answers",
    "summary",
    "results",
    "failures",
    "verdicts",
    "left_out",
    "provenance",
)
"""What is replaced while a page is open: each is a file of `parts/`, and the content of the element
`part-NAME`.
"""


def render(
    source: Source,
    now: datetime,
    *,
    live: bool = False,
    scripts: Sequence[str] = (),
    failed: Failed = stop,
) -> str:
    """The whole page, but for parts that fail: the page says so, and `failed` is told. Raises
    StoreError when nothing is found.

    A live page may ask the server that it came from, and no other; `scripts` run in it after its
    own, and see
    `window.scalemark.update(data)`, which takes `data` as the function of this name gives it.
    """
    page = compose(source, now, failed)
    styles = _styles(page)
    parts, page = _parts(page, styles, failed)
    own = [libraries.safe(text) for text in (_file("page.js"), *scripts)]
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            page=page,
            parts=parts,
            live=live,
            island=_island(_facts(page)),
            policy=policy([libraries.vega(), *own], live=live),
            css=Markup(_file("page.css")),
            vega=Markup(libraries.vega()),
            scripts=[Markup(text) for text in own],
        )
    )


def data(source: Source, now: datetime, failed: Failed = stop) -> dict[str, Any]:
    """For `window.scalemark.update`: what the page's own data island has, and the HTML of the parts
    that change.
    """
    page = compose(source, now, failed)
    parts, page = _parts(page, _styles(page), failed)
    return _facts(page) | {"html": parts}


def _parts(page: Page, styles: Mapping[str, Any], failed: Failed) -> tuple[dict[str, Markup], Page]:
    """HTML of each part, and the page that knows which are missing: the heading, made last, tells
    of them.
    """
    found: dict[str, Markup] = {}
    missing: list[str] = []

    def lack(part: str, error: Exception) -> None:
        failed(part, error)
        missing.append(f"{part}: {in_words(error)}")

    def made(name: str, of: Page) -> Markup:
        return Markup(
            _environment().get_template(f"parts/{name}.html.j2").render(page=of, styles=styles)
        )

    for name in _PARTS[1:]:
        html = attempted(name.replace("_", " "), partial(made, name, page), lack)
        found[name] = (
            Markup("<p>This part could not be made; the top of the page says why.</p>")
            if html is None
            else html
        )
    page = replace(page, missing=(*page.missing, *missing))
    return {_PARTS[0]: made(_PARTS[0], page), **found}, page


def _facts(page: Page) -> dict[str, Any]:
    """What the script draws from: plain JSON."""
    told: dict[str, Any] = finite(
        {
            "made_at": page.made_at.isoformat(timespec="seconds"),
            "trials": _packed(page.trials),
            "places": [place.place.machine for place in page.places],
            "devices": page.devices,
            "charts": {
                key: chart
                for place in page.places
                for key, chart in _charts(place, _styles(page)).items()
            },
            "steps": [asdict(steps) for steps in page.steps],
            "num_without_steps": page.num_without_steps,
            "styles": _styles(page),
            "specs": interactive.specs(),
            "symbols": SYMBOLS,
        }
    )
    return told


def _packed(trials: Sequence[Trial]) -> dict[str, Any]:
    """Names of fields once, and of commands the words once: they are most of a large page."""
    words: dict[str, int] = {}
    names = [field.name for field in fields(Trial)]

    def packed(trial: Trial, name: str) -> object:
        value = getattr(trial, name)
        return (
            [words.setdefault(word, len(words)) for word in value.split(" ")]
            if name == "command"
            else value
        )

    rows = [[packed(trial, name) for name in names] for trial in trials]
    return {"fields": names, "rows": rows, "words": list(words)}


def _styles(page: Page) -> dict[str, Any]:
    """By name of a line: it looks the same in all charts."""
    sections = [section for place in page.places for section in place.sections]
    names = dict.fromkeys(name for section in sections for name in section.series)
    results = sorted(
        (one for section in sections for one in section.table.results), key=lambda one: one.hosts
    )
    over_hosts = {one.line: one.strategy for one in results if one.hosts > 1 and one.line in names}
    return {
        name: interactive.style(number)
        for name, number in numbered(names, over_hosts).items()
        if name in names
    }


_KINDS = {
    "scaling": ("images/s", ideal.of_images),
    "speed_up": ("speed-up", ideal.of_speed_up),
    "efficiency": ("efficiency", ideal.of_efficiency),
}


def _charts(place: PlaceSection, styles: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for section in place.sections:
        if not section.series:
            continue
        told = ["simulated"] if place.place.is_simulated else []
        told += [f"{section.scaling} scaling"] if section.scaling else []
        scaling = f" ({', '.join(told)})" if told else ""
        for kind, (quantity, of) in _KINDS.items():
            line = (
                of(section.table.results) if kind != "scaling" or section.is_of_strategies else []
            )  # models do not compete
            found[f"{section.key}-{kind}"] = {
                "kind": kind,
                "section": section.key,
                "x": f"number of {place.place.devices}",
                "y": f"{quantity}{scaling}",
                "ideal": [{"num_gpus": num_gpus, "ideal": value} for num_gpus, value in line],
                "trials": section.trials,
                "series": section.series,
            }
    rows = [
        (trial, f"{section.shortly}{over(result.hosts)}", result.strategy)
        for section in place.sections
        if section.is_of_strategies
        for trial, result in zip(section.trials, section.table.results, strict=True)
    ]
    if rows:
        found[f"{place.key}-heat_map"] = {
            "kind": "heat_map",
            "section": None,
            "trials": [trial for trial, _, _ in rows],
            "rows": [row for _, row, _ in rows],
            "series": [name for _, _, name in rows],
        }
    return found


def _island(told: Mapping[str, Any]) -> Markup:
    """JSON that no HTML parser finds anything in."""
    text = json.dumps(told, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def policy(scripts: Sequence[str], *, live: bool) -> str:
    """Content-Security-Policy: nothing is loaded, and no script runs but those that the page was
    made with.
    """
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for text in scripts
    )
    asks = "connect-src 'self'; " if live else ""
    return (
        f"default-src 'none'; {asks}script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


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
    environment.globals |= {
        "value_of": _value_of,
        "mark_of": _mark_of,
        "row_trials": _row_trials,
        "line_style": _line_style,
    }
    return environment


def _shown(value: object) -> object:
    """Texts of others stand on the page as they are, but for controls and what turns the direction
    of reading.
    """
    if isinstance(value, str) and not isinstance(value, Markup):
        return "\n".join(map(visible, value.split("\n")))
    return value


def moment(value: datetime | None) -> str:
    """In UTC."""
    return f"{value:%Y-%m-%d %H:%M:%S} UTC" if value else ""


def _value_of(shown: Shown) -> float | None:
    """What a column is sorted by; what may not be quoted comes last, as if it were missing."""
    return shown.result.throughput if shown.result else None


_MARKS = {Rank.BEST: "best", Rank.TIE: "tie", Rank.UNKNOWN: "unknown"}


def _mark_of(shown: Shown) -> str:
    """CSS class."""
    if shown.result is None:
        return "missing"
    return "failed" if _value_of(shown) is None else _MARKS.get(shown.rank, "")


@pass_context
def _row_trials(context: Context, section: Section, cells: Sequence[Shown]) -> str:
    """Numbers of the trials in a row, for filters."""
    page: Page = context["page"]
    by_id = {page.trials[number].trial_id: number for number in section.trials}
    return " ".join(str(by_id[shown.result.trial_id]) for shown in cells if shown.result)


def _line_style(style: dict[str, Any]) -> dict[str, Any]:
    """With the path of its shape, for buttons."""
    return style | {"path": interactive.PATHS[style["shape"]]}
