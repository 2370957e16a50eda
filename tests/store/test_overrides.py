"""The command that stands beside a result makes the identical trial: proven through the real planning."""

import json
import shlex
import sys
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conf.resolve import TrialRefusedError, resolve
from scalemark.records.machine import DeviceKind
from scalemark.records.overrides import overrides, sweep
from scalemark.records.trial import STRATEGY_NAMES, TrialSpec
from simulator.costs.box import overrides_of, profile
from sweeper.devices.machine import machine_of
from sweeper.grid.compose import expand
from tests.composing import composing
from tests.conftest import PROJECT
from tests.ran import ran
from tests.specs import small

pytestmark = pytest.mark.integration

REAL = (DeviceKind.GPU, DeviceKind.CPU_DEVICE)
ARTICLE = [
    "model=inception3,resnet50,resnet152,alexnet,vgg16",
    "strategy=ps_cpu,ps_gpu,replicated_nccl,replicated_none,replicated_pscpu",
    "num_gpus=1,2,4,8",
]


@pytest.fixture(scope="module")
def planned():
    """Trials of a grid on a machine with many devices, as a sweep plans them; cells that mean nothing left out."""
    with composing() as (composer, loader):

        def plan(arguments: list[str], kind: DeviceKind, num_devices: int = 64) -> list[TrialSpec]:
            found = []
            for cell in expand(arguments, loader):
                try:
                    found.append(
                        resolve(
                            composer.compose(cell),
                            kind,
                            num_devices,
                            (9, 0) if kind is DeviceKind.GPU else None,
                        )
                    )
                except TrialRefusedError:
                    continue
            return found

        yield plan


@pytest.mark.parametrize("kind", REAL)
def test_every_trial_of_the_articles_grid_is_made_again_by_its_overrides(planned, kind):
    specs = planned(ARTICLE, kind)
    assert len(specs) == {DeviceKind.GPU: 100, DeviceKind.CPU_DEVICE: 80}[kind]
    for spec in specs[::7]:  # of each model, strategy and number
        (again,) = planned(overrides(spec, ()), kind)
        assert again == spec, overrides(spec, ())
        assert again.trial_id == spec.trial_id


AXES = {
    "model": ["resnet50", "vgg16", "trivial", "resnet18_cifar"],
    "num_gpus": [1, 2, 4, 24],
    "variable_update": [
        "auto",
        "parameter_server",
        "replicated",
        "independent",
        "mirrored",
        "sharded",
    ],
    "all_reduce": ["auto", "none", "nccl", "pscpu", "psgpu", "hierarchical_copy", "ring"],
    "local_parameter_device": ["auto", "cpu", "gpu"],
    "staged_vars": ["false", "true"],
    "gradient_repacking": [0, 8],
    "compact_gradients": ["false", "true"],
    "precision": ["fp32", "tf32", "fp16", "bf16"],
    "loss_scale": ["auto", "none", "dynamic", "static", 0.1, 1e20, 512],
    "xla": ["off", "on", "auto"],
    "optimizer": ["sgd", "momentum", "rmsprop", "adam"],
    "learning_rate": ["auto", 0.1, 1e-7, 0],
    "momentum": ["auto", 0.95, 0],
    "weight_decay": [4e-5, 0, 1e-12],
    "data": ["synthetic", "photos", "digits"],
    "distortions": ["auto", "true", "false"],
    "data_format": ["auto", "NHWC", "NCHW"],
    "image_px": ["auto", 96, 299],
    "batch_size": ["auto", 48],
    "gradient_accumulation": [1, 3],
    "scaling": ["weak", "strong"],
    "steps_per_execution": [1, 5],
    "cache": ["auto", "true", "false"],
    "data_threads": [0, 4],
    "prefetch": [0, 2],
    "min_warm_up_steps": ["auto", 0, 7],
    "num_steps": ["auto", 33],
    "min_warm_up_s": ["auto", 0, 0.125],
    "min_window_s": ["auto", 1.0, 0, 0.125],
    "profile": ["false", "true"],
    "seed": [1, 0, 2147483647],
}


@given(
    axes=st.dictionaries(st.sampled_from(sorted(AXES)), st.integers(0, 10), max_size=6),
    kind=st.sampled_from(REAL),
)
@settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
)
def test_any_trial_is_made_again_by_its_overrides(planned, axes, kind):
    asked = [f"{axis}={AXES[axis][choice % len(AXES[axis])]}" for axis, choice in axes.items()]
    for spec in planned(asked, kind):
        (again,) = planned(
            overrides(spec, ()), kind, spec.num_gpus if kind is DeviceKind.GPU else 64
        )
        assert again == spec, overrides(spec, ())


