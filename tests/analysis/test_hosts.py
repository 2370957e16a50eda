"""Trials over several hosts share a curve with those of one, and are never taken for them."""

import random
from dataclasses import asdict, replace
from itertools import permutations, product

import pytest

from analysis.again import divides_batch, with_num_gpus
from analysis.commands import scaling as words
from analysis.commands.scaling import scalings
from analysis.explain.ablations import Ablation, AblationFinder, command
from analysis.explain.explanations import of_each_curve
from analysis.labels import lines
from analysis.measured import measured
from analysis.pivot import RowRank, pivot
from analysis.published import of_others
from analysis.results import BaselineRule, with_baselines
from analysis.titles import host_notes, table_title
from benchmarks.prediction import is_on_one_host
from plots.drawing import file_names
from scalemark.records.machine import DeviceKind
from scalemark.records.references import Origin
from store.database import open_for_reading
from store.reading import queries
from tests.analysis.made import made
from tests.filled import fill
from tests.over_hosts import OVER_TWO_MACHINES, SPREADS, WAYS, mixed, spread
from tests.specs import small
from tests.store.test_references import MINE
from tests.tables import asked


def of_spreads(throughput, *, kind=DeviceKind.GPU, repeats=(0.99, 1.0, 1.01)):
    """Of (strategy, GPUs, hosts) -> images/s."""
    reported = [
        ({"num_gpus": num_gpus, "hosts": hosts, "strategy": way}, [value * one for one in repeats])
        for (way, num_gpus, hosts), value in throughput.items()
    ]
    return made(*reported, kind=kind)


def stored(entries, **options):
    fill("r.db", entries, **options)
    return measured(asked(queries.measured, open_for_reading("r.db")))


@pytest.mark.parametrize("seed", range(5))
def test_every_cell_of_every_table_is_one_whole_trial(seed):
    reported = [
        (
            {"strategy": way, "num_gpus": num_gpus, "hosts": hosts, "batch_size": batch_size},
            [float(number)],
        )
        for number, (way, (num_gpus, hosts), batch_size) in enumerate(
            product(WAYS, SPREADS, (4, 8)), 1
        )
    ]
    random.Random(seed).shuffle(reported)
    results = made(*reported)
    whole = {one.trial_id: repeats[0] for one, (_, repeats) in zip(results, reported, strict=True)}
    axes = ("strategy", "hosts", "num_gpus", "batch_size")
    for rows_by, columns_by in [
        (lines(results), ("num_gpus",)),
        *((axes[:split], axes[split:]) for split in (1, 2, 3)),
    ]:
        tables = pivot(results, rows_by, columns_by)
        cells = [(table, where, cell) for table in tables for where, cell in table.cells.items()]
        assert {cell.result.trial_id: cell.result.throughput for *_, cell in cells} == whole
        assert len(cells) == len(whole)
        for table, (row, column), cell in cells:
            label = dict(zip((*table.rows_by, *table.columns_by), (*row, *column), strict=True))
            assert {axis: cell.result.axes[axis] for axis in label} == label


@pytest.mark.parametrize("rule", BaselineRule)
def test_a_speed_up_is_against_one_gpu_of_one_host_in_any_order(rule):
    values = {("distributed_ring", *of): 10.0 * number + 70 for number, of in enumerate(SPREADS)}
    for results in permutations(of_spreads(values)[:5]):
        reported = with_baselines(results, rule)
        assert {
            (one.baseline.num_gpus, one.baseline.hosts, one.baseline.throughput) for one in reported
        } == {(1, 1, 70.0)}


def test_without_one_gpu_the_fewest_over_the_fewest_hosts_are_the_baseline():
    results = of_spreads(
        {("distributed_ring", *of): 100.0 for of in ((4, 4), (4, 2), (8, 2), (2, 2))}
    )
    assert {one.baseline.width for one in with_baselines(results, BaselineRule.FEWEST)} == {
        "2 over 2 hosts"
    }
    results = of_spreads({("distributed_ring", *of): 100.0 for of in ((4, 4), (4, 2), (4, 1))})
    assert {one.baseline.width for one in with_baselines(results, BaselineRule.FEWEST)} == {"4"}


def test_each_number_of_hosts_has_a_table_where_rows_do_not_name_it():
    tables = pivot(stored(mixed()))
    assert [table_title(table.environment, table.setting).split(",")[0] for table in tables] == [
        *("trivial (1 host", "trivial (2 hosts", "trivial (4 hosts")
    ]
    assert [table.hosts for table in tables] == [1, 2, 4]


def test_strategies_compete_with_those_over_as_many_hosts_alone():
    results = of_spreads(
        {
            ("replicated_none", 4, 1): 400.0,
            ("distributed_ring", 4, 1): 300.0,
            ("distributed_ring", 4, 2): 200.0,
            ("distributed_ps", 4, 2): 100.0,
            ("distributed_ps", 4, 4): 50.0,
        }
    )
    expected = {
        ("replicated_none", 1): RowRank.BEST,
        ("distributed_ring", 1): RowRank.SLOWER,
        ("distributed_ring", 2): RowRank.BEST,
        ("distributed_ps", 2): RowRank.SLOWER,
        ("distributed_ps", 4): RowRank.ALONE,
    }
    for rows, columns in (
        (lines(results), ("num_gpus",)),
        (("strategy",), ("hosts",)),
        (("hosts",), ("strategy",)),
    ):
        (table,) = pivot(results, rows, columns)
        assert {
            (cell.result.strategy, cell.result.hosts): cell.rank for cell in table.cells.values()
        } == expected


