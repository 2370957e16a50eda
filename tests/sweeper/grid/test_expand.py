"""What a user asks for becomes the cells that stock Hydra would make of it, and what makes no grid is refused early."""

import math

import pytest
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hypothesis import given
from hypothesis import strategies as st

from conf.schema import register
from sweeper import SweepRefusedError
from sweeper.grid.compose import expand, text_of
from tests.conf.test_resolve import FOLDER


def cells(*arguments, loader=None, **asked):
    return [tuple(choice.text for choice in cell) for cell in expand(arguments, loader, **asked)]


@pytest.fixture(scope="module")
def loader():
    register()
    with initialize_config_dir(str(FOLDER), version_base="1.3"):
        yield GlobalHydra.instance().hydra.config_loader


def test_the_last_axis_runs_fastest():
    assert cells("model=a,b", "num_gpus=1,2", "seed=3") == [
        ("model=a", "num_gpus=1", "seed=3"),
        ("model=a", "num_gpus=2", "seed=3"),
        ("model=b", "num_gpus=1", "seed=3"),
        ("model=b", "num_gpus=2", "seed=3"),
    ]


def test_an_argument_wins_over_an_experiments_axis():
    assert cells("num_gpus=8", params={"num_gpus": "1,2", "model": "a,b"}) == [
        ("model=a", "num_gpus=8"),
        ("model=b", "num_gpus=8"),
    ]


def test_of_a_repeated_axis_the_last_counts():
    assert cells("num_gpus=1,2", "seed=1", "num_gpus=4") == [("num_gpus=4", "seed=1")]


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ("range(1,4)", ["1", "2", "3"]),
        ("range(3,0,-2)", ["3", "1"]),
        ("range(0.5,2)", ["0.5", "1.5"]),
        ("a,'b c',null", ["a", "'b c'", "null"]),
        ("sort(3,1,2)", ["1", "2", "3"]),
        ("int(1.5,2.5)", ["1", "2"]),
        ("[1,2],[3]", ["[1,2]", "[3]"]),
        ("a,b,a", ["a", "b"]),
    ],
)
def test_every_sweep_of_hydras_is_a_list_of_values(values, texts):
    assert cells(f"x={values}") == [(f"x={text}",) for text in texts]


def test_a_glob_is_the_choices_that_match(loader):
    assert cells("model=glob(resnet1*)", loader=loader) == [
        ("model=resnet101",),
        ("model=resnet110_cifar",),
        ("model=resnet152",),
        ("model=resnet18_cifar",),
    ]
    assert cells("model=glob([*],exclude=[*net*,*16,incep*,gpt*,bert*,vit*])", loader=loader) == [
        ("model=overfeat",),
        ("model=trivial",),
    ]


def test_params_may_be_text_numbers_and_lists():
    params = {
        "model": ["a", "b"],
        "num_gpus": 4,
        "staged_vars": [True],
        "data.dir": None,
        "seed": "1,2",
    }
    assert cells(params=params)[0] == (
        "model=a",
        "num_gpus=4",
        "staged_vars=True",
        "data.dir=null",
        "seed=1",
    )
    assert len(cells(params=params)) == 4


def test_values_are_parsed_as_their_text_would_be():
    for values in ("1,2.5,1e-3,true,null,abc,'a b'", "range(1,3)", "str(1,2)", "'1','true'"):
        for cell in expand([f"x={values}"]):
            (again,) = expand([cell[0].text])
            assert cell[0].override.value() == again[0].override.value()
            assert type(cell[0].override.value()) is type(again[0].override.value())


def test_a_union_of_grids_has_no_cell_twice():
    grids = [{"model": "a", "batch_size": [1, 2]}, {"model": ["a", "b"], "batch_size": 1}]
    assert cells("seed=1,2", params={"batch_size": "9"}, grids=grids) == [
        ("batch_size=1", "model=a", "seed=1"),
        ("batch_size=1", "model=a", "seed=2"),
        ("batch_size=2", "model=a", "seed=1"),
        ("batch_size=2", "model=a", "seed=2"),
        ("batch_size=1", "model=b", "seed=1"),
        ("batch_size=1", "model=b", "seed=2"),
    ]


def test_an_argument_wins_over_a_grids_axis():
    assert cells("model=c", grids=[{"model": "a"}, {"model": "b"}]) == [("model=c",)]


@given(lengths=st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_a_grid_is_a_product_of_axes(lengths):
    arguments = [f"x{index}=range(0,{length})" for index, length in enumerate(lengths)]
    made = cells(*arguments)
    assert len(set(made)) == len(made) == math.prod(lengths)
    for cell in made:
        assert [text.partition("=")[0] for text in cell] == [
            f"x{index}" for index in range(len(lengths))
        ]


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("num_gpus=interval(1,4)", "no finite list; write its values out, as in num_gpus=1,2,4"),
        ("seed=range(1,4,0)", "no finite list"),
        ("seed=range(1,inf)", "no finite list"),
        ("seed=range(0.0,nan)", "no finite list"),
        ("seed=range(4,1)", r"seed=range\(4,1\): an empty axis; give it at least one value"),
        ("model=glob(nothing*)", r"model=glob\(nothing\*\): an empty axis"),
        ("sweep.repeats=1,2", "sweep.repeats is one value for the whole sweep"),
        ("launcher.timeout_s=1,2", "one value for the whole sweep"),
        ("hydra/launcher=a,b", "one value for the whole sweep"),
        ("nonsense", "nonsense: cannot be read; wanted AXIS=VALUE"),
        (
            "sweep.name=日本/語",
            "wanted letters, digits, '.', '_' and '-', 100 at most",
        ),
        ("+axes.größe=1", "axes.größe: wanted a name of lower-case letters, digits and _"),
        ("sweep.exclude=[zero=1]", r"cannot be read; wanted each rule in quotes, as 'sweep"),
        (
            "seed=range(1,1000000000000)",
            "a grid of 999,999,999,999 cells: wanted 100,000 at most; run a part of it at a time",
        ),
        ("seed=shuffle(range(0,1000000000000))", "a grid of 1,000,000,000,000 cells"),
        ("learning_rate=range(0.0,1e9,0.5)", "a grid of 2,000,000,000 cells"),
        ("model.name=../evil", r"model\.name: a fact of the files in conf/model/"),
        ("data.makes_folder=true", r"data\.makes_folder: a fact of the files in conf/data/"),
    ],
)
def test_what_makes_no_grid_is_refused(argument, message, loader):
    with pytest.raises(SweepRefusedError, match=message):
        cells(argument, loader=loader)


