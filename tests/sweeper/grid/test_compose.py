"""Our faster composition gives what Hydra's own would."""

import pytest
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hypothesis import example, given, settings
from hypothesis import strategies as st
from omegaconf.errors import OmegaConfBaseException

from conf.schema import register, typed
from hydra_plugins.scalemark import DEFAULTS
from sweeper import SweepRefusedError
from sweeper.grid.compose import Cell, GridChoice, expand, without_hydra
from tests.composing import composing

pytestmark = pytest.mark.integration

FOLLOWING = {
    "batch_size": "${num_gpus}",
    "prefetch": "${data_threads}",
    "weight_decay": "${min_window_s}",
}


DATA = {"name": "digits", "reads_folder": False, "makes_folder": False, "distorts": False}
FILES = [  # group, name, content, package
    ("experiment", "following", FOLLOWING, "_global_"),
    ("model", "linked", {**DEFAULTS, "name": "vgg16", "num_classes": "${seed}"}, None),
    ("data", "overlapping", {"data": DATA, "all_reduce": "ring", "seed": 3}, "_global_"),
    ("data", "nameless", {"reads_folder": False}, None),
    ("data", "listed", {**DATA, "defaults": [{"/experiment@_global_": "following"}]}, None),
]


@pytest.fixture(scope="module")
def composer():
    register()
    store = ConfigStore.instance()
    for group, name, node, package in FILES:
        store.store(group=group, name=name, node=node, package=package)
    with composing("model=vgg16") as (found, _):
        yield found
    for group, name, *_ in FILES:
        del store.repo[group][f"{name}.yaml"]


def cell(*texts: str) -> Cell:
    parsed = OverridesParser.create().parse_overrides(list(texts))
    return tuple(
        GridChoice(text=text, override=override)
        for text, override in zip(texts, parsed, strict=True)
    )


OVERRIDES = [
    "model=resnet50",
    "model=trivial",
    "strategy=ps_cpu",
    "strategy=replicated_pscpu",
    "data=photos",
    "experiment=following",
    "hardware=cpu",
    "num_gpus=1",
    "num_gpus=4",
    "num_gpus=two",
    "num_gpus='8'",
    "num_gpus=null",
    "num_gpus=${hosts}",
    "hosts=2",
    "batch_size=auto",
    "batch_size=16",
    "batch_size=${num_gpus}",
    "batch_size='${oc.select:num_gpus}'",
    "seed='${${store.runs_dir}}'",
    "store.runs_dir=num_gpus",
    "learning_rate=0.5",
    "learning_rate=1e-3",
    "learning_rate=1",
    "all_reduce=psgpu",
    "all_reduce='none'",
    "distortions=true",
    "distortions=auto",
    "image_px=32",
    "image_px=???",
    "data.dir=/tmp/a",
    "data.dir=null",
    "data.dir='a, b = \\'c\\''",
    'data.dir="${.name}"',
    "data_threads=3",
    "prefetch=5",
    "min_window_s=0.5",
    "min_window_s=7",
    "xla=off",
    "xla=on",
    "xla='on'",
    "sweep.exclude=[a,b]",
    "sweep.exclude=[]",
    "store={runs_dir:a}",
    "store={runs_dir:b,url:c.db}",
    "store.runs_dir=d",
    "++store.url=e.db",
    "~experiment",
    "~prefetch",
    "+axes.zero=1",
    "axes.zero=3",
    "+axes.offload='to disk'",
    "+axes.two=[1]",
    "nonsense=1",
    "data.nonsense=1",
    "store.runs_dir.deeper=1",
]


@settings(max_examples=15, deadline=None)
@given(texts=st.lists(st.sampled_from(OVERRIDES), max_size=7))
@example(texts=["experiment=following", "num_gpus=4", "data_threads=3"])
@example(texts=["+axes.zero=1", "+axes.offload='to disk'", "num_gpus=4"])
@example(texts=["+axes.zero=1", "axes.zero=3"])
@example(texts=["+axes.zero=1", "+axes.zero=1"])
@example(texts=["store.runs_dir=d", "store={runs_dir:a}"])
@example(texts=["store={runs_dir:a}", "store.runs_dir=d"])
@example(texts=["num_gpus=1", "batch_size=${num_gpus}", "num_gpus=4"])
@example(texts=["batch_size=16", "experiment=following", "num_gpus=4"])
@example(texts=["store.runs_dir=num_gpus", "num_gpus=4", "seed='${${store.runs_dir}}'"])
@example(texts=["++store.url=e.db", "store.runs_dir=d", "store={url:f.db}"])
@example(texts=["data=photos", "data.dir=/tmp/a", 'data.dir="${.name}"'])
def test_a_cell_is_composed_as_stock_hydra_composes_it(composer, texts):
    try:
        stock = typed(without_hydra(composer._loader.load_sweep_config(composer._base, texts)))
    except (HydraException, OmegaConfBaseException):
        with pytest.raises(SweepRefusedError):
            composer.compose(cell(*texts))
    else:
        assert composer.compose(cell(*texts)) == stock


