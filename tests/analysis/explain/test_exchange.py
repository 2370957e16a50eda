"""Communication is shown by other trials of the box: by bytes, or by another way of exchange."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kendalltau

from analysis.explain.causes import Bound, EvidenceKind
from analysis.explain.exchange import ExchangeLoss, chance_of_order, grows_with_bytes
from analysis.explain.verdicts import Confidence
from analysis.selection import Selection, load
from scalemark.records.references import Origin
from tests.analysis.explain.explained import GPUS, INDEPENDENT, explained, result

# model, ms of one GPU alone; bytes: 553, 247, 102, 241 and 95 MB
COMPUTE = {"vgg16": 200, "alexnet": 100, "resnet50": 110, "resnet152": 300, "inception3": 180}
SENT_MB = {"vgg16": 553, "alexnet": 247, "resnet50": 102, "resnet152": 241, "inception3": 95}
NCCL = {"num_gpus": 8, "all_reduce": "nccl"}
IMAGE_PX = {"alexnet": 227, "inception3": 299}


def images(model):
    return {"model": model, "image_px": IMAGE_PX.get(model, 224), "num_classes": 1001}


def box(ms_of_model):
    """One GPU and eight of each model; nothing else was measured."""
    found = []
    for model, alone in COMPUTE.items():
        found.append(result(ms_of_model(model, alone), **images(model), **NCCL))
        found.append(result(alone, **images(model), **INDEPENDENT))
    return found


def test_losses_that_grow_with_bytes_are_communication():
    vgg16, *others = box(lambda model, alone: alone + SENT_MB[model] / 5)  # 5 GB/s
    found = explained(vgg16, *others)
    assert (found.diagnosis.bound, found.diagnosis.confidence) == (
        Bound.COMMUNICATION,
        Confidence.LIKELY,
    )
    (evidence,) = found.diagnosis.evidence
    assert evidence.kind is EvidenceKind.BYTES
    assert evidence.p == pytest.approx(1 / 120)
    assert len(evidence.trials) == 5
    assert found.diagnosis.why == (
        "communication takes 36% of the step, 111 ms: losses of 5 models and batches grow with "
        "their bytes at 5.01 GB/s, p = 0.0083"
    )


def test_a_step_that_is_too_short_for_its_bytes_is_not_laid_on_them():
    vgg16, *others = box(lambda model, alone: alone + SENT_MB[model] / 5)
    found = explained(vgg16, *others, gb_per_s=0.1)
    assert found.diagnosis.bound is None
    assert "553 MB in a step of 311 ms are more than the 0.1 GB/s" in found.diagnosis.why


def test_losses_that_do_not_grow_with_bytes_are_not_communication():
    vgg16, *others = box(lambda _, alone: 1.5 * alone)
    found = explained(vgg16, *others)
    assert found.diagnosis.bound is None
    assert found.diagnosis.evidence[0].trials == (vgg16.trial_id, others[0].trial_id)


def test_a_model_that_sends_more_and_loses_less_denies_communication():
    """Small models were called communication-bound where VGG16, with five times the bytes, scaled."""
    half = {"precision": "fp16"}
    nccl = half | NCCL
    small = result(160, **images("resnet50"), **nccl)
    others = [
        result(100, **images("resnet50"), **half, **INDEPENDENT),
        result(97, **images("vgg16"), **nccl),
        result(100, **images("vgg16"), **half, **INDEPENDENT),
    ]
    found = explained(small, *others)
    assert found.diagnosis.bound is None
    assert found.diagnosis.why == (
        "38% of the step is lost to contention or communication (60 ms); vgg16 "
        "(batch_size 32) sends 5.41 times the bytes per second of compute the same way, and "
        "reaches 103% of the ideal where this one reaches 62%; independent replicas would tell"
    )


def test_another_way_of_exchange_that_is_faster_shows_communication():
    slow, fast = result(150, num_gpus=8), result(110, **NCCL)
    found = explained(slow, fast)
    (evidence,) = found.diagnosis.evidence
    assert (found.diagnosis.bound, evidence.kind) == (Bound.COMMUNICATION, EvidenceKind.OTHER_WAY)
    assert 0 < evidence.seconds.low < 0.04 < evidence.seconds.high
    assert explained(fast, slow).diagnosis.bound is None


def test_another_way_that_repeats_cannot_tell_from_this_one_shows_nothing():
    noisy = (0.7, 1.0, 1.3)
    slow = result(150, num_gpus=8, factors=noisy)
    found = explained(slow, result(110, factors=noisy, **NCCL))
    assert found.diagnosis.evidence == ()


def test_what_independent_replicas_lose_less_is_no_other_way_of_exchange():
    """Contention that they show is subtracted, and never communication."""
    found = explained(result(150, num_gpus=8), result(100, num_gpus=8, **INDEPENDENT))
    assert [one.kind for one in found.diagnosis.evidence] == [EvidenceKind.ABLATION]


def figure(milliseconds, throughput=None, **changes):
    made = result(milliseconds, replace(GPUS, origin=Origin.PUBLISHED), (1.0,), **changes)
    rate = throughput or made.throughput
    trial_id = f"{made.trial_id}-{milliseconds}"
    return replace(made, trial_id=trial_id, throughput=rate, repeats=(rate,), low=None, high=None)


def test_rows_that_contradict_each_other_have_no_verdict():
    diagnosis = explained(figure(150, **NCCL), figure(400, **NCCL), figure(100)).diagnosis
    assert diagnosis.bound is None
    assert (
        diagnosis.why
        == "rows of reducing contradict each other: 150 ms and 400 ms for the same step"
    )


@pytest.mark.parametrize("throughput", [1e-300, 1e300])
def test_a_throughput_that_cannot_be_is_no_evidence(throughput):
    rows = box(lambda model, alone: alone + SENT_MB[model] / 5)
    odd = replace(rows[0], throughput=throughput, repeats=(throughput,), low=None, high=None)
    found = explained(odd, *rows[1:], gb_per_s=100.0)
    assert found.diagnosis.bound is not Bound.COMMUNICATION
    other = explained(rows[2], odd, rows[1], *rows[3:]).diagnosis  # beside it, too
    assert other.bound in (None, Bound.COMMUNICATION)


def test_items_of_two_kinds_are_never_one_test():
    vgg16, *others = box(lambda model, alone: alone + SENT_MB[model] / 5)
    mixed = [replace(one, item="samples") if n % 2 else one for n, one in enumerate(others)]
    assert explained(vgg16, *mixed).diagnosis.bound is None


def test_unreported_data_are_not_called_an_input():
    """A bug: of a figure that says nothing of its data all was laid on reading them."""
    unknown = figure(200)
    unknown = replace(unknown, axes=unknown.axes | {"data": ""})
    found = explained(unknown, figure(100))
    assert found.diagnosis.bound is None
    assert "input or other data (100 ms): not reported" in found.diagnosis.why


def test_every_published_verdict_rests_on_evidence_and_none_is_sure():
    published = load(
        Selection(db="none.db", origin=Origin.PUBLISHED, source="tf-benchmarks-2017/gce")
    )
    wide = [one for one in published if one.num_gpus == 8]
    found = {one.trial_id: explained(one, *published).diagnosis for one in wide}
    assert Confidence.SURE not in {one.confidence for one in found.values()}
    assert all(one.evidence for one in found.values() if one.bound)
    bound = [one for one in wide if found[one.trial_id].bound is Bound.COMMUNICATION]
    assert {one.axes["model"] for one in bound} == {"alexnet", "vgg16"}


MB, MS = 1e6, 1e-3
# bytes of the gradients of alexnet, vgg16, resnet50, resnet152, inception3; compute of a step
WORK = ((247 * MB, 780 * MS), (553 * MB, 904 * MS), (102 * MB, 646 * MS))
WORK += ((241 * MB, 1600 * MS), (95 * MB, 1092 * MS))


def loss(**seconds):
    return ExchangeLoss(result=result(100), **seconds)


def points(lost_s):
    return [
        loss(sent_bytes=sent, alone_s=alone, lost_s=lost_s(sent, alone)) for sent, alone in WORK
    ]


def test_a_loss_by_bytes_is_shown_with_its_rate():
    found = grows_with_bytes(points(lambda sent, alone: sent / 4e9 + 0.05 * alone))
    assert 1 / found.s_per_byte == pytest.approx(4e9)
    assert found.p == pytest.approx(1 / 120)  # one order of five is as the bytes have it


def test_a_loss_by_a_fixed_time_is_not_laid_on_bytes():
    """The host's time weighs more where compute is short, as bytes do."""
    fixed = [
        loss(sent_bytes=(100 + n) * MB, alone_s=100 * 2**n * MS, lost_s=30 * MS) for n in range(5)
    ]
    assert grows_with_bytes(fixed) is None


