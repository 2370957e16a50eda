"""ImageNet, or any other set in its TFRecord schema, from a folder that the user names."""

from pathlib import Path

from scalemark.records.trial import TrialSpec
from trainer import UnsupportedTrialError
from trainer.devices import Devices
from trainer.image_records import ImageRecords


def open_input(spec: TrialSpec, devices: Devices) -> ImageRecords:
    if not spec.data_dir:
        raise UnsupportedTrialError(
            "data=imagenet: data.dir is missing; it names the folder with the files train-*-of-*"
        )
    return ImageRecords(Path(spec.data_dir), spec, devices)
