"""The answer to one question: what to take, what speaks against it, and the next step."""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from operator import attrgetter

from analysis import again
from analysis.advise.questions import Question, described, names, questions, ways
from analysis.advise.ranking import Behind, Ranking, rank
from analysis.again import (
    command,
    divides_batch,
    is_worth_again,
    repeated,
    with_num_gpus,
    with_way,
)
from analysis.judgement import contradiction, more_repeats
from analysis.known_boxes import num_gpus_there
from analysis.results import Result, setting
from analysis.screen import NextStep
from analysis.selection import Source
from analysis.titles import number
from scalemark.abilities import ALL_REDUCES, VARIABLE_UPDATES, in_your_code
from scalemark.cli.terminal import UNPRINTED
from scalemark.records.axes import number_of
from scalemark.records.machine import DeviceKind
from scalemark.records.overrides import ID_DIGITS, key_of
from scalemark.records.references import Origin
from scalemark.records.trial import STRATEGY_AXES, STRATEGY_COLUMNS, STRATEGY_NAMES, TrialSpec
from scalemark.text.wording import as_typed, counted, listed, shortened
from store.reading.earlier import Durations, recorded_durations_s
from store.reading.sweeps import NotRun

MOST = 8
REPEATS = 3  # of what is new, or a single run
_MOST_PAIRS = 3
_BETWEEN_OVERRIDES = re.compile(r" (?=\+?[\w.]+=)")


@dataclass(frozen=True, slots=True, kw_only=True)
class NextTrial:
    """A suggestion: what to run, and what it could change."""

    why: str
    commands: tuple[str, ...]
    num_attempts: int  # that are not there yet
    # of devices, all attempts together; None of simulated ones, and where nothing that does as much
    # work has been timed here
    gpu_seconds: float | None

    @property
    def sort_key(self) -> float:
        """The cost, by which the cheapest comes first."""
        if self.gpu_seconds is None:
            return math.inf
        return self.gpu_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """Trials to run, each with as many repeats as it shall have in the end."""

    why: str
    trials: tuple[tuple[TrialSpec, int], ...]
    like: TrialSpec  # takes about as long


def next_trials(
    question: Question, ranking: Ranking | None, durations: Durations, source: Source
) -> list[NextTrial]:
    """Suggest trials, the cheapest first and last what takes unknown time; none for figures of
    others, and none that the sweeps of these results left out.
    """
    if question.is_of_others or ranking is None:
        return []
    wanted: list[_Wanted] = []
    for behind in ranking.rivals:
        if _can_be_distinguished(ranking, behind) and len(wanted) < _MOST_PAIRS:
            wanted.append(_separating(ranking, behind))
    # what was not run, however it would end
    pick = ranking.pick.result
    tried = {result.trial_id for result in question.choices}
    suggested = [*_cells(question, ranking), *_untried_ways(question, pick)]
    left_out = _left_out(question, source)
    for why, spec in (*suggested, *_more_gpus(question, ranking)):
        if spec.trial_id not in tried and not any(_is_of(cell, spec) for cell in left_out):
            wanted.append(_Wanted(why=why, trials=((spec, REPEATS),), like=pick.spec))
    unproven = ranking.unproven
    is_all = ranking.is_sure and not wanted  # nothing else is worth a trial
    if is_all and unproven is not None and _can_be_distinguished(ranking, unproven):
        wanted.append(_separating(ranking, unproven))
    distinct: dict[object, _Wanted] = {}
    for each in wanted:
        distinct.setdefault(each.trials, each)
    suggestions = [_priced(each, question, durations) for each in distinct.values()]
    return sorted(suggestions, key=attrgetter("sort_key"))[:MOST]


def _left_out(question: Question, source: Source) -> list[str]:
    """Return the overrides of the cells that the sweeps of a question left out."""
    ids = [attempt_id for result in question.choices for attempt_id in result.attempt_ids]
    names = {source.attempts[attempt_id]["sweep"] for attempt_id in ids}
    cells = []
    for sweep in source.sweeps:
        if sweep["name"] in names:
            cells += [str(cell["overrides"]) for cell in sweep["left_out"]]
    return cells


