"""`python tests/tiny_program.py PORT RUN_DIR`: a training program of half a second, with everything that is hard to end.

It listens on PORT, and starts a child in a session of its own that ignores signals, and has another one in its own. It
leaves both running. Ports that were listened on are in `ports.txt` of the folder where it is started.
"""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
NUM_STEPS, STEP_S, ITEMS_PER_STEP = 40, 0.012, 100
READ = r"regex:step (?P<step>\d+) rate (?P<throughput>\S+)"
PORTS = "ports.txt"
_DEAF = """
import signal, subprocess, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
subprocess.Popen(["sleep", "3600"], start_new_session=True)
print("up", flush=True)
time.sleep(3600)
"""


def main(port: int, run_dir: str) -> None:
    overlap.hold(RunFolder(Path(run_dir)))
    with Path(PORTS).open("a") as file:
        file.write(f"{port}\n")
    with socket.create_server(("127.0.0.1", port)):
        child = subprocess.Popen(
            [sys.executable, "-c", _DEAF], stdout=subprocess.PIPE, start_new_session=True
        )
        assert child.stdout
        child.stdout.readline()
        for step in range(1, NUM_STEPS + 1):
            time.sleep(STEP_S)
            print(f"step {step} rate {ITEMS_PER_STEP / STEP_S + step % 3:.0f}", flush=True)
    os._exit(0)


if __name__ == "__main__":
    sys.path[0] = str(PROJECT)
    from scalemark.run_folder import RunFolder
    from tests import overlap

    main(int(sys.argv[1]), sys.argv[2])
