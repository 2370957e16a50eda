"""Precisions, one file each: what TensorFlow's switches must be and in which type layers compute.

Each file declares ABILITIES, see `scalemark/abilities/`, and nothing else.
"""
