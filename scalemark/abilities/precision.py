"""The abilities that a precision declares."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionAbilities:
    """ABILITIES of a file in `trainer/precisions/`."""

    policy: str  # Keras' dtype policy
    compute_type: str  # of convolutions and matrix products, as TensorFlow's graphs name it
    activation_bytes: int  # of one value
    product_bits: int  # of the values that are multiplied, sign and exponent included
    tolerance: float  # of weights after 3 steps, against those of fp32; 0 = it is the measure
    tensor_float_32: bool = False  # GPUs may round the inputs of float32 products to 10 bits
    is_loss_scaled: bool = False  # small gradients vanish without a loss scale
    has_scalar_kernels: bool = False  # TensorFlow's elementwise ones take one value at a time
    gpu_data_format: str = "NHWC"  # that cuDNN's kernels are made for; tensor cores want NHWC
    gpu_data_format_without_xla: str = ""  # where it is another; empty = the same
    gpu_only: str = ""  # why CPU devices cannot run it; empty where they can
    no_nchw_on_cpu: str = ""  # why CPU devices cannot run it with NCHW
    # the least compute capability of a GPU that has it in hardware; None = every GPU
    compute_capability: tuple[int, int] | None = None
    # the least one whose tensor cores compute in it, and as fast as in anything; None = none
    fastest_from: tuple[int, int] | None = None

    def data_format(self, *, xla: bool) -> str:
        """Return the order of dimensions that GPUs are taken to be faster in."""
        return (not xla and self.gpu_data_format_without_xla) or self.gpu_data_format

    def lack_of(self, compute_capability: tuple[int, int] | None) -> str:
        """Return why a GPU of this compute capability has no such precision; empty where it has
        it, and for None, which is unknown.
        """
        least = self.compute_capability
        if not (compute_capability and least and compute_capability < least):
            return ""
        found, wanted = (".".join(map(str, version)) for version in (compute_capability, least))
        return f"needs compute capability {wanted}, found {found}"
