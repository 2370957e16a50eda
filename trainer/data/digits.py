"""Real handwritten digits, 1,797 images enlarged to 32 px, to see whether a model learns."""

import gzip
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from scalemark.records.trial import TrialSpec
from trainer import image_records
from trainer.devices import Devices

IMAGE_PX = 32
BRIGHTEST = 16.0  # of a pixel in the source


def open_input(spec: TrialSpec, devices: Devices) -> image_records.ImageRecords:
    return image_records.open_made("digits", examples, spec, devices)


def examples() -> Iterator[tf.train.Example]:
    packed = (image_records.ORIGINALS / "digits.csv.gz").read_bytes()
    rows = np.loadtxt(
        gzip.decompress(packed).decode().splitlines(), delimiter=",", dtype=np.float32
    )
    with tf.device("CPU:0"):
        for number, row in enumerate(rows):
            pixels = tf.image.resize(
                row[:-1].reshape(8, 8, 1) * (255.0 / BRIGHTEST), (IMAGE_PX, IMAGE_PX)
            )
            image = tf.image.grayscale_to_rgb(tf.cast(tf.round(pixels), tf.uint8))
            digit = int(row[-1])
            yield image_records.example(
                image, f"digits.csv:{number}", label=digit, text=f"digit {digit}"
            )
