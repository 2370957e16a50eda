"""Decides what holds a trial back, how sure that is, and what would make it surer.

It is never sure without repeats. Of N GPUs, with shares of the target's own step:

| verdict | when |
|---|---|
| healthy | efficiency 0.9 or more of the ideal, and no suspect has 10 % |
| slow replica | what all wait for it, by the times of each, is the largest, and has 10 % |
| compute-bound | one replica without a suspect of 10 %, or GPUs, one alone too, below clocks |
| any other | its suspect is the largest, and has 10 % |
| none (cannot tell) | the largest cannot be distinguished from another, or from nothing |

What one replica alone and N of them differ by is contention or communication, and no verdict by
itself: a test has to show which (`analysis.explanation.communication.exchange`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from analysis.explanation.ablations import ABLATION_ORDER, FLOOR, Ablation, Missing, reads
from analysis.explanation.causes import NEIGHBORS_FROM, suspects
from analysis.explanation.communication.exchange import ExchangeTests
from analysis.explanation.communication.links import Links
from analysis.explanation.evidence import Evidence
from analysis.explanation.grounds import grounds
from analysis.explanation.launching import at_most_launching_s, kernels_s
from analysis.explanation.observed import Observed
from analysis.explanation.step_times import Seconds, difference, ms, step_s
from analysis.explanation.suspects import Bound, Suspect
from analysis.explanation.waterfall import Waterfall, shares_cores
from analysis.results import Origin
from analysis.statistics.contradictions import contradiction
from analysis.statistics.sample import Sample
from scalemark.text.wording import listed

# of the step: the performance guide's own example of launch gaps worth mending has so much
MATTERS = 0.10
HEALTHY_FROM = 0.90  # of the ideal
NEARLY = 0.9  # of the largest: a second so near is as likely
_UNNAMED = "what nothing tells apart"


class Confidence(StrEnum):
    """The confidence in a verdict."""

    SURE = "sure"  # measured for itself, over repeats, and apart from every other
    LIKELY = "likely"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The verdict on one target."""

    bound: Bound | None  # None: cannot tell
    confidence: Confidence
    evidence: tuple[str, ...]  # parts of sentences, the most telling first
    doubts: tuple[str, ...]  # why it is not surer
    needed: tuple[Missing, ...]  # trials that would make it so
    suspects: tuple[Suspect, ...]  # largest first
    rests_on: tuple[Evidence, ...]  # none where there is nothing to compare with


