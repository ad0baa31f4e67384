"""What one explanation does: the text is read once, the model runs once, one game is made."""

import numpy as np
import pytest

import limelight
from limelight.models.attention import collapsed, inputs
from limelight.models.attention.classifier import FactoredTables
from limelight.text import token_strings
from limelight.theory.ratio_game import RatioGame

TEXT = "The plot is predictable, but the acting is superb."


@pytest.fixture
def counts(monkeypatch):
    """How often texts are tokenised, the model is run and games are made."""
    seen = {"tokenised": 0, "forward": 0, "games": 0}

    def count_call(name, inner):
        def call(*arguments, **options):
            seen[name] += 1
            return inner(*arguments, **options)

        return call

    monkeypatch.setattr(inputs, "token_strings", count_call("tokenised", token_strings))
    monkeypatch.setattr(FactoredTables, "__call__", count_call("forward", FactoredTables.__call__))
    monkeypatch.setattr(collapsed, "RatioGame", count_call("games", RatioGame))
    return seen


@pytest.mark.parametrize("method", ["lime", "shapley", "loo", "banzhaf"])
def test_an_exact_method_reads_runs_and_plays_once(counts, shipped, method):
    limelight.explain(shipped, TEXT, method)
    assert counts == {"tokenised": 1, "forward": 1, "games": 1}


def test_a_comparison_of_eight_methods_does_no_more(counts, shipped):
    assert len(limelight.compare(shipped, TEXT)) == 8
    assert counts == {"tokenised": 1, "forward": 1, "games": 1}


def test_all_classes_share_one_game(counts, shipped):
    limelight.explain_classes(shipped, TEXT, "shapley")
    assert counts == {"tokenised": 1, "forward": 1, "games": 1}


def test_the_count_can_be_wrong(counts, shipped):
    for _ in range(2):
        limelight.explain(shipped, TEXT, "lime")
    assert counts["games"] == 2


def test_attention_makes_no_game(counts, shipped):
    limelight.explain(shipped, TEXT, "alpha-avg")
    assert counts == {"tokenised": 1, "forward": 1, "games": 0}


def test_a_function_is_called_once_for_each_text():
    request = []

    def score(texts):
        request.extend(texts)
        return np.array([[len(text) % 7 / 7, 1 - len(text) % 7 / 7] for text in texts])

    model = limelight.wrap(score, classes=["a", "b"], scale="score")
    limelight.compare(model, "one two three four", methods=["loo", "lime", "shapley"])
    # The prediction of the whole text, then every subset of four words.
    assert len(request) == 1 + 2**4
    assert len(set(request)) == 2**4
