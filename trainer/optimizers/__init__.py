"""Optimizers, one file each, by TensorFlow's fused update ops.

Each declares ABILITIES (see `scalemark/abilities.py`) and `create(spec) -> Optimizer`.
"""
