"""TensorFlow's tables of 2017, typed from the original page, are what the command prints: cell for cell, without any database."""

import csv
import io
import re

import pytest

from tests.plots.tables.article import GPUS, STRATEGIES, TABLES, cells


@pytest.fixture
def printed(plots):
    ended = plots("table", "--origin", "published", "--source", "tf-benchmarks-2017")
    assert (ended.exit_code, ended.stderr) == (0, "")
    return ended.stdout


@pytest.fixture
def records(plots):
    ended = plots(
        "table", "--origin", "published", "--source", "tf-benchmarks-2017", "--format", "tidy"
    )
    return list(csv.DictReader(io.StringIO(ended.stdout)))


def test_csv_has_every_cell_of_the_page_and_its_speed_up(records):
    for table in TABLES:
        check_cells(records, *table)


def test_csv_says_where_each_figure_can_be_looked_up(records):
    assert all(
        "https://www.tensorflow.org/performance/benchmarks" in row["citation"] for row in records
    )


def check_cells(records, machine, data, batch_sizes, models, text):
    typed = cells(text)
    for column, (model, batch_size) in enumerate(zip(models, batch_sizes, strict=True)):
        on_1 = float(typed[0][column])
        for row, num_gpus in enumerate(GPUS):
            found = [
                (record["throughput"], record["speed_up"], record["strategy"])
                for record in records
                if (
                    record["host"],
                    record["data"],
                    record["model"],
                    record["batch_size"],
                    record["num_gpus"],
                )
                == (machine, data, model, str(batch_size), str(num_gpus))
            ]
            if typed[row][column] == "N/A":
                assert found == []
                continue
            ((throughput, speed_up, strategy),) = found
            assert float(throughput) == float(typed[row][column])
            assert float(speed_up) == pytest.approx(float(typed[row][column]) / on_1)
            assert strategy == STRATEGIES[machine][model]


def test_csv_has_no_other_cell_of_these_machines(records):
    typed = sum(cell != "N/A" for *_, text in TABLES for row in cells(text) for cell in row)
    assert sum(record["host"] in STRATEGIES for record in records) == typed == 182


def test_what_holds_of_all_tables_is_reported_once(printed):
    assert printed.startswith("fp32\n\n")
    for reported in (
        "speed-up: against the same strategy on 1 GPU",
        "N/A: not published",
        "cells: images/s (speed-up)",
    ):
        assert printed.count(reported) == 1


def test_a_part_of_a_sources_machines_can_be_asked_for(plots):
    text = plots("table", "--origin", "published", "--source", "tf-benchmarks-2017/gce").stdout
    assert "GCE n1-standard-32-k80x8" in text
    assert "AWS" not in text


def test_every_shipped_figure_is_printed_exactly(plots):
    records = csv.DictReader(
        io.StringIO(plots("table", "--origin", "published", "--format", "tidy").stdout)
    )
    figures = sorted(float(record["throughput"]) for record in records)
    # rows of strategies: batch sizes and sequence lengths as rows would be numbers, too
    asked = ("table", "--origin", "published", "--show", "throughput", "--rows", "strategy")
    text = plots(*asked).stdout
    text = re.sub(r"\n +GPUs\n.*", "", text)  # the headings of columns are numbers, too
    printed = sorted(
        float(cell) for cell in re.findall(r"(?<=  )\d+(?:\.\d+)?(?=\*?(?:  |\n))", text)
    )
    assert printed == figures
    assert len(figures) == 423


@pytest.mark.parametrize(
    ("filters", "hosts", "num"),
    [
        (("model=resnet50", "hardware~gce*", "batch_size=64"), {"GCE n1-standard-32-k80x8"}, 8),
        (("source~tensorflow benchmarks*", "num_gpus>=64"), {"AWS p2.8xlarge x n/8 nodes K80"}, 5),
        (
            (
                "model=VGG16",
                "data!=synthetic",
                "hardware~*p100*",
                "strategy=replicated_nccl",
                "batch_size=32",
            ),
            {"NVIDIA DGX-1 8xP100-SXM2 NVLink"},
            4,
        ),
    ],
)
def test_filters_choose_by_the_fields_of_references(plots, filters, hosts, num):
    ended = plots("table", "--origin", "published", *filters, "--format", "tidy")
    records = list(csv.DictReader(io.StringIO(ended.stdout)))
    assert ({record["host"] for record in records}, len(records)) == (hosts, num)


def test_a_filter_leaves_baselines_alone(plots):
    ended = plots(
        "table",
        "--origin",
        "published",
        "model=resnet50",
        "hardware~gce*",
        "batch_size=64",
        "data=real",
        "num_gpus=8",
    )
    assert "381 (7.44x)" in ended.stdout


def test_published_figures_can_be_pivoted(plots):
    ended = plots(
        "table",
        "--origin",
        "published",
        "--source",
        "tf-benchmarks-2017/gce",
        "--rows",
        "model",
        "--columns",
        "batch_size,data",
        "num_gpus=8",
    )
    assert re.search(
        r"model +batch_size 32, synthetic data +batch_size 32, real data", ended.stdout
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("modle=resnet50",), "modle: no such filter; did you mean model?"),
        (
            ("model=resnet5000",),
            "no published figure like model=resnet5000; see scalemark table --origin published",
        ),
        (("--source", "nowhere"), "nowhere: no such source; there are tf-benchmarks-2017, "),
        (("--sweep", "night"), "--sweep night: published figures belong to no sweep"),
        (("--rows", "image_px"), "image_px: no such axis; there are model, batch_size, data"),
    ],
)
def test_what_published_figures_have_not_is_refused(plots, arguments, said):
    ended = plots("table", "--origin", "published", *arguments)
    assert ended.exit_code == 2
    assert said in ended.stderr
