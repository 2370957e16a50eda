"""Whole trials beside the same trials elsewhere: matched by all axes but machine and software, and never averaged."""

from dataclasses import asdict, replace

import pytest

from analysis.compare.published import opposed
from analysis.published import of_source, published
from analysis.results import measured
from scalemark.records.devices import DeviceKind
from scalemark.records.references import published as shipped
from store.database import open_for_reading
from store.errors import StoreError
from store.reading import queries
from tests.filled import MACHINE, fill
from tests.programs import SEEN_FROM_OUTSIDE, program
from tests.specs import small
from tests.store.test_references import MINE

OTHER = replace(MACHINE, host="other")
REFERENCES = [asdict(reference) for reference in shipped()]
RESNET = {
    "model": "resnet50",
    "image_px": 224,
    "batch_size": 64,
    "variable_update": "parameter_server",
    "local_parameter_device": "cpu",
}


def results(entries, **options):
    fill("r.db", entries, **options)
    found = measured(queries.measured(open_for_reading("r.db")))
    return [
        result
        for result in found
        if result.environment.host == options.get("machine", MACHINE).host
    ]


def ratios(side):
    return {
        (result.strategy, result.num_gpus): result.against and result.against.ratio
        for result in side.results
    }


def test_the_same_trial_on_another_machine_gives_a_ratio_and_others_none():
    ours = results([(small(), 100.0), (small(num_gpus=2), 150.0), (small(num_gpus=4), None)])
    theirs = results(
        [(small(), 50.0), (small(num_gpus=2, seed=2), 10.0), (small(num_gpus=4), 99.0)],
        name="second",
        machine=OTHER,
    )
    (side,) = opposed(ours, theirs)
    assert side.other.host == "other"
    assert ratios(side) == {
        ("replicated_none", 1): 2.0,
        ("replicated_none", 2): None,
        ("replicated_none", 4): None,
    }
    assert side.notes == ()


def test_repeats_give_the_ratio_an_interval_and_tell_a_tie():
    ours = results(
        [(small(), speed) for speed in (100.0, 101.0, 102.0)]
        + [(small(num_gpus=2), speed) for speed in (200.0, 202.0)]
    )
    theirs = results(
        [(small(), speed) for speed in (100.5, 101.5, 100.0)]
        + [(small(num_gpus=2), speed) for speed in (100.0, 101.0)],
        name="second",
        machine=OTHER,
    )
    (side,) = opposed(ours, theirs)
    on_1, on_2 = (result.against for result in side.results)
    assert on_1.low < 1 < on_1.high
    assert (on_1.is_tie, on_2.is_tie) == (True, False)


def test_one_process_each_is_no_tie():
    (side,) = opposed(
        results([(small(), 100.0)]), results([(small(), 100.0)], name="second", machine=OTHER)
    )
    assert (side.results[0].against.low, side.results[0].against.is_tie) == (None, False)


def test_each_place_of_the_other_side_stands_alone():
    ours = results([(small(), 100.0)])
    theirs = results([(small(), 50.0)], name="second", machine=OTHER)
    theirs += results([(small(), 200.0)], name="third", machine=replace(MACHINE, host="third"))
    assert [(side.other.host, *ratios(side).values()) for side in opposed(ours, theirs)] == [
        ("other", 2.0),
        ("third", 0.5),
    ]


def test_cpu_devices_against_gpus_are_compared_with_a_loud_note():
    ours = results([(small(), 100.0)])
    theirs = results([(small(device_kind=DeviceKind.GPU), 400.0)], name="second", machine=OTHER)
    (side,) = opposed(ours, theirs)
    assert ratios(side) == {("replicated_none", 1): 0.25}
    assert side.notes[0].startswith("CPU DEVICES AGAINST GPUs")


