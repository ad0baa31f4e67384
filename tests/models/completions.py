"""A server with OpenAI's completions interface, and the small language model behind it.

Its log-probabilities are known without the server, and it can be told to fail.
"""

import json
import re
from collections import Counter
from http.server import ThreadingHTTPServer

import numpy as np
import torch
from chats import Handler, running

KEY = "sk-very-secret-4711"
_TOKEN = re.compile(r":\)| ?\w+| ?[^\w\s]|\s")  # a smile is one token
_EOS, _UNKNOWN = "<eos>", "<unk>"
MARKS = ("<s>", "<|im_start|>", "<|im_end|>")


class TinyLanguageModel:
    """What comes next depends on the token before, and on how often a word was read.

    With a large ``sureness`` the likeliest token has nearly all of the probability.
    """

    _unwritten = (1,)  # the unknown token, which no model writes

    def __init__(self, words="the a sky is blue red mars moon dark cold far answer it and . , :"):
        plain = words.split()
        self.vocabulary = [_EOS, _UNKNOWN, *plain, *(f" {word}" for word in plain), "\n"]
        self._number = {token: i for i, token in enumerate(self.vocabulary)}
        size = len(self.vocabulary)
        self._after = np.random.default_rng(0).normal(size=(size, size))
        self.sureness = 1.0

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
        z *= self.sureness
        z -= z.max()
        return z - np.log(np.exp(z).sum())

    def logs(self, tokens):
        """Return the log-probability of each token after those before it."""
        ids = self._ids(tokens)
        return [float(self.next_logs(tokens[:i])[ids[i]]) for i in range(len(ids))]

    def log_probability(self, prompt, answer):
        before = len(self.tokens(prompt))
        return sum(self.logs(self.tokens(prompt + answer))[before:])

    def greedy(self, prompt, most):
        tokens, result = self.tokens(prompt), []
        while len(result) < most:
            logs = self.next_logs(tokens + result)
            logs[list(self._unwritten)] = -np.inf
            token = self.vocabulary[int(logs.argmax())]
            if token == _EOS or (result and result[-1].endswith(".")):
                return result, "stop"
            result.append(token)
        return result, "length"


class ChatLanguageModel(TinyLanguageModel):
    """The same, which reads the marks of a chat as tokens."""

    def __init__(self):
        super().__init__()
        self.vocabulary[-1:] = ["\n", *MARKS]
        self._number = {token: i for i, token in enumerate(self.vocabulary)}
        size = len(self.vocabulary)
        self._after = np.random.default_rng(0).normal(size=(size, size))
        self._unwritten = (1, *(self._number[mark] for mark in MARKS))

    def tokens(self, text):
        return re.findall(rf"<\|\w+\|>|<s>|{_TOKEN.pattern}", text)


class NetworkLanguageModel(TinyLanguageModel):
    """A causal network of transformers with a tokenizer that shows all characters of a text."""

    _unwritten = ()

    def __init__(self, network, tokenizer):
        self._network, self._tokenizer = network, tokenizer
        self.vocabulary = [tokenizer.decode([i]) for i in range(len(tokenizer))]

    def tokens(self, text):
        result = self._tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
        return [text[start:end] for start, end in result]

    def _ids(self, tokens):
        return self._tokenizer("".join(tokens))["input_ids"]

    def _logs(self, tokens):
        with torch.no_grad():
            logits = self._network(torch.tensor([self._ids(tokens)])).logits[0].double()
        return torch.log_softmax(logits, -1).numpy()

    def next_logs(self, tokens):
        reference = [token.isascii() for token in self.vocabulary]  # half a character is no text
        return np.where(reference, self._logs(tokens)[-1], -np.inf)

    def logs(self, tokens):
        ids = self._ids(tokens)
        return [float("nan"), *self._logs(tokens)[np.arange(len(ids) - 1), ids[1:]].tolist()]


