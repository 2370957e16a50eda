"""What programs print becomes the throughput that they had, or is doubted: their rates, means, totals and files."""

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from command.curve import PrintedNumbers
from command.measuring import REPORTED, MeasuredProgram, NothingReadError, measured_by
from scalemark.readers.log_text import Lines as CutLines
from scalemark.readers.opening import Reader, Reading, open_reader
from scalemark.records.measurement import Verdict
from tests.command.programs import run_of, spec_of
from trainer.measured import judge

STEPS = r"regex:step (?P<step>\d+)"
RATES = r"regex:step (?P<step>\d+) rate (?P<throughput>[\d.]+)(?: (?P<item>[a-z]+)/s)?"
TIMES = r"regex:step (?P<step>\d+) time (?P<step_s>[\d.]+)"
MEANS = r"regex:step (?P<step>\d+) avg (?P<mean_throughput>[\d.]+)"
ENDED_S = 1000.0

Lines = Sequence[tuple[float, str]]


def measured(
    read: str,
    lines: Lines,
    items: float | None = None,
    files: Path | None = None,
    **changes: object,
) -> MeasuredProgram:
    """The measurement of a program that prints these lines at these times."""
    changes.setdefault("min_warm_up_steps", 0)
    spec = spec_of("true", read, num_gpus=1, **changes)
    return of(PrintedNumbers(spec, open_reader(read)), spec, lines, items, files)


def of(
    printed: PrintedNumbers, spec, lines: Lines, items: float | None, files: Path | None
) -> MeasuredProgram:
    for arrival_s, line in lines:
        printed.take_line(line, arrival_s)
    if files:
        printed.read_files(files, 0.0, ENDED_S, time.monotonic() - time.time())
    ended_s = ENDED_S if files else lines[-1][0]
    return measured_by(run_of(spec, printed, ended_s), items)


@pytest.mark.parametrize(
    ("read", "chunk"),
    [
        (STEPS, "\rstep {}"),
        ("tqdm", "\r 50%|##  | {}/12 [00:01<00:10, 1.00it/s]"),
        ("keras", "\n{}/12 ━━━━━━━━━━━━━━━━━━━━ 1s 1s/step - loss: 2.3"),
    ],
)
def test_bars_that_begin_with_what_ends_a_line_are_timed(read, chunk):
    """The next bar ends a line, or the program 3 s after its last one."""
    spec, lines = spec_of("true", read, num_gpus=1, min_warm_up_steps=0), CutLines()
    printed = PrintedNumbers(spec, open_reader(read))
    for step in range(1, 13):
        for line, arrival_s in lines.feed(chunk.format(step).encode(), float(step)):
            printed.take_line(line, arrival_s)
    for line, arrival_s in lines.end():
        printed.take_line(line, arrival_s)
    found = measured_by(run_of(spec, printed, 15.0), 100)
    assert found.measurement.throughput == pytest.approx(100)
    assert found.measurement.num_steps == 11


def test_a_time_of_one_step_of_ten_is_not_that_of_all():
    """PyTorch's ImageNet example prints the time of the last step of each ten: another waits for data."""
    lines = [(5.0 + step, f"step {step} time 0.31") for step in range(1, 400, 10)]
    found = measured(TIMES, lines, items=256)
    assert found.measurement.throughput == pytest.approx(256)
    assert found.measurement.median_step_s == pytest.approx(1)
    (doubt,) = found.doubts
    assert "does 825.8 items/s" in doubt
    assert "between its lines 256; the second counts" in doubt


@pytest.mark.parametrize(("every_s", "step_s"), [(2.0, 0.5), (0.5, 2.0), (0.535, 0.5)])
def test_times_that_are_not_those_of_the_clock_are_passed_over(every_s, step_s):
    lines = [(every_s * step, f"step {step} time {step_s}") for step in range(1, 40)]
    found = measured(TIMES, lines, items=8)
    assert found.measurement.throughput == pytest.approx(8 / every_s)
    assert "the second counts" in found.doubts[0]


def test_times_that_fit_the_clock_are_believed():
    lines = [(0.52 * step, f"step {step} time 0.5") for step in range(1, 40)]
    found = measured(TIMES, lines, items=8)
    assert (found.measurement.throughput, found.doubts) == (pytest.approx(16), ())
    assert found.measurement.throughput_low is None  # a time that never changes has no spread


