"""Sequence classifiers of the transformers library."""

import contextlib
import copy
import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np
import torch

from limelight.errors import InputError
from limelight.models.engine import Engine, naming
from limelight.models.hugging_face import forward, gradients, layers, selfcheck
from limelight.models.hugging_face.forward import (
    MASKED_OUT,
    AnotherHead,
    ForwardPass,
    NetworkFingerprint,
)
from limelight.models.hugging_face.language_models import AnswerForSequenceClassification
from limelight.models.hugging_face.pieces import (
    MaskedText,
    Pieces,
    document_of,
    encodings,
    feature_of_piece,
    ids_moved,
    in_windows,
    longest_input,
    names_types,
    pieces_of,
    rows_read,
    windows_in,
)
from limelight.models.hugging_face.tags import PlaceForSequenceClassification
from limelight.models.protocol import (
    Attention,
    Capability,
    Gradients,
    HiddenStates,
    InputProducts,
    Link,
    Points,
    Property,
    Slopes,
    Weigh,
    class_probabilities,
)
from limelight.progress import split_calls
from limelight.sampling.sample import Game
from limelight.shapes import Bool, Float, Int
from limelight.text import (
    Answer,
    Features,
    ModelInput,
    Place,
    Span,
    UserInput,
    Windows,
    check_listed,
    few_names,
)
from limelight.threads import cached_property

_CAPABILITIES: Mapping[Capability, str | None] = {
    "attention": None,
    "attention_only": None,
    "gradients": None,
    "lrp": None,
    "hidden_states": None,
    "tables": "the layers of a deep network do not",
    "exact_game": "the layers of a deep network mix its words",
    "spans": "this one classifies whole texts",
    "generation": "this one classifies texts and writes nothing",
}
_NO_CHOICE = {
    "sigmoid": "each label of this one is a yes or no of its own",
    "none": "this one predicts scores and not a class",
}
_NO_WINDOWED_STATES = "a word is seen in its own window alone; leave window out"
_IN_WINDOWS: Mapping[Property, str] = {
    "max_tokens": "this one reads its texts in windows already",
    "reads_pairs": "a pair is read whole, not in windows; leave window out",
}
_ONE_OUTPUT = (
    "The model has one output and no problem_type, so the output is explained as a score. If it is "
    "the logit of a label, set problem_type='multi_label_classification' in its configuration."
)
_UNNAMED = "LABEL_0"  # what transformers calls an output that nobody named
_TOGETHER = 256  # texts that the tokenizer is given at a time, or that are differentiated


def _activation(config: Any) -> str:
    """Return the class that a cross-encoder of sentence-transformers applies to its outputs."""
    recorded = getattr(config, "sentence_transformers", None)
    path = recorded.get("activation_fn") if isinstance(recorded, Mapping) else None
    path = path or getattr(config, "sbert_ce_default_activation_function", None)  # before its 4.0
    return str(path or "").rpartition(".")[2]


