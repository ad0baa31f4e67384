"""``explain`` and ``compare``."""

__all__ = ["COMPARED", "Progress", "compare", "explain"]

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any, overload

from limelight import __version__
from limelight.adapters import windowed
from limelight.errors import DomainError, InputError, about_text, nearest
from limelight.explainers.method import Explainer, Method, kind_of, settings_of
from limelight.explainers.progress import Progress
from limelight.explainers.questions import (
    AnyModel,
    AnyReading,
    Texts,
    listed,
    readings,
    watched_by,
)
from limelight.explainers.registry import find_method
from limelight.explainers.scores import Scores
from limelight.explanation import Comparison, Explanation
from limelight.model import AttentionClassifier
from limelight.text import Features

COMPARED = ("alpha-avg", "alpha-max", "lime", "g-avg", "g-l1", "g-l2", "gxi", "shapley")
COMPARED_BLACK_BOX = ("loo", "lime", "shapley")


@overload
def explain(model: AnyModel, text: str, method: str = ..., **options: Any) -> Explanation: ...
@overload
def explain(
    model: AnyModel, text: Texts, method: str = ..., **options: Any
) -> list[Explanation]: ...
def explain(
    model: Any,
    text: str | Texts,
    method: str = "lime",
    *,
    target: str | int | None = None,
    features: str | Sequence[int] = "words",
    output: str = "logit",
    protect: Collection[str] = (),
    window: str | int | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Any:
    """Return the score of every feature of ``text``; a list of texts gives a list.

    Parameters
    ----------
    model
        What :func:`limelight.load` or :func:`limelight.wrap` returns.
    text
        One text, or a list of texts.
    method
        A name from ``limelight methods``.
    target
        Class by name or index, or "predicted"; by default the last of two, else the predicted
        one. "all" gives, for each text, a list with one explanation per class.
    features
        "words": all occurrences of a word together; "positions": every token by itself;
        "sentences"; or one group number per token of the window, negative to leave a token out.
        "tokens" are the pieces of a Hugging Face tokenizer.
    output
        What is explained: the "logit" of the target, or its "probability"; of a model whose
        outputs are no log-odds, its "score", whatever is said here.
    protect
        Words that stay as they are and get no score.
    window
        For texts that are longer than a Hugging Face model reads: cut them into windows of that
        many tokens ("auto": as many as the model reads), behind sentences where it can be, and
        explain the mean of the model's outputs over them. None explains the first window.
    progress
        Called with (texts done, texts in all); while other models than the paper's are asked
        about a text, with the part of it that is done.
    settings
        Settings of the method, such as ``tolerance``.
    """
    row = find_method(method)
    explainer = row.configured(settings, _kind(model))
    model = windowed(model, window)
    every = target == "all" and "all" not in model.classes
    texts = listed(text)
    parts = readings(
        model,
        texts,
        progress,
        target=0 if every else target,
        features=features,
        output=output,
        protect=protect,
    )
    by_text: list[Any] = []
    for reading in parts:
        aims = [reading.aimed(i) for i in range(len(model.classes))] if every else [reading]
        with watched_by(progress, [explainer], reading, len(aims), len(texts)):
            by_target = [_explanations(row, explainer, aimed) for aimed in aims]
        by_text += map(list, zip(*by_target, strict=True)) if every else by_target[0]
    return by_text[0] if isinstance(text, str) else by_text


@overload
def compare(model: AnyModel, text: str, **options: Any) -> Comparison: ...
@overload
def compare(model: AnyModel, text: Texts, **options: Any) -> list[Comparison]: ...
def compare(
    model: Any,
    text: str | Texts,
    *,
    methods: Sequence[str] | None = None,
    target: str | int | None = None,
    features: str | Sequence[int] = "words",
    output: str = "logit",
    protect: Collection[str] = (),
    window: str | int | None = None,
    progress: Progress | None = None,
    attention: bool = False,
    **settings: Any,
) -> Any:
    """Return one explanation per method of the same text; a list of texts gives a list.

    ``methods`` are the paper's and ours by default; one that is not defined for a text (LIME of
    a single word) is then left out with a notice, while a method that was asked for by name and
    is not defined is an error. A setting goes to every method that has it and must be one of
    some method's. ``attention`` adds the heads' attention matrices for the page and the figure
    (T × T numbers per head, which nothing else needs). The other arguments are those of
    :func:`explain`.
    """
    kind = _kind(model)
    usual = COMPARED_BLACK_BOX if kind == "function" else COMPARED
    names = [methods] if isinstance(methods, str) else usual if methods is None else methods
    rows = [find_method(name) for name in dict.fromkeys(names)]
    if not rows:
        raise InputError("compare needs at least one method; got none.")
    if target == "all" and "all" not in model.classes:
        raise InputError("compare explains one class at a time; name one, or use explain for all.")
    explainers = [(row, _configured(row, rows, settings, kind)) for row in rows]
    model = windowed(model, window)
    texts, comparisons = listed(text), list[Comparison]()
    for reading in readings(
        model, texts, progress, target=target, features=features, output=output, protect=protect
    ):
        with watched_by(progress, [one for _, one in explainers], reading, 1, len(texts)):
            comparisons += [
                _comparison(explainers, one, strict=methods is not None, attention=attention)
                for one in reading.apart()
            ]
    return comparisons[0] if isinstance(text, str) else comparisons


def _kind(model: Any) -> str:
    if not isinstance(model, AttentionClassifier) and not hasattr(model, "sees_inside"):
        raise InputError(
            "a model is what limelight.load or limelight.wrap returns; got "
            f"{type(model).__name__}. Write limelight.load(model=…), or limelight.wrap(…) for a "
            "function."
        )
    return kind_of(model)


def _configured(
    row: Method, rows: Sequence[Method], settings: Mapping[str, Any], kind: str
) -> Explainer:
    """Give ``row`` those of the settings that it has; none may belong to no method at all."""
    known = {name: None for one in rows for name in settings_of(one, kind)}
    for name in settings:
        if name not in known:
            raise InputError(nearest("setting of these methods", name, known))
    own = settings_of(row, kind)
    return row.configured({k: v for k, v in settings.items() if k in own}, kind)


def _comparison(
    explainers: Sequence[tuple[Method, Explainer]],
    reading: AnyReading,
    *,
    strict: bool,
    attention: bool,
) -> Comparison:
    explanations: list[Explanation] = []
    missing: list[str] = []
    for row, explainer in explainers:
        try:
            explanations.extend(_explanations(row, explainer, reading))
        except DomainError as error:
            if strict:
                raise
            missing.append(f"{row.label} is left out: {error}")
    return Comparison(
        explanations=tuple(explanations),
        attention=reading.attention_matrices() if attention else None,
        notices=tuple(missing),
    )


def _explanations(row: Method, explainer: Explainer, reading: AnyReading) -> list[Explanation]:
    return [
        _explanation(row, explainer, reading, i, scores)
        for i, scores in enumerate(_scores(explainer, reading))
    ]


def _scores(explainer: Explainer, reading: AnyReading) -> list[Scores]:
    """Call ``explainer``; where one of several texts is outside its domain, say which."""
    try:
        return explainer(reading)
    except DomainError:
        for one in reading.apart():
            with about_text(one.first):
                explainer(one)
        raise


def _alone(features: Features) -> tuple[str, ...]:
    one = "There is only one feature: its score can be compared with no other."
    return (one,) if len(features) == 1 else ()


def _explanation(
    row: Method, explainer: Explainer, reading: AnyReading, i: int, found: Scores
) -> Explanation:
    model, document, features = reading.model, reading.documents[i], reading.features[i]
    named = model.classes[-reading.outputs.shape[1] :]  # a single output is the second class's
    chosen: dict[str, Any] = asdict(explainer) if is_dataclass(explainer) else {}
    return Explanation(
        text=document.text,
        features=features.strings,
        spans=features.spans,
        scores=found.scores,
        stderr=found.stderr,
        bound=found.bound,
        method=row.id,
        target=reading.targets.names()[i],
        prediction=dict(zip(named, map(float, reading.outputs[i]), strict=True)),
        base_value=float(reading.base_values[i]) if found.base_value is None else found.base_value,
        intercept=found.intercept,
        heads=found.heads,
        pairs=found.pairs,
        anchor=found.anchor,
        notices=reading.notices(i) + _alone(features) + found.notices,
        settings={
            "label": row.label,
            "signed": row.signed,
            "classes": list(model.classes),
            "features": features.kind,
            "aggregation": reading.pooling(features.kind),
            "replacement": reading.replacement,
            "output": reading.targets.output,
            **({} if reading.targets.link == "softmax" else {"link": reading.targets.link}),
            "protect": sorted(reading.protect),
            "cut_at": document.tokens.spans[-1][1] if document.cut else None,
            **reading.windowing(i),
            **chosen,
            **found.settings,
            "model": model.fingerprint,
            "version": __version__,
        },
    )
