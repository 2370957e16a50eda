"""Small models of a user's own, as files that a test writes into its folder."""

from pathlib import Path

DENSE = """
import keras


def build():
    return keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(4)])
"""

CONVOLUTIONAL = """
import keras


def build():
    x = images = keras.Input((8, 8, 3))
    x = keras.layers.Conv2D(4, 3, activation="relu", kernel_regularizer=keras.regularizers.L2(0.1))(x)
    x = keras.layers.Flatten()(x)
    return keras.Model(images, keras.layers.Dense(5, activation="softmax")(x))
"""

TOKENS = """
import keras


def build():
    return {"model": model(), "vocabulary_size": 11}


def model():
    x = tokens = keras.Input((7,), dtype="int32")
    x = keras.layers.Embedding(11, 6)(x)
    x = keras.layers.Dense(8, activation="relu")(x)
    return keras.Model(tokens, keras.layers.Dense(11)(x))
"""

REGRESSION = """
import keras


class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = keras.layers.Dense(5, "tanh"), keras.layers.Dense(2)

    def call(self, x):
        return self.outer(self.inner(x))


def build():
    return {"model": Net(), "loss": keras.losses.MeanSquaredError(), "input_shape": (3, 2)}
"""


def written(text: str, name: str = "my_model.py") -> str:
    """Write the file into the current folder; return the reference to its `build`."""
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text)
    return f"{name}:build"
