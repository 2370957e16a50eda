"""Names the environment variables whose values are recorded with a result.

These are the ones that people set to tune. Others of TensorFlow, CUDA, NCCL and OpenMP may hold
anything: of them a digest is recorded, which tells two values apart.
"""

from __future__ import annotations


def _named(prefix: str, names: str) -> frozenset[str]:
    return frozenset(f"{prefix}_{name}" for name in names.split())


RECORDED = (
    _named(
        "TF",
        """CONFIG CPP_MIN_LOG_LEVEL CUDNN_DETERMINISTIC CUDNN_USE_AUTOTUNE CUDNN_USE_RUNTIME_FUSION
        DETERMINISTIC_OPS ENABLE_ONEDNN_OPTS ENABLE_WINOGRAD_NONFUSED FORCE_GPU_ALLOW_GROWTH
        FORCE_UNIFIED_MEMORY GPU_ALLOCATOR GPU_HOST_MEM_LIMIT_IN_MB GPU_THREAD_COUNT GPU_THREAD_MODE
        NUM_INTEROP_THREADS NUM_INTRAOP_THREADS PER_DEVICE_MEMORY_LIMIT_MB SET_ONEDNN_FPMATH_MODE
        USE_CUBLASLT USE_CUDNN_BATCHNORM_SPATIAL_PERSISTENT XLA_FLAGS""",
    )
    | _named("XLA", "FLAGS")
    | _named(
        "NCCL",
        """ALGO BUFFSIZE CROSS_NIC CUMEM_ENABLE DEBUG IB_DISABLE IB_HCA MAX_NCHANNELS MIN_NCHANNELS
        NET_GDR_LEVEL NTHREADS NVLS_ENABLE P2P_DISABLE P2P_LEVEL PROTO SHM_DISABLE SOCKET_IFNAME
        SOCKET_NTHREADS TOPO_FILE TUNER_PLUGIN""",
    )
    | _named(
        "CUDA",
        """CACHE_DISABLE CACHE_PATH DEVICE_MAX_CONNECTIONS HOME LAUNCH_BLOCKING MODULE_LOADING
        MPS_ACTIVE_THREAD_PERCENTAGE MPS_PIPE_DIRECTORY PATH""",
    )
    | _named("OMP", "DYNAMIC NUM_THREADS PLACES PROC_BIND SCHEDULE STACKSIZE WAIT_POLICY")
    | _named("GOMP", "CPU_AFFINITY SPINCOUNT")
    | _named("MKL", "DYNAMIC ENABLE_INSTRUCTIONS NUM_THREADS THREADING_LAYER")
    | _named("KMP", "AFFINITY BLOCKTIME HW_SUBSET LIBRARY SETTINGS")
    | frozenset({"NVIDIA_TF32_OVERRIDE", "LD_PRELOAD"})
)
"""Exact names. The placement (CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER) belongs to the attempt."""