def test_a_loss_after_the_last_rate_counts(tmp_path):
    lines = []
    for step in range(1, 6):
        lines += [(step, f"loss {8 / step:.1f}"), (step, f"step {step} rate 10")]
    read = r"regex:loss (?P<loss>[\d.]+)|step (?P<step>\d+) rate (?P<throughput>[\d.]+)"
    found = measured(read, [*lines, (6, "loss 0.5")], files=tmp_path).measurement
    assert (found.first_loss, found.last_loss) == (8.0, 0.5)


def test_lines_without_a_speed_hide_no_rank():
    read = r"regex:acc (?P<acc>[\d.]+)|step (?P<step>\d+) rate (?P<throughput>[\d.]+)"
    printed = PrintedNumbers(spec_of("true", read, num_gpus=2), open_reader(read))
    for step in range(1, 6):
        for line in ("acc 0.5", f"step {step} rate 10") * 2:
            printed.take_line(line, step)
    assert printed.rated_by == "each step is printed 2 times, as by 2 ranks"


def test_rates_that_never_change_are_no_doubt():
    """A bug: the rounding of their sums was taken for steps that vary too much."""
    lines = [(0.02 * step, f"step {step} rate 800.00") for step in range(1, 301)]
    found = measured(RATES, lines)
    assert min(found.durations_s) < max(found.durations_s), "they differ by rounding"
    spec = spec_of("true", RATES, num_gpus=1)
    verdict, reasons = judge(
        spec,
        found.measurement,
        found.durations_s,
        telemetry=(),
        num_gpus_here=0,
        num_cores=2,
        shares_host=False,
        problem=None,
    )
    assert (verdict, reasons, found.doubts) == (Verdict.VALID, (), ())
    assert found.note == "the speed that it printed never changes: its spread is unknown"
    one_apart = measured(RATES, [*lines[:-1], (6.0, "step 300 rate 799.9")])
    assert one_apart.note == ""
    assert one_apart.measurement.throughput_low is not None


def test_numbers_that_end_early_are_told_of_to_a_tenth_of_a_second():
    """A bug: 0.6 of 1.2 s were said to be the last 1 of 1 s."""
    lines = [(0.02 * step, f"step {step} rate {800 + step % 3}") for step in range(1, 31)]
    silent = [(0.6 + 0.02 * line, f"step {line} speed 800") for line in range(1, 31)]
    (doubt,) = measured(RATES, [*lines, *silent]).doubts
    assert doubt.startswith("no number was read in the last 0.6 of 1.2 s, in which")


def test_rates_that_are_not_usable_are_counted():
    lines = [(0.02 * step, f"step {step} rate {800 + step % 3}") for step in range(1, 31)]
    unusable = [(0.6 + 0.02 * line, f"step {30 + line} rate 0") for line in range(1, 5)]
    (doubt,) = measured(RATES, [*lines, *unusable], items=16).doubts
    assert doubt == "4 of the printed rates are not usable, as 0; they are left out"


@pytest.mark.parametrize(("rate", "is_doubted"), [(40.8, False), (42.5, True), (36.9, True)])
def test_a_step_of_nearly_whole_items_is_doubted_and_not_refused(rate, is_doubted):
    """A bug: 4.21 items were refused, and 4.20 of another repeat were taken without a word."""
    found = measured(RATES, [(0.1 * step, f"step {step} rate {rate}") for step in range(1, 61)])
    assert found.measurement.throughput == pytest.approx(rate)
    assert any("and wanted is a whole number" in doubt for doubt in found.doubts) == is_doubted


def test_a_step_of_a_part_of_an_item_is_refused():
    lines = [(0.1 * step, f"step {step} rate 25") for step in range(1, 61)]
    with pytest.raises(NothingReadError, match=r"a step has 2\.5 items, so that it is no rate of"):
        measured(RATES, lines)


