"""Writes the report: one HTML file with tabs, which needs neither other files nor scripts."""

import base64
import hashlib
import io
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from operator import attrgetter
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from jinja2 import Environment as Templates
from jinja2 import FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from analysis import badges
from analysis.advise.answer import recommend
from analysis.again import portable_command, rerun_command
from analysis.commands.advise import screen_of
from analysis.options import what_is_left
from analysis.pivot import varied_tables
from analysis.results import Result, is_quotable, with_number
from analysis.screen import Screen
from analysis.titles import environment_notes, made_with, number
from plots.layout import QUANTITIES, SYMBOLS, THROUGHPUT, Document, document, varied_axes
from plots.source import (
    Failed,
    PictureFormat,
    PlotSource,
    attempted,
    environments_of,
    in_words,
    stop,
)
from scalemark.host.own_code import own_version
from scalemark.records.measurement import Outcome, StepSample, Verdict
from scalemark.text.untrusted import quoted_lines, visible
from scalemark.text.wording import as_typed, counted, in_all
from store.reading.queries import Row, steps

_FOLDER = Path(__file__).with_name("page")
CHARTS = ("throughput", "scaling")
_MOST_CHOICES = 20  # of sweeps
_MOST_PICTURES = 6
_MOST_PICTURE_BYTES = 160_000  # of all of them
_MOST_WITH_STEPS = 150  # trials: of more the page has no steps, and shorter commands
_MOST_POINTS = 20  # of the steps of a trial
_STEPS_WIDTH, _STEPS_HEIGHT = 300, 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One result: a row of the list, and a page of its own."""

    key: str
    name: str
    cells: tuple[str, ...]  # below `Page.columns`
    sweeps: str  # the numbers of those that asked for it, see `Page.choice`
    facts: tuple[tuple[str, str], ...]  # name and text of each line of its page
    steps: Markup  # a picture of the steps of its newest process; empty without


# outcome and message, with its lines -> key and name of the trial, and the log, of each attempt
Failures = dict[tuple[str, Markup], list[tuple[str, str, str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """All that the template needs."""

    title: str
    made_at: str
    version: str  # of scalemark
    command: str
    stored_in: str
    missing: tuple[str, ...]  # parts that could not be made, and why
    screen: Screen | None  # the answer as `advise` prints it
    doubts: tuple[str, ...]  # badges of all numbers
    document: Document | None
    choice: tuple[str, ...]  # sweeps of which one may be shown alone, the newest first
    sweeps_of: Callable[[Result | None], str]  # the numbers of those that asked for a result
    pictures: tuple[tuple[str, Markup], ...]  # title, and an address that holds all of a chart
    columns: tuple[str, ...]
    trials: tuple[Trial, ...]
    failures: Failures  # of attempts that did not complete
    left_out: tuple[tuple[str, tuple[str, ...]], ...]  # cells of the grid, by reason
    environments: tuple[str, ...]
    sweeps: tuple[Row, ...]


def render(source: PlotSource, now: datetime, *, failed: Failed = stop) -> str:
    """Return the whole page; `failed` is called for each part that fails. Raises StoreError."""
    script = (_FOLDER / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    templates = Templates(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        finalize=_shown,
    )
    return templates.get_template("page.html.j2").render(
        page=compose(source, now, failed),
        css=Markup((_FOLDER / "page.css").read_text(encoding="utf-8")),
        script=Markup(script),
        digest=digest,
    )


def _shown(value: object) -> object:
    """Escape controls in every text that is not made here."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return visible(value)
    return value


