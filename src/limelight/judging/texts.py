"""The judging of single texts: they are read, scored, searched for good orders, and measured."""

import dataclasses
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import numpy as np

from limelight.errors import InputError
from limelight.explainers.batch import Batch, read_batch
from limelight.explainers.explaining import texts_per_batch
from limelight.judging.candidates import Candidate, ScoredText, score_texts
from limelight.judging.measures import TextAgreement, compute_text_columns, text_agreement
from limelight.judging.plausibility import Rationales, compare_with_rationale
from limelight.judging.removals import (
    MAX_SINGLE_STEPS,
    STEPS,
    ExactRemovals,
    GreedySearch,
    JudgedOrder,
    Removals,
    count_ties,
    flatten,
    make_removals,
    removal_counts,
    tied_groups,
)
from limelight.models import Capable, Model, class_probabilities, require
from limelight.models.protocol import announce_calls, gives_random_answers, has_exact_game
from limelight.models.text_game import TextGame
from limelight.request import Request, target_indices
from limelight.results.judgment import (
    JudgedText,
    Measure,
    RemovalCurve,
    TextColumn,
    TextPlausibility,
)
from limelight.sampling.masks import text_rng
from limelight.text import append_parts, part_names
from limelight.text.characters import LONE_SURROGATE
from limelight.threads import cached_property

_MIN_ROOM = 1e-9  # of the explained number: less room is only rounding
_MAX_WORDS = 2**16  # whose positions a stored curve can hold
_SEARCHES = 32  # most texts that are searched at the same time if the model has no tables
_ORDERS = 48  # random orders that chance usually takes
_SETS = 256  # sets of words that additivity and lds evaluate
_GROUPS = 8  # of few texts, so that an interrupt of a slow judgment has a verdict


@dataclass(frozen=True, eq=False)
class SearchedText:
    """A scored text with one replacement: the order of each candidate, and a search.

    Parameters
    ----------
    scored
        The text with the scores of all candidates.
    removals
        The model's output as words are removed.
    columns
        Other measures of the scores.
    """

    scored: ScoredText
    removals: Removals
    columns: dict[str, TextColumn] = field(default_factory=dict)

    @cached_property
    def orders(self) -> list[JudgedOrder]:
        """The order of each candidate that has scores, with its areas."""
        names = [self.scored.candidates[i].name for i, _, _ in self.scored.rows]
        groups = [tied_groups(scores, signed=signed) for _, scores, signed in self.scored.rows]
        return list(map(JudgedOrder, names, groups, self.removals.areas(groups)))

    @cached_property
    def search(self) -> GreedySearch | ExactRemovals:
        """The search for a good order. It runs before the text is judged, if one is needed."""
        return self.removals.search(self.orders)

    def judge(self, *, seconds: float, curves: bool) -> JudgedText:
        """Return the result for this text.

        ``seconds`` is the time for sampling chance. With ``curves`` the result contains the curve
        of every method.
        """
        if self.search.error is not None:
            raise self.search.error
        scored, names = self.scored, [candidate.name for candidate in self.scored.candidates]
        unsigned = not all(signed for *_, signed in scored.rows)
        levels = self.search.levels(change=unsigned, seconds=seconds)
        measures: dict[str, Any] = {}
        for name, (chance, stderr, ceiling) in levels.by_measure.items():
            areas = scored.values_by_name(getattr(order.areas, name) for order in self.orders)
            measures[name] = Measure(chance=chance, stderr=stderr, ceiling=ceiling, areas=areas)
        # A file has the numbers of deletion in the text itself, because it was the first measure.
        deletion = measures.pop("deletion")
        scores_or_reasons = zip(names, scored.scores, strict=True)
        tie_counts = scored.values_by_name(count_ties(order.groups) for order in self.orders)
        return JudgedText(
            id=scored.number,
            d=self.removals.d,
            target=scored.batch.targets.class_names()[0],
            full=self.removals.full,
            ceiling_kind=levels.ceiling_kind,
            best=levels.best,
            greedy=levels.greedy,
            has_room=_has_room(deletion, self.removals.full),
            **msgspec.structs.asdict(deletion),
            **measures,
            # 0 also for a method without scores.
            ties=dict.fromkeys(names, 0) | tie_counts,
            reasons={name: reason for name, reason in scores_or_reasons if isinstance(reason, str)},
            warnings=self.removals.warnings,
            columns=self.columns,
            words=self._words_for_file() if curves else (),
            curves=self._curves() if curves else {},
        )

    def _words_for_file(self) -> tuple[str, ...]:
        """Return the words in a form that a file can hold."""
        (features,), (model_input,) = self.scored.batch.features, self.scored.batch.inputs
        names = features.strings
        if model_input.parts:
            names = append_parts(names, part_names(features.spans, model_input.parts))
        return tuple(LONE_SURROGATE.sub("\ufffd", name) for name in names)

    def _curves(self) -> dict[str, RemovalCurve]:
        """Return the curve of one order of each method; if words are tied, of the first order."""
        if not self.orders or self.removals.d > _MAX_WORDS:
            return {}
        orders = np.array([flatten(order.groups) for order in self.orders])
        curves = map(RemovalCurve.from_arrays, orders, self.removals.curves(orders))
        return self.scored.values_by_name(curves)


