"""The page's engine in node, and what Python says on the same tables."""

import itertools
import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from limelight.live import rounded_tables
from limelight.live.live_page import METHODS_SHOWN, live_data
from limelight.models import class_weights
from limelight.models.attention.collapsed import CollapsedInputs
from limelight.rendering.bundle import bundle_module
from limelight.request import Targets, target_indices
from limelight.text import build_features
from limelight.theory.attention import max_attention, mean_attention
from limelight.theory.faithfulness import (
    deletion_area,
    deletion_curves,
    greedy_order,
    random_removal_mean,
    size_extremes,
)
from limelight.theory.gradient import gradient_times_input
from limelight.theory.leave_one_out import leave_one_out
from limelight.theory.lime import lime
from limelight.theory.ratio_game import (
    combine_outputs,
    empty_value,
    extract_document,
    full_value,
    head_values,
    select_documents,
)
from limelight.theory.shapley import shapley

_TOGETHER = 16
DRIVER = Path(__file__).parent / "driver.js"
FILES = """
import { readFileSync, writeFileSync } from "node:fs";
import { createHash } from "node:crypto";
const [, , asked, answered] = process.argv;
globalThis.digestOf = (text) => createHash("sha256").update(text).digest("hex");
"""
RUN = """
const questions = JSON.parse(readFileSync(asked, "utf8"));
writeFileSync(answered, JSON.stringify(questions.map(answersTo)));
"""


def answers(folder, model, *, precision="float32", **asked):
    """Ask the engine in node; the test is skipped, and says so, where there is none."""
    return answers_of_models(folder, [model], precision=precision, **asked)[0]


def answers_of_models(folder, models, *, precision="float32", **asked):
    """Ask several models the same in one process."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    script, question, answer = (folder / name for name in ("run.mjs", "asked.json", "found.json"))
    script.write_text(FILES + bundle_module(DRIVER) + RUN, "utf-8")
    questions = [{"model": live_data(model, precision, ""), **asked} for model in models]
    question.write_text(json.dumps(questions), "utf-8")
    subprocess.run([node, script, question, answer], check=True, timeout=300)
    return json.loads(answer.read_text("utf-8"))


def read_tables(model, precision=None):
    """The model as its own tables have it, or as those that a page stores."""
    tables = model.tables if precision is None else rounded_tables(model, precision)
    names = ("T_max", "table_errors", "embedding", "positions", "directions")
    arguments = {name: getattr(model, name) for name in names}
    return SimpleNamespace(
        tables=tables, device_tables=None, attention_matrices=model.attention_matrices, **arguments
    )


def expected_results(model, texts, target=None, *, precision=None, tolerance=1e-12):
    """Return all scores and the faithfulness of every text, from the theory in NumPy."""
    # Documents of one batch are padded to the longest, so those of a size go together.
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    result = [None] * len(texts)
    for start in range(0, len(order), _TOGETHER):
        values = order[start : start + _TOGETHER]
        for i, value in zip(
            values,
            _batch(model, [texts[i] for i in values], target, precision, tolerance),
            strict=True,
        ):
            result[i] = value
    return result


def _batch(model, texts, target, precision, tolerance):
    inputs = tuple(map(model.read, texts))
    features = tuple(map(build_features, inputs))
    arrays = CollapsedInputs(model=read_tables(model, precision), inputs=inputs, features=features)
    outputs = full_value(arrays.game)
    index = target_indices(target, model.classes, outputs)
    weights = np.array(Targets(index, model.classes).output_gradient(outputs))
    game = combine_outputs(arrays.game, weights)
    u = arrays.target_u(weights)
    read = arrays.read_u(weights)
    products = gradient_times_input(arrays.alpha, u, arrays.read_logit, linear_u=read)
    pooled = {
        "gxi": arrays.pool_features(products.mean(axis=-2)[..., 1:]),
        "alpha-avg": arrays.pool_features(mean_attention(arrays.attention)[..., 1:]),
        "alpha-max": arrays.pool_features(max_attention(arrays.attention)[..., 1:]),
    }
    values = [i for i, own_value in enumerate(features) if len(own_value) > 1]
    limits = lime(select_documents(game, values), tolerance=tolerance) if values else None
    exact = {
        "shapley": shapley(game, tolerance=tolerance).scores[:, 0],
        "loo": leave_one_out(game).scores[:, 0],
    }
    for i, feature in enumerate(features):
        scores = {name: rows[i, : len(feature)] for name, rows in exact.items()}
        scores |= {name: rows[i] for name, rows in pooled.items()}
        if i in values:
            scores["lime"] = limits.scores[values.index(i), 0, : len(feature)]
        else:
            scores["lime"] = scores["loo"]  # the line through the text with and without its word
        single = replace(extract_document(game, i), error=None)
        yield SimpleNamespace(
            features=feature,
            game=single,
            scores=scores,
            logits=class_weights(len(model.classes), outputs.shape[1]) @ outputs[i],
            **_faithfulness(single, scores, tolerance),
        )


def _faithfulness(game, scores, tolerance):
    full, remaining = full_value(game)[0], random_removal_mean(game, tolerance=tolerance).value
    orders = np.array([np.argsort(-score, kind="stable") for score in scores.values()])
    areas = deletion_area(deletion_curves(game, orders))
    greedy = deletion_area(deletion_curves(game, greedy_order(game)[None]))[0]
    return {
        "full": full,
        "empty": empty_value(game)[0],
        "chance": full - remaining,
        "low": size_extremes(game).low,
        "greedy": greedy,
        "areas": dict(zip(scores, areas, strict=True)),
    }


def least_of_heads(game):
    """The mean over heads of min f over the sets of k removed words, k = 1..d, by trying all."""
    masks = np.array(list(itertools.product([True, False], repeat=game.d)))
    values, removed = head_values(game, masks)[0], (~masks).sum(axis=1)
    return np.array([values[:, removed == k].min(axis=1).mean() for k in range(1, game.d + 1)])


def gaps(found, want):
    """Return how far each number of the engine's answer is from what is wanted."""
    out = {"predict": np.abs(np.array(found["predict"]["logits"]) - want.logits).max()}
    for method in METHODS_SHOWN:
        own_value = found[method]
        assert own_value["features"] == list(want.features.strings)
        assert [[tuple(s) for s in spans] for spans in own_value["spans"]] == [
            list(spans) for spans in want.features.spans
        ]
        out[method] = np.abs(np.array(own_value["scores"]) - want.scores[method]).max()
        judged = own_value["faithfulness"]
        out[f"{method} area"] = abs(judged["area"] - want.areas[method])
        out["chance"] = abs(judged["chance"] - want.chance)
        # The engine's is lowered by what the tables may be off, which its bound says.
        low = np.array(judged["lowest"][1:]) + judged["valueBound"]
        out["lowest"] = np.abs(low - want.low).max()
        out["greedy"] = abs(judged["greedy"] - want.greedy)
        out["value"] = max(
            abs(own_value["value"] - want.full), abs(own_value["baseValue"] - want.empty)
        )
    return out
