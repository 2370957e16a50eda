"""Takes a Keras model of the user's own, `model=my_model.py:build`."""

from trainer.own_model.loading import load

__all__ = ["load"]
