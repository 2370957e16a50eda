"""`python -m plots serve` as its user runs it: a page in a real browser that takes in what lands in the database."""

import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from plots.commands.serve import PORTS
from tests.filled import fill
from tests.specs import small

pytestmark = pytest.mark.integration

PATIENCE_S = 300  # it costs nothing where all is well, and a busy machine may need much
PS = {"variable_update": "parameter_server", "local_parameter_device": "cpu"}


@contextmanager
def serving(
    *arguments: str, port: str | None = "0"
) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """The process, and its address."""
    command = [sys.executable, "-m", "plots", "serve", "--every", "0.2", *arguments]
    if port is not None:
        command += ["--port", port]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def get(url: str, path: str = "/") -> tuple[int, str]:
    connection = HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE_S)
    connection.request("GET", path)
    response = connection.getresponse()
    found = response.status, response.read().decode()
    connection.close()
    return found


def health(url: str) -> tuple[int, str]:
    """Once the database has been read: who asks is reported after two seconds that this takes its time."""
    deadline, pause = time.monotonic() + PATIENCE_S, threading.Event()
    while "so far: it is large, or locked" in (found := get(url, "/healthz"))[1]:
        assert time.monotonic() < deadline, found
        pause.wait(0.1)
    return found


@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_it_says_where_it_listens_and_ends_at_once_without_a_word(sign, code):
    fill("results.db", [(small(), 100.0)])
    with serving("--json") as (process, line):
        reported = json.loads(line)
        assert reported == {
            "url": f"http://127.0.0.1:{reported['port']}/",
            "host": "127.0.0.1",
            "port": reported["port"],
        }
        assert health(reported["url"]) == (200, "ok\n")
        status, page = get(reported["url"])
        assert status == 200
        assert "<title>" in page
        process.send_signal(sign)
        out, err = process.communicate()
    assert (process.returncode, out, err) == (code, "", "")


def test_nothing_that_is_asked_for_changes_the_database_or_its_folder():
    fill("results.db", [(small(), 100.0)])
    before = Path("results.db").read_bytes()
    with serving() as (_, url):
        for path in (
            "/",
            "/all/",
            "/all/data.json",
            "/healthz",
            "/sweeps/../results.db/",
            "/../results.db",
        ):
            assert get(url, path)[0] in (200, 404)
    assert Path("results.db").read_bytes() == before
    assert {path.name for path in Path().iterdir()} <= {
        "results.db",
        "results.db-wal",
        "results.db-shm",
        "results.db.lock",
    }


def test_who_lets_others_read_is_reported_who_can():
    with serving("--host", "0.0.0.0", "--db", "postgresql://me:hidden@127.0.0.1:1/none") as (
        process,
        url,
    ):
        status, body = health(re.sub("//.*:", "//127.0.0.1:", url))
        assert status == 503
        assert "is the server there" in body
        process.terminate()
        out, err = process.communicate()
    assert err == (
        f"plots: everybody who reaches {url} can read what it shows of postgresql://me:***@127.0.0.1:1/none, without a password; "
        "without --host only this machine can\n"
    )
    assert "hidden" not in out + err + body


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["num_gpu=2"], "plots: num_gpu: nothing to filter by; did you mean num_gpus?\n"),
        (
            ["--allow-host", "http://bench.example:1"],
            "plots: --allow-host http://bench.example:1: wanted a name alone, without sch",
        ),
        (
            ["--host", "192.0.2.1"],
            "plots: 192.0.2.1:0: no address of this machine; 127.0.0.1 is for this machine alone",
        ),
        (["--db", "mysql://x"], "plots: mysql://...: no such kind of database"),
    ],
)
def test_what_cannot_be_served_is_refused_before_anything_listens(arguments, message):
    fill("results.db", [(small(), 100.0)])  # whose free axes a filter may name
    with serving(*arguments) as (process, url):
        assert url == ""
        assert process.stderr.read().startswith(message)
        assert process.wait() == 2


