"""Inputs that one model reads together, with their features, targets and outputs."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast, final

import numpy as np

from limelight.errors import (
    DomainError,
    InputError,
    TooFewFeaturesError,
    add_text_number,
)
from limelight.models import (
    Capable,
    Model,
    has,
    resolve_replacement,
)
from limelight.models.attention.collapsed import CollapsedInputs
from limelight.models.protocol import REFILL, HiddenStates, describe_pooling, has_exact_game
from limelight.models.queries import (
    check_phrase,
    compute_hidden_states,
    fallback_reason,
    feature_names,
    needs_subwords,
    read_inputs,
    refine_tokens,
)
from limelight.models.text_game import TextGame
from limelight.request import Request, Targets, prepare_model, target_indices
from limelight.results import Attribution, BoundKind
from limelight.shapes import Float
from limelight.text import (
    AnswerQuery,
    Features,
    ModelInput,
    QueriedText,
    build_features,
    find_phrase,
    part_index,
    split_input,
)
from limelight.text.inputs import Windows
from limelight.theory.namespace import array_like, host_array
from limelight.theory.ratio_game import RatioGame, combine_outputs, empty_value, full_value
from limelight.theory.refilling import RefillGame
from limelight.threads import cached_property

# Largest difference of outputs that still counts as equal, as a fraction of the largest output.
_OUTPUT_TOLERANCE = 1e-6


@final
@dataclass
class _BatchCache:
    """Arrays and games of a batch that do not depend on the target."""

    text_games: dict[str, TextGame] = field(default_factory=dict)
    collapsed_inputs: CollapsedInputs | None = None
    ratio_game: RatioGame | str | None = None
    hidden_states: HiddenStates | None = None


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Batch:
    """``n`` inputs that one model reads together, with their features, targets and outputs.

    The model reads every text once and computes its outputs once. Other arrays and games are
    computed when they are first used. All methods and all classes share them.
    """

    model: Capable  # it has the capability that the implementation needs
    inputs: tuple[ModelInput, ...]
    features: tuple[Features, ...]
    targets: Targets
    outputs: Float[np.ndarray, "n C"]
    request: Request
    first_index: int | None = None  # of the first input in the user's list; None without a list
    cache: _BatchCache = field(default_factory=_BatchCache)
    _base_fields: dict[int, dict[str, Any]] = field(default_factory=dict, init=False)

    def split(self, size: int = 1) -> Iterator["Batch"]:
        """Split the batch into batches of at most ``size`` inputs."""
        if len(self.inputs) <= size:
            yield self
            return
        for i in range(0, len(self.inputs), size):
            # Other arrays are padded to the longest input, so smaller batches compute them again.
            part, hidden_states = slice(i, i + size), self.cache.hidden_states
            if hidden_states is not None:
                hidden_states = HiddenStates(
                    hidden_states.states[part],
                    hidden_states.head_input[part],
                    hidden_states.outputs[part],
                )
            yield replace(
                self,
                inputs=self.inputs[part],
                features=self.features[part],
                targets=self.targets.select(i, size),
                outputs=self.outputs[part],
                first_index=None if self.first_index is None else self.first_index + i,
                cache=_BatchCache(hidden_states=hidden_states),
            )

    def split_by_target(self) -> list["Batch"]:
        """Return one batch per class or per query, or this batch if it has a single target."""
        n, query_count = len(self.inputs), self.targets.query_count
        if self.request.all_classes:
            targets = replace(self.targets, against=None)
            class_indices = [np.full(n, index) for index in range(len(self.model.classes))]
            all_targets = [replace(targets, index=index) for index in class_indices]
        elif query_count == 1:
            return [self]
        else:
            all_targets = [
                select_targets(self.model, self.request, self.inputs, self.outputs, query_index)
                for query_index in range(query_count)
            ]
        return [replace(self, targets=targets) for targets in all_targets]

    def select_target_query(self, *, with_hidden_states: bool) -> "Batch":
        """Read the same texts again with a single query, the one of the targets.

        Parameters
        ----------
        with_hidden_states
            Whether the pass that computes the outputs also computes the hidden states.
        """
        i = self.targets.query_index
        texts = [
            QueriedText(model_input.user_input, model_input.queries[i : i + 1])
            for model_input in self.inputs
        ]
        batch = read_batch(
            self.model,
            texts,
            self.request,
            first_index=self.first_index,
            with_hidden_states=with_hidden_states,
        )
        return replace(batch, targets=replace(self.targets, query_index=0, query_count=1))

    @cached_property
    def has_tables(self) -> bool:
        """Whether the model collapses into tables, which are its weights in another form."""
        return has(self.model, "tables")

    @property
    def caches_outputs(self) -> bool:
        """Whether games store outputs. Models with an exact game are faster than a look-up."""
        return not has(self.model, "exact_game")

    @property
    def collapsed_inputs(self) -> CollapsedInputs:
        """The inputs as arrays, for models that collapse into tables."""
        if self.cache.collapsed_inputs is None:
            self.cache.collapsed_inputs = self.model.compute_tables(self.inputs, self.features)
        return self.cache.collapsed_inputs

    @property
    def hidden_states(self) -> HiddenStates:
        """The model's hidden states at every feature, computed once for all classes."""
        if self.cache.hidden_states is None:
            self.cache.hidden_states = compute_hidden_states(self.model, self.inputs, self.features)
        return self.cache.hidden_states

    def attention_matrices(self) -> Float[np.ndarray, "K T T"] | None:
        """Return the attention matrix of each head for the only input, or None for deep models."""
        if not self.has_tables:
            return None
        return self.collapsed_inputs.model.attention_matrices(self.collapsed_inputs.inputs[0])

    @cached_property
    def ratio_game(self) -> RatioGame:
        """The exact games of all inputs, with the explained number as their only output."""
        game = self.output_ratio_game
        return combine_outputs(game, array_like(self.target_gradient, game.a))

    @property
    def output_ratio_game(self) -> RatioGame:
        """The exact games of all inputs, with every output of the model.

        Raises
        ------
        InputError
            If the model does not know the exact games of these features.
        """
        if isinstance(game := self._ratio_game_or_reason, str):
            raise InputError(_no_exact_scores_message(game))
        return game

    def known_game(self, replacement: str) -> RatioGame | None:
        """Return the exact games with every output, or None if the model has to be called."""
        if not has_exact_game(self.model, self.targets.scale, replacement):
            return None
        return self.output_ratio_game

    @property
    def reason_sampled(self) -> str | None:
        """A clause that says why the exact games are not known; None if they are known."""
        return game if isinstance(game := self._ratio_game_or_reason, str) else None

    @property
    def _ratio_game_or_reason(self) -> RatioGame | str:
        """The exact games of all inputs, or a clause that says why they are not known."""
        if self.has_tables:
            return self.collapsed_inputs.game
        if self.cache.ratio_game is None:
            game = self.model.exact_games(self.inputs, self.features)
            if isinstance(game, str):
                self.cache.ratio_game = game
                return game
            # The game was computed when the model was wrapped. The outputs are computed now.
            # Small outputs may be differences of large terms. A game may know their rounding error.
            rounding = _OUTPUT_TOLERANCE
            if game.error is not None:
                rounding = float(host_array(game.error).max())
            allowed = _OUTPUT_TOLERANCE * np.abs(self.outputs).max() + rounding
            if not np.all(np.abs(full_value(game) - self.outputs) <= allowed):
                raise DomainError(
                    "the outputs of this model have changed since it was wrapped. Wrap it again."
                )
            self.cache.ratio_game = game
        return self.cache.ratio_game

    @cached_property
    def target_gradient(self) -> Float[np.ndarray, "n C"]:
        """∂F/∂f_c at the inputs: the derivative of the explained number F by each output f_c."""
        return self.targets.output_gradient(self.outputs)

    def game(self, replacement: str = "auto", *, answers: int = 1) -> TextGame:
        """Return the outputs for the only input as a function of the features that are present.

        If outputs are random, the game returns new ones each time. With several ``answers``, it
        returns the mean of as many, and the same mean for the same mask.
        """
        name = resolve_replacement(self.model, replacement)
        if name == REFILL and self.targets.scale == "probability":
            raise InputError(
                f"replacement {REFILL!r} averages logits, not probabilities. Leave scale out, or "
                f"use replacement={self.model.replacements[0]!r}."
            )
        if answers > 1 and not self.game(name).is_random:
            return self.game(name)
        key = name if answers == 1 else f"{name} {answers}"
        if key not in self.cache.text_games:
            (model_input,), (features,) = self.inputs, self.features
            game = self.model.game(model_input, features, name)
            self.cache.text_games[key] = TextGame(
                game, features, name, use_cache=self.caches_outputs, answers=answers
            )
        return self.cache.text_games[key]

    def has_random_outputs(self, i: int) -> bool:
        """Return whether the model gives random answers to input ``i``."""
        return any(isinstance(q, AnswerQuery) and q.agreement for q in self.inputs[i].queries)

    def refill_game(self) -> RefillGame:
        """Return the exact game of the only input for the replacement "refill"."""
        (model_input,), (features,) = self.inputs, self.features
        return self.model.refill_game(model_input, features, self.target_gradient)

    @cached_property
    def model_fingerprint(self) -> str:
        """The fingerprint of the model, computed once for all inputs."""
        return self.model.fingerprint

    @cached_property
    def base_values(self) -> list[float | None]:
        """The explained number of each input without features; None if the model rejects that."""
        if self.has_tables:
            return self.targets.value(self.collapsed_inputs.base_outputs).tolist()
        if not self.caches_outputs:
            return self.targets.value(empty_value(self.output_ratio_game)).tolist()
        # One call for all inputs, if the model evaluates several inputs together.
        targets_and_games = [(batch.targets, batch.game()) for batch in self.split()]
        games = [game for _, game in targets_and_games]
        masks = [np.repeat([[False], [True]], len(game), axis=1) for game in games]
        TextGame.precompute_outputs(games, masks)
        empty_outputs = [(targets, game.empty_output) for targets, game in targets_and_games]
        return [
            None if outputs is None else float(targets.value(outputs[None])[0])
            for targets, outputs in empty_outputs
        ]

    def warnings(self, i: int) -> tuple[str, ...]:
        """Return the warnings about how the model reads input ``i``."""
        model_input = self.inputs[i]
        queries = model_input.queries[self.targets.query_index : self.targets.query_index + 1]
        class_name = self.targets.classes[self.targets.index[i]]
        notes = tuple(query.note for query in queries if query.note and query.tag == class_name)
        warnings = model_input.warnings + self.features[i].warnings + notes
        if len(self.features[i].strings) == 1:
            warnings += ("There is only one feature, so its score has no other to compare with.",)
        return warnings

    def base_fields(self, i: int) -> dict[str, Any]:
        """Return the fields of the explanation of input ``i`` that are the same for all methods.

        The spans may be deferred. Read them from the features.
        """
        if i not in self._base_fields:
            model_input, features, targets = self.inputs[i], self.features[i], self.targets
            against = targets.against
            self._base_fields[i] = {
                "text": model_input.text,
                **features.result_fields(model_input),
                "target": targets.classes[targets.index[i]],
                "against": None if against is None else targets.classes[against[i]],
                "classes": self.model.classes,
                "link": self.model.link,
                "scale": targets.scale,
                "prediction": self.prediction(i),
                "cut": model_input.cutoff,
                "bound_kind": bound_kind(model_input),
                "warnings": self.warnings(i),
                "settings": self.request_settings(i),
                "diagnostics": self._window_diagnostics(model_input.windows),
                "model": self.model_fingerprint,
                "parts": model_input.parts,
                "query": model_input.queries[targets.query_index] if model_input.queries else None,
            }
        return self._base_fields[i]

    def prediction(self, i: int) -> dict[str, float]:
        """Return the outputs for input ``i`` by class; a single output is the second class's."""
        return self._outputs_by_class(self.targets.query_outputs(self.outputs[i]))

    def request_settings(self, i: int) -> dict[str, Any]:
        """Return the options of the request for input ``i`` as a result stores them."""
        windows = self.inputs[i].windows
        return {
            "features": self.features[i].kind,
            "aggregation": describe_pooling(self.model, self.features[i].kind),
            "replacement": self.model.replacements[0],
            "protect": sorted({str(word).lower() for word in self.request.protect}),
            **({} if self.request.side is None else {"side": self.request.side}),
            **({"protect_span": self.request.protect_span} if self.inputs[i].queries else {}),
            **({} if windows is None else {"window": windows.size}),
            **({"window": self.request.window} if self._reads_span_window(i) else {}),
        }

    def _reads_span_window(self, i: int) -> bool:
        """Return whether only the window around a span of input ``i`` was read."""
        return self.request.window is not None and bool(self.inputs[i].queries)

    def _window_diagnostics(self, windows: Windows | None) -> dict[str, Any]:
        """Return the model's outputs in each window, as a result stores them."""
        if windows is None:
            return {}
        window_rows = [
            {"span": list(span or ()), "prediction": self._outputs_by_class(outputs)}
            for span, outputs in zip(windows.spans, windows.outputs, strict=True)
        ]
        return {"windows": window_rows, "windows_combined": "mean of the outputs"}

    def _outputs_by_class(self, outputs: Float[np.ndarray, " C"]) -> dict[str, float]:
        """Map the names of the last classes, as many as there are outputs, to the outputs."""
        class_names = self.model.classes[-len(outputs) :]
        return dict(zip(class_names, map(float, outputs), strict=True))


