"""`scalemark read LOG`: what it proposes, prints and refuses."""

import gzip
import json
import os
import sys
from pathlib import Path

import pytest

from scalemark.readers.__main__ import main
from scalemark.readers.log_text import HALF_BYTES, log_text
from tests.ran import ran

TITAN = """\
step:  4  loss:  7.62585  memory: 66.91GiB(37.51%)  tps: 10,050  tflops: 314.71  mfu: 13.99%
step:  5  loss:  7.07623  memory: 66.91GiB(37.51%)  tps: 10,007  tflops: 313.36  mfu: 13.93%
"""


def run(text: str | bytes, *arguments: str) -> int:
    """The command's exit code for a log of this content."""
    log = Path("train.log")
    log.write_bytes(text.encode() if isinstance(text, str) else text)
    return main([str(log), *arguments], program="scalemark read")


def test_a_reader_belongs_to_a_sweep(capsys):
    with pytest.raises(SystemExit):
        run(TITAN, "read=regex:tps: ([0-9,]+)")
    said = capsys.readouterr().err
    assert "`scalemark sweep command=... read=...`" in said
    assert "`scalemark read --sweep SWEEP read=...`" in said


def test_a_known_program_is_of_one_gpu(capsys, snapshot):
    assert run(TITAN) == 0
    assert capsys.readouterr() == (snapshot, "")


def test_an_unknown_program_gets_a_pattern(capsys, snapshot):
    assert run("iter 10: loss 3.2, time 893.76ms\niter 20: loss 2.7, time 894.88ms\n") == 0
    assert capsys.readouterr() == (snapshot, "")


def test_a_program_that_counts_samples_in_place_of_steps_is_told_of(capsys, snapshot):
    lines = [f"Train Epoch: 1 [{640 * n}/60000 ({n}%)]\tLoss: 2.3" for n in range(4)]
    assert run("\n".join([*lines, ""])) == 0
    assert capsys.readouterr() == (snapshot, "")


def test_readings_that_are_no_rate_are_counted(capsys, snapshot):
    assert run(TITAN + "step:  6  loss:  nan  tps: nan  mfu: 0%\n") == 0
    assert capsys.readouterr() == (snapshot, "")


def test_two_runs_in_one_log_are_told_of(capsys):
    """A bug: of a batch of 32 and one of 64 in one log nothing was said."""
    lines = [f"step {step} loss 2.5 {500 + step} samples/s" for step in range(1, 41)]
    assert run("\n".join(["batch size: 32", *lines, "batch size: 64", *lines, ""])) == 0
    assert "steps begin anew, last after 40, which is taken for an epoch" in capsys.readouterr().out


def test_a_script_reads_json(capsys):
    assert run(TITAN, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert set(said["proposed"]) == {"read", "item", "per_gpu"}
    last = said["found"][0]["last"]
    assert (last["throughput"], last["step"], last["is_mean"]) == (10007.0, 5, False)


def test_a_loss_that_is_nan_leaves_the_json_valid(capsys):
    assert run("step 1 | loss nan | 5 tokens/s\nstep 2 | loss nan | 6 tokens/s\n", "--json") == 0
    assert "NaN" not in capsys.readouterr().out


def test_a_log_without_a_rate_shows_its_last_lines(capsys, snapshot):
    assert run("".join(f"line {number}\n" for number in range(100)) + "\x1b[31mkilled\n") == 1
    assert capsys.readouterr() == ("", snapshot)


def test_a_script_hears_that_nothing_was_found(capsys):
    assert run("nothing\n", "--json") == 1
    assert json.loads(capsys.readouterr().out)["proposed"] is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\x01" * 50,
        gzip.compress(b"step: 1 tps: 2"),
        b"\n\n",
        b"SQLite format 3\0 step: 1 tps: 2\n",
        b"\xd0\x01\xb0step: 1 tps: 2\xe9\xff",
        b"PK\x03\x04\nstep: 1 tps: 2\n",
    ],
    ids=["empty", "binary", "packed", "blank", "database", "no characters", "checkpoint"],
)
def test_a_file_that_is_no_log_is_refused(content: bytes, capsys, snapshot):
    exit_code = run(content)
    assert (exit_code, capsys.readouterr().err) == snapshot


def test_a_missing_file_is_refused(capsys, snapshot):
    assert main(["train.lgo"], program="scalemark read") == 2
    assert capsys.readouterr() == ("", snapshot)


def test_a_fifo_is_refused_without_waiting(capsys):
    os.mkfifo("pipe")
    assert main(["pipe"]) == 2
    assert "found a FIFO, wanted a regular file" in capsys.readouterr().err


def test_a_link_to_a_log_is_read():
    Path("real.log").write_text(TITAN)
    Path("link.log").symlink_to("real.log")
    assert main(["link.log"]) == 0


OTHER = b"x" * 199 + b"\n"  # many short lines are read as well, and take as long as they are many


