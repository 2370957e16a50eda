"""Real text, 466,273 bytes of it, to see whether a model of tokens learns. A token is a byte.

```
  text       The "assert" statement ...
  example         [sert" statem]             a window of seq_len bytes at a random place
  labels           [ert" stateme]            causal: the byte after each
                  [s      e     ]            masked: each byte that the model masks, as every 7th
```
It is what Python's help() says of its topics; see originals/README.md. The same seed gives the same
windows in the same order, for any number of replicas.
"""

import gzip

import numpy as np
import tensorflow as tf

from scalemark import models
from scalemark.records.trial import TrialSpec
from trainer import UnsupportedTrialError
from trainer.devices import Devices
from trainer.image_records import ORIGINALS, ReplicaFeed, own_share
from trainer.keras_model import WHOLE_NUMBERS, definition
from trainer.model_tower import Batch

SHIFT = 1  # bytes that a causal label is ahead


def open_input(spec: TrialSpec, devices: Devices) -> ReplicaFeed:
    """Raise UnsupportedTrialError for a model that takes no tokens."""
    logits = definition(spec)
    if not models.takes_tokens(logits):
        raise UnsupportedTrialError(f"data=text: {spec.model} takes images, and text has tokens")
    masks_every = models.masks_every(logits)
    with tf.device(devices.host):
        text = tf.constant(read())
        offsets = tf.range(spec.seq_len + SHIFT, dtype=tf.int64)
        num_places = len(text) - spec.seq_len - SHIFT + 1

        def batch(_: tf.Tensor, draws: tf.Tensor) -> Batch:
            places = draws % num_places
            windows = tf.cast(tf.gather(text, places[:, tf.newaxis] + offsets), WHOLE_NUMBERS)
            tokens = windows[:, :-SHIFT]
            return tokens, tokens[:, ::masks_every] if masks_every else windows[:, SHIFT:]

        draws = own_share(tf.data.Dataset.random(spec.seed).enumerate(), spec, devices)
    return ReplicaFeed(draws, spec, devices, batch)


def read() -> np.ndarray:
    """Return the text, uint8."""
    packed = (ORIGINALS / "topics.txt.gz").read_bytes()
    return np.frombuffer(gzip.decompress(packed), np.uint8)
