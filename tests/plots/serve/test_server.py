"""The server answers many at once, whatever a client does; it has three things and nothing else."""

import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPResponse

import pytest

from plots.serve import server
from plots.serve.server import Answer, Server
from store.errors import StoreError

PATIENCE_S = 300  # it costs nothing where all is well, and a busy machine may need much


FOUND: dict[str, Answer] = {
    "/": Answer(body="<p>hello", kind="text/html", policy="default-src 'self'"),
    "/data.json": Answer(body='{"a": "ü"}', kind="application/json"),
    "/text": Answer(body="word " * 1000),
    "/big": Answer(body="x" * 50_000_000),
}


@contextmanager
def running(**options: object) -> Iterator[Server]:
    with Server("127.0.0.1", 0, FOUND.get, **options) as opened:
        thread = threading.Thread(target=opened.serve_forever, args=[0.01])
        thread.start()
        try:
            yield opened
        finally:
            opened.shutdown()
            thread.join()


@pytest.fixture
def served() -> Iterator[Server]:
    with running() as opened:
        yield opened


def ask(
    served: Server, path: str, method: str = "GET", **headers: str
) -> tuple[HTTPResponse, bytes]:
    connection = HTTPConnection("127.0.0.1", served.server_port, timeout=PATIENCE_S)
    connection.request(method, path, headers=headers)
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response, body


def reported(served: Server, request: bytes) -> bytes:
    """All that comes back until the server hangs up."""
    with socket.create_connection(("127.0.0.1", served.server_port), PATIENCE_S) as client:
        client.sendall(request)
        return rest(client)


def rest(client: socket.socket) -> bytes:
    found = b""
    while piece := client.recv(65536):
        found += piece
    return found


def test_answers_have_headers_that_keep_them_where_they_are(served):
    response, body = ask(served, "/")
    assert (response.status, body) == (200, b"<p>hello")
    headers = dict(response.getheaders())
    assert headers.pop("Date")
    assert headers.pop("ETag").startswith('W/"')
    assert headers == {
        "Server": "scalemark ",
        "Content-Type": "text/html; charset=utf-8",
        "Content-Length": "8",
        "Content-Security-Policy": "default-src 'self'",
        "Cache-Control": "private, no-cache",
        "Connection": "close",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Vary": "Accept-Encoding",
    }
    assert ask(served, "/data.json?x=1")[1].decode() == '{"a": "ü"}'


def test_head_has_the_headers_and_no_body(served):
    response, body = ask(served, "/data.json", "HEAD")
    assert (response.status, response.getheader("Content-Length"), body) == (200, "11", b"")


@pytest.mark.parametrize("before", ["", '"0", '])
def test_who_has_it_is_reported_so(served, before):
    etag = ask(served, "/text", **{"Accept-Encoding": "gzip"})[0].getheader("ETag")
    response, body = ask(served, "/text", **{"If-None-Match": before + etag})
    assert (response.status, response.getheader("ETag"), body) == (304, etag, b"")
    assert ask(served, "/data.json", **{"If-None-Match": etag})[0].status == 200


@pytest.mark.parametrize(
    ("asked", "is_compressed"),
    [
        ("gzip", True),
        ("br, GZIP;q=0.5", True),
        ("*", True),
        ("", False),
        ("br", False),
        ("gzip; q=0, *", False),
        ("gzip;q=0.000", False),
    ],
)
def test_answers_are_compressed_for_those_who_take_it(served, asked, is_compressed):
    response, body = ask(served, "/text", **{"Accept-Encoding": asked})
    assert response.getheader("Content-Encoding") == ("gzip" if is_compressed else None)
    assert response.getheader("Content-Length") == str(len(body))
    assert (gzip.decompress(body) if is_compressed else body) == b"word " * 1000
    assert (len(body) < 100) is is_compressed


def test_what_is_short_stays_as_it_is(served):
    response, body = ask(served, "/", **{"Accept-Encoding": "gzip"})
    assert (response.getheader("Content-Encoding"), body) == (None, b"<p>hello")


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "/../../etc/passwd",
        "/%00",
        "/%2e%2e/results.db",
        "/data.json/",
        "/\xff",
        "http://x/",
        "*",
        "/%",
    ],
)
def test_no_path_leads_anywhere_else(served, path):
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode("latin-1")
    found = reported(served, request).decode()
    assert found.startswith("HTTP/1.1 404 ")
    assert found.endswith(f"nothing is here; open {served.url}\n")


