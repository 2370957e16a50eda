"""Precisions, one file each: `prepare()` sets TensorFlow's switches and returns the Keras dtype policy."""
