"""The photographs are real, in ImageNet's schema, built once, and mended when damaged."""

import os
import threading
from pathlib import Path

import pytest
import tensorflow as tf

from scalemark.host import files
from tests.specs import small
from trainer import BadDataError
from trainer.data import photos
from trainer.image_records import prepare_folder


@pytest.fixture(scope="session")
def folder(tmp_path_factory, all_devices):
    return prepare_folder(tmp_path_factory.mktemp("photos"), "photos", photos.examples)


def examples(folder):
    for path in sorted(folder.glob("train-*-of-*")):
        for record in tf.data.TFRecordDataset(str(path)):
            yield tf.train.Example.FromString(record.numpy()).features.feature


def test_records_have_imagenets_fields_and_decode_to_their_size(folder):
    found = list(examples(folder))
    assert len(found) > 200
    for feature in found[:5]:
        image = tf.io.decode_jpeg(feature["image/encoded"].bytes_list.value[0])
        assert image.shape == (
            feature["image/height"].int64_list.value[0],
            feature["image/width"].int64_list.value[0],
            3,
        )
        assert feature["image/format"].bytes_list.value[0] == b"JPEG"
        assert {
            "image/class/synset",
            "image/object/bbox/xmin",
            "image/filename",
            "image/colorspace",
        } <= set(feature)
    assert {feature["image/class/label"].int64_list.value[0] for feature in found} == set(
        range(1, 9)
    )
    assert len({feature["image/filename"].bytes_list.value[0] for feature in found}) == len(found)


def test_a_sound_folder_is_not_built_again(folder):
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir() if path.name != ".lock"}
    prepare_folder(folder, "photos", photos.examples)
    assert before == {
        path: path.stat().st_mtime_ns for path in folder.iterdir() if path.name != ".lock"
    }


def test_a_damaged_shard_is_noticed_and_mended(tmp_path, all_devices):
    folder = prepare_folder(tmp_path, "photos", photos.examples)
    shard = sorted(folder.glob("train-*"))[3]
    shard.write_bytes(shard.read_bytes()[:-100])
    assert files.damage(folder) == f"{shard.name} is not what index.json says"
    prepare_folder(folder, "photos", photos.examples)
    assert files.damage(folder) is None


def test_two_builders_at_once_leave_one_sound_set(tmp_path, all_devices):
    args = (tmp_path, "photos", photos.examples)
    threads = [threading.Thread(target=prepare_folder, args=args) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert files.damage(tmp_path) is None


@pytest.mark.parametrize("distortions", [True, False])
def test_every_replica_gets_its_own_batch_of_bright_and_dark_images(
    folder, make_devices, distortions
):
    spec = small(
        data="photos", data_dir=str(folder), distortions=distortions, num_gpus=2, batch_size=6
    )
    first, second = photos.open_input(spec, make_devices(2)).next()
    for images, labels in (first, second):
        assert images.shape == (6, 32, 32, 3)
        assert images.dtype == tf.uint8
        assert int(tf.reduce_min(images)) < 89
        assert int(tf.reduce_max(images)) > 166
        assert labels.dtype == tf.int64
        assert set(labels.numpy()) <= set(range(1, 9))
    assert not bool(tf.reduce_all(first[0] == second[0]))


def test_a_label_beyond_the_classes_is_reported_while_reading(folder, make_devices):
    images = photos.open_input(
        small(data="photos", data_dir=str(folder), num_classes=5), make_devices(1)
    )
    with pytest.raises(BadDataError, match=rf"{folder}: .*wanted a label below num_classes=5"):
        [images.next() for _ in range(50)]


def test_the_set_is_kept_in_the_cache_when_no_folder_is_named(make_devices):
    photos.open_input(small(data="photos"), make_devices(1)).next()
    assert files.problem(Path(os.environ["SCALEMARK_CACHE"]) / "photos-v1") is None
