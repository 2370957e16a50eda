"""Each log of a real program is read by the reader that `scalemark read` proposes. `logs/sources.toml` says where each is from."""

import math
import re
import tomllib
from pathlib import Path
from shlex import split
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given
from hypothesis import strategies as st

from scalemark.readers.log_text import log_text, named_rank
from scalemark.readers.opening import open_reader
from scalemark.readers.search import FoundReader, readings_of, search
from sweeper.grid.arguments import with_program

LOGS = Path(__file__).parent / "logs"
WANTED: dict[str, dict[str, Any]] = tomllib.loads((LOGS / "sources.toml").read_text())


def found_in(name: str) -> list[FoundReader]:
    return list(search(log_text(LOGS / f"{name}.log").lines).fits)


def test_every_log_has_a_source_and_every_source_a_log():
    assert {path.stem for path in LOGS.glob("*.log")} == set(WANTED)
    assert len(WANTED) > 50
    assert all(
        wanted["source"].startswith(("https://", "recorded: ")) for wanted in WANTED.values()
    )


@pytest.mark.parametrize("name", WANTED)
def test_a_log_of_a_real_program_is_read(name: str):
    wanted = WANTED[name]
    best = found_in(name)[0]
    last = best.rated[-1] if best.rated else None
    steps = [reading.step for reading in best.readings if reading.step is not None]
    assert best.read.partition(":")[0] == wanted["read"]
    assert (best.item or None) == wanted.get("item")
    assert best.per_gpu == wanted.get("per_gpu")
    assert (last.throughput if last else None) == pytest.approx(wanted.get("throughput"))
    if "step_s" in wanted:
        assert last
        assert last.step_s == pytest.approx(wanted["step_s"])
    assert (steps[-1] if steps else None) == wanted.get("step")
    assert len(best.readings) == wanted["readings"]
    assert (last.is_total if last else False) == wanted.get("total", False)


MARKS = [
    (", ", " "),
    (", ", " | "),
    (", ", "\t"),
    (r"(?<=\w)(: |=)(?=-?\d)", " "),
    (r"(?<=\w): (?=-?\d)", "="),
]


@pytest.mark.parametrize(("mark", "instead"), MARKS)
def test_other_marks_between_the_same_numbers_lead_to_no_other_number(mark: str, instead: str):
    """A bug: after a space in place of a comma, `time/100 steps` took 100 s, and `6.3 s samples: 64` was 64 s."""
    for name in WANTED:
        lines = log_text(LOGS / f"{name}.log").lines
        if re.search(r"\|.*(?:it/s|s/it)|\[[=>.]+\]|\d/\d+ [━╸ ]", "\n".join(lines)):
            continue  # bars have the marks that they have
        same, other = (
            search(each).fits for each in (lines, [re.sub(mark, instead, line) for line in lines])
        )
        rates = (
            [reading.throughput or reading.step_s for reading in other[0].rated] if other else []
        )
        assert not rates or rates == [
            reading.throughput or reading.step_s for reading in same[0].rated
        ], name


@pytest.mark.parametrize(
    "prefix",
    [
        "[1,{rank}]<stdout>:",  # mpirun
        "[{rank}]<stderr>:",  # horovodrun
        "{rank}: ",  # srun
        "node0{rank}: ",  # pdsh
        "node0{rank}: {rank}: ",  # and the program itself, as GNMT
        "[1,{rank}]<stdout>:{rank}: ",
        "node01: [default{rank}]:",
        "(RayTrainWorker pid=10{rank}, ip=10.0.0.1) ",
        "(pid=10{rank}) ",
        "[pod/train-{rank}/main] ",
    ],
)
def test_two_ranks_that_a_launcher_names_are_read_as_one(prefix: str):
    for name in WANTED:
        lines = log_text(LOGS / f"{name}.log").lines
        if any(named_rank(line)[0] is not None for line in lines):
            continue  # of a launcher already
        both = [f"{prefix.format(rank=rank)}{line}" for line in lines for rank in (1, 0)]
        alone = search(lines).fits[0]
        readings = readings_of(alone.read, both, None)
        num = len(alone.readings)
        assert (name, readings[-num:]) == (name, alone.readings)
        assert len(readings) <= num + 1  # rank 1 may tell the first before rank 0 does


@pytest.mark.parametrize("name", WANTED)
def test_the_proposed_configuration_reads_the_log_again(name: str):
    best = found_in(name)[0]
    arguments = with_program(split(best.overrides))
    parsed = OverridesParser.create().parse_overrides(arguments)
    values = {override.key_or_group: str(override.value()) for override in parsed}
    reader = open_reader(values["command.read"])
    read = [reader.read_line(line) for line in log_text(LOGS / f"{name}.log").lines]
    assert tuple(reading for reading in read if reading) == best.readings
    assert values.get("command.item", "") == best.item
    said = {reading.per_gpu for reading in best.readings if reading.has_rate}
    is_asked = values.get("command.per_gpu") == "True"
    assert {is_asked if one is None else one for one in said} <= {best.per_gpu is True}


