"""Models of tokens have lengths where others have pixels, and refuse what they cannot take."""

import re

import pytest

from conf.resolve import TrialRefusedError
from scalemark import layers as nn
from scalemark import models
from scalemark.records.machine import DeviceKind
from tests.conf.test_resolve import trial

GPU = DeviceKind.GPU


@pytest.mark.parametrize(
    ("model", "on_gpus", "on_cpu_devices"),
    [("gpt2", 1024, 64), ("bert_base", 128, 64), ("gpt_mini", 128, 128), ("vit_b16", 0, 0)],
)
def test_a_model_of_tokens_has_its_own_length(model, on_gpus, on_cpu_devices):
    assert trial(f"model={model}", kind=GPU).seq_len == on_gpus
    assert trial(f"model={model}").seq_len == on_cpu_devices


def test_a_model_of_tokens_has_no_pixels_and_no_data_format():
    spec = trial("model=gpt2", "precision=fp32", kind=GPU)
    assert (spec.image_px, spec.data_format) == (0, "NHWC")


@pytest.mark.parametrize(
    ("model", "optimizer", "learning_rate"),
    [
        ("gpt2", "adamw", 3e-4),
        ("gpt2", "momentum", 0.01),
        ("bert_base", "adam", 1e-4),
        ("resnet50", "adam", 1e-3),
    ],
)
def test_adaptive_optimizers_have_the_rate_of_the_model(model, optimizer, learning_rate):
    spec = trial(f"model={model}", f"optimizer={optimizer}")
    assert spec.learning_rate == learning_rate


def test_a_vision_transformer_is_one_of_images():
    assert trial("model=vit_b16", kind=GPU).image_px == 224


@pytest.mark.parametrize(
    ("overrides", "refusal"),
    [
        ("model=gpt2 seq_len=2048", "model=gpt2: seq_len=2048: wanted 1024 or less, the number of"),
        ("model=gpt2 image_px=64", "image_px=64: gpt2 takes no images; leave it out"),
        ("model=resnet50 seq_len=64", "seq_len=64: resnet50 takes no tokens; leave it out"),
        ("model=gpt2 seq_len=0", "seq_len=0: gpt2 wants 1 or more"),
        (
            "model=vit_b16 image_px=30",
            "model=vit_b16: image_px=30: wanted a multiple of 16, the patch",
        ),
        ("model=bert_tiny seq_len=1", "seq_len=1: wanted 2 or more, for the model masks"),
        ("model=bert_tiny +axes.zero=1", "axes.zero=1: only a program that command= gives takes"),
        ("model=gpt2 data_format=NCHW", "data_format=NCHW: gpt2 takes no images; leave it out"),
        ("model=vit_b16 image_px=8", "image_px=8: vit_b16 needs at least 16"),
        (
            "model=resnet50 recompute=true",
            "recompute=true: resnet50 does not say which activations to keep; leave it out, or "
            "choose bert_base, bert_large, bert_tiny, gpt2, gpt_mini, vit_b16, vit_tiny",
        ),
    ],
)
def test_what_the_model_cannot_take_is_refused(overrides, refusal):
    with pytest.raises(TrialRefusedError, match=re.escape(refusal)):
        trial(*overrides.split())


def test_heads_that_do_not_divide_the_width_are_refused():
    with pytest.raises(nn.SizeError, match="num_heads=3: wanted a divisor of the width 8"):
        nn.attend(
            nn.dense(nn.embed(nn.tokens(4), 7, 8), 24), num_heads=3, is_causal=True, dropout_rate=0
        )


def test_logits_are_tied_to_an_embedding_alone():
    x = nn.dense(nn.embed(nn.tokens(4), 7, 8), 8)
    with pytest.raises(TypeError, match=r"wanted the result of embed\(...\)"):
        nn.tied_logits(x, x)


def test_sizes_left_out_are_the_published_ones():
    assert models.define("bert_base").shape == (74, 30522)
    assert models.define("bert_base", seq_len=None, image_px=0).shape == (74, 30522)