def _is_of(overrides: str, spec: TrialSpec) -> bool:
    """Return whether a trial has the values of these overrides."""
    axes: dict[str, object] = {**spec.axes, "strategy": spec.strategy}
    for override in _BETWEEN_OVERRIDES.split(overrides):
        text, value = override.partition("=")[2].strip("'\""), as_typed(axes.get(key_of(override)))
        number = number_of(text)
        if text != value and (number is None or number != number_of(value)):
            return False
    return True


def _priced(wanted: _Wanted, question: Question, durations: Durations) -> NextTrial:
    """Count the attempts that are not there yet, and the seconds of devices that they take."""
    have = {result.trial_id: len(result.repeats) for result in question.choices}
    num_attempts, seconds, is_known = 0, 0.0, True
    commands = []
    for spec, repeats in wanted.trials:
        missing = max(0, repeats - have.get(spec.trial_id, 0))
        expected_s = durations.expected_s(spec) or durations.expected_s(wanted.like)
        num_attempts += missing
        seconds += (expected_s or 0.0) * missing * spec.num_gpus
        is_known &= expected_s is not None
        commands.append(command(spec, question.choices, *repeated(repeats)))
    return NextTrial(
        why=wanted.why,
        commands=tuple(commands),
        num_attempts=num_attempts,
        gpu_seconds=seconds if is_known and num_attempts else None,
    )


def cost_text(question: Question, trial: NextTrial) -> str:
    """Return as `3 attempts, about 41.3 GPU-seconds`."""
    attempts = counted(trial.num_attempts, "attempt")
    is_of_gpus = question.environment.device_kind is DeviceKind.GPU
    if trial.gpu_seconds is None or not is_of_gpus:
        return attempts
    return f"{attempts}, about {number(trial.gpu_seconds)} GPU-seconds"


def _can_be_distinguished(ranking: Ranking, behind: Behind) -> bool:
    """Return whether a number of repeats that is worth it may tell the two apart."""
    top, other = ranking.top.scores, behind.candidate.scores
    if min(len(top), len(other)) < 2:
        return True
    # More repeats would not mend those that contradict each other.
    if contradiction(top) or contradiction(other):
        return False
    return more_repeats(top, other) is not None


def _separating(ranking: Ranking, behind: Behind) -> _Wanted:
    """Suggest the planned repeats of both; where one is a single run, the first repeats of it."""
    best, rival = ranking.top, behind.candidate
    more = 0
    if min(len(best.scores), len(rival.scores)) > 1:
        more = more_repeats(best.scores, rival.scores, behind.level) or 2
    trials = []
    for candidate in (best, rival):
        lacking = max(more, REPEATS - len(candidate.scores))
        if lacking > 0:
            trials.append((candidate.result.spec, len(candidate.result.repeats) + lacking))
    second = described(rival.result, against=best.result, is_cell=True)
    why = f"repeat the best and {second}, {behind.share:.1%} apart"
    if len(trials) == 1:
        why = f"repeat {second}, {behind.share:.1%} behind the best"
        if trials[0][0] == best.result.spec:
            why = f"repeat the best, {behind.share:.1%} ahead of {second}"
    return _Wanted(why=why, trials=tuple(trials), like=best.result.spec)


