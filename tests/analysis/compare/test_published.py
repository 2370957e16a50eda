"""Our trials stand beside published figures of the same work, as far as a source tells it."""

from dataclasses import asdict, replace

import pytest

from analysis.compare.pairs import comparison
from analysis.compare.sides import ComparedSide
from analysis.measured import measured
from analysis.published import of_others, of_source
from analysis.selection import Selection
from scalemark.records.references import Origin
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


def matched(ours, figures):
    """Compare our results with figures of others."""
    both = [
        ComparedSide(text=text, selection=Selection(db="r.db", origin=origin), results=tuple(of))
        for text, origin, of in (
            ("ours", Origin.MEASURED, ours),
            ("theirs", Origin.PUBLISHED, figures),
        )
    ]
    return comparison(*both)


def ratios(side):
    return {
        (row.a.strategy, row.a.num_gpus): row.a.throughput / row.b.throughput for row in side.rows
    }


def test_published_figures_match_by_what_sources_report():
    ours = results(
        [
            (small(num_gpus=2, **RESNET), 42.2),
            (small(num_gpus=2, **RESNET | {"local_parameter_device": "gpu"}), 50.0),
            (small(num_gpus=2, data="imagenet", **RESNET), 85.0),
            (small(num_gpus=2, precision="fp16", **RESNET), 1.0),
        ]
    )
    side = matched(ours, of_others(of_source(REFERENCES, "tf-benchmarks-2017/dgx")))
    found = [
        (row.a.axes["data"], row.b.throughput, row.a.throughput / row.b.throughput)
        for row in side.rows
    ]
    assert found == [
        ("synthetic", 422.0, pytest.approx(0.1)),
        ("imagenet", 425.0, pytest.approx(0.2)),
    ]
    assert side.notes[0].startswith("CPU DEVICES AGAINST GPUs")
    assert "real data: here imagenet, there as the source had it" in side.notes
    assert "the source does not say what is here image_px 224, optimizer momentum" in side.notes


def test_axes_that_a_source_leaves_open_fit_any_of_ours_and_are_named():
    theirs = of_others(
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
    side = matched(
        results([(small(model="resnet50", image_px=224, batch_size=64, num_gpus=2), 50.0)]), theirs
    )
    assert ratios(side) == {("replicated_none", 2): 0.5}
    assert (
        "the source leaves open or in doubt: model, local_parameter_device, all_reduce"
        in side.notes
    )


def test_of_several_figures_the_most_complete_is_taken():
    like = replace(
        MINE, model="resnet50", batch_size=64, data="synthetic", num_gpus=2, precision="fp32"
    )
    theirs = of_others(
        [
            asdict(replace(like, throughput=100.0, all_reduce="")),
            asdict(
                replace(like, throughput=200.0, all_reduce="none", local_parameter_device="gpu")
            ),
        ]
    )
    side = matched(
        results([(small(model="resnet50", image_px=224, batch_size=64, num_gpus=2), 50.0)]), theirs
    )
    assert ratios(side) == {("replicated_none", 2): 0.25}


def test_nothing_in_common_is_said_with_the_closest():
    theirs = of_others(of_source(REFERENCES, "tf-benchmarks-2017/dgx"))
    said = r"nothing in common with the source; the closest differ in model \(here trivial, there "
    with pytest.raises(StoreError, match=said):
        matched(results([(small(), 1.0)]), theirs)


def test_images_of_another_size_are_other_work():
    dgx = of_others(of_source(REFERENCES, "tf-benchmarks-2017/dgx"))
    ours = results(
        [
            (small(num_gpus=1, **RESNET), 42.2),
            (small(num_gpus=2, **RESNET | {"image_px": 64}), 500.0),
        ]
    )
    side = matched(ours, dgx)
    assert ratios(side) == {("ps_cpu", 1): pytest.approx(42.2 / 219)}
    assert [result.axes["image_px"] for result in side.only_a] == [64]
    with pytest.raises(
        StoreError, match=r"; the closest differ in image_px \(here 64, there 224\)$"
    ):
        matched(ours[1:], dgx)


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
    dgx = of_others(of_source(REFERENCES, "tf-benchmarks-2017/dgx"))
    with pytest.raises(StoreError, match=f"; the closest differ in {reported}$"):
        matched(results([(small(num_gpus=2, **RESNET | change), 50.0)]), dgx)


PROGRAMS = [program(zero=0), program(zero=1)]


def of_programs(throughputs):
    entries = list(zip(PROGRAMS, throughputs, strict=True))
    return results(entries, details=[SEEN_FROM_OUTSIDE | {"item": "tokens"}] * len(entries))


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
    return of_others([published_of_train])


def test_a_published_figure_is_of_the_free_axes_and_the_item_that_it_names():
    ours = of_programs((100.0, 300.0))
    side = matched(ours, references(zero=1, offload="cpu"))
    assert [row.a.axes["axes.zero"] for row in side.rows] == [1]
    assert not any("axes.zero" in note for note in side.notes)
    side = matched(ours, references(offload="cpu"))
    assert len(side.rows) == 2
    assert "the source does not say what is here axes.zero 0 or 1" in side.notes
    for others in (references(zero=2), references("samples")):
        with pytest.raises(StoreError, match="nothing in common"):
            matched(ours, others)


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
    return matched(ours, of_others(rows))


def test_sequences_of_another_length_are_other_work():
    ours = results([(small(**TOKENS), 50.0), (small(**TOKENS | {"seq_len": 128}), 500.0)])
    side = against_source(ours)
    assert [(row.a.axes["seq_len"], row.a.throughput) for row in side.rows] == [(1024, 50.0)]
    side = against_source(ours, seq_len=128)
    assert [row.a.axes["seq_len"] for row in side.rows] == [128]


def test_updates_of_more_micro_batches_are_other_work():
    ours = results([(small(**TOKENS), 50.0), (small(**TOKENS, gradient_accumulation=4), 60.0)])
    side = against_source(ours, gradient_accumulation=4)
    assert [row.a.throughput for row in side.rows] == [60.0]


def test_another_optimizer_than_the_source_tells_is_not_compared():
    ours = results([(small(**TOKENS), 50.0)])
    assert against_source(ours, optimizer="momentum")
    with pytest.raises(StoreError, match="nothing in common"):
        against_source(ours, optimizer="lamb")
