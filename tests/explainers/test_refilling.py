"""`replacement="refill"` from texts to results: values, settings, identity, errors and commands."""

import itertools
import pickle

import numpy as np
import pytest

import limelight
from limelight import InputError
from limelight.models.loading import model_source
from limelight.text import CLS, UNK

from tiny_models import tiny_model

BACKGROUND = ["w1 w2 w2", "w7 unseen"]
TEXT = "w3 w4 w3 w5"
METHODS = ("shapley", "banzhaf", "lime", "loo")


def outputs_from_weights(model, ids):
    """The outputs for a row of ids from the weights, without tables."""
    window = np.full(model.T_max, UNK)
    window[0], window[1 : 1 + len(ids)] = CLS, ids
    e = model.embedding[window] + model.positions
    alpha = np.exp(e @ (model.W_k.transpose(0, 2, 1) @ (model.W_q @ e[0])[..., None])[..., 0].T
                   / np.sqrt(model.W_q.shape[1]))  # fmt: skip
    alpha /= alpha.sum(axis=0)
    heads = [model.W_l[k] @ (model.W_v[k] @ (alpha[:, k] @ e)) for k in range(len(model.W_q))]
    return np.mean(heads, axis=0)


def outputs_of_all_refills(model, text):
    """v of all sets of words: the mean output over all words at the removed positions."""
    model_input = model.read(text)
    ids = model_input.encoding.ids
    words = sorted(set(model_input.tokens.strings))
    feature = np.array([words.index(word) for word in model_input.tokens.strings])
    # Read from the texts again, and not from the background of the model.
    background = [int(i) for entry in BACKGROUND for i in model.read(entry).encoding.ids]
    values = []
    for mask in itertools.product([False, True], repeat=len(words)):
        (places,) = np.nonzero(~np.array(mask)[feature])
        draws = []
        for draw in itertools.product(background, repeat=len(places)):
            row = ids.copy()
            row[places] = draw
            draws.append(outputs_from_weights(model, row))
        values.append(np.mean(draws, axis=0))
    return words, np.array(values).reshape(*(2,) * len(words), -1)


def expected_scores(v, method):
    """Shapley, Banzhaf or leave-one-out values of the values of all sets."""
    d, scores = v.ndim, []
    for j in range(d):
        effect = np.diff(v, axis=j).squeeze(axis=j)
        size = np.indices(effect.shape).sum(axis=0)
        weight = {
            "shapley": 1 / (d * np.vectorize(lambda s: np.prod([
                (d - 1 - i) / (i + 1) for i in range(s)]))(size)),
            "banzhaf": np.full(effect.shape, 0.5 ** (d - 1)),
            "loo": size == d - 1,
        }[method]  # fmt: skip
        scores.append((weight * effect).sum())
    return scores


@pytest.fixture(scope="module")
def model():
    return tiny_model(3, scale=0.7).with_background(BACKGROUND)


@pytest.mark.parametrize("method", ["shapley", "banzhaf", "loo"])
@pytest.mark.parametrize("outputs", [1, 2, 3])
def test_scores_are_those_of_all_sets_and_all_refills_of_the_weights(method, outputs):
    model = tiny_model(outputs, outputs=outputs, scale=0.7).with_background(BACKGROUND)
    words, v = outputs_of_all_refills(model, TEXT)
    target = model.classes[0]
    weights = {1: [-1.0], 2: [1.0, -1.0], 3: [1.0, 0.0, 0.0]}[outputs]
    e = limelight.explain(model, TEXT, method, replacement="refill", target=target)
    expected = expected_scores(v @ weights, method)
    assert dict(zip(e.features, e.scores, strict=True)) == pytest.approx(
        dict(zip(words, expected, strict=True)), abs=e.bound + 1e-12
    )
    assert e.bound < 1e-3
    assert e.base_value == pytest.approx((v @ weights).ravel()[0], abs=1e-4)


def test_the_game_has_the_mean_output_of_every_mask(model):
    words, v = outputs_of_all_refills(model, TEXT)
    game = limelight.game(model, TEXT, replacement="refill")
    order = [words.index(word) for word in game.features]
    masks = np.array(list(itertools.product([False, True], repeat=3)))
    assert game(masks)[:, 0] == pytest.approx(v.transpose(*order, 3).ravel(), abs=1e-8)


def test_another_background_is_not_within_the_bound(model):
    """Negative control: the comparisons above tell two backgrounds apart."""
    _, v = outputs_of_all_refills(model, TEXT)
    other = model.with_background(["w1 w2", "w7 unseen"])
    e = limelight.explain(other, TEXT, "shapley", replacement="refill")
    assert np.abs(np.sort(e.scores) - np.sort(expected_scores(v[..., 0], "shapley"))).max() > 1e-3


