"""A classifier as one offline page that predicts and explains while somebody types."""

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from limelight import __version__
from limelight.errors import InputError
from limelight.explainers import METHODS
from limelight.models import CAPABILITIES, Model, reason_missing
from limelight.models.attention import AttentionClassifier, Tables
from limelight.models.protocol import query_kind
from limelight.rendering.markup import render_page, render_template
from limelight.rendering.text_parts import replace_surrogates

METHODS_SHOWN = ("shapley", "lime", "loo", "gxi", "alpha-avg", "alpha-max")
_TOLD = ("id", "label", "signed", "formula", "sees", "blind")  # of a method
Precision = Literal["float32", "float16"]
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
    needed = (
        f"a live page needs {CAPABILITIES['tables']}, and {{}}; 'limelight serve' shows any "
        "model as you type."
    )
    if not isinstance(model, AttentionClassifier) or query_kind(model) != "texts":
        raise InputError(needed.format(f"a {type(model).__name__} has no tables of words"))
    if (why := reason_missing(model, "tables")) is not None:
        raise InputError(needed.format(why))
    data = live_data(model, precision, text)
    return render_page(
        replace_surrogates(title),
        render_template("live.html"),
        sheets=("words.css", "page.css", "elements.css", _PAGE / "live.css"),
        script=_PAGE / "live.js",
        data=json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False),
    )


def live_data(model: AttentionClassifier, precision: Precision, text: str) -> dict[str, Any]:
    """Return what the engine of a page reads: sizes, methods, vocabulary and packed tables."""
    size = model.sizes
    # A word with a line end inside can never be met in a text; it must not shift the others.
    words = ("" if "\n" in word else replace_surrogates(word) for word in model.vocabulary.words)
    methods = [METHODS[name] for name in METHODS_SHOWN]
    return {
        "schema": "limelight.live/1",
        "version": __version__,
        "fingerprint": model.fingerprint,
        "classes": [replace_surrogates(name) for name in model.classes],
        **{name: size[name] for name in ("C", "T_max")},
        "methods": [{name: getattr(method, name) for name in _TOLD} for method in methods],
        "text": replace_surrogates(text),
        "vocabulary": "\n".join(words),
        **packed(model, precision),
    }


def packed(model: AttentionClassifier, precision: Precision) -> dict[str, Any]:
    """Return the stored tables as JSON: arrays little-endian in base64, unknown errors as null.

    A ``rounding`` to x̂ is within unit |x̂| + least of what it was, and ``own`` bounds the errors of
    the tables before. The first ``attended`` heads are heads of attention, and ``offset`` is what
    of the values is read of no embedding.
    """
    tables, errors, limits = (
        stored_tables(model, precision),
        model.table_errors,
        np.finfo(precision),
    )
    arrays = {
        "wordLogit": _array(tables.word_logit, precision),
        "wordValue": _array(tables.word_value, precision),
        "positionLogit": _array(tables.position_logit, "float64"),
        "positionValue": _array(tables.position_value, "float64"),
    }
    units, hidden = tables.units, None
    if units is not None:
        arrays["wordGiven"] = _array(units.word, precision)
        arrays["positionGiven"] = _array(units.position, "float64")
        hidden = {
            "size": units.weight.shape[1],
            "weight": units.weight.ravel().tolist(),
            "offset": units.offset.ravel().tolist(),
        }
    return {
        "K": tables.word_logit.shape[1],
        "attended": model.sizes["K"],
        "offset": model.directions.offset.ravel().tolist(),
        "units": hidden,
        "tables": arrays,
        "rounding": {"unit": float(limits.eps) / 2, "least": float(limits.smallest_subnormal) / 2},
        "own": {
            "logit": _known(errors.logit.max(axis=0)),
            "value": _known(errors.value.max(axis=0)),
        },
    }


def stored_tables(model: AttentionClassifier, precision: Precision = "float32") -> Tables:
    """Return the tables of ``model`` with those of its words rounded to ``precision``."""
    # Positions are few: in full they cost 30 kB and no error.
    tables, most = model.tables, float(np.finfo(precision).max)
    units = tables.units
    words = [tables.word_logit, tables.word_value, *([] if units is None else [units.word])]
    if max(float(np.abs(table).max()) for table in words) > most:
        raise InputError(
            f"the tables of this model hold numbers beyond the largest of {precision}, {most:.3g}; "
            "no page can carry them in that precision."
        )
    logit, value, *given = (table.astype(precision).astype(np.float64) for table in words)
    return replace(
        tables,
        word_logit=logit,
        word_value=value,
        units=None if units is None else replace(units, word=given[0]),
    )


def _array(table: np.ndarray, dtype: str) -> dict[str, str]:
    content = np.ascontiguousarray(table, dtype=np.dtype(dtype).newbyteorder("<")).tobytes()
    return {"dtype": dtype, "base64": base64.b64encode(content).decode("ascii")}


def _known(error: np.ndarray) -> list[float | None]:
    return [float(one) if np.isfinite(one) else None for one in error.ravel()]
