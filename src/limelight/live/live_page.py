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
from limelight.models.protocol import playing
from limelight.pages.markup import rendered, whole_page
from limelight.pages.pieces import writable

METHODS_SHOWN = ("shapley", "lime", "loo", "gxi", "alpha-avg", "alpha-max")
_TOLD = ("id", "label", "signed", "formula", "sees", "blind")  # of a method
_PAGE = Path(__file__).parent / "page"
_TEXT = (
    "I did not expect much: the plot is predictable. But the acting is superb, the music is lovely "
    "and I would watch it again."
)


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
        rendered("live.html"),
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
    if not isinstance(model, AttentionClassifier) and playing(model) is not None:
        raise InputError(  # exact, but by words that code of its own finds
            f"{needed}, and no page can read words as this one does; 'limelight serve' shows it as "
            "you type."
        )
    if (why := why_not(model, "collapses")) is not None:
        raise InputError(f"{needed}, and {why}.")
    if not isinstance(model, AttentionClassifier):
        raise InputError(f"{needed}; a {type(model).__name__} has no tables of words.")
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
        "methods": [{name: getattr(method, name) for name in _TOLD} for method in methods],
        "text": writable(text),
        "vocabulary": "\n".join(words),
        **stored_tables(model, precision).packed(),
    }
