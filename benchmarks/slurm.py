"""Trials of nothing over four virtual Slurm nodes, two of which are killed on the way: is each
completed once?

`python benchmarks/slurm.py [--trials 200] [--kill-at 40 90]` prints what became of the repeats,
what an agent takes between two trials, and the log of the cluster's controller.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)

from tests import postgresql, slurm, slurm_campaign


def main(arguments: Sequence[str]) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.trials < 1:
        parser.error(f"--trials {options.trials}: wanted 1 or more")
    if len(options.kill_at) >= len(slurm.NODES):
        parser.error(
            f"--kill-at: {len(options.kill_at)} nodes of {len(slurm.NODES)}; wanted fewer, "
            "so that some are left"
        )
    programs = postgresql.find_programs()
    if complaint := slurm.obstacle() or (
        "" if programs else "no PostgreSQL server programs: run scripts/install-postgresql"
    ):
        sys.exit(complaint)
    assert programs
    with (
        tempfile.TemporaryDirectory() as folder,
        slurm.cluster() as cluster,
        postgresql.server(programs) as server,
        postgresql.new_database(server) as url,
    ):
        os.environ["SLURM_CONF"] = str(cluster.config)
        reported = slurm_campaign.run(
            cluster, url, Path(folder), options.trials, options.kill_at, timeout_s=600
        )
        at = ", ".join(map(str, options.kill_at)) or "none"
        print(
            f"{options.trials} trials, nodes killed at completed repeats: {at}: "
            f"{reported.states}, {reported.num_twice} completed twice"
        )
        print(
            f"{reported.num_interrupted} attempts did not complete; {reported.wall_s:.1f} s in all"
        )
        print(
            "from the end of an attempt to the start of its agent's next: "
            f"{reported.overhead_s:.3f} s (median)"
        )
        print(cluster.run("squeue", "-h", "-r", "-t", "all", "-o", "job %i on %N: %T %r"))
        print((cluster.folder / "log" / "slurmctld.log").read_text())
    return 0 if reported.states == {"completed": options.trials} and not reported.num_twice else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Trials over four virtual Slurm nodes, some of which are killed on the way."
    )
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument(
        "--kill-at",
        type=int,
        nargs="*",
        default=[40, 90],
        metavar="N",
        help="completed trials, each for a node",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
