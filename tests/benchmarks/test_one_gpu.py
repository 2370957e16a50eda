"""What one GPU measured is set beside predictions that know nothing of it."""

from benchmarks import one_gpu


def test_every_measured_cell_is_predicted(capsys):
    one_gpu.main([])
    heading, _, *lines = capsys.readouterr().out.splitlines()
    names = [cell.strip() for cell in heading.strip("|").split("|")]
    assert len(lines) == len(one_gpu.H200)
    for one, line in zip(one_gpu.H200, lines, strict=True):
        told = dict(zip(names, (cell.strip() for cell in line.strip("|").split("|")), strict=True))
        predicted = float(told["predicted"].replace(",", ""))
        low, high = (float(end.replace(",", "")) for end in told["interval"].split(" to "))
        assert low < predicted < high
        assert told["error"] == f"{predicted / one.throughput - 1:+.0%}"
        assert told["inside"] == ("yes" if low <= one.throughput <= high else "no")
