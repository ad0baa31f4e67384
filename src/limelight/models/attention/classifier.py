"""The paper's classifier: one layer of attention heads, read at [cls], then a linear map."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, partial
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from limelight.errors import InputError, about_text
from limelight.models.attention.collapsed import CollapsedDocuments
from limelight.models.attention.inputs import padded_ids, read_document
from limelight.models.attention.masked import deleted_windows, looked_up, replacement_game
from limelight.models.attention.tables import (
    Directions,
    TableErrors,
    Tables,
    collapse,
    in_chunks,
    position_errors,
    predicted_logits,
    read_directions,
    sinusoidal_positions,
    table_errors,
    tables_on_device,
)
from limelight.models.attention.weights import (
    check_weights,
    shuffled_weights,
    weights_of,
)
from limelight.models.protocol import Capability, Link, Property, class_probabilities
from limelight.sampling.sample import Game
from limelight.shapes import Float, Int
from limelight.text import UNK, Features, ModelInput, Vocabulary, few_names
from limelight.theory.attention import attention, unit_logits
from limelight.theory.ratio_game import RatioGame
from limelight.threads import cached_property

_BY_TABLES = "the paper's classifier is explained from its tables, which need no such pass"
_CAPABILITIES: Mapping[Capability, str | None] = MappingProxyType(
    {
        "tables": None,
        "exact_game": None,
        **dict.fromkeys(("attention", "attention_only", "gradients", "lrp"), _BY_TABLES),
    }
)
LIMITATIONS: Mapping[Property, str] = MappingProxyType(
    {
        "has_subwords": "the paper's classifier reads whole words, not pieces of them",
        "max_tokens": "the paper's classifier is explained exactly, on the window it was trained "
        "for",
        "reads_pairs": "the paper's classifier reads one text; load a model that was trained on "
        "pairs",
    }
)
# Largest spread of logits whose exponentials keep all their digits; beyond, the caller takes the
# maximum of each document off first (`tables.predicted_logits`).
SPREAD = 600.0
_CHUNK = 128  # documents at a time: the gathered rows stay inside the cache
_MASKS = 1024  # at a time: of a novel each takes a hundred kilobytes
_FEW_MASKS = 64  # for which no table is made
_TOGETHER = 32  # documents whose arrays stay inside the cache
_TOGETHER_ON_DEVICE = 512  # fewer leave a GPU idle between two launches


# Models are equal where they are the same object; comparing arrays would give no truth value.
@dataclass(frozen=True, kw_only=True, eq=False)
class AttentionClassifier:
    r"""K attention heads averaged into C logits (Eq. 1–9 of the paper).

    .. math:: f = \frac1K \sum_i W_\ell^{(i)} \sum_t \alpha_t^{(i)} v_t^{(i)}

    Shapes, finiteness and class names are checked when a model is made, so its fields are what
    their comments say. Weights keep the precision they were stored in; everything is computed in
    float64. With one output (C = 1) there are two classes, and f > 0 is the second.
    Options: biases; a ``skip`` connection W_s from the "mean" of the window or from [cls], which is
    added to f; ``head_embeddings``, with rows of K · d_e numbers, d_e for each head; "additive"
    attention, whose logits are w_a · tanh(q + k_t) instead of q · k_t/√d_att.
    """

    embedding: np.ndarray  # V d_e, or V K·d_e
    W_q: np.ndarray  # K d_att d_e
    W_k: np.ndarray  # K d_att d_e
    W_v: np.ndarray  # K d_out d_e
    W_l: np.ndarray  # K C d_out
    b_q: np.ndarray | None = None  # K d_att
    b_k: np.ndarray | None = None  # K d_att
    b_v: np.ndarray | None = None  # K d_out
    W_s: np.ndarray | None = None  # C d_e, or C K·d_e
    w_a: np.ndarray | None = None  # K d_att
    attention: str = "dot-product"
    skip: str | None = None
    head_embeddings: bool = False
    vocabulary: Vocabulary
    classes: tuple[str, ...]
    T_max: int = 256
    position_base: float = 10000.0
    position_scale: float = 1.0
    tokenizer: str = "basic_english"
    record: Mapping[str, Any] = field(default_factory=dict)
    device: str | None = None  # of torch, on which lists of texts are explained; None: NumPy

    # Of every model of this family, and read often: what outputs become probabilities by, what may
    # stand for a removed word, and what the model offers.
    link: ClassVar[Link] = "softmax"
    replacements: ClassVar[tuple[str, ...]] = ("unk", "delete")
    capabilities: ClassVar[Mapping[Capability, str | None]] = _CAPABILITIES
    is_exclusive: ClassVar[bool] = True
    limitations: ClassVar[Mapping[Property, str]] = LIMITATIONS
    embedding_error: ClassVar[np.ndarray | None] = None  # of embeddings that were computed

    def __post_init__(self) -> None:
        # A dictionary could be changed after the fingerprint was made of it.
        object.__setattr__(self, "record", MappingProxyType(dict(self.record)))
        # Read-only: tables, fingerprint and everything cached below were made of these numbers.
        for name, given in weights_of(self).items():
            own = np.array(given)  # freezing it must not freeze the caller's array
            own.setflags(write=False)
            object.__setattr__(self, name, own)
        check_weights(self)

    def __repr__(self) -> str:
        size = self.sizes
        place = "" if self.device is None else f" on {self.device}"
        return (
            f"<AttentionClassifier {few_names(self.classes)}: {size['K']} heads, "
            f"{size['V']:,} words, {self.T_max} tokens{place}; {self.fingerprint[:8]}>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # A read-only mapping cannot be pickled; and tables are cheaper to make than to send.
        own = {one.name: getattr(self, one.name) for one in fields(self)}
        changed = {name: dict(x) for name, x in vars(self).items() if name == "capabilities"}
        return partial(type(self), **own | {"record": dict(self.record)}), (), changed or None

    @property
    def sizes(self) -> dict[str, int]:
        """The letters of the notation table and their values for this model."""
        V, (K, d_att, d_e), (_, C, d_out) = len(self.embedding), self.W_q.shape, self.W_l.shape
        letters = ("V", "d_e", "K", "d_att", "d_out", "C", "T_max")
        return dict(zip(letters, (V, d_e, K, d_att, d_out, C, self.T_max), strict=True))

    @property
    def config(self) -> dict[str, Any]:
        """Settings that say how to read the weights, then the record of the training."""
        return {
            "skip": self.skip,
            "head_embeddings": self.head_embeddings,
            "attention": self.attention,
            "T_max": self.T_max,
            "position_base": self.position_base,
            "position_scale": self.position_scale,
            "classes": list(self.classes),
            "tokenizer": self.tokenizer,
            **self.record,
        }

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of configuration, vocabulary and weights: equal for equal models only."""
        digest = hashlib.sha256(json.dumps(self.config, sort_keys=True).encode())
        digest.update("\n".join(self.vocabulary.words).encode())
        for name, array in weights_of(self).items():
            digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
            # Without a copy: embeddings are tens of megabytes.
            digest.update(np.ascontiguousarray(array).view(np.uint8).data)
        return digest.hexdigest()

    @cached_property
    def positions(self) -> Float[np.ndarray, "T_max d_e"]:
        """The positional part of every embedding."""
        return self._of_parts(sinusoidal_positions)

    @cached_property
    def directions(self) -> Directions:
        """What each head reads of an embedding."""
        return read_directions(self)

    @cached_property
    def tables(self) -> Tables:
        """The model as two tables per head: all that a prediction needs."""
        return collapse(self)

    @cached_property
    def table_errors(self) -> TableErrors:
        """How far the tables may be from what the weights say."""
        return table_errors(self)

    @cached_property
    def position_errors(self) -> Float[np.ndarray, "T_max d_e"]:
        """How far the positional parts may be from what their formula says."""
        return self._of_parts(position_errors)

    def _of_parts(self, of_positions: Callable[..., np.ndarray]) -> Float[np.ndarray, "T_max d_e"]:
        """What ``of_positions`` says of one embedding, for each that a row holds."""
        size = self.sizes
        one = of_positions(
            self.T_max, size["d_e"], base=self.position_base, scale=self.position_scale
        )
        return np.tile(one, size["K"]) if self.head_embeddings else one

    @cached_property
    def _factored(self) -> "Factored | None":
        return factored(self.tables)

    def rounded(self, dtype: str) -> "AttentionClassifier":
        """Return the model with its weights in another precision, such as "float16"."""
        rounded: dict[str, Any] = {n: x.astype(dtype) for n, x in weights_of(self).items()}
        return replace(self, **rounded)

    def shuffle_weights(self, seed: int) -> "AttentionClassifier":
        """Return the model with the numbers of every weight in random places."""
        weights: dict[str, Any] = shuffled_weights(weights_of(self), seed)
        return replace(self, **weights)

    @property
    def documents_per_batch(self) -> int:
        """How many documents are worth collapsing at a time."""
        return _TOGETHER if self.device is None else _TOGETHER_ON_DEVICE

    @cached_property
    def device_tables(self) -> tuple[Tables, TableErrors] | None:
        """The tables and their errors on the device; None where NumPy computes."""
        return None if self.device is None else tables_on_device(self)

    def on(self, device: str | None) -> "AttentionClassifier":
        """Return the model for a torch device such as "cuda", or for NumPy with None."""
        if device == self.device:
            return self
        moved = replace(self, device=device)
        _ = moved.device_tables  # what cannot be used is refused here, not in the middle of work
        return moved

    def read(self, text: str, *, pieces: bool = False) -> ModelInput:
        """Return ``text`` as this model sees it."""
        if pieces:
            raise InputError(f"{self.limitations['has_subwords']}; read words.")
        return read_document(text, self.vocabulary, T_max=self.T_max)

    def outputs(self, inputs: Sequence[ModelInput]) -> Float[np.ndarray, "n C"]:
        """Return the C outputs of the model for texts that it has read."""
        return self.logits_of_ids([model_input.input.ids for model_input in inputs])

    def game(self, model_input: ModelInput, features: Features, replacement: str) -> Game:
        """Return the outputs as a function of which features stay: a few matrix products."""
        if replacement != "delete":
            return replacement_game(self.collapsed([model_input], [features]))
        # A feature of words is all their occurrences, those that the model does not read too: with
        # the others gone they move into the window.
        row = {s: j for j, s in enumerate(features.strings)} if features.unit == "words" else {}
        later = [row.get(string, -1) for string in model_input.input.beyond]
        of_token = np.array([*features.of_token, *later])
        ids = np.append(model_input.input.ids, self.vocabulary.encode(model_input.input.beyond))
        T = min(self.T_max, 1 + len(ids))
        table = cache(lambda: looked_up(self.tables, ids, T=T))

        def outputs(keep: np.ndarray) -> np.ndarray:
            # To make the table costs as much as some dozens of masks do without it.
            known = table() if self.device is None and len(keep) > _FEW_MASKS else None
            answer = known or self._of_windows
            windows = partial(deleted_windows, ids=ids, of_token=of_token, T_max=T)
            return in_chunks(lambda part: answer(windows(part)), keep, _MASKS, C=self.sizes["C"])

        return outputs

    def games(self, inputs: Sequence[ModelInput], features: Sequence[Features]) -> RatioGame:
        """Return the games of the documents, one class for each output."""
        return self.collapsed(inputs, features).game

    def asked_about(self, features: Any, scale: str) -> "AttentionClassifier":  # noqa: ARG002
        """Return the same, which answers exactly on every scale but that of probabilities."""
        return self._for_probabilities if scale == "probability" else self

    @cached_property
    def _for_probabilities(self) -> "AttentionClassifier":
        """The same model without games: its probabilities are asked mask by mask."""
        _ = self.tables  # known before, and not anew for every question
        # No copy by `replace`, which would check all weights again.
        asked = object.__new__(type(self))
        why = "probabilities are no quotients of sums over words"
        known = {**self.capabilities, "exact_game": why}
        vars(asked).update(vars(self), capabilities=MappingProxyType(known))
        return asked

    def collapsed(
        self, inputs: Sequence[ModelInput], features: Sequence[Features]
    ) -> CollapsedDocuments:
        """Return documents as the arrays that exact methods need."""
        return CollapsedDocuments(model=self, inputs=tuple(inputs), features=tuple(features))

    def logits(self, texts: Sequence[Any]) -> Float[np.ndarray, "n C"]:
        """Return the C outputs of the model for every text."""
        if isinstance(texts, str):
            raise InputError("logits takes a list of texts; got one string. Write [text].")
        given, inputs = list(texts), []  # they may come one by one
        for number, text in enumerate(given):
            with about_text(number if len(given) > 1 else None):
                inputs.append(self.read(text))
        return self.outputs(inputs)

    def logits_of_ids(self, rows: Sequence[np.ndarray]) -> Float[np.ndarray, "n C"]:
        """Return the outputs for documents that are encoded already, without [cls] and padding."""
        longest = 1 + max(map(len, rows), default=0)
        return self._of_windows(padded_ids(rows, T_max=min(self.T_max, longest)))

    def _of_windows(self, ids: Int[np.ndarray, "n T"]) -> Float[np.ndarray, "n C"]:
        """Return the outputs for windows, of which the rest is padding."""
        if self.device_tables is not None:
            return predicted_logits(self.device_tables[0], ids)
        return predicted_logits(self.tables, ids) if self._factored is None else self._factored(ids)

    def predict_proba(self, texts: Sequence[str]) -> Float[np.ndarray, "n classes"]:
        """Return the probability of every class for every text; rows sum to one."""
        return class_probabilities(self.logits(texts))

    def attention_matrices(self, model_input: ModelInput) -> Float[np.ndarray, "K T T"]:
        """Return every head's attention of every token to every token, [cls] first (Figure 3).

        Rows are softmaxes over the whole window, as in the model; the columns of the padding are
        left out, so a row sums to one minus the attention it pays to padding.
        """
        ids = padded_ids([model_input.input.ids], T_max=self.T_max)[0]
        # Of the weights and not of the tables: these hold the row of [cls] alone.
        e = self.embedding[ids].astype(np.float64) + self.positions
        T, K, seen = 1 + len(model_input.tokens), self.sizes["K"], self.directions
        # The first K heads: a skip connection from the mean, the last, attends to nothing.
        logit = np.einsum("se,kef,tf->kst", e[:T], seen.query[:K], e, optimize=True)
        # The key's bias adds the same to a whole row of products, which a softmax does not notice.
        logit += (seen.asked[:K] @ e.T)[:, None]
        if (units := seen.units) is not None:
            keys = np.einsum("te,kae->kta", e, units.key, optimize=True)
            queries = np.einsum("se,kae->ska", e[:T], units.query, optimize=True) + units.bias
            # Row by row: all at once would be T · T_max · K · d_h numbers.
            weight = units.weight[:, None]
            rows = [unit_logits(keys + query[:, None], weight) for query in queries]
            logit += np.stack(rows, axis=1)[:K]
        return attention(logit)[:, :, :T]


