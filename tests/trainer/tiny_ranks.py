"""In a trainer's place, without TensorFlow: starts ranks that run script.json of the run folder, which finds what `run_rank` gives it.

Ranks are forked where this was loaded before, as by a fork server, and else spawned.
"""

import argparse
import json
import os
import signal
import socket
import sys
import textwrap
import threading
import time
from dataclasses import replace
from pathlib import Path

from scalemark.host.processes import ORCHESTRATOR_VARIABLE, die_with
from scalemark.records.attempt import Cluster, Rank
from scalemark.records.measurement import EXIT_CODES, AttemptResult, Outcome
from scalemark.records.trial import TrialSpec
from scalemark.run_folder import RunFolder
from trainer import own_process
from trainer import supervision as ranks
from trainer.own_rank import OwnRank

SETTLE_FILE = "settle_s.txt"  # of a run folder: how long it is waited for who made worker 0 fail; without it as long as ever
SCRIPT = "script.json"  # of a run folder, whose JSON files go to all hosts
MODULE = "tests.trainer.tiny_ranks"
HEALTHY = "listen()\nbeat()\n"
SERVE = f"{HEALTHY}wait()\n"


def write_script(folder: Path, script: str) -> None:
    (folder / SCRIPT).write_text(json.dumps(textwrap.dedent(script)))


def preload() -> None:
    """Nothing to load."""


def main(spec: TrialSpec, folder: RunFolder) -> int:
    if (settle := folder.path / SETTLE_FILE).exists():
        ranks.SETTLE_S = float(settle.read_text())
    return ranks.look_after(replace(ranks.job(spec, folder), module=MODULE, slow_import=MODULE))


def run_rank(spec: TrialSpec, folder: RunFolder, cluster: Cluster, rank: Rank) -> int:
    folder.write(folder.path / f"pid-{rank.name}.txt", str(os.getpid()))
    hosts = {"worker": cluster.worker_hosts, "ps": cluster.ps_hosts}
    address, _, port = hosts[rank.job_name][rank.task_index].rpartition(":")

    def listen() -> None:
        names["listening"] = socket.create_server((address, int(port)))

    def beat() -> None:
        threading.Thread(target=_beat, args=(folder, rank), daemon=True).start()

    def end(outcome: Outcome, message: str = "") -> None:
        result = AttemptResult(outcome=outcome, message=message)
        folder.write(folder.result, result.to_json())
        names["exit_code"] = EXIT_CODES[outcome]

    names = {
        **{
            "name": rank.name,
            "folder": folder.path,
            "spec": spec,
            "cluster": cluster,
            "port": int(port),
            "exit_code": 0,
        },
        **{
            "listen": listen,
            "beat": beat,
            "end": end,
            "wait": _wait,
            "until": _until,
            "Outcome": Outcome,
        },
    }
    exec(json.loads((folder.path / SCRIPT).read_text()), names)
    return int(names["exit_code"])  # type: ignore[call-overload]  # what a script sets is a number


def _beat(folder: RunFolder, rank: Rank) -> None:
    number = 0
    while True:
        number += 1
        folder.write(
            folder.rank_beat(rank), str(number)
        )  # whole: a rank that is stopped in the middle has been heard, too
        time.sleep(0.05)


def _wait() -> None:
    signal.pthread_sigmask(
        signal.SIG_BLOCK, [signal.SIGTERM]
    )  # as TensorFlow, which waits for a peer
    while True:
        signal.pause()


def _until(path: Path) -> None:
    while not path.exists():
        time.sleep(0.01)


if __name__ == "__main__":
    if orchestrator := os.environ.get(ORCHESTRATOR_VARIABLE):
        die_with(int(orchestrator))
        own_process.heed_signals()
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=OwnRank.from_json)
    parser.add_argument("trial", type=Path)
    parser.add_argument("folder", type=Path)
    asked = parser.parse_args()
    folder = RunFolder(asked.folder)
    if asked.rank is None:
        own_process.run_and_exit(main, asked.trial, folder)
    spec = TrialSpec.from_json(asked.trial.read_text())
    sys.exit(run_rank(spec, folder, asked.rank.cluster, asked.rank.rank))
