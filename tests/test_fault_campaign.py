"""Whatever is killed, stopped, locked or filled: the repeated command completes every repeat exactly once, and leaves nothing."""

import subprocess

import pytest

from tests.fault_campaign import small_disk, tiny_campaign

WAYS = {
    "one sweep, forked attempts": ([], 1, 5),
    "one sweep, spawned attempts": (["launcher.start=spawn"], 1, 2),
    "two sweeps at once": ([], 2, 4),
    "two sweeps at once, side by side": (["launcher.share_host=true"], 2, 4),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_repeat_is_completed_once_whatever_breaks(tmp_path, way):
    overrides, num_rivals, num_faults = WAYS[way]
    mounted = small_disk(tmp_path, 200)
    try:
        campaign = tiny_campaign(
            tmp_path, num_trials=4, repeats=2, num_faults=num_faults, seed=5, overrides=overrides, num_rivals=num_rivals
        )
        campaign.run()
        assert campaign.problems() == []
        assert campaign.injected.total() >= 2
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)