def compose(source: PlotSource, now: datetime, failed: Failed = stop) -> Page:
    """Collect all that can be made; `failed` is called for each part that cannot."""
    missing: list[str] = []

    def lack(part: str, error: Exception) -> None:
        failed(part, error)
        missing.append(f"{part}: {in_words(error)}")

    results, selection = source.results, source.selection

    def answered() -> Screen:
        return screen_of(recommend(source), what_is_left(selection.db, selection.sweep))

    def laid_out() -> Document:
        return document(varied_tables(results), selection, failed=lack)

    environments = environments_of(results)
    doubts = in_all([badges.of_environment(place) for place in environments])
    attempts: Mapping[int, Row] = {}
    sweeps: list[Row] = []
    if selection.origin.is_ours:
        attempts = source.attempts
        sweeps = attempted("sweeps", lambda: source.sweeps, lack) or []
    varied = varied_axes(results)
    choice, asked = _choice(source, sweeps)

    def listed() -> list[Trial]:
        return _trials(source, attempts, varied, sweeps_of)

    def sweeps_of(result: Result | None) -> str:
        return " ".join(asked[_key(result)]) if result else ""

    models = _shortly([result.axes["model"] for result in results], "model")
    hosts = _shortly(map(attrgetter("host"), environments), "machine")
    kinds = dict.fromkeys(map(attrgetter("devices"), environments))
    return Page(
        title=f"{models} on {hosts} ({' and '.join(kinds)})",
        made_at=f"{now:%Y-%m-%d %H:%M:%S} UTC",
        version=own_version(),
        command=source.command,
        stored_in=source.stored_in,
        screen=attempted("answer", answered, lack),
        doubts=tuple(badges.foot([doubt]) for doubt in doubts),
        document=attempted("tables", laid_out, lack),
        choice=choice,
        sweeps_of=sweeps_of,
        pictures=tuple(_pictures(source, lack)),
        columns=_columns(results, varied),
        trials=tuple(attempted("trials", listed, lack) or ()),
        failures=attempted("failures", lambda: _failures(results, attempts), lack) or {},
        left_out=tuple(_left_out(sweeps).items()),
        environments=tuple("; ".join(environment_notes(place)) for place in environments),
        sweeps=tuple(sweeps),
        missing=tuple(missing),
    )


def _choice(
    source: PlotSource, sweeps: Sequence[Row]
) -> tuple[tuple[str, ...], Mapping[tuple[str, str], list[str]]]:
    """Return the newest sweeps where there are several, and for each result the places in them of
    those that asked for it.
    """
    asked: dict[tuple[str, str], list[str]] = defaultdict(list)
    if source.selection.sweep is not None or len(sweeps) < 2:
        return (), asked
    names = [sweep["name"] for sweep in reversed(sweeps)][:_MOST_CHOICES]
    for place, name in enumerate(names):
        for result in source.of_sweep(name).results:
            asked[_key(result)].append(str(place))
    return tuple(names), asked


def _key(result: Result) -> tuple[str, str]:
    return result.environment.key, result.trial_id


def _shortly(names: Iterable[object], what: str) -> str:
    different = list(dict.fromkeys(map(str, names)))
    if len(different) <= 4:
        return ", ".join(different)
    return counted(len(different), what)


def _pictures(source: PlotSource, lack: Failed) -> list[tuple[str, Markup]]:
    """Draw the charts as SVG. An image in an address runs no script and loads nothing."""
    import matplotlib  # here, because it is slow to import

    from plots.drawing import NothingToShow, chart, finish, settings, write

    shown: list[tuple[str, Markup]] = []
    num_bytes = 0

    def draw(name: str) -> None:
        nonlocal num_bytes
        try:
            for picture in chart(name).draw(source):
                if len(shown) == _MOST_PICTURES:
                    return
                figure = finish(picture)
                file = io.BytesIO()
                write(figure, file, PictureFormat.SVG, source, picture)
                # between double quotes, no character of it has a meaning in HTML
                text = quote(_small(file.getvalue()), safe=_UNQUOTED)
                if num_bytes + len(text) < _MOST_PICTURE_BYTES:
                    num_bytes += len(text)
                    address = Markup(f"data:image/svg+xml,{text}")
                    shown.append((str(figure.get_label()), address))
        except NothingToShow:  # of some or all settings: tables have them
            return

    with matplotlib.rc_context(settings()):
        for name in CHARTS:
            attempted(f"chart {name}", partial(draw, name), lack)
    return shown


