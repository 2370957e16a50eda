"""The reader `regex`: one group or names, steps over epochs, and patterns that take too long."""

import re
import threading
from collections.abc import Sequence

import pytest

from scalemark.readers.kinds.regex import matched
from scalemark.readers.opening import ReadError, Reading, open_reader


def read(pattern: str, *lines: str) -> list[Reading]:
    reader = open_reader(f"regex:{pattern}")
    return [reading for line in lines if (reading := reader.read_line(line))]


def test_one_group_is_the_throughput():
    assert read("a:images/sec: ([0-9.]+)", "a:images/sec: 46.7 +/- 0.4", "loss 3") == [
        Reading(throughput=46.7)
    ]


def test_names_say_what_the_groups_are():
    pattern = r"(?P<time_s>[0-9:]+) step (?P<step>[0-9,]+) (?P<throughput>\S+) (?P<item>\w+)/s loss (?P<loss>\S+)"
    (reading,) = read(pattern, "1:00:05 step 1,200 3.5k img/s loss 2e-3")
    assert reading == Reading(
        throughput=3500, step=1200, time_s=3605, item="images", metrics={"loss": 2e-3}
    )


@pytest.mark.parametrize(
    ("pattern", "line", "step_s"),
    [
        (r"(?P<step_s>[0-9.]+)s/it", "4.25s/it", 4.25),
        (r"(?P<step_ms>[0-9.]+)ms", "time 500ms", 0.5),
        (r"(?P<step_s>[0-9.]+ms)", "time 500ms", 0.5),
        (r"(?P<steps_per_s>[0-9.]+) it/s", "4 it/s", 0.25),
    ],
)
def test_the_time_of_a_step_has_a_unit(pattern: str, line: str, step_s: float):
    assert read(pattern, line) == [Reading(step_s=step_s)]


@pytest.mark.parametrize("written", ["nan", "inf", "-inf", "0", "-5", "fast"])
def test_what_is_no_rate_is_named_and_not_used(written: str):
    assert read("rate (?P<throughput>.*)", f"rate {written}") == [Reading(unusable=written)]


WHOLE = {  # a line, by a pattern that catches a part of its number, and what it says
    "tokens/s 119.6k": ("tokens/s ([0-9.]+)", 119_600),
    "977 ksamples/s": ("([0-9.]+) ksamples/s", 977_000),
    "9_916.9 samples/s": ("([0-9.]+) samples/s", 9916.9),
    "at 9.9e+03 samples/s": ("([0-9.]+) samples/s", 9900),
    "samples/s 9.9e+03, loss 2": ("samples/s ([0-9.]+)", 9900),
    "12.9 samples/s": ("([0-9]+) samples/s", 12.9),
    "done at 12.9.": ("at ([0-9.]+)", 12.9),
    "10,123,0.5": ("^[0-9]+,([0-9.]+),", 123),
    "1,rate,100,0.5": ("rate,([0-9]+)", 100),
    "3,12.5 samples/s": ("([0-9.]+) samples/s", 12.5),
    "0-100 samples/s": ("([0-9.]+) samples/s", 100),
    "step 3, 12.5 samples/s": ("([0-9.]+) samples/s", 12.5),
    "9.929,3 samples/s": ("([0-9.,]+) samples/s", 9929.3),
    "kimg/s: 12.5": ("kimg/s: ([0-9.]+)", 12_500),
    "rate (10^3 tok/s): 12.5": (r"rate \(.*\): ([0-9.]+)", 12_500),
    "rate (1000 tok/s): 12.5": (r"rate \(.*\): ([0-9.]+)", 12_500),
    "12.5 M tok/s": ("([0-9.]+) M tok/s", 12_500_000),
    "step 1000 samples/s 12.5": ("samples/s ([0-9.]+)", 12.5),
    "tokens: 1000 tokens/s: 12.5": ("tokens/s: ([0-9.]+)", 12.5),
    "batch 1,000 img/s: 12.5": ("img/s: ([0-9.]+)", 12.5),
    "gpus 0,1 12,561 samples/s": ("([0-9.,]+) samples/s", 12_561),
    "loss 2.31, 12,561 samples/s": ("([0-9.,]+) samples/s", 12_561),
}


@pytest.mark.parametrize("line", WHOLE)
def test_a_number_is_read_whole(line: str):
    pattern, rate = WHOLE[line]
    assert read(pattern, line) == [Reading(throughput=rate)]


