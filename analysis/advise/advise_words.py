"""Words of `advise` for people: the answer on one screen, and the details that `--all` adds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from analysis import badges as badges
from analysis.advise.answer import Alternative, Recommendation, next_step
from analysis.advise.description import cells, column_heading, described, unlike
from analysis.advise.evidence import ways
from analysis.advise.next_trials import cost_text
from analysis.advise.questions import Goal, names
from analysis.advise.ranking import Candidate, Ranking
from analysis.options import NextStep, Screen
from analysis.results import setting
from analysis.titles import ITEMS_OF_STEPS, host_notes, named, number, rate_with_interval, title
from scalemark.records.trial import free_names
from scalemark.text.wording import counted, fixed, listed, listed_phrases, shortened
from store.reading.sweeps import NotRun

_MOST_ROWS = 8
_MOST_NAMED = 3
_BEST = {
    Goal.THROUGHPUT: "fastest",
    Goal.PER_GPU_HOUR: "best per GPU-hour",
    Goal.COST: "cheapest",
}
_HOW_SURE = {"surely best": "is", "likely best": "is probably", "unsure": "may be"}
_OF_WAY = ("batch_size", "precision")  # what most often differs beside strategy and GPUs
_Rows = list[tuple[str, ...]]


def screen(answers: Sequence[Recommendation], left: NotRun | None = None) -> Screen:
    """Return one answer with a row for each choice, or several with a row each. `left` is what the
    sweep in question has not run.
    """
    is_said = _are_single_runs(answers)
    if len(answers) == 1:
        columns, rows = _table(answers[0], is_said)
        headline = _headline(answers[0])
    else:
        columns, rows = _table_of_several(answers, is_said)
        headline = _headline_of_several(answers, is_said)
    if left is not None:
        headline += (
            f" The sweep is unfinished: {left.num_trials} of {left.num_asked_for} trials are left."
        )
    used = {badge for row in rows[:_MOST_ROWS] for badge in row[-1].split(", ")}
    for answer in answers:
        used |= set(badges.of_environment(answer.question.environment))
    return Screen(
        headlines=(headline,),
        columns=columns,
        rows=rows,
        most_rows=_MOST_ROWS,
        next_step=next_step(answers, left),
        badges=frozenset(used),
    )


def heading(answer: Recommendation) -> str:
    """Return the work in question, as `resnet50 (image_px 224, synthetic data)`."""
    work = answer.question.work
    shown = ["model", "image_px", "seq_len", "data", *free_names(work)]
    if answer.question.is_of_program:
        shown = ["model", "num_gpus", *free_names(work)]
    elif work.get("model_digest"):
        shown.append("model_digest")
    return title({axis: work[axis] for axis in shown if axis in work}) or "model not reported"


def details(answer: Recommendation, step: NextStep | None) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield sentences, each with commands: what the choice changes, doubts about it, and the trials
    that could change it beside the next step.
    """
    for alternative in answer.alternatives:
        yield _alternative(answer, alternative), ()
    for doubt in answer.doubts:
        yield doubt, ()
    for note in host_notes(answer.question.able):
        yield f"{note[:1].upper()}{note[1:]}.", ()
    if answer.measure_it:
        yield "These are published figures; to measure on your own machine:", (answer.measure_it,)
    for trial in answer.next_trials:
        if step is None or trial.commands != step.commands:
            yield f"{trial.why} ({cost_text(answer.question, trial)}):", trial.commands


def step_notes(answer: Recommendation) -> list[str]:
    """Warn where steps are counted, which may be other work on other numbers of devices."""
    if "num_gpus" not in answer.question.work:
        return []
    devices = answer.question.environment.devices
    return [
        f"counts steps, which may be other work on other numbers of {devices}; to count items, add "
        f"e.g. {ITEMS_OF_STEPS}"
    ]


