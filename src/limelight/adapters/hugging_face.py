"""Sequence classifiers of the transformers library."""

__all__ = ["HuggingFace"]

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np

from limelight.adapters.attention import attended
from limelight.adapters.engine import Engine
from limelight.adapters.insides import differentiated, embedded, outputs_at
from limelight.adapters.model import Attended, Differentiated, Weigh
from limelight.adapters.network_fingerprint import NetworkFingerprint
from limelight.adapters.passage import Passage
from limelight.adapters.untouched import untouched
from limelight.adapters.word_pieces import passage_of, pieces_of
from limelight.errors import InputError, nearest
from limelight.model import class_probabilities
from limelight.sampling import Game
from limelight.shapes import Bool, Float, Int
from limelight.text import Features

_UNNAMED = "LABEL_0"  # what transformers calls an output that nobody named
_PADDING = -1  # a place that is masked out
# Pieces in a batch, to begin with. A core is busy with few, and few of alike length pad little.
_BUDGET = {"cpu": 1024, "cuda": 131_072}


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class HuggingFace:
    """A sequence classifier with its fast tokenizer, which it never changes."""

    sees_inside: ClassVar[bool] = True

    network: Any
    tokenizer: Any

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
    def link(self) -> str:
        """The sigmoid of each output where a text may have several labels, else the softmax; none
        for a regression.
        """
        kind = str(getattr(self.network.config, "problem_type", None))
        return {"multi_label_classification": "sigmoid", "regression": "none"}.get(kind, "softmax")

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
            # RoBERTa counts places from behind the index of the padding.
            offsets = [
                module.padding_idx + 1
                for name, module in self.network.named_modules()
                if name.endswith("position_embeddings")
                and getattr(module, "padding_idx", None) is not None
            ]
            longest.append(places - max(offsets, default=0))
        return min(longest)

    def read(self, text: str, *, pieces: bool = False) -> Passage:
        """Return ``text`` in the tokenizer's words, or in its ``pieces``."""
        return passage_of(self.tokenizer, text, limit=self.limit, apart=pieces)

    def logits(self, texts: Sequence[Any]) -> Float[np.ndarray, "n C"]:
        """Return the outputs of the model for every text, cut to its window.

        What is no text is refused here, with its number, and not by a type checker.
        """
        if isinstance(texts, str):
            raise InputError("logits takes a list of texts; got one string. Write [text].")
        if not len(texts):
            return np.empty((0, len(self.network.config.id2label)))
        for i, text in enumerate(texts):
            if not isinstance(text, str):
                raise InputError(f"text {i} must be a string; got {type(text).__name__}.")
        pieces = [pieces_of(self.tokenizer, text, limit=self.limit)[0] for text in texts]
        return self.engine([p.ids[p.inside] for p in pieces])

    def predict_proba(self, texts: Sequence[str]) -> Float[np.ndarray, "n classes"]:
        """Return the probability of every class for every text."""
        return class_probabilities(self.logits(texts), self.link)

    def replacement(self, name: str) -> str:
        """Return what is put in place of a removed word: "auto" is the mask token if any."""
        usable = [*self._tokens(), "delete"]
        if name == "auto":
            return next(one for one in ("mask", "unk", "delete") if one in usable)
        if name not in usable:
            raise InputError(nearest("replacement", name, ["auto", *usable]))
        return name

    def _tokens(self) -> list[str]:
        """Names of the tokens that may stand in the place of another."""
        pad, unknown = self.network.config.pad_token_id, self.tokenizer.unk_token_id
        known = {
            "mask": self.tokenizer.mask_token_id,
            # Decoders read the last piece that is no padding: one that is both moves the head.
            "unk": None if unknown == pad else unknown,
            "pad": pad,
        }
        return [one for one, token in known.items() if token is not None]

    def replacement_id(self, name: str) -> int:
        """Return the id that stands for a removed piece."""
        tokens = self.tokenizer
        ids = {"mask": tokens.mask_token_id, "unk": tokens.unk_token_id, "pad": _PADDING}
        return int(ids[self.replacement(name)])

    def game(self, passage: Passage, features: Features, replacement: str) -> Game:
        """Return the outputs for each mask; all pieces of a removed word are replaced."""
        pieces, name = passage.own_pieces, self.replacement(replacement)
        feature = feature_of_piece(passage, features)
        if name == "delete":
            everything = np.arange(len(pieces.ids))

            def left(keep: Bool[np.ndarray, " d"]) -> Int[np.ndarray, " _"]:
                stays = everything[np.append(keep, True)[feature]]
                return pieces.ids[pieces.fitting(stays)]

            return lambda keep: self.engine([left(row) for row in keep])
        inside, other = pieces.inside, self.replacement_id(name)
        ids, feature = pieces.ids[inside], feature[inside]

        def replaced(keep: Bool[np.ndarray, " d"]) -> Int[np.ndarray, " T"]:
            return np.where(np.append(keep, True)[feature], ids, other)

        return lambda keep: self.engine([replaced(row) for row in keep])

    def attended(self, passage: Passage, weigh: Weigh | None = None) -> Iterator[Attended]:
        """Yield the attention of all layers, and with ``weigh`` the gradient with respect to it.

        In full precision, whatever the engine uses.
        """
        yield attended(self.network, _ids(passage), weigh)

    def embedded(
        self, passage: Passage, features: Features | None = None, replacement: str = "auto"
    ) -> Float[np.ndarray, "T d_e"]:
        """Return the embedded pieces, those of ``features`` replaced."""
        ids = _ids(passage)
        if features is not None:
            name = self.replacement(replacement)
            if name == "delete":
                tokens = " or ".join(map(repr, self._tokens()))
                raise InputError(
                    "integrated gradients move every word to a token in its own place; "
                    + (f"use replacement {tokens}." if tokens else "use 'gxi' or 'lime'.")
                )
            pad = self.network.config.pad_token_id
            other = pad if name == "pad" else self.replacement_id(name)
            feature = feature_of_piece(passage, features)[passage.own_pieces.inside]
            ids = np.where(feature >= 0, other, ids)
        return embedded(self.network, ids)

    def differentiated(
        self,
        passage: Passage,
        points: Float[np.ndarray, "n T d_e"],
        weigh: Weigh | Float[np.ndarray, "n C"],
    ) -> Differentiated:
        """Return the gradient of the explained number at embedded ``points``."""
        return differentiated(self.network, _ids(passage), points, weigh)

    def outputs_of(self, passages: Sequence[Passage]) -> Float[np.ndarray, "n C"]:
        """Return the outputs for texts that were read before."""
        return self.engine([_ids(passage) for passage in passages])

    def outputs_at(
        self, passage: Passage, points: Float[np.ndarray, "n T d_e"]
    ) -> Float[np.ndarray, "n C"]:
        """Return the outputs at embedded ``points``."""
        return outputs_at(self.network, _ids(passage), points)

    @cached_property
    def engine(self) -> Engine:
        """The one way to the model's outputs."""
        # Heads that look for the last piece refuse batches if they do not know the padding.
        alone = self.network.config.pad_token_id is None
        return Engine(
            self._outputs,
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

    def _outputs(self, rows: list[Int[np.ndarray, " _"]]) -> Float[np.ndarray, "n C"]:
        import torch

        width = max(1, *(len(row) for row in rows))
        ids = np.full((len(rows), width), _PADDING)
        for line, row in zip(ids, rows, strict=True):
            line[: len(row)] = row
            if not len(row):
                line[0] = self._nothing
        there = ids != _PADDING
        ids[~there] = self.network.config.pad_token_id or 0
        device = self.network.device
        given = {
            "input_ids": torch.as_tensor(ids, device=device),
            "attention_mask": torch.as_tensor(there.astype(np.int64), device=device),
        }
        half = torch.autocast("cuda", dtype=torch.float16, enabled=device.type == "cuda")
        with untouched(self.network), torch.inference_mode():
            with half:
                found = self.network(**given).logits.double().cpu().numpy()
            if device.type == "cuda" and not np.isfinite(found).all():  # too large for half
                found = self.network(**given).logits.double().cpu().numpy()
        if not np.isfinite(found).all():
            raise InputError("the model returns numbers that are not finite; check its weights.")
        if found.shape[1] != (labels := len(self.network.config.id2label)):
            raise InputError(
                f"the model returns {found.shape[1]} outputs, but its config.id2label names "
                f"{labels} classes; make them as many."
            )
        return found


def _apart(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{name} #{i}" if names.count(name) > 1 else name for i, name in enumerate(names))


def feature_of_piece(passage: Passage, features: Features) -> Int[np.ndarray, " L"]:
    """Return the feature of every piece, -1 where nothing is removed.

    Words beyond the window go with the feature of the same string, if there is one.
    """
    row = {string: j for j, string in enumerate(features.strings)}
    beyond = passage.own_pieces.strings[len(features.of_token) :]
    later = [row.get(string, -1) if features.kind == "words" else -1 for string in beyond]
    of_token = np.array([*features.of_token, *later, -1], dtype=np.int64)
    return of_token[passage.own_pieces.token]


def _ids(passage: Passage) -> Int[np.ndarray, " T"]:
    return passage.own_pieces.ids[passage.own_pieces.inside]
