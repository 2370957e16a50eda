"""Optimizers, one file each, by TensorFlow's fused update ops.

Each declares ABILITIES (see `scalemark/abilities/`) and `create(spec) -> Optimizer`.
"""
