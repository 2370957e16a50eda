"""Says what was found about a proposal, to people and to scripts."""

from __future__ import annotations

import math
from collections.abc import Iterator

from scalemark.records.overrides import ID_DIGITS
from scalemark.records.trial import TrialSpec
from scalemark.text.shell_words import joined
from scalemark.text.untrusted import masked
from scalemark.text.wording import counted, duration_text
from sweeper.judging.judging import Needs
from sweeper.judging.rule import LEAST_EARLIER, ChangeVerdict, Gain, Runs, Side
from sweeper.judging.run import Asked, Judgement, Proposal

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


def judgement_lines(found: Judgement) -> Iterator[str]:
    proposal = found.proposal
    margin = f"{100 * proposal.asked.margin:g}"
    meaning = MEANINGS[found.verdict].format(margin=margin, why=found.why)
    yield f"{found.verdict.replace('_', ' ')}: {meaning}"
    yield from found.failures
    yield from _other_work_lines(proposal)
    if found.gain:
        beside = "" if found.runs.differences else ", beside earlier runs of the baseline"
        yield f"throughput {_gain_text(found.gain)}{beside}"
    runs = found.runs
    yield (
        f"{counted(found.num_attempts, 'attempt')} of {proposal.asked.budget}: "
        f"{len(runs.change)} of the change and {len(runs.baseline)} of the baseline completed, in "
        f"sweep {proposal.trials.name}"
    )
    if found.needs:
        yield needs_text(found.needs, proposal.asked, found.num_attempts, proposal.least_attempts)
    yield _place_text(proposal)


def needs_text(needs: Needs, asked: Asked, num_attempts: int, least_attempts: int) -> str:
    """Say what else a verdict would take, and bounds that hold it from the beginning on."""
    if needs.attempts is None or needs.seconds is None:
        return (
            "needs: these runs do not tell how many more would decide; a win takes "
            f"{least_attempts} attempts or more"
        )
    again = f"--budget {min(MOST_ATTEMPTS, max(asked.budget, num_attempts + needs.attempts))}"
    if asked.budget_s is not None:
        again += f" --budget-min {math.ceil((asked.budget_s + needs.seconds) / 60)}"
    more = f"about {counted(needs.attempts, 'attempt')} more like these"
    return f"needs: {more}, {duration_text(needs.seconds)}; judge it again with {again}"


def judgement_json(found: Judgement) -> dict[str, object]:
    gain = found.gain
    return {
        "verdict": found.verdict.value,
        "why": found.why,
        "gain_percent": _percent(gain.value if gain else None),
        "low_percent": _percent(gain.low if gain else None),
        "high_percent": _percent(gain.high if gain else None),
        "attempts": found.num_attempts,
        "needed_attempts": found.needs and found.needs.attempts,  # of one that the budget ended
        "needed_s": found.needs and found.needs.seconds,
        "change_throughputs": list(found.runs.change),
        "baseline_throughputs": list(found.runs.baseline),
        "failures": list(found.failures),
        **({"error": found.why} if found.baseline_failed else {}),
        **_proposal_json(found.proposal),
    }


def plan_lines(proposal: Proposal) -> Iterator[str]:
    trials, expected_s = proposal.trials, proposal.expected_s
    yield f"baseline  {_trial_text(trials.baseline, expected_s[Side.BASELINE])}"
    change = _trial_text(trials.change, expected_s[Side.CHANGE])
    yield f"change    {change}: {_changes(proposal)}"
    yield (
        f"at most {counted(proposal.asked.budget, 'attempt')}{_time_text(proposal)}; a win of this "
        f"proposal takes {proposal.least_attempts} or more"
    )
    yield _earlier_text(proposal.earlier)
    yield from _other_work_lines(proposal)
    yield _place_text(proposal)


def plan_json(proposal: Proposal) -> dict[str, object]:
    return {
        "least_attempts": proposal.least_attempts,
        "baseline_expected_s": proposal.expected_s[Side.BASELINE],  # of an attempt
        "change_expected_s": proposal.expected_s[Side.CHANGE],
        **_proposal_json(proposal),
    }


def _proposal_json(proposal: Proposal) -> dict[str, object]:
    asked, trials, place = proposal.asked, proposal.trials, proposal.place
    return {
        "baseline": trials.baseline.trial_id,
        "change": trials.change.trial_id,
        "changes": [masked(one) for one in asked.changes],
        "budget": asked.budget,
        "budget_s": asked.budget_s,
        "margin_percent": 100 * asked.margin,
        "earlier_throughputs": list(proposal.earlier),
        "series": asked.series,
        "number": place.number,
        "wins_before": place.num_wins,
        "false_wins_percent": 100 * asked.allowed,
        "level": place.level,
        "other_work": trials.other_work,  # axes by which the two train on different things
        "sweep": trials.name,
    }


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _place_text(proposal: Proposal) -> str:
    asked, place = proposal.asked, proposal.place
    series = f"series {asked.series}" if asked.series else "this database"
    return (
        f"proposal {place.number} of {series}, after {counted(place.num_wins, 'win')}; of all wins "
        f"of {series} at most {100 * asked.allowed:g} % are false on average"
    )


def _time_text(proposal: Proposal) -> str:
    budget_s, attempt_s = proposal.asked.budget_s, proposal.attempt_s
    if budget_s is None:
        return ""
    holds = f", which hold about {int(budget_s / attempt_s)}" if attempt_s else ""
    return f" in {duration_text(budget_s)}{holds}"


def _other_work_lines(proposal: Proposal) -> Iterator[str]:
    if axes := proposal.trials.other_work:
        yield (
            f"other work: the two differ in {', '.join(axes)}, so that a gain of throughput may be "
            "of easier items and not of a faster way"
        )


def _earlier_text(earlier: tuple[float, ...]) -> str:
    runs = (
        f"{counted(len(earlier), 'run')} of the baseline with this software in the last two hours"
    )
    if Runs(earlier=earlier).num_alone > 1:
        return f"{runs}: the change runs alone first, and may be given up beside them"
    if len(earlier) < LEAST_EARLIER:
        return f"{runs}, fewer than {LEAST_EARLIER}: both sides take turns from the beginning"
    return f"{runs}, which drift: both sides take turns from the beginning"


def _gain_text(gain: Gain) -> str:
    value = f"{100 * gain.value:+.1f} %"
    if gain.low is None or gain.high is None:
        return value
    return f"{value} [{100 * gain.low:+.1f}, {100 * gain.high:+.1f}]"


def _trial_text(spec: TrialSpec, expected_s: float | None) -> str:
    took = "of unknown duration"
    if expected_s is not None:
        took = f"{duration_text(expected_s)} per attempt"
    return f"{spec.trial_id[:ID_DIGITS]}, {took}"


def _changes(proposal: Proposal) -> str:
    return joined(masked(one) for one in proposal.asked.changes)
