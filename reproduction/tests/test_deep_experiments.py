"""Deep models are trained by the common loop and kept whole; the experiments on them on toys."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import limelight
from limelight.training.texts import WEIGHTS, make_generator
from limelight_reproduction.deep import appendix_e, figure_6, networks, next_checks
from limelight_reproduction.document import OPENING
from limelight_reproduction.setting import CLASSES, Setting

from deep_toys import SHAPE, TOY, network
from toy import toy_data

HERE = Path(__file__).parent
FAST = replace(TOY, shape=replace(SHAPE, layers=1), epochs=1)


def write_data(home, name, *, classes=2):
    """Write toy data whose class is given away by one word."""
    (home / name).mkdir(parents=True)
    for part, rows, seed in (("train", 310, 0), ("test", 101, 1)):
        data = toy_data(rows, classes=classes, seed=seed)
        lines = [
            json.dumps({"text": text, "label": int(label)})
            for text, label in zip(data.texts, data.labels, strict=True)
        ]
        (home / name / f"{part}.jsonl").write_text("\n".join(lines))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    home = tmp_path_factory.mktemp("data")
    for name in CLASSES:
        write_data(home, name, classes=3 if name == "ag_news" else 2)
    return home


@pytest.fixture
def setting(data, tmp_path):
    return Setting(data=data, models=tmp_path / "models", quick=True)


@pytest.fixture(autouse=True)
def toys(monkeypatch):
    """Toy networks beside the real ones, learning at a rate that suits their size."""
    monkeypatch.setitem(networks.PLANS, "toy", TOY)
    monkeypatch.setitem(networks.PLANS, "toy-fast", FAST)
    monkeypatch.setitem(networks.PLANS, "toy-three", replace(FAST, data="ag_news"))
    recipe = networks.NetworkPlan.recipe.fget

    def quick(model):
        return replace(recipe(model), batch=8, learning_rate=0.01, dropout=0.1, average=0.9)

    monkeypatch.setattr(networks.NetworkPlan, "recipe", property(quick))


def weights(model):
    return model.network.state_dict()


def same(one, other):
    return all(torch.equal(weights(one)[name], weights(other)[name]) for name in weights(one))


# --------------------------------------------------------------------- training


@pytest.mark.slow
def test_a_deep_model_learns_what_can_be_learnt(setting):
    model = networks.load_or_train(setting, "toy")
    assert (
        limelight.evaluate(model, setting.texts("imdb", "test")).accuracy > 0.9
    )  # chance is a half
    assert model.classes == CLASSES["imdb"]
    history = model.record["history"]
    assert len(history) == TOY.epochs
    assert history[-1]["loss"] < history[0]["loss"]
    assert model.record["training_rows"] + model.record["validation_rows"] == 310


def test_accuracy_counts_the_texts_that_get_their_class(setting):
    model = networks.load_or_train(setting, "toy-three")
    data = setting.texts("ag_news", "test")
    right = model.outputs([model.read(text) for text in data.texts]).argmax(axis=1) == data.labels
    assert limelight.evaluate(model, data).accuracy == pytest.approx(right.mean())


def test_a_model_is_trained_once_and_read_again_to_the_same_outputs(setting, monkeypatch):
    first = networks.load_or_train(setting, "toy-fast")
    monkeypatch.setattr(networks, "_train", pytest.fail)
    again = networks.load_or_train(setting, "toy-fast")
    assert same(first, again)
    inputs = [first.read(text) for text in setting.texts("imdb", "test").texts[:20]]
    np.testing.assert_array_equal(first.outputs(inputs), again.outputs(inputs))
    assert again.vocabulary.words == first.vocabulary.words
    assert again.fingerprint == first.fingerprint
    assert np.ptp(first.outputs(inputs)[:, -1]) > 0


def test_training_is_a_function_of_the_seed(data, tmp_path):
    results = [
        networks.load_or_train(Setting(data=data, models=tmp_path / place, seed=seed), "toy-fast")
        for place, seed in (("a", 0), ("b", 0), ("b", 1))
    ]
    assert same(results[0], results[1])
    assert not same(results[0], results[2])


def test_first_weights_come_from_the_stream_of_the_stored_results():
    stream = np.random.default_rng([5, *networks._WEIGHTS])
    assert stream.random() == make_generator(5, WEIGHTS).random()


def test_a_repeat_is_another_training_of_the_same_network(setting, monkeypatch):
    monkeypatch.setitem(networks.PLANS, "toy-again", replace(FAST, repeat=1))
    first, again = (networks.load_or_train(setting, name) for name in ("toy-fast", "toy-again"))
    assert not same(first, again)
    assert first.network.shape == again.network.shape


def test_a_model_of_pieces_reads_them_again(setting, monkeypatch):
    monkeypatch.setitem(networks.PLANS, "toy-pieces", replace(FAST, pieces=True))
    first, again = (networks.load_or_train(setting, "toy-pieces") for _ in range(2))
    assert again.pieces.split_word("w12") == first.pieces.split_word("w12")
    assert again.fingerprint == first.fingerprint
    assert 0 < limelight.evaluate(again, setting.texts("imdb", "test")).accuracy <= 1


@pytest.mark.slow
def test_a_killed_training_leaves_no_half_written_model(data, tmp_path):
    folder = tmp_path / "models"
    environment = os.environ | {"PYTHONPATH": f"{HERE}{os.pathsep}{os.pathsep.join(sys.path)}"}
    killed = subprocess.run(
        [sys.executable, str(HERE / "killed_deep_training.py"), str(data), str(folder), "10"],
        capture_output=True, text=True, timeout=300, env=environment,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not (folder / "deep-toy").exists()


def test_a_full_disk_leaves_no_half_written_model(setting, monkeypatch):
    def full(_tensors):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(networks, "save", full)
    with pytest.raises(OSError, match="No space"):
        networks.load_or_train(setting, "toy-fast")
    assert list(setting.models.iterdir()) == []


# ---------------------------------------------------------------------- figure 6


@pytest.fixture
def small(monkeypatch):
    """Fewer samples, and toy networks of two layers at most in place of every network."""
    for module in (figure_6, next_checks):
        monkeypatch.setattr(module, "SAMPLES", 50)
    for name in {*next_checks.MODELS, appendix_e.MODEL, *appendix_e.AGAIN, *appendix_e.PLAIN}:
        shape = networks.PLANS[name].shape
        shape = replace(
            shape, layers=min(2, shape.layers), heads=3, d_e=10, d_att=5, d_hidden=11, T_max=13
        )
        monkeypatch.setitem(
            networks.PLANS, name, replace(networks.PLANS[name], shape=shape, epochs=1)
        )


@pytest.fixture
def with_document(setting):
    """The toy reviews and one that begins as the paper's does."""
    review = " ".join([OPENING, *(f"w{i}" for i in range(56)), *["w1"] * 28])
    home = setting.models.parent / "with-document" / "imdb"
    home.mkdir(parents=True)
    for part in ("train", "test"):
        text = (setting.data / "imdb" / f"{part}.jsonl").read_text()
        (home / f"{part}.jsonl").write_text(text + "\n" + json.dumps({"text": review, "label": 0}))
    return replace(setting, data=home.parent)