def test_a_rate_below_zero_is_none():
    assert read("([0-9.]+) samples/s", "-9947 samples/s") == [Reading(unusable="-9947")]


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        ("([0-9.]+) samples/s", "9,928.2 samples/s"),
        ("([0-9.]+) samples/s", "9,5 samples/s"),
        ("samples/s ([0-9.]+)", "samples/s 119,600.0"),
        ("samples/s (?P<throughput>[0-9.]+)", "samples/s 119,600"),
        ("rate,([0-9.]+)", "5,rate,100,0"),
        ("([0-9.]+) samples/s", "9.929,3 samples/s"),
    ],
)
def test_a_number_that_may_go_on_behind_a_comma_is_refused(pattern: str, line: str):
    with pytest.raises(ReadError, match=r"catch the whole number, as \(\[0-9.,\]\+\), or write"):
        read(pattern, line)


def test_a_comma_that_may_be_of_decimals_or_of_thousands_is_refused():
    with pytest.raises(ReadError, match=r"12,561 may be that of decimals, .* as LC_ALL=C does"):
        read("([0-9.,]+) samples/s", "loss 2,31 12,561 samples/s")


@pytest.mark.parametrize(
    ("pattern", "advice"),
    [
        ("([0-9.]+) ms/step", r"takes ms/step for items/s; write \(\?P<step_ms>"),
        ("([0-9.]+) s/it", r"takes s/it for items/s; write \(\?P<step_s>"),
        (r"(?P<throughput>[0-9.]+)\s*it/s", r"takes it/s for items/s; write \(\?P<steps_per_s>"),
        ("([0-9.]+) samples/min", "takes samples/min for items/s; catch a number per second"),
    ],
)
def test_a_number_of_another_unit_is_no_rate(pattern: str, advice: str):
    with pytest.raises(ReadError, match=advice):
        read(pattern)


@pytest.mark.parametrize(
    "pattern", ["loss ([0-9.]+)", r"acc:\s*(?P<throughput>\S+)", "lr=([0-9]+)"]
)
def test_a_loss_is_no_rate(pattern: str):
    with pytest.raises(ReadError, match=r"takes the (loss|acc|lr) for items/s; write \(\?P<"):
        read(pattern)


def test_a_number_of_the_whole_run_is_kept_as_such():
    assert read("total (?P<total>[0-9.]+)", "total 48.05") == [
        Reading(throughput=48.05, is_total=True)
    ]


def test_the_step_of_another_rank_is_read_once():
    pattern = r"(?P<step>\d+) (?P<throughput>\d+)"
    assert [one.step for one in read(pattern, "1 9", "1 8", "2 9", "2 8", "1 7")] == [1, 2]


def test_steps_go_on_over_epochs():
    pattern = r"\[(?P<epoch>\d+)\]\[(?P<step>\d+)/(?P<epoch_steps>\d+)\] (?P<throughput>\d+)"
    lines = ("[3][50/100] 9", "[3][100/100] 9", "[4][50/100] 9")
    assert [one.step for one in read(pattern, *lines)] == [50, 100, 150]


def test_steps_that_begin_anew_are_of_a_new_epoch():
    pattern = r"(?P<step>\d+) (?P<throughput>\d+)"
    assert [one.step for one in read(pattern, "50 9", "100 9", "50 9")] == [50, 100, 150]


TRAINED, EVALUATED, LONG = range(10, 101, 10), range(1, 10), range(1, 51)


@pytest.mark.parametrize(
    ("printed", "wanted"),
    [
        # 110 takes back what was counted of the first evaluation; the next is passed over
        (
            [*TRAINED, *LONG, 110, 120, *LONG, 130],
            [*TRAINED, *range(110, 151), 110, 120, 130],
        ),
        ([*TRAINED, *LONG, 1, 2, 110], [*TRAINED, *range(110, 151), 110]),
        ([10, 20, *TRAINED, 30, 40, *TRAINED, 50], [10, 20, *range(30, 121, 10), 30, 40, 50]),
        (
            [*TRAINED, *EVALUATED, 110, *TRAINED],
            [*TRAINED, 110, *range(120, 211, 10)],
        ),
        ([*TRAINED, 10, 100, 20, 30], [*TRAINED, 110, 120, 130]),  # of a rank that is behind
        ([*TRAINED, *range(10, 141, 10)], [*range(10, 241, 10)]),  # a longer epoch
        ([1, *TRAINED, 1, *TRAINED], [1, *TRAINED, *range(110, 201, 10)]),
    ],
)
def test_training_that_goes_on_was_not_begun_anew(printed: list[int], wanted: list[int]):
    """Lines of evaluations match the pattern, too, and count from 1."""
    assert [one.step for one in read(r"(?P<step>\d+)", *map(str, printed))] == wanted


