"""Tables that others published are read as they are, or it is asked what they mean.

dlrm, gnmt, ssd, strong: READMEs of NVIDIA/DeepLearningExamples; titan: pytorch/torchtitan benchmarks/llama3_h100_202412;
foundry_rows: mosaicml/llm-foundry scripts/train/benchmarking; seconds_per_step: verl-project/verl#2575;
nodes: figures made up in the form of tables over hosts.
"""

from pathlib import Path

import pytest

from scalemark.readers.words import number
from scalemark.records.references import Rejected
from store.errors import StoreError
from store.imports import ImportOptions, figures, read_table, understood

TABLES = Path(__file__).parent / "tables"


def read(path: Path, *arguments: str, decimal_comma=None, per_gpu=None, **constants: str):
    """The figures of a table, then the rows that are none, with `COLUMN=NAME` mapped, `COLUMN=axes.NAME` as an axis and the rest ignored."""
    axes = [text for text in arguments if "=axes." in text]
    options = ImportOptions(
        maps=[text for text in arguments if text not in axes],
        axes=axes,
        ignored=["*"],
        constants=constants,
        decimal_comma=decimal_comma,
        per_gpu=per_gpu,
    )
    table = read_table(str(path))
    rejected = []
    return [*figures(table, understood(table, options), options, rejected), *rejected]


def throughputs(*arguments, **options):
    return [(one.num_gpus, one.item, one.throughput) for one in read(*arguments, **options)]


GPUS = "GPUs=num_gpus"
SSD = ("Number of GPUs=num_gpus", "TF32 img/s=throughput")


@pytest.mark.parametrize(
    ("name", "arguments", "options", "expected"),
    [
        ("dlrm.csv", (GPUS, "Throughput - TF32=throughput", "Model size=axes.size"), {"item": "samples"},
         [(1, "samples", 2.84e6), (8, "samples", 10.9e6), (8, "samples", 9.76e6)]),
        ("gnmt.csv", (GPUS, "Throughput - mixed precision (tokens/s)=throughput"), {},
         [(1, "tokens", 29_911), (8, "tokens", 181_384)]),
        ("titan.csv", ("TPS/GPU=throughput", "Techniques=axes.tech"), {"per_gpu": True, "num_gpus": "8"},
         [(8, "tokens", 46_096), (8, "tokens", 53_336), (8, "tokens", 68_256)]),
        ("ssd.md", SSD, {}, [(1, "images", 123.48), (4, "images", 449.17), (8, "images", 779.96)]),
        ("nodes.csv", (), {"item": "images"},
         [(1, "images", 100), (2, "images", 195), (4, "images", 380), (8, "images", 740), (16, "images", 1400), (32, "images", 2600)]),
        ("strong.csv", (), {"item": "images"}, [(1, "images", 135.95), (4, "images", 420.2), (8, "images", 655.05)]),
        ("seconds_per_step.csv", ("seconds_per_step=step_s",), {},
         [(8, "steps", 1 / 549.13), (8, "steps", 1 / 534.24), (16, "steps", 1 / 710.28)]),
        ("seconds_per_step.csv", ("seconds_per_step=step_s",), {"item": "tokens", "items_per_step": "1000"},
         [(8, "tokens", 1000 / 549.13), (8, "tokens", 1000 / 534.24), (16, "tokens", 1000 / 710.28)]),
        ("foundry_rows.csv", ("# GPUs=num_gpus", "Throughput (T/s)=throughput", "SeqLen (T)=axes.seq_len", "GradAccum=axes.accum"),
         {"item": "tokens"}, [(8, "tokens", 26_099), (8, "tokens", 89_223)]),
    ],
)  # fmt: skip
def test_a_table_is_read_as_its_readers_read_it(name, arguments, options, expected):
    found = throughputs(TABLES / name, *arguments, **options)
    assert found == [(num, item, pytest.approx(rate)) for num, item, rate in expected]


@pytest.mark.parametrize(
    ("name", "arguments", "options", "asked"),
    [
        ("titan.csv", ("TPS/GPU=throughput", "Techniques=axes.tech"), {"num_gpus": "8"},
         "column TPS/GPU: of one GPU or of all: say it with --per-gpu or --all-gpus"),
        ("seconds_per_step.csv", ("seconds_per_step=throughput",), {},
         "column seconds_per_step: a time per step, and no throughput; wanted --map seconds_per_step=step_s"),
        ("seconds_per_step.csv", ("seconds_per_step=step_s",), {"item": "tokens"},
         "times of steps, and no items of a step: say them with --set items_per_step=NUMBER"),
        ("foundry_rows.csv", ("# GPUs=num_gpus", "Throughput (T/s)=throughput"), {},
         "rows that agree in all axes differ in SeqLen (T) and GradAccum, which a pattern ignores: add --axis"),
    ],
)  # fmt: skip
def test_what_a_table_leaves_open_is_asked_for(name, arguments, options, asked):
    with pytest.raises(StoreError) as refused:
        read(TABLES / name, *arguments, **options)
    assert asked in str(refused.value)


