"""Which requests the server answers, and what it never sends."""

import http.client
import json
import socket
import time
from contextlib import ExitStack
from urllib.parse import urlsplit

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the page is served with starlette (extra serve)")
pytest.importorskip("uvicorn", reason="the page is served with uvicorn (extra serve)")

import limelight
from limelight.serving import guard, serve

REQUEST = {"tab": "t", "panel": "p", "text": "a good film", "methods": ["loo"]}


def send_request(url, path="", *, method="GET", body=None, host=None, token=None, raw=None):
    """Send one request with the headers that are named and no others."""
    parts = urlsplit(url)
    secret = parts.path if token is None else f"/{token}/"
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
    connection.putrequest(method, secret + path if raw is None else raw, skip_host=True)
    connection.putheader("Host", parts.netloc if host is None else host)
    content = (
        b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    )
    connection.putheader("Content-Length", str(len(content)))
    connection.endheaders(content)
    answer = connection.getresponse()
    status, headers, content = answer.status, dict(answer.getheaders()), answer.read()
    connection.close()
    return status, headers, content


def last_line(content):
    return json.loads(content.splitlines()[-1])


def test_the_page_and_its_answers_come_with_the_whole_address(served):
    assert send_request(served.url)[0] == 200
    status, _, content = send_request(served.url, "text", method="POST", body=REQUEST)
    assert status == 200
    assert last_line(content)["result"]["prediction"]["target"] == "positive"


@pytest.mark.parametrize("token", ["", "wrong", "x" * 32, "%C3%A9", "%2e%2e"])
@pytest.mark.parametrize("path", ["", "text", "page/typing.js", "favicon.ico"])
def test_without_the_token_nothing_is_there(served, token, path):
    status, _, content = send_request(served.url, path, token=token)
    assert status == 403
    assert content == b"Open the whole address that limelight printed: it ends in a token.\n"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8737", "127.0.0.1.evil.example", "", "10.0.0.7", "[::2]"]
)
def test_another_host_raises_an_error(served, host):
    status, _, content = send_request(served.url, host=host)
    assert status == 421
    assert b"answers only to the address" in content


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:9000"])
def test_a_tunnel_to_this_machine_is_let_in(served, host):
    assert send_request(served.url, host=host)[0] == 200


def test_a_token_is_as_long_as_a_good_password_and_new_each_time(served):
    with serve(port=0) as other:
        tokens = [urlsplit(page.url).path.strip("/") for page in (served, other)]
    assert tokens[0] != tokens[1]
    assert min(map(len, tokens)) >= 32


def test_only_this_machine_is_listened_to(served):
    assert urlsplit(served.url).hostname == "127.0.0.1"
    assert served.is_local


@pytest.mark.parametrize("path", ["", "page/typing.js", "page/style.css", "nowhere"])
def test_every_answer_has_the_strict_policy(served, path):
    _, headers, _ = send_request(served.url, path)
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
    assert "server" not in headers


@pytest.mark.parametrize(
    "path", ["page/../queue.py", "page/%2e%2e/queue.py", "page//etc/passwd", "page/", "page/x.js"]
)
def test_no_other_file_is_served(served, path):
    status, _, content = send_request(served.url, path)
    assert (status, json.loads(content)["error"]) == (404, "there is nothing at this address.")


def test_an_address_without_its_last_slash_leads_to_the_page(served):
    status, headers, _ = send_request(served.url, raw=urlsplit(served.url).path.rstrip("/"))
    assert status == 307
    assert headers["location"] == urlsplit(served.url).path


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "this is not a request"),
        (b"x" * ((1 << 20) + 1), "a request must have at most 1,048,576 bytes"),
        ({**REQUEST, "model": 3}, "there is no model 3, because the page has 1"),
        ({**REQUEST, "methods": ["a"] * 50}, "this is not a request"),
        (
            {**REQUEST, "text": "a" * 100_001},
            "texts of at most 100,000 characters, but this one has 100,001",
        ),
    ],
)
def test_an_invalid_request_gets_one_message(served, body, message):
    status, _, content = send_request(served.url, "text", method="POST", body=body)
    assert status == 400
    assert message in json.loads(content)["error"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"methods": ["limee"]}, "Did you mean 'lime'?"),
        ({"target": "neutral"}, "unknown class: 'neutral'"),
        ({"text": "  "}, "no words left"),
        ({"protect": [" "]}, "the protected word ' ' cannot be read"),
    ],
)
def test_an_error_of_the_library_is_sent_with_its_message(served, change, message):
    _, _, content = send_request(served.url, "text", method="POST", body={**REQUEST, **change})
    assert message in last_line(content)["error"]


def test_no_file_and_no_type_is_named_in_an_error(served):
    _, _, content = send_request(
        served.url, "text", method="POST", body={**REQUEST, "target": "<b>"}
    )
    assert b"Traceback" not in content
    assert b"<b>" not in send_request(served.url, "<b>".replace("<", "%3C"))[2]


