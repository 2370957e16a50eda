"""Says to people what is planned of a proposal, and what it showed."""

from __future__ import annotations

import math
from collections.abc import Iterator

from scalemark.records.overrides import ID_DIGITS
from scalemark.text.wording import counted, duration_text, joined
from sweeper.judging.answer import Answer
from sweeper.judging.rule import LEAST_EARLIER, ChangeVerdict, Runs

MOST_ATTEMPTS = 1000  # that `--budget` takes

MEANINGS = {
    ChangeVerdict.BETTER: "it is faster",
    ChangeVerdict.WORSE: "it is slower",
    ChangeVerdict.NO_DIFFERENCE: "it is less than {margin} % faster or slower",
    ChangeVerdict.NO_GAIN: "a gain of {margin} % is unlikely; whether it is slower is left open",
    ChangeVerdict.UNDECIDED: "{why}",
    ChangeVerdict.FAILED: "{why}",
    ChangeVerdict.INTERRUPTED: "its number in the series is spent; the same command begins anew",
}


def answer_lines(answer: Answer) -> Iterator[str]:
    """Describe the plan, or the result where there is one."""
    yield from _plan_lines(answer) if answer.verdict is None else _result_lines(answer)
    series = f"series {answer.series}" if answer.series else "this database"
    yield (
        f"proposal {answer.number} of {series}, after {counted(answer.wins_before, 'win')}; of all "
        f"wins of {series} at most {answer.false_wins_percent:g} % are false on average"
    )


def _result_lines(answer: Answer) -> Iterator[str]:
    assert answer.verdict is not None
    meaning = MEANINGS[answer.verdict].format(margin=f"{answer.margin_percent:g}", why=answer.why)
    yield f"{answer.verdict.replace('_', ' ')}: {meaning}"
    yield from answer.failures
    yield from _other_work_lines(answer)
    if answer.gain_percent is not None:
        interval = ""
        if answer.low_percent is not None and answer.high_percent is not None:
            interval = f" [{answer.low_percent:+.1f}, {answer.high_percent:+.1f}]"
        beside = "" if answer.baseline_throughputs else ", beside earlier runs of the baseline"
        yield f"throughput {answer.gain_percent:+.1f} %{interval}{beside}"
    yield (
        f"{counted(answer.attempts, 'attempt')} of {answer.budget}: "
        f"{len(answer.change_throughputs)} of the change and {len(answer.baseline_throughputs)} of "
        f"the baseline completed, in sweep {answer.sweep}"
    )
    if answer.budget_is_spent:
        yield needs_text(answer)


def needs_text(answer: Answer) -> str:
    """Say what else a verdict would take, and bounds that hold it from the beginning on."""
    if answer.needed_attempts is None or answer.needed_s is None:
        return (
            "needs: these runs do not tell how many more would decide; a win takes "
            f"{answer.least_attempts} attempts or more"
        )
    budget = max(answer.budget, answer.attempts + answer.needed_attempts)
    again = f"--budget {min(MOST_ATTEMPTS, budget)}"
    if answer.budget_s is not None:
        again += f" --budget-min {math.ceil((answer.budget_s + answer.needed_s) / 60)}"
    more = f"about {counted(answer.needed_attempts, 'attempt')} more like these"
    return f"needs: {more}, {duration_text(answer.needed_s)}; judge it again with {again}"


def _plan_lines(answer: Answer) -> Iterator[str]:
    yield f"baseline  {_trial_text(answer.baseline, answer.baseline_expected_s)}"
    change = _trial_text(answer.change, answer.change_expected_s)
    yield f"change    {change}: {joined(answer.changes)}"
    bound = f"at most {counted(answer.budget, 'attempt')}"
    if answer.budget_s is not None:
        bound += f" in {duration_text(answer.budget_s)}"
        if answer.attempt_s:
            bound += f", which hold about {int(answer.budget_s / answer.attempt_s)}"
    yield f"{bound}; a win of this proposal takes {answer.least_attempts} or more"
    earlier = answer.earlier_throughputs
    if Runs(earlier=earlier).num_alone > 1:
        order = ": the change runs alone first, and may be given up beside them"
    elif len(earlier) < LEAST_EARLIER:
        order = f", fewer than {LEAST_EARLIER}: both sides take turns from the beginning"
    else:
        order = ", which drift: both sides take turns from the beginning"
    runs = counted(len(earlier), "run")
    yield f"{runs} of the baseline with this software in the last two hours{order}"
    yield from _other_work_lines(answer)


def _other_work_lines(answer: Answer) -> Iterator[str]:
    if answer.other_work:
        yield (
            f"other work: the two differ in {', '.join(answer.other_work)}, so that a gain of "
            "throughput may be of easier items and not of a faster way"
        )


def _trial_text(trial_id: str, expected_s: float | None) -> str:
    took = "of unknown duration"
    if expected_s is not None:
        took = f"{duration_text(expected_s)} per attempt"
    return f"{trial_id[:ID_DIGITS]}, {took}"