@pytest.mark.parametrize("late", [1, 4, 12, 22, 30])
def test_a_rank_that_began_later_is_counted_once(late: int):
    """Both print 0 to 39; the other one goes on when the first has ended."""
    both = [(step, step) for step in range(40)] + [(step + late + 0.5, step) for step in range(40)]
    readings = read(r"(?P<step>\d+)", *(str(step) for _, step in sorted(both)))
    assert max(one.step for one in readings) == readings[-1].step == 39


@pytest.mark.parametrize(
    ("printed", "epoch_steps", "is_sure"),
    [
        (range(20), 20, True),
        (range(1, 21), 20, True),
        (range(0, 50, 10), 50, False),
        (range(1, 50, 10), 50, False),
        (range(9, 50, 10), 50, False),
        (range(10, 51, 10), 50, False),
        (range(0, 937, 100), 1000, False),  # it may have 901 steps, or 1000
        ([*range(0, 937, 100), 936], 937, True),  # the last step is printed, too
        ([*range(10, 51, 10), 55], 55, True),
        ([1, *range(10, 51, 10)], 50, False),
        ([0, *range(9, 50, 10)], 50, False),
    ],
)
@pytest.mark.parametrize("named", [True, False])
def test_an_epoch_has_as_many_steps_as_its_lines_say(
    printed: Sequence[int], epoch_steps: int, is_sure: bool, named: bool
):
    lines = [f"{epoch} {step}" for epoch in range(3) for step in printed]
    epoch = r"(?P<epoch>\d+)" if named else r"\d+"
    readings = read(epoch + r" (?P<step>\d+)", *lines)
    last = readings[-1]
    assert last.step == 2 * epoch_steps + printed[-1]
    assert (last.unsure_steps == 0) is is_sure
    assert last.steps_before == (0 if named else 2 * epoch_steps)


def test_the_length_of_an_epoch_is_read_without_its_number():
    lines = [f"{step}/937" for _ in range(3) for step in range(0, 937, 100)]
    readings = read(r"(?P<step>\d+)/(?P<epoch_steps>\d+)", *lines)
    assert (readings[-1].step, readings[-1].unsure_steps) == (2 * 937 + 900, 0)


def test_an_evaluation_within_an_epoch_has_another_length():
    pattern = r"\[(?P<epoch>\d+)\]\[(?P<step>\d+)/(?P<epoch_steps>\d+)\]"
    lines = ("[1][5/10]", "[1][10/10]", "[1][20/40]", "[1][40/40]", "[2][5/5]", "[3][1/10]")
    assert [one.step for one in read(pattern, *lines)] == [5, 10, 15, 16]


def test_a_number_on_a_line_of_its_own_is_read_also_after_the_last_step():
    lines = ("[rank0]: acc 0.5", "[rank1]: step 1 512", "[rank1]: acc 0.9")
    pattern = r"step (?P<step>\d+) (?P<throughput>\d+)|acc (?P<acc>\S+)"
    assert [reading.step for reading in read(pattern, *lines)] == [None, 1, None]
    assert read(pattern, *lines)[-1] == Reading(metrics={"acc": 0.9})


def test_a_step_without_a_rate_is_a_reading():
    assert read(r"step (?P<step>\d+)", "step 5") == [Reading(step=5)]


def test_colors_do_not_disturb_a_pattern():
    assert read("rate: ([0-9]+)", "\x1b[32mrate: \x1b[1m512\x1b[0m") == [Reading(throughput=512)]


def test_a_pattern_that_takes_exponential_time_is_ended():
    pattern = re.compile(r"(a|b)(a|ab)(a|ab)" + "(?:ab?a?)?" * 40 + "c")
    with pytest.raises(ReadError, match=r"took more than 1 s for a line of 2000 characters"):
        matched(pattern, "a" * 5000)


def test_a_pattern_sees_the_begin_of_a_long_line():
    assert matched(re.compile("b"), "a" * 3000 + "b") is None


def test_a_pattern_works_in_every_thread():
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(bool(matched(re.compile("b"), "ab"))))
    thread.start()
    thread.join()
    assert found == [True]
