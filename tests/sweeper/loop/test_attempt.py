"""However a process ends, the attempt gets its outcome and nothing is left running."""

import os
import shutil
import signal
import sys
from contextlib import closing

import psutil
import pytest

from conf.schema import LauncherConfig
from scalemark.host.processes import OVERSLEPT_S
from scalemark.records.measurement import AttemptResult, Doing, Outcome
from sweeper.loop.attempt import (
    LOOK_EVERY_S,
    NO_MEMORY_S,
    Attempt,
    ProcessEnd,
    judge,
)
from sweeper.starts import Spawn, environment
from tests.sweeper.processes import assert_gone, make_folder, wait_for_end, wait_until

LIMITS = LauncherConfig(
    name="local", timeout_s=1000, start_timeout_s=100, step_timeout_s=10, grace_s=5
)
COMPLETE = """(folder / "result.json").write_text('{"outcome": "completed", "message": "", "measurement": null, "op_placement": {}}')\n"""
# In short sleeps: Python may lose sight of a signal that comes just before a long one begins.
SLEEP = "for _ in range(6000):\n    time.sleep(0.1)\n"
WAIT = f"import time\n(folder / 'ready').touch()\n{SLEEP}"


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def begin(tmp_path, clock):
    """Start a script in the trainer's place; returns its folder and its attempt once it is ready."""
    with closing(Spawn((sys.executable, "-m", "tests.sweeper.starts.scripted"))) as spawn:
        attempts = []

        def begin(script: str, *, is_ready: str = "ready", variables=None):
            folder = make_folder(tmp_path / "run", script)
            process = spawn.start(
                folder, environment(os.environ | (variables or {}), "GPU-aa,GPU-bb")
            )
            attempts.append(Attempt(folder, process, LIMITS, clock=clock))
            if is_ready:
                wait_until((folder.path / is_ready).exists, process.descriptor)
            return folder, attempts[-1]

        yield begin
        for attempt in attempts:
            if not attempt_is_over(attempt):
                attempt.stop(at_once=True)
                finish(attempt)


def attempt_is_over(attempt) -> bool:
    try:
        os.fstat(attempt.descriptor)
    except OSError:
        return True
    return False


def finish(attempt) -> ProcessEnd:
    wait_for_end(attempt.descriptor)
    return attempt.ended()


def result(begin, script):
    folder, attempt = begin(script, is_ready="")
    ended = finish(attempt)
    judged = judge(folder, ended, LIMITS)
    return judged.result, judged.crashed


@pytest.mark.parametrize(
    ("outcome", "exit_code", "crashed"),
    [(Outcome.HUNG, 6, False), (Outcome.FAILED, 7, True), (Outcome.FAILED, 1, False)],
)
def test_what_became_of_the_ranks_of_a_trial_is_what_its_trainer_tells(
    tmp_path, outcome, exit_code, crashed
):
    """A rank that crashed may do better; what a rank said went wrong would again."""
    folder = make_folder(tmp_path / "run", "")
    reported = AttemptResult(
        outcome=outcome, message="rank ps-0 did it", measurement=None, op_placement={}
    )
    folder.write(folder.result, reported.to_json())
    judged = judge(folder, ProcessEnd(exit_code=exit_code, duration_s=1), LIMITS)
    assert (judged.result, judged.crashed) == (reported, crashed)


def look_at(attempt, clock, now_s: float) -> None:
    """Until then, never so late that anybody would take the machine for paused."""
    while clock.now_s < now_s:
        clock.now_s = min(now_s, clock.now_s + OVERSLEPT_S)
        attempt.look()


def test_what_the_trainer_wrote_is_the_result(begin):
    found, has_crashed = result(begin, COMPLETE)
    assert (found.outcome, has_crashed) == (Outcome.COMPLETED, False)


def test_a_crash_after_writing_is_a_failure(begin):
    found, has_crashed = result(begin, COMPLETE + "exit_code = 7")
    assert (found.outcome, has_crashed) == (Outcome.FAILED, True)
    assert "exit code 7" in found.message


