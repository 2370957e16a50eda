"""A trial of a user's program ends with the outcome that its output and its end tell, and nothing of it is left."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from command.run import read_again
from scalemark.host.files import write_probe
from scalemark.records.attempt import RANK_LOST, Placement
from scalemark.records.machine import Probe, ProbedPeak
from scalemark.records.measurement import Doing, Phase
from tests.command.programs import MEANS_AND_TOTAL, ONE, begin, environment_of, run, script, spec_of
from tests.filled import MACHINE
from tests.slurm import until
from tests.sweeper.processes import assert_gone

pytestmark = pytest.mark.integration


def wait_for(path: Path) -> str:
    until(lambda: path.exists() and path.read_text().endswith("\n"))
    return path.read_text()


def test_a_program_that_prints_steps_is_measured():
    command = script(
        """
        import sys, time
        steps = range(1, 31)
        lines = [f"step {step} rate 320 loss {3 / step} --batch {sys.argv[1]}" for step in steps]
        print("\\n".join(lines))
        time.sleep(1)  # its memory is looked at
        """
    )
    spec = spec_of(
        command + " {batch_size}", item="tokens", items_per_step="batch_size*2", batch_size=8
    )
    result, folder = run(spec)
    found = result.measurement
    assert (found.throughput, found.item) == (pytest.approx(320), "tokens")
    assert (found.num_warm_up_steps, found.num_steps, found.steady) == (2, 28, True)
    assert found.median_step_s == pytest.approx(16 / 320)
    assert (found.first_loss, found.last_loss) == (3.0, pytest.approx(3 / 29))
    assert (found.trace_s, found.num_parameters, found.data_wait_share) == (None, None, None)
    assert found.time_to_first_step_s > 0
    assert found.peak_host_memory_bytes > 2**20
    assert [step.phase for step in folder.read_steps()].count(Phase.MEASURE) == 28
    assert folder.read_doing() is Doing.STEPPING
    assert "--batch 8" in folder.log.read_text()
    assert folder.heartbeat.exists()


@pytest.mark.parametrize(
    ("written", "is_doubted"),
    [
        ("made.py", True),
        ("config.yaml", True),
        ("history.json", True),
        ("steps.log", False),
        ("kept.py", False),
    ],
)
def test_a_program_that_writes_its_sources_is_doubted(written, is_doubted):
    """A bug: nothing said why no attempt was of the version of the one before."""
    Path("kept.py").write_text("x = 1")
    Path("history.json").write_text("[]")
    for arguments in (["init"], ["add", "history.json"]):
        subprocess.run(["git", *arguments], check=True, capture_output=True)
    command = script(
        f"""
        print("\\n".join(f"step {{step}} rate 320" for step in range(1, 31)))
        open("{written}", "w").write("x = 1")
        """
    )
    result, _ = run(spec_of(command))
    named = f"sources changed while it ran ({written}"
    assert any(named in reason for reason in result.verdict_reasons) == is_doubted


def test_the_loss_does_not_depend_on_how_many_lines_came_at_once():
    program = """
        import sys, time
        begin = time.monotonic()
        for step in range(1, 41):
            time.sleep(0.04)
            begin, before = time.monotonic(), begin
            line = f"step {step} rate {64 / (begin - before)} loss {3 / step}"
            print(line, flush=step % int(sys.argv[1]) == 0)
    """
    losses = []
    for num_lines in (1, 7, 13):
        spec = spec_of(f"env PYTHONUNBUFFERED= {script(program)} {num_lines}")
        losses.append(run(spec, f"run{num_lines}")[0].measurement.last_loss)
    assert losses == [pytest.approx(3 / 38.5, rel=1e-3)] * 3


def test_utilization_is_of_the_probed_peak_of_box_and_precision(monkeypatch):
    monkeypatch.setenv("SCALEMARK_CACHE", "cache")
    command = script("for n in range(20): print(f'step {n} rate 10')")
    spec = spec_of(
        command, precision="bf16", num_gpus=2, flops_per_item="6*num_gpus", item="images"
    )
    _, folder = run(spec)
    folder.machine.write_text(MACHINE.to_json())
    assert read_again(spec, folder)[0].measurement.mfu is None
    peaks = [ProbedPeak(value=v, precision=p, device=0) for p, v in PEAKS.items()]
    probe = Probe(
        machine=MACHINE.key,
        host="box",
        device_kind=spec.device_kind,
        devices=("CPU device",),
        measured_at="2026-01-01",
        peaks=tuple(peaks),
    )
    write_probe(probe)
    again, _ = read_again(spec, folder)
    # 10 / 2 * 12 FLOP/s of one of the two devices that share the cores
    assert again.measurement.mfu == pytest.approx(60 / 200)
    assert again.measurement.peak_flops_per_s == 200
    assert read_again(replace(spec, precision="fp16"), folder)[0].measurement.mfu is None
    write_probe(replace(probe, doubts=("others took 1 of 2 cores",)))
    assert read_again(spec, folder)[0].measurement.mfu is None


PEAKS = {"bf16": 400.0, "fp32": 100.0}
TIMED_BY_LINES = """
    import sys, time
    for step in range(1, 31):
        time.sleep(0.03)
        sys.stdout.write(f"step {step} of 30, loss {3 / step}")  # the line ends with the next one
        sys.stdout.flush()
        print(f" lr {step}e-5 seen {32 * step}")
