"""Environment variables through which a trial's axes reach TensorFlow, before it is imported.
Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from scalemark.abilities import PRECISIONS
from scalemark.records.devices import DeviceKind
from scalemark.records.trial import TrialSpec

_ON_OR_OFF = {
    "onednn": "TF_ENABLE_ONEDNN_OPTS",
    "cudnn_autotune": "TF_CUDNN_USE_AUTOTUNE",
    "winograd_nonfused": "TF_ENABLE_WINOGRAD_NONFUSED",
    "batchnorm_persistent": "TF_USE_CUDNN_BATCHNORM_SPATIAL_PERSISTENT",
}
"""Axes of the values auto, on and off; auto leaves the variable alone."""


def variables(spec: TrialSpec, inherited: Mapping[str, str]) -> dict[str, str]:
    """What must be set for this trial, beside what is inherited; nothing that the trial does not
    name.
    """
    found = {
        variable: str(int(getattr(spec, axis) == "on"))
        for axis, variable in _ON_OR_OFF.items()
        if getattr(spec, axis) != "auto"
    }
    if _needs_onednn(spec) and spec.onednn == "auto":
        found[_ON_OR_OFF["onednn"]] = "1"  # TensorFlow has it on by default only on newer CPUs
    if spec.gpu_thread_mode != "global":
        found["TF_GPU_THREAD_MODE"] = spec.gpu_thread_mode
    if spec.gpu_thread_count:
        found["TF_GPU_THREAD_COUNT"] = str(spec.gpu_thread_count)
    if spec.xla == "auto":
        flags = inherited.get("TF_XLA_FLAGS", "").split()
        wanted = [
            "--tf_xla_auto_jit=2",
            *(["--tf_xla_cpu_global_jit"] if spec.device_kind == DeviceKind.CPU_STAND_IN else []),
        ]
        found["TF_XLA_FLAGS"] = " ".join([*(flag for flag in flags if flag not in wanted), *wanted])
    return found


def contradictions(spec: TrialSpec, inherited: Mapping[str, str]) -> Iterator[str]:
    """Inherited variables under which the trial would not be what its axes say, each in one
    sentence.
    """
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
            "data_format=NCHW: CPU stand-ins run it by oneDNN only; leave out onednn=off or "
            "TF_ENABLE_ONEDNN_OPTS=0"
        )


def _needs_onednn(spec: TrialSpec) -> bool:
    return spec.data_format == "NCHW" and spec.device_kind == DeviceKind.CPU_STAND_IN
