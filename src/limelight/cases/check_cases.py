"""Check whether the requirements of cases hold for a model."""

import difflib
import inspect
import itertools
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from limelight import api
from limelight.cases.case_file import Case, CaseFile, WordRank, describe_place
from limelight.errors import InputError, unknown_name_message
from limelight.explainers.budget import configure_with_budget, parse_budget
from limelight.models import Model, load
from limelight.models.loading import import_object
from limelight.models.prediction import prediction_kind
from limelight.models.protocol import class_probabilities
from limelight.models.text_game import TextGame
from limelight.request import Request, prepare_model
from limelight.results import Counterfactual, Explanation
from limelight.results.decision_rule import DecisionRule
from limelight.shapes import Float
from limelight.text import Conversation, truncate_line

_MAX_SETS = 4096  # of listed words, if the budget is no number of calls
_BATCH = 512  # masks computed together
_MARGIN_ERROR = 1e-9  # relative to the outputs; smaller margins are ties

CheckOutcome = Literal["passed", "failed", "error"]


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """The outcome of one requirement of a case.

    Parameters
    ----------
    case
        The name of the case.
    key
        The required key, such as "certified_radius".
    outcome
        "passed", "failed", or "error" if it could not be computed.
    sentence
        The measured and the required value in words.
    seconds
        The time that it took.
    """

    case: str
    key: str
    outcome: CheckOutcome
    sentence: str
    seconds: float


class Verdict(NamedTuple):
    """The decision about a requirement, and a sentence with the measured and the required value."""

    holds: bool
    sentence: str


def load_case_model(
    case_file: CaseFile, *, model: str | Path | None = None, device: str | None = None
) -> Model:
    """Load the model of a check file.

    Parameters
    ----------
    case_file
        The check file. A folder in it is relative to the folder of the file.
    model, device
        Another model or device than in the file, or None.
    """
    options = dict(case_file.model_options)
    name = options.pop("model", None)
    folder = case_file.path.parent
    if model is not None:
        name = str(model)
    elif name is not None and ((folder / name).exists() or ":" not in name):
        name = str(folder / name)
    if device is not None:
        options["device"] = device
    _search_modules(folder)
    try:
        return load(name, **options)
    except InputError as error:
        raise InputError(f"{describe_place(case_file.path, key='model')}: {error}") from error


def _search_modules(folder: Path) -> None:
    """Let "module:object" name a module beside the check file."""
    if (path := str(folder.resolve())) not in sys.path:
        sys.path.append(path)


def check_cases(case_file: CaseFile, model: Model) -> Iterator[CheckResult]:
    """Check every requirement of every case, one at a time.

    Parameters
    ----------
    case_file
        The check file.
    model
        Its model, from `load_case_model`.

    Returns
    -------
    An iterator over the results. Each is computed when you ask for it.

    Raises
    ------
    InputError
        If a class or a word of a requirement is unknown. This is checked before the first result.
    """
    texts = [CaseText(model, case) for case in case_file.cases]
    for text in texts:
        for key in text.case.requirements:
            place = describe_place(case_file.path, text.case.name, key)
            try:
                text.validate(key)
            except InputError as error:
                raise InputError(f"{place}: {error}") from error
    return (text.check(key) for text in texts for key in text.case.requirements)


