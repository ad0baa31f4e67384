"""The engine of the page says what Python says, and its bounds hold of the model."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from limelight.live import rounded_tables
from limelight.live.live_page import METHODS_SHOWN, pack_tables
from limelight.text import tokenize
from option_models import KINDS, make_model

from engine_runs import answers, answers_of_models, expected_results, gaps, least_of_heads
from hard_texts import SIGNS, hard_texts
from tiny_models import random_texts, tiny_model

SAME = 1e-9
METHODS = list(METHODS_SHOWN)


def compare_results(found, want):
    """Return the largest gap of every number over all texts."""
    worst = {}
    for value, wanted in zip(found["texts"], want, strict=True):
        for name, gap in gaps(value, wanted).items():
            worst[name] = max(worst.get(name, 0.0), float(gap))
    assert len(worst) > 12
    return worst


def test_the_shipped_model_answers_as_python_does_on_the_stored_tables(shipped, tmp_path):
    texts = hard_texts(shipped, 20)
    result = answers(tmp_path, shipped, texts=texts, methods=METHODS)
    assert (
        max(compare_results(result, expected_results(shipped, texts, precision="float32")).values())
        < SAME
    )
    with_model = compare_results(result, expected_results(shipped, texts))
    assert 1e-9 < max(with_model.values()) < 1e-6
    # The comparison can fail: other tables are not these.
    other = compare_results(result, expected_results(shipped, texts, precision="float16"))
    assert all(gap > SAME for gap in other.values())


@pytest.mark.parametrize("outputs", [1, 2, 5])
@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_any_number_of_classes_is_answered_and_bounds_hold_of_the_model(
    tmp_path, outputs, precision
):
    """On weights that make every head choose, where rounding of the tables costs most."""
    closest = 0.0
    for seed, scale in enumerate((0.5, 1.2)):
        model = tiny_model(seed, outputs=outputs, scale=scale)
        texts = random_texts(12, seed)
        result = answers(tmp_path, model, precision=precision, texts=texts, methods=METHODS)
        same = compare_results(result, expected_results(model, texts, precision=precision))
        assert max(same.values()) < SAME * np.abs(model.tables.word_value).max()
        for value, want in zip(result["texts"], expected_results(model, texts), strict=True):
            for name, gap in gaps(value, want).items():
                if name in METHODS:
                    assert gap <= value[name]["bound"], (name, seed)
                    closest = max(closest, gap / value[name]["bound"])
            off = abs(np.array(value["predict"]["logits"]) - want.logits).max()
            assert off <= value["predict"]["bound"]
            judged = value["loo"]["faithfulness"]
            assert abs(judged["chance"] - want.chance) <= judged["bound"]
            assert abs(judged["area"] - want.areas["loo"]) <= judged["bound"] + 1e-9
            assert judged["greedy"] <= judged["ceiling"]
    assert closest > 0.02  # the bound is not idle


def test_heads_are_those_of_the_network_and_slopes_those_of_the_formula(tmp_path):
    """The oracle multiplies queries and keys, which the engine does not have."""
    model = tiny_model(2, outputs=3, K=2, T_max=11)
    texts = ["w1 w2 w1", "w3", " ".join(f"w{i}" for i in range(14))]
    result = answers(tmp_path, model, texts=texts, methods=["gxi"], target="class 1")["texts"]
    for text, value in zip(texts, result, strict=True):
        row = model.attention_matrices(model.read(text))[:, 0]
        for k, head in enumerate(value["heads"]["heads"]):
            read = len(head["attention"])
            assert read == len(value["heads"]["tokens"]) == min(len(text.split()), 10)
            assert head["attention"] == pytest.approx(row[k, 1 : 1 + read], abs=1e-6)
            assert head["cls"] == pytest.approx(row[k, 0], abs=1e-6)
            assert head["padding"] == pytest.approx(1 - row[k].sum(), abs=1e-6)
        outputs = [head["output"] for head in value["heads"]["heads"]]
        assert np.mean(outputs) == pytest.approx(model.logits([text])[0, 1], abs=1e-5)
        assert value["slopes"] == pytest.approx(value["gxi"]["scores"], rel=1e-5, abs=1e-7)
        assert max(map(abs, value["slopes"])) > 1e-3


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_models_with_options_are_answered_and_bounds_hold_of_them(tmp_path, precision):
    models, texts = [make_model(kind) for kind in KINDS], random_texts(4, 8)
    result = answers_of_models(tmp_path, models, precision=precision, texts=texts, methods=METHODS)
    closest = 0.0
    for kind, model, answered in zip(KINDS, models, result, strict=True):
        same = compare_results(answered, expected_results(model, texts, precision=precision))
        assert max(same.values()) < SAME * np.abs(model.tables.word_value).max(), kind
        for value, want in zip(answered["texts"], expected_results(model, texts), strict=True):
            for name in METHODS:
                gap = gaps(value, want).get(name, 0.0)
                assert gap <= value[name]["bound"], (kind, name)
                closest = max(closest, gap / value[name]["bound"])
            assert value["slopes"] == pytest.approx(value["gxi"]["scores"], rel=1e-5, abs=1e-7), (
                kind
            )
    assert closest > 0.02  # the bound is not idle


@pytest.mark.parametrize("name", ["offset", "units", "attended"])
def test_the_engine_needs_what_options_add(tmp_path, monkeypatch, name):
    """Negative control: without it, the page would answer as another model does."""
    model, texts = make_model("additive, all"), random_texts(2, 8)
    other = {"offset": [0.0] * 8, "units": None, "attended": 4}[name]
    page = sys.modules["limelight.live.live_page"]  # in its package a function bears that name
    monkeypatch.setattr(
        page, "pack_tables", lambda *arguments: pack_tables(*arguments) | {name: other}
    )
    result = answers(tmp_path, model, texts=texts, methods=METHODS)
    for value, want in zip(result["texts"], expected_results(model, texts), strict=True):
        method = "alpha-avg" if name == "attended" else "gxi"
        assert gaps(value, want)[method] > 1e3 * value[method]["bound"]


def test_bounds_of_attention_and_gradients_are_needed_in_full(tmp_path):
    """One head and one word in float16: there is little that could cancel an error."""
    chooses = [tiny_model(seed, K=1, T_max=2) for seed in range(40)]
    averages = [replace(model, W_k=model.W_k / 1000) for model in chooses]  # all logits are 0
    models, methods = chooses + averages, ["gxi", "alpha-avg", "alpha-max", "loo"]
    result = answers_of_models(tmp_path, models, precision="float16", texts=["w1"], methods=methods)
    nearest = dict.fromkeys(methods, 0.0)
    for model, value in zip(models, result, strict=True):
        (want,), (own_value,) = expected_results(model, ["w1"], tolerance=1e-9), value["texts"]
        for name in methods:
            gap = np.abs(np.array(own_value[name]["scores"]) - want.scores[name]).max()
            nearest[name] = max(nearest[name], gap / own_value[name]["bound"])
    assert max(nearest.values()) <= 1
    assert min(nearest.values()) > 0.15, nearest


def test_the_ceiling_is_the_best_of_every_head(tmp_path):
    model = tiny_model(2, outputs=2, scale=1.3)
    texts = [text for text in random_texts(20, 2) if len(set(text.split())) < 10]
    assert len(texts) > 7
    result = answers(tmp_path, model, texts=texts, methods=["loo"])
    for value, want in zip(
        result["texts"], expected_results(model, texts, precision="float32"), strict=True
    ):
        judged = value["loo"]["faithfulness"]
        low, least = np.array(judged["lowest"][1:]), least_of_heads(want.game)
        assert (low <= least).all()
        assert low + judged["valueBound"] == pytest.approx(least, abs=1e-9)
        assert judged["ceiling"] == pytest.approx(want.full - least.mean(), abs=judged["bound"])


@pytest.mark.parametrize("outputs", [1, 2, 3])
def test_every_class_can_be_the_target(tmp_path, outputs):
    model, texts = tiny_model(3, outputs=outputs), random_texts(3, 5)
    for index, name in enumerate(model.classes):
        result = answers(tmp_path, model, texts=texts, methods=METHODS, target=name)
        worst = compare_results(result, expected_results(model, texts, name, precision="float32"))
        assert max(worst.values()) < SAME * np.abs(model.tables.word_value).max(), name
        assert result["texts"][0]["lime"]["target"] == model.classes[index]


def test_all_removed_and_efficiency(tmp_path, shipped):
    texts = hard_texts(shipped, 6, seed=4)
    for answer in answers(tmp_path, shipped, texts=texts, methods=["shapley"])["texts"]:
        own_value = answer["shapley"]
        assert sum(own_value["scores"]) == pytest.approx(
            own_value["value"] - own_value["baseValue"], abs=1e-9
        )


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_a_stored_number_is_as_near_as_the_page_says(shipped, precision):
    stored, output = (
        rounded_tables(shipped, precision),
        pack_tables(shipped, precision)["rounding"],
    )
    for name in ("word_logit", "word_value"):
        keep, was = getattr(stored, name), getattr(shipped.tables, name)
        off = np.abs(keep - was)
        assert (off <= output["unit"] * np.abs(keep) + output["smallest"]).all()
        assert (off > 0.4 * output["unit"] * np.abs(keep)).any()


def points(text):
    return [ord(letter) for letter in text]


def test_texts_are_cut_and_encoded_as_in_python(shipped, tmp_path):
    rng = np.random.default_rng(1)
    pool = points("aAbB '\".,()!?;:<br />İΣσςẞﬁ😀é\u0301\u200d\x1c\x85\u2028\ufeff\u00a0שن𐐀")
    created = ["".join(map(chr, rng.choice(pool, rng.integers(1, 40)))) for _ in range(500)]
    texts = [*SIGNS, *created, " ".join(["good", "zzqx"] * 200)]
    read = [text for text in texts if tokenize(text).strings]
    result = answers(tmp_path, shipped, tokenize=texts, read=read)
    for text, own_value in zip(texts, result["tokens"], strict=True):
        want = tokenize(text)
        assert own_value["strings"] == list(want.strings), text
        assert [tuple(span) for span in own_value["spans"]] == list(want.spans), text
    for text, own_value in zip(read, result["read"], strict=True):
        model_input = shipped.read(text)
        assert (
            own_value["ids"][1 : 1 + len(model_input.tokens)] == model_input.encoding.ids.tolist()
        )
        assert own_value["cutAt"] == model_input.cutoff
        assert own_value["warnings"] == list(model_input.warnings), text


@pytest.mark.slow
def test_reviews_are_cut_as_in_python(shared, shipped, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(shared / "data/imdb/test.parquet")["text"].to_pylist()
    # All with letters beyond ASCII, where two languages may differ, and every sixth of the rest.
    texts = [text for i, text in enumerate(table) if i % 6 == 0 or not text.isascii()]
    assert len(texts) > 6_000
    file = tmp_path / "texts.json"
    file.write_text(json.dumps(texts), "utf-8")
    # In a process of its own: here every call is checked, which takes ten times as long.
    process = subprocess.run([sys.executable, "-c", DIGESTS, file], capture_output=True, check=True)
    result = answers(tmp_path, shipped, digest=texts)["digests"]
    assert result == json.loads(process.stdout)
    assert len(set(result)) > 0.96 * len(texts)


DIGESTS = """
import hashlib, json, sys
from pathlib import Path
from limelight.text import tokenize

def digest(text):
    tokens = tokenize(text)
    content = json.dumps([tokens.strings, tokens.spans], ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(content.encode()).hexdigest()

print(json.dumps([digest(text) for text in json.loads(Path(sys.argv[1]).read_text())]))
"""


def test_an_impossible_request_has_a_message(tmp_path):
    model = tiny_model()
    result = answers(tmp_path, model, texts=["  ... ;", ";", "w1"], methods=["lime", "nonsense"])
    dots, empty, value = result["texts"]
    assert dots["predict"]["prediction"] in model.classes
    assert empty["error"] == "the text has no words. Give at least one word."
    assert value["lime"]["scores"] == pytest.approx(
        [value["lime"]["value"] - value["lime"]["baseValue"]]
    )
    assert value["lime"]["intercept"] == value["lime"]["baseValue"]
    assert value["nonsense"]["error"] == (
        'no method "nonsense"; choose from: lime, shapley, loo, gxi, alpha-avg, alpha-max.'
    )
