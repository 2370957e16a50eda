"""Sentences follow from rows, name them, and are as sure as these allow."""

import re
from dataclasses import replace

import pytest

from analysis.conclusions import concluded
from analysis.conclusions.cases import alike, by_efficiency, by_speed
from analysis.conclusions.conclusion import Conclusion
from analysis.conclusions.noted import with_notes
from analysis.published import of_source, published
from analysis.results import BaselineRule, with_baselines
from scalemark.records.devices import DeviceKind
from scalemark.stats.welch import Relation
from simulator.costs.networks import network
from store.reading.queries import known_references
from tests.analysis.made import made

FAST, SLOW = [200.0, 202.0], [100.0, 101.0]


def sentences(results, topic):
    return [one.sentence for one in concluded(results) if one.topic == topic]


def of(*sources):
    references = known_references(None)
    chosen = [reference for name in sources for reference in of_source(references, name)]
    return with_notes(published(chosen), references, BaselineRule.SAME)


def test_no_conclusion_stands_without_rows():
    environment = made(({}, FAST))[0].environment
    with pytest.raises(ValueError, match="a conclusion without rows"):
        Conclusion(topic="nccl", environment=environment, sentence="NCCL is fast.", rows=())


def test_nothing_follows_from_one_trial():
    assert concluded(made(({}, FAST))) == []


def test_every_number_of_published_figures_is_one_of_its_rows():
    for one in concluded(of("tf-benchmarks-2017", "10723", "4d8aa53")):
        if one.topic in ("leading", "nccl", "real_data", "repacking"):
            figures = {f"{row.throughput:.0f}" for row in one.rows} | {
                f"{row.throughput:.1f}" for row in one.rows
            }
            reported = re.findall(
                r"(?:replicated_\w+|ps_\w+|synthetic|real|tensor) (\d+(?:\.\d)?)(?=[,;. ])",
                one.sentence,
            )
            assert set(reported) <= figures, one.sentence


def test_small_and_large_models_have_leaders_of_their_own():
    results = made(
        ({"model": "resnet50", "strategy": "ps_cpu", "num_gpus": 8, "image_px": 224}, FAST),
        (
            {"model": "resnet50", "strategy": "replicated_nccl", "num_gpus": 8, "image_px": 224},
            SLOW,
        ),
        ({"model": "vgg16", "strategy": "ps_cpu", "num_gpus": 8, "image_px": 224}, SLOW),
        ({"model": "vgg16", "strategy": "replicated_nccl", "num_gpus": 8, "image_px": 224}, FAST),
    )
    small, large = sentences(results, "leading")
    few = "of models with few parameters for their work (less than 5 MB per GFLOP: resnet50): resnet50: ps_cpu leads with 202"
    many = "of models with many parameters for their work (5 MB or more per GFLOP: vgg16): vgg16: replicated_nccl leads with 202"
    assert few in small
    assert f"{many} images/s, 100% ahead of ps_cpu." in large


def test_the_deep_resnet_has_few_parameters_for_its_work():
    trial = {"model": "resnet152", "num_gpus": 8, "image_px": 224, "num_classes": 1001}
    (reported,) = sentences(made(({**trial, "strategy": "ps_cpu"}, FAST), (trial, SLOW)), "leading")
    assert "few parameters for their work (less than 5 MB per GFLOP: resnet152)" in reported


@pytest.mark.parametrize(
    ("of_ps", "of_none"),
    [
        pytest.param([100.0, 130.0], [99.0, 131.0], id="tie"),
        pytest.param([100.0, 100.2], [100.1, 100.3], id="as fast"),
        pytest.param([100.0], [50.0], id="single runs"),
        pytest.param(FAST, [], id="alone"),
    ],
)
def test_a_leader_is_as_sure_as_its_rows(of_ps, of_none, snapshot):
    results = made(({"strategy": "ps_cpu", "num_gpus": 2}, of_ps), ({"num_gpus": 2}, of_none))
    assert sentences(results, "leading") == snapshot


def test_both_doubts_of_a_leader_are_two_parts_of_a_sentence(snapshot):
    trial = {"num_gpus": 2}
    speeds = (
        ({**trial, "strategy": "ps_cpu"}, FAST),
        (trial, [50.0]),
        ({**trial, "strategy": "ps_gpu"}, [180.0]),
    )
    results = [
        replace(one, out_of_race="race: behind") if one.strategy == "ps_gpu" else one
        for one in made(*speeds)
    ]
    assert sentences(results, "leading") == snapshot