def test_of_a_large_log_the_begin_and_the_end_are_read(capsys):
    with Path("large.log").open("wb") as file:
        file.write(TITAN.encode())
        file.truncate(2**30)
        file.seek(2**30 - HALF_BYTES)
        file.write(b"\n" + OTHER * (HALF_BYTES // 200 - 5) + TITAN.replace("5", "9").encode())
    assert main(["large.log"]) == 0, (
        "the hole is zeros, as of a log that was cut while it was written"
    )
    Path("large.log").write_bytes(
        TITAN.encode()
        + OTHER * (HALF_BYTES // 30)
        + TITAN.replace("step:  4", "step: 900").encode()
    )
    capsys.readouterr()
    assert main(["large.log", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["is_whole"] is False
    assert (said["found"][0]["first"]["step"], said["found"][0]["last"]["step"]) == (4, 900)


def test_a_folder_is_read_with_what_the_program_left(capsys):
    Path("run/out").mkdir(parents=True)
    Path("run/log.txt").write_text("training\n")
    Path("run/out/all_results.json").write_text('{"train_samples_per_second": 31.5}')
    assert main(["run"]) == 0
    said = capsys.readouterr().out
    assert "read=hugging_face command.item=samples" in said
    assert "31.5/s" in said


@pytest.mark.parametrize("name", ["run/train.log", "run/a/log.txt"])
def test_of_a_folder_without_output_the_log_itself_is_wanted(name: str, capsys):
    Path(name).parent.mkdir(parents=True)
    Path(name).write_text(TITAN)
    assert main(["run"]) == 1
    assert "give the path of the log itself" in capsys.readouterr().err


def test_secrets_of_a_log_are_not_shown(capsys):
    run("export AWS_SECRET_ACCESS_KEY=abcdefghijklmnopqrstuvwxyz0123456789abcd\n")
    assert "abcdefghij" not in capsys.readouterr().err


@pytest.mark.integration  # a process of its own: it changes how signals are handled
def test_scalemark_has_the_command():
    Path("train.log").write_text(TITAN)
    command = [sys.executable, "-m", "scalemark", "read", "train.log"]
    ended = ran(command)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "command.per_gpu=true" in ended.stdout


def test_a_line_that_is_cut_is_left_out():
    line = "step: 123456 tps: 10,050 " * 40
    text = f"{line}\n" * (3 * HALF_BYTES // len(line))
    Path("large.log").write_text(text)
    assert set(log_text(Path("large.log")).lines) == {line}


def test_a_large_log_of_one_bar_or_of_one_line_is_no_empty_one(capsys):
    """Two bugs: both had no lines, since none ended with a newline."""
    bars = (f"\r{n}/90000 [00:{n // 3000:02}<01:00, 3000.00it/s]" for n in range(1, 90_001))
    text = "".join(bars) * 2
    assert len(text) > 2 * HALF_BYTES
    Path("bar.log").write_text(text)
    lines = log_text(Path("bar.log")).lines
    assert {line[-10:] for line in lines} == {"00.00it/s]"}
    Path("line.log").write_text("x" * 3 * HALF_BYTES)
    assert main(["line.log"]) == 1
    assert "line.log is one line of 6,291,456 bytes" in capsys.readouterr().err


def test_numbers_that_are_alike_are_left_to_the_user(capsys, snapshot):
    lines = [f"step {n} | a {400 + n} tokens/s | b {800 + n} tokens/s" for n in range(3)]
    assert run("\n".join(lines)) == 1
    assert capsys.readouterr() == (snapshot, "")
    assert run("\n".join(lines), "--json") == 1
    assert json.loads(capsys.readouterr().out)["proposed"] is None


@pytest.mark.parametrize(
    "line",
    [
        "step {} loss 0.5 160.0 samples/s 320.0 images/s",
        '{{"step": {}, "samples_per_second": 160.0, "images_per_second": 320.0}}',
    ],
)
def test_samples_and_images_of_one_step_cannot_both_be_the_speed(line: str, capsys):
    """A bug: samples were proposed, though twice as many images were counted."""
    assert run("\n".join(map(line.format, range(8)))) == 1
    said = capsys.readouterr().out
    assert "nothing says whether" in said
    assert "command.item=samples\n" in said
    assert "command.item=images\n" in said


def test_tokens_are_proposed_beside_samples_and_both_settings_shown(capsys):
    lines = [f"step {n} loss 0.5 500{n} tokens/s 1{n} samples/s" for n in range(8)]
    assert run("\n".join([*lines, ""])) == 0
    proposed, other = capsys.readouterr().out.splitlines()[-2:]
    assert proposed.endswith("command.item=tokens")
    assert other.startswith("to count samples instead: 'read=regex:")


def test_the_source_of_a_program_is_no_log(capsys):
    """A bug: `rate = 0.5` was proposed as the speed."""
    Path("train.py").write_text("rate = 0.5\nrate = 3.5\n")
    assert main(["train.py"]) == 2
    assert "found the source of a program; wanted what it prints" in capsys.readouterr().err


@pytest.mark.integration  # a pipe of its own
def test_a_reader_that_has_seen_enough_is_no_error():
    Path("train.log").write_text(TITAN * 100)
    command = f"{sys.executable} -m scalemark read train.log --json | head -c 1"
    ended = ran(command, shell=True)
    assert ended.stderr == ""


def test_of_a_long_log_it_says_which_readers_read_a_part_of_the_lines(capsys):
    lines = [f"step {step}: loss {1 / step:.4f}, 12.5 images/s" for step in range(1, 3001)]
    text = "\n".join(f'{line}\n{{"step": {step}}}' for step, line in enumerate(lines, 1))
    assert run(text) == 0
    said = capsys.readouterr().out
    assert "the first reads all lines, the others the first 1,500 and the last 300" in said
    assert "  3000  " in said
    assert run(text, "--json") == 0
    assert json.loads(capsys.readouterr().out)["sampled"] is True
    assert run("\n".join(lines[:100]), "--json") == 0
    assert json.loads(capsys.readouterr().out)["sampled"] is False


def test_steps_too_fast_for_training_may_be_items(capsys):
    Path("bar.log").write_text("10%|#  | 1000/9000 [00:01<00:09, 2000.0it/s]")
    assert main(["bar.log"]) == 0
    assert "2,000 steps per second may be items" in capsys.readouterr().out
