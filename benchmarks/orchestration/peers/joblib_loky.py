"""joblib with its loky workers, which are reused from trial to trial."""

from __future__ import annotations

import sys

from joblib import Parallel, delayed

from benchmarks.orchestration.peers.in_process import run_trial


def main(num_at_once: int, folders: list[str]) -> int:
    return max(Parallel(n_jobs=num_at_once)(delayed(run_trial)(folder) for folder in folders))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
