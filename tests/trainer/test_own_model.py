"""A model of the user's own trains in every mode as ours do, and what cannot is refused by its name."""

from dataclasses import replace
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from scalemark.own_model import find
from scalemark.records.measurement import Outcome
from tests.own_models import CONVOLUTIONAL, DENSE, REGRESSION, TOKENS, written
from tests.specs import small
from tests.tiers import every_other
from tests.trainer.test_main import fork, run  # noqa: F401 - fixtures
from tests.trainer.test_towers import INDEPENDENT, MODES
from trainer import UnsupportedTrialError, own_model
from trainer.data.synthetic import Synthetic
from trainer.devices import Devices
from trainer.keras_model import Example
from trainer.run import build, open_training
from trainer.watching import op_placement

MODELS = {
    "dense": DENSE,
    "convolutional": CONVOLUTIONAL,
    "tokens": TOKENS,
    "regression": REGRESSION,
}
SMOKE = [(model, "replicated_none") for model in MODELS]
SMOKE += [("tokens", mode) for mode in ("ps_cpu", "ps_gpu", "mirrored_none")]
EXACT = 1e-6  # weights after three steps, fp32
FRESH = {"learning_rate": 0.1, "image_px": 0, "num_classes": 0}


def own(text: str, **changes: object):
    """Return the trial of this file."""
    reference = written(text)
    digest = find(reference, Path.cwd()).digest
    return small(model=reference, model_digest=digest, **FRESH | changes)


def refusal(text: str) -> str:
    keras.utils.clear_session(free_memory=False)  # names of layers count from 1 again
    with pytest.raises(UnsupportedTrialError) as refused:
        own_model.load(own(text))
    return str(refused.value).replace(str(Path.cwd()), "FOLDER")


