"""`python sweep.py` as its user runs it: real subprocesses, a real database, and real TensorFlow where the trainer matters."""

import json
import os
import re
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import psutil
import pytest
import yaml

from tests import forked_sweeps
from tests.conftest import PROJECT
from tests.filled import fill
from tests.ran import ran
from tests.slurm import until
from tests.specs import small
from tests.sweeper.processes import PATIENCE_S, assert_gone

pytestmark = pytest.mark.integration

TINY = ["model=trivial", "num_steps=3", "min_warm_up_steps=1"]
SIMULATED = ["model=trivial", "engine=simulated", "hardware=p100_pcie_8"]

REAL = [sys.executable, forked_sweeps.REAL]
SCRIPTED = [sys.executable, forked_sweeps.SCRIPTED]
ENDLESS = "903"  # the seed of a scripted trial that takes steps until it is ended
WAITS = "907"  # of one that waits for a file `go`


def sweep(*arguments: str) -> subprocess.CompletedProcess[str]:
    return ran([*REAL, *arguments])


def scripted(*arguments: str) -> subprocess.CompletedProcess[str]:
    return forked_sweeps.ran(forked_sweeps.SCRIPTED, "model=trivial", *arguments)


def outcomes(database: str = "results.db") -> list[str]:
    with sqlite3.connect(database) as connection:
        return [
            outcome for (outcome,) in connection.execute("SELECT outcome FROM attempts ORDER BY id")
        ]


def test_a_grid_ends_in_the_database_tables_and_a_chart():
    grid = ["-m", *TINY, "strategy=ps_cpu,replicated_nccl,replicated_pscpu", "num_gpus=1,2"]
    first = sweep(*grid)
    assert first.returncode == 0, first.stderr
    assert outcomes() == ["completed"] * 4
    assert "left out: all_reduce=nccl: NCCL needs one physical GPU per replica" in first.stderr
    assert " (num_gpus=1; num_gpus=2)\n" in first.stderr
    assert "[4/4] trivial-" in first.stderr
    assert re.search(r"\nstrategy +1 CPU device +2 CPU devices\n", first.stdout)
    assert Path("figures/scaling-trivial.png").stat().st_size > 10_000
    assert "<svg" in Path("figures/report.html").read_text()
    (wrote,) = (line for line in first.stderr.splitlines() if line.startswith("wrote "))
    _, _, names = wrote.partition(" files to figures/: ")
    assert set(names.split(", ")) == {path.name for path in Path("figures").iterdir()}
    run_dirs = [path for path in Path("runs").glob("*/*") if path.is_dir()]
    assert len(run_dirs) == 4
    for run_dir in run_dirs:
        files = {
            "trial.json",
            "machine.json",
            "environment.json",
            "steps.jsonl",
            "result.json",
            "log.txt",
        }
        assert files <= {path.name for path in run_dir.iterdir()}
    second = sweep(*grid)
    assert second.returncode == 0
    assert "4 finished earlier" in second.stderr
    assert outcomes() == ["completed"] * 4
    said = "measured by other sweeps: 4 of 4 repeats\n"
    assert second.stdout.count(said) == 1
    assert second.stdout.replace(said, "") == first.stdout


def test_auto_is_resolved_printed_and_stored():
    assert scripted().returncode == 0
    with sqlite3.connect("results.db") as connection:
        (spec,) = connection.execute("SELECT spec FROM trials").fetchone()
    assert "auto" not in json.loads(spec).values()


def test_a_dry_run_prints_the_plan_and_makes_nothing():
    ended = sweep("experiment=cloud_article", "sweep.dry_run=true", "model=vgg16,alexnet")
    assert ended.returncode == 0
    assert "\n32 trials; sweep.dry_run=true sweep.plan_format=json " in ended.stdout
    assert ended.stdout.count("\nleft out: ") == 1
    assert " (8 cells)\n" in ended.stdout
    assert (
        "32 attempts to run; no recorded durations of such trials on this machine: no estimate"
        in ended.stdout
    )
    assert list(Path().iterdir()) == []