def test_a_kill_after_writing_changes_nothing(begin):
    found, has_crashed = result(begin, COMPLETE + "import os; os.kill(os.getpid(), 9)")
    assert (found.outcome, has_crashed) == (Outcome.COMPLETED, False)


@pytest.mark.parametrize("outcome", [Outcome.COMPLETED, Outcome.FAILED, Outcome.OUT_OF_MEMORY])
def test_when_nobody_saw_the_end_what_was_written_counts(tmp_path, outcome):
    folder = make_folder(tmp_path / "run", "")
    written = AttemptResult(outcome=outcome, message="as I said", measurement=None, op_placement={})
    folder.result.write_text(written.to_json())
    judged = judge(folder, ProcessEnd(exit_code=None, duration_s=1), LIMITS)
    assert (judged.result, judged.crashed) == (written, False)


def test_a_crash_after_an_error_of_a_gpu_names_it(tmp_path):
    folder = make_folder(tmp_path / "run", "")
    folder.gpu_errors.write_text('{"time_s": 1.0, "uuid": "GPU-a", "xid": 79}\n')
    judged = judge(folder, ProcessEnd(exit_code=-6, duration_s=1, last_error="oh"), LIMITS)
    said = "GPU-a reported Xid 79 (see docs.nvidia.com/deploy/xid-errors)"
    assert judged.result.message == f"ended by SIGABRT: oh; {said}"
    assert judged.crashed


def test_when_nobody_saw_the_end_and_nothing_was_written_it_crashed(tmp_path):
    judged = judge(
        make_folder(tmp_path / "run", ""),
        ProcessEnd(exit_code=None, duration_s=1, last_error="SomeError: oh"),
        LIMITS,
    )
    message = (
        "ended unseen, and left no result (the fork server that started it was lost): SomeError: oh"
    )
    assert (judged.result.outcome, judged.result.message, judged.crashed) == (
        Outcome.FAILED,
        message,
        True,
    )


def test_an_interrupt_by_somebody_else_is_a_crash(begin):
    found, has_crashed = result(
        begin, COMPLETE.replace("completed", "interrupted") + "exit_code = 130"
    )
    assert (found.outcome, has_crashed) == (Outcome.INTERRUPTED, True)


def test_what_a_trainer_leaves_behind_is_ended_with_it(begin):
    script = """
        import subprocess, sys
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        (folder / "child").write_text(str(child.pid))
        child.returncode = 0
    """
    folder, attempt = begin(script, is_ready="")
    finish(attempt)
    assert_gone(int((folder.path / "child").read_text()))


def test_what_a_killed_process_had_started_elsewhere_is_ended_with_it(begin):
    """As a user's program, which is in a session of its own."""
    script = """
        import os, subprocess, sys, time
        from scalemark.host.processes import ORCHESTRATOR_VARIABLE
        command = [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"]
        own = {**os.environ, ORCHESTRATOR_VARIABLE: str(os.getpid())}
        child = subprocess.Popen(command, env=own, stdout=subprocess.PIPE, start_new_session=True)
        child.stdout.readline()
        (folder / "child").write_text(str(child.pid))
        os.kill(os.getpid(), 9)
    """
    folder, attempt = begin(script, is_ready="")
    assert finish(attempt).exit_code == -signal.SIGKILL
    assert_gone(int((folder.path / "child").read_text()))


def test_a_signal_is_named_with_the_last_error_of_the_log(begin):
    found, has_crashed = result(
        begin,
        "import os; print('SomeError: on the brink'); print('I0000 only talk', flush=True); os.kill(os.getpid(), 11)",
    )
    assert (found.outcome, found.message, has_crashed) == (
        Outcome.FAILED,
        "ended by SIGSEGV: SomeError: on the brink",
        True,
    )


