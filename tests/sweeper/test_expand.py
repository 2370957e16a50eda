"""Our faster composition gives what Hydra's own would."""

import pytest
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from hypothesis import given, settings
from hypothesis import strategies as st

from conf.schema import register, typed
from sweeper.errors import SweepRefusedError
from sweeper.expand import Composer, expand
from tests.conf.test_resolve import FOLDER


@pytest.fixture(scope="module")
def composer():
    register()
    with initialize_config_dir(str(FOLDER), version_base="1.3"):
        hydra = GlobalHydra.instance().hydra
        base = hydra.compose_config("config", ["model=vgg16"], run_mode=RunMode.MULTIRUN)
        HydraConfig.instance().set_config(base)
        yield Composer(hydra.config_loader, base)


AXES = {
    "model": ["resnet50", "vgg16", "trivial"],
    "strategy": ["auto", "ps_cpu", "replicated_pscpu"],
    "data": ["synthetic", "photos"],
    "num_gpus": ["1", "4"],
    "batch_size": ["auto", "16"],
    "learning_rate": ["auto", "0.5", "1e-3"],
    "all_reduce": ["none", "psgpu"],
    "distortions": ["true", "auto"],
    "image_px": ["32", "64"],
    "data.dir": ["/tmp/a", "null"],
    "xla": ["off"],
}


@settings(max_examples=25, deadline=None)
@given(choices=st.fixed_dictionaries({}, optional={axis: st.sampled_from(values) for axis, values in AXES.items()}))
def test_a_cell_is_composed_as_stock_hydra_composes_it(composer, choices):
    cell = tuple(f"{axis}={value}" for axis, value in choices.items())
    stock = composer._loader.load_sweep_config(composer._base, list(cell))
    from sweeper.expand import _without_hydra

    assert composer.compose(cell) == typed(_without_hydra(stock))


def test_the_last_axis_runs_fastest():
    assert expand(["model=a,b", "num_gpus=1,2", "seed=3"], {}, 100) == [
        ("model=a", "num_gpus=1", "seed=3"),
        ("model=a", "num_gpus=2", "seed=3"),
        ("model=b", "num_gpus=1", "seed=3"),
        ("model=b", "num_gpus=2", "seed=3"),
    ]


def test_an_argument_wins_over_an_experiments_axis():
    assert expand(["num_gpus=8"], {"num_gpus": "1,2", "model": "a,b"}, 100) == [
        ("model=a", "num_gpus=8"),
        ("model=b", "num_gpus=8"),
    ]


def test_ranges_are_lists():
    assert [cell[0] for cell in expand(["num_gpus=range(1,4)"], {}, 100)] == ["num_gpus=1", "num_gpus=2", "num_gpus=3"]


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("num_gpus=interval(1,4)", "no finite list; write its values out, as in num_gpus=1,2,4"),
        ("sweep.repeats=1,2", "sweep.repeats is one value for the whole sweep"),
        ("launcher.timeout_s=1,2", "one value for the whole sweep"),
        ("nonsense", "nonsense: cannot be read; wanted AXIS=VALUE"),
        ("seed=range(1,1000000000)", "a grid of 101 cells or more, sweep.max_trials=100"),
        ("model.name=../evil", r"model\.name: a fact of the files in conf/model/"),
        ("data.makes_folder=true", r"data\.makes_folder: a fact of the files in conf/data/"),
    ],
)
def test_what_makes_no_grid_is_refused(argument, message):
    with pytest.raises(SweepRefusedError, match=message):
        expand([argument], {}, 100)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model=resnet51", "model=resnet51: no such model; did you mean resnet50[?] Choices: alexnet, "),
        ("strategy=ps_gpus", "did you mean ps_gpu[?]"),
        ("num_gpu=2", "num_gpu: no such axis; did you mean num_gpus[?]"),
        ("+foo=1", "foo: no such axis"),
        ("data.dri=/x", "data.dri: data has no setting dri"),
        ("all_reduce=nclc", "all_reduce=nclc: no such value; did you mean nccl[?] Choices: auto, none, nccl"),
        ("num_gpus=two", "num_gpus=two: wanted a whole number"),
        ("batch_size=1.5", "batch_size=1.5: wanted a whole number or auto"),
        ("staged_vars=maybe", "staged_vars=maybe: wanted true or false"),
    ],
)
def test_a_wrong_override_names_itself_and_the_nearest_choice(composer, override, message):
    with pytest.raises(SweepRefusedError, match=message):
        composer.compose((override,))


def test_a_strategy_and_one_of_its_axes_are_refused_together():
    with pytest.raises(
        SweepRefusedError, match="strategy with all_reduce: a strategy sets variable_update, local_parameter_device, all_reduce"
    ):
        expand(["strategy=ps_cpu,ps_gpu", "all_reduce=pscpu"], {}, 100)


def test_a_learning_rate_may_be_a_whole_number(composer):
    assert composer.compose(("learning_rate=1",)).learning_rate == 1
