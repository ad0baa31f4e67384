"""Any function from texts or images to scores, and what is checked about its answers."""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from limelight.errors import InputError, about_text, nearest
from limelight.models.bags import Bag
from limelight.models.engine import Engine, answers_of, short
from limelight.models.fingerprints import Fingerprint, function_fingerprint, object_fingerprint
from limelight.models.protocol import (
    CAPABILITIES,
    SCALES,
    Capability,
    Link,
    Property,
    class_probabilities,
)
from limelight.sampling.sample import Game
from limelight.shapes import Bool, Float, Int
from limelight.text import (
    SIDES,
    Features,
    ImageInput,
    ModelInput,
    PatchedImage,
    Span,
    Tokens,
    UserInput,
    checked_spans,
    checked_text,
    checked_text_or_pair,
    few_names,
    inside_character,
    join_pair,
    one_line,
    read_image,
)
from limelight.text.characters import UNSPACED
from limelight.text.images import blurred, grid_boxes
from limelight.theory.ratio_game import RatioGame, one_document, value
from limelight.threads import cached_property

# The log-odds of a sure answer are infinite, and a mean of anything with them would be too.
_LEAST = 1e-12  # probabilities are held this far from 0 and 1
MOST_LOG_ODDS = float(np.log1p(-_LEAST) - np.log(_LEAST))  # 27.6
_TOGETHER = 16  # documents of a bag of words; more gain nothing, and padding costs
_SLACK = 1e-3  # half precision rounds row sums by this much
# A character alone where a script puts no space between words: dictionaries are for cutters.
# Compiled when a function is first asked: it takes a hundredth of a short command.
_WORD = rf"[{UNSPACED}]|[^\W{UNSPACED}]+(?:['’][^\W{UNSPACED}]+)*|[^\w\s]"
_KEYCAP = "\u20e3"
Words = Callable[[str], Sequence[Span]]
_TEXTS = "this function takes one text at a time; wrap it with pairs=True if it takes tuples of two"
_LIMITATIONS: dict[Property, str] = {
    "has_subwords": "a function of texts shows no pieces of words",
    "max_tokens": "a function gets every text whole, and may cut it itself",
    "shuffle_weights": "a function shows only its answers, and no weights",
    "reads_pairs": _TEXTS,
    "reads_images": "this function takes texts; wrap it with images=True if it takes images",
}
_MOST_BYTES = 1 << 27  # of the images that are made and asked about together
_SIDE = 7  # patches, as long as nobody asks for another grid
_PAIRS = "this function takes pairs; give a tuple of two texts, (first, second)."


