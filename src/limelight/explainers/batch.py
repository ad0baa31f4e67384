"""Some texts under one model, with what is to be explained: what every method computes from."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast, final

import numpy as np

from limelight.errors import DomainError, InputError, about_text
from limelight.models import (
    Capable,
    Model,
    has,
    resolved_replacement,
)
from limelight.models.attention.collapsed import CollapsedDocuments
from limelight.models.protocol import HiddenStates, describe_pooling
from limelight.models.queries import (
    compute_hidden_states,
    fallback_reason,
    read_inputs,
    reads_subwords,
    split_tokens,
)
from limelight.models.text_game import TextGame
from limelight.request import Request, Targets, prepare_model, target_indices
from limelight.results import Attribution, BoundKind
from limelight.shapes import Float
from limelight.text import (
    Features,
    ModelInput,
    QueriedText,
    features_of,
    unit_spans,
)
from limelight.text.inputs import Windows
from limelight.theory.namespace import array_like, host_array
from limelight.theory.ratio_game import RatioGame, empty_value, full_value, of_outputs
from limelight.threads import cached_property

_SAME = 1e-6  # of the largest output, or of 1 where nothing is known of rounding


@final
@dataclass
class _Shared:
    """What readings of the same documents share, whatever their target."""

    games: dict[str, TextGame] = field(default_factory=dict)
    collapsed: CollapsedDocuments | None = None
    exact_games: RatioGame | str | None = None
    signalled: HiddenStates | None = None


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Batch:
    """``n`` documents under one model, each with its features and its target.

    The model reads every text once and is asked for its outputs once; arrays and games are made
    when first asked for, and shared by all methods and all classes.
    """

    model: Capable  # it has what the way that is used needs
    inputs: tuple[ModelInput, ...]
    features: tuple[Features, ...]
    targets: Targets
    outputs: Float[np.ndarray, "n C"]
    request: Request
    first: int | None = None  # number of the first document in the caller's list of several
    shared: _Shared = field(default_factory=_Shared)
    _common: dict[int, dict[str, Any]] = field(default_factory=dict, init=False)

    def apart(self, size: int = 1) -> Iterator["Batch"]:
        """Yield every document as a reading of its own, or ``size`` of them at a time."""
        if len(self.inputs) <= size:
            yield self
            return
        for i in range(0, len(self.inputs), size):
            # Other arrays are padded to the longest of all documents, and made anew for fewer.
            here, held = slice(i, i + size), self.shared.signalled
            if held is not None:
                held = HiddenStates(held.states[here], held.read[here], held.outputs[here])
            yield replace(
                self,
                inputs=self.inputs[here],
                features=self.features[here],
                targets=self.targets.only(i, size),
                outputs=self.outputs[here],
                first=None if self.first is None else self.first + i,
                shared=_Shared(signalled=held),
            )

    def aims(self) -> list["Batch"]:
        """Return the reading itself, or one for each class or place that is asked about."""
        n, parts = len(self.inputs), self.targets.parts
        if self.request.all_classes:
            whole = replace(self.targets, against=None)
            each = [np.full(n, index) for index in range(len(self.model.classes))]
            several = [replace(whole, index=index) for index in each]
        elif parts == 1:
            return [self]
        else:
            asked = self.model, self.request, self.inputs, self.outputs
            several = [targets_of(*asked, part) for part in range(parts)]
        return [replace(self, targets=targets) for targets in several]

    def of_one_part(self, *, signals: bool) -> "Batch":
        """Return a reading of texts that are asked about the place of the targets alone.

        ``signals`` says whether the pass that gives the outputs also gives the hidden states.
        """
        part = self.targets.part
        texts = [QueriedText(one.given, one.asked[part : part + 1]) for one in self.inputs]
        found = reading_of(self.model, texts, self.request, first=self.first, signals=signals)
        return replace(found, targets=replace(self.targets, part=0, parts=1))

    @cached_property
    def has_tables(self) -> bool:
        """Whether the model collapses into tables, which are its weights in another form."""
        return has(self.model, "tables")

    @property
    def remembers(self) -> bool:
        """Whether answers are worth keeping: tables answer faster than they could be looked up."""
        return not has(self.model, "exact_game")

    @property
    def collapsed(self) -> CollapsedDocuments:
        """The documents as arrays, for models that collapse into tables."""
        if self.shared.collapsed is None:
            self.shared.collapsed = self.model.collapsed(self.inputs, self.features)
        return self.shared.collapsed

    @property
    def signals(self) -> HiddenStates:
        """What the model holds of every feature, asked once for all classes."""
        if self.shared.signalled is None:
            self.shared.signalled = compute_hidden_states(self.model, self.inputs, self.features)
        return self.shared.signalled

    def attention_matrices(self) -> Float[np.ndarray, "K T T"] | None:
        """Return whole matrices of the one document; None of deep models, where none are drawn."""
        if not self.has_tables:
            return None
        return self.collapsed.model.attention_matrices(self.collapsed.inputs[0])

    @cached_property
    def ratio_game(self) -> RatioGame:
        """The exact games of all documents, with the explained number as their only class."""
        game = self.games
        return of_outputs(game, array_like(self.target_weights, game.a))

    @property
    def games(self) -> RatioGame:
        """The exact games of all documents, with a class for each output."""
        if isinstance(games := self._exact_games, str):
            raise InputError(_nothing_exact(games))
        return games

    @property
    def reason_sampled(self) -> str | None:
        """A clause that says why the exact games of these features are not known, or None."""
        return games if isinstance(games := self._exact_games, str) else None

    @property
    def _exact_games(self) -> RatioGame | str:
        """The exact games of all documents, or a clause that says why they are not known."""
        if self.has_tables:
            return self.collapsed.game
        if self.shared.exact_games is None:
            game = self.model.games(self.inputs, self.features)
            if isinstance(game, str):
                self.shared.exact_games = game
                return game
            # A game is made of what a model held when it was wrapped, its answers are of today.
            # Outputs near 0 may be differences of large terms, whose rounding a game may know.
            rounding = _SAME if game.error is None else float(host_array(game.error).max())
            room = _SAME * np.abs(self.outputs).max() + rounding
            if not np.all(np.abs(full_value(game) - self.outputs) <= room):
                raise DomainError(
                    "this model no longer answers as it did when it was wrapped; wrap it again."
                )
            self.shared.exact_games = game
        return self.shared.exact_games

    @cached_property
    def target_weights(self) -> Float[np.ndarray, "n C"]:
        """∂F/∂f_c at the documents, F being the explained number."""
        return self.targets.weights(self.outputs)

    def game(self, replacement: str = "auto") -> TextGame:
        """Return the outputs of the one document as a function of which features stay."""
        name = resolved_replacement(self.model, replacement)
        if name not in self.shared.games:
            (model_input,), (features,) = self.inputs, self.features
            ask = self.model.game(model_input, features, name)
            self.shared.games[name] = TextGame(ask, features, name, remember=self.remembers)
        return self.shared.games[name]

    @cached_property
    def fingerprint(self) -> str:
        """The model's, asked once for all texts that were read together."""
        return self.model.fingerprint

    @cached_property
    def base_values(self) -> list[float | None]:
        """The explained output with every feature removed; None where the model refuses that."""
        if self.has_tables:
            return self.targets.value(self.collapsed.base_outputs).tolist()
        if not self.remembers:
            return self.targets.value(empty_value(self.games)).tolist()
        # Of all texts in one question, where the model takes several together.
        several = [(one.targets, one.game()) for one in self.apart()]
        games = [game for _, game in several]
        ends = [np.repeat([[False], [True]], len(game), axis=1) for game in games]
        TextGame.ask_ahead(games, ends)
        found = [(targets, game.nothing) for targets, game in several]
        return [
            None if nothing is None else float(targets.value(nothing[None])[0])
            for targets, nothing in found
        ]

    def notices(self, i: int) -> tuple[str, ...]:
        """Return how document ``i`` was read."""
        model_input = self.inputs[i]
        alone = ("There is only one feature: its score cannot be compared with any other.",)
        asked = model_input.asked[self.targets.part : self.targets.part + 1]
        name = self.targets.classes[self.targets.index[i]]
        notes = tuple(place.note for place in asked if place.note and place.tag == name)
        said = model_input.notices + self.features[i].notices + notes
        return said + alone if len(self.features[i].strings) == 1 else said

    def common(self, i: int) -> dict[str, Any]:
        """Return the fields of an explanation of document ``i`` that no method has a say in."""
        if i not in self._common:
            model_input, features, targets = self.inputs[i], self.features[i], self.targets.only(i)
            (target,), (against,) = targets.names(), targets.names_against()
            self._common[i] = {
                "text": model_input.text,
                **features.of_result(model_input),
                "target": target,
                "against": against,
                "classes": self.model.classes,
                "link": self.model.link,
                "scale": targets.scale,
                "prediction": self.prediction(i),
                "cut": model_input.cut,
                "bound_kind": bound_kind(model_input),
                "notices": self.notices(i),
                "settings": self.asked(i),
                "diagnostics": self._windows(model_input.windows),
                "model": self.fingerprint,
                "parts": model_input.parts,
                "asked": model_input.asked[targets.part] if model_input.asked else None,
            }
        return self._common[i]

    def prediction(self, i: int) -> dict[str, float]:
        """Return the outputs for document ``i`` by class; a single one is the second class's."""
        return self._named(self.targets.own(self.outputs[i]))

    def asked(self, i: int) -> dict[str, Any]:
        """Return what was asked about document ``i``, whatever the method."""
        windows = self.inputs[i].windows
        return {
            "features": self.features[i].unit,
            "aggregation": describe_pooling(self.model, self.features[i].unit),
            "replacement": self.model.replacements[0],
            "protect": sorted({word.lower() for word in self.request.protect}),
            **({} if self.request.side is None else {"side": self.request.side}),
            **({"protect_span": self.request.protect_span} if self.inputs[i].asked else {}),
            **({} if windows is None else {"window": windows.size}),
        }

    def _windows(self, windows: Windows | None) -> dict[str, Any]:
        """Return the model's outputs in each window, as a result holds them."""
        if windows is None:
            return {}
        rows = zip(windows.spans, windows.outputs, strict=True)
        own = [{"span": list(span or ()), "prediction": self._named(row)} for span, row in rows]
        return {"windows": own, "windows_combined": "mean of the outputs"}

    def _named(self, outputs: Float[np.ndarray, " C"]) -> dict[str, float]:
        named = self.model.classes[-len(outputs) :]
        return dict(zip(named, map(float, outputs), strict=True))


