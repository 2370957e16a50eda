"""Models side by side, each with the sizes that it has of its own."""

from plots.pictures.by_model import by_model
from tests.analysis.made import made


def test_models_of_tokens_and_of_images_name_the_size_of_their_own_input():
    trials = [
        {"model": "gpt_mini", "image_px": 0, "seq_len": 128},
        {"model": "resnet50", "image_px": 64},
    ]
    (models,) = by_model(made(*((trial, [100.0]) for trial in trials)))
    labels = [models.label(model, within_in=3.0) for model in models.models]
    assert labels == ["gpt_mini\nseq_len 128", "resnet50\nimage_px 64"]
