"""Sequence classifiers of the transformers library."""

import contextlib
import copy
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from limelight.errors import InputError
from limelight.models.engine import Engine, naming
from limelight.models.hugging_face.answers import (
    AnswerForSequenceClassification,
    answering,
    written_answer,
)
from limelight.models.hugging_face.attention import attended
from limelight.models.hugging_face.forward import (
    MASKED_OUT,
    ForwardPass,
    NetworkFingerprint,
    alone_with,
    embedding_rows,
    is_marked,
    network_name,
    plain_ids,
    rectangle,
    restoring_tokenizer,
)
from limelight.models.hugging_face.gradients import differentiated, embedded, outputs_at
from limelight.models.hugging_face.lrp import (
    FrozenWeights,
    NotAffineError,
    check_affine,
    frozen_times_input,
    frozen_together,
)
from limelight.models.hugging_face.masking import (
    MaskedText,
    check_asked_stay,
    deleted,
    ids_moved,
    nothing_token,
    replaced,
    replacement_tokens,
)
from limelight.models.hugging_face.pieces import (
    SPAN_CUT,
    WINDOWS,
    document_of,
    encodings,
    ids_read,
    longest_input,
    pieces_in,
    pieces_of,
)
from limelight.models.hugging_face.selfcheck import NetworkCheck, checked_network, example_ids
from limelight.models.hugging_face.signals import signals
from limelight.models.hugging_face.tags import (
    PlaceForSequenceClassification,
    answer_spans,
    marked,
    tagged_spans,
)
from limelight.models.protocol import (
    Attended,
    Capability,
    Differentiated,
    Link,
    Points,
    Signalled,
    Slopes,
    TimesInput,
    Weigh,
    class_probabilities,
)
from limelight.sampling.sample import Game
from limelight.shapes import Float, Int
from limelight.text import (
    Answer,
    Document,
    Features,
    Given,
    Place,
    check_listed,
    features_of,
    few_names,
)

_CAPABILITIES: Mapping[Capability, str | None] = {
    "attends": None,
    "relays": None,
    "differentiates": None,
    "pieces": None,
    "cuts": None,
    "shuffles": None,
    "collapses": "the layers of a deep network do not",
    "games": "the layers of a deep network mix its words",
}
_EXAMPLE = "one or two words"  # any text shows what a network is made of
_UNNAMED = "LABEL_0"  # what transformers calls an output that nobody named
_TOGETHER = 256  # texts that the tokenizer is given at a time
# Pieces in a batch, to begin with. A core is busy with few, and few of alike length pad little.
_BUDGET = {"cpu": 1024, "cuda": 262_144}


