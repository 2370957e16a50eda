"""Runs trials of small real programs in a process of their own, as an orchestrator starts them."""

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

from command.curve import PrintedNumbers
from command.measuring import ProgramRun
from command.watch import Moments
from scalemark.records.attempt import Placement
from scalemark.records.measurement import AttemptResult
from scalemark.records.trial import TrialSpec
from scalemark.run_folder import RunFolder
from sweeper.starts import environment

STEPS = r"regex:step (?P<step>\d+) rate (?P<throughput>\S+)(?: loss (?P<loss>\S+))?"
MEANS_AND_TOTAL = (  # of tf_cnn_benchmarks
    r"regex:^(?P<step>\d+)\s+images/sec: (?P<mean_throughput>\S+)"
    r"|total images/sec: (?P<total>\S+)|^Batch size:\s+(?P<items_per_step>\d+) global"
)
ONE = r"regex:total: (?P<total>\S+)"
CODES = {0: "completed", 1: "failed", 3: "unsupported", 4: "out_of_memory", 5: "invalid"}
CODES |= {6: "hung", 7: "failed", 130: "interrupted"}
SPEC = TrialSpec.of(
    {
        "engine": "command",
        "model": "program",
        "num_gpus": 2,
        "device_kind": "cpu_device",
        "seed": 1,
        "min_warm_up_steps": 2,
        "command": "true",
        "read": STEPS,
    }
)


def run_of(spec: TrialSpec, printed: PrintedNumbers, ended_s: float) -> ProgramRun:
    """Return a program that ran from 0 on, of which nobody looked at what it took."""
    return ProgramRun(
        spec=spec, printed=printed, looks=Moments(()).end(), started_s=0.0, ended_s=ended_s
    )


def spec_of(command: str, read: str = STEPS, **changes: object) -> TrialSpec:
    return replace(SPEC, command=command, read=read, **changes)


def script(text: str, name: str = "program.py") -> str:
    """A program of these lines, as a command line."""
    Path(name).write_text(textwrap.dedent(text))
    return f"{sys.executable} {name}"


def folder_of(spec: TrialSpec, name: str = "run") -> RunFolder:
    folder = RunFolder(Path(name).absolute())
    folder.path.mkdir()
    folder.trial.write_text(spec.to_json())
    return folder


def begin(
    spec: TrialSpec, name: str = "run", given: Placement | None = None, **variables: str
) -> tuple[subprocess.Popen, RunFolder]:
    folder = folder_of(spec, name)
    if given:
        folder.placement.write_text(given.to_json())
    with folder.log.open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "command", str(folder.trial), str(folder.path)],
            cwd=folder.path,
            env=environment(os.environ, "") | variables,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    return process, folder


def run(
    spec: TrialSpec, name: str = "run", given: Placement | None = None, **variables: str
) -> tuple[AttemptResult, RunFolder]:
    process, folder = begin(spec, name, given, **variables)
    code = process.wait()
    result = folder.read_result()
    assert result is not None, folder.log.read_text()
    assert CODES[code] == result.outcome
    return result, folder


def environment_of(folder: RunFolder) -> dict:
    return json.loads(folder.environment.read_text())
