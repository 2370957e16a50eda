"""Numbers that were read wrong: each log with what its lines say, or that they cannot tell."""

import time
from pathlib import Path

import pytest

from scalemark.readers.log_text import log_text
from scalemark.readers.opening import ReadError, open_reader
from scalemark.readers.search import search

CASES = Path(__file__).parent / "cases"
RIGHT = {  # rates or times per step, steps, item, whether they are of one GPU
    "apostrophe.log": ([1234.5, 1240.1, 1241.1], [10, 20, 30], "images", None),
    "bars_of_16_ranks.log": ([1.147], [1, 2, 3, 4], "samples", False),
    "colossalchat.log": ([118.42], [], "samples", False),
    "dataloader_model.log": ([1912, 1913, 1911], [10, 20, 30], "samples", None),
    "detectron2_then_bar.log": ([2.1912, 2.1675, 2.1442], [19, 39, 59], "", None),
    "dglke.log": ([0.00726, 0.0076, 0.00726, 0.00732], [1900, 2000, 2100, 2200], "", None),
    "elapsed_and_speed.log": ([497.5, 1000, 1000], [100, 200, 300], "images", None),
    "flair.log": ([139.12, 151.9, 163.26], [15, 30, 45], "samples", None),
    "gnmt_mlperf06.log": ([11990, 89553, 98103, 84030], [0, 10, 20, 30], "tokens", None),
    "keras_us_per_step.log": ([52631.6, 66666.7], [58500, 117000, 175500], "samples", None),
    "lightning_metrics.csv": ([514.6, 517.1, 519.7], [49, 99, 149], "samples", None),
    "lightning_throughput_monitor.log": ([514.6, 517.1, 519.7], [], "samples", None),
    "local_global.log": ([8096, 8104, 8088], [10, 20, 30], "samples", False),
    "maskrcnn_mlperf06.log": ([0.3149, 0.3171], [20, 40], "", None),
    "megatron_global_batch.log": ([0.087, 0.0865, 0.0884], [25, 26, 27], "", None),
    "mmcv.log.json": ([0.97546, 0.86075, 0.83724], [100, 200, 300], "", None),
    "rl_games_new.log": ([181660, 185195, 198211], [376, 377, 378], "frames", False),
    "rl_games_old.log": ([78179.2, 79179.9, 78379.1], [], "frames", False),
    "rollout_train.log": ([2964.3, 2964.5, 2964.4], [50, 100, 150], "", None),
    "rsl_rl.log": ([36373, 36512, 36481], [10, 11, 12], "timesteps", None),
    "sample_factory.log": ([21299.2, 22528.2, 23142.4], [], "frames", None),
    "sb3.log": ([2730.67, 1224.8, 1170.29], [1, 17, 18], "frames", None),
    "space_thousands.log": ([12345, 12410, 12400], [10, 20, 30], "tokens", None),
    "stylegan.log": ([2.6016, 5.7257, 5.7267, 5.7251], [], "images", None),
    "target_peak.log": ([91234, 91250, 91270], [10, 20, 30], "tokens", None),
    "time_per_100_steps.log": ([0.352, 0.351, 0.353], [100, 200, 300], "", None),
    "trainer_state.json": ([26.3], [], "samples", False),
    "utf16.log": ([12345.6, 12400.1, 12398.7], [10, 20, 30], "tokens", None),
    "verl.log": ([114.89, 114.49], [1, 2], "tokens", True),
    "wandb-summary.json": ([26.3], [16], "samples", None),
    "warm_up_stage.log": ([812.3, 812.9, 812.5], [1, 2, 3], "samples", None),
    "xtuner.log": ([3833.9, 3977.2, 3865, 3884.6, 3878.9], [1, 2, 3, 4, 5], "tokens", True),
}


def test_every_case_is_in_the_table():
    assert {path.name for path in CASES.iterdir()} == set(RIGHT)


@pytest.mark.parametrize("name", RIGHT)
def test_a_number_that_was_read_wrong_is_read_right(name: str):
    rates, steps, item, per_gpu = RIGHT[name]
    result = search(log_text(CASES / name).lines, CASES / name)
    best = result.fits[0]
    rated = [one for one in best.rated if one.throughput or not rates[0] > 1 or not item]
    assert not result.is_unsure
    assert [one.throughput or one.step_s for one in rated][: len(rates)] == pytest.approx(
        rates, rel=1e-3
    )
    assert [one.step for one in best.readings if one.step is not None][: len(steps)] == steps
    assert any(one.step is not None for one in best.readings) == bool(steps)
    assert (best.item, best.per_gpu) == (item, per_gpu)


