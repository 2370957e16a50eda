"""Precisions, one file each: the type in which layers compute, and TensorFlow's switches.

Each declares ABILITIES, see `scalemark/abilities.py`, and nothing else.
"""
