"""Only the variables that a trial names are set, and inherited ones never make it something else."""

from dataclasses import replace

import pytest

from scalemark.records.machine import DeviceKind
from scalemark.records.switches import contradictions, variables
from tests.command.programs import spec_of
from tests.specs import small

GPU = {"device_kind": DeviceKind.GPU}
PERSISTENT = {"TF_USE_CUDNN_BATCHNORM_SPATIAL_PERSISTENT": "1"}
# no cache of kernels that the driver compiles, and no warnings that others have not
NO_CACHE = {"CUDA_CACHE_DISABLE": "1", "NCCL_DEBUG": "INFO"}
NOT_PERSISTENT = {"TF_USE_CUDNN_BATCHNORM_SPATIAL_PERSISTENT": "0"}
OFF = (("env.TF_USE_CUDNN_BATCHNORM_SPATIAL_PERSISTENT", "0"),)


NCCL = {"all_reduce": "nccl", **GPU}
PER_GPU = {"variable_update": "process_per_gpu", **NCCL}  # whose ranks take it as of so many hosts
LEFT_MIB = "TF_DEVICE_MIN_SYS_MEMORY_IN_MB"


@pytest.mark.parametrize(
    ("changes", "inherited", "wanted"),
    [
        ({}, {}, {}),
        ({"precision": "bf16", **GPU}, {}, PERSISTENT),
        ({"precision": "bf16", **GPU}, NOT_PERSISTENT, {}),
        ({"precision": "fp16", "free": OFF, **GPU}, {}, NOT_PERSISTENT),
        ({"precision": "bf16", "xla": "on", **GPU}, {}, {}),
        ({"precision": "bf16", "data_format": "NCHW", **GPU}, {}, {}),
        ({"precision": "bf16", "image_px": 0, "seq_len": 8, **GPU}, {}, {}),
        ({"precision": "tf32", **GPU}, {}, {}),
        ({"precision": "bf16"}, {}, {}),
        ({"xla": "auto"}, {}, {"TF_XLA_FLAGS": "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit"}),
        ({"xla": "auto", **GPU}, {}, {"TF_XLA_FLAGS": "--tf_xla_auto_jit=2"}),
        ({"xla": "on"}, {}, {}),
        ({"data_format": "NCHW"}, {}, {"TF_ENABLE_ONEDNN_OPTS": "1"}),
        ({"data_format": "NCHW", **GPU}, {}, {}),
        ({"free": (("env.NCCL_ALGO", "Ring"),)}, {}, {"NCCL_ALGO": "Ring"}),
        # many GPUs keep memory for NCCL
        ({"num_gpus": 8, **NCCL}, {}, {LEFT_MIB: "3072"}),
        ({"num_gpus": 8, **NCCL}, {LEFT_MIB: "600"}, {}),
        ({"num_gpus": 2, **NCCL}, {}, {}),
        ({"num_gpus": 8, "hosts": 4, **NCCL}, {}, {}),
        ({"num_gpus": 8, **PER_GPU}, {}, {LEFT_MIB: "3072"}),
        ({"num_gpus": 8, "hosts": 8, **PER_GPU}, {}, {LEFT_MIB: "3072"}),
        ({"num_gpus": 2, "hosts": 2, **PER_GPU}, {}, {}),
        ({"num_gpus": 8, "all_reduce": "pscpu", **GPU}, {}, {}),
        ({"num_gpus": 8, "all_reduce": "collective"}, {}, {}),
    ],
)
def test_a_trial_sets_what_its_axes_name_and_keeps_what_is_inherited(changes, inherited, wanted):
    assert variables(small(**changes), NO_CACHE | inherited) == wanted


def test_inherited_flags_of_xla_are_kept_and_ours_added_once():
    spec = small(xla="auto", **GPU)
    once = variables(spec, NO_CACHE | {"TF_XLA_FLAGS": "--tf_xla_min_cluster_size=2"})
    assert once == {"TF_XLA_FLAGS": "--tf_xla_min_cluster_size=2 --tf_xla_auto_jit=2"}
    assert variables(spec, NO_CACHE | once) == once


@pytest.mark.parametrize(
    ("changes", "inherited", "wanted"),
    [
        ({"num_gpus": 2, **GPU}, {}, {"NCCL_DEBUG": "WARN"}),
        ({"num_gpus": 2, **GPU}, {"NCCL_DEBUG": "VERSION"}, {}),
        ({"num_gpus": 2, "free": (("env.NCCL_DEBUG", "INFO"),), **GPU}, {}, {"NCCL_DEBUG": "INFO"}),
        ({"num_gpus": 2}, {"TF_CPP_MIN_LOG_LEVEL": "2"}, {}),
        (GPU, {"TF_CPP_MIN_LOG_LEVEL": "2"}, {"TF_CPP_MIN_LOG_LEVEL": "1"}),
        (GPU, {"TF_CPP_MIN_LOG_LEVEL": "1"}, {}),
        (
            {"free": (("env.TF_CPP_MIN_LOG_LEVEL", "3"),), **GPU},
            {"TF_CPP_MIN_LOG_LEVEL": "0"},
            {"TF_CPP_MIN_LOG_LEVEL": "3"},
        ),
    ],
)
def test_gpus_log_the_warnings_that_tell_a_lack_of_memory(changes, inherited, wanted):
    """A bug: TF_CPP_MIN_LOG_LEVEL=2 hid them, and NCCL has none by default."""
    no_cache = {"CUDA_CACHE_DISABLE": "1"}
    spec = small(**changes)
    assert variables(spec, no_cache | inherited) == wanted
    assert variables(spec, no_cache | inherited | wanted).items() <= wanted.items()


