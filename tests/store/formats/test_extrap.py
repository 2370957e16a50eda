"""Scaling curves are written as Extra-P reads them: every curve of a file on the same numbers of GPUs."""

import json
from pathlib import Path

from store.exchange.exports import ExportFormat, export
from store.filters.selection import attempt_ids
from tests.filled import fill
from tests.specs import small
from tests.tables import changing

PS = {"variable_update": "parameter_server", "local_parameter_device": "cpu"}


def curves(*, without: tuple[int, ...] = ()) -> list[tuple[object, float | None]]:
    results = []
    for num_gpus in (1, 2, 4, 8, 16):
        for repeat in (0, 1):
            results.append((small(num_gpus=num_gpus), 100.0 * num_gpus + repeat))
            if num_gpus not in without:
                results.append((small(num_gpus=num_gpus, **PS), 90.0 * num_gpus**0.8 + repeat))
    return results


def written(*filters: str):
    ids = attempt_ids(filters) if filters else None
    done = export("results.db", "out.jsonl", ExportFormat.EXTRAP, ids=ids)
    return done, [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]


def test_a_line_is_the_repeats_of_a_metric_on_so_many_gpus():
    fill("results.db", curves())
    done, lines = written()
    assert done.rejected == []
    assert len(lines) == 2 * 2 * 5
    assert {line["metric"] for line in lines} == {"images_per_s", "median_step_s"}
    of_first = [
        line
        for line in lines
        if " replicated_none " in line["callpath"] and line["metric"] == "images_per_s"
    ]
    assert [(line["params"], line["value"]) for line in of_first][:2] == [
        ({"num_gpus": 1}, [100.0, 101.0]),
        ({"num_gpus": 2}, [200.0, 201.0]),
    ]
    assert len({line["callpath"] for line in lines}) == 2


def test_a_curve_on_other_numbers_of_gpus_is_left_out_and_that_is_told():
    fill("results.db", curves(without=(16,)))
    done, lines = written()
    assert len({line["callpath"] for line in lines}) == 1
    (one,) = done.rejected
    assert one.where.startswith("trivial ps_cpu ")
    assert one.reason == (
        "on 1, 2, 4 and 8 GPUs, and this file is of curves on 1, 2, 4, 8 and 16 GPUs"
    )


def test_what_is_on_one_number_of_gpus_is_no_curve():
    alone = [(small(num_gpus=1, seed=seed), 100.0) for seed in range(2, 9)]
    fill("results.db", [*curves(), *alone])
    done, lines = written()
    assert {line["params"]["num_gpus"] for line in lines} == {1, 2, 4, 8, 16}
    assert len(done.rejected) == len(alone)
    assert {one.reason for one in done.rejected} == {
        "on 1 GPU alone; a curve is on 2 numbers of GPUs or more"
    }


def test_what_has_no_number_or_does_not_count_is_left_out():
    fill("results.db", [*curves(), (small(num_gpus=32), None)])
    with changing("results.db") as connection:
        connection.exec_driver_sql("UPDATE attempts SET deleted_at = started_at WHERE id = 1")
    _, lines = written()
    of_one = [line["value"] for line in lines if line["params"] == {"num_gpus": 1}]
    assert sorted(map(len, of_one)) == [1, 1, 2, 2]
    assert {line["params"]["num_gpus"] for line in lines} == {1, 2, 4, 8, 16}


def test_nothing_to_write_is_an_empty_file():
    fill("results.db", [(small(), None)])
    _, lines = written()
    assert lines == []
