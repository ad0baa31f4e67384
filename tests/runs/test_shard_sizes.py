"""The number of texts in a shard, and the work that an interrupted run keeps."""

import pytest

import limelight
from limelight.data.columns import DataColumns, DataFileRecord, DataRecord
from limelight.explainers.budget import configure_with_budget
from limelight.request import Request, prepare_model
from limelight.runs.job import make_plan

from tiny_models import tiny_model

FUNCTION = limelight.wrap(lambda texts: [[0.5, 0.5]] * len(texts), classes=["a", "b"])
EXACT = tiny_model(2)


def plan_shards(model, method, rows, *, budget=None, shard_texts=None, counterfactual=False):
    model, request = prepare_model(model, Request())
    methods, parsed = configure_with_budget(model, method, {}, budget, is_list=True)
    columns = DataColumns(text="text", id=None, label=None, carried=[])
    file = DataFileRecord(path="memory", rows=rows, bytes=0, sha256="")
    data = DataRecord(files=[file], columns=columns, store_texts=True)
    return make_plan(
        model, methods, request, data,
        budget=parsed, shard_texts=shard_texts, counterfactual=counterfactual,
    ).shards  # fmt: skip


@pytest.mark.parametrize(
    ("budget", "counterfactual", "texts"),
    [("100 calls", False, 50), ("1000 calls", False, 5), ("1000 calls", True, 2)],
)
def test_a_shard_needs_at_most_five_thousand_calls(budget, counterfactual, texts):
    shards = plan_shards(FUNCTION, ["shapley"], 1000, budget=budget, counterfactual=counterfactual)
    assert shards.texts == texts
    assert shards.count == 1000 // texts


def test_exact_methods_have_large_shards_and_others_at_most_two_hundred_texts():
    assert plan_shards(EXACT, ["shapley", "gxi"], 10_000).texts == 1000
    assert plan_shards(FUNCTION, ["loo"], 10_000, budget="20 calls").texts <= 200


def test_large_data_have_at_most_two_thousand_shards():
    shards = plan_shards(FUNCTION, ["shapley"], 1_000_000, budget="1000 calls")
    assert (shards.texts, shards.count) == (500, 2000)


def test_the_number_of_the_user_counts():
    assert plan_shards(FUNCTION, ["shapley"], 1_000_000, shard_texts=7).texts == 7


def test_an_interrupted_run_keeps_the_texts_before_the_interrupt(tmp_path):
    calls = 0

    def interrupted(texts):
        nonlocal calls
        calls += len(texts)
        if calls > 6000:
            raise KeyboardInterrupt
        return [[0.2, 0.8] if "w3" in text else [0.6, 0.4] for text in texts]

    texts = [f"w{i} w{i + 1} w3 w4 w5 w6 w7 w8 w9 w{i + 10} x y z" for i in range(20, 60)]
    model = limelight.wrap(interrupted, classes=["a", "b"], name="interrupted")
    with pytest.raises(KeyboardInterrupt):
        limelight.explain_data(
            model, texts, "shapley", output=tmp_path / "run", budget="1000 calls"
        )
    run = limelight.Run(tmp_path / "run")
    assert 0 < len(run) < len(texts)
    assert len(list(run)) == len(run)