def test_figure_six_follows_from_stored_numbers(with_document, small, stored):
    ticks = []
    with_document.tick = lambda done, total: ticks.append((done, total))
    parts = {part.name: part for part in figure_6.EXPERIMENT.parts}
    numbers = stored({name: part.measure(with_document) for name, part in parts.items()})
    assert list(numbers) == [appendix_e.MODEL, *appendix_e.AGAIN, *appendix_e.PLAIN]
    of = numbers[appendix_e.MODEL]
    assert of["texts"] == len(of["signed"]) == len(of["output"]) == 10
    assert of["document"]["review"] == 101
    assert len(of["document"]["words"]) == 12  # the toy's window
    assert [(i, 10) for i in range(10)] == [tick for tick in ticks if tick[1] == 10]
    again = [numbers[name]["document"]["delete"]["signed"] for name in appendix_e.AGAIN]
    assert len({of["document"]["delete"]["signed"], *again}) == 3  # other weights, other scores
    result = appendix_e.findings(numbers)
    assert f"reaches {of['accuracy']:.2%}" in result.measured[0]
    assert all(len(row) == 5 for row in result.table.rows)
    ((name, _, figure),) = figure_6._figures(numbers)
    assert name == "figure-6"
    heights = [bar.get_height() for bar in figure.axes[1].patches]
    assert sum(heights) == 20


