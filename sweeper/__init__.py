"""Expands a grid, plans it, and runs every attempt in a process of its own. Never imports
TensorFlow.
"""