def diagnose(
    fall: Waterfall,
    seen: Observed,
    of_ablations: Mapping[Ablation, Observed],
    links: Links,
    tests: ExchangeTests,
    waiting: Sequence[Suspect],
) -> Diagnosis:
    """Judge a target by what was `seen` of it and of its ablations; the rest as in `suspects`."""
    found = suspects(fall, seen, of_ablations, links, tests, waiting)
    case = _Case(fall=fall, seen=seen, of_ablations=of_ablations, found=found, tests=tests)
    bound, why = case.verdict()
    doubts = tuple(case.doubts(bound))
    confidence = Confidence.LIKELY if doubts else Confidence.SURE
    if bound is None:
        confidence = Confidence.CANNOT_TELL
    return Diagnosis(
        bound=bound,
        confidence=confidence,
        evidence=tuple(why),
        doubts=doubts,
        needed=fall.ablations.missing,
        suspects=tuple(found),
        rests_on=tuple(grounds(bound, fall, found, case.heavy, links)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    fall: Waterfall
    seen: Observed
    of_ablations: Mapping[Ablation, Observed]
    found: Sequence[Suspect]
    tests: ExchangeTests

    @property
    def heavy(self) -> list[Suspect]:
        return [one for one in self.found if self.fall.share(one.seconds.value) >= MATTERS]

    def verdict(self) -> tuple[Bound | None, list[str]]:
        heavy = self.heavy
        if contradicting := self._contradicting():
            return None, [contradicting]
        if not heavy:
            return self._without_suspect()
        top = heavy[0]
        why = list(dict.fromkeys(self._with_share(one) for one in heavy))
        if top.bound is None:
            return None, why
        same = [one for one in heavy if one.bound is top.bound]
        if all(one.seconds.low is not None and one.seconds.low <= 0 for one in same):
            return None, [*why, "its repeats cannot tell it from nothing"]
        rivals = [one for one in heavy if one.bound is not top.bound]
        if rivals:
            rival = rivals[0]
            is_near = rival.seconds.value >= NEARLY * top.seconds.value
            if is_near and not _apart(top, rival):
                names = f"{top.bound} and {rival.bound or _UNNAMED}"
                return None, [*why, f"{names} are as large as each other"]
        return top.bound, why

    def _without_suspect(self) -> tuple[Bound | None, list[str]]:
        efficiency = self.fall.efficiency
        if self.fall.target.num_gpus == 1:
            input_is_known = (
                Ablation.REDUCING in self.fall.ablations.found
                or self.seen.data_wait_share is not None
            )
            if reads(self.fall.target.axes) and not input_is_known:
                return None, ["nothing shows what its input costs"]
            if not self._launching_is_known:
                return None, ["nothing shows what launching its kernels costs"]
            return Bound.COMPUTE, ["no cause that was measured takes 10% of the step"]
        if efficiency is None:
            return None, ["nothing to compare it with"]
        if efficiency >= HEALTHY_FROM:
            return Bound.HEALTHY, [f"{efficiency:.0%} of the ideal"]
        why = [f"{efficiency:.0%} of the ideal", "and no cause alone takes 10% of the step"]
        if not self.found:
            return None, why
        return self.found[0].bound, [*why, self._with_share(self.found[0])]

    def _with_share(self, suspect: Suspect) -> str:
        if suspect.bound is None:
            said = (suspect.because, suspect.contradicted, suspect.told_by)
            return "; ".join(part for part in said if part)
        return f"{suspect.because} ({self.fall.share(suspect.seconds.value):.0%} of the step)"

    def _contradicting(self) -> str:
        """Return which rows of one trial deny each other; empty where none does."""
        for ablation, result in self.fall.ablations.trials.items():
            others = self.tests.contradicting(result) if ablation in ABLATION_ORDER else []
            if others:
                times = [step_s(one).value for one in (result, *others)]
                return (
                    f"rows of {ablation} contradict each other: {ms(min(times))} and "
                    f"{ms(max(times))} for the same step"
                )
        return ""

    @property
    def _launching_is_known(self) -> bool:
        """Return whether a trial shows it, a profile, or the number of the kernels."""
        fall = self.fall
        if fall.calls or fall.fixed or fall.floor or self.seen.launch_gap_share is not None:
            return True
        counted_s = kernels_s(fall.target.axes)
        return counted_s is not None and fall.share(counted_s) < MATTERS

    def doubts(self, bound: Bound | None) -> Iterator[str]:
        """Yield each reason why the verdict is not sure, as a part of a sentence."""
        yield from self._of_trials()
        yield from self._of_launching(bound)
        yield from self._of_neighbors(bound)
        top = next((one for one in self.heavy if one.bound is bound), None)
        if bound is None:
            return
        if bound is Bound.HEALTHY:
            yield from self._of_health()
        elif top is not None:
            yield from self._of_top(top)
        elif bound is Bound.COMPUTE:
            yield from self._of_quiet()
        else:
            yield "no cause alone takes 10% of the step"

    def _of_top(self, top: Suspect) -> Iterator[str]:
        if not top.is_direct:
            missing = [
                str(one.ablation)
                for one in self.fall.ablations.missing
                if one.ablation in ABLATION_ORDER
            ]
            if missing:
                yield f"missing to tell it from other causes: {listed(missing)}"
            else:
                yield "nothing measured it for itself"
        if top.contradicted:
            yield top.contradicted
        if top.seconds.is_conclusive and self.fall.share(top.seconds.low or 0.0) < MATTERS:
            yield "its interval reaches below 10% of the step"
        for one in self.heavy:
            if one.bound is not top.bound and not _apart(top, one):
                yield f"{one.bound or _UNNAMED} may be as large"

    def _of_trials(self) -> Iterator[str]:
        """Yield what is wrong with the trials that were subtracted."""
        used = self.fall.ablations.trials
        if self.fall.target.environment.origin is Origin.PUBLISHED:
            yield "published figures have no repeats"
            return
        if any(
            len(result.repeats) < 2
            for ablation, result in used.items()
            if ablation in ABLATION_ORDER
        ):
            yield "single runs: sweep.repeats=3 would show how far others differ"
        for ablation, result in used.items():
            if contradiction(Sample.of(result.repeats)):
                yield f"repeats of {ablation} contradict each other"
        for ablation, seen in self.of_ablations.items():
            if seen.doubts and ablation in used:
                yield f"{ablation} is suspect: {seen.doubts[0]}"

    def _of_launching(self, bound: Bound | None) -> Iterator[str]:
        """Yield what launching may take, unless it is little, or less than the verdict's cause."""
        fall = self.fall
        # Nothing unknown takes more than what surely has half of the step.
        if (
            self._surely_takes(bound, 0.5 * fall.step.value)
            or self.seen.launch_gap_share is not None
        ):
            return
        if bound is Bound.LAUNCH or fall.target.axes["model"] == FLOOR:
            return
        most_s = at_most_launching_s(fall)
        if most_s is None:
            yield "without a larger batch nothing shows what is fixed in a step"
        elif fall.share(most_s) >= MATTERS and not self._surely_takes(bound, most_s):
            share = min(1.0, fall.share(most_s))
            yield (
                f"up to {share:.0%} of the step may be there whatever the batch: launching, or the "
                "memory of the weights"
            )

    def _surely_takes(self, bound: Bound | None, seconds: float) -> bool:
        """Return whether the verdict's cause takes more than so much, by its whole interval."""
        if not self.heavy:
            return False
        top = self.heavy[0]
        is_measured = top.bound is bound and top.seconds.is_conclusive and top.is_direct
        return is_measured and (top.seconds.low or 0.0) > seconds

    def _of_neighbors(self, bound: Bound | None) -> Iterator[str]:
        """Yield who takes the cores that make batches, and that CPU devices compute on."""
        taken = self.seen.cores_taken or 0.0
        is_touched = bound is Bound.INPUT
        if shares_cores(self.fall.target):
            is_touched = bound not in (None, Bound.CONTENTION)
        if is_touched and taken >= NEIGHBORS_FROM:
            yield f"other programs took {taken:.0%} of the cores"

    def _of_health(self) -> Iterator[str]:
        ideal = self.fall.ideal
        if ideal is not None:
            lost = difference(self.fall.target, ideal)
            if lost.is_conclusive and self.fall.share(lost.high or 0.0) > MATTERS:
                yield "the interval of its loss reaches above 10% of the step"
        if Ablation.ALONE_READING in self.fall.ablations.found:
            yield "one replica was measured with its input alone, which may hold that back, too"

    def _of_quiet(self) -> Iterator[str]:
        """Yield causes that seem to take less than what matters, but whose intervals reach it."""
        causes = {}
        for part in self.fall.parts:
            causes[" or ".join(part.causes)] = _at_most(part.seconds)
        for one in self.found:
            if one.bound:
                most = max(_at_most(one.seconds), causes.get(str(one.bound), 0.0))
                causes[str(one.bound)] = most
        for name, seconds in causes.items():
            if self.fall.share(seconds) >= MATTERS:
                yield f"the interval of {name} reaches 10% of the step"


def _apart(top: Suspect, other: Suspect) -> bool:
    """Return whether the intervals of both leave no doubt which one is larger."""
    low = top.seconds.value
    if top.seconds.is_conclusive and top.seconds.low is not None:
        low = top.seconds.low
    return low > _at_most(other.seconds)


def _at_most(seconds: Seconds) -> float:
    """Return the end of its interval; without one a half more must do."""
    return (
        seconds.high if seconds.is_conclusive and seconds.high is not None else 1.5 * seconds.value
    )
