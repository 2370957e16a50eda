"""Programs that do 2,000 items/s and print as others do: stored within 2 %, or nothing is stored."""

import random
from collections.abc import Iterable, Iterator

import pytest

from command.curve import PrintedNumbers
from command.measuring import NothingReadError, measured_by
from scalemark.readers.opening import open_reader
from scalemark.readers.search import search
from tests.command.programs import run_of, spec_of

SPEED = 2000
ITEMS = 100  # of a step
STEPS_OF_EPOCH = 400

# `every` steps: what is printed, of step, rate (since the line before), mean (since the begin), part
# (a faster phase's rate), dt (s per step), t (s of this line), elapsed, items (so far), epoch, place
# (in it), epoch_s and epoch_mean. A line after `---` comes after each epoch and a pause of 0.2 s
PROGRAMS = {
    "rl_games": "fps step: {part:.1f} fps step and policy inference: {part:.1f}  fps total: {rate:.1f}",
    "rl_games new": "fps step: {part:.0f} fps step and policy inference: {part:.0f} fps total: {rate:.0f} epoch: {line}/500 frames: {before}\n"
    "=> saving checkpoint 'runs/Ant/nn/Ant.pth'",
    "sample-factory": "[00325] Fps is (10 sec: {rate:.1f}, 60 sec: {mean:.1f}, 300 sec: {mean:.1f}). Total num frames: {items}. Throughput: 0: {part:.1f}. Samples: {step}. Policy #0 lag: (min: 0.0, avg: 0.6, max: 2.0)\n"
    "[00325] Avg episode reward: [(0, '4.{line}')]",
    "GNMT": "0: TRAIN [{epoch}][{place}/400]\tTime {dt:.3f} ({mean_dt:.3f})\tData 4.19e-04 (1.1e-03)\tTok/s {rate:.0f} ({mean:.0f})\tLoss/tok {loss:.4f} (8.01)\tLR 2.000e-03",
    "Mask R-CNN": "maskrcnn_benchmark.trainer INFO: eta: 1 day, 3:40:52  iter: {step}  loss: {loss:.4f} (1.4004)  loss_mask: 0.35 (0.69)  time: {dt:.4f} ({mean_dt:.4f})  data: 0.0086 (0.0141)  lr: 0.006667  max mem: 4563\n"
    "--- 50%|#####     | 312/625 [00:02<00:02, 139.31it/s]",
    "ColossalChat": "Performance summary:\nGenerate 768 samples, throughput: {part:.2f} samples/s, TFLOPS per GPU: 58.69\n"
    "Train 768 samples, throughput: {part2:.2f} samples/s, TFLOPS per GPU: 88.58\nThroughput: {rate:.2f} samples/s\nOverall throughput: {rate:.2f} samples/s\nOverall time per sample: 0.01 s\nLearn time per sample: 0.01 s, 26.41%",
    "Stable-Baselines3": "| time/                   |             |\n|    fps                  | {mean:.0f}        |\n|    iterations           | {line}           |\n"
    "|    time_elapsed         | {elapsed:.0f}         |\n|    total_timesteps      | {items}      |\n| train/                  |             |\n|    learning_rate        | 0.0003      |\n|    n_updates            | {line}0          |",
    "CleanRL": "global_step={items}, episodic_return=[2{line}.]\nSPS: {mean:.0f}",
    "Flair": "epoch {epoch1} - iter {place}/400 - loss {loss:.8f} - time (sec): {epoch_s:.2f} - samples/sec: {epoch_mean:.2f} - lr: 0.000005",
    "Flair without its time": "epoch {epoch1} - iter {place}/400 - loss {loss:.8f} - samples/sec: {epoch_mean:.2f} - lr: 0.000005",
    "RSL-RL": "                       Learning iteration {line}/1500\n\n                       Computation: {rate:.0f} steps/s (collection: {dt:.3f}s, learning 0.154s)\n"
    "               Value function loss: 0.0{line}\n                   Total timesteps: {items}\n                    Iteration time: {t:.2f}s\n                        Total time: {elapsed:.2f}s\n                               ETA: 100.2s",
    "Lightning": "Epoch {epoch}: 50%|#####     | {place}/400 [00:{epoch_s:02.0f}<00:10, {epoch_its:.2f}it/s, v_num=0, train_loss={loss:.3f}]\n"
    "--- Validation DataLoader 0: 50%|#####     | 5/10 [00:00<00:00, 99.00it/s]",
    "nanoGPT": "iter {step}: loss {loss:.4f}, time {ms:.2f}ms, mfu 33.10%\n--- step {step}: train loss {loss:.4f}, val loss 3.1",
    "Megatron-LM": " [2024-04-16 02:02:03] iteration {step:8d}/  500000 | consumed samples: {items:12d} | elapsed time per iteration (ms): {ms:.1f} | throughput per GPU (TFLOP/s/GPU): 151.2 | learning rate: 1.2E-04 | global batch size:   100 | lm loss: {loss:.6E} | loss scale: 1.0 | grad norm: 1.2 | number of nan iterations:   0 |",
    "DeepSpeed": "[INFO] [logging.py:68:log_dist] [Rank 0] step={step}, skipped=0, lr=[0.0001], mom=[(0.9, 0.999)]\n"
    "[INFO] [timer.py:198:stop] epoch=0/micro_step={step}/global_step={step}, RunningAvgSamplesPerSec={mean:.5f}, CurrSamplesPerSec={rate:.5f}, MemAllocated=2.1GB, MaxMemAllocated=9.8GB",
    "timm": "Train: {epoch} [{place:4d}/400 ( 50%)]  Loss: {loss:.3f} (6.9)  Time: {dt:.3f}s, {rate:7.2f}/s  ({mean_dt:.3f}s, {mean:7.2f}/s)  LR: 1.000e-03  Data: 0.010 (0.012)\n"
    "--- Test: [  10/20]  Time: 0.005 (0.005)  Loss:  6.9 (6.9)  Acc@1:   0.000 (  0.1)",
    "YOLO": "        {epoch1}/2      2.61G      1.15     1.398      1.28         71        640:  50%|#####     | {place}/400 [00:{epoch_s:02.0f}<00:10, {epoch_its:.2f}it/s]\n"
    "---                  Class     Images  Instances      Box(P          R      mAP50):  50%|#####     | 2/4 [00:00<00:00, 45.11it/s]",
    "fairseq": "INFO | train_inner | epoch 001:     {step} / 1000 loss={loss:.2f}, nll_loss=12, ppl=5621, wps={rate:.1f}, ups={ups:.2f}, wpb=100, bsz=12.3, num_updates={step}, lr=2e-05, gnorm=2.4, train_wall={t:.0f}, gb_free=9.1, wall={elapsed:.0f}",
    "MMDetection": "2022/12/06 08:40:17 - mmengine - INFO - Epoch(train)  [{epoch1}][{place:4d}/400]  base_lr: 2.0e-02 lr: 3.9e-03  eta: 1 day, 2:00:00  time: {dt:.4f}  data_time: 0.0051  memory: 3400  loss: {loss:.4f}\n"
    "--- 2022/12/06 08:40:17 - mmengine - INFO - Epoch(val)  [{epoch1}][  10/625]    eta: 0:00:20  time: 0.0373  data_time: 0.0010",
    "OpenNMT": "[2023-03-01 12:00:07,123 INFO] Step {step}/100000; acc: 10.5; ppl: 800.1; xent: 6.7; lr: 0.00001; sents: 5000; bsz: 60/100/2; {part:.0f}/{rate:.0f} tok/s; {elapsed:6.0f} sec;",
    "PaddlePaddle": "[2021/09/13 14:12:01] ppcls INFO: [Train][Epoch 1/20][Iter: {step}/1000]lr: 0.0125, top1: 0.1, loss: {loss:.3f}, batch_cost: {dt:.5f}s, reader_cost: 0.00212, ips: {rate:.5f} images/sec, eta: 0:10:00",
    "PaddleSeg, whose steps go on over epochs": "2021/09/13 14:12:01 [INFO] [TRAIN] epoch: {epoch1}, iter: {step}/1200, loss: {loss:.4f}, lr: 0.01, batch_cost: {dt:.4f}, reader_cost: 0.00010, ips: {rate:.4f} samples/sec | ETA 00:10:00",
    "torchtitan": "[rank0]: - root - INFO - step: {step:2d}  loss: {loss:7.4f}  memory: 66.91GiB(70.4%)  tps: {rate:,.0f}  tflops: 314.71  mfu: 31.8%",
    "a mean under a plain name": "step {step}: loss {loss:.3f} throughput {mean:.1f} images/s",
    "a smoothed mean": "step {step}: loss {loss:.3f} throughput {smooth:.1f} images/s",
    "three phases": "step {step} data throughput {part:.1f} samples/s | forward throughput {part2:.1f} samples/s | throughput {rate:.1f} samples/s",
    "grouped by spaces": "step {step} | 2 000 tokens/s | loss {loss:.3f}",
    "the time of several steps": "step {step}: Time(10 iters): {t:.3f}s loss {loss:.3f}",
    "the time since the begin": "step {step}: elapsed {elapsed:.2f}s loss {loss:.3f}",
    "axolotl": " 10%|#         | {step}/1200 [00:{elapsed:02.0f}<00:10,  {ups:.2f}it/s]\n"
    "{{'loss': '{loss:.3f}', 'learning_rate': '1e-05', 'tokens/train_per_sec': '{rate:.2f}', 'epoch': '0.1'}}",
    "environment steps": "[INFO] Ant. Step: {items}. Time Elapsed: {elapsed:.3f} s. Mean Reward: 0.1.",
    "a bar of environment steps": " 50%|█████     | {items}/120000 [00:{epoch_s:02.0f}<00:50, {mean:.1f}steps/s]",
    "a property of a video": "clip {step}.mp4 {epoch1} fps 3{epoch}.0 loss {loss:.3f}",
    "a rate that fits no clock": "step {step}: loss {loss:.3f} throughput {wild:.1f} images/s",
}
EVERY = {"Lightning": 1, "YOLO": 1}
NOTHING_STORED = (
    *("environment steps", "a bar of environment steps", "a property of a video"),
    "a smoothed mean",
    "a rate that fits no clock",
    "Flair without its time",
)


