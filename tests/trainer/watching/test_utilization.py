"""Utilization is FLOPs of the definition over the machine's measured peak, or unknown."""

from dataclasses import replace

import pytest

from scalemark.records.attempt import Cluster
from scalemark.run_folder import RunFolder
from simulator.costs.networks import network
from tests.filled import measurement
from tests.specs import small
from tests.trainer.test_verdict import COOL
from tests.trainer.watching.test_kept_peaks import folder  # noqa: F401 - a fixture
from trainer.measured import exceeds_peak
from trainer.watching import telemetry, utilization

SPEC = small(model="resnet18_cifar")
FLOPS = network("resnet18_cifar", 32, 10).training_flops
PLENTY = 1e15
pytestmark = pytest.mark.usefixtures("folder")


@pytest.fixture
def used(make_devices, tmp_path):
    """used(spec): a measurement of 100 images/s with its utilization."""

    def used(spec=SPEC, num_replicas=1, items_per_example=1, cluster=None, seen=()):
        devices = make_devices(num_replicas)
        return utilization.with_utilization(
            measurement(100.0),
            spec,
            items_per_example,
            devices,
            RunFolder(tmp_path),
            cluster,
            seen,
        )

    return used


@pytest.fixture
def peak_of(make_devices, tmp_path):
    """peak_of(spec): by what its peak is kept."""
    return lambda spec=SPEC: utilization.peak_key(spec, make_devices(1), RunFolder(tmp_path))


@pytest.fixture
def alone(monkeypatch):
    """Nobody else takes cores, whatever this machine does."""
    monkeypatch.setattr(telemetry, "cores_taken_by_others", lambda *_: 0.0)


def test_a_kept_peak_is_not_measured_again(used, peak_of, monkeypatch):
    monkeypatch.setattr(utilization, "peak_flops_per_s", None)
    utilization.write(peak_of(), PLENTY)
    found = used()
    assert found == replace(
        measurement(100.0), mfu=pytest.approx(100 * FLOPS / PLENTY), peak_flops_per_s=PLENTY
    )


def test_cpu_devices_have_equal_parts_of_the_machines_peak(used, peak_of):
    utilization.write(peak_of(), PLENTY)
    found = used(replace(SPEC, num_gpus=4), num_replicas=4)
    assert found.peak_flops_per_s == PLENTY / 4
    assert found.mfu == pytest.approx(100 * FLOPS / PLENTY)  # of the whole machine


def test_items_of_an_example_share_its_flops(used, peak_of):
    utilization.write(peak_of(), PLENTY)
    assert used(items_per_example=8).mfu == pytest.approx(100 * FLOPS / 8 / PLENTY)


TWO_HOSTS = Cluster(worker_hosts=("127.0.0.1:1", "127.0.0.1:2"))


@pytest.mark.parametrize(
    ("changes", "cluster", "threads"),
    [
        ({}, None, "1"),
        (
            {"hosts": 2, "variable_update": "distributed_all_reduce", "all_reduce": "ring"},
            TWO_HOSTS,
            "",
        ),
    ],
)
def test_where_cores_are_shared_out_it_is_unknown(
    used, peak_of, capsys, monkeypatch, changes, cluster, threads
):
    if threads:
        monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", threads)
    spec = replace(SPEC, num_gpus=4, **changes)
    utilization.write(peak_of(spec), PLENTY)
    assert used(spec, num_replicas=2, cluster=cluster) == measurement(100.0)
    said = "is not known: cores are shared out by TF_NUM_INTRAOP_THREADS"
    assert said in capsys.readouterr().out


def test_the_first_trial_measures_and_keeps_the_peak(used, peak_of, alone):
    found = used()
    assert found.peak_flops_per_s == utilization.read(peak_of())
    assert found.mfu == pytest.approx(100 * FLOPS / found.peak_flops_per_s)


def test_a_peak_that_a_trial_exceeds_is_measured_again(used, peak_of):
    utilization.write(peak_of(), FLOPS)  # at 100 images/s it would be used 100 times over
    found = used()
    assert found.peak_flops_per_s == utilization.read(peak_of()) > FLOPS


def test_the_larger_of_two_peaks_counts(used, peak_of, monkeypatch):
    monkeypatch.setattr(utilization, "peak_flops_per_s", lambda *_: FLOPS)
    utilization.write(peak_of(), 50 * FLOPS)
    found = used()
    assert found.mfu == pytest.approx(2)
    assert exceeds_peak(found)
    assert utilization.read(peak_of()) == 50 * FLOPS


def test_a_peak_beside_others_is_not_believed(used, peak_of, monkeypatch, capsys):
    monkeypatch.setattr(utilization, "peak_flops_per_s", lambda *_: PLENTY)
    monkeypatch.setattr(telemetry, "cores_taken_by_others", lambda *_: 64.0)
    assert used() == measurement(100.0)
    assert utilization.read(peak_of()) is None
    assert "model FLOPs utilization is not known: others took 64.0 of" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("spec", "seen", "taken", "doubt"),
    [
        (SPEC, (), None, "how many cores others took"),
        (SPEC, (replace(COOL, num_foreign_processes=2),), 0.0, "2 other processes computed on"),
        (
            replace(SPEC, variable_update="multi_worker_mirrored", all_reduce="ring"),
            (),
            0.0,
            "the trial's other workers compute",
        ),
    ],
)
def test_a_peak_that_others_may_have_lowered_is_not_kept(
    used, peak_of, monkeypatch, capsys, spec, seen, taken, doubt
):
    monkeypatch.setattr(utilization, "peak_flops_per_s", lambda *_: PLENTY)
    monkeypatch.setattr(telemetry, "cores_taken_by_others", lambda *_: taken)
    assert used(spec, seen=seen) == measurement(100.0)
    assert utilization.read(peak_of(spec)) is None
    assert doubt in capsys.readouterr().out


@pytest.mark.parametrize(
    ("spec", "seen"),
    [
        (replace(SPEC, variable_update="multi_worker_mirrored", all_reduce="ring"), ()),
        (SPEC, (replace(COOL, num_foreign_processes=2),)),
    ],
)
def test_a_peak_that_is_in_doubt_anyway_is_not_measured(used, monkeypatch, spec, seen):
    measured = []
    monkeypatch.setattr(utilization, "peak_flops_per_s", lambda *_: measured.append(1))
    assert used(spec, seen=seen) == measurement(100.0)
    assert measured == []


def test_without_room_for_a_product_it_is_unknown(used, monkeypatch):
    monkeypatch.setattr(utilization, "peak_flops_per_s", lambda *_: None)
    assert (used().mfu, used().peak_flops_per_s) == (None, None)


def test_of_a_model_of_the_users_own_it_is_unknown(used):
    assert used(replace(SPEC, model="my_model.py:build")) == measurement(100.0)