def test_sampled_methods_agree_with_exact_ones(model):
    text = "w3 w4 w8 w5 w3 w9 w10"
    exact = limelight.explain(model, text, "shapley", replacement="refill", tolerance=1e-8)
    sampled = limelight.explain(model, text, "owen", replacement="refill", within="sentences")
    assert sampled.scores == pytest.approx(exact.scores, abs=1e-6)  # one sentence: all orders
    lime = limelight.explain(model, text, "lime", replacement="refill", tolerance=1e-8)
    noisy = limelight.explain(
        model, text, "lime-sampled", replacement="refill", ridge=0, row0=False, samples=3000
    )
    assert (np.abs(noisy.scores - lime.scores) <= 5 * noisy.stderr).all()


@pytest.mark.parametrize("method", METHODS)
def test_a_list_of_texts_gives_the_scores_of_each_text(model, method):
    texts = [TEXT, "w9", "w1 w2 w6 w2"]
    together = limelight.explain(model, texts, method, replacement="refill")
    for text, e in zip(texts, together, strict=True):
        alone = limelight.explain(model, text, method, replacement="refill")
        assert alone.scores.tolist() == e.scores.tolist()
        assert (alone.bound, alone.base_value) == (e.bound, e.base_value)
        assert e.settings["replacement"] == "refill"


def test_a_result_survives_json_and_names_its_replacement(model):
    e = limelight.explain(model, TEXT, "shapley", replacement="refill", per_head=True)
    again = limelight.Explanation.from_json(e.to_json())
    assert again == e
    assert again.settings["replacement"] == "refill"
    assert e.heads.mean(axis=0) == pytest.approx(e.scores)


def test_the_fingerprint_belongs_to_the_background(model):
    plain = model.with_background(None)
    assert plain.fingerprint == tiny_model(3, scale=0.7).fingerprint
    assert model.with_background(BACKGROUND[::-1]).fingerprint == model.fingerprint
    counts = {"w1": 1, "w2": 2, "w7": 1, "unseen": 1}
    assert model.with_background(counts).fingerprint == model.fingerprint
    others = {model.with_background(x).fingerprint for x in (["w1"], ["w2"], counts | {"w1": 2})}
    assert len(others | {plain.fingerprint, model.fingerprint}) == 5
    again = model.with_background(model.background.words(model.vocabulary))
    assert again.fingerprint == model.fingerprint
    copy = pickle.loads(pickle.dumps(model))
    assert copy.fingerprint == model.fingerprint
    assert copy.replacements == ("unk", "delete", "refill")


def test_other_replacements_do_not_change(model):
    plain = model.with_background(None)
    for method in METHODS:
        with_background = limelight.explain(model, TEXT, method)
        expected = limelight.explain(plain, TEXT, method)
        assert with_background.scores.tolist() == expected.scores.tolist()
        assert with_background.settings["replacement"] == "unk"


def test_a_run_is_not_continued_with_another_background(model, tmp_path):
    texts = [TEXT, "w1 w2 w6"]
    options = {"replacement": "refill", "output": tmp_path / "run", "progress": False}
    limelight.explain_data(model, texts, "shapley", **options)
    limelight.explain_data(model, texts, "shapley", **options)
    with pytest.raises(InputError, match="model"):
        limelight.explain_data(model.with_background(["w1"]), texts, "shapley", **options)


def test_judge_measures_deletion_by_refilling(model):
    judgment = limelight.judge(
        model, [TEXT, "w1 w2 w6 w5"], ["shapley", "loo"], replacement="refill", progress=False
    )
    assert judgment.settings["replacement"] == "refill"


def test_load_takes_a_background_and_the_command_a_file(tmp_path, capsys):
    from limelight.cli import main

    folder, file = tmp_path / "model", tmp_path / "background.csv"
    limelight.save_folder(tiny_model(3, scale=0.7), folder)
    file.write_text("text\n" + "\n".join(BACKGROUND) + "\n")
    model = limelight.load(folder, background=BACKGROUND)
    assert model_source(model).load().fingerprint == model.fingerprint  # as another process does
    e = limelight.explain(model, TEXT, "shapley", replacement="refill")
    arguments = ["explain", TEXT, "--model", str(folder), "--background", str(file)]
    arguments += ["--method", "shapley", "--set", "replacement=refill", "--format", "json"]
    with pytest.raises(SystemExit):
        main(arguments)
    shown = limelight.Explanation.from_json(capsys.readouterr().out)
    assert shown.scores == pytest.approx(e.scores)
    assert shown.model == model.fingerprint


def test_verify_checks_refills_with_another_quadrature(model):
    checks = [check for check in limelight.verify(model, TEXT) if "refill" in check.against]
    assert len(checks) == 6
    assert all(check.passed for check in checks)
