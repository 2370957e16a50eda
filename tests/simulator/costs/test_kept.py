"""What waits for the backward pass, by hand for single layers and for a block of a transformer."""

from scalemark import layers as nn
from scalemark import models
from simulator.costs.networks import Kept, count

LOSS = 2 * 10  # the logits and their gradient


def test_a_convolution_keeps_its_input_and_relu_its_output():
    x = nn.images(8)
    x = nn.relu(nn.batch_norm(nn.conv(x, 4, 3, bias=False, activation="linear")))
    outputs = 8 * 8 * 4
    logits = nn.logits(nn.flatten(x), 10)
    # the image, the input of the norm, and the output of ReLU, which the product needs too
    assert count(logits).kept.num == 8 * 8 * 3 + 2 * outputs + LOSS


def test_sums_keep_nothing():
    x = nn.conv(nn.images(8), 4, 3)
    added = nn.logits(nn.global_mean(nn.add(x, x)), 10)
    alone = nn.logits(nn.global_mean(x), 10)
    assert count(added).kept == count(alone).kept
    assert count(alone).kept.num == 8 * 8 * 3 + 8 * 8 * 4 + LOSS


def test_attention_grows_with_the_square_of_the_sequence():
    """Queries, keys, values, the weights before and after dropout, a byte of each, and the output."""
    for rate, num_scores in ((0.0, 1), (0.1, 2.25)):
        x = nn.embed(nn.tokens(16), 100, 8)
        y = nn.attend(
            nn.dense(x, 24, activation="linear"), num_heads=2, is_causal=True, dropout_rate=rate
        )
        counted = count(nn.tied_logits(y, x))
        values, output = 3 * 16 * 8, 16 * 8
        scores = num_scores * 2 * 16 * 16
        assert counted.kept.num == values + scores + output + 2 * 16 * 100
    assert counted.num_working == max(5 * 2 * 16 * 16, 2 * 16 * 100)
    assert counted.num_tied == 100 * 8


def test_what_is_computed_again_is_kept_of_one_block_at_a_time():
    for name in ("gpt_mini", "bert_tiny", "vit_tiny"):
        counted = count(models.define(name))
        assert counted.kept_again.num < 0.7 * counted.kept.num, name


def test_a_model_without_marks_keeps_all():
    counted = count(models.define("resnet50"))
    assert counted.kept_again == counted.kept


def test_layer_normalization_and_the_loss_keep_float32():
    """Norms keep 128 numbers each in float32, and their output in half precision."""
    table = nn.embed(nn.tokens(16), 100, 8)
    x = nn.layer_norm(table, 1e-5)
    x = nn.layer_norm(nn.dense(x, 8, activation="linear"), 1e-5)
    kept = count(nn.tied_logits(x, table)).kept
    assert kept == Kept(num=2 * 2 * 128 + 2 * 16 * 100, num_float32=2 * 128 + 2 * 16 * 100)
    assert kept.num_bytes(2.0) == 4 * (256 + 3200) + 2 * 256
    assert kept.num_bytes(4.0) == 4 * kept.num


def test_of_norms_that_compute_again_those_of_one_block_are_kept():
    """gpt_mini's last norm stands behind its blocks, of which each has two."""
    counted = count(models.define("gpt_mini", seq_len=64, num_classes=256))
    assert counted.kept_again.num_float32 == 3 * 64 * 128 + 2 * 64 * 256
