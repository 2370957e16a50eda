"""Suggest the cheapest trials that could change an answer: repeats, missing cells, neighbors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from analysis.advise.description import described, told_apart
from analysis.advise.evidence import Machines
from analysis.advise.questions import Objective, Question
from analysis.advise.ranking import Behind, Ranking
from analysis.again import (
    command,
    repeated,
    with_batch,
    with_hosts,
    with_num_gpus,
    with_strategy,
    with_way,
)
from analysis.results import Result, setting
from analysis.statistics.contradictions import contradiction
from analysis.statistics.planning import more_repeats, repeats_to_tell
from analysis.statistics.sample import Sample
from analysis.statistics.studentized_range import pair_level
from analysis.titles import number
from scalemark.abilities import ALL_REDUCES, PRECISIONS, VARIABLE_UPDATES, half_precision, names
from scalemark.host.own_code import typed
from scalemark.models import trainable
from scalemark.records.machine import DeviceKind
from scalemark.records.outcomes import Outcome
from scalemark.records.trial import AXES, STRATEGY_COLUMNS, STRATEGY_NAMES, TrialSpec
from scalemark.text.wording import counted
from store.reading.earlier import Durations

MOST = 8
REPEATS = 3  # of what is new, or a single run
_MOST_PAIRS = 3
# compute capability from which on GPUs calculate with half precision faster than with single,
_HALVES = (6, 0)
_BUT_FOR = (6, 1)  # where it is a 64th as fast (Tesla P40, GeForce GTX 10 series)


@dataclass(frozen=True, slots=True, kw_only=True)
class NextTrial:
    """A suggestion: what to run, and what it could change."""

    why: str
    commands: tuple[str, ...]
    num_attempts: int  # that are not there yet
    # of devices, all attempts together; None where nothing like it has been timed here
    gpu_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """Trials to run, each with as many repeats as it shall have in the end."""

    why: str
    trials: tuple[tuple[TrialSpec, int], ...]
    like: TrialSpec  # takes about as long


def next_trials(
    question: Question, ranking: Ranking | None, objective: Objective, machines: Machines
) -> list[NextTrial]:
    """Suggest trials, the cheapest first and last what takes unknown time; none for figures of
    others.
    """
    if question.is_of_others or not question.choices:
        return []
    if ranking is None:
        wanted = list(_mended(question))
    else:
        wanted = [*_repeats(ranking), *_untried(question, ranking, objective, machines)]
        wanted = wanted or list(_proving(ranking))
    distinct: dict[object, _Wanted] = {}
    for suggested in wanted:
        distinct.setdefault(suggested.trials, suggested)
    have = {result.trial_id: len(result.repeats) for result in question.choices}
    durations = machines.durations(question.environment)
    costs = [(_cost(suggested, have, durations), suggested) for suggested in distinct.values()]
    costs.sort(key=lambda entry: math.inf if entry[0][1] is None else entry[0][1])
    suggestions = []
    for (num_attempts, gpu_seconds), suggested in costs[:MOST]:
        commands = []
        for spec, repeats in suggested.trials:
            commands.append(command(spec, question.choices, *repeated(repeats)))
        suggestions.append(
            NextTrial(
                why=suggested.why,
                commands=tuple(commands),
                num_attempts=num_attempts,
                gpu_seconds=gpu_seconds,
            )
        )
    return suggestions


def _cost(
    wanted: _Wanted, have: Mapping[str, int], durations: Durations
) -> tuple[int, float | None]:
    """Return the attempts that are not there yet, and the seconds of devices that they take."""
    num_attempts, seconds, is_known = 0, 0.0, True
    for spec, repeats in wanted.trials:
        missing = max(0, repeats - have.get(spec.trial_id, 0))
        expected_s = durations.expected_s(spec) or durations.expected_s(wanted.like)
        num_attempts += missing
        seconds += (expected_s or 0.0) * missing * spec.num_gpus
        is_known &= expected_s is not None
    return num_attempts, seconds if is_known and num_attempts else None


def cost_text(question: Question, trial: NextTrial) -> str:
    """Return as `3 attempts, about 41.3 GPU-seconds`."""
    attempts = counted(trial.num_attempts, "attempt")
    if trial.gpu_seconds is None:
        return f"{attempts}; how long they take was never recorded here"
    if question.environment.is_simulated:
        return f"{attempts}, simulated in a moment"
    devices = question.environment.devices.removesuffix("s")
    return f"{attempts}, about {number(trial.gpu_seconds)} {devices}-seconds"


def _repeats(ranking: Ranking) -> Iterator[_Wanted]:
    """Suggest repeats of what cannot be distinguished from the best."""
    worth_it = [behind for behind in ranking.unclear if _can_be_distinguished(ranking, behind)]
    for behind in worth_it[:_MOST_PAIRS]:
        yield _separating(ranking, behind)


def _proving(ranking: Ranking) -> Iterator[_Wanted]:
    """Suggest repeats that prove the likely best to be it, where nothing else is worth a trial."""
    behind = ranking.unproven
    if ranking.is_sure and behind is not None and _can_be_distinguished(ranking, behind):
        yield _separating(ranking, behind)


def _can_be_distinguished(ranking: Ranking, behind: Behind) -> bool:
    """Return whether a number of repeats that is worth it may tell the two apart."""
    top, other = Sample.of(ranking.top.scores), Sample.of(behind.candidate.scores)
    if min(top.num_processes, other.num_processes) < 2:
        return True
    # More repeats would not mend those that contradict each other.
    if contradiction(top) or contradiction(other):
        return False
    return more_repeats(top, other) is not None


def _more_repeats(ranking: Ranking, behind: Behind) -> int | None:
    """Plan the repeats of each side that separate them by the ranking's own judgement."""
    top, other = ranking.top.scores, behind.candidate.scores
    nums = len(top), len(other)
    if not behind.freedom:
        level = pair_level(behind.num_compared, sum(nums) - 2)
        return more_repeats(Sample.of(top), Sample.of(other), level)
    distance = math.log(behind.ratio)
    return repeats_to_tell(nums, distance, behind.variance, behind.freedom, behind.num_compared)


