"""Loads a Keras model of the user's own, `model=my_model.py:build`; refuses what cannot be trained.

```
  find and compare the file ─► import it ─► call the function ─► read what it returns ─► template
```
"""

import importlib.util
import math
import os
import reprlib
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

import keras
import tensorflow as tf

from scalemark import own_model
from scalemark.models import ModelError
from scalemark.records.measurement import BY_EXAMPLE, IMAGES, TOKENS, check_item
from scalemark.records.trial import TrialSpec
from scalemark.text.untrusted import telling_line
from trainer import UnsupportedTrialError
from trainer.keras_model import WHOLE_NUMBERS, Example, Loss, Template

SAMPLES = "samples"
_KEYS: Mapping[str, str] = {
    "model": "a Keras model",
    "loss": "the name of a Keras loss, a keras.losses.Loss, or a function (labels, outputs)",
    "input_shape": "sizes without the batch, as (224, 224, 3)",
    "vocabulary_size": "a whole number, 1 or more: inputs are the whole numbers below it",
    "num_classes": "a whole number, 2 or more: labels are the whole numbers below it",
    "item": "a word of small letters, as images or tokens",
    "items_per_example": "a whole number, 1 or more",
}
_LEAST = {"vocabulary_size": 1, "num_classes": 2, "items_per_example": 1}


def load(spec: TrialSpec) -> Template:
    """Return the model that the trial names, built under the seed and precision that are set.

    Raises UnsupportedTrialError, saying what was found and what was wanted.
    """
    own = _planned(spec)
    policy = keras.mixed_precision.dtype_policy().name
    folder = str(own.path.parent)
    sys.path.insert(0, folder)  # it may import what lies beside it, as when Python runs it
    try:
        function = _function(own)
        values = _attempt(own, f"{own.function}()", function)
        template = _attempt(
            own, "reading its model", lambda: template_of(own, values, spec.batch_size)
        )
    finally:
        sys.path.remove(folder)
    if keras.mixed_precision.dtype_policy().name != policy:
        raise UnsupportedTrialError(
            f"model={own.reference}: {own.path.name} changes Keras' global dtype policy; leave "
            f"that out, precision={spec.precision} sets it"
        )
    return template


def _planned(spec: TrialSpec) -> own_model.OwnModel:
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


def _function(own: own_model.OwnModel) -> Callable[[], Any]:
    module = _attempt(own, f"importing {own.path.name}", lambda: _import(own))
    function = getattr(module, own.function, None)
    if isinstance(function, keras.Model) or not callable(function):
        raise UnsupportedTrialError(
            f"model={own.reference}: {own.function} is {reprlib.repr(function)} when the file is "
            "run; wanted a function that returns a Keras model"
        )
    return function


class _AsItIs(SourceFileLoader):
    """Keeps no bytecode, which Python would take for that of an edit within the same second."""

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = self.source_to_code(self.get_data(self.path), self.path)
        return code


def _import(own: own_model.OwnModel) -> ModuleType:
    """Run the file as a module of a name that is nobody else's."""
    name = f"own_model_{own.path.stem}"
    loader = _AsItIs(name, str(own.path))
    spec = importlib.util.spec_from_file_location(name, own.path, loader=loader)
    assert spec is not None  # its name ends with .py
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look for the types of their fields
    spec.loader.exec_module(module)
    return module


def _attempt(own: own_model.OwnModel, what: str, work: Callable[[], Any]) -> Any:
    """Do what runs the user's code; say in one sentence what it raised, and in the log all."""
    try:
        return work()
    except (UnsupportedTrialError, MemoryError, tf.errors.ResourceExhaustedError):
        raise
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        line = telling_line(str(error))
        raised = f"{type(error).__name__}: {line}" if line else type(error).__name__
        raise UnsupportedTrialError(
            f"model={own.reference}: {what} raised {raised}{_where(own, error)}"
        ) from error


