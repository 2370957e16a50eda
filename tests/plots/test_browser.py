"""The browser that tests look at pages with notices what a page does, and never outlives the tests."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest
from matplotlib import image

from tests import browser
from tests.conftest import PROJECT
from tests.ends import ends
from tests.installers import printed_by, refused_by

pytestmark = pytest.mark.integration


@pytest.fixture
def program() -> Path:
    return browser.needed_program(browser.find_program(), in_ci=os.environ.get("CI") == "true")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def served(tmp_path) -> Iterator[str]:
    """URL of the current folder, on loopback."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path))) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


NO_ICON = '<link rel=icon href="data:,">'  # else the browser asks the server for /favicon.ico, of which only the console tells


def page(html: str) -> Path:
    path = Path("page.html")
    path.write_text(f"<!doctype html><title>t</title>{html}")
    return path


def test_a_page_that_keeps_to_itself_makes_no_request_and_no_complaint(open_page):
    visit = open_page(
        page("<p>hello<script>console.log('a'); console.info('b'); console.debug('c')</script>")
    )
    assert visit.page.locator("p").inner_text() == "hello"
    assert visit.requests == []
    assert visit.complaints == []


def test_a_served_page_makes_no_other_request_of_its_own(open_page, served):
    page(f"{NO_ICON}<p>hello")
    visit = open_page(f"{served}/page.html")
    assert visit.page.locator("p").inner_text() == "hello"
    assert visit.requests == []
    assert visit.complaints == []


@pytest.mark.parametrize("where", ["file", "http"])
def test_every_request_is_noticed(open_page, served, where):
    Path("style.css").write_text("")
    path = page(f"""{NO_ICON}<link rel=stylesheet href={served}/style.css><img src={served}/missing.png><a href=#>top</a>
        <script>fetch("{served}/fetched").catch(() => 0); new EventSource("{served}/events"); new WebSocket("{served}/socket")</script>""")
    visit = open_page(path if where == "file" else f"{served}/page.html")
    visit.page.locator("a").click()
    asked = {url.rpartition("/")[2] for url in visit.requests}
    assert asked == {"style.css", "missing.png", "fetched", "events", "socket"}


def test_a_file_that_does_not_come_is_named(open_page, served):
    page(f"{NO_ICON}<img src=missing.png>")
    visit = open_page(f"{served}/page.html")
    what = "Failed to load resource: the server responded with a status of 404 (File not found)"
    assert visit.complaints == [f"console error: {what} ({served}/missing.png)"]


def test_a_request_that_leaves_the_machine_is_noticed_and_fails(open_page):
    visit = open_page(page("<img src=http://192.0.2.1/a.png><img src=http://example.com/b.png>"))
    assert set(visit.requests) == {"http://192.0.2.1/a.png", "http://example.com/b.png"}
    refused = "console error: Failed to load resource: net::ERR_NAME_NOT_RESOLVED ({})"
    assert set(visit.complaints) == {refused.format(url) for url in visit.requests}


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("console.error('bad', 7)", "console error: bad 7"),
        ("console.warn('odd')", "console warning: odd"),
        ("undefined.x", "page error: TypeError: Cannot read properties of undefined (reading 'x')"),
        ("setTimeout(() => {throw new RangeError('late')})", "page error: RangeError: late"),
        ("Promise.reject(new Error('broken'))", "page error: Error: broken"),
        ("alert('harm')", "alert: harm"),
        ("confirm('sure?')", "confirm: sure?"),
    ],
)
def test_every_complaint_is_noticed(open_page, script, complaint):
    visit = open_page(page(f"<script>{script}</script>"))
    assert visit.complaints == [complaint]


def test_what_a_click_leads_to_is_noticed(open_page):
    visit = open_page(
        page("""<button onclick="setTimeout(() => console.error('bad'))">go</button>""")
    )
    assert visit.complaints == []
    visit.page.get_by_role("button").click()
    assert visit.complaints == ["console error: bad"]


@pytest.mark.parametrize(("width_px", "color_scheme"), [(375, "light"), (1600, "dark")])
def test_a_page_is_shown_and_kept_as_wide_and_as_dark_as_asked(
    open_page, monkeypatch, tmp_path, width_px, color_scheme
):
    monkeypatch.setattr(browser, "SCREENSHOTS", tmp_path / "kept")
    html = "<style>body {margin: 0; height: 2000px} @media (prefers-color-scheme: dark) {body {background: #000}}</style>"
    visit = open_page(page(html), width_px=width_px, height_px=700, color_scheme=color_scheme)
    assert visit.page.evaluate("[innerWidth, innerHeight]") == [width_px, 700]
    kept = visit.keep_screenshot("tall")
    assert kept == tmp_path / "kept" / f"tall-{width_px}px-{color_scheme}.png"
    picture = image.imread(kept)
    assert picture.shape[:2] == (2000, width_px)
    assert picture[..., :3].mean() == (0 if color_scheme == "dark" else 1)


