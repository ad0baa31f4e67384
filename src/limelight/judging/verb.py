"""``limelight.judge``: the question, the trial, and what follows over the texts."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack, overload

from limelight import __version__
from limelight.data.columns import read_texts
from limelight.data.files import is_table
from limelight.errors import InputError
from limelight.explainers.budget import BudgetGiven, seconds_of
from limelight.explainers.explaining import Progress, Texts, listed
from limelight.explainers.question import Question, Settings
from limelight.judging.agreement import Tallies
from limelight.judging.candidates import candidates_of
from limelight.judging.columns import wanted_columns
from limelight.judging.estimate import Foreseen, foreseen, metered_trial
from limelight.judging.rows import greedy_row, method_rows, pair_rows
from limelight.judging.trial import Trial
from limelight.judging.verdict import judging_notices, second_notice, verdict
from limelight.models import Model, checked_model, resolved_replacement
from limelight.results.judgement import JudgedText, Judgement
from limelight.text import joined


class JudgeKeywords(Settings, total=False):
    """What may be given by name: the question, and settings of the methods."""

    target: str | int
    scale: str
    side: str | None
    second_replacement: str | None
    columns: str | Collection[str] | None
    curves: bool
    budget: BudgetGiven | None
    rationales: Any
    progress: Progress | None
    estimate: Callable[[Foreseen], None] | None


@overload
def judge(
    model: Model,
    texts: Texts,
    methods: str | Sequence[str | object] | Mapping[str, object] | None = None,
    **keywords: Unpack[JudgeKeywords],
) -> Judgement: ...
@overload
def judge(
    model: Model,
    texts: Any,
    methods: str | Sequence[str | object] | Mapping[str, object] | None = None,
    **keywords: Unpack[JudgeKeywords],
) -> Judgement: ...
def judge(
    model: Any,
    texts: Any,
    methods: Any = None,
    *,
    target: str | int = "predicted",
    scale: str = "logit",
    side: str | None = None,
    replacement: str = "auto",
    second_replacement: str | None = None,
    columns: str | Collection[str] | None = None,
    curves: bool = True,
    budget: BudgetGiven | None = None,
    rationales: Any = None,
    seed: int = 0,
    progress: Progress | None = None,
    estimate: Callable[[Foreseen], None] | None = None,
    **settings: Any,
) -> Judgement:
    """Return how faithful methods are to ``model`` on ``texts``, between chance and ceiling.

    Words are removed in the order of a method's scores; the area above the falling output is
    compared with that of guessing and with the best there can be, on the same text.

    Parameters
    ----------
    model
        What :func:`limelight.load` or :func:`limelight.wrap` returns.
    texts
        A list of texts, or of pairs of texts, which are tuples of two; or data as
        :func:`limelight.explain_data` takes them, a :class:`pathlib.Path` or a table, whose texts
        are found by the usual names of columns.
    methods
        Names, settings objects, functions ``(model, text) -> scores`` of the words, stored
        explanations (a JSON file, a list of them, or a mapping from texts to them), or a mapping
        from names to any of these; by default what ``compare`` shows, or on deep models those that
        were found faithful.
    target
        The class whose output is judged, by default the predicted one of each text.
    scale
        "logit": the log-odds of the class where there are two outputs, else its own output; or
        "probability", which is sampled on every model.
    side
        "first" or "second": of pairs, judge the scores of the words of this text only; the other is
        left alone.
    replacement
        What stands for a removed word, in the curves and in the methods that remove words.
    second_replacement
        Judge the same scores once more with removed words replaced this way; the result's
        ``second`` holds what was found, and a notice says whether the order of methods changes.
    columns
        Other measures that stand beside the share: "additivity", "loo_tau", "stability" (for which
        methods that sample explain every text once more), "eraser" and "ferret" by default; on
        request "sanity", for which every method does; or "all". An empty list leaves them out.
    curves
        Keep the curve of every method on every text, which the page shows.
    budget
        Time for the search of good orders and for chance, over all texts, on models that have to be
        asked: 60 or "60s" or "10min". None lets both come to their end, the search with about d²/2
        calls for d words.
    rationales
        What people marked, one entry per text: a list of [start, end] in characters, a list of such
        lists where there are several annotators, or None where nobody looked. Adds how plausible
        the methods are, which is not how faithful they are.
    seed
        Of all that is drawn: random orders, resampled texts, and the methods that sample.
    progress
        Called with (texts done, texts in all); while a model is asked many times about a text,
        with the part of it that is done.
    estimate
        Called once, before any text is judged, with the number of questions that the model will be
        asked and the seconds that takes; not at all where nothing has to be asked.
    settings
        Settings of the methods that have them.
    """
    model = checked_model(model)
    wanted = wanted_columns(columns)
    replacements = _replacements(model, replacement, second_replacement)
    candidates = candidates_of(model, methods, settings, seed=seed, replacement=replacements[0])
    # A string is a text here, never the name of a file.
    stored = isinstance(texts, os.PathLike) or is_table(texts)
    given = read_texts(texts) if stored else listed(texts)
    if not given:
        raise InputError("judge needs at least one text; got none.")
    if side is not None and not any(isinstance(one, tuple) for one in given):
        raise InputError(
            f"side {side!r} is about pairs of texts; these are single ones. Leave it out."
        )
    trial = Trial(
        model=model,
        candidates=candidates,
        tallies=Tallies(candidates, [_whole(text) for text in given], rationales),
        question=Question(target=target, scale=scale, side=side).to(model),
        replacements=replacements,
        columns=wanted,
        curves=curves,
        budget=seconds_of(budget),
        seed=seed,
    )
    if estimate is not None and (ahead := foreseen(trial, given)) is not None:
        estimate(ahead)
    judged = list(metered_trial(trial, given, progress))
    found, *others = (
        _judgement(trial, list(of_replacement), name, settings)
        for of_replacement, name in zip(zip(*judged, strict=True), replacements, strict=True)
    )
    found = replace(found, **trial.tallies.results(found.texts, seed=seed))
    return _with_second(found, others[0]) if others else found


def _whole(given: Any) -> Any:
    """Return a pair as the one text in which people marked it; anything else as it is."""
    return joined(given)[0] if isinstance(given, tuple) and len(given) == 2 else given


def _replacements(model: Model, first: str, second: str | None) -> tuple[str, ...]:
    name = resolved_replacement(model, first)
    if second is None:
        return (name,)
    other = resolved_replacement(model, second)
    if other == name:
        raise InputError(
            f"second_replacement must differ from the first, which is {name!r} already; this model "
            f"knows {', '.join(map(repr, model.replacements))}."
        )
    return name, other


def _judgement(
    trial: Trial, texts: list[JudgedText], replacement: str, settings: Mapping[str, Any]
) -> Judgement:
    """Return what follows over the texts."""
    room = [text for text in texts if text.has_room]
    methods = method_rows(trial.candidates, room, seed=trial.seed)
    pairs = pair_rows(trial.candidates, room, seed=trial.seed) if room else []
    greedy, interval = greedy_row(room, seed=trial.seed)
    kind = "proven" if all(text.ceiling_kind == "proven" for text in room) else "best found"
    return Judgement(
        texts=tuple(texts),
        methods=tuple(methods),
        pairs=tuple(pairs),
        greedy=greedy,
        greedy_interval=interval,
        verdict=verdict(methods, pairs, texts=len(room), kind=kind),
        notices=judging_notices(methods, texts),
        settings={
            "target": trial.question.target,
            "scale": trial.question.scale,
            **({} if trial.question.side is None else {"side": trial.question.side}),
            "replacement": replacement,
            "columns": sorted(trial.columns),
            "budget": trial.budget,
            "seed": trial.seed,
            **settings,
        },
        model=trial.model.fingerprint,
        version=__version__,
    )


def _with_second(found: Judgement, second: Judgement) -> Judgement:
    notice = second_notice(found, second)
    return replace(found, second=second, notices=(*found.notices, notice))