def _where(own: own_model.OwnModel, error: BaseException) -> str:
    """Return the last line of the file that the error passed, if any."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(own.path)]
    if isinstance(error, SyntaxError) or not lines:
        return ""
    return f" ({own.path.name}, line {lines[-1]})"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Returned:
    """What the function returned, by the keys of the dictionary."""

    reference: str
    model: keras.Model
    values: Mapping[str, Any]

    def refused(self, why: str) -> UnsupportedTrialError:
        return UnsupportedTrialError(f"model={self.reference}: {why}")


def template_of(own: own_model.OwnModel, values: Any, batch_size: int) -> Template:
    """Raises UnsupportedTrialError, and what Keras raises for a model that cannot be called."""
    returned = _checked(own, values)
    shape, dtype = _input(returned, batch_size)
    num_symbols = _num_symbols(returned, shape, dtype)
    if num_symbols and tf.as_dtype(dtype).is_floating:
        dtype = WHOLE_NUMBERS.name
    outputs = _outputs(returned, shape, dtype, batch_size)
    _check_variables(returned)
    loss, takes_classes = _loss(returned)
    example = Example(
        input_shape=shape,
        input_dtype=dtype,
        num_symbols=num_symbols,
        **_labels(returned, outputs, takes_classes=takes_classes),
    )
    _check_loss(returned, loss, example, outputs, batch_size)
    item, num_items = _items(returned, example)
    return Template(
        model=returned.model, example=example, loss=loss, item=item, items_per_example=num_items
    )


def _checked(own: own_model.OwnModel, values: Any) -> _Returned:
    """Raise UnsupportedTrialError for what is no model, and for values of the wrong type."""
    by_key = values if isinstance(values, Mapping) else {"model": values}
    model = by_key.get("model")
    returned = _Returned(reference=own.reference, model=model, values=by_key)
    for key, value in by_key.items():
        if key not in _KEYS:
            raise returned.refused(
                f"{own.function}() returns a key {key!r}; wanted {', '.join(_KEYS)}"
            )
        is_right = True
        if key in _LEAST:
            is_right = _is_whole(value, _LEAST[key])
        elif key == "input_shape":
            is_right = isinstance(value, Sequence) and all(_is_whole(size, 1) for size in value)
        elif key == "item":
            is_right = isinstance(value, str)
        if not is_right:
            raise returned.refused(f"{key!r} is {value!r}; wanted {_KEYS[key]}")
    if not isinstance(model, keras.Model):
        raise returned.refused(
            f"{own.function}() returns {reprlib.repr(values)}; wanted a keras.Model, or a "
            'dictionary {"model": keras.Model, ...}'
        )
    return returned


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _input(returned: _Returned, batch_size: int) -> tuple[tuple[int, ...], str]:
    """Return shape, without the batch, and type of the one input."""
    given = returned.values.get("input_shape")
    inputs = _inputs(returned.model)
    if len(inputs) > 1:
        names = ", ".join(each.name for each in inputs)
        raise returned.refused(f"the model has {len(inputs)} inputs, {names}; wanted one")
    if inputs and inputs[0].shape[0] not in (None, batch_size):
        raise returned.refused(
            f"the model takes batches of {inputs[0].shape[0]} alone; wanted keras.Input without "
            "batch_size"
        )
    if given is None:
        sizes = inputs[0].shape[1:] if inputs else (None,)
        if None in sizes:
            raise returned.refused(
                f"the model takes inputs {_shown(sizes)} of any size; "
                'return {"model": model, "input_shape": (32, 32, 3)}, with its sizes'
            )
        given = sizes
    if inputs:
        return tuple(given), str(inputs[0].dtype)
    return tuple(given), WHOLE_NUMBERS.name if "vocabulary_size" in returned.values else "float32"


def _num_symbols(returned: _Returned, shape: tuple[int, ...], dtype: str) -> int:
    """Return the number of symbols of whole inputs: as stated, or of the embedding they meet."""
    kind = tf.as_dtype(dtype)
    if not kind.is_floating and not kind.is_integer:
        raise returned.refused(f"the model takes {dtype}; wanted real or whole numbers")
    if "vocabulary_size" in returned.values:
        return int(returned.values["vocabulary_size"])
    for layer in returned.model.layers:
        if isinstance(layer, keras.layers.Embedding) and _meets_input(returned.model, layer):
            return int(layer.input_dim)
    if kind.is_integer:
        raise returned.refused(
            f"the model takes whole numbers, {_shown(shape)} {dtype}, and does not say how many "
            'there are; return {"model": model, "vocabulary_size": 32000}'
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


def _outputs(
    returned: _Returned, shape: tuple[int, ...], dtype: str, batch_size: int
) -> tuple[int, ...]:
    """Return the shape of the outputs, without the batch; a model without variables gets them."""
    outputs = returned.model(keras.Input(shape, batch_size=batch_size, dtype=dtype))
    is_one = isinstance(outputs, keras.KerasTensor) and tf.as_dtype(outputs.dtype).is_floating
    if not is_one or None in outputs.shape or outputs.shape[:1] != (batch_size,):
        raise returned.refused(
            f"the model makes {outputs} of a batch of {batch_size}; wanted one tensor of real "
            "numbers, with a row for each example"
        )
    return tuple(outputs.shape[1:])


def _check_variables(returned: _Returned) -> None:
    if not returned.model.trainable_variables:
        raise returned.refused("the model has no trainable variables; there is nothing to train")
    for variable in returned.model.trainable_variables:
        if variable.dtype != "float32":
            raise returned.refused(
                f"the variable {variable.path} is {variable.dtype}; wanted float32 (choose "
                "precision= for another type of computation)"
            )


def _loss(returned: _Returned) -> tuple[Loss, bool]:
    """Return the loss, and whether its labels are classes."""
    chosen = returned.values.get("loss")
    if chosen is None and returned.model.compiled:
        chosen = returned.model.loss
    if chosen is None:
        chosen = keras.losses.SparseCategoricalCrossentropy(
            from_logits=not _ends_in_softmax(returned.model)
        )
    if isinstance(chosen, str):
        try:
            chosen = keras.losses.get(chosen)
        except ValueError:
            raise returned.refused(
                f"Keras has no loss {chosen!r}; wanted {_KEYS['loss']}"
            ) from None
    if not callable(chosen):
        raise returned.refused(f"the loss is {chosen!r}; wanted {_KEYS['loss']}")
    if getattr(chosen, "reduction", None) == "sum":
        raise returned.refused(
            "the loss is summed over the batch (reduction='sum'); wanted the mean, because the "
            "gradients of the replicas are averaged"
        )
    is_sparse = isinstance(chosen, keras.losses.SparseCategoricalCrossentropy)
    is_sparse = is_sparse or chosen is keras.losses.sparse_categorical_crossentropy
    return _mean_of(chosen), is_sparse or "num_classes" in returned.values


def _mean_of(loss: Callable[[Any, Any], Any]) -> Loss:
    if isinstance(loss, keras.losses.Loss):
        # Called itself it would divide by the replicas of tf.distribute, as we do for all modes.
        loss = loss.call

    def mean(labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        # a copy, which has no mask: the means of the replicas would weigh their masks differently
        losses = loss(labels, tf.cast(tf.identity(outputs), tf.float32))
        return tf.reduce_mean(tf.cast(losses, tf.float32))

    return mean


def _ends_in_softmax(model: keras.Model) -> bool:
    last = model.layers[-1] if model.layers else None
    while isinstance(last, keras.layers.TimeDistributed):
        last = last.layer
    if isinstance(last, keras.layers.Softmax):
        return True
    return getattr(last, "activation", None) is keras.activations.softmax


def _labels(
    returned: _Returned, outputs: tuple[int, ...], *, takes_classes: bool
) -> dict[str, Any]:
    """Return the fields of an Example that are about labels."""
    if not takes_classes:
        return {"label_shape": outputs, "num_classes": 0}
    stated = returned.values.get("num_classes")
    if not outputs or (stated is None and outputs[-1] < 2):
        raise returned.refused(
            f"the model returns {_shown(outputs)}, which fits no classes; name the loss, as "
            'return {"model": model, "loss": "binary_crossentropy"}'
        )
    num_classes = int(outputs[-1] if stated is None else stated)
    if 1 < outputs[-1] < num_classes:
        raise returned.refused(
            f"'num_classes' is {num_classes}, and the model returns {_shown(outputs)}; wanted "
            f"{outputs[-1]} or less"
        )
    return {"label_shape": outputs[:-1], "num_classes": num_classes}


def _check_loss(
    returned: _Returned, loss: Loss, example: Example, outputs: tuple[int, ...], batch_size: int
) -> None:
    """Try the loss on the shapes that it will get."""
    labels_type = WHOLE_NUMBERS if example.num_classes else tf.float32
    labels = tf.TensorSpec((batch_size, *example.label_shape), labels_type)
    try:
        tf.function(loss, autograph=False).get_concrete_function(
            labels, tf.TensorSpec((batch_size, *outputs), tf.float32)
        )
    except Exception as error:  # whatever the user's function raises
        raise returned.refused(
            f"the loss does not take labels {_shown(example.label_shape)} {labels_type.name} and "
            f"outputs {_shown(outputs)} float32: {type(error).__name__}: {telling_line(str(error))}"
        ) from error


def _items(returned: _Returned, example: Example) -> tuple[str, int]:
    """Return what throughput counts, and how many of them an example has."""
    usual = TOKENS if example.num_symbols else SAMPLES
    if len(example.input_shape) == 3:
        usual = IMAGES
    item = returned.values.get("item") or usual
    try:
        check_item(item)
    except ValueError as error:
        raise returned.refused(str(error)) from None
    each = math.prod(example.input_shape) if item == TOKENS else 1
    num_items = returned.values.get("items_per_example", each)
    if num_items != 1 and item in BY_EXAMPLE:
        raise returned.refused(
            f"'items_per_example' is {num_items}, and an example is one of the {item}; name what "
            'is counted, as "item": "frames"'
        )
    return item, num_items


def _shown(shape: Sequence[int | None]) -> str:
    """Return a shape with its batch, as `(B, 32, 32, 3)`."""
    sizes = ["any" if size is None else str(size) for size in shape]
    return f"({', '.join(['B', *sizes])})"
