"""Whatever is killed, stopped, locked or filled: the repeated command completes every repeat exactly once, and leaves nothing."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fault_campaign import (
    FAULTS,
    PROGRAM_FAULTS,
    Campaign,
    possible_program_faults,
    possible_strikes,
    program_campaign,
    small_disk,
    struck_campaign,
    tiny_campaign,
)
from tests.strikes import POISONS

pytestmark = pytest.mark.integration

KILL, SIDE_BY_SIDE = "kill -9 orchestrator", "launcher.share_host=true"
LONG = {
    "one sweep, forked attempts": ([], 1, 5),
    "one sweep, spawned attempts": (["launcher.start=spawn"], 1, 2),
    "two sweeps at once": ([], 2, 4),
    "two sweeps at once, side by side": ([SIDE_BY_SIDE], 2, 4),
}


def test_every_repeat_is_completed_once_despite_kills_and_locks(
    tmp_path,
):
    faults = [KILL, "kill -9 trainer", "locked database"]
    campaign = tiny_campaign(
        tmp_path, num_trials=2, repeats=1, num_faults=len(faults), seed=5, faults=faults
    )
    _survives(campaign)
    assert set(campaign.injected) == set(faults)


@pytest.mark.slow
def test_every_repeat_is_completed_once_though_everything_breaks_once(tmp_path):
    with _on_small_disk(tmp_path):
        campaign = tiny_campaign(tmp_path, num_trials=2, repeats=2, num_faults=len(FAULTS), seed=5)
        _survives(campaign)
        assert set(campaign.injected) == campaign.possible_faults()


@pytest.mark.slow
def test_every_repeat_is_completed_once_beside_a_killed_sweep(tmp_path):
    campaign = tiny_campaign(
        tmp_path,
        num_trials=2,
        repeats=1,
        num_faults=1,
        seed=1,
        overrides=[SIDE_BY_SIDE],
        num_rivals=2,
        faults=[KILL],
    )
    _survives(campaign)
    assert dict(campaign.injected) == {KILL: 1}


@pytest.mark.slow
@pytest.mark.parametrize("way", LONG)
def test_every_repeat_is_completed_once_whatever_breaks(tmp_path, way):
    overrides, num_rivals, num_faults = LONG[way]
    with _on_small_disk(tmp_path):
        campaign = tiny_campaign(
            tmp_path,
            num_trials=4,
            repeats=2,
            num_faults=num_faults,
            seed=5,
            overrides=overrides,
            num_rivals=num_rivals,
        )
        _survives(campaign)
        assert campaign.injected.total() >= 2


def test_every_repeat_is_completed_once_in_whatever_phase_it_is_struck(tmp_path):
    campaign = struck_campaign(tmp_path, num_faults=3, seed=2)
    _survives(campaign)
    assert campaign.injected.total() == 3


def test_every_run_of_a_program_is_completed_once_whatever_is_killed(tmp_path):
    faults = [
        *(KILL, "kill -9 program", "kill -9 trainer", "kill -9 watcher and guard"),
        *("SIGTERM sweep, running", "SIGINT sweep, running", "SIGINT twice sweep, running"),
    ]
    campaign = program_campaign(tmp_path, num_faults=len(faults), seed=3, faults=faults)
    _survives(campaign)
    assert set(campaign.injected) == set(faults)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_every_run_of_a_program_is_completed_once_though_all_is_struck(tmp_path, way):
    faults = [*PROGRAM_FAULTS, *(name for name in FAULTS if name.endswith(("trainer", "database")))]
    campaign = program_campaign(
        tmp_path,
        num_faults=len(faults),
        seed=5,
        faults=faults,
        overrides=[f"launcher.start={way}"],
    )
    _survives(campaign)
    assert set(campaign.injected) == set(faults)


@pytest.mark.slow
@pytest.mark.parametrize("num_rivals", [1, 2])
def test_every_run_of_a_program_is_completed_once_in_all_phases(tmp_path, num_rivals):
    faults = possible_program_faults()
    campaign = program_campaign(
        tmp_path, num_faults=len(faults), seed=5, faults=faults, num_rivals=num_rivals
    )
    _survives(campaign)
    assert set(campaign.injected) == set(faults)


@pytest.mark.slow
def test_every_repeat_is_completed_once_when_two_sweeps_are_struck(tmp_path):
    campaign = struck_campaign(tmp_path, num_faults=3, seed=4, num_rivals=2)
    _survives(campaign)
    assert campaign.injected.total() == 3


def test_a_sweep_struck_while_it_loads_and_draws_is_whole_in_the_end(tmp_path):
    faults = ["SIGINT sweep, imports", "SIGHUP sweep, drawing"]
    campaign = struck_campaign(tmp_path, num_faults=2, seed=1, faults=faults, is_simulated=True)
    _survives(campaign)
    assert set(campaign.injected) == set(faults)
    assert list(tmp_path.glob("figures/*.png"))


def test_an_odd_result_fails_its_attempt_and_stops_no_sweep(tmp_path):
    campaign = struck_campaign(tmp_path, num_faults=4, seed=1, faults=list(POISONS))
    _survives(campaign)
    assert len(campaign.poisoned) == 4


@pytest.mark.slow
@pytest.mark.parametrize("num_rivals", [1, 2])
def test_every_repeat_is_completed_once_after_all_strikes(tmp_path, num_rivals):
    strikes = possible_strikes(is_simulated=False)
    campaign = struck_campaign(
        tmp_path, num_faults=len(strikes), seed=5, faults=strikes, num_rivals=num_rivals
    )
    _survives(campaign)
    assert set(campaign.injected) == set(strikes)


@pytest.mark.slow
def test_a_sweep_that_is_struck_in_whatever_phase_draws_in_the_end(tmp_path):
    strikes = possible_strikes(is_simulated=True)
    campaign = struck_campaign(
        tmp_path, num_faults=len(strikes), seed=5, faults=strikes, is_simulated=True
    )
    _survives(campaign)
    assert set(campaign.injected) == set(strikes)


@pytest.mark.slow
def test_no_odd_result_stops_a_sweep(tmp_path):
    campaign = struck_campaign(tmp_path, num_faults=len(POISONS), seed=5, faults=list(POISONS))
    _survives(campaign)
    assert set(campaign.injected) == set(POISONS)


def _survives(campaign: Campaign) -> None:
    campaign.run()
    assert campaign.problems() == []


@contextmanager
def _on_small_disk(folder: Path) -> Iterator[None]:
    mounted = small_disk(folder, 200)
    try:
        yield
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
