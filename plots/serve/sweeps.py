"""The page that lists sweeps: how far each is, and what runs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from analysis.origin import choose
from analysis.results import Origin
from analysis.selection import Selection
from plots.report.page import policy
from plots.serve.current import progress_of, running_in
from scalemark.text.redact import masked
from scalemark.text.untrusted import quoted, visible
from store.database import open_for_reading
from store.errors import StoreError
from store.sweeps.sweep_status import newest_sweeps

_MOST = 500
_FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepList:
    """The list as it was at one moment."""

    html: str
    problem: str | None = None  # why there is none


NO_LIST = SweepList(html="", problem="the database was not read yet")


def read(selection: Selection, origin: Origin | None, every_s: float) -> SweepList:
    """Return the list, or a page with the problem in its place, which is looked at again.

    It leads to all results of the selection, of this origin or that of the newest sweep.
    """
    db = selection.db
    try:
        found = newest_sweeps(open_for_reading(db), _MOST + 1)
        of_all = choose(db, selection.filters, None, origin)
    except StoreError as error:
        problem = quoted(str(error))
        return SweepList(html=_html(db, every_s, problem=problem), problem=problem)
    rows = []
    for sweep in found[:_MOST]:
        row = {
            "name": sweep.name,
            "path": f"sweeps/{quote(sweep.name, safe='')}/",
            "reason": sweep.reason,
            "started": f"{sweep.started_at:%Y-%m-%d %H:%M} UTC",
            "state": sweep.state,
            "done": sweep.num_done,
            "total": sweep.counts.total(),
            "progress": progress_of(sweep) if sweep.counts else "all had finished earlier",
            "running": running_in(sweep),
        }
        rows.append(row)
    html = _html(db, every_s, rows=rows, has_more=len(found) > _MOST, of_all=of_all)
    return SweepList(html=html)


def _html(db: str, every_s: float, **found: object) -> str:
    script = f"const every_ms = {round(1000 * every_s)};\n{_script()}"
    nothing: dict[str, object] = {"rows": [], "problem": None, "has_more": False, "of_all": None}
    return _template().render(
        **{**nothing, **found},
        database=masked(db),
        most=_MOST,
        script=script,
        policy=policy([script], live=True),
    )


@cache
def _script() -> str:
    return (_FOLDER / "sweeps.js").read_text(encoding="utf-8")


@cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: visible(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("sweeps.html.j2")
