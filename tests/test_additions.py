"""An all-reduce, a variable update, a precision, an optimizer or a launcher is added as one file, and known everywhere."""

import pytest

from tests.conftest import PROJECT
from tests.grown_project import GrownProject

pytestmark = pytest.mark.integration

SIMULATED = ("engine=simulated", "hardware=dgx1_v100")

STAR = '''
"""All send to GPU 0, which sends the sum back."""

from scalemark.abilities import AllReduceAbilities


def sends(traffic, sizes, num_gpus):
    for gpu in range(num_gpus):
        traffic.copy(gpu, 0, sum(sizes), len(sizes))
        traffic.copy(0, gpu, sum(sizes), len(sizes))


ABILITIES = AllReduceAbilities(sends=sends)

from trainer.all_reduces.pscpu import SumOnOneDevice


def create(devices):
    return SumOnOneDevice(devices, devices.replicas[:1])
'''

GOSSIP = '''
"""Replicas agree after they have sent their gradients."""

from scalemark.abilities import Sends, VariableUpdateAbilities

ABILITIES = VariableUpdateAbilities(
    local_parameter_devices=("gpu",),
    all_reduces=("none", "ring"),
    why="neighbors talk",
    sends=Sends.ALL_REDUCE,
)

import tensorflow as tf
'''

FP8 = '''
"""Products of 8 bits."""

from scalemark.abilities import PrecisionAbilities

ABILITIES = PrecisionAbilities(
    policy="mixed_float8",
    compute_type="float8",
    activation_bytes=2,
    tolerance=0.1,
    is_loss_scaled=True,
    gpu_only="it is a way of new GPUs",
    compute_capability=(8, 9),
)
'''

LARS = '''
"""A rate for each layer."""

from scalemark.abilities import OptimizerAbilities

ABILITIES = OptimizerAbilities(has_momentum=True, num_slots=1, learning_rate=0.25)

import tensorflow as tf
'''

QUEUE = """
from dataclasses import dataclass

from scalemark.abilities import LauncherAbilities
from scalemark.abilities import setting


@dataclass
class Settings:
    name: str | None = setting("queue to wait in; null = the shortest", default=None)


ABILITIES = LauncherAbilities(settings=Settings)

from dataclasses import replace
from sweeper.launchers import local


class Launcher(local.Launcher):
    def __init__(self, config, name):
        super().__init__(config, name)
        num = 8 if config.launcher.queue.name else 4
        self.inventory = replace(self.inventory, num_devices=num)
"""
QUEUE_FILES = {
    "sweeper/launchers/queue.py": QUEUE,
    "conf/launcher/queue.yaml": "name: queue\n",
}

COSTS = """
import json
from simulator.costs.box import profile
from simulator.costs.step import costs
from tests.specs import small

def communication_s(**axes):
    values = {"num_gpus": 8, "batch_size": 64, "variable_update": "replicated", "all_reduce": "none"}
    values |= {"model": "vgg16", "image_px": 224, "num_classes": 1001} | axes
    return costs(small(device_kind="simulated_gpu", **values), profile("dgx1_v100"))
"""


# Explanations subtract trials that exchange nothing, whatever their variable update is called.
HERMIT = GOSSIP.replace("Sends.ALL_REDUCE", "Sends.NOTHING")
H100 = (PROJECT / "conf" / "hardware" / "h100_8.yaml").read_text()
ADDED = {
    "trainer/all_reduces/star.py": STAR,
    "trainer/variable_updates/gossip.py": GOSSIP,
    "trainer/variable_updates/hermit.py": HERMIT,
    "trainer/precisions/fp8.py": FP8,
    "conf/hardware/h100_8.yaml": H100.replace("tflops: {", "tflops: { fp8: 1979,", 1),
    "trainer/optimizers/lars.py": LARS,
    **QUEUE_FILES,
}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """One that has all additions."""
    return GrownProject(tmp_path_factory.mktemp("grown") / "project", ADDED)


def test_an_all_reduce_is_one_file(project):
    specs = project.plan(*SIMULATED, "num_gpus=1,8", "all_reduce=star,nccl")
    assert [(one["all_reduce"], one["num_gpus"]) for one in specs] == [
        ("star", 1),
        ("nccl", 1),
        ("star", 8),
        ("nccl", 8),
    ]
    assert "psgpu, ring, star" in project.refused("all_reduce=nova")
    said = project.refused("variable_update=mirrored", "all_reduce=star")
    assert "all_reduce=star: not with variable_update=mirrored, because these are the ways" in said
    found = project.answer(
        COSTS
        + """
from scalemark.abilities import VARIABLE_UPDATES
star, ring = communication_s(all_reduce="star"), communication_s(all_reduce="ring")
within = VARIABLE_UPDATES["distributed_replicated"].all_reduces
print(json.dumps([star.communication_s > ring.communication_s > 0, within]))
"""
    )
    assert found == [True, ["none", "nccl", "hierarchical_copy", "pscpu", "psgpu", "star"]]


def test_a_trial_runs_an_added_all_reduce_and_is_explained(project):
    asked = ("hardware=cpu", "model=trivial", "num_gpus=1,2", "all_reduce=star", "num_steps=3")
    ended = project.sweep(*asked, "min_window_s=0", "image_px=8", "batch_size=2")
    assert ended.returncode == 0, ended.stderr
    ended = project.run("-m", "scalemark", "explain", "all_reduce=star", "num_gpus=2")
    assert ended.returncode == 0, ended.stderr
    assert "replicated_star" in ended.stdout