@pytest.mark.parametrize("experiment", [[], ["experiment=following"]])
def test_cells_of_several_groups_are_composed_as_stock_hydra_composes_them(composer, experiment):
    arguments = [
        *experiment,
        "strategy=ps_cpu,replicated_pscpu",
        "data=synthetic,overlapping,listed",
        "model=resnet50,trivial,linked",
    ]
    for each in expand(arguments):
        texts = [choice.text for choice in each]
        stock = composer._loader.load_sweep_config(composer._base, texts)
        assert composer.compose(each) == typed(without_hydra(stock)), texts


def test_a_value_that_one_of_several_files_lacks_is_missing(composer):
    for texts in ("model=resnet50", "data=digits"), ("model=trivial", "data=digits"):
        composer.compose(cell(*texts))
    with pytest.raises(SweepRefusedError, match=r"^data.name: missing"):
        composer.compose(cell("model=trivial", "data=nameless"))


def test_each_cell_of_a_swept_axis_is_composed_as_stock_hydra_composes_it(composer):
    arguments = [
        "xla=on,off",
        "learning_rate=range(0.5,2)",
        "data.dir='1',null,abc",
        "num_gpus=range(2,3)",
        "batch_size=str(8)",
    ]
    for each in expand(arguments):
        texts = [choice.text for choice in each]
        assert composer.compose(each) == typed(
            without_hydra(composer._loader.load_sweep_config(composer._base, texts))
        )


def test_values_are_set_without_asking_hydra_again(composer):
    composer.compose(cell("model=alexnet", "seed=1"))
    before = len(composer._composed)
    for seed in range(2, 50):
        assert (
            composer.compose(cell("model=alexnet", f"seed={seed}", f"data.dir=/d{seed}")).seed
            == seed
        )
    assert len(composer._composed) == before


def test_composing_a_cell_changes_no_other_cell(composer):
    first = composer.compose(cell("data.dir=/a", "xla=on"))
    second = composer.compose(cell("seed=9"))
    assert (first.data.dir, first.xla.name) == ("/a", "on")
    assert (second.data.dir, second.xla.name) == (None, "off")


WRONG = {
    "model=resnet51": "model=resnet51: no such model; did you mean resnet50[?] Choices: alexnet, ",
    "model=nets/my_model.py": "model=nets/my_model.py: which of its functions[?] wanted model=nets/my_model.py:FUNCTION",
    "strategy=ps_gpus": "did you mean ps_gpu[?]",
    "num_gpu=2": "num_gpu: no such axis; did you mean num_gpus[?]",
    "+foo=1": r"foo: no such axis; .*command= gives takes axes of your own, as [+]axes\.foo=",
    "+axis.foo=1": r"command= gives takes axes of your own, as [+]axes\.foo=VALUE,VALUE",
    "data.dri=/x": "data.dri: data has no setting dri; did you mean dir[?]",
    "+axes.a.b=1": r"axes.a\.b: wanted a name of lower-case letters, digits and _",
    "all_reduce=nclc": "all_reduce=nclc: no such value; did you mean nccl[?] Choices: auto, collective, hierarchical_copy, nccl, none",
    "model=resnet34": "add conf/model/resnet34.yaml, or take another: did you mean resnet50[?] Choices: alexnet, ",
    "num_gpus=two": "num_gpus=two: wanted a whole number",
    "num_gpus=": "num_gpus=: wanted a whole number",
    "num_gpus=null": "num_gpus",
    "num_gpus=???": "num_gpus: missing; give it a value",
    "batch_size=1.5": "batch_size=1.5: wanted a whole number or auto",
    "staged_vars=maybe": "staged_vars=maybe: wanted true or false",
    "sweep.exclude=num_gpus": r"sweep\.exclude=num_gpus: wanted a list, as sweep\.exclude=\[a,b\]",
    "batch_size=${num_gpu}": "num_gpu",
}


@pytest.mark.parametrize("override", WRONG)
def test_a_wrong_override_names_itself_and_the_nearest_choice(composer, override):
    with pytest.raises(SweepRefusedError, match=WRONG[override]):
        composer.compose(cell(override))


def test_a_learning_rate_may_be_a_whole_number(composer):
    assert composer.compose(cell("learning_rate=1")).learning_rate == 1
