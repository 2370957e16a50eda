"""Limiting cases of the physics."""

from dataclasses import replace
from itertools import pairwise

import pytest

from costs.communication import exchange
from costs.hardware import Hardware, MissingLinkError
from costs.networks import network
from costs.profiles import profile
from costs.step import Rates, Step, costs, most_mfu
from costs.work import Work

STRATEGIES = {
    "ps_cpu": ("parameter_server", "cpu", "none"),
    "ps_gpu": ("parameter_server", "gpu", "none"),
    "none": ("replicated", "gpu", "none"),
    "pscpu": ("replicated", "gpu", "pscpu"),
    "psgpu": ("replicated", "gpu", "psgpu"),
    "hierarchical_copy": ("replicated", "gpu", "hierarchical_copy"),
    "nccl": ("replicated", "gpu", "nccl"),
    "ring": ("replicated", "gpu", "ring"),
    "mirrored": ("mirrored", "gpu", "nccl"),
    "horovod": ("horovod", "", "nccl"),
    "ddp": ("ddp", "", "nccl"),
    "sharded": ("sharded", "gpu", "none"),
    "sharded_nccl": ("sharded", "gpu", "nccl"),
    "sharded_ring": ("sharded", "gpu", "ring"),
    "independent": ("independent", "gpu", "none"),
}
BOX = profile("p100_pcie_8")
NVLINK = profile("dgx_a100")


def work(
    model: str = "resnet50",
    num_gpus: int = 8,
    strategy: str = "nccl",
    batch_size: int = 64,
    **others: object,
) -> Work:
    variable_update, device, all_reduce = STRATEGIES[strategy]
    return Work(
        network=network(model), num_gpus=num_gpus, batch_size=batch_size,
        variable_update=variable_update, local_parameter_device=device, all_reduce=all_reduce, **others,
    )  # fmt: skip


def test_products_reach_more_of_ordinary_cores_than_convolutions() -> None:
    """A bug: transformers in fp32 were taken to feed ordinary cores no better than convolutions."""
    for model, share in (("resnet152", 0.5), ("bert_base", 0.84)):
        step = Step.of(work(model, num_gpus=1), BOX)
        flops = 3 * step.work.network.forward_flops * 64
        computed = flops * (1 - step.work.network.winograd_share * 2 / 3)
        reached = computed / (step.flops_s / Rates().compute) / (BOX.tflops["fp32"] * 1e12)
        assert reached == pytest.approx(share, rel=0.01)


@pytest.mark.parametrize(
    ("box", "shortened"),
    [("dgx1_v100", True), ("dgx_a100", True), ("h200_8", False), ("b200_8", False)],
)
def test_winograd_shortens_convolutions_in_fp32_up_to_ampere(box: str, shortened: bool) -> None:
    """A bug: ResNet-50 in fp32 on an H200 was predicted 87 % too fast."""
    hardware = profile(box)
    step = Step.of(work("vgg16", num_gpus=1), hardware)
    flops = step.flops_s * hardware.tflops["fp32"] * 1e12
    assert (flops < 3 * step.work.network.forward_flops * 64 / 2) is shortened
    assert (most_mfu(step.work, hardware) > 1) is shortened


@pytest.mark.parametrize(
    ("num_gpus", "strategy", "data_format", "of_variable"),
    [
        (1, "nccl", "NHWC", 1),
        (2, "independent", "NHWC", 1),
        (2, "nccl", "NHWC", 3),
        (1, "ps_cpu", "NHWC", 3),
        (1, "nccl", "", 3),
    ],
)
def test_xla_compiles_updates_of_gradients_that_wait_for_no_others(
    num_gpus: int, strategy: str, data_format: str, of_variable: int
) -> None:
    """A bug: the kernels of each update were counted one by one, though one replica compiles them
    into a program; variables on the host are none of it, nor is what others published.
    """
    asked = work(num_gpus=num_gpus, strategy=strategy, xla=True, data_format=data_format)
    num_kernels = Step.of(asked, BOX).kernels_s / (BOX.launch_us * 1e-6)
    of_updates = num_kernels - asked.network.fused.num_kernels
    assert of_updates == pytest.approx(of_variable * len(asked.network.tensors))


