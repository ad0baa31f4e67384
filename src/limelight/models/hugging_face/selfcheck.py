"""A few calls that show the capabilities of a network before they are used."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import torch

from limelight.errors import DomainError, InputError
from limelight.models.engine import describe_error
from limelight.models.hugging_face import forward
from limelight.models.hugging_face.check_memory import CheckMemory
from limelight.models.hugging_face.forward import MASKED_OUT, Row, Rows
from limelight.models.hugging_face.gradients import (
    compute_gradients,
    embed_input,
    outputs_at_points,
)
from limelight.models.hugging_face.layers import (
    compute_attention,
    layer_states,
    reason_not_attention_only,
)
from limelight.models.hugging_face.subwords import max_input_length, read_subwords
from limelight.models.protocol import Attention, Capability
from limelight.shapes import Float, Int
from limelight.threads import cached_property

_EXAMPLE_TEXT = "The plot is bad, but the acting is good."
# Numbers of tokens between the special ones. Reformer's chunks have 64 tokens, and only longer
# texts are hashed at random.
_EXAMPLE_LENGTH, _SHORTER_LENGTHS, _LONGER_LENGTH = 6, (1, 4), 70
# In float32, outputs differ by this part of the largest number if sums have another order.
_TOLERANCE = 1e-4
_PRECISION_DIGITS = {"torch.float16": 3, "torch.bfloat16": 2}
OutputFunction = Callable[[Rows], Float[np.ndarray, "n C"]]
# The outputs of a network: one row per text, one per token, or the ends of an answer.
OutputKind = Literal["classes", "tags", "answer"]
_KINDS: Mapping[str, OutputKind] = {
    "TokenClassification": "tags",
    "QuestionAnswering": "answer",
    "SequenceClassification": "classes",
    "ImageClassification": "classes",
}


# The capabilities that are checked. The others follow from the family of the network.
CHECKED: tuple[Capability, ...] = (
    *("gradients", "lrp", "attention", "attention_only", "hidden_states"),
)
_REASON = str | None  # why a capability is missing; None if it is not


class NetworkCheck:
    """The check of a network by a few calls, each made when its result is first needed.

    Parameters
    ----------
    network
        The network.
    example
        Returns rows of token ids, or pixels.
    tokens
        Ids of tokens that can replace removed words, by name.
    call
        The function that will be called for outputs, perhaps in half precision.
    memory
        Remembers results of earlier checks.
    """

    def __init__(
        self,
        network: Any,
        example: Callable[[], "ExampleIds"],
        tokens: Mapping[str, int],
        *,
        call: OutputFunction,
        memory: CheckMemory | None = None,
    ) -> None:
        self._network, self._make_example, self._tokens = network, example, tokens
        self._call, self._memory = call, memory or CheckMemory(network)

    def check_call(self) -> None:
        """Check that the network can be called, and that its outputs match its classes.

        Raises
        ------
        InputError
            If it cannot be called, or the outputs do not match or are not finite.
        """
        if not np.isfinite(self._outputs).all():
            raise InputError("the model returns numbers that are not finite. Check its weights.")

    @cached_property
    def needs_equal_lengths(self) -> bool:
        """Whether texts of different lengths cannot be in one batch."""
        return bool(self._stability["needs_equal_lengths"])

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for every result."""
        warnings, noise = list[str](), self._stability["noise"]
        if noise is not None:
            warnings.append(
                f"The model returns different outputs for the same text (by {noise:.1g} in two "
                "calls), so scores of that size are noise. Switch off whatever is random in it."
            )
        elif self.needs_equal_lengths:
            warnings.append(
                "The outputs of this model change with padding, so it reads texts of one length "
                "at a time."
            )
        return (*warnings, *_precision_warnings(self._network, self._half_precision_error))

    @cached_property
    def unusable_replacements(self) -> Mapping[str, str]:
        """Reasons for replacements that cannot be used."""
        reasons = self._memory.recall(
            "unusable replacements",
            lambda: _find_unusable_replacements(
                self._network, self._example, self._tokens, lambda: self._rounding
            ),
            dict,
        )
        return MappingProxyType(reasons)

    @property
    def missing_capabilities(self) -> Mapping[Capability, str]:
        """Reasons for capabilities that the network lacks."""
        reasons = {name: self.reason_missing(name) for name in CHECKED}
        return {name: reason for name, reason in reasons.items() if reason is not None}

    def reason_missing(self, name: Capability) -> str | None:
        """Return why the network lacks a checked capability, or None if it has it."""
        if name in ("attention", "attention_only"):
            return self._attention[name]
        if name == "gradients":
            return self._gradient_reason
        return self._lrp_reason if name == "lrp" else self._states_reason

    @property
    def read_position(self) -> str:
        """The position that the head reads: "first", "last", or "mean" for others."""
        position: str = self._attention["read_position"]
        return position

    @cached_property
    def _example(self) -> "ExampleIds":
        """The rows with which the network is checked."""
        return self._make_example()

    @cached_property
    def _outputs(self) -> Float[np.ndarray, "n C"]:
        """The outputs for the example."""
        return _call_example(self._network, self._example.ids[None])

    @property
    def _rounding(self) -> float:
        """The largest difference of outputs that counts as rounding."""
        digits = _PRECISION_DIGITS.get(str(self._network.dtype))
        relative_error = _TOLERANCE if digits is None else 10.0 ** (1 - digits)
        # + 1, since outputs near zero are sums of larger numbers.
        return relative_error * float(np.abs(self._outputs).max() + 1)

    @cached_property
    def _stability(self) -> Mapping[str, Any]:
        """The noise of the outputs, if any, and whether texts need equal lengths."""
        kinds = {"noise": float | None, "needs_equal_lengths": bool}
        if hasattr(type(self._network), "shares_prefix"):  # of the object, it would be computed
            self._network.shares_prefix = self._memory.recall(
                "shares prefix", lambda: self._network.shares_prefix, bool
            )
        stability: Mapping[str, Any] = self._memory.recall(
            "stability", self._check_stability, kinds
        )
        return stability

    def _check_stability(self) -> dict[str, Any]:
        """Call the network twice for equal texts, alone and in a batch."""
        network, example, rounding = self._network, self._example, self._rounding
        can_pad = getattr(network.config, "pad_token_id", None) is not None
        # If texts alone and in a batch have equal outputs, the network is not random either.
        if can_pad and not _depends_on_padding(network, example, rounding):
            return {"noise": None, "needs_equal_lengths": False}
        # A second call reveals dropout that is always on.
        noise = _distance(_call_example(network, example.ids[None]), self._outputs)
        # Reformer hashes longer texts at random. An error for a text of this length is no noise.
        with contextlib.suppress(Exception):
            longer_outputs = (
                forward.network_outputs(network, example.longer[None]) for _ in range(2)
            )
            noise = max(noise, _distance(*longer_outputs))
        return {"noise": noise if noise > rounding else None, "needs_equal_lengths": can_pad}

    @cached_property
    def _half_precision_error(self) -> float:
        """The difference of the outputs for the example that half precision on a GPU makes."""
        if self._network.device.type != "cuda" or str(self._network.dtype) in _PRECISION_DIGITS:
            return 0.0
        error: float = self._memory.recall(
            "half precision",
            lambda: _distance(self._call(self._example.ids[None]), self._outputs),
            float,
        )
        return error

    @cached_property
    def _gradient_reason(self) -> str | None:
        """Why the network has no gradients."""
        reason: str | None = self._memory.recall(
            "gradients",
            lambda: _failure_reason(
                lambda: _reason_no_gradient(self._network, self._example, self._rounding)
            ),
            _REASON,
        )
        return reason

    @cached_property
    def _lrp_reason(self) -> str | None:
        """Why the network has no gradients with frozen weights."""
        reason: str | None = self._gradient_reason or self._memory.recall(
            "lrp",
            lambda: _failure_reason(lambda: _frozen_gradients(self._network, self._example.ids)),
            _REASON,
        )
        return reason

    @cached_property
    def _states_reason(self) -> str | None:
        """Why the network has no hidden states."""

        def compute_states() -> object:
            """Compute the hidden states of the example."""
            ids = self._example.ids
            return layer_states(self._network, ids[None], len(ids))

        reason: str | None = self._memory.recall(
            "hidden states", lambda: _failure_reason(compute_states), _REASON
        )
        return reason

    @cached_property
    def _attention(self) -> Mapping[str, Any]:
        """Why the network has no attention, and the position that the head reads."""
        kinds = {"attention": _REASON, "attention_only": _REASON, "read_position": str}
        attention: Mapping[str, Any] = self._memory.recall(
            "attention", lambda: _check_attention(self._network, self._example.ids), kinds
        )
        return attention


