"""The digits are real, labelled with what they show, and can be learned."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from scalemark.models import define
from tests.specs import small
from trainer import UnsupportedTrialError, keras_model
from trainer.data import digits, photos
from trainer.image_records import prepare_folder

pytestmark = pytest.mark.integration


@pytest.fixture(scope="session")
def folder(tmp_path_factory, all_devices):
    return prepare_folder(tmp_path_factory.mktemp("digits"), "digits", digits.examples)


def test_there_are_1797_digits_of_32_px(folder):
    paths = [str(path) for path in sorted(folder.glob("train-*"))]
    found = [
        tf.train.Example.FromString(each.numpy()).features.feature
        for each in tf.data.TFRecordDataset(paths)
    ]
    assert len(found) == 1797
    labels = [feature["image/class/label"].int64_list.value[0] for feature in found]
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    image = tf.io.decode_jpeg(found[0]["image/encoded"].bytes_list.value[0])
    assert image.shape == (32, 32, 3)
    zero = image.numpy()[:, :, 0]
    assert zero[4, 14] > 150, "the first digit is a zero: bright above its middle ..."
    assert zero[16, 16] < 50, "... and dark in it"


@pytest.mark.slow
def test_a_small_residual_network_learns_them_within_200_steps(folder, make_devices):
    keras.utils.set_random_seed(1)
    model = keras_model.build(define("resnet18_cifar"))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.02, momentum=0.9), loss, metrics=["accuracy"])
    data = digits.open_input(
        small(data="digits", data_dir=str(folder), batch_size=32), make_devices(1)
    )
    accuracies: list[float] = []
    while len(accuracies) < 200 and np.mean(accuracies[-20:] or 0) < 0.95:
        ((images, labels),) = data.next()
        accuracies.append(model.train_on_batch(images.numpy() / 127.5 - 1, labels.numpy())[1])
        model.reset_metrics()
    assert np.mean(accuracies[-20:]) >= 0.95


def test_a_folder_with_another_set_is_refused_and_left_alone(folder, make_devices):
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(
        UnsupportedTrialError,
        match=f"data.dir={folder}: it holds the set digits, not photos; give each set",
    ):
        photos.open_input(small(data="photos", data_dir=str(folder)), make_devices(1))
    assert before == {path: path.read_bytes() for path in folder.iterdir()}
