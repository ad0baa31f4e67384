"""Language models behind a server with OpenAI's completions interface, asked over HTTP."""

import contextlib
import http.client
import json
import math
import os
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, fields, replace
from email.utils import parsedate_to_datetime
from hashlib import sha256
from itertools import accumulate
from typing import Any, ClassVar, NamedTuple, final
from urllib.parse import urlsplit

import numpy as np

from limelight.errors import InputError, check_count, escape_controls
from limelight.models.engine import Engine
from limelight.models.functions import Function, split_segments
from limelight.models.protocol import (
    CAPABILITIES,
    EMPTY_ANSWER_ERROR,
    TOKENIZATION_WARNING,
    Capability,
    Link,
    Property,
    answer_warnings,
    attaches_to_prompt,
    check_generation_options,
    part_token_indices,
    truncation_warning,
)
from limelight.sampling.sample import Game
from limelight.shapes import Bool, Float
from limelight.text import AnswerQuery, Features, ModelInput, truncate_line, validate_text
from limelight.threads import ForkSafeLock, cached_property

_TEXT = "{text}"
_MARKS = ">]}|"  # end what marks a turn of a chat, after which an answer begins without a space
_LARGEST = 1 << 26  # bytes of an answer that are read
_ATTEMPTS, _FIRST_WAIT, _LONGEST_WAIT = 5, 0.5, 120.0  # times, seconds
_AGAIN = (408, 425, 429)  # and all from 500
# By which two log-probabilities of one token after the same words may differ, beside a part of the
# value: each token, all tokens together once more, and any at most. Half precision moves them by
# 0.02, and bfloat16 rounds a logit of 8 to 16 to a sixteenth, and may round one otherwise.
_SAME, _SAME_PART, _SAME_ONCE, _SAME_AT_MOST = 0.05, 0.01, 1 / 16, 0.25
_POSITIVE = 0.01  # half precision rounds the log-probability of a sure token to a little above 0
_CERTAIN = math.exp(_SAME) + _SAME  # what probabilities of different tokens may add up to
_TIED = 1e-6  # log-probabilities of two tokens that are closer belong to neither
# Tokens that are written to check a server, alternatives to each, how many of these are tried, and
# how many are enough.
_PROBE, _ALTERNATIVES, _TRIED, _ENOUGH = 8, 5, 3, 2
# Improbable after any prompt. The second is for a model that begins with the first.
_IMPROBABLE = ("zebra", "seven")
_QUOTED = 80  # characters of what a server sent that a message shows
# How texts are cut into words, and lose them: as those of any function.
_WORDS = Function(function=len, classes=("answer",), scale="score")
_WHO_CAN = (
    " The server must give the log-probabilities of a prompt: vLLM does, and the server of "
    "llama-cpp-python with logits_all; llama.cpp's own llama-server does not."
)
# By names of our own, so that tests wait for no clock.
_sleep, _now, _Timer = time.sleep, time.monotonic, threading.Timer


class EndpointCost(NamedTuple):
    """What is about to be asked: calls of the server, and tokens of all prompts, at most."""

    calls: int
    tokens: int
    model: str

    def __str__(self) -> str:
        most = f"{self.tokens:,} tokens of prompts at most"
        return f"About {self.calls:,} calls of {truncate_line(self.model)}, {most}."


def print_cost(cost: EndpointCost) -> None:
    """Write the cost to standard error where somebody reads along: a terminal or a notebook."""
    if sys.stderr.isatty() or "ipykernel" in sys.modules:
        print(cost, file=sys.stderr)