def test_a_failed_allocation_in_a_library_is_out_of_memory(begin):
    said = "terminate called after throwing an instance of 'std::bad_alloc'"
    found, has_crashed = result(begin, f"import os; print({said!r}, flush=True); os.abort()")
    assert (found.outcome, has_crashed) == (Outcome.OUT_OF_MEMORY, False)
    assert "out of host memory; try a smaller batch_size" in found.message


def test_a_crash_after_a_failed_allocation_is_out_of_memory(begin):
    """A bug: oneDNN crashes where TensorFlow had no memory for its tensor on a CPU device, which
    was taken for a failure, and tried again."""
    said = (
        "W0000 op_kernel.cc:1858] OP_REQUIRES failed at mkl_util.h:848 : RESOURCE_EXHAUSTED: OOM "
        "when allocating tensor with shape[8448,28,28,32] and type float on "
        "/job:localhost/replica:0/task:0/device:CPU:1 by allocator mklcpu"
    )
    crash = f"import os; print({said!r}, flush=True); os.kill(os.getpid(), 11)"
    found, has_crashed = result(begin, crash)
    assert (found.outcome, has_crashed) == (Outcome.OUT_OF_MEMORY, False)
    assert found.message.endswith("device:CPU:1 by allocator mklcpu")


@pytest.mark.parametrize(
    "script",
    [
        "raise MemoryError",
        "raise OSError(12, 'Cannot allocate memory')",
        "raise ImportError('libx.so.2: failed to map segment from shared object')",
    ],
)
def test_a_trainer_without_a_result_that_lacked_memory_is_out_of_memory(begin, script):
    found, has_crashed = result(begin, script)
    assert (found.outcome, has_crashed) == (Outcome.OUT_OF_MEMORY, False)


@pytest.mark.parametrize(
    ("script", "remedy"),
    [
        ('raise RuntimeError("can\'t start new thread")', "ulimit -u, pids.max"),
        (
            "import os; print('F0000 env.cc:84] Check failed: Thread creation via pthread_create() failed.', flush=True); os.abort()",
            "ulimit -u, pids.max",
        ),
        (
            "raise RuntimeError('ibv_reg_mr_iova2 failed with error Cannot allocate memory')",
            "ulimit -l",
        ),
        ("raise OSError('cannot register 4096 bytes: Cannot allocate memory')", "ulimit -l"),
    ],
)
def test_another_limit_is_not_taken_for_out_of_memory_and_is_named(begin, script, remedy):
    found, has_crashed = result(begin, script)
    assert (found.outcome, has_crashed) == (Outcome.FAILED, True)
    assert remedy in found.message


def test_a_kill_by_someone_else_is_not_taken_for_out_of_memory(begin):
    found, has_crashed = result(begin, "import os; os.kill(os.getpid(), 9)")
    message = (
        "killed by SIGKILL from outside (perhaps for lack of memory): see log.txt in its run folder"
    )
    assert (found.outcome, found.message, has_crashed) == (Outcome.FAILED, message, True)


def test_of_a_huge_log_only_the_end_is_searched(begin):
    found, _ = result(begin, "print('OldError: long ago'); print('x' * 200_000); exit_code = 9")
    assert (
        found.message == "ended with exit code 9 and left no result: see log.txt in its run folder"
    )


