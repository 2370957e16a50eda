"""Four sweeps write into one PostgreSQL database whose server is restarted five times: nothing is lost, and who waits says so."""

import re
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from store.checks import check
from store.database import open_for_reading
from store.errors import StoreError
from store.reading import queries
from store.writer import Writer
from tests import postgresql
from tests.conftest import PROJECT
from tests.slurm import until
from tests.tables import asked

pytestmark = pytest.mark.integration

NUM_SWEEPS, NUM_RESTARTS, NUM_ATTEMPTS, WITHIN_S = 4, 5, 24, 900.0
SWEEP = [
    *(sys.executable, str(PROJECT / "tests" / "tiny_sweep.py"), "-m", "engine=simulated"),
    *("hardware=dgx1_p100", "strategy=replicated_nccl", "num_gpus=1,2,4", "sweep.repeats=8"),
]
MODELS = ("resnet50", "vgg16", "alexnet", "inception3")  # no sweep finds its trials finished
ONCE = "SELECT trial_id, repeat, count(*) AS num FROM attempts WHERE outcome = 'completed' GROUP BY trial_id, repeat"


BY_SWEEP = "SELECT count(*) AS num FROM attempts GROUP BY sweep_id"


def recorded_by_sweep(url: str) -> list[int]:
    """None while the server is away."""
    try:
        return [row["num"] for row in queries.rows(open_for_reading(url), BY_SWEEP)]
    except StoreError:
        return []


def all_said() -> str:
    return "".join(Path(f"{model}.txt").read_text() for model in MODELS)


def test_four_sweeps_lose_nothing_when_their_server_is_restarted_five_times():
    programs = postgresql.needed_programs(postgresql.find_programs(), in_ci=False)
    with (
        postgresql.server(programs) as server,
        postgresql.new_database(server) as url,
        ExitStack() as ended_with_the_test,
    ):
        Writer(url).close()
        sweeps = []
        for model in MODELS:
            command = [*SWEEP, f"model={model}", f"sweep.name={model}", f"store.url='{url}'"]
            with Path(f"{model}.txt").open("w") as said:
                sweep = subprocess.Popen([*command, f"store.runs_dir={model}"], stderr=said)
            ended_with_the_test.callback(sweep.kill)
            sweeps.append(sweep)
        # one that still plans when its server goes ends, and has nothing to lose
        until(lambda: len(recorded_by_sweep(url)) == NUM_SWEEPS, WITHIN_S)
        gives_up_s = time.monotonic() + WITHIN_S
        for number in range(NUM_RESTARTS):
            wanted = (1 + number) * NUM_SWEEPS * NUM_ATTEMPTS // (NUM_RESTARTS + 2)
            while sum(recorded_by_sweep(url)) < wanted:
                assert time.monotonic() < gives_up_s
                assert not any(sweep.poll() for sweep in sweeps), all_said()
                time.sleep(0.1)
            postgresql.stop(server, "immediate" if number % 2 else "fast")
            if number == 0:  # some try to write meanwhile
                until(lambda: re.search("is the server there.*; trying again", all_said()))
            time.sleep(0.5)
            postgresql.start(server)
        assert [sweep.wait(WITHIN_S) for sweep in sweeps] == [0] * NUM_SWEEPS, all_said()
        engine = open_for_reading(url)
        once = queries.rows(engine, ONCE)
        assert [row["num"] for row in once] == [1] * (NUM_SWEEPS * NUM_ATTEMPTS)
        assert asked(queries.num_attempts, engine) == NUM_SWEEPS * NUM_ATTEMPTS
        assert list(check(url)) == []
        engine.dispose()


def test_what_is_written_needs_no_server_at_the_end_of_a_sweep():
    """A bug: a sweep whose server was restarted at its very end had completed all, and failed."""
    programs = postgresql.needed_programs(postgresql.find_programs(), in_ci=False)
    with postgresql.server(programs) as server, postgresql.new_database(server) as url:
        writer = Writer(url)
        postgresql.stop(server, "fast")
        writer.settle()
        writer.close()
        postgresql.start(server)
        assert list(check(url)) == []
