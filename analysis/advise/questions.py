"""The questions that results answer, and the goals that choices are judged by."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from analysis.results import Environment, Result, by_item
from analysis.text.numbers import number
from analysis.text.titles import named
from scalemark.records.references import Origin
from scalemark.records.trial import PROGRAM_AXES
from store.errors import StoreError

_WORK = (
    *("model", "model_digest", "image_px", "seq_len", "num_classes", "data", "data_dir"),
    *("distortions", "optimizer", "learning_rate", "learning_rate_warm_up", "momentum"),
    *("weight_decay", "injected"),
)
"""Axes that make it other work, or another training; sources report few of them. Of a program it
is all that says what it is, and free axes that are not compared.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Work that can be done in several ways; advice picks one."""

    environment: Environment
    work: Mapping[str, object]
    choices: tuple[Result, ...]  # with numbers or without
    # replicas that do not train one model together: no answer, whatever their throughput
    apart: tuple[Result, ...]

    @property
    def model(self) -> str:
        return str(self.work.get("model", "the model"))

    @property
    def able(self) -> list[Result]:
        """The choices that have a number."""
        return [result for result in self.choices if result.throughput is not None]

    @property
    def unit(self) -> str:
        """The unit of its throughputs, as `images/s`."""
        return self._first.unit

    @property
    def item(self) -> str:
        """Name what is counted, as `images`."""
        return self._first.item

    @property
    def _first(self) -> Result:
        """The first that has a number, else the first: no number, no known item."""
        return (self.able or self.choices or self.apart)[0]

    @property
    def is_of_program(self) -> bool:
        """Say whether it is about a program of the user's own."""
        return any(one.is_of_program for one in self.choices)

    @property
    def is_published(self) -> bool:
        return self.environment.origin is Origin.PUBLISHED

    @property
    def is_of_others(self) -> bool:
        return not self.environment.origin.is_ours


def questions(results: Sequence[Result]) -> list[Question]:
    """Return questions in the order of their first results.

    Where steps are counted each number of GPUs is another question: a step may be other work there.
    """
    grouped: dict[tuple[object, ...], list[Result]] = defaultdict(list)
    for result in results:
        grouped[result.environment.key, *_work(result).values()].append(result)
    found = []
    for group in grouped.values():
        for of_item in by_item(group):
            parts = _comparable(of_item)
            for of in parts:
                work = _work(of[0])
                if len(parts) > 1:
                    work["num_gpus"] = of[0].num_gpus
                found.append(
                    Question(
                        environment=of[0].environment,
                        work=work,
                        choices=tuple(one for one in of if not one.trains_apart),
                        apart=tuple(one for one in of if one.trains_apart),
                    )
                )
    return found


def names(of: Sequence[Question]) -> list[str]:
    """Name each by its model and by what tells it from others of that model: axes of its work, what
    it counts, and where it ran.
    """
    return [_name(one, [other for other in of if other.model == one.model]) for one in of]


def _name(one: Question, alike: Sequence[Question]) -> str:
    axes = dict.fromkeys(axis for other in alike for axis in other.work)
    said = [
        named(axis, one.work[axis]) for axis in axes if axis in one.work and _differ(axis, alike)
    ]
    if len({other.item for other in alike}) > 1:
        said.append(one.item)
    text = f"{one.model} {', '.join(said)}" if said else one.model
    num_hosts = len({other.environment.host for other in alike})
    num_environments = len({other.environment.key for other in alike})
    if num_environments == 1:
        return text
    key = "" if num_hosts == num_environments else f" {one.environment.key}"
    return f"{text} @{one.environment.host}{key}"


def _differ(axis: str, alike: Sequence[Question]) -> bool:
    return len({str(other.work.get(axis)) for other in alike}) > 1


def _comparable(results: list[Result]) -> list[list[Result]]:
    """Return them together, or by their numbers of GPUs where steps are counted."""
    if not any(one.counts_steps for one in results):
        return [results]
    grouped: dict[int, list[Result]] = defaultdict(list)
    for result in results:
        grouped[result.num_gpus].append(result)
    return list(grouped.values())


def _work(result: Result) -> dict[str, object]:
    if result.is_of_program:
        of_strategy = result.strategy_axes
        named = [axis for axis in (*_WORK, *PROGRAM_AXES, *result.free) if axis not in of_strategy]
        return {axis: value for axis in named if (value := result.axes[axis]) not in (None, "")}
    named = list(_WORK)
    if not result.environment.origin.is_ours:
        named += [axis for axis in result.free if axis not in result.named_axes]
    found = {axis: result.axes[axis] for axis in named if axis in result.axes}
    if result.environment.origin is Origin.ELSEWHERE:  # what rows do not say is not said
        found = {axis: value for axis, value in found.items() if value not in ("", "?")}
    return found


_LEAST_USD, _MOST_USD = 1e-6, 1e6  # beyond is a slip of the keyboard


class Goal(StrEnum):
    """The quantity that advice optimizes."""

    THROUGHPUT = "throughput"  # items per second
    PER_GPU_HOUR = "per_gpu_hour"  # items per hour of one GPU
    COST = "cost"  # items per currency unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """A goal with its input."""

    goal: Goal = Goal.THROUGHPUT
    usd_per_gpu_hour: float | None = None

    def __post_init__(self) -> None:
        price = self.usd_per_gpu_hour
        if price is None:
            return
        if not _LEAST_USD <= price <= _MOST_USD:
            raise StoreError(
                f"--usd-per-gpu-hour {price:g}: wanted a number from {_LEAST_USD:g} to "
                f"{_MOST_USD:g}"
            )
        if self.goal is not Goal.COST:
            raise StoreError("--usd-per-gpu-hour is for --goal cost only")

    def scores(self, result: Result) -> tuple[float, ...]:
        """Return the score of each process, without the price, which is the same for all."""
        return tuple(self.score(value, result.num_gpus) for value in result.repeats)

    def score(self, throughput: float, num_gpus: int) -> float:
        return throughput if self.goal is Goal.THROUGHPUT else throughput / num_gpus

    def text(self, score: float, devices: str, items: str) -> str:
        """Return a score in the unit that people use for the goal, with what is counted."""
        if self.goal is Goal.PER_GPU_HOUR:
            return f"{number(3.6e-3 * score)} million {items} per {devices.removesuffix('s')}-hour"
        if self.goal is Goal.COST:
            usd = 1e6 * (self.usd_per_gpu_hour or 0.0) / (3600 * score)
            return f"USD {number(usd)} per million {items}"
        return f"{number(score)} {items}/s"
