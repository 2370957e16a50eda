"""Sorts ops and GPU kernels into the classes of a profile. The one table of op types."""

from __future__ import annotations

import re
from functools import cache

CONVOLUTION, MATMUL, REDUCTION, UPDATE, COPY, INPUT, OTHER = (
    "convolution",
    "matmul",
    "reduction",
    "update",
    "copy",
    "input",
    "other",
)

# class -> op types, after `_base` has taken off what oneDNN and the fusing of ops put around the
# name
_TYPES = {
    REDUCTION: r"Nccl.*|Collective(Reduce|Gather|Bcast|AllToAll).*",
    UPDATE: r"ResourceApply.*|ResourceScatter.*",
    COPY: r"Send|Recv|HostSend|HostRecv|Copy|CopyHost",
    INPUT: r"Iterator.*|Decode.*|Parse.*Example.*|ExtractJpegShape|SampleDistortedBoundingBox|MultiDeviceIterator.*",
    CONVOLUTION: r"(Fused|Depthwise|FusedDepthwise)?Conv[23][Dd].*",
    MATMUL: r"(Fused|Batch|Sparse|FusedBatch)?MatMul|Einsum",
    "normalization": r"FusedBatchNorm.*|LRN|LRNGrad",
    "pooling": r"(Max|Avg)Pool.*|FractionalMaxPool.*",
    "loss": r".*SoftmaxCrossEntropyWithLogits|(Log)?Softmax",
    "random": r".*Random.*|RngReadAndSkip|RngSkip|TruncatedNormal|StatelessTruncatedNormal",
    "layout": r"Transpose|Pad|MirrorPad.*|Slice.*|StridedSlice.*|Concat|Split|SplitV|Pack|Unpack|Tile|Gather.*|Scatter.*|Resize.*"
    r"|Reshape|ExpandDims|Squeeze|BroadcastTo|Reverse|OneHot|Fill|ZerosLike|OnesLike|Range|ConjugateTranspose",
    "variable": r"ReadVariableOp|Assign.*VariableOp|VarHandleOp|Variable.*",
    "fusion": r"Xla.*|FusedEltwise.*",  # a cluster compiled as one
    "elementwise": r"Add.*|Sub|Mul|MulNoNan|RealDiv|Div|DivNoNan|FloorDiv|FloorMod|Neg|Abs|Sign|Square|SquaredDifference|Sqrt"
    r"|Rsqrt.*|Reciprocal.*|Pow|Exp|Expm1|Log|Log1p|Erf.*|Tanh.*|Sigmoid.*|Softplus.*|(Leaky)?Relu.*|Relu6.*|Elu.*|Selu.*|Cast"
    r"|Maximum|Minimum|ClipByValue|Select|Less.*|Greater.*|Equal|NotEqual|Logical.*|Is(Finite|Nan|Inf)|BiasAdd.*|Sum|Mean|Max|Min"
    r"|Prod|All|Any|ArgMax|ArgMin|L2Loss|CheckNumerics.*",  # sums over axes among them
}
# class -> what the name of a GPU kernel holds, for kernels whose op says nothing: NCCL's threads,
# XLA
_KERNELS = {
    REDUCTION: r"nccl",
    COPY: r"memcpy",
    CONVOLUTION: r"conv(?!ert)|fprop|dgrad|wgrad|winograd|implicit_gemm",
    MATMUL: r"gemm|gemv|nvjet|cublas|dot_general",
    "normalization": r"bn_fw|bn_bw|batch_?norm",
    "pooling": r"pool",
    "fusion": r"fusion|wrapped_",
}
_TYPE_PATTERNS = {name: re.compile(pattern) for name, pattern in _TYPES.items()}
_KERNEL_PATTERNS = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in _KERNELS.items()}
_REDUCE_SCOPE = re.compile(r"(^|/)reduce(_\d+)?/")
_UPDATE_SCOPE = re.compile(r"(^|/)update(_\d+)?/")
# What xprof takes for tensor core kernels, and the names newer than its list.
_TENSOR_CORES = re.compile(
    r"884|1688|16816|16832|8816|hmma|xmma|tensorop|wgmma|gmma|nvjet|tf32", re.IGNORECASE
)
_NO_TENSOR_CORES = re.compile(r"ffma|simt|sgemm", re.IGNORECASE)


@cache
def classify(op: str, name: str, kernel: str = "") -> str:
    """The class of an op of that type and node name; `kernel` is what ran of it on a GPU.

    Helpers of a reduction and of an update (a division, a read) belong to it; what goes from device
    to device is a copy.
    """
    by_type = _first_match(_TYPE_PATTERNS, _base(op))
    by_kernel = _first_match(_KERNEL_PATTERNS, kernel, anywhere=True) if kernel else OTHER
    if COPY in (by_type, by_kernel):
        return COPY
    if in_reduce_scope(name):
        return REDUCTION
    if _UPDATE_SCOPE.search(name):
        return UPDATE
    return by_kernel if by_type in (OTHER, "fusion") and by_kernel != OTHER else by_type


def in_reduce_scope(name: str) -> bool:
    """The node's name lies in the scope `reduce`."""
    return bool(_REDUCE_SCOPE.search(name))


def uses_tensor_cores(kernel: str) -> bool:
    """Told by the name of the GPU kernel, as xprof does."""
    return bool(_TENSOR_CORES.search(kernel)) and not _NO_TENSOR_CORES.search(kernel)


def _first_match(patterns: dict[str, re.Pattern[str]], text: str, *, anywhere: bool = False) -> str:
    return next(
        (
            name
            for name, pattern in patterns.items()
            if (pattern.search if anywhere else pattern.fullmatch)(text)
        ),
        OTHER,
    )


def _base(op: str) -> str:
    """`FusedBatchNormEx` of `_MklNativeFusedBatchNormEx`, `Add` of `AddV2`."""
    return re.sub(r"(V\d)?$", "", re.sub(r"^_?(Mkl(Native)?)?", "", op))
