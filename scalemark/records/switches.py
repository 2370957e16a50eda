"""Environment variables through which a trial's axes reach TensorFlow before it is imported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from scalemark.abilities import PRECISIONS
from scalemark.records.devices import DeviceKind
from scalemark.records.trial import TrialSpec

_ON_OR_OFF = {  # auto leaves the variable alone
    "onednn": "TF_ENABLE_ONEDNN_OPTS",
    "cudnn_autotune": "TF_CUDNN_USE_AUTOTUNE",
    "winograd_nonfused": "TF_ENABLE_WINOGRAD_NONFUSED",
    "batchnorm_persistent": "TF_USE_CUDNN_BATCHNORM_SPATIAL_PERSISTENT",
}


def variables(spec: TrialSpec, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the variables to set for this trial, beside the inherited ones."""
    found = {
        variable: str(int(getattr(spec, axis) == "on"))
        for axis, variable in _ON_OR_OFF.items()
        if getattr(spec, axis) != "auto"
    }
    if _needs_onednn(spec) and spec.onednn == "auto":
        found[_ON_OR_OFF["onednn"]] = "1"  # TensorFlow has it on by default only on newer CPUs
    persistent = _ON_OR_OFF["batchnorm_persistent"]
    if _transposes_to_normalize(spec) and persistent not in inherited:
        found.setdefault(persistent, "1")
    if spec.gpu_thread_mode != "global":
        found["TF_GPU_THREAD_MODE"] = spec.gpu_thread_mode
    if spec.gpu_thread_count:
        found["TF_GPU_THREAD_COUNT"] = str(spec.gpu_thread_count)
    if spec.xla == "auto":
        wanted = ["--tf_xla_auto_jit=2"]
        if spec.device_kind == DeviceKind.CPU_DEVICE:
            wanted.append("--tf_xla_cpu_global_jit")
        flags = dict.fromkeys([*inherited.get("TF_XLA_FLAGS", "").split(), *wanted])
        found["TF_XLA_FLAGS"] = " ".join(flags)
    return found


def contradictions(spec: TrialSpec, inherited: Mapping[str, str]) -> Iterator[str]:
    """Name in a sentence each the inherited variables that contradict the trial's axes."""
    for axis, variable, leaves_alone in (
        ("gpu_thread_mode", "TF_GPU_THREAD_MODE", "global"),
        ("gpu_thread_count", "TF_GPU_THREAD_COUNT", 0),
    ):
        value = getattr(spec, axis)
        if inherited.get(variable) and value == leaves_alone and inherited[variable] != str(value):
            yield (
                f"{variable}={inherited[variable]} is set, the trial says {axis}={value}; unset "
                f"it and set {axis}= instead"
            )
    if "tf_xla_auto_jit" in inherited.get("TF_XLA_FLAGS", ""):
        yield (
            f"TF_XLA_FLAGS={inherited['TF_XLA_FLAGS']} is set; take tf_xla_auto_jit out and set "
            "xla=auto instead"
        )
    override = inherited.get("NVIDIA_TF32_OVERRIDE")
    precision = PRECISIONS.get(spec.precision)
    rounds = precision is not None and precision.tensor_float_32
    if override and spec.device_kind == DeviceKind.GPU and override != str(int(rounds)):
        yield (
            f"NVIDIA_TF32_OVERRIDE={override} is set, the trial says precision={spec.precision}; "
            "unset it"
        )
    onednn_is_off = spec.onednn == "off" or (
        spec.onednn == "auto" and inherited.get("TF_ENABLE_ONEDNN_OPTS") == "0"
    )
    if _needs_onednn(spec) and onednn_is_off:
        yield (
            "data_format=NCHW: CPU devices run it by oneDNN only; leave out onednn=off or "
            "TF_ENABLE_ONEDNN_OPTS=0"
        )


def _transposes_to_normalize(spec: TrialSpec) -> bool:
    """Return whether TensorFlow normalizes images of NHWC in NCHW unless it is told otherwise.

    It has cuDNN's kernels for NHWC in half precision alone, and only in persistent mode
    (fused_batch_norm_op.cc, fast_nhwc_batch_norm); else each layer transposes in and out.
    """
    precision = PRECISIONS.get(spec.precision)
    in_half = precision is not None and precision.activation_bytes == 2
    is_image = spec.data_format == "NHWC" and spec.image_px > 0
    return spec.device_kind == DeviceKind.GPU and in_half and is_image and spec.xla != "on"


def _needs_onednn(spec: TrialSpec) -> bool:
    return spec.data_format == "NCHW" and spec.device_kind == DeviceKind.CPU_DEVICE