PRINTED = [  # lines of a kind that was read wrong: rates or times per step, and whether of one GPU
    ("iter {n} loss 2.1 step: {n} (3.5{n} s per 100 iterations)", [], None),
    ("steps: {n} loss: 10.8 iter time (s): 13.92 samples/sec: 18.3{n}", [18.31, 18.32, 18.33], None),
    ("step {n}: 31{n} images/sec/GPU (249{n} images/sec)", [311, 312, 313], True),
    ("step: {n} | consumed_tokens: {n}.05M | tokens_per_sec: 853{n}", [8531, 8532, 8533], None),
    # no rates of training: percentages, of learning, of epochs and days, of parts of a step
    ("iter {n}0: loss 2.1, mfu 31.{n}%, speed 31.{n}%", [], None),
    ("iter {n}0 loss 2.1 rate 0.000{n}", [], None),
    ("Epoch {n}/8, train loss 2.1, took 62.{n} seconds", [], None),
    ("step {n}0 loss 2.1 speed 1.{n} h/epoch", [], None),
    ("step {n}0 loss 2.1 throughput: 1.{n} B tokens/day", [], None),
    ("step {n}0 forward 0.10{n}s optimizer_step_time 0.03{n}s loss 2.1", [], None),
    ("step {n} actor 1{n} samples/s critic 2{n} samples/s", [], None),
    ("[2024-01-01 10:00:{n}0] step {n}00 loss 2.1 time 10.0{n}s", [], None),  # of 100 steps
    ("step {n}0 loss 1.2 speed 1.{n}x, update rate {n} Hz", [], None),
    ("step {n}0 bus bandwidth 50{n} GB/s, throughput 50{n} Gbps", [], None),
    ("step {n}0 gc time 0.{n}s, wait time 0.{n}s, est. time 47{n}.1s", [], None),
    ("step {n}0 loss 2.1 12.{n} s/epoch, 17.{n} s/tick", [], None),
    # of one GPU, or of several that are not all
    ("step {n}: samples/s/HPU 10{n}, 10{n}.5 samples/s/H100", [101, 102, 103], True),
    ("step {n}: samples/s: 10{n} (this rank)", [101, 102, 103], True),
    ("step {n}0 loss 2.1 throughput 100{n} tokens/s (each GPU)", [1001, 1002, 1003], True),
    ("step={n}0 loss=2.1 examples/sec/replica=12{n}", [121, 122, 123], True),
    ("step {n}0 loss 2.1 120{n} samples/s/node", [], None),
    ("Progress: {n}2.5% words/sec/thread: 10520{n} lr: 0.08 avg.loss: 2.1", [], None),
    ("step {n} total throughput per rank: 25{n} samples/s", [251, 252, 253], True),
    ("step {n} overall token per gpu per sec: 25{n}", [251, 252, 253], True),
    ("step {n} throughput (mean over ranks) 25{n} img/s", [251, 252, 253], True),
    ("step {n} 8-GPU throughput: 200{n} img/s", [2001, 2002, 2003], False),
    ("step {n} loss 2.1 1-GPU throughput: 25{n} img/s", [], None),
    ("step {n} throughput 8 x 25{n} img/s", [], None),
    ("step {n} throughput 25{n} x 8 img/s", [], None),
    ("step {n}0 | 10{n}.5 img/s/GPU | 81{n}.0 img/s", [811, 812, 813], None),
    ("step {n}: 51{n} samples/s on this GPU, 408{n} samples/s on all 8 GPUs", [4081, 4082, 4083], None),
    # of videos and queues, of one step or of several, and epochs beside steps
    ("step {n}0 loss 2.{n} fps 24", [], None),
    ("clip{n}.mp4 fps=25 step {n} loss 2.1", [], None),
    ("step {n} queue throughput 340{n} samples/s", [], None),
    ("step {n}00 loss 2.1 time 10.{n}s", [], None),
    ("step={n} tgs (tokens/gpu/second)=25{n} num_consumed_tokens={n}000", [251, 252, 253], True),
    # of training beside others
    ("building index: {n}000 samples, 81{n} samples/s", [], None),
    ("Time for inference {n}: 2.{n} sec total, 98.{n} tokens/sec", [], None),
    ("warmup step {n}: 20{n} img/s\nstep {n}: 81{n} img/s", [811, 812, 813], None),
    ("Epoch 1 | Train | step {n} | 81{n} samples/s\nEpoch 1 | Validation | step {n} | 310{n} samples/s", [811, 812, 813], None),
    ("epoch 0 step {n} throughput 81{n} samples/s\ntest epoch 0 step {n} throughput 310{n} samples/s", [811, 812, 813], None),
    ("experience: {n}0%|#| {n}/9 [00:30<00:10, 1.9{n}s/it]\nTrain: {n}0%|#| {n}/9 [00:10<00:10, 1.3{n}s/it]", [1.31, 1.32, 1.33], None),
    ("step {n}0 loss 2.1 net 12.1 GB/s 81{n}.5 samples/s", [811.5, 812.5, 813.5], None),
    ("step {n} · 8{n}2.5 img/s · 4096 tokens · loss 2.1", [812.5, 822.5, 832.5], None),
    ("step {n} 3.{n} it/s – 16 imgs", [1 / 3.1, 1 / 3.2, 1 / 3.3], None),
    ("step {n} model 8{n}12 img/s e2e 7{n}12 img/s", [7112, 7212, 7312], False),
    ("step {n} model 8{n}12 img/s | end-to-end 7{n}12 img/s", [7112, 7212, 7312], False),
    # windows, steps and thousands beside the rate
    ("Frames/s (5s avg) 51{n}.5, loss 2.1", [511.5, 512.5, 513.5], None),
    ("step {n}00 samples/s (cumulative) 59{n}.3", [591.3, 592.3, 593.3], None),
    ("Step {n}00: Ran 100 train steps in 12.{n} secs", [0.121, 0.122, 0.123], None),
    ("step {n} sec per 1000 images: 2{n}", [1000 / 21, 1000 / 22, 1000 / 23], None),
    ("step {n}0 reader_cost: 6.0 s batch_cost: 6.{n} s samples: 5632 ips: 81{n}.5", [811.5, 812.5, 813.5], None),
    ("step {n}00 loss 1.{n} time/100 steps: 35.{n}s", [0.351, 0.352, 0.353], None),
    ("time_per_100_iters: 35.{n}, iter: {n}00", [0.351, 0.352, 0.353], None),
    ('{{"iter": {n}00, "time_per_100_iters": 35.{n}}}', [0.351, 0.352, 0.353], None),
    # whose batch counts others
    ("iter {n}0 | consumed samples: {n}40 | tok/s: 819{n} | global batch size: 64", [8191, 8192, 8193], None),
    # under short names, and in words
    ("Steps {n}02400 @ 512{n}.1 SPS. Loss 12.1", [5121.1, 5122.1, 5123.1], None),
    ("step {n}00 lr 1 step-time 0.13s wps 45.3{n}K ppl 80{n}.1", [45310, 45320, 45330], None),
    ("step {n}0 running at 2.{n} steps per second", [1 / 2.1, 1 / 2.2, 1 / 2.3], None),
    # decimal commas, where nothing else may be meant, and thousands in units
    ("step {n}0 loss 2,1{n} 9.92{n},3 samples/s", [9921.3, 9922.3, 9923.3], None),
    ("step {n}0 loss 2,1{n} 12,56{n} samples/s", [], None),
    ("step {n}0 loss 2.1 12.{n} k images/s", [12100, 12200, 12300], None),
    ("step {n}0 loss 2.1 KTok/s: 12.{n}", [12100, 12200, 12300], None),
    ("step {n}0 throughput (k tok/s): 12.{n}", [12100, 12200, 12300], None),
    ("step {n}0 tokens/s (thousands): 12.{n}", [12100, 12200, 12300], None),
    ("step {n}0 throughput: 12.{n} [10^3 tok/s]", [], None),
    ('{{"step": {n}0, "k_tokens_per_sec": 4.{n}}}', [4100, 4200, 4300], None),
    ('{{"step": {n}0, "train": {{"tokens/s (k)": 4.{n}}}}}', [4100, 4200, 4300], None),
    ("Étape {n} : perte 2,1{n} ; débit : 1 21{n},5 images/s", [1211.5, 1212.5, 1213.5], None),
    # behind another number, and before the step
    ("Up. {n} : Time 9.{n}s : 81{n}.12 words/s : gNorm 1.{n}", [811.12, 812.12, 813.12], None),
    ("step {n} 51.{n} TFLOPs 81{n} toks/s", [811, 812, 813], None),
    ("step {n} consumed samples {n}280 img/s/gpu 204.{n} tflops 119.71 mem 3", [204.1, 204.2, 204.3], True),
    ("step {n} fps 81{n} mem 12{n} total 99{n}", [811, 812, 813], None),
    ("{n}0\t2.{n}\t81{n} tok/s\t41{n} ms", [811, 812, 813], None),
    ("step {n} world_size 4 tokens/s 81{n} total_tokens 4000", [811, 812, 813], None),
    ("步数：{n}，损失：2.{n}，吞吐量：81{n}.5 tokens/s，耗时：0.4{n}s", [811.5, 812.5, 813.5], None),
    ("{n}: loss 2.1 5{n}.5 images/s", [51.5, 52.5, 53.5], None),
    ("loss=2.{n} samples_per_sec=81{n}.5 step={n}0", [811.5, 812.5, 813.5], None),
    # of one step, of which a number of steps, of an epoch or of devices stands before
    ("Step {n}/210 step time 11.{n}ms loss 2.1", [0.0111, 0.0112, 0.0113], None),
    ("Step {n} of 210 step time 11.{n}ms", [0.0111, 0.0112, 0.0113], None),
    ("Epoch 3 step time 11.{n}ms, step {n}", [0.0111, 0.0112, 0.0113], None),
    ("step {n}0 gpus 8 batch time 0.1{n} s", [0.11, 0.12, 0.13], None),
    ("step {n}0 accum 4 steps time per step 0.1{n} s", [0.11, 0.12, 0.13], None),
    ("[{n}0/90] avg over 10 steps: 0.1{n} s/step", [0.11, 0.12, 0.13], None),
    ("step {n}0 elapsed {n}2.3s loss 2.1", [], None),
    ("step {n}0 samples/sec: 812.{n} (per gpu: 101.5)", [812.1, 812.2, 812.3], None),
    ("step {n}0 throughput 812.{n} / 1000 samples/s", [], None),
    ("step {n}0 samples/s (avg of last 10) = 812.{n}", [], None),
    ("time per batch (bs=64): 0.12{n}s step {n}0", [0.121, 0.122, 0.123], None),
    # dates and times of the day, and minutes before seconds
    ("step {n}0 loss 2.1 time 2024-05-0{n} 12:00:00", [], None),
    ("step {n}0 loss 2.1 time: 2024050{n}-120000", [], None),
    ("step {n}0 loss 2.1 time: 1714560{n}12.123", [], None),
    ("step {n} loss 2.1 step time: 1m 1{n}s", [], None),
    ("step {n}0 loss 2.1 time per step: 00:01:01.12{n}", [], None),
    # of evaluations behind what no header is known by
    ("(a.py 23): step {n}0 img/s 81{n}\n(a.py 23): eval step {n}0 img/s 91{n}", [], None),
    ("n-3 99 [{n}0/90] img/s 81{n}\nn-3 99 test [{n}/9] img/s 91{n}", [], None),
    # in units that no time of a step is read in
    ("step {n}0 step_time_ns 480{n}12", [], None),
    ("step {n}0 step time 480{n}12 ns", [], None),
    ("step {n}0 step time 0.4{n}h", [], None),
    ("step {n}0 step_time_h 0.4{n}", [], None),
    # the same in two units
    ("iteration {n}0 | elapsed time per iteration (ms): 234{n}.0 | step time: 2.34{n} s", [2.341, 2.342, 2.343], None),
    ("step {n}0 3.2{n} steps/s step_time=0.31{n} loss 2.1", [1 / 3.21, 1 / 3.22, 1 / 3.23], None),
    # behind the unit of another number, or before one
    ("Step {n}0 | 81{n}2 tok/s | 6.{n}B tokens seen | 12.{n}h elapsed", [8112, 8122, 8132], None),
    ("step={n} 2.92{n} it/s power 410W", [1 / 2.921, 1 / 2.922, 1 / 2.923], None),
    ("batch {n}0 0.21{n} it/s epoch=0.0{n}", [1 / 0.211, 1 / 0.212, 1 / 0.213], None),
    ("step {n}0 81{n}.0 img/s 410W", [811, 812, 813], None),
    ("iteration={n}/18 mem=56.9GB 57.7{n} img/sec loss=2.1", [57.71, 57.72, 57.73], None),
    ("step={n} remaining=1000 s samples/s/gpu=53.{n}", [53.1, 53.2, 53.3], True),
    ("step {n}0 skipped iterations 0 step time 1.2{n}s images/sec 419.{n}", [419.1, 419.2, 419.3], None),
    ("step {n}0 119.{n} ms samples 64", [0.1191, 0.1192, 0.1193], None),
    ("step {n} 0.11{n} s 640 images", [], None),
    ("step {n}0 throughput: 231{n}.0 +/- 12.1 img/s", [2311, 2312, 2313], None),
    ("step {n}0 loss 2.1 231{n}.0 +/- 12.1 img/s", [2311, 2312, 2313], None),
    ("step {n}0 loss 2.1 231{n}.0 (±12) kimg/s", [], None),
    ("step {n}0 gpu 97% 231{n}.0 img/s mem 12345 MiB", [2311, 2312, 2313], None),
    ("step {n}0 gpu 80W 231{n}.0 img/s", [2311, 2312, 2313], None),
    ("step {n}0 gpu 3 231{n}.0 img/s", [2311, 2312, 2313], True),
    ("step {n}0 50.{n} ms/step img/s 231{n}.0", [2311, 2312, 2313], None),
    ("step {n}0 3.{n} it/s tok/s 231{n}", [2311, 2312, 2313], None),
    ("step {n}0 loss 2.1 throughput/node 57{n}.1 img/s throughput 231{n}.0 img/s", [2311, 2312, 2313], None),
    ("step {n}0 57{n}.1 img/s fwd 231{n}.0 img/s total", [], None),
    ("step {n}0 57{n}.1 img/s val 231{n}.0 img/s train", [], None),
    ("step {n}0 231{n}.0 img/s train 57{n}.1 img/s val", [2311, 2312, 2313], None),
    ("step {n}0 infer 57{n}.1 img/s train 231{n}.0 img/s", [2311, 2312, 2313], None),
    ("step {n}0 step time 0.23{n} ± 0.012 s", [0.231, 0.232, 0.233], None),
    ("step {n}0 | tok/s (gpu/total): 82{n}.1 / 656{n}.8", [], None),
    # of a minute, of one GPU, and of one image, as their programs define them
    ("iteration {n}0/100 | elapsed time per iteration (ms): 123{n}.0 | speed 194.{n} samples/(min*GPU)", [1.231, 1.232, 1.233], None),
    ("step: {n}0 loss: 8.1 flops: 4.1e+14 wps: 5.{n}e+04 iter: 0.45 pow: 400 W", [51e3, 52e3, 53e3], True),
    ("(epoch: 1, iters: {n}00, time: 0.{n}25, data: 0.001) G_GAN: 1.2", [8, 1 / 0.225, 1 / 0.325], None),
    # of items that look like steps
    ("Epoch {n}/3\n60000/60000 [=====] - 1{n}s - loss: 0.2", [60000 / 11, 5000, 60000 / 13], None),
    ("Epoch #1: {n}0%|##| {n}000/9000 [00:0{n}<00:08, 95{n}.0it/s, env_step={n}000, loss=0.2]", [951, 952, 953], None),
]  # fmt: skip