@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name != "ps_cpu"])
def test_one_gpu_communicates_nothing(strategy: str) -> None:
    one = costs(work(num_gpus=1, strategy=strategy), BOX)
    assert one.communication_s == one.exposed_s == one.sync_s == one.host_s == 0


def test_with_variables_on_the_host_one_gpu_fetches_and_sends_all() -> None:
    sent = exchange(work("vgg16", num_gpus=1, strategy="ps_cpu"), BOX)
    assert sent.pull.busy_s["pcie", 0, "down"] == pytest.approx(4 * 138_361_641 / 12e9)
    assert sent.push.busy_s["pcie", 0, "up"] == pytest.approx(4 * 138_361_641 / 12e9)


def test_a_ring_sends_each_gradient_nearly_twice() -> None:
    sent = exchange(work("vgg16", num_gpus=4), NVLINK)
    assert sent.push.busiest() == (
        "nvlink",
        pytest.approx(2 * 3 / 4 * 553.446564e6 / 240e9, rel=0.02),
    )


def test_small_messages_of_a_ring_take_the_protocol_of_low_latency() -> None:
    """8 GPUs on PCIe: 6.6 + 14 x 1.0 us instead of 8.4 + 14 x 5.7 us."""
    sent = exchange(work("resnet50", num_gpus=8), replace(BOX, launch_us=0.1)).push
    assert 20.6 < 1e6 * sent.latency_s / len(network("resnet50").tensors) < 50


def test_launches_of_a_ring_hide_behind_the_message_before() -> None:
    quick, usual, slow = (
        exchange(work("vgg16", num_gpus=4), replace(BOX, launch_us=launch_us)).push.latency_s
        for launch_us in (1.0, 2.0, 50.0)
    )
    assert quick == usual < slow


def test_gpus_without_peer_access_share_the_uplink_of_their_switch() -> None:
    """2, 4 and 8 GPUs send 2, 4 and 4 times 2 (n-1)/n of all bytes through it; two sockets are crossed besides."""
    box = replace(BOX, peer_to_peer=False, gpus_per_switch=4, num_sockets=1)
    two, four, eight = (exchange(work("vgg16", num_gpus=n), box).push.busiest() for n in (2, 4, 8))
    assert four[0] == eight[0] == "switch"
    assert four[1] / two[1] == pytest.approx(4 * 1.5 / 2, rel=1e-3)
    assert eight[1] / four[1] == pytest.approx(1.75 / 1.5, rel=1e-3)
    across = exchange(
        work("vgg16", num_gpus=8), replace(box, num_sockets=2, socket_gb_per_s=2.0)
    ).push.busiest()
    assert across[0] == "sockets"


def test_the_owner_of_fc6_limits_a_parameter_server_on_gpus() -> None:
    sent = exchange(work("vgg16", num_gpus=4, strategy="ps_gpu"), BOX)
    kind, busy_s = sent.pull.busiest()
    assert kind in ("pcie", "switch", "copy engine")
    assert busy_s == pytest.approx(3 * 4 * 102_760_448 / 12e9, rel=0.1)


def test_shards_load_every_gpu_alike_and_send_what_a_ring_sends() -> None:
    sent = exchange(work("vgg16", num_gpus=4, strategy="sharded"), BOX)
    weights = 4 * 138_361_641
    for gpu in range(4):
        for way in ("up", "down"):
            assert sent.push.busy_s["pcie", gpu, way] == pytest.approx(0.75 * weights / 12e9)
            assert sent.pull.busy_s["pcie", gpu, way] == pytest.approx(0.75 * weights / 12e9)
    assert sum(sent.message_bytes) == pytest.approx(weights)
    assert sent.updated_bytes == pytest.approx(weights / 4)


def test_packs_are_of_a_shard_and_compact_ones_half_as_large() -> None:
    change = {"gradient_repacking": 3, "compact_gradients": True}
    sent = exchange(work("vgg16", num_gpus=4, strategy="sharded", **change), BOX)
    assert sent.message_bytes == pytest.approx([2 * 138_361_641 / 12] * 12, rel=1e-6)
    assert sent.num_casts == 2 * 2 * 12