def _has_room(deletion: Measure, full: float) -> bool:
    """Return whether the ceiling lies above chance, in spite of rounding and sampling."""
    room = deletion.ceiling - deletion.chance
    # If chance is sampled, room within two of its standard errors may be no room at all.
    return room > max(_MIN_ROOM * (1 + abs(full)), 2 * (deletion.stderr or 0.0))


def run_searches(texts: Sequence[SearchedText], seconds: float) -> None:
    """Run the greedy searches of all texts step by step, as long as there is time.

    The masks of one step of all texts are one batch.
    """
    searches: list[GreedySearch] = []
    for text in texts:
        # If the model raises an error here, it raises it again when the text is judged.
        with suppress(InputError):
            if isinstance(text.search, GreedySearch):
                searches.append(text.search)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        searches = [
            search for search in searches if not search.is_finished and search.error is None
        ]
        if not searches:
            return
        # A search evaluates few masks at a time, too few for a device. So a step of all texts is
        # one batch.
        masks_of_searches = [search.masks() for search in searches]
        games = [search.removals.game.output_game for search in searches]
        TextGame.precompute_outputs(games, masks_of_searches)
        for search, masks in zip(searches, masks_of_searches, strict=True):
            try:
                search.choose(search.removals.values(masks))
            except InputError as error:
                search.error = error


class JudgingOutcome(NamedTuple):
    """The results for one text.

    Parameters
    ----------
    texts
        The result with each replacement.
    searched
        The text with each replacement, before it is judged. Empty if it cannot be read.
    agreement
        How similar the scores of the methods are.
    plausibility
        The comparison with the words that people marked. None if there are no rationales.
    is_truncated
        Whether the model does not read the text to its end.
    predicted_class
        Number of the class that the model predicts.
    """

    texts: list[JudgedText]
    searched: Sequence[SearchedText] = ()
    agreement: TextAgreement | None = None
    plausibility: TextPlausibility | None = None
    is_truncated: bool = False
    predicted_class: int | None = None

    def renumber(self, number: int) -> "JudgingOutcome":
        """Return the results with the number of the text among all texts of the user."""
        plausibility = self.plausibility
        return self._replace(
            texts=[msgspec.structs.replace(text, id=number) for text in self.texts],
            plausibility=plausibility and dataclasses.replace(plausibility, id=number),
        )


