"""Sequence classifiers of the transformers library."""

import contextlib
import copy
import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, cast

import numpy as np
import torch

from limelight.errors import InputError
from limelight.models.engine import Engine, PendingRows, name_failing_text
from limelight.models.hugging_face import forward, gradients, layers, selfcheck
from limelight.models.hugging_face.check_memory import CheckMemory
from limelight.models.hugging_face.conversations import read_prompt
from limelight.models.hugging_face.forward import (
    MASKED_OUT,
    CustomHead,
    ForwardPass,
    NetworkFingerprint,
    Rows,
)
from limelight.models.hugging_face.language_models import (
    AnswerForSequenceClassification,
    PromptTokenizer,
)
from limelight.models.hugging_face.subwords import (
    MaskedText,
    Subwords,
    baseline_ids,
    find_window,
    has_token_types,
    input_rows,
    input_windows,
    is_divided,
    make_model_input,
    max_input_length,
    read_texts,
    read_windows,
    select_window,
    split_texts,
    subword_features,
)
from limelight.models.hugging_face.tags import SpanForSequenceClassification
from limelight.models.protocol import (
    Attention,
    Capability,
    EmbeddedPoints,
    Gradients,
    HiddenStates,
    InputProducts,
    Link,
    OutputGradient,
    OutputGradientOrValues,
    Property,
    class_probabilities,
)
from limelight.progress import split_calls
from limelight.sampling.sample import Game
from limelight.shapes import Bool, Float, Int
from limelight.text import (
    AnswerQuery,
    Conversation,
    Features,
    Message,
    ModelInput,
    Span,
    SpanQuery,
    UserInput,
    Windows,
    abbreviate_names,
    check_text_list,
    validate_text,
)
from limelight.text.prompts import Prompt, reasoning_warnings
from limelight.threads import cached_property

_CAPABILITIES: Mapping[Capability, str | None] = {
    "attention": None,
    "attention_only": None,
    "gradients": None,
    "lrp": None,
    "hidden_states": None,
    "tables": "a deep network has no tables",
    "exact_game": "a deep network has no exact formula",
    "spans": "this model classifies whole texts",
    "generation": "this model classifies texts",
}
_NOT_EXCLUSIVE = {
    "sigmoid": "the labels of this model are independent",
    "none": "this model predicts scores",
}
_NO_WINDOWED_STATES = "each window has separate hidden states (leave window out)"
_WINDOW_LIMITATIONS: Mapping[Property, str] = {
    "max_tokens": "this model reads texts in windows already",
    "reads_pairs": "windows are for single texts (leave window out)",
}
_ONE_OUTPUT_WARNING = (
    "The model has one output and no problem_type, so the output is explained as a score. If it is "
    "the logit of a label, set problem_type='multi_label_classification' in its configuration."
)
_DEFAULT_LABEL = "LABEL_0"  # the name that transformers gives to an unnamed output
_TEXTS_PER_BATCH = 256  # texts that are differentiated together


def _recorded_activation(config: Any) -> str:
    """Return the class of the activation that a cross-encoder applies to its outputs.

    Cross-encoders of sentence-transformers record it in their configuration. Other models give "".
    """
    settings = getattr(config, "sentence_transformers", None)
    path = settings.get("activation_fn") if isinstance(settings, Mapping) else None
    # The key before version 4.0 of sentence-transformers.
    path = path or getattr(config, "sbert_ce_default_activation_function", None)
    return str(path or "").rpartition(".")[2]


