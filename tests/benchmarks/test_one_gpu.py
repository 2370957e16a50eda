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
    """Two lay outside when work beside products was counted alike with and without XLA, and one in
    fp32 when Winograd's algorithms were taken to shorten convolutions on every GPU.
    """
    one_gpu.main([])
    lines = capsys.readouterr().out.splitlines()[2:]
    assert lines
    assert not [line for line in lines if not line.endswith("| yes |")]


def test_the_summary_is_of_all_cells(capsys):
    one_gpu.main([])
    cells = [line.split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    errors = sorted(abs(int(one[-2].rstrip("%"))) for one in cells)
    num_inside = sum(one[-1] == "yes |" for one in cells)
    wanted = f"{errors[len(errors) // 2]}%, {num_inside} of {len(cells)} inside"
    assert one_gpu.summary() == wanted