def test_a_slow_process_gets_three_signals_in_turn(begin, clock):
    script = """
        import os, signal, subprocess, sys, time
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _: (folder / signal.Signals(number).name).touch())
        deaf = "import signal, time; signal.signal(2, signal.SIG_IGN); signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(600)"
        child = subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE)
        child.stdout.readline()
        (folder / "child").write_text(str(child.pid))
        (folder / "ready").touch()
        while True:
            time.sleep(0.1)
    """
    folder, attempt = begin(script)
    folder.write(folder.doing, Doing.BUILDING)
    look_at(attempt, clock, 99)
    assert not (folder.path / "SIGINT").exists()
    folder.write(folder.doing, Doing.STEPPING)
    for step in range(100, 1000, 5):
        folder.steps.write_text(f'{{"step": {step}}}\n')
        look_at(attempt, clock, step)
    look_at(attempt, clock, 1000)
    wait_until((folder.path / "SIGINT").exists, attempt.descriptor)
    assert attempt.next_look_s() == LOOK_EVERY_S
    look_at(attempt, clock, 1004.9)
    assert not (folder.path / "SIGTERM").exists()
    assert attempt.next_look_s() == pytest.approx(0.1)
    look_at(attempt, clock, 1005)
    wait_until((folder.path / "SIGTERM").exists, attempt.descriptor)
    assert attempt.ended() is None
    look_at(attempt, clock, 1010)
    ended = finish(attempt)
    assert (ended.cause, ended.exit_code) == (Outcome.TIMED_OUT, -signal.SIGKILL)
    assert (
        judge(folder, ended, LIMITS).result.message == "not finished within launcher.timeout_s=1000"
    )
    assert not judge(folder, ended, LIMITS).crashed
    assert_gone(int((folder.path / "child").read_text()))


@pytest.mark.parametrize(
    ("doing", "allowed_s", "message"),
    [
        (None, 100, "no first step within launcher.start_timeout_s=100"),
        (Doing.BUILDING, 100, "no first step within launcher.start_timeout_s=100"),
        (Doing.STEPPING, 10, "no step within launcher.step_timeout_s=10 after step 4"),
        (
            Doing.PROFILING,
            100,
            "no end within launcher.start_timeout_s=100 after the measured steps",
        ),
    ],
)
def test_each_thing_a_trainer_does_has_its_own_deadline(begin, clock, doing, allowed_s, message):
    folder, attempt = begin(WAIT)
    seen_s = 0
    if doing:
        folder.write(folder.doing, doing)
        folder.steps.write_text('{"step": 3}\n{"step": 4}\n')
        seen_s = 0 if doing is Doing.BUILDING else 1
    look_at(attempt, clock, 1)
    look_at(attempt, clock, seen_s + allowed_s - 0.1)
    assert attempt.next_look_s() > 0
    look_at(attempt, clock, seen_s + allowed_s + LOOK_EVERY_S)
    ended = finish(attempt)
    assert (ended.cause, judge(folder, ended, LIMITS).result.message) == (Outcome.HUNG, message)


@pytest.mark.parametrize("token", [".token", ".tokenworker-1"])
def test_deadlines_begin_when_it_and_all_its_ranks_have_a_host(begin, clock, token):
    folder, attempt = begin(WAIT)
    (folder.path / token).touch()
    look_at(attempt, clock, 2000)
    (folder.path / token).unlink()
    look_at(attempt, clock, 2099)
    assert attempt.ended() is None
    look_at(attempt, clock, 2100 + LOOK_EVERY_S)
    assert finish(attempt).cause == Outcome.HUNG


def test_it_lasts_from_when_it_has_a_host_until_its_files_are_sent(begin, clock):
    """A bug: its start moved to where its files began to be sent, and it had lasted 0.2 s."""
    folder, attempt = begin(WAIT)
    (folder.path / ".token").touch()
    look_at(attempt, clock, 2000)
    (folder.path / ".token").unlink()
    look_at(attempt, clock, 2001)
    (folder.path / ".token").touch()
    look_at(attempt, clock, 2090)
    assert attempt.next_look_s() > 0
    attempt.stop(at_once=True)
    assert finish(attempt).duration_s == pytest.approx(90, abs=1)


GAVE_UP = "Allocator (GPU_1_bfc) ran out of memory trying to allocate 2.00GiB"
LOGGED = "2026-01-01 10:00:00.000000: W external/xla/xla/tsl/framework/bfc_allocator.cc:501] "