@pytest.mark.parametrize(("form", "rates", "per_gpu"), PRINTED)
def test_a_line_that_was_read_wrong_is_read_right_or_not_at_all(form, rates, per_gpu):
    result = search([line for n in (1, 2, 3) for line in form.format(n=n).splitlines()])
    rated = [reading for fit in result.fits[:1] for reading in fit.rated]
    assert not result.is_unsure
    assert [reading.throughput or reading.step_s for reading in rated] == pytest.approx(rates)
    assert {reading.items_per_step for reading in rated} <= {None, 1}
    assert not rated or result.fits[0].per_gpu == per_gpu


@pytest.mark.parametrize(
    "form",
    [
        "step {n}0 raw 57{n}.1 img/s effective 231{n}.0 img/s",
        "step {n}0 57{n}.1 img/s raw 231{n}.0 img/s net",
        "{n} loader 250 MB/s, 32{n}0 img/s read | trained: 81{n} img/s",
    ],
)
def test_rates_whose_names_are_not_known_leave_the_choice(form):
    """A bug: the first of them was the speed, and the other was not shown."""
    assert search([form.format(n=n) for n in (1, 2, 3)]).is_unsure


def test_the_rates_of_the_phases_of_reinforcement_learning_leave_the_choice():
    """A sweep kept 20,000 of 12,500 samples/s: the first is a verb, too."""
    form = "timers:\n sample_throughput: {n}9{n}0.1\n learn_throughput: {n}100.2"
    assert search([line for n in (1, 2, 3) for line in form.format(n=n).splitlines()]).is_unsure