def _headline(answer: Recommendation) -> str:
    """Say which choice is best and how sure that is, then the doubt that matters most."""
    question, ranking = answer.question, answer.ranking
    goal = answer.objective.goal
    if answer.refusal:
        return f"No advice for {question.model} by --goal {goal}: {answer.refusal}."
    if ranking is None:
        if not question.choices:
            return f"No advice for {question.model}: all that was run trains replicas apart."
        choices = counted(len(question.choices), "choice")
        ended = ways([choice.outcome for choice in question.choices])
        return f"No advice for {question.model}: none of {choices} has a number ({ended})."
    pick = ranking.pick
    rate = f"{_throughput(answer, pick)} {pick.result.unit}"
    if goal is not Goal.THROUGHPUT:
        rate = f"{_score(answer, pick)} at {rate}"
    choice = described(pick.result)
    if len(question.choices) == 1:
        return f"Only one way was tried, {choice}: {rate}.{_doubt(answer, ranking)}"
    prefix = "" if pick.result.strategy == question.model else f"{question.model}: "
    best = _BEST[goal]
    if ranking.level:
        others = [described(other.result, against=pick.result) for other in ranking.level[1:]]
        level = listed_phrases(shortened([choice, *others], _MOST_NAMED))
        return f"{prefix}no choice is {best}: {level} reach {rate} each.{_doubt(answer, ranking)}"
    how_sure = _HOW_SURE[ranking.certainty]
    if question.is_published:
        how_sure = "is"  # no repeats are known
    return f"{prefix}{choice} {how_sure} {best}: {rate}.{_doubt(answer, ranking)}"


def _doubt(answer: Recommendation, ranking: Ranking) -> str:
    """Return the doubt about the best that matters most, as a sentence with what to do."""
    pick, question = ranking.pick, answer.question
    if not pick.result.is_valid:
        if question.is_of_others:
            return " Its source doubts the number."
        return " Its number is suspect."
    if question.is_published:
        return ""
    if ranking.tied:
        return f" It ties with {counted(len(ranking.tied), 'other choice')}."
    unproven = ranking.unclear[0] if ranking.unclear else ranking.unproven
    compared = [pick] if unproven is None else [pick, unproven.candidate]
    are_single = any(len(candidate.scores) < 2 for candidate in compared)
    if question.environment.origin.is_ours and are_single:
        return " Single runs: repeat before deciding."
    if ranking.unclear:
        others = counted(len(ranking.unclear), "other choice")
        return f" {others[:1].upper()}{others[1:]} may be as good."
    if ranking.out:
        return " A race stopped others early, which is no proof that they are slower."
    if unproven is not None:
        return " Few repeats: repeat before deciding."
    return ""


def _headline_of_several(answers: Sequence[Recommendation], are_single: bool) -> str:
    """Say which choice is the best of how many answers."""
    models_of: dict[str, list[str]] = defaultdict(list)
    for answer in answers:
        if answer.ranking:
            result = answer.ranking.pick.result
            words = [f"{result.strategy} on {result.counted}"]
            words += unlike(result, answer.question.able)
            models_of[", ".join(words)].append(answer.question.model)
    if not models_of:
        outcomes = [choice.outcome for answer in answers for choice in answer.question.choices]
        if not outcomes:
            return "No advice: all that was run trains replicas apart."
        return f"No advice: nothing that was tried has a number ({ways(outcomes)})."
    ordered = sorted(models_of.items(), key=lambda item: -len(item[1]))
    bests = [f"{choice} for {_models(models)}" for choice, models in ordered[:_MOST_NAMED]]
    if len(ordered) > _MOST_NAMED:
        bests.append(f"{counted(len(ordered) - _MOST_NAMED, 'other way')} for the others")
    best = _BEST[answers[0].objective.goal]
    text = f"{best[:1].upper()}{best[1:]}: {listed(bests)}."
    return f"{text} Single runs: repeat before deciding." if are_single else text


def _models(models: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(models))
    if len(distinct) > _MOST_NAMED:
        return f"{len(distinct)} models"
    return listed(distinct)


def _are_single_runs(answers: Sequence[Recommendation]) -> bool:
    """Return whether every number is a single run, which the headline then says once."""
    for answer in answers:
        for result in answer.question.able:
            if len(result.repeats) > 1 or not result.environment.origin.is_ours:
                return False
    return True


def _table(answer: Recommendation, is_said: bool) -> tuple[tuple[str, ...], _Rows]:
    """Return a row for each choice, the best first; the last cell has doubts."""
    question, ranking = answer.question, answer.ranking
    if ranking is None:
        if answer.refusal or not question.choices:
            return ("choice", "outcome", "doubts"), []
        ended: _Rows = []
        for choice in question.choices:
            ended.append((described(choice, is_cell=True), choice.ended, ""))
        return (column_heading(question.choices[0]), "outcome", "doubts"), ended
    has_score = answer.objective.goal is not Goal.THROUGHPUT
    scores = (str(answer.objective.goal),) if has_score else ()
    unit = f"{question.unit}{_interval([answer])}"
    columns = (column_heading(ranking.top.result), unit, *scores, "vs best", "doubts")
    texts = cells([candidate.result for candidate in ranking.judged], ranking.top.result)
    rows = []
    for text, (candidate, behind, standing) in zip(texts, ranking.standings, strict=True):
        row = [text, _throughput(answer, candidate)]
        if has_score:
            row.append(_score(answer, candidate))
        row.append("best" if behind is None else f"{fixed(1 / behind.ratio, 2)}x")
        doubts = []
        if candidate is ranking.pick and behind is not None:
            doubts.append("taken")
        if standing not in ("best", "worse"):
            doubts.append(standing)
        row.append(", ".join([*doubts, *_doubts(candidate, is_said)]))
        rows.append(tuple(row))
    return columns, rows


