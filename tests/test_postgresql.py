"""The PostgreSQL servers that tests start answer, keep out of each other's way, and never outlive the tests."""

import multiprocessing
import os
import re
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from select import select
from tempfile import TemporaryDirectory

import psutil
import psycopg
import pytest
import sqlalchemy as sa

from tests.conftest import PROJECT
from tests.ends import ends
from tests.installers import printed_by, refused_by
from tests.postgresql import find_programs, needed_programs, new_database, server

pytestmark = pytest.mark.integration


@pytest.fixture
def programs() -> Path:
    return needed_programs(find_programs(), in_ci=os.environ.get("CI") == "true")


def answer(url: str, statement: str) -> list[object]:
    """The first column of what psycopg brings back."""
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        cursor = connection.execute(statement)
        return [row[0] for row in cursor] if cursor.description else []


def folder_of(url: str) -> Path:
    return Path(str(sa.make_url(url).query["host"]))


def processes_of(url: str) -> list[psutil.Process]:
    """Of the server at this URL, those that are there as long as it runs: of others some may be about to end."""
    postmaster = int((folder_of(url) / "postmaster.pid").read_text().split()[0])
    passing = "('client backend', 'autovacuum worker')"
    others = answer(url, f"SELECT pid FROM pg_stat_activity WHERE backend_type NOT IN {passing}")
    assert others
    return [psutil.Process(int(str(pid))) for pid in (postmaster, *others)]


def test_the_server_answers(postgresql_url):
    (version,) = answer(postgresql_url, "SELECT version()")
    assert str(version).startswith("PostgreSQL ")
    engine = sa.create_engine(postgresql_url)
    with engine.connect() as connection:
        assert connection.scalar(sa.text("SHOW server_encoding")) == "UTF8"
    engine.dispose()


def test_databases_of_one_server_are_apart(postgresql_server):
    with new_database(postgresql_server) as one, new_database(postgresql_server) as two:
        answer(one, "CREATE TABLE t (x int)")
        assert answer(one, "SELECT to_regclass('t') IS NOT NULL") == [True]
        assert answer(two, "SELECT to_regclass('t') IS NOT NULL") == [False]


def test_a_database_begins_as_a_copy_of_its_template(postgresql_server):
    with new_database(postgresql_server) as template:
        answer(template, "CREATE TABLE t (x int); INSERT INTO t VALUES (7)")
        name = sa.make_url(template).database
        assert name
        with new_database(postgresql_server, template=name) as copy:
            answer(copy, "INSERT INTO t VALUES (8)")
            assert answer(copy, "SELECT x FROM t ORDER BY x") == [7, 8]
        assert answer(template, "SELECT x FROM t") == [7]


def test_a_database_in_use_is_dropped_after_a_failure(postgresql_server):
    with ExitStack() as connected:
        with (  # noqa: PT012 - the block is the failing test
            pytest.raises(RuntimeError, match="as a test fails"),
            new_database(postgresql_server) as url,
        ):
            connection = connected.enter_context(psycopg.connect(url.replace("+psycopg", "")))
            raise RuntimeError("as a test fails")
        with pytest.raises(psycopg.OperationalError, match="terminating connection"):
            connection.execute("SELECT 1")
    name = sa.make_url(url).database
    assert name not in answer(postgresql_server, "SELECT datname FROM pg_database")


def test_servers_run_side_by_side_and_leave_nothing_behind(programs):
    with server(programs) as staying, ExitStack() as stack:
        going = stack.enter_context(server(programs))
        assert folder_of(staying) != folder_of(going)
        answer(going, "CREATE TABLE t (x int)")
        assert answer(staying, "SELECT to_regclass('t') IS NOT NULL") == [False]
        with (
            psycopg.connect(going.replace("+psycopg", "")) as connection,
            ends([*processes_of(going), psutil.Process(connection.info.backend_pid)]),
        ):
            stack.close()
        assert not folder_of(going).exists()
        assert answer(staying, "SELECT 1") == [1]


