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
from option_models import KINDS, model_with

from engine_runs import answers, answers_of_models, expected, gaps, least_of_heads
from hard_texts import SIGNS, hard_texts
from tiny_models import random_texts, tiny_model

SAME = 1e-9
METHODS = list(METHODS_SHOWN)


def compared(found, want):
    """Return the largest gap of every number over all texts."""
    worst = {}
    for one, wanted in zip(found["texts"], want, strict=True):
        for name, gap in gaps(one, wanted).items():
            worst[name] = max(worst.get(name, 0.0), float(gap))
    assert len(worst) > 12
    return worst


def test_the_shipped_model_answers_as_python_does_on_the_stored_tables(shipped, tmp_path):
    texts = hard_texts(shipped, 20)
    found = answers(tmp_path, shipped, texts=texts, methods=METHODS)
    assert max(compared(found, expected(shipped, texts, precision="float32")).values()) < SAME
    with_model = compared(found, expected(shipped, texts))
    assert 1e-9 < max(with_model.values()) < 1e-6
    # The comparison can fail: other tables are not these.
    other = compared(found, expected(shipped, texts, precision="float16"))
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
        found = answers(tmp_path, model, precision=precision, texts=texts, methods=METHODS)
        same = compared(found, expected(model, texts, precision=precision))
        assert max(same.values()) < SAME * np.abs(model.tables.word_value).max()
        for one, want in zip(found["texts"], expected(model, texts), strict=True):
            for name, gap in gaps(one, want).items():
                if name in METHODS:
                    assert gap <= one[name]["bound"], (name, seed)
                    closest = max(closest, gap / one[name]["bound"])
            off = abs(np.array(one["predict"]["logits"]) - want.logits).max()
            assert off <= one["predict"]["bound"]
            judged = one["loo"]["faithfulness"]
            assert abs(judged["chance"] - want.chance) <= judged["bound"]
            assert abs(judged["area"] - want.areas["loo"]) <= judged["bound"] + 1e-9
            assert judged["greedy"] <= judged["ceiling"]
    assert closest > 0.02  # the bound is not idle


def test_heads_are_those_of_the_network_and_slopes_those_of_the_formula(tmp_path):
    """The oracle multiplies queries and keys, which the engine does not have."""
    model = tiny_model(2, outputs=3, K=2, T_max=11)
    texts = ["w1 w2 w1", "w3", " ".join(f"w{i}" for i in range(14))]
    found = answers(tmp_path, model, texts=texts, methods=["gxi"], target="class 1")["texts"]
    for text, one in zip(texts, found, strict=True):
        row = model.attention_matrices(model.read(text))[:, 0]
        for k, head in enumerate(one["heads"]["heads"]):
            read = len(head["attention"])
            assert read == len(one["heads"]["tokens"]) == min(len(text.split()), 10)
            assert head["attention"] == pytest.approx(row[k, 1 : 1 + read], abs=1e-6)
            assert head["cls"] == pytest.approx(row[k, 0], abs=1e-6)
            assert head["padding"] == pytest.approx(1 - row[k].sum(), abs=1e-6)
        outputs = [head["output"] for head in one["heads"]["heads"]]
        assert np.mean(outputs) == pytest.approx(model.logits([text])[0, 1], abs=1e-5)
        assert one["slopes"] == pytest.approx(one["gxi"]["scores"], rel=1e-5, abs=1e-7)
        assert max(map(abs, one["slopes"])) > 1e-3


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_models_with_options_are_answered_and_bounds_hold_of_them(tmp_path, precision):
    models, texts = [model_with(kind) for kind in KINDS], random_texts(4, 8)
    found = answers_of_models(tmp_path, models, precision=precision, texts=texts, methods=METHODS)
    closest = 0.0
    for kind, model, answered in zip(KINDS, models, found, strict=True):
        same = compared(answered, expected(model, texts, precision=precision))
        assert max(same.values()) < SAME * np.abs(model.tables.word_value).max(), kind
        for one, want in zip(answered["texts"], expected(model, texts), strict=True):
            for name in METHODS:
                gap = gaps(one, want).get(name, 0.0)
                assert gap <= one[name]["bound"], (kind, name)
                closest = max(closest, gap / one[name]["bound"])
            assert one["slopes"] == pytest.approx(one["gxi"]["scores"], rel=1e-5, abs=1e-7), kind
    assert closest > 0.02  # the bound is not idle


@pytest.mark.parametrize("name", ["offset", "units", "attended"])
def test_the_engine_needs_what_options_add(tmp_path, monkeypatch, name):
    """Negative control: without it, the page would answer as another model does."""
    model, texts = model_with("additive, all"), random_texts(2, 8)
    other = {"offset": [0.0] * 8, "units": None, "attended": 4}[name]
    page = sys.modules["limelight.live.live_page"]  # in its package a function bears that name
    monkeypatch.setattr(page, "pack_tables", lambda *given: pack_tables(*given) | {name: other})
    found = answers(tmp_path, model, texts=texts, methods=METHODS)
    for one, want in zip(found["texts"], expected(model, texts), strict=True):
        method = "alpha-avg" if name == "attended" else "gxi"
        assert gaps(one, want)[method] > 1e3 * one[method]["bound"]