def test_overrides_say_what_auto_would_decide_elsewhere():
    reported = overrides(small(), ())
    assert reported[:4] == [
        "model=trivial",
        "num_gpus=1",
        "strategy=replicated_none",
        "hardware=cpu",
    ]
    assert {
        "batch_size=2",
        "image_px=32",
        "learning_rate=0.01",
        "num_steps=4",
        "data_format=NHWC",
        "loss_scale=none",
    } <= set(reported)


def test_the_batch_of_strong_scaling_is_that_of_all_replicas():
    assert "batch_size=8" in overrides(small(num_gpus=4, scaling="strong"), ())
    spec = small(num_gpus=4, scaling="strong", gradient_accumulation=3)
    assert "batch_size=24" in overrides(spec, ())


def test_a_strategy_without_a_name_is_known_from_its_axes():
    reported = overrides(small(all_reduce="psgpu", num_gpus=2), ())
    assert {"variable_update=replicated", "local_parameter_device=gpu", "all_reduce=psgpu"} <= set(
        reported
    )


@pytest.mark.parametrize("name", sorted(STRATEGY_NAMES.values()))
def test_a_command_names_the_strategy_and_the_number_of_hosts(name):
    (update, device, all_reduce), hosts = (
        next(axes for axes, of in STRATEGY_NAMES.items() if of == name),
        2,
    )
    spec = small(
        num_gpus=4,
        hosts=hosts,
        variable_update=update,
        local_parameter_device=device,
        all_reduce=all_reduce,
    )
    reported = overrides(spec, ())
    assert f"strategy={name}" in reported
    assert "hosts=2" in reported
    assert not any(one.startswith(("variable_update=", "hosts=1")) for one in reported)
    assert not any(one.startswith("hosts=") for one in overrides(replace(spec, hosts=1), ()))


def test_more_cpu_devices_than_usual_are_asked_for():
    assert "hardware.num_cpu_devices=24" in overrides(small(num_gpus=24), ())


FOLDERS = [
    "with space, comma=and (more) [x] {y}",
    "it's \"quoted\" \\ and \\'both\\",
    "$HOME `id` ${num_gpus} \\${x} *?! Größe 数据",
    "a\u202eb\x07c\x1b[0m ends with backslash\\",
]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_pasted_command_plans_the_identical_trial(planned, tmp_path, folder):
    """Through a shell and the whole of sweep.py."""
    place = tmp_path / folder
    place.mkdir()
    (first,) = planned(
        ["model=resnet18_cifar", "data=photos", "num_gpus=2", "strategy=ps_cpu"],
        DeviceKind.CPU_DEVICE,
    )
    wanted = replace(first, data_dir=str(place))
    reported = f"{sweep(overrides(wanted, ()))} launcher.share_host=true sweep.repeats=3"
    assert reported.isprintable()
    pasted = reported.replace(
        "scalemark sweep", shlex.join([sys.executable, str(PROJECT / "sweep.py")]), 1
    )
    ended = ran(["bash", "-c", f"{pasted} sweep.dry_run=true sweep.plan_format=json"])
    assert ended.returncode == 0, ended.stderr
    plan = json.loads(ended.stdout)
    assert [(trial["trial"], trial["repeats_to_run"]) for trial in plan["trials"]] == [
        (wanted.trial_id, 3)
    ]


def test_a_simulated_command_has_engine_hardware_and_faults():
    spec = small(device_kind=DeviceKind.SIMULATED_GPU, injected="drift=0.05 noise=0")
    reported = overrides(spec, ("engine=simulated", "hardware=k80_8"))
    assert reported[3:8] == [
        "engine=simulated",
        "hardware=k80_8",
        *("injected.noise=0", "injected.process_noise=0", "injected.drift=0.05"),
    ]
    with pytest.raises(ValueError, match="hardware profile, and it is not given"):
        overrides(spec, ())


@pytest.mark.parametrize(
    "changes",
    [{}, {"tflops": {"fp32": 9.5}, "nvlink_gb_per_s": None, "nvlink_clique": 0, "gpu": "A 'b'"}],
    ids=["as it ships", "changed"],
)
def test_a_pasted_command_plans_the_identical_simulated_trial(changes):
    machine = machine_of(replace(profile("dgx1_p100"), **changes))
    spec = TrialSpec(
        **plan("model=resnet50 num_gpus=2 strategy=ps_cpu engine=simulated hardware=k80_8")[
            "trials"
        ][0]["spec"]
    )
    wanted = replace(spec, injected="drift=1 process_noise=0.005")
    found = plan(
        sweep(overrides(wanted, overrides_of(machine.hardware_profile))).removeprefix(
            "scalemark sweep "
        )
    )
    assert found["machine"] == machine.key
    assert [trial["trial"] for trial in found["trials"]] == [wanted.trial_id]


def plan(arguments: str) -> dict[str, Any]:
    command = f"{shlex.join([sys.executable, str(PROJECT / 'sweep.py')])} {arguments} sweep.dry_run=true sweep.plan_format=json"
    ended = ran(["bash", "-c", command])
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found