@pytest.mark.parametrize(("strategy", "pushed"), [("sharded_nccl", 0.75), ("sharded_ring", 1.5)])
def test_collectives_gather_weights_and_scatter_sums(strategy: str, pushed: float) -> None:
    """Gradients in half precision; TensorFlow's ring, which cannot scatter, sends them twice."""
    sent = exchange(work("vgg16", num_gpus=4, strategy=strategy, compact_gradients=True), BOX)
    weights = 4 * 138_361_641
    assert sent.pull.num_bytes == pytest.approx(4 * 0.75 * weights)
    assert sent.push.num_bytes == pytest.approx(4 * pushed * weights / 2)
    assert sent.updated_bytes == pytest.approx(weights / 4)
    assert len(sent.message_bytes) == 32


def test_nccl_scatters_with_half_the_time_of_an_all_reduce() -> None:
    halves = exchange(work("vgg16", strategy="sharded_nccl"), NVLINK)
    whole = exchange(work("vgg16", strategy="nccl"), NVLINK)
    (_, gathered_s), (_, scattered_s) = halves.pull.busiest(), halves.push.busiest()
    assert gathered_s == scattered_s
    assert gathered_s + scattered_s == pytest.approx(whole.push.busiest()[1], rel=0.05)


def test_images_of_all_micro_batches_are_counted() -> None:
    assert costs(work(num_gpus=2, batch_size=8, gradient_accumulation=4), BOX).items == 64


def test_round_robin_by_number_loads_the_gpu_that_has_the_largest_tensor() -> None:
    even = exchange(work("vgg16", num_gpus=4, strategy="psgpu"), BOX).push.busiest()[1]
    uneven = exchange(work("vgg16", num_gpus=4, strategy="none"), BOX).push.busiest()[1]
    assert uneven > 1.2 * even


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    "link",
    [
        "pcie_gb_per_s",
        "nvlink_gb_per_s",
        "socket_gb_per_s",
        "host_memory_gb_per_s",
        "host_sum_gb_per_s",
    ],
)
def test_more_bandwidth_is_never_slower(strategy: str, link: str) -> None:
    for box in (BOX, profile("dgx1_p100"), profile("k80_8")):
        if getattr(box, link) is None:
            continue
        wider = replace(box, **{link: 4 * getattr(box, link)})
        for model in ("vgg16", "resnet50"):
            job = work(model, strategy=strategy, batch_size=8)
            assert costs(job, wider).step_s <= costs(job, box).step_s + 1e-12


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_step_never_gets_shorter_with_more_gpus(strategy: str) -> None:
    for model in ("vgg16", "resnet50", "trivial"):
        steps = [
            costs(work(model, num_gpus=n, strategy=strategy), BOX).step_s for n in (1, 2, 4, 8)
        ]
        assert all(fewer <= more + 1e-9 for fewer, more in pairwise(steps)), steps


def test_repacking_helps_many_small_tensors() -> None:
    """tf_cnn_benchmarks measured it on this box: 4987 images/s without and 5380 with (tensorflow/benchmarks@4d8aa53)."""
    box = profile("dgx1_v100")
    for strategy in ("nccl", "hierarchical_copy", "psgpu"):
        alone = work(strategy=strategy, batch_size=128, precision="fp16")
        packed = replace(alone, gradient_repacking=8)
        assert costs(packed, box).step_s < costs(alone, box).step_s
        assert costs(packed, box).communication_s < costs(alone, box).communication_s


def test_compact_gradients_are_half_as_many_bytes() -> None:
    whole = exchange(work("vgg16"), BOX).push.busiest()[1]
    assert exchange(work("vgg16", compact_gradients=True), BOX).push.busiest()[1] == pytest.approx(
        whole / 2, rel=2e-3
    )


def test_mixed_precision_sends_as_many_bytes_as_fp32() -> None:
    assert exchange(work(precision="fp16"), BOX).push.busy_s == exchange(work(), BOX).push.busy_s