@dataclass(frozen=True, kw_only=True, eq=False)
class HuggingFace:
    r"""A sequence classifier with its fast tokenizer, which it never changes.

    On a graphics card its outputs are computed in half precision, unless ``half`` says no. With a
    ``window``, pieces at most, special ones included, it is :math:`f(x) = \frac1W \sum_w g(x_w)` of
    a whole text cut into W windows: every method explains that one function.
    """

    # In a batch, to begin with. A core is busy with few, and few of alike length pad little.
    positions: ClassVar[Mapping[str, int]] = {"cpu": 1024, "cuda": 262_144}

    _usual_capabilities: ClassVar[Mapping[Capability, str | None]] = _CAPABILITIES
    has_subwords: ClassVar[bool] = True

    network: Any
    tokenizer: Any
    half: bool = True
    window: int | None = None

    def __post_init__(self) -> None:
        """Refuse a tokenizer without places, and a network that does not classify."""
        if not getattr(self.tokenizer, "is_fast", False):
            raise InputError(
                "a model needs its fast tokenizer, which knows the place of every word; got "
                f"{type(self.tokenizer).__name__}. Pass tokenizer=AutoTokenizer.from_pretrained(…)."
            )
        classifies = forward.is_kind(self.network, "SequenceClassification")
        if not classifies or not hasattr(self.network.config, "id2label"):
            raise InputError(
                "the model must classify, tag, answer from a passage, or be a language model; got "
                f"{type(self.network).__name__}. For a language model, give template= with "
                "{text} in it."
            )

    def __repr__(self) -> str:
        own, network = type(self).__name__, forward.network_name(self.network)
        windows = "" if self.window is None else f", {self.window} tokens at a time"
        return f"<{own} {network} of {few_names(self.classes)} on {self.network.device}{windows}>"

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes; of a single output, the second's is the label.

        The first is then called what the configuration says it is (``other_label``), else "not"
        the second. A regression has names of scores instead, which may be one, and so has a single
        output of which the configuration says nothing. Classes of the same name are told apart by
        their numbers.
        """
        config = self.network.config
        named = tuple(str(config.id2label[i]) for i in sorted(config.id2label))
        # A target is chosen by its name, which must be that of one class.
        if len(named) > 1:
            return tuple(f"{n} #{i}" if named.count(n) > 1 else n for i, n in enumerate(named))
        if self.link == "none":
            return ("score",) if named[0] == _UNNAMED else named
        return str(getattr(config, "other_label", f"not {named[0]}")), named[0]

    @property
    def link(self) -> Link:
        """How outputs become probabilities: by sigmoids of independent labels, else softmax.

        A regression has none. Without a ``problem_type`` the activation that a cross-encoder
        records decides, and a single output is a score, as transformers trains it.
        """
        # Nothing else tells: logits of independent labels look like those of classes.
        links: dict[str, Link] = {"multi_label_classification": "sigmoid", "regression": "none"}
        config, several = self.network.config, len(self.network.config.id2label) > 1
        kind = getattr(config, "problem_type", None)
        if kind is None:
            unnamed: Link = "softmax" if several else "none"
            link = "sigmoid" if _activation(config) == "Sigmoid" else unnamed
        else:
            link = links.get(str(kind), "softmax")
        # One independent label has two classes: it and "not" it.
        return "softmax" if link == "sigmoid" and not several else link

    @property
    def notices(self) -> tuple[str, ...]:
        """What a reader must know of every result: what the network was seen to do, its scale."""
        config = self.network.config
        named = getattr(config, "problem_type", None) or _activation(config)
        if named or len(config.id2label) > 1:
            return self.check.notices
        return (*self.check.notices, _ONE_OUTPUT)

    @cached_property
    def capabilities(self) -> Mapping[Capability, str | None]:
        """What the network shows, as far as it was seen to."""
        # What was seen wins over what the family usually has.
        seen = {**self._usual_capabilities, **self._head.capabilities, **self.check.refused}
        return seen if self.window is None else seen | {"hidden_states": _NO_WINDOWED_STATES}

    @property
    def is_exclusive(self) -> bool:
        """Whether the model predicts one of its classes."""
        return self.link not in _NO_CHOICE

    @property
    def max_tokens(self) -> int | None:
        """How many pieces a window may have, special ones included."""
        return None if "max_tokens" in self.limitations else self.limit

    @property
    def reads_pairs(self) -> bool:
        """Whether the model reads tuples of two texts."""
        return "reads_pairs" not in self.limitations

    @property
    def limitations(self) -> Mapping[Property, str]:
        """Why the model lacks a property."""
        reasons: dict[Property, str] = {}
        if not self.is_exclusive:
            reasons["is_exclusive"] = _NO_CHOICE[self.link]
        if why := getattr(self.tokenizer, "why_no_pairs", ""):
            reasons["reads_pairs"] = why
        return {**reasons, **self._head.limitations, **(_IN_WINDOWS if self.window else {})}

    @cached_property
    def check(self) -> selfcheck.NetworkCheck:
        """What a few calls showed about the network."""
        self._forward.renew()
        return selfcheck.checked_network(
            self.network, self._example_ids, self._tokens, asked=self._forward
        )

    @property
    def _example_ids(self) -> selfcheck.ExampleIds:
        example = selfcheck.example_ids(self.network, self.tokenizer, self.limit)
        self._check_ids(example.ids)
        return example

    @property
    def fingerprint(self) -> str:
        """SHA-256 of weights, configuration, tokenizer and how texts are read, as they are now."""
        read = json.dumps(self.identity, sort_keys=True)
        return hashlib.sha256((self._fingerprint() + read).encode()).hexdigest()

    @property
    def identity(self) -> dict[str, Any]:
        """What changes a number beside weights, configuration and the file of the tokenizer."""
        return {
            "limit of tokens": self.limit,
            "tokens of replacements": self._tokens,
            "tokens of an empty text": [
                getattr(self.tokenizer, f"{name}_token_id", None) for name in ("bos", "eos", "pad")
            ],
            "side that is cut": str(getattr(self.tokenizer, "truncation_side", None)),
            "segments of pairs": "token_type_ids" in self.tokenizer.model_input_names,
        }

    @cached_property
    def _fingerprint(self) -> NetworkFingerprint:
        return NetworkFingerprint(self.network, self.tokenizer)

    @cached_property
    def limit(self) -> int:
        """How many pieces the model reads, special ones included."""
        return longest_input(self.network, self.tokenizer)

    @property
    def _head(self) -> Any:
        """The network with another head, or what a classifier without one has instead."""
        return self.network if isinstance(self.network, AnotherHead) else AnotherHead

    @property
    def generation_settings(self) -> Mapping[str, Any]:
        """How it writes an answer that is not given."""
        return {"max_new_tokens": self.network.max_new_tokens}

    def announce_calls(self, calls: int) -> None:
        """Calls of a model in memory cost nothing that must be said."""

    def generate(self, text: UserInput) -> Answer:
        """Return what the model writes after a text, the likeliest token each time."""
        model_input = self.read(text)
        with self._naming(model_input):
            return self._head.written(*rows_read(model_input), self.tokenizer, self.limit)

    def with_classes(self, names: Collection[Any]) -> "HuggingFace":
        """Return a tagger whose classes are its tags where one of the ``names`` is no type."""
        tags = self.network.tags if self.network.types else ()
        return self._by_tag if any(n in tags and n not in self.classes for n in names) else self

    @cached_property
    def _by_tag(self) -> "HuggingFace":
        # Once: what is seen of a network is kept with its model, and takes some calls.
        head = PlaceForSequenceClassification(self.network.network, types=False)
        return replace(self, network=head)

    def spans(self, text: UserInput, *, first_pieces: bool = False) -> tuple[Place, ...]:
        """Return the spans that a tagger finds, or the answer in the passage of a pair."""
        head: PlaceForSequenceClassification = self.network
        model_input = self.read(text)
        with self._naming(model_input):
            return head.spans(model_input, first_pieces=first_pieces)

    def read(
        self, text: UserInput, *, asked: tuple[Any, ...] = (), pieces: bool = False
    ) -> ModelInput:
        """Return a text or a pair in the tokenizer's words, or in its ``pieces``.

        What is ``asked`` are places of it, or with a language model parts of an answer.
        """
        if self.window is not None:
            return self._in_windows(text, self.window, pieces=pieces)
        limit = self.limit
        if isinstance(self.network, AnswerForSequenceClassification):
            limit = self.network.room(limit, asked, self.tokenizer)
        (model_input,) = self._documents([text], limit=limit, pieces=pieces)
        if asked:
            model_input = self.network.asking(model_input, asked, self.tokenizer, self.limit)
            self._check_ids(model_input.input.ids)
        return model_input

    def read_together(
        self, texts: Sequence[UserInput], *, pieces: bool = False
    ) -> Iterator[ModelInput]:
        """Yield texts as ``read`` returns them; the tokenizer is called once for many."""
        return self._documents(texts, limit=self.limit, pieces=pieces)

    def _documents(
        self, texts: Sequence[UserInput], *, limit: int, pieces: bool
    ) -> Iterator[ModelInput]:
        classes, if_cut = self.classes, self._head.if_cut
        for text, read in zip(texts, self._pieces(texts, limit=limit, apart=pieces), strict=True):
            model_input = document_of(self.tokenizer, text, *read, classes=classes, if_cut=if_cut)
            yield replace(model_input, notices=model_input.notices + self.notices)

    def _pieces(
        self, texts: Sequence[UserInput], *, limit: int, apart: bool = False
    ) -> Iterator[tuple[Pieces, list[Span]]]:
        """Yield the pieces of each text, and where its words stand."""
        for start in range(0, len(texts), _TOGETHER):
            some = texts[start : start + _TOGETHER]
            found: Sequence[Any] = [None] * len(some)
            if len(some) > 1 and {type(text) for text in some} in ({str}, {tuple}):
                with contextlib.suppress(InputError):  # of one of them: whoever reads that is told
                    found = encodings(self.tokenizer, some)
            for text, own in zip(some, found, strict=True):
                read = pieces_of(self.tokenizer, text, limit=limit, apart=apart, encoding=own)
                self._check_ids(read[0].ids)
                yield read

    def _in_windows(self, text: Any, size: int, *, pieces: bool) -> ModelInput:
        """Return all of a text, and its windows with the model's outputs there."""
        whole, spans = in_windows(self.tokenizer, text, size, apart=pieces)
        rows = [part.row for part in whole.input]
        self._check_ids(np.concatenate(rows))
        windows = Windows(size, spans, self._outputs_of(rows))
        return replace(whole, windows=windows, notices=whole.notices + self.notices)

    def _check_ids(self, ids: Int[np.ndarray, " _"]) -> None:
        """Refuse tokens that the embedding does not know; not every network has one table."""
        rows = forward.embedding_rows(self.network)
        most = int(forward.plain_ids(ids).max(initial=0))
        if rows is not None and most >= rows:
            token = self.tokenizer.convert_ids_to_tokens(most)
            raise InputError(
                f"the tokenizer reads {token!r} as the token {most}, but the embedding of the "
                f"model has {rows} rows; load the tokenizer that belongs to the model."
            )

    def outputs(self, inputs: Sequence[ModelInput]) -> Float[np.ndarray, "n C"]:
        """Return the outputs for texts that the model has read."""
        if self.window is not None and inputs:  # reading found them
            return np.array([cast(Windows, one.windows).outputs.mean(axis=0) for one in inputs])
        return self._outputs_of([row for model_input in inputs for row in rows_read(model_input)])

    def logits(self, texts: Sequence[Any]) -> Float[np.ndarray, "n C"]:
        """Return the outputs of the model for every text, cut to its window.

        What is not a text is refused here, with its number, and not by a type checker.
        """
        if self.window is not None:
            return self.outputs([self.read(text) for text in texts])
        check_listed(texts)
        rows = [one.row[one.inside] for one, _ in self._pieces(texts, limit=self.limit)]
        # Not every tokenizer puts something around an empty text.
        none = np.array([self._nothing])
        return self._outputs_of([row if len(row) else none for row in rows])

    def _outputs_of(self, rows: list[Any]) -> Float[np.ndarray, "n C"]:
        if not rows:
            return np.empty((0, len(self.network.config.id2label)))
        if self._head.unasked and not all(forward.is_marked(row).any() for row in rows):
            # Else the head would answer as it does when a network is looked at: about any place.
            raise InputError(self._head.unasked)
        self._forward.renew()
        return self.engine(rows)

    def predict_proba(self, texts: Sequence[UserInput]) -> Float[np.ndarray, "n classes"]:
        """Return the probability of every class for every text."""
        return class_probabilities(self.logits(texts), self.link)

    @property
    def replacements(self) -> tuple[str, ...]:
        """What may stand for a removed word: the mask token if any, unknown, nothing, padding."""
        usable = {"delete", *self._tokens} - set(self.check.unusable_replacements)
        return tuple(one for one in self._head.removals if one in usable)

    @property
    def unusable_replacements(self) -> Mapping[str, str]:
        """Replacements that the network would have if it could read them, and why it cannot."""
        return self.check.unusable_replacements

    @property
    def _tokens(self) -> dict[str, int]:
        """Tokens that may stand in the place of another, by name."""
        pad, unknown = self.network.config.pad_token_id, self.tokenizer.unk_token_id
        # Decoders read the last piece that is not padding: one that is both moves the head.
        unknown = None if unknown == pad else unknown
        known = {"mask": self.tokenizer.mask_token_id, "unk": unknown, "pad": pad}
        return {name: int(token) for name, token in known.items() if token is not None}

    def game(self, model_input: ModelInput, features: Features, replacement: str) -> Game:
        """Return the outputs for each mask; all pieces of a removed word are replaced."""
        # Once for a game, not for every mask: each weight is looked at.
        self._forward.renew()
        games = [self._game(part, features, replacement) for part in windows_in(model_input)]
        if model_input.windows is None:
            return games[0]

        def mean(keep: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, "n C"]:
            # Progress counts masks, and each of them is a call in every window.
            with split_calls(len(games)):
                return np.mean([game(keep) for game in games], axis=0)

        return mean

    def _game(self, pieces: Pieces, features: Features, replacement: str) -> MaskedText:
        feature = feature_of_piece(pieces, features)
        leaves = replacement not in ("delete", "pad")
        if not leaves and (feature[forward.is_marked(pieces.row)] >= 0).any():
            raise InputError(
                f"with protect_span=False the words that are asked about are removed, and "
                f"{replacement!r} leaves nothing in their place; use replacement='mask' or 'unk', "
                "if the model has one, or protect the span."
            )
        other = None
        if replacement != "delete":  # a piece that becomes padding is masked out, others are not
            other = self._tokens[replacement] if leaves else MASKED_OUT
        return MaskedText(
            engine=self.engine,
            forward=self._forward,
            pieces=pieces,
            feature=feature,
            other=other,
            nothing=self._nothing if other is None else 0,
        )

    def token_positions(self, model_input: ModelInput) -> Int[np.ndarray, " T"]:
        """Return the token at every position of the input, -1 at special pieces."""
        return np.concatenate([pieces.token[pieces.inside] for pieces in windows_in(model_input)])

    def attention(self, model_input: ModelInput, weigh: Weigh | None = None) -> Iterator[Attention]:
        """Yield the attention of all layers, and with ``weigh`` the gradient with respect to it.

        In full precision, whatever the engine uses.
        """
        rows, slopes = rows_read(model_input), cast(Slopes | None, weigh)
        if weigh is not None and model_input.windows is not None:
            mean = model_input.windows.outputs.mean(axis=0, keepdims=True)
            slopes = weigh(mean) / len(rows)
        # One window at a time: the attention of each head has T² numbers.
        for row in rows:
            with self._naming(model_input):
                found = layers.attended(self.network, row, slopes)
            yield found

    def embedded(
        self, model_input: ModelInput, features: Features | None = None, replacement: str = ""
    ) -> Float[np.ndarray, "T d_e"]:
        """Return the embedded pieces, those of ``features`` replaced."""
        rows = rows_read(model_input)
        if features is not None:
            rows = self._moved(model_input, features, replacement)
        with self._naming(model_input):
            return np.concatenate([gradients.embedded(self.network, row) for row in rows])

    def _moved(self, model_input: ModelInput, features: Features, replacement: str) -> list[Any]:
        # A token that the network cannot read was withdrawn, and is no place to start from.
        tokens = {name: i for name, i in self._tokens.items() if name in self.replacements}
        return [ids_moved(one, features, tokens, replacement) for one in windows_in(model_input)]

    def frozen_gradient(self, model_input: ModelInput, points: Points, weigh: Slopes) -> Gradients:
        """Return the gradient at embedded ``points`` of the network with frozen weights."""
        return self.gradients(model_input, points, weigh, frozen=True)

    def gradients(
        self, model_input: ModelInput, points: Points, weigh: Slopes, *, frozen: bool = False
    ) -> Gradients:
        """Return the gradient of the explained number at embedded ``points``.

        In one window after the other: graphs of all may not fit.
        """
        rows = rows_read(model_input)
        ends = np.cumsum([len(row) for row in rows])[:-1]
        parts = list(zip(rows, np.split(points, ends, axis=1), strict=True))
        with self._naming(model_input):
            if (
                model_input.windows is not None
            ):  # ∂F/∂g_w = weigh(f)/W needs f: all outputs come first
                found = [gradients.outputs_at(self.network, row, here) for row, here in parts]
                slopes = weigh(np.mean(found, axis=0)) if callable(weigh) else weigh
                weigh = slopes / len(parts)
            each = [
                gradients.differentiated(self.network, row, here, weigh, frozen=frozen)
                for row, here in parts
            ]
        return Gradients(
            np.concatenate([one.gradient for one in each], axis=1),
            np.mean([one.outputs for one in each], axis=0),
        )

    @property
    def documents_per_batch(self) -> int:
        """How many texts or images are differentiated at a time."""
        # A core gains nothing by more than one.
        several = forward.takes_batches(self.network) and self.network.device.type == "cuda"
        return _TOGETHER if several else 1

    def frozen_times_input(
        self, inputs: Sequence[ModelInput], weights: Float[np.ndarray, "n C"]
    ) -> InputProducts:
        """Return the gradient of the network with frozen weights times its embedded input."""
        return gradients.frozen_times_input(self.network, inputs, weights, self.engine)

    def hidden_states(
        self, inputs: Sequence[ModelInput], features: Sequence[Features]
    ) -> HiddenStates:
        """Return the states of all features at three layers, and the outputs, in one pass.

        Where something is asked of the documents, also the attention of the places that say it.
        """
        self._forward.renew()
        owners = [
            np.append(own.of_token, -1)[self.token_positions(model_input)]
            for model_input, own in zip(inputs, features, strict=True)
        ]
        asked = any(model_input.asked for model_input in inputs)
        return layers.signals(
            self._forward,
            self.engine,
            [row for model_input in inputs for row in rows_read(model_input)],
            owners,
            [len(own) for own in features],
            reads=self._head.reads or self.check.reads,
            attends=asked and "attention" not in self.check.refused,
        )

    def _naming(self, model_input: ModelInput) -> AbstractContextManager[None]:
        return naming(forward.network_name(self.network), model_input.text)

    def in_windows(self, window: str | int) -> "HuggingFace":
        """Return this model for whole texts, which it reads in windows of that many tokens."""
        size = self.limit if window == "auto" else window
        # True would pass for a window of one.
        if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= self.limit:
            raise InputError(
                f"window must be 'auto' or a number of tokens up to {self.limit}, all that this "
                f"model reads; got {window!r}."
            )
        same = copy.copy(self)  # with what was seen of the network, and is not looked at again
        vars(same)["window"] = size
        vars(same).pop("capabilities", None)  # which depend on the window
        return same

    def shuffle_weights(self, seed: int) -> "HuggingFace":
        """Return a copy of the model in which every weight holds its own numbers in random places.

        The sizes of the weights stay what they were, so the network answers numbers of the usual
        size, which fresh weights need not do. Weights that layers share stay shared.
        """
        with forward.alone_with(self.network):
            twin = copy.deepcopy(self.network)
        drawn = torch.Generator().manual_seed(seed)  # on the host: the same on every device
        with torch.no_grad():
            for weight in twin.parameters():
                if weight.is_floating_point():
                    places = torch.randperm(weight.numel(), generator=drawn).to(weight.device)
                    weight.copy_(weight.flatten()[places].reshape(weight.shape))
        # With nothing of what was seen: a shuffled network is looked at anew.
        return replace(self, network=twin)

    @cached_property
    def _nothing(self) -> int:
        """What stands in a row for a text of no pieces: a token that begins or ends others."""
        writes = isinstance(self.network, AnswerForSequenceClassification)
        sources = (self.tokenizer, self.network.config) if writes else (self.tokenizer,)
        # The padding last: decoders look for the last piece that is not padding.
        names = ("bos", "eos") if writes else ("bos", "eos", "pad")
        choices = [getattr(one, f"{name}_token_id", None) for name in names for one in sources]
        known = [int(np.atleast_1d(one)[0]) for one in choices if one is not None]
        if writes and not known and not next(self._pieces(["a"], limit=self.limit))[0].text.start:
            raise InputError(
                "an answer is written after a token at least; this model has none that begins or "
                "ends a text (bos, eos), so put words into the template before {text}."
            )
        segment = np.array(int(names_types(self.tokenizer)))
        return int(forward.with_segments(np.array(known[0] if known else 0), segment, 0))

    @cached_property
    def engine(self) -> Engine:
        """The one way to the model's outputs."""
        return Engine(
            self._answers,
            size=lambda row: int(row.size),
            key=lambda row: row.tobytes(),
            budget=self.positions.get(self.network.device.type, 1024),
            most=4096 if forward.takes_batches(self.network) else 1,
            alike=self.check.alike,
        )

    @cached_property
    def _forward(self) -> ForwardPass:
        return ForwardPass(
            self.network,
            half=self.half,
            shown=self._shown,
            example=lambda: self._example_ids.ids[None],
        )

    def _answers(self, rows: list[Any]) -> Float[np.ndarray, "n C"]:
        groups = [rows] if forward.takes_batches(self.network, rows) else [[row] for row in rows]
        return np.concatenate([self._forward(forward.rectangle(some)) for some in groups])

    def _shown(self, ids: Int[np.ndarray, " _"]) -> str:
        with forward.restoring_tokenizer(self.tokenizer):
            return str(self.tokenizer.decode(forward.plain_ids(ids)))
