"""MultiWorkerMirroredStrategy, in real processes: exact, in lockstep to the last step, and each worker with its part of the data."""

import re
import signal
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from scalemark.records.attempt import RANK_LOST
from scalemark.records.measurement import Outcome
from scalemark.run_folder import RunFolder
from tests import watched
from tests.specs import small
from tests.trainer import image_sets
from tests.trainer.mirrored_workers import NUM_STEPS, WORKER_1
from trainer import UnsupportedTrialError, devices, run
from trainer.data import synthetic
from trainer.image_records import own_share
from trainer.mode_check import (
    convolutional,
    largest_difference,
    normalized,
    split,
    train,
    whole_batches,
)
from trainer.variable_updates import multi_worker_mirrored

pytestmark = pytest.mark.integration

MIRRORED = small(
    variable_update="multi_worker_mirrored",
    all_reduce="ring",
    num_gpus=2,
    hosts=2,
    learning_rate=0.1,
)
EXACT = {
    "exact-2": MIRRORED,
    "exact-2-calls-of-3": replace(MIRRORED, steps_per_execution=3),
    "exact-3": replace(MIRRORED, num_gpus=3, hosts=3),
    "exact-2-in-buckets": replace(
        MIRRORED, variable_update="process_per_gpu", gradient_repacking=3
    ),
    "exact-2-adamw": replace(
        MIRRORED,
        optimizer="adamw",
        momentum=0.0,
        learning_rate=0.01,
        weight_decay=0.1,
        learning_rate_warm_up=2,
    ),
}
# Measured for so long, not so many steps: the clocks of both workers would end it at other steps.
TRIAL = replace(
    MIRRORED,
    min_window_s=0.3,
    profile=True,
    steps_per_execution=2,
    data="imagenet",
    learning_rate=0.01,
)
SERVED = replace(MIRRORED, variable_update="distributed_all_reduce")
OTHERS = {
    "trial": TRIAL,
    "killed": replace(MIRRORED, num_steps=2**30),
    "waiting": MIRRORED,
    "serving-until-SIGTERM": SERVED,
    "serving-until-SIGINT": replace(SERVED, seed=0),
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory, all_devices) -> Path:
    """A folder per case, once all ranks of all cases have ended."""
    folder = tmp_path_factory.mktemp("mirrored")
    image_sets.write(
        tmp_path_factory.getbasetemp() / "set", [image_sets.good(label) for label in range(10)]
    )
    for name, spec in (EXACT | OTHERS).items():
        spec = replace(spec, data_dir=str(tmp_path_factory.getbasetemp() / "set"))
        (folder / name).mkdir()
        (folder / name / "trial.json").write_text(spec.to_json())
    watched.run([sys.executable, "-m", "tests.trainer.mirrored_workers", str(folder)])
    return folder


def exit_codes(case: Path) -> dict[str, str]:
    return {path.stem: path.read_text() for path in case.glob("*.exit")}


@pytest.mark.parametrize("name", EXACT)
def test_workers_reach_one_devices_weights_and_losses(ran, make_devices, name):
    spec, alone = EXACT[name], make_devices(1)
    workers = [f"worker-{index}" for index in range(spec.hosts)]
    assert exit_codes(ran / name) == dict.fromkeys(workers, "0"), (
        ran / name / "log.txt"
    ).read_text()[-2000:]
    batches = list(whole_batches(spec.num_gpus, NUM_STEPS))
    one = replace(spec, variable_update="replicated", all_reduce="none", num_gpus=1, hosts=1)
    one = replace(one, steps_per_execution=1, gradient_repacking=0)
    weights = train(one, alone, batches)[0].update.weights(0)
    training = run.build(one, alone, convolutional)
    losses = [float(training.towers.step(split([batch], alone))) for batch in batches]
    for worker in workers:
        found = np.load(ran / name / f"{worker}.npz")
        ours = [found[f"arr_{number}"] for number in range(len(weights))]
        assert largest_difference(ours, weights) < 1e-6
        assert found["losses"] == pytest.approx(
            losses[spec.steps_per_execution - 1 :: spec.steps_per_execution], abs=1e-6
        )


def test_all_workers_take_the_same_steps_though_only_one_measures(ran):
    folder = RunFolder(ran / "trial")
    assert exit_codes(folder.path) == {"worker-0": "0", "worker-1": "0"}, folder.log.read_text()[
        -2000:
    ]
    result = folder.read_result()
    assert (result.outcome, result.message) == (Outcome.COMPLETED, "")
    reported = result.measurement
    assert reported.window_s >= 0.3
    others = (
        1 + (run.PROFILED_CALLS + 2) + devices.AHEAD
    )  # the first, and after the measured ones: profiled, and the last
    wanted = reported.num_warm_up_steps + reported.num_steps + others * TRIAL.steps_per_execution
    assert f"worker-1 took {wanted} steps" in folder.rank_log(WORKER_1).read_text()