_UNQUOTED = " !$'()*+,-./:;<=>?@[]^_{|}~"  # neither quotes nor what an address gives a meaning
_NEEDLESS = (
    (re.compile(r"<!--.*?-->|<metadata>.*?</metadata>|<!DOCTYPE.*?>|<\?xml.*?\?>", re.DOTALL), ""),
    (re.compile(r'<g id="[^"]*"'), "<g"),  # nothing leads there
    (re.compile(r' transform="rotate\(-0 [^"]*"'), ""),
    (re.compile(r"font-family: 'DejaVu Sans';? ?"), ""),
    (re.compile(r">\s+<"), "><"),
    (re.compile(r"\s*\n\s*"), " "),
)
_TAG = re.compile(r"<[^<>]*>")
_DECIMALS = re.compile(r"(\d\.\d)\d+")
_FONT = "<svg style='font-family:DejaVu Sans,Verdana,sans-serif'"


def _small(svg: bytes) -> str:
    """Return the picture in half as many bytes, with a font for viewers that lack ours."""
    text = svg.decode()
    for pattern, replacement in _NEEDLESS:
        text = pattern.sub(replacement, text)
    # coordinates to one decimal: what stands between tags is text, whose numbers keep their digits
    text = _TAG.sub(lambda tag: _DECIMALS.sub(r"\1", tag[0]).replace('"', "'"), text)
    return text.replace("<svg", _FONT, 1)


def _columns(results: Sequence[Result], varied: Sequence[str]) -> tuple[str, ...]:
    units = set(map(attrgetter("unit"), with_number(results)))
    kinds = set(map(attrgetter("devices"), environments_of(results)))
    columns = list(varied)
    columns[columns.index("num_gpus")] = kinds.pop() if len(kinds) == 1 else "devices"
    if _has_machines(results):
        columns.append("machine")
    return (*columns, units.pop() if len(units) == 1 else "throughput", "speed-up", "doubts")


def _has_machines(results: Sequence[Result]) -> bool:
    return len(set(map(attrgetter("key"), environments_of(results)))) > 1


def _trials(
    source: PlotSource,
    attempts: Mapping[int, Row],
    varied: Sequence[str],
    sweeps_of: Callable[[Result | None], str],
) -> list[Trial]:
    results = source.results
    has_machines = _has_machines(results)
    is_short = len(results) > _MOST_WITH_STEPS
    samples: Mapping[int, Sequence[StepSample]] = {}
    if attempts and not is_short:
        samples = steps(source.engine, [result.attempt_ids[-1] for result in results])
    trials = []
    for place, result in enumerate(results):
        cells = []
        for axis in varied:
            value = result.axes.get(axis)
            cells.append("" if value is None else as_typed(value))
        if has_machines:
            cells.append(result.environment.host)
        if result.throughput is None:
            cells += [SYMBOLS[Outcome(result.outcome)], ""]
        else:
            cells += [_text(result, THROUGHPUT), _text(result, "speed-up")]
        cells.append(", ".join(badges.of_result(result)))
        stepped = samples.get(result.attempt_ids[-1], []) if result.attempt_ids else []
        of_result = [attempts[attempt_id] for attempt_id in result.attempt_ids]
        trial = Trial(
            key=f"t{place}",
            name=_name(result),
            cells=tuple(cells),
            sweeps=sweeps_of(result),
            facts=tuple(_facts(result, of_result, is_short)),
            steps=_drawn_steps(stepped),
        )
        trials.append(trial)
    return trials


def _name(result: Result) -> str:
    return f"{result.axes['model']}, {result.line} on {result.counted}"


def _text(result: Result, quantity: str) -> str:
    return QUANTITIES[quantity].text(result)