def bound_kind(model_input: ModelInput) -> BoundKind:
    """Return whether bounds for an input are proven, or rest on checks of its tokens."""
    return "checked" if model_input.is_checked else "proven"


def prepare_batch(model: Model, texts: Sequence[Any], **options: Any) -> Batch:
    """Prepare a model for the ``options`` of a :class:`Request`, and read texts with it."""
    prepared, request = prepare_model(model, Request(**options))
    return read_batch(prepared, request.attach_queries(texts), request)


def read_batch(
    model: Model,
    texts: Sequence[Any],
    request: Request,
    *,
    first_index: int | None = None,
    with_hidden_states: bool = False,
) -> Batch:
    """Read texts into one batch, with their features, outputs and targets.

    Parameters
    ----------
    model
        A model that :func:`prepare_model` prepared for the request.
    texts
        Texts with their queries.
    request
        The options of the explanation, as :func:`prepare_model` returned them.
    first_index
        The index of the first text in the user's list, for error messages; None without a list.
    with_hidden_states
        Whether the pass that computes the outputs also computes the hidden states of every feature.

    Returns
    -------
    The batch.

    Raises
    ------
    InputError
        If a text cannot be read, or if the model does not know its exact game although it knows
        those of other texts.
    """
    inputs, features = _read_inputs(
        model, texts, request, first_index=first_index, with_hidden_states=with_hidden_states
    )
    for model_input in inputs:
        if model_input.fallback is not None:
            raise InputError(_no_exact_scores_message(fallback_reason(model_input)))
    return _make_batch(
        model,
        inputs,
        features,
        request,
        first_index=first_index,
        with_hidden_states=with_hidden_states,
    )