def printed_by(text: str, every: int, num_steps: int = 1200) -> Iterator[tuple[float, str]]:
    """Yield arrivals and lines; steps differ by a twentieth, and the first ten are slow."""
    chance = random.Random(1)
    own, _, pause = text.partition("\n--- ") if "\n--- " in text else (text, "", "")
    now_s = last_s = epoch_s = 0.0
    smooth = 0.0
    for step in range(1, num_steps + 1):
        now_s += ITEMS / SPEED * chance.uniform(0.95, 1.05) * (10 if step <= 10 else 1)
        place = (step - 1) % STEPS_OF_EPOCH + 1
        if step % every == 0:
            t = now_s - last_s
            rate = every * ITEMS / t
            smooth = 0.98 * smooth + 0.02 * rate if smooth else rate
            numbers = {
                "step": step, "line": step // every, "items": step * ITEMS, "before": (step - every) * ITEMS,
                "rate": rate, "mean": step * ITEMS / now_s, "part": 1.7 * rate, "part2": 1.3 * rate,
                "smooth": smooth, "wild": rate * chance.choice((0.3, 1, 4)),
                "t": t, "dt": t / every, "ms": 1000 * t / every, "ups": every / t, "mean_dt": now_s / step,
                "elapsed": now_s, "loss": 9 - step / 1000, "epoch": (step - 1) // STEPS_OF_EPOCH,
                "epoch1": (step - 1) // STEPS_OF_EPOCH + 1, "place": place, "epoch_s": now_s - epoch_s,
                "epoch_mean": place * ITEMS / (now_s - epoch_s), "epoch_its": place / (now_s - epoch_s),
            }  # fmt: skip
            for line in own.format(**numbers).splitlines():
                yield now_s, line
            last_s = now_s
            if pause and place == STEPS_OF_EPOCH:
                now_s += 0.2
                yield now_s, pause.format(**numbers)
                last_s = now_s
        if place == STEPS_OF_EPOCH:
            epoch_s = now_s


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_known_speed_is_stored_right_or_not_at_all(name: str):
    lines = list(printed_by(PROGRAMS[name], EVERY.get(name, 10)))
    best = search([line for _, line in lines]).fits[0]
    settings = best.settings
    items_per_step = settings.get("items_per_step", "")
    if not best.has_throughput and not any(one.items_per_step for one in best.readings):
        items_per_step = str(ITEMS)  # as `scalemark read` asks for
    spec = spec_of("true", best.read, num_gpus=1, item=best.item, items_per_step=items_per_step)
    printed = PrintedNumbers(spec, open_reader(best.read, best.item))
    for arrival_s, line in lines:
        printed.take_line(line, arrival_s)
    items = float(items_per_step) if items_per_step else None
    ended_s = lines[-1][0]
    try:
        measured = measured_by(run_of(spec, printed, ended_s), items)
    except NothingReadError:
        assert name in NOTHING_STORED
        return
    assert measured.measurement.throughput == pytest.approx(SPEED, rel=0.02), best.read
    if name == "CleanRL":  # it numbers environment steps, and no step of training
        assert measured.measurement.median_step_s is None