def test_gpus_that_wait_for_one_without_memory_are_ended_soon(begin, clock):
    """A bug: NCCL's op hears no cancellation, and the trial was hung for all of its start_timeout_s."""
    folder, attempt = begin(WAIT)
    look_at(attempt, clock, 5)
    with folder.log.open("a") as log:
        log.write(f"{LOGGED}{GAVE_UP} (rounded to 2147483648)requested by op tower_1/Conv2D\n")
    look_at(attempt, clock, NO_MEMORY_S + 1)
    judged = judge(folder, finish(attempt), LIMITS).result
    assert (judged.outcome, judged.message) == (
        Outcome.OUT_OF_MEMORY,
        f"out of GPU memory, and other GPUs waited for it in vain: {GAVE_UP}; try a smaller "
        "batch_size, image_px or seq_len",
    )


def test_an_allocator_that_fails_nobody_is_no_lack_of_memory(begin, clock):
    folder, attempt = begin(WAIT)
    with folder.log.open("a") as log:
        log.write(
            f"{LOGGED}{GAVE_UP} with freed_by_count=0. The caller indicates that this is not a "
            "failure, but this may mean that there could be performance gains if more memory were "
            "available.\n"
        )
    look_at(attempt, clock, NO_MEMORY_S + 1)
    assert attempt.ended() is None
    look_at(attempt, clock, 101)
    assert judge(folder, finish(attempt), LIMITS).result.outcome == Outcome.HUNG


def test_a_step_moves_the_deadline(begin, clock):
    folder, attempt = begin(WAIT)
    folder.write(folder.doing, Doing.STEPPING)
    for step in range(10):
        folder.steps.write_text(f'{{"step": {step}}}\n')
        look_at(attempt, clock, 9 * (step + 1))
    assert attempt.ended() is None
    look_at(attempt, clock, 101)
    assert finish(attempt).cause is Outcome.HUNG


def test_output_of_a_program_moves_the_deadline_until_it_falls_silent(begin, clock):
    folder, attempt = begin(WAIT)
    folder.write(folder.doing, Doing.STEPPING)
    folder.steps.write_text('{"step": 7}\n')
    for number in range(1, 4):
        folder.heartbeat.touch()
        os.utime(folder.heartbeat, ns=(number, number))
        look_at(attempt, clock, 9 * number)
        assert attempt.ended() is None
    look_at(attempt, clock, 37)
    ended = finish(attempt)
    message = "no step and no output within launcher.step_timeout_s=10 after step 7"
    assert (ended.cause, judge(folder, ended, LIMITS).result.message) == (Outcome.HUNG, message)


def test_what_ended_before_anybody_looked_has_missed_no_deadline(begin, clock):
    folder, attempt = begin(WAIT)
    look_at(attempt, clock, 99)
    signal.pidfd_send_signal(attempt.descriptor, signal.SIGSEGV)
    wait_for_end(attempt.descriptor)
    look_at(attempt, clock, 100)
    ended = attempt.ended()
    assert (ended.cause, ended.exit_code, ended.duration_s) == (None, -signal.SIGSEGV, 100)
    assert judge(folder, ended, LIMITS).result.message.startswith("ended by SIGSEGV")


def test_a_pause_of_the_machine_misses_no_deadline(begin, clock):
    _, attempt = begin(WAIT)
    look_at(attempt, clock, 50)
    clock.now_s += 7200
    attempt.look()
    assert attempt.next_look_s() == LOOK_EVERY_S
    signal.pidfd_send_signal(attempt.descriptor, signal.SIGKILL)
    ended = finish(attempt)
    assert (ended.cause, ended.duration_s) == (None, 50 + LOOK_EVERY_S)


def test_after_a_pause_deadlines_and_grace_go_on_where_they_were(begin, clock):
    _, attempt = begin(WAIT)
    look_at(attempt, clock, 50)
    clock.now_s += 7200
    attempt.look()
    look_at(attempt, clock, clock.now_s + 51)
    wait_for_end(attempt.descriptor)
    clock.now_s += 7200
    attempt.look()
    assert attempt.next_look_s() > 0
    ended = attempt.ended()
    assert (ended.cause, ended.duration_s) == (Outcome.HUNG, 101 + 2 * LOOK_EVERY_S)