def test_variables_of_the_step_before_hide_their_fetching() -> None:
    fetched = costs(work("vgg16", strategy="ps_cpu"), BOX)
    assert (
        costs(work("vgg16", strategy="ps_cpu", staged_vars=True), BOX).exposed_s < fetched.exposed_s
    )


def test_communication_that_overlaps_fully_is_hidden_behind_a_long_pass() -> None:
    long = costs(
        work(num_gpus=2, strategy="none", batch_size=512), NVLINK, Rates(overlap=1.0, latency=0.1)
    )
    assert long.exposed_s < 0.2 * long.communication_s


def test_without_overlap_all_communication_is_visible() -> None:
    reported = costs(work("vgg16", strategy="none"), BOX, Rates(overlap=0.0))
    assert reported.exposed_s == pytest.approx(reported.communication_s)


def test_a_tiny_model_is_bound_by_launches_and_longer_calls_help() -> None:
    tiny = work("trivial", num_gpus=1, batch_size=1)
    reported = costs(tiny, NVLINK)
    assert reported.launch_s > reported.compute_s - reported.launch_s
    assert costs(replace(tiny, steps_per_execution=10), NVLINK).step_s < reported.step_s


def test_input_sets_the_pace_when_it_is_the_longest() -> None:
    reported = costs(
        work("alexnet", strategy="nccl", batch_size=512, real_data=True, distortions=True), BOX
    )
    assert (
        reported.step_s
        == reported.input_s
        == pytest.approx(8 * 512 / (BOX.num_cores * BOX.decode_images_per_s_per_core))
    )


def test_two_gpus_of_one_board_slow_each_other() -> None:
    k80 = profile("k80_8")
    alone, both = (
        costs(work(num_gpus=n, strategy="independent"), k80, Rates(board=0.05)) for n in (1, 2)
    )
    assert both.compute_s == pytest.approx(1.05 * alone.compute_s)


def test_a_missing_link_is_named_with_what_to_add() -> None:
    unknown = replace(BOX, socket_gb_per_s=None)
    with pytest.raises(
        MissingLinkError,
        match=r"GPUs 3 and 4 .* socket_gb_per_s is not known; .* --link socket_gb_per_s=6 to predict",
    ):
        costs(work(), unknown)
    assert costs(work(num_gpus=4), unknown).step_s > 0


def test_a_precision_that_the_hardware_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match="precision=fp16: k80_8 does not have it; it has fp32"):
        costs(work(precision="fp16"), profile("k80_8"))


def test_a_peak_is_not_all_that_is_to_be_known_of_a_precision() -> None:
    """A bug: activations in fp8 were taken for four bytes where a profile listed its peak."""
    box = replace(NVLINK, tflops={**NVLINK.tflops, "fp8": 1979.0})
    with pytest.raises(ValueError, match=r"^precision=fp8: the cost model does not know it"):
        costs(work(precision="fp8"), box)
    assert costs(work(precision="mixed"), box) == costs(work(precision="fp16"), box)


def test_more_gpus_than_the_box_has_are_refused() -> None:
    with pytest.raises(ValueError, match="num_gpus=16: p100_pcie_8 has 8"):
        costs(work(num_gpus=16), BOX)


def test_an_unknown_way_of_sharing_is_refused() -> None:
    with pytest.raises(
        ValueError, match="variable_update=kvstore: the cost model does not know what it sends"
    ):
        costs(replace(work(), variable_update="kvstore"), BOX)
    with pytest.raises(ValueError, match="all_reduce=butterfly: the cost model does not know"):
        costs(replace(work(), all_reduce="butterfly"), BOX)


def test_vgg16_needs_more_memory_with_a_larger_batch() -> None:
    assert (
        costs(work("vgg16", batch_size=512), BOX).memory_bytes
        > 16 * 2**30
        > costs(work("vgg16"), BOX).memory_bytes
    )


def test_gpus_without_peer_access_go_through_the_host() -> None:
    alone: Hardware = replace(BOX, peer_to_peer=False)
    job = work("vgg16", strategy="ps_gpu", num_gpus=4)
    assert exchange(job, alone).pull.busy_s["host memory", 0, ""] > 0
    assert "host memory" not in {kind for kind, _, _ in exchange(job, BOX).pull.busy_s}


