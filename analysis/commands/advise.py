"""`python -m analysis advise`: which way, on how many GPUs, with which batch and precision, and how
sure that is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console

from analysis.advice.aims import Aim, Goal
from analysis.advice.answer import Answer, answers
from analysis.advice.description import described
from analysis.advice.next_trials import Next
from analysis.advice.ranking import Behind, Candidate, Ranking
from analysis.advice.text import heading, sentences
from analysis.options import Filters, OriginOption, SourceOption, Sweep
from analysis.results import Origin
from analysis.selection import Selection
from analysis.source import Source
from analysis.text.numbers import number, span
from analysis.text.titles import alone_notes, place_notes
from scalemark.cli.terminal import make_console, print_columns, print_json
from scalemark.text.untrusted import visible
from store.command_line import Db, Json

_MOST_ROWS = 12


def advise(
    db: Db,
    filters: Filters = None,
    goal: Annotated[Goal, typer.Option("--goal", help="What is to be best.")] = Goal.THROUGHPUT,
    usd_per_gpu_hour: Annotated[
        float | None, typer.Option(help="Price of a GPU; --goal cost needs it.", show_default=False)
    ] = None,
    images: Annotated[
        float | None,
        typer.Option(help="Of --goal deadline: images to train on.", show_default=False),
    ] = None,
    deadline_h: Annotated[
        float | None, typer.Option(help="Of --goal deadline: hours until then.", show_default=False)
    ] = None,
    sweep: Sweep = None,
    origin: OriginOption = Origin.MEASURED,
    source: SourceOption = None,
    predict: Annotated[
        bool,
        typer.Option(
            help=(
                "Predict what untried trials would reach, and leave out what cannot win: takes "
                "a second."
            )
        ),
    ] = True,
    as_json: Json = False,
) -> None:
    """Which strategy, GPU count, batch and precision to take, how sure that is, and the cheapest
    trials that could change it.
    """
    aim = Aim(
        goal=goal, usd_per_gpu_hour=usd_per_gpu_hour, num_images=images, deadline_h=deadline_h
    )
    chosen = Selection(
        db=db, sweep=sweep, filters=tuple(filters or ()), origin=origin, source=source
    )
    found = answers(Source(selection=chosen), aim, predicts=predict)
    if as_json:
        print_json([_record(one) for one in found])
        return
    console = make_console()
    places = {one.question.place.key for one in found}
    if len(places) > 1:
        _say(
            console,
            (
                f"{len(places)} places (machine and software): an answer for each, and none "
                "across them."
            ),
        )
        console.print()
    for one in found:
        _print(console, one)
    for note in chosen.notes:
        _say(console, note)


def _print(console: Console, one: Answer) -> None:
    _say(console, heading(one), style="bold")
    for note in place_notes(one.question.place):
        _say(console, note, style="dim")
    for sentence in sentences(one):
        _say(console, f"- {sentence}")
    if one.ranking:
        console.print()
        shown = _shown(one, one.ranking)
        rows = [_row(one, one.ranking, candidate, against) for candidate, against in shown]
        print_columns(
            console,
            ("choice", "images/s", "interval", *_headers(one), "against the best", "n"),
            rows,
        )
        if more := len(one.ranking.judged) - len(shown):
            _say(console, f"and {more} more (--json has them)", style="dim")
        for note in alone_notes(candidate.result for candidate in one.ranking.judged):
            _say(console, note, style="dim")
    if one.next_trials:
        console.print()
        _say(console, "Next, cheapest first:")
        for todo in one.next_trials:
            _say(console, f"- {todo.why} ({_cost(one, todo)})")
            for command in todo.commands:
                _say(console, f"    {command}")
    console.print()


def _say(console: Console, text: str, style: str | None = None) -> None:
    console.print(visible(text), style=style, markup=False, soft_wrap=True)


def _headers(one: Answer) -> tuple[str, ...]:
    return (
        ()
        if one.aim.goal is Goal.THROUGHPUT or (one.ranking and one.ranking.misses)
        else (str(one.aim.goal),)
    )


def _shown(one: Answer, ranking: Ranking) -> list[tuple[Candidate, Behind | None]]:
    """Best first, what is taken, and what is the best on other numbers of GPUs."""
    behind = [*ranking.tied, *ranking.unclear, *ranking.out, *ranking.worse]
    ordered: list[tuple[Candidate, Behind | None]] = [
        (ranking.top, None),
        *((b.candidate, b) for b in behind),
    ]
    named = [ranking.pick, *one.fastest, *(candidate for candidate, _ in ordered[:_MOST_ROWS])]
    kept = {id(candidate.result) for candidate in named}
    return [(candidate, against) for candidate, against in ordered if id(candidate.result) in kept]


def _row(one: Answer, ranking: Ranking, candidate: Candidate, against: Behind | None) -> list[str]:
    result, images = candidate.result, candidate.throughput
    place = one.question.place
    taken = "  <- taken" if candidate.result is ranking.pick.result else ""
    return [
        described(result, against=None if against is None else ranking.top.result),
        number(images, exactly=one.question.is_published),
        ""
        if result.low is None or result.high is None
        else f"[{span(result.low, result.high, images)}]",
        *([one.aim.text(candidate.score, place.devices)] if _headers(one) else []),
        ("best" if against is None else _against(ranking, against)) + taken,
        str(len(result.repeats)),
    ]


def _against(ranking: Ranking, behind: Behind) -> str:
    known = (
        ""
        if behind.low is None or behind.high is None
        else f" [{1 / behind.high:.2f}..{1 / behind.low:.2f}]"
    )
    marks = {"≈": ranking.tied, "?": ranking.unclear, "↓": ranking.out}
    mark = next((mark for mark, marked in marks.items() if behind in marked), "")
    return f"{mark}{1 / behind.ratio:.2f}x{known}"


def _cost(one: Answer, todo: Next) -> str:
    if one.question.place.is_simulated and todo.gpu_seconds is not None:
        return f"{todo.num_attempts} attempts, simulated in a moment"
    devices = one.question.place.devices.removesuffix("s")
    if todo.gpu_seconds is None:
        return f"{todo.num_attempts} attempts; how long they take was never recorded here"
    return f"{todo.num_attempts} attempts, about {number(todo.gpu_seconds)} {devices}-seconds"


def _record(one: Answer) -> dict[str, Any]:
    place, ranking = one.question.place, one.ranking
    return {
        "goal": str(one.aim.goal),
        "usd_per_gpu_hour": one.aim.usd_per_gpu_hour,
        "work": dict(one.question.work),
        "origin": str(place.origin),
        "place": place.key,
        "machine": place.machine,
        "versions": place.versions,
        "device_kind": str(place.device_kind),
        "sentences": sentences(one),
        "is_sure": ranking
        and ranking.is_sure
        and not one.question.is_published
        and not _rests_on_one(ranking),
        "is_in_time": ranking and not ranking.misses,
        "pick": ranking and _candidate(ranking.pick),
        "top": ranking and _candidate(ranking.top),
        "tied": [_behind(behind) for behind in ranking.tied] if ranking else [],
        "unclear": [_behind(behind) for behind in ranking.unclear] if ranking else [],
        "out_of_race": [_behind(behind) for behind in ranking.out] if ranking else [],
        "worse": [_behind(behind) for behind in ranking.worse] if ranking else [],
        "bought": [
            {
                "from_num_gpus": bought.fewer.result.num_gpus,
                "to_num_gpus": bought.more.result.num_gpus,
                "from_hosts": bought.fewer.result.hosts,
                "to_hosts": bought.more.result.hosts,
                "gain": bought.gain,
                "gain_low": bought.low,
                "gain_high": bought.high,
                "gpu_hours": bought.gpu_hours,
                "gpu_hours_per_image": bought.per_image,
            }
            for bought in one.bought
        ],
        "pays_up_to_num_gpus": one.stop and one.stop.num_gpus,
        "alternatives": [
            {
                "caveat": other.caveat,
                "ratio": other.ratio,
                "candidate": other.candidate and _candidate(other.candidate),
            }
            for other in one.alternatives
        ],
        "doubts": list(one.doubts),
        "next_trials": [asdict(todo) for todo in one.next_trials],
    }


def _rests_on_one(ranking: Ranking) -> bool:
    return (
        any(behind.low is None for behind in (*ranking.tied, *ranking.worse))
        or len(ranking.top.scores) < 2
    )


def _candidate(one: Candidate) -> dict[str, Any]:
    result = one.result
    axes: Sequence[str] = (
        "batch_size",
        "precision",
        "variable_update",
        "local_parameter_device",
        "all_reduce",
    )
    return {
        "trial_id": result.trial_id,
        "strategy": result.strategy,
        "num_gpus": result.num_gpus,
        "hosts": result.hosts,
        **{axis: result.axes[axis] for axis in axes},
        "throughput": result.throughput,
        "throughput_low": result.low,
        "throughput_high": result.high,
        "score": one.score,
        "num_repeats": len(result.repeats),
        "is_valid": result.is_valid,
    }


def _behind(one: Behind) -> dict[str, Any]:
    return _candidate(one.candidate) | {
        "behind": one.share,
        "behind_low": one.share_low,
        "behind_high": one.share_high,
    }