def _facts(result: Result, attempts: Sequence[Row], is_short: bool) -> Iterator[tuple[str, str]]:
    if result.throughput is not None:
        text = f"{_text(result, THROUGHPUT)} {_text(result, 'interval')}"
        yield result.unit, text.strip()
    if len(result.repeats) > 1:
        yield "repeats", ", ".join(map(number, result.repeats))
    if result.speed_up is not None and result.baseline is not None:
        against = f"{result.baseline.strategy} on {result.baseline.width}"
        text = f"{result.speed_up:.2f}x of {against}"
        if result.baseline.doubts:
            text += " (in doubt)"
        if result.efficiency is not None:
            text += f", an efficiency of {result.efficiency:.0%}"
        yield "speed-up", text
    if result.usage.mfu is not None:
        yield "MFU", _text(result, "mfu")
    for reason in _reasons(attempts):
        yield "in doubt", reason
    for attempt in attempts:
        if attempt["outcome"] != Outcome.COMPLETED:
            outcome, message, log = _end_of(attempt)
            yield f"attempt {attempt['attempt']}", f"{outcome}: {message} ({log})"
    if result.environment.origin.is_ours:
        command_of = rerun_command if is_short else portable_command
        command = visible(command_of(result, len(result.repeats)))
        yield "run it again", Markup("<code>{}</code>").format(command)
    else:
        yield "source", made_with(result.environment)


def _end_of(attempt: Row) -> tuple[str, str, str]:
    """Return outcome, message and log of an attempt that did not complete."""
    outcome = str(attempt["outcome"]).replace("_", " ")
    log = PurePosixPath(attempt["run_dir"] or "") / "log.txt"
    return outcome, attempt["message"] or "no message", str(log)


def _reasons(attempts: Sequence[Row]) -> list[str]:
    """Return what is against its numbers, or against a repeat that is therefore left out."""
    reasons: dict[str, None] = {}
    for attempt in attempts:
        if attempt["outcome"] != Outcome.COMPLETED or attempt["verdict"] == Verdict.VALID:
            continue
        where = "" if is_quotable(attempt) else f" (repeat {attempt['repeat']}, left out)"
        for reason in attempt["verdict_reasons"] or [attempt["verdict"] or "not steady"]:
            reasons[f"{reason}{where}"] = None
    return list(reasons)


def _drawn_steps(steps: Sequence[StepSample]) -> Markup:
    """Return the time of each step as a small picture: of many the longest of every few."""
    if len(steps) < 2:
        return Markup()
    times = [step.duration_s / step.num_steps for step in steps]
    together = -(-len(times) // _MOST_POINTS)
    shown = [max(times[first : first + together]) for first in range(0, len(times), together)]
    most = max(shown) or 1.0
    places = []
    for place, time_s in enumerate(shown):
        x = round(place * _STEPS_WIDTH / max(len(shown) - 1, 1))
        places.append(f"{x},{round(_STEPS_HEIGHT * (1 - time_s / most), 1):g}")
    label = f"{len(steps)} steps of the newest process, the longest {1000 * most:.4g} ms"
    return Markup(
        f'<figure><svg role="img" aria-label="{label}" viewBox="-2 -2 {_STEPS_WIDTH + 4} '
        f'{_STEPS_HEIGHT + 4}"><polyline points="{" ".join(places)}"/></svg>'
        f"<figcaption>{label}, warm-up included</figcaption></figure>"
    )


def _failures(results: Sequence[Result], attempts: Mapping[int, Row]) -> Failures:
    """Group attempts that did not complete by outcome and message."""
    grouped: Failures = {}
    for place, result in enumerate(results):
        for attempt_id in result.attempt_ids:
            attempt = attempts[attempt_id]
            if attempt["outcome"] != Outcome.COMPLETED:
                outcome, message, log = _end_of(attempt)
                row = (f"t{place}", _name(result), log)
                grouped.setdefault((outcome, escape(quoted_lines(message))), []).append(row)
    return grouped


def _left_out(sweeps: Sequence[Any]) -> dict[str, tuple[str, ...]]:
    """Return the overrides of cells that were left out of grids, by reason."""
    grouped: dict[str, list[str]] = {}
    for sweep in sweeps:
        for cell in sweep["left_out"]:
            grouped.setdefault(cell["reason"], []).append(cell["overrides"])
    return {reason: tuple(cells) for reason, cells in grouped.items()}