def test_the_experiment_of_hosts_spreads_replicas_over_hosts():
    ended = sweep(
        "experiment=hosts", "sweep.dry_run=true", "sweep.plan_format=json", "hardware=cpu"
    )
    assert ended.returncode == 0, ended.stderr
    plan = json.loads(ended.stdout)
    reported = {way: [] for way in ("distributed_ps", "distributed_replicated", "distributed_ring")}
    reported |= {"multi_worker_mirrored_ring": [], "replicated_none": []}
    for trial in plan["trials"]:
        reported[trial["strategy"]].append((trial["spec"]["num_gpus"], trial["spec"]["hosts"]))
    assert reported["replicated_none"] == [(1, 1), (2, 1), (4, 1)]
    assert reported["multi_worker_mirrored_ring"] == [(1, 1), (2, 2), (4, 4)]
    assert (
        reported["distributed_ps"]
        == reported["distributed_replicated"]
        == reported["distributed_ring"]
    )
    assert reported["distributed_ring"] == [(1, 1), (2, 1), (4, 1), (2, 2), (4, 2), (4, 4), (8, 4)]
    assert len(plan["left_out"]) == 8


@pytest.mark.parametrize(
    ("arguments", "models", "num_trials", "num_left_out"),
    [
        (["experiment=today", "hardware=cpu"], {"gpt_mini"}, 6, 2),
        (
            ["experiment=transformers", "engine=simulated", "hardware=dgx_a100"],
            {"gpt2", "bert_base", "vit_b16"},
            90,
            6,
        ),
    ],
)
def test_the_experiments_of_transformers_are_what_they_say(
    arguments, models, num_trials, num_left_out
):
    ended = sweep(*arguments, "sweep.dry_run=true", "sweep.plan_format=json")
    assert ended.returncode == 0, ended.stderr
    plan = json.loads(ended.stdout)
    specs = [trial["spec"] for trial in plan["trials"]]
    assert {spec["model"] for spec in specs} == models
    assert {spec["optimizer"] for spec in specs} == {"adamw"}
    assert {spec.get("gradient_accumulation", 1) for spec in specs} == {1, 4}
    assert (len(specs), len(plan["left_out"])) == (num_trials, num_left_out)


def test_a_plan_is_printed_where_its_sweep_would_be_refused():
    Path("file").touch()
    ended = sweep("model=trivial", "sweep.dry_run=true", "store.runs_dir=file/runs")
    assert ended.returncode == 2
    assert "1 attempt to run" in ended.stdout
    assert "this plan cannot be run as it is: store.runs_dir=" in ended.stderr


def test_a_plan_for_scripts_is_one_json_object_on_stdout():
    ended = sweep(
        "experiment=batch_sizes",
        "sweep.dry_run=true",
        "sweep.plan_format=json",
        "sweep.exclude=['num_gpus>2']",
    )
    plan = json.loads(ended.stdout)
    reported = [
        (trial["spec"]["model"], trial["spec"]["batch_size"], trial["spec"]["num_gpus"])
        for trial in plan["trials"]
    ]
    assert reported == [
        ("resnet18_cifar", 16, 1),
        ("resnet18_cifar", 16, 2),
        ("trivial", 64, 1),
        ("trivial", 64, 2),
        ("resnet18_cifar", 8, 2),
        ("trivial", 32, 2),
    ]
    assert {cell["reason"] for cell in plan["left_out"]} == {"sweep.exclude: num_gpus>2"}
    assert ended.stderr == ""


def test_globs_match_on_the_command_line():
    grids = [
        "hydra.sweeper.grids=[{model:'glob(resnet1*)',num_gpus:[1,2]},{model:vgg16}]",
        "sweep.dry_run=true",
    ]
    assert sweep(*grids).stdout.count("1 to run") == 9


