"""An HTTP server that hands out a few things from memory, to many at once, and does nothing else.

One request per connection, one thread each, which ends by its deadline whatever the other end does.
No path names a file.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import ipaddress
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from scalemark.text.untrusted import visible
from store.errors import StoreError

REQUEST_S, ANSWER_S = 10.0, 60.0
"""How long a connection may take to ask, and to take its answer."""

MOST_OPEN = 128
"""Connections, each with a thread. One more ends the one with the least time left to ask; where all
have asked, it is refused.
"""

_MOST_DRAINED_BYTES = 2**20
_LEAST_COMPRESSED_BYTES = 1000  # less fits into one packet as it is
_LINGER_S = 1.0
_HEADERS = {
    "Cache-Control": "private, no-cache",  # kept, but asked for again each time, by its ETag
    "Connection": "close",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An HTTP answer."""

    body: str
    kind: str = "text/plain"  # a MIME type; always UTF-8
    status: HTTPStatus = HTTPStatus.OK
    policy: str = "default-src 'none'"  # Content-Security-Policy: all that a browser may do with it
    headers: Mapping[str, str] = field(default_factory=dict)


Answers = Callable[[str], Answer | None]
"""Returns what there is at a path; None where there is nothing."""


class PortTakenError(StoreError):
    """Something else listens at this port."""


def listen(host: str, ports: Sequence[int], answers: Answers, **options: Any) -> Server:
    """Listen at the first port that is free. Raises as `Server`."""
    for port in ports[:-1]:
        try:
            return Server(host, port, answers, **options)
        except PortTakenError:
            continue
    return Server(host, ports[-1], answers, **options)


