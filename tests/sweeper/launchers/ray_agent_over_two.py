"""`python ray_agent_over_two.py ADDRESS`: an agent over two nodes by launcher=ray, which is a shell.

Prints its process id and environment as JSON, and later why it ended, when it really has. It is ended with the input; a line of that
has it looked at until it ends by itself. A process of its own: see ray_agents.py.
"""

import json
import sys
from pathlib import Path
from time import monotonic, sleep

import psutil

from sweeper.launchers import AgentCommand, JobState
from sweeper.launchers.ray import Launcher
from tests.conf.test_resolve import config

PATIENCE_S = 300.0


def main(address: str) -> None:
    launcher = Launcher(
        config("launcher=ray", f"launcher.ray.address={address}", "launcher.agents.num_hosts=2")
    )
    launcher.check()
    reported = Path("environment.json").absolute()
    tells = f"import json, os; print(json.dumps([os.getppid(), dict(os.environ)]), file=open({str(reported)!r} + '.part', 'w'))"
    argv = (
        "/bin/sh",
        "-c",
        f'{sys.executable} -c "{tells}"; mv {reported}.part {reported}; sleep 600 & wait',
    )
    launcher.start(1, AgentCommand(sweep="s", hosts=2, argv=argv, environment={}, logs=Path.cwd()))
    gives_up_s = monotonic() + PATIENCE_S
    while not reported.exists():
        (agent,) = launcher.look("s")
        assert agent.state is not JobState.ENDED, agent
        assert monotonic() < gives_up_s, agent
        sleep(0.05)
    pid, environment = json.loads(reported.read_text())
    print(json.dumps([pid, environment]), flush=True)
    if not sys.stdin.readline():
        launcher.stop("s", at_once=False)
    while (agent := launcher.look("s")[0]).state is not JobState.ENDED:
        sleep(0.05)
    gives_up_s = monotonic() + PATIENCE_S
    while _is_alive(pid):
        assert monotonic() < gives_up_s, f"{agent}, and its process {pid} lives"
        sleep(0.05)
    print(agent.why)


def _is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


if __name__ == "__main__":
    main(sys.argv[1])
