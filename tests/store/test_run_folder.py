"""A run folder tells what is in it, or which of its files is damaged, and keeps what it was given."""

import json
import os
from dataclasses import asdict, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from scalemark.records.attempt import (
    AskedFor,
    AttemptBegin,
    AttemptEnd,
    Placement,
    SweepRecord,
    sweep_uid,
)
from scalemark.records.machine import Gpu, GpuLink
from scalemark.records.measurement import AttemptResult, Doing, Outcome
from scalemark.run_folder import RunFolder
from tests.filled import ENVIRONMENT, MACHINE, NOON, SOFTWARE_KEY, STEPS, measurement
from tests.specs import small

NOTHING = '{"outcome": "completed", "message": "", "measurement": null, "op_placement": {}}'


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path)


def test_an_empty_folder_tells_nothing(folder):
    assert folder.read_doing() is Doing.BUILDING
    assert (
        folder.read_steps(),
        folder.last_step(),
        folder.read_environment(),
        folder.read_result(),
    ) == ([], None, None, None)


def test_a_line_cut_off_is_left_out(folder):
    folder.steps.write_text(
        "".join(json.dumps(asdict(step)) + "\n" for step in STEPS) + '{"step": 3, "pha'
    )
    assert (folder.read_steps(), folder.last_step()) == (STEPS, 2)


@pytest.mark.parametrize(
    "text",
    ["", "\0\0", "null", "[]", "3", "{}", NOTHING[:-1], NOTHING.replace("completed", "splendid")],
)
def test_a_result_that_is_none_is_a_value_error_with_its_name(folder, text):
    folder.result.write_text(text)
    with pytest.raises(ValueError, match=r"/result\.json is damaged: "):
        folder.read_result()


@pytest.mark.parametrize("measurement", ["{}", "3", '{"throughput": 3}', "[1]"])
def test_a_measurement_of_another_kind_is_damage(folder, measurement):
    folder.result.write_text(NOTHING.replace("null", measurement))
    with pytest.raises(ValueError, match=r"/result\.json is damaged: measurement: "):
        folder.read_result()


def test_a_result_from_before_a_figure_was_measured_lacks_it(folder):
    older = asdict(measurement(100.0))
    for name in ("mfu", "peak_flops_per_s", "variable_bytes", "optimizer_state_bytes"):
        del older[name]
    folder.result.write_text(json.dumps(json.loads(NOTHING) | {"measurement": older}))
    assert folder.read_result().measurement == measurement(100.0)


@pytest.mark.parametrize("line", ["\0\0", "[]", "{}", "null", '{"step": null}'])
def test_steps_that_are_none_are_a_value_error_with_their_name(folder, line):
    folder.steps.write_text(line + "\n")
    for read in (folder.read_steps, folder.last_step):
        with pytest.raises(ValueError, match=r"/steps\.jsonl is damaged: "):
            read()


@pytest.mark.parametrize("text", ["", "null", "[]", "3", "{}"])
def test_an_environment_that_is_none_is_a_value_error_with_its_name(folder, text):
    folder.environment.write_text(text)
    with pytest.raises(ValueError, match=r"/environment\.json is damaged: "):
        folder.read_environment()


def test_an_environment_names_what_is_missing(folder):
    folder.environment.write_text(
        json.dumps({name: ENVIRONMENT[name] for name in ENVIRONMENT if name != "packages"})
    )
    with pytest.raises(ValueError, match=r"environment.packages: wanted an object"):
        folder.read_environment()


def test_bytes_that_are_no_text_are_damage(folder):
    folder.doing.write_bytes(b"\xff")
    with pytest.raises(ValueError, match=r"/doing\.txt is damaged: UnicodeDecodeError: "):
        folder.read_doing()


def test_what_cannot_be_opened_is_an_os_error(folder):
    for path in (folder.doing, folder.steps, folder.environment, folder.result):
        path.mkdir()
    for read in (
        folder.read_doing,
        folder.read_steps,
        folder.last_step,
        folder.read_environment,
        folder.read_result,
    ):
        with pytest.raises(IsADirectoryError):
            read()


def test_steps_are_on_the_disk_before_their_result_is(folder, monkeypatch):
    synced, fsync = [], os.fsync

    def seen(descriptor: int) -> None:
        fsync(descriptor)
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        synced.append(
            (path.name, path.read_text() if path.is_file() else "", folder.result.exists())
        )

    monkeypatch.setattr(os, "fsync", seen)
    folder.write(folder.doing, Doing.STEPPING)
    folder.write(folder.environment, "{}")
    folder.steps.write_text("{}\n")
    folder.write(folder.result, NOTHING)
    before = [
        ("environment.draft", "{}", False),
        ("steps.jsonl", "{}\n", False),
        (folder.path.name, "", False),
    ]
    assert synced == [*before, ("result.draft", NOTHING, False)]
    assert folder.result.read_text() == NOTHING


