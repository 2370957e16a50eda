"""Keras layers of ours, where Keras' own are slower, keep more memory, or are missing."""
