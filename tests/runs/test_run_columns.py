"""The columns of a run are what its explanations say, text by text."""

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="runs are stored with pyarrow (extra data)")

from limelight.results.comparison import rank_correlation
from limelight.runs.columns import find_texts, text_columns

from runs import make_run
from tiny_models import random_texts, tiny_model

METHODS = ("loo", "gxi", "alpha-avg")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    texts = [*random_texts(17, seed=5), "w1 w1 w2 w2 w2 w3", "", "w1"]
    labels = [str(i % 3) for i in range(len(texts) - 1)] + ["none of them"]
    return make_run(
        tmp_path_factory.mktemp("run"),
        texts,
        model=tiny_model(outputs=3),
        methods=METHODS,
        labels=labels,
        features="positions",
    )


@pytest.fixture(scope="module")
def columns(run):
    return text_columns(run)


def disagreement_by_hand(run, row):
    return [run.explanation(int(row), method) for method in METHODS]


def test_there_is_one_entry_for_every_text_that_was_explained(run, columns):
    failed = set(run.errors()["row"].to_pylist())
    assert columns["row"].to_pylist() == [i for i in range(run.total) if i not in failed]
    assert failed == {18}
    assert (columns.num_rows, columns.num_columns) == (run.total - 1, 9)


def test_predictions_labels_and_words_are_those_of_the_explanations(run, columns):
    for place, row in enumerate(columns["row"].to_pylist()):
        e = disagreement_by_hand(run, row)[0]
        outputs = np.array(list(e.prediction.values()))
        assert columns["predicted"][place].as_py() == outputs.argmax()
        chances = np.exp(outputs) / np.exp(outputs).sum()
        assert columns["confidence"][place].as_py() == pytest.approx(chances.max())
        assert columns["words"][place].as_py() == len(set(e.features))
        assert columns["id"][place].as_py() == f"t{row}"
        assert columns["label"][place].as_py() == (-1 if row == 19 else row % 3)
    assert columns["label_text"][-1].as_py() == "none of them"


def test_disagreement_is_one_less_the_mean_rank_correlation(run, columns):
    known_count = 0
    for place, row in enumerate(columns["row"].to_pylist()):
        sizes = []
        for e in disagreement_by_hand(run, row):
            total = dict.fromkeys(e.features, 0.0)
            for word, score in zip(e.features, e.scores, strict=True):
                total[word] += score
            sizes.append(np.abs(np.array(list(total.values()), dtype=np.float64)))
        correlations = [rank_correlation(sizes[i], sizes[j]) for i, j in ((0, 1), (0, 2), (1, 2))]
        known_correlations = [rho for rho in correlations if rho is not None]
        if len(sizes[0]) < 2 or not known_correlations:
            assert np.isnan(columns["disagreement"][place].as_py())
            continue
        known_count += 1
        assert columns["disagreement"][place].as_py() == pytest.approx(
            1 - np.mean(known_correlations), abs=1e-6
        )
    assert known_count > 15


def test_the_texts_with_a_word_are_those_that_have_it(run, columns):
    for word in ("w1", "W3", "nowhere"):
        having = [
            row
            for row in columns["row"].to_pylist()
            if word.lower() in disagreement_by_hand(run, row)[0].features
        ]
        assert find_texts(run, word).tolist() == having


def test_shares_are_reported_shard_by_shard(run):
    heard = []
    text_columns(run, heard.append)
    assert heard == pytest.approx([(k + 1) / len(run.shards) for k in range(len(run.shards))])