def _doubts(candidate: Candidate, single_runs_are_said: bool) -> list[str]:
    """Return the badges of its number, without those that the headline says of all."""
    doubts = badges.of_result(candidate.result)
    if not single_runs_are_said:
        return doubts
    return [badge for badge in doubts if badge not in ("single run", "noisy")]


def _table_of_several(
    answers: Sequence[Recommendation], is_said: bool
) -> tuple[tuple[str, ...], _Rows]:
    """Return a row for each answer: its best choice, and the next best way."""
    devices = {answer.question.environment.devices for answer in answers}
    units = {answer.question.unit for answer in answers}
    rows: _Rows = []
    questions = names([answer.question for answer in answers])
    for name, answer in zip(questions, answers, strict=True):
        if answer.ranking is None:
            why = "no number" if answer.question.choices else "replicas train apart"
            if answer.refusal:
                why = "cannot be judged by this goal"
            rows.append((name, why, "", "", ""))
            continue
        pick = answer.ranking.pick
        doubts = _doubts(pick, is_said)
        if answer.ranking.unclear and not is_said:
            doubts.insert(0, "unclear")
        throughput = _throughput(answer, pick)
        if len(units) > 1:
            throughput += f" {answer.question.unit}"
        where = str(pick.result.num_gpus) if len(devices) == 1 else pick.result.counted
        best = [f"{pick.result.strategy} on {where}"]
        able = answer.question.able
        for axis in _OF_WAY:
            if len({choice.axes.get(axis) for choice in able}) > 1:
                best.append(named(axis, pick.result.axes[axis]))
        best += unlike(pick.result, able)
        rows.append(
            (name, ", ".join(best), throughput, _other_way(answer.ranking), ", ".join(doubts))
        )
    best_heading = f"best, on N {devices.pop()}" if len(devices) == 1 else "best"
    unit = units.pop() if len(units) == 1 else "throughput"
    return ("model", best_heading, f"{unit}{_interval(answers)}", "other way", "doubts"), rows


def _other_way(ranking: Ranking) -> str:
    """Return the best in another batch, precision or the like, else by another strategy, as
    `fp32 0.73x`; empty without one.
    """
    pick = ranking.pick
    before, rival = setting(pick.result), None
    for other in sorted(ranking.judged, key=lambda candidate: -candidate.score):
        if setting(other.result) != before:
            rival = other
            break
        if rival is None and other.result.strategy != pick.result.strategy:
            rival = other
    if rival is None:
        return ""
    after = setting(rival.result)
    words = [] if rival.result.strategy == pick.result.strategy else [rival.result.strategy]
    axes = [axis for axis in (*_OF_WAY, *after, *before) if before.get(axis) != after.get(axis)]
    shown = [axis for axis in axes if axis in _OF_WAY] or axes[:1]
    words += [named(axis, after.get(axis)) for axis in dict.fromkeys(shown)]
    if rival.result.width != pick.result.width:
        words.append(f"on {rival.result.width}")
    return f"{', '.join(words)}: {fixed(rival.score / pick.score, 2)}x"


def _alternative(answer: Recommendation, alternative: Alternative) -> str:
    caveat = alternative.caveat
    if alternative.candidate is None or answer.ranking is None:
        return f"{caveat}. Nothing that can be advised was tried {alternative.without}."
    best = described(alternative.candidate.result, against=answer.ranking.pick.result)
    return f"{caveat}. The best {alternative.without}: {best}, {alternative.ratio:.2f}x as good."


def _interval(answers: Sequence[Recommendation]) -> str:
    for answer in answers:
        if any(result.low is not None for result in answer.question.able):
            return " [95 % CI]"
    return ""


def _throughput(answer: Recommendation, candidate: Candidate) -> str:
    result = candidate.result
    if answer.question.is_published:
        return number(candidate.throughput, exactly=True)
    return rate_with_interval(candidate.throughput, result.low, result.high)


def _score(answer: Recommendation, candidate: Candidate) -> str:
    question = answer.question
    return answer.objective.text(candidate.score, question.environment.devices, question.item)
