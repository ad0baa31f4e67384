"""Language models behind a chat API, explained by how well their answers agree with one answer."""

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, ClassVar, NamedTuple, cast, final

import numpy as np

from limelight.errors import InputError, check_count
from limelight.models.chat_servers.agreement import AgreementRule, Comparison, parse_agreement
from limelight.models.endpoint import ServerClient, read_address
from limelight.models.engine import Engine
from limelight.models.functions import Function, split_segments, word_spans
from limelight.models.protocol import (
    CAPABILITIES,
    EMPTY_ANSWER_ERROR,
    Capability,
    Property,
    answer_warnings,
    truncation_warning,
)
from limelight.models.text_game import RandomGame
from limelight.sampling.sample import Game
from limelight.shapes import Bool, Float
from limelight.text import (
    AnswerQuery,
    Conversation,
    Features,
    Message,
    ModelInput,
    validate_text,
)
from limelight.text.conversations import DEFAULT_PROMPT, DOCUMENTS
from limelight.text.prompts import (
    check_document_prompt,
    part_writer,
    prompt_writer,
    split_prompt,
    write_plain_chat,
    write_prompt,
)
from limelight.threads import cached_property

_TEXT = "{text}"
_FULL_ANSWERS = 5  # answers to the complete input, whose mean agreement is the prediction
_REPLY_START = "\nassistant:"  # how `write_plain_chat` ends a prompt
_CHARACTERS_PER_TOKEN = 2  # fewer than in most languages, for a cost that is not too low
_REASON = "a chat API with agreement= returns only answers"
_PART_ERROR = (
    "sentences of an answer need log-probabilities, but agreement= compares complete answers. "
    "Use explain."
)
_NOISE_WARNING = (
    "The server gives different answers to the same prompt at temperature 0, so its answers count "
    "as random."
)
_WORD_READER = Function(function=len, classes=("answer",), scale="score")
_Messages = list[dict[str, Any]]


class _FullAnswers(NamedTuple):
    """The agreements of the answers to a complete input, and whether answers are random."""

    agreements: tuple[float, ...]
    is_random: bool


