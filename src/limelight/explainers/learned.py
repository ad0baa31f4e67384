"""Learned methods: Shapley values with standard errors from one forward pass of a model.

``limelight.training`` fits a learned method to one model, and this module applies it, on the device
of the model or with NumPy. Two small networks predict the Shapley values of each word from the
hidden states of the model, for every output. An error model, fitted to held-out texts, gives the
standard error of every score.
"""

import hashlib
import json
import math
import os
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, final

import numpy as np

from limelight.errors import InputError
from limelight.explainers.batch import Batch
from limelight.explainers.method import (
    Cost,
    Implementation,
    Method,
    at_least,
    settings_class,
)
from limelight.explainers.target_game import TargetGame
from limelight.files import parse_json, read_bounded_bytes, write_atomically
from limelight.models import are_opposite, class_weights, resolve_replacement
from limelight.results import Attribution
from limelight.sampling.masks import draw_masks_by_size, text_rng
from limelight.sampling.ranks import certify_tops_by_errors
from limelight.sampling.spread import small_sample_factor
from limelight.shapes import Array, Float, Int
from limelight.text import (
    AnswerQuery,
    Features,
    abbreviate_names,
    feature_noun,
    pluralize,
    side_index,
    truncate_line,
)
from limelight.theory.namespace import array_like, array_namespace, host_array
from limelight.threads import cached_property, limit_blas_threads

SCHEMA = "limelight.learned/1"
FILES = ("method.json", "model.safetensors")
LEARNED = "learned"
LEARNED_PREFIX = f"{LEARNED}:"  # before a folder that is given as the name of a method
# The inputs of the networks. A model without hidden states has only the word, its places and the
# length of the text, so its learned method is a global additive model.
STATES = ("embedding", "middle", "last", "attention", "head")
SIGNALS_WITH_STATES = ("embedding", "middle", "last", "head", "places", "outputs")
SIGNALS_WITHOUT_STATES = ("words", "places", "outputs")
# Part of the typical score. Smaller scores and disagreements say no more about errors.
_FLOOR = 0.05
MIN_ERROR = 1e-6  # part of the typical score: the rounding error of single precision
_MAX_BYTES = 1 << 30  # of a file, which may come from a stranger
_NETWORK_COUNT = 2  # the difference between the networks shows their error
_MAX_DEVICE_BYTES = 1 << 28  # of the signals of texts that are scored together on a device
_TEXTS_PER_PRODUCT = 256  # texts whose words a device averages together
_BATCH_SIZE = 8  # texts that are scored together, so that their signals stay in the cache


class NetworkInputs(NamedTuple):
    """The inputs of the networks for ``n`` texts with N features in total.

    Parameters
    ----------
    words
        The signals of each feature, on the device of the model.
    texts
        The signals of each text, on the device of the model.
    owner
        The text of each feature.
    word
        A hash of each feature's string, which is the same in every process. In standardized inputs,
        its index in the vocabulary of the learned method.
    """

    words: Float[Array, "N s"]
    texts: Float[Array, "n t"]
    owner: Int[np.ndarray, " N"]
    word: Int[np.ndarray, " N"]


def make_network_inputs(batch: Batch, signals: Collection[str]) -> NetworkInputs:
    """Return the inputs of the networks for all features and texts of a batch.

    ``signals`` are names of `SIGNALS_WITH_STATES` or `SIGNALS_WITHOUT_STATES`.
    """
    words, texts = list[Array](), list[Array]()
    like: Array = np.empty(0)  # an array on the device of the model
    if not set(STATES).isdisjoint(signals):
        hidden_states = batch.hidden_states
        like, h = hidden_states.head_input, hidden_states.head_input.shape[1]
        states = array_namespace(like).concat(hidden_states.states)
        layers = [states[:, :h], states[:, h : 2 * h], states[:, 2 * h : 3 * h], states[:, 3 * h :]]
        words += [layer for name, layer in zip(STATES, layers, strict=False) if name in signals]
        texts += [like] if "head" in signals else []
    if "places" in signals:
        words.append(_place_signals(batch))
    if "outputs" in signals:
        texts.append(batch.outputs)
    owner = np.repeat(np.arange(len(batch.features)), [len(f) for f in batch.features])
    strings = chain.from_iterable(features.strings for features in batch.features)
    return NetworkInputs(
        _concatenate_signals(words, len(owner), like),
        _concatenate_signals(texts, len(batch.features), like),
        owner,
        np.fromiter(map(_hash_word, strings), np.int64, len(owner)),
    )


def _concatenate_signals(parts: list[Array], n: int, like: Array) -> Float[Array, "n s"]:
    """Concatenate signals with ``n`` rows each, on the device of ``like``; there may be none."""
    xp = array_namespace(like)
    # Signals of the host are rounded before they are copied. Others are on the device already.
    columns = [
        array_like(part.astype(np.float32), like) if isinstance(part, np.ndarray) else part
        for part in [np.empty((n, 0)), *parts]
    ]
    joined: Array = xp.concat([xp.astype(x, xp.float32, copy=False) for x in columns], axis=1)
    return joined