UNFAMILIAR = {  # what is read in forms that programs print, with made-up numbers
    "Train: 0 [  50/1251 (  4%)]  Loss: 6.9 (6.9)  Time: 0.420s, 2438.10/s  (0.651s, 1573.12/s)": "2438.1/s, step 50",
    "step    2/19560 | train loss 10.9 | norm 15.2 | 1823.46 ms | 45.0% bf16 MFU | 287524 tok/s": "287524/s tokens, step 2",
    "iteration: 4 / 100 | tokens_per_sec: 217K | tokens_per_sec_per_gpu: 27.1K | lm_loss: 10.4": "217000/s tokens, step 4",
    "10.0.0.1:  samples/sec: 18.541 | iteration       20/  320000 | lm_loss: 1.08E+01 |": "18.541/s samples, step 20",
    "step 200 | loss 3.1 | 1.3k tokens/s": "1300/s tokens, step 200",
    "Rank 0: step 6, step time 1.204s, 13604 tokens/sec/GPU": "13604/s tokens of one GPU, step 6",
    "[rank 0] iter 20 | 515.33 img/s/gpu | total 2061.3 img/s": "2061.3/s images of all, step 20",
    "Finished training. Throughput: 1,234.5 images/s on 4 GPUs": "1234.5/s images",
    "train | step:   1000 | steps/sec:    5.0 | output: {'loss': 0.3}": "0.2 s, step 1000",
    "Train epoch time: 9345.678 ms, per step time: 4.984 ms": "0.004984 s",
    "(step=0000100) Train Loss: 8.1, Train Steps/Sec: 2.5": "0.4 s, step 100",
    "BenchmarkMetric: {'global step':300, 'time_taken': 9.25,'examples_per_second': 1383.5}": "1383.5/s examples, step 300",
    "Epoch: [0][10/5004]\tTime 0.350 (0.402)\tSpeed 731.224 (636.521)\tLoss 6.98 (6.99)": "731.224/s, step 10",
    "Step 100 took 0.35 s": "0.35 s, step 100",
    "Iteration 10: 0.35 s": "0.35 s, step 10",
    "step 10: loss 2.3 (350ms)": "0.35 s, step 10",
    "step: 7, s/it: 0.25, loss: 2.1": "0.25 s, step 7",
    "num_env_steps_sampled_throughput_per_sec: 1234.5": "1234.5/s",
    "time_this_iter_s: 2.79": "2.79 s",
    "step=7 train/time_step_s=0.25 train/data_time_s=0.01": "0.25 s, step 7",
    "tgs (tokens/gpu/second)=3228.48, step=3": "3228.48/s tokens of one GPU, step 3",
    '    "train_samples_per_sec": 523.2,': "523.2/s samples",
    "epoch=0/micro_step=80/global_step=10, RunningAvgSamplesPerSec=100.1, CurrSamplesPerSec=99.5": "99.5/s samples, step 10",
    "step 100 | overflow rate: 0.1 | train speed: 31.5": "31.5/s, step 100",
    "step 100 | image rate: 31.5": "31.5/s images, step 100",
    "step 100 tokens/sec: 12346.6": "12346.6/s tokens, step 100",
    "Iter 100 images/sec = 346.6": "346.6/s images, step 100",
    "epoch 1 step 100 loss 2.31 tok/s 346.6": "346.6/s tokens, step 100",
    "step=100 loss=2.31 steps/sec=3.2": "0.3125 s, step 100",
    "step 10 loss=2.31 samples/s: 346": "346/s samples, step 10",
    "0: [step 10] lr=1e-3 3.20 s/it loss 2.31": "3.2 s, step 10",
    "step: 3 grad_norm: 0.5 tokens/sec/gpu: 346 mfu: 45": "346/s tokens of one GPU, step 3",
    "step 5: 31.5 img/s 0.52 s/step 45% busy": "31.5/s images, step 5",
    "global step 100, batch: 99, avg_batch_cost: 0.1 sec, ips: 310.1 sequences/sec": "310.1/s sequences, step 100",
}


@pytest.mark.parametrize("line", UNFAMILIAR)
def test_a_line_of_an_unknown_program_gives_a_pattern(line: str):
    best = search([line]).fits[0]
    (reading,) = best.readings
    assert best.read.startswith("regex:")
    said = f"{reading.throughput:g}/s" if reading.throughput else f"{reading.step_s:g} s"
    said += f" {best.item}" if best.item else ""
    said += {None: "", True: " of one GPU", False: " of all"}[best.per_gpu]
    said += f", step {reading.step}" if reading.step is not None else ""
    assert said == UNFAMILIAR[line]