@pytest.mark.parametrize("name", ["throughput", "mean_throughput"])
def test_fast_steps_are_steps_where_the_rates_confirm_their_items(name):
    """A bug: 1,250 steps/s of 256 samples were taken for samples, though 320k samples/s stood there."""
    read = rf"regex:step (?P<step>\d+) rate (?P<{name}>[\d.]+)"
    lines = [(0.02 * n, f"step {25 * n} rate {320_000 + n % 3}") for n in range(1, 61)]
    found = measured(read, lines, items=256, items_per_step="256")
    assert found.measurement.throughput == pytest.approx(320_000, rel=0.01)
    items = [(at_s, line.split(" rate")[0] + " rate 1250") for at_s, line in lines]
    for denied in (read, STEPS):
        with pytest.raises(NothingReadError, match="1,250 steps per second, which may be items"):
            measured(denied, items, items=256, items_per_step="256")


@pytest.mark.parametrize("epochs", [1, 2])
def test_steps_that_count_down_have_no_time(epochs):
    """A bug: the first and the last line were taken for two steps."""
    steps = [*range(30, 0, -1)] * epochs
    lines = [(0.05 * line, f"step {step} rate 20") for line, step in enumerate(steps)]
    with pytest.raises(NothingReadError, match="its step numbers fall"):
        measured(RATES, lines)
    with pytest.raises(NothingReadError, match="its step numbers fall"):
        measured(STEPS, lines, items=16)


def test_ranks_that_began_later_do_not_count_down():
    steps = [rank for line in range(20) for rank in range(line + 108, line + 100, -1)]
    lines = [(0.05 * line, f"step {step}") for line, step in enumerate(steps)]
    assert measured(STEPS, lines, items=16).measurement.throughput == pytest.approx(40, rel=0.05)


@pytest.mark.parametrize("rate", ["1e308", "1e200", "1e-300"])
def test_a_rate_that_nothing_reaches_is_refused(rate):
    """A bug: the fit of its items to the time between lines failed with a LinAlgError."""
    read = r"regex:step (?P<step>\d+) speed (?P<throughput>\S+)"
    lines = [(0.05 * step, f"step {step} speed {rate}") for step in range(1, 31)]
    with pytest.raises(NothingReadError, match=f"found {rate} where a rate was expected; wanted"):
        measured(read, lines)


