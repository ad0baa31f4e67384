"""A method that was fitted to one model: Shapley values at the price of one pass, with errors.

What is fitted in ``limelight.training`` is applied here, with NumPy: two small networks turn what
the model holds of each word into its Shapley value for every output of the model, and what
held-out texts have shown about their errors becomes a standard error for every score.
"""

import hashlib
import json
import math
import os
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
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
from limelight.models import are_opposite, class_weights
from limelight.results import Attribution
from limelight.sampling.masks import draw_masks_by_size, text_rng
from limelight.shapes import Float, Int
from limelight.text import (
    AnswerQuery,
    Features,
    abbreviate_names,
    feature_noun,
    pluralize,
    side_index,
    truncate_line,
)
from limelight.threads import cached_property

SCHEMA = "limelight.learned/1"
FILES = ("method.json", "model.safetensors")
LEARNED = "learned"
PREFIX = f"{LEARNED}:"  # of a folder that stands where the name of a method may
# What a network is told. Of models that show nothing inside, the word itself, its places and the
# length of the text are left: a global additive model.
STATES = ("embedding", "middle", "last", "attention", "head")
WITH_STATES = ("embedding", "middle", "last", "head", "places", "outputs")
WITHOUT_STATES = ("words", "places", "outputs")
_FLOOR = 0.05  # of the usual score: below it, sizes and disagreements say no more about errors
LEAST_ERROR = 1e-6  # of the usual score: what single precision does to it
_MOST_BYTES = 1 << 30  # of a file, which may come from anybody
_MEMBERS = 2  # networks: how far they are apart tells of their error
_TOGETHER = 8  # texts that are scored at a time: their signals stay in the cache


class NetworkInputs(NamedTuple):
    """What networks are told of ``n`` texts with N features in all.

    ``owner`` is the text of each feature. ``word`` is a hash of its string, the same in every
    process, and in standard signals its place among the words that were learned.
    """

    words: Float[np.ndarray, "N s"]
    texts: Float[np.ndarray, "n t"]
    owner: Int[np.ndarray, " N"]
    word: Int[np.ndarray, " N"]


def make_network_inputs(batch: Batch, signals: Collection[str]) -> NetworkInputs:
    """Return what ``signals`` there are of every feature of ``reading``, and of its texts."""
    words, texts = list[np.ndarray](), list[np.ndarray]()
    if not set(STATES).isdisjoint(signals):
        held = batch.hidden_states
        h = held.head_input.shape[1]
        layers = np.split(np.concatenate(held.states), [h, 2 * h, 3 * h], axis=1)
        words += [layer for name, layer in zip(STATES, layers, strict=False) if name in signals]
        texts += [held.head_input] if "head" in signals else []
    if "places" in signals:
        words.append(np.concatenate([_places(batch, i) for i in range(len(batch.inputs))]))
    if "outputs" in signals:
        texts.append(batch.outputs)
    owner = np.repeat(np.arange(len(batch.features)), [len(f) for f in batch.features])
    hashes = [_hash(string) for own in batch.features for string in own.strings]
    return NetworkInputs(
        _joined(words, len(owner)), _joined(texts, len(batch.features)), owner, np.array(hashes)
    )


def _joined(parts: list[np.ndarray], n: int) -> Float[np.ndarray, "n s"]:
    return np.concatenate([np.empty((n, 0)), *parts], axis=1, dtype=np.float32)


