"""Environment variables through which a trial's axes reach TensorFlow before it is imported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from scalemark.abilities import PRECISIONS
from scalemark.records import environment_axes
from scalemark.records.axes import Engine
from scalemark.records.devices import DeviceKind
from scalemark.records.trial import TrialSpec

_ON_OR_OFF = {  # auto leaves the variable alone
    "onednn": "TF_ENABLE_ONEDNN_OPTS",
    "cudnn_autotune": "TF_CUDNN_USE_AUTOTUNE",
    "winograd_nonfused": "TF_ENABLE_WINOGRAD_NONFUSED",
    "batchnorm_persistent": "TF_USE_CUDNN_BATCHNORM_SPATIAL_PERSISTENT",
}

OWNERS = {variable: axis for axis, variable in _ON_OR_OFF.items()} | {
    "TF_GPU_THREAD_MODE": "gpu_thread_mode",
    "TF_GPU_THREAD_COUNT": "gpu_thread_count",
    "NVIDIA_TF32_OVERRIDE": "precision",
}
"""Variable -> the axis that sets it, or says what it would change."""


def variables(spec: TrialSpec, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the variables to set for this trial, beside the inherited ones: those of axes of
    ours, and those that are axes themselves.
    """
    found = environment_axes.variables(spec.free)
    flags_before = {**inherited, **found}.get("TF_XLA_FLAGS", "")
    for axis, variable in _ON_OR_OFF.items():
        if getattr(spec, axis) != "auto":
            found[variable] = str(int(getattr(spec, axis) == "on"))
    if _needs_onednn(spec) and spec.onednn == "auto":
        found[_ON_OR_OFF["onednn"]] = "1"  # TensorFlow has it on by default only on newer CPUs
    if spec.gpu_thread_mode != "global":
        found["TF_GPU_THREAD_MODE"] = spec.gpu_thread_mode
    if spec.gpu_thread_count:
        found["TF_GPU_THREAD_COUNT"] = str(spec.gpu_thread_count)
    if spec.xla == "auto":
        wanted = ["--tf_xla_auto_jit=2"]
        if spec.device_kind == DeviceKind.CPU_DEVICE:
            wanted.append("--tf_xla_cpu_global_jit")
        flags = dict.fromkeys([*flags_before.split(), *wanted])
        found["TF_XLA_FLAGS"] = " ".join(flags)
    return found


def contradictions(spec: TrialSpec, inherited: Mapping[str, str]) -> Iterator[str]:
    """Name in a sentence each the variables that contradict the trial's axes.

    A program of the user's own has none of these axes, and is given any variable.
    """
    if spec.engine == Engine.command:
        return
    inherited = {**inherited, **environment_axes.variables(spec.free)}
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


def _needs_onednn(spec: TrialSpec) -> bool:
    return spec.data_format == "NCHW" and spec.device_kind == DeviceKind.CPU_DEVICE
