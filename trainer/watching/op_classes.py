"""Sorts ops and GPU kernels into the classes of a profile. The one table of op types."""

from __future__ import annotations

import re
from functools import cache

CONVOLUTION = "convolution"
MATMUL = "matmul"
REDUCTION = "reduction"
UPDATE = "update"
COPY = "copy"
INPUT = "input"
OTHER = "other"

# class -> op types, after `_base` has taken off what oneDNN and fusing put around the name
_TYPES = {
    REDUCTION: r"Nccl.*|Collective(Reduce|Gather|Bcast|AllToAll).*",
    UPDATE: r"ResourceApply.*|ResourceScatter.*",
    COPY: r"Send|Recv|HostSend|HostRecv|Copy|CopyHost",
    INPUT: r"Iterator.*|Decode.*|Parse.*Example.*|ExtractJpegShape"
    r"|SampleDistortedBoundingBox|MultiDeviceIterator.*",
    CONVOLUTION: r"(Fused|Depthwise|FusedDepthwise)?Conv[23][Dd].*",
    MATMUL: r"(Fused|Batch|Sparse|FusedBatch)?MatMul|Einsum",
    "normalization": r"FusedBatchNorm.*|LRN|LRNGrad",
    "pooling": r"(Max|Avg)Pool.*|FractionalMaxPool.*",
    "loss": r".*SoftmaxCrossEntropyWithLogits|(Log)?Softmax",
    "random": r".*Random.*|RngReadAndSkip|RngSkip|TruncatedNormal|StatelessTruncatedNormal",
    "layout": r"Transpose|Pad|MirrorPad.*|Slice.*|StridedSlice.*|Concat|Split|SplitV|Pack|Unpack"
    r"|Tile|Gather.*|Scatter.*|Resize.*|Reshape|ExpandDims|Squeeze|BroadcastTo|Reverse|OneHot"
    r"|Fill|ZerosLike|OnesLike|Range|ConjugateTranspose",
    "variable": r"ReadVariableOp|Assign.*VariableOp|VarHandleOp|Variable.*",
    "fusion": r"Xla.*|FusedEltwise.*",  # a cluster compiled as one
    # sums over axes among them
    "elementwise": r"Add.*|Sub|Mul|MulNoNan|RealDiv|Div|DivNoNan|FloorDiv|FloorMod|Neg|Abs|Sign"
    r"|Square|SquaredDifference|Sqrt|Rsqrt.*|Reciprocal.*|Pow|Exp|Expm1|Log|Log1p|Erf.*|Tanh.*"
    r"|Sigmoid.*|Softplus.*|(Leaky)?Relu.*|Relu6.*|Elu.*|Selu.*|Cast|Maximum|Minimum|ClipByValue"
    r"|Select|Less.*|Greater.*|Equal|NotEqual|Logical.*|Is(Finite|Nan|Inf)|BiasAdd.*|Sum|Mean|Max"
    r"|Min|Prod|All|Any|ArgMax|ArgMin|L2Loss|CheckNumerics.*",
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
_TYPE_PATTERNS = {name: re.compile(rf"^({types})$") for name, types in _TYPES.items()}
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
    """Return the class of an op; `kernel` is what ran of it on a GPU.

    Helpers of a reduction and of an update (a division, a read) belong to it; what goes from device
    to device is a copy.
    """
    by_type = _first_match(_TYPE_PATTERNS, _base(op))
    by_kernel = _first_match(_KERNEL_PATTERNS, kernel)
    if COPY in (by_type, by_kernel):
        return COPY
    if in_reduce_scope(name):
        return REDUCTION
    if _UPDATE_SCOPE.search(name):
        return UPDATE
    if by_type in (OTHER, "fusion") and by_kernel != OTHER:
        return by_kernel
    return by_type


def in_reduce_scope(name: str) -> bool:
    """Say whether a node is in the name scope `reduce`."""
    return bool(_REDUCE_SCOPE.search(name))


def uses_tensor_cores(kernel: str) -> bool:
    """Judge by the name of the GPU kernel, as xprof does."""
    return bool(_TENSOR_CORES.search(kernel)) and not _NO_TENSOR_CORES.search(kernel)


def _first_match(patterns: dict[str, re.Pattern[str]], text: str) -> str:
    for name, pattern in patterns.items():
        if pattern.search(text):
            return name
    return OTHER


def _base(op: str) -> str:
    """Reduce `_MklNativeFusedBatchNormEx` to `FusedBatchNormEx`, `AddV2` to `Add`."""
    return re.sub(r"(V\d)?$", "", re.sub(r"^_?(Mkl(Native)?)?", "", op))