def _places(batch: Batch, i: int) -> Float[np.ndarray, "d p"]:
    """Return how long a text is, and how often, where and on which side each feature stands.

    Of a place that is asked about, also how far from it that is, and how long the place is; an
    answer stands after the text.
    """
    model_input, features = batch.inputs[i], batch.features[i]
    T, d, feature_index = len(model_input.tokens.strings), len(features), features.feature_index
    scored = np.flatnonzero(feature_index >= 0)
    count = np.bincount(feature_index[scored], minlength=d)
    first = np.full(d, T)
    np.minimum.at(first, feature_index[scored], scored)
    side = np.zeros(d)
    if model_input.parts:
        side[:] = [side_index(own[0][0] if own else 0, model_input.parts) for own in features.spans]
    found = [np.full(d, math.log(d)), np.log(np.maximum(count, 1))]
    found += [first / T, np.log1p(first), side]
    for one in model_input.queries:
        here = one.tokens(model_input.tokens.spans, model_input.text) or [T]
        off, nearest = scored - np.clip(scored, here[0], here[-1]), np.full(d, T)
        np.minimum.at(nearest, feature_index[scored], np.abs(off))
        before = np.bincount(feature_index[scored], off < 0, minlength=d) > 0
        size = one.length if isinstance(one, AnswerQuery) else len(here)
        found += [np.where(before, -1, 1) * np.log1p(nearest), np.full(d, math.log(size))]
    return np.stack(found, axis=1)


@lru_cache(maxsize=1 << 16)
def _hash(string: str) -> int:
    return zlib.crc32(string.lower().encode("utf-8", "surrogatepass"))


class LearnedScores(NamedTuple):
    """Scores, their standard errors, and the deviation of what one pair of orders would say.

    Of N features for each output; or of one text for the explained number, with its warnings.
    """

    values: Float[np.ndarray, "N *C"]
    stderr: Float[np.ndarray, "N *C"]
    draw: Float[np.ndarray, "N *C"]
    warnings: tuple[str, ...] = ()


def error_design(
    members: Float[np.ndarray, "members N C"], owner: Int[np.ndarray, " N"]
) -> Float[np.ndarray, "N C 4"]:
    """Return what the logarithm of a squared error is linear in, of scores in usual units.

    That is 1, and the logarithms of the score, of how far the networks are apart, and of the length
    of the text.
    """
    values, apart = members.mean(axis=0), np.abs(members[0] - members[1]) / 2
    logs = [np.log(np.abs(x) + _FLOOR) for x in (values, apart)]
    sizes = np.broadcast_to(np.log(np.bincount(owner)[owner])[:, None], values.shape)
    return np.stack([np.ones_like(values), *logs, sizes], axis=-1)


