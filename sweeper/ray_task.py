"""Runs a program as a task of a Ray cluster, with our own pipes: a prefix, as srun and ssh are.

```
  near ── pipes ──► this, a driver ── calls ──► RayProgram, an actor ── pipes ──► far
    └─ dies ────────────── dies ──► Ray ends ─────── its pipes close ────────────► ends
```

`python -m sweeper.ray_task ADDRESS run --gpus 2 -- PROGRAM ARGUMENT...`. For a trial over several
hosts `reserve` holds a placement group while PROGRAM runs on this host, with the group and the
addresses of its hosts in variables; below it `run --host I` runs there. `nodes` prints the hosts.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import secrets
import select
import subprocess
import sys
import threading
from typing import Any, NoReturn

from scalemark.records.attempt import ADDRESSES_VARIABLE

LOST = 255  # as ssh has it: what became of the program is not known
GROUP_VARIABLE = "SCALEMARK_RAY_GROUP"
_NAMESPACE = "scalemark"
_PART_BYTES = 2**18
_LOOK_EVERY_S = 1.0
_OF_RAYS_OWN_TASKS = ("OMP_NUM_THREADS",)


class RayProgram:
    """A program on a host of the cluster; it sees the GPUs that Ray gives to this actor."""

    def start(self, argv: list[str]) -> None:
        """Raises OSError."""
        variables = dict(os.environ)
        for name in _OF_RAYS_OWN_TASKS:
            variables.pop(name, None)
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
        for pipe in select.select(list(self._open), [], [], _LOOK_EVERY_S)[0]:
            part = os.read(pipe, _PART_BYTES)
            if part:
                parts.append((self._open[pipe], part))
            else:
                del self._open[pipe]
        return parts, None if self._open else self._process.wait()


def _join(address: str) -> Any:
    import ray

    ray.init(
        address=address, namespace=_NAMESPACE, log_to_driver=False, logging_level=logging.ERROR
    )
    return ray


def _print_nodes(ray: Any) -> None:
    nodes = []
    for node in ray.nodes():
        if node["Alive"]:
            has = node["Resources"]
            nodes.append({"cpus": int(has.get("CPU", 0)), "gpus": int(has.get("GPU", 0))})
    print(json.dumps(nodes))


def _bundle(given: argparse.Namespace) -> dict[str, float]:
    wanted = {"CPU": given.cpus, "GPU": given.gpus}
    return {name: num for name, num in wanted.items() if num}


def _reserve(ray: Any, given: argparse.Namespace, argv: list[str]) -> int:
    """Hold a host for each bundle of a group, and run the program here."""
    from ray.util import placement_group, placement_group_table

    name = secrets.token_hex(8)
    bundles = [_bundle(given)] * given.hosts
    group = placement_group(bundles, strategy="STRICT_SPREAD", name=name)
    ray.get(group.ready())
    address_of = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes()}
    places = placement_group_table(group)["bundles_to_node_id"]
    addresses = [address_of[places[number]] for number in range(given.hosts)]
    more = {GROUP_VARIABLE: name, ADDRESSES_VARIABLE: ",".join(addresses)}
    return subprocess.run(argv, env={**os.environ, **more}, check=False).returncode


def _run(ray: Any, given: argparse.Namespace, argv: list[str]) -> int:
    options: dict[str, Any] = {"num_gpus": given.gpus, "num_cpus": given.cpus}
    if given.host is not None:
        from ray.util import get_placement_group
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        group = get_placement_group(os.environ[GROUP_VARIABLE])
        options = {
            "num_cpus": 0,  # the ranks of a host share its bundle
            "num_gpus": given.gpus,
            "scheduling_strategy": PlacementGroupSchedulingStrategy(
                group, placement_group_bundle_index=given.host
            ),
        }
    program = ray.remote(RayProgram).options(max_concurrency=2, **options).remote()
    ray.get(program.start.remote(argv))
    threading.Thread(target=_send_input, args=(ray, program), daemon=True).start()
    exit_code = None
    while exit_code is None:
        parts, exit_code = ray.get(program.read.remote())
        for descriptor, part in parts:
            while part:
                part = part[os.write(descriptor, part) :]
    return int(exit_code)


def _send_input(ray: Any, program: Any) -> None:
    part = b"more"
    while part:
        part = os.read(0, _PART_BYTES)
        ray.get(program.write.remote(part))


def main() -> NoReturn:
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("action", choices=["nodes", "reserve", "run"])
    parser.add_argument("--gpus", type=float, default=0)
    parser.add_argument("--cpus", type=float, default=0)
    parser.add_argument("--hosts", type=int, default=1)
    parser.add_argument("--host", type=int)
    words = sys.argv[1:]
    dashes = words.index("--") if "--" in words else len(words)
    given, argv = parser.parse_args(words[:dashes]), words[dashes + 1 :]
    status = 0
    try:
        ray = _join(given.address)
        if given.action == "nodes":
            _print_nodes(ray)
        else:
            status = (_reserve if given.action == "reserve" else _run)(ray, given, argv)
    except Exception as error:  # Ray has many kinds, of which no program ended
        why = " ".join(str(error).split())[-500:]
        print(f"unable to connect to the program by Ray: {why}", file=sys.stderr)
        status = LOST
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status & 0xFF)  # Ray ends what is left; its own way out takes a second


if __name__ == "__main__":
    main()
