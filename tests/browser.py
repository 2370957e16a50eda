"""A real chromium for tests that look at pages, and all that it noticed while it showed one."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Dialog,
    Page,
    Request,
    WebError,
    WebSocket,
    expect,
    sync_playwright,
)

from tests.needed import needed

SWITCHES = [
    "--no-sandbox",  # root has none
    "--disable-dev-shm-usage",  # small in containers
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",  # no network beyond loopback
]
TIMEOUT_MS = 180_000  # of one step, on a machine with other work
expect.set_options(timeout=TIMEOUT_MS)

ColorScheme = Literal["light", "dark"]


def find_program(path: str | None = None) -> Path | None:
    """Debian's chromium on `path` (default: PATH)."""
    found = shutil.which("chromium", path=path)
    return Path(found) if found else None


def needed_program(found: Path | None, *, in_ci: bool) -> Path:
    """`found`; without it the test is skipped, and fails in CI, where nothing may be left out unnoticed."""
    if not found:
        needed("no chromium on PATH: run scripts/install-chromium", in_ci=in_ci)
    return found


@contextmanager
def running(program: Path, home: Path) -> Iterator[Browser]:
    """A browser that keeps its own files in the folder `home`; nothing of it runs afterwards, also when this process is killed.

    Meanwhile playwright has an event loop on this thread, so that `asyncio.run` is refused; and a child forked meanwhile
    must end before the browser can. So keep it no longer than a module's tests.
    """
    environment: dict[str, str | float | bool] = {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
    }  # no proxy, no settings
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(
            executable_path=program, args=SWITCHES, env=environment, timeout=TIMEOUT_MS
        ) as browser,
    ):
        yield browser


class Visit:
    """A page on show, and what happened on it so far."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self._requests: list[str] = []
        self._complaints: list[str] = []
        page.context.on("request", self._note_request)
        page.on("websocket", self._note_socket)
        page.context.on("console", self._note_message)
        page.context.on("weberror", self._note_error)
        page.context.on("dialog", self._note_dialog)

    @property
    def requests(self) -> list[str]:
        """URLs of all that was asked for beyond the page itself, whether it was answered or not."""
        self._hear_all()
        return self._requests[1:]

    @property
    def complaints(self) -> list[str]:
        """The console's errors and warnings, uncaught errors of scripts, and dialogs, which are dismissed."""
        self._hear_all()
        return list(self._complaints)

    def _hear_all(self) -> None:
        """Also what the page has put off to its next turn; what comes before the answer is heard before it."""
        self.page.evaluate("new Promise(resolve => setTimeout(resolve))")

    def _note_request(self, request: Request) -> None:
        self._requests.append(request.url)

    def _note_socket(self, socket: WebSocket) -> None:
        self._requests.append(socket.url)

    def _note_message(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            about = message.location["url"]
            elsewhere = (
                f" ({about})" if about != self.page.url else ""
            )  # of a file that did not come, its address
            self._complaints.append(f"console {message.type}: {message.text}{elsewhere}")

    def _note_error(self, error: WebError) -> None:
        self._complaints.append(f"page error: {error.error.name}: {error.error.message}")

    def _note_dialog(self, dialog: Dialog) -> None:
        self._complaints.append(f"{dialog.type}: {dialog.message}")
        dialog.dismiss()


@contextmanager
def visit(
    browser: Browser,
    address: Path | str,
    *,
    width_px: int = 1600,
    color_scheme: ColorScheme = "light",
) -> Iterator[Visit]:
    """A file, or a URL, loaded into a window of its own that shares nothing with others."""
    url = address.resolve().as_uri() if isinstance(address, Path) else address
    with browser.new_context(
        viewport={"width": width_px, "height": 900},
        color_scheme=color_scheme,
        reduced_motion="reduce",
        locale="en-US",
        timezone_id="UTC",
    ) as context:
        context.set_default_timeout(TIMEOUT_MS)
        visited = Visit(context.new_page())
        visited.page.goto(url)
        yield visited
