"""What a race runs, gives up and tells: played without processes, in the order in which a sweep would run them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from scalemark.records.outcomes import Outcome
from scalemark.records.trial import TrialSpec
from store.reading.earlier import CompletedRepeat
from store.sweeps.ledger import OpenRepeat
from sweeper.devices.blocks import Blocks
from sweeper.loop.backlog import Backlog, planned_repeats
from sweeper.planning.plan import PlannedTrial
from sweeper.race.races import Saved, Tally, sort_into_races
from sweeper.race.racing_observer import RacingObserver
from tests.specs import small

Shown = float | Outcome
"""What a repeat brings: images/s, or how it fails for good."""


@dataclass(frozen=True, kw_only=True)
class Played:
    """By seed, where nothing else is said."""

    ran: list[tuple[int, int]] = field(default_factory=list)  # GPUs and seed, in order
    given_up: dict[int, str] = field(default_factory=dict)  # why
    texts: list[str] = field(default_factory=list)  # of the races' ends
    saved: Saved

    @property
    def num_run(self) -> Counter[int]:
        return Counter(seed for _, seed in self.ran)


def play(
    shown: dict[TrialSpec, list[Shown]], earlier: dict[TrialSpec, list[float]] | None = None
) -> Played:
    """Trials that differ in `seed` race. Of each as many repeats are to run as it has to show."""
    completed = {spec.trial_id: list((earlier or {}).get(spec, ())) for spec in shown}

    def read(trial_ids):
        return {
            id_: tuple(CompletedRepeat(throughput=one) for one in completed[id_])
            for id_ in trial_ids
        }

    most = max(map(len, shown.values()))
    tally = Tally(sort_into_races(list(shown), ["seed"]), most, read)
    open_ = [
        OpenRepeat(repeat_id=0, trial_id=spec.trial_id, repeat=turn + 1, num_attempts=0)
        for spec, found in shown.items()
        for turn in range(len(found))
    ]
    trials = [PlannedTrial(spec=spec, num_repeats=len(found)) for spec, found in shown.items()]
    numbered = [replace(one, repeat_id=key) for key, one in enumerate(open_)]
    blocks = Blocks(order=tuple(range(8)), aligned=False, most_at_once=1)
    repeats = planned_repeats(numbered, trials, lambda spec: None, {}, {})
    backlog = Backlog(repeats, blocks, seed=1, packs=False)
    ran: list[tuple[int, int]] = []
    given_up: dict[int, str] = {}
    texts: list[str] = []

    def skip(keys: Sequence[int], reason: str) -> None:
        given_up.update({backlog[key].trial.spec.seed: reason for key in keys})

    observer = RacingObserver(tally, backlog, skip, texts.append)
    observer.steer_all()
    while task := backlog.queue.pop(lambda num_gpus: True, (), 0.0):
        spec = backlog[task.key].trial.spec
        if not observer.wants(task):
            backlog.queue.put_back(task)
            observer.steer(task.key)
            continue
        observer.begun(task.key)
        outcome = shown[spec][ran.count((spec.num_gpus, spec.seed))]
        ran.append((spec.num_gpus, spec.seed))
        if not isinstance(outcome, Outcome):
            completed[spec.trial_id].append(outcome)
        final = outcome if isinstance(outcome, Outcome) else Outcome.COMPLETED
        observer.ended(task.key, final, 1.0)
        observer.steer(task.key)
    return Played(ran=ran, given_up=given_up, texts=texts, saved=observer.saved)


def seeds(**speeds: list[Shown]) -> dict[TrialSpec, list[Shown]]:
    """`s1=[...]` is the trial of seed 1."""
    return {small(seed=int(name[1:])): found for name, found in speeds.items()}


def test_those_that_tie_run_all_their_repeats():
    played = play(seeds(s1=[100.0, 102.0, 101.0], s2=[101.0, 100.0, 102.5], s3=[50.0] * 3))
    assert played.num_run == {1: 3, 2: 3, 3: 1}
    assert (played.saved.num_run, played.saved.num_spared) == (7, 2)
    assert played.texts == [
        "race trivial-x1: seed=2 leads with 101.0 images/s, in a tie with seed=1; "
        "saved 2 of 9 repeats"
    ]


def test_who_was_put_out_is_no_tie():
    """A user saw a race without a tie whose table marked one: of two repeats the interval of their own was hopelessly wide."""
    quiet = {small(seed=seed, num_gpus=2): [100.0 + seed / 100] * 5 for seed in (1, 2, 3, 4)}
    played = play(
        quiet
        | seeds(
            s5=[1101.0, 1105.0, 1100.0, 1102.0, 1104.0], s6=[1010.0, 1080.0, 1080.0, 1080.0, 1080.0]
        )
    )
    (reported,) = [text for text in played.texts if "trivial-x1" in text]
    assert reported.startswith(
        "race trivial-x1: seed=5 leads with 1103.0 images/s, 9.2 % more than seed=6; saved "
    )
    assert " % behind seed=5 (" in played.given_up[6]


def test_races_are_run_in_rounds_of_all_that_are_in_them():
    one = seeds(s1=[25.0] * 3, s2=[100.0, 101.0, 102.0], s3=[101.0, 100.0, 102.0])
    two = {small(seed=spec.seed + 10, num_gpus=2): found for spec, found in one.items()}
    ran = play(one | two).ran
    assert set(ran[:6]) == {(1, 1), (1, 2), (1, 3), (2, 11), (2, 12), (2, 13)}
    assert {seed for _, seed in ran[6:]} == {2, 3, 12, 13}


def test_who_has_no_rival_runs_all_its_repeats():
    played = play({small(seed=1): [25.0, 25.0], small(seed=2, num_gpus=2): [100.0, 100.0]})
    assert (played.num_run, played.saved, played.texts) == ({1: 2, 2: 2}, Saved(), [])


def test_who_fails_leaves_the_race_and_the_others_run_on():
    played = play(seeds(s1=[Outcome.FAILED] * 2, s2=[100.0, 101.0], s3=[101.0, 100.0]))
    assert played.num_run == {1: 1, 2: 2, 3: 2}
    assert played.given_up == {1: "race: it ended as failed"}


def test_a_race_where_all_fail_ends():
    played = play(seeds(s1=[Outcome.FAILED] * 3, s2=[Outcome.OUT_OF_MEMORY] * 3))
    assert played.num_run == {1: 1, 2: 1}
    assert "nothing of it completed" in played.texts[0]


def test_what_earlier_sweeps_completed_counts():
    played = play(seeds(s1=[25.0] * 5, s2=[100.0] * 5), earlier={small(seed=1): [25.0]})
    assert played.num_run == {2: 2}
