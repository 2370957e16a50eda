"""Charts draw a line for each number of hosts, and maps of strategies are of one number each."""

import pytest
from matplotlib.figure import Figure

from scalemark.records.devices import DeviceKind
from tests.filled import fill
from tests.over_hosts import mixed, spread
from tests.plots.charts.charting import checked, details, picture, picture_test, pictures, words


def drawn(figure):
    return {
        str(line.get_label()): [*map(float, line.get_ydata())]
        for line in figure.axes[0].lines
        if line.get_label()[0] != "_"
    }


@picture_test
def test_the_picture_of_several_hosts() -> Figure:
    fill("results.db", mixed(model="resnet50", image_px=64))
    return checked(picture("scaling"))


@pytest.mark.parametrize("chart", ["scaling", "speed_up", "efficiency"])
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
            "speed_up": value / base,
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
    assert (
        len({line.get_marker() for line in lines})
        == len({line.get_linestyle() for line in lines})
        == 3
    )


@pytest.mark.parametrize("chart", ["best_strategy"])
def test_a_map_is_of_one_number_of_hosts(chart):
    fill("results.db", mixed())
    found = pictures(chart)
    assert [one.name for one in found] == ["hosts=1", "hosts=2", "hosts=4"]
    assert [
        f"{hosts} host" in words(one.figure) for hosts, one in zip((1, 2, 4), found, strict=True)
    ] == [True] * 3
    for one, is_on_one_machine in zip(found, (False, True, True), strict=True):
        assert ("processes of one machine" in details(one.figure)) == is_on_one_machine
        assert ("hosts: processes of one machine" in words(one.figure)) == is_on_one_machine


def test_a_curve_that_begins_over_several_hosts_says_over_how_many():
    entries = [(spread("distributed_ring", num, 2), 90.0 * num**0.9) for num in (2, 4)]
    fill("results.db", entries)
    assert any("2 over 2 hosts" in label for label in drawn(picture("speed_up")))


@pytest.mark.parametrize(
    ("hosts", "host"), [(1, "NVIDIA DGX-1"), (2, "AWS p2.8xlarge x n/8 nodes K80")]
)
def test_published_curves_of_several_hosts_are_beside_ours_of_several(hosts, host):
    fill(
        "results.db",
        [
            (
                spread(
                    "distributed_ring",
                    16,
                    hosts,
                    model="resnet50",
                    image_px=224,
                    batch_size=64,
                    device_kind=DeviceKind.GPU,
                ),
                700.0,
            )
        ],
    )
    theirs = [name for name in drawn(picture("then_and_now")) if not name.startswith("ours")]
    assert host in theirs[0]
