"""A strategy looks the same wherever it is drawn."""

import pytest

from plots.drawing import SERIES, series_style
from plots.source import NUM_COLORS, numbered
from scalemark.records.machine import DeviceKind
from scalemark.records.trial import STRATEGY_COLUMNS
from tests.filled import fill
from tests.plots.charts.charting import picture, resnet


def test_the_strategies_of_the_article_always_come_first():
    looks = numbered(["zebra", "replicated_none", "independent"])
    assert [looks[name] for name in STRATEGY_COLUMNS.values()] == [0, 1, 2, 3, 4]
    assert (looks["independent"], looks["zebra"]) == (5, 6)


def test_lines_over_several_hosts_have_the_color_of_their_strategy():
    names = ["replicated_none", "distributed_ring"]
    over_hosts = {f"distributed_ring over {hosts} hosts": "distributed_ring" for hosts in (2, 4)}
    looks = numbered(names, over_hosts)
    assert {name: looks[name] for name in names} == {name: numbered(names)[name] for name in names}
    assert len(SERIES) == NUM_COLORS
    ring = [series_style(looks[name]) for name in ("distributed_ring", *over_hosts)]
    assert len({style["color"] for style in ring}) == 1
    assert len({(style["marker"], style["linestyle"]) for style in ring}) == 3


@pytest.mark.parametrize("chart", ["scaling", "efficiency", "memory"])
def test_a_strategy_has_one_color_with_others_and_without(chart):
    fill(
        "results.db",
        [
            (resnet(strategy, num_gpus, device_kind=DeviceKind.GPU), 100 * num_gpus**0.9 - strategy)
            for strategy in range(4)
            for num_gpus in (1, 2)
        ],
        details=[{"peak_device_memory_bytes": 2**30}] * 8,
    )
    together, alone = (
        picture(chart, filters=filters).axes[0].lines
        for filters in ((), ("strategy=replicated_none",))
    )
    looks = [
        (line.get_color(), line.get_marker())
        for lines in (together, alone)
        for line in lines
        if "replicated_none" in str(line.get_label())
    ]
    assert len(looks) == 2
    assert looks[0] == looks[1]