def test_a_trial_tells_the_images_of_all_workers_and_where_its_ops_ran(ran):
    result = RunFolder(ran / "trial").read_result()
    reported = result.measurement
    assert reported.throughput == pytest.approx(2 * 2 * reported.num_steps / reported.window_s)
    assert set(result.op_placement["reduction"]) == {"CollectiveReduceV2 @ worker-0 CPU:0"}
    assert set(result.op_placement["update"]) == {"ResourceApplyMomentum @ worker-0 CPU:0"}
    assert result.profile is not None


def test_worker_1_leaves_a_log_and_a_beat_only(ran):
    left = {path.name for path in (ran / "trial").iterdir() if "worker-1" in path.name}
    assert left == {"log-worker-1.txt", "beat-worker-1.txt", "worker-1.exit"}


def test_a_killed_worker_fails_the_trial_and_is_named(ran):
    folder = RunFolder(ran / "killed")
    assert exit_codes(folder.path) == {"worker-0": str(RANK_LOST), "worker-1": "-9"}
    result = folder.read_result()
    assert result.outcome == Outcome.FAILED
    assert result.message.startswith("worker-1 cannot be reached any more: ")
    assert "Graph execution error" not in result.message


def test_a_worker_that_waits_for_another_can_be_interrupted(ran):
    folder = RunFolder(ran / "waiting")
    assert exit_codes(folder.path) == {"worker-0": "130"}
    assert folder.read_result().outcome == Outcome.INTERRUPTED


@pytest.mark.parametrize("by", ["SIGTERM", "SIGINT"])
def test_a_rank_that_serves_ends_at_a_signal_and_leaves_no_result(ran, by):
    folder = RunFolder(ran / f"serving-until-{by}")
    assert exit_codes(folder.path) == {"worker-1": str(-getattr(signal, by))}
    assert folder.read_result() is None


def worker(make_devices, number: int, of: int, replicas: int = 1) -> devices.Devices:
    """What worker `number` holds of a trial with so many replicas on each of `of` hosts."""
    return replace(
        make_devices(replicas), first=number * replicas, num_elsewhere=(of - 1) * replicas
    )


@pytest.mark.parametrize(("hosts", "replicas"), [(2, 1), (3, 1), (2, 2)])
def test_workers_share_the_records_that_one_client_would_give_its_replicas(
    make_devices, hosts, replicas
):
    spec = small(batch_size=2)
    found = []
    for number in range(hosts):
        share = own_share(
            tf.data.Dataset.range(100).enumerate(),
            spec,
            worker(make_devices, number, hosts, replicas),
        )
        found.append([int(record) for _, record in share.take(3 * 2 * replicas)])
    for number, records in enumerate(found):
        wanted = [
            2 * (step * hosts * replicas + number * replicas + replica) + image
            for step in range(3)
            for replica in range(replicas)
            for image in range(2)
        ]
        assert records == wanted


def test_every_worker_makes_the_synthetic_batches_of_its_replicas(make_devices):
    whole = synthetic.open_input(small(), make_devices(4)).next()
    of_second = synthetic.open_input(small(), worker(make_devices, 1, of=2, replicas=2)).next()
    for (images, labels), (wanted_images, wanted_labels) in zip(of_second, whole[2:], strict=True):
        assert np.array_equal(images, wanted_images)
        assert np.array_equal(labels, wanted_labels)


def test_workers_drop_out_by_seeds_of_their_own(make_devices):
    def seeds(its_devices) -> list[np.ndarray]:
        training = run.build(small(num_gpus=2), its_devices, normalized)
        return [value for value in training.towers.state(0) if value.dtype.kind != "f"]

    first, second = (seeds(worker(make_devices, number, of=2)) for number in (0, 1))
    assert [int((b - a).max()) for a, b in zip(first, second, strict=True)] == [1] * len(first)
    assert first


def test_one_process_alone_is_refused(make_devices):
    with pytest.raises(
        UnsupportedTrialError,
        match="multi_worker_mirrored: wanted the workers of a cluster, found one process",
    ):
        run.build(MIRRORED, make_devices(1))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"all_reduce": "nccl"},
            "all_reduce=nccl needs one physical GPU per replica; these replicas are CPU devices",
        ),
        ({"all_reduce": "psgpu"}, "all_reduce=psgpu: MultiWorkerMirroredStrategy has ring, nccl"),
        (
            {"num_gpus": 4},
            "num_gpus=4: on CPUs MultiWorkerMirroredStrategy has one device per host; wanted num_gpus=2",
        ),
    ],
)
def test_what_the_strategy_cannot_do_is_refused_before_others_are_met(changes, message):
    with pytest.raises(UnsupportedTrialError, match=re.escape(message)):
        multi_worker_mirrored.check(replace(MIRRORED, **changes))