@dataclass(frozen=True, eq=False)
class ExampleIds:
    """Rows with which a network is checked: token ids of texts, or pixels.

    ``ids`` and ``other`` have the same length and differ at every ordinary token. ``middle`` is the
    position of such a token. ``shorter`` and ``longer`` are texts of other lengths.
    """

    ids: Any  # or pixels
    other: Any
    shorter: tuple[Int[np.ndarray, " _"], ...]
    longer: Any
    middle: int


def find_output_kind(network: Any, tokenizer: Any) -> OutputKind:
    """Find out whether a network classifies texts, tags tokens or finds answers.

    The name of its class decides. A class with another name is called on an example.

    Raises
    ------
    InputError
        If the network fails on the example, or returns no logits of classes or tags.
    """
    for name, kind in _KINDS.items():
        if forward.is_kind(network, name):
            return kind
    example = example_ids(network, tokenizer, max_input_length(network, tokenizer))
    name = forward.network_name(network)
    language_model_advice = "For a language model, give template= with {text} in it."
    try:
        with forward.evaluation_mode(network), torch.inference_mode():
            out = network(**forward.network_input(network, example.ids[None]))
    except Exception as error:  # a network may raise any error
        raise InputError(
            f"{name} cannot be called on a text alone ({describe_error(error)}). "
            f"{language_model_advice}"
        ) from error
    if hasattr(out, "start_logits") and hasattr(out, "end_logits"):
        return "answer"
    shape, labels = np.shape(getattr(out, "logits", 0)), getattr(network.config, "id2label", ())
    if len(shape) == 2 and len(labels):
        return "classes"
    if len(shape) == 3 and shape[-1] == len(labels):
        return "tags"
    raise InputError(
        "the model must classify, tag, answer from a passage, or be a language model, not "
        f"{name}. {language_model_advice}"
    )