class CaseText:
    """The text of a case, read by a model; results that several requirements need are kept.

    Parameters
    ----------
    model
        The model.
    case
        The case.
    """

    def __init__(self, model: Model, case: Case) -> None:
        self.model, self.case = model, case
        self._explanations: dict[int, Explanation] = {}

    def check(self, key: str) -> CheckResult:
        """Return whether the requirement ``key`` of the case holds."""
        start = time.perf_counter()
        try:
            self.validate(key)
            holds, sentence = CHECKS[key](self, self.case.requirements[key])
            outcome: CheckOutcome = "passed" if holds else "failed"
        except InputError as error:
            outcome, sentence = "error", str(error)
        return CheckResult(
            case=self.case.name,
            key=key,
            outcome=outcome,
            sentence=sentence,
            seconds=time.perf_counter() - start,
        )

    def validate(self, key: str) -> None:
        """Raise `InputError` if a requirement names an unknown class or word."""
        required = self.case.requirements[key]
        match key:
            case "prediction":
                self._validate_prediction(required)
            case "certain_top":
                for word, _ in required:
                    self.find_word(word)
            case "never_decisive":
                _ = self.rule
                # A list at the top of the file is for all texts, which may not have its words.
                for word in required:
                    if key in self.case.inherited:
                        self._check_removable(word)
                    else:
                        self.find_word(word)

    def _validate_prediction(self, required: str) -> None:
        has_labels = self.rule.kind == "labels"
        names = (*self.model.classes, *(["no label"] if has_labels else []))
        for label in required.split(", ") if has_labels else [required]:
            if label not in names:
                raise InputError(unknown_name_message("class", label, names))

    def keywords(self, function: Callable[..., Any]) -> dict[str, Any]:
        """Return the options of the case that a function has as keywords."""
        options = dict(self.case.options)
        features = options.get("features")
        if isinstance(features, str) and ":" in features:
            options["features"] = import_object(features, "splitter")
        parameters = inspect.signature(function).parameters
        return {name: value for name, value in options.items() if name in parameters}

    @cached_property
    def game(self) -> TextGame:
        """The outputs of the model as a function of the features that are present."""
        return api.game(self.model, self.case.text, **self.keywords(api.game))

    @cached_property
    def full_output(self) -> Float[np.ndarray, " C"]:
        """The outputs for the complete text."""
        return self.game(np.ones((1, len(self.game)), bool))[0]

    @cached_property
    def rule(self) -> DecisionRule:
        """The rule that turns outputs into a class or into labels."""
        kind = prediction_kind(self.model, None, len(self.full_output))
        if kind not in ("class", "labels"):
            raise InputError(
                "the model predicts no class. Leave this key out, or wrap a function that returns "
                "classes."
            )
        return DecisionRule(kind=kind, classes=tuple(self.model.classes))

    @cached_property
    def counterfactual(self) -> Counterfactual:
        """The smallest removal that changes the prediction."""
        keywords = self.keywords(api.counterfactual)
        return api.counterfactual(self.model, self.case.text, progress=False, **keywords)

    def explain(self, k: int) -> Explanation:
        """Return the explanation of the text; if it is sampled, until its top ``k`` are certain."""
        if k not in self._explanations:
            keywords = self.keywords(api.explain) | dict(self.case.options.get("settings", {}))
            if self._samples_until_certain and "until" not in keywords:
                keywords["until"] = f"top {k}"
            self._explanations[k] = api.explain(
                self.model, self.case.text, progress=False, **keywords
            )
        return self._explanations[k]

    @cached_property
    def _samples_until_certain(self) -> bool:
        """Whether the method has the setting ``until`` for this model."""
        options = self.keywords(Request)
        model, _ = prepare_model(self.model, Request(**options))
        (method,), _ = configure_with_budget(model, self.case.options.get("method"), {}, None)
        return "until" in method.implementation.settings

    def _check_removable(self, word: str) -> None:
        """Raise `InputError` if the text has a word that is no feature, and so is never removed.

        Otherwise a list of the file would hold for every text whose features are sentences.
        """
        name = _normalize_name(word)
        if _matching_features(word, self.game.features):
            return
        is_hidden = bool(_matching_features(word, self._words))
        if " " in name and not isinstance(self.case.text, Path | Conversation):
            texts = [self.case.text] if isinstance(self.case.text, str) else self.case.text
            pattern = rf"(?<!\w){re.escape(name)}(?!\w)"
            is_hidden = any(re.search(pattern, _normalize_name(text)) for text in texts)
        if is_hidden:
            raise InputError(
                f"the text has {truncate_line(word, 60)!r}, but no such feature to remove. Change "
                "the list, features or protect."
            )

    @cached_property
    def _words(self) -> tuple[str, ...]:
        """The words that the model reads, also if the features are sentences."""
        options = self.keywords(api.game)
        if isinstance(self.case.text, Path) or not options.keys() & {"features", "protect"}:
            return self.game.features
        return api.game(
            self.model, self.case.text, **options | {"features": "words", "protect": ()}
        ).features

    def find_word(self, word: str) -> list[int]:
        """Return the features that a word names; uppercase and lowercase letters are equal.

        Raises
        ------
        InputError
            If the text has no such word. The message suggests a similar one.
        """
        features = self.game.features
        if indices := _matching_features(word, features):
            return indices
        similar = difflib.get_close_matches(word.casefold(), features, n=1)
        advice = f"Did you mean {truncate_line(similar[0], 60)!r}?" if similar else "Change it."
        raise InputError(f"the text has no word {word!r}. {advice}")