def test_the_end_of_what_ran_while_nobody_looked_is_not_counted_either(begin, clock):
    _, attempt = begin("", is_ready="")
    wait_for_end(attempt.descriptor)
    clock.now_s += 7200
    attempt.look()
    ended = attempt.ended()
    assert (ended.cause, ended.exit_code, ended.duration_s) == (None, 0, LOOK_EVERY_S)


def test_an_attempt_without_a_folder_is_ended_at_its_deadline(begin, clock):
    folder, attempt = begin(WAIT)
    shutil.rmtree(folder.path)
    look_at(attempt, clock, 101)
    ended = finish(attempt)
    judged = judge(folder, ended, LIMITS)
    assert (ended.cause, judged.result.outcome, judged.crashed) == (
        Outcome.FAILED,
        Outcome.FAILED,
        True,
    )
    assert judged.result.message.startswith(
        "ended, for its run folder could not be read: [Errno 2] No such file or directory"
    )
    assert str(folder.path) in judged.result.message


def test_what_cannot_be_read_for_a_while_ends_nobody(begin, clock):
    folder, attempt = begin(WAIT)
    folder.write(folder.doing, Doing.STEPPING)
    folder.steps.write_bytes(b"\0" * 100 + b"\n")
    look_at(attempt, clock, 99)
    folder.steps.write_text('{"step": 7}\n')
    look_at(attempt, clock, 105)
    assert attempt.ended() is None
    look_at(attempt, clock, 120)
    ended = finish(attempt)
    assert (ended.cause, ended.seen.last_step, ended.seen.unreadable) == (Outcome.HUNG, 7, "")


@pytest.mark.parametrize("name", ["doing.txt", "steps.jsonl"])
def test_files_that_make_no_sense_are_named_at_the_deadline(begin, clock, name):
    folder, attempt = begin(WAIT)
    folder.write(folder.doing, Doing.STEPPING)
    (folder.path / name).write_bytes(b"\0\n")
    look_at(attempt, clock, 101)
    judged = judge(folder, finish(attempt), LIMITS)
    assert judged.result.outcome == Outcome.FAILED
    assert f"{folder.path / name} is damaged: " in judged.result.message


def test_a_result_counts_though_nothing_else_can_be_read(begin):
    found, _ = result(
        begin,
        COMPLETE
        + "(folder / 'doing.txt').write_text('what is no Doing'); (folder / 'log.txt').unlink()",
    )
    assert found.outcome == Outcome.COMPLETED


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0\0\0",
        "[]",
        "{}",
        '{"outcome": "completed"',
        COMPLETE.split("'")[1].replace("completed", "splendid"),
    ],
)
def test_a_damaged_result_is_a_failure_that_names_it(begin, text):
    found, has_crashed = result(begin, f"(folder / 'result.json').write_text({text!r})")
    assert (found.outcome, has_crashed) == (Outcome.FAILED, True)
    assert "/run/result.json is damaged: " in found.message


def test_a_damaged_result_of_an_interrupted_attempt_is_no_failure(tmp_path):
    folder = make_folder(tmp_path / "run", "")
    folder.result.write_text("")
    judged = judge(
        folder, ProcessEnd(exit_code=130, duration_s=1, cause=Outcome.INTERRUPTED), LIMITS
    )
    assert (judged.result.outcome, judged.crashed) == (Outcome.INTERRUPTED, False)


def test_a_log_that_is_gone_is_reported(begin):
    found, _ = result(begin, "(folder / 'log.txt').unlink(); exit_code = 9")
    assert found.message.startswith(
        "ended with exit code 9 and left no result: [Errno 2] No such file or directory: "
    )
    assert found.message.endswith("/run/log.txt'")


