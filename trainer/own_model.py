"""Takes a Keras model of the user, `model=my_model.py:build`, and refuses what cannot be trained.

Loads a model of the user's own, `my_model.py:build`, and refuses what cannot be trained here.

```
  find and compare the file ─► import it ─► call the function ─► read what it returns ─► template
```
"""

from __future__ import annotations

import difflib
import importlib.util
import math
import os
import reprlib
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import keras
import tensorflow as tf

from scalemark import own_model
from scalemark.models import ModelError
from scalemark.own_model import OwnModel
from scalemark.records.measurement import BY_EXAMPLE, IMAGES, TOKENS, check_item
from scalemark.records.trial import TrialSpec
from scalemark.text.untrusted import telling_line
from trainer.errors import UnsupportedTrialError
from trainer.keras_model import WHOLE_NUMBERS, Example, Loss, Template

SAMPLES = "samples"
_SPARSE = "sparse_categorical_crossentropy"
_KEYS: Mapping[str, str] = {
    "model": "a Keras model",
    "loss": "the name of a Keras loss, a keras.losses.Loss, or a function (labels, outputs)",
    "input_shape": "sizes without the batch, as (224, 224, 3)",
    "vocabulary_size": "a whole number, 1 or more: inputs are the whole numbers below it",
    "num_classes": "a whole number, 2 or more: labels are the whole numbers below it",
    "item": "a word of small letters, as images or tokens",
    "items_per_example": "a whole number, 1 or more",
}


def template_of(own: OwnModel, returned: Any, batch_size: int) -> Template:
    """Raises UnsupportedTrialError, and what Keras raises for a model that cannot be called."""
    said = _Said.of(own, returned)
    shape, dtype = _input(said, batch_size)
    num_symbols = _num_symbols(said, shape, dtype)
    if num_symbols and tf.as_dtype(dtype).is_floating:
        dtype = WHOLE_NUMBERS.name
    outputs = _outputs(said, shape, dtype, batch_size)
    _check_variables(said)
    chosen = said.values.get("loss")
    if chosen is None and said.model.compiled:
        chosen = said.model.loss
    loss, takes_classes = _loss(said, chosen)
    example = Example(
        input_shape=shape,
        input_dtype=dtype,
        num_symbols=num_symbols,
        **_labels(said, outputs, takes_classes=takes_classes),
    )
    _check_loss(said, loss, example, outputs, batch_size)
    item = said.values.get("item") or _item(example)
    try:
        check_item(item)
    except ValueError as error:
        raise said.refused(str(error)) from None
    usual = math.prod(shape) if item == TOKENS else 1
    num_items = said.values.get("items_per_example", usual)
    if num_items != 1 and item in BY_EXAMPLE:
        raise said.refused(
            f"'items_per_example' is {num_items}, and an example is one of the {item}; name what "
            f'is counted, as {{"model": model, "items_per_example": {num_items}, "item": "frames"}}'
        )
    return Template(
        model=said.model, example=example, loss=loss, item=item, items_per_example=num_items
    )


