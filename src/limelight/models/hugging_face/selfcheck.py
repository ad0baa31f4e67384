"""What a few calls show about a network before anybody relies on it."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from limelight.errors import DomainError, InputError
from limelight.models.engine import said
from limelight.models.hugging_face import forward
from limelight.models.hugging_face.forward import MASKED_OUT, Row, Rows
from limelight.models.hugging_face.gradients import differentiated, embedded, outputs_at
from limelight.models.hugging_face.layers import attended, states, why_not_attention_alone
from limelight.models.hugging_face.pieces import pieces_of
from limelight.models.protocol import Attention, Capability
from limelight.shapes import Float, Int

_TEXT = "The plot is bad, but the acting is good."
# Between the special ones. Reformer's chunks have 64, and only what is longer is hashed at random.
_PIECES, _FEW, _MANY = 6, (1, 4), 70
# Outputs of a float32 network differ by this part of the largest from one order of sums to another.
_ROUNDING = 1e-4
_DIGITS = {"torch.float16": 3, "torch.bfloat16": 2}
Ask = Callable[[Rows], Float[np.ndarray, "n C"]]


@dataclass(frozen=True, kw_only=True)
class NetworkCheck:
    """What a network was seen to do with a few tokens.

    ``refused`` says why a capability is withdrawn, ``unusable_replacements`` why
    a replacement cannot be used, ``alike``
    that texts of different lengths must not stand in one batch, and ``reads`` which position the
    head reads: the "first" or "last"; of several, or where it cannot be seen, "mean".
    """

    refused: Mapping[Capability, str]
    unusable_replacements: Mapping[str, str]
    alike: bool
    reads: str
    notices: tuple[str, ...]


def checked_network(
    network: Any, example: "ExampleIds", tokens: Mapping[str, int], *, asked: Ask
) -> NetworkCheck:
    """Ask ``network`` about a few ``example`` tokens; ``tokens`` may stand for a removed word.

    ``asked`` is how it will be asked from then on, perhaps in half precision. A network that
    cannot answer at all is refused.
    """
    whole = _answer(network, example.ids[None])
    # A dropout that is always on shows by the second answer.
    again = _answer(network, example.ids[None])
    noise = _distance(again, whole)
    # Reformer hashes longer texts at random; a length that a network does not take is no noise.
    with contextlib.suppress(Exception):
        longer = (forward.network_outputs(network, example.longer[None]) for _ in range(2))
        noise = max(noise, _distance(*longer))
    digits = _DIGITS.get(str(network.dtype))
    part = _ROUNDING if digits is None else 10.0 ** (1 - digits)
    rounding = part * float(np.abs(whole).max() + 1)  # + 1: outputs near zero are sums of larger
    alike = getattr(network.config, "pad_token_id", None) is not None and (
        noise > rounding or _feels_padding(network, example, rounding)
    )
    notices = []
    if noise > rounding:
        notices = [
            f"The model answers the same text differently from call to call (by {noise:.1g}, asked "
            "twice): scores of that size are noise. Switch off whatever is random in it."
        ]
    elif alike:
        notices = [
            "The answers of this model change with padding, so it is asked about texts of one "
            "length at a time."
        ]
    refused, reads = _refused(network, example, rounding)
    return NetworkCheck(
        refused=MappingProxyType(refused),
        unusable_replacements=MappingProxyType(_withdrawn(network, example, tokens, rounding)),
        alike=alike,
        reads=reads,
        notices=(*notices, *_precision_notice(network, asked(example.ids[None]), whole)),
    )


@dataclass(frozen=True, eq=False)
class ExampleIds:
    """Ids of a short text, of another of the same length, of shorter ones and of a longer one.

    ``middle`` is the place of an ordinary piece in the first two, which differ at all such places.
    """

    ids: Any  # or pixels
    other: Any
    shorter: tuple[Int[np.ndarray, " _"], ...]
    longer: Any
    middle: int


def example_ids(network: Any, tokenizer: Any, limit: int) -> ExampleIds:
    """Return tokens from all over the vocabulary, between the special ones of a text."""
    pieces, _ = pieces_of(tokenizer, _TEXT, limit=limit)
    before, after = pieces.row[: pieces.text.start], pieces.row[pieces.text.stop :]
    segment = np.broadcast_to(pieces.segment, pieces.ids.shape)[pieces.text.start]
    count, special = tokenizer.vocab_size, set(tokenizer.all_special_ids)
    count = min(count, forward.embedding_rows(network) or count)
    usable = [i for i in range(count) if i not in special] or [0]
    known = list(dict.fromkeys(usable[len(usable) * k // _PIECES] for k in range(_PIECES)))
    short = max(1, min(pieces.room, len(known)))
    many = max(1, min(_MANY, pieces.room))

    def around(some: list[int]) -> Int[np.ndarray, " _"]:
        inner = forward.with_segments(np.array(some, dtype=int), segment, 0)
        return np.concatenate([before, inner, after])

    rolled = known[1:short] + known[:1]  # distinct ids, so it differs from the first everywhere
    return ExampleIds(
        ids=around(known[:short]),
        other=around(rolled),
        shorter=tuple(around(known[:few]) for few in _FEW if few < short),
        longer=around((known * many)[:many]),
        middle=len(before) + short // 2,
    )


def _distance(one: Float[np.ndarray, "n C"], other: Float[np.ndarray, "n C"]) -> float:
    return float(np.abs(one - other).max())


def _differ(ask: Callable[[], Sequence[Float[np.ndarray, "n C"]]], rounding: float) -> bool:
    """Whether two answers that should be the same are not, or cannot be had."""
    try:
        return not _distance(*ask()) <= rounding
    except Exception:  # of any kind: it is somebody else's network
        return True


def _answer(network: Any, ids: Rows) -> Float[np.ndarray, "n C"]:
    try:
        found = forward.network_outputs(network, ids)
    except (InputError, MemoryError):
        raise
    except Exception as error:
        one = "text" if np.ndim(ids) == 2 else "image"
        raise InputError(
            f"{forward.network_name(network)} cannot be asked about a {one} alone ({said(error)})."
        ) from error
    if found.shape[1] != (labels := len(network.config.id2label)):
        raise InputError(
            f"the model returns {found.shape[1]} outputs, but its config.id2label names "
            f"{labels} classes; make the two agree."
        )
    return found


def _feels_padding(network: Any, example: ExampleIds, rounding: float) -> bool:
    """Whether the answer to a text changes when longer ones stand beside it."""
    rows = [example.ids, *example.shorter]

    def asked() -> Sequence[Float[np.ndarray, "n C"]]:
        beside = forward.network_outputs(network, forward.rectangle([*rows, example.longer]))
        alone = [forward.network_outputs(network, row[None])[0] for row in rows]
        return beside[:-1], np.array(alone)

    # It fails on a text that only padding makes long enough, or refuses batches.
    return _differ(asked, rounding)


def _withdrawn(
    network: Any, example: ExampleIds, tokens: Mapping[str, int], rounding: float
) -> dict[str, str]:
    """Say which tokens cannot stand for a removed word, and why."""
    rows = forward.embedding_rows(network)
    found = {
        name: f"its token has the number {token}, and the embedding of the model has only "
        f"{rows} rows"
        for name, token in tokens.items()
        if rows is not None and not 0 <= token < rows
    }
    if "pad" not in tokens or "pad" in found:
        return found
    # Two texts that differ only where nobody should look, and so must have the same answer. By
    # ordinary tokens: RoBERTa moves later words up where the padding stands, which is fine.
    hidden = example.ids.copy()
    hidden[example.middle] = MASKED_OUT
    pair = (example.ids[example.middle], example.other[example.middle])
    fillers = forward.plain_ids(np.array(pair)).tolist()
    if _differ(
        lambda: [forward.network_outputs(network, hidden[None], filler=f) for f in fillers],
        rounding,
    ):
        found["pad"] = "masking a token out does not hide it from this model"
    return found


def _refused(
    network: Any, example: ExampleIds, rounding: float
) -> tuple[dict[Capability, str], str]:
    """Say what the network cannot show, and why; and which position its head reads."""
    ids, reads, seen = example.ids, "mean", list[Attention]()

    def look() -> None:
        embedded(network, ids)  # or else it says why not: I-BERT's come with a scale
        seen.append(attended(network, ids, _first))

    differs, attends = _tried(lambda: _why_no_gradient(network, example, rounding)), _tried(look)
    relays = attends
    if seen:
        layers, read = len(seen[0].alpha), np.flatnonzero(seen[0].reads)
        relays = _tried(lambda: why_not_attention_alone(network, ids, layers))
        # Rows that reach the head through another mixing layer are not rows that it reads.
        if len(read) > 1:
            attends = relays
        else:
            reads = {0: "first", len(ids) - 1: "last"}.get(int(read[0]), "mean")
    found: dict[Capability, str | None] = {
        "gradients": differs,
        "lrp": differs or _tried(lambda: _frozen(network, ids)),
        "attention": attends,
        "attention_only": relays,
        "hidden_states": _tried(lambda: states(network, ids[None], len(ids))),
    }
    return {name: why for name, why in found.items() if why is not None}, reads


def _frozen(network: Any, ids: Row) -> object:
    return differentiated(network, ids, embedded(network, ids)[None], _first, frozen=True)


def _tried(look: Callable[[], object]) -> str | None:
    """Return why not: what ``look`` says, or how it fails; None where it finds something else."""
    try:
        found = look()
        return found if isinstance(found, str) else None
    except DomainError as error:
        return str(error).partition(";")[0].rstrip(".")
    except MemoryError:
        raise
    except Exception as error:  # of any kind: it is somebody else's network
        return f"this network fails when it is asked for them ({said(error)})"


def _first(outputs: Float[np.ndarray, "n C"]) -> Float[np.ndarray, "n C"]:
    return np.eye(1, outputs.shape[1]).repeat(len(outputs), axis=0)


def _why_no_gradient(network: Any, example: ExampleIds, rounding: float) -> str | None:
    """Whether the embedded tokens are all that the outputs depend on, and move them smoothly.

    The embedded tokens of one text take the place of those of another: what comes must be the
    answer to the first, or the network reads its tokens in another way too, which no gradient at
    the embedding would show.
    """
    name = forward.network_name(network)
    points = embedded(network, example.other)[None]
    told = forward.network_outputs(network, example.other[None])
    if _distance(outputs_at(network, example.ids, points), told) > rounding:
        return f"{name} reads its tokens by more than one embedding"
    gradient = differentiated(network, example.ids, points, _first).gradient
    if not np.isfinite(gradient).all():
        return f"the gradients of {name} are not finite"
    # Rounding inside a network has slope 0 everywhere, and raises nothing.
    if not gradient.any():
        return f"the gradient of {name} is zero whatever the text, so something in it has none"
    return None


def _precision_notice(
    network: Any, asked: Float[np.ndarray, "1 C"], whole: Float[np.ndarray, "1 C"]
) -> tuple[str, ...]:
    """Say that numbers are coarse: those of the model, or those that a GPU is ``asked`` for."""
    kind = str(network.dtype)
    if kind in _DIGITS:
        return (
            f"The model computes in half precision ({kind.removeprefix('torch.')}): its outputs "
            f"have about {_DIGITS[kind]} digits, and smaller effects are rounding.",
        )
    if network.device.type != "cuda" or not (coarse := _distance(asked, whole)):
        return ()
    return (
        "On a GPU the model is asked in half precision (float16), which moved its outputs by "
        f"{coarse:.1g} on a short text; gradients and attention are in full precision.",
    )
