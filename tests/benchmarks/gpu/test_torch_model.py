"""PyTorch's side of a comparison is the model that ours is. PyTorch is no dependency of ours: where
it is not installed, these tests are skipped.
"""

import pytest

from scalemark import models
from simulator.costs.networks import network

torch = pytest.importorskip("torch")


def bert_tiny():
    from benchmarks.gpu.torch_model import Network

    logits = models.define("bert_tiny", image_px=0, seq_len=33, num_classes=256)
    return Network(logits).eval()


@pytest.mark.parametrize("model", ["resnet50", "bert_base", "gpt2"])
def test_a_peer_has_as_many_parameters_as_ours(model):
    from benchmarks.gpu.torch_model import Network

    work = network(model)
    logits = models.define(
        model, image_px=work.image_px, seq_len=work.seq_len, num_classes=work.num_classes
    )
    with torch.device("meta"):
        peer = Network(logits)
    assert sum(one.numel() for one in peer.parameters()) == sum(work.tensors)


def test_masked_tokens_are_not_seen_and_they_alone_are_guessed():
    tokens = torch.randint(0, 255, (2, 33))
    other = tokens.clone()
    other[:, ::7] += 1  # those that are masked
    guessed = bert_tiny()
    with torch.no_grad():
        assert guessed(tokens).shape == (2, 5, 256)
        assert torch.equal(guessed(tokens), guessed(other))
        other[:, 1] += 1
        assert not torch.equal(guessed(tokens), guessed(other))


def test_halves_of_a_sequence_have_vectors_of_their_own():
    from benchmarks.gpu.torch_model import _Segments

    added = _Segments(2, 4)(torch.zeros(1, 5, 4))[0]
    assert torch.equal(added[0], added[2])
    assert torch.equal(added[3], added[4])
    assert not torch.equal(added[2], added[3])
