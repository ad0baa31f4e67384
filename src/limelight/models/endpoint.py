"""Language models behind a server with OpenAI's completions interface, called over HTTP."""

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
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, final
from urllib.parse import urlsplit

import numpy as np

from limelight.errors import InputError, MissingExtraError, check_count, escape_controls
from limelight.fork_locks import ForkSafeLock
from limelight.models.engine import Engine
from limelight.models.functions import Function, split_segments, word_spans
from limelight.models.protocol import (
    CAPABILITIES,
    EMPTY_ANSWER_ERROR,
    TOKENIZATION_WARNING,
    Capability,
    Link,
    Model,
    Property,
    answer_warnings,
    attaches_to_prompt,
    check_generation_options,
    part_token_indices,
    truncation_warning,
)
from limelight.sampling.sample import Game
from limelight.shapes import Bool, Float
from limelight.text import (
    AnswerQuery,
    Conversation,
    Features,
    Message,
    ModelInput,
    UserInput,
    truncate_line,
    validate_text,
)
from limelight.text.conversations import DOCUMENTS
from limelight.text.prompts import Prompt, prompt_writer, reasoning_warnings, split_prompt
from limelight.threads import cached_property

_TEXT = "{text}"
# The last characters of the marks that begin a turn of a chat. After such a mark an answer begins
# without a space.
_TURN_MARK_ENDS = ">]}|"
_MAX_REPLY_BYTES = 1 << 26
_ATTEMPTS, _FIRST_WAIT, _MAX_WAIT = 5, 0.5, 120.0  # requests, seconds, seconds
_RETRY_STATUSES = (408, 425, 429)  # and all from 500
# Two log-probabilities of a token after the same words may differ by a part of their value plus
# _TOKEN_TOLERANCE on average. All tokens together may differ by _SUM_TOLERANCE more, and one token
# by _MAX_TOLERANCE. Half precision changes them by 0.02. The format bfloat16 rounds logits from 8
# to 16 to a sixteenth, and may round one of two equal logits up and the other down.
_TOKEN_TOLERANCE, _RELATIVE_TOLERANCE = 0.05, 0.01
_SUM_TOLERANCE, _MAX_TOLERANCE = 1 / 16, 0.25
_MAX_LOG_PROBABILITY = 0.01  # half precision rounds the 0 of a certain token to a little above 0
_MAX_PROBABILITY_SUM = math.exp(_TOKEN_TOLERANCE) + _TOKEN_TOLERANCE  # of different next tokens
_TIE_TOLERANCE = 1e-6  # two different tokens with closer log-probabilities are an error
# Tokens that the server writes for its check, alternatives to each token, alternatives that are
# read, and alternatives that suffice.
_PROBE_TOKENS, _ALTERNATIVES, _MAX_TRIALS, _MIN_ECHOES = 8, 5, 3, 2
# Words that are improbable after any prompt. The second is for a model that begins with the first.
_IMPROBABLE_WORDS = ("zebra", "seven")
_MAX_QUOTE = 80  # characters of a reply in an error message
# Splits texts into words and removes them, as for any function.
_WORD_READER = Function(function=len, classes=("answer",), scale="score")
_SERVER_ADVICE = (
    " The server must return log-probabilities of prompts, as vLLM and "
    "llama-cpp-python with logits_all do, but not llama-server."
)
# What servers answer if a prompt is longer than the model reads.
_LENGTH_ERROR = re.compile(
    r"context[ _](length|window|size)|maximum (input|sequence|model)|max_model_len|too long", re.I
)
_LENGTH_ADVICE = " Shorten the text, or give fewer documents or messages."
_NO_TOKENIZER_ERROR = (
    "an endpoint needs the tokenizer of its model to write messages and documents. Give its "
    "folder: tokenizer='…' (--tokenizer)."
)
_NO_COUNT_WARNING = (
    "The server does not return the number of tokens of a prompt (usage), so it is not checked "
    "that it reads the chat as the tokenizer does."
)
# Names of this module, which tests replace so that they do not wait.
_sleep, _now, _Timer = time.sleep, time.monotonic, threading.Timer


class EndpointCost(NamedTuple):
    """The model calls that an explanation needs, and the most tokens that all prompts have.

    Attributes
    ----------
    calls
        Number of calls.
    tokens
        Largest number of tokens of all prompts together.
    model
        Name of the model.
    """

    calls: int
    tokens: int
    model: str

    def __str__(self) -> str:
        tokens = f"{self.tokens:,} tokens of prompts at most"
        return f"About {self.calls:,} calls of {truncate_line(self.model)}, {tokens}."


def print_cost(cost: EndpointCost) -> None:
    """Print the cost to standard error if it is a terminal or a notebook."""
    if sys.stderr.isatty() or "ipykernel" in sys.modules:
        print(cost, file=sys.stderr)