@pytest.mark.parametrize(
    "form", ["step {n} tok/s: 81{n} (rank {rank})", "[xla:{rank}]({n}) Rate=81{n}"]
)
def test_lines_of_each_step_are_of_as_many_ranks(form):
    lines = [form.format(n=n, rank=rank) for n in (1, 2, 3) for rank in (0, 1)]
    found = search(lines)
    assert (found.num_ranks, len(found.fits[0].readings)) == (2, 3)


def test_the_number_that_is_cut_at_the_end_of_a_log_is_left_out(tmp_path):
    log = tmp_path / "train.log"
    log.write_text("step 10 tok/s: 1201.5\nstep 20 tok/s: 1202.5\nstep 30 tok/s: 12")
    assert [reading.step for reading in search(log_text(log).lines).fits[0].readings] == [10, 20]
    log.write_text("step 10\nstep 20\nmean tok/s: 1202.5")
    assert [reading.throughput for reading in search(log_text(log).lines).fits[0].rated] == [1202.5]


def test_rates_of_steps_come_before_those_of_what_was_done_before_them():
    """A bug: 1,600 lines of a tokenizer were taken for training, as they were the most."""
    before = [f"processed {n}000 examples (812{n % 9}.1 examples/s)" for n in range(30)]
    found = search([*before, *(f"step {n} loss 2.1 tok/s 912{n}" for n in range(9))])
    assert [found.fits[0].item, len(found.fits[0].rated)] == ["tokens", 9]


