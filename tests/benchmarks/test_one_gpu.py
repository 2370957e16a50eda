"""Figures of one GPU are compared with predictions that were not fitted to them."""

from benchmarks import one_gpu


def test_every_measured_cell_is_predicted(capsys):
    one_gpu.main([])
    heading, _, *lines = capsys.readouterr().out.splitlines()
    names = [cell.strip() for cell in heading.strip("|").split("|")]
    assert len(lines) == len(one_gpu.H200)
    for one, line in zip(one_gpu.H200, lines, strict=True):
        row = dict(zip(names, (cell.strip() for cell in line.strip("|").split("|")), strict=True))
        predicted = float(row["predicted"].replace(",", ""))
        low, high = (float(end.replace(",", "")) for end in row["interval"].split(" to "))
        assert low < predicted < high
        assert row["error"] == f"{predicted / one.throughput - 1:+.0%}"
        assert row["inside"] == ("yes" if low <= one.throughput <= high else "no")


def test_intervals_hold_what_one_gpu_reached(capsys):
    """Two lay outside, when work beside products was counted alike with and without XLA."""
    one_gpu.main([])
    lines = capsys.readouterr().out.splitlines()[2:]
    assert all(line.endswith("| yes |") for line in lines)
    assert lines[7].startswith("| bert_base, 128 tokens | bf16 | off | 64 | 104,718 tokens/s | ")
