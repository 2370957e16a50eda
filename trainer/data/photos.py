"""Real JPEG photographs, cut into a small set that is read like ImageNet.

Two photographs (a Chinese temple, a flower; see originals/README.md) are cut into overlapping
squares. The label of a square is the photograph and the quarter of it that it was cut from: 1 to 8;
0 is ImageNet's background class.
"""

from collections.abc import Iterator

import tensorflow as tf

from scalemark.records.trial import TrialSpec
from trainer import image_records
from trainer.devices import Devices

PHOTOGRAPHS = ("china.jpg", "flower.jpg")
SQUARE_PX = 160
STRIDE_PX = 32


def open_input(spec: TrialSpec, devices: Devices) -> image_records.ImageRecords:
    return image_records.open_made("photos", examples, spec, devices)


def examples() -> Iterator[tf.train.Example]:
    with tf.device("CPU:0"):
        for number, name in enumerate(PHOTOGRAPHS):
            photograph = tf.io.decode_jpeg((image_records.ORIGINALS / name).read_bytes())
            height, width, _ = photograph.shape
            for top in range(0, height - SQUARE_PX + 1, STRIDE_PX):
                for left in range(0, width - SQUARE_PX + 1, STRIDE_PX):
                    quarter = 2 * (top + SQUARE_PX // 2 >= height // 2) + (
                        left + SQUARE_PX // 2 >= width // 2
                    )
                    yield image_records.example(
                        photograph[top : top + SQUARE_PX, left : left + SQUARE_PX],
                        f"{name}:{top}:{left}",
                        label=1 + 4 * number + quarter,
                        text=f"{name} quarter {quarter}",
                    )
