"""The cheapest trials that could change an answer: more repeats, missing cells, neighbors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from analysis.advise.description import described, told_apart
from analysis.advise.evidence import Facts
from analysis.advise.questions import Aim, Question
from analysis.advise.ranking import Behind, Ranking
from analysis.again import command, repeated
from analysis.neighbors import with_batch, with_hosts, with_num_gpus, with_strategy, with_way
from analysis.predict.expected import Expected, expected
from analysis.results import Result, setting
from analysis.statistics.contradictions import contradiction
from analysis.statistics.planning import plan, repeats_to_tell
from analysis.statistics.sample import Sample
from analysis.statistics.studentized_range import pair_level
from analysis.text.numbers import number
from scalemark.abilities import ALL_REDUCES, PRECISIONS, VARIABLE_UPDATES, half_precision, names
from scalemark.host.own_code import typed
from scalemark.models import trainable
from scalemark.records.axes import AxisValue
from scalemark.records.machine import DeviceKind
from scalemark.records.outcomes import Outcome
from scalemark.records.trial import AXES, STRATEGY_COLUMNS, STRATEGY_NAMES, TrialSpec
from scalemark.text.wording import counted

MOST = 8
REPEATS = 3  # of what is new, or a single run
LEAST_CHANCE = 0.1  # to win, by prediction: less is not worth a trial
_MOST_SAID = 0.99  # the highest chance that a sentence names
_MOST_PAIRS = 3
_MOST_MORE = 10  # repeats of each side, for what is as good as the best anyway
# compute capability from which on GPUs calculate with half precision faster than with single,
_HALVES = (6, 0)
_BUT_FOR = (6, 1)  # where it is a 64th as fast (Tesla P40, GeForce GTX 10 series)


@dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    """A suggestion: what to run, and what it could change."""

    why: str
    commands: tuple[str, ...]
    num_attempts: int  # that are not there yet
    # of devices, all attempts together; None where nothing like it has been timed here
    gpu_seconds: float | None
    chance: float = 0.5  # to change the answer; a half where it is not predicted
    badges: tuple[str, ...] = ()  # of the prediction


def next_trials(
    question: Question, ranking: Ranking | None, aim: Aim, facts: Facts, *, predicts: bool
) -> list[Next]:
    """Suggest trials, none for figures of others; first what changes the answer most likely for the
    time that it takes, and last what takes unknown time.

    With `predicts` untried trials are predicted, which takes a second, and those without a chance
    to win are left out.
    """
    if question.is_of_others or not question.choices:
        return []
    asked = _Asked(question=question, aim=aim, facts=facts)
    if ranking is None:
        found = list(_mended(asked))
    else:
        found = [*_repeats(asked, ranking), *_untried(asked, ranking, predicts)]
        found = found or list(_proving(asked, ranking))
    distinct: dict[tuple[str, ...], Next] = {}
    for one in found:
        distinct.setdefault(one.commands, one)
    return sorted(distinct.values(), key=cost)[:MOST]


def cost(one: Next) -> tuple[float, float]:
    """Return the seconds of devices until the answer may be expected to change, for sorting."""
    seconds = math.inf if one.gpu_seconds is None else one.gpu_seconds
    return seconds / one.chance, -one.chance


def cost_text(question: Question, one: Next) -> str:
    """Return as `3 attempts, about 41.3 GPU-seconds`."""
    attempts = counted(one.num_attempts, "attempt")
    if one.gpu_seconds is None:
        return f"{attempts}; how long they take was never recorded here"
    if question.environment.is_simulated:
        return f"{attempts}, simulated in a moment"
    devices = question.environment.devices.removesuffix("s")
    return f"{attempts}, about {number(one.gpu_seconds)} {devices}-seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    question: Question
    aim: Aim
    facts: Facts

    def to_run(self, why: str, wanted: Iterable[tuple[TrialSpec, int]], like: TrialSpec) -> Next:
        """Suggest trials, each with as many repeats as it shall have in the end."""
        have = {result.trial_id: len(result.repeats) for result in self.question.choices}
        durations = self.facts.durations(self.question.environment)
        commands, num_attempts, seconds, is_known = [], 0, 0.0, True
        for spec, repeats in wanted:
            missing = max(0, repeats - have.get(spec.trial_id, 0))
            expected_s = durations.expected_s(spec) or durations.expected_s(like)
            commands.append(command(spec, self.question.choices, *repeated(repeats)))
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
        """Return whether it was run, however it ended."""
        trial_id = spec.trial_id  # a digest, which takes its time
        return any(result.trial_id == trial_id for result in self.question.choices)


def _repeats(asked: _Asked, ranking: Ranking) -> Iterator[Next]:
    """Suggest repeats of what cannot be distinguished from the best."""
    worth_it = [one for one in ranking.unclear if _can_be_distinguished(ranking, one)]
    for behind in worth_it[:_MOST_PAIRS]:
        yield _separating(asked, ranking, behind)
    for behind in ranking.tied[:_MOST_PAIRS]:
        more = _more_repeats(ranking, behind)
        if more is not None and 0 < more <= _MOST_MORE:
            yield _separating(asked, ranking, behind)


def _proving(asked: _Asked, ranking: Ranking) -> Iterator[Next]:
    """Suggest repeats that prove the likely best to be it, where nothing else is worth a trial."""
    behind = ranking.unproven
    if ranking.is_sure and behind is not None and _can_be_distinguished(ranking, behind):
        yield _separating(asked, ranking, behind)


def _can_be_distinguished(ranking: Ranking, behind: Behind) -> bool:
    """Return whether a number of repeats that is worth it may tell the two apart."""
    top, other = Sample.of(ranking.top.scores), Sample.of(behind.candidate.scores)
    if min(top.num_processes, other.num_processes) < 2:
        return True
    # More repeats would not mend those that contradict each other.
    if contradiction(top) or contradiction(other):
        return False
    return plan(top, other).more is not None


def _more_repeats(ranking: Ranking, behind: Behind) -> int | None:
    """Plan the repeats of each side that separate them by the ranking's own judgement."""
    if not _can_be_distinguished(ranking, behind):
        return None
    top, other = ranking.top.scores, behind.candidate.scores
    nums = len(top), len(other)
    if not behind.freedom:
        level = pair_level(behind.num_compared, sum(nums) - 2)
        return plan(Sample.of(top), Sample.of(other), level).more
    distance = math.log(behind.ratio)
    return repeats_to_tell(nums, distance, behind.variance, behind.freedom, behind.num_compared)


