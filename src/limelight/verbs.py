"""What limelight does: explain, compare, play the game behind it, list the methods."""

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, Unpack, overload

from limelight.explainers.budget import BudgetGiven, agreed_budget, allotted, checked_counts
from limelight.explainers.explaining import (
    Progress,
    Texts,
    compared,
    explanations,
    is_one,
    listed,
    metered,
    one_reading,
    readings,
)
from limelight.explainers.question import Question, Settings
from limelight.explainers.registry import method_and_budget, method_table, several_methods
from limelight.explainers.text_game import TextGame
from limelight.models import Model, checked_model
from limelight.results import Comparison, Explanation, Explanations
from limelight.results.method_table import MethodTable
from limelight.text import Given


class Keywords(Settings, total=False):
    """What may be given by name: what is asked about a text, and settings of the methods."""

    features: str | Sequence[int]
    scale: str
    protect: Collection[str]
    side: str | None
    window: str | int | None
    budget: BudgetGiven | None
    progress: Progress | None


@overload
def explain(
    model: Model,
    text: Given,
    method: str | object | None = None,
    *,
    target: str | int | None = None,
    against: str | int | None = None,
    **keywords: Unpack[Keywords],
) -> Explanation: ...
@overload
def explain(
    model: Model,
    text: Texts,
    method: str | object | None = None,
    *,
    target: str | int | None = None,
    against: str | int | None = None,
    **keywords: Unpack[Keywords],
) -> list[Explanation]: ...
def explain(
    model: Any,  # anything else is refused in a sentence
    text: Any,
    method: Any = None,
    *,
    target: Any = None,
    against: Any = None,
    features: str | Sequence[int] = "words",
    scale: str = "logit",
    protect: Collection[str] = (),
    side: str | None = None,
    window: str | int | None = None,
    budget: BudgetGiven | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Explanation | list[Explanation]:
    """Return the score of every feature of ``text``; a list of texts gives a list.

    Parameters
    ----------
    model
        What :func:`limelight.load` or :func:`limelight.wrap` returns.
    text
        One text, a pair of texts as a tuple of two, or a list of either.
    method
        A name from :func:`limelight.methods`, or the settings of one, such as
        ``limelight.explainers.Lime(bandwidth=0.5)``; by default "lime" where that is exact, on
        models that have to be asked "shapley".
    target
        Class by name or index, or "predicted"; by default the last of two, else the predicted
        one. For every class at once, see :func:`explain_classes`.
    against
        Another class, by name or index, or "predicted": what is explained is then the target less
        this one, f_a − f_b (p_a − p_b for probabilities).
    features
        "words": all occurrences of a word together; "positions": every token by itself;
        "sentences"; or one group number per token of the window, negative to leave a token out.
        "tokens" are the pieces of a Hugging Face tokenizer.
    scale
        What is explained: the "logit" of the target, or its "probability"; for a model whose
        outputs are not log-odds it is always the "score".
    protect
        Words that stay as they are and get no score.
    side
        "first" or "second": of a pair, score only the words of this text; the other is left alone.
    window
        For texts that are longer than a Hugging Face model reads: cut them into windows of that
        many tokens ("auto": as many as the model reads), after a sentence where possible, and
        explain the mean of the model's outputs over them. None explains the first window.
    budget
        How much to spend on each text: a time, 30 or "30s" or "2min", or "400 calls" of the model.
        How many samples or pairs of orders a method draws follows from it, and the result's
        settings say what was used; what cannot be done within it is refused. Exact methods that ask
        nothing need none of it. By default every method's own counts hold.
    progress
        Called with (texts done, texts in all); while a model is asked many times about a text,
        with the part of it that is done.
    settings
        Settings of the method, such as ``tolerance``.
    """
    chosen, spent = method_and_budget(checked_model(model), method, settings, budget)
    question = Question(
        target=target,
        against=against,
        features=features,
        scale=scale,
        protect=protect,
        side=side,
        window=window,
    )
    texts, found = listed(text), Explanations()
    for reading in readings(
        model,
        texts,
        question,
        progress=progress,
        chosen=[chosen],
        feasible=partial(checked_counts, spent, [chosen]),
        alone=spent is not None,
    ):
        (within,) = allotted(spent, [chosen], reading)
        with metered(progress, [within], reading, aims=1, total=len(texts)):
            found += explanations(within, reading)
    return found[0] if is_one(text) else found


@overload
def explain_classes(
    model: Model, text: Given, method: str | object | None = None, **keywords: Unpack[Keywords]
) -> dict[str, Explanation]: ...
@overload
def explain_classes(
    model: Model, text: Texts, method: str | object | None = None, **keywords: Unpack[Keywords]
) -> list[dict[str, Explanation]]: ...
def explain_classes(
    model: Any,
    text: Any,
    method: Any = None,
    *,
    features: str | Sequence[int] = "words",
    scale: str = "logit",
    protect: Collection[str] = (),
    side: str | None = None,
    window: str | int | None = None,
    budget: BudgetGiven | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> dict[str, Explanation] | list[dict[str, Explanation]]:
    """Return one explanation per class of the model, by the name of the class.

    The model is asked as often as for one class. A list of texts gives a list; the arguments are
    those of :func:`explain`.
    """
    chosen, spent = method_and_budget(checked_model(model), method, settings, budget)
    question = Question(
        all_classes=True,
        features=features,
        scale=scale,
        protect=protect,
        side=side,
        window=window,
    )
    texts, found = listed(text), list[dict[str, Explanation]]()
    for reading in readings(
        model,
        texts,
        question,
        progress=progress,
        feasible=partial(checked_counts, spent, [chosen]),
        alone=spent is not None,
    ):
        aims = reading.aims()
        (within,) = allotted(spent, [chosen], reading)
        with metered(progress, [within], reading, aims=len(aims), total=len(texts)):
            by_class = [explanations(within, aimed) for aimed in aims]
        found += [
            dict(zip(model.classes, of_text, strict=True))
            for of_text in zip(*by_class, strict=True)
        ]
    return found[0] if is_one(text) else found


@overload
def compare(
    model: Model,
    text: Given,
    *,
    methods: str | Sequence[str | object] | None = None,
    target: str | int | None = None,
    against: str | int | None = None,
    attention: bool = False,
    **keywords: Unpack[Keywords],
) -> Comparison: ...
@overload
def compare(
    model: Model,
    text: Texts,
    *,
    methods: str | Sequence[str | object] | None = None,
    target: str | int | None = None,
    against: str | int | None = None,
    attention: bool = False,
    **keywords: Unpack[Keywords],
) -> list[Comparison]: ...
def compare(
    model: Any,
    text: Any,
    *,
    methods: str | Sequence[str | object] | None = None,
    target: Any = None,
    against: Any = None,
    features: str | Sequence[int] = "words",
    scale: str = "logit",
    protect: Collection[str] = (),
    side: str | None = None,
    window: str | int | None = None,
    budget: BudgetGiven | None = None,
    progress: Progress | None = None,
    attention: bool = False,
    **settings: Any,
) -> Comparison | list[Comparison]:
    """Return one explanation per method of the same text; a list of texts gives a list.

    ``methods`` are by default those of :data:`limelight.explainers.registry`: the paper's
    seven and Shapley values on the paper's classifier, elsewhere those that are faithful to deep
    models, as far as the model allows them. One that is not defined for a text (LIME of a single
    word) is then left out with a notice, while a method that was asked for by name and is not
    defined is an error. A setting goes to every method that
    has it, and one of them must; a method may also be given as its settings object.
    ``attention`` adds the heads' attention matrices for the page and the figure (T × T numbers per
    head, which nothing else needs). A ``budget`` is for all methods together: those of a fixed cost
    take it first, the others share the rest evenly. The other arguments are those of
    :func:`explain`.
    """
    several = several_methods(checked_model(model), methods, settings)
    spent = agreed_budget(budget, several, settings)
    question = Question(
        target=target,
        against=against,
        features=features,
        scale=scale,
        protect=protect,
        side=side,
        window=window,
    )
    texts, comparisons, strict = listed(text), list[Comparison](), methods is not None
    for reading in readings(
        model,
        texts,
        question,
        progress=progress,
        feasible=partial(checked_counts, spent, several) if strict else None,
        alone=spent is not None,
    ):
        within = allotted(spent, several, reading)
        with metered(progress, within, reading, aims=1, total=len(texts)):
            comparisons += [
                compared(within, one, strict=strict, attention=attention) for one in reading.apart()
            ]
    return comparisons[0] if is_one(text) else comparisons


def game(
    model: Model,
    text: Given,
    *,
    features: str | Sequence[int] = "words",
    protect: Collection[str] = (),
    side: str | None = None,
    window: str | int | None = None,
    replacement: str = "auto",
) -> TextGame:
    """Return ``text`` as a game: masks (n, d), true where a feature stays, to outputs (n, C).

    It is what every perturbation method asks. ``replacement`` is what stands for a removed word;
    the other arguments are those of :func:`explain`.
    """
    question = Question(features=features, protect=protect, side=side, window=window)
    return one_reading(model, text, question, about="a game").game(replacement)


def methods(model: Model | None = None) -> MethodTable:
    """Return what each method computes, sees and cannot see, and its settings.

    With a ``model``, how each is computed for it, or why it is not.
    """
    return method_table(None if model is None else checked_model(model))