def test_a_variable_update_is_one_file(project):
    (spec,) = project.plan(*SIMULATED, "num_gpus=4", "variable_update=gossip")
    assert (spec["variable_update"], spec["all_reduce"]) == ("gossip", "none")
    said = project.refused("variable_update=gossip", "all_reduce=nccl")
    assert "because neighbors talk; it takes none, ring" in said
    said = project.refused("variable_update=gossip", "hosts=2", "num_gpus=2")
    assert "variable_update=gossip is of one host" in said
    assert "gossip, hermit, independent" in project.refused("variable_update=gosip")
    found = project.answer(
        COSTS
        + """
gossip = communication_s(variable_update="gossip")
print(json.dumps(gossip == communication_s(variable_update="replicated")))
"""
    )
    assert found is True


def test_what_trains_apart_is_no_ceiling_by_its_name_alone(project):
    found = project.answer(
        """
import json
from scalemark.abilities import trains_apart
print(json.dumps([trains_apart(name) for name in ("hermit", "independent", "replicated")]))
"""
    )
    assert found == [True, True, False]


def test_a_precision_is_one_file(project):
    (spec,) = project.plan("engine=simulated", "hardware=h100_8", "precision=fp8")
    assert (spec["precision"], spec["loss_scale"], spec["data_format"]) == (
        "fp8",
        "dynamic",
        "NHWC",
    )
    said = project.refused("hardware=cpu", "precision=fp8")
    assert "precision=fp8: it is a way of new GPUs; these replicas are CPU" in said
    said = project.refused(*SIMULATED, "precision=fp8")
    assert "precision=fp8: needs compute capability 8.9, found 7.0" in said
    assert "fp16, fp32, fp8, tf32" in project.refused("precision=fp4")
    said = project.refused("engine=simulated", "hardware=h200_8", "precision=fp8")
    assert "precision=fp8: h200_8 does not have it; it has bf16, fp16" in said
    halves = "import json; from simulator.costs.step import activation_bytes; print(json.dumps(activation_bytes('fp8') == 2))"
    assert project.answer(halves) is True


def test_an_optimizer_is_one_file(project):
    (spec,) = project.plan(*SIMULATED, "optimizer=lars")
    assert (spec["optimizer"], spec["momentum"], spec["learning_rate"]) == ("lars", 0.9, 0.25)
    said = project.refused("optimizer=sgd", "momentum=0.5")
    assert "choose one of lars, momentum, rmsprop" in said


def test_a_launcher_is_one_file_and_its_choice(project):
    asked = ("launcher=queue", "hardware=cpu", "num_gpus=8")
    (spec,) = project.plan(*asked, "launcher.queue.name=long")
    assert spec["num_gpus"] == 8
    assert "num_gpus=8" in project.refused(*asked)  # of a queue with 4
    said = project.refused("launcher.queue.name=long")
    assert "launcher=local ignores it; leave it out, or choose launcher=queue" in said
    shown = " ".join(project.run("sweep.py", "--help", "all").stdout.split())
    assert "launcher: local, prefix, queue, ray, slurm, ssh" in shown
    assert "launcher.queue.name=null queue to wait in; null = the shortest" in shown


@pytest.mark.parametrize("path", QUEUE_FILES)
def test_half_a_launcher_is_named_at_the_start(tmp_path, path):
    project = GrownProject(tmp_path / "project", {path: QUEUE_FILES[path]})
    assert (
        "launcher=queue: wanted both sweeper/launchers/queue.py and conf/launcher/queue.yaml, found one of them"
        in project.refused("num_gpus=2")
    )


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        (
            "trainer/all_reduces/star.py",
            STAR.replace("sends=sends", ""),
            "trainer/all_reduces/star.py: its ABILITIES cannot be read, AllReduceAbilities.__init__() missing 1 required keyword-only argument: 'sends'",
        ),
        (
            "trainer/all_reduces/star.py",
            "import tensorflow as tf\n" + STAR,
            "trainer/all_reduces/star.py: declares no ABILITIES; wanted ABILITIES = AllReduceAbilities(...) above its first import",
        ),
        (
            "trainer/variable_updates/gossip.py",
            GOSSIP.replace("    sends=Sends.ALL_REDUCE,\n", ""),
            "trainer/variable_updates/gossip.py: its ABILITIES cannot be read, VariableUpdateAbilities.__init__() missing 1 required keyword-only argument: 'sends'",
        ),
        (
            "trainer/precisions/fp8.py",
            FP8.replace("    activation_bytes=2,\n", ""),
            "missing 1 required keyword-only argument: 'activation_bytes'",
        ),
        (
            "trainer/optimizers/lars.py",
            "import json\n",
            "trainer/optimizers/lars.py: declares no ABILITIES",
        ),
        (
            "sweeper/launchers/slurm.py",
            "from conf.schema import Config\n",
            "sweeper/launchers/slurm.py: declares no ABILITIES; wanted ABILITIES = LauncherAbilities",
        ),
    ],
)
def test_a_file_that_declares_too_little_is_named_at_the_start(tmp_path, path, text, said):
    project = GrownProject(tmp_path / "project", {path: text})
    reads = path.endswith("gossip.py")  # one stands for all: what reads imports the same files
    commands = [["sweep.py", "num_gpus=2"], ["-m", "scalemark", "table"]]
    for command in commands[: 2 if reads else 1]:
        ended = project.run(*command)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert said in ended.stderr
        assert "Traceback" not in ended.stderr