@final
@dataclass(frozen=True, eq=False, repr=False)
class ChatServer(ServerClient):
    """A language model behind a chat API that returns no log-probabilities.

    The explained number of a masked input is the expected agreement of an answer with the answer
    that is explained. Its options are those of :func:`limelight.wrap_endpoint`.
    """

    capabilities: ClassVar[Mapping[Capability, str | None]] = {
        **dict.fromkeys(CAPABILITIES, _REASON),
        "generation": None,
        "agreement": None,
    }
    limitations: ClassVar[Mapping[Property, str]] = {
        "is_exclusive": "this model writes answers and has no classes",
        "reads_pairs": "a message has room for a single text",
        "has_subwords": "a chat API does not provide its tokenizer",
        "max_tokens": "a server reads every prompt as a whole",
        "shuffle_weights": "a chat API returns only answers",
    }

    agreement: Any = "exact"
    temperature: int | float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "url", read_address(self.url, "/chat/completions"))
        self._check_options()
        check_count("max_new_tokens", self.max_new_tokens)
        is_number = isinstance(self.temperature, int | float)
        if not is_number or isinstance(self.temperature, bool) or not 0 <= self.temperature < 10:
            raise InputError(
                f"temperature must be at least 0 and below 10, not {self.temperature!r}."
            )
        _ = self._rule, self._prompts  # raise their errors now

    @property
    def fingerprint(self) -> str:
        """The name and address of the model, and a digest of all that its answers depend on."""
        # The answers to masked texts are truncated, too, so the agreement depends on their length.
        answers = (float(self.temperature), self.max_new_tokens, list(self.stop))
        settings = repr((self.template, self._rule.identity, *answers))
        return f"{self.model} at {self.url} agreement {sha256(settings.encode()).hexdigest()[:12]}"

    @property
    def generation_settings(self) -> Mapping[str, Any]:
        """The settings with which the model generates answers."""
        return {"max_new_tokens": self.max_new_tokens, "stop": list(self.stop)}

    @cached_property
    def _rule(self) -> AgreementRule:
        """The rule that compares two answers."""
        return parse_agreement(self.agreement)

    @cached_property
    def _prompts(self) -> tuple[str, str]:
        """The message for a text, with {text}, and the prompt for documents."""
        if self.template == "":
            return _TEXT, DEFAULT_PROMPT
        if not isinstance(self.template, str):
            raise InputError(
                f"template must be a string with {_TEXT} for a chat API. Pass lists of messages "
                "to explain."
            )
        if DOCUMENTS in self.template:
            return _TEXT, check_document_prompt(self.template)
        if self.template.count(_TEXT) != 1:
            raise InputError(f"template must be a string that contains {_TEXT} once.")
        return self.template, DEFAULT_PROMPT

    def generate(self, text: Any) -> AnswerQuery:
        """Return the answer at the end of a conversation, or the answer that the model generates.

        The model generates the likeliest token each time.
        """
        if isinstance(text, Conversation):
            if text.reply is not None:
                answer = _ChatPrompt.from_conversation(text, self._prompts[1]).reply
                return AnswerQuery(answer)
            messages = _ChatPrompt.from_conversation(text, self._prompts[1]).messages
        else:
            messages = self._text_messages(validate_text(text))
        answer, is_truncated = self._answer(messages, temperature=0)
        if not answer.strip():
            raise InputError(EMPTY_ANSWER_ERROR)
        note = truncation_warning(self.max_new_tokens, "max_new_tokens") if is_truncated else ""
        return AnswerQuery(answer, is_generated=True, note=note)

    def read(
        self, text: Any, *, queries: tuple[AnswerQuery, ...] = (), subwords: bool = False
    ) -> ModelInput:
        """Return the words of an input, with the answer to explain.

        The model answers the complete input several times. If the answers at temperature 0 are
        equal, they count as deterministic.

        Parameters
        ----------
        text
            A text or a conversation.
        queries
            A complete answer. By default the model generates an answer.
        subwords
            Not supported: a server does not return the subwords of a text.

        Raises
        ------
        InputError
            If the query is a part of an answer, or the server fails.
        """
        if subwords:
            raise InputError(f"{self.limitations['has_subwords']}. Leave subwords out.")
        question, prompt_text = "", ""
        if isinstance(text, Conversation):
            prompt = _ChatPrompt.from_conversation(text, self._prompts[1])
            model_input, messages = prompt.model_input, prompt.messages
            question = text.question
        else:
            model_input = _WORD_READER.read(validate_text(text))
            messages = self._text_messages(model_input.text)
            prompt_text = messages[0]["content"]
        queries = queries or (self.generate(text),)
        if len(queries) > 1 or len(queries[0].text) > queries[0].end - queries[0].start:
            raise InputError(_PART_ERROR)
        compare = self._rule.to_answer(queries[0].text)
        answers = self._answers([messages] * _FULL_ANSWERS)
        is_random = self.temperature > 0 or len(set(answers)) > 1
        is_unexpected = self.temperature == 0 and is_random
        query = replace(
            queries[0], agreement=self._rule.name, prompt=prompt_text, question=question
        )
        return replace(
            model_input,
            queries=(query,),
            warnings=(
                *model_input.warnings,
                *answer_warnings(queries),
                *[_NOISE_WARNING] * is_unexpected,
            ),
            encoding=_FullAnswers(tuple(map(compare, answers)), is_random),
        )

    def outputs(self, inputs: Sequence[ModelInput]) -> Float[np.ndarray, "n 1"]:
        """Return the mean agreement of the answers to each complete input."""
        means = [[float(np.mean(text.encoding.agreements))] for text in inputs]
        return np.array(means) if means else np.empty((0, 1))

    def game(self, model_input: ModelInput, features: Features, replacement: str) -> Game:  # noqa: ARG002
        """Return the agreement of a new answer for each mask, which is random in general."""
        (query,) = cast(tuple[AnswerQuery, ...], model_input.queries)
        compare, write = self._rule.to_answer(query.text), self._writer(model_input, features)

        def agreements(keep: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, "n 1"]:
            """Return the agreement of one answer for each mask."""
            # Equal masks get answers of their own, so rows are not joined as an engine joins them.
            return self._engine.compute_rows(
                np.full(len(keep), len(model_input.text)),
                lambda rows: self._agreements([write(keep[i]) for i in rows], compare),
            )

        return RandomGame(agreements) if model_input.encoding.is_random else agreements

    def _writer(
        self, model_input: ModelInput, features: Features
    ) -> Callable[[Bool[np.ndarray, " d"]], _Messages]:
        """Return a function from a mask to the messages without the removed features."""
        source = model_input.source
        if isinstance(source, Conversation):
            return _ChatPrompt(source, model_input, self._prompts[1]).writer(features)
        (segments,) = split_segments(model_input, features)
        return lambda keep: self._text_messages("".join(segments.replace_words(keep, None)))

    def _text_messages(self, text: str) -> _Messages:
        """Return a text in the template as the message of a user."""
        before, after = self._prompts[0].split(_TEXT)
        return [{"role": "user", "content": f"{before}{text.strip()}{after}"}]

    def _agreements(
        self, prompts: Sequence[_Messages], compare: Comparison
    ) -> Float[np.ndarray, "n 1"]:
        """Return the agreement of one answer to each prompt."""
        return np.array([[compare(answer)] for answer in self._answers(prompts)])

    def _answers(self, prompts: Sequence[_Messages]) -> list[str]:
        """Return one answer to each prompt, by parallel requests."""
        with ThreadPoolExecutor(self.parallel) as pool:
            try:
                return [answer for answer, _ in pool.map(self._answer, prompts)]
            except BaseException:
                # Requests that are not sent yet would only cost money.
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _answer(
        self, messages: _Messages, *, temperature: int | float | None = None
    ) -> tuple[str, bool]:
        """Return an answer to messages, and whether it was truncated."""
        body: dict[str, Any] = {
            "messages": messages,
            "temperature": self.temperature if temperature is None else temperature,
            "max_tokens": self.max_new_tokens,
        }
        if self.stop:
            body["stop"] = list(self.stop)
        reply = self._send_body(body)
        tokens = sum(len(str(message)) for message in messages) // _CHARACTERS_PER_TOKEN
        match reply:
            case {"usage": {"prompt_tokens": int(count)}} if not isinstance(count, bool):
                tokens = count
        self._traffic.prompt_tokens = max(self._traffic.prompt_tokens, tokens)
        choice = reply["choices"][0]
        answer = choice["message"].get("content") or ""
        if calls := choice["message"].get("tool_calls"):
            # As an answer of the user is written, and without ids, which differ in each answer.
            message = Message.from_value(
                {"role": "assistant", "content": answer, "tool_calls": calls}, len(messages)
            )
            answer = write_plain_chat([message], False).removeprefix("assistant: ").strip()
        return answer, choice.get("finish_reason") == "length"

    def _is_completion(self, reply: Any) -> bool:
        """Tell whether a reply has a message of the assistant."""
        match reply:
            case {"choices": [{"message": {"content": str()}}, *_]}:
                return True
            case {"choices": [{"message": {"tool_calls": [{**_first}, *_]}}, *_]}:
                return True
        return False

    def _describe_length(self, body: Mapping[str, Any]) -> str:
        """Return a sentence about the length of the messages."""
        characters = sum(len(str(message.get("content", ""))) for message in body["messages"])
        return f" The prompt has {characters:,} characters."

    @cached_property
    def _engine(self) -> Engine:
        """Counts calls for progress displays, in small batches."""
        return Engine(len, size=len, max_items=4 * self.parallel)  # type: ignore[arg-type]