@pytest.fixture(scope="module")
def slow_page():
    def sleepy(texts):
        if any("sleep" in text for text in texts):
            time.sleep(3)
        if any("break" in text for text in texts):
            raise RuntimeError("a wire is loose")
        return np.full((len(texts), 2), 0.5)

    with serve(limelight.wrap(sleepy, classes=["no", "yes"]), port=0, seconds=0.5) as page:
        yield page


def test_a_request_that_takes_too_long_is_stopped_and_the_page_still_answers(slow_page):
    body = {**REQUEST, "methods": [], "text": "sleep well"}
    _, _, content = send_request(slow_page.url, "text", method="POST", body=body)
    assert last_line(content)["error"] == (
        "the model took longer than 0.5 seconds, so the request was stopped."
    )
    assert send_request(slow_page.url)[0] == 200
    body = {**REQUEST, "methods": [], "text": "wide awake"}
    _, _, content = send_request(slow_page.url, "text", method="POST", body=body)
    assert last_line(content)["result"]["prediction"]["target"] == "yes"


def test_the_message_has_the_error_of_a_model(slow_page):
    body = {**REQUEST, "methods": [], "text": "break it"}
    _, _, content = send_request(slow_page.url, "text", method="POST", body=body)
    assert "a wire is loose" in last_line(content)["error"]


def test_whoever_leaves_in_the_middle_of_a_request_leaves_no_traceback(served, capfd, caplog):
    parts = urlsplit(served.url)
    with socket.create_connection((parts.hostname, parts.port)) as connection:
        head = (
            f"POST {parts.path}text HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Length: 10\r\n\r\n"
        )
        connection.sendall(head.encode() + b"ab")
        time.sleep(0.1)
    for _ in range(20):  # while these are answered, it is heard that the other has gone
        assert send_request(served.url)[0] == 200
    assert "Traceback" not in capfd.readouterr().err
    assert caplog.records == []


def test_a_stopped_server_frees_its_port_and_its_repr_says_stopped():
    page = serve(port=0)
    port = urlsplit(page.url).port
    assert page.is_running
    assert page.url in repr(page)
    assert page.url in page._repr_html_()
    page.stop()
    assert not page.is_running
    assert repr(page) == "<Serving, stopped>"
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
    page.stop()  # a second call is allowed


def silent(connection):
    """Send nothing more, and return how many bytes come before the connection ends."""
    try:
        return len(connection.recv(1))
    except ConnectionError:
        return 0


def send_slowly(connection):
    """Send a byte at a time until the server closes the connection."""
    for _ in range(2000):
        try:
            connection.sendall(b"x")
            connection.settimeout(0.02)
            return len(connection.recv(1))
        except TimeoutError:
            continue
        except ConnectionError:
            return 0
    raise AssertionError("the connection was never ended")


HALVES = {
    "nothing": b"",
    "half a line": b"GET /",
    "half the headers": b"GET / HTTP/1.1\r\nHost: localhost\r\nX-More: ",
    "half a body": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000\r\n\r\nhalf",
}


@pytest.mark.parametrize("ending", [silent, send_slowly])
@pytest.mark.parametrize(
    ("half", "after_an_answer"),
    # A connection that is idle after an answer has uvicorn's own, other time.
    [(half, after) for half in HALVES for after in (False, True) if half != "nothing" or not after],
)
def test_a_connection_whose_request_never_ends_is_closed(
    served, monkeypatch, half, after_an_answer, ending
):
    monkeypatch.setattr(guard, "_REQUEST_SECONDS", 0.3)
    parts = urlsplit(served.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=20) as connection:
        if after_an_answer:
            connection.sendall(f"GET {parts.path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            answer = http.client.HTTPResponse(connection)
            answer.begin()
            answer.read()
            assert answer.status == 200
        connection.sendall(HALVES[half].replace(b" / ", f" {parts.path}text ".encode()))
        assert ending(connection) == 0
    assert send_request(served.url)[0] == 200


@pytest.mark.parametrize("sent", ["nothing", "half the headers", "a whole request"])
def test_hundreds_of_idle_connections_do_not_block_a_request(served, sent):
    parts = urlsplit(served.url)
    request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with ExitStack() as connections:
        for _ in range(600):
            idle = socket.create_connection((parts.hostname, parts.port), timeout=20)
            connections.enter_context(idle).sendall(HALVES.get(sent, request))
        for _ in range(5):
            status, _, content = send_request(served.url, "text", method="POST", body=REQUEST)
            assert (status, "result" in last_line(content)) == (200, True)


def test_an_answer_may_take_longer_than_the_time_limit_of_a_request(monkeypatch):
    monkeypatch.setattr(guard, "_REQUEST_SECONDS", 0.3)

    def slow(texts):
        time.sleep(0.6)
        return np.full((len(texts), 2), 0.5)

    with serve(limelight.wrap(slow, classes=["no", "yes"]), port=0) as page:
        status, _, content = send_request(
            page.url, "text", method="POST", body=REQUEST | {"methods": []}
        )
    assert status == 200
    assert "result" in last_line(content)