@pytest.mark.parametrize(
    "method", ["POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "TRACE", "NONSENSE"]
)
def test_no_other_method_does_anything(served, method):
    response, body = ask(served, "/", method)
    assert (response.status, response.getheader("Allow")) == (405, "GET, HEAD")
    assert body == b"405 Method Not Allowed\n"


def test_what_is_sent_along_is_not_read_and_the_answer_arrives(served):
    body = b"x" * 200_000
    found = reported(
        served, b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000\r\n\r\n" + body
    )
    assert found.startswith(b"HTTP/1.1 405 ")


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", "LOCALHOST:99", "[::1]", "[::1]:8265", "127.0.0.1:"]
)
def test_on_loopback_our_own_names_are_answered_also_through_a_tunnel(served, host):
    assert ask(served, "/", Host=host)[0].status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8265",
        "localhost.evil.example",
        "127.0.0.1.evil",
        "",
        "[::1",
        "a b",
    ],
)
def test_on_loopback_another_sites_name_is_not(served, host):
    response, body = ask(served, "/", Host=host)
    assert response.status == HTTPStatus.MISDIRECTED_REQUEST
    said = f"this is not that host; open http://127.0.0.1:{served.server_port}/\n"
    assert body.decode() == said


def test_open_to_all_only_names_of_this_machine_are_answered():
    with Server("0.0.0.0", 0, FOUND.get, allow_hosts=["Bench.example"]) as opened:
        assert not opened.is_loopback
        assert opened.url == f"http://{socket.gethostname()}:{opened.server_port}/"
        ours = [
            "192.0.2.7:8265",
            "[2001:db8::1]:80",
            "localhost",
            socket.gethostname(),
            socket.getfqdn().upper(),
            "bench.example:1",
        ]
        assert [host for host in ours if not opened.is_our_name(host)] == []
        others = [
            "evil.example",
            "evil.example:8265",
            "192.0.2.7.evil.example",
            "x.bench.example",
            "",
            "[evil]",
            "192.0.2.7evil",
        ]
        assert [host for host in others if opened.is_our_name(host)] == []


@pytest.mark.parametrize(
    "request_",
    [
        b"GET / HTTP/1.1\r\n\r\n",  # no host
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n",
        b"GET /\r\n\r\n",  # HTTP/0.9
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",  # TLS
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: x\r\n" * 10_000 + b"\r\n",
        b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"\0" * 1000 + b"\r\n",
        b"GET / HTTP/1.1\r\nHost\xff\xfe\r\n\r\n",
    ],
    ids=[
        "no host",
        "two hosts",
        "0.9",
        "9.9",
        "TLS",
        "long header",
        "many headers",
        "long path",
        "zeros",
        "no header",
    ],
)
def test_what_is_no_request_is_reported_so_and_others_are_answered(served, request_, capfd):
    found = reported(served, request_)
    status = int(found.split(maxsplit=2)[1])
    assert status in (400, 414, 431, 505)
    assert found.startswith(b"HTTP/1.")
    assert b"hello" not in found
    assert ask(served, "/")[0].status == 200
    assert capfd.readouterr().err == ""


def test_who_says_nothing_is_hung_up_on_and_nobody_waits_for_it(monkeypatch):
    monkeypatch.setattr(server, "REQUEST_S", PATIENCE_S)
    with running() as served, ExitStack() as stack:
        address = ("127.0.0.1", served.server_port)
        stack.enter_context(socket.create_connection(address, PATIENCE_S))
        assert ask(served, "/")[0].status == 200
        monkeypatch.setattr(server, "REQUEST_S", 0.2)
        silent = stack.enter_context(socket.create_connection(address, PATIENCE_S))
        slow = stack.enter_context(socket.create_connection(address, PATIENCE_S))
        stop = threading.Event()

        def drip() -> None:
            """A byte now and then, each before the system's own timeout."""
            while not stop.wait(0.02):
                try:
                    slow.send(b"G")
                except OSError:
                    return

        dripping = threading.Thread(target=drip)
        dripping.start()
        assert rest(silent) == b""
        with suppress(ConnectionResetError):  # as good
            assert rest(slow) == b""
        stop.set()
        dripping.join()