BEGIN = AttemptBegin(
    sweep_uid="0" * 16,
    sweep="first",
    trial_id="1" * 16,
    repeat=1,
    attempt=2,
    started_at=NOON,
    software_key=SOFTWARE_KEY,
)
END = AttemptEnd(
    exit_code=-9,
    duration_s=0.1 + 0.2,
    ended_at=NOON,
    placement=Placement(
        start="fork", devices=(0, 2), visible_devices="", cores=(4, 5), shares_host=True
    ),
    outcome=Outcome.FAILED,
    message="killed",
    result=AttemptResult(outcome=Outcome.FAILED, message="killed"),
)


def test_begin_and_end_of_an_attempt_are_read_as_they_were_written(folder):
    assert (folder.read_attempt(), folder.read_ended(), folder.read_machine()) == (None, None, None)
    folder.write(folder.attempt, BEGIN.to_json())
    folder.write(folder.ended, END.to_json())
    assert (folder.read_attempt(), folder.read_ended()) == (BEGIN, END)
    folder.write(folder.ended, replace(END, result=None, duration_s=None, exit_code=None).to_json())
    assert folder.read_ended().result is None


def test_a_machine_is_read_as_it_was_written(folder):
    mig = Gpu(
        uuid="MIG-1",
        name="A100 MIG",
        memory_bytes=None,
        pci_bus_id="0",
        compute_capability="8.0",
        power_limit_w=None,
    )
    gpu = replace(mig, uuid="GPU-1", numa_node=1, cores=(0, 1), mig_mode=True, mig_devices=(mig,))
    machine = replace(
        MACHINE, gpus=(gpu,), links=(GpuLink(between=("GPU-1", "GPU-2"), num_nvlinks=2),)
    )
    folder.machine.write_text(machine.to_json())
    assert folder.read_machine() == machine
    reported = json.loads(machine.to_json())
    del reported["links"], reported["gpus"][0]["cores"]
    folder.machine.write_text(json.dumps(reported))
    assert folder.read_machine() == replace(machine, links=(), gpus=(replace(gpu, cores=()),))


@pytest.mark.parametrize("text", ["", "null", "[]", "3", "{}", "\0\0"])
@pytest.mark.parametrize("name", ["attempt", "ended", "machine"])
def test_a_senseless_attempt_file_raises_a_value_error_with_its_name(folder, name, text):
    getattr(folder, name).write_text(text)
    with pytest.raises(ValueError, match=rf"/{name}\.json is damaged: "):
        getattr(folder, f"read_{name}")()


@pytest.mark.parametrize(
    "change", [{"outcome": "splendid"}, {"message": "another"}, {"ended_at": "2026-11-21T12:00:00"}]
)
def test_an_end_that_contradicts_itself_is_damage(folder, change):
    folder.ended.write_text(json.dumps(json.loads(END.to_json()) | change))
    with pytest.raises(ValueError, match=r"/ended\.json is damaged: (outcome|ended_at)="):
        folder.read_ended()


def test_a_time_without_zone_is_not_written():
    with pytest.raises(ValueError, match="a time without zone"):
        replace(BEGIN, started_at=datetime(2026, 1, 1)).to_json()


def test_a_sweep_is_another_when_its_name_its_beginning_or_its_command_is():
    uids = {
        sweep_uid("a", NOON, "sweep.py"),
        sweep_uid("b", NOON, "sweep.py"),
        sweep_uid("a", NOON + timedelta(microseconds=1), "sweep.py"),
        sweep_uid("a", NOON, "sweep.py -m"),
    }
    assert len(uids) == 4
    assert sweep_uid("a", NOON.astimezone(timezone(timedelta(hours=5))), "sweep.py") == sweep_uid(
        "a", NOON, "sweep.py"
    )
    assert (
        sweep_uid("a", NOON, "sweep.py") == "6987c1402ee96c80"
    )  # stored in databases: it never changes


def test_a_sweep_is_read_as_it_was_written():
    trials = tuple(
        AskedFor(position=position, spec=json.loads(small(seed=seed).to_json()))
        for position, seed in ((0, 1), (0, 7), (1, 2))
    )
    sweep = SweepRecord(
        uid=sweep_uid("s", NOON, "sweep.py"),
        name="s",
        reason='a "reason"\n',
        command="sweep.py",
        started_at=NOON,
        trials=trials,
        left_out=(("xla=on", "later"),),
    )
    assert SweepRecord.from_json(sweep.to_json()) == sweep
    assert SweepRecord.from_json(replace(sweep, trials=(), left_out=()).to_json()).trials == ()
    renamed = replace(sweep, name="s (2) (3)")
    assert SweepRecord.from_json(renamed.to_json()) == renamed
    with pytest.raises(ValueError, match="uid 0, and its name, time and command make "):
        SweepRecord.from_json(json.dumps(json.loads(sweep.to_json()) | {"uid": "0"}))
