"""Writes the software of a trial into its run folder: `environment.json`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from scalemark.host import software
from scalemark.records import switches
from scalemark.records.trial import TrialSpec
from scalemark.records.validation import storable
from scalemark.run_folder.folder import RunFolder
from scalemark.text.redact import without_secrets


def write(spec: TrialSpec, folder: RunFolder) -> None:
    """Write what is known before TensorFlow is imported, which may fail."""
    set_by_trial = {
        name: without_secrets(storable(value))
        for name, value in switches.variables(spec, os.environ).items()
    }
    environment = software.describe() | {
        "commit": software.commit(),
        "diff": software.diff(),
        "set_by_trial": set_by_trial,
        "cuda_build": "",
        "cudnn_build": "",
    }
    _write(folder, environment)


def add_build(folder: RunFolder, build: Mapping[str, Any]) -> None:
    """Add what TensorFlow was built with, if anything; other versions may be installed."""
    environment = folder.read_environment()
    assert environment is not None  # `write` came first
    cuda, cudnn = (str(build.get(name, "")) for name in ("cuda_version", "cudnn_version"))
    if cuda or cudnn:
        _write(folder, environment | {"cuda_build": cuda, "cudnn_build": cudnn})


def _write(folder: RunFolder, environment: Mapping[str, Any]) -> None:
    folder.write(folder.environment, json.dumps(environment, indent=1, sort_keys=True))
