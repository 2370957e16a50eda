"""Runs a program as a task of a Ray cluster, with our own pipes: a prefix, as srun and ssh are.

```
  near ── pipes ──► this, a driver ── calls ──► RayProgram, an actor ── pipes ──► far
    └─ dies ────────────── dies ──► Ray ends ─────── its pipes close ────────────► ends
```

`python -m sweeper.ray_task '{"action": "run", "gpus": 2, "cpus": 8}' PROGRAM ARGUMENT...`. For a
trial over several hosts the action `reserve` holds a placement group of so many "hosts" while
PROGRAM runs on this host, with the group and the addresses of its hosts in variables; below it
`run` with a "bundle" runs there. Without an action it prints the hosts.
"""

import contextlib
import json
import logging
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from scalemark.host.processes import wait_readable

# an attempt waits for the import of this module, and its host for that of what RayProgram uses
GROUP_VARIABLE = "SCALEMARK_RAY_GROUP"
LOST = 255  # exit code, as that of ssh: what became of the program is not known
_PART_BYTES = 2**18
_LOOK_EVERY_S = 1.0
_ASK_EVERY_S = 10.0


class RayProgram:
    """A program on a host of the cluster; it sees the GPUs that Ray gives to this actor."""

    def start(self, argv: list[str]) -> None:
        """Raises OSError."""
        variables = dict(os.environ)
        variables.pop("OMP_NUM_THREADS", None)  # of Ray's own tasks
        # Ray's workers are nicer than others; what is measured is not, where we may say so
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, 0)
        self._process = subprocess.Popen(
            argv,
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
        assert self._process.stdout
        assert self._process.stderr
        self._open = {self._process.stdout.fileno(): 1, self._process.stderr.fileno(): 2}

    def write(self, part: bytes) -> None:
        """Give it input; an empty part is the end of it."""
        pipe = self._process.stdin
        assert pipe
        with contextlib.suppress(BrokenPipeError, ValueError):  # it has ended
            while part:
                part = part[pipe.write(part) or 0 :]
                if not part:
                    return
            pipe.close()

    def read(self) -> tuple[list[tuple[int, bytes]], int | None]:
        """Return what it wrote to 1 and 2 since the last call; once all is read, its exit code."""
        parts = []
        for pipe in wait_readable(self._open, _LOOK_EVERY_S):
            part = os.read(pipe, _PART_BYTES)
            if part:
                parts.append((self._open[pipe], part))
            else:
                del self._open[pipe]
        return parts, None if self._open else self._process.wait()


def _answer(ray: Any, asked: Any) -> Any:
    """Wait for what a call of the cluster gives; raises what Ray does.

    The cluster is asked in between: a call is never answered once the head was started anew, which
    another request tells as an error.
    """
    from ray.experimental.internal_kv import _internal_kv_exists  # what ray.nodes() asks may abort

    while not ray.wait([asked], timeout=_ASK_EVERY_S)[0]:
        _internal_kv_exists(b"scalemark")
    return ray.get(asked)


def _reserve(ray: Any, asked: dict[str, Any], argv: Sequence[str]) -> int:
    """Hold a host for each bundle of a group, and run the program here."""
    from ray.util import placement_group, placement_group_table

    from scalemark.records.attempt import ADDRESSES_VARIABLE

    name = secrets.token_hex(8)
    wanted = {"CPU": asked["cpus"], "GPU": asked["gpus"]}
    bundle = {resource: num for resource, num in wanted.items() if num}
    group = placement_group([bundle] * asked["hosts"], strategy="STRICT_SPREAD", name=name)
    _answer(ray, group.ready())
    address_of = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes()}
    places = placement_group_table(group)["bundles_to_node_id"]
    addresses = [address_of[places[number]] for number in range(asked["hosts"])]
    more = {GROUP_VARIABLE: name, ADDRESSES_VARIABLE: ",".join(addresses)}
    return subprocess.run(argv, env={**os.environ, **more}, check=False).returncode


def _run(ray: Any, asked: dict[str, Any], argv: Sequence[str]) -> int:
    options: dict[str, Any] = {"num_gpus": asked["gpus"], "num_cpus": asked["cpus"]}
    if asked["bundle"] is not None:
        from ray.util import get_placement_group
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        group = get_placement_group(os.environ[GROUP_VARIABLE])
        options["num_cpus"] = 0  # the ranks of a host share its bundle
        options["scheduling_strategy"] = PlacementGroupSchedulingStrategy(
            group, placement_group_bundle_index=asked["bundle"]
        )
    program = ray.remote(RayProgram).options(max_concurrency=2, **options).remote()
    _answer(ray, program.start.remote(argv))

    def send_input() -> None:
        part = b"more"
        while part:
            part = os.read(0, _PART_BYTES)
            _answer(ray, program.write.remote(part))

    threading.Thread(target=send_input, daemon=True).start()
    exit_code = None
    while exit_code is None:
        parts, exit_code = _answer(ray, program.read.remote())
        for descriptor, part in parts:
            while part:
                part = part[os.write(descriptor, part) :]
    return int(exit_code)


def _connected(asked: dict[str, Any], argv: Sequence[str]) -> int:
    """Return the exit status of the program, or LOST."""
    try:
        ray: Any = import_module("ray")
        ray.init(
            address="auto",  # RAY_ADDRESS, or the cluster of this host
            namespace="scalemark",
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
        if "action" not in asked:
            nodes = []
            for node in ray.nodes():
                if node["Alive"]:
                    has = node["Resources"]
                    nodes.append({"cpus": int(has.get("CPU", 0)), "gpus": int(has.get("GPU", 0))})
            print(json.dumps(nodes))
            return 0
        return (_reserve if asked["action"] == "reserve" else _run)(ray, asked, argv)
    except Exception as error:  # Ray has many kinds, of which no program ended
        why = " ".join(str(error).split())[-500:]
        print(f"unable to connect to the program by Ray: {why}", file=sys.stderr)
        return LOST


if __name__ == "__main__":
    status = _connected(json.loads(sys.argv[1]), sys.argv[2:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status & 0xFF)  # Ray ends what is left; its own way out takes a second