def test_pauses_between_steps_are_told_of_beside_honest_rates():
    """It evaluates for a minute after each 20 steps of a second."""
    lines = [(step + 60.0 * (step // 20), f"step {step} time 1.0") for step in range(1, 100)]
    found = measured(TIMES, lines, items=10)
    assert found.measurement.throughput == pytest.approx(10)
    assert found.measurement.median_step_s == pytest.approx(1)
    (doubt,) = found.doubts
    assert "does 10 items/s, and by the time between its lines 2.899" in doubt
    assert "the first counts" in doubt


@pytest.mark.parametrize("items", [None, 200])
@pytest.mark.parametrize(
    ("eval_s", "after", "steps", "every"),
    [(1.5, 10, 40, 1), (1.5, 20, 40, 1), (1, 20, 40, 5), (3, 15, 60, 1), (2, 5, 40, 5)],
)
def test_evaluations_between_lines_are_in_no_step(eval_s, after, steps, every, items):
    """A bug: frequent ones were taken for steps of 215 and 500 ms, and rare ones refused."""
    lines = []
    for step in range(1, steps + 1):
        at_s = 0.1 * step + eval_s * ((step - 1) // after)
        if step % every == 0:
            lines.append((at_s, f"step {step} rate {2000 + step % 7}"))
        if step % after == 0:
            lines.append((at_s, f"eval acc 0.{step}"))
    found = measured(RATES, lines, items=items)
    if every == after and items:  # nothing tells the evaluations from the steps
        assert "the second counts: does it evaluate before each" in found.doubts[0]
        return
    assert found.measurement.throughput == pytest.approx(2000, rel=0.01)
    if every == after:
        assert found.measurement.median_step_s is None
        assert "nothing tells how long a step takes; give command.items_per_step" in found.doubts[0]
    else:
        assert found.measurement.median_step_s == pytest.approx(0.1, rel=0.01)
        assert "the first counts: does it evaluate, save or print late" in found.doubts[0]


def test_times_that_hold_an_evaluation_are_passed_over(snapshot):
    """nanoGPT's time of each tenth step, said of all ten, holds an evaluation of 30 s each 500."""
    lines, now_s = [], 0.0
    for step in range(2500):
        step_s = 0.25 if step % 500 else 30.25
        now_s += step_s
        if step % 10 == 0:
            lines.append((now_s, f"step {step} time {step_s}"))
    found = measured(TIMES, lines, items=1)
    assert found.measurement.throughput == pytest.approx(2490 / (lines[-1][0] - lines[0][0]))
    assert found.doubts == snapshot


@pytest.mark.parametrize("items", [10, None])
def test_evaluations_between_are_not_counted_as_training(items):
    """It prints lines of the same form, whose steps begin anew, in a second after 100 steps."""
    lines = []
    for step in range(10, 1010, 10):
        at_s = step / 10 + (step - 1) // 100
        lines.append((at_s, f"step {step} rate 100"))
        if step % 100 == 0:
            lines += [(at_s + n / 10, f"step {n} rate 900") for n in range(1, 10)]
    found = measured(RATES, lines[:-9], items=items)
    assert sum(sample.num_steps for sample in found.samples) == 1000
    assert found.measurement.throughput == pytest.approx(100)


@pytest.mark.parametrize("read", [STEPS, RATES])
def test_an_evaluation_at_the_end_is_doubted(read, snapshot):
    """400 steps of a second are followed by 100 of an evaluation."""
    lines = [(float(step), f"step {step} rate 1") for step in range(1, 401)]
    evaluated = [(400 + step / 10, f"step {step} rate 10") for step in range(1, 101)]
    assert measured(read, [*lines, *evaluated]).doubts == snapshot
    again = [(400.0 + step, f"step {step} rate 1") for step in range(1, 101)]
    assert measured(read, [*lines, *again]).doubts == ()


@pytest.mark.parametrize("sizes", [(100, 300), (100, 100, 100, 100), (400, 100, 400, 100)])
def test_an_evaluation_that_may_be_what_is_measured_is_refused(sizes):
    """A bug: of lines of one form, those of evaluations were most, and their rate was kept."""
    lines, now_s = [], 0.0
    for number, size in enumerate(sizes):
        for step in range(1, size + 1):
            now_s += 0.25 if number % 2 else 1
            lines.append((now_s, f"step {step} rate {4 if number % 2 else 1}"))
    with pytest.raises(NothingReadError, match=r"took 1 s, and 0.25 s after its number had begun"):
        measured(RATES, lines)
    epochs = [(100 + n / 4, f"step {(n - 1) % 100 + 1} rate 4") for n in range(1, 301)]
    assert measured(RATES, [*lines[:100], *epochs]).measurement.throughput == pytest.approx(4)


def test_means_that_begin_anew_in_each_epoch_are_not_taken_for_rates():
    """A bug: 505 of 695 items/s were kept, where an epoch begins with 0.3 s of waiting."""
    lines = []
    for epoch in range(5):
        for step in range(4, 81, 4):
            took_s = 0.3 + 0.02 * step
            lines.append((1.9 * epoch + took_s, f"step {step} rate {16 * step / took_s:.1f}"))
    measurement = measured(RATES, lines).measurement
    assert measurement.throughput == pytest.approx(16 * 396 / (9.5 - 0.38), rel=0.01)


def test_epochs_of_unknown_length_are_doubted(snapshot):
    """They have 937 steps, and a line every 100."""
    lines = []
    for epoch in range(8):
        for step in range(0, 937, 100):
            lines.append((0.02 * (epoch * 937 + step), f"epoch {epoch} step {step}/937"))
    known = r"regex:epoch (?P<epoch>\d+) step (?P<step>\d+)/(?P<epoch_steps>\d+)"
    found = measured(known, lines)
    assert (found.measurement.throughput, found.doubts) == (pytest.approx(50), ())
    assert measured(known.partition("/")[0], lines).doubts == snapshot


def test_lines_in_bursts_confirm_the_times_in_them():
    """Ten lines are flushed together: each burst tells when its last step was done."""
    lines = [(10.0 * -(-step // 10), f"step {step} time 1.0") for step in range(1, 95)]
    found = measured(TIMES, lines[:-4], items=10)
    assert (found.measurement.throughput, found.doubts) == (pytest.approx(10), ())


@pytest.mark.parametrize(("num_blocks", "is_doubted"), [(2, True), (12, True), (40, False)])
def test_few_blocks_of_lines_that_were_not_flushed_are_doubted(num_blocks, is_doubted):
    """8 KiB hold 200 lines of 0.01 s; the last block comes when the program ends."""
    lines = [(2.0 * (step // 200 + 1), f"step {step}") for step in range(num_blocks * 200 + 50)]
    doubts = measured(STEPS, lines).doubts
    assert (
        "have it flush its output (python -u, flush=True, stdbuf -oL)" in str(doubts)
    ) is is_doubted


def test_times_of_lines_that_came_at_once_cannot_be_confirmed():
    lines = [(60.0, f"step {step} time 1.0") for step in range(1, 40)]
    found = measured(TIMES, lines, items=10)
    assert found.measurement.throughput == pytest.approx(10)
    assert "could not be compared with a clock" in found.doubts[0]
    assert found.window_s == (0.0, 60.0), "all of its run is looked at"


def test_the_mean_of_a_run_that_began_with_a_compilation_tells_the_items():
    """It compiles for a minute; then a step of 100 images takes a second."""
    lines = [
        (59.0 + step, f"step {step} avg {100 * step / (59 + step):.3f}")
        for step in range(10, 201, 10)
    ]
    found = measured(MEANS, lines)
    assert found.measurement.throughput == pytest.approx(100, rel=1e-3)
    assert found.doubts == ()


def test_the_mean_of_a_resumed_run_tells_the_items():
    lines = [
        (30.0 + step, f"step {1000 + step} avg {100 * step / (30 + step):.3f}")
        for step in range(10, 201, 10)
    ]
    assert measured(MEANS, lines).measurement.throughput == pytest.approx(100, rel=1e-3)


@pytest.mark.parametrize("resumed_at", [0, 1000])
def test_means_after_the_warm_up_tell_the_items(resumed_at):
    """Ten slow steps are warm-up; lines came from the hundredth step on where it did not resume."""
    lines, now_s = [], 60.0
    first = 1 if resumed_at else 100
    for step in range(first, first + 60):
        now_s += 3 if step < first + 10 else 1
        done = step if resumed_at else step - first + 100
        lines.append((now_s, f"step {resumed_at + step} avg {100 * done / now_s:.4f}"))
    found = measured(MEANS, lines, min_warm_up_steps=10)
    assert found.measurement.throughput == pytest.approx(100, rel=0.01)


def test_a_smoothed_mean_tells_the_items():
    lines, mean = [], 10.0
    for step in range(1, 200):
        mean += 0.3 * (100 - mean)
        lines.append((30.0 + step, f"step {5000 + step} avg {mean:.3f}"))
    assert measured(MEANS, lines).measurement.throughput == pytest.approx(100, rel=0.01)


def test_means_that_fit_no_clock_are_doubted():
    lines = [(step * 1.0, f"step {step} avg {50 * 1.05**step}") for step in range(1, 60)]
    assert "follow from its means only roughly" in measured(MEANS, lines).doubts[0]


def write(folder: Path, rows: Sequence[dict]) -> Path:
    (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def rows_of(num: int) -> list[dict]:
    """A step that compiles, then quick ones."""
    return [{"step": n, "tokens_per_sec": 10 if n == 1 else 1000} for n in range(1, num + 1)]


def test_the_steps_of_a_file_are_cut_and_its_first_slow_one_is_warm_up(tmp_path):
    found = measured("json:log.jsonl", [], files=write(tmp_path, rows_of(50)))
    assert found.measurement.throughput == pytest.approx(1000)
    assert (found.measurement.num_warm_up_steps, found.measurement.num_steps) == (1, 49)
    assert found.measurement.time_to_first_step_s is None
    assert found.window_s == (0.0, ENDED_S)
    assert "its file has no times" in found.doubts[0]


def test_the_times_of_a_file_place_its_steps_and_tell_their_length(tmp_path):
    rows = [{**row, "t": 7.0 + 2 * row["step"]} for row in rows_of(50)]
    read = "json:log.jsonl,key=tokens_per_sec,step=step,time_s=t"
    found = measured(read, [], files=write(tmp_path, rows[1:]))
    assert found.measurement.throughput == pytest.approx(1000)
    assert found.measurement.median_step_s == pytest.approx(2)
    assert found.doubts == ()
    assert found.window_s[1] == ENDED_S, "such a clock is taken to end with the program"


def test_rates_of_a_file_are_compared_with_its_times(tmp_path):
    rows = [{**row, "t": 5.0 * row["step"]} for row in rows_of(50)]
    read = "json:log.jsonl,key=tokens_per_sec,step=step,time_s=t"
    found = measured(read, [], items=1000, files=write(tmp_path, rows[1:]))
    assert found.measurement.throughput == pytest.approx(200)
    assert "the second counts" in found.doubts[0]


class RunSummary(Reader):
    """Reads lines that are the names of readings."""

    def __init__(self, **readings: Reading) -> None:
        self._readings = readings

    def read_line(self, line: str) -> Reading | None:
        name, _, step = line.partition(" ")
        reading = self._readings[name]
        return replace(reading, step=int(step)) if step else reading


def of_readings(lines: Lines, item: str = "", **readings: Reading) -> MeasuredProgram:
    spec = spec_of("true", "metric", num_gpus=1, min_warm_up_steps=0, item=item)
    return of(PrintedNumbers(spec, RunSummary(**readings)), spec, lines, None, None)


def test_a_total_beside_a_step_is_of_all_gpus_and_not_of_the_run():
    lines = [(float(n), f"total {n}") for n in range(1, 40)]
    found = of_readings(lines, total=Reading(throughput=1000.0, is_total=True)).measurement
    assert (found.reported, found.throughput) == (False, pytest.approx(1000))


def test_totals_that_come_again_and_again_are_not_of_the_run():
    lines: list[tuple[float, str]] = []
    for n in range(1, 40):
        lines += [(float(n), f"step {n}"), (float(n), "total")]
    found = of_readings(lines, step=Reading(), total=Reading(throughput=1000.0, is_total=True))
    assert not found.measurement.reported
    assert found.measurement.throughput == pytest.approx(1000)


def test_the_totals_of_several_ranks_stay_totals():
    lines = [*((float(n), f"step {n}") for n in range(1, 40)), *[(40.0, "total")] * 4]
    found = of_readings(lines, step=Reading(), total=Reading(throughput=1000.0, is_total=True))
    assert (found.measurement.reported, found.measurement.throughput) == (True, 1000)


def test_items_per_step_that_the_program_says_are_used():
    lines = [*((60.0 + n, f"step {n}") for n in range(1, 40)), (100.0, "end")]
    end = Reading(throughput=25.0, is_total=True, item="samples", items_per_step=64.0)
    found = of_readings(lines, step=Reading(), end=end).measurement
    assert (found.reported, found.item) == (False, "samples")
    assert found.throughput == pytest.approx(64), "without its minute of compilation"


def test_of_batches_of_several_sizes_the_mean_counts():
    """A bug: the size in the last line was taken for all, 64 of 16, 32, 48 and 64."""
    arrival_s, lines = 0.0, []
    for step in range(1, 201):
        size = 16 + 16 * (step % 4)
        arrival_s += size / 1000
        lines.append((arrival_s, f"step {step} n {size}"))
    found = measured(r"regex:step (?P<step>\d+) n (?P<items_per_step>\d+)", lines)
    assert found.measurement.throughput == pytest.approx(1000, rel=0.01)


RATE_LINES = [(float(n), f"step {n} rate 100 samples/s") for n in range(1, 40)]


@pytest.mark.parametrize("asked", ["", "samples", "images", "sequences", "molecules"])
def test_another_word_for_an_example_is_the_same_item(asked):
    found = measured(RATES, RATE_LINES, item=asked)
    assert (found.measurement.item, found.doubts) == (asked or "samples", ())


def test_samples_are_not_kept_as_tokens():
    found = measured(RATES, RATE_LINES, item="tokens")
    assert (found.measurement.item, found.measurement.throughput) == (
        "samples",
        pytest.approx(100),
    )
    assert "for tokens give command.items_per_step, else command.item=samples" in found.doubts[0]


def test_samples_per_second_are_not_divided_by_tokens_per_step():
    found = measured(RATES, RATE_LINES, items=100 * 512.0, item="tokens", items_per_step="51200")
    assert (found.measurement.item, found.doubts) == ("tokens", ())
    assert found.measurement.throughput == pytest.approx(51200)


def test_lines_without_a_step_stand_for_the_items_that_they_count_and_not_for_one_step():
    """A bug: of lines for five steps each, 64 items a step made 633 items/s of 3,168."""
    lines = [(0.1 * n, f"items {320 * n} rate {3200 + n % 3}") for n in range(1, 30)]
    read = r"regex:items (?P<items>\d+) rate (?P<throughput>\d+)"
    found = measured(read, lines, items=64, items_per_step="64")
    assert found.measurement.throughput == pytest.approx(3200, rel=0.01)


def test_items_per_step_that_the_program_denies_are_doubted():
    """Its four GPUs were forgotten."""
    lines = [(9.0 + n, f"step {n} avg {64 * n / (9 + n)}") for n in range(1, 40)]
    (doubt,) = measured(MEANS, lines, items=16, items_per_step="16").doubts
    assert doubt.startswith(
        "command.items_per_step is 16, and by what the program prints a step has 64"
    )
    assert measured(MEANS, lines, items=64, items_per_step="64").doubts == ()
    rough = [(9.0 + n, f"step {n} avg {64 + 64 * (n > 20)}") for n in range(1, 40)]
    (doubt,) = measured(MEANS, rough, items=16, items_per_step="16").doubts
    assert doubt.startswith("command.items_per_step is 16, and by what the program prints a step")


def test_lines_without_steps_stand_for_any_number_of_them():
    """Four ranks print their rate every ten steps."""
    lines = [(10.0 * (n // 4), "rate 100") for n in range(4, 100)]
    found = measured(r"regex:rate (?P<throughput>\d+)", lines, items=100, items_per_step="100")
    assert (found.measurement.throughput, found.doubts) == (pytest.approx(100), ())


MEAN_OF_TOKENS = Reading(throughput=8192.0, is_mean=True, item="tokens")
END_OF_SAMPLES = Reading(throughput=16.0, is_total=True, item="samples")


@pytest.mark.parametrize(("asked", "wanted"), [("", (16, "samples")), ("tokens", (8192, "tokens"))])
def test_steps_are_worth_what_their_items_are_called(asked, wanted):
    """LLaMA-Factory tells tokens, and at its end the samples of a step."""
    lines = [(0.5 * n, f"step {n}") for n in range(1, 100)]
    lines = [*lines, *((at_s, "tokens") for at_s, _ in lines[9::10]), (50.0, "end")]
    end = replace(END_OF_SAMPLES, items_per_step=8.0)
    found = of_readings(sorted(lines), item=asked, step=Reading(), tokens=MEAN_OF_TOKENS, end=end)
    assert (pytest.approx(found.measurement.throughput), found.measurement.item) == wanted
    assert found.doubts == ()


@pytest.mark.parametrize(("asked", "wanted"), [("", (16, "samples")), ("tokens", (8192, "tokens"))])
def test_a_number_of_the_whole_run_keeps_its_own_item(asked, wanted):
    lines = [(1.0, "tokens"), (2.0, "end")]
    found = of_readings(lines, item=asked, tokens=MEAN_OF_TOKENS, end=END_OF_SAMPLES)
    assert (found.measurement.throughput, found.measurement.item) == wanted
    assert found.doubts == (REPORTED,)


@pytest.mark.parametrize(
    ("said", "wanted"), [(None, 400), (True, 400), (False, 100)], ids=["unknown", "one", "all"]
)
def test_per_gpu_is_of_readings_that_do_not_say_it_themselves(said, wanted):
    spec = spec_of("true", "metric", num_gpus=4, min_warm_up_steps=0, per_gpu=True)
    printed = PrintedNumbers(
        spec, RunSummary(end=Reading(throughput=100.0, is_total=True, per_gpu=said))
    )
    assert of(printed, spec, [(1.0, "end")], None, None).measurement.throughput == wanted


def test_a_total_does_not_rename_the_rates_before_it():
    lines = [*((float(n), f"step {n}") for n in range(1, 40)), (40.0, "end")]
    step = Reading(throughput=100.0, item="tokens")
    found = of_readings(lines, item="samples", step=step, end=END_OF_SAMPLES).measurement
    assert (found.throughput, found.item) == (pytest.approx(100), "tokens")


def test_a_total_of_samples_is_not_kept_as_tokens():
    end = Reading(throughput=25.0, is_total=True, item="samples")
    found = of_readings([(1.0, "end")], item="tokens", end=end)
    assert (found.measurement.item, found.measurement.reported) == ("samples", True)
    reported, other = found.doubts
    assert reported == REPORTED
    assert "for tokens give" in other


def test_of_two_totals_the_one_with_the_item_asked_for_is_kept():
    lines = [(1.0, "tokens"), (1.0, "samples")]
    found = of_readings(
        lines,
        item="tokens",
        tokens=Reading(throughput=9000.0, is_total=True, item="tokens"),
        samples=Reading(throughput=25.0, is_total=True, item="samples"),
    )
    assert (found.measurement.item, found.measurement.throughput) == ("tokens", 9000)
    assert found.doubts == (REPORTED,)


PLAIN = r"regex:step (?P<step>\d+) fps (?P<throughput>[\d.]+)"
COUNTS = r"regex:fps (?P<mean_throughput>[\d.]+) frames (?P<items>\d+)"


def since_the_begin(form: str, num: int = 40) -> list[tuple[float, str]]:
    """Lines of a program that compiles for 30 s; then 10 steps of 100 items take 10 s."""
    rows = [(30.0 + n, 1000 * n) for n in range(1, num)]
    return [
        (at, form.format(n=10 * (n + 1), rate=items / at, items=items))
        for n, (at, items) in enumerate(rows)
    ]


@pytest.mark.parametrize(
    ("read", "form"),
    [
        (PLAIN, "step {n} fps {rate:.3f}"),
        (PLAIN.replace(r"step (?P<step>\d+) ", ""), "fps {rate:.3f}"),
        ("regex:SPS: (?P<mean_throughput>[0-9.]+)", "SPS: {rate:.3f}"),
        (COUNTS, "fps {rate:.3f} frames {items}"),
    ],
)
def test_a_mean_under_a_plain_name_is_no_rate_of_the_last_steps(read, form):
    found = measured(read, since_the_begin(form)).measurement
    assert found.throughput == pytest.approx(1000, rel=0.01)
    assert (found.median_step_s is None) is ("step" not in read)


@pytest.mark.parametrize(
    ("times", "said"),
    [
        (1, None),
        (1.04, None),
        (1.2, r"1\.2 times as long; does it evaluate"),
        (4, "took 9.5 s, and they took 38 s, 4 times as long; are the items of one rank, and its"),
        (0.25, r"0\.25 times as long; are its rates of one rank, and the items of all"),
    ],
)
@pytest.mark.parametrize("name", ["mean_throughput", "throughput"])
def test_rates_that_deny_the_items_so_far_are_not_stored(name, times, said):
    """A bug: of a mean over all ranks beside the items of one, the speed of one was kept."""
    read = rf"regex:items (?P<items>\d+) speed (?P<{name}>[\d.]+)"
    lines = [(float(n), f"items {100 * n} speed {100 * times:.2f}") for n in range(1, 40)]
    is_doubted = name == "throughput" and times == 1.2
    if said is None or is_doubted:
        found = measured(read, lines)
        assert found.measurement.throughput == pytest.approx(100, rel=0.05)
        assert ("its lines 100; the second counts" in str(found.doubts)) == is_doubted
        return
    with pytest.raises(NothingReadError, match=said):
        measured(read, lines)


def test_rates_that_fit_no_clock_are_not_stored():
    lines = [(float(n), f"step {n} fps {10 * 1.2**n:.3f}") for n in range(1, 40)]
    with pytest.raises(NothingReadError, match=r"apart: does it evaluate.* Give command.items_per"):
        measured(PLAIN, lines)


def late(step_s: float, num: int = 20) -> list[tuple[float, str]]:
    """Lines of 1.8 items a step, of which every third is seen 4 ms late."""
    return [
        (1.0 + step_s * n + 0.004 * (n % 3 == 0), f"step {n} rate {1.8 / step_s:.3f}")
        for n in range(num)
    ]


def test_lines_that_came_within_little_time_do_not_deny_the_items_of_a_step():
    assert measured(RATES, late(0.002)).measurement.throughput == pytest.approx(900)
    with pytest.raises(NothingReadError, match=r"a step has 1\.8 items"):
        measured(RATES, late(0.2))
