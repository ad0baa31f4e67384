"""The apps of docs/how-to/share.md run as they are written, where their packages are."""

import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

import limelight

PAGE = Path(__file__).resolve().parents[1] / "docs" / "how-to" / "share.md"
TEXT = "The plot is predictable, but the acting is superb."


def app(title):
    """The block of a section, as it is written."""
    section = PAGE.read_text("utf-8").split(f"## {title}\n")[1].split("\n##")[0]
    (block,) = re.findall(r"^```py\n(.*?)^```", section, re.M | re.S)
    return block


def piece(text, method="shapley"):
    return limelight.explain(limelight.load(), text, method).to_html(fragment=True)


@pytest.mark.slow
def test_the_streamlit_app_shows_the_words_of_what_is_typed(tmp_path):
    reason = "streamlit is not installed"
    testing = pytest.importorskip("streamlit.testing.v1", reason=reason)
    file = tmp_path / "app.py"
    file.write_text(app("Streamlit"), "utf-8")
    process = testing.AppTest.from_file(str(file), default_timeout=120).run()
    assert not process.exception
    assert process.get("html")[0].proto.body.strip() == piece(TEXT).strip()
    process.text_area[0].set_value("a <b>dull</b> film").run()
    assert not process.exception
    assert process.get("html")[0].proto.body.strip() == piece("a <b>dull</b> film").strip()
    process.text_area[0].set_value("   ").run()  # nothing to explain, and nothing goes wrong
    assert not process.exception
    assert not process.get("html")


@pytest.fixture
def gradio_app(tmp_path):
    """The address of the app, which runs as a program of its own."""
    if importlib.util.find_spec("gradio") is None:
        pytest.skip("gradio is not installed")
    file = tmp_path / "app.py"
    file.write_text(app("Gradio"), "utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    output = {"GRADIO_SERVER_PORT": str(port), "GRADIO_ANALYTICS_ENABLED": "False"}
    log = tmp_path / "log"
    with log.open("wb") as out:
        running = subprocess.Popen(
            [sys.executable, file], env=os.environ | output, stdout=out, stderr=out
        )
        try:
            until = time.monotonic() + 120
            while b"Running on" not in log.read_bytes():
                assert running.poll() is None, log.read_text()
                assert time.monotonic() < until, log.read_text()
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}/gradio_api/call/explain"
        finally:
            running.terminate()
            running.wait()


def read_event(address, *data):
    """What the app answers: the event and its data."""
    head = {"Content-Type": "application/json"}
    body = json.dumps({"data": data}).encode()
    with urlopen(Request(address, body, head), timeout=60) as answer:
        event = json.load(answer)["event_id"]
    with urlopen(f"{address}/{event}", timeout=60) as answer:
        *_, message = answer.read().decode().strip().split("\n\n")
    name, content = (line.split(": ", 1)[1] for line in message.splitlines())
    return name, json.loads(content)


@pytest.mark.slow
def test_the_gradio_app_answers_and_tells_what_is_wrong(gradio_app):
    for method in ("shapley", "loo"):
        assert read_event(gradio_app, TEXT, method) == ("complete", [piece(TEXT, method)])
    event, message = read_event(gradio_app, "   ", "shapley")
    assert event == "error"
    assert "no words" in json.dumps(message)