def _place_signals(batch: Batch) -> Float[np.ndarray, "N p"]:
    """Return the length of a text, and the count, the places and the side of each feature.

    For each query, also return the distance of each feature from its span, and the length of the
    span. An answer is behind the text.
    """
    sizes = np.array([len(features) for features in batch.features])
    lengths = np.array([len(features.feature_index) for features in batch.features])
    feature_starts, token_starts = (np.cumsum(n) - n for n in (sizes, lengths))
    # The features and the tokens of all texts are numbered, since most texts are short.
    index = np.concatenate([features.feature_index for features in batch.features])
    scored = np.flatnonzero(index >= 0)
    feature = (index + np.repeat(feature_starts, lengths))[scored]
    position = (np.arange(len(index)) - np.repeat(token_starts, lengths))[scored]
    count = np.bincount(feature, minlength=sizes.sum())
    T = np.repeat([len(model_input.tokens) for model_input in batch.inputs], sizes)
    first = T.copy()
    np.minimum.at(first, feature, position)
    side = np.zeros(len(T))
    signals = [np.repeat(np.log(sizes), sizes), np.log(np.maximum(count, 1))]
    signals += [first / T, np.log1p(first), side]
    ends = (feature_starts + sizes).tolist()
    text_slices = [slice(end - size, end) for end, size in zip(ends, sizes.tolist(), strict=True)]
    for text_slice, model_input, features in zip(
        text_slices, batch.inputs, batch.features, strict=True
    ):
        if model_input.parts:
            side[text_slice] = [
                side_index(spans[0][0] if spans else 0, model_input.parts)
                for spans in features.spans
            ]
    if any(model_input.queries for model_input in batch.inputs):
        parts = [_query_signals(batch, i) for i in range(len(batch.inputs))]
        return np.concatenate([np.stack(signals, axis=1), np.concatenate(parts)], axis=1)
    return np.stack(signals, axis=1)


def _query_signals(batch: Batch, i: int) -> Float[np.ndarray, "d q"]:
    """Return for each query of a text the distance of each feature, and the length of its span."""
    model_input, features = batch.inputs[i], batch.features[i]
    T, d, feature_index = len(model_input.tokens.strings), len(features), features.feature_index
    scored = np.flatnonzero(feature_index >= 0)
    signals = list[np.ndarray]()
    for query in model_input.queries:
        tokens = query.token_indices(model_input.tokens.spans, model_input.text) or [T]
        offsets, nearest = scored - np.clip(scored, tokens[0], tokens[-1]), np.full(d, T)
        np.minimum.at(nearest, feature_index[scored], np.abs(offsets))
        is_before = np.bincount(feature_index[scored], offsets < 0, minlength=d) > 0
        size = query.length if isinstance(query, AnswerQuery) else len(tokens)
        signals += [np.where(is_before, -1, 1) * np.log1p(nearest), np.full(d, math.log(size))]
    return np.stack(signals, axis=1)


@lru_cache(maxsize=1 << 16)
def _hash_word(string: str) -> int:
    """Return a hash of a word that ignores case and is the same in every process."""
    return zlib.crc32(string.lower().encode("utf-8", "surrogatepass"))


class LearnedScores(NamedTuple):
    """Scores of N features, for each output or for the explained number of one text.

    Parameters
    ----------
    values
        The scores.
    stderr
        Their standard errors.
    draw_deviation
        The standard deviation of values that are sampled with a single pair of orders.
    warnings
        Warnings about the text.
    """

    values: Float[np.ndarray, " N *C"]
    stderr: Float[np.ndarray, " N *C"]
    draw_deviation: Float[np.ndarray, " N *C"]
    warnings: tuple[str, ...] = ()


def error_design(
    members: Float[np.ndarray, "members N C"], owner: Int[np.ndarray, " N"]
) -> Float[np.ndarray, "N C 4"]:
    """Return the regressors of the logarithm of a squared error.

    They are 1 and the logarithms of the score, of the disagreement of the networks, and of the
    length of the text. ``members`` are the scores of both networks in units of typical scores.
    """
    value_logs, disagreement_logs, size_logs = _error_logs(members, owner)
    sizes = np.broadcast_to(size_logs, value_logs.shape)
    return np.stack([np.ones_like(value_logs), value_logs, disagreement_logs, sizes], axis=-1)


def _error_logs(
    members: Float[np.ndarray, "members N C"], owner: Int[np.ndarray, " N"]
) -> tuple[Float[np.ndarray, "N C"], Float[np.ndarray, "N C"], Float[np.ndarray, "N 1"]]:
    """Return the logarithms of :func:`error_design`, each only once."""
    values, disagreement = members.mean(axis=0), np.abs(members[0] - members[1]) / 2
    value_logs, disagreement_logs = (np.log(np.abs(x) + _FLOOR) for x in (values, disagreement))
    counts = np.bincount(owner)
    return value_logs, disagreement_logs, np.log(np.maximum(counts, 1))[owner][:, None]