def figure_six_numbers(**changes):
    run = {"mean": [0.1, -0.2], "sd": [0.0, 0.0], "signed": -0.4, "absolute": 0.7}
    return {
        "accuracy": 0.85, "texts": 4, "samples": 50,
        "document": {"words": ["a", "b"], "alpha": [0.1, 0.2], "output": -1.0,
                     "delete": run, "unk": run},
        "output": [-1.0, -2.0, 1.0, 2.0],
        "signed": [-0.5, -0.3, 0.4, -0.2],
        "absolute": [0.4, 0.5, 0.6, 0.7],
    } | changes  # fmt: skip


def three(**changes):
    """The same numbers for the network and for its two other trainings, the first one changed."""
    names = (appendix_e.MODEL, *appendix_e.AGAIN, *appendix_e.PLAIN)
    return dict.fromkeys(names, figure_six_numbers()) | {
        appendix_e.MODEL: figure_six_numbers(**changes)
    }


def test_the_meaning_of_figure_six_counts_signs():
    result = appendix_e.findings(three())
    assert "which the network gives in 5 of 5 trainings" in result.meaning
    assert "it is for 75%" in result.meaning
    model_input = figure_six_numbers()["document"] | {"output": 1.0}
    other = appendix_e.findings(three(document=model_input))
    assert "which the network gives in 4 of 5 trainings" in other.meaning


def test_figure_six_counts_the_network_nearest_to_the_papers_first_of_five():
    run = figure_six_numbers()["document"]["delete"] | {"signed": 0.622, "absolute": 0.2}
    model_input = figure_six_numbers()["document"] | {"delete": run}
    agreeing = appendix_e.findings(three())
    result = appendix_e.findings(
        three() | {"imdb-6-plain": figure_six_numbers(document=model_input)}
    )
    with_size, with_sign, accuracy = result.verdicts
    assert with_size.holds == "similar in 4 of 5 trainings"
    assert with_size.number.startswith("0.200 as plain as the appendix; 0.700, 0.700, 0.700 with")
    assert with_sign.holds == (
        "4 of 5 trainings have the sign of the class they give; the one nearest to the paper's has "
        "the opposite one"
    )
    assert with_sign.number.startswith("+0.622 as plain as the appendix; -0.400, -0.400, -0.400 ")
    assert with_sign.parts == ("imdb-6-plain", appendix_e.MODEL, *appendix_e.AGAIN, "imdb-6-skip")
    assert "f = -1.00 and ρ = +0.622, which contradicts them" in result.meaning
    assert "which agrees" in agreeing.meaning
    assert "5 of 5 trainings have the sign" in agreeing.verdicts[1].holds
    assert accuracy.holds.endswith("in one training")


def test_figure_six_says_where_a_plain_network_has_learnt_nothing():
    numbers = three() | {"imdb-6-plain": figure_six_numbers(accuracy=0.5)}
    result = appendix_e.findings(numbers)
    assert (
        "without skip connections 50.00% of the test set and which is no better"
        in (result.measured[1])
    )
    assert "with skip connections 85.00% of the test set and ρ -0.400" in result.measured[1]
    assert result.verdicts[2].holds == "not reproduced, in one training"
    assert result.verdicts[1].holds.startswith("4 of 4 trainings have")
    assert result.verdicts[1].holds.endswith("the one nearest to the paper's learnt nothing")
    near = three() | {"imdb-6-plain": figure_six_numbers(accuracy=0.82)}
    assert appendix_e.findings(near).verdicts[2].holds == "reproduced, in one training"


@pytest.mark.parametrize("layer", ["plain", "skip", "pre-norm"])
def test_a_plain_layer_is_attention_and_a_linear_map_alone(layer):
    shape = replace(SHAPE, layers=1, layer=layer)
    full = network(shape=shape).double()
    e = torch.from_numpy(np.random.default_rng(0).standard_normal((1, 13, 10)))
    value = full.layers[0]
    heads = [
        p(e).unflatten(-1, (3, 5)).transpose(1, 2) for p in (value.query, value.key, value.value)
    ]
    alpha = torch.softmax(heads[0] @ heads[1].transpose(-1, -2) / 5**0.5, dim=-1)
    mixed = value.mixed((alpha @ heads[2]).transpose(1, 2).flatten(2))
    wanted = {"plain": mixed, "skip": e + mixed}.get(layer)
    same = wanted is not None and torch.allclose(value(e), wanted)
    assert same == (layer != "pre-norm")