def test_the_number_before_one_that_grows_is_no_step():
    result = search([f"TRAIN Batch {n // 4}/{n % 4}00 loss 2.1" for n in range(12)])
    assert all(fit.readings[3].step != 0 for fit in result.fits)


def test_bars_whose_ranks_print_some_steps_each_are_of_one_epoch():
    lines = [
        f"{step}%|##  | {step}/100 [00:0{step // 20}<00:05, 20.00it/s]"
        for begin in (1, 51)
        for _ in range(8)
        for step in range(begin, begin + 50)
    ]
    assert search(lines).fits[0].readings[-1].step == 100


def test_bars_that_nothing_tells_apart_are_refused_where_training_may_be_the_longer_one():
    """A bug: the 20 steps of a loader's bar were kept, 30 times as fast as the 120 after it."""
    loading, training = (
        [f"10%|#  | {n}/{total} [00:01<00:10, {rate}it/s]" for n in range(1, total + 1)]
        for total, rate in ((20, 93.1), (40, 3.1))
    )
    assert not search(loading + 3 * training).fits
    reader = open_reader("bars")
    with pytest.raises(ReadError, match="bars of 20 and of 40 steps have one name"):
        list(map(reader.read_line, loading + training))
    assert search(training + loading + training).fits[0].readings[-1].step == 80


