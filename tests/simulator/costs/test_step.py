"""What strategies send, and limiting cases of a step's time."""

from dataclasses import replace
from itertools import pairwise

import pytest

from scalemark import models
from scalemark.records.trial import TrialSpec
from simulator.costs.box import Hardware, profile
from simulator.costs.exchange import Exchange, LinkTraffic, exchange
from simulator.costs.step import costs, network_of
from tests.specs import small

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
) -> TrialSpec:
    variable_update, device, all_reduce = STRATEGIES[strategy]
    sizes = dict(models.published_sizes(model))
    axes = {"image_px": 0, "seq_len": 0, "num_steps": 4, "precision": "fp32"} | sizes | others
    return small(
        model=model, num_gpus=num_gpus, batch_size=batch_size, device_kind="simulated_gpu",
        variable_update=variable_update, local_parameter_device=device, all_reduce=all_reduce, **axes,
    )  # fmt: skip


def sent_by(spec: TrialSpec, box: Hardware) -> Exchange:
    return exchange(spec, network_of(spec), box)


def busiest(traffic: LinkTraffic) -> tuple[str, float]:
    """The kind of the link that is busy for longest, and how long."""
    link = max(traffic.busy_s, key=traffic.busy_s.__getitem__)
    return link[0], traffic.busy_s[link]


REACHED = 0.8
VGG_BYTES = 4 * 138_361_641


def test_with_variables_on_the_host_one_gpu_fetches_and_sends_all() -> None:
    sent = sent_by(work("vgg16", num_gpus=1, strategy="ps_cpu"), BOX)
    for traffic, way in ((sent.pull, "down"), (sent.push, "up")):
        assert traffic.busy_s["pcie", 0, way] == pytest.approx(VGG_BYTES / (REACHED * 12e9))


def test_the_owner_of_fc6_limits_a_parameter_server_on_gpus() -> None:
    sent = sent_by(work("vgg16", num_gpus=4, strategy="ps_gpu"), BOX)
    kind, busy_s = busiest(sent.pull)
    assert kind in ("pcie", "switch")
    assert busy_s == pytest.approx(3 * 4 * 102_760_448 / (REACHED * 12e9), rel=0.1)


def test_a_ring_of_a_mesh_has_the_links_between_its_own_gpus_alone() -> None:
    """A bug: NCCL on 2 GPUs got all four NVLinks of each."""
    mesh = profile("dgx1_p100")
    for num_gpus, gb_per_s, times in ((2, 18, 1), (3, 36, 4 / 3), (4, 54, 3 / 2)):
        sent = sent_by(work("vgg16", num_gpus=num_gpus), mesh).push
        expected_s = times * VGG_BYTES / (REACHED * gb_per_s * 1e9)
        assert sent.busy_s["nvlink", 0, "ring"] == pytest.approx(expected_s)


def test_accumulation_computes_often_and_communicates_once() -> None:
    one, four = (
        costs(work("bert_base", gradient_accumulation=num, batch_size=8), NVLINK) for num in (1, 4)
    )
    assert four.communication_s == one.communication_s
    assert four.update_s == one.update_s
    assert 3 * one.compute_s < four.compute_s < 4.5 * one.compute_s
    assert four.items / four.step_s > one.items / one.step_s


def test_gradients_of_micro_batches_are_sent_after_the_last() -> None:
    one, two = (costs(work("vgg16", gradient_accumulation=num), BOX) for num in (1, 2))
    assert one.exposed_s < two.exposed_s == two.communication_s


def test_computing_again_takes_a_third_more() -> None:
    once, again = (costs(work("gpt2", 1, recompute=again), NVLINK) for again in (False, True))
    assert again.compute_s / once.compute_s == pytest.approx(4 / 3, rel=0.02)


@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name != "ps_cpu"])
def test_one_gpu_communicates_nothing(strategy: str) -> None:
    one = costs(work(num_gpus=1, strategy=strategy), BOX)
    assert one.communication_s == one.exposed_s == one.sync_s == 0


def test_nccl_scatters_with_half_the_time_of_an_all_reduce() -> None:
    halves = sent_by(work("vgg16", strategy="sharded_nccl"), NVLINK)
    whole = sent_by(work("vgg16", strategy="nccl"), NVLINK)
    (_, gathered_s), (_, scattered_s) = busiest(halves.pull), busiest(halves.push)
    assert gathered_s == scattered_s
    assert gathered_s + scattered_s == pytest.approx(busiest(whole.push)[1], rel=0.05)


@pytest.mark.parametrize("num_gpus", [2, 8])
def test_a_ring_gathers_weights_round_the_ring_with_half_of_what_it_sums(num_gpus: int) -> None:
    ring = sent_by(work("vgg16", num_gpus, strategy="sharded_ring"), BOX)
    assert busiest(ring.pull)[0] == busiest(ring.push)[0]
    assert 2 * busiest(ring.pull)[1] == pytest.approx(busiest(ring.push)[1], rel=0.05)


