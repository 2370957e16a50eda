"""Results without a database, for tests of what is concluded from them."""

import statistics
from dataclasses import asdict, replace

from analysis.explain.ablations import AblationFinder
from analysis.explain.explanations import Explanation, explain_all
from analysis.explain.waterfall import NOTHING, Observed
from analysis.results import Environment, Result
from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import Outcome
from scalemark.records.references import Origin
from scalemark.records.trial import TrialSpec, strategy_name
from scalemark.stats import welch
from tests.specs import small

GPUS = Environment(
    key="gpus",
    host="box",
    machine="box: 8 x Testium GPU",
    versions="scalemark 0.1.0",
    device_kind=DeviceKind.GPU,
    origin=Origin.MEASURED,
)
CPU_DEVICES = replace(GPUS, key="cpus", machine="box: 8 cores", device_kind=DeviceKind.CPU_DEVICE)
ELSEWHERE = replace(GPUS, key="else", host="otherbox")

INDEPENDENT = {"variable_update": "independent"}
PS = {"variable_update": "parameter_server", "local_parameter_device": "cpu"}
PHOTOS = {"data": "photos"}
DISTORTED = {"data": "photos", "distortions": True}
EVEN = (0.995, 1.0, 1.005)  # of three repeats
BATCH = 32


def trial(**changes: object) -> TrialSpec:
    return small(
        **{
            "model": "resnet50",
            "device_kind": DeviceKind.GPU,
            "batch_size": BATCH,
            "data_format": "NCHW",
        }
        | changes
    )


def result(
    milliseconds: float,
    environment: Environment = GPUS,
    factors: tuple[float, ...] = EVEN,
    **changes: object,
) -> Result:
    """A trial whose step takes so long, one repeat per factor."""
    spec = trial(device_kind=environment.device_kind, **changes)
    repeats = tuple(
        1e3 * spec.num_gpus * spec.batch_size / (milliseconds * factor) for factor in factors
    )
    middle = statistics.median(repeats)
    low, high = welch.interval(repeats) if len(repeats) > 1 else (0.99 * middle, 1.01 * middle)
    return Result(
        trial_id=spec.trial_id,
        environment=environment,
        axes=asdict(spec)
        | {
            "strategy": strategy_name(
                spec.variable_update, spec.local_parameter_device, spec.all_reduce
            )
        },
        curve=spec.curve,
        attempt_ids=tuple(range(len(repeats))),
        outcome=Outcome.COMPLETED,
        repeats=repeats,
        throughput=middle,
        low=low,
        high=high,
        is_on_one_machine=spec.hosts > 1 and environment.device_kind is DeviceKind.CPU_DEVICE,
    )


def explained(
    target: Result,
    *others: Result,
    seen: dict[str, Observed] | None = None,
) -> Explanation:
    """`seen`: by trial id what was observed, of all others nothing."""
    finder = AblationFinder([target, *others])
    (one,) = explain_all(
        [target],
        finder,
        lambda result: (seen or {}).get(result.trial_id, NOTHING),
    )
    return one


def finder(
    alone: float,
    independent: float,
    reducing: float,
    reading: float | None = None,
    distorting: float | None = None,
    *,
    num_gpus: int = 8,
    factors: tuple[float, ...] = EVEN,
    environment: Environment = GPUS,
    launching: float = 1.0,
) -> list[Result]:
    """The target first: milliseconds of each ablation, of which calls cost `launching`, and a trivial model that takes nothing."""
    wide = {"num_gpus": num_gpus, "factors": factors, "environment": environment}
    found = [
        result(alone, environment, factors, **INDEPENDENT),
        result(independent, **wide, **INDEPENDENT),
        result(reducing, **wide),
        result(reducing - 0.9 * launching, **wide, steps_per_execution=10),
    ]
    if reading is not None:
        found.append(result(reading, **wide, **PHOTOS))
    if distorting is not None:
        found.append(result(distorting, **wide, **DISTORTED))
    target = found.pop() if len(found) > 4 else found.pop(2)
    return [target, *found, result(0.1, **wide, **INDEPENDENT, model="trivial")]