@pytest.mark.parametrize(
    "changes",
    [
        {"signed": [None, -0.3, 0.4, -0.2], "absolute": [None, 0.5, 0.6, 0.7]},
        {"output": [1.0, 2.0, 3.0, 4.0]},
    ],
    ids=["a text without a correlation", "one class alone"],
)
def test_figure_six_survives_what_is_not_defined(changes):
    numbers = three(**changes)
    result = appendix_e.findings(numbers)
    assert "nan" not in " ".join([*result.measured, result.meaning])
    assert list(figure_6._figures(numbers))
    counts = {row[0]: row[1] for row in result.table.rows}
    assert 0 not in counts.values()
    assert counts[appendix_e.SIGNED] == sum(
        x is not None for x in numbers[appendix_e.MODEL]["signed"]
    )


def test_a_text_of_one_word_has_no_correlation(setting, small):
    model = networks.load_or_train(setting, "toy-fast")
    output, signed, absolute = figure_6._correlations(setting, model, "w1 w1", 0)
    assert isinstance(output, float)
    assert signed is None
    assert absolute is None


# ------------------------------------------------------------------- next checks


@pytest.mark.slow
def test_next_checks_follow_from_stored_numbers(setting, small, stored):
    numbers = stored({part.name: part.measure(setting) for part in next_checks.EXPERIMENT.parts})
    for name, of in numbers.items():
        assert of["texts"] == 10, name
        assert set(of["spearman"]) == set(next_checks.PAIRS)
        for low, middle, high in of["spearman"].values():
            assert -1 <= low <= middle <= high <= 1
    value = numbers["imdb-1"]["spearman"]
    assert value["first_g"] == value["last_g"] == value["mean_g"]
    result = next_checks._findings(numbers)
    assert len(result.table.rows) == len(next_checks.MODELS)
    assert all(len(row) == len(result.table.columns) for row in result.table.rows)
    ((name, _, figure),) = next_checks._figures(numbers)
    assert name == "next-checks"
    assert figure.axes


def test_short_texts_do_not_count(setting, small):
    model = networks.load_or_train(setting, "toy-fast")
    row, r2 = next_checks._measure_text(setting, model, "w1 w2", 0)
    assert set(row) == set(next_checks.PAIRS)
    assert set(row.values()) == {None}
    assert r2 is None


def numbers_per_depth(**medians):
    """Numbers in which every training of a depth has the given median of a pair."""
    numbers = {}
    for name in next_checks.MODELS:
        data, n = name.split("-")[:2]
        place = next_checks.DEPTHS.index(int(n))
        numbers[name] = {
            "data": data, "layers": int(n), "activation": "gelu", "pieces": False,
            "accuracy": 0.8, "texts": 10, "samples": 50, "lime_r2": [0, 0, 0],
            "spearman": {
                pair: [0, medians.get(pair, (0.9, 0.5, 0.5, 0.5))[place], 1]
                for pair in next_checks.PAIRS
            },
        }  # fmt: skip
    return numbers


@pytest.mark.parametrize(
    ("last_g", "output"),
    [
        ((0.9, 0.5, 0.4, 0.3), "with gradients falls from 2 layers on"),
        ((0.9, 0.9, 0.4, 0.3), "with gradients falls from 4 layers on"),
        ((0.9, 0.5, 0.95, 0.3), "with gradients falls from 6 layers on"),
        ((0.9, 0.5, 0.5, 0.9), "with gradients does not fall with depth"),
    ],
)
def test_the_meaning_says_from_which_depth_on_attention_loses_gradients(last_g, output):
    assert output in next_checks._meaning(numbers_per_depth(last_g=last_g))


def test_the_meaning_compares_first_and_last_layer_and_activations():
    high, low = (0.9, 0.8, 0.8, 0.8), (0.9, 0.3, 0.3, 0.3)
    better = numbers_per_depth(first_g=high, first_lime=high, last_g=low, last_lime=low)
    assert "keeps more of both at every depth" in next_checks._meaning(better)
    assert "matters less than depth" in next_checks._meaning(better)
    worse = numbers_per_depth(first_g=high, first_lime=low, last_g=low, last_lime=low)
    assert "does not keep more" in next_checks._meaning(worse)
    better["imdb-2-relu"]["spearman"]["last_lime"][1] = 0.95
    assert "matters no less than depth" in next_checks._meaning(better)
