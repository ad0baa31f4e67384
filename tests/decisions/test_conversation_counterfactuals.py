"""The smallest set of documents or messages that changes an answer, against all subsets."""

import csv
import io

import pytest

from limelight import Counterfactual, counterfactual
from limelight.results.counterfactual import counterfactuals_csv

pytest.importorskip("torch", reason="language models need torch")

from chat_models import (
    DOCUMENTS,
    MESSAGES,
    QUESTION,
    chat_model,
    chat_network,
    subset_outputs,
)

ANSWER = "good film"
INPUTS = {
    "documents": {"text": QUESTION, "documents": DOCUMENTS, "answer": ANSWER},
    "messages": {"text": MESSAGES},
}


def search(model, kind, threshold):
    keywords = dict(INPUTS[kind])
    return counterfactual(model, keywords.pop("text"), threshold=threshold, **keywords)


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("quantile", [0.1, 0.4, 0.7])
def test_no_smaller_set_changes_the_answer(kind, quantile):
    model = chat_model()
    first = search(model, kind, -100.0)  # no removal goes below it
    assert first.size is None
    values = subset_outputs(*chat_network(), first, ANSWER)
    full = values[(True,) * len(first.features)]
    below = sorted(value for value in values.values() if value < full - 1e-3)
    threshold = below[int(quantile * len(below))] + 1e-4
    sizes = [keep.count(False) for keep, value in values.items() if value < threshold]
    c = search(model, kind, threshold)
    assert (c.size, c.is_minimal) == (min(sizes), True)
    kept = tuple(j not in c.removed for j in range(len(c.features)))
    assert values[kept] < threshold


@pytest.mark.parametrize("kind", INPUTS)
def test_every_view_names_the_parts(kind):
    c = search(chat_model(), kind, None)
    assert c.size == 1
    (name,) = c.removed_features
    assert name in (part.id for part in c.parts)
    assert Counterfactual.from_json(c.to_json()) == c
    rows = list(csv.DictReader(io.StringIO("".join(counterfactuals_csv([(0, c)])))))
    assert [row["part"] for row in rows if row["removed"] == "True"] == [name]
    page = c.to_html()
    for view in (page, repr(c), c._repr_html_()):
        assert name in view
    assert f'<span class="side">{name}</span>' in page