def test_published_figures_match_by_what_sources_report():
    ours = results(
        [
            (small(num_gpus=2, **RESNET), 42.2),
            (small(num_gpus=2, **RESNET | {"local_parameter_device": "gpu"}), 50.0),
            (small(num_gpus=2, data="imagenet", **RESNET), 85.0),
            (small(num_gpus=2, precision="fp16", **RESNET), 1.0),
        ]
    )
    (side,) = opposed(ours, published(of_source(REFERENCES, "tf-benchmarks-2017/dgx")))
    found = [
        result.against and (result.against.ratio, result.against.other.throughput)
        for result in side.results
    ]
    assert found == [(pytest.approx(0.1), 422.0), None, (pytest.approx(0.2), 425.0), None]
    assert "real data: here imagenet, there as the source had it" in side.notes
    assert "the source does not say what is here image_px 224, optimizer momentum" in side.notes


def test_axes_that_a_source_leaves_open_fit_any_of_ours_and_are_named():
    theirs = published(
        [
            asdict(
                replace(
                    MINE,
                    model="resnet50?",
                    batch_size=64,
                    data="synthetic",
                    num_gpus=2,
                    throughput=100.0,
                    precision="fp32",
                    all_reduce="?",
                )
            )
        ]
    )
    (side,) = opposed(
        results([(small(model="resnet50", image_px=224, batch_size=64, num_gpus=2), 50.0)]), theirs
    )
    assert ratios(side) == {("replicated_none", 2): 0.5}
    assert (
        "the source leaves open or in doubt: model, local_parameter_device, all_reduce"
        in side.notes
    )


def test_of_several_figures_the_best_is_taken_and_that_is_said():
    like = replace(
        MINE, model="resnet50", batch_size=64, data="synthetic", num_gpus=2, precision="fp32"
    )
    theirs = published(
        [
            asdict(replace(like, throughput=100.0, all_reduce="")),
            asdict(
                replace(like, throughput=200.0, all_reduce="none", local_parameter_device="gpu")
            ),
        ]
    )
    (side,) = opposed(
        results([(small(model="resnet50", image_px=224, batch_size=64, num_gpus=2), 50.0)]), theirs
    )
    assert ratios(side) == {("replicated_none", 2): 0.25}
    assert "the source has several figures for 1 trial; the most complete is taken" in side.notes


def test_nothing_in_common_is_said_with_the_closest():
    theirs = published(of_source(REFERENCES, "tf-benchmarks-2017/dgx"))
    said = (
        r"nothing in common with the other side; the closest differ in model \(here trivial, there "
    )
    with pytest.raises(StoreError, match=said):
        opposed(results([(small(), 1.0)]), theirs)


def test_images_of_another_size_are_other_work():
    dgx = published(of_source(REFERENCES, "tf-benchmarks-2017/dgx"))
    ours = results(
        [
            (small(num_gpus=1, **RESNET), 42.2),
            (small(num_gpus=2, **RESNET | {"image_px": 64}), 500.0),
        ]
    )
    (side,) = opposed(ours, dgx)
    assert ratios(side) == {("ps_cpu", 1): pytest.approx(42.2 / 219), ("ps_cpu", 2): None}
    assert (
        "not compared: resnet50 of image_px 64 is other work than the source's, whose images had 224"
        in side.notes
    )
    with pytest.raises(
        StoreError, match=r"; the closest differ in image_px \(here 64, there 224\)$"
    ):
        opposed(ours[1:], dgx)


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        ({"precision": "fp16"}, r"precision \(here fp16, there fp32\)"),
        ({"xla": "auto"}, r"precision \(here fp32\+XLA, there fp32\)"),
        ({"batch_size": 65}, r"batch_size \(here 65, there (32|64)\)"),
        ({"local_parameter_device": "gpu"}, r"local_parameter_device \(here gpu, there cpu\)"),
    ],
)
def test_nothing_in_common_with_a_source_names_the_axis_that_differs(change, reported):
    dgx = published(of_source(REFERENCES, "tf-benchmarks-2017/dgx"))
    with pytest.raises(StoreError, match=f"; the closest differ in {reported}$"):
        opposed(results([(small(num_gpus=2, **RESNET | change), 50.0)]), dgx)


def test_nothing_in_common_names_the_axis_that_differs():
    ours, theirs = (
        results([(small(), 100.0)]),
        results([(small(seed=2), 50.0)], name="second", machine=OTHER),
    )
    with pytest.raises(StoreError, match=r"; the closest differ in seed \(here 1, there 2\)$"):
        opposed(ours, theirs)


