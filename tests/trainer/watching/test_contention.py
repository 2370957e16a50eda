"""What other processes took of our cores follows from two looks at /proc/stat."""

import os
from dataclasses import replace

import pytest

from scalemark.host.processes import ORCHESTRATOR_VARIABLE
from scalemark.records.attempt import Cluster, Placement
from trainer.watching import telemetry

BEFORE = """cpu  616597 10059 116886 1824405 2808 0 788 524 0 0
cpu0 233159 1861 45381 1003979 739 0 234 248 0 0
cpu1 383437 8197 71504 820425 2069 0 553 276 0 0
intr 5037072 0 0 0 0 0 0 0 0
ctxt 9012345
btime 1795240000
procs_running 1
"""
AFTER = """cpu  616731 10059 116963 1824593 2810 0 788 524 0 0
cpu0 233169 1861 45384 1004166 739 0 234 248 0 0
cpu1 383561 8197 71578 820427 2070 0 553 276 0 0
intr 5037399 0 0 0 0 0 0 0 0
ctxt 9013456
btime 1795240000
procs_running 3
"""  # two seconds later, of 100 ticks each: 13 on cpu0, 198 on cpu1


def moment(text: str, cpus: set[int], *, time_s: float, own_cpu_s: float) -> telemetry.HostMoment:
    return telemetry.HostMoment(
        time_s=time_s, own_cpu_s=own_cpu_s, busy_s=telemetry.busy_by_cpu(text, cpus, 100)
    )


@pytest.mark.parametrize(
    ("cpus", "own_cpu_s", "cores"),
    [
        ({0, 1}, 0.0, 2.11 / 2),
        ({0, 1}, 1.5, (2.11 - 1.5) / 2),
        ({0}, 0.0, 0.13 / 2),
        ({1}, 1.9, (1.98 - 1.9) / 2),
        ({0}, 2.0, 0.0),
    ],
)
def test_what_is_busy_and_not_ours_is_taken_by_others(cpus, own_cpu_s, cores):
    before = moment(BEFORE, cpus, time_s=10.0, own_cpu_s=3.0)
    after = moment(AFTER, cpus, time_s=12.0, own_cpu_s=3.0 + own_cpu_s)
    assert telemetry.cores_taken_by_others(before, after) == pytest.approx(cores)


def test_others_never_take_more_than_all_cores():
    before = moment(BEFORE, {0, 1}, time_s=10.0, own_cpu_s=0.0)
    after = moment(AFTER, {0, 1}, time_s=11.0, own_cpu_s=0.0)  # 2.11 s of them busy in 1 s
    assert telemetry.cores_taken_by_others(before, after) == 2.0


def test_a_window_of_a_few_ticks_makes_no_number():
    before = moment(BEFORE, {0, 1}, time_s=10.0, own_cpu_s=0.0)
    after = moment(AFTER, {0, 1}, time_s=10.1, own_cpu_s=0.0)
    assert telemetry.cores_taken_by_others(before, after) is None


def test_steal_and_interrupts_are_busy_and_disk_waits_are_not():
    #                        user nice system idle iowait irq softirq steal guest guest_nice
    assert telemetry.busy_by_cpu("cpu0 1 20 300 7777 8888 4000 50000 600000 9 9\n", {0}, 1) == {
        0: 654_321
    }


def test_old_kernels_have_fewer_columns():
    assert telemetry.busy_by_cpu("cpu0 1 20 300 7777\n", {0}, 1) == {0: 321}


def test_a_kernel_that_does_not_say_makes_no_number(tmp_path):
    assert telemetry.now(stat=tmp_path / "none").busy_s is None
    (tmp_path / "stat").write_text("nothing of use\n")
    silent = telemetry.now(stat=tmp_path / "stat")
    assert silent.busy_s is None
    reported = moment(BEFORE, {0}, time_s=0.0, own_cpu_s=0.0)
    assert telemetry.cores_taken_by_others(silent, reported) is None
    assert telemetry.cores_taken_by_others(reported, silent) is None


def test_a_cpu_that_is_new_or_gone_is_left_out():
    before = moment(BEFORE, {0}, time_s=0.0, own_cpu_s=0.0)
    after = moment(AFTER, {0, 1}, time_s=1.0, own_cpu_s=0.0)
    assert telemetry.cores_taken_by_others(before, after) == pytest.approx(0.13)
    other = moment(AFTER, {1}, time_s=1.0, own_cpu_s=0.0)
    assert telemetry.cores_taken_by_others(before, other) is None


def test_this_kernel_says():
    before = telemetry.now()
    sum(range(10**6))
    after = replace(telemetry.now(), time_s=before.time_s + 10)
    assert set(before.busy_s) <= os.sched_getaffinity(0)
    assert after.own_cpu_s >= before.own_cpu_s
    assert telemetry.cores_taken_by_others(before, after) >= 0


def test_ranks_are_known_where_one_process_started_them_all(monkeypatch):
    cluster = Cluster(worker_hosts=("a:1", "b:1"))
    by_srun = Placement(
        start="spawn", devices=(0,), visible_devices="", hosts=("a", "b"), rank_start="srun"
    )
    monkeypatch.delenv(ORCHESTRATOR_VARIABLE, raising=False)
    assert telemetry.knows_own_processes(None, None)
    assert not telemetry.knows_own_processes(
        cluster, None
    )  # by hand: this process's parent has other children, too
    monkeypatch.setenv(ORCHESTRATOR_VARIABLE, str(os.getppid()))
    assert telemetry.knows_own_processes(cluster, None)
    assert not telemetry.knows_own_processes(cluster, by_srun)  # its parent started it alone
    monkeypatch.setenv(ORCHESTRATOR_VARIABLE, "1234567890")
    assert not telemetry.knows_own_processes(cluster, None)


def test_this_process_is_among_its_ranks():
    assert telemetry.cpu_of_ranks_s() > 0
