"""Optimizers, one file each, by TensorFlow's fused update ops.

Each file declares ABILITIES, see `scalemark/abilities/`, and offers `create(spec) -> Optimizer`;
the protocol stands in `trainer/towers.py`.
"""
