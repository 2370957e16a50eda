"""However a process ends, the attempt gets its outcome and nothing is left running."""

import signal
import sys
import textwrap
import time

import psutil
import pytest

from store.records import Outcome, Result, RunFolder
from sweeper.attempt import Ended, result_of, run_process
from tests.specs import small


@pytest.fixture
def folder(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    folder.trial.write_text(small().to_json())
    return folder


def run(
    folder, script: str, *, timeout_s: float = 60, step_timeout_s: float = 60, on_look=lambda: None, visible_devices: str = ""
):
    """Run a script in the trainer's place; it finds the run folder in sys.argv[2]."""
    path = folder.path / "script.py"
    path.write_text(textwrap.dedent(script))
    ended = run_process(
        folder,
        visible_devices=visible_devices,
        timeout_s=timeout_s,
        step_timeout_s=step_timeout_s,
        grace_s=0.5,
        on_look=on_look,
        command=(sys.executable, str(path)),
    )
    return ended, result_of(folder, ended, timeout_s, step_timeout_s)


COMPLETE = """
    import pathlib, sys
    pathlib.Path(sys.argv[2], "result.json").write_text('{"outcome": "completed", "message": "", "measurement": null, "op_placement": {}}')
"""


def test_what_the_trainer_wrote_is_the_result(folder):
    ended, result = run(folder, COMPLETE)
    assert (ended.exit_code, result.outcome) == (0, Outcome.COMPLETED)


def test_a_crash_after_writing_is_a_failure(folder):
    _, result = run(folder, COMPLETE + "    sys.exit(7)\n")
    assert result.outcome == Outcome.FAILED
    assert "exit code 7" in result.message


def test_a_signal_is_named_with_the_last_error_of_the_log(folder):
    _, result = run(
        folder, "import os, sys; print('SomeError: on the brink'); print('I0000 only talk', flush=True); os.kill(os.getpid(), 11)"
    )
    assert (result.outcome, result.message) == (Outcome.FAILED, "ended by SIGSEGV: SomeError: on the brink")


def test_a_process_that_takes_too_long_and_ignores_sigterm_is_killed_with_its_children(folder):
    script = """
        import pathlib, signal, subprocess, sys, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"])
        pathlib.Path(sys.argv[2], "child").write_text(str(child.pid))
        time.sleep(600)
    """
    ended, result = run(folder, script, timeout_s=2)
    assert ended.timed_out
    assert (result.outcome, result.message) == (Outcome.TIMED_OUT, "not finished within launcher.timeout_s=2")
    _assert_gone(int((folder.path / "child").read_text()))


def test_a_trainer_whose_steps_stop_coming_has_hung(folder):
    script = """
        import pathlib, sys, time
        pathlib.Path(sys.argv[2], "steps.jsonl").write_text('{"step": 3}\\n{"step": 4}\\n')
        time.sleep(600)
    """
    _, result = run(folder, script, step_timeout_s=1)
    assert (result.outcome, result.message) == (Outcome.HUNG, "no step within launcher.step_timeout_s=1 after step 4")


def test_a_trainer_that_has_taken_no_step_yet_may_take_its_time(folder):
    _, result = run(folder, "import time; time.sleep(1.5)\n" + textwrap.dedent(COMPLETE), step_timeout_s=0.2)
    assert result.outcome == Outcome.COMPLETED


def test_a_failed_allocation_in_a_library_is_out_of_memory(folder):
    script = """
        import os, sys
        print("terminate called after throwing an instance of 'std::bad_alloc'", file=sys.stderr, flush=True)
        os.abort()
    """
    _, result = run(folder, script)
    assert result.outcome == Outcome.OUT_OF_MEMORY
    assert "std::bad_alloc; try a smaller batch_size" in result.message


def test_an_interrupt_ends_the_process_and_its_children(folder):
    script = """
        import pathlib, subprocess, sys, time
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        pathlib.Path(sys.argv[2], "child").write_text(str(child.pid))
        time.sleep(600)
    """

    def interrupt_once_the_child_is_there():
        if (folder.path / "child").exists():
            raise KeyboardInterrupt

    ended, result = run(folder, script, on_look=interrupt_once_the_child_is_there)
    assert ended.interrupted
    assert result.outcome == Outcome.INTERRUPTED
    _assert_gone(int((folder.path / "child").read_text()))


def test_a_trial_that_completed_while_it_was_interrupted_is_completed(folder):
    def interrupt_once_the_result_is_there():
        if (folder.path / "result.json").exists():
            raise KeyboardInterrupt

    script = COMPLETE + "    import signal, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); time.sleep(60)\n"
    _, result = run(folder, script, on_look=interrupt_once_the_result_is_there)
    assert result.outcome == Outcome.COMPLETED


def test_the_process_sees_only_its_gpus_and_leads_its_own_session(folder, monkeypatch):
    script = """
        import os
        print(os.environ["CUDA_VISIBLE_DEVICES"], os.environ["CUDA_DEVICE_ORDER"], os.getsid(0) == os.getpid(), "HYDRA_FULL_ERROR" in os.environ)
    """
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    run(folder, script, visible_devices="GPU-aa,GPU-bb")
    assert folder.log.read_text() == "GPU-aa,GPU-bb PCI_BUS_ID True False\n"


def test_a_kill_by_the_kernel_for_memory_is_out_of_memory(folder):
    ended = Ended(
        exit_code=-signal.SIGKILL,
        duration_s=1,
        timed_out=False,
        hung_after=None,
        interrupted=False,
        allocation_failed=False,
        out_of_memory=True,
    )
    assert result_of(folder, ended, 60, 60).outcome == Outcome.OUT_OF_MEMORY


def test_a_kill_by_someone_else_is_not_taken_for_out_of_memory(folder):
    _, result = run(folder, "import os; os.kill(os.getpid(), 9)")
    assert (result.outcome, result.message) == (
        Outcome.FAILED,
        "killed by SIGKILL from outside (perhaps for lack of memory): see log.txt in its run folder",
    )


def test_a_real_time_signal_has_a_number(folder):
    _, result = run(folder, "import os; os.kill(os.getpid(), 37)")
    assert result.message.startswith("ended by signal 37")


def test_a_result_survives_its_json():
    result = Result(outcome=Outcome.FAILED, message="é\n", measurement=None, op_placement={"update": {"X @ CPU:0": 1}})
    assert Result.from_json(result.to_json()) == result


def _assert_gone(pid: int) -> None:
    deadline = time.monotonic() + 10  # the kernel may need a moment to reap; a test that waits in vain fails
    while time.monotonic() < deadline:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return
        time.sleep(0.05)
    pytest.fail(f"process {pid} is still running")