def bound_kind(model_input: ModelInput) -> BoundKind:
    """Return what bounds and ceilings of a text that a model has read rest on."""
    return "checked" if model_input.checked else "proven"


def read(model: Model, texts: Sequence[Any], **asked: Any) -> Batch:
    """Return ``texts`` as ``model`` sees them; ``asked`` are fields of a :class:`Question`."""
    prepared, request = prepare_model(model, Request(**asked))
    return reading_of(prepared, request.attach_queries(texts), request)


def reading_of(
    model: Model,
    texts: Sequence[Any],
    request: Request,
    *,
    first: int | None = None,
    signals: bool = False,
) -> Batch:
    """Return ``texts`` as ``model`` reads them; both were made for each other by `prepare_model`.

    Parameters
    ----------
    model
        A model that was prepared for the question.
    texts
        What the model reads, with queries.
    question
        What is to be explained, as it was prepared for the model.
    first
        The number of the first text, for errors; None if there is only one.
    signals
        Whether the pass that gives the outputs also gives the hidden states of every feature.

    Raises
    ------
    InputError
        If a text cannot be read, or its removals are not known as exactly as those of the model.
    """
    inputs, features = _read(model, texts, request, first=first, signals=signals)
    for model_input in inputs:
        if model_input.fallback is not None:
            raise InputError(_nothing_exact(fallback_reason(model_input)))
    return _batch(model, inputs, features, request, first=first, signals=signals)


