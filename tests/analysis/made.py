"""Results without a database: trials on a made machine, with the images/s of their repeats."""

from analysis.results import BaselineRule, Environment, Gpus, Result, with_baselines
from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import Outcome
from scalemark.records.references import Origin
from scalemark.records.trial import TrialSpec, strategy_name
from tests.over_hosts import WAYS
from tests.specs import small

STRATEGIES = {
    "ps_cpu": {"variable_update": "parameter_server", "local_parameter_device": "cpu"},
    "ps_gpu": {"variable_update": "parameter_server", "local_parameter_device": "gpu"},
    "replicated_nccl": {"all_reduce": "nccl"},
    "replicated_none": {},
    "replicated_pscpu": {"all_reduce": "pscpu"},
    "sharded": {"variable_update": "sharded"},
    **WAYS,
}


def made(
    *trials: tuple[dict[str, object], list[float]],
    gpu: str = "Tesla P100-PCIE-16GB",
    kind: DeviceKind = DeviceKind.GPU,
) -> list[Result]:
    """Of (changes of a small trial, images/s of each repeat); `strategy` stands for its three axes."""
    return with_baselines(
        [_made(dict(changes), repeats, gpu, kind) for changes, repeats in trials], BaselineRule.SAME
    )


def _made(changes: dict[str, object], repeats: list[float], gpu: str, kind: DeviceKind) -> Result:
    chosen = STRATEGIES[str(changes.pop("strategy", "replicated_none"))]
    spec: TrialSpec = small(device_kind=kind, **chosen, **changes)
    names = {name: getattr(spec, name) for name in TrialSpec.__dataclass_fields__}
    strategy = strategy_name(spec.variable_update, spec.local_parameter_device, spec.all_reduce)
    return Result(
        trial_id=spec.trial_id,
        environment=Environment(
            key="here",
            host="testbox",
            machine=f"testbox: 8 x {gpu}",
            versions="TensorFlow 2.21.0",
            device_kind=kind,
            origin=Origin.MEASURED,
            gpus=Gpus(name=gpu, num=8),
        ),
        axes={"strategy": strategy, **names},
        curve=spec.curve,
        attempt_ids=(),
        outcome=Outcome.COMPLETED if repeats else Outcome.OUT_OF_MEMORY,
        repeats=tuple(repeats),
        throughput=sorted(repeats)[len(repeats) // 2] if repeats else None,
        low=None,
        high=None,
        is_on_one_machine=spec.hosts > 1 and kind is DeviceKind.CPU_DEVICE,
    )