@pytest.mark.parametrize("name", ["Warmup", "Decoding", "Profiling", "Building", "Indexing"])
def test_bars_of_other_phases_have_no_rate_of_training(name: str):
    bars = [f"{name}: {n}0%|#| {n}/9 [00:0{n}<00:05, 1.00it/s, img/s=81{n}]" for n in (1, 2, 3)]
    result = search([*bars, *(f"step {n} loss 2.1 img/s=20{n}" for n in (1, 2))])
    assert [reading.throughput for reading in result.fits[0].rated] == [201, 202]
    assert [column.role.aside for column in result.others] == [name.lower()]


@pytest.mark.parametrize(
    ("form", "asides"),
    [
        ("[171456001{n}123] [{n}0/90] img/s 81{n}", []),
        ("171456001{n}123 step={n}0 img/s 81{n}", []),
        ("iter {n}0 img/s 81{n}", []),
        ("step {n}0 samples/s 81{n}\neval step {n}0 samples/s 91{n}", ["eval"]),
        ("INFO step {n}0 img/s 81{n}\nINFO eval step {n}0 img/s 91{n}", ["eval"]),
        (
            "INFO a.py:12 - step {n}0 img/s 81{n}\nINFO a.py:15 - eval step {n}0 img/s 91{n}",
            ["eval"],
        ),
        (
            "__main__:fit:12 - step {n}0 img/s 81{n}\n__main__:run:9 - val step 9 img/s 91{n}",
            ["val"],
        ),
        ("[10:00:0{n}] step {n}0 img/s 81{n}\n[10:00:0{n}] val step {n}0 img/s 91{n}", ["val"]),
    ],
)
def test_the_step_before_a_rate_is_read_and_that_of_an_evaluation_left_out(form, asides):
    result = search([line for n in (1, 2, 3) for line in form.format(n=n).splitlines()])
    readings = [(one.step, one.throughput) for one in result.fits[0].readings]
    assert readings == [(10, 811), (20, 812), (30, 813)]
    assert [column.role.aside for column in result.others] == asides


