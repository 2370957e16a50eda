"""Hydra's basic launcher: every trial in the one process, one after the other."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import hydra
from hydra.core.config_store import ConfigStore
from omegaconf import MISSING

from benchmarks.orchestration.peers.in_process import run_trial


@dataclass
class Config:
    folder: str = MISSING


@hydra.main(version_base="1.3", config_path=None, config_name="config")
def job(config: Config) -> int:
    return run_trial(config.folder)


if __name__ == "__main__":
    ConfigStore.instance().store(name="config", node=Config)
    sys.argv[1:] = ["-m", f"folder={','.join(sys.argv[2:])}"]
    job()
