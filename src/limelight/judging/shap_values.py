"""Scores of a ``shap.Explanation`` as scores of a model's features, to judge them.

shap scores the tokens of its masker, and limelight judges features. A row of a
``shap.Explanation`` belongs to a text if its tokens are the text, up to white space and case. The
score of a feature is then the sum over its tokens. A row whose data are the features themselves,
as in ``to_shap``, gives its scores unchanged.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from limelight.errors import InputError
from limelight.shapes import Float
from limelight.text import Features


class ShapRow(NamedTuple):
    """The tokens of one text with their values, one column per output."""

    tokens: tuple[str, ...]
    values: Float[np.ndarray, "tokens outputs"]
    has_outputs: bool


class ShapValues(NamedTuple):
    """The rows of a ``shap.Explanation``, by their tokens as one string, and its output names."""

    rows: dict[str, list[ShapRow]]
    output_names: tuple[str, ...]


def is_shap_explanation(value: Any) -> bool:
    """Return whether a value is a ``shap.Explanation``, without importing shap."""
    return any(
        parent.__name__ == "Explanation" and parent.__module__.split(".")[0] == "shap"
        for parent in type(value).__mro__
    )


def read_shap_values(explanation: Any) -> ShapValues:
    """Read the rows of a ``shap.Explanation`` of one text or of several.

    Raises
    ------
    InputError
        If its data are not the words or tokens of texts, or if their number is not that of the
        values.
    """
    data = explanation.data
    is_list = data is not None and not isinstance(data, str) and hasattr(data, "__len__")
    if is_list and len(data) and isinstance(data[0], str):
        token_lists, value_lists = [data], [explanation.values]
    else:
        token_lists, value_lists = (list(data), list(explanation.values)) if is_list else ([], [])
    rows: dict[str, list[ShapRow]] = {}
    for tokens, values in zip(token_lists, value_lists, strict=True):
        if isinstance(tokens, str) or not all(isinstance(token, str) for token in tokens):
            token_lists = []
            break
        array = np.asarray(values, dtype=np.float64)
        if array.ndim not in (1, 2) or len(array) != len(tokens):
            raise InputError(
                f"a row of the shap.Explanation has {len(tokens)} tokens and values of shape "
                f"{array.shape}. Pass the first-order values of each text."
            )
        row = ShapRow(tuple(tokens), array.reshape(len(array), -1), array.ndim == 2)
        rows.setdefault(_squeeze("".join(tokens)), []).append(row)
    if not token_lists:
        raise InputError(
            "the data of a shap.Explanation must be the words or tokens of each text. Explain "
            "texts with shap.maskers.Text, or pass a function that returns the scores."
        )
    return ShapValues(rows, _output_names(explanation.output_names))


def _output_names(names: Any) -> tuple[str, ...]:
    """Return the names of the outputs of a ``shap.Explanation``, or no name if it has none."""
    if names is None:
        return ()
    return (names,) if isinstance(names, str) else tuple(map(str, names))


def select_output(
    row: ShapRow, output_names: Sequence[str], classes: Sequence[str], target: str
) -> tuple[Float[np.ndarray, " tokens"], str | None] | str:
    """Select the values of one output.

    Parameters
    ----------
    row
        A row of a ``shap.Explanation``.
    output_names
        The names of its outputs, which may be missing.
    classes
        The classes of the model.
    target
        The class that is judged.

    Returns
    -------
    The values and the class that they belong to, or None if the class is unknown. Or a sentence
    that says why no output is selected.
    """
    outputs = row.values.shape[1]
    if not row.has_outputs:
        name = output_names[0] if len(output_names) == 1 else None
        return row.values[:, 0], name if name in classes else None
    if target in output_names and len(output_names) == outputs:
        return row.values[:, list(output_names).index(target)], target
    # shap names outputs "Output 0", … if it knows no classes. Then their order counts.
    if outputs == len(classes) and not set(output_names) & set(classes):
        return row.values[:, list(classes).index(target)], target
    if outputs == 1:
        return row.values[:, 0], None
    return (
        f"the shap.Explanation has {outputs} outputs ({', '.join(output_names[:5])}), and none is "
        f"{target!r}. Select one, as in values[:, :, 0]."
    )


def find_row(explanation: ShapValues, text: str, features: Features) -> ShapRow | None:
    """Return the row of a text, or None if there is no row with its features or its tokens."""
    # Features that occur once are the text as well. Their row needs no search by its tokens.
    candidates = [
        *explanation.rows.get(_squeeze("".join(features.strings)), ()),
        *explanation.rows.get(_squeeze(text), ()),
    ]
    exact = [row for row in candidates if _is_features(row.tokens, features)]
    return next(iter(exact or candidates), None)


def sum_token_values(
    tokens: Sequence[str], values: Float[np.ndarray, " tokens"], text: str, features: Features
) -> Float[np.ndarray, " d"] | str:
    """Sum the values of the tokens of each feature.

    Parameters
    ----------
    tokens
        The features, or the tokens of the text in order.
    values
        One number per token.
    text
        The text that the model read.
    features
        The features of the text.

    Returns
    -------
    One score per feature, or a sentence that names a token with letters of several features. Tokens
    outside all features, such as protected words, are left out.
    """
    if _is_features(tokens, features):
        return np.array(values)
    owners = np.full(len(text), -1)
    for j, spans in enumerate(features.spans):
        for start, end in spans:
            owners[start:end] = j
    positions = [k for k, letter in enumerate(text) for _ in _squeeze(letter)]
    scores, position = np.zeros(len(features)), 0
    for token, value in zip(tokens, values, strict=True):
        end = position + len(_squeeze(token))
        token_owners = set(owners[positions[position:end]].tolist())
        position = end
        token_owners.discard(-1)  # letters that the judgment does not remove
        if len(token_owners) > 1:
            return (
                f"the token {token!r} belongs to several {features.noun}s. Split the text in shap "
                "as the model does."
            )
        for j in token_owners:
            scores[j] += value
    return scores


def _is_features(tokens: Sequence[str], features: Features) -> bool:
    """Return whether tokens are the features, up to white space around them."""
    return tuple(token.strip() for token in tokens) == tuple(map(str.strip, features.strings))


def _squeeze(text: str) -> str:
    """Return the letters of a text without white space, in the same case."""
    return "".join(text.split()).casefold()