"""


def test_a_kept_log_is_read_again_as_it_was_read_while_it_was_written():
    read = r"regex:step (?P<step>\d+) of 30, loss (?P<loss>\S+)"
    spec = spec_of(script(TIMED_BY_LINES), read, item="tokens", items_per_step="8")
    result, folder = run(spec)
    steps = folder.read_steps()
    assert read_again(spec, folder) == (result, steps)
    other = replace(spec, read=r"regex:lr (?P<lr>\S+) seen (?P<step>\d+)", items_per_step="1")
    again, _ = read_again(other, folder)
    assert again.metrics == {"lr": 30e-5}
    ratio = again.measurement.throughput / result.measurement.throughput
    assert ratio == pytest.approx(4, rel=0.4), "a busy machine sees lines late"
    with folder.log.open("r+b") as log:
        log.truncate(100)
    with pytest.raises(ValueError, match=r"log\.txt is shorter than it was$"):
        read_again(spec, folder)


def test_a_variable_that_is_an_axis_is_in_the_programs_environment_and_recorded(monkeypatch):
    monkeypatch.setenv("NCCL_ALGO", "Ring")
    command = script("import os; print('total:', len(os.environ['NCCL_ALGO']))")
    result, folder = run(spec_of(command, ONE, free=(("env.NCCL_ALGO", "CollnetDirect"),)))
    assert result.measurement.throughput == 13
    recorded = folder.read_environment()
    assert recorded["set_by_trial"] == {"NCCL_ALGO": "CollnetDirect"}
    assert recorded["variables"]["NCCL_ALGO"] == "Ring"  # what the whole sweep inherits


@pytest.mark.parametrize(
    ("lines", "per_gpu", "by"),
    [
        ("[rank0]: step {n} rate 10|[rank1]: step {n} rate 10", False, "2 ranks print a rate"),
        ("[rank0]: step {n} rate 10|[rank1]: step {n} rate 10", True, ""),
        ("[rank0]: step {n} rate 10|[rank1]: step {n} ok", False, ""),
        ("step {n} rate 10|step {n} rate 11", False, "each step is printed 2 times, as by 2 ranks"),
        ("step {n} rate 10", False, ""),
    ],
)
def test_ranks_that_each_print_a_rate_are_told_of(lines, per_gpu, by):
    """A bug: that of the first was stored as the sum of both, and nothing was said."""
    command = script(f"for n in range(20): print(f'{lines}'.replace('|', chr(10)))")
    result, _ = run(spec_of(command, items_per_step="num_gpus", per_gpu=per_gpu))
    said = f"{by}, and that of one is taken for all; where each counts its own items, give command.per_gpu=true"
    assert ("is taken for all" in result.message) == bool(by), result.message
    assert not by or said in result.message


TF_CNN = """
    import time
    print("Step\\tImg/sec\\ttotal_loss")
    num_warm_up, total, begin = 3, 100, None
    time.sleep(0.5)  # it compiles
    for step in range(-num_warm_up, total + 1):
        time.sleep(0.02)
        if step == 0:
            begin = time.perf_counter()
        if step >= 1:
            speed = 64 * step / (time.perf_counter() - begin)
            print(f"{step}\\timages/sec: {speed:.1f} +/- 0.0 (jitter = 0.0)\\t7.9")
    print("-" * 64)
    print(f"total images/sec: {64 * total / (time.perf_counter() - begin):.2f}")
    print("-" * 64)
