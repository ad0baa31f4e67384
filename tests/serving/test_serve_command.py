"""``limelight serve`` as a process: its address, its end, and its error messages."""

import contextlib
import html
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest

pytest.importorskip("starlette", reason="the page is served with starlette (extra serve)")
pytest.importorskip("uvicorn", reason="the page is served with uvicorn (extra serve)")

import limelight as limelight_library
from limelight.cli import main as command_line
from limelight.cli.pages import _print_address
from limelight.cli.pages import serve as serve_command
from limelight.errors import InputError
from limelight.models.attention.folder import save_folder
from limelight.serving import serve
from limelight.serving.server import _default_models

from tiny_models import tiny_model

HINT = "Open this address in a browser. Press Ctrl-C to end the server.\n"


@pytest.fixture
def start_command():
    processes = []

    def start(*arguments):
        process = subprocess.Popen(
            [sys.executable, "-m", "limelight", "serve", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        processes.append(process)
        return process, process.stdout.readline().strip()

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("stop", "code", "message"),
    [(signal.SIGINT, 0, "Stopped.\n"), (signal.SIGTERM, 143, "Interrupted.\n")],
)
def test_the_address_is_printed_and_a_signal_ends_the_server(start_command, stop, code, message):
    process, url = start_command("--port", "0")
    page = urllib.request.urlopen(url, timeout=120).read()
    assert b"Which words drive the prediction?" in page
    process.send_signal(stop)
    _, err = process.communicate(timeout=120)
    # The signal may come before the hint is printed.
    assert (process.returncode, err.replace(HINT, "")) == (code, message)


SLOW_MODEL = """
import time
import numpy as np
import limelight

def score(texts):
    time.sleep(0.05 * len(texts))
    return np.full((len(texts), 2), 0.5)

model = limelight.wrap(score, classes=["a", "b"])
"""


def test_an_interrupt_during_requests_prints_one_line(start_command, tmp_path, monkeypatch):
    (tmp_path / "slow_model.py").write_text(SLOW_MODEL)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    process, url = start_command("--port", "0", "--model", "slow_model:model")
    answers = []

    def ask(number):
        text = " ".join(f"word{i}" for i in range(60))
        body = {"tab": f"tab{number}", "panel": "p", "text": text, "methods": ["lime"]}
        request = urllib.request.Request(
            f"{url}text", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with contextlib.suppress(OSError), urllib.request.urlopen(request, timeout=120) as lines:
            for line in lines:
                answers.append(json.loads(line))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    while not answers:  # the first request is running
        assert process.poll() is None
        assert any(thread.is_alive() for thread in threads)
        time.sleep(0.01)  # leaves the processor to the server
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    for thread in threads:
        thread.join()
    assert process.returncode == 0
    assert errors == HINT + "Stopped.\n"


@pytest.mark.parametrize(
    ("stop", "code", "message"),
    [(signal.SIGINT, 0, "Stopped.\n"), (signal.SIGTERM, 143, "Interrupted.\n")],
)
def test_a_signal_ends_the_server_while_a_run_is_read(start_command, stored, stop, code, message):
    process, url = start_command("--port", "0", "--run", str(stored["run"]))
    assert url
    process.send_signal(stop)
    _, err = process.communicate(timeout=120)
    assert (process.returncode, err.replace(HINT, "")) == (code, message)


class FakeServer(SimpleNamespace):
    """A server that a command uses. An attribute that `Serving` does not have raises an error."""

    def __init__(self, *, is_running, host="127.0.0.1"):
        super().__init__(
            is_running=is_running,
            url=f"http://{host}:1/x/",
            is_local=host == "127.0.0.1",
            warnings=(),
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def test_a_fake_server_has_the_attributes_of_a_server():
    with serve(port=0) as server:
        for name in vars(FakeServer(is_running=True)):
            assert hasattr(server, name), name


def test_a_signal_whose_exception_is_lost_still_ends_the_server(monkeypatch, capsys):
    class Raising:
        def __del__(self):  # as the callbacks of importlib, whose exceptions Python drops
            signal.raise_signal(signal.SIGINT)

    def start(*_, **__):
        Raising()
        return FakeServer(is_running=True)

    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    monkeypatch.setattr(limelight_library, "serve", start, raising=False)
    with pytest.raises(SystemExit) as ended:
        command_line(["serve"])
    assert ended.value.code == 0
    assert capsys.readouterr().err.endswith("Stopped.\n")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_options_of_a_language_model_are_used_to_load_it(monkeypatch):
    calls = []
    monkeypatch.setattr("limelight.cli.pages.load", lambda _, **keywords: calls.append(keywords))
    server = FakeServer(is_running=False)
    monkeypatch.setattr(limelight_library, "serve", lambda *_, **__: server, raising=False)
    serve_command(model=("lm",), template="{text} so", max_new_tokens=3)
    assert calls == [{"device": None, "template": "{text} so", "max_new_tokens": 3}]
    serve_command(model=("lm",), max_new_tokens=3)
    assert calls[1] == {"device": None, "template": None, "max_new_tokens": 3}
    message = "--template and --max-new-tokens need a language model. Add --model FOLDER."
    for options in ({"template": "{text}"}, {"max_new_tokens": 3}):
        with pytest.raises(InputError, match=message):
            serve_command(**options)


def test_nothing_heavy_is_loaded_before_the_first_page():
    program = (
        "import sys\n"
        "from limelight.serving import serve\n"
        "with serve(port=0) as page:\n"
        "    import urllib.request\n"
        "    urllib.request.urlopen(page.url).read()\n"
        "print(*{'torch', 'scipy', 'pandas', 'pyarrow', 'matplotlib'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""


def test_a_port_in_use_is_an_error_with_exit_code_2(limelight):
    with serve(port=0) as page:
        port = urlsplit(page.url).port
        outcome = limelight("serve", "--port", port)
    assert outcome.code == 2
    assert outcome.err.strip() == (
        f"Error: port {port} is in use. Choose another, or leave --port out."
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--model", "no/such"), "there is no model folder at 'no/such'"),
        (("--run", "nowhere"), "'nowhere'"),
        (("--judgment", "nowhere.json"), "'nowhere.json': no such file or directory."),
        (("--seconds", "0"), "seconds must be a number above 0 and below 1e9, not 0.0."),
        (("--port", "70000"), "port must be a number from 0 to 65535, not 70000."),
    ],
)
def test_invalid_options_are_one_message_and_exit_code_2(limelight, arguments, message):
    outcome = limelight("serve", *arguments)
    assert outcome.code == 2
    assert message in outcome.err
    assert outcome.err.count("\n") == 1


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A run and a judgment of the shipped model, and a judgment of another one, as paths."""
    pytest.importorskip("pyarrow", reason="runs are stored with pyarrow (extra data)")
    from large_run import reviews, small_run

    folder, texts = tmp_path_factory.mktemp("stored"), reviews(4)[0]
    models = {"own.json": limelight_library.load(), "other.json": tiny_model(2)}
    for name, model in models.items():
        judged = limelight_library.judge(model, texts, ["loo"], columns=[])
        (folder / name).write_text(judged.to_json())
    return {"run": small_run(folder, *reviews(6)).path, **{name: folder / name for name in models}}


def test_a_run_without_texts_is_about_its_model_too(stored, tmp_path):
    (tmp_path / "run.json").write_bytes((stored["run"] / "run.json").read_bytes())
    empty = limelight_library.Run(tmp_path)
    assert not len(empty)
    (model,) = _default_models(empty, None)
    assert model.fingerprint == limelight_library.load().fingerprint


@pytest.mark.parametrize(
    ("make_arguments", "message"),
    [
        (
            lambda paths: {"model": tiny_model(), "run": paths["run"]},
            "the run belongs to another model",
        ),
        (
            lambda paths: {"model": limelight_library.load(), "judgment": paths["other.json"]},
            "the judgment belongs to another model",
        ),
        (
            lambda paths: {"run": paths["run"], "judgment": paths["other.json"]},
            "the run and the judgment belong to two models",
        ),
    ],
)
def test_a_run_or_a_judgment_of_another_model_is_an_error_or_a_warning_on_every_page(
    stored, make_arguments, message
):
    arguments = make_arguments(stored)
    error = rf"^{message} .*, so one page would mix two models\. "
    with pytest.raises(InputError, match=error):
        serve(port=0, **arguments)
    with serve(port=0, anyway=True, **arguments) as page:
        (warning,) = page.warnings
        assert warning.lower().startswith(message)
        assert warning in html.unescape(page._repr_html_())
        views = {"run": ["texts", "summary"], "judgment": ["judgment"]}
        for view in ["", *(view for name in arguments for view in views.get(name, []))]:
            content = urllib.request.urlopen(page.url + view, timeout=60).read().decode()
            assert warning in html.unescape(content), view


def test_what_belongs_together_is_served_without_a_warning(stored):
    paths = {"run": stored["run"], "judgment": stored["own.json"]}
    for models in (None, [limelight_library.load()], [tiny_model(), limelight_library.load()]):
        with serve(models, port=0, **paths) as page:
            assert page.warnings == ()


def test_the_error_about_a_run_of_another_model_names_the_option(limelight, stored, tmp_path):
    save_folder(tiny_model(), tmp_path / "model")
    outcome = limelight("serve", "--model", tmp_path / "model", "--run", stored["run"])
    assert outcome.code == 2
    assert "add --anyway" in outcome.err


@pytest.mark.parametrize(("host", "named"), [("0.0.0.0", True), ("192.168.0.7", False)])
def test_a_server_for_other_machines_prints_who_can_use_it_and_by_which_address(
    capsys, host, named
):
    _print_address(FakeServer(is_running=True, host=host), host)
    message = capsys.readouterr().err.replace("\n", " ")
    assert f"Everyone who can reach {host} and knows the address can use the model." in message
    hint = f"On another machine, replace {host} by the IP address of this machine."
    assert (hint in message) == named


@pytest.mark.parametrize("package", ["starlette", "uvicorn"])
def test_a_missing_extra_raises_an_error(package):
    program = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from limelight.cli import main; main(['serve'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith(
        f"Error: limelight.serve needs {package}. In a checkout of limelight, "
        'run: pip install ".[serve]"'
    )


def test_ctrl_c_does_not_wait_for_a_model_that_hangs():
    program = (
        "import time, json, threading, urllib.request, limelight\n"
        "begun = threading.Event()\n"
        "def hang(texts): begun.set(); time.sleep(600)\n"
        "page = limelight.serve(limelight.wrap(hang, classes=['no', 'yes']), port=0)\n"
        "body = json.dumps({'tab': 't', 'panel': 'p', 'text': 'a text'}).encode()\n"
        "ask = lambda: urllib.request.urlopen(page.url + 'text', body).read()\n"
        "threading.Thread(target=ask, daemon=True).start()\n"
        "begun.wait()\n"
        "try:\n"
        "    print('asked', flush=True)\n"
        "    page.wait()\n"
        "except KeyboardInterrupt: print('stopped')"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "asked\n"
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=120)
    assert out == "stopped\n"
    assert process.returncode == 0