def test_what_has_no_number_on_one_side_is_said():
    ours, theirs = (
        results([(small(), None)]),
        results([(small(), 50.0)], name="second", machine=OTHER),
    )
    with pytest.raises(
        StoreError, match=r"; where they are the same, one of the two has no number$"
    ):
        opposed(ours, theirs)


PROGRAMS = [program(zero=0), program(zero=1)]


def of_programs(throughputs, machine, item="tokens"):
    entries = list(zip(PROGRAMS, throughputs, strict=True))
    measured_item = [SEEN_FROM_OUTSIDE | {"item": item}] * len(entries)
    return results(entries, machine=machine, name=machine.host, details=measured_item)


def test_two_values_of_a_free_axis_are_never_paired():
    """A bug: zero=0 was compared with whatever zero came first."""
    ours, theirs = of_programs((100.0, 300.0), MACHINE), of_programs((50.0, 100.0), OTHER)
    (side,) = opposed(ours, theirs)
    assert [one.against.ratio for one in side.results] == [2.0, 3.0]
    with pytest.raises(StoreError, match=r"differ in axes.zero \(here 0, there 1\)"):
        opposed(ours[:1], theirs[1:])


def test_trials_that_count_different_items_are_never_paired():
    ours, theirs = of_programs((1.0, 3.0), MACHINE), of_programs((5.0, 1.0), OTHER, "samples")
    with pytest.raises(StoreError, match=r"differ in item \(here tokens, there samples\)"):
        opposed(ours, theirs)


def references(item="tokens", **axes):
    published_of_train = (
        asdict(MINE)
        | {
            "model": "train",
            "num_gpus": 1,
            "item": item,
            "precision": "",
            "data": "",
            "batch_size": None,
            "axes": axes,
        }
        | dict.fromkeys(("variable_update", "local_parameter_device", "all_reduce"), "")
    )
    return published([published_of_train])


def test_a_published_figure_is_of_the_free_axes_and_the_item_that_it_names():
    ours = of_programs((100.0, 300.0), MACHINE)
    (side,) = opposed(ours, references(zero=1, offload="cpu"))
    assert [one.against is None for one in side.results] == [True, False]
    assert not any("axes.zero" in note for note in side.notes)
    (side,) = opposed(ours, references(offload="cpu"))
    assert all(one.against for one in side.results)
    assert "the source does not say what is here axes.zero 0 or 1" in side.notes
    for others in (references(zero=2), references("samples")):
        with pytest.raises(StoreError, match="nothing in common"):
            opposed(ours, others)


TOKENS = {"model": "gpt2", "image_px": 0, "seq_len": 1024, "batch_size": 4}
A_SOURCE = replace(
    MINE,
    hardware="8x V100",
    model="gpt2",
    batch_size=4,
    data="synthetic",
    precision="fp32",
    all_reduce="none",
    num_gpus=1,
    throughput=100.0,
    item="images",  # as the made results have it
)


def against_source(ours, **axes):
    rows = [asdict(A_SOURCE) | {"origin": "published", "axes": axes}]
    return opposed(ours, published(rows))


def test_sequences_of_another_length_are_other_work():
    ours = results([(small(**TOKENS), 50.0), (small(**TOKENS | {"seq_len": 128}), 500.0)])
    (side,) = against_source(ours)
    assert [one.against and one.against.ratio for one in side.results] == [0.5, None]
    assert (
        "not compared: gpt2 of seq_len 128 is other work than the source's, whose sequences had "
        "1024" in side.notes
    )
    (side,) = against_source(ours, seq_len=128)
    assert [one.against and one.against.ratio for one in side.results] == [None, 5.0]


def test_updates_of_more_micro_batches_are_other_work():
    ours = results([(small(**TOKENS), 50.0), (small(**TOKENS, gradient_accumulation=4), 60.0)])
    (side,) = against_source(ours, gradient_accumulation=4)
    assert [one.against and one.against.ratio for one in side.results] == [None, 0.6]


def test_another_optimizer_than_the_source_tells_is_not_compared():
    ours = results([(small(**TOKENS), 50.0)])
    assert against_source(ours, optimizer="momentum")
    with pytest.raises(StoreError, match="nothing in common"):
        against_source(ours, optimizer="lamb")
