"""`advise`: the best strategy, GPU count, batch and precision; with `--all` the details."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from rich.console import Console

from analysis import badges, options, titles
from analysis.advise.answer import Recommendation, cost_text, names_of, next_step, recommend
from analysis.advise.questions import axes_apart, cells, column_heading, described, ways
from analysis.advise.ranking import Ranking
from analysis.results import Result, setting
from analysis.screen import NextStep, Screen, say, say_command, say_foot, say_table, show
from analysis.titles import has_interval, host_notes, named, number, spread, title
from scalemark.cli.terminal import make_console, print_json
from scalemark.records.trial import free_names
from scalemark.text.wording import counted, fixed, listed
from store.command_line import Db, Filters, Json, OriginOption, Sweep
from store.reading.sweeps import NotRun

_MOST_ROWS = 5
_MOST_NAMED = 3
_HOW_SURE = {"surely best": "is", "likely best": "is probably", "unsure": "may be"}


def screen_of(answers: Sequence[Recommendation], left: NotRun | None = None) -> Screen:
    """Return one answer with a row for each choice, or several with a row each. `left` is what the
    sweep in question has not run.
    """
    if len(answers) == 1:
        columns, rows = _table(answers[0])
        headline, winner = _headline(answers[0]), _to_paste(answers[0])
    else:
        columns, rows = _table_of_several(answers)
        headline, winner = _headline_of_several(answers), None
    for answer in answers:
        # tables show replicas that train apart as faster than the pick
        rates = [result.throughput or 0.0 for result in answer.question.apart]
        if answer.pick is not None and max(rates, default=0.0) > (answer.pick.throughput or 0.0):
            headline += " Left out: independent, whose replicas train a model each."
            break
    if left is not None:
        headline += (
            f" The sweep is unfinished: {left.num_trials} of {left.num_asked_for} trials are left."
        )
    used: set[str] = set()
    for row in rows[:_MOST_ROWS]:
        used.update(row[-1].split(", "))
    for answer in answers:
        if not answer.question.is_of_others:  # a note says where their numbers are from
            used.update(badges.of_environment(answer.question.environment))
    if not any(row[-1] for row in rows):
        columns = columns[:-1]
        rows = [row[:-1] for row in rows]
    return Screen(
        headlines=(headline,),
        columns=columns,
        rows=rows,
        most_rows=_MOST_ROWS,
        winner=winner,
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
    """Yield sentences, each with commands: the pick's command line, doubts, and the trials that
    could change the answer beside the next step.
    """
    to_paste = _to_paste(answer)
    if to_paste is not None:
        yield to_paste
    for doubt in answer.doubts:
        yield doubt, ()
    for note in host_notes(answer.question.able):
        yield f"{note[:1].upper()}{note[1:]}.", ()
    for trial in answer.next_trials:
        if step is None or trial.commands != step.commands:
            yield f"{trial.why} ({cost_text(answer.question, trial)}):", trial.commands


def _to_paste(answer: Recommendation) -> tuple[str, tuple[str, ...]] | None:
    """Return the pick's command line below a heading, or what comes nearest to its strategy in a
    program of one's own; None where there is neither.
    """
    if answer.pick is None:
        return None
    if answer.command:
        ranking = answer.ranking
        is_top = ranking is not None and ranking.pick is ranking.top
        what = "the best" if is_top else described(answer.pick)
        return f"Command line of {what}:", (answer.command,)
    if answer.in_your_code:
        return f"{answer.pick.strategy} in your code: {answer.in_your_code}.", ()
    return None


def _headline(answer: Recommendation) -> str:
    """Say which choice is best and how sure that is, then the doubt that matters most."""
    question, ranking = answer.question, answer.ranking
    if ranking is None:
        if not question.choices:
            apart = "in every trial the replicas trained independently"
            return f"No advice for {question.model}: {apart}."
        num, ended = len(question.choices), ways([choice.outcome for choice in question.choices])
        which = f"none of {num} choices has a" if num > 1 else "its only trial has no"
        return f"No advice for {question.model}: {which} number ({ended})."
    pick = ranking.pick
    rate = f"{_throughput(answer, pick.result)} {pick.result.unit}"
    choice, doubt = described(pick.result), _doubt(answer, ranking)
    if len(question.choices) == 1:
        return f"Only one way was tried, {choice}: {rate}.{doubt}"
    prefix = "" if pick.result.strategy == question.model else f"{question.model}: "
    if ranking.tied and not (doubt or question.is_published):
        others = counted(len(ranking.tied), "other choice")
        return f"{prefix}{choice} ties with {others} for the fastest: {rate}."
    # of published figures no repeats are known
    how_sure = "is" if question.is_published else _HOW_SURE[ranking.certainty]
    return f"{prefix}{choice} {how_sure} fastest: {rate}.{doubt}"


def _doubt(answer: Recommendation, ranking: Ranking) -> str:
    """Return the doubt about the best that matters most, as a sentence with what to do."""
    pick, question = ranking.pick, answer.question
    if pick.result.is_suspect:
        doubt = pick.result.doubts[0]
        if ";" in doubt:  # and says what to do
            return f" {doubt[0].upper()}{doubt[1:]}."
        return f" Repeat before deciding: {doubt}."
    if not pick.result.is_valid:
        return " Its source doubts the number."
    if question.is_published or ranking.tied:
        return ""
    unproven = ranking.rivals[0] if ranking.rivals else ranking.unproven
    compared = [pick]
    if unproven is not None:
        compared.append(unproven.candidate)
    are_single = any(len(candidate.scores) < 2 for candidate in compared)
    if question.environment.origin.is_ours and are_single:
        return badges.repeat_first([candidate.result for candidate in compared])
    if ranking.unclear:
        others = counted(len(ranking.unclear), "other choice")
        return f" {others[:1].upper()}{others[1:]} may be as good."
    if ranking.out:
        return " A race stopped others early, which is no proof that they are slower."
    if unproven is None:
        return ""
    return " Few repeats: repeat before deciding."


def _headline_of_several(answers: Sequence[Recommendation]) -> str:
    """Say which choice is the best of how many answers."""
    models_of: dict[str, dict[str, None]] = defaultdict(dict)
    doubted: dict[str, None] = {}
    works = [answer.question.model for answer in answers]
    if len(set(works)) < len(works):
        works = names_of(answers)
    for work, answer in zip(works, answers, strict=True):
        ranking = answer.ranking
        if ranking is None:
            continue
        way = f"{ranking.pick.result.strategy} on {ranking.pick.result.counted}"
        models_of[way][work] = None
        if not answer.question.is_published and (ranking.tied or not ranking.is_sure):
            doubted[work] = None
    if not models_of:
        outcomes: list[str] = []
        for answer in answers:
            outcomes += [choice.outcome for choice in answer.question.choices]
        if not outcomes:
            return "No advice: in every trial the replicas trained independently."
        return f"No advice: nothing that was tried has a number ({ways(outcomes)})."
    ordered = sorted(models_of.items(), key=lambda item: -len(item[1]))
    bests = []
    for choice, models in ordered[:_MOST_NAMED]:
        bests.append(f"{choice} for {_models(models)}")
    if len(ordered) > _MOST_NAMED:
        bests.append(f"{counted(len(ordered) - _MOST_NAMED, 'other way')} for the others")
    text = f"Fastest: {listed(bests)}."
    if _are_single_runs(answers):
        return text + badges.repeat_first([answer.pick for answer in answers if answer.pick])
    if doubted:
        text += f" Others may be as fast for {_models(doubted)}."
    return text


def _models(names: Collection[str]) -> str:
    return listed([*names]) if len(names) <= _MOST_NAMED else f"{len(names)} models"


def _are_single_runs(answers: Sequence[Recommendation]) -> bool:
    """Return whether every number is a single run, which the headline then says once."""
    for answer in answers:
        for result in answer.question.able:
            if len(result.repeats) != 1 or not result.environment.origin.is_ours:
                return False
    return True


_Table = tuple[tuple[str, ...], list[tuple[str, ...]]]


def _table(answer: Recommendation) -> _Table:
    """Return a row for each choice, the best first; the last cell has badges."""
    question, ranking = answer.question, answer.ranking
    rows: list[tuple[str, ...]] = []
    if ranking is None:
        if not question.choices:
            return ("choice", "outcome", "doubts"), rows
        for choice in question.choices:
            rows.append((described(choice, is_cell=True), choice.ended, ""))
        return (column_heading(question.choices[0]), "outcome", "doubts"), rows
    unit = f"{question.unit}{_interval([answer])}"
    columns = (column_heading(ranking.top.result), unit, "vs best", "doubts")
    said = _said([answer])
    standings = ranking.standings
    texts = cells([candidate.result for candidate, _ in standings], ranking.top.result)
    for text, (candidate, behind) in zip(texts, standings, strict=True):
        row = [text, _throughput(answer, candidate.result)]
        row.append("best" if behind is None else f"{fixed(1 / behind.ratio, 2)}x")
        doubts = _marks(candidate.result, said)
        is_repeated = len(candidate.scores) > 1 and not question.is_published
        is_close = behind is not None and behind not in ranking.worse and not behind.is_noisy
        if is_close and is_repeated:
            doubts.insert(0, "tie")
        rows.append((*row, ", ".join(doubts)))
    return columns, rows


def _table_of_several(answers: Sequence[Recommendation]) -> _Table:
    """Return a row for each answer, with its best choice."""
    devices = {answer.question.environment.devices for answer in answers}
    units = {answer.question.unit for answer in answers}
    said = _said(answers)
    rows: list[tuple[str, ...]] = []
    for name, answer in zip(names_of(answers), answers, strict=True):
        pick = answer.pick
        if pick is None:
            why = "replicas train apart"
            if answer.question.choices:
                why = "no number"
            rows.append((name, why, "", ""))
            continue
        throughput = _throughput(answer, pick)
        if len(units) > 1:
            throughput += f" {answer.question.unit}"
        best = [f"{pick.strategy} on {pick.width if len(devices) == 1 else pick.counted}"]
        own = setting(pick)
        for axis in axes_apart([setting(choice) for choice in answer.question.able]):
            best.append(named(axis, own.get(axis)))
        rows.append((name, ", ".join(best), throughput, ", ".join(_marks(pick, said))))
    best_heading = "best"
    if len(devices) == 1:
        best_heading = f"best, on N {devices.pop()}"
    unit = units.pop() if len(units) == 1 else "throughput"
    return ("model", best_heading, f"{unit}{_interval(answers)}", "doubts"), rows


def _said(answers: Sequence[Recommendation]) -> set[str]:
    """Return the badges that the headline says of all numbers."""
    said = {"single run", "noisy"} if _are_single_runs(answers) else set()
    results = [result for answer in answers for result in answer.question.able]
    if (said or len(answers) == 1) and all(result.was_busy for result in results):
        said.add("machine busy")
    return said


def _marks(result: Result, said: Collection[str]) -> list[str]:
    return [badge for badge in badges.of_result(result) if badge not in said]


def _interval(answers: Sequence[Recommendation]) -> str:
    for answer in answers:
        if has_interval(answer.question.able):
            return " [95 % CI]"
    return ""


def _throughput(answer: Recommendation, result: Result) -> str:
    if answer.question.is_published:
        return number(result.throughput or 0.0, exactly=True)
    rate = result.throughput or 0.0
    return f"{number(rate)} {spread(result.repeats, result.low, result.high, rate)}".rstrip()


def advise(
    db: Db,
    filters: Filters = None,
    sweep: Sweep = None,
    origin: OriginOption = None,
    source: options.SourceOption = None,
    shows_all: options.All = False,
    as_json: Json = False,
) -> None:
    """Recommend a strategy, GPU count, batch and precision, with the cheapest trials that could
    change the answer. Without filters it is about the newest sweep, which it compares
    with trials of the same work in other sweeps.
    """
    read, newest = options.selected(db, filters, sweep, origin, source)
    answers = recommend(read, wanted=newest.has if newest else None)
    judged = [result for answer in answers for result in answer.question.able]
    if newest is not None:
        newest = replace(newest, has_rivals=not all(map(newest.has, judged)))
    asked = newest.source.selection if newest else read.selection
    left = options.what_is_left(db, asked.sweep)
    lacking = ""
    if left is None and any(answer.ranking for answer in answers):  # else the answers say so
        lacking = options.trials_without_number(asked)
    if as_json:
        return print_json({"answers": answers, "not_run": left, "without_number": lacking or None})
    notes = [*read.notes, lacking] if lacking else [*read.notes]
    notes += [*titles.unconfirmed_notes(judged), *titles.step_notes(judged)]
    console = make_console()
    screen = screen_of(answers, left)
    if shows_all:
        if newest is not None:
            say(console, newest.line, "dim")
        return _print_all(console, answers, screen, notes)
    return show(console, screen, newest, notes)


def _print_all(
    console: Console, answers: Sequence[Recommendation], screen: Screen, notes: Sequence[str]
) -> None:
    """Print every answer with its whole table and what stands behind it, then the next step."""
    for answer in answers:
        own = screen if len(answers) == 1 else screen_of([answer])
        say(console, own.headlines[0], "bold")
        say(console, heading(answer), "dim")
        choices = answer.question.choices
        made = titles.made_with(answer.question.environment)
        for note in (made, *titles.program_notes(choices), *titles.reported_notes(choices)):
            say(console, note, "dim")
        say_table(console, own, own.rows)
        console.print()
        for sentence, commands in details(answer, screen.next_step):
            say(console, f"- {sentence}")
            for command in commands:
                say_command(console, command, "    ")
        console.print()
    used = screen.badges | {badge for row in screen.rows for badge in row[-1].split(", ")}
    say_foot(console, screen.next_step, notes, used)