def test_a_sweep_appears_in_the_list_and_its_page_is_a_link_away(open_page):
    fill("results.db", [(small(), 100.0)], name="first one")
    with serving() as (_, url):
        visit = open_page(url)
        page = visit.page
        page.get_by_role("link", name="first one").focus()
        fill("results.db", [(small(num_gpus=2, **PS), 110.0)], name="second")
        page.get_by_role("link", name="second").wait_for()
        assert page.locator("tbody a").all_inner_texts() == ["second", "first one"]
        assert page.evaluate("document.activeElement.textContent") == "first one"
        visit.keep_screenshot("serve-sweeps")
        page.keyboard.press("Enter")
        page.wait_for_selector('#live[data-state="live"]')
        assert page.url == f"{url}sweeps/first%20one/"
        assert numbers(page) == [100.0]
        page.get_by_role("link", name="All sweeps").click()
        page.get_by_role("link", name="All results").click()
        page.wait_for_selector('#live[data-state="live"]')
        assert sorted(numbers(page)) == [100.0, 110.0]
        assert visit.complaints == []


def test_without_a_port_the_next_free_one_is_taken_and_said():
    fill("results.db", [(small(), 100.0)])
    with ExitStack() as stack:
        for port in PORTS[:2]:
            with suppress(OSError):  # as good
                other = stack.enter_context(socket.socket())
                # or connections that were closed just before keep it out, and not the server
                other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                other.bind(("127.0.0.1", port))
                other.listen()
        process, url = stack.enter_context(serving(port=None))
        process.terminate()
        said = process.communicate()[1]
    port = urlsplit(url).port
    assert port in PORTS[2:]
    assert said == f"plots: port {PORTS[0]} is in use; this is port {port}\n"


def test_results_appear_on_the_open_page_as_they_land(open_page):
    fill("results.db", [(small(), 100.0), (small(num_gpus=2), 120.0)])
    with serving() as (_, url):
        url += "all/"
        # so that the first page has them: one that waits for them would be loaded again
        assert json.loads(get(url, "/all/data.json")[1])["problem"] is None
        visit = open_page(f"{url}#trials")
        page = visit.page
        page.wait_for_selector('#live[data-state="live"]')
        page.evaluate("window.was_not_reloaded = true")
        page.locator("#trial-list th button", has_text="images/s").first.click()
        in_order = numbers(page)
        assert in_order == sorted(in_order, reverse=True)
        assert len(in_order) == 2
        fill("results.db", [(small(num_gpus=2, **PS), 110.0)], name="second")
        page.locator("#trial-list tbody tr").nth(2).wait_for()
        assert numbers(page) == [120.0, 110.0, 100.0]
        assert page.evaluate("window.was_not_reloaded")
        page.wait_for_selector('#live[data-state="live"]')
        visit.keep_screenshot("serve-live")
        assert visit.complaints == []
        assert {urlsplit(asked).path for asked in visit.requests} == {"/all/data.json"}


def test_a_page_waits_for_results_and_says_when_they_have_gone(open_page):
    with serving() as (process, url):
        visit = open_page(f"{url}all/")
        page = visit.page
        page.get_by_text("results.db: no such database; run a sweep first").wait_for()
        visit.keep_screenshot("serve-waiting")
        land([(small(), 100.0), (small(num_gpus=2), 120.0)])
        page.wait_for_selector('#live[data-state="live"]')
        assert visit.complaints == []
        for path in Path().glob("results.db*"):
            path.unlink()
        page.get_by_text("Not up to date: results.db: no such database").wait_for()
        assert numbers(page) == [100.0, 120.0]
        land([(small(), 50.0), (small(num_gpus=2), 60.0)])
        page.wait_for_selector('#live[data-state="live"]')
        assert numbers(page) == [50.0, 60.0]
        assert visit.complaints == []
        process.kill()
        page.get_by_text("Not live: the server has ended, or cannot be reached.").wait_for()
        visit.keep_screenshot("serve-gone")


def land(results: list[tuple[object, float]]) -> None:
    """A whole database at once: the page looks at any time."""
    fill("landing.db", results)
    Path("landing.db").rename("results.db")


def numbers(page: object) -> list[float]:
    """Images/s of the list of trials, in its order."""
    return page.evaluate("""() => {
        const at = [...document.querySelectorAll("#trial-list thead th")].findIndex((cell) => cell.textContent.includes("images/s"));
        return [...document.querySelectorAll("#trial-list tbody tr")].map((row) => parseFloat(row.cells[at].textContent));
    }""")