def stored(read: str, lines: Iterable[tuple[float, str]]) -> float:
    """Return the throughput that is stored of a program that prints these lines."""
    spec = spec_of("true", read, num_gpus=1)
    printed = PrintedNumbers(spec, open_reader(read))
    ended_s = 0.0
    for ended_s, line in lines:
        printed.take_line(line, ended_s)
    return measured_by(run_of(spec, printed, ended_s), None).measurement.throughput


def test_rates_of_several_phases_are_not_stored():
    with pytest.raises(NothingReadError, match=r"lines with 'overall' say .* 'train' say"):
        stored("regex:throughput: ([0-9.]+)", printed_by(PROGRAMS["ColossalChat"], 10))
    alike = [(2.0 * line, f"throughput {100 + 200 * (line % 2)}") for line in range(60)]
    with pytest.raises(NothingReadError, match=r"its rates do not follow .* of several phases"):
        stored("regex:throughput ([0-9.]+)", alike)
    turns, now_s = [], 0.0
    for phase in range(8):
        for line in range(40 if phase % 2 else 20):
            now_s += 0.25 if phase % 2 else 1
            turns.append((now_s, f"throughput {400 if phase % 2 else 100}.{line}"))
    with pytest.raises(NothingReadError, match=r"two phases: they say 100.2 and 400.3 by turns"):
        stored("regex:throughput ([0-9.]+)", turns)