@lru_cache(maxsize=64)  # every explanation has the names of its classes
def _number_equal_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return names of classes in which each name that occurs several times gets its number."""
    counts = Counter(names)
    return tuple(f"{name} #{i}" if counts[name] > 1 else name for i, name in enumerate(names))


class _Capabilities(Mapping[Capability, str | None]):
    """The reasons for missing capabilities; those that need calls are found at the first use."""

    def __init__(
        self, reasons: Mapping[Capability, str | None], check: selfcheck.NetworkCheck
    ) -> None:
        self._reasons, self._check = reasons, check

    def __getitem__(self, name: Capability) -> str | None:
        reason = self._reasons[name]
        if reason is None and name in selfcheck.CHECKED:
            return self._check.reason_missing(name)
        return reason

    def __iter__(self) -> Iterator[Capability]:
        return iter(self._reasons)

    def __len__(self) -> int:
        return len(self._reasons)


@dataclass(frozen=True, kw_only=True, eq=False)
class HuggingFace:
    r"""A sequence classifier of transformers with its fast tokenizer, which are never changed.

    On a GPU, outputs are computed in half precision, unless ``half`` is false. With a ``window``,
    the largest number of subwords including special ones, a text is split into W windows
    :math:`x_w`. Every method then explains the mean :math:`f(x) = \frac1W \sum_w g(x_w)` over the
    windows.
    """

    # Initial number of positions in a batch. A CPU core is busy with few, and few rows of similar
    # length need little padding.
    positions_per_batch: ClassVar[Mapping[str, int]] = {"cpu": 1024, "cuda": 262_144}

    _default_capabilities: ClassVar[Mapping[Capability, str | None]] = _CAPABILITIES
    has_subwords: ClassVar[bool] = True

    network: Any
    tokenizer: Any
    half: bool = True
    window: int | None = None

    def __post_init__(self) -> None:
        """Raise an error if the tokenizer is slow."""
        if not getattr(self.tokenizer, "is_fast", False):
            raise InputError(
                f"a model needs its fast tokenizer, not {type(self.tokenizer).__name__}. Pass "
                "tokenizer=AutoTokenizer.from_pretrained(…)."
            )

    def __repr__(self) -> str:
        family, network = type(self).__name__, forward.network_name(self.network)
        windows = "" if self.window is None else f", {self.window} tokens at a time"
        classes, device = abbreviate_names(self.classes), self.network.device
        return f"<{family} {network} of {classes} on {device}{windows}>"

    @property
    def classes(self) -> tuple[str, ...]:
        """Return the names of the classes.

        A single output is the log-odds of the second of two classes. The first class is then named
        by ``other_label`` of the configuration, or "not" and the name of the second. A regression
        has names of scores instead. A single output without ``problem_type`` counts as a
        regression. Classes with the same name get their numbers.
        """
        config = self.network.config
        name_of_class = config.id2label
        names = tuple([str(name_of_class[i]) for i in sorted(name_of_class)])
        # A target is chosen by its name, so names must be unique.
        if len(names) > 1:
            return _number_equal_names(names)
        if self.link == "none":
            return ("score",) if names[0] == _DEFAULT_LABEL else names
        return str(getattr(config, "other_label", f"not {names[0]}")), names[0]

    @property
    def link(self) -> Link:
        """Return how outputs become probabilities: by "softmax", by "sigmoid", or not at all.

        Independent labels have a sigmoid each. The outputs of a regression have no probabilities.
        Without a ``problem_type`` the activation that a cross-encoder records decides. Otherwise a
        single output is a score, as transformers trains it.
        """
        # Only problem_type decides, since logits of independent labels look like those of classes.
        links: dict[str, Link] = {"multi_label_classification": "sigmoid", "regression": "none"}
        config, has_several_outputs = self.network.config, len(self.network.config.id2label) > 1
        kind = getattr(config, "problem_type", None)
        if kind is None:
            default: Link = "softmax" if has_several_outputs else "none"
            link = "sigmoid" if _recorded_activation(config) == "Sigmoid" else default
        else:
            link = links.get(str(kind), "softmax")
        # One independent label has two classes, the label and "not" the label.
        return "softmax" if link == "sigmoid" and not has_several_outputs else link

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return the warnings for every result, about the network and its scale."""
        config = self.network.config
        has_problem_type = getattr(config, "problem_type", None) or _recorded_activation(config)
        if has_problem_type or len(config.id2label) > 1:
            return self.check.warnings
        return (*self.check.warnings, _ONE_OUTPUT_WARNING)

    @cached_property
    def capabilities(self) -> Mapping[Capability, str | None]:
        """Return the capabilities of the network, as far as its check confirmed them."""
        reasons = {**self._default_capabilities, **self._head.capabilities}
        if self.window is not None:
            reasons["hidden_states"] = _NO_WINDOWED_STATES
        return _Capabilities(reasons, self.check)

    @property
    def is_exclusive(self) -> bool:
        """Return whether the model predicts one of its classes."""
        return self.link not in _NOT_EXCLUSIVE

    @property
    def max_tokens(self) -> int | None:
        """Return the maximum number of subwords in a window, including special ones."""
        return None if "max_tokens" in self.limitations else self.max_length

    @property
    def reads_pairs(self) -> bool:
        """Return whether the model reads tuples of two texts."""
        return "reads_pairs" not in self.limitations

    @property
    def limitations(self) -> Mapping[Property, str]:
        """Return the reasons for the properties that the model lacks."""
        reasons: dict[Property, str] = {}
        if not self.is_exclusive:
            reasons["is_exclusive"] = _NOT_EXCLUSIVE[self.link]
        if reason := getattr(self.tokenizer, "why_no_pairs", ""):
            reasons["reads_pairs"] = reason
        return {**reasons, **self._head.limitations, **(_WINDOW_LIMITATIONS if self.window else {})}

    @cached_property
    def check(self) -> selfcheck.NetworkCheck:
        """Return the check of the network, whose results are computed when they are needed."""
        return self._make_check()

    def _make_check(self, memory: CheckMemory | None = None) -> selfcheck.NetworkCheck:
        """Return a new check of the network, with the memory of earlier checks."""

        def call_in_half_precision(ids: Rows) -> Float[np.ndarray, "n C"]:
            """Return the outputs as an explanation computes them."""
            self._forward_pass.refresh()
            return self._forward_pass(ids)

        return selfcheck.NetworkCheck(
            self.network,
            lambda: self._example_ids,
            self._tokens,
            call=call_in_half_precision,
            memory=memory,
        )

    def remember_check(self, memory: CheckMemory) -> None:
        """Use the results of earlier checks that a memory has, and add new ones to it."""
        vars(self)["check"] = self._make_check(memory)

    @property
    def _example_ids(self) -> selfcheck.ExampleIds:
        """Return the rows with which the network is checked."""
        example = selfcheck.example_ids(self.network, self.tokenizer, self.max_length)
        self._check_ids(example.ids)
        return example

    @property
    def fingerprint(self) -> str:
        """Return the SHA-256 of weights, configuration, tokenizer and identity, as they are now."""
        identity = json.dumps(self.identity, sort_keys=True)
        return hashlib.sha256((self._fingerprint() + identity).encode()).hexdigest()

    @property
    def identity(self) -> dict[str, Any]:
        """Return further settings that change the outputs.

        These are not part of the weights, of the configuration or of the tokenizer file.
        """
        return {
            "limit of tokens": self.max_length,
            "tokens of replacements": self._tokens,
            "tokens of an empty text": [
                getattr(self.tokenizer, f"{name}_token_id", None) for name in ("bos", "eos", "pad")
            ],
            "side that is cut": str(getattr(self.tokenizer, "truncation_side", None)),
            "segments of pairs": "token_type_ids" in self.tokenizer.model_input_names,
        }

    @cached_property
    def _fingerprint(self) -> NetworkFingerprint:
        """Return the fingerprint of network and tokenizer, which caches the weights."""
        return NetworkFingerprint(self.network, self.tokenizer)

    @cached_property
    def max_length(self) -> int:
        """Return how many subwords the model reads, including special ones."""
        return max_input_length(self.network, self.tokenizer)

    @property
    def _head(self) -> Any:
        """Return the custom head of the network, or the defaults of a classifier without one."""
        return self.network if isinstance(self.network, CustomHead) else CustomHead

    @property
    def generation_settings(self) -> Mapping[str, Any]:
        """Return the settings with which the model generates answers."""
        return {"max_new_tokens": self.network.max_new_tokens}

    def announce_calls(self, calls: int) -> None:
        """Do nothing, since calls of a model in memory cost no money."""

    def generate(self, text: UserInput) -> AnswerQuery:
        """Return the answer at the end of a conversation, or the answer that the model generates.

        The model generates the likeliest token each time.
        """
        tokenizer, prompt = self._prompt_tokenizer(text)
        if prompt is not None and prompt.reply:
            return AnswerQuery(prompt.reply)
        model_input = self.read(text)
        with self._name_errors(model_input):
            return self._head.generate_answer(*input_rows(model_input), tokenizer, self.max_length)

    def with_classes(self, names: Collection[Any]) -> "HuggingFace":
        """Return a tagger that has the classes ``names``, as far as possible.

        The classes of a tagger are types such as "ORG". If a name is a tag such as "B-ORG", the
        classes are the tags.
        """
        tags = self.network.tags if self.network.types else ()
        return self._tag_model if any(n in tags and n not in self.classes for n in names) else self

    @cached_property
    def _tag_model(self) -> "HuggingFace":
        """Return the tagger whose classes are its tags."""
        # The model is cached, because the check of a network takes some calls.
        head = SpanForSequenceClassification(self.network.network, types=False)
        return replace(self, network=head)

    def spans(self, text: UserInput, *, first_subwords: bool = False) -> tuple[SpanQuery, ...]:
        """Return the spans that a tagger predicts, or the answer in the passage of a pair."""
        head: SpanForSequenceClassification = self.network
        if self.window is None:
            inputs = [self.read(text)]
        else:
            inputs = self._split_windows(text, self.window, subwords=False)
        spans = list[SpanQuery]()
        for model_input in inputs:
            with self._name_errors(model_input):
                spans += head.spans(model_input, first_subwords=first_subwords)
        return tuple(spans)

    def read(
        self, text: UserInput, *, queries: tuple[Any, ...] = (), subwords: bool = False
    ) -> ModelInput:
        """Tokenize a text or a pair into words, or into ``subwords``.

        The ``queries`` are spans of the text. For a language model they are parts of an answer.
        """
        if self.window is not None and not isinstance(self.network, SpanForSequenceClassification):
            return self._read_windows(text, self.window, subwords=subwords)
        if self.window is not None and queries:
            return self._read_span_window(text, self.window, queries, subwords=subwords)
        if isinstance(self.network, AnswerForSequenceClassification):
            return self._read_prompt(text, queries, subwords=subwords)
        (model_input,) = self._read_inputs([text], limit=self.max_length, subwords=subwords)
        if queries:
            model_input = self.network.attach_queries(
                model_input, queries, self.tokenizer, self.max_length
            )
            self._check_ids(model_input.encoding.ids)
        return model_input

    def _read_prompt(
        self, text: UserInput, queries: tuple[AnswerQuery, ...], *, subwords: bool
    ) -> ModelInput:
        """Read a text or a conversation into a prompt, and append the answer of the queries."""
        head: AnswerForSequenceClassification = self.network
        tokenizer, prompt = self._prompt_tokenizer(text)
        limit = head.max_prompt_length(self.max_length, queries, tokenizer)
        if prompt is None:
            (model_input,) = self._read_inputs([text], limit=limit, subwords=subwords)
        else:
            model_input = read_prompt(tokenizer, prompt, text, limit=limit, per_subword=subwords)
            warnings = reasoning_warnings(prompt.text, queries)
            warnings = (*model_input.warnings, *warnings, *self.warnings)
            model_input = replace(model_input, warnings=warnings)
            queries = tuple(replace(query, question=prompt.question) for query in queries)
        if queries:
            model_input = head.attach_queries(model_input, queries, tokenizer, self.max_length)
        self._check_ids(model_input.encoding.ids)
        return model_input

    def _prompt_tokenizer(self, text: UserInput) -> tuple[PromptTokenizer, Prompt | None]:
        """Return the tokenizer for the prompt of an input, and the prompt if it is a chat."""
        tokenizer: PromptTokenizer = self.tokenizer
        conversation = text
        if isinstance(text, str) and tokenizer.writes_chats:
            if not validate_text(text).strip():
                raise InputError("the text has no words. Give at least one word.")
            conversation = Conversation((Message("user", text),))
        if not isinstance(conversation, Conversation):
            return tokenizer, None
        prompt = tokenizer.write_conversation(conversation)
        return tokenizer.for_prompt(prompt.text), prompt

    def read_batch(
        self, texts: Sequence[UserInput], *, subwords: bool = False
    ) -> Iterator[ModelInput]:
        """Yield texts as ``read`` returns them; the tokenizer is called once for many texts."""
        return self._read_inputs(texts, limit=self.max_length, subwords=subwords)

    def _read_inputs(
        self, texts: Sequence[UserInput], *, limit: int, subwords: bool
    ) -> Iterator[ModelInput]:
        """Yield each text with its tokens, subwords and warnings."""
        classes, truncation_advice = self.classes, self._head.truncation_advice
        warnings: tuple[str, ...] | None = None
        for text, subwords_and_spans in zip(
            texts, self._read_subwords(texts, limit=limit, per_subword=subwords), strict=True
        ):
            model_input = make_model_input(
                self.tokenizer,
                text,
                *subwords_and_spans,
                classes=classes,
                truncation_advice=truncation_advice,
            )
            # Read once, since they do not depend on the text. The check of the network may need
            # calls, so a text without words raises its error before.
            warnings = self.warnings if warnings is None else warnings
            yield (
                replace(model_input, warnings=model_input.warnings + warnings)
                if warnings
                else model_input
            )

    def _read_subwords(
        self, texts: Sequence[UserInput], *, limit: int, per_subword: bool = False
    ) -> Iterator[tuple[Subwords, list[Span]]]:
        """Yield the subwords of each text and the spans of its words."""
        for part in split_texts(texts):
            results = None
            with contextlib.suppress(InputError):  # the text that fails raises its error below
                results = self._read_together(part, limit=limit, per_subword=per_subword)
            if results is None:
                for text in part:
                    yield from self._read_together([text], limit=limit, per_subword=per_subword)
            else:
                yield from results

    def _read_together(
        self, texts: Sequence[UserInput], *, limit: int, per_subword: bool
    ) -> list[tuple[Subwords, list[Span]]]:
        """Return the subwords of texts and the spans of their words, with few calls of NumPy."""
        results = read_texts(self.tokenizer, texts, limit=limit, per_subword=per_subword)
        self._check_ids(np.concatenate([subwords.ids for subwords, _ in results]))
        return results

    def _read_windows(self, text: Any, size: int, *, subwords: bool) -> ModelInput:
        """Tokenize a whole text, split it into windows, and call the model on each window."""
        model_input, spans = read_windows(self.tokenizer, text, size, per_subword=subwords)
        rows = [window.row for window in model_input.encoding]
        self._check_ids(np.concatenate(rows))
        windows = Windows(size, spans, self._row_outputs(rows))
        return replace(model_input, windows=windows, warnings=model_input.warnings + self.warnings)

    def _split_windows(
        self, text: Any, size: int, *, subwords: bool, around: Span | None = None
    ) -> list[ModelInput]:
        """Tokenize a whole text, and return each window as an input with the words of the window.

        The words of an input have their positions in the whole text. A window can have the span
        ``around`` in its middle.
        """
        model_input, _ = read_windows(
            self.tokenizer, text, size, per_subword=subwords, around=around
        )
        return [select_window(model_input, window) for window in model_input.encoding]

    def _read_span_window(
        self, text: Any, size: int, queries: tuple[SpanQuery, ...], *, subwords: bool
    ) -> ModelInput:
        """Return the window that contains the spans ``queries``, with the marks of the spans.

        A single span that lies in two windows gets a window with the span in its middle.
        """
        word_windows, around = self._split_windows(text, size, subwords=False), None
        sentence = f"The text was read in {len(word_windows)} windows."
        if len(queries) == 1 and is_divided(word_windows, queries[0]):
            around = queries[0].start, queries[0].end
            word_windows = self._split_windows(text, size, subwords=False, around=around)
            sentence = "The span lies in two windows of the text, so it got its own window."
        number = find_window(word_windows, queries)
        word_window = window = word_windows[number]
        if subwords:
            window = self._split_windows(text, size, subwords=True, around=around)[number]
        self._check_ids(window.encoding.ids)
        start, end = word_window.tokens.spans[0][0], word_window.tokens.spans[-1][1]
        warning = (
            f"{sentence} Only the words of the window around the span have scores, characters "
            f"{start} to {end}."
        )
        warnings = (warning,) * (len(word_windows) > 1)
        return self.network.mark_queries(
            replace(window, warnings=warnings + window.warnings + self.warnings),
            queries,
            word_window.encoding,
            word_window.tokens.spans,
        )

    def _check_ids(self, ids: Int[np.ndarray, " _"]) -> None:
        """Raise an error if the embedding does not have a row for every token."""
        rows = forward.embedding_row_count(self.network)
        max_id = int(forward.unpack_ids(ids).max(initial=0))
        if rows is not None and max_id >= rows:
            token = self.tokenizer.convert_ids_to_tokens(max_id)
            raise InputError(
                f"the tokenizer reads {token!r} as the token {max_id}, but the embedding of the "
                f"model has {rows} rows. Load the tokenizer that belongs to the model."
            )

    def outputs(self, inputs: Sequence[ModelInput]) -> Float[np.ndarray, "n C"]:
        """Return the outputs for texts that the model has read."""
        if inputs and inputs[0].windows is not None:  # computed when the text was read
            return np.array(
                [cast(Windows, model_input.windows).outputs.mean(axis=0) for model_input in inputs]
            )
        return self._row_outputs([row for model_input in inputs for row in input_rows(model_input)])

    def logits(self, texts: Sequence[Any]) -> Float[np.ndarray, "n C"]:
        """Return the outputs of the model for every text, truncated to its maximum length.

        An input that is not a text raises an error with its number.
        """
        if self.window is not None:
            return self.outputs([self.read(text) for text in texts])
        check_text_list(texts)
        rows = [
            subwords.read_row for subwords, _ in self._read_subwords(texts, limit=self.max_length)
        ]
        # Some tokenizers give an empty text no special tokens.
        empty_row = np.array([self._empty_row_token])
        return self._row_outputs([row if len(row) else empty_row for row in rows])

    def _row_outputs(self, rows: list[Any]) -> Float[np.ndarray, "n C"]:
        """Return the outputs for rows, in batches."""
        if not rows:
            return np.empty((0, len(self.network.config.id2label)))
        if self._head.missing_query_error and not all(forward.is_marked(row).any() for row in rows):
            # Without this error, the head would use an arbitrary position, as in the check.
            raise InputError(self._head.missing_query_error)
        self._forward_pass.refresh()
        return self.engine(rows)

    def predict_proba(self, texts: Sequence[UserInput]) -> Float[np.ndarray, "n classes"]:
        """Return the probability of every class for every text."""
        return class_probabilities(self.logits(texts), self.link)

    @property
    def replacements(self) -> tuple[str, ...]:
        """Return the replacements of a removed word that the model supports, the best first.

        They are the mask token, the unknown token, no token, and padding.
        """
        usable = {"delete", *self._tokens} - set(self.check.unusable_replacements)
        return tuple(name for name in self._head.replacement_order if name in usable)

    @property
    def unusable_replacements(self) -> Mapping[str, str]:
        """Return the replacements that the network cannot read, with the reasons."""
        return self.check.unusable_replacements

    @property
    def _tokens(self) -> dict[str, int]:
        """Return the tokens that can replace another token, by name."""
        pad, unknown = self.network.config.pad_token_id, self.tokenizer.unk_token_id
        # Decoders read the last subword that is not padding. An unknown token that is also the
        # padding would move that position.
        unknown = None if unknown == pad else unknown
        tokens = {"mask": self.tokenizer.mask_token_id, "unk": unknown, "pad": pad}
        return {name: int(token) for name, token in tokens.items() if token is not None}

    def game(self, model_input: ModelInput, features: Features, replacement: str) -> Game:
        """Return the outputs as a function of masks.

        All subwords of a removed word are replaced.
        """
        # This happens once per game and not for every mask, since it inspects each weight.
        self._forward_pass.refresh()
        games = [
            self._game(subwords, features, replacement) for subwords in input_windows(model_input)
        ]
        if model_input.windows is None:
            return games[0]

        def mean_output(keep: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, "n C"]:
            """Return the mean of the outputs over the windows."""
            # Progress counts masks. Each mask is a call in every window.
            with split_calls(len(games)):
                return np.mean([game(keep) for game in games], axis=0)

        return mean_output

    def _game(self, subwords: Subwords, features: Features, replacement: str) -> MaskedText:
        """Return the game of one window, or of a text that is read at once."""
        feature = subword_features(subwords, features)
        has_token = replacement not in ("delete", "pad")
        if not has_token and (feature[forward.is_marked(subwords.row)] >= 0).any():
            raise InputError(
                f"protect_span=False removes the words of the span, but {replacement!r} puts "
                "nothing in their place. Use replacement='mask' or 'unk' if the model has it, or "
                "protect the span."
            )
        replacement_id = None
        if replacement != "delete":  # padding is masked out, other tokens are not
            replacement_id = self._tokens[replacement] if has_token else MASKED_OUT
        return MaskedText(
            engine=self.engine,
            forward=self._forward_pass,
            subwords=subwords,
            feature=feature,
            replacement_id=replacement_id,
            empty_id=self._empty_row_token if replacement_id is None else 0,
        )

    def token_positions(self, model_input: ModelInput) -> Int[np.ndarray, " T"]:
        """Return the token at every position of the input, -1 at special subwords."""
        return np.concatenate(
            [subwords.token[subwords.read_indices] for subwords in input_windows(model_input)]
        )

    def attention(
        self, model_input: ModelInput, output_gradient: OutputGradient | None = None
    ) -> Iterator[Attention]:
        """Yield the attention of all layers, window by window.

        With ``output_gradient`` also yield the gradient with respect to the attention. Both are in
        full precision, even if outputs are computed in half precision.
        """
        rows, slopes = input_rows(model_input), cast(OutputGradientOrValues | None, output_gradient)
        if output_gradient is not None and model_input.windows is not None:
            mean = model_input.windows.outputs.mean(axis=0, keepdims=True)
            slopes = output_gradient(mean) / len(rows)
        # Windows are computed one by one, since the attention of each head has T² numbers.
        for row in rows:
            with self._name_errors(model_input):
                attention = layers.compute_attention(self.network, row, slopes)
            yield attention

    def embed(
        self, model_input: ModelInput, features: Features | None = None, replacement: str = ""
    ) -> Float[np.ndarray, "T d_e"]:
        """Return the embedded subwords, with those of ``features`` replaced if they are given."""
        rows = input_rows(model_input)
        if features is not None:
            rows = self._baseline_rows(model_input, features, replacement)
        with self._name_errors(model_input):
            return np.concatenate([gradients.embed_input(self.network, row) for row in rows])

    def _baseline_rows(
        self, model_input: ModelInput, features: Features, replacement: str
    ) -> list[Any]:
        """Return the rows with the tokens of ``features`` replaced."""
        # Replacements that the network cannot read are left out.
        tokens = {name: token for name, token in self._tokens.items() if name in self.replacements}
        return [
            baseline_ids(subwords, features, tokens, replacement)
            for subwords in input_windows(model_input)
        ]

    def frozen_gradient(
        self,
        model_input: ModelInput,
        points: EmbeddedPoints,
        output_gradient: OutputGradientOrValues,
    ) -> Gradients:
        """Return the gradient at embedded ``points`` of the network with frozen weights."""
        return self.gradients(model_input, points, output_gradient, frozen=True)

    def gradients(
        self,
        model_input: ModelInput,
        points: EmbeddedPoints,
        output_gradient: OutputGradientOrValues,
        *,
        frozen: bool = False,
    ) -> Gradients:
        """Return the gradient of the explained number at points of the embedding space.

        Windows are differentiated one after the other, since the graphs of all may not fit into
        memory.

        Parameters
        ----------
        model_input
            The input whose embedding the points replace.
        points
            Embedded inputs at which the model is differentiated.
        output_gradient
            ∂F/∂f as a function of the outputs f, or its values if F depends on more than f.
        frozen
            Freeze the weights, as layer-wise relevance propagation does (see ``lrp``).

        Returns
        -------
        The gradient and the outputs at each point.
        """
        rows = input_rows(model_input)
        ends = np.cumsum([len(row) for row in rows])[:-1]
        window_points = list(zip(rows, np.split(points, ends, axis=1), strict=True))
        with self._name_errors(model_input):
            # ∂F/∂g_w = output_gradient(f)/W depends on f, so all outputs are computed first.
            if model_input.windows is not None:
                outputs = [
                    gradients.outputs_at_points(self.network, row, points)
                    for row, points in window_points
                ]
                if callable(output_gradient):
                    output_gradient = output_gradient(np.mean(outputs, axis=0))
                output_gradient = output_gradient / len(window_points)
            results = [
                gradients.compute_gradients(
                    self.network, row, points, output_gradient, frozen=frozen
                )
                for row, points in window_points
            ]
        return Gradients(
            np.concatenate([result.gradient for result in results], axis=1),
            np.mean([result.outputs for result in results], axis=0),
        )

    @property
    def inputs_per_batch(self) -> int:
        """Return how many texts or images are differentiated at a time."""
        # A CPU core gains nothing by more than one.
        is_batched = forward.takes_batches(self.network) and self.network.device.type == "cuda"
        return _TEXTS_PER_BATCH if is_batched else 1

    @property
    def parallel_batches(self) -> int:
        """Return 2 on a GPU, which computes one batch while another is read or fitted."""
        device = self.network.device
        # Other threads have neither the autocast of the caller nor its stream.
        is_plain = (
            device.type == "cuda"
            and not torch.is_autocast_enabled(device.type)
            and torch.cuda.current_stream(device) == torch.cuda.default_stream(device)
        )
        return 2 if is_plain else 1

    def frozen_input_products(
        self, inputs: Sequence[ModelInput], weights: Float[np.ndarray, "n C"]
    ) -> InputProducts:
        """Return the gradient of the network with frozen weights times its embedded input."""
        return gradients.frozen_input_products(self.network, inputs, weights, self.engine)

    def hidden_states(
        self, inputs: Sequence[ModelInput], features: Sequence[Features]
    ) -> HiddenStates:
        """Return the states of all features at three layers, and the outputs, in one pass.

        If the inputs have queries, also return the attention of the positions that the head reads.
        """
        self._forward_pass.refresh()
        feature_indices = [
            np.append(input_features.feature_index, -1)[self.token_positions(model_input)]
            for model_input, input_features in zip(inputs, features, strict=True)
        ]
        has_queries = any(model_input.queries for model_input in inputs)
        return layers.feature_states(
            self._forward_pass,
            self.engine,
            [row for model_input in inputs for row in input_rows(model_input)],
            feature_indices,
            [len(input_features) for input_features in features],
            read_position=self._head.read_position or self.check.read_position,
            with_attention=has_queries and self.check.reason_missing("attention") is None,
        )

    def _name_errors(self, model_input: ModelInput) -> AbstractContextManager[None]:
        """Return a context that names the model and the text in the error of a failing call."""
        return name_failing_text(forward.network_name(self.network), model_input.text)

    def with_windows(self, window: str | int) -> "HuggingFace":
        """Return this model for whole texts, which it reads in windows of that many tokens."""
        size = self.max_length if window == "auto" else window
        # True would otherwise count as a window of one token.
        if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= self.max_length:
            raise InputError(
                f"window must be 'auto' or a number of tokens up to {self.max_length}, not "
                f"{window!r}."
            )
        twin = copy.copy(self)  # the copy keeps the results of the check
        vars(twin)["window"] = size
        vars(twin).pop("capabilities", None)  # capabilities depend on the window
        return twin

    def shuffle_weights(self, seed: int) -> "HuggingFace":
        """Return a copy of the model in which the numbers of every weight are shuffled.

        The sizes of the weights are unchanged, so the outputs have their usual size. New random
        weights could change it. Weights that layers share stay shared.
        """
        with forward.network_lock(self.network):
            twin = copy.deepcopy(self.network)
        # On the host, for the same order on every device.
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for weight in twin.parameters():
                if weight.is_floating_point():
                    order = torch.randperm(weight.numel(), generator=generator).to(weight.device)
                    weight.copy_(weight.flatten()[order].reshape(weight.shape))
        # The copy does not keep the results of the check, so the shuffled network is checked anew.
        return replace(self, network=twin)

    @cached_property
    def _empty_row_token(self) -> int:
        """Return the packed id of the only token in the row of an empty text."""
        is_generative = isinstance(self.network, AnswerForSequenceClassification)
        sources = (self.tokenizer, self.network.config) if is_generative else (self.tokenizer,)
        # Padding is the last choice, since decoders look for the last subword that is not padding.
        names = ("bos", "eos") if is_generative else ("bos", "eos", "pad")
        ids = [getattr(source, f"{name}_token_id", None) for name in names for source in sources]
        tokens = [int(np.atleast_1d(source)[0]) for source in ids if source is not None]
        if (
            is_generative
            and not tokens
            and not next(self._read_subwords(["a"], limit=self.max_length))[0].text_slice.start
        ):
            raise InputError(
                "an answer needs a token before it, but this model has none that begins or "
                "ends a text (bos, eos). Put words into the template before {text}."
            )
        segment = np.array(int(has_token_types(self.tokenizer)))
        return int(forward.pack_rows(np.array(tokens[0] if tokens else 0), segment, 0))

    @cached_property
    def engine(self) -> Engine:
        """Return the engine, through which all calls of the network pass."""
        return Engine(
            self._call_rows,
            size=lambda row: int(row.size),
            key=lambda row: row.tobytes(),
            max_batch_size=self.positions_per_batch.get(self.network.device.type, 1024),
            max_items=4096 if forward.takes_batches(self.network) else 1,
            same_size=self.check.needs_equal_lengths,
        )

    @cached_property
    def _forward_pass(self) -> ForwardPass:
        """Return the caller of the network."""
        return ForwardPass(
            self.network,
            half=self.half,
            describe=self._describe_row,
            example=lambda: self._example_ids.ids[None],
        )

    def _call_rows(self, rows: list[Any]) -> PendingRows:
        """Start to compute the outputs for rows, in one call if they can be padded."""
        if forward.takes_batches(self.network, rows):
            return self._forward_pass.start(forward.stack_rows(rows))
        return np.concatenate([self._forward_pass(forward.stack_rows([row])) for row in rows])

    def _describe_row(self, ids: Int[np.ndarray, " _"]) -> str:
        """Return the text of a row, for errors."""
        with forward.preserve_tokenizer(self.tokenizer):
            return str(self.tokenizer.decode(forward.unpack_ids(ids)))
