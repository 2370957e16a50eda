"""Groups are what one cause may hit."""

from analysis.history.groups import groups_of


def test_groups_are_all_those_that_share_a_choice_and_each_alone():
    axes = [{"model": "a", "xla": "on"}, {"model": "a", "xla": "off"}, {"model": "b", "xla": "on"}]
    found = [(group.name, group.cells.tolist()) for group in groups_of(axes)]
    assert found == [
        ("all", [0, 1, 2]),
        ("model=a", [0, 1]),
        ("xla=on", [0, 2]),
        ("", [0]),
        ("", [1]),
        ("", [2]),
    ]


def test_groups_of_the_same_cells_are_one():
    axes = [{"strategy": "nccl", "all_reduce": "nccl"}] * 2 + [{"strategy": "none"}]
    names = [group.name for group in groups_of(axes)]
    assert names == ["all", "strategy=nccl", "", "", ""]


def test_a_cell_alone_is_a_group():
    assert [group.name for group in groups_of([{"model": "a"}])] == [""]
