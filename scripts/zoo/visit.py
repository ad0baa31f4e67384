"""One network, asked by every method: right, refused in a sentence, wrong, or broken."""

__all__ = ["TEXT", "Verdict", "visit"]

import warnings as python_warnings
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import limelight
from limelight.explainers import METHODS
from zoo import animals
from zoo.by_hand import ByHand, Table
from zoo.oracles import bad_rows, enumerated, from_attention, from_gradients, other_mixing

TEXT = "a superb film but predictable plot"  # six words, seven pieces, all different
TEXTS = [TEXT, "good", "the plot is bad . " * 4, "a film"]
TARGET = 1
REPLACEMENTS = ("mask", "unk", "pad", "delete")
CHEAP = {
    "ig": {"steps": 8, "max_steps": 8},  # the oracle takes as many
    "lime-sampled": {"samples": 200},
    "anchors": {"samples": 64, "max_samples": 200},
}
OTHERS = ("the plot is bad .", "a film")  # of other lengths, explained together with TEXT
TOLERANCE = 2e-4  # of the largest number: float32 through two layers with weights of size 1


@dataclass(frozen=True)
class Verdict:
    """What came of one question: "right", "refused", "unchecked", "wrong" or "broken"."""

    word: str
    said: str = ""
    error: float = 0.0


def visit(family: str, names: Collection[str] = ()) -> dict[str, Any]:
    """Return a verdict on every method, on batches and on replacements, as plain values.

    With ``names``, only on those.
    """
    network, tokenizer = animals.build(family), animals.word_pieces(family)
    hand = ByHand(network, tokenizer, TEXT)
    try:
        with python_warnings.catch_warnings():
            python_warnings.simplefilter("ignore")
            model = limelight.wrap(network, tokenizer=tokenizer)
    except limelight.InputError as error:
        return {"refused": str(error)}
    questions: dict[str, Callable[[], Verdict]] = {
        "outputs": lambda: _outputs(model, hand),
        "long": lambda: _long(model),
        **{f"loo {name}": _asked(_loo, model, hand, name) for name in REPLACEMENTS},
        **{name: _asked(_method, model, hand, name) for name in METHODS},
    }
    warnings = list(model.read(TEXT).warnings)
    found = {
        name: asdict(_answered(ask))
        for name, ask in questions.items()
        if not names or name in names
    }
    for noise in (warning for warning in warnings if "differently from call to call" in warning):
        for verdict in found.values():  # what a warning calls noise is not silently wrong
            if verdict["word"] == "wrong":
                verdict.update(word="refused", said=noise)
    return {"warnings": warnings, "verdicts": found}


def _asked(ask: Callable[..., Verdict], *given: Any) -> Callable[[], Verdict]:
    return lambda: ask(*given)


def _answered(ask: Callable[[], Verdict]) -> Verdict:
    try:
        with python_warnings.catch_warnings():
            python_warnings.simplefilter("ignore")
            return ask()
    except limelight.InputError as error:
        sound = "\n" not in str(error) and str(error).strip()
        return Verdict("refused" if sound else "broken", str(error))
    except Exception as error:
        return Verdict("broken", f"{type(error).__name__}: {error}"[:300])


def _compared(found: Any, expected: Any, *, scale: float = 0.0) -> Verdict:
    """Whether numbers agree, to a part of the largest of them or of ``scale``."""
    found, expected = np.asarray(found), np.asarray(expected)
    error = float(np.abs(found - expected).max())
    most = TOLERANCE * max(float(np.abs(expected).max()), scale)
    return Verdict("right" if error <= most else "wrong", f"{found} {expected}"[:300], error)


def _outputs(model: Any, hand: ByHand) -> Verdict:
    """Alone or in a list, in any order: the same outputs, which are the network's own.

    A text that the network cannot read by itself is refused by itself.
    """
    alone = {text: _alone(hand, text) for text in TEXTS}
    for text in (text for text, answer in alone.items() if answer is None):
        try:
            model.outputs([model.read(text)])
        except limelight.InputError:
            continue
        return Verdict("wrong", f"{text!r} is answered, which the network cannot read")
    texts = [text for text, answer in alone.items() if answer is not None]
    expected = [alone[text] for text in texts]
    inputs = [model.read(text) for text in texts]
    together, backwards = model.outputs(inputs), model.outputs(inputs[::-1])[::-1]
    return _worst(_compared(together, expected), _compared(backwards, expected))


