"""What the readers of known programs take from their lines and files."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from scalemark.readers.opening import ReadError, Reading, open_reader
from scalemark.readers.search import search


def read(kind: str, *lines: str) -> list[Reading]:
    reader = open_reader(kind)
    return [reading for line in lines if (reading := reader.read_line(line))]


def left(kind: str, **files: object) -> list[Reading]:
    """What a reader finds in files of the current folder; `a__b` is b in the folder a."""
    for name, content in files.items():
        path = Path(*name.split("__")).with_suffix(".json")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return list(open_reader(kind).read_files(Path.cwd()))


def test_a_metric_of_thousands_is_of_as_many_items():
    (reading,) = read("metric:ktokens_per_s", "METRIC step=5 ktokens_per_s=4.5")
    assert (reading.step, reading.throughput) == (5, 4500)


def test_metric_lines_have_pairs():
    assert read("metric", "x METRIC throughput=1,200.5 step=10 loss=2.5 item=tokens", "loss=3") == [
        Reading(throughput=1200.5, step=10, item="tokens", metrics={"loss": 2.5})
    ]


def test_metric_takes_the_name_that_is_the_throughput():
    assert read("metric:img_s", "METRIC img_s=512", "METRIC loss=0.5") == [
        Reading(throughput=512),
        Reading(metrics={"loss": 0.5}),
    ]


def test_json_finds_the_rate_and_the_step():
    lines = ('{"step": 10, "loss": 2.1, "tokens_per_second": 12034.5}', "not json", "{broken")
    assert read("json", *lines) == [
        Reading(throughput=12034.5, step=10, item="tokens", metrics={"loss": 2.1})
    ]


def test_json_takes_dotted_names_after_any_text():
    lines = ('0: DLLL {"step": [2, 79], "data": {"train_throughput": 9120, "ok": true}}',)
    assert read("json:key=data.train_throughput", *lines) == [Reading(throughput=9120, step=79)]
    assert read("json", *lines) == [Reading(throughput=9120, step=79)]


def test_json_reads_the_time_of_a_step():
    assert read("json:step_ms=ms,step=n", '{"n": 3, "ms": 250}') == [Reading(step=3, step_s=0.25)]


@pytest.mark.parametrize(
    "content",
    ['{"n": 1, "rate": 5}\n{"n": 2, "rate": 6}\n', '[{"n": 1, "rate": 5}, {"n": 2, "rate": 6}]'],
)
def test_json_reads_a_file_of_lines_or_of_a_list(content: str):
    readings = left("json:out/metrics.json,key=rate,step=n", out__metrics=content)
    assert [(one.step, one.throughput) for one in readings] == [(1, 5), (2, 6)]


def test_json_of_a_file_takes_no_lines_and_names_what_is_missing():
    assert read("json:metrics.json", '{"throughput": 5}') == []
    with pytest.raises(ReadError, match=r"found no file metrics\.json .* to \{run_dir\}/metrics"):
        left("json:metrics.json")
    with pytest.raises(ReadError, match="has no foo; there are rate, step"):
        left("json:metrics.json,key=foo", metrics='{"step": 1, "rate": 5}')


def test_json_takes_the_step_that_is_whole():
    line = '{"epoch": 1, "update": 0.081, "loss": "12.3", "wps": "123.5", "num_updates": "100"}'
    (reading,) = read("json", line)
    assert (reading.step, reading.throughput, reading.item) == (100, 123.5, "words")


def test_a_total_of_all_gpus_is_no_total_of_the_run():
    line = '{{{step}"total_tokens_per_sec": {rate}}}'
    readings = read("json", *(line.format(step=f'"step": {n}, ', rate=n) for n in (1, 2)))
    assert [(one.step, one.is_total, one.per_gpu) for one in readings] == [
        (1, False, False),
        (2, False, False),
    ]
    readings = read("json", *(line.format(step="", rate=n) for n in (1, 2)))
    assert [one.is_total for one in readings] == [True, False]


def test_the_throughput_of_llama_factory_is_a_mean():
    before = "[INFO|2025-01-01 12:00:00] llamafactory.train.callbacks:157 >> "
    values = "'loss': 1.25, 'learning_rate': 4.9e-05, 'epoch': 0.02, 'throughput': 2345.5"
    (reading,) = read("hugging_face", f"{before}{{{values}}}")
    assert (reading.throughput, reading.is_mean, reading.item) == (2345.5, True, "tokens")
    (reading,) = read("json", '{"current_steps": 10, "total_steps": 90, "throughput": 2345.5}')
    assert (reading.throughput, reading.is_mean, reading.item) == (2345.5, True, "tokens")
    assert reading.step == 10


def test_the_tokens_that_a_trainer_has_seen_are_of_all_gpus():
    seen = (
        "'num_input_tokens_seen': 10240, 'train_runtime': 10.2, 'train_tokens_per_second': 1003.9"
    )
    midst, end = read(
        "hugging_face",
        f"{{'loss': 1.1, 'learning_rate': 4.8e-05, 'epoch': 0.04, {seen}}}",
        f"{{{seen}, 'train_samples_per_second': 4.0, 'train_loss': 1.1}}",
    )
    assert (midst.throughput, midst.item, midst.per_gpu) == (1003.9, "tokens", False)
    assert (midst.is_mean, midst.is_total) == (True, False)
    assert (end.throughput, end.item, end.is_total) == (4.0, "samples", True)


def test_a_total_of_the_trainer_is_no_other_field_of_its_line():
    values = "'train_runtime': 225.8, 'train_samples_per_second': 5, 'throughput': 1000"
    (reading,) = read("hugging_face", f"{{{values}}}")
    assert (reading.throughput, reading.item, reading.is_total) == (5, "samples", True)


BOTH = (
    "{'train_runtime': 225.8, 'train_samples_per_second': 3.543, 'train_steps_per_second': 0.443, "
    "'train_tokens_per_second': 7168.0, 'train_loss': 1.2}"
)


@pytest.mark.parametrize(
    ("item", "throughput", "per_gpu"),
    [("", 3.543, False), ("samples", 3.543, False), ("tokens", 7168, True), ("tok", 7168, True)],
)
def test_the_wanted_item_chooses_among_totals(item: str, throughput: float, per_gpu: bool):
    reading = open_reader("hugging_face", item).read_line(BOTH)
    assert reading
    assert (reading.throughput, reading.per_gpu) == (throughput, per_gpu)


@pytest.mark.parametrize(
    ("line", "throughput"),
    [
        ('{"throughput": 5120, "samples_per_second": 5}', 5120),
        ('{"mean_tokens_per_s": 8000, "tokens_per_s_per_gpu": 1001}', 8000),
    ],
)
def test_json_takes_the_first_rate_that_is_of_all_gpus(line: str, throughput: float):
    (reading,) = read("json", line)
    assert (reading.throughput, reading.per_gpu) == (throughput, None)


def test_the_wanted_item_chooses_among_rates():
    line = '{"step": 1, "samples_per_sec": 8, "tokens_per_sec": 8192}'
    reading = open_reader("json", "tokens").read_line(line)
    assert reading
    assert (reading.throughput, reading.item) == (8192, "tokens")


def test_the_end_of_a_trainer_says_the_samples_of_a_step():
    end = "{{'train_runtime': 100.0, 'train_samples_per_second': {}, 'train_steps_per_second': {}}}"
    (reading,) = read("hugging_face", end.format(40.0, 0.625))
    assert reading.items_per_step == 64
    (reading,) = read("hugging_face", end.format(1.28, 0.02))  # 0.0195 to 0.0205
    assert reading.items_per_step is None
    bar = "100%|#| 2/2 [01:40<00:00, 50.0s/it]"
    assert [one.items_per_step for one in read("hugging_face", bar, end.format(1.28, 0.02))] == [
        None,
        64,
    ]
    batch = "  Total train batch size (w. parallel, distributed & accumulation) = 60"
    readings = read("hugging_face", batch, end.format(40.0, 0.625))
    assert [one.items_per_step for one in readings] == [60, None]


def test_the_tokens_of_a_step_are_of_one_gpu():
    reader = open_reader("hugging_face", "tokens")
    assert reader.read_line("Total train batch size (w. parallel) = 60") is None
    reading = reader.read_line(BOTH)
    assert reading
    assert (reading.items_per_step, reading.per_gpu) == (pytest.approx(7168 / 0.443), True)


def test_a_nan_of_json_is_no_throughput():
    assert read("json:key=rate", '{"rate": NaN}') == [Reading(unusable="nan")]


def test_the_batch_above_the_steps_is_read():
    said = "  Total train batch size (w. parallel, distributed & accumulation) = 1,024"
    (reading,) = read("hugging_face", f"[INFO|trainer.py:2409] 2026-11-23 05:26:17,001 >> {said}")
    assert reading == Reading(items_per_step=1024, item="samples", per_gpu=False)


def test_the_trainer_of_hugging_face_says_its_total_in_lines_or_files():
    line = "{'train_runtime': '225.8', 'train_samples_per_second': '3.543', 'train_loss': '1.2'}"
    metrics = {"train_runtime": 225.8, "train_loss": 1.2}
    wanted = Reading(
        throughput=3.543, is_total=True, item="samples", per_gpu=False, metrics=metrics
    )
    assert read("hugging_face", line) == [wanted]
    values = {**metrics, "train_samples_per_second": 3.543}
    assert left("hugging_face", out__all_results=values) == [wanted]


def test_the_state_of_a_trainer_is_read_where_there_are_no_results():
    history = [
        {"loss": 2.0, "step": 10},
        {"train_runtime": 9, "train_samples_per_second": 7, "step": 20},
    ]
    (reading,) = left("hugging_face", run__trainer_state={"log_history": history})
    assert (reading.throughput, reading.is_total) == (7, True)


def test_checkpoints_that_are_removed_meanwhile_are_passed_over():
    Path("all_results.json").write_text('{"train_samples_per_second": 3}')
    rotating = "while :; do mkdir -p ck/1/a/b/c ck/2/a/b/c; rm -rf ck/*; done"
    program = subprocess.Popen(["sh", "-c", rotating])
    try:
        for _ in range(1000):
            (reading,) = open_reader("hugging_face").read_files(Path.cwd())
            assert reading.throughput == 3
    finally:
        program.kill()
        program.wait()


def test_files_of_a_trainer_do_not_repeat_its_lines():
    Path("all_results.json").write_text('{"train_samples_per_second": 3}')
    reader = open_reader("hugging_face")
    assert reader.read_line("{'train_runtime': 2.0, 'train_samples_per_second': 3.5}")
    assert list(reader.read_files(Path.cwd())) == []


def test_the_metrics_that_a_trainer_prints_in_a_table_are_read():
    assert read("hugging_face", "  train_samples_per_second =     31.023") == [
        Reading(throughput=31.023, is_total=True, item="samples", per_gpu=False)
    ]


def test_keras_counts_steps_over_epochs_and_leaves_evaluate_out():
    lines = (
        "Epoch 1/2",
        "  1/10 [=>............] - ETA: 7s - loss: 24.0",
        "10/10 [=============] - 1s 7ms/step - loss: 8.0",
        "10/10 [=============] - 1s 9ms/step - loss: 8.0 - val_loss: 7.0",
        "Epoch 2/2",
        " 5/10 ━━━━━━━━━━━━━━━━━━━━ 0s 4ms/step - loss: 0.5",
        "10/10 ━━━━━━━━━━━━━━━━━━━━ 0s 4ms/step - loss: 0.4",
        "20/20 ━━━━━━━━━━━━━━━━━━━━ 0s 2ms/step - loss: 0.4",
    )
    readings = read("keras", *lines)
    assert [(one.step, one.step_s) for one in readings] == [
        (1, None),
        (10, 0.007),
        (15, 0.004),
        (20, 0.004),
    ]
    assert readings[1].metrics == {"loss": 8.0}


def keras_bars(*steps: int) -> list[str]:
    return [f"{step}/100 [=====>......] - 1s 7ms/step" for step in steps]


def test_ranks_of_keras_that_change_their_epoch_later_are_not_counted_twice():
    lines = [
        *("Epoch 1/3", *keras_bars(1), "Epoch 1/3", *keras_bars(1, 50, 49, 99, 100)),
        *("Epoch 2/3", *keras_bars(98, 1, 100), "Epoch 2/3", *keras_bars(1, 60, 60, 99, 100, 98)),
        *("Epoch 3/3", *keras_bars(100), "Epoch 3/3", *keras_bars(100, 100)),
    ]
    wanted = [1, 50, 99, 100, 101, 160, 199, 200, 300]
    assert [one.step for one in read("keras", *lines)] == wanted


def test_each_fit_of_keras_begins_an_epoch():
    lines = ["Epoch 1/1", *keras_bars(50, 100), "Epoch 1/1", *keras_bars(50, 100)]
    other = ["Epoch 1/1", "40/40 [====] - ETA: 0s - loss: 0.2", "40/40 [====] - 1s 7ms/step"]
    readings = read("keras", *lines, *other, "90/90 [====] - 1s 3ms/step")
    assert [one.step for one in readings] == [50, 100, 150, 200, 240]
    assert readings[-1].step_s == pytest.approx(0.007)


@pytest.mark.parametrize(
    ("line", "step", "step_s"),
    [
        ("391/391 - 135s - loss: 5.5949", 391, 135 / 391),
        ("313/313 - 1s - 2ms/step - accuracy: 0.9795", 313, 0.002),
        ("313/313 - 1s - loss: 0.2 - 1s/epoch - 4ms/step", 313, 0.004),
        ("782/782 [====] - 1s 735us/step - loss: 0.01", 782, 735e-6),
        ("    938/Unknown - 31s 33ms/step - loss: 0.2", 938, 0.033),
        ("     20/Unknown 6s 59ms/step - loss: 0.2", 20, 0.059),
    ],
)
def test_keras_reads_the_forms_of_its_versions(line: str, step: int, step_s: float):
    (reading,) = read("keras", line)
    assert (reading.step, reading.step_s) == (step, pytest.approx(step_s))


def test_old_keras_counted_samples():
    (reading,) = read("keras", "60000/60000 [=======] - 5s 80us/sample - loss: 0.2")
    assert (reading.throughput, reading.item) == (pytest.approx(12500), "samples")


BLOCK = ':::MLLOG {{"time_ms": {time_ms}, "key": "{key}", "value": null, "metadata": {{"samples_count": {samples}}}}}'


def test_mlperf_counts_samples_of_blocks_where_no_throughput_is_logged():
    lines = (
        BLOCK.format(time_ms=1000, key="block_start", samples=2688),
        BLOCK.format(time_ms=3000, key="block_stop", samples=3072),
    )
    assert read("mlperf", *lines) == [
        Reading(throughput=192, time_s=3, item="samples", per_gpu=False)
    ]


def test_mlperf_says_how_long_a_run_took():
    lines = (
        ':::MLLOG {"time_ms": 1000, "key": "run_start"}',
        ':::MLLOG {"time_ms": 61000, "key": "run_stop"}',
    )
    assert read("mlperf", *lines) == [Reading(time_s=61, metrics={"time_to_train_s": 60})]


def test_tqdm_follows_the_training_bar_over_epochs():
    lines = (
        "Loading checkpoint shards: 100%|██████████| 2/2 [00:04<00:00,  2.04s/it]",
        "Epoch 0:   0%|          | 0/4 [00:00<?, ?it/s]",
        "Epoch 0:  50%|█████     | 2/4 [00:01<00:01,  2.00it/s, loss=2.5, v_num=3]",
        "Epoch 0:  50%|█████     | 2/4 [00:01<00:01,  2.00it/s, loss=2.4, v_num=3]",
        "Validation DataLoader 0: 100%|██████████| 9/9 [00:00<00:00, 300it/s]",
        "Epoch 0: 100%|██████████| 4/4 [00:04<00:00,  1.60s/it]",
        "Epoch 1: 100%|██████████| 4/4 [00:04<00:00,  1.50s/it]",
    )
    readings = read("tqdm", *lines)
    assert [(one.step, one.step_s) for one in readings] == [(2, 0.5), (4, 1.6), (8, 1.5)]
    assert readings[0].metrics == {"loss": 2.5, "v_num": 3}


@pytest.mark.parametrize(
    ("name", "is_read"),
    [
        *[
            (name, True)
            for name in ("heatmap net", "tokens", "latest epoch", "retrieval", "payload")
        ],
        *[(name, False) for name in ("Map", "Tokenizing", "val", "Loading shards", "test_set")],
        *[(name, False) for name in ("SanityChecking", "Saving", "Evaluation", "class AP")],
    ],
)
def test_a_bar_is_of_something_else_by_whole_words_of_its_name(name: str, is_read: bool):
    readings = read("tqdm", f"{name}: 50%|#####     | 2/4 [00:01<00:01,  2.00it/s]")
    assert bool(readings) is is_read


def test_a_time_is_no_steps_by_whole_words_of_its_line():
    for word, num in (("retrieval", 1), ("payload", 1), ("evaluation", 0), ("upload", 0)):
        fits = search(
            [f"{word} | step {step} | time: 0.{3 + step % 2} s" for step in range(1, 9)]
        ).fits
        assert (word, len([fit for fit in fits if fit.rated])) == (word, num)


@pytest.mark.parametrize("mark", ["", "Epoch {epoch}: "])
@pytest.mark.parametrize(
    "prefix", ["", "[default{rank}]:", "[rank{rank}]: ", "{rank}: ", "[1,{rank}]<stderr>:"]
)
def test_bars_of_two_ranks_count_once(mark: str, prefix: str):
    ahead = [(0, epoch, done) for epoch in range(3) for done in range(41)]
    behind = [(1, epoch, done) for epoch in range(3) for done in range(41)]
    lines = []
    for pair in zip([*ahead, *ahead[-3:]], [*behind[:3], *behind], strict=True):
        for rank, epoch, done in pair:
            before = prefix.format(rank=rank) + mark.format(epoch=epoch)
            lines.append(f"{before} 50%|###  | {done}/40 [00:10<00:10, 4.00it/s]")
    steps = [one.step for one in read("tqdm", *lines)]
    assert steps == list(range(1, 121))


def test_a_bar_that_begins_anew_before_its_epoch_is_named_counts_once():
    lines = [
        "Epoch 0: 100%|██████████| 200/200 [00:01<00:00, 159.76it/s, train_loss=0.0119]",
        "Epoch 0:   0%|          | 0/200 [00:00<?, ?it/s, train_loss=0.0119]",  # Lightning 2.6
        "Epoch 1:   0%|          | 0/200 [00:00<?, ?it/s, train_loss=0.0119]",
        "Epoch 1:  25%|██▌       | 50/200 [00:00<00:02, 72.72it/s, train_loss=0.01]",
    ]
    assert [one.step for one in read("tqdm", *lines)] == [200, 250]


def test_a_rank_that_lags_by_a_step_begins_no_epoch():
    lines = [f" 1%|#  | {done}/1000 [00:10<00:10, 4.00it/s]" for done in (10, 9, 11, 10, 12, 11)]
    assert [one.step for one in read("hugging_face", *lines)] == [10, 11, 12]


@pytest.mark.parametrize(
    ("lines", "steps", "step_s"),
    [
        (("1500it [00:15, 100.0it/s]", "1600it [00:16, 100.0it/s]"), [1500, 1600], 0.01),
        (
            ("Epoch 0: | | 150/? [0<?, 20it/s]", "Epoch 1: | | 9/150 [0<1, 20it/s]"),
            [150, 159],
            0.05,
        ),
        (("Steps: 15%|#| 1.50k/10.0k [00:15<01:13, 100it/s]",), [1500], 0.01),
        (("Steps: 1%|#| 10.0it/100it [00:15<01:13, 2.5it/s]",), [10], 0.4),
        (("Progress on:train 1.46kit/10.0kit rate:2.5it/s postfix:loss=3.6",), [1460], 0.4),
        (("0: Progress on:train 8.00it/10.0kit rate:- remaining:?",), [], None),
    ],
)
def test_a_bar_counts_without_a_total_and_in_thousands(
    lines: tuple[str, ...], steps: list[int], step_s: float | None
):
    readings = read("tqdm", *lines)
    assert [one.step for one in readings] == steps
    assert all(one.step_s == pytest.approx(step_s) for one in readings)


@pytest.mark.parametrize("before", ["Steps: ", "1|{}|Loss: 1.25: ", "loss 2.{}: "])
def test_numbers_before_a_bar_are_no_epoch(before: str):
    bar = "{}%|#{}   | {}/10 [00:03<00:07, 1.0it/s]"
    lines = [before.format(n) + bar.format(n * 10, n, n) for n in (3, 4, 5)]
    assert [one.step for one in read("tqdm", *lines)] == [3, 4, 5]


def test_a_bar_that_counts_epochs_counts_no_steps():
    inner = "train: 50%|#| 50/100 [00:05<00:05, 10.0it/s]"
    readings = read("tqdm", "Epochs: 1%|#| 1/90 [00:10<10:00, 10.1s/it]", inner)
    assert [(reading.step, reading.step_s) for reading in readings] == [(50, 0.1)]


def test_a_bar_may_count_images():
    lines = [f"Epoch 1/5: 10%|#| {done}/5000 [00:50<07:30, 10.0img/s]" for done in (500, 510)]
    assert search(lines).fits[0].read == "bars"
    reading = Reading(throughput=10, items_per_step=1, is_mean=True, item="images")
    assert read("tqdm", *lines) == [replace(reading, step=500), replace(reading, step=510)]
    (slow,) = read("tqdm", "Epoch 1/5: 10%|#| 5/50 [00:50<07:30, 4.0s/img]")
    assert slow.throughput == 0.25


@pytest.mark.parametrize(
    "line",
    [
        "Adding EOS to train dataset: 100%|#| 1000/1000 [00:00<00:00, 5000.0 examples/s]",
        "Step 50/550; acc: 5.32; 53166/56374 tok/s; 44 sec",
        "weights: 45%|#| 45.0M/100M [00:01<00:01, 31.2MB/s]",
        "loss 0.5/3.25it/s",
        "it" + " " * 1990 + "/s",  # a pattern with several repeats of spaces would not end
    ],
)
def test_what_counts_something_else_is_no_bar(line: str):
    assert read("tqdm", line) == []


def test_a_rank_that_ends_its_epoch_late_begins_no_other():
    pattern = r"\[(?P<epoch>\d+)\] (?P<step>\d+) (?P<throughput>\d+)"
    lines = ("[0] 9 5", "[0] 9 5", "[1] 1 5", "[0] 10 5", "[1] 2 5")
    assert [one.step for one in read(f"regex:{pattern}", *lines)] == [9, 10, 11]


def test_a_bar_of_lightning_by_rich_is_read():
    lines = [
        "Sanity Checking ━━━━━━━╸━━━━━━ 1/2 0:00:00 • -:--:-- 0.00it/s ",
        "Epoch 0/1  ━╺━━━━━━━━━━━━ 4/20 0:00:01 • 0:00:04 4.00it/s train_loss: 0.072",
        "Epoch 0/1  ━━━━━━━━━━━━━━ 20/20 0:00:05 •        5.00it/s train_loss: 0.006",
        "Validation ━━━━╺━━━━━━━━━ 5/20    0:00:00 •       438.00it/s",
        "Epoch 0/1  ━━━━━━━━━━━━━━ 20/20 0:00:05 •        5.00it/s train_loss: 0.006",
        "Epoch 1/1  ━━━━━━━━━━━━━━ 10/20 0:00:02 • 0:00:02 8.00it/s train_loss: 0.004",
    ]
    found = search(lines).fits[0]
    assert found.read == "bars"
    assert [(one.step, one.step_s) for one in found.readings] == [(4, 0.25), (20, 0.2), (30, 0.125)]
    assert found.readings[-1].metrics == {"train_loss": 0.004}


def test_tqdm_takes_the_bars_with_a_text():
    lines = [f"{name}: 50%|█| 2/4 [00:01<00:01,  4.00it/s]" for name in ("Warming", "Run")]
    assert [one.step_s for one in read("tqdm:Run", *lines)] == [0.25]