@dataclass(frozen=True, slots=True, eq=False)
class Factored:
    """What every word and every position adds to numerator and denominator."""

    word: Float[np.ndarray, "V terms"]  # g_w, then g_w u_w for each class: one row to gather
    position: Float[np.ndarray, "T_max K"]  # g_t
    position_value: Float[np.ndarray, "T_max C K"]  # g_t u_t

    def __call__(self, ids: Int[np.ndarray, "n T"]) -> Float[np.ndarray, "n C"]:
        """Return f for every document; padding follows its ids."""
        (n, T), (_, C, K) = ids.shape, self.position_value.shape
        # One more word, UNK, stands in all places behind: sums over places are all that counts.
        position, position_value = (
            np.concatenate([x[:T], x[T:].sum(axis=0, keepdims=True)])
            for x in (self.position, self.position_value)
        )

        def chunk(ids: np.ndarray) -> np.ndarray:
            # exp(ℓ_w + ℓ_t) = g_w g_t: exponentials are those of the tables, not of every token.
            rows = self.word.take(ids, axis=0)  # two thirds of the time of an index
            g, gu = rows[..., :K], rows[..., K:].reshape(*ids.shape, C, K)
            D = np.einsum("ntk,tk->nk", g, position)
            N = np.einsum("ntck,tk->nck", gu, position)
            N += np.einsum("ntk,tck->nck", g, position_value)
            return (N / D[:, None]).mean(axis=-1)

        padded = np.concatenate([ids, np.full((n, 1), UNK, ids.dtype)], axis=1)
        return in_chunks(chunk, padded, _CHUNK, C=C)


def factored(tables: Tables) -> Factored | None:
    """Return the model in factored form, or None where its logits spread too far for that.

    None too where hidden units make the logits: those are no sums over word and position.
    """
    if tables.units is not None:
        return None
    word, position = tables.word_logit, tables.position_logit
    # Beyond, every term of a text that lacks the largest word could underflow.
    if np.ptp(word, axis=0).max() + np.ptp(position, axis=0).max() > SPREAD:
        return None
    g_w, g_t = np.exp(word - word.max(axis=0)), np.exp(position - position.max(axis=0))
    gu = g_w[:, None, :] * tables.word_value
    return Factored(
        word=np.concatenate([g_w, gu.reshape(len(gu), -1)], axis=1),
        position=g_t,
        position_value=g_t[:, None, :] * tables.position_value,
    )