class Server(ThreadingHTTPServer):
    """Listens from the beginning; `serve_forever` answers."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self,
        host: str,
        port: int,
        answers: Answers,
        *,
        allow_hosts: Sequence[str] = (),
        verbose: bool = False,
    ) -> None:
        """`port` 0 chooses one that is free; `allow_hosts`: more names of ours. Raises StoreError
        when it cannot listen there.
        """
        self.answers, self.verbose = answers, verbose
        self._host = host
        self._lock = threading.Lock()
        self._due_s: dict[socket.socket, float] = {}  # of each open connection
        # of those: its thread ends when it has its answer, and not before
        self._has_asked: set[socket.socket] = set()
        try:
            self.address_family, *_, address = socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            super().__init__((str(address[0]), int(address[1])), _Handler)
        except (OSError, UnicodeError) as error:
            is_taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
            kind = PortTakenError if is_taken else StoreError
            raise kind(_cannot_listen(host, port, error)) from error
        self._names = {"localhost", *(name.lower() for name in (host, *allow_hosts))}
        if not self.is_loopback:  # asking for the whole name may take seconds
            self._names |= {socket.gethostname().lower(), socket.getfqdn().lower()}

    def server_bind(self) -> None:
        """Bind without asking a name server for our name, as HTTPServer would."""
        if self.address_family is socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = self._host, self.server_address[1]

    @property
    def url(self) -> str:
        """Return the address to open in a browser."""
        address = ipaddress.ip_address(str(self.server_address[0]))
        host = socket.gethostname() if address.is_unspecified else self._host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.server_port}/"

    @property
    def is_loopback(self) -> bool:
        """Return whether only this machine reaches it."""
        return ipaddress.ip_address(str(self.server_address[0])).is_loopback

    def is_our_name(self, host: str) -> bool:
        """Check a request's Host header: a page of another site that resolves its name to us (DNS
        rebinding) is not answered.
        """
        found = _HOST.fullmatch(host.strip().lower())
        return found is not None and (found[1] in self._names or _is_address(found[1]))

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            has_room = self._make_room()
            if has_room:
                self._due_s[request] = time.monotonic() + REQUEST_S
        if has_room:
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def _make_room(self) -> bool:
        """Make room for one more by hanging up on one that has not asked yet, whose thread
        therefore ends at once.
        """
        if len(self._due_s) < MOST_OPEN:
            return True
        idle = self._due_s.keys() - self._has_asked
        if idle:
            request = min(idle, key=self._due_s.__getitem__)
            del self._due_s[request]
            _hang_up(request)
        return bool(idle)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._due_s.pop(request, None)
            self._has_asked.discard(request)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """End what takes too long; http.server calls this twice a second."""
        with self._lock:
            for request, due_s in self._due_s.items():
                if due_s < time.monotonic():
                    _hang_up(request)

    def allow_answer(self, request: socket.socket) -> None:
        """Note that it has asked in time. Raises ConnectionAbortedError when it was hung up on
        meanwhile.
        """
        with self._lock:
            if request not in self._due_s:
                raise ConnectionAbortedError
            self._has_asked.add(request)
            self._due_s[request] = time.monotonic() + ANSWER_S

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that go, which they may whenever they like."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


_NO_ADDRESS = (
    "no address of this machine; 127.0.0.1 is for this machine alone, 0.0.0.0 for all who reach it"
)
_HOST = re.compile(r"(\[[0-9a-f:.]*\]|[^:]*)(?::\d*)?")


def _is_address(host: str) -> bool:
    """Return whether it is an address, which no name server can point to us."""
    try:
        ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _hang_up(request: socket.socket) -> None:
    """Wake whoever reads from it or writes to it."""
    try:
        request.shutdown(socket.SHUT_RDWR)
    except OSError:  # the other end was quicker
        return


def _cannot_listen(host: str, port: int, error: OSError | UnicodeError) -> str:
    if isinstance(error, socket.gaierror | UnicodeError):
        return f"--host {host[:100]}: {_NO_ADDRESS}"
    remedies = {
        errno.EADDRINUSE: "something listens there already; choose another --port, or 0 for any",
        errno.EACCES: "that port needs more rights; choose a --port above 1023, or 0 for any",
        errno.EADDRNOTAVAIL: _NO_ADDRESS,
    }
    return f"{host}:{port}: {remedies.get(error.errno or 0, error.strerror)}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "scalemark", ""
    timeout = REQUEST_S
    server: Server

    def do_GET(self) -> None:
        self.server.allow_answer(self.connection)
        self.connection.settimeout(ANSWER_S)
        self._send(self._answer())

    do_HEAD = do_GET  # noqa: N815  # the name that http.server wants

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what is no request, or none that http.server knows."""
        status = (
            HTTPStatus.METHOD_NOT_ALLOWED
            if code == HTTPStatus.NOT_IMPLEMENTED
            else HTTPStatus(code)
        )
        headers = {"Allow": "GET, HEAD"} if status is HTTPStatus.METHOD_NOT_ALLOWED else {}
        self._send(Answer(status=status, body=f"{status} {status.phrase}\n", headers=headers))
        self._drain()

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002  # as inherited
        if self.server.verbose:
            print(
                visible(f"{self.client_address[0]} {format % arguments}"),
                file=sys.stderr,
                flush=True,
            )

    def _answer(self) -> Answer:
        hosts = self.headers.get_all("Host", []) if self.request_version != "HTTP/0.9" else []
        if len(hosts) != 1:
            return Answer(
                status=HTTPStatus.BAD_REQUEST, body="wanted HTTP/1.1 with one Host header\n"
            )
        if not self.server.is_our_name(hosts[0]):
            return Answer(
                status=HTTPStatus.MISDIRECTED_REQUEST,
                body=f"this is not that host; open {self.server.url}\n",
            )
        path = self.path.partition("?")[0]
        found = self.server.answers(path)
        return found or Answer(
            status=HTTPStatus.NOT_FOUND, body=f"nothing is here; open {self.server.url}\n"
        )

    def _send(self, answer: Answer) -> None:
        status, body = answer.status, answer.body.encode()
        etag = f'W/"{hashlib.sha256(body).hexdigest()[:16]}"'  # weak: compressed it is the same
        if status is HTTPStatus.OK and etag in self._listed("If-None-Match"):
            status, body = HTTPStatus.NOT_MODIFIED, b""
        self.close_connection = True
        if self.request_version not in ("HTTP/1.0", "HTTP/1.1"):  # it would be sent without headers
            self.request_version = "HTTP/1.0"
        self.send_response(status)
        for name, value in {**_HEADERS, **answer.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Security-Policy", answer.policy)
        self.send_header("Vary", "Accept-Encoding")
        if answer.status is HTTPStatus.OK:
            self.send_header("ETag", etag)
        if len(body) >= _LEAST_COMPRESSED_BYTES and self._takes_gzip():
            body = gzip.compress(body, compresslevel=6, mtime=0)
            self.send_header("Content-Encoding", "gzip")
        if status is not HTTPStatus.NOT_MODIFIED:
            self.send_header("Content-Type", f"{answer.kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _takes_gzip(self) -> bool:
        """Return whether Accept-Encoding names gzip, and not to refuse it."""
        weights = {}
        for one in self._listed("Accept-Encoding"):
            name, _, weight = one.replace(" ", "").lower().partition(";q=")
            weights[name] = weight
        return not re.fullmatch(r"0(\.0*)?", weights.get("gzip", weights.get("*", "0")))

    def _listed(self, header: str) -> list[str]:
        """Return what a header lists; nothing for a request that has no headers."""
        headers = getattr(self, "headers", None)
        text = headers.get(header, "") if headers else ""
        return [one.strip() for one in text.split(",")]

    def _drain(self) -> None:
        """Read what was sent to us, or the system would report an error to the other end before our
        answer.
        """
        self.connection.shutdown(socket.SHUT_WR)
        self.connection.settimeout(_LINGER_S)
        left = _MOST_DRAINED_BYTES
        while left > 0 and (piece := self.connection.recv(65536)):
            left -= len(piece)