def _separating(ranking: Ranking, behind: Behind) -> _Wanted:
    """Suggest the planned repeats of both; where one is a single run, the first repeats of it."""
    both = (ranking.top, behind.candidate)
    more = 0
    if min(len(candidate.scores) for candidate in both) > 1:
        more = _more_repeats(ranking, behind) or 2
    trials = []
    for candidate in both:
        lacking = max(more, REPEATS - len(candidate.scores))
        if lacking > 0:
            trials.append((candidate.result.spec, len(candidate.result.repeats) + lacking))
    results = [candidate.result for candidate in both]
    first, other = told_apart([described(result) for result in results], results)
    how_far = "level so far" if behind.is_level else f"{behind.share:.1%} behind"
    why = f"tells {first} from {other} ({how_far})"
    return _Wanted(why=why, trials=tuple(trials), like=ranking.top.result.spec)


def _untried(
    question: Question, ranking: Ranking, objective: Objective, machines: Machines
) -> Iterator[_Wanted]:
    """Suggest what was not run, however it would end: missing cells, and neighbors of the pick."""
    tried = {result.trial_id for result in question.choices}
    like = ranking.pick.result.spec
    for why, spec in (
        *_cells(question, ranking, objective),
        *_near(question, ranking, objective, machines),
    ):
        if spec.trial_id not in tried:
            yield _Wanted(why=why, trials=((spec, REPEATS),), like=like)


def _cells(
    question: Question, ranking: Ranking, objective: Objective
) -> Iterator[tuple[str, TrialSpec]]:
    """Yield missing cells of strategy and GPUs in the pick's setting that might win.

    They might if they scaled ideally from what their like reach.
    """
    pick, choices = ranking.pick.result, question.choices
    own_setting = setting(pick)
    alike = [result for result in choices if setting(result) == own_setting]
    widths = {(result.num_gpus, result.hosts) for result in choices}
    for num_gpus, hosts in sorted(widths, key=lambda width: (-width[0], width[1])):
        ways = {}
        for result in choices:
            if hosts == 1 or result.hosts > 1:
                ways[result.strategy] = result
        for strategy, example in ways.items():
            own = [result for result in alike if result.strategy == strategy]
            if _may_win(ranking, objective, own or alike, num_gpus):
                way = {axis: example.axes.get(axis) for axis in example.strategy_axes}
                spec = with_way(with_hosts(with_num_gpus(pick.spec, num_gpus), hosts), way)
                where = question.environment.counted(num_gpus, hosts)
                yield f"{strategy} on {where} was not run, and might win", spec


def _may_win(
    ranking: Ranking, objective: Objective, alike: Sequence[Result], num_gpus: int
) -> bool:
    """Return whether it would with the most that its like reach per GPU."""
    per_gpu = max((result.throughput or 0.0) / result.num_gpus for result in alike)
    return per_gpu * num_gpus > ranking.top.score / objective.score(1.0, num_gpus)


def _near(
    question: Question, ranking: Ranking, objective: Objective, machines: Machines
) -> Iterator[tuple[str, TrialSpec]]:
    """Yield trials one step from the pick along an axis."""
    pick = ranking.pick.result
    if pick.is_of_program:
        yield from _untried_combinations(question, pick)
    else:
        yield from _untried_strategies(question, pick)
        yield from _halves(question, pick)
        is_of_gpus = pick.environment.device_kind is DeviceKind.GPU
        if is_of_gpus and all(result.axes["xla"] == "off" for result in question.choices):
            yield "xla=on was not tried: it fuses operations", replace(pick.spec, xla="on")
    yield from _more_gpus(question, ranking, objective, machines)
    if pick.axes["batch_size"]:
        yield from _larger_batch(question, pick)