def _separating(asked: _Asked, ranking: Ranking, behind: Behind) -> Next:
    """Suggest the planned repeats of both; where one is a single run, the first repeats of it."""
    both = (ranking.top, behind.candidate)
    more = 0
    if min(len(one.scores) for one in both) > 1:
        more = _more_repeats(ranking, behind) or 2
    wanted = []
    for one in both:
        lacking = max(more, REPEATS - len(one.scores))
        if lacking > 0:
            wanted.append((one.result.spec, len(one.result.repeats) + lacking))
    results = [one.result for one in both]
    names = told_apart([described(one) for one in results], results)
    how_far = "level so far" if behind.is_level else f"{behind.share:.1%} behind"
    why = f"tells {names[0]} from {names[1]} ({how_far})"
    return asked.to_run(why, wanted, ranking.top.result.spec)


def _untried(asked: _Asked, ranking: Ranking, predicts: bool) -> Iterator[Next]:
    """Suggest what was not run, but for what has hardly a chance by prediction."""
    proposed = (*_cells(asked, ranking), *_near(asked, ranking))
    found = [(why, spec) for why, spec in proposed if not asked.is_tried(spec)]
    predicted = expected(asked.question.able, [spec for _, spec in found]) if predicts else {}
    like = ranking.pick.result.spec
    for why, spec in found:
        chance = None
        badges: tuple[str, ...] = ()
        if one := predicted.get(spec.trial_id):
            chance = one.chance(_needed(asked, ranking, spec.num_gpus), ranking.top.result)
            if chance < LEAST_CHANCE:
                continue
            badges = one.badges
            why = f"{why}; {one.text}{chance_in_words(chance, one)}"
        suggested = asked.to_run(why, [(spec, REPEATS)], like)
        if chance is not None:
            suggested = replace(suggested, chance=chance, badges=badges)
        yield suggested