@final
@dataclass(frozen=True, eq=False)
class LearnedMethod:
    """A method that :func:`limelight.learn` fitted to one model, ready to explain its texts.

    It stands where the name of a method may: ``explain(model, text, learned)``. ``record`` is what
    ``method.json`` holds, with the ``report`` on what was reached, and ``arrays`` the weights.
    """

    record: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray]

    def __repr__(self) -> str:
        return f"<Learned from {self.report['texts']} {self.of}: {self.report['said'][0]}>"

    def __str__(self) -> str:
        return "\n".join(self.report["said"])

    @property
    def of(self) -> str:
        """What it learned from: "texts" or the like, or "places" or "answers" of them."""
        return str(self.record.get("of", "texts"))

    @property
    def report(self) -> Mapping[str, Any]:
        """What was reached on texts that were kept aside; ``said`` are its sentences."""
        found: Mapping[str, Any] = self.record["report"]
        return found

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of what it says of itself and of its weights, which stands for it."""
        found = hashlib.sha256(json.dumps(self.record, sort_keys=True).encode())
        for name in sorted(self.arrays):
            found.update(f"{name} {self.arrays[name].dtype.str} {self.arrays[name].shape}".encode())
            found.update(np.ascontiguousarray(self.arrays[name]).tobytes())
        return found.hexdigest()

    def __reduce__(self) -> tuple[Any, ...]:
        return LearnedMethod, (
            dict(self.record),
            dict(self.arrays),
        )  # what is made of them stays behind

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write ``method.json`` and ``model.safetensors``; the weights first, whole or not."""
        from safetensors.numpy import save

        Path(folder).mkdir(parents=True, exist_ok=True)
        weights = save({k: np.ascontiguousarray(x) for k, x in self.arrays.items()})
        digest = hashlib.sha256(weights).hexdigest()
        # The record last, with the digest of the weights: files of two methods are told apart.
        write_atomically(Path(folder) / FILES[1], weights)
        written = {"schema": SCHEMA, **self.record, "weights": digest}
        written["sha256"] = _record_digest(written)
        text = json.dumps(written, indent=2, ensure_ascii=False) + "\n"
        write_atomically(Path(folder) / FILES[0], text)

    @staticmethod
    def load(folder: str | os.PathLike[str]) -> "LearnedMethod":
        """Return the method in ``folder``; what is no method there is refused in a sentence."""
        record = Path(folder) / FILES[0]
        if not os.path.isfile(record):  # noqa: PTH113  (a name too long for a file is none)
            raise InputError(
                f"there is no learned method at '{folder}': it has no {FILES[0]}. Make one with "
                "limelight.learn(model, texts, output=…), or limelight learn."
            )
        return _loaded(str(folder), record.stat().st_mtime_ns)

    @cached_property
    def method(self) -> Method:
        """The row that other methods have in the registry."""
        states = not set(STATES).isdisjoint(self.record["signals"])
        implementation = Implementation(
            needs="hidden_states" if states else None,
            exactness="fitted",
            explain=self._explained,
            settings={
                "check": "random masks to ask, to see how much of them the scores explain",
                "fitted": "which learned method it is, by its digest",
            },
            defaults={"fitted": self},
            cost=Cost(minimum=lambda settings, _: settings.check and settings.check + 2),
            hidden_settings=("check",),
            is_batched=states,
            logit_only=True,
        )
        return Method(
            id=LEARNED,
            label="LearnedMethod",
            formula="linear map + two hidden layers of what the model holds of the word, fitted to "
            "sampled Shapley values of this model",
            sees="what Shapley values see, as far as they follow from the states of the model",
            blind="texts unlike those it learned from: a warning says so",
            cost="one forward pass",
            settings=LearnedSettings,
            implementations=(implementation,),
        )

    def predicted(self, network_inputs: NetworkInputs) -> LearnedScores:
        """Return scores and standard errors for every output of the model, of standard signals."""
        scale, members = self.arrays["scale"], self.members(network_inputs)
        design = error_design(members, network_inputs.owner)
        errors = np.exp(design @ self.arrays["errors"]) + self.unseen(network_inputs)[:, None]
        stderr, draw = np.sqrt(errors + LEAST_ERROR**2), self.draw(design)
        return LearnedScores(members.mean(axis=0) * scale, stderr * scale, draw * scale)

    def draw(self, design: Float[np.ndarray, "N C 4"]) -> Float[np.ndarray, "N C"]:
        """Return how far one pair of orders lies from the truth, in usual units."""
        found = np.sqrt(np.exp(design @ self.arrays["draws"]) + LEAST_ERROR**2)
        return found * (design[..., 3] > 1)  # log d: two words have one pair of orders

    def unseen(self, network_inputs: NetworkInputs) -> Float[np.ndarray, " N"]:
        """Return 1 at words that were not learned, where words are all that is known, else 0.

        It is their variance in units of usual scores: nothing was seen that could tell it.
        """
        new = network_inputs.word == len(self.arrays["vocabulary"])
        return new.astype(float) if "0.word.weight" in self.arrays else np.zeros(len(new))

    def standard(self, network_inputs: NetworkInputs) -> NetworkInputs:
        """Return the signals less their mean, in units of their deviation.

        A word becomes its place among those that were learned, their number if it was not.
        """
        own = self.arrays
        words = network_inputs.words - own["words.mean"]
        words /= own["words.scale"]  # in place: it is by far the largest array
        texts = (network_inputs.texts - own["texts.mean"]) / own["texts.scale"]
        known = own["vocabulary"]
        place = np.searchsorted(known, network_inputs.word)
        there = known[np.minimum(place, len(known) - 1)] == network_inputs.word
        return NetworkInputs(words, texts, network_inputs.owner, np.where(there, place, len(known)))

    @cached_property
    def _first(self) -> Float[np.ndarray, "s k"]:
        """All layers that see the signals: one product for all, once for what a text shares."""
        names = [f"{k}.{layer}.weight" for k in range(_MEMBERS) for layer in ("first", "linear")]
        return np.concatenate([self.arrays[name] for name in names]).T

    def members(self, network_inputs: NetworkInputs) -> Float[np.ndarray, "members N C"]:
        """Return what the networks say of standard signals, in units of usual scores."""
        own, words, texts = self.arrays, network_inputs.words, network_inputs.texts
        first = self._first
        seen = (
            words @ first[: words.shape[1]]
            + (texts @ first[words.shape[1] :])[network_inputs.owner]
        )
        found = []
        for k, x in enumerate(np.split(seen, _MEMBERS, axis=1)):
            hidden = len(own[f"{k}.first.bias"])
            h = np.maximum(x[:, :hidden] + own[f"{k}.first.bias"], 0.0)
            h = np.maximum(h @ own[f"{k}.second.weight"].T + own[f"{k}.second.bias"], 0.0)
            said = x[:, hidden:] + h @ own[f"{k}.last.weight"].T + own[f"{k}.last.bias"]
            if (name := f"{k}.word.weight") in own:
                said += own[name][network_inputs.word]
            found.append(said)
        return np.array(found, np.float64)

    def starts(self, batch: Batch) -> list[LearnedScores]:
        """Return what is known of every text without asking about removals; refuse other models."""
        self.check(batch)
        if batch.targets.query_count > 1:
            raise InputError(
                "a learned start knows of one place or answer at a time; leave start out, or ask "
                "about one."
            )
        return [start for part in batch.split(_TOGETHER) for start in self._starts(part)]

    def _starts(self, batch: Batch) -> list[LearnedScores]:
        network_inputs = make_network_inputs(batch, self.record["signals"])
        for name, held in (("words", network_inputs.words), ("texts", network_inputs.texts)):
            if held.shape[1] != len(self.arrays[f"{name}.mean"]):
                raise InputError(
                    f"this method was learned from {len(self.arrays[f'{name}.mean'])} signals of "
                    f"{name}, and this model shows {held.shape[1]}; learn one for this model."
                )
        with np.errstate(all="ignore"):  # an error is raised below
            network_inputs = self.standard(network_inputs)
            values, stderr, draw, _ = self.predicted(network_inputs)
            strange = self.measure_novelty(network_inputs)
        if not (np.isfinite(values).all() and np.isfinite(stderr).all()):
            raise InputError("this learned method gives scores that are not finite; learn again.")
        ends = np.cumsum([len(features) for features in batch.features])[:-1]
        weights = batch.target_gradient[:, self._columns(batch)]
        parts = (np.split(x, ends) for x in (values, stderr, draw))
        # Errors of two outputs may go together, and are added as if they did.
        return [
            LearnedScores(own @ w, error @ np.abs(w), one @ np.abs(w), tuple(self._warnings(far)))
            for own, error, one, w, far in zip(*parts, weights, strange, strict=True)
        ]

    def _explained(self, settings: "LearnedSettings", batch: Batch) -> list[Attribution]:
        units: list[Features | None] = [None] * len(batch.inputs)
        if (
            batch.targets.query_count > 1
        ):  # words of other places may be removed, as they were learned
            needs_states = not set(STATES).isdisjoint(self.record["signals"])
            batch = batch.select_target_query(with_hidden_states=needs_states)
            units = list(batch.features)
        several = list(batch.split()) if settings.check else []
        findings = []
        for i, (scores, stderr, _, said) in enumerate(self.starts(batch)):
            asked: dict[str, Any] = {"base_value": None}
            if settings.check:
                asked = _asked(settings.check, several[i], scores, self.record["seed"])
                said += asked.pop("warnings")
            findings.append(
                Attribution(scores=scores, stderr=stderr, warnings=said, features=units[i], **asked)
            )
        return findings

    def check(self, batch: Batch) -> None:
        """Refuse another model, and questions that it did not learn to answer."""
        own, request = self.record["model"], batch.request
        # What can be named before the fingerprint, which covers it too.
        if (classes := tuple(self.record["classes"])) != batch.model.classes:
            raise InputError(
                "this method was learned from another model: its classes are "
                f"{abbreviate_names(classes)}, not {abbreviate_names(batch.model.classes)}. Learn one for this "
                "model."
            )
        if batch.model_fingerprint != own:
            raise InputError(
                f"this method was learned from another model: its fingerprint is …{own[-12:]}, and "
                f"this model's …{batch.model_fingerprint[-12:]}. Learn one for this model: "
                "limelight.learn(model, texts)."
            )
        outputs, link = batch.outputs.shape[1] // batch.targets.query_count, batch.model.link
        if request.scale == "score" and are_opposite(class_weights(len(classes), outputs, link)):
            raise InputError(
                "this method has learned about log-odds and not about the output of one class; "
                "leave scale out, or use 'shapley'."
            )
        if request.features != self.record["features"]:
            raise InputError(
                f"this method has learned about {self.record['features']!r} and not about "
                f"{truncate_line(repr(request.features), 40)}; use 'shapley', or learn another."
            )
        kept = request.protect or request.side is not None or not request.protect_span
        if kept or request.first_pieces:
            raise InputError(
                "a learned method scores all words of a text but those that are asked about, each "
                "of which may be removed; leave protect, side, protect_span and first_pieces out, "
                "or use 'shapley'."
            )

    def _columns(self, batch: Batch) -> Int[np.ndarray, " C"]:
        """Return the outputs that were learned; refuse to speak for others."""
        known = np.array(self.record["outputs"])
        asked = np.flatnonzero(batch.target_gradient.any(axis=0))
        if known.max() >= (count := batch.target_gradient.shape[1]):
            raise InputError(
                f"this method was learned from a model of {known.max() + 1} outputs or more, and "
                f"this one has {count}; learn one for this model."
            )
        if unknown := sorted(set(asked.tolist()) - set(known.tolist())):
            named = batch.model.classes[-batch.outputs.shape[1] :]
            raise InputError(
                f"this method has learned about {', '.join(repr(named[i]) for i in known)} alone, "
                f"which is what the values were of; {named[unknown[0]]!r} is asked for."
            )
        return known

    def measure_novelty(self, network_inputs: NetworkInputs) -> Float[np.ndarray, "n 3"]:
        """Return how unlike those it learned from each text is, from standard signals.

        The logarithm of the number of words, the share of words that it has not seen, and the
        distance of the mean state of the text from those of the training texts.
        """
        n = len(network_inputs.texts)
        count = np.bincount(network_inputs.owner, minlength=n)
        unseen = network_inputs.word == len(self.arrays["vocabulary"])
        new = np.bincount(network_inputs.owner, unseen, minlength=n) / count
        summary = summarize_texts(network_inputs) - self.arrays["center"]
        axes = self.arrays["axes"]
        along = summary @ axes.T
        # At least 0: what lies along the axes is taken off, and rounding may take more.
        rest = np.maximum((summary**2).sum(axis=1) - self.arrays["spread"] @ (along.T**2), 0.0)
        far = (along**2).mean(axis=1) + rest / self.arrays["rest"]
        return np.stack([np.log(count), new, np.sqrt(far)], axis=1)

    def _warnings(self, strange: Float[np.ndarray, " 3"]) -> Iterator[str]:
        usual = self.record["usual"]
        size, new, far = strange.tolist()
        low, high = usual["words"]
        noun = feature_noun(self.record["features"])
        why = []
        if not low <= (d := round(math.exp(size))) <= high:
            count = f"1 {noun}" if d == 1 else f"{d:,} different {pluralize(noun)}"
            why.append(f"it has {count}, and they had {low:,} to {high:,}")
        if new > usual["unseen"]:
            why.append(f"{new:.0%} of its {pluralize(noun)} did not occur there")
        if far > usual["distance"]:
            at_most = f"{usual['distance']:.1f} at most there"
            why.append(f"what the model shows of it lies {far:.1f} away, and {at_most}")
        if why:
            one = "text" if self.of in ("places", "answers") else self.of.removesuffix("s")
            yield (
                f"This {one} is unlike those the method learned from: {'; '.join(why)}. Scores and "
                "standard errors may not hold; check=16 asks the model, 'shapley' draws anew."
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
    """Return one row for each text: what is known of it, and the mean over its words."""
    ends = np.searchsorted(network_inputs.owner, np.arange(len(network_inputs.texts) + 1))
    # Products: summing rows takes ten times as long.
    means = [
        np.full(end - start, 1 / (end - start), np.float32) @ network_inputs.words[start:end]
        for start, end in pairwise(ends.tolist())  # every text has words
    ]
    return np.concatenate([network_inputs.texts, means], axis=1, dtype=np.float64)


def _asked(count: int, one: Batch, scores: Float[np.ndarray, " d"], seed: int) -> dict[str, Any]:
    """Ask ``count`` random masks, and say how much of their variance the scores explain."""
    game, d = TargetGame(one, "auto"), len(scores)
    rng = text_rng(seed, one.inputs[0].text)
    masks = draw_masks_by_size(d, rng.integers(1, d + 1, count), rng)
    answers = game(masks)[:, 0]
    spread = float(np.var(answers))
    explained = 1 - float(np.var(answers - masks @ scores)) / spread if spread else None
    said = f"Of the variance of {count} random masks of this text, the scores explain "
    said += f"{explained:.0%}." if (explained or 0.0) > 0 else "nothing."
    if explained is None:
        said = f"The model answers {count} random masks of this text alike: nothing to check by."
    return {
        "base_value": game.base_value,
        "warnings": (said, *game.warnings),
        "diagnostics": {"check_masks": count, "check_explained": explained},
    }


# Read once for all that name it; learned anew, it is another one.
@lru_cache(maxsize=8)
def _loaded(folder: str, _changed: int) -> LearnedMethod:
    from safetensors.numpy import load

    record_path, weights_path = (Path(folder) / name for name in FILES)
    try:
        record = parse_json(read_bounded_bytes(record_path, _MOST_BYTES), f"'{record_path}'")
        content = read_bounded_bytes(weights_path, _MOST_BYTES)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"the learned method in '{folder}' cannot be read ({reason}).") from None
    schema = record.pop("schema", None) if isinstance(record, dict) else None
    if schema != SCHEMA:
        raise InputError(
            f"'{folder}' holds no learned method that this version reads: its schema is "
            f"{truncate_line(repr(schema), 60)}, and this version reads {SCHEMA!r}."
        )
    if record.pop("sha256", None) not in (None, _record_digest(record)):
        raise InputError(f"'{record_path}' has changed since it was written; learn again.")
    if hashlib.sha256(content).hexdigest() != record.pop("weights", None):
        raise InputError(
            f"the weights in '{folder}' are not those that its {FILES[0]} was written with; learn "
            "again, or copy both files anew."
        )
    _check_record(record, f"'{record_path}'")
    try:
        arrays = load(content)
    except Exception as error:  # of a header that somebody made, anything
        reason = truncate_line(str(error), 80)
        raise InputError(f"'{weights_path}' cannot be read ({reason}).") from None
    if (fault := next(_array_faults(record, arrays), None)) is not None:
        raise InputError(f"'{weights_path}' is not of a learned method: {fault}. Learn again.")
    return LearnedMethod(record, arrays)