@pytest.mark.parametrize(
    ("text", "with_point", "with_comma"),
    [
        ("5,762", 5762, 5.762), ("1,234.5", 1234.5, None), ("1.234,5", None, 1234.5), ("1.234.567", None, 1234567),
        ("29 911", 29911, 29911), ("1\u202f024", 1024, 1024), ("1'024", 1024, 1024), ("29 91", None, None),
        ("2.84M", 2.84e6, None), ("64k", 64e3, 64e3), ("64m", None, None), ("1e3", 1000, 1000),
        ("1024 img/s", None, None), ("50 %", None, None), ("1.5x", None, None), ("0,123", None, 0.123), ("12,5", None, 12.5),
        (".5", 0.5, None), ("5.", 5, None), (".", None, None), ("", None, None), ("-3", -3, -3), ("1,2,3", None, None),
        ("1,234 567", None, None), ("1_000", 1000, 1000),
    ],
)  # fmt: skip
def test_numbers_are_read_as_people_write_them(text, with_point, with_comma):
    for expected, decimal_comma in ((with_point, False), (with_comma, True)):
        assert number(text, "," if decimal_comma else ".") == expected


UNITS = {  # of a column, and what a row of 12.5 and 2 GPUs has; None: refused
    "k images/s": (12_500, "images"),
    "K tok/s": (12_500, "tokens"),
    "M samples/s": (12_500_000, "samples"),
    "10^3 images/s": (12_500, "images"),
    "Throughput [x1000 tok/s]": (12_500, "tokens"),
    "tokens/s (in thousands)": (12_500, "tokens"),
    "1000 images/s": (12_500, "images"),
    "images/min": None,
    "tokens per day": None,
    "tokens/ms": None,
    "ms/image": None,
    "TFLOP/s/GPU": None,
}


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("1024 img/s", (1024, "images")),
        ("2.84M tok/s", (2_840_000, "tokens")),
        ("12k samples/sec", (12_000, "samples")),
        ("5 images per second", (5, "images")),
    ],
)
def test_a_rate_has_the_unit_of_all_cells(tmp_path, cell, expected):
    (tmp_path / "t.csv").write_text(f"num_gpus;speed\n2;{cell}\n4;{cell}\n")
    found = throughputs(tmp_path / "t.csv", "speed=throughput")
    assert found == [(num, expected[1], expected[0]) for num in (2, 4)]


@pytest.mark.parametrize("column", UNITS)
def test_a_rate_has_the_unit_of_its_column(tmp_path, column):
    (tmp_path / "t.csv").write_text(f"num_gpus;{column}\n2;12.5\n")
    arguments = (tmp_path / "t.csv", f"{column}=throughput")
    if UNITS[column] is None:
        with pytest.raises(StoreError, match="items per second"):
            read(*arguments, decimal_comma=False)
    else:
        (found,) = read(*arguments, decimal_comma=False)
        assert (found.throughput, found.item) == UNITS[column]


@pytest.mark.parametrize("column", ["NCCL (ms)", "total time (sec)", "Training time", "Latency"])
def test_a_time_is_no_throughput(tmp_path, column):
    """A bug: 0.08 ms on 8 GPUs counted as 0.08 items/s, and 0.54 ms on one as 0.54."""
    (tmp_path / "t.csv").write_text(f"num_gpus,{column}\n2,12.5\n")
    with pytest.raises(StoreError, match="and no throughput; wanted items per second"):
        read(tmp_path / "t.csv", f"{column}=throughput")


@pytest.mark.parametrize(
    ("columns", "arguments", "asked"),
    [
        ("GPUs,speedup", (GPUS, "speedup=throughput"), "speedup, and no throughput"),
        ("GPUs,Acceleration Rate", (GPUS, "Acceleration Rate=throughput"), "Acceleration, and"),
        (
            "gpus_per_node,img/s",
            ("gpus_per_node=num_gpus", "img/s=throughput"),
            "that of all hosts",
        ),
        (
            "GPUs,time per epoch (s)",
            (GPUS, "time per epoch (s)=step_s"),
            "which is no step; say how",
        ),
    ],
)
def test_what_looks_like_a_number_that_is_wanted_is_refused(tmp_path, columns, arguments, asked):
    (tmp_path / "t.csv").write_text(f"{columns}\n2,12.5\n")
    with pytest.raises(StoreError, match=asked):
        read(tmp_path / "t.csv", *arguments)


