"""Charts draw a line for each number of hosts, and maps of strategies are of one number each."""

import pytest

from tests.filled import fill
from tests.over_hosts import mixed
from tests.plots.charts.charting import picture


def drawn(figure):
    return {
        str(line.get_label()): [*map(float, line.get_ydata())]
        for line in figure.axes[0].lines
        if line.get_label()[0] != "_"
    }


@pytest.mark.parametrize("chart", ["scaling", "efficiency"])
def test_a_line_is_a_strategy_over_one_number_of_hosts(chart):
    fill("results.db", mixed())
    lines = drawn(picture(chart))
    lines.pop("ideal")
    assert set(lines) == {
        *("distributed_ps", "distributed_ps over 2 hosts", "distributed_ps over 4 hosts"),
        *(
            "distributed_ring",
            "distributed_ring over 2 hosts",
            "distributed_ring over 4 hosts",
            "replicated_none",
        ),
    }
    values: dict[str, list[float]] = {}
    entries = mixed()
    for spec, value in entries:
        way = {"ring": "distributed_ring"}.get(
            spec.all_reduce, "distributed_ps" if "server" in spec.variable_update else ""
        )
        name = (way or "replicated_none") + (f" over {spec.hosts} hosts" if spec.hosts > 1 else "")
        base = next(one for of, one in entries if of.num_gpus == 1 and of.curve == spec.curve)
        reported = {
            "scaling": value,
            "efficiency": value / base / spec.num_gpus,
        }[chart]
        values.setdefault(name, []).append(reported)
    assert lines == {name: pytest.approx(of) for name, of in values.items()}


def test_lines_of_one_strategy_have_one_color_and_differ_in_marker():
    fill("results.db", mixed())
    lines = [
        line
        for line in picture("scaling").axes[0].lines
        if str(line.get_label()).startswith("distributed_ring")
    ]
    assert len({line.get_color() for line in lines}) == 1
    assert len({(line.get_marker(), line.get_linestyle()) for line in lines}) == 3