def example_ids(network: Any, tokenizer: Any, limit: int) -> ExampleIds:
    """Return rows with tokens from the whole vocabulary, between special tokens."""
    subwords, _ = read_subwords(tokenizer, _EXAMPLE_TEXT, limit=limit)
    before = subwords.row[: subwords.text_slice.start]
    after = subwords.row[subwords.text_slice.stop :]
    segment = np.broadcast_to(subwords.segment, subwords.ids.shape)[subwords.text_slice.start]
    count, special = tokenizer.vocab_size, set(tokenizer.all_special_ids)
    count = min(count, forward.embedding_row_count(network) or count)
    usable = [token for token in range(count) if token not in special] or [0]
    distinct = list(
        dict.fromkeys(
            usable[len(usable) * part // _EXAMPLE_LENGTH] for part in range(_EXAMPLE_LENGTH)
        )
    )
    length = max(1, min(subwords.room, len(distinct)))
    longer_length = max(1, min(_LONGER_LENGTH, subwords.room))

    def make_row(tokens: list[int]) -> Int[np.ndarray, " _"]:
        """Return a row with these tokens between the special ones."""
        inner = forward.pack_rows(np.array(tokens, dtype=int), segment, 0)
        return np.concatenate([before, inner, after])

    # The ids are distinct, so this text differs from the first one at every position.
    rolled = distinct[1:length] + distinct[:1]
    return ExampleIds(
        ids=make_row(distinct[:length]),
        other=make_row(rolled),
        shorter=tuple(
            make_row(distinct[:shorter_length])
            for shorter_length in _SHORTER_LENGTHS
            if shorter_length < length
        ),
        longer=make_row((distinct * longer_length)[:longer_length]),
        middle=len(before) + length // 2,
    )


def _distance(outputs: Float[np.ndarray, "n C"], other_outputs: Float[np.ndarray, "n C"]) -> float:
    """Return the largest difference between outputs."""
    return float(np.abs(outputs - other_outputs).max())


def _is_different(call: Callable[[], Sequence[Float[np.ndarray, "n C"]]], rounding: float) -> bool:
    """Tell whether two outputs that should be equal differ, or cannot be computed."""
    try:
        return not _distance(*call()) <= rounding
    except Exception:  # a network may raise any error
        return True


def _call_example(network: Any, ids: Rows) -> Float[np.ndarray, "n C"]:
    """Call the network on one row.

    Raises
    ------
    InputError
        If the call fails, or if the outputs do not match the classes.
    """
    try:
        outputs = forward.network_outputs(network, ids)
    except (InputError, MemoryError):
        raise
    except Exception as error:
        noun = "text" if np.ndim(ids) == 2 else "image"
        raise InputError(
            f"{forward.network_name(network)} cannot be called with a {noun} alone "
            f"({describe_error(error)})."
        ) from error
    if outputs.shape[1] != (labels := len(network.config.id2label)):
        raise InputError(
            f"the model returns {outputs.shape[1]} outputs, but its config.id2label names "
            f"{labels} classes. Make the two agree."
        )
    return outputs


def _depends_on_padding(network: Any, example: ExampleIds, rounding: float) -> bool:
    """Tell whether the outputs for a text change if longer texts are in the same batch."""
    rows = [example.ids, *example.shorter, example.longer]

    def compare_batches() -> Sequence[Float[np.ndarray, "n C"]]:
        """Return the outputs for texts in one batch, and for each text separately."""
        batch_outputs = forward.network_outputs(network, forward.stack_rows(rows))
        row_outputs = [forward.network_outputs(network, row[None])[0] for row in rows]
        return batch_outputs, np.array(row_outputs)

    # The network may also fail, because a text is too short without padding, or for all batches.
    return _is_different(compare_batches, rounding)


def _find_unusable_replacements(
    network: Any, example: ExampleIds, tokens: Mapping[str, int], rounding: Callable[[], float]
) -> dict[str, str]:
    """Return the tokens that cannot replace a removed word, with the reasons."""
    row_count = forward.embedding_row_count(network)
    reasons = {
        name: f"its token id is {token} and the embedding of the model has only {row_count} rows"
        for name, token in tokens.items()
        if row_count is not None and not 0 <= token < row_count
    }
    if "pad" not in tokens or "pad" in reasons:
        return reasons
    # Two texts differ only at a masked position, so they must have the same outputs. The position
    # gets ordinary tokens, because RoBERTa moves later words up over padding, which is valid.
    hidden = example.ids.copy()
    hidden[example.middle] = MASKED_OUT
    pair = (example.ids[example.middle], example.other[example.middle])
    fillers = forward.unpack_ids(np.array(pair)).tolist()
    if _is_different(
        lambda: [
            forward.network_outputs(network, hidden[None], filler=filler) for filler in fillers
        ],
        rounding(),
    ):
        reasons["pad"] = "this model still reads tokens that are masked out"
    return reasons


def _check_attention(network: Any, ids: Row) -> dict[str, str | None]:
    """Return reasons for missing attention, and the position that the head reads."""
    read_position, attentions = "mean", list[Attention]()

    def compute_example() -> None:
        """Compute the attention on an example."""
        embed_input(network, ids)  # raises an error for I-BERT, whose embedding has a scale
        attentions.append(compute_attention(network, ids, _first_output_gradient))

    reason = attention_only_reason = _failure_reason(compute_example)
    if attentions:
        layers, positions = len(attentions[0].alpha), np.flatnonzero(attentions[0].readout_weights)
        attention_only_reason = _failure_reason(
            lambda: reason_not_attention_only(network, ids, layers)
        )
        # If other layers mix positions too, the positions found are not those that the head reads.
        if len(positions) > 1:
            reason = attention_only_reason
        else:
            read_position = {0: "first", len(ids) - 1: "last"}.get(int(positions[0]), "mean")
    return {
        "attention": reason,
        "attention_only": attention_only_reason,
        "read_position": read_position,
    }


def _frozen_gradients(network: Any, ids: Row) -> object:
    """Compute the gradients of an example with frozen weights."""
    return compute_gradients(
        network, ids, embed_input(network, ids)[None], _first_output_gradient, frozen=True
    )


def _failure_reason(check: Callable[[], object]) -> str | None:
    """Return a reason if a check returns one or fails, otherwise None.

    A check may return anything. Only a string is a reason.
    """
    try:
        result = check()
        return result if isinstance(result, str) else None
    except DomainError as error:
        return str(error).partition(". Use ")[0].rstrip(".")  # without its advice
    except MemoryError:
        raise
    except Exception as error:  # a network may raise any error
        return f"the network raises an error ({describe_error(error)})"


def _first_output_gradient(outputs: Float[np.ndarray, "n C"]) -> Float[np.ndarray, "n C"]:
    """Return the gradient of the first output with respect to all outputs."""
    return np.eye(1, outputs.shape[1]).repeat(len(outputs), axis=0)


def _reason_no_gradient(network: Any, example: ExampleIds, rounding: float) -> str | None:
    """Return why the network has no usable gradient with respect to the embedded tokens, or None.

    The embedded tokens of one text take the place of those of another. The outputs must then be
    those of the first text. Otherwise the network reads its tokens in a second way, which no
    gradient at the embedding contains.
    """
    name = forward.network_name(network)
    points = embed_input(network, example.other)[None]
    outputs = forward.network_outputs(network, example.other[None])
    if _distance(outputs_at_points(network, example.ids, points), outputs) > rounding:
        return f"{name} reads its tokens through several embeddings"
    gradient = compute_gradients(network, example.ids, points, _first_output_gradient).gradient
    if not np.isfinite(gradient).all():
        return f"the gradients of {name} are not finite"
    # Rounding inside a network has slope 0 everywhere and raises no error.
    if not gradient.any():
        return f"the gradient of {name} is zero for every text"
    return None


def _precision_warnings(network: Any, half_precision_error: float) -> tuple[str, ...]:
    """Warn if outputs have few digits: those of the model, or those in half precision on a GPU."""
    dtype = str(network.dtype)
    if dtype in _PRECISION_DIGITS:
        name = dtype.removeprefix("torch.")
        rounding = (
            f"The model computes in half precision ({name}). Its outputs "
            f"have about {_PRECISION_DIGITS[dtype]} digits, and smaller effects are rounding."
        )
        if name != "float16" or network.device.type != "cpu":
            return (rounding,)
        return (rounding, "A CPU is slow in float16. Call `.float()` on the model first.")
    if not half_precision_error:
        return ()
    return (
        "On a GPU the model runs in half precision (float16), which changed its outputs by "
        f"{half_precision_error:.1g} on a short text. Gradients and attention use full precision.",
    )