def _cells(question: Question, ranking: Ranking) -> Iterator[tuple[str, TrialSpec]]:
    """Yield missing cells of strategy and GPUs in the pick's setting that might win.

    They might if they scaled ideally from what their like reach.
    """
    pick, choices = ranking.pick.result, question.choices
    own_setting = setting(pick)
    alike = [result for result in choices if setting(result) == own_setting]
    widths = {(result.num_gpus, result.hosts) for result in choices}
    for num_gpus, hosts in sorted(widths, key=lambda width: (-width[0], width[1])):
        examples = {}
        for result in choices:
            if hosts == 1 or result.hosts > 1:
                examples[result.strategy] = result
        for strategy, example in examples.items():
            own = [result for result in alike if result.strategy == strategy]
            can_run = divides_batch(pick.spec, num_gpus)
            if can_run and _may_win(ranking, own or alike, num_gpus):
                way = {axis: example.axes.get(axis) for axis in example.strategy_axes}
                spec = with_way(replace(with_num_gpus(pick.spec, num_gpus), hosts=hosts), way)
                where = question.environment.counted(num_gpus, hosts)
                yield f"{strategy} on {where} was not run, and might win", spec


def _may_win(ranking: Ranking, alike: Sequence[Result], num_gpus: int) -> bool:
    """Return whether it would with the most that its like reach per GPU."""
    per_gpu = max((result.throughput or 0.0) / result.num_gpus for result in alike)
    return per_gpu * num_gpus > ranking.top.score


def _untried_ways(question: Question, pick: Result) -> Iterator[tuple[str, TrialSpec]]:
    """Yield strategies that were not tried: of a program values of one axis that others ran with,
    and nothing beside the pick's other values.
    """
    tried = {result.strategy for result in question.choices}
    if pick.is_of_program:
        for axis, result in product(pick.strategy_axes, question.choices):
            spec = with_way(pick.spec, {axis: result.axes.get(axis)})
            if result.axes.get(axis) is not None and spec.strategy not in tried:
                yield f"{spec.strategy} was not tried at all", spec
        return
    if pick.num_gpus == 1:
        return
    is_cpu = pick.environment.device_kind is DeviceKind.CPU_DEVICE
    for values, name in (STRATEGY_COLUMNS if pick.hosts == 1 else STRATEGY_NAMES).items():
        if name in tried or (is_cpu and ALL_REDUCES[values[-1]].gpu_only):
            continue
        # over hosts, those that one client drives; others are there to be compared with
        update = VARIABLE_UPDATES[values[0]]
        if pick.hosts == 1 or (update.is_distributed and not update.every_worker_trains):
            way = dict(zip(STRATEGY_AXES, values, strict=True))
            yield f"{name} was not tried at all", with_way(pick.spec, way)


def _more_gpus(question: Question, ranking: Ranking) -> Iterator[tuple[str, TrialSpec]]:
    pick = ranking.pick.result
    if pick.counts_steps:
        return
    most = max(result.num_gpus for result in question.choices)
    each = num_gpus_there(pick.environment)
    num_machines = 1 if pick.is_on_one_machine else pick.hosts
    more = min(2 * most, each * num_machines)
    is_wider = pick.num_gpus == most and more > most and divides_batch(pick.spec, more)
    if is_wider and _may_win(ranking, [pick], more):
        why = f"the machine has {counted(each, 'GPU')}: does it scale on?"
        yield why, with_num_gpus(pick.spec, more)


_MOST_NAMED = 3
_ENOUGH = 2 * REPEATS  # repeats that contradict each other: more of them would, too


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """The advice for one question."""

    question: Question
    # how sure it is that the pick is the best; unknown of published figures
    certainty: str | None = None
    ranking: Ranking | None = None  # None: there is nothing to judge
    command: str = ""  # the pick's command line, ready to paste, where it is of a program
    in_your_code: str = ""  # else what comes nearest to its strategy in a program of one's own
    doubts: tuple[str, ...] = ()
    next_trials: tuple[NextTrial, ...] = ()
    # the command that says what holds the pick back, or without a number what the first attempt
    # said; empty without one
    explain: str = field(default="", metadata=UNPRINTED)

    @property
    def pick(self) -> Result | None:
        """The choice that is advised."""
        if self.ranking:
            return self.ranking.pick.result
        return None


