"""``limelight.judge``: check the options, judge the texts one by one, and summarize."""

import dataclasses
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain
from numbers import Integral
from typing import Any, Unpack, cast

from msgspec.structs import replace

from limelight import __version__
from limelight.data.columns import LabeledRows, read_rows
from limelight.data.files import is_table
from limelight.data.labels import ClassLabels, Labels, below_chance_warning
from limelight.errors import InputError, short_repr
from limelight.explainers.budget import BudgetInput, parse_budget
from limelight.explainers.explaining import as_list
from limelight.explainers.registry import check_keywords
from limelight.judging.candidates import make_candidates
from limelight.judging.estimate import (
    TextSelection,
    estimate_judging,
    judge_with_progress,
    select_texts,
)
from limelight.judging.measures import method_agreement, select_columns
from limelight.judging.plausibility import Rationales, summarize_plausibility
from limelight.judging.statistics import (
    judging_warnings,
    second_replacement_warning,
    summarize_methods,
    verdict,
)
from limelight.judging.texts import JudgingOutcome, JudgingSetup
from limelight.models import Capable, Model, has, resolve_replacement
from limelight.models.queries import expand_texts
from limelight.progress import Estimate, ProgressCallback, open_progress
from limelight.request import Request, prepare_model
from limelight.results.judgment import JudgedText, Judgment
from limelight.setting_keywords import MethodSettings
from limelight.text import (
    Conversation,
    FeatureSpec,
    attach_documents,
    feature_kind,
    feature_noun,
    join_pair,
)