def _alone(hand: ByHand, text: str) -> np.ndarray | None:
    one = ByHand(hand.network, hand.tokenizer, text)
    try:
        return one.outputs(np.ones(one.d, bool), "delete")
    except Exception:
        return None


def _worst(*verdicts: Verdict) -> Verdict:
    return next((one for one in verdicts if one.word != "right"), verdicts[0])


def _long(model: Any) -> Verdict:
    """A text that is longer than the network reads is cut, or refused in a sentence."""
    found = model.outputs([model.read("good film " * 100)])
    return Verdict("right" if np.isfinite(found).all() else "wrong")


def _loo(model: Any, hand: ByHand, replacement: str) -> Verdict:
    """What really happens without each word."""
    found = limelight.explain(model, TEXT, "loo", target=TARGET, replacement=replacement)
    whole = hand.outputs(np.ones(hand.d, bool), replacement)[TARGET]
    others = [hand.outputs(keep, replacement)[TARGET] for keep in ~np.eye(hand.d, dtype=bool)]
    return _compared(found.scores, whole - np.array(others), scale=abs(float(whole)))


def _method(model: Any, hand: ByHand, name: str) -> Verdict:
    found = limelight.explain(model, TEXT, name, target=TARGET, **CHEAP.get(name, {}))
    if (
        "replacement" in METHODS[name].implementations[-1].settings
        and METHODS[name].implementations[-1].needs is None
    ):
        return _by_asking(model, hand, name, found)
    if name == "ig":
        return _integrated(hand, found)
    size = float(np.abs(found.scores).max())
    if METHODS[name].implementations[-1].needs == "lrp":
        return _together(model, name, found)
    if METHODS[name].implementations[-1].needs == "gradients":
        expected = from_gradients(name, hand, TARGET, 0, 0)
        size = max(size, float(np.abs(hand.gradient(TARGET)).max()))
    else:
        if METHODS[name].implementations[-1].needs == "attention_only" and (
            others := other_mixing(hand)
        ):
            return Verdict("wrong", f"tokens are mixed by {', '.join(others)} too")
        if (rows := bad_rows(hand)) is not None:
            return Verdict("wrong", rows)
        expected = from_attention(name, hand, TARGET)
    return (
        Verdict("unchecked") if expected is None else _compared(found.scores, expected, scale=size)
    )


def _together(model: Any, name: str, found: Any) -> Verdict:
    """Numbers that have no oracle here: finite, and the same among other texts as alone."""
    among = limelight.explain(model, [OTHERS[0], TEXT, OTHERS[1]], name, target=TARGET)
    alone = [limelight.explain(model, text, name, target=TARGET) for text in OTHERS]
    pairs = ((among[0], alone[0]), (among[1], found), (among[2], alone[1]))
    if not np.isfinite(found.scores).all():
        return Verdict("wrong", f"{found.scores}"[:300])
    verdict = _worst(*(_compared(one.scores, other.scores) for one, other in pairs))
    return Verdict("unchecked") if verdict.word == "right" else verdict


def _by_asking(model: Any, hand: ByHand, name: str, found: Any) -> Verdict:
    """The method on a table of all answers, and its own definition where that is short."""
    answers = hand.table(found.settings["replacement"])
    table = Table(model, answers, model.classes, model.link, (found.settings["replacement"],))
    same = limelight.explain(table, TEXT, name, target=TARGET, **CHEAP.get(name, {}))
    size = float(np.abs(answers[:, TARGET]).max())
    verdict = _compared(found.scores, same.scores, scale=size)
    defined = enumerated(name, answers[:, TARGET])
    return (
        verdict
        if defined is None
        else _worst(verdict, _compared(found.scores, defined, scale=size))
    )


def _integrated(hand: ByHand, found: Any) -> Verdict:
    replacement = found.settings["replacement"]
    token = getattr(hand.tokenizer, f"{replacement}_token_id")
    expected = from_gradients("ig", hand, TARGET, token, found.diagnostics["nodes"])
    base = hand.outputs(np.zeros(hand.d, bool), "mask" if replacement == "pad" else replacement)
    size = float(np.abs(found.scores).max())
    return _worst(
        _compared(found.scores, expected, scale=size),
        _compared(found.base_value, base[TARGET], scale=size),
    )