class Completions(ThreadingHTTPServer):
    """The server: ``faults`` are what it does with the next requests instead of answering.

    ``shows`` says how it writes tokens: plainly, with the one that begins a text, without offsets,
    with the log-probability of the next token, or a character cut in two. ``says`` is what becomes
    of its log-probabilities (see ``ALTERED``), and ``alternatives`` whether it shows those of
    other tokens while it writes. ``start`` is what it puts before every prompt, ``counted`` is what
    it makes of the number of tokens of a prompt, and ``limit`` is the largest number.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, shows="plain", name="tiny"):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.lm, self.shows, self.name = TinyLanguageModel(), shows, name
        self.says, self.alternatives = "the truth", True
        self.start, self.counted, self.limit = "", lambda count: count, None
        self.faults, self.bodies, self.headers, self.paths = [], [], [], []
        self.drips, self.pause = (
            None,
            None,
        )  # the part that comes in two, and what is called between
        self.status_line = None  # what is sent instead of one
        self.meeting = None  # a barrier at which requests wait for each other

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def completion(self, body):
        prompt = self.start + body["prompt"]
        read = self.lm.tokens(prompt)
        content, reason = self.lm.greedy(prompt, body["max_tokens"])
        tokens = read + content
        logs = self._altered([None, *self.lm.logs(tokens)[1:]], tokens, body)
        offsets = np.cumsum([0, *map(len, tokens)]).tolist()[:-1]
        if not body.get("echo"):
            tokens, logs, offsets = (value[len(read) :] for value in (tokens, logs, offsets))
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
            content = content * 2
        text = (prompt if body.get("echo") else "") + "".join(content[: body["max_tokens"]])
        results = {"tokens": tokens, "token_logprobs": logs, "text_offset": offsets}
        shows = self.alternatives and body.get("logprobs", 0) > 1
        if shows and content and not body.get("echo"):
            results["top_logprobs"] = self._alternatives(read, content, body)
        if self.shows == "no offsets":
            del results["text_offset"]
        usage = {"prompt_tokens": self.counted(len(read)), "completion_tokens": len(content)}
        return {
            "choices": [{"text": text, "logprobs": results, "finish_reason": reason}],
            "usage": {name: count for name, count in usage.items() if count is not None},
        }

    def is_too_long(self, body):
        count = len(self.lm.tokens(self.start + body["prompt"])) + body["max_tokens"]
        return self.limit is not None and count > self.limit

    def _altered(self, logs, tokens, body):
        return ALTERED[self.says](logs, _Place(self.lm, tokens, bool(body.get("echo"))))

    def _alternatives(self, read, written, body):
        """The likeliest tokens at each place, and what the server says of them there."""
        results = []
        for i in range(len(written)):
            before = read + written[:i]
            logs = self.lm.next_logs(before)
            best = [int(j) for j in np.argsort(-logs)[: body["logprobs"]]]
            own_value = {}
            for token in [self.lm.vocabulary[j] for j in best]:
                tokens = [*before, token]
                message = self._altered([None, *self.lm.logs(tokens)[1:]], tokens, body)
                own_value[token] = message[-1]
            results.append(own_value)
        return results


class _Place:
    """What a server is about to say log-probabilities of."""

    def __init__(self, lm, tokens, echo):
        self.lm, self.tokens, self.echo = lm, tokens, echo

    def best(self, i):
        return float(self.lm.next_logs(self.tokens[:i]).max())


_NOISE = np.random.default_rng(1)


def change_each(change):
    """Change every log-probability by itself."""
    return lambda logs, _: [None if log is None else change(log) for log in logs]


def change_prompts(change):
    """Change those of prompts only."""
    return lambda logs, place: change(logs, place) if place.echo else logs


def ahead(logs, _):
    return [None, *logs[2:], -1.0] if len(logs) > 1 else logs


def behind(logs, _):
    return [None, -1.0, *logs[1:-1]] if len(logs) > 1 else logs


def best(logs, place):
    return [None, *(place.best(i) for i in range(1, len(logs)))]


# What servers make of their log-probabilities, by name: those of RIGHT are only rounded.
RIGHT = {
    "the truth": lambda logs, _: logs,
    "noise of 0.02": change_each(lambda log: min(log + _NOISE.uniform(-0.02, 0.02), 0.0)),
    "two digits": change_each(lambda log: round(log, 2)),
    "half precision": change_each(lambda log: float(np.float16(log))),
    # A logit of some tens has steps of a sixteenth, and a batch of another size moves it by one.
    "bfloat16": change_each(lambda log: min(log + 0.0625 * _NOISE.choice([0] * 14 + [1, -1]), 0.0)),
    "a little above 0": change_each(lambda log: 0.001 if log > -0.001 else log),
}
WRONG = {
    "the next token in prompts": change_prompts(ahead),
    "the next token everywhere": ahead,
    "the token before in prompts": change_prompts(behind),
    "the token before everywhere": behind,
    "the likeliest token in prompts": change_prompts(best),
    "0 everywhere": change_each(lambda _: 0.0),
    "-1.5 everywhere": change_each(lambda _: -1.5),
    "above 0": change_each(lambda log: -log + 0.02),
    "a third more in prompts": change_prompts(change_each(lambda log: log - 0.33)),
    "another temperature in prompts": change_prompts(change_each(lambda log: 1.25 * log)),
}
ALTERED = {**RIGHT, **WRONG}


class _Handler(Handler):
    def react(self, body, fault):
        server = self.server
        server.paths.append(self.path)
        if server.meeting is not None and body.get("echo"):
            server.meeting.wait(10)
        if fault == "garbage":
            fault = b'{"choices": [{"te'
        elif fault == "no log-probabilities":
            fault = {"choices": [{"text": body["prompt"], "logprobs": None}]}
        super().react(body, fault)

    def answer(self, body):
        server = self.server
        if self.path != "/v1/completions" or body["model"] != server.name:
            message = f"The model `{body['model']}` does not exist."
            self.send(404, {"error": {"message": message}})
        elif server.is_too_long(body):
            message = (
                f"This model's maximum context length is {server.limit} tokens. Please reduce."
            )
            self.send(400, {"error": {"message": message, "type": "BadRequestError"}})
        else:
            self.send(200, server.completion(body))

    def send(self, status, content, headers=()):
        if self.server.status_line is not None:
            self.wfile.write(self.server.status_line.encode() + b"\r\n\r\n")
        elif self.server.drips is not None:
            self._send_in_two(
                content if isinstance(content, bytes) else json.dumps(content).encode()
            )
        else:
            super().send(status, content, headers)

    def _send_in_two(self, data):
        """Send an answer, with a pause in the part of it that ``drips`` names."""
        parts = {
            "status": b"HTTP/1.1 200 OK\r\n",
            "headers": b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(data),
            "body": data,
        }
        for name, content in parts.items():
            half = len(content) // 2
            self.wfile.write(content[:half])
            if name == self.server.drips:
                self.server.pause()
            self.wfile.write(content[half:])


def completions(shows="plain"):
    """Start a server on a free port, and stop it."""
    return running(Completions(shows))