def test_a_page_that_overflows_is_kept_wider_than_asked(open_page, monkeypatch, tmp_path):
    monkeypatch.setattr(browser, "SCREENSHOTS", tmp_path)
    visit = open_page(
        page("<style>body {margin: 0}</style><div style='width: 500px; height: 9px'></div>"),
        width_px=375,
    )
    assert image.imread(visit.keep_screenshot("wide")).shape[1] == 500


def test_letters_are_not_boxes(open_page):
    """A letter without a glyph is as wide as any other without one."""
    visit = open_page(page("<span>iiii</span> <span>WWWW</span> <span>&#x10FFFE;</span>"))
    narrow, wide, _ = visit.page.eval_on_selector_all(
        "span", "spans => spans.map(span => span.offsetWidth)"
    )
    assert 0 < narrow < wide


def test_screenshots_are_kept_where_git_does_not_look():
    ignored = subprocess.run(
        ["git", "check-ignore", "-q", browser.SCREENSHOTS], cwd=PROJECT, check=False
    )
    assert ignored.returncode == 0


def test_windows_share_nothing(open_page, served):
    page("<p>hello")
    for _ in range(2):
        visit = open_page(f"{served}/page.html")
        assert visit.page.evaluate("[document.cookie, localStorage.length]") == ["", 0]
        visit.page.evaluate("document.cookie = 'a=b'; localStorage.setItem('a', 'b')")


def test_without_chromium_tests_are_skipped_but_fail_in_ci(tmp_path):
    missing = browser.find_program(path=str(tmp_path))
    with pytest.raises(
        pytest.skip.Exception, match=r"^no chromium on PATH: run scripts/install-chromium$"
    ):
        browser.needed_program(missing, in_ci=False)
    with pytest.raises(
        pytest.fail.Exception, match=r"^no chromium on PATH: run scripts/install-chromium$"
    ):
        browser.needed_program(missing, in_ci=True)


def test_ci_has_chromium_before_its_tests():
    lines = (PROJECT / ".ci" / "run").read_text().splitlines()
    tests = next(number for number, line in enumerate(lines) if line.startswith("test_command 2"))
    assert "scripts/install-chromium" in lines[:tests]


def test_the_installer_does_nothing_where_chromium_is(program):
    assert printed_by("install-chromium") == ""


def test_the_installer_says_what_to_do_where_it_cannot_install(tmp_path):
    assert (
        "and no apt-get to install them with; or install chromium and a font (fc-list shows them) yourself"
        in refused_by("install-chromium", tmp_path)
    )


def of(home: Path) -> list[psutil.Process]:
    """The browser's processes, also those that have left its tree."""
    return [process for process in psutil.process_iter() if home_of(process) == str(home)]


def home_of(process: psutil.Process) -> str | None:
    try:
        return process.environ().get("HOME")
    except (psutil.AccessDenied, psutil.NoSuchProcess, psutil.ZombieProcess):
        return None


def start(program: Path, home: Path, script: str) -> "subprocess.Popen[str]":
    """A test run with `script` in it, which sees `program` and `home`."""
    home.mkdir()
    preamble = f"""if True:
        import sys
        from pathlib import Path
        from tests.browser import running, visit
        program, home = Path({str(program)!r}), Path({str(home)!r})
    """
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", preamble + script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(PROJECT), "TMPDIR": str(home)},
    )


HOLD = """
        import signal
        signal.signal(signal.SIGINT, signal.default_int_handler)  # who runs the tests in the background ignores it
        with running(program, home) as browser, visit(browser, "data:text/html,<p>hello"):
            print("shown", flush=True)
            sys.stdin.read()
"""


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_test_run_leaves_no_browser_running(program, tmp_path, sign):
    home = tmp_path / "home"
    with start(program, home, HOLD) as run:
        assert run.stdout
        assert run.stdout.readline() == "shown\n"
        browser_processes = of(home)
        assert browser_processes
        with ends([*browser_processes, *psutil.Process(run.pid).children()]):
            os.killpg(run.pid, sign)


USE = """
        import asyncio, json, os, psutil, threading
        def left():
            return [threading.active_count(), len(psutil.Process().children()), len(os.listdir("/proc/self/fd"))]
        before = left()
        with running(program, home) as browser, visit(browser, "data:text/html,<p>hello") as shown:
            assert shown.page.locator("p").inner_text() == "hello"
        asyncio.run(asyncio.sleep(0))
        for thread in threading.enumerate():
            if thread is not threading.current_thread():
                thread.join(60)  # the one that waited for the browser's end ends an instant after it
        print(json.dumps([before, left()]))
"""


def test_after_its_use_no_process_thread_file_or_event_loop_is_left(program, tmp_path):
    home = tmp_path / "home"
    with start(program, home, USE) as run:
        out, err = run.communicate()
    assert err == ""
    before, after = json.loads(out)
    assert before == after
    assert of(home) == []