@dataclass(frozen=True, kw_only=True, eq=False)
class Function:
    """A function ``list[str] -> (n, C)`` with names for its classes; see :func:`limelight.wrap`.

    With ``pairs`` it takes a list of tuples of two texts, and nothing else. Where it is known to be
    a linear classifier of a ``bag`` of words, removals are computed and not asked;
    ``asked_because`` says why not, and ``linked`` how its outputs become probabilities.
    """

    # Why a function finds no spans; None if it does.
    _spans_limitation: ClassVar[str | None] = (
        "this one scores whole texts; wrap it with tags=[…] if it finds spans"
    )

    reads_images: ClassVar[bool] = False
    _inputs: ClassVar[str] = "texts"  # what it takes, in messages

    function: Callable[[list[Any]], Any]
    classes: tuple[str, ...]
    scale: str = "probability"
    multi_label: bool = False
    mask: str | None = None
    words: Words | None = None
    batch_size: int = 256
    name: str = ""
    pairs: bool = False
    bag: Bag | None = None
    asked_because: str = ""
    linked: Link | None = None
    # Of the function, and of ``words``: taken when they are wrapped, before a call changes them.
    parts: Mapping[str, Fingerprint] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.scale not in SCALES:
            raise InputError(nearest("scale", self.scale, SCALES))
        if len(set(self.classes)) != len(self.classes):
            raise InputError(f"class names must differ; got {list(self.classes)}.")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {one_line(self._called)} of {few_names(self.classes)}>"

    @property
    def link(self) -> Link:
        """How outputs become probabilities: log-odds of each class by its sigmoid."""
        # Not by a softmax, which would take logarithms of probabilities: those of a class near 1
        # hardly move, and a method that explains them would see nothing.
        if self.linked is not None:
            return self.linked
        if self.scale == "score":
            return "none"
        return "sigmoid" if self.scale == "probability" or self.multi_label else "softmax"

    @property
    def fingerprint(self) -> str:
        """The name of the function, and a digest of all that its answers depend on."""
        return f"{self._called} {object_fingerprint([self.classes, self.link, self.identity])}"

    @property
    def _called(self) -> str:
        inner = getattr(self.function, "__qualname__", type(self.function).__qualname__)
        return self.name or f"{getattr(self.function, '__module__', None)}.{inner}"

    @property
    def identity(self) -> dict[str, Any]:
        """What changes a number besides the classes, by the names that :func:`limelight.wrap` has.

        The function and ``words`` are there with their digests.
        """
        digests = {
            f"{name} (by SHA-256)": self.parts[name].digest if name in self.parts else None
            for name in ("function", "words")
        }
        named = ("scale", "multi_label", "mask", "pairs")
        settings = {name: getattr(self, name) for name in named}
        return settings | {"images": self.reads_images} | digests

    @property
    def unchecked(self) -> tuple[str, ...]:
        """The names of what the function uses and the fingerprint does not cover."""
        return tuple(name for one in self.parts.values() for name in one.unchecked)

    @property
    def replacements(self) -> tuple[str, ...]:
        """What may stand for a removed word: the mask if there is one, or nothing."""
        return ("delete",) if self.mask is None else ("mask", "delete")

    @cached_property
    def capabilities(self) -> Mapping[Capability, str | None]:
        """What a function shows: only its answers, unless removals of words are computed."""
        hidden = f"a function of {self._inputs} shows only its answers"
        return {
            **dict.fromkeys(CAPABILITIES, hidden),
            "exact_game": None if self.bag is not None else self.asked_because or hidden,
            "spans": self._spans_limitation,
        }

    @property
    def is_exclusive(self) -> bool:
        """Whether the function predicts one of its classes."""
        return len(self.classes) > 1 and not self.multi_label

    @property
    def reads_pairs(self) -> bool:
        """Whether the function takes tuples of two texts."""
        return self.pairs

    @property
    def limitations(self) -> Mapping[Property, str]:
        """Why the function lacks a property."""
        several = "each label of this one is a yes or no of its own"
        score = "this one predicts a score and not a class"
        return _LIMITATIONS | {"is_exclusive": several if len(self.classes) > 1 else score}

    def read(self, text: Any, *, pieces: bool = False) -> ModelInput:
        """Return the words of a text or pair as they are written, punctuation marks included."""
        if pieces:
            raise InputError("a function of texts shows no pieces of words; read words.")
        if self.bag is not None:
            model_input = self.bag.read(checked_text(text))
            if isinstance(model_input, ModelInput):
                return model_input
            called = replace(self, bag=None, asked_because=model_input)
            return replace(called.read(text), fallback=called)
        whole, parts = join_pair(checked_text_or_pair(text))
        names = [f"the {side} text of the pair" for side in SIDES] if parts else ["the text"]
        spans = list[Span]()
        for name, (start, end) in zip(names, parts or [(0, len(whole))], strict=True):
            if not (found := word_spans(whole[start:end], self.words)):
                raise InputError(f"{name} has no words; give at least one word.")
            spans += [(start + a, start + b) for a, b in found]
        strings = tuple(whole[start:end] for start, end in spans)
        return ModelInput(whole, Tokens(strings, tuple(spans)), parts=parts, divisible=True)

    def outputs(self, inputs: Sequence[ModelInput]) -> Float[np.ndarray, "n C"]:
        """Return the outputs as logits; of probabilities, the log-odds of each class."""
        return self.logits([one.given for one in inputs])

    def logits(self, texts: Sequence[Any]) -> Float[np.ndarray, "n C"]:
        """Return the outputs as logits; of probabilities, the log-odds of each class."""
        if isinstance(texts, str):
            raise InputError("logits takes a list of texts; got one string. Write [text].")
        # Before the first call: nobody knows what a function makes of a tuple for a string.
        for number, text in enumerate(texts):
            if isinstance(text, tuple) != self.pairs:
                with about_text(number if len(texts) > 1 else None):
                    raise InputError(_PAIRS if self.pairs else f"a pair came, and {_TEXTS}.")
        return self._engine(list(texts)) if len(texts) else np.empty((0, len(self.classes)))

    def games(self, inputs: Sequence[ModelInput], features: Sequence[Features]) -> RatioGame | str:
        """Return what is left when words are deleted, for all masks at once, or why not."""
        for model_input in inputs:
            if model_input.fallback is not None:
                return cast(Function, model_input.fallback).asked_because
        return cast(Bag, self.bag).games(inputs, features)

    def asked_about(self, features: Any, scale: str) -> "Function":
        """Return the same for such a question: what has no exact answer is asked."""
        # A group of tokens is an array or a list, and only a string can be "words".
        words = isinstance(features, str) and features == "words"
        if self.bag is None or (scale != "probability" and (self.bag.proportional or words)):
            return self
        why = "what a word does under this norm cannot be shared out among the units it is part of"
        if scale == "probability":
            why = "probabilities are no quotients of sums over words"
        return replace(self, bag=None, asked_because=why)

    @property
    def rests_on_checks(self) -> bool:
        """Whether removals of words are tried on each text, because they are not proven."""
        return self.bag is not None and self.bag.checked

    @property
    def documents_per_batch(self) -> int:
        """How many documents are computed at a time where none is asked about."""
        return _TOGETHER

    def predict_proba(self, texts: Sequence[UserInput]) -> Float[np.ndarray, "n classes"]:
        """Return the probability of every class for every text."""
        return class_probabilities(self.logits(texts), self.link)

    def game(self, model_input: ModelInput, features: Features, replacement: str) -> Game:
        """Return the outputs for each mask; of the spaces beside a deleted word one stays."""
        if model_input.fallback is not None:
            return cast(Function, model_input.fallback).game(
                replace(model_input, fallback=None), features, replacement
            )
        if (bag := self.bag) is not None:
            if bag.apart(model_input, features):
                known = one_document(cast(RatioGame, bag.games([model_input], [features])), 0)
                return lambda keep: value(known, keep).T
            # A column that two features share has no such game under a norm, but known outputs.
            if bag.growth is not None:
                return lambda keep: bag.outputs(model_input, features, keep)
        mask = self.mask if replacement == "mask" else None
        sides = segments(model_input, features)

        def written(keep: Bool[np.ndarray, " d"]) -> UserInput:
            texts = tuple("".join(one.without(keep, mask)) for one in sides)
            return texts if len(texts) == 2 else texts[0]

        return lambda keep: self._engine([written(row) for row in keep])

    def __getstate__(self) -> dict[str, Any]:
        # Answers that are remembered, and how, are made again in another process.
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @cached_property
    def _engine(self) -> Engine:
        return Engine(
            self._answer,
            size=lambda given: len(join_pair(given)[0]),
            budget=sys.maxsize,  # nobody knows what a text costs in there
            most=self.batch_size,
        )

    def _answer(self, texts: list[UserInput]) -> Float[np.ndarray, "n C"]:
        found = answers_of(
            self._call,
            texts,
            who="the function",
            shown=lambda given: join_pair(given)[0],
            advice=" Set batch_size=1.",
        )
        answers = self._checked(found, [join_pair(given)[0] for given in texts])
        return log_odds(answers) if self.scale == "probability" else answers

    def _call(self, inputs: Sequence[Any]) -> Any:
        return self.function(list(inputs))  # a list of its own: it may change it

    def _checked(self, found: Any, texts: list[str]) -> Float[np.ndarray, "n C"]:
        """Return ``found`` as float64, one row per text and one column per class."""
        n, C = len(texts), len(self.classes)
        try:
            answers = _numbers(found)
        except (TypeError, ValueError):
            raise InputError(
                f"the function must return numbers, one row per text and one column per class, "
                f"({n}, {C}) here; got {one_line(repr(found), 80)}. A sparse matrix must become an "
                "array (toarray), and a transformers pipeline is wrapped itself: "
                "limelight.wrap(pipeline)."
            ) from None
        if answers.shape == (n,) and C <= 2:
            answers = answers[:, None]  # one number per text, as regressors answer
        if answers.ndim != 2 or len(answers) != n:
            raise InputError(
                f"the function must return one row per text, ({n}, {C}) for {n} text(s); got shape "
                f"{answers.shape}."
            )
        # One column of two classes is the second's, as a single logit is.
        if answers.shape[1] not in ({1, 2} if C == 2 else {C}):
            raise InputError(
                f"there are {C} classes ({', '.join(self.classes)}), but the function returns "
                f"{answers.shape[1]} columns; name as many classes as there are columns."
            )
        if not np.isfinite(answers).all():
            bad = int((~np.isfinite(answers)).any(axis=1).argmax())
            raise InputError(
                f"the function must return finite numbers; for the text {short(texts[bad])} it "
                f"returned {answers[bad].tolist()}."
            )
        if self.scale == "probability":
            _check_probabilities(answers, texts, multi_label=self.multi_label)
        return answers