def test_nccl_is_compared_with_the_fastest_copies_per_gpu_count(snapshot):
    results = made(
        ({"strategy": "replicated_nccl", "num_gpus": 2}, SLOW),
        ({"strategy": "replicated_none", "num_gpus": 2}, [60.0, 61.0]),
        ({"strategy": "ps_gpu", "num_gpus": 2}, FAST),
        ({"strategy": "replicated_nccl", "num_gpus": 8}, FAST),
        ({"strategy": "ps_gpu", "num_gpus": 8}, SLOW),
    )
    assert sentences(results, "nccl") == snapshot


def test_gradients_that_meet_on_the_cpu_are_copies():
    results = made(
        ({"strategy": "replicated_nccl", "num_gpus": 2}, SLOW),
        ({"strategy": "replicated_pscpu", "num_gpus": 2}, [150.0, 151.0]),
        ({"variable_update": "independent", "num_gpus": 2}, FAST),
    )
    assert "trivial: replicated_nccl 101, replicated_pscpu 151." in sentences(results, "nccl")[0]
    assert "replicated_pscpu leads with 151 images/s" in sentences(results, "leading")[0]


def test_models_whose_layers_nobody_knows_have_leaders_too():
    trial = {"model": "mine", "num_gpus": 2}
    (reported,) = sentences(made(({**trial, "strategy": "ps_cpu"}, FAST), (trial, SLOW)), "leading")
    assert (
        "of models with layers that the cost model does not know (mine): mine: ps_cpu leads with 202 images/s"
        in reported
    )


def test_a_parameter_server_is_reported_as_a_share_of_the_fastest_other():
    results = made(({"strategy": "ps_cpu", "num_gpus": 8}, [150.0, 151.0]), ({"num_gpus": 8}, FAST))
    assert (
        "reaches 75 % of the fastest other strategy, and is slower in 1 of 1 comparison"
        in sentences(results, "parameter_server")[0]
    )


def test_batch_precision_and_model_are_compared_by_efficiency(snapshot):
    results = made(
        ({"batch_size": 2}, SLOW),
        ({"batch_size": 2, "num_gpus": 4}, [200.0, 201.0]),
        ({"batch_size": 8}, SLOW),
        ({"batch_size": 8, "num_gpus": 4}, [380.0, 381.0]),
        ({"batch_size": 8, "precision": "fp16"}, FAST),
        ({"batch_size": 8, "precision": "fp16", "num_gpus": 4}, [400.0, 401.0]),
        ({"model": "resnet18_cifar", "batch_size": 8}, SLOW),
        ({"model": "resnet18_cifar", "batch_size": 8, "num_gpus": 4}, [300.0, 301.0]),
    )
    topics = ("batch_size", "precision", "models")
    assert [sentences(results, topic) for topic in topics] == snapshot


def test_an_efficiency_of_single_processes_is_not_distinguished():
    one, other = (
        made(({}, [100.0]), ({"num_gpus": 2}, [190.0])),
        made(({"batch_size": 8}, [100.0]), ({"batch_size": 8, "num_gpus": 2}, [150.0])),
    )
    compared = by_efficiency(one[1], other[1])
    assert compared.relation is Relation.UNKNOWN
    assert compared.ratio == pytest.approx(0.95 / 0.75)


def test_the_interval_of_a_ratio_of_efficiencies_lies_around_it():
    one = made(({}, [100.0, 101.0, 99.0]), ({"num_gpus": 2}, [190.0, 191.0, 189.0]))
    other = made(
        ({"batch_size": 8}, [100.0, 101.0, 99.0]),
        ({"batch_size": 8, "num_gpus": 4}, [300.0, 301.0, 299.0]),
    )
    compared = by_efficiency(one[1], other[1])
    assert compared.low < compared.ratio < compared.high
    assert compared.high / compared.low < 1.1
    assert compared.relation is Relation.MORE


def test_switches_that_a_trial_was_run_with_and_without(snapshot):
    trial = {"strategy": "ps_cpu", "num_gpus": 2}
    results = made(
        (trial, SLOW),
        ({**trial, "staged_vars": True}, FAST),
        ({**trial, "gradient_repacking": 8}, FAST),
        ({**trial, "data": "photos"}, [50.0, 51.0]),
        ({**trial, "data_format": "NCHW"}, FAST),
    )
    topics = ("staged_vars", "repacking", "real_data", "data_format")
    assert [sentences(results, topic) for topic in topics] == snapshot


def test_what_differs_in_two_things_is_not_compared():
    results = made(
        ({"strategy": "ps_cpu", "num_gpus": 2}, SLOW),
        ({"strategy": "ps_cpu", "num_gpus": 2, "staged_vars": True, "xla": "on"}, FAST),
    )
    assert sentences(results, "staged_vars") == []