def test_the_throughput_are_those_of_all_gpus() -> None:
    reported = costs(work(), BOX)
    assert reported.throughput == pytest.approx(8 * 64 / reported.step_s)


def test_a_ring_of_a_mesh_has_the_links_between_its_own_gpus_alone() -> None:
    """A bug: NCCL on 2 GPUs got all four NVLinks of each, a copy between the same two the one that there is."""
    mesh = profile("dgx1_p100")
    two, three, four = (exchange(work("vgg16", num_gpus=n), mesh).push for n in (2, 3, 4))
    sent = 4 * 138_361_641
    for one, gb_per_s, times in ((two, 18, 1), (three, 36, 4 / 3), (four, 54, 3 / 2)):
        assert one.busy_s["nvlink", 0, "ring"] == pytest.approx(
            times * sent / (gb_per_s * 1e9), rel=0.01
        )
    copied = exchange(work("vgg16", num_gpus=2, strategy="psgpu"), mesh).push
    assert copied.busy_s["nvlink", 1, "pair"] == pytest.approx(sent / 18e9, rel=1e-3)


def test_a_switch_gives_all_links_to_any_pair() -> None:
    two, eight = (
        exchange(work("vgg16", num_gpus=n), NVLINK).push.busy_s["nvlink", 0, "ring"] for n in (2, 8)
    )
    assert eight / two == pytest.approx(1.75, rel=0.05)


@pytest.mark.parametrize("strategy", ["ps_cpu", "ps_gpu", "nccl"])
def test_variables_are_updated_in_fp32_however_gradients_are_sent(strategy: str) -> None:
    """A bug: compact gradients halved what an update reads and writes, slots and variables included."""
    whole, compact = (
        exchange(
            work("vgg16", num_gpus=4, strategy=strategy, compact_gradients=one), BOX
        ).updated_bytes
        for one in (False, True)
    )
    assert compact == pytest.approx(whole, rel=1e-3)


def test_slow_gpu_memory_does_not_slow_the_update_of_the_host() -> None:
    """A bug: the rate of the GPU's memory was taken for the host's."""
    on_host, on_gpu = (
        [costs(work(strategy=one), BOX, Rates(memory=rate)).update_s for rate in (0.3, 0.6)]
        for one in _SIDES
    )
    assert on_host[0] == on_host[1]
    assert on_gpu[0] == pytest.approx(2 * on_gpu[1])


_SIDES = ("ps_cpu", "ps_gpu")


def test_accumulation_computes_often_and_communicates_once() -> None:
    one, four = (costs(_accumulating(num), NVLINK, Rates(start=0.0)) for num in (1, 4))
    assert four.communication_s == one.communication_s
    assert four.update_s == one.update_s
    assert 4 * one.compute_s < four.compute_s < 4.5 * one.compute_s  # sums of gradients, too
    assert four.items == 4 * one.items == 4 * 8 * 8 * 512
    assert four.throughput > one.throughput


def test_kernels_of_each_gradient_are_launched_once_per_update() -> None:
    one, four = (Step.of(_accumulating(num), NVLINK).kernels_s for num in (1, 4))
    once_s = 3 * len(network("bert_base").tensors) * NVLINK.launch_us * 1e-6
    assert four - once_s == pytest.approx(4 * (one - once_s))


def _accumulating(num_batches: int) -> Work:
    return work("bert_base", gradient_accumulation=num_batches, batch_size=8)


def test_gradients_of_micro_batches_are_sent_after_the_last() -> None:
    one, two = (
        costs(work("vgg16", gradient_accumulation=num), BOX, Rates(overlap=1.0)) for num in (1, 2)
    )
    assert one.exposed_s < 0.95 * two.exposed_s
    assert two.exposed_s >= two.communication_s


