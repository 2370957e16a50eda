"""Environment variables by which axes reach TensorFlow, and those that nothing reads."""

from collections.abc import Iterator, Mapping
from functools import cache

from scalemark.abilities import ALL_REDUCES, PRECISIONS, VARIABLE_UPDATES
from scalemark.host.files import cache_folder
from scalemark.records.axes import ENV_PREFIX, Engine, env_variables, is_env_variable
from scalemark.records.machine import DeviceKind
from scalemark.records.trial import AXES, TrialSpec
from scalemark.text.wording import as_typed

# the most that CUDA takes; its default is a quarter, and TensorFlow alone has 1,400 kernels
_MOST_KERNEL_BYTES = 2**32

# NCCL's buffers grow with the number of GPUs; more than TensorFlow leaves on any of them
_MANY_GPUS, _LEFT_MIB, _LEFT_MIB_PER_GPU = 4, 1536, 192

_ONEDNN = "TF_ENABLE_ONEDNN_OPTS"
_PERSISTENT = "TF_USE_CUDNN_BATCHNORM_SPATIAL_PERSISTENT"
_TF32 = "NVIDIA_TF32_OVERRIDE"


def variables(spec: TrialSpec, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the variables to set for this trial, beside the inherited ones: those of axes of
    ours, and those that are axes themselves.
    """
    needed = env_variables(spec.free)
    flags_before = {**inherited, **needed}.get("TF_XLA_FLAGS", "")
    if _needs_onednn(spec):
        needed[_ONEDNN] = "1"  # TensorFlow has it on by default only on newer CPUs
    if _transposes_to_normalize(spec) and _PERSISTENT not in {**inherited, **needed}:
        needed[_PERSISTENT] = "1"
    if spec.xla == "auto":
        wanted = ["--tf_xla_auto_jit=2"]
        if spec.device_kind == DeviceKind.CPU_DEVICE:
            wanted.append("--tf_xla_cpu_global_jit")
        flags = dict.fromkeys([*flags_before.split(), *wanted])
        needed["TF_XLA_FLAGS"] = " ".join(flags)
    if spec.device_kind == DeviceKind.GPU:
        given = {**inherited, **needed}
        needed |= kernel_cache(given) | _room_for_nccl(spec, given) | _warnings(spec, given)
    return needed


def contradictions(spec: TrialSpec, inherited: Mapping[str, str]) -> Iterator[str]:
    """Name in a sentence each the variables that contradict the trial's axes.

    A program of the user's own has none of these axes, and is given any variable; where its
    command says tf32, that has to be so.
    """
    if own := env_variables(spec.free):
        inherited = {**inherited, **own}
    is_program = spec.engine == Engine.command
    if spec.device_kind == DeviceKind.GPU and (not is_program or _rounds(spec.precision)):
        yield from overrides_of_precision(spec.precision, inherited)
    if is_program:
        return
    if "tf_xla_auto_jit" in inherited.get("TF_XLA_FLAGS", ""):
        yield (
            f"TF_XLA_FLAGS={inherited['TF_XLA_FLAGS']} is set; take tf_xla_auto_jit out and set "
            "xla=auto instead"
        )
    if _needs_onednn(spec) and inherited.get(_ONEDNN) == "0":
        yield f"data_format=NCHW: CPU devices run it by oneDNN only; leave out {_ONEDNN}=0"


def overrides_of_precision(precision: str, inherited: Mapping[str, str]) -> Iterator[str]:
    """Say in a sentence where NVIDIA's libraries would compute in another precision on GPUs: they
    follow the variable whatever TensorFlow asks of them.
    """
    override = inherited.get(_TF32)
    if override and override != str(int(_rounds(precision))):
        yield (
            f"NVIDIA_TF32_OVERRIDE={override} is set, by which NVIDIA's libraries override "
            f"precision={precision}; unset it"
        )


def _rounds(precision: str) -> bool:
    abilities = PRECISIONS.get(precision)
    return abilities is not None and abilities.tensor_float_32


def _room_for_nccl(spec: TrialSpec, inherited: Mapping[str, str]) -> dict[str, str]:
    """Leave memory of each GPU for NCCL's buffers, which are TensorFlow's loss.

    Left to itself, TensorFlow leaves 0.5 to 1.8 GiB, by compute capability alone (MinSystemMemory
    in gpu_device.cc), for CUDA, cuDNN and NCCL together.
    """
    variable = "TF_DEVICE_MIN_SYS_MEMORY_IN_MB"
    all_reduce = ALL_REDUCES.get(spec.all_reduce)
    uses_nccl = all_reduce is not None and all_reduce.uses_nccl
    num_gpus = spec.gpus_per_host
    update = VARIABLE_UPDATES.get(spec.variable_update)
    if update is not None and update.is_of_one_host:
        num_gpus = spec.num_gpus  # processes that stand for hosts are on one
    if not uses_nccl or num_gpus < _MANY_GPUS or variable in inherited:
        return {}
    return {variable: str(_LEFT_MIB + _LEFT_MIB_PER_GPU * num_gpus)}


def kernel_cache(inherited: Mapping[str, str]) -> dict[str, str]:
    """Keep what the driver compiles for GPUs that TensorFlow has no machine code of.

    That may take minutes, and no later trial should wait for it again.
    """
    if inherited.get("CUDA_CACHE_DISABLE") == "1" or "CUDA_CACHE_PATH" in inherited:
        return {}
    try:
        folder = cache_folder(inherited)
    except RuntimeError:  # a user without a home: CUDA finds a place, or compiles each time
        return {}
    return {
        "CUDA_CACHE_PATH": str(folder / "cuda"),
        "CUDA_CACHE_MAXSIZE": inherited.get("CUDA_CACHE_MAXSIZE", str(_MOST_KERNEL_BYTES)),
    }


def _warnings(spec: TrialSpec, given: Mapping[str, str]) -> dict[str, str]:
    """Log the warnings by which a lack of a GPU's memory is known, see
    `scalemark.host.processes`: TensorFlow's, and NCCL's, which are hidden by default.
    """
    variables = {}
    if spec.num_gpus > 1 and "NCCL_DEBUG" not in given:
        variables["NCCL_DEBUG"] = "WARN"
    level, is_axis = "TF_CPP_MIN_LOG_LEVEL", "env.TF_CPP_MIN_LOG_LEVEL" in dict(spec.free)
    if not is_axis and given.get(level, "") not in ("", "0", "1"):
        variables[level] = "1"
    return variables


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


@cache
def unknown_to(engine: Engine) -> tuple[str, ...]:
    """Return the axes that this engine does not know, in their order."""
    return tuple(axis.name for axis in AXES.values() if engine not in axis.engines)


def unknown_axes(spec: TrialSpec) -> Iterator[str]:
    """Say in a sentence each why the trial's engine refuses it."""
    engine = Engine(spec.engine)
    for name in unknown_to(engine):
        value = getattr(spec, name)
        if value == AXES[name].default:
            continue
        why = (
            f"engine={engine} does not know it, {', '.join(AXES[name].engines)} does; leave it out"
        )
        if engine is Engine.simulated:
            why = "the cost model does not know what it changes; leave it out of simulated trials"
        yield f"{name}={as_typed(value)}: {why}"
    for name, value in spec.free:
        if is_env_variable(name):
            continue
        yield (
            f"{name}={value}: only a program that command= gives takes axes of your own; leave it "
            "out"
        )
    yield from _useless_variables(spec)


# read by the loader, the C library or Python before anything could set them in a trainer
_READ_AT_START = ("LD_", "PYTHON", "GLIBC_", "MALLOC_")


def _useless_variables(spec: TrialSpec) -> Iterator[str]:
    for name in env_variables(spec.free):
        axis = f"{ENV_PREFIX}{name}"
        if spec.engine == Engine.simulated:
            yield (
                f"{axis}: simulated trials run no program that could read it; leave it out, or "
                f"where from= brings it add +{axis}=inherited"
            )
        elif name == _TF32:
            yield f"{axis}: the axis precision sets it; leave it out, and give precision= instead"
        elif name.startswith(_READ_AT_START):
            yield (
                f"{axis}: a process reads it when it starts, before a trainer could set it; "
                "export it, and run a sweep for each value"
            )
