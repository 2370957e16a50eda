"""The questions that results answer, and choices in words."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from analysis.results import (
    Environment,
    Result,
    by_item,
    setting,
    timed_outside,
    with_number,
)
from analysis.titles import named
from scalemark.cli.terminal import UNPRINTED
from scalemark.records.measurement import Outcome
from scalemark.records.overrides import OF_PRECISION
from scalemark.records.references import Origin
from scalemark.records.trial import unusual_axes, work_axes


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
        return with_number(self.choices)

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
    for result in timed_outside(results):
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
                further = {}
                if len(by_width) > 1:
                    further["num_gpus"] = num_gpus
                asked.append(_question(of_width, further))
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


def names(works: Sequence[Mapping[str, object]], environments: Sequence[Environment]) -> list[str]:
    """Name each work by its model and by what tells it from others of that model: axes, but for
    those that follow from a precision, and where it ran.
    """
    alike: dict[object, list[int]] = defaultdict(list)
    for place, work in enumerate(works):
        alike[work.get("model", "the model")].append(place)
    named_works = [""] * len(works)
    for model, places in alike.items():
        apart = axes_apart([works[place] for place in places])
        there = {environments[place] for place in places}
        num_hosts = len({environment.host for environment in there})
        for place in places:
            work, environment = works[place], environments[place]
            said = [named(axis, work[axis]) for axis in apart if axis in work]
            name = f"{model} {', '.join(said)}".rstrip()
            if len(there) > 1:
                name += f" @{environment.host}"
                if num_hosts != len(there):
                    name += f" {environment.key}"
            named_works[place] = name
    return named_works


def axes_apart(settings: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the axes in which settings differ, but for those that follow from another of them."""
    axes: dict[str, None] = {}
    for each in settings:
        axes |= dict.fromkeys(each)
    apart = []
    for axis in axes:
        if len({str(each.get(axis)) for each in settings}) > 1:
            apart.append(axis)
    following = set()
    for axis, followers in _FOLLOWERS.items():
        for follower in followers:
            pairs = {(str(each.get(axis)), str(each.get(follower))) for each in settings}
            if axis in apart and len(pairs) == len({first for first, _ in pairs}):
                following.add(follower)
    return [axis for axis in apart if axis not in following]


_FOLLOWERS = {"precision": OF_PRECISION, "model": ("learning_rate",)}


def _work(result: Result) -> dict[str, object]:
    axes, origin = work_axes(result.axes), result.environment.origin
    unsaid: tuple[object, ...] = ()
    if result.is_of_program:
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


_NAMED_APART = (
    *("precision", "scaling", "data_dir", "distortions", "optimizer", "hosts", "injected"),
    "model_digest",
)
_UNSAID = (None, "")  # of a program, or of a table that was taken in
_ENDED = {
    Outcome.OUT_OF_MEMORY: "ran out of memory",
    Outcome.TIMED_OUT: "timed out",
    Outcome.UNSUPPORTED: "cannot run here",
}


def ways(outcomes: Sequence[str]) -> str:
    """Count outcomes, as `2 ran out of memory, 1 failed`."""
    words = []
    for outcome, num in Counter(outcomes).most_common():
        words.append(f"{num} {_ENDED.get(Outcome(outcome), outcome)}")
    return ", ".join(words)


def column_heading(result: Result) -> str:
    """Return the heading over `described(..., is_cell=True)`."""
    return f"choice, on N {result.environment.devices}"


def cells(results: Sequence[Result], against: Result) -> list[str]:
    """Describe each for a cell, and add to what looks the same the axes in which it differs."""
    texts = [described(result, against=against, is_cell=True) for result in results]
    settings = list(map(setting, results))
    alike: dict[str, list[Mapping[str, object]]] = defaultdict(list)
    for text, own in zip(texts, settings, strict=True):
        alike[text].append(own)
    different = {text: axes_apart(of) for text, of in alike.items()}
    told_apart = []
    for text, own in zip(texts, settings, strict=True):
        said = [named(axis, value) for axis, value in own.items() if axis in different[text]]
        told_apart.append(", ".join([text, *said]))
    return told_apart


def described(result: Result, *, against: Result | None = None, is_cell: bool = False) -> str:
    """Return as `replicated_nccl on 8 GPUs, batch_size 64, fp16`.

    With `against` another choice, name only what differs beside strategy and GPUs, but not what
    another precision brings along. A cell below `column_heading` has the number of devices alone.
    """
    axes, other_axes = result.axes, {} if against is None else against.axes
    where = result.width if is_cell else result.counted
    said = [f"{result.strategy} on {where}"]
    left_out = {*result.strategy_axes, *_NAMED_APART} - {"precision"}
    if against is not None and axes.get("precision") != other_axes.get("precision"):
        left_out.update(OF_PRECISION)
    unsaid: tuple[object, ...] = ()
    if result.environment.origin is not Origin.PUBLISHED:
        unsaid = _UNSAID
    # what is unusual about the other is usual here
    shown = ["batch_size", "precision", *unusual_axes(axes), *unusual_axes(other_axes)]
    for axis in dict.fromkeys(shown):
        if axis in left_out or axis not in axes:
            continue
        if against is None:
            is_said = axes[axis] not in unsaid
        else:
            is_said = axes[axis] != other_axes.get(axis)
        if is_said:
            said.append(named(axis, axes[axis]))
    if against is None:
        return ", ".join(said)
    is_one_way = (result.strategy, result.width) == (against.strategy, against.width)
    if is_one_way and len(said) == 1:  # they differ in what is rarely said, as their effort
        others = setting(against)
        for axis, value in setting(result).items():
            if others.get(axis) != value:
                said.append(named(axis, value))
    return ", ".join(said)
