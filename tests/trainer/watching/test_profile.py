"""A profile says what ran, where and for how long; on CPU devices it is a real one, for GPUs one written down by hand."""

from collections import Counter
from dataclasses import asdict, replace

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from scalemark.records.measurement import AttemptResult, Outcome, Profile
from tests.specs import small
from tests.trainer.test_towers import MODES
from trainer.mode_check import convolutional, whole_batches
from trainer.run import build
from trainer.watching import op_placement, profile

pytestmark = pytest.mark.integration

NUM_STEPS = 3
PROFILED = ["ps_cpu", "ps_gpu", "replicated_none", "replicated_pscpu", "replicated_psgpu"]


@pytest.fixture(scope="module")
def captured(all_devices, tmp_path_factory):
    """captured(mode, 2): what two CPU devices did in each step by the graphs that ran, and the file of their profile."""
    done = {}

    def capture(mode: str, num_replicas: int):
        if (mode, num_replicas) not in done:
            devices = replace(all_devices, replicas=all_devices.replicas[:num_replicas])
            spec = small(num_gpus=num_replicas, **MODES[mode])
            training = build(spec, devices, convolutional)
            images, labels = next(whole_batches(num_replicas, 1))
            parts = [
                (tf.constant(i), tf.constant(n))
                for i, n in zip(
                    np.split(images, num_replicas), np.split(labels, num_replicas), strict=True
                )
            ]
            with op_placement.recorded() as placement:
                training.towers.step(parts)
            folder = tmp_path_factory.mktemp("run") / "profile"
            path = profile.capture(lambda: float(training.towers.step(parts)), NUM_STEPS, folder)
            done[mode, num_replicas] = placement, path
        return done[mode, num_replicas]

    return capture


def counted(events) -> dict[str, int]:
    return dict(Counter(event.op for event in events))


def of_graph(placement, role: str) -> dict[str, int]:
    """The ops of the graph by their type, on all devices."""
    counts: Counter[str] = Counter()
    for op, number in placement.summary()[role].items():
        counts[op.partition(" @ ")[0]] += number
    return dict(counts)


@pytest.mark.parametrize("mode", PROFILED)
@pytest.mark.parametrize("num_replicas", [1, 2])
def test_a_profile_holds_every_op_of_the_graph(captured, mode, num_replicas):
    """Also those inside the towers, which on CPU devices are functions called once per replica."""
    placement, path = captured(mode, num_replicas)
    trace = profile.read_trace(path)
    assert len(trace.steps_ps) == NUM_STEPS + 2
    for begin_ps, end_ps in trace.steps_ps[1:-1]:
        events = [event for event in trace.events if begin_ps <= event.start_ps < end_ps]
        assert sum(event.op.endswith("Conv2D") for event in events) == 2 * num_replicas
        updates = [event for event in events if event.op == "ResourceApplyMomentum"]
        assert counted(updates) == of_graph(placement, "update")
        sums = [
            event for event in events if event.op == "AddN" and profile.in_reduce_scope(event.name)
        ]
        assert counted(sums) == of_graph(placement, "reduction")


def test_times_of_a_real_step_agree_with_each_other(captured):
    _, path = captured("replicated_pscpu", 2)
    found = profile.read(path, input_wait_s=0.25)
    assert found.num_steps == NUM_STEPS
    assert 0 < found.exposed_reduction_s <= found.reduction_s < found.step_s
    assert (found.launch_gap_share, found.step_gap_share) == (None, None)
    assert (found.input_wait_s, found.problems, found.folder) == (0.25, "", "profile")


def test_one_replica_reduces_nothing(captured):
    _, path = captured("replicated_none", 1)
    assert profile.read(path, input_wait_s=0).reduction_s == 0


def test_a_profile_lies_where_tensorboard_looks(captured):
    _, path = captured("replicated_none", 2)
    assert path.match("profile/plugins/profile/*/*.xplane.pb")


def test_every_capture_returns_its_own_file(tmp_path):
    first = profile.capture(lambda: None, 1, tmp_path)
    assert profile.read(first, 0).num_steps == 1
    with pytest.raises(ZeroDivisionError):
        profile.capture(lambda: 1 / 0, 1, tmp_path)
    assert list(tmp_path.glob("plugins/profile/*/*.xplane.pb")) == [first]


def test_the_work_of_the_input_pipeline_is_input_whatever_its_ops_are(all_devices, tmp_path):
    with tf.device(all_devices.host):
        images = iter(
            tf.data.Dataset.range(1000)
            .map(lambda i: tf.cast(i, tf.float32) * 2.0 + 1.0, num_parallel_calls=2)
            .batch(50)
        )
        path = profile.capture(
            lambda: next(images), 10, tmp_path
        )  # a batch or two may be made between steps
    events = profile.read_trace(path).events
    assert len(events) > 50
    assert {event.is_input for event in events} == {True}