def _numbers(found: Any) -> np.ndarray:
    """Return ``found`` as float64: a tensor of torch from any device and graph, never a text."""
    if hasattr(found, "detach") and hasattr(found, "cpu"):
        found = found.detach().cpu().double()
    # Strings of digits would pass for numbers, and objects for whatever they happen to hold.
    given = np.asarray(found)
    if given.dtype.kind not in "biuf":
        raise TypeError(given.dtype)
    return given.astype(np.float64)


def _check_probabilities(
    answers: Float[np.ndarray, "n C"], texts: Sequence[str], *, multi_label: bool
) -> None:
    low, high = answers.min(), answers.max()
    if low < -_SLACK or high > 1 + _SLACK:
        raise InputError(
            f"probabilities must lie between 0 and 1; the function returned {low:.4g} to "
            f"{high:.4g}. Pass scale='logit' if these are logits."
        )
    sums = answers.sum(axis=1)
    if answers.shape[1] > 1 and not multi_label and np.abs(sums - 1).max() > _SLACK:
        worst = int(np.abs(sums - 1).argmax())
        raise InputError(
            "the probabilities of a text must sum to 1; for the text "
            f"{short(texts[worst])} they sum to {sums[worst]:.4g}. "
            "Pass multi_label=True if each class is a yes or no of its own."
        )


