"""The controls: networks with something held, adversaries, and the rules that judge them."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from limelight_reproduction.intervals import training_interval
from limelight_reproduction.one_layer.collapsed_texts import collapse_texts
from limelight_reproduction.questions import (
    controlled_training,
    controls,
    controls_judged,
    controls_measured,
    training_aims,
)

TINY = replace(
    controlled_training.RECIPE, heads=3, d_e=10, d_att=5, d_out=7, T_max=13, batch=8, epochs=2,
    validation=0.2, vocabulary_size=None,
)  # fmt: skip


@pytest.fixture
def prepared_texts(toy_setting):
    imdb = toy_setting.data / "imdb"
    (imdb / "train.jsonl").write_text((imdb / "test.jsonl").read_text())
    return controlled_training.prepare_texts(toy_setting, TINY)


def make_stack(prepared_texts, control="free", seeds=(0, 1)):
    return controlled_training.Stack(
        TINY, words=len(prepared_texts.vocabulary), control=control, seeds=seeds
    )


def train(stack, prepared_texts, aim, epochs=2):
    return controlled_training.train_stack(
        stack, prepared_texts, aim, epochs=epochs, device="cpu", tick=lambda *_: None
    )


@pytest.mark.parametrize("control", controlled_training.CONTROL_KINDS)
def test_what_is_held_stays_and_the_model_says_what_the_network_says(
    prepared_texts, toy_setting, control
):
    start = make_stack(prepared_texts, control)
    stack = train(
        make_stack(prepared_texts, control),
        prepared_texts,
        training_aims.classification_aim(prepared_texts, "cpu"),
    )
    moved = {
        name: not torch.equal(getattr(stack, name), getattr(start, name)) for name in ("W_k", "W_l")
    }
    assert moved == {"W_k": control != "uniform", "W_l": control != "fixed"}
    texts = toy_setting.texts("imdb", "test").texts[:1]
    for i, model in enumerate(controlled_training.build_classifiers(stack, prepared_texts)):
        seen = collapse_texts(model, texts)
        ids = torch.from_numpy(seen.arrays.ids.astype(np.int64)).expand(2, -1, -1)
        outputs, alpha = (x.detach().numpy()[i] for x in stack(ids))
        np.testing.assert_allclose(model.logits(texts), outputs, atol=1e-5)
        np.testing.assert_allclose(seen.alpha.mean(axis=1), alpha, atol=1e-6)
        if control == "uniform":
            np.testing.assert_allclose(alpha, 1 / 13, atol=1e-6)


def test_networks_of_a_stack_are_trained_as_each_would_be_alone(prepared_texts):
    aim = training_aims.classification_aim(prepared_texts, "cpu")
    stack = train(make_stack(prepared_texts), prepared_texts, aim)
    for i in range(2):
        single = train(make_stack(prepared_texts, seeds=(i,)), prepared_texts, aim)
        for name, weight in stack.named_parameters():
            torch.testing.assert_close(weight[i], getattr(single, name)[0], atol=1e-5, rtol=1e-4)
    assert not torch.allclose(stack.W_k[0], stack.W_k[1])


def test_the_epoch_that_is_kept_is_the_best_of_every_network_by_itself(prepared_texts):
    stack = make_stack(prepared_texts)
    before = {name: weight.detach().clone() for name, weight in stack.named_parameters()}
    best_weights = {name: weight.clone() for name, weight in before.items()}
    best_loss = torch.tensor([1.0, 1.0])
    with torch.no_grad():
        for weight in stack.parameters():
            weight += 1
    controlled_training._save_best_weights(stack, best_loss, best_weights, torch.tensor([0.5, 2.0]))
    assert best_loss.tolist() == [0.5, 1.0]
    torch.testing.assert_close(best_weights["W_v"][0], before["W_v"][0] + 1)
    torch.testing.assert_close(best_weights["W_v"][1], before["W_v"][1])


def test_an_adversary_moves_its_attention_more_the_more_it_counts(prepared_texts):
    first = make_stack(prepared_texts)
    run = lambda ids: controlled_training.run_in_chunks(first, ids, "cpu")  # noqa: E731
    objectives = [("jsd", 0.0), ("jsd", 20.0), ("kl", 20.0), ("words", 20.0)]
    aim = training_aims.adversarial_aim(
        run, prepared_texts, first_indices=[1] * 4, objectives=objectives, device="cpu"
    )
    stack = train(make_stack(prepared_texts, seeds=(5, 6, 7, 8)), prepared_texts, aim, epochs=6)
    measures = controlled_training.compare_with_first(
        stack, first, first_indices=[1] * 4, texts=prepared_texts.training, device="cpu"
    )
    assert measures["jsd"][1] > 2 * measures["jsd"][0]
    assert measures["jsd"][2] > 2 * measures["jsd"][0]
    assert measures["words"][3] > 2 * measures["words"][0]


@torch.no_grad()
def test_the_loss_of_an_adversary_is_wiegreffe_and_pinters(prepared_texts):
    first, adversary = make_stack(prepared_texts), make_stack(prepared_texts, seeds=(8, 9))
    first.W_k *= 400  # attention that is far from uniform, or no divergence would show
    adversary.W_k *= 400
    run = lambda ids: controlled_training.run_in_chunks(first, ids, "cpu")  # noqa: E731
    objectives = [("kl", 0.3), ("jsd", 0.4)]
    aim = training_aims.adversarial_aim(
        run, prepared_texts, first_indices=[1, 0], objectives=objectives, device="cpu"
    )
    rows = torch.tensor([[0, 2, 1], [3, 0, 2]])
    ids = torch.from_numpy(prepared_texts.training.ids).long()
    outputs, alpha = adversary(ids[rows])
    for share in (1.0, 0.5):
        loss = aim.training_loss(rows, outputs, alpha, share)
        for i, base in enumerate((1, 0)):
            first_outputs, first_alpha = (x[base] for x in first(ids[rows[i]].expand(2, -1, -1)))
            p, q = outputs[i].softmax(-1), first_outputs.softmax(-1)
            tvd = (p - q).abs().max(dim=-1).values.mean()  # of two classes: that of one
            m = (alpha[i] + first_alpha) / 2
            kl = F.kl_div(first_alpha.log(), alpha[i], reduction="none").sum(-1).mean()
            jsd = sum(
                F.kl_div(m.log(), x, reduction="none").sum(-1).mean() / 2
                for x in (alpha[i], first_alpha)
            )
            assert min(kl, jsd) > 1e-3
            expected = tvd - share * (0.3 * kl if i == 0 else 0.4 * jsd)
            assert float(loss[i]) == pytest.approx(float(expected), abs=3e-5)


def test_the_divergence_is_jensen_and_shannons():
    p, q = torch.tensor([[1.0, 0.0], [0.3, 0.7]]), torch.tensor([[0.0, 1.0], [0.3, 0.7]])
    result = training_aims.divergence(p, q)
    assert result.tolist() == pytest.approx([math.log(2), 0.0], abs=1e-6)
    padded = (F.pad(distribution, (1, 2)) for distribution in (p, q))
    assert training_aims.divergence(*padded).tolist() == pytest.approx(result.tolist())


# ------------------------------------------------------------------------ the rules


def test_an_interval_over_trainings_and_texts_covers_what_it_should():
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(500):
        moved = 0.3 * rng.standard_normal()  # by the texts, all trainings together
        middle, low, high = training_interval(
            (1 + moved + 0.5 * rng.standard_normal(4)).tolist(), 0.3
        )
        assert low < middle < high
        inside += low < 1 < high
    assert 0.93 <= inside / 500 <= 1


@pytest.mark.parametrize(
    ("loss", "verdict"),
    [
        ([0.05, 0.03, 0.07], "it is"),
        ([0.012, 0.006, 0.018], "hardly"),
        ([0.002, -0.004, 0.008], "no loss shown"),
        ([-0.02, -0.03, -0.01], "no, the model does better without"),
        ([0.02, 0.01, 0.03], "undecided"),
    ],
)
def test_what_is_held_is_needed_or_not_by_its_interval(loss, verdict):
    assert controls_judged.judge_need(loss) == verdict


def test_what_is_lost_is_what_the_free_model_gets_right_and_the_held_one_does_not():
    right = np.array([[True, True, False, True], [True, True, True, True]])
    loss = controls_measured._accuracy_loss(right, np.array([[False, True, False, True]] * 2))
    assert loss["lost"].tolist() == [0.25, 0.5]
    assert loss["text_error"] == pytest.approx(np.std([1, 0, 0.5, 0], ddof=1) / 2)


OTHER_SEEDS = {"accuracy": [0.85] * 2, "tvd": [0.06] * 2, "jsd": [0.02] * 2, "words": [0.01] * 2}


def adversary(weight, *, tvd, jsd, accuracy=0.85, words=0.01):
    numbers = {"divergence": "jsd", "weight": weight, "words": [words] * 2}
    return numbers | {"tvd": [tvd] * 2, "jsd": [jsd] * 2, "accuracy": [accuracy] * 2}


@pytest.mark.parametrize(
    ("strong", "verdict"),
    [
        (adversary(0.1, tvd=0.05, jsd=0.5), "it can"),
        (adversary(0.1, tvd=0.05, jsd=0.2), "in part"),
        (adversary(0.1, tvd=0.30, jsd=0.68), "not here"),
        (adversary(0.1, tvd=0.05, jsd=0.5, accuracy=0.80), "not here"),  # other mistakes
    ],
)
def test_attention_can_be_trained_away_only_at_the_same_predictions(strong, verdict):
    plain = adversary(0.0, tvd=0.04, jsd=0.02)
    assert controls_judged.judge_adversaries([plain, strong], OTHER_SEEDS) == verdict


def test_attention_that_goes_to_no_word_is_not_attention_to_other_words():
    plain, strong = adversary(0.0, tvd=0.04, jsd=0.02), adversary(0.1, tvd=0.05, jsd=0.5)
    assert controls_judged.judge_adversaries([plain, strong], OTHER_SEEDS) == "it can"
    assert (
        controls_judged.judge_adversaries([plain, strong], OTHER_SEEDS, distance="words")
        == "not here"
    )


def test_attention_over_words_leaves_out_cls_and_padding():
    ids = np.array([[0, 5, 1, 6, 1, 1], [0, 5, 6, 7, 8, 9]], np.int32)  # an unknown word inside
    words = training_aims.word_mask(ids)
    assert words.astype(int).tolist() == [[0, 1, 1, 1, 0, 0], [0, 1, 1, 1, 1, 1]]
    alpha = torch.tensor([[0.5, 0.1, 0.1, 0.2, 0.05, 0.05], [0.5, 0.1, 0.1, 0.1, 0.1, 0.1]])
    shares = training_aims.restrict_to_words(alpha, torch.from_numpy(words))
    torch.testing.assert_close(shares[0], torch.tensor([0, 0.25, 0.25, 0.5, 0, 0]))
    torch.testing.assert_close(shares[1], torch.tensor([0, 0.2, 0.2, 0.2, 0.2, 0.2]))


def test_where_no_network_imitates_nothing_is_decided():
    plain = adversary(0.0, tvd=0.09, jsd=0.02)
    verdict = controls_judged.judge_adversaries(
        [plain, adversary(0.1, tvd=0.01, jsd=0.6)], OTHER_SEEDS
    )
    assert verdict.startswith("undecided")


def test_the_measures_of_toy_reviews_can_be_written(
    prepared_texts, toy_setting, monkeypatch, stored
):
    monkeypatch.setattr(controls_measured, "RECIPE", TINY)
    monkeypatch.setattr(controls_measured, "RECIPES", {"paper": TINY})
    monkeypatch.setattr(controls_measured, "ADVERSARIES", (("jsd", 0.0), ("kl", 0.1)))
    monkeypatch.setattr(controls_measured, "ON_WORDS", (("words", 0.0), ("jsd", 0.1)))
    numbers = stored({part.name: part.measure(toy_setting) for part in controls.EXPERIMENT.parts})
    findings = controls.EXPERIMENT.findings(numbers)
    assert "nan" not in json.dumps([findings.headline, *findings.measured, findings.meaning])
    assert all(len(row) == len(findings.table.columns) for row in findings.table.rows)
    assert list(controls.EXPERIMENT.figures(numbers))
    kinds = numbers["held"]["kinds"]
    assert kinds["free"]["lost"] == [0, 0, 0]
    loss = np.array(kinds["free"]["accuracy"]) - kinds["uniform"]["accuracy"]
    np.testing.assert_allclose(kinds["uniform"]["lost"], loss, atol=1e-3)