"""


@pytest.mark.parametrize("items_per_step", ["64", ""])
def test_means_of_a_run_so_far_tell_items_and_lines_tell_time(items_per_step):
    spec = spec_of(script(TF_CNN), MEANS_AND_TOTAL, item="images", items_per_step=items_per_step)
    result, _ = run(spec)
    found = result.measurement
    assert (found.item, found.reported) == ("images", False)
    assert found.num_steps >= 20
    assert found.throughput * found.window_s / found.num_steps == pytest.approx(64, rel=0.2)


def test_the_output_may_say_how_many_items_a_step_has():
    text = TF_CNN.replace("Step", "Batch size:  48 global\\nStep")
    result, _ = run(spec_of(script(text.replace("64 *", "48 *")), MEANS_AND_TOTAL))
    found = result.measurement
    assert found.throughput * found.window_s / found.num_steps == pytest.approx(48)
    denied, _ = run(spec_of(script(text), MEANS_AND_TOTAL), "denied")
    assert "by its rates and the items that it counts" in denied.message, "means of 64 deny it"


def test_a_number_that_is_not_finite_at_the_end_is_unknown():
    lines = [
        "METRIC throughput=9 loss=3.5 acc=0.5 val=1.5",
        "METRIC throughput=9 loss=2.5 acc=0.6 val=nan",
    ]
    result, _ = run(spec_of(script(f"print({chr(10).join(lines)!r})"), "metric"))
    found = result.measurement
    assert (found.reported, found.first_loss, found.last_loss) == (True, 3.5, 2.5)
    assert result.metrics == {"acc": 0.6}, "1.5 is not the last value of val"


def test_one_number_is_kept_as_reported_by_the_program():
    result, folder = run(spec_of("printf 'total: 12.5\\n'", ONE))
    found = result.measurement
    assert result.outcome == "completed"
    assert (found.reported, found.num_steps) == (True, 0)
    assert found.throughput == 12.5
    assert (found.throughput_low, found.median_step_s) == (None, None)
    assert result.verdict == "suspect"
    assert result.verdict_reasons[0] == (
        "as reported by the program: one number of its whole run, whose warm-up is not known"
    )
    assert folder.read_steps() == []


def test_many_rates_at_once_are_not_called_one_number():
    """A bug: their mean was said to be one number that the program reported of its whole run."""
    result, folder = run(spec_of("printf 'x 10\\nx 20\\nx 40\\n'", "regex:x ([0-9]+)"))
    assert (result.measurement.reported, result.verdict) == (True, "suspect")
    assert result.measurement.throughput == pytest.approx(3 / (1 / 10 + 1 / 20 + 1 / 40))
    assert result.verdict_reasons[0] == (
        "as reported by the program: the mean of the 3 rates that it printed, warm-up included; "
        "its lines came too close together to be timed; "
        "have it flush its output (python -u, flush=True, stdbuf -oL)"
    )
    assert folder.read_steps() == []


def test_one_number_beside_steps_that_nothing_times_says_both():
    rows = "".join(f"{step}\\timages/sec: 12.5 +/- 0.0 (jitter = 0.0)\\t7.9\\n" for step in (1, 10))
    result, _ = run(spec_of(f"printf '{rows}total images/sec: 12.5\\n'", MEANS_AND_TOTAL))
    assert result.measurement.throughput == 12.5
    assert result.verdict_reasons[0] == (
        "as reported by the program: one number of its whole run, whose warm-up is not known; "
        "its lines came too close together to be timed; "
        "have it flush its output (python -u, flush=True, stdbuf -oL)"
    )


@pytest.mark.parametrize(
    ("command", "outcome", "message"),
    [
        (
            "no-such-program --x",
            "unsupported",
            "no-such-program: no such program in PATH; ",
        ),
        ("./missing.sh", "unsupported", r"missing.sh is not there; wanted a program"),
        ("./plain.sh", "unsupported", r"plain.sh is not executable; chmod \+x it"),
        ("./no-format", "unsupported", "is neither a program nor a script"),
        ("./badly-led", "unsupported", "no interpreter as its first line says, #!/no/such/one"),
        ("./folder", "unsupported", "folder is no file; wanted a program"),
        ("plain.sh", "unsupported", "there is one: write ./plain.sh"),
        ("{batchsize}", "unsupported", "batchsize} is no placeholder"),
        (f"{sys.executable} gone.py", "unsupported", "names a file that is not there"),
        (
            f"{sys.executable} -c 'import nix'",
            "unsupported",
            "a module is missing.*No module named 'nix'",
        ),
        (f"{sys.executable} -c 'raise ValueError(3)'", "failed", "exit code 1: ValueError: 3"),
        ("sh -c 'kill -SEGV $$'", "failed", "ended by SIGSEGV: it printed nothing"),
        (
            "sh -c 'echo torch.OutOfMemoryError: CUDA out of memory. Tried to; exit 1'",
            "out_of_memory",
            "out of GPU memory; try a smaller batch",
        ),
        (
            "sh -c 'ulimit -f 8; exec head -c 99999 /dev/zero > large'",
            "failed",
            r"ended by SIGXFSZ: a file met the limit of its size; raise it \(ulimit -f\)",
        ),
        ("true", "invalid", "found no number.\nIt printed nothing."),
        (
            "echo hello",
            "invalid",
            "found no number; `scalemark read LOG` says what reads its log.txt.\nIts last lines:\nhello",
        ),
        ("echo step 3", "invalid", "found no number"),
        ("echo step 3 rate nan", "invalid", "found nan where a rate was expected"),
    ],
)
def test_a_program_that_measures_nothing_says_why(command, outcome, message):
    Path("plain.sh").write_text("echo\n")
    Path("no-format").write_text("\x00\x01")
    Path("no-format").chmod(0o755)
    Path("badly-led").write_text("#!/no/such/one\n")
    Path("badly-led").chmod(0o755)
    Path("folder").mkdir()
    result, _ = run(spec_of(command))
    assert result.outcome == outcome
    assert re.search(message, result.message), result.message
    assert result.measurement is None


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("sh -c 'kill -KILL $$'", RANK_LOST),
        ("sh -c 'kill -SEGV $$'", RANK_LOST),
        ("sh -c 'exit 137'", RANK_LOST),  # of a shell that saw SIGKILL
        ("sh -c 'exit 1'", 1),
        ("sh -c 'exit 255'", 1),
        ("sh -c 'echo ImportError: x; kill -KILL $$'", 3),
    ],
)
def test_a_program_that_a_signal_ended_is_worth_another_attempt(command, code):
    process, _ = begin(spec_of(command))
    assert process.wait() == code


def test_a_shell_runs_a_pipeline_where_it_is_asked_for():
    spec = spec_of("for i in 1 2 3 4; do echo step $i rate 5; done | cat", shell=True)
    result, _ = run(spec)
    assert result.measurement.throughput == pytest.approx(5)
    missing, _ = run(spec_of("no-such-program", shell=True), "second")
    assert missing.outcome == "unsupported"


ENDS = {
    "raise RuntimeError('CUDA out of memory. Tried to allocate 2 GiB')": (
        "out_of_memory",
        "out of memory; try a smaller batch (exit code 0 hid it): RuntimeError: CUDA out of memory",
    ),
    "raise OSError('disk')": (
        "completed",
        "its output ends with an error, which its exit code 0 hides: OSError: disk",
    ),
    "print('CUDA out of memory. Trying 16'); [print(f'step {n} rate 10') for n in range(20, 40)]": (
        "completed",
        "it printed that memory ran out, and went on, perhaps with a smaller batch than was asked for: CUDA out of memory. Trying 16",
    ),
}


@pytest.mark.parametrize("end", ENDS)
def test_an_exit_code_of_0_hides_no_failure(end):
    """A bug: a pipe hides it, or the program catches its error; its numbers counted as any others."""
    command = script(f"[print(f'step {{n}} rate 10') for n in range(20)]; {end}")
    result, _ = run(spec_of(f"{command} 2>&1 | cat", items_per_step="1", shell=True))
    outcome, said = ENDS[end]
    assert result.outcome == outcome
    assert any(text.startswith(said) for text in (result.message, *(result.verdict_reasons or ())))


def test_the_last_twenty_lines_are_shown():
    result, _ = run(spec_of("seq 100"))
    assert result.message.endswith("Its last lines:\n" + "\n".join(map(str, range(81, 101))))


def test_a_loss_that_is_no_number_makes_the_numbers_invalid():
    command = script("for n in range(20): print(f'step {n} rate 10 loss nan')")
    result, _ = run(spec_of(command, items_per_step="1"))
    assert (result.outcome, result.verdict) == ("invalid", "invalid")
    assert result.message == "the loss is not finite in 20 lines"
    assert result.measurement.throughput == pytest.approx(10), "it is kept as evidence"


def test_a_program_has_the_memory_and_the_cores_of_its_placement():
    given = Placement(
        start="spawn",
        devices=(0,),
        visible_devices="",
        cores=(min(os.sched_getaffinity(0)),),
        host_memory_bytes=2**28,
    )
    command = script(
        "import os, time; print(os.sched_getaffinity(0)); time.sleep(0.2); bytes(2**29)"
    )
    result, folder = run(spec_of(command), given=given)
    assert result.outcome == "out_of_memory"
    assert "out of host memory" in result.message
    assert str(set(given.cores)) in folder.log.read_text()


@pytest.mark.parametrize(("item", "rate"), [("samples", 8), ("tokens", 8192)])
def test_the_item_chooses_among_the_rates_of_a_line(item: str, rate: float):
    command = script(
        """
        for step in range(1, 21):
            print(f'{{"step": {step}, "samples_per_sec": 8, "tokens_per_sec": 8192}}')
        """
    )
    result, _ = run(spec_of(command, read="json", item=item))
    assert result.measurement.item == item
    assert result.measurement.throughput == pytest.approx(rate)


def test_binary_output_and_colors_do_not_hide_numbers():
    command = script(
        r"""
        import sys
        for n in range(20):
            sys.stdout.buffer.write(b"\x00\xff\x80\x1b[1mstep %d rate 5\x1b[0m\r" % n)
        """
    )
    result, _ = run(spec_of(command, items_per_step="1"))
    assert result.measurement.throughput == pytest.approx(5)


def test_a_line_without_an_end_takes_no_memory():
    command = script("import sys\nfor _ in range(250): sys.stdout.write('x' * 1_000_000)")
    process, folder = begin(spec_of(command))
    status, peak_kib = Path(f"/proc/{process.pid}/status"), 0
    while process.poll() is None:
        if found := re.search(r"VmHWM:\s*(\d+) kB", status.read_text()):  # none of a zombie
            peak_kib = int(found[1])
        time.sleep(0.005)
    assert folder.read_result().outcome == "invalid"
    assert folder.log.stat().st_size < 10 * 2**20
    assert 0 < peak_kib < 150 * 2**10, "of the watcher"


def test_much_output_does_not_fill_the_disk():
    command = script("for n in range(100_000): print('step', n, 'rate', 5e6, '.' * 300)")
    result, folder = run(spec_of(command))
    assert result.measurement.throughput == pytest.approx(5e6)
    text = folder.log.read_text()
    assert len(text) < 10 * 2**20
    assert re.search(r"\n\[scalemark: \d+ bytes are left out here\]\n", text)
    assert text.startswith("step 0 rate")
    assert "step 99999 rate" in text[-500:]


def test_a_pattern_that_takes_exponential_time_ends_the_trial():
    result, _ = run(spec_of(f"echo {'a' * 3000}", "regex:" + "a*" * 30 + "([0-9])"))
    assert result.outcome == "invalid"
    assert "took more than 1 s for a line" in result.message


CHILDREN = """
    import os, subprocess, sys, time
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGINT, signal.SIG_IGN); print('up', flush=True); time.sleep(1000)"
    made = [subprocess.Popen([sys.executable, "-c", code], start_new_session=new, stdout=subprocess.PIPE) for new in (True, False)]
    for one in made:
        one.stdout.readline()
    with open("pids", "w") as file:
        file.write(" ".join(str(one.pid) for one in made) + "\\n")
    for n in range(20):
        print(f"step {n} rate 5", flush=True)