@final
@dataclass(frozen=True, eq=False)
class LearnedMethod:
    """A method that :func:`limelight.learn` fitted to one model.

    Use it instead of the name of a method: ``explain(model, text, learned)``.

    Parameters
    ----------
    record
        The content of ``method.json``, with the ``report`` about the accuracy.
    arrays
        The weights of the networks and the parameters of the error model.
    """

    record: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray]

    def __repr__(self) -> str:
        texts, summary = self.report["texts"], self.report["sentences"][0]
        return f"<Learned from {texts} {self.example_kind}: {summary}>"

    def __str__(self) -> str:
        return "\n".join(self.report["sentences"])

    @property
    def example_kind(self) -> str:
        """The kind of its training examples, such as "texts" or "answers"."""
        return str(self.record.get("of", "texts"))

    @property
    def report(self) -> Mapping[str, Any]:
        """The accuracy on held-out texts, with its sentences under ``sentences``."""
        report: Mapping[str, Any] = self.record["report"]
        return report

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the record and the weights, which identifies the method."""
        digest = hashlib.sha256(json.dumps(self.record, sort_keys=True).encode())
        for name in sorted(self.arrays):
            array = self.arrays[name]
            digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def __reduce__(self) -> tuple[Any, ...]:
        # Cached properties are not pickled.
        return LearnedMethod, (dict(self.record), dict(self.arrays))

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write ``method.json`` and ``model.safetensors`` to a folder."""
        from safetensors.numpy import save

        Path(folder).mkdir(parents=True, exist_ok=True)
        weights = save({k: np.ascontiguousarray(x) for k, x in self.arrays.items()})
        digest = hashlib.sha256(weights).hexdigest()
        # The record comes last and contains the digest of the weights. So the files of two methods
        # cannot be mixed up.
        write_atomically(Path(folder) / FILES[1], weights)
        record = {"schema": SCHEMA, **self.record, "weights": digest}
        record["sha256"] = _record_digest(record)
        text = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
        write_atomically(Path(folder) / FILES[0], text)

    @staticmethod
    def load(folder: str | os.PathLike[str]) -> "LearnedMethod":
        """Read the method in ``folder``, or raise `InputError` if there is none."""
        record_path = Path(folder) / FILES[0]
        # pathlib raises an error if the name is too long.
        if not os.path.isfile(record_path):  # noqa: PTH113
            raise InputError(
                f"there is no learned method at '{folder}', because {FILES[0]} is missing. Create "
                "one with limelight.learn(model, texts, output=…) or limelight learn."
            )
        return _load_method(str(folder), record_path.stat().st_mtime_ns)

    @property
    def _needs_states(self) -> bool:
        """Whether the networks read hidden states of the model."""
        return not set(STATES).isdisjoint(self.record["signals"])

    @cached_property
    def method(self) -> Method:
        """The description that other methods have in the registry."""
        implementation = Implementation(
            needs="hidden_states" if self._needs_states else None,
            exactness="fitted",
            explain=self._explain_batch,
            settings={
                "check": "number of random masks on which the scores are checked",
                "fitted": "digest of the learned method",
            },
            defaults={"fitted": self},
            cost=Cost(minimum=lambda settings, _: settings.check and settings.check + 2),
            hidden_settings=("check",),
            is_batched=self._needs_states,
            logit_only=True,
        )
        return Method(
            id=LEARNED,
            label="Learned",
            formula="linear map + two hidden layers on the model's signals of the word, fitted to "
            "sampled Shapley values of this model",
            sees="Shapley values, as far as they follow from the signals of the model",
            blind="texts that differ from the training texts (a warning says so)",
            cost="one forward pass",
            settings=LearnedSettings,
            implementations=(implementation,),
        )

    def predict_scores(self, network_inputs: NetworkInputs) -> LearnedScores:
        """Return scores and standard errors for every output, from standardized inputs."""
        scale, members = self.arrays["scale"], self.member_scores(network_inputs)
        logs = _error_logs(members, network_inputs.owner)
        variance = self._error_variance("errors", logs)
        variance = variance + self.unseen_variance(network_inputs)[:, None]
        stderr = np.sqrt(variance + MIN_ERROR**2)
        draw_deviation = self._draw_deviation(logs)
        return LearnedScores(members.mean(axis=0) * scale, stderr * scale, draw_deviation * scale)

    def draw_deviation(self, design: Float[np.ndarray, "N C 4"]) -> Float[np.ndarray, "N C"]:
        """Return the standard deviation of one pair of orders, in units of typical scores."""
        return self._draw_deviation((design[..., 1], design[..., 2], design[..., 3]))

    def _draw_deviation(
        self, logs: tuple[np.ndarray, np.ndarray, np.ndarray]
    ) -> Float[np.ndarray, "N C"]:
        """Return the standard deviation of one pair of orders, from logarithms of the scores."""
        deviation = np.sqrt(self._error_variance("draws", logs) + MIN_ERROR**2)
        # The last of the logarithms is log d. Two words have one pair of orders, and no deviation.
        return deviation * (logs[-1] > 1)

    def _error_variance(
        self, name: str, logs: tuple[np.ndarray, np.ndarray, np.ndarray]
    ) -> Float[np.ndarray, "N C"]:
        """Return the variance of a model of errors, in units of typical scores."""
        constant, *slopes = self.arrays[name].tolist()
        total = constant + slopes[0] * logs[0]
        total += slopes[1] * logs[1]
        total += slopes[2] * logs[2]
        variance: np.ndarray = np.exp(total, out=total)
        return variance

    def unseen_variance(self, network_inputs: NetworkInputs) -> Float[np.ndarray, " N"]:
        """Return the variance of words that were not in the training texts, and 0 for other words.

        It is 1 in units of typical scores, because nothing is known about these words. If the
        networks see more than the words, it is 0.
        """
        is_unseen = network_inputs.word == len(self.arrays["vocabulary"])
        if "0.word.weight" in self.arrays:
            return is_unseen.astype(float)
        return np.zeros(len(is_unseen))

    def standardize_inputs(self, network_inputs: NetworkInputs) -> NetworkInputs:
        """Return the inputs minus their means, in units of their standard deviations.

        A word becomes its index in the vocabulary, or the size of the vocabulary if it is unseen.
        """
        place = partial(self._place_array, like=network_inputs.words)
        words = network_inputs.words - place("words.mean")
        words /= place("words.scale")  # in place, because it is by far the largest array
        texts = (network_inputs.texts - place("texts.mean")) / place("texts.scale")
        vocabulary = self.arrays["vocabulary"]
        index = np.searchsorted(vocabulary, network_inputs.word)
        is_seen = vocabulary[np.minimum(index, len(vocabulary) - 1)] == network_inputs.word
        word = np.where(is_seen, index, len(vocabulary))
        return NetworkInputs(words, texts, network_inputs.owner, word)

    @cached_property
    def _input_weights(self) -> Float[np.ndarray, "s k"]:
        """The weights of all layers that read the inputs, joined so that one product suffices."""
        names = [
            f"{k}.{layer}.weight" for k in range(_NETWORK_COUNT) for layer in ("first", "linear")
        ]
        return np.concatenate([self.arrays[name] for name in names]).T

    @cached_property
    def _placed_arrays(self) -> dict[tuple[str, str], Array]:
        """The arrays that were copied to devices, by name and device."""
        return {}

    def _place_array(self, name: str, like: Array) -> Array:
        """Return an array on the device of ``like``; weights are transposed, and "inputs" joined.

        An array is copied to a device only once, since many parts of texts need it.
        """
        on_host = isinstance(like, np.ndarray)
        key = (name, "" if on_host else str(like.device))
        if on_host or key not in self._placed_arrays:
            host = self._input_weights if name == "inputs" else self.arrays[name].T
            if on_host:
                return host
            self._placed_arrays[key] = array_like(host, like)
        return self._placed_arrays[key]

    def member_scores(self, network_inputs: NetworkInputs) -> Float[np.ndarray, "members N C"]:
        """Return the scores of both networks from standardized inputs, in typical units."""
        words, texts = network_inputs.words, network_inputs.texts
        xp = array_namespace(words)

        place = partial(self._place_array, like=words)
        weights = place("inputs")
        # The signals of a text are multiplied once for all its words.
        text_activations = texts @ weights[words.shape[1] :]
        owner = array_like(network_inputs.owner, words)
        activations = words @ weights[: words.shape[1]] + xp.take(text_activations, owner, axis=0)
        members, size = [], activations.shape[1] // _NETWORK_COUNT
        for k in range(_NETWORK_COUNT):
            x = activations[:, k * size : (k + 1) * size]
            hidden = len(self.arrays[f"{k}.first.bias"])
            h = xp.clip(x[:, :hidden] + place(f"{k}.first.bias"), 0.0, None)
            h = xp.clip(
                h @ place(f"{k}.second.weight") + place(f"{k}.second.bias"),
                0.0,
                None,
            )
            scores = x[:, hidden:] + h @ place(f"{k}.last.weight") + place(f"{k}.last.bias")
            members.append(host_array(scores))
            if (name := f"{k}.word.weight") in self.arrays:
                members[-1] += self.arrays[name][network_inputs.word]
        return np.array(members, np.float64)

    def score_texts(self, batch: Batch) -> list[LearnedScores]:
        """Score every text of a batch without model calls on masked texts.

        Raises `InputError` if the method was not learned for this model and request.
        """
        self.check_batch(batch)
        if batch.targets.query_count > 1:
            raise InputError(
                "a learned start supports a single span or answer. Leave start out, or explain one "
                "span or answer."
            )
        return [
            scores
            for part in batch.split(self._texts_per_part(batch))
            for scores in self._score_part(part)
        ]

    def _texts_per_part(self, batch: Batch) -> int:
        """Return how many texts are scored together, more on a device than on a CPU."""
        if not self._needs_states or isinstance(batch.hidden_states.head_input, np.ndarray):
            return _BATCH_SIZE
        size = 4 * len(self.arrays["words.mean"]) * sum(map(len, batch.features))
        return math.ceil(len(batch.features) / math.ceil(size / _MAX_DEVICE_BYTES))

    def _score_part(self, batch: Batch) -> list[LearnedScores]:
        """Score every text of a small batch that was checked."""
        network_inputs = make_network_inputs(batch, self.record["signals"])
        for name, signals in (("words", network_inputs.words), ("texts", network_inputs.texts)):
            if signals.shape[1] != len(self.arrays[f"{name}.mean"]):
                raise InputError(
                    f"this method was learned from {len(self.arrays[f'{name}.mean'])} signals of "
                    f"{name}, but this model has {signals.shape[1]}. Learn one for this model."
                )
        with np.errstate(all="ignore"), limit_blas_threads():  # an error is raised below
            network_inputs = self.standardize_inputs(network_inputs)
            scores = self.predict_scores(network_inputs)
            novelty = self.measure_novelty(network_inputs)
        if not (np.isfinite(scores.values).all() and np.isfinite(scores.stderr).all()):
            raise InputError("the scores of this learned method are not finite. Learn it again.")
        ends = np.cumsum([0, *map(len, batch.features)]).tolist()
        weights = batch.target_gradient[:, self._output_columns(batch)][network_inputs.owner]
        # The errors of two outputs may be correlated, so the standard errors are added.
        values, stderr, deviation = (
            np.einsum("nc,nc->n", x, w)
            for x, w in (
                (scores.values, weights),
                (scores.stderr, np.abs(weights)),
                (scores.draw_deviation, np.abs(weights)),
            )
        )
        return [
            LearnedScores(
                *(values[start:end], stderr[start:end], deviation[start:end]),
                warnings=tuple(self._warnings(*numbers)),
            )
            for (start, end), numbers in zip(pairwise(ends), novelty.tolist(), strict=True)
        ]

    def _explain_batch(self, settings: "LearnedSettings", batch: Batch) -> list[Attribution]:
        """Explain every text of a batch by its predicted scores, and check them if requested."""
        features: list[Features | None] = [None] * len(batch.inputs)
        if batch.targets.query_count > 1:
            # The words of other spans may be removed, as in training.
            batch = batch.select_target_query(with_hidden_states=self._needs_states)
            features = list(batch.features)
        parts = list(batch.split()) if settings.check else []
        attributions = []
        for i, scores in enumerate(self.score_texts(batch)):
            fields: dict[str, Any] = {"base_value": None}
            warnings = scores.warnings
            if settings.check:
                fields = _check_scores(
                    parts[i], scores.values, count=settings.check, seed=self.record["seed"]
                )
                warnings += fields.pop("warnings")
            attributions.append(
                Attribution(
                    scores=scores.values,
                    stderr=scores.stderr,
                    certain_tops=certify_tops_by_errors(scores.values, scores.stderr),
                    warnings=warnings,
                    features=features[i],
                    **fields,
                )
            )
        return attributions

    def check_batch(self, batch: Batch) -> None:
        """Raise `InputError` if the method was not learned for this model and request."""
        fingerprint, request = self.record["model"], batch.request
        # Checked before the fingerprint, which covers them too, because the message says more.
        if (classes := tuple(self.record["classes"])) != batch.model.classes:
            raise InputError(
                "this method was learned from another model: its classes are "
                f"{abbreviate_names(classes)}, not {abbreviate_names(batch.model.classes)}. Learn "
                "one for this model."
            )
        if batch.model_fingerprint != fingerprint:
            raise InputError(
                f"this method was learned from another model (fingerprint …{fingerprint[-12:]}, "
                f"not …{batch.model_fingerprint[-12:]}). Learn one for this model: "
                "limelight.learn(model, texts)."
            )
        outputs, link = batch.outputs.shape[1] // batch.targets.query_count, batch.model.link
        if request.scale == "score" and are_opposite(class_weights(len(classes), outputs, link)):
            raise InputError(
                "this method was learned for log-odds, not for the output of one class. Leave "
                "scale out, or use 'shapley'."
            )
        if request.features != self.record["features"]:
            raise InputError(
                f"this method was learned for features={self.record['features']!r}, not for "
                f"{truncate_line(repr(request.features), 40)}. Use 'shapley', or learn another."
            )
        is_protected = request.protect or request.side is not None or not request.protect_span
        if is_protected or request.first_subwords:
            raise InputError(
                "learned methods do not support protect, side, protect_span and first_subwords. "
                "Leave these options out, or use 'shapley'."
            )

    def _output_columns(self, batch: Batch) -> Int[np.ndarray, " C"]:
        """Return the learned outputs, or raise `InputError` if the target needs other outputs."""
        learned = np.array(self.record["outputs"])
        needed = np.flatnonzero(batch.target_gradient.any(axis=0))
        if learned.max() >= (count := batch.target_gradient.shape[1]):
            raise InputError(
                f"this method was learned from a model with at least {learned.max() + 1} outputs, "
                f"but this model has {count}. Learn one for this model."
            )
        if missing := sorted(set(needed.tolist()) - set(learned.tolist())):
            classes = batch.model.classes[-batch.outputs.shape[1] :]
            raise InputError(
                f"this method was learned for {', '.join(repr(classes[i]) for i in learned)} only, "
                f"not for {classes[missing[0]]!r}. Choose another target, or use 'shapley'."
            )
        return learned

    def measure_novelty(self, network_inputs: NetworkInputs) -> Float[np.ndarray, "n 3"]:
        """Return how different each text is from the training texts, from standardized inputs.

        The three numbers are the logarithm of the number of words, the share of unseen words, and
        the distance of the text's mean state from those of the training texts.
        """
        n = len(network_inputs.texts)
        word_count = np.bincount(network_inputs.owner, minlength=n)
        is_unseen = network_inputs.word == len(self.arrays["vocabulary"])
        unseen_share = np.bincount(network_inputs.owner, is_unseen, minlength=n) / word_count
        summary = summarize_texts(network_inputs) - self.arrays["center"]
        coordinates = summary @ self.arrays["axes"].T
        # The part outside the axes is a difference, which rounding can make negative.
        inside = self.arrays["spread"] @ (coordinates.T**2)
        outside = np.maximum((summary**2).sum(axis=1) - inside, 0.0)
        distance = np.sqrt(
            (coordinates**2).mean(axis=1) + outside / self.arrays["outside_variance"]
        )
        return np.stack([np.log(word_count), unseen_share, distance], axis=1)

    def _warnings(self, log_count: float, unseen_share: float, distance: float) -> Iterator[str]:
        """Yield the warnings for a text with this novelty."""
        usual = self.record["usual"]
        low, high = usual["words"]
        noun = feature_noun(self.record["features"])
        reasons = []
        if not low <= (d := round(math.exp(log_count))) <= high:
            count = f"1 {noun}" if d == 1 else f"{d:,} different {pluralize(noun)}"
            reasons.append(f"{count} (in training {low:,} to {high:,})")
        if unseen_share > usual["unseen"]:
            reasons.append(f"{unseen_share:.0%} unseen {pluralize(noun)}")
        if distance > usual["distance"]:
            limit = f"in training up to {usual['distance']:.1f}"
            reasons.append(f"signals at distance {distance:.1f} ({limit})")
        if reasons:
            kind = "texts" if self.example_kind in ("places", "answers") else self.example_kind
            yield (
                f"This {kind.removesuffix('s')} differs from the training {kind}: "
                f"{', '.join(reasons)}. Check its scores with check=16, or use 'shapley'."
            )
        if warning := self.report.get("warning"):
            yield warning