def test_images_of_all_micro_batches_are_counted() -> None:
    assert costs(work(num_gpus=2, batch_size=8, gradient_accumulation=4), BOX).items == 64


def test_round_robin_by_number_loads_the_gpu_that_has_the_largest_tensor() -> None:
    even = busiest(sent_by(work("vgg16", num_gpus=4, strategy="psgpu"), BOX).push)[1]
    uneven = busiest(sent_by(work("vgg16", num_gpus=4, strategy="none"), BOX).push)[1]
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
    whole = busiest(sent_by(work("vgg16"), BOX).push)[1]
    assert busiest(sent_by(work("vgg16", compact_gradients=True), BOX).push)[1] == pytest.approx(
        whole / 2, rel=2e-3
    )


def test_mixed_precision_sends_as_many_bytes_as_fp32() -> None:
    assert sent_by(work(precision="fp16"), BOX).push.busy_s == sent_by(work(), BOX).push.busy_s


def test_variables_of_the_step_before_hide_their_fetching() -> None:
    fetched = costs(work("vgg16", strategy="ps_cpu"), BOX)
    assert (
        costs(work("vgg16", strategy="ps_cpu", staged_vars=True), BOX).exposed_s < fetched.exposed_s
    )


def test_a_tiny_model_is_bound_by_launches_and_longer_calls_help() -> None:
    tiny = work("trivial", num_gpus=1, batch_size=1)
    reported = costs(tiny, NVLINK)
    assert reported.launch_s > reported.compute_s - reported.launch_s
    assert costs(replace(tiny, steps_per_execution=10), NVLINK).step_s < reported.step_s


def test_input_sets_the_pace_when_it_is_the_longest() -> None:
    reported = costs(
        work("alexnet", strategy="nccl", batch_size=512, data="imagenet", distortions=True), BOX
    )
    assert (
        reported.step_s
        == reported.input_s
        == pytest.approx(8 * 512 / (BOX.num_cores * BOX.decode_images_per_s_per_core))
    )


def test_a_missing_link_is_named_with_what_to_add() -> None:
    unknown = replace(BOX, socket_gb_per_s=None)
    with pytest.raises(
        ValueError,
        match=r"8 GPUs hang off .* socket_gb_per_s is not known; .* hardware.profile.socket_gb_per_s=6 to a sweep",
    ):
        costs(work(), unknown)
    assert costs(work(num_gpus=4), unknown).step_s > 0


def test_a_precision_that_the_hardware_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match="precision=fp16: k80_8 does not have it; it has fp32"):
        costs(work(precision="fp16"), profile("k80_8"))


def test_more_gpus_than_the_box_has_are_refused() -> None:
    with pytest.raises(ValueError, match="num_gpus=16: p100_pcie_8 has 8"):
        costs(work(num_gpus=16), BOX)


def test_vgg16_needs_more_memory_with_a_larger_batch() -> None:
    assert (
        costs(work("vgg16", batch_size=512), BOX).memory_bytes
        > 16 * 2**30
        > costs(work("vgg16"), BOX).memory_bytes
    )


def test_a_switch_gives_all_links_to_any_pair() -> None:
    two, eight = (
        sent_by(work("vgg16", num_gpus=n), NVLINK).push.busy_s["nvlink", 0, "ring"] for n in (2, 8)
    )
    assert eight / two == pytest.approx(1.75, rel=0.05)


def test_an_update_takes_longer_the_more_an_optimizer_keeps() -> None:
    seconds = [costs(work(optimizer=name), BOX).update_s for name in ("sgd", "momentum", "adam")]
    assert [one / seconds[0] for one in seconds] == pytest.approx([1, 5 / 3, 7 / 3])


def test_each_replica_updates_its_shard_alone() -> None:
    whole = costs(work("gpt2"), NVLINK)
    shard = costs(work("gpt2", strategy="sharded"), NVLINK)
    assert shard.update_s == pytest.approx(whole.update_s / 8)
    assert shard.memory_bytes < whole.memory_bytes


def test_tokens_need_no_decoding() -> None:
    assert costs(work("bert_base", data="imagenet"), NVLINK).input_s == 0
    assert costs(work("vit_b16", data="imagenet"), NVLINK).input_s > 0


@pytest.mark.parametrize("box", ["dgx_a100", "h100_8", "h200_8"])
@pytest.mark.parametrize("model", ["gpt2", "bert_base", "bert_large", "vit_b16"])
def test_transformers_are_played_on_todays_boxes(box: str, model: str) -> None:
    found = [
        costs(work(model, num, batch_size=8, precision="bf16", optimizer="adam"), profile(box))
        for num in (1, 2, 4, 8)
    ]
    rates = [reported.items / reported.step_s for reported in found]
    assert all(fewer < more for fewer, more in pairwise(rates))
    assert rates[-1] < 8 * rates[0]
