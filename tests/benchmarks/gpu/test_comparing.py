"""Peers start together and warm up alone, and one model of two may settle the line about tokens."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.gpu.kit import Judged, Kit, Note, OutOfTimeError
from benchmarks.gpu.stages import peers
from benchmarks.ratio import Ratio
from benchmarks.trainer import BrokenError, Candidate
from tests.benchmarks.gpu.boxes import H100, box
from tests.specs import small

KIT = Kit(box=box(H100), folder=Path("kit").absolute(), torch_python="python")
FAST = Ratio(
    name="torch_tokens",
    ours="ours",
    peer="PyTorch",
    metric="tokens per s",
    pairs=[(0.9, 1.0)] * 2,
    target=0.8,
)


class Side:
    """Keeps in `acts` what it is told to do."""

    def __init__(self, kind: str, acts: list[str], broken: str = "") -> None:
        self.candidate = Candidate(kind=kind)
        self.acts, self.broken = acts, broken

    def wait_until_ready(self) -> None:
        if self.broken:
            raise BrokenError(self.broken)
        self.acts.append(f"{self.candidate.kind} is ready")

    def run(self, num_steps: int) -> None:
        self.acts.append(f"{self.candidate.kind} warms up")


def drained(generator):
    """Return what it yields, what it returns, and what ended it."""
    found = []
    while True:
        try:
            found.append(next(generator))
        except StopIteration as ended:
            return found, ended.value, None
        except (BrokenError, OutOfTimeError, KeyboardInterrupt) as error:
            return found, None, error


def test_peers_warm_up_once_all_are_ready(tmp_path):
    acts: list[str] = []
    started = {
        "keras_images": Side("keras_fit", acts),
        "torch_tokens": Side("torch", acts, "a trace\nno cuDNN"),
        "torch_images": Side("torch", acts),
    }
    kit = replace(KIT, folder=tmp_path)
    found, working, _ = drained(peers._warm(kit, started, peers._settings(kit.box)))
    assert acts == [
        "keras_fit is ready",
        "torch is ready",
        "keras_fit warms up",
        "torch warms up",
    ]
    assert list(working) == ["keras_images", "torch_images"]
    log = "logs/peers-torch_tokens-trivial.log"
    assert found == [Note(text=f"PyTorch trivial batch 1 broke: see {log}: no cuDNN")]


@pytest.mark.parametrize(
    ("ends", "verdict", "reason"),
    [
        ([FAST, FAST], "met", "; "),
        ([FAST, OutOfTimeError()], "met", "not measured: gpt2"),
        ([FAST, KeyboardInterrupt()], "met", "not measured: gpt2"),
        ([BrokenError(), FAST], "met", "not measured: bert_base"),
        ([OutOfTimeError(), FAST], None, ""),
    ],
)
def test_tokens_are_judged_by_what_was_measured(ends, verdict, reason, monkeypatch):
    """BERT-base first, then GPT-2."""
    given = iter(ends)

    def compared(*_):
        end = next(given)
        if isinstance(end, BaseException):
            raise end
        yield from ()
        return [end]

    monkeypatch.setattr(peers, "_compared", compared)
    monkeypatch.setattr(
        peers,
        "planned",
        lambda _, grid: [small(model=grid[0].removeprefix("model="), precision="bf16")],
    )
    found, _, error = drained(peers._tokens(KIT, ""))
    assert [(one.verdict, reason in one.why) for one in found if isinstance(one, Judged)] == (
        [(verdict, True)] if verdict else []
    )
    assert error == next((end for end in ends if isinstance(end, BaseException)), None)
