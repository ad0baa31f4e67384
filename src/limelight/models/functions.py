"""Functions from texts or images to scores as models, with checks of their scores."""

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from limelight.errors import InputError, add_text_number, unknown_name_message
from limelight.models.bags import Bag
from limelight.models.engine import Engine, call_function, quote_text
from limelight.models.fingerprints import Fingerprint, function_fingerprint, object_fingerprint
from limelight.models.protocol import (
    CAPABILITIES,
    SCALES,
    Capability,
    Link,
    Property,
    class_probabilities,
    log_odds,
)
from limelight.sampling.sample import Game
from limelight.shapes import Bool, Float, Int
from limelight.text import (
    Features,
    ImageInput,
    ModelInput,
    PatchedImage,
    Span,
    Tokens,
    UserInput,
    abbreviate_names,
    join_pair,
    read_image,
    splits_character,
    truncate_line,
    validate_spans,
    validate_text,
    validate_text_or_pair,
)
from limelight.text.characters import UNSPACED
from limelight.text.images import blur, grid_boxes
from limelight.theory.ratio_game import RatioGame, extract_document, value
from limelight.threads import cached_property

_BAG_BATCH_SIZE = 64  # inputs of a bag of words; with 16 a news text takes a tenth longer
_TOLERANCE = 1e-3  # half precision rounds row sums by this much
# In scripts without spaces between words, each character is a word: splitters have dictionaries.
# The pattern is compiled at its first use, which takes a hundredth of a short command.
_WORD = rf"[{UNSPACED}]|[^\W{UNSPACED}]+(?:['’][^\W{UNSPACED}]+)*|[^\w\s]"
_KEYCAP = "\u20e3"
Words = Callable[[str], Sequence[Span]]
_NO_PAIRS = "this function takes single texts (if it takes tuples of two, wrap it with pairs=True)"
_LIMITATIONS: dict[Property, str] = {
    "has_subwords": "a function has no tokenizer",
    "max_tokens": "a function reads every text as a whole",
    "shuffle_weights": "a function returns only outputs",
    "reads_pairs": _NO_PAIRS,
    "reads_images": "this function takes texts (if it takes images, wrap it with images=True)",
}
_MAX_BATCH_BYTES = 1 << 27  # of the masked images in one call
_GRID_SIZE = 7  # patches in a row and in a column, unless the request names another grid
_ONLY_PAIRS = "this function takes pairs. Give a tuple of two texts, (first, second)."