def read_batches(
    model: Model,
    texts: Sequence[Any],
    request: Request,
    *,
    first: int | None = None,
    feasible: Callable[[int], None] | None = None,
    signals: bool = False,
) -> Iterable[Batch]:
    """Return ``texts`` as :func:`reading_of` does, in one batch if one model answers about all.

    If the model does not know removals of a text exactly, every text has a batch of its own, and
    the model of such a text is its fallback, which is sampled. ``feasible`` may refuse a number of
    features before the model is called.
    """
    inputs, features = _read(model, texts, request, first=first, feasible=feasible, signals=signals)
    if all(model_input.fallback is None for model_input in inputs):
        return [_batch(model, inputs, features, request, first=first, signals=signals)]
    return (
        _batch(
            model if model_input.fallback is None else model_input.fallback,
            [model_input if model_input.fallback is None else _sampled(model_input)],
            [features_of_document],
            request,
            first=None if first is None else first + i,
        )
        for i, (model_input, features_of_document) in enumerate(zip(inputs, features, strict=True))
    )


def _nothing_exact(reason: str | None) -> str:
    return f"nothing about this text is known exactly: {reason}."


def _sampled(model_input: ModelInput) -> ModelInput:
    """Return a document as its fallback model explains it, with the reason."""
    notice = f"This text is sampled, and no score is exact: {fallback_reason(model_input)}."
    return replace(model_input, fallback=None, notices=(*model_input.notices, notice))