def _matching_features(word: str, features: Sequence[str]) -> list[int]:
    name = _normalize_name(word)
    return [j for j, feature in enumerate(features) if _normalize_name(feature) == name]


def _normalize_name(name: str) -> str:
    return " ".join(name.split()).casefold()


def _check_prediction(text: CaseText, required: str) -> Verdict:
    """Compare the predicted class with the required one."""
    predicted = text.rule.name(text.full_output)
    measured = f"prediction {predicted}"
    if text.rule.kind == "class" and text.model.link != "none":
        probabilities = class_probabilities(text.full_output[None], text.model.link)[0]
        share = probabilities[text.model.classes.index(predicted)]
        measured += f" ({share:.1%})"
    return Verdict(
        sorted(predicted.split(", ")) == sorted(required.split(", ")),
        f"{measured}, required {required}.",
    )


def _check_certain_top(text: CaseText, required: tuple[WordRank, ...]) -> Verdict:
    """Check whether words are certainly among the features of largest absolute score."""
    verdicts = [_check_word_rank(text, word, k) for word, k in required]
    return Verdict(
        all(verdict.holds for verdict in verdicts),
        " ".join(
            verdict.sentence
            for verdict in verdicts
            if not verdict.holds or all(other.holds for other in verdicts)
        ),
    )


def _check_word_rank(text: CaseText, word: str, k: int) -> Verdict:
    e = text.explain(k)
    if e.certain_tops is None:
        raise InputError(
            f"{e.method} has no errors, so that no rank is certain. Use another method."
        )
    ranks = np.empty(len(e), int)
    ranks[np.argsort(-np.abs(e.scores), kind="stable")] = np.arange(1, len(e) + 1)
    rank = min(int(ranks[j]) for j in _matching_features(word, e.features))
    required = f"required in the certain top {k}"
    measured = f"{word!r} has rank {rank} of {len(e)}"
    if rank > k:
        return Verdict(False, f"{measured}, {required}.")
    # A feature of a smaller set that is certain is certainly among the top k too.
    sizes = [size for size in (*e.certain_tops, len(e)) if rank <= size <= k]
    if sizes:
        confidence = " with 95 % confidence" if e.stderr is not None else ""
        certificate = f"and the top {min(sizes)} is certain{confidence}"
        return Verdict(True, f"{measured}, {certificate}, {required}.")
    advice = " Use a larger budget." if e.stderr is not None else ""
    return Verdict(False, f"{measured} without a certificate, {required}.{advice}")


def _check_certified_radius(text: CaseText, required: int) -> Verdict:
    """Compare the certified radius with the smallest one that is required."""
    c = text.counterfactual
    if c.is_robust:
        return Verdict(
            True,
            f"no removal changes prediction {c.predicted_class} ({c.bound_kind}), required "
            f"certified radius at least {required}.",
        )
    change, advice = "", ""
    if c.size is not None and c.size <= required:
        words = _join_words(c.features, c.removed)
        change = f" ({c.predicted_class} becomes {c.predicted_class_after} without {words})"
    elif c.certified_radius < required:
        advice = " Use a larger budget."
    return Verdict(
        c.certified_radius >= required,
        f"certified radius {c.certified_radius}{change}, required at least {required}.{advice}",
    )


