"""The process that measures is read while it runs, and ended with its reader."""

import os
import sys
from dataclasses import replace

import pytest

from scalemark.cli.terminal import silent
from scalemark.records.machine import ProbeRequest
from sweeper.probe import Measured, measure

REQUEST = ProbeRequest(device_kind="cpu_device", num_devices=2, precisions=())
COPY = '{"what": "to_host", "value": 2e10, "source": 0}'
SUM = '{"what": "all_reduce", "value": null, "problem": "no memory", "num_bytes": 1}'


def measured_by(script, stall_s=60.0, progress=silent):
    found = Measured()
    command = (sys.executable, "-c", script)
    measure(REQUEST, os.environ, found, progress, command=command, stall_s=stall_s)
    return found


def test_figures_and_doubts_are_read_and_what_libraries_print_is_not():
    seen = []
    found = measured_by(
        f"print('oneDNN is on'); print('12'); print('{{\"total\": 2}}'); print('{COPY}'); print('{SUM}');"
        'print(\'{"doubt": "others"}\')',
        progress=lambda what, done, total: seen.append((done, total)),
    )
    assert [(one.what, one.value, one.problem) for one in found.figures] == [
        ("to_host", 2e10, ""),
        ("all_reduce", None, "no memory"),
    ]
    assert (found.doubts, found.problem) == (["others"], "")
    assert seen[-1] == (2, 2)


def test_a_process_that_ends_early_says_why_and_what_it_measured_is_there():
    found = measured_by(f"print('{COPY}', flush=True); raise SystemExit('no room: 4 GiB wanted')")
    assert [one.what for one in found.figures] == ["to_host"]
    assert found.problem == "its process ended with 1: no room: 4 GiB wanted"


def test_the_last_line_is_the_cause_and_not_the_first_that_a_library_logs():
    """A bug: of a probe that failed, "WARNING: All log messages before absl::..." was all said."""
    log = "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR"
    found = measured_by(f"import sys; print({log!r}, file=sys.stderr); sys.exit('no GPU is seen')")
    assert found.problem == "its process ended with 1: no GPU is seen"


def test_of_a_process_that_a_library_ends_the_error_in_its_log_is_the_cause():
    log = "F0101 cuda_dnn.cc:1] Check failed: no room\n*** Check failure stack trace: ***\n@ 0x7f"
    found = measured_by(f"import os, sys; print({log!r}, file=sys.stderr, flush=True); os.abort()")
    assert found.problem == (
        "its process ended with -6: F0101 cuda_dnn.cc:1] Check failed: no room"
    )


def test_the_real_process_says_in_a_sentence_what_it_lacks():
    found = Measured()
    asked = replace(REQUEST, device_kind="gpu", num_devices=1)
    measure(asked, os.environ | {"CUDA_VISIBLE_DEVICES": ""}, found, silent)
    assert found.problem.startswith(
        "its process ended with 1: TensorFlow sees 0 GPUs where the trial wants 1; "
    )


def test_a_process_that_hangs_is_ended():
    script = f"import time; print('{COPY}', flush=True); time.sleep(3600)"
    found = measured_by(script, stall_s=1.0)
    assert found.problem == "no figure for 1 s: ended"


def test_whatever_ends_the_reader_ends_the_process(tmp_path):
    """Ctrl-C comes while it reads."""
    file = tmp_path / "pid"
    script = (
        f"import os, time; open({str(file)!r}, 'w').write(str(os.getpid()));"
        f"print('{COPY}', flush=True); time.sleep(3600)"
    )

    def interrupt(what, done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measured_by(script, progress=interrupt)
    with pytest.raises(ProcessLookupError):
        os.kill(int(file.read_text()), 0)