def _read(
    model: Model,
    texts: Sequence[Any],
    request: Request,
    *,
    first: int | None,
    feasible: Callable[[int], None] | None = None,
    signals: bool,
) -> tuple[list[ModelInput], list[Features]]:
    """Return every text as the model reads it, and its features."""
    pieces = reads_subwords(model, request.features)
    protect = _protected(model, request) if request.protect else frozenset[str]()
    inputs, scored = list[ModelInput](), list[Features]()
    model_inputs = read_inputs(model, texts, hidden_states=signals, pieces=pieces)
    for number in range(first or 0, (first or 0) + len(texts)):
        with about_text(None if first is None else number):
            model_input, reader, protected_words = next(model_inputs), model, protect
            if model_input.fallback is not None:
                reader = model_input.fallback
                protected_words = _protected(reader, request)
            if not pieces and (cut := unit_spans(model_input, request.features)) is not None:
                model_input = split_tokens(reader, model_input, cut)
            inputs.append(model_input)
            scored.append(_features(model_input, request, protected_words, pieces))
            if feasible is not None:
                with advising(scored[-1]):
                    feasible(len(scored[-1]))
    return inputs, scored


def _batch(
    model: Model,
    inputs: Sequence[ModelInput],
    features: Sequence[Features],
    request: Request,
    *,
    first: int | None,
    signals: bool = False,
) -> Batch:
    """Return documents under ``model``, with its outputs and what is explained of them."""
    shared, capable = _Shared(), cast(Capable, model)
    if signals:
        shared.signalled = capable.hidden_states(inputs, features)
    own = model.outputs(inputs) if shared.signalled is None else shared.signalled.outputs
    outputs = _checked_outputs(model, own, inputs)
    return Batch(
        model=capable,
        inputs=tuple(inputs),
        features=tuple(features),
        targets=targets_of(model, request, inputs, outputs),
        outputs=outputs,
        request=request,
        first=first,
        shared=shared,
    )


@contextmanager
def advising(features: Features) -> Iterator[None]:
    """Add what to do to an error about a text with a single feature."""
    try:
        yield
    except DomainError as error:
        if len(features) != 1:
            raise
        finer = "Give a longer text, or cut it finer, as by features='positions' or 'tokens'."
        raise DomainError(f"{error} {finer}") from None


