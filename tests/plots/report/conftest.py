"""A database in which something of everything happened, and pages made of databases."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from analysis.selection import Selection
from plots.report import render
from plots.source import PlotSource
from scalemark.records.measurement import Outcome, Verdict
from scalemark.records.trial import TrialSpec
from tests.filled import NOON, fill
from tests.specs import small

PS = {"variable_update": "parameter_server", "local_parameter_device": "cpu"}
RESNET = {"model": "resnet50", "image_px": 64}
VGG = {"model": "vgg16", "batch_size": 8}


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How one attempt shall have ended."""

    throughput: float | None = None
    outcome: Outcome = Outcome.FAILED
    message: str = "it broke"
    verdict: Verdict = Verdict.VALID
    reasons: tuple[str, ...] = ()


def write(url: str, ends: list[tuple[TrialSpec, Ended]], name: str = "first") -> None:
    """Write one sweep, an attempt for each; those of one trial are its repeats."""
    details = []
    for _, end in ends:
        detail = asdict(end)
        del detail["throughput"]
        details.append(detail)
    fill(url, [(spec, end.throughput) for spec, end in ends], name=name, details=details)


def times(spec: TrialSpec, *throughput: float) -> list[tuple[TrialSpec, Ended]]:
    return [(spec, Ended(throughput=each)) for each in throughput]


EVERYTHING = [
    *times(small(**RESNET), 100.0, 101.0, 99.0),
    *times(small(**RESNET, num_gpus=2), 180.0, 182.0, 178.0),
    *times(small(**RESNET, num_gpus=4), 300.0, 303.0, 297.0),
    *times(small(**RESNET, **PS), 100.5, 99.5, 100.0),
    *times(small(**RESNET, **PS, num_gpus=2), 150.0, 151.0, 149.0),
    (
        small(**RESNET, **PS, num_gpus=4),
        Ended(outcome=Outcome.OUT_OF_MEMORY, message="OOM when allocating <b>tensor</b>"),
    ),
    *times(small(**VGG), 20.0),
    (
        small(**VGG, num_gpus=2),
        Ended(
            throughput=31.0,
            verdict=Verdict.SUSPECT,
            reasons=("others took 1.5 cores", "no steady state"),
        ),
    ),
    (
        small(**VGG, **PS),
        Ended(throughput=15.0, verdict=Verdict.INVALID, reasons=("2 reductions, wanted 1",)),
    ),
    (
        small(**VGG, **PS, num_gpus=2),
        Ended(outcome=Outcome.HUNG, message="no step for 600 s\nlast: 17"),
    ),
]

NASTY = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(2)>",
    "<!--<script a",
    "{{7*7}} {% raw %}",
    "a\"b'c`d ${1+1} \\u003c &lt; &",
    "x\u202ey\u2066z\x00\x01\x1b[0m\u2028\u200b",
    "]]><svg onload=alert(3)>",
    "__proto__",
]


@pytest.fixture
def everything() -> str:
    write("results.db", EVERYTHING)
    return "results.db"


Make = Callable[..., Path]


@pytest.fixture
def make() -> Make:
    """make("results.db", sweep=...) is a page's file."""

    def make(db: str, **selection: Any) -> Path:
        path = Path("report.html")
        page = render(source(db, **selection), NOON)
        path.write_text(page, encoding="utf-8")
        return path

    return make


def source(db: str, **selection: Any) -> PlotSource:
    return PlotSource(selection=Selection(db=db, **selection), command="scalemark report")


class Parsed(HTMLParser):
    """A page as browsers parse it, roughly: what stands in it, and every element's attributes."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self._within: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._within.append(tag)
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        while self._within and self._within.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._within and self._within[-1] == "script":
            attributes, text = self.scripts[-1]
            self.scripts[-1] = (attributes, text + data)
        elif not (self._within and self._within[-1] == "style"):
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def attributes(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def parsed(path: Path) -> Parsed:
    return Parsed(path.read_text(encoding="utf-8"))