def test_a_stopped_process_is_killed_in_the_end(begin, clock):
    folder, attempt = begin(f"import os\n(folder / 'pid').write_text(str(os.getpid()))\n{WAIT}")
    process = psutil.Process(int((folder.path / "pid").read_text()))
    process.suspend()
    # SIGTERM would still end it between the signal and the stop
    wait_until(lambda: process.status() == psutil.STATUS_STOPPED, attempt.descriptor)
    for now_s in (100, 105, 110):
        look_at(attempt, clock, now_s)
    assert finish(attempt).exit_code == -signal.SIGKILL


def test_an_interrupt_of_the_sweep_ends_the_process_and_its_children(begin):
    script = """
        import subprocess, sys, time
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        (folder / "child").write_text(str(child.pid))
        (folder / "ready").touch()
        while True:
            time.sleep(0.1)
    """
    folder, attempt = begin(script)
    attempt.stop()
    attempt.stop()
    ended = finish(attempt)
    assert ended.exit_code == 130
    assert judge(folder, ended, LIMITS).result.outcome == Outcome.INTERRUPTED
    assert_gone(int((folder.path / "child").read_text()))


def test_a_second_interrupt_kills_at_once(begin):
    _, attempt = begin(
        "import signal, time\nsignal.signal(2, signal.SIG_IGN)\n(folder / 'ready').touch()\n"
        + SLEEP
    )
    attempt.stop()
    attempt.stop(at_once=True)
    ended = finish(attempt)
    assert (ended.cause, ended.exit_code) == (Outcome.INTERRUPTED, -signal.SIGKILL)


def test_a_trial_that_completed_while_it_was_interrupted_is_completed(begin):
    script = f"""
import signal, time
signal.signal(signal.SIGINT, lambda *_: (folder / "asked").touch())
(folder / "ready").touch()
while not (folder / "asked").exists():
    time.sleep(0.01)
{COMPLETE}"""
    folder, attempt = begin(script)
    attempt.stop()
    assert judge(folder, finish(attempt), LIMITS).result.outcome == Outcome.COMPLETED


def test_a_missed_deadline_is_no_interrupt(begin, clock):
    script = f"""
import time
try:
    (folder / "ready").touch()
    while True:
        time.sleep(0.1)
except KeyboardInterrupt:
    {COMPLETE.replace("completed", "interrupted").strip()}
    exit_code = 130
"""
    folder, attempt = begin(script)
    look_at(attempt, clock, 100)
    assert judge(folder, finish(attempt), LIMITS).result.outcome == Outcome.HUNG


def test_the_environment_names_gpus_and_absolute_folders(begin):
    script = 'import os; print(os.environ["CUDA_VISIBLE_DEVICES"], os.environ["CUDA_DEVICE_ORDER"], {"HYDRA_FULL_ERROR", "TF_CONFIG"} & set(os.environ), os.environ["SCALEMARK_CACHE"])'
    folder, attempt = begin(
        script,
        is_ready="",
        variables={"HYDRA_FULL_ERROR": "1", "TF_CONFIG": "{", "SCALEMARK_CACHE": "cache"},
    )
    finish(attempt)
    assert (
        folder.log.read_text() == f"GPU-aa,GPU-bb PCI_BUS_ID set() {folder.path.parent / 'cache'}\n"
    )


@pytest.mark.parametrize(
    ("shares_host", "outcome", "message"),
    [
        (False, Outcome.OUT_OF_MEMORY, "killed by the kernel for lack of host memory"),
        (True, Outcome.FAILED, "it lacked host memory, for this trial or one beside it"),
    ],
)
def test_a_kill_by_the_kernel_is_certain_of_one_trial_alone(
    tmp_path, shares_host, outcome, message
):
    folder = make_folder(tmp_path / "run", "")
    folder.log.touch()
    ended = ProcessEnd(
        exit_code=-signal.SIGKILL, duration_s=1, kernel_killed=True, shares_host=shares_host
    )
    found = judge(folder, ended, LIMITS).result
    assert found.outcome == outcome
    assert message in found.message