@pytest.mark.parametrize(
    "text",
    [
        "step, loss, samples/s\n1, 2.1, 81.5\n2, 2.0, 82.5",
        '"step","loss","samples/s"\n"1","2.1","81.5"\n"2","2.0","82.5"',
        "step\tloss\tsamples/s\n1\t2.1\t81.5\n2\t2.0\t82.5",
        "step;loss;samples/s\n1;2,1;81,5\n2;2,0;82,5",
    ],
)
def test_a_table_may_have_other_marks_than_commas(tmp_path, text):
    path = tmp_path / "log.csv"
    path.write_text(text)
    readings = search(log_text(path).lines, path).fits[0].readings
    assert [(one.step, one.throughput) for one in readings] == [(1, 81.5), (2, 82.5)]


def test_the_fps_in_a_table_of_stable_baselines_is_since_the_run_began(tmp_path):
    path = tmp_path / "progress.csv"
    header = "time/iterations,time/fps,time/time_elapsed,time/total_timesteps"
    path.write_text(f"{header}\n1,1000,10,10000\n2,1500,20,30000\n3,1666,30,50000\n")
    readings = search(log_text(path).lines, path).fits[0].readings
    assert [(one.step, one.throughput) for one in readings] == [(1, 1000), (2, 2000), (3, 2000)]


def test_the_step_of_an_object_may_have_that_of_the_end():
    form = "{{'lm loss': 2.1, 'learning_rate': 1e-5, 'elapsed_time_per_iteration': 1.2, 'iteration': '{n}0/90'}}"
    readings = search([form.format(n=n) for n in (1, 2, 3)]).fits[0].readings
    assert [(one.step, one.step_s) for one in readings] == [(10, 1.2), (20, 1.2), (30, 1.2)]


def test_the_items_of_a_step_are_counted_and_not_asked_for():
    path = CASES / "megatron_global_batch.log"
    assert search(log_text(path).lines, path).fits[0].readings[-1].items_per_step == 2


def test_the_loss_beside_a_rate_has_its_decimal_comma():
    reading = search(["step 10 loss 2,15 123,5 img/s"]).fits[0].readings[0]
    assert (reading.throughput, reading.metrics["loss"]) == (123.5, 2.15)


def test_a_time_since_the_begin_is_none_of_steps():
    assert not search(
        ["time:13s total_exs:4320 steps:270", "time:26s total_exs:8640 steps:540"]
    ).fits


def test_a_long_word_behind_a_number_takes_no_long_time():
    began_s = time.process_time()
    search(["step 5 time 5" + 1_900 * "a"] * 50)
    assert time.process_time() - began_s < 5  # it takes 0.1 s, and took 12