def recommend(
    source: Source, *, wanted: Callable[[Result], bool] | None = None
) -> list[Recommendation]:
    """Answer for each environment and work, never across.

    `wanted` tells which results an answer must be about, one at least; all without it.

    Raises StoreError where nothing was found.
    """

    @cache
    def durations(machine: str) -> Durations:
        return Durations(recorded_durations_s(source.engine, machine))

    def of_machine(question: Question) -> Durations:
        for result in question.choices:
            if result.attempt_ids and not question.environment.is_simulated:
                return durations(str(source.attempts[result.attempt_ids[0]]["machine"]))
        return Durations()

    asked = questions(source.results)
    if wanted is not None:
        # all that was asked for may train replicas apart
        asked = [question for question in asked if any(map(wanted, question.choices))] or asked
    return [_answer(question, source, of_machine) for question in asked]


def _answer(
    question: Question,
    source: Source,
    durations: Callable[[Question], Durations],
) -> Recommendation:
    show = source.selection.show_command
    ranking = rank(question.able)
    answer = Recommendation(
        question=question,
        ranking=ranking,
        doubts=(*_doubts(ranking, show), *_without_number(question, show)),
        next_trials=tuple(next_trials(question, ranking, durations(question), source)),
    )
    if ranking is None:
        failed = [attempt for result in question.choices for attempt in result.attempt_ids]
        return replace(answer, explain=f"{show} {min(failed)}" if failed else "")
    pick = ranking.pick.result
    certainty, code, explain = None, "", ""
    if len(ranking.standings) > 1 and not question.is_published:
        certainty = ranking.certainty
    update, *others = [str(pick.axes.get(axis, "")) for axis in STRATEGY_AXES]
    if update in VARIABLE_UPDATES and not pick.is_of_program:
        code = in_your_code(update, *others)
    origin = source.selection.origin
    # else what ran is not known, or nothing takes its steps apart
    if not question.is_of_program and origin is not Origin.ELSEWHERE:
        is_told = origin is not Origin.MEASURED
        trial = pick.trial_id[:ID_DIGITS]
        explain = source.selection.analysis("explain", "--trial", trial, names_origin=is_told)
    return replace(
        answer,
        certainty=certainty,
        command=again.filled_command(pick),
        in_your_code=code,
        explain=explain,
    )


def _doubts(ranking: Ranking | None, show: str) -> Iterator[str]:
    """Yield a sentence for each doubt about the pick, and about what might be as good."""
    if ranking is None:
        return
    contenders = [ranking.pick.result, ranking.top.result]
    for behind in (*ranking.tied, *ranking.rivals):
        contenders.append(behind.candidate.result)
    distinct = {result.trial_id: result for result in contenders}
    for result in distinct.values():
        groups = contradiction(result.repeats)
        if result.is_suspect:
            doubted = result.attempt_with(result.doubts[0])
            see = f"; see {show} {doubted}" if doubted else ""
            yield f"The number of {described(result)} is suspect: {result.doubts[0]}{see}."
        elif not result.is_valid:
            yield f"The source of {described(result)} doubts the number."
        if groups:
            name = described(result)
            see = f"; see {show} {result.quotable[-1]['attempt_id']}" if result.quotable else ""
            yield f"Repeats of {name} contradict each other ({groups.words(result.unit)}){see}."


def _without_number(question: Question, show: str) -> Iterator[str]:
    """Yield what was tried, and cannot be judged."""
    without = [result for result in question.choices if result.throughput is None]
    if without:
        ended = ways([result.outcome for result in without])
        attempts = without[-1].attempt_ids
        see = f"; see {show} {attempts[-1]}" if attempts else ""
        choices = counted(len(question.choices), "choice")
        yield f"{len(without)} of {choices} brought no number, and cannot be judged ({ended}){see}."
    if question.apart:
        yield (
            f"Left out: {len(question.apart)} with variable_update independent, "
            "whose replicas train a model each and not one together."
        )