@pytest.mark.parametrize(
    ("argument", "remedy"),
    [
        ("+env.FOO=1.50", "+env.FOO='1.50'"),
        ("+env.FOO=TRUE", "+env.FOO='TRUE'"),
        ("+env.FOO=1_000", "+env.FOO='1_000'"),
        ("+env.FOO=1000,+4,-0", "+env.FOO='1000','+4','-0'"),
    ],
)
def test_a_variable_is_quoted_as_it_was_typed(argument, remedy):
    """A bug: the remedies for 1.50 and true were 1.5 and True, which measure something else."""
    with pytest.raises(SweepRefusedError) as refused:
        cells(argument)
    assert str(refused.value).endswith(f'put quotes around each value: "{remedy}"')
    assert cells(remedy)


@pytest.mark.parametrize(
    "given",
    [
        *("choice(1_000, 2)", "sort(1_000,2_000,reverse=true)", "range(0,1,0.5)", "[1,2]"),
        *("str(1.50)", "int('1_000')", "int(a)", "json_str({a: 1})"),
    ],
)
def test_a_variable_that_hydra_would_change_is_refused(given):
    """A bug: in a choice(...) 1_000 silently became 1000, and in a range 0.15 grew digits."""
    with pytest.raises(SweepRefusedError, match="write each value in quotes, as") as refused:
        cells(f"+env.FOO={given}")
    assert str(refused.value).startswith(f"+env.FOO={given}: ")


@pytest.mark.parametrize(
    ("argument", "values"),
    [
        ("+env.FOO='1_000',2,-1", ["'1_000'", "2", "-1"]),
        ("+env.FOO=1_000 x,a\\,1_000", ["1_000\\ x", "a\\,1_000"]),
    ],
)
def test_a_variable_holds_what_was_typed(argument, values):
    assert cells(argument) == [(f"+env.FOO={value}",) for value in values]


def test_a_product_is_refused_before_it_is_made():
    with pytest.raises(SweepRefusedError, match="a grid of 1,000,000,000,000,000,000 cells"):
        cells(*(f"{axis}=range(0,1000000)" for axis in ("seed", "prefetch", "data_threads")))


def test_the_grids_of_a_union_count_together():
    with pytest.raises(SweepRefusedError, match="a grid of 120,000 cells"):
        cells("seed=range(0,60000)", grids=[{"model": "a"}, {"model": "b"}])


def test_an_empty_list_of_values_is_refused():
    with pytest.raises(SweepRefusedError, match=r"num_gpus=\[\]: an empty axis"):
        cells(params={"num_gpus": []})


def test_a_strategy_and_one_of_its_axes_are_refused_together():
    with pytest.raises(
        SweepRefusedError,
        match="strategy with all_reduce: a strategy sets variable_update, local_parameter_device, all_reduce",
    ):
        cells("strategy=ps_cpu,ps_gpu", "all_reduce=pscpu")


def test_each_cell_is_made_once_with_each_variant_and_variants_win():
    variants = [{}, {"num_gpus": 1}, {"data": "synthetic", "data.dir": None}]
    assert cells("num_gpus=8", "model=a,b", variants=variants) == [
        ("num_gpus=8", "model=a"),
        ("model=a", "num_gpus=1"),
        ("num_gpus=8", "model=a", "data=synthetic", "data.dir=null"),
        ("num_gpus=8", "model=b"),
        ("model=b", "num_gpus=1"),
        ("num_gpus=8", "model=b", "data=synthetic", "data.dir=null"),
    ]


def test_variants_that_make_equal_cells_make_one():
    assert cells("num_gpus=2,4", variants=[{"num_gpus": 1}]) == [("num_gpus=1",)]


def test_a_variants_strategy_replaces_its_parts_and_its_parts_a_strategy():
    assert cells(
        "variable_update=replicated", "all_reduce=none", variants=[{"strategy": "independent"}]
    ) == [("strategy=independent",)]
    assert cells("strategy=ps_cpu", variants=[{"variable_update": "replicated"}]) == [
        ("variable_update=replicated",)
    ]


def test_a_variant_has_one_value_per_axis():
    with pytest.raises(
        SweepRefusedError,
        match=r"hydra\.sweeper\.variants: num_gpus=1,2: one value per axis; give each a variant",
    ):
        cells("model=a", variants=[{"num_gpus": [1, 2]}])


def test_variants_count_as_cells():
    with pytest.raises(SweepRefusedError, match="a grid of 120,000 cells"):
        cells("seed=range(0,60000)", variants=[{}, {"num_gpus": 1}])


def test_a_cell_is_named_by_its_axes_alone():
    cells = expand(["engine=command", "command.run=x", "sweep.budget=inf"])
    assert text_of(cells[0]) == ""
    (cell,) = expand(["num_gpus=2", "+axes.tp=4", "store.url=x"])
    assert text_of(cell) == "num_gpus=2 +axes.tp=4"
