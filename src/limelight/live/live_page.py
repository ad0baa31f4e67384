"""A classifier as one offline page that predicts and explains while somebody types."""

import json
from pathlib import Path
from typing import Any

from limelight import __version__
from limelight.errors import InputError
from limelight.explainers import METHODS
from limelight.live.stored_tables import Precision, stored_tables
from limelight.models import CAPABILITIES, Model, why_not
from limelight.models.attention import AttentionClassifier
from limelight.pages.markup import Html, element, raw, section, whole_page
from limelight.pages.pieces import writable

METHODS_SHOWN = ("shapley", "lime", "loo", "gxi", "alpha-avg", "alpha-max")
_PAGE = Path(__file__).parent / "page"
_TEXT = (
    "I did not expect much: the plot is predictable. But the acting is superb, the music is lovely "
    "and I would watch it again."
)
_CONSOLE = """\
limelight.predict("such a great film")
limelight.explain("such a great film", "shapley")   // {features, scores, bound, …}
limelight.faithfulness("such a great film", "lime") // {curve, area, chance, ceiling, share, …}"""


def live_page(
    model: Model,
    *,
    precision: Precision = "float32",
    title: str = "What does the model see?",
    text: str = _TEXT,
) -> str:
    """Return a page that holds ``model`` and explains any text exactly, without Python or network.

    Its tables are stored in ``precision``; every bound on the page counts what that costs. The page
    starts with ``text``, unless its address names another.
    """
    own = _with_tables(model)
    return whole_page(
        writable(title),
        _sections(),
        sheets=("words.css", "page.css", "elements.css", _PAGE / "live.css"),
        script=_PAGE / "live.js",
        data=json.dumps(
            live_data(own, precision, text),
            ensure_ascii=False,
            separators=(",", ":"),
            allow_nan=False,
        ),
    )


def _with_tables(model: Model) -> AttentionClassifier:
    needed = f"a live page needs {CAPABILITIES['collapses']}"
    if (why := why_not(model, "collapses")) is not None:
        raise InputError(f"{needed}, and {why}.")
    if not isinstance(model, AttentionClassifier):
        raise InputError(f"{needed}; a {type(model).__name__} has games, but no tables of words.")
    if model.tokenizer != "basic_english":
        raise InputError(
            f"a live page reads texts with the tokenizer 'basic_english'; this model needs "
            f"{model.tokenizer!r}."
        )
    return model


def live_data(model: AttentionClassifier, precision: Precision, text: str) -> dict[str, Any]:
    """Return what the engine of a page reads: sizes, methods, vocabulary and packed tables."""
    size = model.sizes
    # A word with a line end inside can never be met in a text; it must not shift the others.
    words = ("" if "\n" in word else writable(word) for word in model.vocabulary.words)
    methods = [METHODS[name] for name in METHODS_SHOWN]
    return {
        "schema": "limelight.live/1",
        "version": __version__,
        "fingerprint": model.fingerprint,
        "classes": [writable(name) for name in model.classes],
        **{name: size[name] for name in ("C", "T_max")},
        "methods": [
            {name: getattr(method, name) for name in ("id", "label", "formula", "sees", "blind")}
            for method in methods
        ],
        "text": writable(text),
        "vocabulary": "\n".join(words),
        **stored_tables(model, precision).packed(),
    }


def _sections() -> list[Html]:
    """Return the frame that the script fills; without it, a sentence says what is missing."""
    return [
        element("noscript", element("p", "This page computes with JavaScript, which is off.")),
        section("Your text", element("div", _asked(), _answered(), class_="typed")),
        section(
            "Which words speak for it",
            element("div", "", id="methods", role="radiogroup", aria_label="Method", class_="tabs"),
            element("limelight-words", id="words", class_="reading"),
            element("p", _POINT, id="readout", class_="readout", aria_live="polite"),
            element("limelight-legend", id="legend"),
            element("p", "", id="precision", class_="note"),
            element("p", "", id="about", class_="note"),
            element("limelight-bars", id="bars"),
        ),
        section(
            "How faithful that order is",
            element("p", "", id="share"),
            element("limelight-curve", id="curve"),
            element("p", _CURVE, class_="note"),
        ),
        element("details", element("summary", "From the console"), _console()),
    ]


def _asked() -> Html:
    return element(
        "div",
        element("label", "Type or paste a text", for_="text", class_="sr"),
        element("textarea", "", id="text", rows=5, spellcheck="false", dir="auto"),
        element("ul", "", id="notices", class_="notices", role="note", aria_label="Notices"),
    )


def _answered() -> Html:
    return element(
        "div",
        element("p", "", id="says", role="status"),
        element("limelight-classes", id="classes"),
        element(
            "p",
            element("label", "Explain the logit of ", for_="target"),
            element("select", "", id="target"),
            class_="choice",
        ),
    )


_POINT = "Point at a word, or tab to it and use the arrow keys."
_CURVE = (
    "Words go one by one, those with the largest score first; a removed word becomes UNK. Chance "
    "is the mean when every word goes with the same probability. No order can fall below the "
    "ceiling: that is proven, for every number of words. Where heads disagree, it may be that no "
    "order reaches it; greedy search, which always removes the best word next, shows what can be "
    "had."
)


def _console() -> Html:
    return raw(
        element("p", "The same numbers for scripts; spans count code points."),
        element("pre", element("code", _CONSOLE), tabindex=0, role="region", aria_label="Code"),
    )