def next_step(answers: Sequence[Recommendation], left: NotRun | None = None) -> NextStep | None:
    """Return what is `left` of the sweep, else the trials that most cheaply could change an answer,
    else what explains the first.
    """
    if left is not None and not left.is_running:
        which = f"the {left.num_trials} of {counted(left.num_asked_for, 'trial')}"
        if left.num_trials == left.num_asked_for:
            which = f"all {counted(left.num_asked_for, 'trial')}"
        why = f"run {which} that sweep {left.sweep} has left"
        return NextStep(why=why, commands=(left.command,))
    prefixes = [""] * len(answers)
    if len(answers) > 1:
        prefixes = [f"{name}: " for name in names_of(answers)]
    named = list(zip(prefixes, answers, strict=True))
    if all(answer.ranking is None for answer in answers):
        for answer in answers:
            if answer.explain:
                return NextStep(why="see what the first said", commands=(answer.explain,))
        return None
    for prefix, answer in named:
        # nothing else is worth a trial before
        if answer.pick is not None and is_worth_again(answer.pick, answer.question.able):
            why = f"measure {prefix}{described(answer.pick)} again, for it is one suspect run"
            return NextStep(why=why, commands=(again.rerun_command(answer.pick, REPEATS),))
    # the first of each is its cheapest
    trials = [(prefix, answer) for prefix, answer in named if answer.next_trials]
    if trials:
        prefix, answer = min(trials, key=lambda entry: entry[1].next_trials[0].sort_key)
        trial = answer.next_trials[0]
        cost = cost_text(answer.question, trial)
        return NextStep(why=f"{prefix}{trial.why}", commands=trial.commands, cost=cost)
    for prefix, answer in named:
        step = _without_trials(answer)
        if step is not None:
            return replace(step, why=f"{prefix}{step.why}")
    return None


def names_of(answers: Sequence[Recommendation]) -> list[str]:
    """Name the question of each."""
    asked = [answer.question for answer in answers]
    works = [{**question.work, "item": question.item} for question in asked]
    return names(works, [question.environment for question in asked])


def _without_trials(answer: Recommendation) -> NextStep | None:
    """Return what to do where no trial is worth running."""
    ranking, question = answer.ranking, answer.question
    if ranking is None:
        return None
    if ranking.rivals:
        return _unclear(question, ranking)
    if answer.explain:
        return NextStep(why="where its time goes", commands=(answer.explain,))
    result = ranking.pick.result
    if not question.is_of_others:
        return None
    if len(result.repeats) == 1:
        why = f"measure {described(result)} again, {REPEATS} times; there is one run of it"
        return NextStep(why=why)
    if result.num_gpus < max(other.num_gpus for other in question.able):
        return None
    more = result.environment.counted(2 * result.num_gpus, result.hosts)
    return NextStep(why=f"measure {result.strategy} on {more} as well, to see whether more pay")


def _unclear(question: Question, ranking: Ranking) -> NextStep:
    """Say what would tell choices apart where no sweep of ours is worth it, or can be made."""
    rivals = [ranking.top, *(behind.candidate for behind in ranking.rivals)]
    others = [described(rival.result, against=ranking.top.result) for rival in rivals[1:]]
    shown = listed([described(ranking.top.result), *shortened(others, _MOST_NAMED)])
    if not question.environment.origin.is_ours:
        least = min(len(rival.scores) for rival in rivals)
        num = REPEATS if least < REPEATS else 2 * least
        why = f"measure {shown} again, with the program that measured them, {num} times each"
        return NextStep(why=why)
    camps = [rival for rival in rivals if contradiction(rival.scores)]
    if camps and len(camps[0].scores) < _ENOUGH:
        result = camps[0].result
        why = (
            f"measure {described(result)} again while nothing else runs, for its repeats "
            "contradict each other"
        )
        command = again.rerun_command(result, max(REPEATS, len(result.repeats)))
        return NextStep(why=why, commands=(command,))
    return NextStep(why=f"take any of them, {shown}; more repeats would hardly tell them apart")
