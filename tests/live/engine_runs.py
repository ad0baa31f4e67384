"""The page's engine in node, and what Python says on the same tables."""

import json
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from limelight.explainers.targets import Targets
from limelight.live import stored_tables
from limelight.live.live_page import METHODS_SHOWN, _data
from limelight.models.attention.collapsed import CollapsedDocuments
from limelight.render.script_bundle import bundled
from limelight.text import features_of
from limelight.theory.attention import max_attention, mean_attention
from limelight.theory.faithfulness import (
    deletion_area,
    deletion_curves,
    mean_removed_value,
    size_extremes,
)
from limelight.theory.gradient import gradient_times_input
from limelight.theory.leave_one_out import leave_one_out
from limelight.theory.lime import lime
from limelight.theory.per_document import one_document
from limelight.theory.ratio_game import empty_value, full_value, of_outputs
from limelight.theory.shapley import shapley

DRIVER = Path(__file__).parent / "driver.js"
FILES = """
import { readFileSync, writeFileSync } from "node:fs";
const [, , asked, answered] = process.argv;
"""
RUN = (
    '\nwriteFileSync(answered, JSON.stringify(answersTo(JSON.parse(readFileSync(asked, "utf8")))));'
)


def answers(folder, model, *, precision="float32", **asked):
    """Ask the engine in node; the test is skipped, and says so, where there is none."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    script, question, answer = (folder / name for name in ("run.mjs", "asked.json", "found.json"))
    script.write_text(FILES + bundled(DRIVER) + RUN, "utf-8")
    question.write_text(json.dumps({"model": _data(model, precision, ""), **asked}), "utf-8")
    subprocess.run([node, script, question, answer], check=True, timeout=300)
    return json.loads(answer.read_text("utf-8"))


def tabled(model, precision=None):
    """The model as its own tables have it, or as those that a page stores."""
    tables = model.tables if precision is None else stored_tables(model, precision).tables
    names = ("T_max", "table_errors", "embedding", "positions", "directions")
    given = {name: getattr(model, name) for name in names}
    return SimpleNamespace(
        tables=tables, device_tables=None, attention_matrices=model.attention_matrices, **given
    )


def expected(model, text, target, *, precision=None, tolerance=1e-12):
    """Return all scores and the faithfulness of one text, from the theory in NumPy."""
    document = model.read(text)
    features = features_of(document)
    arrays = CollapsedDocuments(
        model=tabled(model, precision), documents=(document,), features=(features,)
    )
    outputs = full_value(arrays.game)
    weights = np.array(
        Targets(np.array([target]), model.classes).weights(np.asarray(outputs)), dtype=float
    )
    game = of_outputs(arrays.game, weights)
    u = np.einsum("nc,nckt->nkt", weights, arrays.u)
    scores = {
        "shapley": shapley(game, tolerance=tolerance).scores[0, 0],
        "loo": leave_one_out(game).scores[0, 0],
        "gxi": arrays.pooled(
            gradient_times_input(arrays.alpha, u, arrays.logit)[..., 1:].mean(axis=-2)
        )[0],
        "alpha-avg": arrays.pooled(mean_attention(arrays.alpha)[..., 1:])[0],
        "alpha-max": arrays.pooled(max_attention(arrays.alpha)[..., 1:])[0],
    }
    alone = one_document(game, 0)
    found = {"full": float(full_value(alone)[0]), "empty": float(empty_value(alone)[0])}
    if len(features) > 1:
        limit = lime(game, tolerance=tolerance)
        scores["lime"], found["intercept"] = limit.scores[0, 0], float(limit.intercept[0, 0])
    found["chance"] = found["full"] - float(mean_removed_value(alone, tolerance=tolerance).value)
    found["low"] = size_extremes(alone).low
    found["outputs"] = np.asarray(outputs)[0]
    found["areas"] = {
        name: float(deletion_area(deletion_curves(alone, np.argsort(-own, kind="stable")[None]))[0])
        for name, own in scores.items()
    }
    return SimpleNamespace(features=features, scores=scores, document=document, **found)


def gaps(found, want):
    """Return how far each number of the engine's answer is from what is wanted."""
    out = {"predict": np.abs(np.array(found["predict"]["logits"]) - want.outputs).max()}
    for method in METHODS_SHOWN:
        own = found[method]
        if method not in want.scores:
            assert "at least 2 words" in own["error"]
            continue
        assert own["features"] == list(want.features.strings)
        assert [[tuple(s) for s in spans] for spans in own["spans"]] == [
            list(spans) for spans in want.features.spans
        ]
        out[method] = np.abs(np.array(own["scores"]) - want.scores[method]).max()
        judged = own["faithfulness"]
        out[f"{method} area"] = abs(judged["area"] - want.areas[method])
        out["chance"] = abs(judged["chance"] - want.chance)
        out["lowest"] = np.abs(np.array(judged["lowest"][1:]) - want.low).max()
        out["value"] = max(abs(own["value"] - want.full), abs(own["baseValue"] - want.empty))
    return out