def test_a_time_of_an_epoch_counts_where_its_items_are_said(tmp_path):
    (tmp_path / "t.csv").write_text("num_gpus,time per epoch (s)\n2,10\n")
    (found,) = read(
        tmp_path / "t.csv", "time per epoch (s)=step_s", items_per_step="500", item="images"
    )
    assert found.throughput == 50


CELLS = {  # None: refused
    "1828.21(1.780)": 1828.21,
    "2798.55 (2.725x)": 2798.55,
    "2.84M (1.9×)": 2.84e6,
    "2 010 ± 12": 2010,
    "1024 +/- 3.5": 1024,
    "1.2k ± 0.1k": 1200,
    "1024 ± 1.5%": 1024,
    "7,700*": 7700,
    "3,980<sup>1</sup>": 3980,
    "5,762 [a]": 5762,
    "5,762 [k]": None,
    "1024 (per GPU)": None,
    "~15k": None,
    "OOM": None,
    "2.5 X": None,
}


@pytest.mark.parametrize("cell", CELLS)
def test_a_number_may_have_its_spread_or_a_footnote_behind_it(tmp_path, cell):
    (tmp_path / "t.md").write_text(f"GPUs | img/s\n--|--:\n2 | **{cell}**\n")
    (found,) = read(tmp_path / "t.md", GPUS, "img/s=throughput", decimal_comma=False)
    if CELLS[cell] is None:
        assert found.reason.endswith(f"column img/s: {cell}; wanted a finite number")
    else:
        assert found.throughput == pytest.approx(CELLS[cell])


def test_milliseconds_are_no_seconds(tmp_path):
    (tmp_path / "t.csv").write_text("num_gpus,step time (ms)\n2,12.5\n")
    with pytest.raises(StoreError, match=r"wanted --map step time \(ms\)=step_ms"):
        read(tmp_path / "t.csv", "step time (ms)=step_s")


DOUBTFUL = (
    "column v: {}: is its mark that of decimals or of thousands? say it with --decimal-comma or "
    "--decimal-point"
)


@pytest.mark.parametrize(
    ("content", "decimal_comma", "expected"),
    [
        ("n;v\n1;1,234\n", None, [DOUBTFUL.format("1,234")]),
        ("n\tv\n1\t1.234\n", None, [DOUBTFUL.format("1.234")]),
        ("n;v\n1;1,234\n", True, [1.234]),
        ("n;v\n1;1,234\n2;1,234,567\n", False, [1234, 1234567]),
        ("n;v\n1;1.234\n2;99.5\n", False, [1.234, 99.5]),
        ("n,v\n1,1.234\n2,99.5\n", None, [1.234, 99.5]),
        ("n;v\n1;1234,5\n", None, [DOUBTFUL.format("1234,5")]),
        ("n;v\n1;1234,5\n2;1.234,5\n", True, [1234.5, 1234.5]),
        ('n,v\n1,"5,762"\n2,6.6\n', None, [5762, 6.6]),
        ('n,v,GiB\n1,"5,762",82.4\n', None, [5762]),
        ('n,v\n1,"5,762"\n2,"6,6"\n', None, [DOUBTFUL.format("5,762"), DOUBTFUL.format("6,6")]),
        ('n,v\n1,"5,762.5"\n2,6.6\n', None, [5762.5, 6.6]),
    ],
)  # fmt: skip
def test_a_mark_that_may_be_of_decimals_or_of_thousands_is_asked_for(
    tmp_path, content, decimal_comma, expected
):
    (tmp_path / "t.csv").write_text(content)
    arguments = (tmp_path / "t.csv", "n=num_gpus", "v=throughput")
    found = read(*arguments, decimal_comma=decimal_comma)
    told = [one.reason if isinstance(one, Rejected) else one.throughput for one in found]
    assert told == [pytest.approx(one) if isinstance(one, float | int) else one for one in expected]


def test_a_batch_of_all_gpus_is_shared_by_them(tmp_path):
    (tmp_path / "t.csv").write_text("num_gpus,throughput,global batch\n4,10,64\n3,10,64\n")
    first, second = read(tmp_path / "t.csv", "global batch=global_batch_size")
    assert first.batch_size == 16
    assert second.reason == (
        "global_batch_size=64: wanted a multiple of num_gpus=3, whose GPUs share it evenly"
    )
    with pytest.raises(
        StoreError, match="batch_size is that of one GPU; wanted --map global batch"
    ):
        read(tmp_path / "t.csv", "global batch=batch_size")
