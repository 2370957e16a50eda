"""Images come in a seeded order and whole; a record that cannot be used is reported."""

import numpy as np
import pytest
import tensorflow as tf

from tests.specs import small
from tests.trainer import image_sets
from tests.trainer.image_sets import good, jpeg, record
from trainer import BadDataError, UnsupportedTrialError
from trainer.image_records import ImageRecords, image_and_label


@pytest.fixture(autouse=True)
def _devices_first(all_devices):
    """Logical devices can be made only before any tensor is."""


@pytest.fixture
def folder(tmp_path):
    """12 images in 3 shards; label n is the gray 20 n."""
    folder = tmp_path / "set"
    image_sets.write(
        folder, *([good(label) for label in range(first, 12, 3)] for first in range(3))
    )
    return folder


def opened(folder, devices, **changes) -> ImageRecords:
    spec = {
        "num_classes": 12,
        "image_px": 8,
        "batch_size": 4,
        "data": "imagenet",
        "data_dir": str(folder),
    }
    return ImageRecords(folder, small(num_gpus=len(devices.replicas), **spec | changes), devices)


def labels(batches) -> list[int]:
    return [int(label) for _, of_replica in batches for label in tf.reshape(of_replica, [-1])]


def calls(images: ImageRecords, num_calls: int) -> None:
    for _ in range(num_calls):
        images.next()


def pixels(images: ImageRecords, num_calls: int) -> np.ndarray:
    """All images of all replicas, in the order of the records."""
    return np.concatenate(
        [of_replica.numpy() for _ in range(num_calls) for of_replica, _ in images.next()]
    )


@pytest.mark.parametrize("cache", [True, False])
def test_every_epoch_holds_every_image_once_in_another_order(folder, make_devices, cache):
    images = opened(folder, make_devices(1), batch_size=12, cache=cache)
    first, second = labels(images.next()), labels(images.next())
    assert sorted(first) == sorted(second) == list(range(12))
    assert first != second


def test_an_image_and_its_label_stay_together(folder, make_devices):
    ((images, found),) = opened(folder, make_devices(1), batch_size=12).next()
    assert images.dtype == tf.uint8
    assert found.dtype == tf.int64
    assert images.numpy().mean((1, 2, 3)) == pytest.approx(20 * found.numpy(), abs=2.5)


@pytest.mark.parametrize("distortions", [True, False])
def test_replicas_together_get_what_one_replica_gets_in_as_many_calls(
    folder, make_devices, distortions
):
    alone = pixels(opened(folder, make_devices(1), distortions=distortions), num_calls=6)
    together = pixels(opened(folder, make_devices(3), distortions=distortions), num_calls=2)
    assert np.array_equal(alone, together)


def test_a_seed_decides_order_and_distortions(folder, make_devices):
    first, same, other = (
        pixels(opened(folder, make_devices(1), distortions=True, seed=seed), 3)
        for seed in (1, 1, 2)
    )
    assert np.array_equal(first, same)
    assert not np.array_equal(first, other)


def test_threads_and_prefetching_change_no_image(folder, make_devices):
    plain = pixels(opened(folder, make_devices(2), distortions=True, prefetch=0), 3)
    ahead = pixels(opened(folder, make_devices(2), distortions=True, data_threads=1, prefetch=4), 3)
    assert np.array_equal(plain, ahead)


def test_steps_in_one_call_get_the_images_of_as_many_calls(folder, make_devices):
    single, several = (
        opened(folder, make_devices(2)),
        opened(folder, make_devices(2), steps_per_execution=3),
    )
    call = several.next()
    for step in range(3):
        assert labels(several.at(call, tf.constant(step))) == labels(single.next())


def test_cached_records_are_read_once(folder, make_devices):
    images = opened(folder, make_devices(1), batch_size=12, cache=True)
    images.next()
    for path in folder.iterdir():
        path.unlink()
    assert sorted(labels(images.next())) == list(range(12))
    calls(images, 20)  # more than any buffer holds


@pytest.mark.integration
def test_records_that_are_not_cached_are_read_in_every_epoch(tmp_path, make_devices):
    (path,) = image_sets.write(tmp_path / "set", [good(label % 12) for label in range(5000)])
    images = opened(path.parent, make_devices(1), batch_size=1000, prefetch=0, cache=False)
    images.next()
    path.unlink()
    with pytest.raises(BadDataError, match=rf"{path}; No such file or directory"):
        calls(images, 20)


