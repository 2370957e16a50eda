"""Our config with Hydra's own sweeper and launcher, and a job that does nothing: what composing
costs without us.
"""

from __future__ import annotations

import sys

import hydra
from omegaconf import DictConfig

from benchmarks.cost import ROOT
from conf.schema import register


@hydra.main(version_base="1.3", config_path=str(ROOT / "conf"), config_name="config")
def job(config: DictConfig) -> None:
    assert config.model.name
    print("composed")


if __name__ == "__main__":
    register()
    sys.argv.append("hydra/sweeper=basic")
    job()
