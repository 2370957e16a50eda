"""Efficiencies are fitted to published figures, without those that they are judged by."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import analysis.calibration
from benchmarks.fit_efficiency import Figure, figures, fit
from benchmarks.predicting import without_rows
from benchmarks.sources import further, sources
from store.reading.queries import known_references


@pytest.fixture(name="found", scope="module")
def found_of_all() -> list[Figure]:
    return figures([*known_references(None), *further()])


def test_the_factors_that_come_with_scalemark_are_those_that_are_fitted(
    found: list[Figure],
) -> None:
    """Else: `python -m benchmarks.fit_efficiency`."""
    path = Path(analysis.calibration.__file__).parent / "efficiency.csv"
    with path.open(encoding="utf-8") as lines:
        shipped = {(row["of"], row["value"]): float(row["log"]) for row in csv.DictReader(lines)}
    logs = fit(found)[0].logs
    assert shipped == pytest.approx(dict(logs), abs=2e-3)


def test_what_kernels_take_besides_memory_is_not_exposed(found: list[Figure]) -> None:
    """A bug: blocks of few channels counted as communication, by which little is learned."""
    figures = [one for one in found if one.row.work.network.name == "resnet110_cifar"]
    assert [one.exposed < 0.01 for one in figures] == [True] * 3
    assert all(one.rest_s > 0.04 * one.row.step_s for one in figures)


def test_a_generation_that_is_twice_as_fast_has_twice_the_share(found: list[Figure]) -> None:
    """Of its two factors together; what a model reaches elsewhere stays."""
    kepler = [("generation", "Kepler"), ("generation and precision", "Kepler fp32")]
    changed = []
    for one in found:
        if kepler[0] in one.terms:
            row = replace(one.row, throughput=2 * (one.row.throughput or 0.0))
            one = replace(one, row=row, rest_s=one.rest_s / 2, start_s=one.start_s / 2)
        changed.append(one)
    before, after = fit(found)[0].logs, fit(changed)[0].logs
    gained = sum(after[term] - before[term] for term in kepler)
    assert gained == pytest.approx(np.log(2), abs=0.15)
    model = ("model", "vgg16")
    assert after[model] == pytest.approx(before[model], abs=0.05)


def test_every_source_has_its_publisher_and_software() -> None:
    named = {one["source"] for one in [*known_references(None), *further()]}
    assert named == set(sources())


def test_sources_that_were_left_out_are_predicted_from_all_others(found: list[Figure]) -> None:
    """All of them: `python -m benchmarks.prediction`."""
    judged = ("Apache MXNet, performance page of 2018", "tensorflow/tensorflow#10723")
    asked = [one for one in [*known_references(None), *further()] if one["source"] in judged]

    def without(source: str):
        efficiency, _ = fit([one for one in found if one.source != source])
        return replace(efficiency, software=sources()[source].software)

    errors = [abs(one.error) for one in without_rows(asked, without)]
    assert len(errors) == 32
    assert np.median(errors) < 0.1
    assert np.quantile(errors, 0.9) < 0.25