def test_without_distortions_the_image_is_its_largest_central_square(all_devices):
    thirds = np.zeros((30, 90, 3), np.uint8)
    thirds[:, :30, 0], thirds[:, 30:60, 1], thirds[:, 60:, 2] = 255, 255, 255
    wide = record(1, tf.io.encode_jpeg(thirds, quality=100, chroma_downsampling=False).numpy())
    image, label = image_and_label(
        wide, tf.constant(0, tf.int64), small(distortions=False, image_px=10)
    )
    assert image.shape == (10, 10, 3)
    assert image.numpy().reshape(-1, 3).mean(0) == pytest.approx([0, 255, 0], abs=6)
    assert int(label) == 1


def test_distortions_differ_from_position_to_position_and_stay_in_range(all_devices):
    ramp = np.linspace(0, 255, 64 * 64 * 3).reshape(64, 64, 3).astype(np.uint8)
    serialized, spec = record(1, tf.io.encode_jpeg(ramp).numpy()), small(distortions=True)
    found = [
        image_and_label(serialized, tf.constant(n, tf.int64), spec)[0].numpy()
        for n in (0, 0, *range(1, 20))
    ]
    assert np.array_equal(found[0], found[1])
    assert len({image.tobytes() for image in found}) == 20
    assert all(image.shape == (32, 32, 3) and image.dtype == np.uint8 for image in found)
    rising = [image[:, -1].mean() > image[:, 0].mean() for image in found[1:]]
    assert set(rising) == {True, False}, "some images are mirrored"


def test_a_crop_keeps_to_the_bounding_boxes(all_devices):
    """The one box is the bright corner: every crop shows some of it. Without boxes some crops miss it."""
    corner = np.zeros((64, 64, 3), np.uint8)
    corner[:16, :16] = 255
    encoded = tf.io.encode_jpeg(corner).numpy()
    boxed = tf.train.Example.FromString(record(1, encoded))
    for side, value in {"xmin": 0.0, "ymin": 0.0, "xmax": 0.25, "ymax": 0.25}.items():
        boxed.features.feature[f"image/object/bbox/{side}"].float_list.value.append(value)

    def brightest(serialized: bytes) -> list[float]:
        positions = (tf.constant(n, tf.int64) for n in range(30))
        return [
            float(tf.reduce_max(image_and_label(serialized, n, small(distortions=True))[0]))
            for n in positions
        ]

    assert min(brightest(boxed.SerializeToString())) > 127
    assert min(brightest(record(1, encoded))) < 127


def test_a_damaged_record_is_reported_with_its_folder(folder, make_devices):
    path = sorted(folder.iterdir())[1]
    data = bytearray(path.read_bytes())
    data[12 + 20] ^= 1
    path.write_bytes(data)
    with pytest.raises(BadDataError, match=rf"^data.dir={folder}: corrupted record at 12"):
        opened(folder, make_devices(2)).next()


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda: record(None, b"x"), r".*image/class/label"),
        (lambda: b"no example", r"Could not parse example input"),
        (lambda: record(3, b"no image"), r".*JPEG"),
        (lambda: record(12, jpeg(1)), r".*wanted a label below num_classes=12\] \[12\]"),
        (lambda: record(-1, jpeg(1)), r".*wanted a label below num_classes=12\] \[-1\]"),
    ],
    ids=["no label", "no example", "no JPEG", "label too large", "label below 0"],
)
def test_a_record_that_cannot_be_used_is_reported(tmp_path, make_devices, bad, message):
    _, path = image_sets.write(tmp_path / "set", [good(1)] * 6, [good(1), good(2), bad(), good(4)])
    images = opened(path.parent, make_devices(2), batch_size=2)
    with pytest.raises(BadDataError, match=rf"^data.dir={path.parent}: {message}"):
        calls(images, 4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda paths: [path.unlink() for path in paths],
            "there are no shards in it; wanted files named train-",
        ),
        (
            lambda paths: paths[1].unlink(),
            "1 of 3 shards are missing, the first is train-00001-of-00003",
        ),
        (lambda paths: paths[2].write_bytes(b""), "train-00002-of-00003 is empty"),
    ],
)
def test_a_folder_in_which_something_is_missing_is_refused(folder, make_devices, change, message):
    change(sorted(folder.iterdir()))
    with pytest.raises(UnsupportedTrialError, match=f"data.dir={folder}: {message}"):
        opened(folder, make_devices(1))