def judge(
    model: Model,
    texts: Any,
    methods: str | Sequence[str | object] | Mapping[str, object] | None = None,
    *,
    target: str | int = "predicted",
    scale: str = "logit",
    features: FeatureSpec | None = None,
    grid: int | None = None,
    window: str | int | None = None,
    side: str | None = None,
    answer: str | Sequence[str | None] | None = None,
    documents: Sequence[Any] | None = None,
    replacement: str = "auto",
    second_replacement: str | None = None,
    columns: str | Collection[str] | None = None,
    curves: bool = True,
    budget: BudgetInput | None = None,
    rationales: Any = None,
    labels: Labels | None = None,
    seed: int = 0,
    progress: ProgressCallback | bool | None = None,
    estimate: Callable[[Estimate], None] | None = None,
    **settings: Unpack[MethodSettings],
) -> Judgment:
    """Judge how faithful methods are to a model on texts, between chance and ceiling.

    Words are removed in the order of a method's scores. The area above the falling output is
    compared with that of a random order and with that of the best order, on the same text. The
    result is a share: 0 is chance, and 1 is the ceiling.

    Parameters
    ----------
    model
        A model from :func:`limelight.load` or :func:`limelight.wrap`.
    texts
        A list of texts, of pairs of texts as tuples, or of chats in OpenAI's format. Or data as
        :func:`limelight.explain_data` takes them: a :class:`pathlib.Path` or a table with the usual
        names of columns, or the result of :func:`limelight.data.read_rows`. A judgment needs no
        labels. If there are labels that match no class of the model, there is a warning. There is
        also a warning if the model is right less often than guessing.
    methods
        Names, settings objects, functions ``(model, text) -> scores`` of the words, stored
        explanations (a JSON file, a list of them, or a mapping from texts to them), a
        ``shap.Explanation`` of the same texts, or a mapping from names to any of these. If a
        function takes ``target``, it gets the judged class. Otherwise its scores belong to the
        class that :func:`limelight.explain` explains by default. By default the methods of
        :func:`limelight.compare`, or for deep models those that were measured to be faithful.
    target
        The class whose output is judged, by default the predicted class of each text.
    scale
        "logit": the log-odds of the class for two classes, otherwise its logit. Or "probability",
        which is sampled for every model.
    features
        The features that are removed one after the other. The methods score them too. The options
        are those of :func:`limelight.explain`.
    grid
        Images: number of patches per side, as in :func:`limelight.explain`.
    window
        Part of a long text, as in :func:`limelight.explain`.
    side
        The text of a pair whose words are removed, as in :func:`limelight.explain`.
    answer
        Language models: the answers whose log-probability is judged, one for each text, or one
        for all. By default, the last message of a chat, or the answer that the model generates,
        once.
    documents
        Language models: one list of documents for each question of ``texts``, as in
        :func:`limelight.explain`. Their faithfulness is that of documents as features.
    replacement
        The replacement of removed words, in the curves and in the methods that remove words.
    second_replacement
        Judge the same scores a second time with this replacement. The result is in the field
        ``second``, and a warning says whether the order of the methods changes.
    columns
        Other measures beside the share, or "all". By default "additivity", "loo_tau",
        "stability" (which explains every text a second time with methods that sample), "eraser"
        and "ferret". If the scale is a score or the log-probability of an answer, "top_drop" and
        "lds" replace the last two. "sanity" is only on request, because it repeats every method.
        An empty list leaves all of them out.
    curves
        Store the curve of every method on every text, which the HTML page shows.
    budget
        A number of model calls, such as "5000 calls". As many texts are judged as it allows, evenly
        spread, and at least ten. By default, a few timed calls choose 1,000, 2,000, 5,000 or so,
        such that judging takes about five minutes. The result states the number in
        ``settings["budget"]``. It is None if all texts are judged. A time, such as 60, "60s" or
        "10min", limits instead the search of good orders and the sampling of chance, over all
        texts.
    rationales
        The words that people marked, one entry per text: a list of [start, end] in characters, a
        list of such lists for several annotators, or None if nobody marked the text. The result
        then says how plausible the methods are, which is not how faithful they are.
    labels
        The class of each label of the data, as :func:`limelight.explain_data` takes it.
    seed
        Seed for random orders, resampled texts, and methods that sample.
    progress
        Called with (texts done, number of texts). While a text needs many model calls, the first
        number includes the part of the text that is done. By default, a progress bar appears after
        two seconds. True shows it at once, and False turns it off.
    estimate
        Called once, before any text is judged, with a :class:`limelight.progress.Estimate` of the
        model ``calls`` and the ``seconds``. It is not called if judging calls no model.
    **settings
        Settings of the methods that have them.

    Returns
    -------
    Shares of the methods with intervals, comparisons of all pairs of methods, and a verdict.

    Raises
    ------
    InputError
        If an option is wrong, or if there is no text. If one text cannot be judged, its row has a
        reason instead.

    Examples
    --------
    >>> import limelight
    >>> model = limelight.load()
    >>> texts = [
    ...     "A dull script wastes fine actors.",
    ...     "The plot is predictable, the acting superb.",
    ... ]
    >>> judgment = limelight.judge(model, texts, ["shapley", "g-avg"])
    >>> {method.label: round(method.share, 2) for method in judgment.methods}
    {'Shapley': 1.0, 'G-avg': -0.86}
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
        raise InputError(f"seed must be a whole number from 0 to 2^63 − 1, not {short_repr(seed)}.")
    # All options are checked before a text is read or the model is called.
    selected_columns = select_columns(columns, model.link)
    replacements = _resolve_replacements(model, replacement, second_replacement)
    check_keywords(judge, settings)
    candidates = make_candidates(model, methods, settings, seed=seed, replacement=replacements[0])
    inputs, data_labels = _read_labeled_rows(texts, documents)
    # The label of a text does not apply to its spans.
    has_text_labels = data_labels and not has(model, "spans")
    class_labels = ClassLabels(model.classes, labels) if has_text_labels else None
    if labels is not None and class_labels is None:
        reason = "this model finds spans" if data_labels else "these texts have no labels"
        raise InputError(f"labels (--labels) does not apply, because {reason}. Leave it out.")
    if not inputs:
        raise InputError("judge needs at least one text.")
    if side is not None and not any(isinstance(text, tuple) for text in inputs):
        raise InputError(
            f"side {side!r} needs pairs of texts, but these are single texts. Leave side out."
        )
    if rationales is not None and any(isinstance(text, Conversation) for text in inputs):
        raise InputError("rationales need texts, not chats or documents. Leave rationales out.")
    # People marked a pair in the one text that results if both texts are joined.
    joined_texts = [
        join_pair(text)[0] if isinstance(text, tuple) and len(text) == 2 else text
        for text in inputs
    ]
    parsed_rationales = None if rationales is None else Rationales.parse(rationales, joined_texts)
    # One row for every span, because each has its own class, chance and ceiling. An answer is
    # generated once. Otherwise methods, estimate and columns would generate it again.
    expanded = list(expand_texts(model, request.attach_queries(inputs)))
    rows = [i for i, queried in enumerate(expanded) for _ in queried]
    inputs = list(chain(*expanded))
    data_labels = [data_labels[i] for i in rows] if data_labels else data_labels
    if parsed_rationales:
        parsed_rationales = parsed_rationales._replace(
            per_text=[parsed_rationales.per_text[i] for i in rows]
        )
    parsed_budget = None if budget is None else parse_budget(budget)
    setup = JudgingSetup(
        model=cast(Capable, model),
        candidates=candidates,
        request=request,
        replacements=replacements,
        columns=selected_columns,
        rationales=parsed_rationales,
        curves=curves,
        budget=None if parsed_budget is None else parsed_budget.seconds,
        seed=seed,
    )
    if parsed_budget is None or parsed_budget.calls is not None:
        calls = None if parsed_budget is None else parsed_budget.calls
        selection = select_texts(setup, inputs, calls, has_default_columns=columns is None)
        if selection.excluded_columns:
            remaining = setup.columns - selection.excluded_columns
            setup = dataclasses.replace(setup, columns=remaining)
    else:
        selection = TextSelection(list(range(len(inputs))))
    inputs = [inputs[i] for i in selection.indices]
    data_labels = [data_labels[i] for i in selection.indices] if data_labels else data_labels
    if parsed_rationales:
        parsed_rationales = parsed_rationales._replace(
            per_text=[parsed_rationales.per_text[i] for i in selection.indices]
        )
        setup = dataclasses.replace(setup, rationales=parsed_rationales)
    limit = setup.budget if selection.calls is None else f"{selection.calls} calls"
    if estimate is not None and (expected := estimate_judging(setup, inputs)) is not None:
        estimate(expected)
    with open_progress(progress, "judging") as callback:
        stream = (
            setup.judge_texts(inputs)
            if callback is None
            else judge_with_progress(setup, inputs, callback)
        )
        outcomes = list[JudgingOutcome]()
        try:
            for outcome, number in zip(stream, selection.indices, strict=True):
                outcomes.append(outcome.renumber(number))
        except KeyboardInterrupt as error:
            error.add_note(_describe_interrupt(setup, outcomes, len(inputs), settings))
            raise
    judgment, *second_judgments = (
        _make_judgment(setup, [outcome.texts[k] for outcome in outcomes], name, limit, settings)
        for k, name in enumerate(replacements)
    )
    warnings = [*selection.warnings, *judgment.warnings]
    if class_labels is not None:
        predicted = [outcome.predicted_class for outcome in outcomes]
        warnings += _label_warnings(class_labels, data_labels, predicted)
    warnings += [second_replacement_warning(judgment, second) for second in second_judgments]
    agreements = [outcome.agreement for outcome in outcomes if outcome.agreement is not None]
    plausibility_rows = [
        outcome.plausibility for outcome in outcomes if outcome.plausibility is not None
    ]
    truncated = sum(
        outcome.is_truncated
        for outcome in outcomes
        if outcome.plausibility is not None and outcome.plausibility.reason is None
    )
    return replace(
        judgment,
        warnings=tuple(warnings),
        second=next(iter(second_judgments), None),
        agreement=method_agreement(candidates, agreements, seed=seed),
        plausibility=parsed_rationales
        and summarize_plausibility(
            [candidate.name for candidate in candidates],
            plausibility_rows,
            marked_share=parsed_rationales.marked_share,
            truncated=truncated,
            seed=seed,
        ),
    )


def _read_labeled_rows(data: Any, documents: Any) -> LabeledRows:
    """Return the texts of the data with their documents, and their labels if there are any."""
    if documents is not None:
        if not isinstance(data, list | tuple):
            raise InputError(
                "documents needs a list of questions as texts. In a table, name the column of the "
                "documents in read_rows(…, documents_column=…)."
            )
        return LabeledRows(as_list(attach_documents(list(data), documents)), [])
    if isinstance(data, LabeledRows):
        return data
    # A string is a text here, never the name of a file.
    is_data = isinstance(data, os.PathLike) or (
        not isinstance(data, str | list | tuple) and is_table(data)
    )
    return read_rows(data) if is_data else LabeledRows(as_list(data), [])


def _label_warnings(
    class_labels: ClassLabels, labels: Sequence[Any], predicted: Sequence[int | None]
) -> Iterator[str]:
    """Yield warnings about labels without a class, and about a model that is often wrong."""
    yield from class_labels.warnings(labels)
    classes = zip(map(class_labels.number, labels), predicted, strict=True)
    is_right = [
        label == prediction for label, prediction in classes if None not in (label, prediction)
    ]
    warning = below_chance_warning(sum(is_right), len(is_right), len(class_labels.classes))
    if warning is not None:
        yield warning


def _resolve_replacements(model: Model, first: str, second: str | None) -> tuple[str, ...]:
    """Return the names of the replacements, and raise an error if both are the same."""
    name = resolve_replacement(model, first)
    if second is None:
        return (name,)
    second_name = resolve_replacement(model, second)
    if second_name == name:
        raise InputError(
            f"second_replacement must differ from replacement, which is {name!r}. Choose another: "
            f"{', '.join(map(repr, model.replacements))}."
        )
    return name, second_name


def _describe_interrupt(
    setup: JudgingSetup, outcomes: list[JudgingOutcome], total: int, settings: Mapping[str, Any]
) -> str:
    """Return the verdict on the texts that are judged, and say that nothing is stored."""
    advice = "Nothing is stored. Use fewer texts or methods."
    if not outcomes:
        return f"None of {total:,} texts is judged. {advice}"
    texts = [outcome.texts[0] for outcome in outcomes]
    judgment = _make_judgment(setup, texts, setup.replacements[0], None, settings)
    return f"{len(outcomes):,} of {total:,} texts are judged. {judgment.verdict} {advice}"


def _make_judgment(
    setup: JudgingSetup,
    texts: list[JudgedText],
    replacement: str,
    budget: float | str | None,
    settings: Mapping[str, Any],
) -> Judgment:
    """Summarize the results with one replacement over all texts."""
    room = [text for text in texts if text.has_room]
    methods, pairs, (greedy, interval) = summarize_methods(setup.candidates, room, seed=setup.seed)
    # One text without a proven ceiling is enough: a mean of ceilings and best orders is no ceiling.
    is_ceiling = all(text.ceiling_kind != "best found" for text in room)
    request, fingerprint = setup.request, setup.model.fingerprint
    foreign = [
        candidate.name
        for candidate in setup.candidates
        if candidate.fingerprint not in ("", fingerprint)
    ]
    kind = feature_kind(request.features)
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
            measure="share" if is_ceiling else "share of the best order found",
        ),
        warnings=tuple(judging_warnings(methods, texts, noun=feature_noun(kind), foreign=foreign)),
        settings={
            "target": request.target,
            "scale": request.scale,
            # Options with default values are left out.
            **({} if kind == "words" else {"features": kind}),
            **({} if request.window is None else {"window": request.window}),
            **({} if request.side is None else {"side": request.side}),
            **({} if request.answer is None else {"answer": request.answer}),
            "replacement": replacement,
            # Sorted, because a set has no order and equal judgments must be equal files.
            "columns": sorted(setup.columns),
            "budget": budget,
            "seed": setup.seed,
            **settings,
        },
        model=fingerprint,
        version=__version__,
    )