def chance_in_words(chance: float, one: Expected) -> str:
    """Return no chance of an uncertain prediction, whose interval it would rest on."""
    if one.is_doubted:
        return ""
    shown = f"over {_MOST_SAID:.0%}" if chance > _MOST_SAID else f"{chance:.0%}"
    return f", a chance of {shown} to win"


def _needed(asked: _Asked, ranking: Ranking, num_gpus: int) -> float:
    """Return the throughput that reaches the score of the best."""
    return ranking.top.score / asked.aim.score(1.0, num_gpus)


def _cells(asked: _Asked, ranking: Ranking) -> Iterator[tuple[str, TrialSpec]]:
    """Yield missing cells of strategy and GPUs in the pick's setting that might win.

    They might if they scaled ideally from what their like reach.
    """
    pick, choices = ranking.pick.result, asked.question.choices
    alike = [one for one in choices if setting(one) == setting(pick)]
    widths = {(one.num_gpus, one.hosts) for one in choices}
    for num_gpus, hosts in sorted(widths, key=lambda width: (-width[0], width[1])):
        for strategy, way in _strategies(choices, hosts).items():
            spec = with_way(with_hosts(with_num_gpus(pick.spec, num_gpus), hosts), way)
            own = [one for one in alike if one.strategy == strategy]
            if _may_win(asked, ranking, own or alike, num_gpus):
                where = asked.question.environment.counted(num_gpus, hosts)
                yield f"{strategy} on {where} was not run, and might win", spec


def _strategies(choices: Sequence[Result], hosts: int) -> dict[str, dict[str, AxisValue | None]]:
    """Return the strategies of the choices that are known to go over so many hosts."""
    able = [one for one in choices if hosts == 1 or one.hosts > 1]
    return {one.strategy: {axis: one.axes.get(axis) for axis in one.strategy_axes} for one in able}


def _may_win(asked: _Asked, ranking: Ranking, alike: Sequence[Result], num_gpus: int) -> bool:
    """Return whether it would with the most that its like reach per GPU."""
    per_gpu = max((one.throughput or 0.0) / one.num_gpus for one in alike)
    return per_gpu * num_gpus > _needed(asked, ranking, num_gpus)


def _near(asked: _Asked, ranking: Ranking) -> Iterator[tuple[str, TrialSpec]]:
    """Yield trials one step from the pick along an axis."""
    pick = ranking.pick.result
    if pick.is_of_program:
        yield from _untried_combinations(asked, pick)
    else:
        yield from _untried_strategies(asked, pick)
        yield from _halves(asked, pick)
        yield from _compiled(asked, pick)
    yield from _more_gpus(asked, ranking)
    if pick.axes["batch_size"]:
        yield from _larger_batch(asked, pick)


def _untried_strategies(asked: _Asked, pick: Result) -> Iterator[tuple[str, TrialSpec]]:
    if pick.num_gpus == 1:
        return
    tried = {one.strategy for one in asked.question.choices}
    is_cpu = pick.environment.device_kind is DeviceKind.CPU_DEVICE
    for values, name in (STRATEGY_COLUMNS if pick.hosts == 1 else STRATEGY_NAMES).items():
        can_run = not is_cpu or not ALL_REDUCES[values[-1]].gpu_only
        if name not in tried and can_run and (pick.hosts == 1 or _goes_over_hosts(values[0])):
            yield f"{name} was not tried at all", with_strategy(pick.spec, *values)


def _untried_combinations(asked: _Asked, pick: Result) -> Iterator[tuple[str, TrialSpec]]:
    """Yield values of one axis that others ran with, and nothing beside the pick's other values."""
    tried = {one.strategy for one in asked.question.choices}
    for axis in pick.strategy_axes:
        values = dict.fromkeys(one.axes.get(axis) for one in asked.question.choices)
        for value in values:
            spec = with_way(pick.spec, {axis: value})
            if value is not None and spec.strategy not in tried:
                yield f"{spec.strategy} was not tried at all", spec


def _goes_over_hosts(variable_update: str) -> bool:
    """Return whether one client drives it; others are there to be compared with."""
    update = VARIABLE_UPDATES[variable_update]
    return update.is_distributed and not update.every_worker_trains


