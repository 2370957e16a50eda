"""`python -P -m trainer.fork_server SOCKET MODULE`: loads a trainer once, then forks it.

```
  orchestrator ── {"start": folder, "environment": {...}} ──►  server ── fork ──►  trainer
               ◄── {"pid": 123} ──────────────────────────                            │
               ── {"reap": 123} ─────────────────────────►          ◄── wait ─────────┘
               ◄── {"exit_code": 0} ──────────────────────
```

A fork takes hundredths of a second. The server has one thread, runs no op and lists no device, so
that every trainer finds TensorFlow as a fresh import leaves it. An ended trainer keeps its number
until the orchestrator has it reaped. At the end of the socket the server ends, and its trainers
with it. The standard library's forkserver has one environment for all, and imports __main__ again
in each.
"""

import gc
import json
import os
import signal
import socket
import sys
import traceback
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from scalemark.host.processes import ORCHESTRATOR_VARIABLE, die_with
from scalemark.run_folder import RunFolder
from trainer import own_process


def main(descriptor: int, module_name: str) -> NoReturn:
    """Load a module with `preload()` and `main(spec, folder) -> int`; run `main` per trainer."""
    die_with(int(os.environ[ORCHESTRATOR_VARIABLE]))
    # where it is ignored, nobody learns how a trainer ended
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    leave_out_idle_libraries()
    module = import_module(module_name)
    module.preload()
    gc.freeze()  # a collection would write to all of it, and so copy it into each trainer
    _stop_idle_threads()
    connection = socket.socket(fileno=descriptor)
    orders = connection.makefile("r")
    answer: dict[str, Any] = {
        "num_threads": own_process.num_threads(),
        "libcuda": own_process.libcuda_is_loaded(),
    }
    while True:
        connection.sendall(json.dumps(answer).encode() + b"\n")
        line = orders.readline()
        if not line:
            os._exit(0)
        answer = _obey(json.loads(line), module, descriptor)


def leave_out_idle_libraries() -> None:
    """Hide pyarrow from pandas, which Keras loads: its idle threads would forbid forking."""
    # importing it fails, as where it is not installed
    sys.modules["pyarrow"] = None  # type: ignore[assignment]


def _obey(order: dict[str, Any], module: ModuleType, descriptor: int) -> dict[str, Any]:
    if "reap" in order:
        _, status = os.waitpid(order["reap"], 0)  # ended already, so it does not wait
        return {"exit_code": os.waitstatus_to_exitcode(status)}
    server = os.getpid()
    try:
        pid = os.fork()
    except OSError as error:
        return {"error": error.errno}
    if pid == 0:
        _be_trainer(
            module, RunFolder(Path(order["start"])), order["environment"], server, descriptor
        )
    return {"pid": pid}


def _be_trainer(
    module: ModuleType, folder: RunFolder, environment: dict[str, str], server: int, orders: int
) -> NoReturn:
    """Become a trainer; never return or raise into the server's loop."""
    try:
        die_with(server)
        os.setsid()
        Path("/proc/self/comm").write_text("trainer")  # what ps and top call it
        own_process.heed_signals()
        os.close(orders)  # else it would not end with the server
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder.path)
        own_process.write_into(folder.log)
        sys.argv = ["trainer", str(folder.trial), str(folder.path)]
        own_process.run_and_exit(module.main, folder.trial, folder)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def _stop_idle_threads() -> None:
    """OpenBLAS starts its threads at import, stops them before a fork, and starts them again at its
    next use.

    So one fork for nothing leaves the server with one thread, and the trainers with as many as they
    would have had.
    """
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
