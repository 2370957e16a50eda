"""The questions that results answer, and the goals that choices are judged by."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from analysis.results import Environment, Result, by_item
from analysis.titles import named, number
from scalemark.cli.terminal import UNPRINTED
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
    unit: str  # of its throughputs, as `images/s`
    item: str  # what is counted, as `images`
    choices: tuple[Result, ...] = field(metadata=UNPRINTED)  # with numbers or without
    # replicas that do not train one model together: no answer, whatever their throughput
    apart: tuple[Result, ...] = field(metadata=UNPRINTED)

    @property
    def model(self) -> str:
        return str(self.work.get("model", "the model"))

    @property
    def able(self) -> list[Result]:
        """The choices that have a number."""
        return [result for result in self.choices if result.throughput is not None]

    @property
    def is_of_program(self) -> bool:
        """Return whether it is about a program of the user's own."""
        return any(result.is_of_program for result in self.choices)

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
        grouped[result.environment.key, *_work(result).items()].append(result)
    asked = []
    for group in grouped.values():
        for of_item in by_item(group):
            if not any(result.counts_steps for result in of_item):
                asked.append(_question(of_item, {}))
                continue
            by_width: dict[int, list[Result]] = defaultdict(list)
            for result in of_item:
                by_width[result.num_gpus].append(result)
            for num_gpus, of_width in by_width.items():
                is_split = len(by_width) > 1
                asked.append(_question(of_width, {"num_gpus": num_gpus} if is_split else {}))
    return asked


def _question(results: Sequence[Result], further: Mapping[str, object]) -> Question:
    together, apart = [], []
    for result in results:
        if result.trains_apart:
            apart.append(result)
        else:
            together.append(result)
    # the first that has a number, else the first: no number, no known item
    first = (together or apart)[0]
    for result in together:
        if result.throughput is not None:
            first = result
            break
    return Question(
        environment=first.environment,
        work=_work(first) | dict(further),
        unit=first.unit,
        item=first.item,
        choices=tuple(together),
        apart=tuple(apart),
    )


def names(asked: Sequence[Question]) -> list[str]:
    """Name each by its model and by what tells it from others of that model: axes of its work, what
    it counts, and where it ran.
    """
    alike: dict[str, list[Question]] = defaultdict(list)
    for question in asked:
        alike[question.model].append(question)
    return [_name(question, alike[question.model]) for question in asked]


def _name(question: Question, alike: Sequence[Question]) -> str:
    said = []
    for axis in dict.fromkeys(axis for other in alike for axis in other.work):
        differs = len({str(other.work.get(axis)) for other in alike}) > 1
        if axis in question.work and differs:
            said.append(named(axis, question.work[axis]))
    if len({other.item for other in alike}) > 1:
        said.append(question.item)
    text = f"{question.model} {', '.join(said)}" if said else question.model
    num_hosts = len({other.environment.host for other in alike})
    num_environments = len({other.environment.key for other in alike})
    if num_environments == 1:
        return text
    key = "" if num_hosts == num_environments else f" {question.environment.key}"
    return f"{text} @{question.environment.host}{key}"


def _work(result: Result) -> dict[str, object]:
    axes, origin = list(_WORK), result.environment.origin
    unsaid: tuple[object, ...] = ()
    if result.is_of_program:
        axes += [*PROGRAM_AXES, *result.free]
        left_out, unsaid = result.strategy_axes, (None, "")
    else:
        if not origin.is_ours:
            axes += result.free
        left_out = result.named_axes
        if origin is Origin.ELSEWHERE:  # what rows do not say is not said
            unsaid = ("", "?")
    work = {}
    for axis in axes:
        value = result.axes.get(axis)
        if axis in result.axes and axis not in left_out and value not in unsaid:
            work[axis] = value
    return work


_LEAST_USD, _MOST_USD = 1e-6, 1e6  # beyond is a slip of the keyboard


class Goal(StrEnum):
    """The quantity that advice optimizes."""

    THROUGHPUT = "throughput"  # items per second
    PER_GPU_HOUR = "per_gpu_hour"  # items per hour of one GPU
    COST = "cost"  # items per currency unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
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
