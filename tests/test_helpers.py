"""What tests lean on holds: servers and browsers end with the tests, a stuck program is told, a page's doings are noticed."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import sqlalchemy as sa

from tests import browser, mutations, postgresql, slurm, stuck, watched
from tests.conftest import PROJECT
from tests.ends import ends
from tests.installers import printed_by, refused_by
from tests.needed import needed
from tests.plots.conftest import chromium, open_page
from tests.sweeper import processes

__all__ = ["chromium", "open_page"]  # fixtures
pytestmark = pytest.mark.integration

IN_CI = os.environ.get("CI") == "true"


SERVER = """
import sys
from pathlib import Path
from tests.postgresql import server
with server(Path(sys.argv[1])) as url:
    print(url, flush=True)
    sys.stdin.read()
"""
SLURM = """
import sys
from tests.slurm import cluster
with cluster() as started:
    started.run("sbatch", "--output=/dev/null", "--wrap=setsid sleep 600 & sleep 600")
    while started.run("squeue", "-h", "-o", "%T").strip() != "RUNNING":
        pass
    print(started.folder, flush=True)
    sys.stdin.read()
"""
BROWSER = """
import sys
from pathlib import Path
from tests.browser import running, visit
with running(Path(sys.argv[1]), Path.cwd()) as shown, visit(shown, "data:text/html,<p>hello"):
    print("shown", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(SERVER, id="PostgreSQL"),
        pytest.param(BROWSER, id="browser"),
        pytest.param(SLURM, id="Slurm", marks=pytest.mark.cluster),
    ],
)
def test_a_killed_test_run_leaves_nothing_running(script):
    program: object = None
    if script == SLURM:
        needed(slurm.obstacle())
    elif script == SERVER:
        program = postgresql.needed_programs(postgresql.find_programs(), in_ci=IN_CI)
    else:
        program = browser.needed_program(browser.find_program(), in_ci=IN_CI)
    with subprocess.Popen(
        [sys.executable, "-c", script, str(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    ) as run:
        assert run.stdout
        said = run.stdout.readline().strip()
        family = psutil.Process(run.pid).children(recursive=True)
        if script == SLURM:
            pids = [int(path.read_text()) for path in Path(said).glob("*.pid")]
            assert len(pids) == 5  # a controller and four nodes
            family += [psutil.Process(pid) for pid in pids]
        with ends(family):
            os.killpg(run.pid, signal.SIGKILL)
    folder = said
    if script == SERVER:
        folder = str(sa.make_url(said).query["host"])
    assert script == BROWSER or not Path(folder).exists()


def test_without_programs_tests_are_skipped_but_fail_in_ci(tmp_path):
    nowhere = postgresql.find_programs(path=str(tmp_path), debian=tmp_path)
    for want, found, script in (
        (postgresql.needed_programs, nowhere, "scripts/install-postgresql"),
        (browser.needed_program, browser.find_program(str(tmp_path)), "scripts/install-chromium"),
        (needed, slurm.obstacle(str(tmp_path)), "scripts/install-slurm"),
    ):
        with pytest.raises(pytest.skip.Exception, match=f": run {script}$"):
            want(found, in_ci=False)
        with pytest.raises(pytest.fail.Exception, match=f": run {script}$"):
            want(found, in_ci=True)
        lines = (PROJECT / ".ci" / "run").read_text().splitlines()
        assert lines.index(script) < lines.index('test_command 2>&1 | tee "$log"')


@pytest.mark.parametrize("name", ["install-postgresql", "install-chromium", "install-slurm"])
def test_an_installer_says_nothing_where_its_programs_are_and_else_what_to_do(name, tmp_path):
    assert printed_by(name) == ""
    places = {"/usr/lib/postgresql": str(tmp_path), ":/usr/sbin:/sbin": ""}
    said = refused_by(name, tmp_path, places)
    assert "and no apt-get to install them with; or install " in said


STUCK = """
import ctypes, os, signal
from scalemark.host.processes import die_with

def serves():
    die_with(starter)
    os.write(1, b"begun\\n")  # at once: two processes write
    while True:
        signal.pause()

def waits_and_keeps_the_interpreter():
    os.write(1, b"begun\\n")
    ctypes.PyDLL(None).pause()

starter = os.getpid()
if os.fork() == 0:
    serves()
waits_and_keeps_the_interpreter()
"""


def test_a_stuck_program_ends_and_tells_the_stacks_of_all_its_processes(tmp_path):
    with (tmp_path / "log.txt").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", STUCK],
            stdout=subprocess.PIPE,
            stderr=log,
            env=os.environ | stuck.TELLS,
            text=True,
        )
    with process:
        try:
            assert process.stdout
            assert [process.stdout.readline() for _ in ("child", "parent")] == ["begun\n"] * 2
            (child,) = psutil.Process(process.pid).children()
            with ends([child]):
                reported = stuck.stacks(process.pid)
        finally:
            process.kill()  # where the test fails: it never ends by itself
    assert reported.splitlines()[0].startswith(f"{process.pid} python")
    assert reported.splitlines()[1].startswith(f"{child.pid} python")
    assert "in serves\n" in reported
    assert "in waits_and_keeps_the_interpreter\n" in reported


@pytest.mark.parametrize(
    "wait",
    [lambda descriptor: processes.wait_until(lambda: False, descriptor), processes.wait_for_end],
)
def test_what_waits_in_vain_for_a_process_ends_it_and_tells(monkeypatch, wait):
    monkeypatch.setattr(processes, "PATIENCE_S", 0)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        descriptor = os.pidfd_open(process.pid)
        with pytest.raises(pytest.fail.Exception, match=rf" 0 s.*:\n{process.pid} "):
            wait(descriptor)
        os.close(descriptor)


@pytest.mark.parametrize(
    ("script", "silent_s", "said"),
    [
        ("import signal; signal.pause()", 0.0, r"^it printed nothing for 0 s, and last '':\n\d+ "),
        ("import sys; sys.exit('of two minds')", 300.0, r"^it ended with 1: of two minds"),
    ],
)
def test_a_program_that_falls_silent_or_fails_fails_its_test(script, silent_s, said):
    with pytest.raises(pytest.fail.Exception, match=said):
        watched.run([sys.executable, "-c", script], silent_s=silent_s)


RIGHT = {"kind": "attempt", "steps": [1, {"loss": 0.5}]}
PLACES = {(), ("kind",), ("steps",), ("steps", 0), ("steps", 1), ("steps", 1, "loss")}


def test_every_place_is_mutated_and_the_right_value_stays():
    before = json.dumps(RIGHT)
    every = list(mutations.every(RIGHT))
    assert {mutation.at for mutation in every} == PLACES
    assert all(mutations.as_json(mutation.value) != before for mutation in every)
    by_place = {(mutation.at, str(mutation.wrong)): mutation.value for mutation in every}
    assert by_place[("kind",), mutations.MISSING] == {"steps": [1, {"loss": 0.5}]}
    assert by_place[("steps", 1), mutations.UNKNOWN]["steps"][1] == {"loss": 0.5, "surprise": 1}
    chosen = [str(mutation) for mutation in mutations.sampled(RIGHT, 40, seed=3)]
    assert len(chosen) == 40
    assert chosen == [str(mutation) for mutation in mutations.sampled(RIGHT, 40, seed=3)]
    assert json.dumps(RIGHT) == before


def page(html: str) -> Path:
    path = Path("page.html")
    path.write_text(f"<!doctype html><title>t</title>{html}")
    return path


def test_a_page_that_keeps_to_itself_makes_no_request_and_no_complaint(open_page):
    visit = open_page(page("<p>hello<script>console.log('a'); console.info('b')</script>"))
    assert visit.page.locator("p").inner_text() == "hello"
    assert (visit.requests, visit.complaints) == ([], [])


def test_every_request_is_noticed_and_none_leaves_the_machine(open_page):
    html = "<link rel=stylesheet href={0}a.css><img src={0}b.png><script>fetch('{0}c').catch(() => 0)</script>"
    visit = open_page(page(html.format("http://example.com/")))
    asked = {url.rpartition("/")[2] for url in visit.requests}
    assert asked == {"a.css", "b.png", "c"}
    assert all("net::ERR_NAME_NOT_RESOLVED" in complaint for complaint in visit.complaints)


COMPLAINTS = {
    "console.error('bad', 7)": "console error: bad 7",
    "console.warn('odd')": "console warning: odd",
    "undefined.x": "page error: TypeError: Cannot read properties of undefined (reading 'x')",
    "setTimeout(() => {throw new RangeError('late')})": "page error: RangeError: late",
    "Promise.reject(new Error('broken'))": "page error: Error: broken",
    "alert('harm')": "alert: harm",
}


@pytest.mark.parametrize("script", COMPLAINTS)
def test_every_complaint_is_noticed_also_after_a_click(open_page, script):
    visit = open_page(page(f"""<button onclick="{script}">go</button>"""))
    assert visit.complaints == []
    visit.page.get_by_role("button").click()
    assert visit.complaints == [COMPLAINTS[script]]