def test_a_file_with_too_few_steps_is_refused(tmp_path):
    path = tmp_path / "empty.xplane.pb"
    path.write_bytes(xplane_pb2.XSpace().SerializeToString())
    with pytest.raises(ValueError, match="0 steps were recorded; wanted 3 or more"):
        profile.read(path, 0)


def test_a_profile_travels_as_json(captured):
    _, path = captured("replicated_none", 2)
    result = AttemptResult(
        outcome=Outcome.COMPLETED,
        message="",
        measurement=None,
        op_placement={},
        profile=profile.read(path, 0.0),
    )
    assert AttemptResult.from_json(result.to_json()) == result


def add_plane(space, name: str, lines: dict[str, list[tuple[int, int, str, dict]]]):
    """Write down a plane: line -> events as (start µs, end µs, name, stats)."""
    plane = space.planes.add(name=name)
    numbers: dict[str, int] = {}

    def number(text: str, metadata) -> int:
        key = numbers.setdefault(text, len(numbers) + 1)
        metadata[key].id, metadata[key].name = key, text
        return key

    for line_number, (line_name, events) in enumerate(lines.items()):
        line = plane.lines.add(id=line_number, name=line_name, timestamp_ns=7_000)
        for start_us, end_us, event_name, stats in events:
            event = line.events.add(
                metadata_id=number(event_name, plane.event_metadata),
                offset_ps=start_us * 1_000_000,
                duration_ps=(end_us - start_us) * 1_000_000,
            )
            for stat_name, value in stats.items():
                stat = event.stats.add(metadata_id=number(stat_name, plane.stat_metadata))
                if isinstance(value, int):
                    stat.int64_value = value
                else:
                    stat.ref_value = number(value, plane.stat_metadata)


def key(sender: str, receiver: str) -> str:
    job = "/job:localhost/replica:0/task:0/device:"
    return f"{job}{sender};1f;{job}{receiver};edge_1_x;0:0"


