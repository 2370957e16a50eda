"""`python -m trainer.probing REQUEST`: measures, and prints each figure as a line of JSON.

`scalemark probe` starts it, reads its lines, and ends it.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from dataclasses import asdict

from scalemark.records.devices import DeviceKind
from scalemark.records.placement import ORCHESTRATOR_VARIABLE
from scalemark.records.probe import ProbeRequest
from scalemark.text.error_line import telling_line
from trainer.errors import UnsupportedTrialError
from trainer.process import parent


def main(request: ProbeRequest) -> None:
    """Print what is measured at once: an error or an interruption loses nothing before it."""
    from trainer import devices as devices_of
    from trainer.probing import cores, figures

    devices = devices_of.claim(DeviceKind(request.device_kind), request.num_devices)
    figures.pin_host_memory(devices)
    steps = figures.steps_of(request, devices)
    _print({"total": len(steps)})
    before = cores.now()
    for measure in steps:
        _print(asdict(measure()))
    if doubt := cores.doubt(before):
        _print({"doubt": doubt})


def _print(value: object) -> None:
    print(json.dumps(value), flush=True)


if __name__ == "__main__":
    if orchestrator := os.environ.get(ORCHESTRATOR_VARIABLE):
        parent.die_with(int(orchestrator))
    parent.heed_signals()
    parent.end_at_signals()
    try:
        main(ProbeRequest.from_json(sys.argv[1]))
    except UnsupportedTrialError as refusal:
        sys.exit(str(refusal))
    except Exception as error:
        traceback.print_exc()  # of a graph's error the last line says nothing
        sys.exit(f"{type(error).__name__}: {telling_line(str(error))}")