def log_odds(chances: Float[np.ndarray, "n C"]) -> Float[np.ndarray, "n C"]:
    """Return log p − log(1 − p), with p held away from 0 and 1 by 1e-12."""
    # log1p: 1 − p of a small p has lost the digits of p. The clip of the result is for p held at
    # 1 − 1e-12, which is not a float: its rounding would make the two ends differ.
    held = np.clip(chances, _LEAST, 1 - _LEAST)
    return np.clip(np.log(held) - np.log1p(-held), -MOST_LOG_ODDS, MOST_LOG_ODDS)


def wrapped_function(
    function: Callable[[list[Any]], Any], kind: type[Function] = Function, **given: Any
) -> Function:
    """Return a function as a model; what is ``given`` are the options of :func:`limelight.wrap`."""
    classes: Any = given.get("classes")
    least = 1 if given.get("scale") == "score" else 2
    if isinstance(classes, str) or not hasattr(classes, "__len__") or len(classes) < least:
        names = "one name" if least == 1 else "two names"
        raise InputError(f"classes must be a list of {names} or more; got {classes!r}.")
    size, mask, words = given.get("batch_size", 1), given.get("mask"), given.get("words")
    # True would pass for a batch of one.
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise InputError(f"batch_size must be a whole number, 1 or more; got {size!r}.")
    if mask is not None and not isinstance(mask, str):
        raise InputError(f"mask must be a string, or None to delete words; got {mask!r}.")
    if words is not None and not callable(words):
        raise InputError(f"words must be a function from a text to (start, end)s; got {words!r}.")
    own = {"classes": tuple(map(str, classes)), "pairs": bool(given.get("pairs"))}
    parts = {"function": given.pop("function_known", None) or function_fingerprint(function)}
    if words is not None:
        parts["words"] = function_fingerprint(words)
    return kind(function=function, **{**given, **own, "parts": parts})


def word_spans(text: str, words: Words | None = None) -> list[Span]:
    """Return where the words of ``text`` stand: runs of letters and digits, and every other sign.

    Characters are what a reader sees as one: an emoji with its skin tone is one word, and so is
    every character of Chinese or Thai. ``words`` may be another function that says where they
    stand.
    """
    if words is not None:
        return checked_spans(words(text), text, "words")
    # No sign of ASCII belongs to the one before it.
    if text.isascii():
        return [match.span() for match in re.finditer(_WORD, text)]
    starts = [i for i in range(len(text)) if not inside_character(text, i)] + [len(text)]
    # The first sign of each character stands for it; a digit on a keycap is no digit.
    signs = [_KEYCAP if _KEYCAP in text[a:b] else text[a] for a, b in pairwise(starts)]
    return [(starts[m.start()], starts[m.end()]) for m in re.finditer(_WORD, "".join(signs))]


def is_sent(model: object) -> bool:
    """Return whether a model in memory can go to other processes: no network does."""
    return hasattr(model, "function")


class Segments(NamedTuple):
    """The words of a text with the feature of each, and what stands around them."""

    gaps: list[str]
    words: list[str]
    feature: Int[np.ndarray, " T"]  # -1 where a word always stays

    def without(self, keep: Bool[np.ndarray, " d"], mask: str | None) -> list[str]:
        """Return gaps and words in turn, with ``mask`` for the words that are not kept, or ""."""
        found = [self.gaps[0]]
        ends = not found[0] or found[0][-1].isspace()  # so does the text so far: at a space
        stays = np.append(keep, True)[self.feature].tolist()  # at -1 the last
        for word, gap, kept in zip(self.words, self.gaps[1:], stays, strict=True):
            shown = word if kept else mask or ""
            # What stood on both sides of a word must not grow together.
            left = gap.lstrip() if ends and not shown else gap
            found += shown, left
            if last := left or shown:
                ends = last[-1].isspace()
        return found