@pytest.fixture
def two_gpus(tmp_path):
    """Three steps, of which the second counts: 950 µs, and the host is through with it at 650. In µs from its beginning:

    ```
      GPU:0 compute   100 conv 300   350 gemm 400                    700 update 800
      GPU:0 copies                           400 to the host 450
      GPU:1 compute   100 conv 500
      GPU:1 NCCL                                           500 nccl 600
      host                                       450 AddN 550
    ```
    """
    space = xplane_pb2.XSpace(warnings=["dropped 3 events"])
    to_host = {"from": "tower_0/grad", "to": "reduce_1/AddN", "key": key("GPU:0", "CPU:0")}
    from_other = {"from": "tower_1/loss", "to": "AddN", "key": key("GPU:1", "CPU:0")}
    host = [
        (1450, 1550, "ExecutorState::Process", {"_c": 3, "id": 9}),
        (
            1450,
            1452,
            "ExecutorState::ProcessAsync::Start",
            {"name": "tower_0/grad/_2", "kernel_type": "_Recv"},
        ),
        (1452, 1550, "reduce_1/AddN:AddN", {}),
    ]
    launches = [
        (1010, 1090, "ExecutorState::Process", {"_c": 1, "id": 9}),
        (1010, 1020, "tower_0/conv/Conv2D:Conv2D", {}),
        (1020, 1030, "tower_0/dense/MatMul:MatMul", {}),
        (1030, 1040, "tower_0/grad/_1:_Send", to_host),
        (1040, 1050, "update/ResourceApplyMomentum:ResourceApplyMomentum", {}),
        (1090, 1190, "ExecutorState::Process", {"_c": 2, "id": 9}),
        (1100, 1110, "tower_1/conv/Conv2D:Conv2D", {}),
        (1110, 1120, "tower_1/loss/_3:_Send", from_other),
        (
            1120,
            1130,
            "ExecutorState::ProcessAsync::Start",
            {"name": "reduce/NcclAllReduce", "kernel_type": "NcclAllReduce"},
        ),
    ]
    steps = [
        (0, 900, "train", {"step_num": 0}),
        (1000, 1650, "train", {"step_num": 1}),
        (1950, 2000, "train", {"step_num": 2}),
    ]
    add_plane(space, "/host:CPU", {"python": steps, "tf_Compute/1": host, "tf_Compute/2": launches})
    compute = [
        (10, 20, "sm80_xmma_fprop_implicit_gemm_tf32f32", {"tf_op": "tower_0/conv/Conv2D:Conv2D"}),
        (
            1100,
            1300,
            "sm80_xmma_fprop_implicit_gemm_tf32f32",
            {"tf_op": "tower_0/conv/Conv2D:Conv2D"},
        ),
        (1350, 1400, "ampere_sgemm_128x64_nn", {"tf_op": "tower_0/dense/MatMul:MatMul"}),
        (
            1700,
            1800,
            "void ApplyMomentum<float>",
            {"tf_op": "update/ResourceApplyMomentum:ResourceApplyMomentum"},
        ),
        (1900, 1901, "MemoryAlloc", {"memalloc_details": "kind:device num_bytes:64"}),
    ]
    copies = [
        (
            1400,
            1450,
            "MemcpyD2H",
            {
                "tf_op": "tower_0/grad/_1:_Send",
                "from": "tower_0/grad",
                "to": "reduce_1/AddN",
                "memcpy_details": "kind_src:device kind_dst:pinned size:4096 dest:0 async:1",
            },
        )
    ]
    overhead = [(1000, 2000, "Activity Buffer Request", {})]
    add_plane(
        space,
        "/device:GPU:0",
        {
            "Stream #13(Compute)": compute,
            "Stream #14(MemcpyD2H)": copies,
            "CUPTI overhead": overhead,
        },
    )
    add_plane(
        space,
        "/device:GPU:1",
        {
            "Stream #13(Compute)": [
                (1100, 1500, "sm80_xmma_fprop_tf32f32", {"tf_op": "tower_1/conv/Conv2D:Conv2D"})
            ],
            "Stream #20(Compute)": [
                (1500, 1600, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", {})
            ],
        },
    )
    path = tmp_path / "profile" / "plugins" / "profile" / "now" / "host.xplane.pb"
    path.parent.mkdir(parents=True)
    path.write_bytes(space.SerializeToString())
    return path


def test_a_step_lasts_until_the_next_begins(two_gpus):
    found = profile.read(two_gpus, input_wait_s=0.0)
    assert found.step_s == pytest.approx(950e-6)
    assert found.problems == "dropped 3 events"


@pytest.mark.parametrize(
    ("op", "name", "kernel", "is_reduction", "is_copy"),
    [
        ("Mul", "reduce_5/truediv", "", True, False),
        ("AddN", "AddN", "", False, False),
        ("AddN", "while/body/reduce/AddN", "", True, False),
        ("AddN", "tower_0/reduced/AddN", "", False, False),
        ("CollectiveReduceV2", "a", "", True, False),
        ("", "", "ncclDevKernel_AllReduce", True, False),
        ("_Send", "reduce/truediv/_45", "", False, True),
        ("", "", "MemcpyH2D", False, True),
        ("Conv2D", "a", "void nchwToNhwcKernel<float>", False, False),
    ],
)
def test_reductions_and_copies_are_told_apart(op, name, kernel, is_reduction, is_copy):
    event = profile.Event(name=name, op=op, start_ps=0, end_ps=1, kernel=kernel)
    assert (profile.is_reduction(event), profile.is_copy(event)) == (is_reduction, is_copy)


def test_a_reduction_lasts_from_its_copy_to_its_sum(two_gpus):
    found = profile.read(two_gpus, input_wait_s=0.0)
    assert found.reduction_s == pytest.approx((450 - 400 + 98 + (600 - 550)) * 1e-6)
    assert found.exposed_reduction_s == pytest.approx((600 - 500) * 1e-6)


def test_launch_gaps_lie_between_the_first_and_the_last_kernel_of_a_step(two_gpus):
    gaps_us = {"GPU:0": (350 - 300) + (700 - 450), "GPU:1": 0}
    assert profile.read(two_gpus, input_wait_s=0.0).launch_gap_share == pytest.approx(
        sum(gaps_us.values()) / 2 / 950
    )


def test_gaps_between_steps_are_all_other_idle_time(two_gpus):
    idle_us = {"GPU:0": 950 - 400 - 300, "GPU:1": 950 - 500}
    assert profile.read(two_gpus, input_wait_s=0.0).step_gap_share == pytest.approx(
        sum(idle_us.values()) / 2 / 950
    )


def test_a_step_that_works_on_in_the_next_leaves_no_gap_there(tmp_path):
    """A bug: time with an earlier step's kernel alone was a gap, and that between steps negative."""
    space = xplane_pb2.XSpace()
    steps = [
        (begin, begin + 90, "train", {"step_num": begin // 100}) for begin in range(0, 500, 100)
    ]
    add_plane(space, "/host:CPU", {"python": steps})
    streams = {
        "Stream #13(Compute)": [(begin, begin + 10, "gemm", {}) for begin in range(100, 400, 10)],
        "Stream #14(Compute)": [(begin + 20, begin + 120, "gemm", {}) for begin in (100, 200, 300)],
    }
    del streams["Stream #13(Compute)"][11:19]  # 210 to 290, while a kernel of the other works on
    add_plane(space, "/device:GPU:0", streams)
    path = tmp_path / "profile" / "plugins" / "profile" / "now" / "host.xplane.pb"
    path.parent.mkdir(parents=True)
    path.write_bytes(space.SerializeToString())
    found = profile.read(path, input_wait_s=0.0)
    assert (found.launch_gap_share, found.step_gap_share) == (0.0, 0.0)


def test_a_profile_is_flat(two_gpus):
    found = asdict(profile.read(two_gpus, 0.0))
    assert found.pop("parts_s") == {}  # of programs alone
    assert not [value for value in found.values() if isinstance(value, dict | list)]
    assert Profile(**found).num_steps == 1