def test_fewer_images_on_more_gpus_and_longer_steps_are_two_things():
    results = made(
        ({"batch_size": 10}, SLOW),
        ({"batch_size": 10, "num_gpus": 2}, [150.0, 151.0]),
        ({"batch_size": 10, "num_gpus": 4}, [120.0, 121.0]),
    )
    falling, longer = sentences(results, "slowdown")
    assert (
        falling
        == "More GPUs bring fewer images/s: trivial replicated_none, synthetic data: on 4 121, on 2 151."
    )
    assert "99.0 ms a step on 1, 331 ms here: 3.34x, at 1.20x the images/s" in longer
    counting = with_baselines([replace(one, item="samples") for one in results], BaselineRule.SAME)
    falling, longer = sentences(counting, "slowdown")
    assert falling.startswith("More GPUs bring fewer samples/s: ")
    assert "for each step takes more samples: " in longer


def test_real_data_that_are_not_cached_are_compared_with_synthetic():
    read = {
        "data": "imagenet",
        "data_dir": "/data",
        "distortions": True,
        "cache": False,
        "num_gpus": 2,
    }
    [reported] = sentences(made((read, SLOW), ({"num_gpus": 2}, FAST)), "real_data")
    assert reported.startswith(
        "On the most GPUs real data reach 50 % of synthetic, and are slower in 1 of 1 comparison"
    )


def test_a_precision_is_compared_with_its_data_format():
    single, half = (
        {"precision": "fp32", "data_format": "NCHW"},
        {"precision": "fp16", "data_format": "NHWC", "loss_scale": "dynamic"},
    )
    results = [
        (single, SLOW),
        ({**single, "num_gpus": 4}, [380.0, 381.0]),
        (half, FAST),
        ({**half, "num_gpus": 4}, [400.0, 401.0]),
    ]
    [reported] = sentences(made(*results), "precision")
    assert (
        "in 1 of 1 comparison; the data format differs, too: trivial on 4: fp32 94.3 %, fp16 49.6 %"
        in reported
    )

    in_one_format = [
        ({**single, "data_format": "NHWC"}, SLOW),
        ({**single, "data_format": "NHWC", "num_gpus": 4}, [360.0, 361.0]),
    ]
    [reported] = sentences(made(*results, *in_one_format), "precision")
    assert "in 1 of 1 comparison: trivial on 4: fp32 89.4 %, fp16 49.6 %" in reported


def test_models_are_put_in_order_only_where_nothing_else_differs():
    results = made(
        ({"xla": "on"}, SLOW),
        ({"xla": "on", "num_gpus": 4}, [380.0, 381.0]),
        ({"model": "resnet18_cifar"}, SLOW),
        ({"model": "resnet18_cifar", "num_gpus": 4}, [300.0, 301.0]),
    )
    assert sentences(results, "models") == []
    on_both = made(
        *(
            ({"model": model, "xla": "on", "num_gpus": num}, speeds)
            for model, num, speeds in MODELS_ON_1_AND_4
        ),
    )
    [reported] = sentences(on_both, "models")
    assert reported.startswith(
        "On 4 GPUs with synthetic data in fp32, xla on models scale in this order, "
    )


MODELS_ON_1_AND_4 = (
    ("trivial", 1, SLOW),
    ("trivial", 4, [380.0, 381.0]),
    ("resnet18_cifar", 1, SLOW),
    ("resnet18_cifar", 4, [300.0, 301.0]),
)


def test_models_share_their_gradients_once_for_all_micro_batches():
    tokens = {"model": "gpt_mini", "image_px": 0, "seq_len": 128, "num_classes": 256}
    way = {"gradient_accumulation": 4, "batch_size": 2}
    results = made(
        ({**tokens, **way}, SLOW),
        ({**tokens, **way, "num_gpus": 4}, [380.0, 381.0]),
        ({"model": "resnet18_cifar", **way}, SLOW),
        ({"model": "resnet18_cifar", **way, "num_gpus": 4}, [300.0, 301.0]),
    )
    [reported] = sentences(results, "models")
    own = network("gpt_mini", seq_len=128, num_classes=256)
    shared = own.num_parameters * 4 / 1e6 / (3 * own.forward_flops / 1e9) / (4 * 2)
    assert "(replicated_none, batch size 2 x 4 micro-batches, " in reported
    assert f"{shared:.3f} MB to share per GFLOP" in reported


