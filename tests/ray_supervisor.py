"""A Ray cluster on this machine, of a head without CPUs and two nodes: `python -m tests.ray_supervisor FOLDER`.

Prints its address, and ends with its input. A line of input, `n1` or `n2`, has that node die as if its host had; the next with
that name adds it anew; each is answered by one. Ray's own processes and threads stay out of the tests this way, which fork.
"""

import os
import sys
from pathlib import Path

VARIABLES = {
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # all of Ray stays on the loopback device
}
NODE = {
    "num_cpus": 1,
    "num_gpus": 2,
    "node_ip_address": "127.0.0.1",
    "object_store_memory": 80 * 2**20,
}


def main(folder: Path) -> None:
    os.environ.update(VARIABLES, RAY_TMPDIR=str(folder))
    (
        folder / "ray"
    ).mkdir()  # where Ray then notes which cluster is the newest, and not in the user's own note
    from ray.cluster_utils import Cluster

    def node(name: str) -> dict[str, object]:
        """They are this one host: each gets locks of its own, so that agents do not take turns."""
        return {**NODE, "env_vars": {"SCALEMARK_LOCK_DIR": str(folder / name), "TEST_NODE": name}}

    head = {
        **node("head"),
        "num_cpus": 0,
        "num_gpus": 0,
        "include_dashboard": False,
        "temp_dir": str(folder),
    }
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        nodes = {name: cluster.add_node(**node(name)) for name in ("n1", "n2")}
        print(cluster.address, flush=True)
        for line in sys.stdin:
            name = line.strip()
            if name in nodes:
                cluster.remove_node(nodes.pop(name), allow_graceful=False)
            else:
                nodes[name] = cluster.add_node(**node(name))
            print("done", flush=True)
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