def whole_batch(example: Example, size: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(7)
    if example.num_symbols:
        inputs = random.integers(0, example.num_symbols, (size, *example.input_shape))
    else:
        inputs = random.normal(size=(size, *example.input_shape))
    labels = random.random((size, *example.label_shape)).astype("float32")
    if example.num_classes:
        labels = random.integers(0, example.num_classes, (size, *example.label_shape))
        labels = labels.astype("int32")
    return inputs.astype(example.input_dtype), labels


def trained(spec, devices, steps: int = 3):
    """Train on batches that are equal for any number of replicas."""
    with op_placement.recorded() as placement:
        training = build(spec, devices)
        inputs, labels = whole_batch(training.template.example, 12)
        each = 12 // spec.num_gpus
        batches = []
        for replica, device in enumerate(devices.replicas):
            part = slice(replica * each, (replica + 1) * each)
            with tf.device(device):
                batches.append((tf.constant(inputs[part]), tf.constant(labels[part])))
        for _ in range(steps):
            training.towers.step(batches)
    return training, placement


def difference(one, other) -> float:
    return max(float(np.abs(a - b).max()) for a, b in zip(one, other, strict=True))


@pytest.fixture(scope="module")
def check_exact(all_devices):
    """check_exact(text, **changes): two replicas train this model as one device does."""
    known = {}

    def first(num_replicas: int) -> Devices:
        return replace(all_devices, replicas=all_devices.replicas[:num_replicas])

    def check(text: str, num_replicas: int = 2, **changes: object) -> None:
        if text not in known:
            alone, _ = trained(own(text, batch_size=12), first(1))
            start = build(own(text, batch_size=12), first(1)).update.weights(0)
            known[text] = alone.update.weights(0)
            assert difference(known[text], start) > 1e-3
        spec = own(text, num_gpus=num_replicas, batch_size=12 // num_replicas, **changes)
        together, placement = trained(spec, first(num_replicas))
        assert placement.problem(together.wanted(spec)) is None
        for replica in range(num_replicas):
            assert difference(together.update.weights(replica), known[text]) < EXACT

    return check


@pytest.mark.parametrize(("model", "mode"), SMOKE)
def test_replicas_reach_the_weights_of_one_device(check_exact, model, mode):
    check_exact(MODELS[model], **MODES[mode])


@pytest.mark.integration
@pytest.mark.parametrize(("model", "mode"), every_other(tuple(MODELS), tuple(MODES)))
def test_every_other_mode_is_as_exact(check_exact, model, mode):
    check_exact(MODELS[model], **MODES[mode])


@pytest.mark.parametrize(
    "changes",
    [
        {"all_reduce": "pscpu", "gradient_repacking": 2},
        {"steps_per_execution": 3, "all_reduce": "pscpu"},
        {"xla": "on"},
    ],
    ids=str,
)
def test_packs_and_calls_and_xla_are_exact_on_tokens(make_devices, changes):
    """Three calls of three steps are nine, so both sides take as many in a call."""
    steps = {"steps_per_execution": changes.get("steps_per_execution", 1)}
    alone, _ = trained(own(TOKENS, batch_size=12, **steps), make_devices(1))
    together, _ = trained(own(TOKENS, num_gpus=2, batch_size=6, **changes), make_devices(2))
    assert difference(together.update.weights(1), alone.update.weights(0)) < EXACT


def test_three_replicas_are_exact(check_exact):
    check_exact(TOKENS, num_replicas=3, all_reduce="pscpu")


def test_independent_replicas_drift_apart(make_devices):
    training, _ = trained(own(DENSE, num_gpus=2, batch_size=6, **INDEPENDENT), make_devices(2))
    assert difference(training.update.weights(0), training.update.weights(1)) > 1e-6


@pytest.mark.parametrize(
    ("model", "example", "item", "items_per_example"),
    [
        ("dense", Example(input_shape=(6,), num_classes=4), "samples", 1),
        ("convolutional", Example(input_shape=(8, 8, 3), num_classes=5), "images", 1),
        (
            "tokens",
            Example(
                input_shape=(7,),
                input_dtype="int32",
                num_symbols=11,
                label_shape=(7,),
                num_classes=11,
            ),
            "tokens",
            7,
        ),
        ("regression", Example(input_shape=(3, 2), label_shape=(3, 2)), "samples", 1),
    ],
)
def test_input_and_item_follow_from_the_model(model, example, item, items_per_example):
    template = own_model.load(own(MODELS[model]))
    assert (template.example, template.item) == (example, item)
    assert template.items_per_example == items_per_example


def test_synthetic_batches_have_the_shapes_and_symbols_of_the_model(make_devices):
    spec = own(TOKENS, num_gpus=2)
    _, data = open_training(spec, make_devices(2))
    for tokens, labels in data.next():
        assert (tokens.shape, tokens.dtype, labels.shape) == ((2, 7), tf.int32, (2, 7))
    many = Synthetic(
        small(batch_size=1000), make_devices(1), Example(input_shape=(3,), num_symbols=4)
    )
    assert set(np.unique(many.next()[0][0])) == {0, 1, 2, 3}


def test_the_loss_is_that_of_the_model(make_devices):
    """Untrained logits are near 0, so that their cross entropy is near the logarithm of the classes."""
    text = DENSE.replace("Dense(4)", "Dense(4, kernel_initializer='zeros')")
    training, data = open_training(own(text), make_devices(1))
    assert float(training.towers.step(data.next())) == pytest.approx(np.log(4), rel=1e-5)


@pytest.mark.parametrize(
    "loss",
    [
        "'binary_crossentropy'",
        "'mse'",
        "'categorical_crossentropy'",
        "keras.losses.Huber()",
        "keras.losses.MeanAbsoluteError(reduction=None)",
        "lambda labels, outputs: keras.ops.mean((labels - outputs) ** 4)",
    ],
)
def test_another_loss_takes_numbers_of_the_shape_of_the_outputs(make_devices, loss):
    text = DENSE.replace("return ", "return {'loss': " + loss + ", 'model': ").rstrip() + "}\n"
    training, data = open_training(own(text, num_gpus=2), make_devices(2))
    assert training.template.example == Example(input_shape=(6,), label_shape=(4,))
    losses = [float(training.towers.step(data.next())) for _ in range(20)]
    assert losses[-1] < losses[0]


def test_the_loss_of_a_compiled_model_is_taken(make_devices):
    text = (
        DENSE.replace("return ", "model = ") + "    model.compile('sgd', 'mae')\n    return model\n"
    )
    assert own_model.load(own(text)).example == Example(input_shape=(6,), label_shape=(4,))


def test_classes_may_be_stated_for_a_loss_of_ones_own():
    text = TOKENS.replace('"vocabulary_size": 11', '"num_classes": 3, "loss": loss')
    text += "\n\ndef loss(labels, outputs):\n    return keras.losses.sparse_categorical_crossentropy(labels, outputs)\n"
    example = own_model.load(own(text)).example
    assert (example.num_classes, example.label_shape) == (3, (7,))


def test_an_embedding_says_how_many_symbols_there_are():
    text = TOKENS.replace("build", "_").replace("def model", "def build")
    text = text.replace(', dtype="int32"', "")  # as many users write it
    example = own_model.load(own(text.replace("Dense(11)", "Dense(5)"))).example
    assert (example.num_symbols, example.input_dtype, example.num_classes) == (11, "int64", 5)


def test_regularization_counts_in_the_loss(make_devices):
    def loss(text: str) -> float:
        training, data = open_training(own(text), make_devices(1))
        return float(training.towers.step(data.next()))

    without = CONVOLUTIONAL.replace("L2(0.1)", "L2(0.0)")
    assert loss(CONVOLUTIONAL) > loss(without) + 0.01


def test_dropout_anywhere_in_the_model_differs_between_replicas(make_devices):
    inner = "keras.Sequential([keras.layers.Dropout(0.5), keras.layers.GaussianNoise(0.1)])"
    text = DENSE.replace("keras.layers.Dense(4)", f"{inner}, keras.layers.Dense(4)")
    training, _ = trained(own(text, num_gpus=2, batch_size=6), make_devices(2))
    seeds = [training.towers.state(replica) for replica in range(2)]
    assert len(seeds[0]) == 2
    assert all((one != other).any() for one, other in zip(*seeds, strict=True))


def test_a_variable_without_gradient_stays_as_it_is(check_exact):
    text = DENSE.replace(
        "def build",
        "class Wide(keras.layers.Dense):\n    def build(self, shape):\n        super().build(shape)\n        self.idle = self.add_weight(shape=(2,))\n\n\ndef build",
    ).replace("keras.layers.Dense(4)", "Wide(4)")
    check_exact(text)


def test_it_may_import_what_lies_beside_it():
    Path("beside").mkdir()
    Path("beside/widths_of_mine.py").write_text("WIDTH = 9\n")
    text = DENSE.replace("import keras", "import keras\nfrom widths_of_mine import WIDTH").replace(
        "Dense(4)", "Dense(WIDTH)"
    )
    reference = written(text, "beside/my_model.py")
    spec = replace(own(DENSE), model=reference, model_digest=find(reference, Path.cwd()).digest)
    assert own_model.load(spec).example.num_classes == 9


def test_a_file_that_changed_since_planning_is_refused():
    spec = own(DENSE)
    written(DENSE + "# changed")
    with pytest.raises(
        UnsupportedTrialError, match=r"my_model\.py is not the file that was planned"
    ):
        own_model.load(spec)


def test_a_file_that_has_gone_is_refused_with_the_folder():
    spec = own(DENSE)
    Path("my_model.py").unlink()
    with pytest.raises(
        UnsupportedTrialError, match=f"no such file.*looked for it from {Path.cwd()}"
    ):
        own_model.load(spec)


def body(returned: str, before: str = "") -> str:
    """A file whose build returns this."""
    dense = "keras.Sequential([keras.Input((6,)), keras.layers.Dense(4)])"
    return f"import keras\n{before}\n\n\ndef build():\n    dense = {dense}\n    return {returned}\n"


TWO = "keras.Input((2,)), keras.Input((3,), name='second')"
REFUSED = {
    "nothing": body("None"),
    "a layer": body("dense.layers[0]"),
    "a list of models": body("[dense]"),
    "a dictionary without a model": body("{'loss': 'mse'}"),
    "an unknown key": body("{'model': dense, 'epochs': 3}"),
    "a loss that Keras has not": body("{'model': dense, 'loss': 'mean_square_error'}"),
    "a loss that is none": body("{'model': dense, 'loss': 3}"),
    "a loss that is summed": body("{'model': dense, 'loss': keras.losses.MeanSquaredError(reduction='sum')}"),
    "a loss that raises": body("{'model': dense, 'loss': lambda labels, outputs: labels @ 'x'}"),
    "a loss that does not fit": body("{'model': dense, 'loss': lambda labels, outputs: labels - outputs[:, :3]}"),
    "a vocabulary of nothing": body("{'model': dense, 'vocabulary_size': 0}"),
    "classes in words": body("{'model': dense, 'num_classes': 'ten'}"),
    "more classes than outputs": body("{'model': dense, 'num_classes': 5}"),
    "an item in capitals": body("{'model': dense, 'item': 'Tokens'}"),
    "an item that is none": body("{'model': dense, 'item': 3}"),
    "many items that are images": body("{'model': dense, 'items_per_example': 5}"),
    "an input that is no shape": body("{'model': dense, 'input_shape': 7}"),
    "two inputs": body("two()", f"\n\ndef two():\n    a, b = {TWO}\n    return keras.Model([a, b], keras.layers.Dense(2)(keras.layers.concatenate([a, b])))"),
    "two outputs": body("keras.Model(x := keras.Input((6,)), [dense(x), dense(x)])"),
    "one output for classes": body("keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])"),
    "an input of any size": body("keras.Sequential([keras.Input((None, 6)), keras.layers.Dense(4)])"),
    "an input that is not known": body("keras.Sequential([keras.layers.Dense(4)])"),
    "a fixed batch": body("keras.Sequential([keras.Input((6,), batch_size=5), keras.layers.Dense(4)])"),
    "whole numbers": body("keras.Sequential([keras.Input((6,), dtype='int32'), keras.layers.Rescaling(1.0), keras.layers.Dense(4)])"),
    "texts": body("keras.Sequential([keras.Input((6,), dtype='string'), keras.layers.Flatten()])"),
    "nothing to train": body("keras.Sequential([keras.Input((6,)), keras.layers.ReLU()])"),
    "all frozen": body("freeze(dense)", "\n\ndef freeze(model):\n    model.trainable = False\n    return model"),
    "a batch that shrinks": body("keras.Sequential([keras.Input((6,)), keras.layers.Dense(4), keras.layers.Lambda(lambda x: x[:1])])"),
    "half weights": body("keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, dtype='float16')])"),
    "it raises": body("1 / 0"),
    "it raises elsewhere": body("deeper()", "\n\ndef deeper():\n    raise KeyError('width')"),
    "it ends the process": body("exit(3)"),
    "importing it raises": body("dense", "import no_such_module_of_mine"),
    "it is undefined when run": "if False:\n    def build(): pass\n",
    "it is a model": "import keras\nbuild = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4)])\n",
    "it is a number": "build = 3\n",
    "it sets the policy": body("dense", "keras.mixed_precision.set_global_policy('mixed_float16')"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_trained_is_refused(snapshot, case):
    try:
        assert refusal(REFUSED[case]) == snapshot
    finally:
        keras.mixed_precision.set_global_policy("float32")


def test_a_lack_of_memory_is_no_fault_of_the_model():
    with pytest.raises(MemoryError):
        own_model.load(own(body("grow()", "\n\ndef grow():\n    raise MemoryError")))


@pytest.mark.integration
def test_a_trial_of_tokens_completes_and_counts_tokens(run):  # noqa: F811
    exit_code, folder = run(own(TOKENS, num_gpus=2, num_steps=5))
    result = folder.read_result()
    assert (exit_code, result.outcome, result.message) == (0, Outcome.COMPLETED, "")
    measured = result.measurement
    assert measured.item == "tokens"
    assert measured.throughput == pytest.approx(2 * 2 * 7 * 5 / measured.window_s)


@pytest.mark.integration
def test_a_trial_of_a_wrong_model_is_unsupported_and_says_why(run):  # noqa: F811
    exit_code, folder = run(own(body("1 / 0")))
    result = folder.read_result()
    assert result.outcome == Outcome.UNSUPPORTED
    assert exit_code != 0
    assert result.message == (
        "model=my_model.py:build: build() raised ZeroDivisionError: division by zero "
        "(my_model.py, line 7)"
    )


@pytest.mark.integration
@pytest.mark.parametrize(
    "changes",
    [
        {"variable_update": "distributed_replicated", "local_parameter_device": "cpu"},
        {"variable_update": "distributed_all_reduce", "all_reduce": "ring"},
        {"variable_update": "multi_worker_mirrored", "all_reduce": "ring"},
    ],
    ids=lambda changes: changes["variable_update"],
)
def test_a_trial_over_hosts_completes(run, changes):  # noqa: F811
    exit_code, folder = run(own(DENSE, num_gpus=2, hosts=2, **changes))
    assert (exit_code, folder.read_result().message) == (0, "")