@final
@dataclass(frozen=True, eq=False)
class Endpoint:
    """A language model behind a server, whose answers can be explained.

    The server must have OpenAI's completions interface and give the log-probabilities of a prompt
    (``echo`` with ``logprobs``), as vLLM and the server of llama-cpp-python do. Texts are sent to
    that address and nowhere else, and nothing is sent before something is asked.

    Parameters
    ----------
    url
        Its address, such as "http://localhost:8000/v1".
    model
        The name under which the server knows the model.
    template
        What the model is asked, with {text} in it; a chat is written out, with the marks of its
        turns, but without the token that begins a text, which the server adds.
    key_variable
        The environment variable that holds the key, if the server wants one; it is read whenever a
        request is sent, and kept nowhere.
    per_token
        Explain the mean log-probability of a token of the answer, and not the sum.
    max_new_tokens
        How many tokens the model may write, where no answer is given.
    stop
        Strings at which the model stops writing.
    parallel
        How many requests are under way at a time.
    requests_per_minute
        How many are sent in a minute, at most.
    timeout
        Seconds to wait for the last byte of an answer. A request that gets none, or 429, or a fault
        of the server, is sent again up to four times, after what the server asks for (Retry-After),
        else 0.5, 1, 2 and 4 seconds.
    estimate
        Called before each explanation with a :class:`EndpointCost`, the calls and tokens that it will take;
        by default it is written to standard error where that is a terminal or a notebook.
    """

    classes: ClassVar[tuple[str, ...]] = ("answer",)
    link: ClassVar[Link] = "none"  # log-probabilities are scores
    replacements: ClassVar[tuple[str, ...]] = ("delete",)  # no word stands for a missing one

    capabilities: ClassVar[Mapping[Capability, str | None]] = {
        **dict.fromkeys(CAPABILITIES, "a server shows only how probable an answer is"),
        "generation": None,
    }
    limitations: ClassVar[Mapping[Property, str]] = {
        "is_exclusive": "this one writes answers and has no classes",
        "reads_pairs": "the template has one place for a text",
        "has_subwords": "a server does not say how it cuts words into pieces",
        "max_tokens": "a server gets every prompt whole, and refuses one that is too long",
        "shuffle_weights": "a server shows only how probable an answer is, and no weights",
    }

    url: str
    _: KW_ONLY
    model: str = ""
    template: str = ""
    key_variable: str | None = None
    per_token: bool = False
    max_new_tokens: int = 64
    stop: Sequence[str] = ()
    parallel: int = 4
    requests_per_minute: int | float | None = None
    timeout: int | float = 60.0
    estimate: Callable[[EndpointCost], None] | None = print_cost

    def __post_init__(self) -> None:
        object.__setattr__(self, "url", _address(self.url))
        if not isinstance(self.model, str) or not self.model.strip():
            raise InputError(
                f"model must be the name of a model on the server; got {self.model!r}."
            )
        if self.template == "":
            raise InputError(
                "an endpoint needs template=, what the model is asked with {text} in it, such as "
                "template='{text} Question: where does Clara work? Answer:'."
            )
        if not isinstance(self.template, str) or self.template.count(_TEXT) != 1:
            raise InputError(f"template must be a string that has {_TEXT} in it once.")
        check_generation_options(self.max_new_tokens, self.per_token)
        check_count("parallel", self.parallel)
        for name in ("requests_per_minute", "timeout"):
            amount = getattr(self, name)
            known = isinstance(amount, int | float) and not isinstance(amount, bool)
            if amount is not None and not (known and 0 < amount < math.inf):
                raise InputError(f"{name} must be a positive number; got {amount!r}.")
        listed = isinstance(self.stop, list | tuple)
        if not listed or not all(isinstance(one, str) and one for one in self.stop):
            raise InputError(f"stop must be a list of strings; got {self.stop!r}.")
        if self.estimate is not None and not callable(self.estimate):
            raise InputError(f"estimate must be a function or None; got {self.estimate!r}.")
        if self.key_variable is not None:
            _key(self.key_variable)  # refused here if it is not set

    def __repr__(self) -> str:
        return f"<Endpoint {truncate_line(self.model)} at {self.url}>"

    @property
    def fingerprint(self) -> str:
        """The name and address of the model, and what it is asked: nobody can see its weights."""
        # A mean per token is another number than a sum: one must not stand for the other.
        asked = sha256(repr((self.template, self.per_token)).encode()).hexdigest()[:12]
        return f"{self.model} at {self.url} asked {asked}"

    @property
    def generation_settings(self) -> Mapping[str, Any]:
        """How it writes an answer that is not given."""
        return {"max_new_tokens": self.max_new_tokens, "stop": list(self.stop)}

    def generate(self, text: Any) -> AnswerQuery:
        """Return what the model writes after a text, the likeliest token each time."""
        answer, note = self._written(self._prompt(validate_text(text)), self.max_new_tokens)
        if not answer.strip():
            raise InputError(EMPTY_ANSWER_ERROR)
        return AnswerQuery(answer, is_generated=True, note=note)

    def read(
        self, text: Any, *, queries: tuple[AnswerQuery, ...] = (), subwords: bool = False
    ) -> ModelInput:
        """Return a text that is asked about an answer, or parts of one; else what is written."""
        model_input = _WORDS.read(validate_text(text), subwords=subwords)
        asked = queries or (self.generate(text),)
        prompt, warnings = self._prompt(model_input.text), answer_warnings(asked)
        echo = self._echoed(prompt, asked[0].text)
        if not self._traffic.checked:  # once, where all answers are given
            self._written(prompt, _PROBE, echo)
        counts = [len(part_token_indices(one, echo.letters)) for one in asked]
        known = [
            replace(one, length=count, per_token=self.per_token)
            for one, count in zip(asked, counts, strict=True)
        ]
        return replace(model_input, queries=tuple(known), warnings=warnings, encoding=echo)

    def outputs(self, inputs: Sequence[ModelInput]) -> Float[np.ndarray, "n S"]:
        """Return the log-probability of what is asked about, which reading a text has found."""
        # What is estimated next is about these texts alone.
        self._traffic.tokens = max((one.encoding.length for one in inputs), default=0)
        found = [self._scores(one.encoding, one.queries) for one in inputs]
        return np.array(found) if found else np.empty((0, 1))

    def game(self, model_input: ModelInput, features: Features, replacement: str) -> Game:  # noqa: ARG002
        """Return the log-probability of the same answer after what is left of the text."""
        (whole,) = split_segments(model_input, features)

        def item(keep: Bool[np.ndarray, " d"]) -> tuple[str, tuple[Any, ...]]:
            return self._prompt("".join(whole.replace_words(keep, None))), model_input.queries

        return lambda keep: self._engine([item(row) for row in keep])

    def announce_calls(self, calls: int) -> None:
        """Say what so many questions about the text that was read last will cost."""
        if self.estimate is not None:
            self.estimate(EndpointCost(calls, calls * self._traffic.tokens, self.model))

    def __getstate__(self) -> dict[str, Any]:
        # What is under way belongs to one process.
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @cached_property
    def _traffic(self) -> "_Traffic":
        return _Traffic()

    @cached_property
    def _engine(self) -> Engine:
        # As many as a progress bar hears of at a time.
        return Engine(self._answers, size=lambda item: len(item[0]), max_items=4 * self.parallel)

    def _prompt(self, text: str) -> str:
        # What is left of a text may begin or end with the space beside a part that is gone; the
        # space before it is its own. One at the end of all is the answer's: tokenizers count it to
        # the word that follows.
        (before, after), text = self.template.split(_TEXT), text.strip()
        return f"{before if text else before.rstrip(' ')}{text}{after}".rstrip(" ")

    def _gap(self, answer: str) -> str:
        """Return the space between prompt and answer, where one belongs.

        It must not depend on what is left of a text, or an answer would have other tokens then: the
        end of the template says it, and where the text is the end, there is a space.
        """
        end = self.template.split(_TEXT)[1].rstrip(" ")[-1:]
        return "" if attaches_to_prompt(answer) or end.isspace() or (end and end in _MARKS) else " "

    def _written(
        self, prompt: str, most: int, answer_echo: "_Echo | None" = None
    ) -> tuple[str, str]:
        """Return what the server writes, and what must be said about it.

        What it says of the same answer as a given one must agree: one server gives every token of
        a prompt the log-probability of the next. A server that writes nothing is checked by
        ``answer_echo``, an answer as it reads it.
        """
        stop = {"stop": list(self.stop)} if self.stop else {}
        asked = {"prompt": prompt, "max_tokens": most, "logprobs": _ALTERNATIVES}
        found = self._posted({**asked, **stop})
        text, wrote = found["choices"][0]["text"], self._read_logprobs(found)
        answer = text.removeprefix(self._gap(text.lstrip(" ")))
        cut = found["choices"][0].get("finish_reason") == "length"
        notes = [truncation_warning(most, "max_new_tokens")] if cut else []
        echo = answer_echo
        if answer.strip():
            echo = self._echoed(prompt, answer)
            # A server may also show the token that ends an answer.
            own = wrote[: len(echo.tokens)]
            if [token for _, token, _ in own] != echo.tokens:
                notes.append(TOKENIZATION_WARNING)
                own = []  # there is nothing to compare
            # The server may stop before the end of a token that is read.
            pairs = zip(own, echo.logs, strict=False)
            self._check_agreement([(token, log, read) for (_, token, log), read in pairs])
        if not self._traffic.checked:
            self._check_improbable(prompt, echo, _first_alternatives(found))
            self._traffic.checked = True
        return answer, " ".join(notes)

    def _check_improbable(
        self, prompt: str, probable: "_Echo | None", alternatives: Mapping[str, float]
    ) -> None:
        """Raise an error if the server is wrong about a continuation that it would not write.

        Tokens that a model writes may all have log-probabilities near 0, which show neither a shift
        by one token nor a server that always says 0. ``alternatives`` are log-probabilities of
        other first tokens, as far as the server shows them while it writes.
        """
        if sum(map(math.exp, alternatives.values())) > _CERTAIN:
            raise self._refusal(
                "gives next tokens log-probabilities that stand for more than 100 % together"
            )
        if (
            probable is None
            or (echo := self._read_improbable(prompt, probable, alternatives)) is None
        ):
            return
        # Both echoes begin with the prompt, and no token depends on what follows it.
        before, after = probable.before, echo.before
        if (
            before is not None
            and after is not None
            and abs(before - after) > _SAME_AT_MOST + _SAME_PART * abs(after)
        ):
            raise self._refusal(
                "changes the log-probability of the last token of a prompt with what follows it, "
                f"from {_format_log(before)} to {_format_log(after)}"
            )
        first, other = probable.logs[0], echo.logs[0]
        tied = abs(first - other) <= _TIED
        if tied or math.exp(first) + math.exp(other) > _CERTAIN:
            quoted = [self._quote_token(tokens[0]) for tokens in (probable.tokens, echo.tokens)]
            raise self._refusal(
                f"gives {quoted[0]} the log-probability {_format_log(first)} and {quoted[1]} "
                f"{_format_log(other)} in the same place"
            )

    def _read_improbable(
        self, prompt: str, probable: "_Echo", alternatives: Mapping[str, float]
    ) -> "_Echo | None":
        """Return an improbable continuation as the server reads it after the prompt.

        If it is one of the ``alternatives``, both log-probabilities must agree.
        """
        first, echoes = probable.tokens[0], list[_Echo]()
        words = [word for word in alternatives if word.strip() and word.isprintable()]
        words = sorted(set(words) - {first}, key=lambda word: (alternatives[word], word))
        for token in words[:_TRIED]:
            echo, _ = self._read_echo(prompt, token)
            # Together with the prompt it may be read as other tokens.
            if echo is not None and echo.tokens == [token]:
                echoes.append(echo)
            if len(echoes) == _ENOUGH:
                break
        self._check_agreement([(e.tokens[0], alternatives[e.tokens[0]], e.logs[0]) for e in echoes])
        for word in _IMPROBABLE if not echoes else ():
            echo, _ = self._read_echo(prompt, self._gap(word) + word)
            if echo is not None and echo.tokens[0] != first:
                return echo
        return echoes[0] if echoes else None

    def _check_agreement(self, tokens: Sequence[tuple[str, float | None, float]]) -> None:
        """Raise an error if tokens have other log-probabilities as written than as read.

        Each of ``tokens`` comes with its log-probability as written, which may be missing, and as
        read.
        """
        differences = [
            math.inf if log is None else max(abs(log - read) - _SAME_PART * abs(read), 0.0)
            for _, log, read in tokens
        ]
        worst = max(differences, default=0.0)
        if worst > _SAME_AT_MOST or sum(differences) > _SAME * len(differences) + _SAME_ONCE:
            token, log, read = tokens[differences.index(worst)]
            raise self._refusal(
                f"writes {self._quote_token(token)} with log-probability {_format_log(log)}, and "
                f"says that it has {_format_log(read)} there"
            )

    def _answers(
        self, items: list[tuple[str, tuple[AnswerQuery, ...]]]
    ) -> Float[np.ndarray, "n S"]:
        with ThreadPoolExecutor(self.parallel) as pool:
            echoes = [pool.submit(self._echoed, prompt, asked[0].text) for prompt, asked in items]
            try:
                found = [
                    self._scores(echo.result(), asked)
                    for echo, (_, asked) in zip(echoes, items, strict=True)
                ]
                return np.array(found)
            except BaseException:
                # What is not sent yet need not be paid for.
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _scores(self, echo: "_Echo", asked: tuple[Any, ...]) -> list[float]:
        """Return the log-probability of each part of an answer that is asked about."""
        each = [[echo.logs[i] for i in part_token_indices(one, echo.letters)] for one in asked]
        return [sum(own) / (len(own) if self.per_token else 1) for own in each]

    def _echoed(self, prompt: str, answer: str) -> "_Echo":
        """Return the tokens of a given answer as the server reads it after a prompt."""
        gap = self._gap(answer)
        echo, last = self._read_echo(prompt, gap + answer, gap=len(gap))
        if echo is None:
            if not prompt:
                raise self._refusal(
                    "says nothing about the first token that it reads, which is the answer's where "
                    f"no text is left: put words into the template before {_TEXT}"
                )
            raise self._refusal(
                f"gives no log-probability for each token of the answer {truncate_line(answer, 40)!r}; "
                f"the last tokens that it shows are {self._shorten_reply(repr(last))}"
            )
        return echo

    def _read_echo(
        self, prompt: str, whole: str, *, gap: int = 0
    ) -> "tuple[_Echo | None, list[str]]":
        """Return the tokens of ``whole`` after a prompt, and the last tokens that are shown.

        There are none of ``whole`` if what the server shows there does not spell it. ``gap`` is the
        number of spaces before the answer in ``whole``.
        """
        # One token is written and left out: to some servers none means as many as fit.
        found = self._posted({"prompt": prompt + whole, "max_tokens": 1, "echo": True})
        tokens = self._read_logprobs(found)
        last = [token for _, token, _ in tokens[-6:]]
        match found:
            case {"usage": {"completion_tokens": int(written)}}:
                if written < 0 or (tokens and written > len(tokens)):
                    count = _format_number(written)
                    raise self._refusal(
                        f"shows {len(tokens):,} tokens, and says that it wrote {count} of them"
                    )
            case _:
                written = 1  # as many were asked for
        read, own = tokens[: max(len(tokens) - written, 0)], []
        if read:
            end = tokens[-written][0] if written else read[-1][0] + len(read[-1][1])
            # Counted from the end: some servers show the token that begins a text, some do not.
            first = end - len(whole)
            own = [(at - first, token, log) for at, token, log in read if at >= first]
        if not own or own[0][0] != 0 or not all(_stands(whole, *one) for one in own):
            return None, last
        letters = []
        for start, token, log in own:
            if not math.isfinite(log):
                raise self._refusal(
                    f"gives {self._quote_token(token)} the logarithm {log}, which is not finite"
                )
            letter = len(token) - len(token.lstrip()) if token.strip() else 0
            letters.append(max(start - gap + letter, 0))
        before = read[-len(own) - 1][2] if len(read) > len(own) else None
        logs = [log for *_, log in own]
        return _Echo(letters, [token for _, token, _ in own], logs, len(tokens), before), last

    def _read_logprobs(self, found: dict[str, Any]) -> list[tuple[int, str, Any]]:
        """Return offset, token and log-probability of all that a server shows.

        A log-probability may be missing, and is then None.
        """
        tokens = _parse_logprobs(found)
        for _, token, log in tokens:
            if log is not None and log > _POSITIVE:
                raise self._refusal(
                    f"gives {self._quote_token(token)} the log-probability {_format_number(log)}, "
                    "and none can be above 0"
                )
        return tokens

    def _posted(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the server answers to a request; one that fails for now is sent again."""
        asked = {"model": self.model, "temperature": 0, "logprobs": 1, **body}
        payload, failed = json.dumps(asked).encode(), ""
        for attempt in range(_ATTEMPTS):
            self._traffic.take_turn(self.requests_per_minute)
            wait = _FIRST_WAIT * 2**attempt
            try:
                status, headers, data = self._sent(payload)
            except (OSError, http.client.HTTPException) as error:
                failed = f"does not answer ({self._describe_error(error)})"
            else:
                match found := _json(data):
                    case {"choices": [{"text": str()}, *_]} if status == 200:
                        return dict(found)
                told = self._told(data)
                failed = f"answers {status}: {told}" if status != 200 else "sends no completion"
                # What llama-server cannot do it calls a fault of its own, 500: asking again is in
                # vain.
                if status != 200 and ("echo" in told or status not in (*_AGAIN, *range(500, 600))):
                    raise self._refusal(failed, status)
                if (wait := _retry_after(headers, wait)) > _LONGEST_WAIT:
                    raise self._refusal(f"asks to wait {_format_number(wait)} s ({failed})")
            if attempt + 1 < _ATTEMPTS:
                _sleep(wait)
        raise self._refusal(f"{failed}, {_ATTEMPTS} times")

    def _sent(self, payload: bytes) -> tuple[int, Mapping[str, str], bytes]:
        """Send one request; redirects are not followed, so neither text nor key goes elsewhere."""
        address = urlsplit(self.url)
        headers = {"Content-Type": "application/json"}
        if self.key_variable is not None:
            headers["Authorization"] = f"Bearer {_key(self.key_variable)}"
        secure = address.scheme == "https"
        # Not by urllib, which follows redirects and takes proxies from the environment.
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        connection = kind(str(address.hostname), address.port, timeout=self.timeout)
        expired, sockets = threading.Event(), list[socket.socket]()

        def hang_up() -> None:
            expired.set()
            for connected in sockets:
                with contextlib.suppress(OSError):  # the server was quicker
                    # Not by its own method: that of TLS takes away what a reader still needs.
                    socket.socket.shutdown(connected, socket.SHUT_RDWR)

        # The timeout of a socket begins anew with every byte that comes.
        alarm = _Timer(self.timeout, hang_up)
        alarm.daemon = True
        alarm.start()
        try:
            connection.connect()
            sockets.append(connection.sock)  # which the connection forgets before the last byte
            # Nobody hung up on a connection that took too long to make.
            if not expired.is_set():
                connection.request("POST", address.path, payload, headers)
                answer = connection.getresponse()
                content = answer.read(_LARGEST)
                if not expired.is_set():
                    return answer.status, dict(answer.headers), content
        except (OSError, http.client.HTTPException):
            if not expired.is_set():
                raise
        finally:
            alarm.cancel()
            connection.close()
        raise TimeoutError(f"no whole answer within {self.timeout:g} s")

    def _told(self, data: bytes) -> str:
        """Return what the server says of an error, short and without the key."""
        match _json(data):
            case {"error": {"message": str(text)}} | {"error": str(text)} | {"message": str(text)}:
                pass
            case _:
                text = data.decode("utf-8", "replace")
        return self._shorten_reply(text).rstrip(".")

    def _shorten_reply(self, text: str) -> str:
        """Return the beginning of what the server sent on one line, without the key."""
        # Before it is cut: a part of the key is a secret too.
        return truncate_line(self._remove_key(text), _QUOTED)

    def _quote_token(self, token: str) -> str:
        token = self._remove_key(token)  # with its spaces, which tell tokens apart
        return repr(token if len(token) <= _QUOTED else f"{token[: _QUOTED - 1]}…")

    def _describe_error(self, error: BaseException) -> str:
        """Return an error as a clause; the status line of a server may stand in it."""
        return f"{type(error).__name__}: {self._shorten_reply(str(error))}".rstrip(".")

    def _remove_key(self, text: str) -> str:
        if self.key_variable is not None:  # some servers repeat what they were sent
            with contextlib.suppress(InputError):  # the variable may have changed meanwhile
                text = text.replace(_key(self.key_variable), "…")
        return text

    def _refusal(self, failed: str, status: int = 0) -> InputError:
        """Return the error of a request, whose cause says that no text is at fault."""
        advice = ""
        if status in (401, 403):
            advice = f" The key is what the environment variable {self.key_variable} holds."
            if self.key_variable is None:
                advice = " Name the environment variable that holds the key: key_variable='…'."
        elif 300 <= status < 400:
            advice = " Nothing is sent to another address; give the one to which it leads."
        elif "echo" in failed or "log-probabilit" in failed:
            advice = _WHO_CAN
        failed = escape_controls(self._remove_key(failed))
        found = InputError(f"the server at {self.url} {failed}.{advice}")
        found.__cause__ = ConnectionError(failed)
        return found


wrap_endpoint = Endpoint


@final
class _Traffic:
    """What is under way to a server: when the next request may go, and what is known of it."""

    def __init__(self) -> None:
        self._lock, self._next = ForkSafeLock(), 0.0
        self.tokens = 0  # of the longest prompt, with its answer
        self.checked = False  # whether log-probabilities are those of the right tokens

    def take_turn(self, per_minute: int | float | None) -> None:
        """Wait for the turn of a request, evenly spread over a minute."""
        if per_minute is None:
            return
        # A turn is taken under the lock and waited for outside, so that others take theirs.
        with self._lock:
            now = _now()
            turn = max(now, self._next)
            self._next = turn + 60.0 / per_minute
        if turn > now:
            _sleep(turn - now)


class _Echo(NamedTuple):
    """Tokens of an answer, each with its first letter and its log-probability.

    ``length`` is how many were read, those of the prompt included, and ``before`` the
    log-probability of the last token of the prompt, None if the server does not show it.
    """

    letters: list[int]
    tokens: list[str]
    logs: list[float]
    length: int
    before: float | None


def _parse_logprobs(found: dict[str, Any]) -> list[tuple[int, str, Any]]:
    match found["choices"][0].get("logprobs"):
        case {"tokens": [*tokens], "token_logprobs": [*logs], **rest}:
            strings = [str(token) for token in tokens]
            offsets = rest.get("text_offset")
            if not isinstance(offsets, list) or not all(isinstance(x, int) for x in offsets):
                offsets = list(accumulate(map(len, strings), initial=0))[:-1]
            if len(logs) == len(offsets) == len(strings):
                return list(zip(offsets, strings, map(_parse_log, logs), strict=True))
    return []


def _first_alternatives(found: dict[str, Any]) -> dict[str, float]:
    """Return the log-probabilities of first tokens that a server shows while it writes."""
    match found["choices"][0].get("logprobs"):
        case {"top_logprobs": [{**tokens}, *_]}:
            known = {str(token): _parse_log(log) for token, log in tokens.items()}
            return {
                token: log
                for token, log in known.items()
                if log is not None and math.isfinite(log) and log <= _POSITIVE
            }
    return {}


def _parse_log(value: Any) -> float | None:
    """Return a number of JSON as a float; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:  # whole numbers of JSON have any number of digits
        return math.inf if value > 0 else -math.inf


def _format_log(log: float | None) -> str:
    """Return a log-probability with two digits, or in words."""
    if log is None:
        return "none"
    return f"{log:.2f}" if abs(log) < 1_000_000 else _format_number(log)


def _format_number(value: int | float) -> str:
    """Return a number in a few characters, however large it is."""
    if abs(value) < 1_000_000:
        return f"{value:,.6g}"
    return "over a million" if value > 0 else "under minus a million"


def _stands(answer: str, start: int, token: str, log: float | None) -> bool:
    """Whether a token has a log-probability and stands in the answer where it says."""
    # A character may be cut into tokens that show nothing, or a mark in its place.
    part = "\ufffd" in token or token.startswith("bytes:")
    return log is not None and (part or answer.startswith(token, start))


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _retry_after(headers: Mapping[str, str], otherwise: float) -> float:
    """Return the seconds after which a server wants to be asked again: a number, or a date."""
    given = {name.lower(): value for name, value in headers.items()}.get("retry-after", "")
    try:
        if given.strip().isdigit():
            return float(given)
        return max(parsedate_to_datetime(given).timestamp() - time.time(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return otherwise


def _key(variable: Any) -> str:
    """Return the key that the environment holds, which is never part of a sentence."""
    # What is no name, or not written as such names are, may be the key itself.
    if not isinstance(variable, str) or not (
        re.fullmatch("[A-Z_][A-Z0-9_]*", variable) or variable in os.environ
    ):
        raise InputError(
            "key_variable must be the name of an environment variable; what was given is none."
        )
    key = os.environ.get(variable, "").strip()
    # http.client would quote such a key in its error.
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        why = "holds what no key is made of" if key else "is not set"
        raise InputError(
            f"key_variable names the environment variable that holds the key; {variable} {why}."
        )
    return key


def _address(url: Any) -> str:
    """Return the address of the completions; one with a secret in it is refused, and not shown."""
    try:
        found = urlsplit(url if isinstance(url, str) else "")
        known = found.scheme in ("http", "https") and found.hostname and (found.port or 1)
    except ValueError:
        known = None
    if not known:
        raise InputError("url must be the address of a server, such as http://localhost:8000/v1.")
    # They would stand in fingerprints, sentences and stored results.
    if found.username is not None or found.password is not None or found.query or found.fragment:
        raise InputError(
            "url must be an address without a user, a key or a query; a key is read from the "
            "environment: key_variable='…'."
        )
    path = found.path.rstrip("/")
    if path.endswith("/chat/completions"):
        raise InputError(
            "url must lead to /v1/completions: chat interfaces do not say how probable a given "
            "answer is. Write the chat into the template."
        )
    path = path if path.endswith("/completions") else f"{path or '/v1'}/completions"
    return f"{found.scheme}://{found.netloc}{path}"