def targets_of(
    model: Model,
    request: Request,
    inputs: Sequence[ModelInput],
    outputs: Float[np.ndarray, "n C"],
    part: int = 0,
) -> Targets:
    """Return what is explained of each document; of several places, about number ``part``.

    Where nobody names a class, and a model has found a span, it is the one that it gave it.
    """
    parts = _parts(inputs)
    whole = Targets(np.zeros(0, int), model.classes, request.scale, model.link, None, part, parts)
    own = whole.own(outputs)
    index = target_indices(request.target, model.classes, own)
    if request.target is None:
        for i, model_input in enumerate(inputs):
            tag = model_input.asked[part].tag if model_input.asked else None
            index[i] = model.classes.index(tag) if tag in model.classes else index[i]
    if request.against is None:
        return replace(whole, index=index)
    other = target_indices(request.against, model.classes, own)
    if (same := other == index).any():
        name = model.classes[int(other[same][0])]
        raise InputError(
            f"a class is explained against another one; target and against are both {name!r}."
        )
    return replace(whole, index=index, against=other)


def _parts(inputs: Sequence[ModelInput]) -> int:
    """Return how many places each of the documents is asked about, 1 where it is none."""
    return max([1, *(len(model_input.asked) for model_input in inputs)])


def _checked_outputs(
    model: Model, outputs: Any, inputs: Sequence[ModelInput]
) -> Float[np.ndarray, "n C"]:
    """Return the outputs if they are one row per document with a column per class and place."""
    found, n, parts = np.asarray(outputs, dtype=np.float64), len(inputs), _parts(inputs)
    classes = len(model.classes)
    columns = {parts * classes, parts} if classes == 2 else {parts * classes}
    if found.ndim != 2 or len(found) != n or found.shape[1] not in columns:
        raise InputError(
            f"a model of {classes} classes must answer {n} text(s) with {n} row(s) of {classes} "
            f"outputs; {type(model).__name__} returned shape {found.shape}."
        )
    return found


def _protected(model: Model, request: Request) -> frozenset[str]:
    """Return the protected words as ``model`` reads them."""
    return frozenset(_one_token(model, word) for word in request.protect)


def _one_token(model: Model, word: str) -> str:
    """Return a protected word in lower case, since it is safe in any, if the model reads it so."""
    try:
        tokens = model.read(word).tokens.strings
    except InputError as error:
        raise InputError(f"the protected word {word!r} cannot be read: {error}") from None
    if [one.lower() for one in tokens] != [word.lower()]:
        raise InputError(
            f"a protected word must be one token as the model reads it; {word!r} is read as "
            f"{', '.join(map(repr, tokens))}."
        )
    return word.lower()


def _features(
    model_input: ModelInput, request: Request, protect: frozenset[str], pieces: bool
) -> Features:
    strings = model_input.tokens.strings if protect else ()
    # Words that are one to the model are named together.
    kept = {s for s in strings if not protect.isdisjoint([s.lower(), *s.lower().split(" / ")])}
    asked: Any = {"side": request.side, "protect_asked": request.protect_span}
    if pieces:  # each by itself
        alone = features_of(model_input, "positions", protect=kept, **asked)
        return replace(alone, unit="tokens")
    return features_of(model_input, request.features, protect=kept, **asked)


def mean_of_heads(
    arrays: CollapsedDocuments, scores: Float[np.ndarray, "n K T_max"]
) -> list[Attribution]:
    """Score every feature by the mean over heads of what each gives to its places."""
    parts = arrays.pooled(scores[..., 1:])
    return [Attribution(scores=part.mean(axis=0), heads=part) for part in parts]


def pooled_pieces(one: Batch, scores: Float[np.ndarray, "*K T"]) -> Float[np.ndarray, "*K d"]:
    """Return scores of pieces summed over the pieces and places of each feature."""
    (model_input,), (features,) = one.inputs, one.features
    token = one.model.token_positions(model_input)
    feature = np.append(features.of_token, -1)[token]
    belongs = feature[:, None] == np.arange(len(features))
    return scores @ belongs.astype(np.float64)