@final
@settings_class
class LearnedSettings:
    """Settings of a learned method."""

    check: Annotated[int, at_least(0)] = 0
    fitted: LearnedMethod | str | None = None


def summarize_texts(network_inputs: NetworkInputs) -> Float[np.ndarray, "n D"]:
    """Return one row for each text: its signals, and the mean signals of its words."""
    means = _mean_signals(network_inputs)
    host_arrays = host_array(network_inputs.texts), host_array(means)
    return np.concatenate(host_arrays, axis=1, dtype=np.float64)


def _mean_signals(network_inputs: NetworkInputs) -> Float[Array, "n s"]:
    """Return the mean signals of the words of each text."""
    words, owner, n = network_inputs.words, network_inputs.owner, len(network_inputs.texts)
    ends = np.searchsorted(owner, np.arange(n + 1))  # every text has words
    # Matrix products, because sums of rows take ten times as long.
    if isinstance(words, np.ndarray):
        return np.stack(
            [
                np.full(end - start, 1 / (end - start), np.float32) @ words[start:end]
                for start, end in pairwise(ends.tolist())
            ]
        )
    # A device gets one product for many texts, since a launch takes longer than its work.
    xp, products = array_namespace(words), list[Array]()
    share = (1 / np.diff(ends))[owner].astype(np.float32)
    for start in range(0, n, _TEXTS_PER_PRODUCT):
        texts = np.arange(start, min(start + _TEXTS_PER_PRODUCT, n))
        part = slice(ends[texts[0]], ends[texts[-1] + 1])
        is_word_of_text = array_like(texts[:, None], words) == array_like(owner[part], words)
        weights = xp.astype(is_word_of_text, xp.float32) * array_like(share[part], words)
        products.append(weights @ words[part])
    return xp.concat(products)