def test_a_loss_by_a_share_of_the_compute_is_not_laid_on_bytes():
    noise = iter((0.31, 0.30, 0.29, 0.32, 0.30))
    assert grows_with_bytes(points(lambda sent, alone: next(noise) * alone)) is None


def test_three_points_are_too_few_and_one_size_shows_nothing():
    every = points(lambda sent, alone: sent / 4e9)
    assert grows_with_bytes(every[:3]) is None
    assert grows_with_bytes(points(lambda sent, alone: 0.0)) is None
    batches = [loss(sent_bytes=MB, alone_s=MS * n, lost_s=MS) for n in range(1, 9)]
    assert grows_with_bytes(batches) is None


@pytest.mark.parametrize("num", [4, 7, 10])
def test_an_order_is_tested_as_scipy_does(num):
    random = np.random.default_rng(num)
    xs = random.permutation(num).tolist()
    ys = [x + noise for x, noise in zip(xs, random.normal(scale=2, size=num).tolist(), strict=True)]
    wanted = kendalltau(xs, ys, alternative="greater")
    assert chance_of_order(xs, ys) == pytest.approx(wanted.pvalue)


def test_ties_are_no_evidence_of_an_order():
    order = [1.0, 2.0, 3.0, 4.0]
    assert chance_of_order(order, [1.0, 2.0, 3.0, 3.0]) > chance_of_order(order, order)
