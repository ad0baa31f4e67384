"""Write a classifier as an offline page that predicts and explains while the user types."""

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
_METHOD_FIELDS = ("id", "label", "signed", "formula", "sees", "blind")  # on the page
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
    """Return an HTML page that contains a model and explains any text without Python or network.

    Parameters
    ----------
    model
        An ``AttentionClassifier`` that reads texts.
    precision
        "float32" or "float16", the precision of the tables on the page. The bounds on the page
        include its rounding errors.
    title
        The title of the page.
    text
        The text that the page explains first. The address of the page can name another text.

    Returns
    -------
    The HTML of the page.

    Raises
    ------
    InputError
        If the model is no ``AttentionClassifier`` of texts, or if its numbers are too large for the
        precision.
    """
    requirement = (
        f"a live page needs {CAPABILITIES['tables']}, but {{}}. For other models, use 'limelight "
        "serve'."
    )
    if not isinstance(model, AttentionClassifier) or query_kind(model) != "texts":
        raise InputError(requirement.format(f"a {type(model).__name__} has no tables of words"))
    if (reason := reason_missing(model, "tables")) is not None:
        raise InputError(requirement.format(reason))
    data = live_data(model, precision, text)
    return render_page(
        replace_surrogates(title),
        render_template("live.html"),
        sheets=("words.css", "page.css", "elements.css", _PAGE / "live.css"),
        script=_PAGE / "live.js",
        data=json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False),
    )


def live_data(model: AttentionClassifier, precision: Precision, text: str) -> dict[str, Any]:
    """Return the data that a live page needs to compute scores, ready for JSON.

    These are the classes, the methods, the vocabulary, the lookup tables and the first text.
    """
    size = model.sizes
    # No word of a text contains a line end, but such an entry must not shift the other words.
    words = ("" if "\n" in word else replace_surrogates(word) for word in model.vocabulary.words)
    methods = [METHODS[name] for name in METHODS_SHOWN]
    return {
        "schema": "limelight.live/1",
        "version": __version__,
        "fingerprint": model.fingerprint,
        "classes": [replace_surrogates(name) for name in model.classes],
        **{name: size[name] for name in ("C", "T_max")},
        "methods": [{name: getattr(method, name) for name in _METHOD_FIELDS} for method in methods],
        "text": replace_surrogates(text),
        "vocabulary": "\n".join(words),
        **pack_tables(model, precision),
    }


def pack_tables(model: AttentionClassifier, precision: Precision) -> dict[str, Any]:
    """Return the stored tables as JSON: little-endian arrays in base64, unknown errors as null.

    ``rounding`` says that a number rounded to x̂ changes by at most unit |x̂| + smallest.
    ``tableErrors`` bounds the errors of the tables before rounding. The first ``attended`` heads
    are attention heads. ``offset`` is the part of the values that depends on no embedding.
    """
    tables, errors, limits = (
        rounded_tables(model, precision),
        model.table_errors,
        np.finfo(precision),
    )
    arrays = {
        "wordLogit": _encode_array(tables.word_logit, precision),
        "wordValue": _encode_array(tables.word_value, precision),
        "positionLogit": _encode_array(tables.position_logit, "float64"),
        "positionValue": _encode_array(tables.position_value, "float64"),
    }
    units, hidden = tables.units, None
    if units is not None:
        arrays["unitWordInputs"] = _encode_array(units.word, precision)
        arrays["unitPositionInputs"] = _encode_array(units.position, "float64")
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
        "rounding": {
            "unit": float(limits.eps) / 2,
            "smallest": float(limits.smallest_subnormal) / 2,
        },
        "tableErrors": {
            "logit": _null_if_infinite(errors.logit.max(axis=0)),
            "value": _null_if_infinite(errors.value.max(axis=0)),
        },
    }


def rounded_tables(model: AttentionClassifier, precision: Precision = "float32") -> Tables:
    """Return the lookup tables of ``model``, those of the vocabulary rounded to ``precision``."""
    # Positions are not rounded: they are few, and take 30 kB.
    tables, maximum = model.tables, float(np.finfo(precision).max)
    units = tables.units
    words = [tables.word_logit, tables.word_value, *([] if units is None else [units.word])]
    if max(float(np.abs(table).max()) for table in words) > maximum:
        raise InputError(
            f"the tables of this model have numbers above {maximum:.3g}, the largest number of "
            f"{precision}, so no page can store them."
        )
    logit, value, *hidden = (table.astype(precision).astype(np.float64) for table in words)
    return replace(
        tables,
        word_logit=logit,
        word_value=value,
        units=None if units is None else replace(units, word=hidden[0]),
    )


def _encode_array(table: np.ndarray, dtype: str) -> dict[str, str]:
    """Encode an array for JSON: its number type, and its bytes in base64."""
    content = np.ascontiguousarray(table, dtype=np.dtype(dtype).newbyteorder("<")).tobytes()
    return {"dtype": dtype, "base64": base64.b64encode(content).decode("ascii")}


def _null_if_infinite(error: np.ndarray) -> list[float | None]:
    """Convert errors to a list for JSON, with None for infinite errors."""
    return [float(value) if np.isfinite(value) else None for value in error.ravel()]
