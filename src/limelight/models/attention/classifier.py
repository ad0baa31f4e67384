"""`AttentionClassifier`: one layer of attention heads, read at [cls], then a linear map."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, partial
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from limelight.errors import InputError, add_text_number
from limelight.models.attention.collapsed import CollapsedInputs
from limelight.models.attention.inputs import encode_text, padded_ids
from limelight.models.attention.masked import deleted_windows, make_window_lookup, replacement_game
from limelight.models.attention.refilling import (
    Background,
    WordNodeCache,
    make_background,
    make_refill_game,
    refilled_outputs,
)
from limelight.models.attention.tables import (
    Directions,
    TableErrors,
    TableRows,
    Tables,
    collapse,
    compute_in_chunks,
    compute_word_rows,
    position_errors,
    predict_logits,
    read_directions,
    sinusoidal_positions,
    table_errors,
    tables_on_device,
)
from limelight.models.attention.weights import (
    check_weights,
    model_weights,
    shuffle_arrays,
)
from limelight.models.protocol import (
    REFILL,
    Capability,
    Link,
    Property,
    class_probabilities,
)
from limelight.sampling.sample import Game
from limelight.shapes import Float, Int
from limelight.text import UNK, Features, ModelInput, Vocabulary, abbreviate_names
from limelight.theory.attention import attention, unit_logits
from limelight.theory.ratio_game import RatioGame
from limelight.theory.refilling import RefillGame
from limelight.threads import cached_property

_BY_TABLES = "AttentionClassifier provides tables instead"
_CAPABILITIES: Mapping[Capability, str | None] = MappingProxyType(
    {
        "tables": None,
        "exact_game": None,
        "refilling": "it has no background texts",
        **dict.fromkeys(("attention", "attention_only", "gradients", "lrp"), _BY_TABLES),
    }
)
LIMITATIONS: Mapping[Property, str] = MappingProxyType(
    {
        "has_subwords": "AttentionClassifier reads whole words",
        "max_tokens": "AttentionClassifier has a single window",
        "reads_pairs": "AttentionClassifier reads single texts",
    }
)
_UNUSABLE_REPLACEMENTS = MappingProxyType(
    {REFILL: "the model has no background texts (load with background=, or --background)"}
)
# The largest spread of logits whose exponentials keep all digits. For larger spreads, the maximum
# of each input is subtracted first (`tables.predict_logits`).
SPREAD = 600.0
_CHUNK = 128  # inputs at a time, so that the gathered rows stay inside the cache
_MASK_CHUNK = 1024  # masks at a time; for a novel, each takes a hundred kilobytes
_MIN_LOOKUP_MASKS = 64  # fewer masks are not worth a table
_BATCH_SIZE = 32  # inputs whose arrays stay inside the cache
_DEVICE_BATCH_SIZE = 512  # smaller batches leave a GPU idle between two launches


# Models are equal only if they are the same object, because comparing arrays gives no truth value.
@dataclass(frozen=True, kw_only=True, eq=False)
class AttentionClassifier:
    r"""K attention heads averaged into C logits (Eq. 1–9 of the paper).

    $$f = \frac1K \sum_i W_\ell^{(i)} \sum_t \alpha_t^{(i)} v_t^{(i)}$$

    Shapes, finiteness and class names are checked when a model is created. Weights keep the
    precision in which they were stored, and everything is computed in float64. With one output
    (C = 1) there are two classes, and f > 0 means the second one.

    The weights may include biases. ``skip`` names a skip connection W_s from the "mean" of the
    window or from [cls], which is added to f. With ``head_embeddings``, the embedding has
    K · d_e numbers per word, d_e for each head. With ``attention="additive"``, logits are
    w_a · tanh(q + k_t) instead of q · k_t/√d_att.
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
    device: str | None = None  # a device of torch for lists of texts; None means NumPy
    background: Background | None = None  # the words of the replacement "refill"

    # Read often and equal for all models of this class, so they are no properties.
    link: ClassVar[Link] = "softmax"
    replacements: ClassVar[tuple[str, ...]] = ("unk", "delete")
    unusable_replacements: ClassVar[Mapping[str, str]] = _UNUSABLE_REPLACEMENTS
    capabilities: ClassVar[Mapping[Capability, str | None]] = _CAPABILITIES
    is_exclusive: ClassVar[bool] = True
    limitations: ClassVar[Mapping[Property, str]] = LIMITATIONS
    embedding_error: ClassVar[np.ndarray | None] = None  # bounds for a computed embedding

    def __post_init__(self) -> None:
        # The fingerprint depends on the record, so that nobody may change it later.
        object.__setattr__(self, "record", MappingProxyType(dict(self.record)))
        # Tables, fingerprint and all cached values depend on the weights, so these are read-only.
        for name, array in model_weights(self).items():
            copy = np.array(array)  # the array of the caller must stay writable
            copy.setflags(write=False)
            object.__setattr__(self, name, copy)
        check_weights(self)
        if self.background is not None:
            self._check_background()
            # Not a property, because most models of this class have the same replacements.
            names = (*type(self).replacements, REFILL)
            object.__setattr__(self, "replacements", names)
            object.__setattr__(self, "unusable_replacements", {})
            capabilities = MappingProxyType({**_CAPABILITIES, "refilling": None})
            object.__setattr__(self, "capabilities", capabilities)

    def _check_background(self) -> None:
        """Raise `InputError` if this model cannot refill words exactly."""
        if self.tokenizer == "patches":
            raise InputError("background needs a model that reads texts. Leave background out.")
        if self.attention == "additive":
            raise InputError(
                "background needs dot-product attention, but this model has additive attention. "
                "Leave background out."
            )

    def __repr__(self) -> str:
        size = self.sizes
        device = "" if self.device is None else f" on {self.device}"
        return (
            f"<AttentionClassifier {abbreviate_names(self.classes)}: {size['K']} heads, "
            f"{size['V']:,} words, {self.T_max} tokens{device}; {self.fingerprint[:8]}>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # A read-only mapping cannot be pickled, and tables are cheaper to compute than to send.
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        state = {name: dict(x) for name, x in vars(self).items() if name == "capabilities"}
        return partial(type(self), **values | {"record": dict(self.record)}), (), state or None

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes of the model, by their letters in the table of notation."""
        V, (K, d_att, d_e), (_, C, d_out) = len(self.embedding), self.W_q.shape, self.W_l.shape
        letters = ("V", "d_e", "K", "d_att", "d_out", "C", "T_max")
        return dict(zip(letters, (V, d_e, K, d_att, d_out, C, self.T_max), strict=True))

    @property
    def config(self) -> dict[str, Any]:
        """The settings of the model, followed by the record of its training."""
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
        """The SHA-256 of configuration, vocabulary and weights, which identifies the model."""
        digest = hashlib.sha256(json.dumps(self.config, sort_keys=True).encode())
        digest.update("\n".join(self.vocabulary.words).encode())
        for name, array in model_weights(self).items():
            digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
            # This makes no copy; embeddings have tens of megabytes.
            digest.update(np.ascontiguousarray(array).view(np.uint8).data)
        if self.background is not None:
            digest.update(self.background.digest.encode())
        return digest.hexdigest()

    @cached_property
    def positions(self) -> Float[np.ndarray, "T_max d_e"]:
        """The embeddings of the positions, which are added to those of the words."""
        return self._position_array(sinusoidal_positions)

    @cached_property
    def directions(self) -> Directions:
        """The directions of embedding space that each head reads."""
        return read_directions(self)

    @cached_property
    def word_rows(self) -> TableRows:
        """The logit and the value of every word, with bounds of their rounding errors."""
        return compute_word_rows(self)

    @cached_property
    def tables(self) -> Tables:
        """The model as two tables per head, from which predictions are computed."""
        return collapse(self)

    @cached_property
    def table_errors(self) -> TableErrors:
        """Bounds of the rounding errors of the tables."""
        return table_errors(self)

    @cached_property
    def position_errors(self) -> Float[np.ndarray, "T_max d_e"]:
        """Bounds of the rounding errors of `positions`."""
        return self._position_array(position_errors)

    def _position_array(
        self, function: Callable[..., np.ndarray]
    ) -> Float[np.ndarray, "T_max d_e"]:
        """Return a function of the positions, repeated for each head with its own embeddings."""
        size = self.sizes
        array = function(
            self.T_max, size["d_e"], base=self.position_base, scale=self.position_scale
        )
        return np.tile(array, size["K"]) if self.head_embeddings else array

    @cached_property
    def _factored_tables(self) -> "FactoredTables | None":
        """The tables in factored form, for fast predictions."""
        return factor_tables(self.tables)

    @cached_property
    def word_nodes(self) -> WordNodeCache:
        """The words of the background, as games with the replacement "refill" read them."""
        if self.background is None:
            raise InputError(f"replacement {REFILL!r} needs background texts. Load with them.")
        return WordNodeCache(self.tables, self.background)

    def with_background(self, background: Any) -> "AttentionClassifier":
        """Return the model with the words of the replacement "refill".

        Parameters
        ----------
        background
            Texts, whose words are drawn with their frequencies, or a mapping from words to
            weights. None removes the background.
        """
        if background is not None:
            background = make_background(background, self.vocabulary)
        return replace(self, background=background)

    def with_precision(self, dtype: str) -> "AttentionClassifier":
        """Return the model with its weights in another precision, such as "float16"."""
        weights: dict[str, Any] = {n: x.astype(dtype) for n, x in model_weights(self).items()}
        return replace(self, **weights)

    def shuffle_weights(self, seed: int) -> "AttentionClassifier":
        """Return the model with the numbers of every weight in random order."""
        weights: dict[str, Any] = shuffle_arrays(model_weights(self), seed)
        return replace(self, **weights)

    @property
    def inputs_per_batch(self) -> int:
        """The number of inputs that are computed together fastest."""
        return _BATCH_SIZE if self.device is None else _DEVICE_BATCH_SIZE

    @cached_property
    def device_tables(self) -> tuple[Tables, TableErrors] | None:
        """The tables and their errors as tensors of the device; None for NumPy."""
        return None if self.device is None else tables_on_device(self)

    def to_device(self, device: str | None) -> "AttentionClassifier":
        """Return the model for a torch device such as "cuda", or for NumPy with None."""
        if device == self.device:
            return self
        moved = replace(self, device=device)
        _ = moved.device_tables  # an unusable device raises its error now, and not later
        return moved

    def read(self, text: str, *, subwords: bool = False) -> ModelInput:
        """Return a text as this model reads it."""
        if subwords:
            raise InputError(f"{self.limitations['has_subwords']}. Leave subwords out.")
        return encode_text(text, self.vocabulary, T_max=self.T_max)

    def outputs(self, inputs: Sequence[ModelInput]) -> Float[np.ndarray, "n C"]:
        """Return the C outputs of the model for inputs that it has read."""
        return self.logits_of_ids([model_input.encoding.ids for model_input in inputs])

    def game(self, model_input: ModelInput, features: Features, replacement: str) -> Game:
        """Return the outputs for an input as a function of masks.

        Parameters
        ----------
        model_input
            The input, read by this model.
        features
            Its features.
        replacement
            "unk" replaces the tokens of removed features by UNK. "delete" deletes them. "refill"
            replaces them by random words of the background, and the outputs are exact means.
        """
        if replacement == REFILL:
            inputs = self.compute_tables([model_input], [features])
            return refilled_outputs(inputs, self.word_nodes)
        if replacement != "delete":
            return replacement_game(self.compute_tables([model_input], [features]))
        # A word as a feature includes its occurrences behind the window, because they move into the
        # window if words before them are deleted.
        row = {s: j for j, s in enumerate(features.strings)} if features.kind == "words" else {}
        later = [row.get(string, -1) for string in model_input.encoding.beyond]
        feature_index = np.array([*features.feature_index, *later])
        ids = np.append(
            model_input.encoding.ids, self.vocabulary.encode(model_input.encoding.beyond)
        )
        T = min(self.T_max, 1 + len(ids))
        make_lookup = cache(lambda: make_window_lookup(self.tables, ids, T=T))

        def compute_outputs(keep: np.ndarray) -> np.ndarray:
            """Return the outputs for masks that delete words."""
            # The table takes as long as some dozens of masks without it.
            use_lookup = self.device is None and len(keep) > _MIN_LOOKUP_MASKS
            predict = (make_lookup() if use_lookup else None) or self._predict_windows
            windows = partial(deleted_windows, ids=ids, feature_index=feature_index, T_max=T)
            return compute_in_chunks(
                lambda masks: predict(windows(masks)), keep, _MASK_CHUNK, C=self.sizes["C"]
            )

        return compute_outputs

    def exact_games(self, inputs: Sequence[ModelInput], features: Sequence[Features]) -> RatioGame:
        """Return the exact games of the inputs, with one class for each output."""
        return self.compute_tables(inputs, features).game

    def refill_game(
        self,
        model_input: ModelInput,
        features: Features,
        weights: Float[np.ndarray, "targets C"],
    ) -> RefillGame:
        """Return the exact game of an input for the replacement "refill".

        Parameters
        ----------
        model_input, features
            The input and its features.
        weights
            The weights of the outputs in each explained number.
        """
        inputs = self.compute_tables([model_input], [features])
        return make_refill_game(inputs, self.word_nodes, weights)

    def drop_inexact_games(self, features: Any, scale: str) -> "AttentionClassifier":  # noqa: ARG002
        """Return the model without exact games if probabilities are explained."""
        return self._inexact_model if scale == "probability" else self

    @cached_property
    def _inexact_model(self) -> "AttentionClassifier":
        """The same model without exact games, so that methods call it for each mask."""
        _ = self.tables  # computed before copying, so that all copies share them
        # `replace` would check all weights again.
        model = object.__new__(type(self))
        reason = "probabilities have no exact formula"
        capabilities = {**self.capabilities, "exact_game": reason, "refilling": reason}
        vars(model).update(vars(self), capabilities=MappingProxyType(capabilities))
        return model

    def compute_tables(
        self, inputs: Sequence[ModelInput], features: Sequence[Features]
    ) -> CollapsedInputs:
        """Return the arrays that exact methods need for these inputs."""
        return CollapsedInputs(model=self, inputs=tuple(inputs), features=tuple(features))

    def logits(self, texts: Sequence[Any]) -> Float[np.ndarray, "n C"]:
        """Return the C outputs of the model for every text."""
        if isinstance(texts, str):
            raise InputError("logits needs a list of texts, not a string. Write [text].")
        text_list, inputs = list(texts), []  # `texts` may be a generator
        for number, text in enumerate(text_list):
            with add_text_number(number if len(text_list) > 1 else None):
                inputs.append(self.read(text))
        return self.outputs(inputs)

    def logits_of_ids(self, rows: Sequence[np.ndarray]) -> Float[np.ndarray, "n C"]:
        """Return the outputs for texts encoded as rows of ids, without [cls] and padding."""
        longest = 1 + max(map(len, rows), default=0)
        return self._predict_windows(padded_ids(rows, T_max=min(self.T_max, longest)))

    def _predict_windows(self, ids: Int[np.ndarray, "n T"]) -> Float[np.ndarray, "n C"]:
        """Return the outputs for windows; positions behind the given ids are padding."""
        if self.device_tables is not None:
            return predict_logits(self.device_tables[0], ids)
        if self._factored_tables is None:
            return predict_logits(self.tables, ids)
        return self._factored_tables(ids)

    def predict_proba(self, texts: Sequence[str]) -> Float[np.ndarray, "n classes"]:
        """Return the probability of every class for every text."""
        return class_probabilities(self.logits(texts))

    def attention_matrices(self, model_input: ModelInput) -> Float[np.ndarray, "K T T"]:
        """Return the attention of every token to every token for each head, [cls] first (Figure 3).

        The softmax of a row runs over the complete window, as in the model. The columns of padding
        are left out, so that a row sums to one minus the attention to padding.
        """
        ids = padded_ids([model_input.encoding.ids], T_max=self.T_max)[0]
        # This needs the weights, because the tables contain only the row of [cls].
        e = self.embedding[ids].astype(np.float64) + self.positions
        T, K, directions = 1 + len(model_input.tokens), self.sizes["K"], self.directions
        # Only the first K heads: the last one can be a skip connection from the mean.
        logit = np.einsum("se,kef,tf->kst", e[:T], directions.query[:K], e, optimize=True)
        # The bias of keys adds the same number to all logits of a row, so that it cancels.
        logit += (directions.query_bias_key[:K] @ e.T)[:, None]
        if (units := directions.units) is not None:
            keys = np.einsum("te,kae->kta", e, units.key, optimize=True)
            queries = np.einsum("se,kae->ska", e[:T], units.query, optimize=True) + units.bias
            # Row by row, because all rows together need T · T_max · K · d_h numbers.
            weight = units.weight[:, None]
            rows = [unit_logits(keys + query[:, None], weight) for query in queries]
            logit += np.stack(rows, axis=1)[:K]
        return attention(logit)[:, :, :T]


@dataclass(frozen=True, slots=True, eq=False)
class FactoredTables:
    """The factors of every word and every position in numerator and denominator."""

    word: Float[np.ndarray, "V terms"]  # g_w, then g_w u_w for each class: one row to gather
    position: Float[np.ndarray, "T_max K"]  # g_t
    position_value: Float[np.ndarray, "T_max C K"]  # g_t u_t

    def __call__(self, ids: Int[np.ndarray, "n T"]) -> Float[np.ndarray, "n C"]:
        """Return f for every row of ids; positions behind them are padding."""
        (n, T), (_, C, K) = ids.shape, self.position_value.shape
        # One more UNK stands for all positions of padding, because only their sums matter.
        position, position_value = (
            np.concatenate([x[:T], x[T:].sum(axis=0, keepdims=True)])
            for x in (self.position, self.position_value)
        )

        def predict_chunk(ids: np.ndarray) -> np.ndarray:
            """Return f for some rows of ids, which end with one position of padding."""
            # exp(ℓ_w + ℓ_t) = g_w g_t, so that tokens need no exponentials of their own.
            rows = self.word.take(ids, axis=0)  # takes two thirds of the time of indexing
            g, gu = rows[..., :K], rows[..., K:].reshape(*ids.shape, C, K)
            D = np.einsum("ntk,tk->nk", g, position)
            N = np.einsum("ntck,tk->nck", gu, position)
            N += np.einsum("ntk,tck->nck", g, position_value)
            return (N / D[:, None]).mean(axis=-1)

        padded = np.concatenate([ids, np.full((n, 1), UNK, ids.dtype)], axis=1)
        return compute_in_chunks(predict_chunk, padded, _CHUNK, C=C)


def factor_tables(tables: Tables) -> FactoredTables | None:
    """Return the tables in factored form.

    Return None if the spread of the logits is too large. Return None for hidden units too, because
    their logits are no sums of a part of the word and a part of the position.
    """
    if tables.units is not None:
        return None
    word, position = tables.word_logit, tables.position_logit
    # For larger spreads, all terms of a text without the largest word could underflow.
    if np.ptp(word, axis=0).max() + np.ptp(position, axis=0).max() > SPREAD:
        return None
    g_w, g_t = np.exp(word - word.max(axis=0)), np.exp(position - position.max(axis=0))
    gu = g_w[:, None, :] * tables.word_value
    return FactoredTables(
        word=np.concatenate([g_w, gu.reshape(len(gu), -1)], axis=1),
        position=g_t,
        position_value=g_t[:, None, :] * tables.position_value,
    )