@dataclass(frozen=True, kw_only=True)
class JudgingSetup:
    """The options of a judgment, checked before a text is read.

    Parameters
    ----------
    model
        The model. It has ``shuffle_weights`` if there is a column "sanity".
    candidates
        The methods, functions and stored explanations that are judged.
    request
        The options of the explanations.
    replacements
        The replacement that the methods use, and the second one, if there is any.
    columns
        Names of other measures.
    rationales
        The words that people marked. None if there are no rationales.
    curves
        Whether the results contain the curve of every method.
    budget
        Seconds for searches and for chance. None if there is no limit.
    seed
        Seed for random orders and for methods that sample.
    """

    model: Capable
    candidates: list[Candidate]
    request: Request
    replacements: tuple[str, ...]
    columns: frozenset[str]
    rationales: Rationales | None
    curves: bool
    budget: float | None
    seed: int

    def __post_init__(self) -> None:
        classes = self.model.classes
        # A class that the model does not have raises an error here, before the first text costs
        # anything.
        target_indices(self.request.target, classes, np.zeros((1, len(classes))))
        if "sanity" in self.columns:
            require(self.model, "shuffle_weights", "the column 'sanity'")

    def group_size(self, count: int) -> int:
        """Return the number of texts that are judged together if there are ``count`` texts."""
        # More texts would keep more outputs in memory, and 32 searches fill the batches of a
        # device.
        searches = 1 if self.has_exact_game else min(_SEARCHES, math.ceil(count / _GROUPS))
        return max(texts_per_batch(self.model), searches)

    @property
    def has_exact_game(self) -> bool:
        """Whether areas are sums over tables, without model calls."""
        name, *second_names = self.replacements
        return not second_names and has_exact_game(self.model, self.request.scale, name)

    def count_calls(self, d: int) -> tuple[int, int]:
        """Return the calls that a text of ``d`` words needs, and the calls of chance and search."""
        explained = sum(
            candidate.expected_calls(d)
            * (1 + ("stability" in self.columns and candidate.score_again is not None))
            for candidate in self.candidates
            if candidate.expected_calls is not None
        )
        curves = len(self.replacements) if not self.has_exact_game else 0
        needed = (1 + ("sanity" in self.columns)) * explained
        needed += _SETS * len({"additivity", "lds"} & self.columns)
        needed += d * ("loo_tau" in self.columns)
        # At most ten sets of words per method, each once without these words and once with only
        # them.
        needed += 20 * len(self.candidates) * len({"eraser", "ferret"} & self.columns)
        needed += 3 * len(self.candidates) * ("top_drop" in self.columns)
        # Twice: an order removes words strongest first, and weakest first for insertion.
        needed += curves * 2 * len(self.candidates) * len(removal_counts(d))  # of the methods
        # Chance, and greedy search, which evaluates every word that remains.
        steps = d if d <= MAX_SINGLE_STEPS else STEPS
        search = curves * ((2 + _ORDERS) * len(removal_counts(d)) + (d + 1) * steps // 2)
        if gives_random_answers(self.model):
            return needed, search
        max_calls = 2 ** min(d, 60)  # outputs are stored, and there are no more masks
        needed = min(needed, max_calls)
        return needed, min(search, max_calls - needed)

    @cached_property
    def _shuffled_model(self) -> Model | None:
        """The model with shuffled weights, if the column "sanity" is selected."""
        if "sanity" not in self.columns:
            return None
        return self.model.shuffle_weights(self.seed)

    def judge_texts(self, texts: list[Any]) -> Iterator[JudgingOutcome]:
        """Yield the results for every text. A few texts are in memory at a time."""
        # Time that one text does not need is for the following texts. Short texts would waste a
        # budget per text.
        seconds_left = math.inf if self.budget is None else self.budget
        texts_left, size = len(texts), texts_per_batch(self.model)
        group_size = self.group_size(len(texts))
        for start in range(0, len(texts), group_size):
            end = min(start + group_size, len(texts))
            outcomes = [
                outcome
                for i in range(start, end, size)
                for outcome in self._prepare_texts(texts[i : min(i + size, end)], i)
            ]
            begin = time.monotonic()
            searched = [text for outcome in outcomes for text in outcome.searched]
            # Half of the time is reserved for chance, which comes later.
            run_searches(searched, seconds_left * len(outcomes) / texts_left / 2)
            seconds_left -= time.monotonic() - begin
            for outcome in outcomes:
                begin = time.monotonic()
                seconds = max(seconds_left, 0.0) / texts_left / len(self.replacements)
                judged = [self._judge_text(text, seconds) for text in outcome.searched]
                seconds_left -= time.monotonic() - begin
                texts_left -= 1
                # The outputs that a search has cached are released here. So the outputs of 32 texts
                # are in memory, not those of all.
                yield outcome._replace(texts=judged or outcome.texts, searched=())

    def _judge_text(self, text: SearchedText, seconds: float) -> JudgedText:
        """Return the result for a text, with a reason if the model raises an error."""
        try:
            return text.judge(seconds=seconds, curves=self.curves)
        except InputError as error:
            return JudgedText(id=text.scored.number, reason=str(error))

    def _error_rows(self, number: int, error: InputError) -> list[JudgedText]:
        """Return a result with the error message for each replacement."""
        return [JudgedText(id=number, reason=str(error))] * len(self.replacements)

    def _prepare_texts(self, texts: Sequence[Any], start: int) -> Iterator[JudgingOutcome]:
        """Read and score texts in one batch, or one by one if a text cannot be read."""
        try:
            # One batch if possible, because reading is a forward pass. The text that fails is
            # identified afterwards.
            batch = read_batch(self.model, texts, self.request)
            sizes = [len(features) for features in batch.features]
            announce_calls(self.model, lambda: sum(sum(self.count_calls(d)) for d in sizes))
        except InputError as error:
            if len(texts) > 1:
                for i, text in enumerate(texts):
                    yield from self._prepare_texts([text], start + i)
                return
            has_rationale = self.rationales is not None
            plausibility = TextPlausibility(id=start, reason=str(error)) if has_rationale else None
            yield JudgingOutcome(self._error_rows(start, error), plausibility=plausibility)
            return
        scored_texts = score_texts(
            self.candidates,
            batch,
            start=start,
            repeat="stability" in self.columns,
            shuffled_model=self._shuffled_model,
        )
        for i, scored in enumerate(scored_texts):
            yield self._prepare_text(scored, larger_batch=(batch, i))

    def _prepare_text(self, text: ScoredText, *, larger_batch: tuple[Batch, int]) -> JudgingOutcome:
        """Return the results that do not depend on the search, and the text to be searched."""
        batch = text.batch
        outcome = JudgingOutcome(
            [],
            agreement=text_agreement(text),
            plausibility=self.rationales
            and compare_with_rationale(text, self.rationales, seed=self.seed),
            is_truncated=batch.inputs[0].cutoff is not None,
            predicted_class=int(class_probabilities(batch.outputs).argmax()),
        )
        try:
            removals = [
                make_removals(batch, replacement=name, seed=self.seed, larger_batch=larger_batch)
                for name in self.replacements
            ]
            columns = compute_text_columns(
                self.columns,
                text,
                removals[0],
                replacement=self.replacements[0],
                # Another stream than that of random orders, so that chance and columns are
                # independent.
                rng=text_rng(self.seed + 1, batch.inputs[0].text),
            )
        except InputError as error:
            return outcome._replace(texts=self._error_rows(text.number, error))
        # Other measures belong only to the first replacement.
        searched = [
            SearchedText(text, text_removals, {} if i else columns)
            for i, text_removals in enumerate(removals)
        ]
        return outcome._replace(searched=searched)
