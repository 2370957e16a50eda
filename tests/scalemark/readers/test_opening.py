"""`read=KIND[:ARGUMENT]`: what is opened, and what is refused with what to do."""

import pytest

from scalemark.readers.fields import PLACES, RATES
from scalemark.readers.opening import KINDS, ReadError, about, open_reader
from scalemark.readers.search import search
from tests.conftest import PROJECT


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "regex"])
def test_every_kind_opens_without_an_argument(kind: str):
    reader = open_reader(kind)
    assert reader.read_line("nothing of interest") is None


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_says_what_it_reads(kind: str):
    assert about(kind).startswith(kind)


def test_of_ranks_that_are_named_the_lowest_is_read():
    reader = open_reader("regex:([0-9.]+) samples/s")
    said = ["[rank2]: 7 samples/s", "[rank0]: 9 samples/s", "[rank1]: 8 samples/s", "6 samples/s"]
    readings = [reader.read_line(line) for line in [*said, "[default0]:5 samples/s"]]
    assert [one and one.throughput for one in readings] == [7, 9, None, 6, 5]


def test_a_number_of_a_prefix_is_read_only_where_the_pattern_names_it():
    loose = open_reader(r"regex:(?P<step>\d+)\b.* begins|rate (?P<throughput>\d+)")
    lines = ["[1,0]<stdout>:7 begins", "[1,0]<stdout>:rate 9"]
    readings = [loose.read_line(line) for line in lines]
    assert [one and (one.step, one.throughput) for one in readings] == [None, (7, 9)]
    of_rank = open_reader(r"regex:\[rank1\]: ([0-9.]+) samples/s")
    said = ["[rank0]: 7 samples/s", "[rank1]: 9 samples/s"]
    readings = [of_rank.read_line(line) for line in said]
    assert [one and one.throughput for one in readings] == [None, 9]


def test_the_epochs_of_ranks_that_all_begin_before_one_tells_are_counted():
    reader, steps = open_reader("keras"), []
    for epoch in range(3):
        lines = [f"Epoch {epoch + 1}/3", *(f"{step}/8 [==>..] - 1s" for step in range(1, 9))]
        for line in lines:
            for rank in (1, 0):
                reading = reader.read_line(f"[1,{rank}]<stdout>:{line}")
                if reading:
                    steps.append(reading.step)
    assert steps == [1, *range(1, 25)]  # the first of rank 1, then those of rank 0


REFUSED = [
    "kears",
    "Keras2",
    "wandb",
    "",
    "mlperf:loss",
    "regex:",
    "regex:images/sec: [0-9.]+",
    "regex:images/sec: ([0-9.]+",
    "regex:step ([0-9]+) rate ([0-9.]+)",
    "regex:(?P<loss>[0-9.]+)",
    "regex:(?P<trhoughput>[0-9.]+)",
    "metric:img s",
    "metric:name=x",
    "json:ke=loss",
    "json:/etc/passwd",
    "json:../other/metrics.json",
]


@pytest.mark.parametrize("text", REFUSED)
def test_a_wrong_reader_is_refused_with_what_to_do(text: str, snapshot):
    with pytest.raises(ReadError) as refused:
        open_reader(text)
    assert str(refused.value) == snapshot


def test_a_reader_keeps_state_of_its_own():
    first, second = open_reader("json"), open_reader("json")
    line = '{"step": 10, "tokens_per_second": 7282}'
    assert first.read_line(line)
    assert first.read_line(line) is None  # another rank
    assert second.read_line(line)


@pytest.mark.parametrize(
    "kind", ["regex:([0-9]+) img/s" if kind == "regex" else kind for kind in KINDS]
)
@pytest.mark.parametrize(
    "line",
    [
        "",
        "\x00\x01\x02",
        "{" * 5000,
        "[" * 5000,
        "�" * 100,
        "1" * 5000,
        "{'" * 2000,
        "=" * 16_384,
        ":::MLLOG {",
        ":::MLLOG []",
        '{"step": }',
        "METRIC",
        "METRIC =",
        "step: tps:",
        "0/0 [00:00<?, ?it/s]",
        "1/1 0s 0ms/step",
    ],
)
def test_no_line_makes_a_reader_fail(kind: str, line: str):
    reading = open_reader(kind).read_line(line)
    assert reading is None or reading.throughput is None or reading.throughput > 0


def test_the_page_for_users_lists_every_kind_and_every_group():
    page = (PROJECT / "docs" / "your_program.md").read_text()
    assert [kind for kind in KINDS if f"| `{kind}" not in page] == []
    assert [name for name in (*RATES, *PLACES) if f"`{name}`" not in page] == []


@pytest.mark.parametrize("prefix", ["[{}]: ", "{}: ", "[rank0]: {}: "])
@pytest.mark.parametrize("first", [0, 10])
def test_a_step_before_a_line_is_no_rank(prefix: str, first: int) -> None:
    """A bug: the first step was the only rank that was read, and its rate was that of the run."""
    lines = [f"{prefix.format(first + n)}loss 0.5, {100 if n else 20} images/s" for n in range(39)]
    best = search(lines).fits[0]
    assert [reading.step for reading in best.readings] == list(range(first, first + 39))
    assert {reading.throughput for reading in best.readings[1:]} == {100.0}
    reader = open_reader("regex:([0-9.]+) images/s", num_ranks=2)
    rates = [reading.throughput for line in lines if (reading := reader.read_line(line))]
    assert rates.count(100.0) >= 36
    assert rates[0] == 20.0


def test_steps_that_begin_anew_with_each_epoch_are_no_ranks() -> None:
    lines = [f"{n}: loss 0.5, 100 images/s" for _ in range(5) for n in range(100)]
    assert len(search(lines).fits[0].readings) > 490


def test_numbers_that_come_again_are_ranks() -> None:
    lines = [f"{rank}: step {n}, {100 + rank} images/s" for n in range(9) for rank in (1, 0, 2)]
    answer = search(lines)
    assert answer.num_ranks == 3
    rates = [reading.throughput for reading in answer.fits[0].readings]
    assert rates[-9:] == [100.0] * 9
    reader = open_reader("regex:([0-9.]+) images/s", num_ranks=4)
    rates = [reading.throughput for line in lines if (reading := reader.read_line(line))]
    assert rates[-8:] == [100.0] * 8
