"""The answers of `compare` in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from analysis.compare.pairs import Paired
from analysis.compare.rows import Row
from analysis.results import Result
from analysis.statistics.judgement import Answer
from analysis.statistics.ratios import Ratio
from analysis.text import badges
from analysis.text.numbers import number
from analysis.text.titles import (
    environment_notes,
    failed_repeats,
    host_notes,
    made_with,
    named,
    program_notes,
    reported_notes,
    step_notes,
    sweep_notes,
)
from scalemark.host.own_code import typed
from scalemark.records.outcomes import Outcome
from scalemark.records.references import Origin
from scalemark.text.wording import counted

_MOST_LISTED = 5  # findings and missing counterparts, before they are counted
_SINGLE_RUN = "single run"
_PUBLISHED = "published"


def answer(row: Row) -> str:
    """Return `A faster`, `tie`, `single run` or another answer of a row."""
    judgement = row.judgement
    if judgement is None:
        return "nothing to compare"
    if row.pair.b.environment.origin is Origin.PUBLISHED:
        return _PUBLISHED
    is_single = min(judgement.ratio.num_a, judgement.ratio.num_b) < 2
    doubt = _SINGLE_RUN if is_single and not judgement.is_sure else ""
    if judgement.answer is Answer.UNKNOWN:
        return doubt or "unclear"
    text = str(judgement.answer)
    if judgement.answer is Answer.DIFFERENT:
        text = "B faster" if row.is_turned else "A faster"
    return f"{text}, {doubt}" if doubt else text


def headline(rows: Sequence[Row]) -> str:
    """Return the answer: the sentence of one pair, or how many pairs have which answer."""
    if len(rows) == 1:
        (row,) = rows
        plan = f"; {row.plan.words}" if row.plan is not None else ""
        return f"{_start(row)}{sentence(row)}{plan}."
    counts = Counter(answer(row) for row in rows).most_common()
    return f"Of {len(rows)} pairs: {', '.join(f'{word} in {count}' for word, count in counts)}."


def sentence(row: Row) -> str:
    """Return `ps_gpu is 1.31x [1.28, 1.34] as fast as ps_cpu, over 3 repeats each`."""
    judgement, a, b = row.judgement, row.name_a, row.name_b
    if judgement is None:
        return f"nothing to compare: {' and '.join(_without_number(row))}"
    ratio = judgement.ratio
    if row.pair.b.environment.origin is Origin.PUBLISHED:
        return f"{a} is {fold(ratio.ratio)}x as fast as published by {b}"
    if judgement.answer is Answer.UNKNOWN:
        return f"{a} against {b} is not conclusive: {_times(ratio)}; {judgement.why}"
    if judgement.answer is Answer.TIE:
        words = f"{a} and {b} tie over {_basis(ratio)}: {_times(ratio)}"
        return words if judgement.is_sure else f"{words} ({judgement.why})"
    first, second, shown = (b, a, ratio.turned) if row.is_turned else (a, b, ratio)
    words = f"{first} is {_times(shown)} as fast as {second}"
    # a step may hold more work on more GPUs
    if row.pair.a.counts_steps and "num_gpus" in row.pair.compared:
        words = f"{first} does {_times(shown)} the steps/s of {second}"
    if not judgement.is_sure:
        return f"{words} ({judgement.why})"
    return "; ".join([f"{words}, over {_basis(ratio)}", *judgement.doubts])


def fold(value: float) -> str:
    """Return `1.31`; near 1, where it matters on which side a ratio is, `1.003`."""
    return f"{value:.3f}" if 0.9 < value < 1.1 else number(value)


def interval_text(ratio: Ratio) -> str:
    """Return `[0.971, 1.043]`; `[unknown]` where a single run has too few steps."""
    if ratio.low is None or ratio.high is None:
        return "[unknown]"
    return f"[{fold(ratio.low)}, {fold(ratio.high)}]"


def findings(rows: Sequence[Row]) -> list[str]:
    """Return the doubts about repeats: contradictions and two modes."""
    texts = []
    for row in rows:
        if row.judgement is not None:
            texts += [f"{_start(row)}{doubt}" for doubt in row.judgement.doubts]
        texts += row.findings
    return _shortened(texts)


def lonely(found: Paired) -> Iterator[str]:
    """Yield the trials of each side without a counterpart in the other."""
    for label, other, results in (("A", "B", found.only_a), ("B", "A", found.only_b)):
        if results:
            names = "; ".join(_shortened(_trials(results)))
            yield f"{len(results)} of {label} without a counterpart in {other}: {names}"


def notes(found: Paired, rows: Sequence[Row], *, has_badges: bool = False) -> list[str]:
    """Return what must be known of machines, software and trials, each once."""
    texts = list(found.notes)
    results = [result for row in rows for result in (row.pair.a, row.pair.b)]
    for row in rows:
        texts += row.pair.notes
    for result in results:
        where = result.environment
        texts += [made_with(where)] if has_badges else environment_notes(where)
        texts += host_notes([result])
    for notes_of in (program_notes, reported_notes, step_notes, sweep_notes):
        texts += notes_of(results)
    if suspect := [result for result in results if not result.is_valid]:
        names = "; ".join(_shortened(_trials(suspect)))
        texts.append(f"suspect, see {typed('store')} show: {names}")
    partly = [result for result in results if result.failed and result.throughput is not None]
    if partly:
        names_of = zip(_trials(partly), partly, strict=True)
        failed = _shortened(f"{name} ({failed_repeats(result)})" for name, result in names_of)
        texts.append(f"repeats without a number, which are left out: {'; '.join(failed)}")
    return list(dict.fromkeys(texts))


def meanings(rows: Sequence[Row]) -> str:
    """Return what the badges of these rows mean."""
    used = {word for row in rows for word in answer(row).split(", ")}
    for row in rows:
        for result in (row.pair.a, row.pair.b):
            used.update(badges.of_environment(result.environment))
    return badges.foot(used)


def _start(row: Row) -> str:
    setting = ", ".join(named(axis, value) for axis, value in row.pair.setting.items())
    return f"{setting}: " if setting else ""


def _times(ratio: Ratio) -> str:
    if ratio.low is None or ratio.high is None:
        return f"{fold(ratio.ratio)}x, interval unknown"
    return f"{fold(ratio.ratio)}x {interval_text(ratio)}"


def _basis(ratio: Ratio) -> str:
    if ratio.num_a == ratio.num_b:
        return f"{counted(ratio.num_a, 'repeat')} each"
    return f"{ratio.num_a} and {ratio.num_b} repeats"


def _without_number(row: Row) -> Iterator[str]:
    for name, result in ((row.name_a, row.pair.a), (row.name_b, row.pair.b)):
        if result.outcome == Outcome.INVALID:
            yield f"{name} has no number that may be quoted"
        elif result.throughput is None:
            yield f"{name} has no number ({result.ended})"


def _trials(results: Sequence[Result]) -> list[str]:
    names = []
    for result in results:
        # a program without axes of its own has one name
        words = dict.fromkeys((str(result.axes["model"]), result.strategy))
        names.append(f"{result.trial_id[:8]} {' '.join(words)} on {result.width}")
    return names


def _shortened(texts: Iterable[str]) -> list[str]:
    every = list(dict.fromkeys(texts))
    if len(every) <= _MOST_LISTED:
        return every
    return [*every[: _MOST_LISTED - 1], f"and {len(every) - _MOST_LISTED + 1} more: see --json"]
