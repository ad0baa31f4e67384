"""One text as a game: the outputs of a model as a function of the features that are present."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from limelight.errors import InputError, TooFewFeaturesError
from limelight.models.engine import is_out_of_memory, joint_outputs
from limelight.progress import count_calls, track_calls
from limelight.sampling.sample import Game, count_masks_per_call
from limelight.shapes import Bool, Float
from limelight.text import Features, truncate_line
from limelight.threads import cached_property, limit_blas_threads

_MAX_CACHED_ROWS = 50_000  # a few hundred bytes each
_MAX_CACHED_NUMBERS = 8_000_000  # in all rows, 8 bytes each: there may be many classes
# A model that rejects a text without words accepts at least this share of the single words.
_MIN_ACCEPTED_SHARE = 0.5
_EMPTY_ANSWERS = 5  # random outputs whose mean is the output for the empty text
NO_BASE_VALUE = "The model rejects the text without words, so there is no base value"


def validate_masks(keep: Any, d: int) -> Bool[np.ndarray, "n d"]:
    """Return masks of ``d`` features as booleans; raise an error for any other shape or type."""
    masks = np.asarray(keep)
    if masks.ndim != 2 or masks.shape[1] != d or masks.dtype.kind not in "bui":
        raise InputError(
            f"the masks of {d} features must be booleans of the shape (n, {d}), true where a "
            f"feature stays, not {masks.dtype} of shape {masks.shape}."
        )
    return masks.astype(bool)


@final
@dataclass(frozen=True)
class RandomGame:
    """A game with random outputs: for equal masks, they are different draws.

    Each call must draw new outputs, because standard errors count outputs as independent.
    """

    draw: Game

    def __call__(self, keep: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, "n C"]:
        """Return a new output for each mask."""
        return self.draw(keep)

    def average(self, count: int) -> Game:
        """Return the game whose outputs are means over ``count`` draws."""
        return lambda keep: (
            self.draw(np.repeat(keep, count, axis=0)).reshape(len(keep), count, -1).mean(axis=1)
        )


class TextGame:
    """The outputs of a model on one text as a function of the features that are present.

    It takes masks (n, d), True where a feature is present, and returns outputs (n, C). If model
    calls are costly, outputs are cached, so that all classes and all methods share the same calls.

    A model may reject the text without any feature, or a text without anything that it calls a
    word, such as a lone colon. Then ``empty_output`` is None, and the mean of the outputs for each
    single feature is imputed for every such mask. Values that need the output of the empty text,
    such as Shapley values, stay defined. ``imputed_count`` counts the imputed outputs.

    The outputs of a `RandomGame` are never cached or imputed. Means of several ``answers`` are.
    """

    def __init__(
        self,
        call_model: Game,
        features: Features,
        replacement: str,
        *,
        use_cache: bool,
        answers: int = 1,
    ) -> None:
        self.calls_per_mask = answers if isinstance(call_model, RandomGame) else 1
        if isinstance(call_model, RandomGame) and answers > 1:
            call_model = call_model.average(answers)
        self.is_random = isinstance(call_model, RandomGame)
        self.masks_per_call = count_masks_per_call(call_model)
        self._call_model, self._use_cache = call_model, use_cache and not self.is_random
        self.features, self.replacement = features.strings, replacement
        self.imputed_count = 0
        self._cache: dict[bytes, Float[np.ndarray, " C"]] = {}
        self._empty_outputs: list[Float[np.ndarray, "_ C"]] = []  # random ones
        self._last_error: Exception | None = None  # with which the model last rejected a text

    def __len__(self) -> int:
        return len(self.features)

    def __repr__(self) -> str:
        words = truncate_line(", ".join(self.features), 80)
        return f"<TextGame of {len(self)} features, removed by {self.replacement!r}: {words}>"

    def __call__(self, keep: Any) -> Float[np.ndarray, "n C"]:
        """Return the model's outputs for each mask."""
        masks = validate_masks(keep, len(self))
        # Tables have an output for every mask, so nothing is cached or imputed.
        if self.is_random and len(masks):
            outputs = self._call_model(masks)
            self._empty_outputs.append(outputs[~masks.any(axis=1)])
            return outputs
        if not self._use_cache or not len(masks):
            # The outputs for no masks have C columns too. Only a model call shows how many.
            if not len(masks):
                return self(self._full_mask)[:0]
            with limit_blas_threads():  # it is our own computation, not a function of the user
                return self._call_model(masks)
        has_words = bool(masks.any(axis=1).all())
        if (has_words and self.calls_per_mask > 1) or not self.rejects_empty or has_words:
            try:
                return self._cached_outputs(masks)
            except Exception as error:
                if not _is_rejection(error) or not self.rejects_empty:
                    raise
        return self._impute_outputs(masks)

    @cached_property
    def rejects_empty(self) -> bool:
        """Whether the model rejects the text without any feature.

        The model is called about it before anything else, so that no other outputs are lost. The
        full text is in the same call: nearly every method needs both, and on a GPU two texts take
        as long as one.
        """
        empty_mask = ~self._full_mask
        both_ends = np.concatenate([empty_mask, self._full_mask])
        if self.calls_per_mask > 1:  # each mask takes several calls
            return self._use_cache and self._rejects(empty_mask)
        return self._use_cache and self._rejects(both_ends) and self._rejects(empty_mask)

    @property
    def empty_output(self) -> Float[np.ndarray, " C"] | None:
        """The outputs with every feature removed; None if the model rejects that text."""
        if self.is_random:
            return self._mean_empty_output
        return None if self.rejects_empty else self(~self._full_mask)[0]

    @property
    def _mean_empty_output(self) -> Float[np.ndarray, " C"]:
        """The mean of all random outputs so far with every feature removed, at least of a few."""
        if (missing := _EMPTY_ANSWERS - sum(map(len, self._empty_outputs))) > 0:
            with track_calls(None):
                self(np.repeat(~self._full_mask, missing, axis=0))
        return np.concatenate(self._empty_outputs).mean(axis=0)

    @property
    def is_constant(self) -> bool:
        """Whether the outputs for all masks so far, two or more, are the same numbers."""
        first, *further = self._cache.values() or [np.empty(0)]
        return bool(further) and all((first == outputs).all() for outputs in further)

    @property
    def _full_mask(self) -> Bool[np.ndarray, "1 d"]:
        """The mask that keeps every feature, as a single row."""
        return np.ones((1, len(self)), bool)

    def _rejects(self, masks: Bool[np.ndarray, "n d"]) -> bool:
        """Tell whether the model rejects one of a few masks.

        Errors of memory or of the network are no rejections and are raised.
        """
        try:
            with track_calls(None):  # a call of our own, which no progress display waits for
                self._cached_outputs(masks)
        except Exception as error:
            if not _is_rejection(error):
                raise
            self._last_error = error
            return True
        return False

    @cached_property
    def _is_accepted(self) -> Bool[np.ndarray, " d"]:
        """Whether the model accepts the text with one feature alone, for each feature."""
        # In separate calls: in a joint call the rejection of one text would count for all.
        single_masks = np.eye(len(self), dtype=bool)
        return np.array([not self._rejects(mask[None]) for mask in single_masks])

    @cached_property
    def _imputed_output(self) -> Float[np.ndarray, " C"]:
        """The mean of the outputs for each single feature that the model accepts."""
        # With a single word there is no other word whose output could be used.
        if len(self) == 1 or not self._is_accepted.any():
            raise TooFewFeaturesError(
                "the model rejects the text without words, so removing its words has no defined "
                "effect."
            )
        # A model that rejects most single words has another reason than an empty text.
        if self._last_error is not None and self._is_accepted.mean() < _MIN_ACCEPTED_SHARE:
            raise self._last_error
        return self._cached_outputs(np.eye(len(self), dtype=bool)[self._is_accepted]).mean(axis=0)

    def _impute_outputs(self, masks: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, "n C"]:
        """Return the outputs for each mask, imputed for masks without any accepted feature."""
        is_rejected = ~(masks & self._is_accepted).any(axis=1)
        outputs = np.tile(self._imputed_output, (len(masks), 1))
        if not is_rejected.all():
            outputs[~is_rejected] = self._cached_outputs(masks[~is_rejected])
        count = int(np.count_nonzero(is_rejected))
        self.imputed_count += count
        count_calls(count)
        return outputs

    def _cache_keys(self, masks: Bool[np.ndarray, "n d"]) -> tuple[list[bytes], dict[bytes, int]]:
        """Return the cache key of each mask, and a row of ``masks`` for each uncached key."""
        # As bits: 50,000 masks of 300 words take 2 megabytes, and 15 as booleans.
        bits = np.ascontiguousarray(np.packbits(masks, axis=1))
        keys: list[bytes] = bits.view(f"V{bits.shape[1]}").ravel().tolist()
        return keys, {key: i for i, key in enumerate(keys) if key not in self._cache}

    def _cached_outputs(self, masks: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, "n C"]:
        """Return the outputs for each mask; call the model only for masks that are not cached."""
        keys, uncached = self._cache_keys(masks)
        count_calls(len(keys) - len(uncached))
        # First from the computed outputs: the cache may have no room for them.
        cached_keys = [key for key in dict.fromkeys(keys) if key not in uncached]
        parts = [np.array([self._cache[key] for key in cached_keys])] if cached_keys else []
        if uncached:
            outputs = np.asarray(self._call_model(masks[list(uncached.values())]))
            # A cached NaN would spoil everything that is estimated later.
            if not np.isfinite(outputs).all():
                raise InputError("the model returns numbers that are not finite.")
            self._store_outputs(dict(zip(uncached, outputs, strict=True)))
            parts.append(outputs)
        row_numbers = {key: number for number, key in enumerate([*cached_keys, *uncached])}
        return np.concatenate(parts)[[row_numbers[key] for key in keys]]

    def _store_outputs(self, computed: dict[bytes, Float[np.ndarray, " C"]]) -> None:
        """Add outputs to the cache as long as there is room."""
        # The first ones stay: every method needs the full text, the empty text and single words.
        size = len(next(iter(computed.values())))
        room = min(_MAX_CACHED_ROWS, _MAX_CACHED_NUMBERS // size) - len(self._cache)
        self._cache.update(list(computed.items())[: max(room, 0)])

    @staticmethod
    def precompute_outputs(
        games: "Sequence[TextGame]", masks: Sequence[Bool[np.ndarray, "_ _d"]]
    ) -> None:
        """Compute the outputs for masks of several texts in one model call, and cache them.

        If the model cannot take several texts together, or raises an error, nothing happens. Each
        text is then computed by itself, and an error names that text.
        """
        uncached = [game._cache_keys(keep)[1] for game, keep in zip(games, masks, strict=True)]
        numbers = [i for i, rows in enumerate(uncached) if rows and games[i]._use_cache]
        if len(numbers) < 2:
            return
        new_masks = [masks[i][list(uncached[i].values())] for i in numbers]
        try:
            outputs = joint_outputs([games[i]._call_model for i in numbers], new_masks)
        # This call is optional, and the error comes again when the outputs are needed.
        except InputError:
            return
        for i, rows in zip(numbers, outputs or [], strict=outputs is not None):
            # Otherwise the text is computed again by itself, and the error names it.
            if np.isfinite(rows).all():
                games[i]._store_outputs(dict(zip(uncached[i], rows, strict=True)))


def _is_rejection(error: Exception) -> bool:
    """Tell whether a model rejected a text, and its machine or network did not fail."""
    cause = error.__cause__ or error  # of an error that names the text
    return not isinstance(cause, OSError) and not is_out_of_memory(error)
