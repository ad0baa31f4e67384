"""Sequence classifiers of the transformers library."""

__all__ = ["HuggingFace"]

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, final

import numpy as np

from limelight.errors import InputError
from limelight.models.engine import Engine
from limelight.models.hugging_face.attention_rows import attended
from limelight.models.hugging_face.embedded_input import differentiated, embedded, outputs_at
from limelight.models.hugging_face.forward_pass import PADDING, ForwardPass, padded
from limelight.models.hugging_face.frozen_network import frozen_gradient, why_not_frozen
from limelight.models.hugging_face.masked_pieces import deleted, replaced
from limelight.models.hugging_face.masked_text import MaskedText
from limelight.models.hugging_face.network_fingerprint import NetworkFingerprint
from limelight.models.hugging_face.pieces import feature_of_piece, ids_read, pieces_in
from limelight.models.hugging_face.shuffled_network import shuffled_network
from limelight.models.hugging_face.word_pieces import document_of, pieces_of
from limelight.models.probabilities import class_probabilities
from limelight.models.protocol import Attended, Capability, Differentiated, Link, Weigh
from limelight.sampling import Game
from limelight.shapes import Float, Int
from limelight.text import Document, Features, few_names

_UNNAMED = "LABEL_0"  # what transformers calls an output that nobody named
_CAPABILITIES: Mapping[Capability, str | None] = {
    "attends": None,
    "differentiates": None,
    "pieces": None,
    "cuts": None,
    "shuffles": None,
    "collapses": "the layers of a deep network do not",
}
# Pieces in a batch, to begin with. A core is busy with few, and few of alike length pad little.
_BUDGET = {"cpu": 1024, "cuda": 262_144}


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class HuggingFace:
    """A sequence classifier with its fast tokenizer, which it never changes.

    On a graphics card its outputs are computed in half precision, unless ``half`` says no.
    """

    network: Any
    tokenizer: Any
    half: bool = True

    def __post_init__(self) -> None:
        if not getattr(self.tokenizer, "is_fast", False):
            raise InputError(
                "a model needs its fast tokenizer, which knows the place of every word; got "
                f"{type(self.tokenizer).__name__}. Pass tokenizer=AutoTokenizer.from_pretrained(…)."
            )
        kinds = type(self.network).__mro__  # somebody's own class may stand on one of the library's
        if not hasattr(self.network.config, "id2label") or not any(
            "SequenceClassification" in kind.__name__ for kind in kinds
        ):
            raise InputError(
                "the model must be a sequence classifier (…ForSequenceClassification); got "
                f"{type(self.network).__name__}."
            )

    def __repr__(self) -> str:
        network = type(self.network).__name__
        return f"<HuggingFace {network} of {few_names(self.classes)} on {self.network.device}>"

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes; of a single output, the second's is the label.

        A regression has names of scores instead, which may be one. Classes of the same name are
        told apart by their numbers.
        """
        labels = self.network.config.id2label
        named = tuple(str(labels[i]) for i in sorted(labels))
        if len(named) > 1:
            return _apart(named)
        if self.link == "none":
            return ("score",) if named[0] == _UNNAMED else named
        return f"not {named[0]}", named[0]

    @property
    def link(self) -> Link:
        """How outputs become probabilities: by sigmoids where labels are independent, else softmax.

        A regression has none.
        """
        links: dict[str, Link] = {"multi_label_classification": "sigmoid", "regression": "none"}
        return links.get(str(getattr(self.network.config, "problem_type", None)), "softmax")

    @property
    def capabilities(self) -> Mapping[Capability, str | None]:
        """What the network shows; what it predicts follows from its configuration."""
        chooses = None
        if self.link == "none":
            chooses = "this one predicts scores and does not choose among them"
            if len(self.classes) == 1:
                chooses = "this one predicts a score and not a class"
        elif self.link == "sigmoid":
            chooses = "each label of this one is a yes or no of its own"
        own = {"chooses": chooses, "freezes": self._why_not_frozen}
        return MappingProxyType({**_CAPABILITIES, **own})

    @cached_property
    def _why_not_frozen(self) -> str | None:
        return why_not_frozen(self)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of configuration and weights, as they are now."""
        return self._fingerprint()

    @cached_property
    def _fingerprint(self) -> NetworkFingerprint:
        return NetworkFingerprint(self.network)

    @cached_property
    def limit(self) -> int:
        """How many pieces the model reads, special ones included."""
        longest = [int(self.tokenizer.model_max_length)]
        if (places := getattr(self.network.config, "max_position_embeddings", None)) and places > 0:
            # RoBERTa counts places from after the index of the padding.
            offsets = [
                module.padding_idx + 1
                for name, module in self.network.named_modules()
                if name.endswith("position_embeddings")
                and getattr(module, "padding_idx", None) is not None
            ]
            longest.append(places - max(offsets, default=0))
        return min(longest)

    def read(self, text: str, *, pieces: bool = False) -> Document:
        """Return ``text`` in the tokenizer's words, or in its ``pieces``."""
        return document_of(self.tokenizer, text, limit=self.limit, apart=pieces)

    def outputs(self, documents: Sequence[Document]) -> Float[np.ndarray, "n C"]:
        """Return the outputs for texts that the model has read."""
        return self._outputs_of([ids_read(document) for document in documents])

    def logits(self, texts: Sequence[Any]) -> Float[np.ndarray, "n C"]:
        """Return the outputs of the model for every text, cut to its window.

        What is not a text is refused here, with its number, and not by a type checker.
        """
        if isinstance(texts, str):
            raise InputError("logits takes a list of texts; got one string. Write [text].")
        for i, text in enumerate(texts):
            if not isinstance(text, str):
                raise InputError(f"text {i} must be a string; got {type(text).__name__}.")
        pieces = [pieces_of(self.tokenizer, text, limit=self.limit)[0] for text in texts]
        return self._outputs_of([p.ids[p.inside] for p in pieces])

    def _outputs_of(self, rows: list[Int[np.ndarray, " _"]]) -> Float[np.ndarray, "n C"]:
        if not rows:
            return np.empty((0, len(self.network.config.id2label)))
        self._forward.renew()
        return self.engine(rows)

    def predict_proba(self, texts: Sequence[str]) -> Float[np.ndarray, "n classes"]:
        """Return the probability of every class for every text."""
        return class_probabilities(self.logits(texts), self.link)

    @property
    def replacements(self) -> tuple[str, ...]:
        """What may stand for a removed word: the mask token if any, unknown, nothing, padding."""
        usable = {"delete", *self._tokens}
        return tuple(one for one in ("mask", "unk", "delete", "pad") if one in usable)

    @property
    def _tokens(self) -> dict[str, int]:
        """Tokens that may stand in the place of another, by name."""
        pad, unknown = self.network.config.pad_token_id, self.tokenizer.unk_token_id
        known = {
            "mask": self.tokenizer.mask_token_id,
            # Decoders read the last piece that is not padding: one that is both moves the head.
            "unk": None if unknown == pad else unknown,
            "pad": pad,
        }
        return {name: int(token) for name, token in known.items() if token is not None}

    def game(self, document: Document, features: Features, replacement: str) -> Game:
        """Return the outputs for each mask; all pieces of a removed word are replaced."""
        self._forward.renew()
        pieces = pieces_in(document)
        if replacement == "delete":
            masked = deleted(pieces, features, nothing=self._nothing)
        else:  # a piece that becomes padding is masked out; any other token is attended to
            other = PADDING if replacement == "pad" else self._tokens[replacement]
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
        yield attended(self.network, ids_read(document), weigh)

    def embedded(
        self, document: Document, features: Features | None = None, replacement: str = ""
    ) -> Float[np.ndarray, "T d_e"]:
        """Return the embedded pieces, those of ``features`` replaced."""
        ids = ids_read(document)
        if features is not None:
            tokens = self._tokens
            if replacement not in tokens:
                named = " or ".join(map(repr, tokens))
                raise InputError(
                    "integrated gradients move every word to a token in its own place; "
                    + (f"use replacement {named}." if named else "use 'gxi' or 'lime'.")
                )
            pieces = pieces_in(document)
            feature = feature_of_piece(pieces, features)[pieces.inside]
            ids = np.where(feature >= 0, tokens[replacement], ids)
        return embedded(self.network, ids)

    def differentiated(
        self,
        document: Document,
        points: Float[np.ndarray, "n T d_e"],
        weigh: Weigh | Float[np.ndarray, "n C"],
    ) -> Differentiated:
        """Return the gradient of the explained number at embedded ``points``."""
        return differentiated(self.network, ids_read(document), points, weigh)

    def frozen_gradient(
        self,
        document: Document,
        points: Float[np.ndarray, "n T d_e"],
        weigh: Weigh | Float[np.ndarray, "n C"],
    ) -> Differentiated:
        """Return the gradient at embedded ``points`` of the network with frozen weights."""
        return frozen_gradient(self.network, ids_read(document), points, weigh)

    def outputs_at(
        self, document: Document, points: Float[np.ndarray, "n T d_e"]
    ) -> Float[np.ndarray, "n C"]:
        """Return the outputs at embedded ``points``."""
        return outputs_at(self.network, ids_read(document), points)

    def in_windows(self, window: str | int) -> Any:
        """Return this model for whole texts, which it reads in windows of that many tokens."""
        from limelight.models.hugging_face.windowed import windowed  # it is made of this class

        return windowed(self, window)

    def shuffled(self, seed: int) -> "HuggingFace":
        """Return a copy of the model with the numbers of every weight in random places."""
        return HuggingFace(network=shuffled_network(self.network, seed), tokenizer=self.tokenizer)

    @cached_property
    def engine(self) -> Engine:
        """The one way to the model's outputs."""
        # Heads that look for the last piece refuse batches if they do not know the padding.
        alone = self.network.config.pad_token_id is None
        return Engine(
            lambda rows: self._forward(padded(rows, nothing=self._nothing)),
            size=len,
            key=lambda ids: ids.tobytes(),
            budget=_BUDGET.get(self.network.device.type, 1024),
            most=1 if alone else 4096,
        )

    @property
    def _nothing(self) -> int:
        """What stands for a text of no pieces at all: the token that begins or ends others."""
        tokens = self.tokenizer
        choices = (tokens.bos_token_id, tokens.eos_token_id, tokens.pad_token_id, 0)
        return next(int(token) for token in choices if token is not None)

    @cached_property
    def _forward(self) -> ForwardPass:
        return ForwardPass(self.network, half=self.half)


def _apart(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{name} #{i}" if names.count(name) > 1 else name for i, name in enumerate(names))
