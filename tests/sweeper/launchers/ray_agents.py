"""`python ray_agents.py ADDRESS`: three agents that are shells, by launcher=ray on two nodes; prints what became of them.

A process of its own: Ray's threads would stay in the one of the tests, which forks.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

import psutil

from sweeper.launchers import AgentCommand, AgentJob, JobState
from sweeper.launchers.ray import Launcher
from tests.conf.test_resolve import config

PATIENCE_S = 300.0
SHELL = "echo GPUs $CUDA_VISIBLE_DEVICES, secret $SECRET; echo $$ >>pids; sleep 300 & wait"


def main(address: str) -> None:
    launcher = Launcher(
        config("launcher=ray", f"launcher.ray.address={address}", "launcher.agents.num_hosts=2")
    )
    inventory = launcher.check()
    pids = Path("pids").absolute()
    argv = ("/bin/sh", "-c", SHELL.replace("pids", str(pids)))
    launcher.start(
        3,
        AgentCommand(
            sweep="s", hosts=1, argv=argv, environment={"SECRET": "hush"}, logs=Path.cwd()
        ),
    )

    gives_up_s = monotonic() + PATIENCE_S

    def until(states: str, holds: Callable[[], bool] = lambda: True) -> list[AgentJob]:
        while "".join(sorted(job.state[0] for job in launcher.look("s"))) != states or not holds():
            assert monotonic() < gives_up_s, (
                f"wanted {states}, found {launcher.look('s')}; told so far: {reported}"
            )
            sleep(0.05)
        return list(launcher.look("s"))

    reported: dict[str, object] = {"devices": [inventory.kind.value, inventory.num_devices]}
    first = until("qrr", lambda: pids.exists() and len(pids.read_text().split()) == 2)
    reported["waits"] = [job.why for job in first if job.state is JobState.QUEUED]
    reported["logs"] = sorted(
        job.log.read_text() for job in first if job.log and job.state is JobState.RUNNING
    )
    agent = psutil.Process(int(pids.read_text().split()[0]))
    worker = agent.parent()
    assert worker
    worker.kill()
    agent.wait(PATIENCE_S)
    second = until("err", lambda: len(pids.read_text().split()) == 3)
    reported["killed"] = [job.why for job in second if job.state is JobState.ENDED]
    launcher.stop("s", at_once=False)
    reported["stopped"] = sorted(job.why for job in until("eee"))
    reported["left"] = [pid for pid in pids.read_text().split() if psutil.pid_exists(int(pid))]
    launcher.start(
        1, AgentCommand(sweep="s", hosts=1, argv=("/none",), environment={}, logs=Path("/none"))
    )
    reported["no folder"] = until("eeee")[-1].why
    print(json.dumps(reported))


if __name__ == "__main__":
    main(sys.argv[1])