def read_batches(
    model: Model,
    texts: Sequence[Any],
    request: Request,
    *,
    first_index: int | None = None,
    check_size: Callable[[int], None] | None = None,
    with_hidden_states: bool = False,
) -> Iterable[Batch]:
    """Read texts into one batch, or into one batch per text if some texts must be sampled.

    If the model does not know the exact game of a text, the text is explained with the model's
    fallback, which is sampled.

    Parameters
    ----------
    model
        A model that :func:`prepare_model` prepared for the request.
    texts
        Texts with their queries.
    request
        The options of the explanation, as :func:`prepare_model` returned them.
    first_index
        The index of the first text in the user's list, for error messages; None without a list.
    check_size
        Raises an error for a number of features, before the model is called.
    with_hidden_states
        Whether the pass that computes the outputs also computes the hidden states of every feature.

    Returns
    -------
    The batches. They are read one by one if there are several.
    """
    inputs, features = _read_inputs(
        model,
        texts,
        request,
        first_index=first_index,
        check_size=check_size,
        with_hidden_states=with_hidden_states,
    )
    if all(model_input.fallback is None for model_input in inputs):
        batch = _make_batch(
            model,
            inputs,
            features,
            request,
            first_index=first_index,
            with_hidden_states=with_hidden_states,
        )
        return [batch]
    return (
        _make_batch(
            model if model_input.fallback is None else model_input.fallback,
            [model_input if model_input.fallback is None else _prepare_fallback(model_input)],
            [input_features],
            request,
            first_index=None if first_index is None else first_index + i,
        )
        for i, (model_input, input_features) in enumerate(zip(inputs, features, strict=True))
    )


