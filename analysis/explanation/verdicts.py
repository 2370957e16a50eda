"""What a trial is held back by, how sure that is, and what would make it surer. It is never sure
without repeats.

Of N GPUs, with shares of the target's own step:

| verdict | when |
|---|---|
| healthy | efficiency 0.9 or more of the ideal, and no suspect has 10 % |
| compute-bound | one replica that no suspect takes 10 % of, or GPUs below their clocks with one alone, too |
| any other | its suspect is the largest, and has 10 % |
| none (cannot tell) | the largest cannot be told from another, or from nothing |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from analysis.explanation.inner_links import InnerLinks
from analysis.explanation.observed import Observed
from analysis.explanation.rungs import FLOOR, LADDER, Missing, Rung, reads
from analysis.explanation.step_times import Seconds, difference
from analysis.explanation.suspects import (
    NEIGHBORS_FROM,
    Bound,
    Suspect,
    at_most_launching_s,
    suspects,
)
from analysis.explanation.waterfall import Waterfall, shares_cores
from analysis.results import Origin
from analysis.statistics.contradictions import contradiction
from analysis.statistics.sample import Sample
from analysis.text.wording import listed

# of the step: the performance guide's own example of launch gaps worth mending has so much
MATTERS = 0.10
HEALTHY_FROM = 0.90  # of the ideal
NEARLY = 0.9  # of the largest: a second so near is as likely


class Confidence(StrEnum):
    """How sure a verdict is."""

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


def diagnose(
    fall: Waterfall,
    seen: Observed,
    of_rungs: Mapping[Rung, Observed],
    inner: InnerLinks | None = None,
) -> Diagnosis:
    """`seen` of the target, `of_rungs` of all that were found; `inner` as `suspects` has it."""
    found = suspects(fall, seen, of_rungs, inner)
    case = _Case(fall=fall, seen=seen, of_rungs=of_rungs, found=found)
    bound, why = case.verdict()
    doubts = case.doubts(bound)
    confidence = (
        Confidence.CANNOT_TELL
        if bound is None
        else Confidence.LIKELY
        if doubts
        else Confidence.SURE
    )
    return Diagnosis(
        bound=bound,
        confidence=confidence,
        evidence=tuple(why),
        doubts=tuple(doubts),
        needed=case.needed(),
        suspects=tuple(found),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    fall: Waterfall
    seen: Observed
    of_rungs: Mapping[Rung, Observed]
    found: Sequence[Suspect]

    @property
    def heavy(self) -> list[Suspect]:
        return [one for one in self.found if self.fall.share(one.seconds.value) >= MATTERS]

    def verdict(self) -> tuple[Bound | None, list[str]]:
        if not self.heavy:
            return self._without_suspect()
        top = self.heavy[0]
        why = list(dict.fromkeys(self._with_share(one) for one in self.heavy))
        if top.bound is None:
            return None, why
        same = [one for one in self.heavy if one.bound is top.bound]
        if all(one.seconds.told and (one.seconds.low or 0.0) <= 0 for one in same):
            return None, [*why, "its repeats cannot tell it from nothing"]
        rivals = [one for one in self.heavy[1:] if one.bound is not top.bound]
        if (
            rivals
            and rivals[0].seconds.value >= NEARLY * top.seconds.value
            and not _apart(top, rivals[0])
        ):
            names = f"{top.bound} and {rivals[0].bound or 'what nothing tells apart'}"
            return None, [*why, f"{names} are as large as each other"]
        return top.bound, why

    def _without_suspect(self) -> tuple[Bound | None, list[str]]:
        efficiency = self.fall.efficiency
        if self.fall.target.num_gpus > 1:
            if efficiency is None:
                return None, ["nothing to compare it with"]
            if efficiency >= HEALTHY_FROM:
                return Bound.HEALTHY, [f"{efficiency:.0%} of the ideal"]
            told = [f"{efficiency:.0%} of the ideal", "and no cause alone takes 10% of the step"]
            return (
                (self.found[0].bound, [*told, self._with_share(self.found[0])])
                if self.found
                else (None, told)
            )
        if reads(self.fall.target.axes) and not self._input_is_known():
            return None, ["nothing tells what its input costs"]
        if self._of_launching(Bound.COMPUTE):
            return Bound.COMPUTE, ["no cause that was measured takes 10% of the step"]
        return Bound.COMPUTE, ["nothing but the model itself takes 10% of the step"]

    def _with_share(self, suspect: Suspect) -> str:
        told = f"{suspect.because} ({self.fall.share(suspect.seconds.value):.0%} of the step)"
        return (
            f"{told}; {suspect.contradicted}"
            if suspect.contradicted and suspect.bound is None
            else told
        )

    def doubts(self, bound: Bound | None) -> list[str]:
        """Each reason why the verdict is not sure, as a sentence's part."""
        told = [*self._of_trials(), *self._of_launching(bound), *self._of_neighbors(bound)]
        if bound is None:
            return told
        if bound is Bound.HEALTHY:
            return [*told, *self._of_health()]
        top = next((one for one in self.heavy if one.bound is bound), None)
        if bound is Bound.COMPUTE and top is None:
            return [*told, *self._of_quiet()]
        if top is None:
            return [*told, "no cause alone takes 10% of the step"]
        if not top.is_direct:
            told.append(self._indirect())
        if top.contradicted:
            told.append(top.contradicted)
        if top.seconds.told and self.fall.share(top.seconds.low or 0.0) < MATTERS:
            told.append("its interval reaches below 10% of the step")
        told += [
            f"{one.bound or 'what nothing tells apart'} may be as large"
            for one in self._rivals(top)
        ]
        return told

    def _rivals(self, top: Suspect) -> list[Suspect]:
        return [one for one in self.heavy if one.bound is not top.bound and not _apart(top, one)]

    def _of_trials(self) -> list[str]:
        """The trials that were subtracted: how often each was run, and whether that can be
        quoted.
        """
        told = []
        used = self.fall.rungs.trials
        if self.fall.target.place.origin is Origin.PUBLISHED:
            return ["published figures tell nothing of their spread"]
        if any(len(result.repeats) < 2 for rung, result in used.items() if rung in LADDER):
            told.append(
                "one process alone does not tell what another would bring: sweep.repeats=3 would"
            )
        contradict = [rung for rung, one in used.items() if contradiction(Sample.of(one.repeats))]
        told += [f"repeats of {rung} contradict each other" for rung in contradict]
        told += [
            f"{rung} is suspect: {seen.doubts[0]}"
            for rung, seen in self.of_rungs.items()
            if seen.doubts and rung in used
        ]
        return told

    def _of_launching(self, bound: Bound | None) -> list[str]:
        """What launching may take, unless that is little, or less than what the verdict is for."""
        fall = self.fall
        if (
            bound is Bound.LAUNCH
            or fall.target.axes["model"] == FLOOR
            or self.seen.launch_gap_share is not None
        ):
            return []
        if self._has_most(bound):
            return []
        most_s = at_most_launching_s(fall)
        if most_s is None:
            if fall.floor is None:
                return [
                    "neither a larger batch nor the trivial model tells what is fixed in a step"
                ]
            return ["without a larger batch nothing tells what is fixed in a step"]
        if fall.share(most_s) < MATTERS or self._surely_takes(bound, most_s):
            return []
        if fall.fixed is None:
            most = f"{float(f'{1e3 * most_s:.2g}'):g} ms"
            return [
                (
                    f"launching its kernels one by one would take {most}, and nothing tells how "
                    "much of that is hidden"
                )
            ]
        share = min(1.0, fall.share(most_s))
        return [
            (
                f"up to {share:.0%} of the step may be there whatever the batch: launching, or "
                "the memory of the weights"
            )
        ]

    def _surely_takes(self, bound: Bound | None, seconds: float) -> bool:
        """More than so much, by its whole interval."""
        tops = [
            one
            for one in self.heavy[:1]
            if one.bound is bound and one.seconds.told and one.is_direct
        ]
        return any((one.seconds.low or 0.0) > seconds for one in tops)

    def _has_most(self, bound: Bound | None) -> bool:
        """Whether it surely takes so much that nothing unknown can take more."""
        return self._surely_takes(bound, 0.5 * self.fall.step.value)

    def _of_neighbors(self, bound: Bound | None) -> list[str]:
        """Whoever takes the cores that make batches makes them late, and stand-ins compute on the
        same.
        """
        taken = self.seen.cores_taken or 0.0
        if (
            shares_cores(self.fall.target)
            and bound not in (None, Bound.CONTENTION)
            and taken >= NEIGHBORS_FROM
        ):
            return [
                (
                    f"other programs took {taken:.0%} of the cores, contention that no "
                    "subtraction takes away"
                )
            ]
        if bound is not Bound.INPUT or taken < NEIGHBORS_FROM:
            return []
        return [f"other programs took {taken:.0%} of the cores that make batches"]

    def _of_health(self) -> list[str]:
        told = []
        ideal = self.fall.ideal
        if ideal is not None:
            lost = difference(self.fall.target, ideal)
            if lost.told and self.fall.share(lost.high or 0.0) > MATTERS:
                told.append("the interval of its loss reaches above 10% of the step")
        if Rung.ALONE_READING in self.fall.rungs.found:
            told.append(
                "one replica was measured with its input alone, which may hold that back, too"
            )
        return told

    def _of_quiet(self) -> list[str]:
        """Of causes that seem to take less than what matters, those whose intervals reach it."""
        parts = [(" or ".join(part.causes), part.seconds) for part in self.fall.parts]
        causes = [*parts, *((str(one.bound), one.seconds) for one in self.found if one.bound)]
        reaching = dict.fromkeys(
            name for name, seconds in causes if self.fall.share(_at_most(seconds)) >= MATTERS
        )
        return [f"the interval of {name} reaches 10% of the step" for name in reaching]

    def _indirect(self) -> str:
        if missing := [str(one.rung) for one in self.fall.rungs.missing if one.rung in LADDER]:
            return (
                f"{listed(missing)} {'is' if len(missing) == 1 else 'are'} missing to tell it "
                "from other causes"
            )
        return "nothing measured it for itself"

    def _input_is_known(self) -> bool:
        return Rung.REDUCING in self.fall.rungs.found or self.seen.data_wait_share is not None

    def needed(self) -> tuple[Missing, ...]:
        return self.fall.rungs.missing


def _apart(top: Suspect, other: Suspect) -> bool:
    """Whether the intervals of both leave no doubt which one is larger; without one a half more
    must do.
    """
    low = top.seconds.low if top.seconds.told and top.seconds.low is not None else top.seconds.value
    return low > _at_most(other.seconds)


def _at_most(seconds: Seconds) -> float:
    """The end of its interval; without one a half more."""
    return seconds.high if seconds.told and seconds.high is not None else 1.5 * seconds.value