def test_variables_are_wanted_layer_by_layer_also_of_several_micro_batches() -> None:
    """A bug: with accumulation all variables were wanted at the beginning of the pass."""
    job = work("gpt2", 8, "sharded")
    one, two = (Step.of(replace(job, gradient_accumulation=num), NVLINK) for num in (1, 2))
    assert one.wanted.tolist() == two.wanted.tolist() == [i / 148 for i in range(148)]
    packed = Step.of(replace(job, gradient_repacking=4), NVLINK)
    assert packed.wanted.tolist() == one.wanted.tolist()


def test_messages_of_shards_have_the_bytes_of_their_pieces() -> None:
    """A bug: 155 messages of 148 tensors were taken for as many equal packs."""
    job = work("gpt2", 8, "sharded")
    step = Step.of(job, NVLINK)
    sizes = exchange(job, NVLINK).message_bytes[::-1]
    assert len(sizes) == 155
    assert step.backward == pytest.approx([size / (4 * 124_439_808) for size in sizes])
    assert list(step.ready) == sorted(step.ready)
    assert step.ready[-1] == 1
    # the table of tokens, 30 % of all bytes, is the first of the layers and ready last
    assert step.backward[step.ready == 1].sum() == pytest.approx(50257 * 768 / 124_439_808)


def test_gradients_of_whole_tensors_are_ready_one_by_one() -> None:
    step = Step.of(work("resnet50"), BOX)
    assert step.ready == pytest.approx([(i + 1) / 161 for i in range(161)])


def test_staged_variables_hide_behind_all_micro_batches() -> None:
    """The second micro-batch has room for what the first one cannot hide."""
    slow = replace(BOX, pcie_gb_per_s=3.0)
    job = work("vgg16", strategy="ps_gpu", num_gpus=2, batch_size=8, staged_vars=True)
    exposed = []
    for num in (2, 8):
        step = Step.of(replace(job, gradient_accumulation=num), slow)
        found = step.seconds(Rates(overlap=1.0))
        exposed.append(found.exposed_s)
    assert exposed[1] < exposed[0]


def test_an_update_takes_longer_the_more_an_optimizer_keeps() -> None:
    seconds = [costs(work(optimizer=name), BOX).update_s for name in ("sgd", "momentum", "adam")]
    assert [one / seconds[0] for one in seconds] == pytest.approx([1, 5 / 3, 7 / 3])
    with pytest.raises(ValueError, match=r"optimizer=lion: .* it knows adam, .*lamb"):
        costs(work(optimizer="lion"), BOX)


def test_computing_again_takes_another_forward_pass() -> None:
    once, again = (
        costs(work("gpt2", 1, recompute=recompute), NVLINK, Rates(memory=1e9, start=0.0))
        for recompute in (False, True)
    )
    assert again.compute_s / once.compute_s == pytest.approx(4 / 3, rel=0.01)


def test_each_replica_updates_its_shard_alone() -> None:
    whole = costs(work("gpt2"), NVLINK)
    shard = costs(replace(work("gpt2"), variable_update="sharded", all_reduce="none"), NVLINK)
    assert shard.update_s == pytest.approx(whole.update_s / 8)
    assert shard.memory_bytes < whole.memory_bytes


def test_bytes_of_an_update_do_not_depend_on_its_micro_batches() -> None:
    sent = [exchange(work("gpt2", 4, gradient_accumulation=num), NVLINK).push for num in (1, 8)]
    assert sent[0].num_bytes == sent[1].num_bytes == pytest.approx(4 * 2 * 3 / 4 * 4 * 124_439_808)


def test_tokens_need_no_decoding() -> None:
    assert costs(work("bert_base", real_data=True), NVLINK).input_s == 0
    assert costs(work("vit_b16", real_data=True), NVLINK).input_s > 0


@pytest.mark.parametrize("box", ["dgx_a100", "h100_8", "h200_8"])
@pytest.mark.parametrize("model", ["gpt2", "bert_base", "bert_large", "vit_b16"])
def test_transformers_are_played_on_todays_boxes(box: str, model: str) -> None:
    found = [
        costs(work(model, num, batch_size=8, precision="bf16", optimizer="adam"), profile(box))
        for num in (1, 2, 4, 8)
    ]
    assert all(a.throughput < b.throughput for a, b in pairwise(found))
    assert found[-1].throughput < 8 * found[0].throughput