def count_features(model: Model, text: Any, request: Request) -> int:
    """Return the number of features of a text without a call of the model.

    Raises
    ------
    InputError
        If the text cannot be read.
    """
    _, (features,) = _read_inputs(
        model, [text], request, first_index=None, with_hidden_states=False
    )
    return len(features)


def _no_exact_scores_message(reason: str | None) -> str:
    """Return the message that a text has no exact scores, with the reason."""
    return f"this text has no exact scores, because {reason}."


def _prepare_fallback(model_input: ModelInput) -> ModelInput:
    """Return an input for its fallback model, with a warning that says why it is sampled."""
    warning = f"The scores of this text are sampled, because {fallback_reason(model_input)}."
    return replace(model_input, fallback=None, warnings=(*model_input.warnings, warning))


def _read_inputs(
    model: Model,
    texts: Sequence[Any],
    request: Request,
    *,
    first_index: int | None,
    check_size: Callable[[int], None] | None = None,
    with_hidden_states: bool,
) -> tuple[list[ModelInput], list[Features]]:
    """Read every text, and return the inputs with their features."""
    subwords = needs_subwords(model, request.features)
    protected_words = _protected_words(model, request) if request.protect else frozenset[str]()
    inputs, all_features = list[ModelInput](), list[Features]()
    model_inputs = read_inputs(model, texts, hidden_states=with_hidden_states, subwords=subwords)
    for number in range(first_index or 0, (first_index or 0) + len(texts)):
        with add_text_number(None if first_index is None else number):
            model_input, reader, protect = next(model_inputs), model, protected_words
            if model_input.fallback is not None:
                reader = model_input.fallback
                protect = _protected_words(reader, request)
            if not subwords and (spans := split_input(model_input, request.features)) is not None:
                model_input = refine_tokens(reader, model_input, spans)
            features = _make_features(model_input, request, protect, subwords)
            inputs.append(model_input)
            all_features.append(features)
            if check_size is not None:
                with advise_finer_features(model, features):
                    check_size(len(features))
    return inputs, all_features


