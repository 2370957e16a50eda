"""The language that models are described in: layers are plain records, and functions chain them.

```
x = images(224)                  # (224, 224, 3)
x = conv(x, 64, 7, strides=2)    # (112, 112, 64)
x = global_mean(x)               # (64,)
x = logits(x, 1001)              # (1001,)

x = tokens(1024)                 # (1024,)
table = x = embed(x, 50257, 768) # (1024, 768)
x = attend(dense(x, 3 * 768), num_heads=12, is_causal=True)
x = tied_logits(x, table)        # (1024, 50257)
```

`trainer/keras_model.py` makes a Keras model of the last tensor; `simulator/costs/networks.py`
counts it.
"""

from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from itertools import count
from math import prod
from typing import Literal, TypeAlias

# of one example, channels last: (height, width, channels), or (positions, channels) of a sequence
Shape: TypeAlias = tuple[int, ...]
Kernel: TypeAlias = int | tuple[int, int]  # height and width
Padding: TypeAlias = Literal["same", "valid"]
Activation: TypeAlias = Literal["linear", "relu", "gelu"]
# a distribution by its name, or the standard deviation of a normal one
Initial: TypeAlias = Literal["he_normal", "glorot_uniform"] | float


class Plain(Enum):
    """Names the layers that have no settings."""

    IMAGES = auto()  # the model's input, photographs of three colors
    RELU = auto()
    GLOBAL_MEAN = auto()  # of each channel over the whole image
    ADD = auto()
    CONCAT = auto()  # the channels of several branches behind each other
    FLATTEN = auto()
    TOKENS = auto()  # the model's input, whole numbers
    IN_A_ROW = auto()  # the positions of an image as a sequence, row by row
    CLASS_TOKEN = auto()  # a trained vector ahead of a sequence
    FIRST = auto()  # the first position of a sequence
    BIAS = auto()  # add a trained number to each channel
    KEPT = auto()  # changes nothing: recompute=true keeps it, and nothing up to the next one


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv:
    """Convolve, add a bias if there is one, and activate."""

    filters: int
    kernel: tuple[int, int]
    strides: int
    padding: Padding
    bias: bool
    activation: Activation
    depthwise: bool  # each channel has one filter of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchNorm:
    """Normalize each channel over the batch."""

    scale: bool  # multiply by a trained gamma
    epsilon: float
    decay: float = 0.9  # of the moving statistics


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Take the largest or the mean value of each window."""

    kind: Literal["max", "mean"]
    size: int
    strides: int
    padding: Padding


@dataclass(frozen=True, slots=True, kw_only=True)
class PadChannels:
    """Append channels of zeros."""

    channels: int  # afterwards


@dataclass(frozen=True, slots=True, kw_only=True)
class Dense:
    """Multiply with a matrix, add a bias, and activate."""

    units: int
    activation: Activation
    initial: Initial


@dataclass(frozen=True, slots=True, kw_only=True)
class DropoutLayer:
    """Replace a random share of the numbers by zero during training."""

    rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Masked:
    """Replace every `every`-th token, from the first, by token 0: the model has to guess it."""

    every: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Every:
    """Take every `every`-th position of a sequence, from the first."""

    every: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Embed:
    """Look up the trained vector of each token."""

    num_symbols: int
    width: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """Add a trained vector to each position; `num_positions` have one."""

    num_positions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Segments:
    """Add a trained vector to each position, the same within each equal part of the sequence."""

    num_segments: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerNorm:
    """Normalize each position over its channels, then multiply by gamma and add beta."""

    epsilon: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Attend:
    """Attend by scaled dot products (Vaswani et al. 2017): softmax(Q K^T / sqrt(d)) V per head.

    The input has queries, keys and values behind each other, the output the heads.
    """

    num_heads: int
    is_causal: bool  # a position attends to itself and those before it
    dropout_rate: float  # of the attention weights


@dataclass(frozen=True, slots=True, kw_only=True)
class TiedLogits:
    """Multiply with the transposed table of an Embed, which is the second input."""


Layer: TypeAlias = (
    Plain
    | Conv
    | BatchNorm
    | Pool
    | PadChannels
    | Dense
    | DropoutLayer
    | Masked
    | Every
    | Embed
    | Positions
    | Segments
    | LayerNorm
    | Attend
    | TiedLogits
)


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """Holds the output of one layer and, by its inputs, the whole network up to there."""

    layer: Layer
    inputs: "tuple[Tensor, ...]"
    shape: Shape
    serial: int = field(default_factory=count().__next__)  # later tensors have larger ones

    @property
    def channels(self) -> int:
        return self.shape[-1]

    @property
    def num_elements(self) -> int:
        return prod(self.shape)


class TooSmallError(ValueError):
    """Raised when nothing is left of the image after some layers."""


class SizeError(ValueError):
    """Raised for sizes that do not fit each other. The text says which, and what would fit."""


def network_of(output: Tensor) -> list[Tensor]:
    """Return `output` and all tensors it depends on, in the order of their description."""
    visited: set[Tensor] = set()
    to_visit = [output]
    while to_visit:
        tensor = to_visit.pop()
        visited.add(tensor)
        to_visit.extend(each for each in tensor.inputs if each not in visited)
    return sorted(visited, key=lambda tensor: tensor.serial)


def images(image_px: int) -> Tensor:
    """Begin a model of square images (image_px, image_px, 3)."""
    return Tensor(Plain.IMAGES, (), (image_px, image_px, 3))


def conv(
    x: Tensor,
    filters: int,
    kernel: Kernel,
    *,
    strides: int = 1,
    padding: Padding = "same",
    bias: bool = True,
    activation: Activation = "relu",
    depthwise: bool = False,
) -> Tensor:
    """Convolve, with bias and ReLU unless told otherwise."""
    layer = Conv(
        filters=filters,
        kernel=(kernel, kernel) if isinstance(kernel, int) else kernel,
        strides=strides,
        padding=padding,
        bias=bias,
        activation=activation,
        depthwise=depthwise,
    )
    return Tensor(layer, (x,), (*_windows(x, layer.kernel, strides, padding), filters))


def batch_norm(x: Tensor, *, scale: bool = True, epsilon: float = 1e-5) -> Tensor:
    return Tensor(BatchNorm(scale=scale, epsilon=epsilon), (x,), x.shape)


def conv_norm(
    x: Tensor,
    filters: int,
    kernel: Kernel,
    *,
    strides: int = 1,
    padding: Padding = "same",
    depthwise: bool = False,
    scale: bool = True,
    epsilon: float = 1e-5,
    activation: Activation = "relu",
) -> Tensor:
    """Convolve without bias, normalize, and activate by ReLU unless told otherwise."""
    x = conv(
        x,
        filters,
        kernel,
        strides=strides,
        padding=padding,
        bias=False,
        activation="linear",
        depthwise=depthwise,
    )
    x = batch_norm(x, scale=scale, epsilon=epsilon)
    return relu(x) if activation == "relu" else x


def relu(x: Tensor) -> Tensor:
    return Tensor(Plain.RELU, (x,), x.shape)


def _pool(
    kind: Literal["max", "mean"], x: Tensor, size: int, strides: int, padding: Padding = "valid"
) -> Tensor:
    layer = Pool(kind=kind, size=size, strides=strides, padding=padding)
    return Tensor(layer, (x,), (*_windows(x, (size, size), strides, padding), x.channels))


max_pool, mean_pool = partial(_pool, "max"), partial(_pool, "mean")


def global_mean(x: Tensor) -> Tensor:
    return Tensor(Plain.GLOBAL_MEAN, (x,), (x.channels,))


def add(x: Tensor, y: Tensor) -> Tensor:
    return Tensor(Plain.ADD, (x, y), x.shape)


def concat(*branches: Tensor) -> Tensor:
    channels = sum(branch.channels for branch in branches)
    return Tensor(Plain.CONCAT, branches, (*branches[0].shape[:-1], channels))


def pad_channels(x: Tensor, channels: int) -> Tensor:
    return Tensor(PadChannels(channels=channels), (x,), (*x.shape[:-1], channels))


def flatten(x: Tensor) -> Tensor:
    return Tensor(Plain.FLATTEN, (x,), (x.num_elements,))


def dense(
    x: Tensor, units: int, *, activation: Activation = "relu", initial: Initial = "he_normal"
) -> Tensor:
    """Multiply with a matrix and add a bias, with ReLU unless told otherwise."""
    layer = Dense(units=units, activation=activation, initial=initial)
    return Tensor(layer, (x,), (*x.shape[:-1], units))


def dropout(x: Tensor, rate: float = 0.5) -> Tensor:
    """Return `x` itself for a rate of 0."""
    if not rate:
        return x
    return Tensor(DropoutLayer(rate=rate), (x,), x.shape)


def logits(x: Tensor, num_classes: int) -> Tensor:
    """End a model. The trainer makes its output float32 under every precision."""
    return dense(x, num_classes, activation="linear", initial=0.01)


def tokens(seq_len: int) -> Tensor:
    """Begin a model of sequences of tokens (seq_len,)."""
    if seq_len < 1:
        raise SizeError(f"seq_len={seq_len}: wanted 1 or more")
    return Tensor(Plain.TOKENS, (), (seq_len,))


def masked(x: Tensor, every: int) -> Tensor:
    """Raises SizeError where all tokens would be masked, with none left to guess them from."""
    if x.shape[0] < 2:
        raise SizeError(
            f"seq_len={x.shape[0]}: wanted 2 or more, for the model masks the first token and "
            "guesses it from the others"
        )
    return Tensor(Masked(every=every), (x,), x.shape)


def every(x: Tensor, every: int) -> Tensor:
    return Tensor(Every(every=every), (x,), (-(-x.shape[0] // every), x.channels))


def embed(x: Tensor, num_symbols: int, width: int) -> Tensor:
    return Tensor(Embed(num_symbols=num_symbols, width=width), (x,), (*x.shape, width))


def positions(x: Tensor, num_positions: int) -> Tensor:
    """Raises SizeError for a sequence that is longer."""
    if x.shape[0] > num_positions:
        raise SizeError(
            f"seq_len={x.shape[0]}: wanted {num_positions} or less, the number of its positions"
        )
    return Tensor(Positions(num_positions=num_positions), (x,), x.shape)


def segments(x: Tensor, num_segments: int) -> Tensor:
    return Tensor(Segments(num_segments=num_segments), (x,), x.shape)


def layer_norm(x: Tensor, epsilon: float) -> Tensor:
    return Tensor(LayerNorm(epsilon=epsilon), (x,), x.shape)


def attend(x: Tensor, *, num_heads: int, is_causal: bool, dropout_rate: float) -> Tensor:
    """(positions, 3 * width) -> (positions, width). Raises SizeError for heads of uneven width."""
    width = x.channels // 3
    if width % num_heads:
        raise SizeError(
            f"num_heads={num_heads}: wanted a divisor of the width {width}, as heads share it"
        )
    layer = Attend(num_heads=num_heads, is_causal=is_causal, dropout_rate=dropout_rate)
    return Tensor(layer, (x,), (x.shape[0], width))


def in_a_row(x: Tensor) -> Tensor:
    """(height, width, channels) -> (height * width, channels)."""
    height, width, channels = x.shape
    return Tensor(Plain.IN_A_ROW, (x,), (height * width, channels))


def class_token(x: Tensor) -> Tensor:
    return Tensor(Plain.CLASS_TOKEN, (x,), (x.shape[0] + 1, x.channels))


def first(x: Tensor) -> Tensor:
    return Tensor(Plain.FIRST, (x,), (x.channels,))


def bias(x: Tensor) -> Tensor:
    return Tensor(Plain.BIAS, (x,), x.shape)


def kept(x: Tensor) -> Tensor:
    return Tensor(Plain.KEPT, (x,), x.shape)


def tied_logits(x: Tensor, table: Tensor) -> Tensor:
    """End a model by the vectors that its tokens have at its beginning, as `table` = embed(...)."""
    if not isinstance(table.layer, Embed):
        raise TypeError(f"table={table.layer}: wanted the result of embed(...)")
    return Tensor(TiedLogits(), (x, table), (*x.shape[:-1], table.layer.num_symbols))


def _windows(x: Tensor, kernel: tuple[int, int], strides: int, padding: Padding) -> tuple[int, int]:
    """Return how many windows of this kernel an image has, in height and width."""
    height, width, _ = x.shape
    if padding == "valid":
        height, width = height - kernel[0] + 1, width - kernel[1] + 1
    if min(height, width) < 1:
        raise TooSmallError(f"an image of {x.shape} has no window of {kernel}")
    return -(-height // strides), -(-width // strides)
