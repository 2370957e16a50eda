"""Text is real, the same everywhere, and labelled with what its model is to guess."""

from dataclasses import replace

import numpy as np
import pytest

from tests.specs import small
from trainer import UnsupportedTrialError
from trainer.data import text

TOKENS = {"data": "text", "image_px": 0, "num_classes": 256, "seq_len": 20, "batch_size": 3}
CAUSAL = small(model="gpt_mini", **TOKENS)
MASKED = small(model="bert_tiny", **TOKENS)


def batches(spec, devices, num_calls: int = 1) -> list[list[tuple[np.ndarray, np.ndarray]]]:
    """Return tokens and labels of each call and replica."""
    data = text.open_input(spec, devices)
    found = []
    for _ in range(num_calls):
        found.append([(tokens.numpy(), labels.numpy()) for tokens, labels in data.next()])
    return found


def test_it_is_466273_bytes_of_pythons_help():
    found = text.read().tobytes()
    assert len(found) == 466_273
    assert found.startswith(b'The "assert" statement\n**********************\n')
    assert 0 not in found, "it is what masks are"


def test_labels_of_a_causal_model_are_the_bytes_after_each(make_devices):
    (((tokens, labels),),) = batches(CAUSAL, make_devices(1))
    assert (tokens.shape, labels.shape, tokens.dtype) == ((3, 20), (3, 20), np.int64)
    whole = text.read().tobytes()
    for window, following in zip(tokens, labels, strict=True):
        assert bytes([*window, following[-1]]) in whole
        assert following[:-1].tolist() == window[1:].tolist()


def test_labels_of_a_masked_model_are_the_bytes_that_it_masks(make_devices):
    (((tokens, labels),),) = batches(MASKED, make_devices(1))
    assert labels.tolist() == tokens[:, [0, 7, 14]].tolist()
    assert bytes([*tokens[0]]) in text.read().tobytes()


def test_replicas_share_what_one_would_take(make_devices):
    """The batches of two replicas, one behind the other, are those of one; whatever a call takes."""
    alone = batches(replace(CAUSAL, batch_size=6), make_devices(1), 4)
    two = replace(CAUSAL, num_gpus=2)
    for step, ours in enumerate(batches(two, make_devices(2), 4)):
        assert np.concatenate([tokens for tokens, _ in ours]).tolist() == alone[step][0][0].tolist()
    (first, second) = batches(replace(two, steps_per_execution=2), make_devices(2), 2)
    stacked = np.concatenate([first[1][0], second[1][0]])
    assert stacked.tolist() == [step[0][0][3:].tolist() for step in alone]


def test_a_worker_makes_the_batches_of_its_own_replicas(make_devices):
    both = batches(replace(CAUSAL, num_gpus=2), make_devices(2), 2)
    second = replace(make_devices(1), first=1, num_elsewhere=1)
    own = batches(replace(CAUSAL, num_gpus=2), second, 2)
    assert [call[0][0].tolist() for call in own] == [call[1][0].tolist() for call in both]


def test_another_seed_takes_other_places(make_devices):
    def tokens(seed: int) -> list[list[int]]:
        return batches(replace(CAUSAL, seed=seed), make_devices(1))[0][0][0].tolist()

    assert tokens(1) == tokens(1)
    assert tokens(1) != tokens(2)


def test_a_model_of_images_is_refused(make_devices):
    with pytest.raises(
        UnsupportedTrialError, match="data=text: trivial takes images, and text has tokens"
    ):
        text.open_input(small(data="text"), make_devices(1))