def test_a_server_stops_when_its_test_fails_and_a_forked_child_lives(programs):
    """The child holds a copy of all that is open in this process, so that nobody sees this process close it."""
    child = multiprocessing.get_context("fork").Process(target=select, args=([], [], [], 600))
    with pytest.raises(RuntimeError, match="as a test fails"), server(programs) as url:  # noqa: PT012 - it is the failing test
        child.start()
        raise RuntimeError("as a test fails")
    outlived = child.is_alive()
    child.kill()
    child.join()
    assert outlived
    assert not folder_of(url).exists()


TEST_RUN = """
import signal
import sys
from pathlib import Path
from tests.postgresql import server

signal.signal(signal.SIGINT, signal.default_int_handler)  # who runs the tests in the background ignores it

with server(Path(sys.argv[1])) as url:
    print(url, flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_test_run_leaves_no_server_running(programs, sign):
    run = subprocess.Popen(
        [sys.executable, "-c", TEST_RUN, programs],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )
    with run:
        assert run.stdout
        url = run.stdout.readline().strip()
        with ends([*processes_of(url), *psutil.Process(run.pid).children()]):
            os.killpg(run.pid, sign)
    assert not folder_of(url).exists()


def test_a_server_that_cannot_start_says_why_and_leaves_no_folder(programs, capfd):
    with TemporaryDirectory(dir="/tmp") as unlucky:  # where the server's own user may go
        Path(unlucky).chmod(0o755)
        Path(unlucky, "initdb").symlink_to(programs / "initdb")
        Path(unlucky, "pg_ctl").write_text(
            f'#!/bin/sh\nexec {programs}/pg_ctl "$@" -o "-c port=99999"\n'
        )
        Path(unlucky, "pg_ctl").chmod(0o755)
        with (
            pytest.raises(
                RuntimeError, match=rf"^PostgreSQL of {unlucky} did not start; stderr says why$"
            ),
            server(Path(unlucky)),
        ):
            pass
    complaint = capfd.readouterr().err
    assert "FATAL:  99999 is outside the valid range" in complaint
    (folder,) = set(re.findall(r"/tmp/scalemark-postgresql-\w+", complaint))
    assert not Path(folder).exists()


def install(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name in ("initdb", "pg_ctl"):
        (folder / name).touch(mode=0o755)
    return folder


def test_programs_on_path_come_before_debians_of_which_the_newest_is_taken(tmp_path):
    debian = tmp_path / "postgresql"
    install(debian / "9" / "bin")
    newest = install(debian / "15" / "bin")
    (debian / "16" / "bin").mkdir(parents=True)  # the client only
    assert find_programs(path=str(tmp_path), debian=debian) == newest
    chosen = install(tmp_path / "chosen")
    assert find_programs(path=str(chosen), debian=debian) == chosen


def test_without_programs_tests_are_skipped_but_fail_in_ci(tmp_path):
    missing = find_programs(path=str(tmp_path), debian=tmp_path)
    with pytest.raises(
        pytest.skip.Exception,
        match=r"no PostgreSQL server programs .*: run scripts/install-postgresql",
    ):
        needed_programs(missing, in_ci=False)
    with pytest.raises(
        pytest.fail.Exception,
        match=r"no PostgreSQL server programs .*: run scripts/install-postgresql",
    ):
        needed_programs(missing, in_ci=True)


def test_ci_has_the_programs_and_lets_nothing_be_skipped_for_want_of_them():
    lines = (PROJECT / ".ci" / "run").read_text().splitlines()
    tests = next(number for number, line in enumerate(lines) if line.startswith("test_command 2"))
    assert "scripts/install-postgresql" in lines[:tests]
    assert any(line.startswith("export CI=true") for line in lines[:tests])


def test_the_installer_does_nothing_where_the_programs_are(programs):
    assert printed_by("install-postgresql") == ""


def test_the_installer_says_what_to_do_where_it_cannot_install(tmp_path):
    assert (
        "and no apt-get to install them with; or install PostgreSQL's server yourself (initdb, pg_ctl"
        in refused_by("install-postgresql", tmp_path, {"/usr/lib/postgresql": str(tmp_path)})
    )