def _check_scores(
    batch: Batch, scores: Float[np.ndarray, " d"], *, count: int, seed: int
) -> dict[str, Any]:
    """Evaluate ``count`` random masks, and return fields of an `Attribution` about the result.

    A warning says how much of the variance of the outputs the scores explain.
    """
    game, d = TargetGame(batch, "auto"), len(scores)
    rng = text_rng(seed, batch.inputs[0].text)
    masks = draw_masks_by_size(d, rng.integers(1, d + 1, count), rng)
    outputs = game(masks)[:, 0]
    variance = float(np.var(outputs))
    explained = 1 - float(np.var(outputs - masks @ scores)) / variance if variance else None
    share = f"{explained:.0%}" if (explained or 0.0) > 0 else "none"
    warning = f"The scores explain {share} of the variance of {count} random masks of this text."
    if explained is None:
        warning = (
            f"The scores could not be checked, because the outputs for {count} random masks of "
            "this text are equal."
        )
    return {
        "base_value": game.base_value,
        "warnings": (warning, *game.warnings),
        "diagnostics": {"check_masks": count, "check_explained": explained},
    }


# A method is read once. If it was written again, the time of change is another one.
@lru_cache(maxsize=8)
def _load_method(folder: str, _changed: int) -> LearnedMethod:
    """Read and check the files of a learned method."""
    from safetensors.numpy import load

    record_path, weights_path = (Path(folder) / name for name in FILES)
    try:
        record = parse_json(read_bounded_bytes(record_path, _MAX_BYTES), f"'{record_path}'")
        content = read_bounded_bytes(weights_path, _MAX_BYTES)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"the learned method in '{folder}' cannot be read ({reason}).") from None
    schema = record.pop("schema", None) if isinstance(record, dict) else None
    if schema != SCHEMA:
        raise InputError(
            f"the learned method in '{folder}' must have the schema {SCHEMA!r}, not "
            f"{truncate_line(repr(schema), 60)}. Learn it again."
        )
    if record.pop("sha256", None) not in (None, _record_digest(record)):
        raise InputError(f"'{record_path}' has changed since it was written. Learn again.")
    if hashlib.sha256(content).hexdigest() != record.pop("weights", None):
        raise InputError(
            f"the weights in '{folder}' do not belong to its {FILES[0]}. Learn again, or copy both "
            "files again."
        )
    _check_record(record, f"'{record_path}'")
    try:
        arrays = load(content)
    except Exception as error:  # a damaged header may raise any error
        reason = truncate_line(str(error), 80)
        raise InputError(f"'{weights_path}' cannot be read ({reason}).") from None
    if (fault := next(_array_faults(record, arrays), None)) is not None:
        raise InputError(f"'{weights_path}' is not a valid learned method: {fault}. Learn again.")
    return LearnedMethod(record, arrays)