def segments(model_input: ModelInput, features: Features) -> list[Segments]:
    """Return what each text of a document is made of: one, or the two of a pair."""
    found = []
    for first, last in model_input.parts or [(0, len(model_input.text))]:
        spans = model_input.tokens.spans
        # A word belongs to the text in which it begins.
        numbers = [i for i, (start, _) in enumerate(spans) if first <= start < last]
        edges = [first, *(edge for i in numbers for edge in spans[i]), last]
        cut = [model_input.text[a:b] for a, b in pairwise(edges)]
        found.append(Segments(cut[::2], cut[1::2], features.of_token[numbers]))
    return found


# --- functions from images ---------------------------------------------------------------------


class ImageFunction(Function):
    """A function from a list of arrays of pixels to scores; see :func:`limelight.wrap`."""

    reads_images = True
    _inputs: ClassVar[str] = "images"

    @property
    def replacements(self) -> tuple[str, ...]:
        """What may stand for a removed patch: the mean color, black, or the image blurred."""
        # The mean first: a black patch is a shape of its own that a model may have learned.
        return ("mean", "black", "blurred")

    def read(self, text: Any, *, pieces: bool = False) -> ModelInput:
        """Return an image in a grid of patches, which may be cut into others."""
        if pieces:
            raise InputError(f"{self.limitations['has_subwords']}; read patches.")
        image = read_image(text)
        # A function sees pixels and has no patches of its own: any other cut will do as well.
        cut = PatchedImage(image, grid_boxes((0, 0, *image.size), _SIDE, _SIDE))
        return ModelInput.from_image(cut, divisible=True)

    def logits(self, texts: Sequence[Any]) -> Float[np.ndarray, "n C"]:
        """Return the outputs as logits; of probabilities, the log-odds of each class."""
        if isinstance(texts, str):
            raise InputError("logits takes a list of images; got one string. Write [path].")
        images = [read_image(image) for image in texts]
        return self._engine(images) if images else np.empty((0, len(self.classes)))

    def game(self, model_input: ModelInput, features: Features, replacement: str) -> Game:
        """Return the outputs for each mask; the pixels of removed features are replaced."""
        image: Any = model_input.image
        mask_image, size = _image_masker(image, features, replacement), image.source.pixels.nbytes
        # Made when their turn comes: a thousand photos of a telephone are 36 gigabytes.
        return lambda keep: self._engine.rows(
            np.full(len(keep), size),
            lambda rows: self._answer([mask_image(keep[i]) for i in rows]),
        )

    @cached_property
    def _engine(self) -> Engine:
        return Engine(
            self._answer,
            size=lambda image: image.pixels.nbytes,  # what an image takes at least
            budget=_MOST_BYTES,
            most=self.batch_size,
        )

    def _call(self, inputs: Sequence[Any]) -> Any:
        return self.function([image.pixels for image in inputs])


def image_function(function: Callable[[list[Any]], Any], options: Mapping[str, Any]) -> Function:
    """Return a function from arrays of pixels as a model, with the options of `limelight.wrap`."""
    for name in ("mask", "words", "pairs", "tags"):
        if options.get(name):
            raise InputError(f"{name} is about texts, and this function takes images.")
    named = {name: value for name, value in options.items() if name != "images"}
    return wrapped_function(function, ImageFunction, **named)


def _image_masker(
    cut: PatchedImage, features: Features, replacement: str
) -> Callable[[Bool[np.ndarray, " d"]], ImageInput]:
    """Return a function from a mask of features to the image without the others."""
    pixels, feature = cut.source.pixels, np.append(features.of_token, -1)[cut.labels()]
    replaced = np.zeros_like(pixels)
    if replacement == "blurred":
        replaced = blurred(pixels)
    elif replacement == "mean":
        # In whole bytes: the function gets what a file could hold.
        replaced += np.rint(pixels.mean(axis=(0, 1))).astype(np.uint8)

    def mask_image(keep: Bool[np.ndarray, " d"]) -> ImageInput:
        stays = np.append(keep, True)[feature]  # at -1 the last: no feature
        return ImageInput(np.where(stays[:, :, None], pixels, replaced))

    return mask_image
