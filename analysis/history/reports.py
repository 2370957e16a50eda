"""Writes what CI systems read: JUnit XML, and the Bencher Metric Format."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from analysis.history.changes import Change, State
from analysis.history.record import Record
from analysis.history.text import sentence
from scalemark.text.untrusted import visible
from store.errors import StoreError


def junit(records: Sequence[Record], found: Sequence[Change]) -> str:
    """Return a test case per trial; one in a regression fails."""
    failing: dict[int, list[Change]] = {}
    for change in found:
        if change.state is State.REGRESSION:
            for cell in change.cells:
                failing.setdefault(id(cell), []).append(change)
    suites = ElementTree.Element("testsuites", name="scalemark guard")
    for record in records:
        suite = ElementTree.SubElement(
            suites,
            "testsuite",
            name=visible(record.machine),
            tests=str(len(record.cells)),
            failures=str(sum(id(cell) in failing for cell in record.cells)),
        )
        for cell in record.cells:
            case = ElementTree.SubElement(
                suite, "testcase", classname=visible(record.machine), name=visible(cell.name)
            )
            for change in failing.get(id(cell), []):
                text = visible(sentence(change))
                ElementTree.SubElement(case, "failure", message=text, type="regression")
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def bencher(records: Sequence[Record]) -> str:
    """Return the newest night of each trial as JSON (https://bencher.dev/docs, BMF).

    A history goes by its name there: it has the whole machine and the trial by itself, so that it
    stays as it is when other machines and trials join.
    """
    metrics: dict[str, object] = {}
    for record in records:
        for place, cell in enumerate(record.cells):
            newest = np.flatnonzero(np.isfinite(record.logs[place]))[-1]
            value = float(f"{np.exp(record.logs[place, newest]):.6g}")
            name = f"{record.machine} {cell.label} {cell.unit}"
            metrics[name] = {"throughput": {"value": value}}
    return json.dumps(metrics, indent=1) + "\n"


def write(path: Path, text: str) -> None:
    """Write a file. Raises StoreError."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}; give another file") from None
