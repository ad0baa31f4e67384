"""Sampled values that were tampered with, in the folder of a method that is being learned."""

import os

import numpy as np
import pytest

import limelight
from limelight.errors import InputError

pytest.importorskip("torch", reason="methods are learned with torch (extra train)")

WORDS = [f"w{i}" for i in range(12)]


def length_scores(texts):
    results = [sum(int(word[1:]) for word in text.split()) / 10 for text in texts]
    return np.array([[-x, x] for x in results])


@pytest.fixture
def learned_folder(tmp_path, monkeypatch):
    from limelight.training import fitting

    monkeypatch.setattr(fitting, "_EPOCHS", 2)
    model = limelight.wrap(length_scores, classes=["a", "b"], scale="logit")
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, 4)) for _ in range(30)]

    def learn():
        return limelight.learn(model, texts, output=tmp_path / "method", pairs=2, judged=0)

    learn()
    return learn, tmp_path / "method" / "samples"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes in folders")
@pytest.mark.parametrize("name", ["request.json", "part-00000.npz"])
def test_a_pipe_raises_an_error_instead_of_blocking(learned_folder, name):
    learn, folder = learned_folder
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(InputError, match="must be a file, not a folder, a device or a pipe"):
        learn()


@pytest.mark.parametrize(
    "damage", [lambda x: x[0], lambda x: x * np.nan, lambda x: x.astype(int), lambda x: x[:0]]
)
def test_values_of_another_kind_are_drawn_again(learned_folder, damage):
    learn, folder = learned_folder
    part = folder / "part-00000.npz"
    full = part.read_bytes()
    with np.load(part) as stored:
        values = dict(stored)
    values["3"] = damage(values["3"])
    np.savez(part, **values)
    learn()
    assert part.read_bytes() == full


def test_a_plan_of_too_many_pairs_raises_an_error(learned_folder):
    learn, folder = learned_folder
    request = folder / "request.json"
    request.write_text(request.read_text().replace('"pairs":2}', '"pairs":2000000000}'))
    with pytest.raises(InputError, match="does not describe its sampled values"):
        learn()