def test_that_steps_take_longer_is_said_where_repeats_show_it(snapshot):
    def reported(on_1, on_2):
        return sentences(
            made(({"batch_size": 10}, on_1), ({"batch_size": 10, "num_gpus": 2}, on_2)), "slowdown"
        )

    assert reported([100.0, 101.0], [130.0, 220.0]) == []
    sure, single_run = reported([100.0, 101.0], [150.0, 151.0]), reported([100.0], [150.0])
    assert [sure, single_run] == snapshot


def test_steps_of_a_source_that_keeps_its_micro_batches_do_not_take_longer():
    """More GPUs accumulate fewer each, so that its steps take less time and no more sequences."""
    assert sentences(of("BERT"), "slowdown") == []


def test_the_rows_behind_a_longer_step_include_its_baseline():
    results = made(
        ({"strategy": "ps_cpu"}, [80.0, 80.0]),
        ({"strategy": "ps_cpu", "num_gpus": 4}, [160.0, 160.0]),
        ({"strategy": "ps_gpu"}, [100.0, 100.0]),
    )
    [found] = [
        one
        for one in concluded(with_baselines(results, BaselineRule.BEST))
        if one.topic == "slowdown"
    ]
    assert "20.0 ms a step of ps_gpu on 1, 50.0 ms here: 2.50x" in found.sentence
    assert [(row.strategy, row.num_gpus) for row in found.rows] == [("ps_gpu", 1), ("ps_cpu", 4)]


def test_published_figures_that_differ_in_a_note_are_not_mixed():
    (repacked,) = sentences(of("4d8aa53"), "repacking")
    assert "in 3 of 3 comparisons" in repacked
    assert "in 8 packs, compacted, 5380, tensor by tensor, compacted, 4885" in repacked
    assert (
        "in 8 packs, compacted, 5330, tensor by tensor, compacted, 4701" in repacked
    )  # both of relaxed consistency
    reported = sentences(of("4d8aa53"), "leading")
    assert (
        "replicated_hierarchical_copy leads with 4987 images/s, 5% ahead of replicated_nccl"
        in reported[0]
    )


def test_a_published_baseline_has_the_software_of_its_figure():
    """Of the older TensorFlow the source tells no figure of synthetic data on 1 GPU."""
    by_figure = {result.throughput: result for result in of("Question")}
    assert by_figure[4200.0].baseline is None
    assert by_figure[6750.0].baseline.throughput == 2000.0


def test_published_figures_near_each_other_are_a_tie():
    near, far = of("10723"), of("10723")
    (nccl,) = [one for one in near if one.strategy == "replicated_nccl" and one.num_gpus == 4]
    (server,) = [one for one in near if one.strategy == "ps_cpu" and one.num_gpus == 4]
    (slow,) = [one for one in far if one.strategy == "ps_gpu" and one.num_gpus == 4]
    assert by_speed(nccl, server).relation is Relation.TIE
    assert by_speed(nccl, slow).relation is Relation.MORE


def test_cpu_devices_are_counted_as_such():
    trials = [({"strategy": "ps_cpu", "num_gpus": 2}, FAST), ({"num_gpus": 2}, SLOW)]
    assert sentences(made(*trials, kind=DeviceKind.CPU_DEVICE), "leading")[0].startswith(
        "On 2 CPU devices in "
    )


def test_no_conclusion_about_cpu_devices_speaks_of_gpus():
    """A bug: on CPU devices a fixed number of steps took longer "on more GPUs"."""
    real = {"data": "imagenet", "data_dir": "/data", "distortions": True, "cache": False}
    slow, fast = [100.0, 101.0], [150.0, 151.0]
    results = made(
        ({"batch_size": 10}, slow),
        ({"batch_size": 10, "num_gpus": 2}, fast),
        ({"batch_size": 10, "num_gpus": 4}, [120.0, 121.0]),
        ({"batch_size": 10, "num_gpus": 4, "precision": "bf16"}, slow),
        ({"batch_size": 10, "precision": "bf16"}, slow),
        ({"batch_size": 20}, slow),
        ({"batch_size": 20, "num_gpus": 4}, fast),
        ({"batch_size": 10, "num_gpus": 4, **real}, [60.0, 61.0]),
        kind=DeviceKind.CPU_DEVICE,
    )
    found = concluded(results)
    topics = {"slowdown", "batch_size", "precision", "real_data"}
    assert topics <= {one.topic for one in found}
    assert not [one.sentence for one in found if "GPU" in one.sentence]


def test_results_of_different_items_are_not_alike():
    images, tokens = made(({}, FAST), ({"xla": "on"}, SLOW))
    assert alike([images, tokens], "xla") == [[images, tokens]]
    assert alike([images, replace(tokens, item="tokens")], "xla") == []
