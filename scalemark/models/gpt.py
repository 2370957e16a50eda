"""GPT-2 (Radford et al. 2019): predicts the next token; its first and last layer share weights."""

from functools import partial

from scalemark import layers as nn


def gpt(
    seq_len: int = 1024,
    num_classes: int = 50257,
    *,
    num_layers: int,
    width: int,
    num_heads: int,
    num_positions: int = 1024,
    dropout_rate: float = 0.1,
) -> nn.Tensor:
    x = nn.tokens(seq_len)
    table = x = nn.embed(x, num_classes, width)
    x = nn.dropout(nn.positions(x, num_positions), dropout_rate)
    for _ in range(num_layers):
        x = nn.kept(x)
        x = nn.add(x, attention(nn.layer_norm(x, 1e-5), num_heads, dropout_rate, is_causal=True))
        x = nn.add(x, feed_forward(nn.layer_norm(x, 1e-5), dropout_rate))
    x = nn.layer_norm(nn.kept(x), 1e-5)
    return nn.tied_logits(x, table)


def attention(
    x: nn.Tensor, num_heads: int, dropout_rate: float, *, is_causal: bool = False
) -> nn.Tensor:
    """Project to queries, keys and values, attend, and project back."""
    width = x.channels
    x = linear(x, 3 * width)
    x = nn.attend(x, num_heads=num_heads, is_causal=is_causal, dropout_rate=dropout_rate)
    return nn.dropout(linear(x, width), dropout_rate)


def feed_forward(x: nn.Tensor, dropout_rate: float) -> nn.Tensor:
    """Widen each position four times, and bring it back."""
    y = nn.dense(x, 4 * x.channels, activation="gelu", initial=0.02)
    return nn.dropout(linear(y, x.channels), dropout_rate)


linear = partial(nn.dense, activation="linear", initial=0.02)

MODELS = {
    "gpt2": partial(gpt, num_layers=12, width=768, num_heads=12),
    # of bytes, for CPU devices
    "gpt_mini": partial(
        gpt, seq_len=128, num_classes=256, num_layers=4, width=128, num_heads=4, num_positions=512
    ),
}