class _ChatPrompt(NamedTuple):
    """A conversation as an input, and its messages as a chat API takes them."""

    conversation: Conversation
    model_input: ModelInput
    document_prompt: str

    @staticmethod
    def from_conversation(conversation: Conversation, document_prompt: str) -> "_ChatPrompt":
        """Split the parts of a conversation into words.

        Raises
        ------
        InputError
            If the reasoning of an answer is explained, which no chat API continues.
        """
        if conversation.reasoning:
            raise InputError(
                "steps of reasoning need a model that continues a text, but a chat API does not. "
                "Explain messages instead."
            )
        prompt = write_prompt(conversation, write_plain_chat, document_prompt=document_prompt)
        model_input = split_prompt(prompt, conversation, word_spans)
        return _ChatPrompt(conversation, model_input, document_prompt)

    @property
    def reply(self) -> str:
        """The answer at the end of the conversation."""
        return write_prompt(self.conversation, write_plain_chat).reply

    @property
    def filled_messages(self) -> tuple[Message, ...]:
        """The messages, the last one with the documents."""
        if self.conversation.documents:
            return self.conversation.fill_prompt(self.document_prompt)[0].messages
        return self.conversation.messages

    @property
    def messages(self) -> _Messages:
        """All messages as a chat API takes them."""
        return list(map(_api_message, self.filled_messages))

    def writer(self, features: Features) -> Callable[[Bool[np.ndarray, " d"]], _Messages]:
        """Return a function from a mask to the messages without the removed features."""
        *first, last = self.filled_messages
        text = self.model_input.text
        if self.conversation.documents:
            start = len(text) - len(_REPLY_START) - len(last.content)
            write_text = prompt_writer(self.model_input, features)

            def write_documents(keep: Bool[np.ndarray, " d"]) -> _Messages:
                """Return the messages, the last one without the removed documents."""
                content = write_text(keep)[start : -len(_REPLY_START)].strip()
                return list(map(_api_message, [*first, replace(last, content=content)]))

            return write_documents
        write_parts = part_writer(self.model_input, features)
        parts = [text[slice(*part.span)] for part in self.model_input.parts]

        def write_messages(keep: Bool[np.ndarray, " d"]) -> _Messages:
            """Return the messages without the removed features, and without empty ones."""
            messages = list[dict[str, Any]]()
            for message, part, masked in zip(
                self.filled_messages, parts, write_parts(keep), strict=True
            ):
                if masked == part:
                    messages.append(_api_message(message))
                elif content := masked.removeprefix(f"{message.role}: ").strip():
                    messages.append(_api_message(replace(message, content=content, tool_calls="")))
            # A chat API needs a message.
            return messages or [{"role": "user", "content": ""}]

        return write_messages


def _api_message(message: Message) -> dict[str, Any]:
    """Return a message in the format of chat APIs, with the arguments of tool calls as strings."""
    value = message.to_dict()
    for call in value.get("tool_calls", ()):
        if not isinstance(arguments := call["function"]["arguments"], str):
            call["function"]["arguments"] = json.dumps(arguments, ensure_ascii=False)
    return value
