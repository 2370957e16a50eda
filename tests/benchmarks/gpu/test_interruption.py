"""Ctrl-C, SIGTERM and SIGHUP end a stage, keep what it found, and leave the report to be written."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.gpu import running
from benchmarks.gpu.__main__ import STAGES
from benchmarks.gpu.kit import Judged, Verdict, end, limited
from benchmarks.gpu.report import verdicts
from benchmarks.gpu.running import interruptible, run_stages
from benchmarks.gpu.stages import selfcheck
from tests.benchmarks.gpu.test_running import SPEED, kit, stage

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
MET = Judged(line="fast", verdict=Verdict.MET, why="2")


def send(*numbers: int) -> None:
    for number in numbers:
        os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", SIGNALS)
def test_an_interrupted_stage_keeps_what_was_printed(number):
    Path("kit").mkdir()
    interrupted = stage()

    def run(_):
        yield from (SPEED, MET)
        send(number)

    interrupted.run = run
    stages = {"one": interrupted, "two": stage(SPEED)}
    with interruptible():
        (result,) = run_stages(kit(), stages, 60.0, lambda *_: None)
    assert (result.ended, result.why) == (
        "interrupted",
        "after 0 s; the same command runs the stage again",
    )
    assert (result.numbers, result.judged) == ((SPEED,), (MET,))


def test_lines_of_an_interrupted_stage_say_so():
    Path("kit").mkdir()
    (result,) = run_stages(kit(), {"one": stage(SPEED, KeyboardInterrupt())}, 60.0, lambda *_: None)
    assert result.judged[0].why == "interrupted after 0 s; the same command runs the stage again"


def test_stages_behind_an_interruption_were_not_reached():
    found = dict(verdicts(STAGES, {}, asked=["smoke", "xla"]))
    assert found[STAGES["xla"].LINES["xla"]].why == "the stage was not reached"
    assert found[STAGES["plain"].LINES["plain"]].why == "the stage was left out"


def test_signals_that_come_together_interrupt_once():
    """`timeout` signals a process and its group; a closed terminal sends SIGHUP twice."""
    ended = []

    def running():
        try:
            send(signal.SIGTERM)
        finally:
            send(signal.SIGTERM, signal.SIGHUP, signal.SIGHUP, signal.SIGINT)
            ended.append("its programs")

    with interruptible(), pytest.raises(KeyboardInterrupt):
        running()
    assert ended == ["its programs"]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_kit_in_the_background_hears_sigint_and_under_nohup_no_sighup():
    """A bug: programs that were ended by SIGINT ignored it, too, and lost what they had found."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in SIGNALS}
    try:
        with interruptible():
            send(signal.SIGHUP)
            with pytest.raises(KeyboardInterrupt):
                send(signal.SIGINT)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_an_interrupted_stage_does_not_run_out_of_time_while_it_ends():
    left_s = []

    def running():
        with limited(60.0):
            try:
                send(signal.SIGINT)
            finally:
                left_s.append(signal.getitimer(signal.ITIMER_REAL)[0])

    with interruptible(), pytest.raises(KeyboardInterrupt):
        running()
    assert left_s == [0.0]


def test_a_second_ctrl_c_interrupts_what_the_first_began(monkeypatch):
    monkeypatch.setattr(running, "AGAIN_S", -1.0)
    with interruptible():
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                send(signal.SIGINT)


def test_an_interruption_kills_a_program_that_does_not_end(monkeypatch):
    asleep = "import signal, time; signal.signal(2, signal.SIG_IGN); print(); time.sleep(600)"
    process = subprocess.Popen(
        [sys.executable, "-c", asleep], stdout=subprocess.PIPE, start_new_session=True
    )
    process.stdout.readline()
    wait = process.wait

    def interrupted(timeout=None):
        if timeout:
            send(signal.SIGINT)
        return wait(timeout)

    monkeypatch.setattr(process, "wait", interrupted)
    try:
        with interruptible():
            end(process)
    finally:
        process.kill()
        process.stdout.close()
    assert process.returncode == -signal.SIGKILL


def test_a_report_is_written_though_nobody_reads_stdout_any_more():
    """A bug: Ctrl-C ended `tee`, too, and the kit ended by a broken pipe."""
    code = (
        "from benchmarks.gpu.kit import say, say_result\n"
        "say_result('first'); input(); say_result('second'); say_result('third')\n"
        "open('report.md', 'w')"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as process:
        process.stdout.readline()
        process.stdout.close()
        process.communicate("\n")
    assert process.returncode == 0
    assert Path("report.md").exists()


def test_the_self_check_that_is_interrupted_is_judged_by_what_it_wrote(monkeypatch):
    kit().folder.mkdir()
    written = '{"checks": [{"mode": "ps_cpu", "options": "-", "outcome": "passed", "problem": ""}]}'

    class Interrupted:
        def __enter__(self):
            (kit().folder / "selfcheck-0.json").write_text(written)
            raise KeyboardInterrupt

        def __exit__(self, *_):
            return None

    monkeypatch.setattr(selfcheck, "program", lambda *_: Interrupted())
    found = []
    with pytest.raises(KeyboardInterrupt):
        found.extend(selfcheck.run(kit()))
    assert found[-1].why.startswith("1 of ")