"""


def test_children_that_are_left_are_ended_and_named():
    result, _ = run(spec_of(script(CHILDREN), items_per_step="1"))
    for pid in Path("pids").read_text().split():
        assert_gone(int(pid))
    assert result.outcome == "completed"
    assert result.message.startswith("2 processes that it had left running were ended (")


def test_a_daemon_is_found_and_ended():
    command = script(
        """
        import os, sys, time
        if os.fork():
            sys.exit()
        os.setsid()
        if os.fork():
            os._exit(0)
        with open("pids", "w") as file:
            file.write(f"{os.getpid()}\\n")
        time.sleep(1000)
        """
    )
    result, _ = run(spec_of(command))
    assert_gone(int(wait_for(Path("pids"))))
    assert result.outcome == "invalid"
    assert "1 process that it had left running was ended" in result.message
    assert "start programs in the foreground" in result.message


def test_numbers_that_a_daemon_goes_on_printing_are_suspect():
    command = script(
        """
        import itertools, os, sys, time
        if os.fork():
            sys.exit()
        os.setsid()
        for n in itertools.count(1):
            print(f"step {n} rate 5")
            time.sleep(0.01)
        """
    )
    result, _ = run(spec_of(command, items_per_step="1"))
    assert (result.outcome, result.verdict) == ("completed", "suspect")
    assert "it went on in the background after it had ended" in " ".join(result.verdict_reasons)


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_reaches_the_program(which):
    command = script(
        """
        import signal, sys, time
        def end(number, frame):
            print("got", number)
            sys.exit(0)
        signal.signal(signal.SIGINT, end)
        signal.signal(signal.SIGTERM, end)
        open("pids", "w").write("up\\n")
        time.sleep(1000)
        """
    )
    process, folder = begin(spec_of(command))
    wait_for(Path("pids"))
    process.send_signal(which)
    assert process.wait() == 130
    assert folder.read_result().outcome == "interrupted"
    assert f"got {int(which)}" in folder.log.read_text()


def test_a_program_that_ignores_sigterm_is_killed_with_its_children():
    process, _ = begin(spec_of(script(CHILDREN + "    time.sleep(1000)\n")))
    pids = wait_for(Path("pids")).split()
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 130
    for pid in pids:
        assert_gone(int(pid))


def test_nothing_outlives_a_watcher_that_is_killed():
    process, _ = begin(spec_of(script(CHILDREN + "    time.sleep(1000)\n")))
    pids = wait_for(Path("pids")).split()
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pid in pids:
        assert_gone(int(pid))


def test_a_child_that_is_left_and_floods_is_ended():
    """The watcher once read what it printed until it ended, which was never."""
    command = "sh -c 'yes & echo $! > pids; echo METRIC throughput=3; sleep 0.3'"
    result, _ = run(spec_of(command, "metric"))
    assert_gone(int(Path("pids").read_text()))
    assert (result.outcome, result.measurement.throughput) == ("completed", 3)
    assert "1 process that it had left running was ended (yes)" in result.message


SILENT = """
    import pathlib, sys, time
    held = bytearray(2**26)
    time.sleep(1.5)
    pathlib.Path(sys.argv[1], "out.json").write_text('{"tokens_per_sec": 7}')