def _check_never_decisive(text: CaseText, required: tuple[str, ...]) -> Verdict:
    """Check that no removal of listed words, alone or together, changes the prediction."""
    features = text.game.features
    listed = sorted({j for word in required for j in _matching_features(word, features)})
    if not listed:
        return Verdict(True, f"none of the {len(required)} listed words is in the text.")
    names = _join_words(features, listed)
    names = f"any of {names}" if len(listed) > 1 else names
    set_count = 2 ** len(listed) - 1
    if set_count > _max_sets(text.case.options):
        return _search_decisive_words(text, listed, names)
    changed = _evaluate_removals(text, listed)
    if changed is not None:
        change = _describe_change(text, changed)
        return Verdict(False, f"{change}, required to stay without {names}.")
    stays = f"prediction {text.rule.name(text.full_output)} stays without {names}"
    return Verdict(True, f"{stays}, {set_count:,} set{'s' * (set_count > 1)} evaluated.")


def _max_sets(options: Mapping[str, Any]) -> int:
    """Return the largest number of sets to evaluate."""
    budget = options.get("budget")
    calls = None if budget is None else parse_budget(budget).calls
    return _MAX_SETS if calls is None else calls


def _evaluate_removals(text: CaseText, listed: list[int]) -> list[int] | None:
    """Remove every set of listed words; return the first set that does not keep the prediction.

    The smallest sets come first. A tie of two classes does not keep the prediction.
    """
    sets = itertools.chain.from_iterable(
        itertools.combinations(listed, size) for size in range(1, len(listed) + 1)
    )
    full = text.full_output
    smallest_margin = _MARGIN_ERROR * max(1.0, float(np.abs(full).max()))
    while batch := list(itertools.islice(sets, _BATCH)):
        masks = np.ones((len(batch), len(text.game)), bool)
        for mask, removed in zip(masks, batch, strict=True):
            mask[list(removed)] = False
        outputs = text.game(masks)
        is_kept = text.rule.margins(outputs, full) > smallest_margin
        if not is_kept.all():
            return list(batch[int(is_kept.argmin())])
    return None


def _search_decisive_words(text: CaseText, listed: list[int], names: str) -> Verdict:
    """Check a list with too many sets by bounds, or by a search within the budget."""
    features, options = text.game.features, text.keywords(api.counterfactual)
    if options.get("features", "words") not in ("words", "positions"):
        raise InputError(
            f"{len(listed)} listed features have too many sets to evaluate. Give a shorter list."
        )
    other_words = {feature for j, feature in enumerate(features) if j not in listed}
    options["protect"] = (*options.get("protect", ()), *sorted(other_words))
    c = api.counterfactual(text.model, text.case.text, progress=False, **options)
    before, required = f"prediction {c.predicted_class}", f"required to stay without {names}"
    if c.is_robust:
        return Verdict(True, f"{before} stays without {names}, {c.bound_kind}.")
    if c.size is not None:
        words = _join_words(c.features, c.removed)
        return Verdict(
            False, f"{before} becomes {c.predicted_class_after} without {words}, {required}."
        )
    return Verdict(
        False,
        f"{before} stays without up to {c.certified_radius} of the {len(listed)} words, and larger "
        f"sets are unknown, {required}. Give a shorter list or a larger budget.",
    )


def _describe_change(text: CaseText, removed: Sequence[int]) -> str:
    """Describe the prediction without these features."""
    mask = np.ones((1, len(text.game)), bool)
    mask[0, list(removed)] = False
    before, after = text.rule.name(text.full_output), text.rule.name(text.game(mask)[0])
    words = _join_words(text.game.features, removed)
    if before == after:
        return f"prediction {before} is tied without {words}"
    return f"prediction {before} becomes {after} without {words}"


def _join_words(features: Sequence[str], indices: Sequence[int]) -> str:
    """Return some features as a list in a sentence, which is cut after ten."""
    names = [truncate_line(features[j], 40) for j in indices[:10]]
    if len(indices) > 10:
        names.append(f"{len(indices) - 10} more")
    return ", ".join(names)


CHECKS: Mapping[str, Callable[[CaseText, Any], Verdict]] = {
    "prediction": _check_prediction,
    "certain_top": _check_certain_top,
    "certified_radius": _check_certified_radius,
    "never_decisive": _check_never_decisive,
}