def described(value: object) -> str:
    """Return what a value is, for messages: small ones themselves, of others the type."""
    kind = type(value)
    if isinstance(value, type):
        return f"the class {value.__qualname__}"
    if kind.__module__ == "builtins":
        return reprlib.repr(value)
    return f"an object of the type {kind.__module__.partition('.')[0]}.{kind.__qualname__}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    """What the function returned, by the keys of the dictionary."""

    reference: str
    function: str
    model: keras.Model
    values: Mapping[str, Any]

    @classmethod
    def of(cls, own: OwnModel, returned: Any) -> _Said:
        values = returned if isinstance(returned, Mapping) else {"model": returned}
        found = cls(
            reference=own.reference, function=own.function, model=values.get("model"), values=values
        )
        for key in values:
            if key not in _KEYS:
                near = difflib.get_close_matches(str(key), _KEYS, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"wanted {', '.join(_KEYS)}"
                raise found.refused(f"{own.function}() returns a key {key!r}; {hint}")
        if not isinstance(found.model, keras.Model):
            what = described(returned)
            if isinstance(returned, Mapping):
                what = f"a dictionary whose 'model' is {described(found.model)}"
            raise found.refused(
                f"{own.function}() returns {what}; wanted a keras.Model, or a dictionary "
                '{"model": keras.Model, ...}'
            )
        found.check_values()
        return found

    def check_values(self) -> None:
        least = {"vocabulary_size": 1, "num_classes": 2, "items_per_example": 1}
        for key, value in self.values.items():
            is_right = True
            if key in least:
                is_right = _is_whole(value, least[key])
            elif key == "input_shape":
                is_right = isinstance(value, Sequence) and all(_is_whole(one, 1) for one in value)
            elif key == "item":
                is_right = isinstance(value, str)
            if not is_right:
                raise self.refused(f"{key!r} is {value!r}; wanted {_KEYS[key]}")

    def refused(self, why: str) -> UnsupportedTrialError:
        return UnsupportedTrialError(f"model={self.reference}: {why}")

    def example_of(self, key: str, value: str) -> str:
        return f'return {{"model": model, "{key}": {value}}}'


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _input(said: _Said, batch_size: int) -> tuple[tuple[int, ...], str]:
    """Return shape, without the batch, and type of the one input."""
    given = said.values.get("input_shape")
    inputs = _inputs(said.model)
    if len(inputs) > 1:
        names = ", ".join(each.name for each in inputs)
        raise said.refused(f"the model has {len(inputs)} inputs, {names}; wanted one")
    if not inputs:
        if given is None:
            raise said.refused(
                "the model has no shape of input yet; "
                + said.example_of("input_shape", "(32, 32, 3)")
            )
        dtype = WHOLE_NUMBERS.name if "vocabulary_size" in said.values else "float32"
        return tuple(given), dtype
    batch, *sizes = inputs[0].shape
    if batch not in (None, batch_size):
        raise said.refused(
            f"the model takes batches of {batch} alone; wanted keras.Input without batch_size, or "
            f"batch_size={batch}"
        )
    shape = tuple(sizes)
    if given is not None:
        fits = len(given) == len(shape)
        for asked, own in zip(given, shape, strict=False):
            fits = fits and own in (None, asked)
        if not fits:
            raise said.refused(
                f"'input_shape' is {tuple(given)}, and the model takes {_shown(shape)}"
            )
        shape = tuple(given)
    if None in shape:
        sizes = [str(size or 128) for size in shape]
        example = said.example_of("input_shape", f"({', '.join(sizes)}{',' * (len(sizes) == 1)})")
        raise said.refused(f"the model takes inputs {_shown(shape)} of any size; {example}")
    return shape, str(inputs[0].dtype)


def _num_symbols(said: _Said, shape: tuple[int, ...], dtype: str) -> int:
    """Return the number of symbols of whole inputs: as stated, or of the embedding they meet."""
    kind = tf.as_dtype(dtype)
    if not kind.is_floating and not kind.is_integer:
        raise said.refused(f"the model takes {dtype}; wanted real or whole numbers")
    if "vocabulary_size" in said.values:
        return int(said.values["vocabulary_size"])
    for layer in said.model.layers:
        if isinstance(layer, keras.layers.Embedding) and _meets_input(said.model, layer):
            return int(layer.input_dim)
    if kind.is_integer:
        raise said.refused(
            f"the model takes whole numbers, {_shown(shape)} {dtype}, and does not say how many "
            f"there are; {said.example_of('vocabulary_size', '32000')}"
        )
    return 0


def _meets_input(model: keras.Model, layer: keras.Layer) -> bool:
    """Return whether a layer takes the input of the model as it is."""
    try:
        taken = layer.input
    except AttributeError:  # it was called more than once, or never
        return False
    return any(taken is each for each in _inputs(model))


def _inputs(model: keras.Model) -> list[keras.KerasTensor]:
    """Return the inputs of a model; one that was never called may have none."""
    try:
        return list(model.inputs or [])
    except AttributeError:
        return []


def _outputs(said: _Said, shape: tuple[int, ...], dtype: str, batch_size: int) -> tuple[int, ...]:
    """Return the shape of the outputs, without the batch; a model without variables gets them."""
    outputs = said.model(keras.Input(shape, batch_size=batch_size, dtype=dtype))
    if not isinstance(outputs, keras.KerasTensor):
        num = f"{len(outputs)} outputs" if isinstance(outputs, Sized) else described(outputs)
        raise said.refused(f"the model returns {num}; wanted one tensor")
    if not tf.as_dtype(outputs.dtype).is_floating:
        raise said.refused(f"the model returns {outputs.dtype}; wanted real numbers")
    if not outputs.shape or outputs.shape[0] != batch_size or None in outputs.shape:
        raise said.refused(
            f"the model makes {tuple(outputs.shape)} of a batch of {batch_size}; wanted known "
            "sizes, and one row for each example"
        )
    return tuple(outputs.shape[1:])


def _check_variables(said: _Said) -> None:
    if not said.model.trainable_variables:
        raise said.refused("the model has no trainable variables; there is nothing to train")
    for variable in said.model.trainable_variables:
        if variable.dtype != "float32":
            raise said.refused(
                f"the variable {variable.path} is {variable.dtype}; wanted float32 (choose "
                "precision= for another type of computation)"
            )


def _loss(said: _Said, chosen: Any) -> tuple[Loss, bool]:
    """Return the loss, and whether its labels are classes."""
    if chosen is None:
        chosen = keras.losses.SparseCategoricalCrossentropy(
            from_logits=not _ends_in_softmax(said.model)
        )
    takes_classes = (
        "num_classes" in said.values
        or isinstance(chosen, keras.losses.SparseCategoricalCrossentropy)
        or chosen in (_SPARSE, "SparseCategoricalCrossentropy")
        or chosen is keras.losses.sparse_categorical_crossentropy
    )
    if isinstance(chosen, str):
        try:
            chosen = keras.losses.get(chosen)
        except ValueError:
            near = difflib.get_close_matches(chosen, dir(keras.losses), n=1)
            hint = f"did you mean {near[0]}?" if near else f"wanted {_KEYS['loss']}"
            raise said.refused(f"Keras has no loss {chosen!r}; {hint}") from None
    if not callable(chosen):
        raise said.refused(f"the loss is {described(chosen)}; wanted {_KEYS['loss']}")
    if getattr(chosen, "reduction", None) == "sum":
        raise said.refused(
            "the loss is summed over the batch (reduction='sum'); wanted the mean, because the "
            "gradients of the replicas are averaged"
        )
    return _mean_of(chosen), takes_classes


def _mean_of(loss: Callable[[Any, Any], Any]) -> Loss:
    if isinstance(loss, keras.losses.Loss):
        # Called itself it would divide by the replicas of tf.distribute, as we do for all modes.
        loss = loss.call

    def mean(labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        # a copy, which has no mask: the means of the replicas would weigh their masks differently
        found = loss(labels, tf.cast(tf.identity(outputs), tf.float32))
        return tf.reduce_mean(tf.cast(found, tf.float32))

    return mean


def _ends_in_softmax(model: keras.Model) -> bool:
    last = model.layers[-1] if model.layers else None
    while isinstance(last, keras.layers.TimeDistributed):
        last = last.layer
    if isinstance(last, keras.layers.Softmax):
        return True
    return getattr(last, "activation", None) is keras.activations.softmax


def _labels(said: _Said, outputs: tuple[int, ...], *, takes_classes: bool) -> dict[str, Any]:
    """Return the fields of an Example that are about labels."""
    if not takes_classes:
        return {"label_shape": outputs, "num_classes": 0}
    by_class = "num_classes" not in said.values
    if not outputs or (by_class and outputs[-1] < 2):
        raise said.refused(
            f"the model returns {_shown(outputs)}, which fits no classes; name the loss, as "
            + said.example_of("loss", '"binary_crossentropy"')
        )
    num_classes = int(said.values.get("num_classes", outputs[-1]))
    if 1 < outputs[-1] < num_classes:
        raise said.refused(
            f"'num_classes' is {num_classes}, and the model returns {_shown(outputs)}; wanted "
            f"{outputs[-1]} or less"
        )
    return {"label_shape": outputs[:-1], "num_classes": num_classes}


def _check_loss(
    said: _Said, loss: Loss, example: Example, outputs: tuple[int, ...], batch_size: int
) -> None:
    """Try the loss on the shapes that it will get."""
    labels_type = WHOLE_NUMBERS if example.num_classes else tf.float32
    labels = tf.TensorSpec((batch_size, *example.label_shape), labels_type)
    try:
        tf.function(loss, autograph=False).get_concrete_function(
            labels, tf.TensorSpec((batch_size, *outputs), tf.float32)
        )
    except Exception as error:  # whatever the user's function raises
        raise said.refused(
            f"the loss does not take labels {_shown(example.label_shape)} {labels_type.name} and "
            f"outputs {_shown(outputs)} float32: {type(error).__name__}: {telling_line(str(error))}"
        ) from error


def _item(example: Example) -> str:
    if len(example.input_shape) == 3:
        return IMAGES
    return TOKENS if example.num_symbols else SAMPLES


def _shown(shape: Sequence[int | None]) -> str:
    """Return a shape with its batch, as `(B, 32, 32, 3)`."""
    sizes = ["any" if size is None else str(size) for size in shape]
    return f"({', '.join(['B', *sizes])})"


def load(spec: TrialSpec) -> Template:
    """Return the model that the trial names, built under the seed and precision that are set.

    Raises UnsupportedTrialError, saying what was found and what was wanted.
    """
    own = _planned(spec)
    policy = keras.mixed_precision.dtype_policy().name
    with _importing_from(own.import_folder):
        function = _function(own)
        returned = _attempt(own, f"{own.function}()", function)
        template = _attempt(
            own, "reading its model", lambda: template_of(own, returned, spec.batch_size)
        )
    if keras.mixed_precision.dtype_policy().name != policy:
        raise UnsupportedTrialError(
            f"model={own.reference}: {own.path.name} changes Keras' global dtype policy; leave "
            f"that out, precision={spec.precision} sets it"
        )
    return template


def _planned(spec: TrialSpec) -> OwnModel:
    """Return what the reference names, as long as it is what was planned."""
    folder = own_model.folder_of(os.environ)
    try:
        own = own_model.find(spec.model, folder)
    except ModelError as error:
        raise UnsupportedTrialError(f"{error} (looked for it from {folder})") from None
    if own.digest != spec.model_digest:
        raise UnsupportedTrialError(
            f"model={spec.model}: {own.path.name} is not the file that was planned: its digest is "
            f"{own.digest}, the trial says {spec.model_digest or 'none'}; run the sweep again for "
            "the file as it is now"
        )
    return own


def _function(own: OwnModel) -> Callable[[], Any]:
    module = _attempt(own, f"importing {own.path.name}", lambda: _import(own))
    if not hasattr(module, own.function):
        raise UnsupportedTrialError(
            f"model={own.reference}: {own.path.name} does not define {own.function} when it is run"
        )
    function = getattr(module, own.function)
    if isinstance(function, keras.Model) or not callable(function):
        raise UnsupportedTrialError(
            f"model={own.reference}: {own.function} is {described(function)}; wanted a function "
            "that returns a Keras model"
        )
    return function


def _import(own: OwnModel) -> ModuleType:
    """Run the file. A file named by its path gets a name that is nobody else's."""
    if not own.reference.rpartition(":")[0].endswith(".py"):
        module = import_module(own.module)
        if Path(str(module.__file__)).resolve() != own.path.resolve():
            raise ImportError(f"{own.module} is {module.__file__} here, wanted {own.path}")
        return module
    name = f"own_model_{own.module}"
    found = importlib.util.spec_from_file_location(name, own.path)
    assert found is not None  # its name ends with .py
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module  # where dataclasses look for the types of their fields
    found.loader.exec_module(module)
    return module


def _attempt(own: OwnModel, what: str, work: Callable[[], Any]) -> Any:
    """Do what runs the user's code; say in one sentence what it raised, and in the log all."""
    try:
        return work()
    except (UnsupportedTrialError, MemoryError, tf.errors.ResourceExhaustedError):
        raise
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        line = telling_line(str(error))
        said = f"{type(error).__name__}: {line}" if line else type(error).__name__
        raise UnsupportedTrialError(
            f"model={own.reference}: {what} raised {said}{_where(own, error)}"
        ) from error


def _where(own: OwnModel, error: BaseException) -> str:
    """Return the last line of the file that the error passed, if any."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(own.path)]
    if isinstance(error, SyntaxError) or not lines:
        return ""
    return f" ({own.path.name}, line {lines[-1]})"


@contextmanager
def _importing_from(folder: Path) -> Iterator[None]:
    """Let the file import what lies beside it, as when Python runs it."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