def test_rates_of_batches_of_several_sizes_are_not_stored():
    """A bug: 93,336 of 100,000 tokens/s were kept, as if each step had as many tokens."""
    lines = [(0.1 * n, f"step {n} {1000 + 2000 * (n * 7 % 10) / 9:.0f} tok/s") for n in range(300)]
    with pytest.raises(NothingReadError, match=r"its rates do not follow .* several sizes"):
        stored(r"regex:step (?P<step>\d+) (?P<throughput>\d+)", lines)


@pytest.mark.parametrize("smoothing", [0.95, 0.7])
def test_rates_that_are_smoothed_count_where_they_follow_the_time_between_lines(smoothing):
    """A bug: 929 of 800 images/s were kept of rates that rose for a third of the run."""
    lines, now_s, smooth = [], 0.0, 80.0
    for n in range(1, 101):
        now_s += 0.06 if n > 1 else 0.6
        smooth = smoothing * smooth + (1 - smoothing) * (800 if n > 1 else 80)
        lines.append((now_s, f"step {3 * n} {smooth:.1f} images/s"))
    read = r"regex:step (?P<step>\d+) (?P<throughput>[\d.]+)"
    if smoothing > 0.9:
        with pytest.raises(NothingReadError, match="of the run apart"):
            stored(read, lines)
    else:
        assert stored(read, lines) == pytest.approx(800, rel=0.01)


@pytest.mark.parametrize("every", [1, 5, 20])
@pytest.mark.parametrize("took_s", [0.0, 1 / 3, 0.5])
@pytest.mark.parametrize(
    ("read", "form", "train", "eval_", "said"),
    [
        ("throughput ([0-9.]+)", "{phase} throughput {number:.1f}", 100, 300, "100.* say 300"),
        ("throughput ([0-9.]+)", "throughput {number:.1f} ({phase})", 100, 60, "60.* say 100"),
        ("throughput (?P<total>[0-9.]+)", "{phase} throughput {number:.1f}", 100, 300, "300"),
        ("(?P<step_ms>[0-9.]+) ms", "{phase} took {number:.1f} ms", 1000, 300, "3.333"),
    ],
)
def test_lines_of_training_and_evaluation_under_one_pattern_are_refused(
    read, form, train, eval_, said, every, took_s
):
    now_s, lines = 0.0, []
    for line in range(60):
        now_s += 1
        lines.append((now_s, form.format(phase="train", number=train)))
        if line % every == 0:
            now_s += took_s
            lines.append((now_s, form.format(phase="eval", number=eval_)))
    with pytest.raises(NothingReadError, match=rf"lines with '(train|eval)' say {said}"):
        stored(f"regex:{read}", lines)
    one_phase = [(at_s, line) for at_s, line in lines if "train" in line]
    assert stored(f"regex:{read}", one_phase) == pytest.approx(train if "ms" not in read else 1)
