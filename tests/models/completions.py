"""A server with OpenAI's completions interface, and the small language model behind it.

Its log-probabilities are known without the server, and it can be told to fail.
"""

import json
import re
import threading
import time
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import torch

KEY = "sk-very-secret-4711"
_TOKEN = re.compile(r":\)| ?\w+| ?[^\w\s]|\s")  # a smile is one token
_EOS = "<eos>"


class TinyLanguageModel:
    """What comes next depends on the token before, and on how often a word was read."""

    def __init__(self, words="the a sky is blue red mars moon dark cold far answer it and . , :"):
        plain = words.split()
        self.vocabulary = [_EOS, "<unk>", *plain, *(f" {word}" for word in plain), "\n"]
        self._number = {token: i for i, token in enumerate(self.vocabulary)}
        size = len(self.vocabulary)
        self._after = np.random.default_rng(0).normal(size=(size, size))

    def tokens(self, text):
        return _TOKEN.findall(text)

    def _ids(self, tokens):
        return [self._number.get(token, 1) for token in tokens]

    def next_logs(self, tokens):
        """Return the log-probability of every token after some."""
        read = Counter(self._ids(tokens))
        z = self._after[self._ids(tokens)[-1] if tokens else 0].copy()
        for token, count in read.items():
            z[token] += 1.5 * np.log1p(count)  # what was read is likely to come again
        return z - np.log(np.exp(z).sum())

    def logs(self, tokens):
        """Return the log-probability of each token after those before it."""
        ids = self._ids(tokens)
        return [float(self.next_logs(tokens[:i])[ids[i]]) for i in range(len(ids))]

    def log_probability(self, prompt, answer):
        before = len(self.tokens(prompt))
        return sum(self.logs(self.tokens(prompt + answer))[before:])

    def greedy(self, prompt, most):
        tokens, found = self.tokens(prompt), []
        while len(found) < most:
            token = self.vocabulary[int(self.next_logs(tokens + found).argmax())]
            if token == _EOS or (found and found[-1].endswith(".")):
                return found, "stop"
            found.append(token)
        return found, "length"


class NetworkLanguageModel(TinyLanguageModel):
    """A causal network of transformers with a tokenizer that shows all characters of a text."""

    def __init__(self, network, tokenizer):
        self._network, self._tokenizer = network, tokenizer
        self.vocabulary = [tokenizer.decode([i]) for i in range(len(tokenizer))]

    def tokens(self, text):
        found = self._tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
        return [text[start:end] for start, end in found]

    def _ids(self, tokens):
        return self._tokenizer("".join(tokens))["input_ids"]

    def _logs(self, tokens):
        with torch.no_grad():
            logits = self._network(torch.tensor([self._ids(tokens)])).logits[0].double()
        return torch.log_softmax(logits, -1).numpy()

    def next_logs(self, tokens):
        known = [token.isascii() for token in self.vocabulary]  # half a character is no text
        return np.where(known, self._logs(tokens)[-1], -np.inf)

    def logs(self, tokens):
        ids = self._ids(tokens)
        return [float("nan"), *self._logs(tokens)[np.arange(len(ids) - 1), ids[1:]].tolist()]


class Completions(ThreadingHTTPServer):
    """The server: ``faults`` are what it does with the next requests instead of answering.

    ``shows`` says how it writes tokens: plainly, with the one that begins a text, without offsets,
    with the log-probability of the next token, or a character cut in two.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, shows="plain", name="tiny"):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.lm, self.shows, self.name = TinyLanguageModel(), shows, name
        self.faults, self.bodies, self.headers, self.paths = [], [], [], []
        self.meeting = None  # a barrier at which requests wait for each other

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def completion(self, body):
        prompt = body["prompt"]
        read = self.lm.tokens(prompt)
        written, reason = self.lm.greedy(prompt, body["max_tokens"])
        tokens = read + written
        logs = [None, *self.lm.logs(tokens)[1:]]
        offsets = np.cumsum([0, *map(len, tokens)]).tolist()[:-1]
        if not body.get("echo"):
            tokens, logs, offsets = (one[len(read) :] for one in (tokens, logs, offsets))
        elif self.shows == "begins":
            tokens, logs = ["<s>", *tokens], [None, *self.lm.logs(tokens)]
            offsets = [0, *(offset + 3 for offset in offsets)]
        elif self.shows == "hides the first":
            offsets = [offset - len(tokens[0]) for offset in offsets[1:]]
            tokens, logs = tokens[1:], logs[1:]
        elif self.shows == "one too far":
            logs = [None, *logs[2:], -1.0]
        elif self.shows == "in halves":  # the second of which shows nothing
            tokens = [half for token in tokens for half in (token, "")]
            logs = [half for log in logs for half in (log, 0.0)]
            ends = [*offsets[1:], len("".join(tokens))]
            offsets = [half for pair in zip(offsets, ends, strict=True) for half in pair]
            written = written * 2
        text = (prompt if body.get("echo") else "") + "".join(written[: body["max_tokens"]])
        found = {"tokens": tokens, "token_logprobs": logs, "text_offset": offsets}
        if self.shows == "no offsets":
            del found["text_offset"]
        return {
            "choices": [{"text": text, "logprobs": found, "finish_reason": reason}],
            "usage": {"prompt_tokens": len(read), "completion_tokens": len(written)},
        }


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_POST(self):
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server.bodies.append(body)
        server.headers.append(dict(self.headers))
        server.paths.append(self.path)
        if server.meeting is not None and body.get("echo"):
            server.meeting.wait(10)
        fault = server.faults.pop(0) if server.faults else None
        if fault == "drop":
            self.connection.close()
        elif fault == "slow":
            time.sleep(0.5)
        elif fault == "garbage":
            self._send(200, b'{"choices": [{"te')
        elif fault == "no log-probabilities":
            self._send(200, {"choices": [{"text": body["prompt"], "logprobs": None}]})
        elif isinstance(fault, dict):
            self._send(200, fault)
        elif fault is not None:
            status, said, more = fault
            self._send(status, {"error": {"message": said}}, more)
        elif self.path != "/v1/completions" or body["model"] != server.name:
            said = f"The model `{body['model']}` does not exist."
            self._send(404, {"error": {"message": said}})
        else:
            self._send(200, server.completion(body))

    def _send(self, status, answer, more=()):
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        for name, value in dict(more, **{"Content-Length": str(len(data))}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def completions(shows="plain"):
    """Start a server on a free port, and stop it."""
    with Completions(shows) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
