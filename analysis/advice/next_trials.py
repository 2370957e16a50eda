"""The cheapest trials that could change an answer: repeats that separate, cells that are missing,
neighbors of the pick.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from analysis.advice.aims import Aim
from analysis.advice.description import described
from analysis.advice.expected import expected
from analysis.advice.facts import Facts
from analysis.advice.more_repeats import more_repeats, why_none
from analysis.advice.questions import Question
from analysis.advice.ranking import Behind, Ranking
from analysis.neighbors import with_batch, with_hosts, with_num_gpus, with_strategy
from analysis.results import Result, setting
from scalemark.abilities import ALL_REDUCES, VARIABLE_UPDATES
from scalemark.records.devices import DeviceKind
from scalemark.records.outcomes import Outcome
from scalemark.records.overrides import command
from scalemark.records.strategies import (
    STRATEGY_AXES,
    STRATEGY_COLUMNS,
    STRATEGY_NAMES,
    strategy_name,
)
from scalemark.records.trial import TrialSpec

MOST = 8
REPEATS = 3  # of what is tried anew, or has one process alone
LEAST_CHANCE = 0.1  # to win, by prediction: less is not worth a trial
_MOST_PAIRS = 3
_MOST_MORE = 10  # repeats of each side, for what is as good as the best anyway
# compute capability from which on GPUs calculate with half precision faster than with single,
_HALVES = 6.0
_BUT_FOR = 6.1  # where it is a 64th as fast (Tesla P40, GeForce GTX 10 series)


@dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    """What to run, and what it could change."""

    why: str
    commands: tuple[str, ...]
    num_attempts: int  # that are not there yet
    # of devices, all attempts together; None where nothing like it has been timed here
    gpu_seconds: float | None


def next_trials(
    question: Question, ranking: Ranking | None, aim: Aim, facts: Facts, *, predicts: bool
) -> list[Next]:
    """Cheapest first; what nobody can tell the cost of comes last. None of published figures: they
    are as they are.

    `predicts`: what was not tried is predicted, and left out where that says it cannot win; takes a
    second.
    """
    if question.is_published or not question.choices:
        return []
    judged_by = Aim() if ranking is not None and ranking.misses else aim
    asked = _Asked(question=question, aim=judged_by, facts=facts)
    found = (
        [*_mended(asked)]
        if ranking is None
        else [*_repeats(asked, ranking), *_untried(asked, ranking, predicts)]
    )
    distinct: dict[tuple[str, ...], Next] = {}
    for one in found:
        distinct.setdefault(one.commands, one)
    return sorted(distinct.values(), key=_cost)[:MOST]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    question: Question
    aim: Aim
    facts: Facts

    def to_run(self, why: str, wanted: Iterable[tuple[TrialSpec, int]], like: TrialSpec) -> Next:
        """`wanted`: trials with as many repeats as they shall have in the end."""
        have = {result.trial_id: len(result.repeats) for result in self.question.choices}
        durations = self.facts.durations(self.question.place)
        commands, num_attempts, seconds, is_known = [], 0, 0.0, True
        for spec, repeats in wanted:
            missing = max(0, repeats - have.get(spec.trial_id, 0))
            expected_s = durations.expected_s(spec) or durations.expected_s(like)
            commands.append(
                f"{command(spec, self.question.place.hardware)} sweep.repeats={repeats}"
            )
            num_attempts += missing
            seconds += (expected_s or 0.0) * missing * spec.num_gpus
            is_known &= expected_s is not None
        return Next(
            why=why,
            commands=tuple(commands),
            num_attempts=num_attempts,
            gpu_seconds=seconds if is_known and num_attempts else None,
        )

    def is_tried(self, spec: TrialSpec) -> bool:
        """Whether it was, however it ended."""
        return any(result.trial_id == spec.trial_id for result in self.question.choices)


def _cost(one: Next) -> tuple[bool, float]:
    return one.gpu_seconds is None, one.gpu_seconds or 0.0


def _repeats(asked: _Asked, ranking: Ranking) -> Iterator[Next]:
    """Of what cannot be told from the best."""
    for behind in [one for one in ranking.unclear if not why_none(ranking, one)][:_MOST_PAIRS]:
        yield _separating(asked, ranking, behind)
    for behind in ranking.tied[:_MOST_PAIRS]:
        more = more_repeats(ranking, behind)
        if more is not None and 0 < more <= _MOST_MORE:
            yield _separating(asked, ranking, behind)


def _separating(asked: _Asked, ranking: Ranking, behind: Behind) -> Next:
    """By as many more of each as are planned; where one is a process alone, by as many of it as
    tell how it spreads.
    """
    both = (ranking.top, behind.candidate)
    more = 0 if min(len(one.scores) for one in both) < 2 else more_repeats(ranking, behind) or 2
    lacking = [(one.result, max(more, REPEATS - len(one.scores))) for one in both]
    wanted = [(result.spec, len(result.repeats) + num) for result, num in lacking if num > 0]
    why = (
        f"tells {described(ranking.top.result)} from {described(behind.candidate.result)} "
        f"({behind.share:.1%} behind)"
    )
    return asked.to_run(why, wanted, ranking.top.result.spec)


def _untried(asked: _Asked, ranking: Ranking, predicts: bool) -> Iterator[Next]:
    """But for what has hardly a chance, as predicted."""
    found = [
        (why, spec)
        for why, spec in (*_cells(asked, ranking), *_near(asked, ranking))
        if not asked.is_tried(spec)
    ]
    predicted = expected(asked.question, [spec for _, spec in found] if predicts else []) or [
        None
    ] * len(found)
    for (why, spec), one in zip(found, predicted, strict=True):
        if one is None:
            yield asked.to_run(why, [(spec, REPEATS)], ranking.pick.result.spec)
        elif (
            chance := one.chance(_needed(asked, ranking, spec.num_gpus), ranking.top.result)
        ) >= LEAST_CHANCE:
            told = f"{why}; {one.text}, a chance of {chance:.0%} to win"
            yield asked.to_run(told, [(spec, REPEATS)], ranking.pick.result.spec)


def _needed(asked: _Asked, ranking: Ranking, num_gpus: int) -> float:
    """Images/s that have the score of the best, and are in time."""
    score_of_one = asked.aim.of(1.0, num_gpus, _watts_per_gpu(asked, ranking))
    return max(ranking.top.score / score_of_one, asked.aim.needed_throughput or 0.0)


def _cells(asked: _Asked, ranking: Ranking) -> Iterator[tuple[str, TrialSpec]]:
    """Of strategies and GPU counts in the pick's setting, those that were not run and might win, if
    they scaled ideally.
    """
    pick = ranking.pick.result
    alike = [one for one in asked.question.choices if setting(one) == setting(pick)]
    choices = asked.question.choices
    for num_gpus, hosts in sorted(
        {(one.num_gpus, one.hosts) for one in choices}, key=lambda of: (-of[0], of[1])
    ):
        for strategy in _strategies(choices, hosts):
            spec = with_strategy(with_hosts(with_num_gpus(pick.spec, num_gpus), hosts), *strategy)
            own = [one for one in alike if one.strategy == strategy_name(*strategy)]
            if _may_win(asked, ranking, own or alike, num_gpus):
                where = asked.question.place.counted(num_gpus, hosts)
                yield (
                    f"{strategy_name(*strategy)} on {where} was not run there, and might win",
                    spec,
                )


def _strategies(choices: Sequence[Result], hosts: int) -> list[tuple[str, ...]]:
    """Those of the choices that can go over so many hosts, as far as the choices tell."""
    able = [one for one in choices if hosts == 1 or one.hosts > 1]
    return list(dict.fromkeys(tuple(str(one.axes[axis]) for axis in STRATEGY_AXES) for one in able))


def _may_win(asked: _Asked, ranking: Ranking, alike: Sequence[Result], num_gpus: int) -> bool:
    """Whether it would with what its like reach per GPU at best."""
    per_gpu = max((one.throughput or 0.0) / one.num_gpus for one in alike)
    return per_gpu * num_gpus > _needed(asked, ranking, num_gpus)


def _watts_per_gpu(asked: _Asked, ranking: Ranking) -> float:
    """Of the pick; told of every choice that energy is the score of, and of no use elsewhere."""
    told = [watts for watts in asked.facts.watts(ranking.pick.result) if watts]
    return sum(told) / len(told) / ranking.pick.result.num_gpus if told else 1.0


def _near(asked: _Asked, ranking: Ranking) -> Iterator[tuple[str, TrialSpec]]:
    """One step from the pick along an axis."""
    pick = ranking.pick.result
    yield from _untried_strategies(asked, pick)
    yield from _more_gpus(asked, ranking)
    yield from _larger_batch(asked, pick)
    yield from _halves(asked, pick)


def _untried_strategies(asked: _Asked, pick: Result) -> Iterator[tuple[str, TrialSpec]]:
    if pick.num_gpus == 1:
        return
    tried = {one.strategy for one in asked.question.choices}
    is_cpu = pick.place.device_kind is DeviceKind.CPU_STAND_IN
    for values, name in (STRATEGY_COLUMNS if pick.hosts == 1 else _over_hosts()).items():
        can_run = not is_cpu or not ALL_REDUCES[values[-1]].gpu_only
        if name not in tried and can_run:
            yield f"{name} was not tried at all", with_strategy(pick.spec, *values)


def _over_hosts() -> dict[tuple[str, str, str], str]:
    """The strategies that one client drives; others are there to be compared with."""
    found = {}
    for axes, name in STRATEGY_NAMES.items():
        update = VARIABLE_UPDATES[axes[0]]
        if update.is_distributed and not update.every_worker_trains:
            found[axes] = name
    return found


def _more_gpus(asked: _Asked, ranking: Ranking) -> Iterator[tuple[str, TrialSpec]]:
    pick = ranking.pick.result
    most = max(one.num_gpus for one in asked.question.choices)
    machine = asked.facts.machine(pick.place)
    each = machine["num_gpus"] if machine else 0
    more = min(2 * most, each * (1 if pick.is_on_one_machine else pick.hosts))
    if pick.num_gpus == most and more > most and _may_win(asked, ranking, [pick], more):
        yield f"the machine has {each} GPUs: does it scale on?", with_num_gpus(pick.spec, more)


def _larger_batch(asked: _Asked, pick: Result) -> Iterator[tuple[str, TrialSpec]]:
    """Unless one as large has been tried, however it ended."""
    larger = with_batch(pick.spec, 2 * pick.spec.batch_size)
    alike = [
        one
        for one in asked.question.choices
        if (one.num_gpus, one.line) == (pick.num_gpus, pick.line)
    ]
    if not any(one.axes["batch_size"] >= larger.batch_size for one in alike):
        use = (
            f"uses the {pick.place.device_kind.singular} better"
            if pick.num_gpus == 1
            else "hides more of the communication"
        )
        yield f"a larger batch {use}, if it fits and the training allows it", larger


def _halves(asked: _Asked, pick: Result) -> Iterator[tuple[str, TrialSpec]]:
    """Where the GPUs gain by half precision, and none was tried."""
    machine = asked.facts.machine(pick.place)
    gpus = machine["gpus"] if machine else []
    tried = {str(one.axes["precision"]) for one in asked.question.choices}
    capability = float(gpus[0]["compute_capability"]) if gpus else 0.0
    if capability >= _HALVES and capability != _BUT_FOR and tried.isdisjoint(("fp16", "bf16")):
        spec = replace(pick.spec, precision="fp16", loss_scale="dynamic")
        yield (
            (
                "fp16 was not tried: it changes the numerics, computes faster, and halves what "
                "activations take"
            ),
            spec,
        )


def _mended(asked: _Asked) -> Iterator[Next]:
    """Nothing has a number: what ran out of memory may run with half the batch."""
    for result in asked.question.choices:
        if result.outcome == Outcome.OUT_OF_MEMORY and result.spec.batch_size > 1:
            spec = with_batch(result.spec, result.spec.batch_size // 2)
            if not asked.is_tried(spec):
                yield asked.to_run(
                    f"{described(result)} ran out of memory: half the batch",
                    [(spec, REPEATS)],
                    result.spec,
                )
    if all(result.outcome == Outcome.INTERRUPTED for result in asked.question.choices):
        yield asked.to_run(
            "all were interrupted: run them",
            [(asked.question.choices[0].spec, REPEATS)],
            asked.question.choices[0].spec,
        )