@pytest.mark.parametrize("multirun", [[], ["-m"]])
def test_hydra_shows_the_config_with_and_without_multirun(multirun):
    job = sweep(*multirun, "--cfg", "job", "model=vgg16", "num_gpus=4")
    assert job.returncode == 0, job.stderr
    assert yaml.safe_load(job.stdout)["model"]["name"] == "vgg16"
    assert yaml.safe_load(job.stdout)["num_gpus"] == 4
    assert "hydra_plugins.scalemark" in sweep(*multirun, "--cfg", "hydra").stdout
    assert "strategy/auto" in sweep(*multirun, "--info", "defaults").stdout
    assert list(Path().iterdir()) == []


def test_help_tells_how_to_write_grids():
    reported = sweep("--help").stdout
    for way in (
        "from=3f2a81c0 batch_size=128",
        "hydra.sweeper.grids=[{",
        "glob(resnet*)",
        "sweep.exclude=",
    ):
        assert way in reported
    assert "--multirun,-m" in sweep("--hydra-help").stdout


def test_the_shell_completes_both_commands(monkeypatch):
    monkeypatch.setenv("COMP_LINE", "python sweep.py experiment=b")
    assert sweep("-sc", "query=bash").stdout.split() == ["experiment=batch_sizes"]
    monkeypatch.setenv("COMP_LINE", "scalemark sweep -m model=vgg16 num_g")
    ended = ran([sys.executable, "-m", "scalemark", "-sc", "query=bash"])
    assert ended.stdout.split() == ["num_gpus="]


def test_an_interrupted_sweep_is_continued_under_its_name():
    first = scripted("sweep.name=mine", "seed=901")
    assert (first.returncode, outcomes()) == (1, ["failed"])
    second = scripted("-m", "sweep.name=mine", "seed=901,1")
    assert second.returncode == 1
    assert "failed: as it was reported" in second.stderr
    assert outcomes() == ["failed", "failed", "completed"], "the others go on"
    assert sorted(path.name[-5:] for path in Path("runs/mine").glob("*/")) == [
        "r1-a1",
        "r1-a1",
        "r1-a2",
    ]


def test_charts_that_cannot_be_drawn_spoil_no_result():
    Path("figures/throughput-simulated-p100_pcie_8.png").mkdir(parents=True)
    ended = sweep("-m", *SIMULATED, "num_gpus=1,2")
    assert ended.returncode == 1
    assert (
        "sweep: no chart throughput: figures/throughput-simulated-p100_pcie_8.png: Is a directory"
        in ended.stderr
    )
    assert "the results are stored, see scalemark chart --sweep " in ended.stderr
    assert "to figures/: report.html" in ended.stderr
    assert outcomes() == ["completed"] * 2