def _record_digest(record: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a record without its own digest, in any order of the keys."""
    content = {name: value for name, value in record.items() if name not in ("schema", "sha256")}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _check_record(record: Mapping[str, Any], name: str) -> None:
    """Raise `InputError` if a field of a record is missing or has another type."""
    import msgspec  # imported late, because other methods do not need it

    try:
        msgspec.convert(record, _record_type())
        json.dumps(record, ensure_ascii=False).encode()  # lone surrogates could not be printed
        if len(record["outputs"]) != len(set(record["outputs"])):
            raise ValueError("`outputs` must not repeat an output")
        if max(record["outputs"]) >= len(record["classes"]):
            raise ValueError("`outputs` must be numbers of classes")
        if not math.isfinite(record["usual"]["unseen"] + record["usual"]["distance"]):
            raise ValueError("`usual` must contain finite numbers")
    except (msgspec.ValidationError, ValueError) as error:
        reason = truncate_line(str(error), 120).rstrip(".")
        raise InputError(f"{name} is not a valid learned method: {reason}. Learn again.") from None


@cache
def _record_type() -> Any:
    """Return the type of a record, which may have more fields."""
    from msgspec import Meta, defstruct

    count = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
    share = Annotated[float, Meta(ge=0.0)]
    usual = defstruct(
        "usual", [("words", tuple[count, count]), ("unseen", share), ("distance", share)]
    )
    sentences = Annotated[list[str], Meta(min_length=1)]
    report = defstruct(
        "report", [("texts", count), ("sentences", sentences), ("warning", str | None, None)]
    )
    state = Literal["embedding", "middle", "last", "attention", "head"]  # as in STATES
    signal = state | Literal["words", "places", "outputs"]
    return defstruct(
        "record",
        [
            ("model", str),
            ("classes", Annotated[list[str], Meta(min_length=1)]),
            ("outputs", Annotated[list[count], Meta(min_length=1)]),
            ("features", str),
            ("signals", list[signal]),
            ("pairs", count),
            ("seed", count),
            ("version", str),
            ("usual", usual),
            ("report", report),
            ("of", Literal["texts", "images", "places", "answers"], "texts"),
        ],
    )


def _array_faults(record: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Iterator[str]:
    """Yield the faults of the arrays of a method; the first fault may cause the following ones."""
    C, by_word = len(record["outputs"]), "words" in record["signals"]
    sizes = {name: arrays[name].shape[0] for name in _SIZED if arrays.get(name, _NONE).ndim}
    if lacking := sorted(set(_SIZED) - sizes.keys()):
        yield f"{lacking[0]!r} is missing"
        return
    V, words, texts, k, hidden = (sizes[name] for name in _SIZED)
    shapes = {
        "vocabulary": (V,),
        **{f"words.{name}": (words,) for name in ("mean", "scale")},
        **{f"texts.{name}": (texts,) for name in ("mean", "scale")},
        "scale": (C,),
        "center": (words + texts,),
        "axes": (k, words + texts),
        "spread": (k,),
        "outside_variance": (1,),
        "errors": (4,),
        "draws": (4,),
    }
    for member in range(_NETWORK_COUNT):
        member_shapes = {
            "first.weight": (hidden, words + texts),
            "first.bias": (hidden,),
            "second.weight": (hidden, hidden),
            "second.bias": (hidden,),
            "last.weight": (C, hidden),
            "last.bias": (C,),
            "linear.weight": (C, words + texts),
            **({"word.weight": (V + 1, C)} if by_word else {}),
        }
        shapes |= {f"{member}.{name}": shape for name, shape in member_shapes.items()}
    for name, shape in shapes.items():
        if name not in arrays or arrays[name].shape != shape:
            actual = f"not {arrays[name].shape}" if name in arrays else "but it is missing"
            yield f"{name!r} must have the shape {shape}, {actual}"
    if (
        not V
        or arrays["vocabulary"].dtype.kind not in "iu"
        or (np.diff(arrays["vocabulary"]) <= 0).any()
    ):
        yield "'vocabulary' must contain whole numbers in increasing order"
    for name, array in arrays.items():
        if array.dtype.kind not in ("iu" if name == "vocabulary" else "f"):
            yield f"{name!r} must contain floating-point numbers, not {array.dtype}"
        # `draws` is NaN if the values do not show the error of one pair of orders, for example
        # values of all masks.
        elif not (np.isfinite(array).all() or (name == "draws" and np.isnan(array).all())):
            yield f"{name!r} must contain finite numbers"
    for name in ("words.scale", "texts.scale", "scale", "spread", "outside_variance"):
        if not (arrays[name] > 0).all():
            yield f"{name!r} must contain positive numbers"
    if not by_word and any(f"{member}.word.weight" in arrays for member in range(_NETWORK_COUNT)):
        yield "it has weights of words, but its signals do not include words"


_SIZED = ("vocabulary", "words.mean", "texts.mean", "spread", "0.first.bias")
_NONE = np.array(0.0)


# The variance that a learned method predicts counts as much as this number of pairs.
_PRIOR_PAIRS = 8
_ERROR_FACTORS: list[float] = np.geomspace(1.0, 1e6, 121).tolist()


def load_start(start: LearnedMethod | str | None) -> LearnedMethod | None:
    """Return the learned method of a setting ``start``, which may be its folder.

    Raises
    ------
    InputError
        If the folder has no learned method.
    """
    if not isinstance(start, str):
        return start
    try:
        return LearnedMethod.load(start.removeprefix(LEARNED_PREFIX))
    except InputError as error:
        raise InputError(f"the setting 'start' must be a learned method: {error}") from None


def read_start(settings: Any, batch: Batch) -> LearnedScores | None:
    """Return the scores of the learned method in the setting ``start``, if there is one.

    The settings also have a ``replacement``.

    Raises
    ------
    InputError
        If the method was not learned for this scale or replacement, or has no errors of pairs.
    """
    if not isinstance(settings.start, LearnedMethod):
        return None
    if batch.targets.scale == "probability":
        raise InputError(
            "a learned start explains logits only. Use scale='logit', or leave start out."
        )
    default = resolve_replacement(batch.model, "auto")
    if settings.replacement != default:
        raise InputError(
            f"a learned start needs replacement={default!r}, not {settings.replacement!r}. Leave "
            "replacement out, or leave start out."
        )
    scores = settings.start.score_texts(batch)[0]
    if np.isnan(scores.draw_deviation).any():
        raise InputError(
            "this method was learned from stored values that were not sampled by pairs of orders, "
            "so it cannot be the start. Learn it from texts, or leave start out."
        )
    return scores


class CombinedScores(NamedTuple):
    """Weighted means of learned and sampled scores.

    ``weight`` is that of each learned score. The variances of the learned scores were increased by
    ``factor``. ``sampled_stderr`` are the standard errors of the sampled scores.
    """

    scores: Float[np.ndarray, " d"]
    stderr: Float[np.ndarray, " d"]
    weight: Float[np.ndarray, " d"]
    factor: float
    sampled_stderr: Float[np.ndarray, " d"]
    learned_warnings: tuple[str, ...]

    def replace_scores(self, attribution: Attribution) -> Attribution:
        """Return an attribution of the sampled scores with these scores instead."""
        # The factor is one of variances. It is reported if the errors are more than doubled.
        increase = f" (with errors increased by a factor of {self.factor**0.5:.1f})"
        return replace(
            attribution,
            scores=self.scores,
            stderr=self.stderr,
            # The errors of the learned scores have no draws.
            draws=None,
            warnings=(
                f"Scores are weighted means of learned scores{increase * (self.factor > 4)} and "
                "sampled scores. For unbiased sampled scores, read diagnostics['unbiased'].",
                *self.learned_warnings,
                *attribution.warnings,
            ),
            diagnostics={
                **attribution.diagnostics,
                "unbiased": attribution.scores.tolist(),
                "unbiased_stderr": self.sampled_stderr.tolist(),
                "learned_share": float(self.weight.mean()),
                "learned_widened": self.factor,
            },
        )


def combine_scores(
    learned: LearnedScores,
    values: Float[np.ndarray, " d"],
    sampled_variance: Float[np.ndarray, " d"],
    *,
    pairs: Int[np.ndarray, " d"] | int | None = None,
) -> CombinedScores:
    """Average learned and sampled scores, feature by feature, weighted by their squared errors.

    The variance of a pair of orders is an average too. The learned method predicts it from other
    texts, and the sample estimates it from this text. If the learned scores differ from the sampled
    scores by more than both errors allow, the text is unlike the training texts, so the learned
    errors are increased by a common factor. At the end the scores are corrected to add up to
    f(all) − f(none), as the sampled scores do. Each feature gets a part of the correction in
    proportion to its squared error. This brings the scores closer to the true values, in the
    distance that weights features by their squared errors.

    Parameters
    ----------
    learned
        The learned scores, from :func:`read_start`.
    values
        The sampled scores, which add up to f(all) − f(none).
    sampled_variance
        The squared standard errors of the sampled scores. A single pair has any finite values.
    pairs
        The number of pairs of orders, for each feature or for all; None for another sampler.

    Returns
    -------
    The weighted means, with their errors.
    """
    if pairs is not None:
        degrees = np.asarray(_PRIOR_PAIRS + pairs - 1.0)
        prior = _PRIOR_PAIRS * learned.draw_deviation**2 / pairs
        sampled_variance = (prior + (pairs - 1) * sampled_variance) / degrees
        # The variance is an estimate itself.
        sampled_variance = sampled_variance * small_sample_factor(degrees) ** 2
    squared_distance, learned_variance = (learned.values - values) ** 2, learned.stderr**2
    fitting_factors = (
        factor
        for factor in _ERROR_FACTORS
        if np.mean(squared_distance / (factor * learned_variance + sampled_variance)) <= 1
    )
    factor = next(fitting_factors, _ERROR_FACTORS[-1])
    weight = sampled_variance / (factor * learned_variance + sampled_variance)
    scores = weight * learned.values + (1 - weight) * values
    variance = (1 - weight) * sampled_variance
    scores = scores + variance / variance.sum() * (values.sum() - scores.sum())
    return CombinedScores(
        scores=scores,
        stderr=np.sqrt(variance),
        weight=weight,
        factor=factor,
        sampled_stderr=np.sqrt(sampled_variance),
        learned_warnings=learned.warnings,
    )