@dataclass(frozen=True, kw_only=True, eq=False)
class HuggingFace:
    """A sequence classifier with its fast tokenizer, which it never changes.

    On a graphics card its outputs are computed in half precision, unless ``half`` says no.
    """

    network: Any
    tokenizer: Any
    half: bool = True

    def __post_init__(self) -> None:
        check_parts(self.network, self.tokenizer)

    def __repr__(self) -> str:
        own, network = type(self).__name__, network_name(self.network)
        return f"<{own} {network} of {few_names(self.classes)} on {self.network.device}>"

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes; of a single output, the second's is the label.

        The first is then called what the configuration says it is (``other_label``), else "not"
        the second. A regression has names of scores instead, which may be one. Classes of the same
        name are told apart by their numbers.
        """
        config = self.network.config
        named = tuple(str(config.id2label[i]) for i in sorted(config.id2label))
        if len(named) > 1:
            return tuple(f"{n} #{i}" if named.count(n) > 1 else n for i, n in enumerate(named))
        if self.link == "none":
            return ("score",) if named[0] == _UNNAMED else named
        return str(getattr(config, "other_label", f"not {named[0]}")), named[0]

    @property
    def numbers(self) -> tuple[int, ...] | None:
        """The number of each class by ``id2label``, None where the network has not learned any.

        A single output is that of number 1; of a language model the labels were given names here.
        """
        config = self.network.config
        if self.link == "none" or hasattr(config, "next_token") or self._asked_at is not None:
            return None
        return tuple(sorted(config.id2label)) if len(config.id2label) > 1 else (0, 1)

    @property
    def link(self) -> Link:
        """How outputs become probabilities: by sigmoids of independent labels, else softmax.

        A regression has none.
        """
        links: dict[str, Link] = {"multi_label_classification": "sigmoid", "regression": "none"}
        return links.get(str(getattr(self.network.config, "problem_type", None)), "softmax")

    @property
    def capabilities(self) -> Mapping[Capability, str | None]:
        """What the network shows, as far as it was seen to; its configuration says the rest."""
        # What was seen wins over what the family usually has.
        refused = self.check.refused
        chooses = None
        if self.link == "sigmoid":
            chooses = "each label of this one is a yes or no of its own"
        elif self.link == "none":
            one = len(self.classes) == 1
            many = "this one predicts scores and does not choose among them"
            chooses = "this one predicts a score and not a class" if one else many
        own: dict[Capability, str | None] = {
            "chooses": chooses,
            "freezes": refused.get("differentiates") or self._why_not_frozen,
            "pairs": getattr(self.tokenizer, "why_no_pairs", None),
            "spans": "this one classifies whole texts",
            "answers": "this one classifies texts and writes nothing",
            "signals": self._why_no_signals,
        }
        if (head := self._asked_at) is not None:
            own["spans"] = None
            own["cuts"] = "this one is asked about a place in what it reads of a text"
            if head.types:
                own["pairs"] = "a tagger reads one text"
        if self._writes is not None:
            own["answers"], own["spans"] = None, "this one writes an answer"
            own["cuts"] = "an answer is written after one text, not after the windows of one"
        return MappingProxyType({**_CAPABILITIES, **own, **refused})

    @cached_property
    def _why_not_frozen(self) -> str | None:
        """None where all weights can be frozen, else why not: found by freezing them once."""
        try:
            document = self.read(self._example)
            self.frozen_gradient(document, self.embedded(document)[None], np.ones_like)
        except NotAffineError as error:
            return str(error).partition(";")[0]
        except Exception:  # no gradients at all: whoever asks for them is told why
            return None
        return None

    @property
    def _example(self) -> Given:
        return _EXAMPLE

    @cached_property
    def _why_no_signals(self) -> str | None:
        try:
            document = self.read(self._example)
            unit = "words" if document.picture is None else "patches"
            self.signals([document], [features_of(document, unit)])
        except Exception as error:  # whatever it is, nothing can be learned from such states
            return str(error).partition(";")[0].rstrip(".")
        return None

    @cached_property
    def _reads(self) -> str:
        """What the head reads, as :func:`signals` names it."""
        if self._asked_at is not None:
            return "marked"
        if self._writes is not None:
            return "before"
        try:
            (found,) = self.attended(self.read(self._example))
        except InputError:
            return "mean"
        return {0: "first", len(found.reads) - 1: "last"}.get(
            int(found.reads.argmax()) if found.reads.max() == 1 else -1, "mean"
        )

    @cached_property
    def check(self) -> NetworkCheck:
        """What a few calls showed about the network."""
        self._forward.renew()
        example = example_ids(self.network, self.tokenizer, self.limit)
        return checked_network(self.network, example, self._tokens, asked=self._forward)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of weights, configuration and tokenizer, as they are now."""
        return self._fingerprint()

    @cached_property
    def _fingerprint(self) -> NetworkFingerprint:
        return NetworkFingerprint(self.network, self.tokenizer)

    @cached_property
    def limit(self) -> int:
        """How many pieces the model reads, special ones included."""
        return longest_input(self.network, self.tokenizer)

    @property
    def _asked_at(self) -> PlaceForSequenceClassification | None:
        """The network as one that is asked about places, None where it classifies whole texts."""
        return self.network if isinstance(self.network, PlaceForSequenceClassification) else None

    @property
    def _writes(self) -> AnswerForSequenceClassification | None:
        """The network as one that writes an answer, None where it classifies."""
        return self.network if isinstance(self.network, AnswerForSequenceClassification) else None

    @property
    def writing(self) -> Mapping[str, Any]:
        """How it writes an answer that is not given."""
        return {"max_new_tokens": self.network.max_new_tokens}

    def ahead(self, calls: int) -> None:
        """Calls of a model in memory cost nothing that must be said."""

    def written(self, text: Given) -> Answer:
        """Return what the model writes after a text, the likeliest token each time."""
        document = self.read(text)
        with self._naming(document):
            return written_answer(self.network, self.tokenizer, ids_read(document), self.limit)

    def with_classes(self, names: Collection[Any]) -> "HuggingFace":
        """Return a tagger whose classes are its tags where one of the ``names`` is no type."""
        head = self._asked_at
        tags = head.tags if head is not None and head.types else ()
        return self._by_tag if any(n in tags and n not in self.classes for n in names) else self

    @cached_property
    def _by_tag(self) -> "HuggingFace":
        head = PlaceForSequenceClassification(self.network.network, types=False)
        return replace(self, network=head)

    def spans(self, text: Given, *, first_pieces: bool = False) -> tuple[Place, ...]:
        """Return the spans that a tagger finds, or the answer in the passage of a pair."""
        head: PlaceForSequenceClassification = self.network
        document = self.read(text)
        words, places = pieces_in(document), document.tokens.spans
        with self._naming(document):
            if head.types:
                text = document.text
                return tagged_spans(head, words, places, text, first_pieces=first_pieces)
            if not document.parts:
                raise InputError(
                    "an answer is looked for in a passage; give a pair, (question, passage)."
                )
            return answer_spans(head, words, places)

    def read(self, text: Given, *, asked: tuple[Any, ...] = (), pieces: bool = False) -> Document:
        """Return a text or a pair in the tokenizer's words, or in its ``pieces``.

        What is ``asked`` are places of it, or with a language model parts of an answer.
        """
        writes = self._writes
        answer = self.tokenizer.answer_pieces(asked[0].text) if writes and asked else ([], [])
        limit = self.limit if writes is None else writes.room(self.limit, len(answer[0]))
        (document,) = self._documents([text], limit=limit, pieces=pieces)
        if asked and writes is not None:
            document = answering(
                document, asked, self.tokenizer, *answer, per_token=writes.per_token
            )
            self.check_ids(pieces_in(document).ids)
        if asked and writes is None:
            words, spans = pieces_of(self.tokenizer, text, limit=self.limit)
            tags = bool(self.network.types)
            document = marked(document, asked, words, spans, tags=tags)
        return document

    def read_together(self, texts: Sequence[Given], *, pieces: bool = False) -> Iterator[Document]:
        """Yield texts as ``read`` returns them; the tokenizer is called once for all of a kind."""
        return self._documents(texts, limit=self.limit, pieces=pieces)

    def _documents(self, texts: Sequence[Given], *, limit: int, pieces: bool) -> Iterator[Document]:
        if_cut = WINDOWS if self._asked_at is None else SPAN_CUT
        if self._writes is not None:
            if_cut = ""
        classes, found = self.classes, self._encodings(texts)
        for text, encoding in zip(texts, found, strict=True):
            document = document_of(
                self.tokenizer,
                text,
                limit=limit,
                apart=pieces,
                classes=classes,
                if_cut=if_cut,
                encoding=encoding,
            )
            self.check_ids(pieces_in(document).ids)
            yield replace(document, notices=document.notices + self.check.notices)

    def _encodings(self, texts: Sequence[Given]) -> list[Any]:
        """Return what the tokenizer makes of the texts; None where each is to be read by itself."""
        if len(texts) > 1 and {type(text) for text in texts} in ({str}, {tuple}):
            with contextlib.suppress(InputError):  # of one of them: whoever reads that is told
                return encodings(self.tokenizer, texts)
        return [None] * len(texts)

    def check_ids(self, ids: Int[np.ndarray, " _"]) -> None:
        """Refuse tokens that the embedding does not know; not every network has one table."""
        rows, most = self._rows, int(ids.max(initial=0))
        if rows is not None and most >= rows:
            token = self.tokenizer.convert_ids_to_tokens(most)
            raise InputError(
                f"the tokenizer reads {token!r} as the token {most}, but the embedding of the "
                f"model has {rows} rows; load the tokenizer that belongs to the model."
            )

    @cached_property
    def _rows(self) -> int | None:
        return embedding_rows(self.network)

    def outputs(self, documents: Sequence[Document]) -> Float[np.ndarray, "n C"]:
        """Return the outputs for texts that the model has read."""
        return self._outputs_of([ids_read(document) for document in documents])

    def logits(self, texts: Sequence[Any]) -> Float[np.ndarray, "n C"]:
        """Return the outputs of the model for every text, cut to its window.

        What is not a text is refused here, with its number, and not by a type checker.
        """
        check_listed(texts)
        rows = list[Int[np.ndarray, " _"]]()
        for start in range(0, len(texts), _TOGETHER):
            some = texts[start : start + _TOGETHER]
            for text, own in zip(some, self._encodings(some), strict=True):
                pieces, _ = pieces_of(self.tokenizer, text, limit=self.limit, encoding=own)
                self.check_ids(pieces.ids)
                rows.append(pieces.row[pieces.inside])
        return self._outputs_of(rows)

    def _outputs_of(self, rows: list[Int[np.ndarray, " _"]]) -> Float[np.ndarray, "n C"]:
        if not rows:
            return np.empty((0, len(self.network.config.id2label)))
        if (self._asked_at or self._writes) is not None and not all(
            is_marked(row).any() for row in rows
        ):
            of = ("finds spans has outputs at a place", "spans", "at")
            if self._writes is not None:
                of = ("writes has outputs for an answer", "answer", "answer")
            raise InputError(
                f"a model that {of[0]}, not of a text; ask limelight.predict for its {of[1]}, or "
                f"explain with {of[2]}=."
            )
        self._forward.renew()
        return self.engine(rows)

    def predict_proba(self, texts: Sequence[Given]) -> Float[np.ndarray, "n classes"]:
        """Return the probability of every class for every text."""
        return class_probabilities(self.logits(texts), self.link)

    @property
    def replacements(self) -> tuple[str, ...]:
        """What may stand for a removed word: the mask token if any, unknown, nothing, padding."""
        usable = {"delete", *self._tokens} - set(self.check.withdrawn)
        order = ("mask", "unk", "delete", "pad")
        if self._writes is not None:  # a sentence of unknown words is no prompt that it has seen
            order = ("delete", "mask", "unk", "pad")
        return tuple(one for one in order if one in usable)

    @property
    def withdrawn(self) -> Mapping[str, str]:
        """Replacements that the network would have if it could read them, and why it cannot."""
        return self.check.withdrawn

    @property
    def _tokens(self) -> dict[str, int]:
        """Tokens that may stand in the place of another, by name."""
        return replacement_tokens(self.network, self.tokenizer)

    def game(self, document: Document, features: Features, replacement: str) -> Game:
        """Return the outputs for each mask; all pieces of a removed word are replaced."""
        self._forward.renew()
        pieces = pieces_in(document)
        if replacement in ("delete", "pad"):
            check_asked_stay(pieces, features, replacement)
        if replacement == "delete":
            nothing = nothing_token(self.tokenizer) if self._writes is None else self._begins
            masked = deleted(pieces, features, nothing=nothing)
        else:  # a piece that becomes padding is masked out; any other token is attended to
            other = MASKED_OUT if replacement == "pad" else self._tokens[replacement]
            masked = replaced(pieces, features, other)
        return MaskedText(self.engine, self._forward, masked)

    def places(self, document: Document) -> Int[np.ndarray, " T"]:
        """Return the token at every position of the input, -1 at special pieces."""
        pieces = pieces_in(document)
        return pieces.token[pieces.inside]

    def attended(self, document: Document, weigh: Weigh | None = None) -> Iterator[Attended]:
        """Yield the attention of all layers, and with ``weigh`` the gradient with respect to it.

        In full precision, whatever the engine uses.
        """
        with self._naming(document):
            found = attended(self.network, ids_read(document), weigh)
        yield found

    def embedded(
        self, document: Document, features: Features | None = None, replacement: str = ""
    ) -> Float[np.ndarray, "T d_e"]:
        """Return the embedded pieces, those of ``features`` replaced."""
        ids = ids_read(document)
        if features is not None:
            tokens = {name: i for name, i in self._tokens.items() if name in self.replacements}
            ids = ids_moved(pieces_in(document), features, tokens, replacement)
        with self._naming(document):
            return embedded(self.network, ids)

    def differentiated(self, document: Document, points: Points, weigh: Slopes) -> Differentiated:
        """Return the gradient of the explained number at embedded ``points``."""
        with self._naming(document):
            return differentiated(self.network, ids_read(document), points, weigh)

    def frozen_gradient(self, document: Document, points: Points, weigh: Slopes) -> Differentiated:
        """Return the gradient at embedded ``points`` of the network with frozen weights."""
        with self._naming(document):
            seen = partial(check_affine, self.network)
            ids = ids_read(document)
            return differentiated(self.network, ids, points, weigh, held=FrozenWeights, seen=seen)

    @property
    def together(self) -> int:
        """How many texts are differentiated at a time."""
        return frozen_together(self.network)

    def frozen_times_input(
        self, documents: Sequence[Document], weights: Float[np.ndarray, "n C"]
    ) -> TimesInput:
        """Return the gradient of the network with frozen weights times its embedded input."""
        return frozen_times_input(self.network, documents, weights, alike=self.check.alike)

    def signals(self, documents: Sequence[Document], features: Sequence[Features]) -> Signalled:
        """Return the states of all features at three layers, and the outputs, in one pass.

        Where something is asked of the documents, also the attention of the places that say it.
        """
        self._forward.renew()
        owners = [
            np.append(own.of_token, -1)[self.places(document)]
            for document, own in zip(documents, features, strict=True)
        ]
        asked = any(document.asked for document in documents)
        return signals(
            self._forward,
            [ids_read(document) for document in documents],
            owners,
            [len(own) for own in features],
            reads=self._reads,
            attends=asked and "attends" not in self.check.refused,
            alike=self.check.alike,
        )

    def outputs_at(self, document: Document, points: Points) -> Float[np.ndarray, "n C"]:
        """Return the outputs at embedded ``points``."""
        with self._naming(document):
            return outputs_at(self.network, ids_read(document), points)

    def _naming(self, document: Document) -> AbstractContextManager[None]:
        return naming(network_name(self.network), document.text)

    def in_windows(self, window: str | int) -> Any:
        """Return this model for whole texts, which it reads in windows of that many tokens."""
        from limelight.models.hugging_face.windows import windowed  # it is made of this class

        return windowed(self, window)

    def shuffled(self, seed: int) -> "HuggingFace":
        """Return a copy of the model in which every weight holds its own numbers in random places.

        The sizes of the weights stay what they were, so the network answers numbers of the usual
        size, which fresh weights need not do. Weights that layers share stay shared.
        """
        with alone_with(self.network):
            twin = copy.deepcopy(self.network)
        drawn = torch.Generator().manual_seed(seed)  # on the host: the same on every device
        with torch.no_grad():
            for weight in twin.parameters():
                if weight.is_floating_point():
                    places = torch.randperm(weight.numel(), generator=drawn).to(weight.device)
                    weight.copy_(weight.flatten()[places].reshape(weight.shape))
        return replace(self, network=twin)

    @cached_property
    def _begins(self) -> int:
        """The token with which a prompt begins of which nothing is left."""
        sources = (self.tokenizer, self.network.config)
        choices = [
            getattr(one, f"{name}_token_id", None) for name in ("bos", "eos") for one in sources
        ]
        known = [int(np.atleast_1d(one)[0]) for one in choices if one is not None]
        if not known and not pieces_of(self.tokenizer, _EXAMPLE, limit=self.limit)[0].before:
            raise InputError(
                "an answer is written after a token at least; this model has none that begins or "
                "ends a text (bos, eos), so put words into the template before {text}."
            )
        return known[0] if known else 0

    @cached_property
    def engine(self) -> Engine:
        """The one way to the model's outputs."""
        # Heads that look for the last piece refuse batches if they do not know the padding.
        alone = self.network.config.pad_token_id is None
        return Engine(
            self._answers,
            size=len,
            key=lambda ids: ids.tobytes(),
            budget=_BUDGET.get(self.network.device.type, 1024),
            most=1 if alone else 4096,
            alike=self.check.alike,
        )

    @cached_property
    def _forward(self) -> ForwardPass:
        return ForwardPass(self.network, half=self.half, shown=self._shown)

    def _answers(self, rows: list[Int[np.ndarray, " _"]]) -> Float[np.ndarray, "n C"]:
        nothing = np.array([nothing_token(self.tokenizer)])
        return self._forward(rectangle([row if len(row) else nothing for row in rows]))

    def _shown(self, ids: Int[np.ndarray, " _"]) -> str:
        with restoring_tokenizer(self.tokenizer):
            return str(self.tokenizer.decode(plain_ids(ids)))


def check_parts(network: Any, tokenizer: Any) -> None:
    """Refuse a tokenizer that does not know its places, and a network that does not classify."""
    if not getattr(tokenizer, "is_fast", False):
        raise InputError(
            "a model needs its fast tokenizer, which knows the place of every word; got "
            f"{type(tokenizer).__name__}. Pass tokenizer=AutoTokenizer.from_pretrained(…)."
        )
    kinds = type(network).__mro__  # somebody's own class may stand on one of the library's
    if not hasattr(network.config, "id2label") or not any(
        "SequenceClassification" in kind.__name__ for kind in kinds
    ):
        raise InputError(
            "the model must be a sequence classifier (…ForSequenceClassification), or a causal "
            f"language model with template and labels; got {type(network).__name__}."
        )
