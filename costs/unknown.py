"""What the cost model knows nothing of."""

NOT_SIMULATED = (
    "hosts",
    "gpu_thread_mode",
    "gpu_thread_count",
    "num_inter_threads",
    "num_intra_threads",
    "onednn",
    "cudnn_autotune",
    "winograd_nonfused",
    "batchnorm_persistent",
    "data_threads",
    "prefetch",
    "visibility",
    "profile",
)
"""Axes of which it does not know what they change."""