def _make_batch(
    model: Model,
    inputs: Sequence[ModelInput],
    features: Sequence[Features],
    request: Request,
    *,
    first_index: int | None,
    with_hidden_states: bool = False,
) -> Batch:
    """Compute the outputs of inputs, select their targets, and return the batch."""
    cache, capable = _BatchCache(), cast(Capable, model)
    if with_hidden_states:
        cache.hidden_states = capable.hidden_states(inputs, features)
    raw_outputs = (
        model.outputs(inputs) if cache.hidden_states is None else cache.hidden_states.outputs
    )
    outputs = _check_outputs(model, raw_outputs, inputs)
    return Batch(
        model=capable,
        inputs=tuple(inputs),
        features=tuple(features),
        targets=select_targets(model, request, inputs, outputs),
        outputs=outputs,
        request=request,
        first_index=first_index,
        cache=cache,
    )


@contextmanager
def advise_finer_features(model: Model, features: Features) -> Iterator[None]:
    """Add advice to a ``TooFewFeaturesError`` of the block."""
    try:
        yield
    except TooFewFeaturesError as error:
        advice = features.finer_features_advice(has_subwords="tokens" in feature_names(model))
        raise TooFewFeaturesError(f"{error} {advice}") from None


def select_targets(
    model: Model,
    request: Request,
    inputs: Sequence[ModelInput],
    outputs: Float[np.ndarray, "n C"],
    query_index: int = 0,
) -> Targets:
    """Return the class to explain for each input.

    If the request names no class and the model has found a span, the class is the span's tag.

    Parameters
    ----------
    model
        The model that computed the outputs.
    request
        The options of the explanation: target, against and scale.
    inputs
        The inputs with their queries.
    outputs
        The outputs for each input; those of several queries stand in one row.
    query_index
        The index of the query to explain, if inputs have several.

    Returns
    -------
    The targets.

    Raises
    ------
    InputError
        If the model has no such class, or if a class is compared with itself.
    """
    targets = Targets(
        np.zeros(0, int),
        model.classes,
        request.scale,
        model.link,
        against=None,
        query_index=query_index,
        query_count=_count_queries(inputs),
    )
    query_outputs = targets.query_outputs(outputs)
    index = target_indices(request.target, model.classes, query_outputs)
    if request.target is None:
        for i, model_input in enumerate(inputs):
            tag = model_input.queries[query_index].tag if model_input.queries else None
            index[i] = model.classes.index(tag) if tag in model.classes else index[i]
    if request.against is None:
        return replace(targets, index=index)
    against = target_indices(request.against, model.classes, query_outputs)
    if (is_same := against == index).any():
        name = model.classes[int(against[is_same][0])]
        raise InputError(f"target and against must be different classes, but both are {name!r}.")
    return replace(targets, index=index, against=against)