def test_numbers_that_are_padded_to_the_width_of_the_last_are_all_read():
    """PyTorch's ImageNet example."""
    lines = [f"Epoch: [0][{n:4}/5005]\tTime  0.300 ( 0.545)" for n in range(0, 5001, 10)]
    best = search(lines).fits[0]
    assert [reading.step for reading in best.readings[:2]] == [0, 10]
    assert len(best.readings) == 501


@pytest.mark.parametrize(
    "line",
    [
        "Throughput: 12.3 GB/s",
        "throughput per GPU (TFLOP/s/GPU): 412.1",
        "learning rate: 0.1, dropout rate: 0.2",
        "success_rate: 0.41, clip rate: 0.1, max speed: 31.2",
        "sample_rate: 44100, frame_rate: 25",
        "Avg generation throughput: 35.1 tokens/s",
        "eval samples/sec: 31.2",
        "Map: 100%|██████████| 45/45 [00:00<00:00, 8543.07 examples/s]",
        "took 3.2 s to load the data",
        "Step 5: saving the checkpoint took 3.2 s",
        "network throughput: 31.2",
        "step:[ 10/ 1000], train_throughput_per_npu: 150.1T",
        "9epoch:train:1-9batch: iter_time=0.1, forward_time=0.2, loss=1.5, train_time=0.4",
        "End of epoch 53 / 500000 \t Time Taken: 5.0500 sec",
        "22-12-06 08:40:17.728 - INFO: started",
    ],
)
def test_numbers_that_are_no_training_rate_are_left_alone(line: str):
    assert search([line]).fits == ()


@given(
    st.lists(
        st.text(st.sampled_from("0123456789.,:/=[]()%|{}'-+ \teEkstinepogm\""), max_size=60),
        max_size=6,
    )
)
def test_no_lines_make_the_search_fail(lines: list[str]):
    for found in search(lines).fits:
        assert open_reader(found.read)
        assert all(
            reading.throughput is None or reading.throughput > 0 for reading in found.readings
        )


def test_of_a_long_log_the_proposed_reader_reads_all_lines():
    lines = [f"step {n} | {100 + n % 7} tokens/s | loss 2.5" for n in range(5_000)]
    readings = search(lines).fits[0].readings
    assert [reading.step for reading in readings] == list(range(5_000))


def test_a_rate_in_the_midst_of_a_long_log_is_found():
    lines = [*["start"] * 3_000, *(f"step {n} | 100 tokens/s" for n in range(9)), *["end"] * 3_000]
    assert len(search(lines).fits[0].readings) == 9


def test_lines_of_validation_are_no_training():
    lines = [
        "Epoch(train)  [1][  50/7330]  time: 0.5173  data_time: 0.0203",
        "Epoch(train)  [1][ 100/7330]  time: 0.5073  data_time: 0.0103",
        "Epoch(val) [1][50/625]    eta: 0:00:20  time: 0.0373  data_time: 0.0010",
    ]
    assert [reading.step_s for reading in search(lines).fits[0].readings] == [0.5173, 0.5073]


@pytest.mark.parametrize("time", ["  time: 0.4523  data_time: 0.01", ""])
def test_the_iterations_of_mmengine_are_steps_and_its_date_is_none(time: str):
    line = (
        "05/12 10:00:{0:02} - mmengine - INFO - Iter(train) [ {0:4}/160000]  lr: 1e-3{1}  loss: 1.9"
    )
    readings = search([line.format(step, time) for step in (10, 20, 30)]).fits[0].readings
    assert [one.step for one in readings] == [10, 20, 30]
    assert readings[0].step_s == (0.4523 if time else None)


def test_a_step_may_stand_on_a_line_above_the_rate():
    lines = [
        "[step=2/9]",
        "loss=10.7",
        "tokens_per_second=45,538",
        "[step=3/9]",
        "tokens_per_second=45,368",
    ]
    readings = search(lines).fits[0].readings
    assert [(reading.step, reading.throughput) for reading in readings] == [(2, 45538), (3, 45368)]


def test_lines_with_a_step_alone_are_timed_by_their_arrival():
    lines = ["start", "step 10 loss 2.5", "step 20 loss 2.4", "valid step 7", "step 30 loss 2.3"]
    best = search(lines).fits[0]
    assert best.read == r"regex:^\s*\bstep\s*(?P<step>[\d,]+)"
    assert [reading.step for reading in best.readings] == [10, 20, 30]
    assert search(lines[:2]).fits == ()