def _untried_strategies(question: Question, pick: Result) -> Iterator[tuple[str, TrialSpec]]:
    if pick.num_gpus == 1:
        return
    tried = {result.strategy for result in question.choices}
    is_cpu = pick.environment.device_kind is DeviceKind.CPU_DEVICE
    for values, name in (STRATEGY_COLUMNS if pick.hosts == 1 else STRATEGY_NAMES).items():
        if name in tried or (is_cpu and ALL_REDUCES[values[-1]].gpu_only):
            continue
        # over hosts, those that one client drives; others are there to be compared with
        update = VARIABLE_UPDATES[values[0]]
        if pick.hosts == 1 or (update.is_distributed and not update.every_worker_trains):
            yield f"{name} was not tried at all", with_strategy(pick.spec, *values)


def _untried_combinations(question: Question, pick: Result) -> Iterator[tuple[str, TrialSpec]]:
    """Yield values of one axis that others ran with, and nothing beside the pick's other values."""
    tried = {result.strategy for result in question.choices}
    for axis in pick.strategy_axes:
        for value in dict.fromkeys(result.axes.get(axis) for result in question.choices):
            spec = with_way(pick.spec, {axis: value})
            if value is not None and spec.strategy not in tried:
                yield f"{spec.strategy} was not tried at all", spec


def _more_gpus(
    question: Question, ranking: Ranking, objective: Objective, machines: Machines
) -> Iterator[tuple[str, TrialSpec]]:
    pick = ranking.pick.result
    if pick.counts_steps:
        return
    most = max(result.num_gpus for result in question.choices)
    machine = machines.of(pick.environment)
    each = machine["num_gpus"] if machine else 0
    num_machines = 1 if pick.is_on_one_machine else pick.hosts
    more = min(2 * most, each * num_machines)
    if pick.num_gpus == most and more > most and _may_win(ranking, objective, [pick], more):
        why = f"the machine has {counted(each, 'GPU')}: does it scale on?"
        yield why, with_num_gpus(pick.spec, more)


def _larger_batch(question: Question, pick: Result) -> Iterator[tuple[str, TrialSpec]]:
    """Yield twice the batch, unless one as large has been tried, however it ended."""
    larger = with_batch(pick.spec, 2 * pick.spec.batch_size)
    for result in question.choices:
        is_alike = (result.width, result.strategy) == (pick.width, pick.strategy)
        if is_alike and (result.axes["batch_size"] or 0) >= larger.batch_size:
            return
    use = "uses the device better" if pick.num_gpus == 1 else "hides more of the communication"
    if pick.is_of_program:
        use = "may use the devices better"
    yield f"a larger batch {use}, if it fits and the training allows it", larger


def _halves(question: Question, pick: Result) -> Iterator[tuple[str, TrialSpec]]:
    """Yield half precision where the GPUs gain by it, and none was tried."""
    capability = pick.environment.compute_capability
    if capability is None or capability < _HALVES or capability == _BUT_FOR:
        return
    tried = {str(result.axes["precision"]) for result in question.choices}
    if tried.isdisjoint(("fp16", "bf16")):
        half = half_precision(capability)
        loss_scale = "dynamic" if PRECISIONS[half].is_loss_scaled else "none"
        spec = replace(pick.spec, precision=half, loss_scale=loss_scale, data_format="NHWC")
        yield f"{half} was not tried: it computes faster, and changes the numerics", spec


def _mended(question: Question) -> Iterator[_Wanted]:
    """Suggest what may run where nothing has a number: half the batch, or what was interrupted."""
    choices = question.choices
    tried = {result.trial_id for result in choices}
    for result in choices:
        if result.outcome == Outcome.OUT_OF_MEMORY and result.spec.batch_size > 1:
            spec = with_batch(result.spec, result.spec.batch_size // 2)
            if spec.trial_id not in tried:
                why = f"{described(result)} ran out of memory: half the batch"
                yield _Wanted(why=why, trials=((spec, REPEATS),), like=result.spec)
    if all(result.outcome == Outcome.INTERRUPTED for result in choices):
        spec = choices[0].spec
        why = "all were interrupted: run them"
        yield _Wanted(why=why, trials=((spec, REPEATS),), like=spec)


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
    counts = sorted({result.num_gpus for result in question.able})
    said.append(f"num_gpus={','.join(map(str, counts))}")
    return " ".join([typed("sweep"), "-m", *said])