def test_bounds_of_attention_and_gradients_are_needed_in_full(tmp_path):
    """One head and one word in float16: there is little that could cancel an error."""
    chooses = [tiny_model(seed, K=1, T_max=2) for seed in range(40)]
    averages = [replace(model, W_k=model.W_k / 1000) for model in chooses]  # all logits are 0
    models, methods = chooses + averages, ["gxi", "alpha-avg", "alpha-max", "loo"]
    found = answers_of_models(tmp_path, models, precision="float16", texts=["w1"], methods=methods)
    nearest = dict.fromkeys(methods, 0.0)
    for model, one in zip(models, found, strict=True):
        (want,), (own,) = expected(model, ["w1"], tolerance=1e-9), one["texts"]
        for name in methods:
            gap = np.abs(np.array(own[name]["scores"]) - want.scores[name]).max()
            nearest[name] = max(nearest[name], gap / own[name]["bound"])
    assert max(nearest.values()) <= 1
    assert min(nearest.values()) > 0.15, nearest


def test_the_ceiling_is_the_best_of_every_head(tmp_path):
    model = tiny_model(2, outputs=2, scale=1.3)
    texts = [text for text in random_texts(20, 2) if len(set(text.split())) < 10]
    assert len(texts) > 7
    found = answers(tmp_path, model, texts=texts, methods=["loo"])
    for one, want in zip(found["texts"], expected(model, texts, precision="float32"), strict=True):
        judged = one["loo"]["faithfulness"]
        low, least = np.array(judged["lowest"][1:]), least_of_heads(want.game)
        assert (low <= least).all()
        assert low + judged["valueBound"] == pytest.approx(least, abs=1e-9)
        assert judged["ceiling"] == pytest.approx(want.full - least.mean(), abs=judged["bound"])


@pytest.mark.parametrize("outputs", [1, 2, 3])
def test_every_class_can_be_the_target(tmp_path, outputs):
    model, texts = tiny_model(3, outputs=outputs), random_texts(3, 5)
    for index, name in enumerate(model.classes):
        found = answers(tmp_path, model, texts=texts, methods=METHODS, target=name)
        worst = compared(found, expected(model, texts, name, precision="float32"))
        assert max(worst.values()) < SAME * np.abs(model.tables.word_value).max(), name
        assert found["texts"][0]["lime"]["target"] == model.classes[index]


def test_all_removed_and_efficiency(tmp_path, shipped):
    texts = hard_texts(shipped, 6, seed=4)
    for one in answers(tmp_path, shipped, texts=texts, methods=["shapley"])["texts"]:
        own = one["shapley"]
        assert sum(own["scores"]) == pytest.approx(own["value"] - own["baseValue"], abs=1e-9)


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_a_stored_number_is_as_near_as_the_page_says(shipped, precision):
    stored, told = (
        rounded_tables(shipped, precision),
        pack_tables(shipped, precision)["rounding"],
    )
    for name in ("word_logit", "word_value"):
        kept, was = getattr(stored, name), getattr(shipped.tables, name)
        off = np.abs(kept - was)
        assert (off <= told["unit"] * np.abs(kept) + told["smallest"]).all()
        assert (off > 0.4 * told["unit"] * np.abs(kept)).any()


def points(text):
    return [ord(letter) for letter in text]


def test_texts_are_cut_and_encoded_as_in_python(shipped, tmp_path):
    rng = np.random.default_rng(1)
    pool = points("aAbB '\".,()!?;:<br />İΣσςẞﬁ😀é\u0301\u200d\x1c\x85\u2028\ufeff\u00a0שن𐐀")
    made = ["".join(map(chr, rng.choice(pool, rng.integers(1, 40)))) for _ in range(500)]
    texts = [*SIGNS, *made, " ".join(["good", "zzqx"] * 200)]
    read = [text for text in texts if tokenize(text).strings]
    found = answers(tmp_path, shipped, tokenize=texts, read=read)
    for text, own in zip(texts, found["tokens"], strict=True):
        want = tokenize(text)
        assert own["strings"] == list(want.strings), text
        assert [tuple(span) for span in own["spans"]] == list(want.spans), text
    for text, own in zip(read, found["read"], strict=True):
        model_input = shipped.read(text)
        assert own["ids"][1 : 1 + len(model_input.tokens)] == model_input.encoding.ids.tolist()
        assert own["cutAt"] == model_input.cutoff
        assert own["warnings"] == list(model_input.warnings), text


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
    told = subprocess.run([sys.executable, "-c", DIGESTS, file], capture_output=True, check=True)
    found = answers(tmp_path, shipped, digest=texts)["digests"]
    assert found == json.loads(told.stdout)
    assert len(set(found)) > 0.96 * len(texts)


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
    found = answers(tmp_path, model, texts=["  ... ;", ";", "w1"], methods=["lime", "nonsense"])
    dots, nothing, one = found["texts"]
    assert dots["predict"]["prediction"] in model.classes
    assert nothing["error"] == "the text has no words. Give at least one word."
    assert one["lime"]["scores"] == pytest.approx([one["lime"]["value"] - one["lime"]["baseValue"]])
    assert one["lime"]["intercept"] == one["lime"]["baseValue"]
    assert one["nonsense"]["error"] == (
        'no method "nonsense"; choose from: lime, shapley, loo, gxi, alpha-avg, alpha-max.'
    )
