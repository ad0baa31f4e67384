"""Wrong calls of the app, each with its error and what the message says."""

# ruff: noqa: F401 (names for eval)
import json
from urllib.parse import urlsplit

import pytest

pytest.importorskip("starlette", reason="the page is served with starlette (extra serve)")
pytest.importorskip("uvicorn", reason="the page is served with uvicorn (extra serve)")

from test_compared_text import sections
from test_typed_text import encode_answer

import limelight
from limelight.errors import InputError
from limelight.serving import serve
from limelight.serving.server import _check_arguments, _open_stored
from limelight.serving.texts import TextRequest, explain_texts, parse_request
from messages import exactly, wrong_calls
from shape_checks import no_type_checks

from chat_models import MESSAGES, chat_model
from tiny_models import tiny_model

SHIPPED = limelight.load()


def serve_twice():
    """Serve a second page at the port of the first."""
    with serve(port=0) as page:
        serve(port=urlsplit(page.url).port)


def check(**arguments):
    _check_arguments(**{"host": "127.0.0.1", "port": None, "seconds": 1, **arguments})


def serve_old_judgment(folder):
    (folder / "old.json").write_text('{"schema": "limelight.judgment/1"}')
    serve(tiny_model(), judgment=folder / "old.json", port=0)


def explain_together(*texts):
    """Explain requests of one batch by a method that needs two features."""
    requests = [
        TextRequest(tab="t", panel="p", text=text, methods=["lime-sampled"]) for text in texts
    ]
    explain_texts(SHIPPED, requests)


def explain_chat(*, removed=0, **request):
    changes = [(f"{i} {MESSAGES[i]['role']}", 0, None) for i in range(removed)]
    encode_answer(chat_model(), changes=changes, **request)


NO_REQUEST = "this is not a request of the page"
INPUT_ERRORS = {
    "serve_twice()": r"port \d+ is in use. Choose another",
    "serve(port=-1)": "port must be a number from 0 to 65535, not -1",
    "serve(port=65536)": "port must be a number from 0 to 65535, not 65536",
    "serve(host='no.such.host.invalid')": r"no host 'no\.such\.host\.invalid'",
    "serve(SHIPPED, features='sentence')": "Did you mean 'sentences'",
    "serve_old_judgment(folder)": r"old.json': .* this version reads",
    "check(port='80')": exactly("port must be a number from 0 to 65535, not '80'."),
    "check(port=1.5)": exactly("port must be a number from 0 to 65535, not 1.5."),
    "check(host=5)": exactly("host must be a name or an address, as text, not 5."),
    "check(seconds='1')": exactly("seconds must be a number above 0 and below 1e9, not '1'."),
    "_open_stored(5, 'run', dict, dict)": exactly("run must be a Run or its path, not 5."),
    "_open_stored(5, 'judgment', dict, dict)": exactly(
        "judgment must be a Judgment or its path, not 5."
    ),
    "sections(SHIPPED, ['nothing'])": r"no section 'nothing'. Choose from curves, pairs",
    "encode_answer(SHIPPED, 'superb', changes=[('superb', 0, None)])": "no words left",
    "explain_together('two words', 'one')": "at least 2 features",
    "explain_chat(text=json.dumps(MESSAGES), messages=True, removed=len(MESSAGES) - 1)": (
        "no message is left before the answer"
    ),
    "explain_chat(text=' ', documents=['bad film'])": (
        "the question of documents must be a text with words"
    ),
    "explain_chat(text='[', messages=True)": "the cell of messages is not valid JSON",
    "parse_request(b'')": NO_REQUEST,
    "parse_request(b'[]')": NO_REQUEST,
    "parse_request(b'{')": NO_REQUEST,
    "parse_request(b'{\"tab\": 1}')": NO_REQUEST,
    'parse_request(b\'{"tab":"t","panel":"p","text":"x","more":1}\')': NO_REQUEST,
    "parse_request(b'\\xff')": NO_REQUEST,
}


@wrong_calls({InputError: INPUT_ERRORS})
def test_a_wrong_call_says_what_is_wrong(call, error, message, tmp_path):
    with no_type_checks(), pytest.raises(error, match=message):
        eval(call, globals() | {"folder": tmp_path})