def _more_gpus(asked: _Asked, ranking: Ranking) -> Iterator[tuple[str, TrialSpec]]:
    pick = ranking.pick.result
    if pick.counts_steps:
        return
    most = max(one.num_gpus for one in asked.question.choices)
    machine = asked.facts.machine(pick.environment)
    each = machine["num_gpus"] if machine else 0
    num_machines = 1 if pick.is_on_one_machine else pick.hosts
    more = min(2 * most, each * num_machines)
    if pick.num_gpus == most and more > most and _may_win(asked, ranking, [pick], more):
        why = f"the machine has {counted(each, 'GPU')}: does it scale on?"
        yield why, with_num_gpus(pick.spec, more)


def _larger_batch(asked: _Asked, pick: Result) -> Iterator[tuple[str, TrialSpec]]:
    """Yield twice the batch, unless one as large has been tried, however it ended."""
    larger = with_batch(pick.spec, 2 * pick.spec.batch_size)
    for one in asked.question.choices:
        is_alike = (one.width, one.strategy) == (pick.width, pick.strategy)
        if is_alike and (one.axes["batch_size"] or 0) >= larger.batch_size:
            return
    use = "uses the device better" if pick.num_gpus == 1 else "hides more of the communication"
    if pick.is_of_program:
        use = "may use the devices better"
    yield f"a larger batch {use}, if it fits and the training allows it", larger


def _halves(asked: _Asked, pick: Result) -> Iterator[tuple[str, TrialSpec]]:
    """Yield half precision where the GPUs gain by it, and none was tried."""
    capability = pick.environment.compute_capability
    tried = {str(one.axes["precision"]) for one in asked.question.choices}
    if capability is None or capability < _HALVES or capability == _BUT_FOR:
        return
    if tried.isdisjoint(("fp16", "bf16")):
        half = half_precision(capability)
        loss_scale = "dynamic" if PRECISIONS[half].is_loss_scaled else "none"
        spec = replace(pick.spec, precision=half, loss_scale=loss_scale, data_format="NHWC")
        yield f"{half} was not tried: it computes faster, and changes the numerics", spec


def _compiled(asked: _Asked, pick: Result) -> Iterator[tuple[str, TrialSpec]]:
    """Yield the pick compiled by XLA, where GPUs measured none so."""
    is_of_gpus = pick.environment.device_kind is DeviceKind.GPU
    if is_of_gpus and all(one.axes["xla"] == "off" for one in asked.question.choices):
        yield "xla=on was not tried: it fuses operations", replace(pick.spec, xla="on")


def _mended(asked: _Asked) -> Iterator[Next]:
    """Suggest what may run where nothing has a number: half the batch, or what was interrupted."""
    choices = asked.question.choices
    for result in choices:
        if result.outcome == Outcome.OUT_OF_MEMORY and result.spec.batch_size > 1:
            spec = with_batch(result.spec, result.spec.batch_size // 2)
            if not asked.is_tried(spec):
                why = f"{described(result)} ran out of memory: half the batch"
                yield asked.to_run(why, [(spec, REPEATS)], result.spec)
    if all(result.outcome == Outcome.INTERRUPTED for result in choices):
        spec = choices[0].spec
        yield asked.to_run("all were interrupted: run them", [(spec, REPEATS)], spec)


def measure_it(question: Question, pick: Result) -> str:
    """Return the command for all numbers of GPUs of the question; empty without such a model.

    Axes that the source does not report, or not in our words, are left to the sweep, as are those
    that it takes as they were.
    """
    model = question.model.rstrip("?")
    if model not in trainable():
        return ""
    precision, _, compiler = str(pick.axes["precision"]).partition("+")
    said = [f"model={model}"]
    if pick.strategy in STRATEGY_COLUMNS.values():
        said.append(f"strategy={pick.strategy}")
    if pick.axes["batch_size"]:
        said.append(f"batch_size={pick.axes['batch_size']}")
    if precision in names("trainer/precisions") and precision != AXES["precision"].given:
        said.append(f"precision={precision}")
    if pick.axes["data"] == "synthetic":  # where real pictures are is for each to say
        said.append("data=synthetic")
    if compiler == "XLA":
        said.append("xla=on")
    counts = sorted({one.num_gpus for one in question.able})
    said.append(f"num_gpus={','.join(map(str, counts))}")
    return " ".join([typed("sweep"), "-m", *said])