"""


@pytest.mark.parametrize("prints", ["print('hello')", ""])
def test_the_memory_of_a_program_that_tells_no_steps_is_seen(prints):
    command = script(SILENT + f"    {prints}\n    time.sleep(0.2)\n") + " {run_dir}"
    found = run(spec_of(command, "json:out.json"))[0].measurement
    assert (found.reported, found.throughput) == (True, 7)
    assert found.peak_host_memory_bytes > 2**26


def test_a_program_has_its_place_and_no_input():
    command = script(
        """
        import json, os, sys
        found = {"arguments": sys.argv[1:], "stdin": sys.stdin.read(), "folder": os.getcwd(), "path": os.environ.get("PYTHONPATH")}
        json.dump(found, open("found.json", "w"))
        """
    )
    _, folder = run(spec_of(command + " {run_dir} {num_hosts} {free_port}"))
    found = json.loads(Path("found.json").read_text())
    run_dir, num_hosts, port = found["arguments"]
    assert (run_dir, num_hosts) == (str(folder.path), "1")
    assert (found["stdin"], found["folder"]) == ("", str(Path.cwd()))
    assert found["path"] == os.environ.get("PYTHONPATH")
    with socket.socket() as free:
        free.bind(("", int(port)))


def test_a_python_that_nobody_found_is_a_reason_to_doubt():
    command = script("for step in range(9): print(f'step {step} rate 5')")
    runner = Path("bin/uv")
    runner.parent.mkdir()
    runner.write_text('#!/bin/sh\nshift\n[ "$2" = -c ] && exit 1\nexec "$@"\n')
    runner.chmod(0o755)
    result, _ = run(spec_of(f"{runner} run {command}"))
    assert result.verdict == "suspect"
    assert any(reason.startswith("the Python that runs") for reason in result.verdict_reasons)


def test_the_environment_is_the_programs_own():
    command = script("print()")
    _, folder = run(spec_of(command))
    found = environment_of(folder)
    assert found["interpreter"] == sys.executable
    assert found["packages"]["numpy"]
    assert found["program"]["code"]
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
