"""How long many tiny TensorFlow trials take, all told: ours with fork and spawn, and others running
the very same trials.

`fresh` peers give each trial a process of its own, `reused` ones call the trainer again and again
in one; their trials share what TensorFlow keeps in a process. Two trials run at once wherever a
peer can do that.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from benchmarks.orchestration import trial_folders
from benchmarks.orchestration.cost import Cost, module, run, sweep, tail
from benchmarks.orchestration.peers_python import peers_python
from benchmarks.orchestration.settings import BrokenError, Settings, rounds
from benchmarks.ratio import Ratio, Want

NUM_AT_ONCE = 2
FRESH_TARGET = 1 / 5  # ours with fork / the best of the fresh peers: at most
REUSED_TARGET = 1.0
BEST_FRESH, BEST_REUSED = "best fresh process", "best reused process"
_PEERS = "benchmarks.orchestration.peers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One way to run the trials of some folders."""

    name: str
    is_fresh: bool  # a process per trial
    command: Callable[[Path, list[str]], list[str]]  # python of the peers, folders -> command
    # somebody waits for its processes, so that the CPU seconds of all are known
    tells_cpu: bool = True


def _script(name: str, *arguments: str) -> Callable[[Path, list[str]], list[str]]:
    return lambda python, folders: module(f"{_PEERS}.{name}", *arguments, *folders, python=python)


_TWO = str(NUM_AT_ONCE)
PEERS = (
    Peer(name="shell loop", is_fresh=True, command=_script("shell_loop", "trainer", "1")),
    Peer(name="xargs -P 2", is_fresh=True, command=_script("shell_loop", "trainer", _TWO)),
    Peer(name="submitit local", is_fresh=True, command=_script("submitit_local", _TWO)),
    # raylet ignores SIGCHLD
    Peer(name="Ray Tune", is_fresh=True, command=_script("ray_tune", _TWO), tells_cpu=False),
    Peer(name="joblib", is_fresh=False, command=_script("joblib_loky", _TWO)),
    Peer(name="Hydra basic", is_fresh=False, command=_script("hydra_basic", "1")),
)
OURS = {"ours fork": "fork", "ours spawn": "spawn"}


def measure(settings: Settings) -> list[Ratio]:
    """A side that breaks is left out of the rounds that follow, and of the rows."""
    python = peers_python()
    peers = {peer.name: peer for peer in PEERS}
    seen: dict[str, list[Cost]] = {name: [] for name in (*OURS, *peers)}
    broken: dict[str, str] = {}
    for sides in rounds(settings.num_rounds, list(seen)):
        for side in (side for side in sides if side not in broken):
            try:
                with tempfile.TemporaryDirectory() as folder:
                    if side in OURS:
                        cost = _run_ours(OURS[side], settings.num_trials, Path(folder))
                    else:
                        cost = _run_peer(peers[side], python, settings.num_trials, Path(folder))
            except BrokenError as error:
                broken[side] = str(error)
                print(f"  {side}: broken", file=sys.stderr)
                continue
            seen[side].append(cost)
            print(f"  {side}: {cost.wall_s:.1f} s, {cost.cpu_s:.1f} CPU s", file=sys.stderr)
    rows = _ratios({side: costs for side, costs in seen.items() if side not in broken})
    if broken:
        raise BrokenError("\n".join(f"{side}: {reason}" for side, reason in broken.items()), rows)
    return rows


def _run_ours(start: str, num_trials: int, folder: Path) -> Cost:
    launcher = (
        f"launcher.start={start}",
        "launcher.share_host=true",
        f"launcher.max_parallel={NUM_AT_ONCE}",
    )
    cost = run(
        sweep("-m", *trial_folders.TINY, f"seed=range(1,{num_trials + 1})", *launcher), folder
    )
    with closing(sqlite3.connect(folder / "results.db")) as database:
        query = "SELECT count(DISTINCT trial_id) FROM attempts WHERE outcome = 'completed'"
        (num_completed,) = database.execute(query).fetchone()
    if num_completed != num_trials:
        raise BrokenError(
            f"{num_completed} of {num_trials} completed\n{tail(folder / 'output.txt')}"
        )
    return cost


def _run_peer(peer: Peer, python: Path, num_trials: int, folder: Path) -> Cost:
    folders = trial_folders.prepare(folder, num_trials)
    cost = run(peer.command(python, [str(path) for path in folders]), folder)
    trial_folders.check_completed(folders, tail(folder / "output.txt"))
    return cost


def _ratios(seen: dict[str, list[Cost]]) -> list[Ratio]:
    """Of ours to each peer, and to the best fresh and the best reused one of each round."""
    peers = [peer for peer in PEERS if peer.name in seen]
    theirs = {peer.name: [cost.wall_s for cost in seen[peer.name]] for peer in peers}
    best = {
        name: [
            min(walls_s)
            for walls_s in zip(
                *(theirs[peer.name] for peer in peers if peer.is_fresh is is_fresh), strict=True
            )
        ]
        for name, is_fresh in {BEST_FRESH: True, BEST_REUSED: False}.items()
    }
    rows = []
    for ours in (name for name in OURS if name in seen):
        targets = (
            {BEST_FRESH: FRESH_TARGET, BEST_REUSED: REUSED_TARGET} if ours == "ours fork" else {}
        )
        for name, walls_s in {**best, **theirs}.items():
            if walls_s:
                rows.append(
                    _ratio(
                        ours,
                        name,
                        "wall s",
                        [cost.wall_s for cost in seen[ours]],
                        walls_s,
                        targets.get(name),
                    )
                )
        for peer in (peer for peer in peers if peer.tells_cpu):
            cpus_s = [cost.cpu_s for cost in seen[peer.name]]
            rows.append(
                _ratio(ours, peer.name, "CPU s", [cost.cpu_s for cost in seen[ours]], cpus_s, None)
            )
    return rows


def _ratio(
    ours: str, peer: str, metric: str, mine: list[float], theirs: list[float], target: float | None
) -> Ratio:
    pairs = list(zip(mine, theirs, strict=True))
    return Ratio(
        name="starts",
        ours=ours,
        peer=peer,
        metric=metric,
        pairs=pairs,
        target=target,
        want=Want.AT_MOST,
    )