TUTORIALS = [
    ("Train Epoch: {epoch} [{samples}/6400 ({percent}%)]\tLoss: {loss}", 640, "samples"),
    ("loss: {loss}  [{samples:>5d}/ 6400]", 640, "samples"),
    ("[{epoch}, {batch:5d}] loss: {loss}", 10, ""),
]


@pytest.mark.parametrize(("form", "per_line", "item"), TUTORIALS)
def test_the_lines_of_tutorials_of_pytorch_are_read(form: str, per_line: int, item: str):
    lines = ["Epoch 1", "-----"]
    for epoch in (1, 2):
        for n in range(1, 10):
            numbers = {"samples": 640 * n, "batch": 10 * n, "percent": 10 * n, "loss": 2.5 - n / 9}
            lines.append(form.format(epoch=epoch, **numbers))
        lines.append("Test Error: Accuracy: 50.9%, Avg loss: 2.150605")
    best = search(lines).fits[0]
    of_epoch = 10 * per_line if item else 9 * per_line
    wanted = [per_line * n for n in range(1, 10)]
    wanted += [of_epoch + per_line * n for n in range(1, 10)]
    assert [one.step for one in best.readings] == wanted
    assert best.readings[8].metrics["loss"] == pytest.approx(1.5)
    assert best.item == item
    assert best.settings.get("items_per_step") == ("1" if item else None)


def test_a_line_of_many_numbers_with_units_is_taken():
    assert search(["step 1 " + "0.5 s " * 600]).fits


def test_a_mean_over_the_run_is_read_as_such():
    lines = ["step:50/99 step_avg:43.49ms", "step:75/99 step_avg:43.5ms"]
    assert [reading.is_mean for reading in search(lines).fits[0].readings] == [True, True]


def test_a_number_that_stays_the_same_is_no_step():
    bar = "Epoch [0/1]: 5%|5 | {step}/100 [00:10<01:30, 1.05it/s, throughput={rate} samples/s]"
    lines = [bar.format(step=step, rate=100 + step) for step in (5, 6, 7)]
    readings = search(lines).fits[0].readings
    assert [(one.step, one.throughput) for one in readings] == [(5, 105), (6, 106), (7, 107)]
    lines = [f"[1/5] img/s: {rate}" for rate in (31, 32, 33)]
    assert [reading.step for reading in search(lines).fits[0].readings] == [None] * 3


def test_a_rate_between_two_steps_is_of_the_second():
    line = "TimeHistory: 9.1 seconds, {rate} examples/second between steps {step} and {step}00"
    lines = [line.format(rate=100 + step, step=step) for step in (1, 2)]
    readings = search(lines).fits[0].readings
    assert [(one.step, one.throughput) for one in readings] == [(100, 101), (200, 102)]


def test_the_smoothed_rate_of_a_bar_is_a_mean():
    lines = ["lr 0.1 at 2.0it/s", "lr 0.1 at 2.1it/s"]
    best = search(lines).fits[0]
    assert [(one.step_s, one.is_mean) for one in best.readings] == [(0.5, True), (1 / 2.1, True)]


def test_a_pattern_reads_the_loss_where_all_lines_have_it():
    losses = [reading.metrics["loss"] for reading in found_in("nanogpt_with_dates")[0].readings]
    assert losses[:3] == [3.8993, 3.8853, 4.2490]
    assert math.isnan(losses[3])
    lines = ["it 1 loss 2.5, 9 img/s", "it 2, 9 img/s"]
    assert [dict(reading.metrics) for reading in search(lines).fits[0].readings] == [{}, {}]


@pytest.mark.parametrize("unfinite", ["nan", "NaN", "-inf"])
@pytest.mark.parametrize("line", ["step {} loss {} 100 img/s", "step {} 100 img/s, loss={}"])
def test_lines_whose_loss_is_no_number_any_more_are_read(line, unfinite):
    """A bug: their pattern knew numbers alone, so that nobody saw that a loss went."""
    losses = ["0.25"] * 5 + [unfinite] * 5
    best, *_ = search([line.format(*each) for each in enumerate(losses)]).fits
    read = [reading.metrics["loss"] for reading in best.readings]
    assert [math.isfinite(loss) for loss in read] == [True] * 5 + [False] * 5


def test_json_is_read_as_json_and_not_by_a_pattern():
    best, other = search(['{"step": 10, "tokens_per_second": 12034.5}']).fits
    assert (best.read, other.read.partition(":")[0]) == ("json", "regex")


def test_tgs_is_of_one_gpu():
    assert search(["step: 3, tgs: 3228"]).fits[0].settings["per_gpu"] == "true"
