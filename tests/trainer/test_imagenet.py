"""ImageNet is read from the folder that the user names."""

import pytest
import tensorflow as tf

from tests.specs import small
from trainer import UnsupportedTrialError
from trainer.data import imagenet, photos
from trainer.image_records import prepare_folder


@pytest.mark.parametrize("distortions", [True, False])
def test_a_set_in_its_schema_is_read_from_data_dir(tmp_path, make_devices, distortions):
    folder = prepare_folder(tmp_path, "photos", photos.examples)
    spec = small(
        data="imagenet",
        data_dir=str(folder),
        num_gpus=2,
        batch_size=4,
        num_classes=1001,
        distortions=distortions,
    )
    for images, labels in imagenet.open_input(spec, make_devices(2)).next():
        assert images.shape == (4, 32, 32, 3)
        assert int(tf.reduce_min(images)) < int(tf.reduce_max(images))
        assert set(labels.numpy()) <= set(range(1, 9))


def test_without_data_dir_it_is_refused(make_devices):
    with pytest.raises(UnsupportedTrialError, match=r"data=imagenet: data\.dir is missing"):
        imagenet.open_input(small(data="imagenet"), make_devices(1))