def test_ctrl_c_while_it_draws_loses_no_result_and_says_so():
    Path("figures").mkdir()
    os.mkfifo(
        "figures/report.html"
    )  # that nobody reads: it cannot come to an end before it is interrupted
    process = subprocess.Popen(
        [*REAL, *SIMULATED, "sweep.name=mine"],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout
        assert process.stdout.readline()  # tables, which come first
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in said
    last = said.splitlines()[-1]
    assert last.startswith("sweep: drawing was interrupted at ")
    assert (
        "; the results are stored, scalemark report --sweep mine and scalemark chart --sweep mine draw them"
        in last
    )
    assert outcomes() == ["completed"]


def rebuilt(*arguments: str) -> subprocess.CompletedProcess[str]:
    return ran([sys.executable, "-m", "scalemark", "db", "rebuild", "runs", *arguments])


def test_a_variable_and_a_command_that_are_no_utf_8_are_stored_and_rebuilt():
    variables = {**os.environb, b"NCCL_TOPO_FILE": b"caf\xe9"}
    command = [*map(os.fsencode, SCRIPTED), b"model=trivial", b"hydra.job.name='the caf\xe9'"]
    ended = ran(command, env=variables)
    assert ended.returncode == 0, ended.stderr
    again = rebuilt("--db", "rebuilt.db")
    assert (again.returncode, outcomes("rebuilt.db")) == (0, ["completed"]), again.stderr
    for database in ("results.db", "rebuilt.db"):
        with closing(sqlite3.connect(database)) as connection:
            ((description,),) = connection.execute("SELECT description FROM environments")
            ((command,),) = connection.execute("SELECT command FROM sweeps")
        assert json.loads(description)["variables"]["NCCL_TOPO_FILE"] == r"caf\udce9"
        assert r"the caf\U0000dce9" in command


def test_a_trial_that_takes_too_long_is_ended():
    ended = scripted(f"seed={ENDLESS}", "launcher.timeout_s=1")
    assert ended.returncode == 1
    assert outcomes() == ["timed_out"]


@pytest.mark.parametrize(
    ("how", "command"),
    [
        (
            signal.SIGINT,
            [*REAL, "-m", "model=trivial", "min_warm_up_steps=1", "num_steps=3,100000000"],
        ),
        (signal.SIGTERM, [*SCRIPTED, "-m", "model=trivial", f"seed=1,{ENDLESS}"]),
    ],
)
def test_an_interrupted_sweep_keeps_what_was_finished(how, command):
    process = psutil.Popen(command, stderr=subprocess.PIPE, text=True)
    with process.stderr:
        for line in process.stderr:
            if line.startswith("[1/2]"):
                break
        trainer = _wait_for_trainer(process)
        process.send_signal(how)
        rest = process.stderr.read()
    assert process.wait() == 130
    assert outcomes() == ["completed", "interrupted"]
    assert "Traceback" not in rest
    assert rest.splitlines()[-1] == "sweep: interrupted; repeat the command to run what is left"
    assert_gone(trainer.pid)


def test_a_sweep_whose_lines_nobody_reads_any_more_goes_on():
    process = subprocess.Popen(
        [*SCRIPTED, "-m", "model=trivial", "seed=1,2"],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    process.stderr.readline()
    process.stderr.close()
    assert process.wait() == 0
    assert outcomes() == ["completed", "completed"]


def test_attempts_that_a_database_lost_are_taken_from_their_folders():
    """A bug: where a power cut or a backup had rolled it back, all was measured again."""
    options = ("-m", "sweep.name=s", "seed=1,2,3")
    first = scripted(*options, "sweep.exclude=seed > 1")
    assert first.returncode == 0, first.stderr
    shutil.copy("results.db", "backup.db")
    assert scripted(*options).returncode == 0
    Path("backup.db").replace("results.db")
    again = scripted(*options)
    assert again.returncode == 0, again.stderr
    said = "the database had lost 2 attempts of s: recorded from the run folders"
    assert said in again.stderr
    assert "3 finished earlier" in again.stderr
    assert outcomes() == ["completed"] * 3
    assert "had lost" not in scripted(*options).stderr
    whole = sorted(Path("runs/s").glob("*-r1-a1"))[0]
    damaged = whole.with_name(whole.name.replace("-a1", "-a2"))
    shutil.copytree(whole, damaged)
    (damaged / "trial.json").write_text("{")
    said = f"not recorded: 1 run folder of s: {damaged.resolve()}: trial.json is damaged"
    assert said in scripted(*options).stderr
    Path("results.db").unlink()
    assert "this database does not know it; where it was lost, " in scripted(*options).stderr


@pytest.mark.parametrize("prevented", ["Function not implemented", "Operation not permitted"])
def test_a_host_on_which_trials_cannot_be_watched_is_refused(prevented, monkeypatch):
    from sweeper import SweepRefusedError
    from sweeper.sweep import Sweep

    def fail(_pid):
        raise OSError(38, prevented)

    monkeypatch.setattr(os, "pidfd_open", fail)
    with pytest.raises(SweepRefusedError, match=f"pidfd_open: {prevented}.*Linux 5.3 or newer"):
        Sweep(None, "s")


def test_a_database_removed_meanwhile_ends_the_sweep():
    process = subprocess.Popen(
        [*SCRIPTED, "-m", "model=trivial", "seed=range(1,101)"], stderr=subprocess.PIPE, text=True
    )
    with process.stderr:
        for line in process.stderr:
            if line.startswith("["):  # the first trial has ended
                Path("results.db").unlink()
                break
        rest = process.stderr.read()
    assert process.wait() == 2
    assert (
        "sweep: results.db: removed while it was in use; results made since are in their run folders; "
        in rest.splitlines()[-1]
    )


def _cut_off(path: Path) -> None:
    os.truncate(path, 4096)


def _overwrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(os.urandom(path.stat().st_size))


def _overwrite_the_middle(path: Path) -> None:
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 8)  # pages that no later transaction reads would not be noticed
        file.write(bytes(3 * size // 4))


def _copy_another_over(path: Path) -> None:
    other = Path("other.db")
    if not other.exists():
        fill(str(other), [(small(), 100.0)])
    path.write_bytes(other.read_bytes())


def _empty(path: Path) -> None:
    path.write_bytes(b"")


# the damage came after our check of a transaction, and a statement of it met a damaged page
MET_BY_SQLITE = (
    "sweep: results.db: database disk image is malformed; it is damaged: move it away with its -wal "
    "and -shm, then restore a backup, or make it again with `scalemark db rebuild RUNS`"
)


@pytest.mark.parametrize(
    "strike", [_cut_off, _empty, _overwrite, _overwrite_the_middle, _copy_another_over]
)
def test_a_database_damaged_meanwhile_ends_the_sweep(strike):
    fill(
        "results.db", [(small(seed=seed), 100.0) for seed in range(1000, 1100)]
    )  # most of it is not in the write-ahead log
    command = [*SCRIPTED, "-m", "model=trivial", "seed=range(1,101)"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    with process.stderr:
        lines = []
        for line in process.stderr:
            lines.append(line)
            if line.startswith(
                "["
            ):  # a trial has ended; what strikes within a transaction may pass for part of it
                strike(Path("results.db"))
        rest = "".join(lines)
    assert process.wait() == 2, rest
    assert "Traceback" not in rest
    last = rest.splitlines()[-1]
    if last != MET_BY_SQLITE:
        assert last.startswith(
            ("sweep: results.db: cut off while ", "sweep: results.db: cut off or overwritten (")
        )
        assert last.endswith(
            "; move it away, and `scalemark db rebuild RUNS_FOLDER` makes it again from the run folders"
        )
    Path("results.db").rename("damaged.db")
    for end in ("-wal", "-shm"):
        Path(f"results.db{end}").unlink(missing_ok=True)
    again = rebuilt()
    assert again.returncode == 0, again.stderr
    assert outcomes()[0] == "completed"


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["sweep.dry_run=true", "sweep.plan_format=json", "-m", "seed=range(1,2000)"]],
)
def test_a_reader_who_has_read_enough_is_no_error(arguments):
    command = f"{shlex.join([*REAL, *arguments])} | head -1"
    ended = ran(["bash", "-o", "pipefail", "-c", command])
    assert (ended.returncode, ended.stderr) == (0, "")


def test_output_that_cannot_be_written_is_said_in_one_line():
    with Path("/dev/full").open("w") as full:
        command = [*REAL, *TINY, "sweep.dry_run=true"]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr == "sweep: the output cannot be written: No space left on device\n"


def test_no_secret_of_the_command_is_stored_or_printed():
    secret = "hydra.job.name='see postgresql://me:hidden@host/db'"
    ended = scripted("-m", "strategy=ps_cpu,replicated_nccl", secret)
    assert ended.returncode == 0, ended.stderr
    assert "hidden" not in ended.stderr + ended.stdout
    with sqlite3.connect("results.db") as connection:
        ((command,),) = connection.execute("SELECT command FROM sweeps")
    assert "see postgresql://me:***@host/db" in command
    connection.close()
    holding = [
        path for path in Path().rglob("*") if path.is_file() and b"hidden" in path.read_bytes()
    ]
    assert holding == []


def test_an_error_about_a_secret_does_not_tell_it():
    ended = sweep("store.url=postgresql://me:hidden@host/[")
    assert ended.returncode == 2
    assert "hidden" not in ended.stderr


def test_a_sweep_is_seen_from_another_terminal():
    command = [*SCRIPTED, "model=trivial", f"seed={ENDLESS}", "sweep.name=mine"]
    process = psutil.Popen(command, stderr=subprocess.DEVNULL)
    _wait_for_trainer(process)
    (running,) = _status()
    assert (running["sweep"], running["state"], running["counts"]["running"]) == (
        "mine",
        "running",
        1,
    )
    assert running["running"][0]["label"].startswith("trivial-replicated_none-x1 ")
    process.kill()
    process.wait()
    (killed,) = _status()
    assert (killed["state"], killed["counts"]["running"], killed["counts"]["pending"]) == (
        "killed",
        0,
        1,
    )
    assert killed["notes"][0].startswith("killed; what is left is run by: python ")


def _status() -> list[dict]:
    command = [sys.executable, "-m", "scalemark", "status", "--json"]
    return json.loads(ran(command, env={**os.environ, "PYTHONPATH": str(PROJECT)}).stdout)


def test_a_killed_sweep_leaves_no_process():
    command = [*SCRIPTED, "model=trivial", f"seed={ENDLESS}"]
    process = psutil.Popen(command, stderr=subprocess.DEVNULL)
    trainer = _wait_for_trainer(process)
    process.kill()
    process.wait()
    assert_gone(trainer.pid)


def test_a_killed_sweep_leaves_nothing_of_a_program():
    """Its watcher's guard ends it, and is itself left alone until then."""
    program = Path("endless")
    program.write_text(
        "#!/bin/sh\nsetsid sleep 600 &\necho $$ $! > draft\nmv draft pids\nsleep 600"
    )
    program.chmod(0o755)
    words = ["command=./endless", "read=metric", "hardware=cpu"]
    process = psutil.Popen([sys.executable, PROJECT / "sweep.py", *words])
    deadline = time.monotonic() + PATIENCE_S
    while not Path("pids").exists():
        assert time.monotonic() < deadline, "the program did not start"
        time.sleep(0.1)
    process.kill()
    process.wait()
    for pid in Path("pids").read_text().split():
        assert_gone(int(pid))


def _wait_for_trainer(process: psutil.Popen) -> psutil.Process:
    """The trainer that goes on and on, once it has run steps: by then it has asked to die with its parent."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        trainers = [
            child for child in process.children(recursive=True) if _name(child) == "trainer"
        ]
        if trainers and any(
            path.stat().st_size
            for path in Path("runs").glob("*/*/steps.jsonl")
            if _goes_on(path.parent)
        ):
            return trainers[0]
        time.sleep(0.1)
    pytest.fail("the trainer did not start")


def _name(process: psutil.Process) -> str:
    """Empty for one that has just ended."""
    with suppress(psutil.NoSuchProcess):
        return process.name()
    return ""


def _goes_on(run_dir: Path) -> bool:
    trial = json.loads((run_dir / "trial.json").read_text())
    return trial["num_steps"] == 100_000_000 or str(trial["seed"]) == ENDLESS


WRONG = [
    (
        ["-m", "model=trivial,vgg16", "sweep.repeat=2"],
        "sweep has no setting repeat; did you mean repeats?",
    ),
    (["++num_gpu=2"], "did you mean num_gpus?"),
    (["experiment=quik"], "did you mean quick?"),
    (
        ["model=resnet50", "model=vgg16"],
        "model is given twice; give all its values at once, as model=A,B",
    ),
    (["+env.A=1", "+env.A=2"], "env.A is given twice"),
    (["command=a", "command=b"], "command=b: command is given twice; give it once"),
    (["command=a", "command.run=b"], "command.run=b: command.run is given twice; give it once"),
    (["sweep.repeats=3", "sweep.repeats=5"], "sweep.repeats is given twice; give it once"),
    (["sweep.budget=2h", "sweep.race=true"], "sweep has no setting race"),
    (["command=x {v}", "+axes.v=2.10,2.9"], "get 2.10 as 2.1; write that, or put quotes around"),
    (["command=x {v}", "+axes.v=True,1_0"], "get True as true, 1_0 as 10; write that, or put"),
    ([f"+axes.{'n' * 300}=1"], "found a name of 305 characters, which is too long"),
    ([f"modell{'n' * 300}=1"], "found a name of 306 characters, which is too long"),
    ([f"model={'n' * 300}.py:build"], "there is no such file"),
    ([f"command={'n' * 300}", "read=metric"], "no such program in PATH"),
    ([f"command={'n' * 300}/n", "read=metric"], "found a name of 300 characters"),
    ([f"command=python3 {'n' * 300}.py", "read=metric"], "is not there; wanted a script"),
    (["repeats=3"], "repeats: no such axis; write the setting sweep.repeats=3"),
    (["name=night"], "write the setting sweep.name=night"),
    (["db=x.db"], "write the setting store.url=x.db"),
    (["--db", "x.db"], "write store.url=VALUE"),
    (["--sweep.repeats=3"], "write sweep.repeats=3"),
    (["data=/my/data"], "data=/my/data: no such data; Choices: digits"),
    (["precision=half"], "Choices: auto, bf16, fp16, fp32, tf32"),
    (["optimizer=lion"], "Choices: adam, adamw, momentum, rmsprop, sgd"),
    (["from=abcd"], "run a sweep first, or name another with store.url=FILE"),
    (["from=abcd", "store.url=foreign.db"], "a database of another program"),
    (["from=night"], "wanted the beginning of a trial's id"),
    (["store.url="], "store.url= is empty"),
    (["store.url=/none/x.db"], "or choose another file with store.url=FILE"),
    (["model=[resnet50,vgg16]"], "write model=resnet50,vgg16"),
    (["precision=[fp32,bf16]"], "write precision=fp32,bf16"),
    (["model=null"], "model=null: wanted a file of conf/model/"),
    (["=3"], "=3: wanted AXIS=VALUE"),
    (["--num-gpus=2"], "have no dashes; write num_gpus=2"),
    (["--model", "x"], "--model: axes and settings have no dashes; write model=VALUE"),
    (["--repeats", "3"], "write sweep.repeats=VALUE"),
    (["--nosuch"], "--nosuch: no such flag; axes are written AXIS=VALUE"),
    (["--multi"], "--multi: no such flag; did you mean --multirun?"),
    (["--num-gpu", "2"], "did you mean num_gpus=...?"),
    (["--zzz"], "axes are written AXIS=VALUE"),
    (["strategy=replicated"], "did you mean variable_update=replicated?"),
    (["strategy=MirroredStrategy"], "did you mean mirrored?"),
    (["strategy=ps"], "did you mean ps_cpu or ps_gpu or distributed_ps?"),
    (["strategy=model.fit"], "here it is fit"),
    (["strategy=mirrored_nccl"], "did you mean variable_update=mirrored all_reduce=nccl?"),
    (["hardware=dgx1"], "did you mean dgx1_p100 or dgx1_v100?"),
    (["num_gpus=17"], "num_gpus=17: there are 16 CPU devices"),
    (["hardware=gpu"], "hardware=gpu: no usable GPU"),
    (["data=photos", "data.dir=/no/such"], "data.dir=/no/such: no such folder"),
    (["sweep.repeats=0"], "sweep.repeats=0: wanted 1 to 1000"),
    (
        ["num_steps=99999999999999999999"],
        "num_steps=99999999999999999999: wanted 2147483647 or less",
    ),
    (["sweep.plan_format=json"], "add sweep.dry_run=true"),
    (
        ["-m", "--cfg", "job", "model=vgg16,alexnet"],
        "more than one value, and --cfg shows one trial",
    ),
    (["--resolve"], "--resolve: goes with --cfg job only"),
    (["--experimental-rerun", "x"], "--experimental-rerun: no such flag; "),
    (["strategy=ps_cpu", "all_reduce=none"], "give either"),
    (["launcher.start_timeout_s=0"], "launcher.start_timeout_s=0: wanted 0.001 seconds or more"),
    (
        ["launcher.rank_timeout_s=3"],
        "launcher.rank_timeout_s=3: wanted 5 seconds or more",
    ),
    (["launcher.host_memory_gib=-1"], "wanted 0.001 GiB or more, or null for no limit"),
    (
        ["launcher=cluster"],
        "launcher=cluster: no such launcher; did you mean slurm? Choices: local, prefix, ray, slurm",
    ),
    (["launcher.start=frok"], "did you mean fork?"),
    (["store.url=/"], "/: a folder; a database is a file"),
    (["store.url=foreign.db"], "a database of another program"),
    (["store.runs_dir=foreign.db/x"], "is not a folder"),
]


@pytest.mark.parametrize(
    ("arguments", "said"), WRONG, ids=[" ".join(arguments) for arguments, _ in WRONG]
)
def test_a_wrong_command_is_answered_in_one_line_before_anything_runs(arguments, said):
    with closing(sqlite3.connect("foreign.db")) as connection, connection:
        connection.execute("CREATE TABLE theirs (id)")
    ended = forked_sweeps.ran(forked_sweeps.REAL, *arguments)
    assert ended.returncode == 2
    assert said in ended.stderr
    assert len(ended.stderr.splitlines()) <= 3
    assert "Traceback" not in ended.stderr
    assert {path.name for path in Path().iterdir()} == {"foreign.db"}


def test_a_corrupt_data_folder_is_refused_with_the_file_named():
    folder = Path("set")
    folder.mkdir()
    (folder / "train-00000-of-00001").write_text("damaged")
    (folder / "index.json").write_text(
        json.dumps({"set": "photos", "shards": {"train-00000-of-00001": "0" * 64}})
    )
    ended = sweep("data=photos", "data.dir=set")
    assert ended.returncode == 2
    assert "train-00000-of-00001 is not what index.json says" in ended.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_ends_the_sweep_and_keeps_what_was_finished():
    disk = Path("disk")
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=80m", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this container may not mount")
    try:
        assert scripted("seed=1", "store.url=disk/r.db").returncode == 0
        command = [*SCRIPTED, "model=trivial", f"seed={WAITS}", "store.url=disk/r.db"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            until(
                lambda: len(list(Path("runs").glob("*/*/environment.json"))) == 2
            )  # the second has begun
            _fill(disk)
            Path("go").touch()
            _, said = process.communicate()
        assert process.returncode == 2
        assert (
            "full; free some space and repeat the command; finished trials are kept"
            in said.splitlines()[-1]
        )
        (disk / "ballast").unlink()
        assert outcomes("disk/r.db") == ["completed"]
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def _fill(disk: Path) -> None:
    with (disk / "ballast").open("wb", buffering=0) as ballast:
        for size in (2**20, 2**12, 1):
            try:
                while True:
                    ballast.write(b"0" * size)
            except OSError:
                continue
