"""The answers of `compare` in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from analysis import badges
from analysis.compare.pairs import Comparison, PairRow
from analysis.judgement import Decision, Ratio
from analysis.results import Result
from analysis.titles import (
    environment_notes,
    failed_repeats,
    host_notes,
    made_with,
    named,
    number,
    program_notes,
    reported_notes,
    step_notes,
    sweep_notes,
)
from scalemark.host.own_code import typed
from scalemark.records.outcomes import Outcome
from scalemark.records.references import Origin
from scalemark.text.wording import counted

_MOST_LISTED = 5  # trials, before they are counted


def answer(row: PairRow) -> str:
    """Return `A faster`, `tie`, `single run` or another answer of a row."""
    judgement = row.judgement
    if judgement is None:
        return "nothing to compare"
    if row.b.environment.origin is Origin.PUBLISHED:
        return "published"
    if judgement.answer is Decision.DIFFERENT:
        return "B faster" if row.is_turned else "A faster"
    if judgement.answer is Decision.TIE:
        return "tie"
    return "single run" if _is_single(judgement.ratio) else "unclear"


def headline(rows: Sequence[PairRow]) -> str:
    """Return the answer: the sentences of one pair, or how many pairs have which answer."""
    if len(rows) > 1:
        counts = Counter(answer(row) for row in rows).most_common()
        return f"Of {len(rows)} pairs: {', '.join(f'{word} in {count}' for word, count in counts)}."
    (row,) = rows
    text = f"{_start(row)}{sentence(row)}."
    if row.more_repeats and row.judgement is not None:
        if row.judgement.answer is Decision.TIE:
            size = abs(row.judgement.ratio.ratio - 1)
            more = counted(row.more_repeats, "more repeat")
            text += f" {more} of each would show a difference of {size:.1%}."
        elif _is_single(row.judgement.ratio):
            text += " Repeat both before deciding."
    return text


def sentence(row: PairRow) -> str:
    """Return `ps_gpu is 1.31x [1.28, 1.34] as fast as ps_cpu, over 3 repeats each`."""
    judgement, a, b = row.judgement, row.name_a, row.name_b
    if judgement is None:
        return f"nothing to compare: {' and '.join(_without_number(row))}"
    ratio = judgement.ratio
    if row.b.environment.origin is Origin.PUBLISHED:
        return f"{a} is {_fold(ratio.ratio)}x as fast as published by {b}"
    if judgement.answer is Decision.TIE:
        return f"{a} and {b} tie: {_times(ratio)} over {_basis(ratio)}"
    first, second, shown = (b, a, ratio.turned) if row.is_turned else (a, b, ratio)
    words = f"{first} is {_times(shown)} as fast as {second}"
    # a step may hold more work on more GPUs
    if row.a.counts_steps and "num_gpus" in row.compared:
        words = f"{first} does {_times(shown)} the steps/s of {second}"
    if judgement.answer is Decision.DIFFERENT:
        return f"{words}, over {_basis(ratio)}"
    if _is_single(ratio):
        return f"{words} in a single run"
    return f"{words}, which is unclear: {'; '.join(contradictions(row))}"


def contradictions(row: PairRow) -> list[str]:
    """Return how the repeats of its sides contradict each other."""
    camps_of = row.judgement.contradictions if row.judgement else ()
    return [
        f"the repeats of {side} contradict each other: {camps.words}" for side, camps in camps_of
    ]


def fold_with_interval(ratio: Ratio) -> str:
    """Return `0.980 [0.971, 1.043]`; of single runs the ratio alone."""
    if ratio.low is None or ratio.high is None:
        return _fold(ratio.ratio)
    return f"{_fold(ratio.ratio)} [{_fold(ratio.low)}, {_fold(ratio.high)}]"


def notes(compared: Comparison, *, has_badges: bool = False) -> list[str]:
    """Return what must be known of machines, software and trials, each once."""
    texts, rows = list(compared.notes), compared.rows
    if len(rows) > 1:
        for row in rows:
            texts += [f"{_start(row)}{text}" for text in contradictions(row)]
    for label, other, lonely in (("A", "B", compared.only_a), ("B", "A", compared.only_b)):
        if lonely:
            names = _shortened(map(_trial, lonely))
            texts.append(f"{len(lonely)} of {label} without a counterpart in {other}: {names}")
    results = [result for row in rows for result in (row.a, row.b)]
    for row in rows:
        texts += row.notes
    for result in results:
        where = result.environment
        texts += [made_with(where)] if has_badges else environment_notes(where)
        texts += host_notes([result])
    for notes_of in (program_notes, reported_notes, step_notes, sweep_notes):
        texts += notes_of(results)
    suspect = [_trial(result) for result in results if not result.is_valid]
    if suspect:
        texts.append(f"suspect, see {typed('store')} show: {_shortened(suspect)}")
    partly = []
    for result in results:
        if result.failed and result.throughput is not None:
            partly.append(f"{_trial(result)} ({failed_repeats(result)})")
    if partly:
        texts.append(f"repeats without a number, which are left out: {_shortened(partly)}")
    return list(dict.fromkeys(texts))


def meanings(rows: Sequence[PairRow]) -> str:
    """Return what the badges of these rows mean."""
    used = {answer(row) for row in rows}
    for row in rows:
        for result in (row.a, row.b):
            used.update(badges.of_environment(result.environment))
    return badges.foot(used)


def _fold(value: float) -> str:
    """Return `1.31`; near 1, where it matters on which side a ratio is, `1.003`."""
    return f"{value:.3f}" if 0.9 < value < 1.1 else number(value)


def _start(row: PairRow) -> str:
    setting = ", ".join(named(axis, value) for axis, value in row.setting.items())
    return f"{setting}: " if setting else ""


def _is_single(ratio: Ratio) -> bool:
    return min(ratio.num_a, ratio.num_b) < 2


def _times(ratio: Ratio) -> str:
    text, space, interval = fold_with_interval(ratio).partition(" ")
    return f"{text}x{space}{interval}"


def _basis(ratio: Ratio) -> str:
    if ratio.num_a == ratio.num_b:
        return f"{counted(ratio.num_a, 'repeat')} each"
    return f"{ratio.num_a} and {ratio.num_b} repeats"


def _without_number(row: PairRow) -> Iterator[str]:
    for name, result in ((row.name_a, row.a), (row.name_b, row.b)):
        if result.outcome == Outcome.INVALID:
            yield f"{name} has no number that may be quoted"
        elif result.throughput is None:
            yield f"{name} has no number ({result.ended})"


def _trial(result: Result) -> str:
    # a program without axes of its own has one name
    words = dict.fromkeys((str(result.axes["model"]), result.strategy))
    return f"{result.trial_id[:8]} {' '.join(words)} on {result.width}"


def _shortened(texts: Iterable[str]) -> str:
    every = list(dict.fromkeys(texts))
    if len(every) > _MOST_LISTED:
        num_more = len(every) - _MOST_LISTED + 1
        every[_MOST_LISTED - 1 :] = [f"and {num_more} more: see --json"]
    return "; ".join(every)