def test_who_does_not_take_its_answer_is_hung_up_on(monkeypatch):
    monkeypatch.setattr(server, "ANSWER_S", 1.0)
    with (
        running() as served,
        socket.create_connection(("127.0.0.1", served.server_port), PATIENCE_S) as client,
    ):
        client.sendall(b"GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert client.recv(1)  # and no more
        monkeypatch.setattr(server, "ANSWER_S", PATIENCE_S)
        until(lambda: not served._due_s)
        assert ask(served, "/")[0].status == 200


def test_many_who_say_nothing_keep_nobody_out(served, monkeypatch):
    monkeypatch.setattr(server, "MOST_OPEN", 5)
    with ExitStack() as stack:
        idle = [
            stack.enter_context(
                socket.create_connection(("127.0.0.1", served.server_port), PATIENCE_S)
            )
            for _ in range(20)
        ]
        for _ in range(10):
            assert ask(served, "/")[0].status == 200
        assert rest(idle[0]) == b""
        assert len(served._due_s) <= 5


def test_too_many_connections_are_refused_while_all_wait(monkeypatch):
    monkeypatch.setattr(server, "MOST_OPEN", 5)
    begun, let_go = threading.Semaphore(0), threading.Event()

    def slow(path: str) -> Answer:
        begun.release()
        assert let_go.wait(PATIENCE_S)
        return Answer(body="ok")

    with Server("127.0.0.1", 0, slow) as served, ExitStack() as stack:
        serving = threading.Thread(target=served.serve_forever, args=[0.01])
        serving.start()

        def asked() -> socket.socket:
            client = stack.enter_context(
                socket.create_connection(("127.0.0.1", served.server_port), PATIENCE_S)
            )
            client.sendall(b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n")
            return client

        first = []
        for _ in range(5):
            first.append(asked())
            assert begun.acquire(timeout=PATIENCE_S)
        threads = set(threading.enumerate())  # those of earlier tests may end meanwhile
        for _ in range(50):
            with suppress(ConnectionError):  # as good
                assert rest(asked()) == b""
        assert set(threading.enumerate()) <= threads
        assert not begun.acquire(blocking=False)
        let_go.set()
        assert [rest(client).split()[1] for client in first] == [b"200"] * 5
        until(lambda: not served._due_s)
        assert ask(served, "/slow")[0].status == 200
        until(lambda: not served._has_asked)
        served.shutdown()
        serving.join()


def test_many_are_answered_at_once():
    begun, let_go = threading.Barrier(11), threading.Event()

    def answer(path: str) -> Answer:
        if path == "/slow":
            begun.wait(PATIENCE_S)
            let_go.wait(PATIENCE_S)
        return Answer(body=path)

    with Server("127.0.0.1", 0, answer) as served:
        serving = threading.Thread(target=served.serve_forever, args=[0.01])
        serving.start()
        found: list[int] = []
        clients = [
            threading.Thread(target=lambda: found.append(ask(served, "/slow")[0].status))
            for _ in range(10)
        ]
        for client in clients:
            client.start()
        begun.wait(PATIENCE_S)
        assert ask(served, "/")[1] == b"/"
        let_go.set()
        for client in clients:
            client.join()
        served.shutdown()
        serving.join()
    assert found == [200] * 10


def test_requests_are_logged_when_asked_for_without_control_characters(served, capfd):
    ask(served, "/")
    assert capfd.readouterr().err == ""
    with running(verbose=True) as telling:
        reported(telling, b"GET /\x1b[2J HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert capfd.readouterr().err == '127.0.0.1 "GET /\\x1b[2J HTTP/1.1" 404 -\n'


def test_a_port_in_use_is_said(served):
    with pytest.raises(
        StoreError,
        match=rf"^127\.0\.0\.1:{served.server_port}: something listens there already; choose another --port, or 0 ",
    ):
        Server("127.0.0.1", served.server_port, FOUND.get)


@pytest.mark.parametrize("host", ["192.0.2.1", "no such host", "x" * 300, "\0", ""])
def test_an_address_that_is_none_of_ours_is_said(host):
    with pytest.raises(
        StoreError,
        match=r"no address of this machine; 127\.0\.0\.1 is for this machine alone, 0\.0\.0\.0 for all",
    ):
        Server(host, 0, FOUND.get)


def test_it_listens_on_the_newer_loopback_too():
    try:
        opened = Server("::1", 0, FOUND.get)
    except StoreError:
        pytest.skip("this machine has no IPv6")
    with opened:
        assert opened.url == f"http://[::1]:{opened.server_port}/"
        assert opened.is_loopback


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    pause = threading.Event()
    while not is_so():
        assert time.monotonic() < deadline
        pause.wait(0.01)