@dataclass(frozen=True, eq=False)
class ServerClient:
    """A model behind a server. It sends requests, repeats those that fail, and hides the key.

    Its two kinds are :class:`Endpoint` and the models of ``models.chat_servers``. The fields are
    parameters of :func:`wrap_endpoint`.
    """

    classes: ClassVar[tuple[str, ...]] = ("answer",)
    link: ClassVar[Link] = "none"  # log-probabilities and agreements are scores
    replacements: ClassVar[tuple[str, ...]] = ("delete",)  # the tokens of the model are unknown

    url: str
    _: KW_ONLY
    model: str = ""
    template: Any = ""
    key_variable: str | None = None
    max_new_tokens: int = 64
    stop: Sequence[str] = ()
    parallel: int = 4
    requests_per_minute: int | float | None = None
    timeout: int | float = 60.0
    estimate: Callable[[EndpointCost], None] | None = print_cost
    max_calls: int | None = None

    def _check_options(self) -> None:
        """Raise an error for options of the server that are not valid."""
        if not isinstance(self.model, str) or not self.model.strip():
            raise InputError(
                f"model must be the name of a model on the server, not {self.model!r}."
            )
        check_count("parallel", self.parallel)
        if self.max_calls is not None:
            check_count("max_calls", self.max_calls)
        for name in ("requests_per_minute", "timeout"):
            amount = getattr(self, name)
            is_number = isinstance(amount, int | float) and not isinstance(amount, bool)
            if amount is not None and not (is_number and 0 < amount < math.inf):
                raise InputError(f"{name} must be a positive number, not {amount!r}.")
        is_list = isinstance(self.stop, list | tuple)
        if not is_list or not all(isinstance(string, str) and string for string in self.stop):
            raise InputError(f"stop must be a list of strings, not {self.stop!r}.")
        if self.estimate is not None and not callable(self.estimate):
            raise InputError(f"estimate must be a function or None, not {self.estimate!r}.")
        if self.key_variable is not None:
            _read_key(self.key_variable)  # raises its error now if the key is not set

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {truncate_line(self.model)} at {self.url}>"

    def announce_calls(self, calls: int) -> None:
        """Pass the cost of ``calls`` calls about the last text to the function ``estimate``.

        Raises
        ------
        InputError
            If ``max_calls`` does not leave so many calls.
        """
        if (
            self.max_calls is not None
            and (remaining := self.max_calls - self._traffic.calls) < calls
        ):
            raise InputError(
                f"this needs about {calls:,} calls, but max_calls={self.max_calls:,} leaves "
                f"{max(remaining, 0):,}. Set a budget such as budget='{max(remaining, 1)} calls', "
                "or raise max_calls."
            )
        if self.estimate is not None:
            self.estimate(EndpointCost(calls, calls * self._traffic.prompt_tokens, self.model))

    def __getstate__(self) -> dict[str, Any]:
        # Locks and the state of requests belong to one process.
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def _traffic(self) -> "_Traffic":
        """The times of earlier requests, which limit the rate."""
        return _Traffic()

    def _is_completion(self, reply: Any) -> bool:
        """Tell whether a reply has the text that was requested."""
        raise NotImplementedError

    def _send_body(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the reply of the server to a request, which is sent again if it fails.

        Raises
        ------
        InputError
            If all attempts fail, the server rejects the request, or no call is left.
        """
        payload, failure = json.dumps({"model": self.model, **body}).encode(), ""
        self._traffic.count_call(self.max_calls)
        for attempt in range(_ATTEMPTS):
            self._traffic.take_turn(self.requests_per_minute)
            wait = _FIRST_WAIT * 2**attempt
            try:
                status, headers, data = self._send(payload)
            except (OSError, http.client.HTTPException) as error:
                failure = f"does not answer ({self._describe_error(error)})"
            else:
                reply = _parse_json(data)
                if status == 200 and self._is_completion(reply):
                    return dict(reply)
                reason = self._error_message(data)
                failure = f"answers {status}: {reason}" if status != 200 else "sends no completion"
                if status in (400, 413, 422, 500) and _LENGTH_ERROR.search(_error_text(data)):
                    raise self._length_error(failure, body)
                # llama-server answers 500 to a request for an echo, which it never supports.
                is_temporary = status in (*_RETRY_STATUSES, *range(500, 600))
                if status != 200 and ("echo" in reason or not is_temporary):
                    raise self._request_error(failure, status)
                if (wait := _retry_delay(headers, wait)) > _MAX_WAIT:
                    raise self._request_error(
                        f"requests a wait of {_format_number(wait)} s ({failure})"
                    )
            if attempt + 1 < _ATTEMPTS:
                _sleep(wait)
        raise self._request_error(f"{failure}, {_ATTEMPTS} times")

    def _send(self, payload: bytes) -> tuple[int, Mapping[str, str], bytes]:
        """Send one request, and return status, headers and content of the reply.

        Redirects are not followed, so that texts and the key go to no other server.

        Raises
        ------
        OSError, http.client.HTTPException
            If the server does not reply, or not within the timeout.
        """
        address = urlsplit(self.url)
        headers = {"Content-Type": "application/json"}
        if self.key_variable is not None:
            headers["Authorization"] = f"Bearer {_read_key(self.key_variable)}"
        is_secure = address.scheme == "https"
        # Not by urllib, which follows redirects and takes proxies from the environment.
        connect = http.client.HTTPSConnection if is_secure else http.client.HTTPConnection
        connection = connect(str(address.hostname), address.port, timeout=self.timeout)
        expired, sockets = threading.Event(), list[socket.socket]()

        def hang_up() -> None:
            """Close the connection when the time is over."""
            expired.set()
            for open_socket in sockets:
                with contextlib.suppress(OSError):  # the server closed it first
                    # Not by the method of a TLS socket, which drops the object that reads from it.
                    socket.socket.shutdown(open_socket, socket.SHUT_RDWR)

        # The timeout of a socket starts again with every byte that arrives.
        alarm = _Timer(self.timeout, hang_up)
        alarm.daemon = True
        alarm.start()
        try:
            connection.connect()
            sockets.append(connection.sock)  # the connection drops it before the last byte
            # If connecting took too long, there was no socket to close yet.
            if not expired.is_set():
                connection.request("POST", address.path, payload, headers)
                response = connection.getresponse()
                content = response.read(_MAX_REPLY_BYTES)
                if not expired.is_set():
                    return response.status, dict(response.headers), content
        except (OSError, http.client.HTTPException):
            if not expired.is_set():
                raise
        finally:
            alarm.cancel()
            connection.close()
        raise TimeoutError(f"no whole answer within {self.timeout:g} s")

    def _error_message(self, data: bytes) -> str:
        """Return the error message in a reply, truncated and without the key."""
        return self._shorten_reply(_error_text(data)).rstrip(".")

    def _shorten_reply(self, text: str) -> str:
        """Return the beginning of a reply on one line, without the key."""
        # The key is removed before truncation, because a part of it is a secret too.
        return truncate_line(self._remove_key(text), _MAX_QUOTE)

    def _quote_token(self, token: str) -> str:
        """Return a token in quotes for a message, truncated and without the key."""
        token = self._remove_key(token)  # spaces stay, because they distinguish tokens
        return repr(token if len(token) <= _MAX_QUOTE else f"{token[: _MAX_QUOTE - 1]}…")

    def _describe_error(self, error: BaseException) -> str:
        """Return an error as a clause; it may contain the status line of the server."""
        return f"{type(error).__name__}: {self._shorten_reply(str(error))}".rstrip(".")

    def _remove_key(self, text: str) -> str:
        """Replace the key of the server in a text by "…"."""
        if self.key_variable is not None:  # some servers repeat the headers of a request
            with contextlib.suppress(InputError):  # the variable may have changed meanwhile
                text = text.replace(_read_key(self.key_variable), "…")
        return text

    def _length_error(self, failure: str, body: Mapping[str, Any]) -> InputError:
        """Return the error of a prompt that is longer than the model reads."""
        failure = escape_controls(self._remove_key(failure))
        count = self._describe_length(body)
        return InputError(f"the server at {self.url} {failure}.{count}{_LENGTH_ADVICE}")

    def _describe_length(self, body: Mapping[str, Any]) -> str:  # noqa: ARG002
        """Return a sentence about the length of a prompt, or "" if it is unknown."""
        return ""

    def _request_error(self, failure: str, status: int = 0, advice: str = "") -> InputError:
        """Return the error of a request; its cause shows that no text is at fault."""
        if status in (401, 403):
            advice = f" Check the key in the environment variable {self.key_variable}."
            if self.key_variable is None:
                advice = " Name the environment variable that holds the key: key_variable='…'."
        elif 300 <= status < 400:
            advice = " limelight does not follow redirects. Give the address to which it leads."
        elif advice:
            pass
        elif "echo" in failure or "log-probabilit" in failure:
            advice = _SERVER_ADVICE
        failure = escape_controls(self._remove_key(failure))
        error = InputError(f"the server at {self.url} {failure}.{advice}")
        error.__cause__ = ConnectionError(failure)
        return error


@final
@dataclass(frozen=True, eq=False, repr=False)
class Endpoint(ServerClient):
    """A language model behind a server, whose answers can be explained.

    The server must have OpenAI's completions interface and return the log-probabilities of a prompt
    (``echo`` with ``logprobs``), as vLLM and the server of llama-cpp-python do. Texts are sent to
    this address only, and nothing is sent before the model is called.

    Its options are those of :func:`wrap_endpoint`.
    """

    capabilities: ClassVar[Mapping[Capability, str | None]] = {
        **dict.fromkeys(CAPABILITIES, "a server returns only log-probabilities"),
        "generation": None,
    }
    limitations: ClassVar[Mapping[Property, str]] = {
        "is_exclusive": "this model writes answers and has no classes",
        "reads_pairs": "the template has room for a single text",
        "has_subwords": "a server does not provide its tokenizer",
        "max_tokens": "a server reads every prompt as a whole",
        "shuffle_weights": "a server returns only log-probabilities",
    }

    tokenizer: Any = None
    per_token: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "url", read_address(self.url, "/completions"))
        check_generation_options(self.max_new_tokens, self.per_token)
        self._check_options()
        if self.tokenizer is None:
            self._check_template()
        else:
            _ = self._chat  # raises its errors now

    def _check_template(self) -> None:
        """Raise an error for a template that needs a tokenizer, or has no place for a text."""
        if self.template == "":
            raise InputError(
                "an endpoint needs a template with {text} in it, such as template='{text} "
                "Question: where does Clara work? Answer:', or tokenizer= for chats."
            )
        is_string = isinstance(self.template, str)
        if isinstance(self.template, list) or (is_string and DOCUMENTS in self.template):
            raise InputError(_NO_TOKENIZER_ERROR)
        if not is_string or self.template.count(_TEXT) != 1:
            raise InputError(f"template must be a string that contains {_TEXT} once.")

    @property
    def fingerprint(self) -> str:
        """The name and address of the model, and a digest of its prompt, but not its weights."""
        # A stored mean per token must not be taken for a sum.
        settings = repr((self.template, self.per_token))
        if self._chat is not None:
            settings += self._chat.digest
        digest = sha256(settings.encode()).hexdigest()[:12]
        return f"{self.model} at {self.url} asked {digest}"

    @property
    def generation_settings(self) -> Mapping[str, Any]:
        """The settings with which the model generates answers."""
        return {"max_new_tokens": self.max_new_tokens, "stop": list(self.stop)}

    def generate(self, text: Any) -> AnswerQuery:
        """Return the answer at the end of a conversation, or the answer that the model generates.

        The model generates the likeliest token each time.
        """
        chat_prompt = self._write_chat(text)
        if chat_prompt is not None and chat_prompt.reply:
            return AnswerQuery(chat_prompt.reply)
        prompt = self._prompt(text) if chat_prompt is None else self._end_prompt(chat_prompt.text)
        self._check_count(prompt)
        answer, note = self._write_answer(prompt, self.max_new_tokens)
        if not answer.strip():
            raise InputError(EMPTY_ANSWER_ERROR)
        return AnswerQuery(answer, is_generated=True, note=note)

    def read(
        self, text: Any, *, queries: tuple[AnswerQuery, ...] = (), subwords: bool = False
    ) -> ModelInput:
        """Return the words of a text, with the answer or the parts of an answer to explain.

        Parameters
        ----------
        text
            A text or, with ``tokenizer``, a conversation.
        queries
            Parts of one answer. By default the model generates an answer.
        subwords
            Not supported: a server does not return the subwords of a text.

        Raises
        ------
        InputError
            If the parts belong to different answers, or the server fails or returns wrong
            log-probabilities.
        """
        if (chat_prompt := self._write_chat(text)) is None:
            model_input = _WORD_READER.read(validate_text(text), subwords=subwords)
            prompt = self._prompt(model_input.text)
            prompt_text, question = prompt.text, ""
        else:
            if subwords:
                raise InputError(f"{self.limitations['has_subwords']}. Leave subwords out.")
            model_input = split_prompt(chat_prompt, text, word_spans)
            prompt = self._end_prompt(chat_prompt.text)
            # The text of a conversation is its prompt.
            prompt_text, question = "", chat_prompt.question
            warnings = reasoning_warnings(chat_prompt.text, queries)
            model_input = replace(model_input, warnings=(*model_input.warnings, *warnings))
        queries = queries or (self.generate(text),)
        warnings = (*model_input.warnings, *self._check_count(prompt), *answer_warnings(queries))
        echo = self._echo_answer(prompt, queries[0].text)
        if not self._traffic.is_checked:  # generating an answer would have checked the server
            self._write_answer(prompt, _PROBE_TOKENS, echo)
        counts = [len(part_token_indices(query, echo.letters)) for query in queries]
        counted_queries = tuple(
            replace(
                query,
                length=count,
                per_token=self.per_token,
                prompt=prompt_text,
                question=question,
            )
            for query, count in zip(queries, counts, strict=True)
        )
        return replace(model_input, queries=counted_queries, warnings=warnings, encoding=echo)

    def outputs(self, inputs: Sequence[ModelInput]) -> Float[np.ndarray, "n S"]:
        """Return the log-probability of each query, which was computed when the text was read."""
        # The next estimate of a cost is about these texts only.
        lengths = (model_input.encoding.length for model_input in inputs)
        self._traffic.prompt_tokens = max(lengths, default=0)
        scores = [self._scores(text.encoding, text.queries) for text in inputs]
        return np.array(scores) if scores else np.empty((0, 1))

    def game(self, model_input: ModelInput, features: Features, replacement: str) -> Game:  # noqa: ARG002
        """Return the log-probability of the same answer as a function of masks of the text."""
        queries, is_chat = model_input.queries, model_input.source is not None
        prompt = self._end_prompt(model_input.text) if is_chat else self._prompt(model_input.text)
        if not self._traffic.counted:  # another process has read the input
            self._check_count(prompt)
        if is_chat:
            write_prompt = prompt_writer(model_input, features)
            # The same answer follows each prompt, so the space before it stays the same.
            return lambda keep: self._engine(
                [(_PromptText(write_prompt(row).rstrip(" "), prompt.gap), queries) for row in keep]
            )
        (segments,) = split_segments(model_input, features)

        def masked_prompt(keep: Bool[np.ndarray, " d"]) -> "_PromptText":
            """Return the prompt with the masked text."""
            return self._prompt("".join(segments.replace_words(keep, None)))

        return lambda keep: self._engine([(masked_prompt(row), queries) for row in keep])

    @cached_property
    def _engine(self) -> Engine:
        """Calls the server for pairs of prompts and queries, in small batches."""
        # Progress is reported once per batch, so batches are small.
        return Engine(
            self._call_prompts, size=lambda pair: len(pair[0].text), max_items=4 * self.parallel
        )

    @cached_property
    def _chat(self) -> Any:
        """The tokenizer that writes prompts, a `PromptTokenizer`; None without a folder."""
        if self.tokenizer is None:
            return None
        if not isinstance(self.tokenizer, str | os.PathLike):
            raise InputError(
                "tokenizer must be a folder with the files of a tokenizer, not "
                f"{type(self.tokenizer).__name__}. Save it there with save_pretrained(folder)."
            )
        try:
            from limelight.models.hugging_face.language_models import PromptTokenizer
            from limelight.models.hugging_face.loading import load_tokenizer
        except ImportError:
            raise MissingExtraError("tokenizer needs torch and transformers", "hf") from None
        tokenizer = load_tokenizer(Path(self.tokenizer))
        return PromptTokenizer.from_template(tokenizer, self.template or None)

    @cached_property
    def _text_template(self) -> tuple[str, str]:
        """The prompt before and after a text."""
        if self._chat is None:
            before, after = self.template.split(_TEXT)
            return before, after
        return self._chat.before, self._chat.after

    def _write_chat(self, text: UserInput) -> Prompt | None:
        """Write a conversation, or a text as the message of a user, with the chat template.

        Returns
        -------
        The prompt, or None for a text that belongs into the template.

        Raises
        ------
        InputError
            If there is no tokenizer for a conversation, or a template that has room for a text.
        """
        if isinstance(text, Conversation):
            if self._chat is None:
                raise InputError(_NO_TOKENIZER_ERROR)
            return self._chat.write_conversation(text)
        content = validate_text(text)
        if not content.strip() or self._chat is None or not self._chat.writes_chats:
            return None
        return self._chat.write_conversation(Conversation((Message("user", content),)))

    def _prompt(self, text: str) -> "_PromptText":
        """Insert a text into the template, and strip spaces at its ends."""
        # A masked text may begin or end with the space beside a removed word, so it is stripped.
        # A space at the end of the prompt belongs to the answer: tokenizers count it as part of
        # the word that follows.
        (before, after), text = self._text_template, text.strip()
        prompt = f"{before if text else before.rstrip(' ')}{text}{after}".rstrip(" ")
        return _PromptText(prompt, self._gap)

    def _end_prompt(self, text: str) -> "_PromptText":
        """Return a complete prompt of a chat, without spaces at its end."""
        prompt = text.rstrip(" ")
        return _PromptText(prompt, text[len(prompt) :] or self._chat.for_prompt(prompt).gap)

    @cached_property
    def _gap(self) -> str:
        """The space between prompt and answer, or "" if none belongs there.

        It must not depend on the masked text, because the answer would then have other tokens. It
        depends on the end of the template. If the template ends with the text, there is a space.
        """
        if self._chat is not None:
            return str(self._chat.gap)
        end = self._text_template[1].rstrip(" ")[-1:]
        is_after_mark = bool(end) and end in _TURN_MARK_ENDS
        return "" if end.isspace() or is_after_mark else " "

    def _check_count(self, prompt: "_PromptText") -> tuple[str, ...]:
        """Compare the number of tokens that the server reads with that of the tokenizer.

        A chat template may write the token that begins a text, and the server may add it again.
        Then it is not sent.

        Returns
        -------
        A warning if the server does not return the number.

        Raises
        ------
        InputError
            If the numbers differ.
        """
        if self._chat is None:
            return ()
        if self._traffic.counted == prompt.text:
            return self._traffic.count_warnings
        start = self._chat.bos_token or ""
        has_start = bool(start) and prompt.text.startswith(start)
        expected = self._chat.count_tokens(prompt.text, self._chat.adds_special and not has_start)
        # The beginning that was omitted before comes first.
        omissions = [start, ""] if self._traffic.omitted_start else ["", start]
        counts: dict[str, int] = {}
        for omitted_start in omissions if has_start else [""]:
            count = self._count_tokens(prompt.text.removeprefix(omitted_start))
            if count is None or count == expected:
                warnings = (_NO_COUNT_WARNING,) * (count is None)
                self._traffic.set_count(prompt.text, omitted_start, warnings)
                return warnings
            counts[omitted_start] = count
        advice = " Give the folder of the tokenizer of this model."
        if counts[""] == expected + 1:
            advice = " Start the server so that it adds no token to the prompt."
        raise self._request_error(
            f"reads {counts['']:,} tokens in the prompt, but the tokenizer in '{self.tokenizer}' "
            f"reads {expected:,}",
            advice=advice,
        )

    def _count_tokens(self, text: str) -> int | None:
        """Return the number of tokens that the server reads in a text, None if it is missing."""
        match self._post({"prompt": text, "max_tokens": 1}):
            case {"usage": {"prompt_tokens": int(count)}} if not isinstance(count, bool):
                return count
        return None

    def _write_answer(
        self, prompt: "_PromptText", max_tokens: int, answer_echo: "_Echo | None" = None
    ) -> tuple[str, str]:
        """Return the answer that the server writes after a prompt, and warnings about it.

        The log-probabilities of the answer must be the same as when the server reads it, because
        one server gives every token of a prompt the log-probability of the next token.

        Parameters
        ----------
        prompt
            The prompt.
        max_tokens
            Largest number of tokens of the answer.
        answer_echo
            Another answer as the server reads it, which is used to check a server that writes
            nothing.

        Raises
        ------
        InputError
            If the server fails, or returns wrong log-probabilities.
        """
        stop = {"stop": list(self.stop)} if self.stop else {}
        body = {"max_tokens": max_tokens, "logprobs": _ALTERNATIVES}
        reply = self._post({"prompt": self._sent_text(prompt.text), **body, **stop})
        text, written_tokens = reply["choices"][0]["text"], self._read_logprobs(reply)
        answer = text.removeprefix(prompt.gap_before(text.lstrip(" ")))
        is_truncated = reply["choices"][0].get("finish_reason") == "length"
        notes = [truncation_warning(max_tokens, "max_new_tokens")] if is_truncated else []
        echo = answer_echo
        if answer.strip():
            echo = self._echo_answer(prompt, answer)
            # A server may also return the token that ends an answer.
            answer_tokens = written_tokens[: len(echo.tokens)]
            if [token for _, token, _ in answer_tokens] != echo.tokens:
                notes.append(TOKENIZATION_WARNING)
                answer_tokens = []  # different tokens cannot be compared
            # The server may stop writing before the end of a token that it reads.
            pairs = zip(answer_tokens, echo.logs, strict=False)
            self._check_agreement([(token, log, read_log) for (_, token, log), read_log in pairs])
        if not self._traffic.is_checked:
            self._check_improbable(prompt, echo, _first_alternatives(reply))
            self._traffic.is_checked = True
        return answer, " ".join(notes)

    def _check_improbable(
        self, prompt: "_PromptText", probable: "_Echo | None", alternatives: Mapping[str, float]
    ) -> None:
        """Raise an error if the server is wrong about a continuation that it would not write.

        Tokens that a model writes may all have log-probabilities near 0. They reveal neither a
        shift by one token nor a server that always returns 0.

        Parameters
        ----------
        prompt
            The prompt.
        probable
            A probable answer as the server reads it.
        alternatives
            Log-probabilities of other first tokens, as far as the server returned them while
            writing.
        """
        if sum(map(math.exp, alternatives.values())) > _MAX_PROBABILITY_SUM:
            raise self._request_error(
                "returns log-probabilities of next tokens that sum to more than 100 %"
            )
        if probable is None:
            return
        if (echo := self._read_improbable(prompt, probable, alternatives)) is None:
            return
        # Both echoes begin with the prompt, and no token depends on the tokens after it.
        before, after = probable.before, echo.before
        if (
            before is not None
            and after is not None
            and abs(before - after) > _MAX_TOLERANCE + _RELATIVE_TOLERANCE * abs(after)
        ):
            raise self._request_error(
                "changes the log-probability of the last token of a prompt if other text "
                f"follows, from {_format_log(before)} to {_format_log(after)}"
            )
        first, other = probable.logs[0], echo.logs[0]
        is_tie = abs(first - other) <= _TIE_TOLERANCE
        if is_tie or math.exp(first) + math.exp(other) > _MAX_PROBABILITY_SUM:
            quotes = [self._quote_token(tokens[0]) for tokens in (probable.tokens, echo.tokens)]
            raise self._request_error(
                f"returns the log-probability {_format_log(first)} for {quotes[0]} and "
                f"{_format_log(other)} for {quotes[1]} in the same position"
            )

    def _read_improbable(
        self, prompt: "_PromptText", probable: "_Echo", alternatives: Mapping[str, float]
    ) -> "_Echo | None":
        """Return an improbable continuation as the server reads it after the prompt.

        If it is one of the ``alternatives``, both log-probabilities must agree.
        """
        first, echoes = probable.tokens[0], list[_Echo]()
        words = [word for word in alternatives if word.strip() and word.isprintable()]
        words = sorted(set(words) - {first}, key=lambda word: (alternatives[word], word))
        for token in words[:_MAX_TRIALS]:
            echo, _ = self._read_echo(prompt, token)
            # After the prompt, the server may read the same characters as other tokens.
            if echo is not None and echo.tokens == [token]:
                echoes.append(echo)
            if len(echoes) == _MIN_ECHOES:
                break
        self._check_agreement([(e.tokens[0], alternatives[e.tokens[0]], e.logs[0]) for e in echoes])
        for word in _IMPROBABLE_WORDS if not echoes else ():
            echo, _ = self._read_echo(prompt, prompt.gap_before(word) + word)
            if echo is not None and echo.tokens[0] != first:
                return echo
        return echoes[0] if echoes else None

    def _check_agreement(self, tokens: Sequence[tuple[str, float | None, float]]) -> None:
        """Raise an error if tokens have other log-probabilities when written than when read.

        Parameters
        ----------
        tokens
            Each token, its log-probability when written (None if it is missing), and its
            log-probability when read.
        """
        differences = [
            math.inf if log is None else max(abs(log - read) - _RELATIVE_TOLERANCE * abs(read), 0.0)
            for _, log, read in tokens
        ]
        worst = max(differences, default=0.0)
        max_sum = _TOKEN_TOLERANCE * len(differences) + _SUM_TOLERANCE
        if worst > _MAX_TOLERANCE or sum(differences) > max_sum:
            token, log, read = tokens[differences.index(worst)]
            raise self._request_error(
                f"writes {self._quote_token(token)} with log-probability {_format_log(log)}, but "
                f"returns {_format_log(read)} for it in a prompt"
            )

    def _call_prompts(
        self, prompts: "list[tuple[_PromptText, tuple[AnswerQuery, ...]]]"
    ) -> Float[np.ndarray, "n S"]:
        """Return the log-probability of each query after each prompt, by parallel requests."""
        with ThreadPoolExecutor(self.parallel) as pool:
            echoes = [
                pool.submit(self._echo_answer, prompt, queries[0].text)
                for prompt, queries in prompts
            ]
            try:
                scores = [
                    self._scores(echo.result(), queries)
                    for echo, (_, queries) in zip(echoes, prompts, strict=True)
                ]
                return np.array(scores)
            except BaseException:
                # Requests that are not sent yet would only cost money.
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _scores(self, echo: "_Echo", queries: tuple[Any, ...]) -> list[float]:
        """Return the log-probability of each query, which is a part of an answer."""
        logs_by_query = [
            [echo.logs[i] for i in part_token_indices(query, echo.letters)] for query in queries
        ]
        return [sum(logs) / (len(logs) if self.per_token else 1) for logs in logs_by_query]

    def _echo_answer(self, prompt: "_PromptText", answer: str) -> "_Echo":
        """Return the tokens of an answer as the server reads it after a prompt."""
        gap = prompt.gap_before(answer)
        echo, last = self._read_echo(prompt, gap + answer, gap=len(gap))
        if echo is None:
            if not prompt.text:
                raise self._request_error(
                    "returns no value for the first token, with which the answer begins if no "
                    f"text is left. Put words into the template before {_TEXT}"
                )
            raise self._request_error(
                "does not return the log-probability of each token of the answer "
                f"{truncate_line(answer, 40)!r}, but the last tokens "
                f"{self._shorten_reply(repr(last))}"
            )
        return echo

    def _read_echo(
        self, prompt: "_PromptText", continuation: str, *, gap: int = 0
    ) -> "tuple[_Echo | None, list[str]]":
        """Return the tokens of a continuation of a prompt, and the last tokens of the reply.

        Parameters
        ----------
        prompt
            The prompt.
        continuation
            The text after the prompt.
        gap
            Number of spaces at the beginning of the continuation.

        Returns
        -------
        The tokens, None if those of the reply do not spell the continuation, and the last tokens
        of the reply for an error message.
        """
        # One token is written and ignored, because for some servers 0 means as many as possible.
        text = self._sent_text(prompt.text) + continuation
        reply = self._post({"prompt": text, "max_tokens": 1, "echo": True})
        tokens = self._read_logprobs(reply)
        last_tokens = [token for _, token, _ in tokens[-6:]]
        match reply:
            case {"usage": {"completion_tokens": int(new_count)}}:
                if new_count < 0 or (tokens and new_count > len(tokens)):
                    count = _format_number(new_count)
                    raise self._request_error(
                        f"returns {len(tokens):,} tokens, but reports that it wrote {count} of them"
                    )
            case _:
                new_count = 1  # the number in the request
        read_tokens, answer_tokens = tokens[: max(len(tokens) - new_count, 0)], []
        if read_tokens:
            last_offset, last_token, _ = read_tokens[-1]
            end = tokens[-new_count][0] if new_count else last_offset + len(last_token)
            # From the end, because only some servers return the token that begins a text.
            first = end - len(continuation)
            answer_tokens = [
                (offset - first, token, log)
                for offset, token, log in read_tokens
                if offset >= first
            ]
        is_spelled = all(_spells_token(continuation, *token) for token in answer_tokens)
        if not answer_tokens or answer_tokens[0][0] != 0 or not is_spelled:
            return None, last_tokens
        letters = []
        for start, token, log in answer_tokens:
            if not math.isfinite(log):
                raise self._request_error(
                    f"returns the logarithm {log} for {self._quote_token(token)}, which is not "
                    "finite"
                )
            letter = len(token) - len(token.lstrip()) if token.strip() else 0
            letters.append(max(start - gap + letter, 0))
        has_prompt = len(read_tokens) > len(answer_tokens)
        before = read_tokens[-len(answer_tokens) - 1][2] if has_prompt else None
        strings = [token for _, token, _ in answer_tokens]
        logs = [log for *_, log in answer_tokens]
        return _Echo(letters, strings, logs, len(tokens), before), last_tokens

    def _sent_text(self, prompt: str) -> str:
        """Return a prompt without the token at its beginning that the server adds."""
        return prompt.removeprefix(self._traffic.omitted_start)

    def _read_logprobs(self, reply: dict[str, Any]) -> list[tuple[int, str, Any]]:
        """Return offset, token and log-probability (None if missing) of all tokens of a reply."""
        tokens = _parse_logprobs(reply)
        for _, token, log in tokens:
            if log is not None and log > _MAX_LOG_PROBABILITY:
                raise self._request_error(
                    f"returns the log-probability {_format_number(log)} for "
                    f"{self._quote_token(token)}, which is above 0"
                )
        return tokens

    def _post(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the reply of the server to a request about a prompt."""
        return self._send_body({"temperature": 0, "logprobs": 1, **body})

    def _is_completion(self, reply: Any) -> bool:
        """Tell whether a reply has the text of a completion."""
        match reply:
            case {"choices": [{"text": str()}, *_]}:
                return True
        return False

    def _describe_length(self, body: Mapping[str, Any]) -> str:
        """Return a sentence about the length of a prompt, or "" if it is unknown."""
        if self._chat is None:
            return ""
        length = self._chat.count_tokens(str(body["prompt"]), self._chat.adds_special)
        return f" The prompt has {length:,} tokens."


def wrap_endpoint(
    url: str,
    *,
    model: str = "",
    template: Any = "",
    tokenizer: Any = None,
    agreement: Any = None,
    temperature: int | float | None = None,
    key_variable: str | None = None,
    per_token: bool = False,
    max_new_tokens: int = 64,
    stop: Sequence[str] = (),
    parallel: int = 4,
    requests_per_minute: int | float | None = None,
    timeout: int | float = 60.0,
    estimate: Callable[[EndpointCost], None] | None = print_cost,
    max_calls: int | None = None,
) -> Model:
    """Return a language model behind a server as a model whose answers can be explained.

    Without ``agreement``, the server must have OpenAI's completions interface and return the
    log-probabilities of a prompt (``echo`` with ``logprobs``), as vLLM does. With ``agreement``,
    every chat API works. Then the explained number is how often, or how similarly, the model
    answers as before. Texts are sent to this address only.

    Parameters
    ----------
    url
        Address of the server, such as "http://localhost:8000/v1".
    model
        Name of the model on the server.
    template
        The prompt, with {text} in the place of the text. Without ``tokenizer``, write out a chat
        with the marks of its turns, but without the token that begins a text, which the server
        adds. With ``tokenizer``, also a list of chat messages, one of which contains {text}, or a
        prompt for documents with {documents} and {question}. With ``agreement``, a message of the
        user with {text}, or a prompt for documents.
    tokenizer
        Local folder with the tokenizer of the model (extra ``hf``). Its chat template writes
        messages, documents and texts as a prompt. If the server reads another number of tokens
        than this tokenizer, an error is raised.
    agreement
        When two answers agree, for chat APIs:

        * "exact": if they have the same characters, apart from white space at the ends.
        * a list of labels: if the same label occurs first in both.
        * a regular expression, compiled or as a string "/…/": if it finds the same text in both,
          or the same first group.
        * a function from the answer before and a new answer to a number, such as a similarity.
    temperature
        Temperature of the answers that are compared, by default 1. Only with ``agreement``.
    key_variable
        Name of the environment variable with the key, if the server needs one. The key is read for
        every request and never stored.
    per_token
        Explain the mean log-probability of the tokens of an answer instead of their sum.
    max_new_tokens
        Largest number of tokens of an answer that the model generates.
    stop
        Strings at which the model stops writing.
    parallel
        Number of requests that are sent at the same time.
    requests_per_minute
        Largest number of requests per minute, by default unlimited.
    timeout
        Seconds to wait for the last byte of a reply. If there is no reply, or the server answers
        429 or fails, the request is sent again up to four times. The waiting time is that of the
        server (Retry-After), otherwise 0.5, 1, 2 and 4 seconds.
    estimate
        Function that is called before each explanation with an :class:`EndpointCost`, the calls and
        tokens that the explanation needs. By default the cost is printed to standard error if that
        is a terminal or a notebook.
    max_calls
        Largest number of calls of this model, where a request that is repeated counts once. If an
        explanation needs more, an error is raised before its first masked text.

    Returns
    -------
    The model, which can be passed to :func:`limelight.explain` and the other functions.

    Raises
    ------
    InputError
        If an option is not valid, the environment variable is not set, or the folder has no
        tokenizer.
    MissingExtraError
        If ``tokenizer`` is given, and transformers is not installed.

    Examples
    --------
    >>> import limelight
    >>> model = limelight.wrap_endpoint(
    ...     "http://localhost:8000", model="tiny", template="{text} So:"
    ... )
    >>> model.url, model.classes
    ('http://localhost:8000/v1/completions', ('answer',))
    >>> chat = limelight.wrap_endpoint(
    ...     "http://localhost:8000/v1", model="tiny", agreement=["yes", "no"]
    ... )
    >>> chat.url
    'http://localhost:8000/v1/chat/completions'
    """
    options: dict[str, Any] = {
        "model": model,
        "template": template,
        "key_variable": key_variable,
        "max_new_tokens": max_new_tokens,
        "stop": stop,
        "parallel": parallel,
        "requests_per_minute": requests_per_minute,
        "timeout": timeout,
        "estimate": estimate,
        "max_calls": max_calls,
    }
    if agreement is None:
        if temperature is not None:
            raise InputError(
                "temperature is for agreement=, because log-probabilities need no sampled answers. "
                "Leave temperature out."
            )
        return Endpoint(url, tokenizer=tokenizer, per_token=per_token, **options)
    for name, is_given in (("tokenizer", tokenizer is not None), ("per_token", per_token)):
        if is_given:
            raise InputError(
                f"{name} is for log-probabilities, but agreement= compares answers. Leave {name} "
                "out."
            )
    from limelight.models.chat_servers.chat import ChatServer

    temperature = 1.0 if temperature is None else temperature
    return ChatServer(url, agreement=agreement, temperature=temperature, **options)


@final
class _Traffic:
    """The state of the requests to a server: the time of the next one, and results so far."""

    def __init__(self) -> None:
        self._lock, self._next_turn = ForkSafeLock(), 0.0
        self.calls = 0  # requests so far, without those that were repeated
        self.prompt_tokens = 0  # of the longest prompt, including its answer
        self.is_checked = False  # whether log-probabilities were found to be right
        # The last prompt whose tokens were counted, with its warnings, and the beginning of
        # prompts that the server adds.
        self.counted, self.count_warnings, self.omitted_start = "", tuple[str, ...](), ""

    def set_count(self, prompt: str, omitted_start: str, warnings: tuple[str, ...]) -> None:
        """Store that the tokens of a prompt were counted."""
        self.counted, self.count_warnings, self.omitted_start = prompt, warnings, omitted_start

    def count_call(self, max_calls: int | None) -> None:
        """Count a call; raise an error if ``max_calls`` have been made."""
        with self._lock:
            if max_calls is not None and self.calls >= max_calls:
                raise InputError(
                    f"max_calls={max_calls:,} calls have been made. Raise max_calls, or set a "
                    "smaller budget."
                )
            self.calls += 1

    def take_turn(self, per_minute: int | float | None) -> None:
        """Wait until the next request may be sent, at equal intervals."""
        if per_minute is None:
            return
        # The wait is outside the lock, so that other threads can reserve their turns.
        with self._lock:
            now = _now()
            turn = max(now, self._next_turn)
            self._next_turn = turn + 60.0 / per_minute
        if turn > now:
            _sleep(turn - now)


class _PromptText(NamedTuple):
    """A prompt, and the space between it and an answer."""

    text: str
    gap: str

    def gap_before(self, answer: str) -> str:
        """Return the space before an answer, which none has that begins with a mark or a space."""
        return "" if attaches_to_prompt(answer) else self.gap


class _Echo(NamedTuple):
    """The tokens of an answer as the server reads it.

    Attributes
    ----------
    letters
        Index in the answer of the first letter of each token.
    tokens
        The tokens.
    logs
        Log-probability of each token.
    length
        Number of tokens that were read, including those of the prompt.
    before
        Log-probability of the last token of the prompt, None if the server does not return it.
    """

    letters: list[int]
    tokens: list[str]
    logs: list[float]
    length: int
    before: float | None


def _parse_logprobs(reply: dict[str, Any]) -> list[tuple[int, str, Any]]:
    """Return offset, token and log-probability of all tokens of a reply, without checks."""
    match reply["choices"][0].get("logprobs"):
        case {"tokens": [*tokens], "token_logprobs": [*logs], **further}:
            strings = [str(token) for token in tokens]
            offsets = further.get("text_offset")
            if not isinstance(offsets, list) or not all(isinstance(x, int) for x in offsets):
                offsets = list(accumulate(map(len, strings), initial=0))[:-1]
            if len(logs) == len(offsets) == len(strings):
                return list(zip(offsets, strings, map(_parse_log, logs), strict=True))
    return []


def _first_alternatives(reply: dict[str, Any]) -> dict[str, float]:
    """Return the log-probabilities of possible first tokens in a reply."""
    match reply["choices"][0].get("logprobs"):
        case {"top_logprobs": [{**tokens}, *_]}:
            logs = {str(token): _parse_log(log) for token, log in tokens.items()}
            return {
                token: log
                for token, log in logs.items()
                if log is not None and math.isfinite(log) and log <= _MAX_LOG_PROBABILITY
            }
    return {}


def _parse_log(value: Any) -> float | None:
    """Return a number from JSON as a float, or None if the value is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:  # integers in JSON have any number of digits
        return math.inf if value > 0 else -math.inf


def _format_log(log: float | None) -> str:
    """Return a log-probability with two decimals, or as words."""
    if log is None:
        return "none"
    return f"{log:.2f}" if abs(log) < 1_000_000 else _format_number(log)


def _format_number(value: int | float) -> str:
    """Return a number in a few characters, also if it is very large."""
    if abs(value) < 1_000_000:
        return f"{value:,.6g}"
    return "over a million" if value > 0 else "under minus a million"


def _spells_token(answer: str, start: int, token: str, log: float | None) -> bool:
    """Tell whether a token has a log-probability and is in the answer at ``start``."""
    # The tokens of a divided character are empty, or contain a replacement character.
    is_partial = "\ufffd" in token or token.startswith("bytes:")
    return log is not None and (is_partial or answer.startswith(token, start))


def _parse_json(data: bytes) -> Any:
    """Parse JSON; return None if it is malformed."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _error_text(data: bytes) -> str:
    """Return the error message in a reply."""
    match _parse_json(data):
        case {"error": {"message": str(text)}} | {"error": str(text)} | {"message": str(text)}:
            return text
    return data.decode("utf-8", "replace")


def _retry_delay(headers: Mapping[str, str], default: float) -> float:
    """Return the seconds after which a server accepts the request, or ``default``."""
    # The header contains a number of seconds or a date.
    header = {name.lower(): value for name, value in headers.items()}.get("retry-after", "")
    try:
        if header.strip().isdigit():
            return float(header)
        return max(parsedate_to_datetime(header).timestamp() - time.time(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return default


def _read_key(variable: Any) -> str:
    """Return the key in an environment variable; error messages never contain it.

    Raises
    ------
    InputError
        If ``variable`` is no name, or the variable is not set or contains no key.
    """
    # An unusual name may be the key itself, so it is not part of the message.
    if not isinstance(variable, str) or not (
        re.fullmatch("[A-Z_][A-Z0-9_]*", variable) or variable in os.environ
    ):
        raise InputError("key_variable must be the name of an environment variable.")
    key = os.environ.get(variable, "").strip()
    # The errors of http.client would contain such a key.
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        reason = "contains characters that no key has" if key else "is not set"
        raise InputError(
            "key_variable must name an environment variable that contains the key, but "
            f"{variable} {reason}."
        )
    return key


def read_address(url: Any, path_end: str) -> str:
    """Return the address to which requests are sent.

    Parameters
    ----------
    url
        The address of a server, with or without the path of the interface.
    path_end
        The end of the path: "/completions" or "/chat/completions".

    Raises
    ------
    InputError
        If ``url`` is no address, contains a secret, or is the address of another interface. The
        message does not contain the address.
    """
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        # Reading the port raises an error for an invalid one.
        has_valid_port = parts.port is None or parts.port >= 0
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and has_valid_port
    except ValueError:
        is_valid = False
    if not is_valid:
        raise InputError("url must be the address of a server, such as http://localhost:8000/v1.")
    # They would be part of fingerprints, messages and stored results.
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise InputError(
            "url must be an address without a user, a key or a query. Put the key into an "
            "environment variable, and name it: key_variable='…'."
        )
    path = parts.path.rstrip("/")
    is_chat = path.endswith("/chat/completions")
    if is_chat and path_end == "/completions":
        raise InputError(
            "url must lead to /v1/completions, because chat interfaces do not return the "
            "probability of a given answer. To compare answers, use agreement='exact' in Python."
        )
    if path.endswith("/completions") and not is_chat and path_end != "/completions":
        path = path.removesuffix("/completions")
    path = path if path.endswith(path_end) else f"{path or '/v1'}{path_end}"
    return f"{parts.scheme}://{parts.netloc}{path}"