def _record_digest(record: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a record without its own, however its keys are laid out in a file."""
    kept = {name: value for name, value in record.items() if name not in ("schema", "sha256")}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def _check_record(record: Mapping[str, Any], name: str) -> None:
    """Refuse a record in which anything that is read later is missing or of another kind."""
    import msgspec  # which other methods do without

    try:
        msgspec.convert(record, _record_kind())
        json.dumps(record, ensure_ascii=False).encode()  # lone surrogates could not be printed
        if len(record["outputs"]) != len(set(record["outputs"])):
            raise ValueError("the same output stands twice in `outputs`")
        if max(record["outputs"]) >= len(record["classes"]):
            raise ValueError("`outputs` must be numbers of classes")
        if not math.isfinite(record["usual"]["unseen"] + record["usual"]["distance"]):
            raise ValueError("`usual` must hold finite numbers")
    except (msgspec.ValidationError, ValueError) as error:
        reason = truncate_line(str(error), 120).rstrip(".")
        raise InputError(f"{name} is not of a learned method: {reason}. Learn again.") from None


@cache
def _record_kind() -> Any:
    """Return the type of what a record must hold; it may hold more."""
    from msgspec import Meta, defstruct

    count = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
    share = Annotated[float, Meta(ge=0.0)]
    usual = defstruct(
        "usual", [("words", tuple[count, count]), ("unseen", share), ("distance", share)]
    )
    said = Annotated[list[str], Meta(min_length=1)]
    report = defstruct("report", [("texts", count), ("said", said), ("warning", str | None, None)])
    states = Literal["embedding", "middle", "last", "attention", "head"]  # as STATES
    signal = states | Literal["words", "places", "outputs"]
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
    """Yield what is wrong with the arrays of a method, the first fault that later ones rest on."""
    C, by_word = len(record["outputs"]), "words" in record["signals"]
    sizes = {name: arrays[name].shape[0] for name in _SIZED if arrays.get(name, _NONE).ndim}
    if lacking := sorted(set(_SIZED) - sizes.keys()):
        yield f"it has no list {lacking[0]!r}"
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
        "rest": (1,),
        "errors": (4,),
        "draws": (4,),
    }
    for member in range(_MEMBERS):
        of_member = {
            "first.weight": (hidden, words + texts),
            "first.bias": (hidden,),
            "second.weight": (hidden, hidden),
            "second.bias": (hidden,),
            "last.weight": (C, hidden),
            "last.bias": (C,),
            "linear.weight": (C, words + texts),
            **({"word.weight": (V + 1, C)} if by_word else {}),
        }
        shapes |= {f"{member}.{name}": shape for name, shape in of_member.items()}
    for name, shape in shapes.items():
        if name not in arrays or arrays[name].shape != shape:
            held = arrays[name].shape if name in arrays else "nothing"
            yield f"{name!r} must have the shape {shape}, and has {held}"
    if (
        not V
        or arrays["vocabulary"].dtype.kind not in "iu"
        or (np.diff(arrays["vocabulary"]) <= 0).any()
    ):
        yield "'vocabulary' must hold whole numbers in their order"
    for name, array in arrays.items():
        if array.dtype.kind not in ("iu" if name == "vocabulary" else "f"):
            yield f"{name!r} must hold numbers with a fraction; it holds {array.dtype}"
        # Values of all masks, say, do not show how far off one pair of orders is.
        elif not (np.isfinite(array).all() or (name == "draws" and np.isnan(array).all())):
            yield f"{name!r} must hold finite numbers"
    for name in ("words.scale", "texts.scale", "scale", "spread", "rest"):
        if not (arrays[name] > 0).all():
            yield f"{name!r} must hold positive numbers"
    if not by_word and any(f"{member}.word.weight" in arrays for member in range(_MEMBERS)):
        yield "it has weights of words, which its signals do not name"


_SIZED = ("vocabulary", "words.mean", "texts.mean", "spread", "0.first.bias")
_NONE = np.array(0.0)