def _count_queries(inputs: Sequence[ModelInput]) -> int:
    """Return the number of queries of each input, or 1 for inputs without queries."""
    return max([1, *(len(model_input.queries) for model_input in inputs)])


def _check_outputs(
    model: Model, outputs: Any, inputs: Sequence[ModelInput]
) -> Float[np.ndarray, "n C"]:
    """Return the outputs as an array with one row per input and a column per class and query."""
    array, n = np.asarray(outputs, dtype=np.float64), len(inputs)
    query_count, classes = _count_queries(inputs), len(model.classes)
    column_counts = {query_count * classes}
    if classes == 2:
        column_counts.add(query_count)
    if array.ndim != 2 or len(array) != n or array.shape[1] not in column_counts:
        raise InputError(
            f"the outputs of {type(model).__name__} must have the shape "
            f"({n}, {query_count * classes}), not {array.shape}."
        )
    return array


def _protected_words(model: Model, request: Request) -> frozenset[str]:
    """Return the protected words and phrases of a request in lower case.

    Raises
    ------
    InputError
        If the model cannot read one of them.
    """
    phrases = [phrase for phrase in request.protect if isinstance(phrase, str)]
    for phrase in phrases:
        try:
            check_phrase(model, phrase)
        except InputError as error:
            raise InputError(f"the protected word {phrase!r} cannot be read: {error}") from None
    return frozenset(phrase.lower() for phrase in phrases)


def _protected_part_tokens(model_input: ModelInput, request: Request) -> tuple[set[int], set[str]]:
    """Return the tokens of protected documents and messages, and the names of these parts.

    Raises
    ------
    InputError
        If there is no part with a number.
    """
    parts = model_input.parts if model_input.source is not None else ()
    protected, names = set[int](), set[str]()
    for name in request.protect:
        if isinstance(name, str):
            indices = [i for i, part in enumerate(parts) if name in (part.id, part.role)]
        elif 0 <= name < len(parts):
            indices = [name]
        else:
            nouns = model_input.part_kind or "documents or messages"
            raise InputError(
                f"protect={name} needs a number of one of the {len(parts)} {nouns}, from 0."
            )
        protected |= set(indices)
        names |= {str(name).lower()} if indices else set()
    spans = model_input.tokens.spans
    tokens = {i for i, (start, _) in enumerate(spans) if part_index(start, parts) in protected}
    return tokens if protected else set(), names


def _make_features(
    model_input: ModelInput, request: Request, protected_words: frozenset[str], subwords: bool
) -> Features:
    """Return the features of an input for a request, without protected words."""
    tokens = set[int]()
    if request.protect:
        tokens, part_names = _protected_part_tokens(model_input, request)
        protected_words -= part_names
    strings = model_input.tokens.strings if protected_words else ()
    # Words that the model cannot tell apart share a name such as "a / b".
    protect: set[str | int] = {
        string
        for string in strings
        if not protected_words.isdisjoint([string.lower(), *string.lower().split(" / ")])
    }
    protect |= tokens
    for phrase in protected_words:
        protect |= find_phrase(model_input, phrase)
    options: Any = {"side": request.side, "protect_query": request.protect_span}
    if subwords:
        features = build_features(model_input, "positions", protect=protect, **options)
        return replace(features, kind="tokens")
    return build_features(model_input, request.features, protect=protect, **options)


def average_heads(
    collapsed_inputs: CollapsedInputs, scores: Float[np.ndarray, "n K T_max"]
) -> list[Attribution]:
    """Score each feature by the sum over its positions of the mean over heads.

    Parameters
    ----------
    collapsed_inputs
        The inputs that were scored.
    scores
        Scores of each head at each position. The first position is a special token.
    """
    head_scores = collapsed_inputs.pool_features(scores[..., 1:])
    return [Attribution(scores=heads.mean(axis=0), heads=heads) for heads in head_scores]


def sum_subword_scores(
    batch: Batch, scores: Float[np.ndarray, "*K T"]
) -> Float[np.ndarray, "*K d"]:
    """Sum scores of subword tokens over the tokens and positions of each feature.

    The batch has a single input.
    """
    (model_input,), (features,) = batch.inputs, batch.features
    token = batch.model.token_positions(model_input)
    feature = np.append(features.feature_index, -1)[token]
    belongs = feature[:, None] == np.arange(len(features))
    return scores @ belongs.astype(np.float64)
