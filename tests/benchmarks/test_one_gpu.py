"""The benchmark of what one GPU reached."""

from analysis.calibration.environments import Guess
from analysis.calibration.predicted import predicted
from benchmarks.one_gpu import H200, main
from costs.profiles import profile


def test_intervals_without_any_row_hold_what_an_h200_reached():
    """Two lay outside, when work beside products was counted alike with and without XLA."""
    guess = Guess(hardware=profile("h200_8"), reason="its profile")
    for one, told in zip(H200, predicted((), [one.row for one in H200], guess), strict=True):
        assert told.low < one.throughput < told.high
        assert abs(told.throughput / one.throughput - 1) < 0.4


def test_each_cell_is_a_line_of_the_table(capsys):
    main([])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + len(H200)
    assert lines[9].startswith("| bert_base, 128 tokens | bf16 | off | 64 | 104,718 tokens/s | ")
