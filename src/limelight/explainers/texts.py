"""Texts under a model that is not the paper's: only what its adapter answers is known."""

__all__ = ["TextReading", "read_texts"]

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, final

import numpy as np

from limelight.adapters import Model, Passage
from limelight.errors import InputError, about_text, nearest
from limelight.explainers.targets import Targets, target_indices
from limelight.sampling import Game, answered
from limelight.shapes import Bool, Float
from limelight.text import FEATURES, Features, features_of, listed_words

_SHOWN = 8  # windows
_REMEMBERED = 50_000  # answers, a few hundred bytes each
_REMEMBERED_OUTPUTS = 8_000_000  # in all of them, 8 bytes each: there may be many classes


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class TextReading:
    """``n`` texts under one model, each with its features and its target.

    ``answers`` remembers what the model said to each mask, so that all classes and all methods
    share the same calls; the memory is limited, so texts that are read apart have one each.
    """

    model: Model
    documents: tuple[Passage, ...]
    features: tuple[Features, ...]
    targets: Targets
    outputs: Float[np.ndarray, "n C"]
    protect: frozenset[str] = frozenset()
    first: int | None = None  # number of the first document in the caller's list of several
    answers: dict[tuple[int, str, bytes], Float[np.ndarray, " C"]] = field(default_factory=dict)

    @property
    def replacement(self) -> str:
        """What stands for a removed word unless a method says otherwise."""
        return self.model.replacement("auto")

    def pooling(self, kind: str) -> str:
        """Return how scores of pieces become the score of a feature."""
        if not self.model.sees_inside:
            return "none"
        if kind == "tokens":
            return "sum over pieces of one character"
        return "sum over pieces" if kind == "positions" else "sum over pieces and occurrences"

    def notices(self, i: int) -> tuple[str, ...]:
        """Return how document ``i`` was read, and what each window says where it has several."""
        document = self.documents[i]
        if document.outputs is None or len(document.windows) < 2:
            return document.notices
        target = replace(self.targets, index=self.targets.index[i : i + 1])
        found = [f"{value:+.3g}" for value in target.value(document.outputs[:, None])[:, 0]]
        shown = found if len(found) <= _SHOWN else [*found[: _SHOWN - 1], "…", found[-1]]
        said = (
            f"The {target.output} of {target.names()[0]!r}, window by window: {', '.join(shown)}."
        )
        return (*document.notices, said)

    def windowing(self, i: int) -> dict[str, Any]:
        """Return how document ``i`` was cut into windows, and the model's outputs in each."""
        document, model = self.documents[i], self.model
        if document.outputs is None:
            return {}
        named = model.classes[-document.outputs.shape[1] :]
        places = [_place(document, window) for window in document.windows]
        found = [dict(zip(named, map(float, row), strict=True)) for row in document.outputs]
        rows = zip(places, found, strict=True)
        return {
            "window": getattr(model, "size", None),
            "windows": [{"span": span, "prediction": row} for span, row in rows],
            "windows_combined": "mean of the outputs",
        }

    def apart(self) -> Iterator["TextReading"]:
        """Yield every document as a reading of its own, which remembers its own answers."""
        if len(self.documents) == 1:
            yield self
            return
        for i in range(len(self.documents)):
            yield replace(
                self,
                documents=self.documents[i : i + 1],
                features=self.features[i : i + 1],
                targets=replace(self.targets, index=self.targets.index[i : i + 1]),
                outputs=self.outputs[i : i + 1],
                answers={},
                first=None if self.first is None else self.first + i,
            )

    def aimed(self, index: int) -> "TextReading":
        """Return the same documents with another class as the target."""
        aims = np.full(len(self.documents), index)
        return replace(self, targets=replace(self.targets, index=aims))

    def resolved(self, replacement: str) -> str:
        """Return what is put in place of a removed word."""
        return self.model.replacement(replacement)

    def scorer(self, replacement: str = "auto") -> Game:
        """Return the outputs of the one document as a function of which features stay."""
        (passage,), (features,) = self.documents, self.features
        name = self.model.replacement(replacement)
        ask, known = self.model.game(passage, features, name), self.answers

        def score(keep: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, "n C"]:
            keys = [(id(passage), name, bits.tobytes()) for bits in np.packbits(keep, axis=1)]
            new = {key: i for i, key in enumerate(keys) if key not in known}
            answered(len(keys) - len(new))
            if not new:
                return np.array([known[key] for key in keys])
            found = dict(zip(new, ask(keep[list(new.values())]), strict=True))
            answers = np.array([found[key] if key in found else known[key] for key in keys])
            if len(known) < min(_REMEMBERED, _REMEMBERED_OUTPUTS // answers.shape[1]):
                known.update(found)
            return answers

        return score

    @cached_property
    def base_values(self) -> Float[np.ndarray, " n"]:
        """The explained output with every feature removed."""
        nothing = [
            one.scorer()(np.zeros((1, len(one.features[0])), bool))[0] for one in self.apart()
        ]
        return self.targets.value(np.array(nothing))

    def attention_matrices(self) -> None:
        """Return nothing: whole matrices of deep models are not drawn."""


def read_texts(
    model: Model,
    texts: Sequence[str],
    *,
    features: str | Sequence[int] = "words",
    target: str | int | None = None,
    output: str = "logit",
    protect: Collection[str] = (),
    first: int | None = None,
) -> TextReading:
    """Return ``texts`` as ``model`` sees them, with what is to be explained.

    ``first`` is the number of the first text, for errors; None where there is only one.
    """
    known = (*FEATURES, "tokens") if model.sees_inside else FEATURES
    if isinstance(features, str) and features not in known:
        raise InputError(nearest("features", features, known))
    kept = listed_words(protect)
    passages, scored = [], []
    for number, text in enumerate(texts, start=first or 0):
        with about_text(None if first is None else number):
            passages.append(model.read(text, pieces=features == "tokens"))
            scored.append(_features(passages[-1], features, kept))
    outputs = _outputs(model, passages)
    index = target_indices(target, model.classes, outputs)
    return TextReading(
        model=model,
        documents=tuple(passages),
        features=tuple(scored),
        targets=Targets(index, model.classes, output, model.link),
        outputs=outputs,
        protect=kept,
        first=first,
    )


def _outputs(model: Model, passages: Sequence[Passage]) -> Float[np.ndarray, "n C"]:
    """Return the outputs for the texts; those read in windows know them already."""
    if passages and all(passage.windows for passage in passages):
        return np.array([passage.mean_output for passage in passages])
    return model.logits([passage.text for passage in passages])


def _place(document: Passage, window: Passage) -> list[int]:
    """Return the first and last character of the words of a window."""
    inside = window.own_pieces.token
    words = inside[inside >= 0]
    spans = document.tokens.spans
    return [spans[words[0]][0], spans[words[-1]][1]] if len(words) else []


def _features(passage: Passage, kind: str | Sequence[int], protect: Collection[str]) -> Features:
    lower = {word.lower() for word in protect}  # a protected word is safe in any case
    kept = {string for string in passage.tokens.strings if string.lower() in lower}
    if kind == "tokens":  # the model's pieces, each by itself
        return replace(features_of(passage, "positions", protect=kept), kind="tokens")
    return features_of(passage, kind, protect=kept)