def test_a_scaling_curve_is_over_one_number_of_hosts():
    found = scalings(
        of_spreads({("distributed_ring", *of): 100.0 * of[0] / of[1] for of in SPREADS})
    )
    counts = [[point.result.num_gpus for point in one.curves[0].points] for one in found]
    assert counts == [[1, 2, 4], [2, 4, 8], [4, 8]]
    *_, last = words.rows(found[1])
    assert last[1:5:2] == ("8 over 2 hosts", "4.00x [3.91, 4.09]")


def test_another_number_of_gpus_keeps_the_hosts_where_they_can_share_it():
    spec = spread("distributed_ring", 8, 4)
    assert [
        (one.num_gpus, one.hosts) for one in (with_num_gpus(spec, num) for num in (16, 4, 2, 1))
    ] == [*((16, 4), (4, 4), (2, 1), (1, 1))]


def test_strong_scaling_goes_on_where_the_gpus_can_share_the_batch():
    spec = small(num_gpus=4, batch_size=25, scaling="strong")
    assert [num for num in (1, 2, 5, 8, 10) if divides_batch(spec, num)] == [1, 2, 5, 10]
    assert with_num_gpus(spec, 10).batch_size == 10
    assert divides_batch(small(num_gpus=4, batch_size=25), 8)


def test_each_number_of_hosts_is_explained_by_itself():
    results = of_spreads(
        {("distributed_ring", *of): 100.0 for of in SPREADS}, kind=DeviceKind.CPU_DEVICE
    )
    finder = AblationFinder(results)
    targets = of_each_curve(results, finder)
    assert [(one.num_gpus, one.hosts) for one in targets] == [(4, 1), (8, 2), (8, 4)]
    for target in targets:
        around = finder.around(target)
        assert (around.results[Ablation.ALONE].num_gpus, around.results[Ablation.ALONE].hosts) == (
            1,
            1,
        )
        for ablation in {Ablation.INDEPENDENT, Ablation.FLOOR} & {*around.missing}:
            assert "hosts=1" in command(ablation, target) or target.hosts == 1


def test_hosts_that_are_processes_of_one_machine_are_noted():
    spec = spread("distributed_ring", 4, 2)
    one_machine, two_machines = stored(
        [(spec, 100.0), (spec, 300.0)], details=[{}, {"placement": OVER_TWO_MACHINES}]
    )
    assert (one_machine.throughput, two_machines.throughput) == (100.0, 300.0)
    assert host_notes([one_machine, two_machines]) == host_notes([one_machine])
    assert host_notes([one_machine])[0].startswith("over 2 hosts: processes of one machine")
    assert (
        host_notes([two_machines])
        == host_notes(stored([(spread("replicated_none", 2), 1.0)])[-1:])
        == []
    )
    first, second = pivot([one_machine, two_machines])
    assert [len(first.results), len(second.results)] == [1, 1]


@pytest.mark.parametrize(
    ("hardware", "num_gpus", "is_one"),
    [
        ("AWS p2.8xlarge x n/8 nodes K80", 1, True),
        ("AWS p2.8xlarge x n/8 nodes K80", 64, False),
        ("4 servers x 4 Pascal GPUs?, 25G RoCE?", 4, False),
        ("8xV100 per node", 16, False),
        ("4xV100 server", 4, True),
        ("NVIDIA DGX-1 P100", 8, True),
        ("K80", 32, False),
    ],
)
def test_a_source_whose_words_speak_of_several_hosts_is_not_surely_of_one(
    hardware, num_gpus, is_one
):
    row = asdict(replace(MINE, hardware=hardware, num_gpus=num_gpus)) | {"origin": "published"}
    (figure,) = of_others([row])
    assert is_on_one_host(figure) is is_one
    (figure,) = of_others([row | {"hosts": 2}])
    assert not is_on_one_host(figure)


def test_every_result_of_ours_knows_its_hosts():
    results = stored(mixed())
    assert {(one.num_gpus, one.hosts) for one in results} == set(SPREADS)
    assert {one.line for one in results if one.hosts == 1} == set(WAYS)
    assert all(one.environment.origin is Origin.MEASURED for one in results)


def test_nothing_injected_is_said_and_is_no_part_of_a_file_name():
    tables = pivot(
        stored(
            [
                (spread("distributed_ring", 2, 2, injected=injected), 30.0)
                for injected in ("", "reduction_s=1")
            ]
        )
    )
    assert "nothing injected" in table_title(tables[0].environment, tables[0].setting)
    assert file_names(tables) == ["trivial", "trivial"]
