"""``limelight.judge``: the question, the texts one by one, and what follows over them."""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import chain
from numbers import Integral
from typing import Any, Unpack, cast

from msgspec.structs import replace

from limelight import __version__
from limelight.data.columns import LabeledRows, read_rows
from limelight.data.files import is_table
from limelight.data.labels import ClassLabels, Labels, below_chance_warning
from limelight.errors import InputError, told
from limelight.explainers.budget import BudgetGiven, parse_seconds
from limelight.explainers.explaining import listed
from limelight.judging.candidates import candidates_of
from limelight.judging.estimate import estimated, track_outcomes
from limelight.judging.measures import method_agreement, wanted_columns
from limelight.judging.plausibility import Rationales, plausibility
from limelight.judging.statistics import (
    judged_rows,
    judging_notices,
    second_notice,
    verdict,
)
from limelight.judging.texts import Setup
from limelight.models import Capable, Model, has, resolved_replacement
from limelight.models.queries import expand_texts
from limelight.progress import Estimate, ProgressCallback, open_progress
from limelight.request import Request, prepare_model
from limelight.results.judgment import JudgedText, Judgment
from limelight.setting_keywords import JudgeMethodSettings
from limelight.text import Unit, join_pair, name_of_one, unit_name


def judge(
    model: Model,
    texts: Any,
    methods: str | Sequence[str | object] | Mapping[str, object] | None = None,
    *,
    target: str | int = "predicted",
    scale: str = "logit",
    features: Unit | None = None,
    grid: int | None = None,
    window: str | int | None = None,
    side: str | None = None,
    answer: str | Sequence[str | None] | None = None,
    replacement: str = "auto",
    second_replacement: str | None = None,
    columns: str | Collection[str] | None = None,
    curves: bool = True,
    budget: BudgetGiven | None = None,
    rationales: Any = None,
    labels: Labels | None = None,
    seed: int = 0,
    progress: ProgressCallback | bool | None = None,
    estimate: Callable[[Estimate], None] | None = None,
    **settings: Unpack[JudgeMethodSettings],
) -> Judgment:
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
        are found by the usual names of columns, or what :func:`limelight.data.read_rows` returns.
        Labels that match no class of the model bring a notice, and so does a model that is right
        less often than guessing would be; a judgment needs no labels.
    methods
        Names, settings objects, functions ``(model, text) -> scores`` of the words, stored
        explanations (a JSON file, a list of them, or a mapping from texts to them), or a mapping
        from names to any of these; by default what ``compare`` shows, or on deep models those that
        were found faithful. A function that takes ``target`` is told the class that is judged; what
        another one returns speaks for the class that :func:`limelight.explain` explains by default.
    target
        The class whose output is judged, by default the predicted one of each text.
    scale
        "logit": the log-odds of the class where there are two, else its own output; or
        "probability", which is sampled on every model.
    features
        What is removed one after the other: units as :func:`limelight.explain` takes them, which
        the methods score too.
    grid, window, side
        As in :func:`limelight.explain`.
    answer
        Of a language model: the answers whose log-probability is judged, one for each text, or one
        for all; by default what the model writes, once.
    replacement
        What stands for a removed word, in the curves and in the methods that remove words.
    second_replacement
        Judge the same scores once more with removed words replaced this way; the result's
        ``second`` holds what was found, and a notice says whether the order of methods changes.
    columns
        Other measures that stand beside the share: "additivity", "loo_tau", "stability" (for which
        methods that sample explain every text once more), "eraser" and "ferret" by default, of
        scores and answers "top_drop" and "lds" in their place; on request "sanity", for which every
        method does; or "all". An empty list leaves them out.
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
    labels
        Which class a label of the data is, as :func:`limelight.explain_data` takes it.
    seed
        Of all that is drawn: random orders, resampled texts, and the methods that sample.
    progress
        Called with (texts done, texts in all); while a model is asked many times about a text,
        with the part of it that is done. True shows a line on standard error.
    estimate
        Called once, before any text is judged, with a :class:`limelight.progress.Estimate`: its
        ``calls`` of the model and ``seconds``. It is not called if judging calls no model.
    settings
        Settings of the methods that have them.
    """
    request = Request(
        target=target,
        scale=scale,
        features=features,
        grid=grid,
        side=side,
        window=window,
        answer=answer,
    )
    model, request = prepare_model(model, request)
    if not isinstance(seed, Integral) or not 0 <= seed < 1 << 63:
        raise InputError(f"seed must be a whole number, 0 to 2^63 − 1; got {told(seed)}.")
    # Whatever can be wrong with the question is found before a text is read or a model asked.
    wanted = wanted_columns(columns, model.link)
    replacements = _replacements(model, replacement, second_replacement)
    candidates = candidates_of(model, methods, settings, seed=seed, replacement=replacements[0])
    given, true = _read(texts)
    # A label of a text is none of the spans in it.
    of_texts = true and not has(model, "spans")
    known = ClassLabels(model.classes, labels) if of_texts else None
    if labels is not None and known is None:
        why = "the model finds spans in them" if true else "they have no labels"
        raise InputError(
            f"labels (--labels) says which class a label of these texts is, but {why}."
        )
    if not given:
        raise InputError("judge needs at least one text; got none.")
    if side is not None and not any(isinstance(one, tuple) for one in given):
        raise InputError(
            f"side {side!r} is about pairs of texts; these are single ones. Leave it out."
        )
    # People marked a pair as the one text that it is when both are joined.
    whole = [
        join_pair(one)[0] if isinstance(one, tuple) and len(one) == 2 else one for one in given
    ]
    marked = None if rationales is None else Rationales.of(rationales, whole)
    # A row for every span: each has a class, a chance and a ceiling of its own. An answer is
    # generated once: methods, estimate and columns would else each let the model write.
    expanded = list(expand_texts(model, request.attach_queries(given)))
    rows = [i for i, queried in enumerate(expanded) for _ in queried]
    given, true = list(chain(*expanded)), [true[i] for i in rows] if true else true
    marked = marked and marked._replace(texts=[marked.texts[i] for i in rows])
    setup = Setup(
        model=cast(Capable, model),
        candidates=candidates,
        request=request,
        replacements=replacements,
        columns=wanted,
        rationales=marked,
        curves=curves,
        budget=None if budget is None else parse_seconds(budget),
        seed=seed,
    )
    if estimate is not None and (ahead := estimated(setup, given)) is not None:
        estimate(ahead)
    with open_progress(progress, "judging") if progress else nullcontext() as callback:
        judged = setup.outcomes(given)
        outcomes = list(judged) if callback is None else track_outcomes(setup, given, callback)
    found, *others = (
        _judgment(setup, [one.texts[k] for one in outcomes], name, settings)
        for k, name in enumerate(replacements)
    )
    notices = list(found.notices)
    if known is not None:
        notices += _of_labels(known, true, [one.predicted for one in outcomes])
    notices += [second_notice(found, other) for other in others]
    read = [one for one in outcomes if one.marked is not None and one.marked.reason is None]
    return replace(
        found,
        notices=tuple(notices),
        second=next(iter(others), None),
        agreement=method_agreement(
            candidates, [one.agreement for one in outcomes if one.agreement is not None], seed=seed
        ),
        plausibility=marked
        and plausibility(
            [one.name for one in candidates],
            [one.marked for one in outcomes if one.marked is not None],
            share=marked.share,
            cut=sum(one.cut for one in read),
            seed=seed,
        ),
    )


def _read(data: Any) -> LabeledRows:
    """Return texts, and labels where there are any."""
    if isinstance(data, LabeledRows):
        return data
    # A string is a text here, never the name of a file.
    stored = isinstance(data, os.PathLike) or (
        not isinstance(data, str | list | tuple) and is_table(data)
    )
    return read_rows(data) if stored else LabeledRows(listed(data), [])


def _of_labels(
    known: ClassLabels, labels: Sequence[Any], predicted: Sequence[int | None]
) -> Iterator[str]:
    """Yield what the labels of the data say against the model, or against themselves."""
    yield from known.notices(labels)
    classes = zip(map(known.number, labels), predicted, strict=True)
    both = [one == other for one, other in classes if None not in (one, other)]
    if (doubt := below_chance_warning(sum(both), len(both), len(known.classes))) is not None:
        yield doubt


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


def _judgment(
    setup: Setup, texts: list[JudgedText], replacement: str, settings: Mapping[str, Any]
) -> Judgment:
    """Return what follows over the texts."""
    room = [text for text in texts if text.has_room]
    methods, pairs, (greedy, interval) = judged_rows(setup.candidates, room, seed=setup.seed)
    # One text that had to be asked is enough: a mean of ceilings and found orders is no ceiling.
    is_ceiling = all(text.ceiling_kind != "best found" for text in room)
    request, fingerprint = setup.request, setup.model.fingerprint
    foreign = [one.name for one in setup.candidates if one.model not in ("", fingerprint)]
    units = unit_name(request.features)
    return Judgment(
        texts=tuple(texts),
        methods=methods,
        pairs=pairs,
        greedy=greedy,
        greedy_interval=interval,
        verdict=verdict(
            [(m.method, m.share, m.interval) for m in methods],
            pairs,
            texts=len(room),
            measure="share" if is_ceiling else "share of the best found",
        ),
        notices=tuple(judging_notices(methods, texts, noun=name_of_one(units), foreign=foreign)),
        settings={
            "target": request.target,
            "scale": request.scale,
            # Left out where they have their defaults.
            **({} if units == "words" else {"features": units}),
            **({} if request.window is None else {"window": request.window}),
            **({} if request.side is None else {"side": request.side}),
            **({} if request.answer is None else {"answer": request.answer}),
            "replacement": replacement,
            # A set has no order, and the same judgment must be the same file.
            "columns": sorted(setup.columns),
            "budget": setup.budget,
            "seed": setup.seed,
            **settings,
        },
        model=fingerprint,
        version=__version__,
    )