CACHE = {"SCALEMARK_CACHE": "/cache"}
KEPT = {"CUDA_CACHE_PATH": "/cache/cuda", "CUDA_CACHE_MAXSIZE": "4294967296"}


@pytest.mark.parametrize(
    ("changes", "inherited", "wanted"),
    [
        (GPU, {}, KEPT),
        (GPU, {"CUDA_CACHE_MAXSIZE": "1"}, KEPT | {"CUDA_CACHE_MAXSIZE": "1"}),
        (GPU, {"CUDA_CACHE_PATH": "/mine"}, {}),
        (GPU, NO_CACHE, {}),
        ({}, {}, {}),
    ],
)
def test_kernels_that_the_driver_compiles_for_a_gpu_are_kept(changes, inherited, wanted):
    assert variables(small(**changes), CACHE | inherited) == wanted


def test_flags_of_xla_that_are_an_axis_take_the_place_of_inherited_ones():
    free = (("env.TF_XLA_FLAGS", "--tf_xla_min_cluster_size=3"),)
    found = variables(small(xla="auto", free=free, **GPU), {"TF_XLA_FLAGS": "--other"})
    assert found["TF_XLA_FLAGS"] == "--tf_xla_min_cluster_size=3 --tf_xla_auto_jit=2"


def test_a_kernel_cache_that_is_an_axis_is_left_as_it_is():
    free = (("env.CUDA_CACHE_MAXSIZE", 1), ("env.CUDA_CACHE_PATH", "/cache"))
    found = variables(small(free=free, **GPU), {})
    assert found == {"CUDA_CACHE_MAXSIZE": "1", "CUDA_CACHE_PATH": "/cache"}


def test_a_program_may_be_given_what_an_axis_of_ours_would_set():
    spec = spec_of("python t.py", free=(("env.TF_XLA_FLAGS", "--tf_xla_auto_jit=2"),))
    assert list(contradictions(spec, {})) == []


def test_a_program_that_is_given_tf32_is_not_given_what_switches_it_off():
    """A bug: its numbers were of fp32 without a word."""
    override = {"NVIDIA_TF32_OVERRIDE": "0"}
    spec = spec_of("python t.py --precision {precision}", precision="tf32", **GPU)
    (found,) = contradictions(spec, override)
    assert found.endswith("override precision=tf32; unset it")
    assert list(contradictions(replace(spec, device_kind=DeviceKind.CPU_DEVICE), override)) == []
    assert list(contradictions(spec_of("python t.py", **GPU), {"NVIDIA_TF32_OVERRIDE": "1"})) == []


@pytest.mark.parametrize(
    ("inherited", "changes", "said"),
    [
        (
            {"TF_XLA_FLAGS": "--tf_xla_auto_jit=1"},
            {},
            "take tf_xla_auto_jit out and set xla=auto instead",
        ),
        (
            {"NVIDIA_TF32_OVERRIDE": "0"},
            {"precision": "tf32", **GPU},
            "NVIDIA_TF32_OVERRIDE=0 is set, by which NVIDIA's libraries override precision=tf32",
        ),
        (
            {},
            {"free": (("env.TF_XLA_FLAGS", "--tf_xla_auto_jit=1"),)},
            "TF_XLA_FLAGS=--tf_xla_auto_jit=1 is set; take tf_xla_auto_jit out and set xla=auto",
        ),
        ({"NVIDIA_TF32_OVERRIDE": "1"}, GPU, "override precision=fp32; unset it"),
        (
            {"TF_ENABLE_ONEDNN_OPTS": "0"},
            {"data_format": "NCHW"},
            "data_format=NCHW: CPU devices run it by oneDNN only",
        ),
    ],
)
def test_an_inherited_variable_that_contradicts_the_trial_is_reported(inherited, changes, said):
    (found,) = contradictions(small(**changes), inherited)
    assert said in found


@pytest.mark.parametrize("variable", ["NVIDIA_TF32_OVERRIDE", "TF_ENABLE_ONEDNN_OPTS"])
def test_variables_that_a_trial_sets_or_leaves_alone_do_not_contradict_it(variable):
    assert list(contradictions(small(), {variable: "0"})) == []
