"""Is a prediction right? Every published figure on more GPUs, from the smaller counts of its curve.

    python -m benchmarks.prediction [--db results.db] [--rows]

Each line has the median and the 90th percentile of absolute errors, of the prediction and of three
simple rules, the share of 95 % intervals that hold the figure, and the median reach of an interval
to one side. `--rows` prints each figure.

The constants of `analysis.commands.predict` were chosen by these very figures, so that other tables
may be predicted less well.
"""

from __future__ import annotations

import argparse
import csv
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from analysis.commands import predict
from analysis.published import of_others
from analysis.results import Result
from scalemark.records.references import Reference, ReferenceKind
from store.database import open_existing, reading
from store.reading.references import known_references

RULES = ("linear", "ring", "doubling")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One published figure, predicted from up to `few` GPUs of its curve."""

    few: int
    figure: float
    curve: predict.KnownCurve
    prediction: predict.Prediction

    @property
    def reached(self) -> predict.Extrapolation:
        assert self.prediction.reached is not None
        return self.prediction.reached

    @property
    def num_counts(self) -> int:
        return len(self.prediction.rests_on)

    @property
    def error(self) -> float:
        return abs(self.reached.throughput / self.figure - 1)

    @property
    def is_inside(self) -> bool:
        return self.reached.low <= self.figure <= self.reached.high

    def rule_error(self, rule: str) -> float:
        num_gpus = self.prediction.num_gpus
        logs = {few: math.log(few / value) for few, value in self.curve.throughput.items()}
        return abs(num_gpus / math.exp(predict.by_rules(logs, num_gpus)[rule]) / self.figure - 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--db", help="of its references; else those that come with scalemark")
    parser.add_argument("--rows", action="store_true", help="print each figure")
    asked = parser.parse_args()
    engine = open_existing(asked.db) if asked.db else None
    if engine is None:
        references = known_references(None)
    else:
        with reading(engine) as connection:
            references = known_references(connection)
    figures = checked(of_others([*references, *further()]))
    print(table(figures))
    if asked.rows:
        print()
        print(rows(figures))


def further() -> list[dict[str, Any]]:
    """Read published figures that no database has, in the form of those that every database has."""
    path = Path(__file__).with_name("further_throughput.csv")
    figures = []
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            values: dict[str, Any] = dict(row)
            values |= {"batch_size": int(row["batch_size"]), "num_gpus": int(row["num_gpus"])}
            values["throughput"] = float(row["throughput"])
            figures.append(asdict(Reference(origin=ReferenceKind.ADDED.value, **values)))
    return figures


MOST_IN_ONE_BOX = 16  # GPUs: DGX-2 and p2.16xlarge have so many
_SEVERAL = re.compile(
    r"\b(nodes|servers|hosts|machines|instances|clusters?)\b|per node|/ ?node", re.IGNORECASE
)


def is_on_one_host(figure: Result) -> bool:
    """Return whether it is surely of one host: a source may say by words alone that it is not."""
    if "hosts" in figure.axes or figure.num_gpus == 1:
        return figure.hosts == 1
    return figure.num_gpus <= MOST_IN_ONE_BOX and not _SEVERAL.search(figure.environment.machine)


def checked(results: Sequence[Result], fews: Sequence[int] = (1, 2, 4)) -> list[Checked]:
    """Predict all figures of one host on more than `few` GPUs of its curve."""
    found = []
    for few in fews:
        known = predict.curves([result for result in results if result.num_gpus <= few])
        by_key = {
            (curve.environment.key, curve.first.item, curve.first.curve): curve for curve in known
        }
        for result in results:
            curve = by_key.get((result.environment.key, result.item, result.curve))
            if curve is None or result.throughput is None or result.num_gpus <= few:
                continue
            if not is_on_one_host(result):
                continue
            prediction = predict.prediction_of(curve, result.num_gpus, known)
            if prediction.reached is not None:
                found.append(
                    Checked(few=few, figure=result.throughput, curve=curve, prediction=prediction)
                )
    return found


def table(figures: Sequence[Checked]) -> str:
    """Return the errors by group, in Markdown."""
    lines = [
        f"| rows | figures | prediction | {' | '.join(RULES)} | inside 95 % | reach |",
        "|---|---:|" + "---:|" * (len(RULES) + 3),
    ]
    for name, group in groups(figures):
        cells = [name, str(len(group)), _errors([one.error for one in group])]
        for rule in RULES:
            has_rules = all(one.num_counts > 1 for one in group)
            cells.append(_errors([one.rule_error(rule) for one in group]) if has_rules else "")
        reach = np.median([1 - one.reached.low / one.reached.throughput for one in group])
        cells += [f"{np.mean([one.is_inside for one in group]):.0%}", f"{reach:.0%}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def groups(figures: Sequence[Checked]) -> Iterator[tuple[str, list[Checked]]]:
    """Yield figures by the counts of GPUs that they were predicted from, and by strategy."""
    for few, num_gpus in ((4, 8), (4, None), (2, 4), (2, 8)):
        of = [one for one in figures if one.few == few and one.num_counts > 1]
        yield f"{num_gpus or 'other than 8'} from up to {few}", _on(of, num_gpus)
    eight = [one for one in figures if one.few == 4 and one.prediction.num_gpus == 8]
    several = [one for one in eight if one.num_counts > 1]
    ways: dict[str, Callable[[Checked], bool]] = {
        "rings": lambda one: str(one.curve.first.axes["all_reduce"]).startswith("nccl"),
        "parameter servers": lambda one: (
            one.curve.first.axes["variable_update"] == "parameter_server"
        ),
    }
    for name, is_of in ways.items():
        yield f"8 from up to 4, {name}", [one for one in several if is_of(one)]
    yield "8 from one count up to 4", [one for one in eight if one.num_counts == 1]
    for num_gpus in (2, 4, 8):
        yield f"{num_gpus} from 1", _on([one for one in figures if one.few == 1], num_gpus)


def _on(figures: Sequence[Checked], num_gpus: int | None) -> list[Checked]:
    if num_gpus is None:
        return [one for one in figures if one.prediction.num_gpus != 8]
    return [one for one in figures if one.prediction.num_gpus == num_gpus]


def _errors(errors: Sequence[float]) -> str:
    return f"{np.median(errors):.1%} / {np.quantile(errors, 0.9):.1%}"


def rows(figures: Sequence[Checked]) -> str:
    """Return each figure, in Markdown."""
    lines = [
        "| source | hardware | model | strategy | from | GPUs | published | predicted | 95 % "
        "| basis |",
        "|---|---|---|---|---:|---:|---:|---:|---|---|",
    ]
    for one in figures:
        first, where, shown = one.curve.first, one.curve.environment, one.reached
        cells = [where.versions, where.machine, first.axes["model"], first.way, one.few]
        cells += [one.prediction.num_gpus, f"{one.figure:.0f}", f"{shown.throughput:.0f}"]
        cells += [f"{shown.low:.0f}..{shown.high:.0f}", shown.basis]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
