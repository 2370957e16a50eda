"""Optimizers, one file each: `create(spec) -> Optimizer` (see `trainer/towers.py`), by TensorFlow's
fused update ops.
"""