@dataclass(frozen=True, kw_only=True, eq=False)
class Function:
    """A function ``list[str] -> (n, C)`` with names for its classes; see :func:`limelight.wrap`.

    With ``pairs`` it takes a list of tuples of two texts. If it is known to be a linear classifier
    of a ``bag`` of words, the outputs without some words are computed exactly, and ``bag_link``
    says how its outputs become probabilities. Otherwise ``sampling_reason`` says why it is sampled.
    ``fingerprints`` are those of the function and of ``words``.
    """

    # Why a function finds no spans; None if it finds spans.
    _spans_limitation: ClassVar[str | None] = (
        "this function scores whole texts (if it finds spans, wrap it with tags=[…])"
    )

    reads_images: ClassVar[bool] = False

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
    sampling_reason: str = ""
    bag_link: Link | None = None
    # Computed when the function is wrapped, before a call can change it.
    fingerprints: Mapping[str, Fingerprint] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.scale not in SCALES:
            raise InputError(unknown_name_message("scale", self.scale, SCALES))
        if len(set(self.classes)) != len(self.classes):
            raise InputError(f"class names must be different, not {list(self.classes)}.")

    def __repr__(self) -> str:
        name = truncate_line(self._full_name)
        return f"<{type(self).__name__} {name} of {abbreviate_names(self.classes)}>"

    @property
    def link(self) -> Link:
        """How outputs become probabilities: the log-odds of each class by the sigmoid."""
        # A softmax would need logarithms of probabilities. The logarithm of a probability near 1
        # hardly changes, so scores of its class would be near 0.
        if self.bag_link is not None:
            return self.bag_link
        if self.scale == "score":
            return "none"
        return "sigmoid" if self.scale == "probability" or self.multi_label else "softmax"

    # Nothing that it depends on changes, and each explanation of a single text reads it.
    @cached_property
    def fingerprint(self) -> str:
        """The name of the function, and a digest of all that its answers depend on."""
        return f"{self._full_name} {object_fingerprint([self.classes, self.link, self.identity])}"

    @property
    def _full_name(self) -> str:
        """The name of the function with its module, or the name that the user gave."""
        qualified_name = getattr(self.function, "__qualname__", type(self.function).__qualname__)
        return self.name or f"{getattr(self.function, '__module__', None)}.{qualified_name}"

    @property
    def identity(self) -> dict[str, Any]:
        """The options of :func:`limelight.wrap` on which outputs depend, besides the classes.

        The function and ``words`` are represented by their digests.
        """
        digests = {
            f"{name} (by SHA-256)": fingerprint.digest if fingerprint else None
            for name in ("function", "words")
            for fingerprint in [self.fingerprints.get(name)]
        }
        options = ("scale", "multi_label", "mask", "pairs")
        settings = {name: getattr(self, name) for name in options}
        return settings | {"images": self.reads_images} | digests

    @property
    def unchecked_parts(self) -> tuple[str, ...]:
        """Names of objects that the function uses and that the fingerprint does not cover."""
        return tuple(
            name
            for fingerprint in self.fingerprints.values()
            for name in fingerprint.unchecked_parts
        )

    @property
    def replacements(self) -> tuple[str, ...]:
        """Replacements of a removed word: the mask if there is one, and no token."""
        return ("delete",) if self.mask is None else ("mask", "delete")

    @cached_property
    def capabilities(self) -> Mapping[Capability, str | None]:
        """Exact games for a known bag of words, spans for a function that finds them."""
        reason = "a function returns only outputs"
        return {
            **dict.fromkeys(CAPABILITIES, reason),
            "exact_game": None if self.bag is not None else self.sampling_reason or reason,
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
        many_labels = "the labels of this function are independent"
        single_score = "this function predicts a score"
        reason = many_labels if len(self.classes) > 1 else single_score
        return _LIMITATIONS | {"is_exclusive": reason}

    def read(self, text: Any, *, subwords: bool = False) -> ModelInput:
        """Return the words of a text or a pair, punctuation marks included."""
        if subwords:
            raise InputError(f"{_LIMITATIONS['has_subwords']}. Leave subwords out.")
        if self.bag is not None:
            return next(self.read_batch([text]))
        joined_text, parts = join_pair(validate_text_or_pair(text))
        names = [f"the {part.id} text of the pair" for part in parts] or ["the text"]
        part_spans = [part.span for part in parts] or [(0, len(joined_text))]
        spans = list[Span]()
        for name, (start, end) in zip(names, part_spans, strict=True):
            if not (words := word_spans(joined_text[start:end], self.words)):
                raise InputError(f"{name} has no words. Give at least one word.")
            spans += [(start + a, start + b) for a, b in words]
        strings = tuple(joined_text[start:end] for start, end in spans)
        tokens = Tokens(strings, tuple(spans))
        return ModelInput(joined_text, tokens, parts=parts, is_divisible=True)

    def read_batch(self, texts: Sequence[Any], *, subwords: bool = False) -> Iterator[ModelInput]:
        """Yield each text as ``read`` returns it; a vectorizer transforms all texts together."""
        if self.bag is None or subwords:
            yield from (self.read(text, subwords=subwords) for text in texts)
            return
        readings = self.bag.read_batch(texts)
        for text in texts:
            validate_text(text)
            reading = next(readings)
            if isinstance(reading, ModelInput):
                yield reading
                continue
            sampled_model = replace(self, bag=None, sampling_reason=reading)
            yield replace(sampled_model.read(text), fallback=sampled_model)

    def outputs(self, inputs: Sequence[ModelInput]) -> Float[np.ndarray, "n C"]:
        """Return the outputs as logits; probabilities become the log-odds of each class."""
        texts = [model_input.user_input for model_input in inputs]
        rows = None if self.bag is None else self.bag.shared_rows(inputs)
        if rows is None:
            return self.logits(texts)
        # The texts were transformed when they were read, which is most of the work of a call.
        (matrix, numbers), row_outputs = rows, cast(Bag, self.bag).row_outputs
        number_by_text = dict(zip(texts, numbers, strict=True))

        def compute_scores(batch: list[UserInput]) -> Any:
            """Return the scores of the classifier for texts."""
            batch_numbers = [number_by_text[text] for text in batch]
            # A copy, because a step may work in place. For a single text, SciPy takes a fifth of
            # the time that it takes to select its row.
            is_whole = batch_numbers == list(range(matrix.shape[0]))
            return row_outputs(matrix.copy() if is_whole else matrix[batch_numbers])

        return self._make_engine(partial(self._compute_logits, call=compute_scores))(texts)

    def logits(self, texts: Sequence[Any]) -> Float[np.ndarray, "n C"]:
        """Return the outputs as logits; probabilities become the log-odds of each class."""
        if isinstance(texts, str):
            raise InputError("logits needs a list of texts, not a string. Write [text].")
        # Before the first call, because a function may accept a tuple in place of a string.
        for number, text in enumerate(texts):
            if isinstance(text, tuple) != self.pairs:
                with add_text_number(number if len(texts) > 1 else None):
                    raise InputError(
                        _ONLY_PAIRS if self.pairs else f"the text is a pair, but {_NO_PAIRS}."
                    )
        return self._engine(list(texts)) if len(texts) else np.empty((0, len(self.classes)))

    def exact_games(
        self, inputs: Sequence[ModelInput], features: Sequence[Features]
    ) -> RatioGame | str:
        """Return the exact games of all inputs, or a clause that says why there are none."""
        for model_input in inputs:
            if model_input.fallback is not None:
                return cast(Function, model_input.fallback).sampling_reason
        return cast(Bag, self.bag).exact_games(inputs, features)

    def drop_inexact_games(self, features: Any, scale: str) -> "Function":
        """Return the function without its exact game, unless the game is exact for a request.

        The game is known for a bag of words. It is not exact on the scale of probabilities. If
        columns are normalized together, it is exact for words only.
        """
        # Groups of tokens are an array or a list, and only a string can be "words".
        is_words = isinstance(features, str) and features == "words"
        if self.bag is None or (
            scale != "probability" and (self.bag.columns_are_divisible or is_words)
        ):
            return self
        reason = "the effect of a word cannot be divided among features under this norm"
        if scale == "probability":
            reason = "probabilities have no exact formula"
        return replace(self, bag=None, sampling_reason=reason)

    @property
    def exactness_is_checked(self) -> bool:
        """Whether exact games are checked on each text, because they are not proven."""
        return self.bag is not None and self.bag.is_checked

    @property
    def inputs_per_batch(self) -> int:
        """Number of inputs that are computed at a time if their games are exact."""
        return _BAG_BATCH_SIZE

    def predict_proba(self, texts: Sequence[UserInput]) -> Float[np.ndarray, "n classes"]:
        """Return the probability of every class for every text."""
        return class_probabilities(self.logits(texts), self.link)

    def game(self, model_input: ModelInput, features: Features, replacement: str) -> Game:
        """Return a function from masks to outputs; one space beside a deleted word stays."""
        if model_input.fallback is not None:
            return cast(Function, model_input.fallback).game(
                replace(model_input, fallback=None), features, replacement
            )
        if (bag := self.bag) is not None:
            if bag.separates_columns(model_input, features):
                games = cast(RatioGame, bag.exact_games([model_input], [features]))
                ratio_game = extract_document(games, 0)
                return lambda keep: value(ratio_game, keep).T
            # Under a norm, a column of two features has no ratio game, but its outputs are known.
            if bag.growth is not None:
                return lambda keep: bag.outputs(model_input, features, keep)
        mask = self.mask if replacement == "mask" else None
        sides = split_segments(model_input, features)

        def masked_input(keep: Bool[np.ndarray, " d"]) -> UserInput:
            """Return the text, or the pair, without the removed features."""
            texts = tuple("".join(side.replace_words(keep, mask)) for side in sides)
            return texts if len(texts) == 2 else texts[0]

        return lambda keep: self._engine([masked_input(row) for row in keep])

    def __getstate__(self) -> dict[str, Any]:
        # Cached properties, such as the engine, are created again in another process.
        return {member.name: getattr(self, member.name) for member in fields(self)}

    @cached_property
    def _engine(self) -> Engine:
        """Calls the function in batches of the size that the user gave."""
        return self._make_engine(self._compute_logits)

    def _make_engine(
        self, compute: Callable[[list[UserInput]], Float[np.ndarray, "n C"]]
    ) -> Engine:
        """Return an engine for batches of the size that the user gave."""
        return Engine(
            compute,
            size=lambda user_input: len(join_pair(user_input)[0]),
            max_batch_size=sys.maxsize,  # the cost of a text inside a function is unknown
            max_items=self.batch_size,
        )

    def _compute_logits(
        self, user_inputs: list[UserInput], call: Callable[[list[UserInput]], Any] | None = None
    ) -> Float[np.ndarray, "n C"]:
        """Call the function, or ``call``, for inputs, and return its checked scores as logits."""
        scores = call_function(
            call or self._call,
            user_inputs,
            who="the function",
            item_text=lambda user_input: join_pair(user_input)[0],
            advice=" Set batch_size=1.",
        )
        rows = self._check_scores(scores, [join_pair(user_input)[0] for user_input in user_inputs])
        return log_odds(rows) if self.scale == "probability" else rows

    def _call(self, inputs: Sequence[Any]) -> Any:
        """Call the function of the user with a list of inputs."""
        return self.function(list(inputs))  # a new list, because the function may change it

    def _check_scores(self, scores: Any, texts: list[str]) -> Float[np.ndarray, "n C"]:
        """Return the scores of a function as float64, one row per text; raise if they are wrong."""
        n, C = len(texts), len(self.classes)
        try:
            rows = _convert_to_float64(scores)
        except (TypeError, ValueError):
            raise InputError(
                f"the function must return one row of numbers per text, one per class, ({n}, "
                f"{C}), not {truncate_line(repr(scores), 80)}. Convert sparse matrices with "
                "toarray, and wrap a transformers pipeline itself."
            ) from None
        if rows.shape == (n,) and C <= 2:
            rows = rows[:, None]  # one number per text, as regressors return
        if rows.ndim != 2 or len(rows) != n:
            raise InputError(
                f"the function must return one row per text, ({n}, {C}) for {n} text(s), not the "
                f"shape {rows.shape}."
            )
        # With two classes, a single column belongs to the second class, like a single logit.
        if rows.shape[1] not in ({1, 2} if C == 2 else {C}):
            raise InputError(
                f"there are {C} classes ({', '.join(self.classes)}), but the function returns "
                f"{rows.shape[1]} columns. Name as many classes as there are columns."
            )
        if not np.isfinite(rows).all():
            bad = int((~np.isfinite(rows)).any(axis=1).argmax())
            raise InputError(
                "the function must return finite numbers, but for the text "
                f"{quote_text(texts[bad])} it returned {rows[bad].tolist()}."
            )
        if self.scale == "probability":
            _check_probabilities(rows, texts, multi_label=self.multi_label)
        return rows


def _convert_to_float64(scores: Any) -> np.ndarray:
    """Return numbers as float64, also tensors of torch; raise an error for text and objects."""
    if hasattr(scores, "detach") and hasattr(scores, "cpu"):
        scores = scores.detach().cpu().double()
    # Conversion would accept strings of digits as numbers, and objects with any content.
    array = np.asarray(scores)
    if array.dtype.kind not in "biuf":
        raise TypeError(array.dtype)
    return array.astype(np.float64)


def _check_probabilities(
    rows: Float[np.ndarray, "n C"], texts: Sequence[str], *, multi_label: bool
) -> None:
    """Raise an error if probabilities are not from 0 to 1, or do not sum to 1 when they should."""
    low, high = rows.min(), rows.max()
    if low < -_TOLERANCE or high > 1 + _TOLERANCE:
        raise InputError(
            f"probabilities must be between 0 and 1, but the function returned {low:.4g} to "
            f"{high:.4g}. Pass scale='logit' if these are logits."
        )
    sums = rows.sum(axis=1)
    if rows.shape[1] > 1 and not multi_label and np.abs(sums - 1).max() > _TOLERANCE:
        worst = int(np.abs(sums - 1).argmax())
        raise InputError(
            "the probabilities of a text must sum to 1, but for the text "
            f"{quote_text(texts[worst])} they sum to {sums[worst]:.4g}. Pass multi_label=True if "
            "a text can have several classes."
        )


def wrap_function(
    function: Callable[[list[Any]], Any], model_class: type[Function] = Function, **options: Any
) -> Function:
    """Return a function as a model.

    Parameters
    ----------
    function
        Function from a list of inputs to scores.
    model_class
        Class of the model.
    options
        Options of :func:`limelight.wrap`. With ``known_fingerprint``, no fingerprint of the
        function is computed.

    Raises
    ------
    InputError
        If the classes, the batch size, the mask or the function for words are not valid.
    """
    classes: Any = options.get("classes")
    min_classes = 1 if options.get("scale") == "score" else 2
    if isinstance(classes, str) or not hasattr(classes, "__len__") or len(classes) < min_classes:
        names = "one name" if min_classes == 1 else "two names"
        raise InputError(f"classes must be a list of {names} or more, not {classes!r}.")
    size, mask, words = options.get("batch_size", 1), options.get("mask"), options.get("words")
    # Without the first check, True would count as a batch size of 1.
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise InputError(f"batch_size must be a positive whole number, not {size!r}.")
    if mask is not None and not isinstance(mask, str):
        raise InputError(f"mask must be a string, or None to delete words, not {mask!r}.")
    if words is not None and not callable(words):
        raise InputError(
            f"words must be a function from a text to a list of (start, end), not {words!r}."
        )
    known_fingerprint = options.pop("known_fingerprint", None)
    fingerprints = {"function": known_fingerprint or function_fingerprint(function)}
    if words is not None:
        fingerprints["words"] = function_fingerprint(words)
    options |= {"classes": tuple(map(str, classes)), "pairs": bool(options.get("pairs"))}
    return model_class(function=function, **options, fingerprints=fingerprints)


def word_spans(text: str, words: Words | None = None) -> list[Span]:
    """Return the spans of the words of ``text``: runs of letters and digits, and other characters.

    A character is what a reader sees as one: an emoji with its skin tone is one word, and so is
    every character of Chinese or Thai. If ``words`` is given, this function returns the spans.
    """
    if words is not None:
        return validate_spans(words(text), text, "words")
    # No ASCII character belongs to the character before it.
    if text.isascii():
        return [match.span() for match in re.finditer(_WORD, text)]
    starts = [i for i in range(len(text)) if not splits_character(text, i)] + [len(text)]
    # Each character counts as its first code point. A digit on a keycap is not a digit.
    code_points = [_KEYCAP if _KEYCAP in text[a:b] else text[a] for a, b in pairwise(starts)]
    matches = re.finditer(_WORD, "".join(code_points))
    return [(starts[match.start()], starts[match.end()]) for match in matches]


def is_picklable(model: object) -> bool:
    """Tell whether a model in memory can be sent to other processes, as functions can."""
    return hasattr(model, "function")


class TextSegments(NamedTuple):
    """The words of a text with the feature of each, and the gaps around them."""

    gaps: list[str]
    words: list[str]
    feature: Int[np.ndarray, " T"]  # -1 for a word that always stays

    def replace_words(self, keep: Bool[np.ndarray, " d"], mask: str | None) -> list[str]:
        """Return gaps and words in turn, with ``mask``, or "", in place of removed words."""
        strings = [self.gaps[0]]
        ends_with_space = not strings[0] or strings[0][-1].isspace()
        stays = np.append(keep, True)[self.feature].tolist()  # the appended True is for -1
        for word, gap, word_stays in zip(self.words, self.gaps[1:], stays, strict=True):
            new_word = word if word_stays else mask or ""
            # Only one of the spaces around a deleted word stays.
            new_gap = gap.lstrip() if ends_with_space and not new_word else gap
            strings += new_word, new_gap
            if last := new_gap or new_word:
                ends_with_space = last[-1].isspace()
        return strings


def split_segments(model_input: ModelInput, features: Features) -> list[TextSegments]:
    """Split each text of an input, one or the two of a pair, into words and gaps."""
    segments = []
    part_spans = [part.span for part in model_input.parts] or [(0, len(model_input.text))]
    for first, last in part_spans:
        spans = model_input.tokens.spans
        # A word belongs to the text in which it begins.
        numbers = [i for i, (start, _) in enumerate(spans) if first <= start < last]
        edges = [first, *(edge for i in numbers for edge in spans[i]), last]
        strings = [model_input.text[a:b] for a, b in pairwise(edges)]
        feature = features.feature_index[numbers]
        segments.append(TextSegments(strings[::2], strings[1::2], feature))
    return segments


# --- sentence encoders -------------------------------------------------------------------------


@dataclass(frozen=True)
class Similarity:
    """The cosine similarity of texts to another text, under a sentence encoder."""

    encoder: Any
    other: str

    def __call__(self, texts: list[str]) -> Float[np.ndarray, " n"]:
        """Return the similarity of each text; a vector of zeros is similar to no text."""
        vectors = np.stack([_convert_to_float64(v) for v in self.encoder.encode(texts)])
        (other,) = (_convert_to_float64(v) for v in self.encoder.encode([self.other]))
        norms = np.linalg.norm(vectors, axis=1) * np.linalg.norm(other)
        return (vectors @ other) / np.where(norms > 0, norms, 1)


def wrap_encoder(encoder: Any, options: Mapping[str, Any]) -> Function:
    """Return the similarity of texts to ``other`` as a model, with options of `limelight.wrap`.

    Raises
    ------
    InputError
        If the model does not encode texts, or if an option does not apply to similarities.
    """
    if not callable(getattr(encoder, "encode", None)):
        raise InputError(
            "other= needs a sentence encoder with a method encode, such as a SentenceTransformer, "
            f"not {type(encoder).__name__}."
        )
    if not (other := validate_text(options["other"])).strip():
        raise InputError("other must be a text with words, not an empty text.")
    used_options = {name: value for name, value in options.items() if name != "other"}
    for name in used_options:
        if name not in ("classes", "mask", "words", "batch_size", "name"):
            raise InputError(f"{name} does not apply to the similarity of two texts. Leave it out.")
    defaults = {"classes": ["similarity"], "name": f"similarity to {truncate_line(other, 40)!r}"}
    return wrap_function(
        Similarity(encoder, other), **{**defaults, **used_options, "scale": "score"}
    )


# --- functions from images ---------------------------------------------------------------------


class ImageFunction(Function):
    """A function from a list of arrays of pixels to scores; see :func:`limelight.wrap`."""

    reads_images = True

    @property
    def replacements(self) -> tuple[str, ...]:
        """Replacements of a removed patch: the mean color, black, or the blurred image."""
        # The mean comes first: a model may have learned shapes like a black patch.
        return ("mean", "black", "blurred")

    def read(self, text: Any, *, subwords: bool = False) -> ModelInput:
        """Return an image in a grid of patches, which may be split differently later."""
        if subwords:
            raise InputError(f"{self.limitations['has_subwords']}. Leave subwords out.")
        image = read_image(text)
        # A function reads pixels and not patches, so any grid can be used.
        patches = PatchedImage(image, grid_boxes((0, 0, *image.size), _GRID_SIZE, _GRID_SIZE))
        return ModelInput.from_image(patches, is_divisible=True)

    def logits(self, texts: Sequence[Any]) -> Float[np.ndarray, "n C"]:
        """Return the outputs as logits; probabilities become the log-odds of each class."""
        if isinstance(texts, str):
            raise InputError("logits needs a list of images, not a string. Write [path].")
        images = [read_image(image) for image in texts]
        return self._engine(images) if images else np.empty((0, len(self.classes)))

    def game(self, model_input: ModelInput, features: Features, replacement: str) -> Game:
        """Return a function from masks to outputs; pixels of removed features are replaced."""
        image: Any = model_input.image
        mask_image, size = _image_masker(image, features, replacement), image.source.pixels.nbytes
        # Masked images are created batch by batch: a thousand photos of a phone take 36 gigabytes.
        return lambda keep: self._engine.compute_rows(
            np.full(len(keep), size),
            lambda rows: self._compute_logits([mask_image(keep[i]) for i in rows]),
        )

    @cached_property
    def _engine(self) -> Engine:
        """Calls the function in batches of the size that the user gave."""
        return Engine(
            self._compute_logits,
            size=lambda image: image.pixels.nbytes,  # the memory that an image takes at least
            max_batch_size=_MAX_BATCH_BYTES,
            max_items=self.batch_size,
        )

    def _call(self, inputs: Sequence[Any]) -> Any:
        """Call the function of the user with a list of inputs."""
        return self.function([image.pixels for image in inputs])


def wrap_image_function(
    function: Callable[[list[Any]], Any], options: Mapping[str, Any]
) -> Function:
    """Return a function from arrays of pixels as a model, with the options of `limelight.wrap`."""
    for name in ("mask", "words", "pairs", "tags"):
        if options.get(name):
            raise InputError(
                f"{name} is for texts, but this function takes images. Leave {name} out."
            )
    used_options = {name: value for name, value in options.items() if name != "images"}
    return wrap_function(function, ImageFunction, **used_options)


def _image_masker(
    image: PatchedImage, features: Features, replacement: str
) -> Callable[[Bool[np.ndarray, " d"]], ImageInput]:
    """Return a function from a mask to the image with the removed features replaced."""
    pixels, feature = image.source.pixels, np.append(features.feature_index, -1)[image.token_map()]
    background = np.zeros_like(pixels)
    if replacement == "blurred":
        background = blur(pixels)
    elif replacement == "mean":
        # In whole bytes, as an image file would have them.
        background += np.rint(pixels.mean(axis=(0, 1))).astype(np.uint8)

    def mask_image(keep: Bool[np.ndarray, " d"]) -> ImageInput:
        """Return the image with only the features of ``keep``."""
        stays = np.append(keep, True)[feature]  # the appended True is for -1, no feature
        return ImageInput(np.where(stays[:, :, None], pixels, background))

    return mask_image
