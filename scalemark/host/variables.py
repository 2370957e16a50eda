"""Names the environment variables that change numbers, by how they begin. It imports nothing."""

_OF_DEVICES = ("CUDA_", "CUDNN_", "CUBLAS_", "NVIDIA_TF32", "ROCM_", "HSA_", "MIOPEN_")
_OF_LINKS = ("NCCL_", "RCCL_", "UCX_", "FI_", "GLOO_", "HOROVOD_", "I_MPI_", "MPICH_")
_OF_THREADS = (
    *("OMP_", "GOMP_", "MKL_", "KMP_", "OPENBLAS_", "BLIS_", "VECLIB_", "NUMEXPR_", "MALLOC_"),
)
_OF_FRAMEWORKS = (
    *("TF_", "XLA_", "TORCH", "PYTORCH_", "JAX_", "KERAS_", "ONEDNN_", "DNNL_", "TRITON_"),
    *("NVTE_", "ACCELERATE_", "DS_", "DEEPSPEED_", "MEGATRON_", "FSDP_", "FLASH_ATTENTION_"),
    *("LIBTPU_INIT_ARGS", "NEURON_CC_", "ATEN_CPU_", "HIP_FORCE_", "GPU_MAX_HW_QUEUES", "PT_HPU_"),
    *("TRANSFORMERS_", "TOKENIZERS_", "BITSANDBYTES_", "PYTHONHASHSEED", "PYTHONOPTIMIZE"),
)
OF_THE_LOADER = ("LD_PRELOAD", "LD_LIBRARY_PATH")
"""Variables that name files of one host."""

VARIABLES = (*_OF_DEVICES, *_OF_LINKS, *_OF_THREADS, *_OF_FRAMEWORKS, *OF_THE_LOADER)
TERRAFORM = ("TF_VAR_", "TF_TOKEN_", "TF_CLI_", "TF_REGISTRY_")  # may hold secrets
OF_A_SESSION = (
    *("HOME", "PATH", "PWD", "OLDPWD", "USER", "LOGNAME", "SHELL", "SHLVL", "TERM", "COLORTERM"),
    *("DISPLAY", "HOSTNAME", "TMPDIR", "COLUMNS", "LINES", "LANG", "LC_", "XDG_", "SSH_"),
    *("PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTEST_", "SCALEMARK_"),
    *("SLURM_", "PBS_", "LSB_", "RAY_", "WANDB_", "MLFLOW_", "MASTER_", "VIRTUAL_ENV", "CONDA_"),
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "OMPI_", "PMI"),
    *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "DBUS_", "TMUX", "VSCODE_", "GITHUB_", "JOB_ID"),
)
"""Variables of another session or run, which change no numbers even where a program names them."""
