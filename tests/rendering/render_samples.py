"""Explanations made by hand, for every renderer."""

import numpy as np

from limelight.models.attention import encode_text
from limelight.results import Comparison, Explanation, Pairs
from limelight.text import Vocabulary, build_features, read_image
from limelight.text.images import PatchedImage, grid_boxes, segment_image

SENTENCE = "attention based explanations are popular but questionable"
REVIEW = (
    "I did not expect much, but this film is great! The acting is great, the plot isn't. "
    "It's a well-made 10/10 story about an old man (played by nobody famous) who loses his dog; "
    "the music was awful and the ending felt rushed, yet I would watch it again. "
) * 4
HOSTILE = (
    "<script>alert(1)</script> </script> \"quoted\" 'it' &amp; \x1b[31mred\x1b[0m [bold]x[/bold] é"
)
EMPTY = Vocabulary(("[cls]", "UNK"))
LABELS = {
    "alpha-avg": "α-avg",
    "alpha-max": "α-max",
    "lime": "lime",
    "g-avg": "G-avg",
    "g-l1": "G-l1",
    "g-l2": "G-l2",
    "gxi": "G×I",
    "lime-sampled": "lime (sampled)",
}
SIGNLESS = {"alpha-avg", "alpha-max", "g-l1", "g-l2"}


def explanation(text=SENTENCE, method="lime", *, seed=0, kind="words", T_max=256, **fields):
    """Return random scores for the features of ``text``."""
    model_input = encode_text(text, EMPTY, T_max=T_max)
    features = build_features(model_input, kind)
    rng = np.random.default_rng([seed, *method.encode()])
    scores = rng.normal(size=len(features)) ** 3 / 5
    signed = method not in SIGNLESS
    arguments = {
        "label": LABELS.get(method, method),
        "signed": signed,
        "classes": ("negative", "positive"),
        "cut": model_input.cutoff,
        "model": "sha256:0123456789abcdef",
        "text": text,
        "features": features.strings,
        "spans": features.spans,
        "scores": scores if signed else np.abs(scores) / np.abs(scores).sum(),
        "stderr": np.abs(scores) / 7 + 0.02 if method == "lime-sampled" else None,
        "bound": 3e-12 if method == "lime" else None,
        "method": method,
        "target": "positive",
        "prediction": {"positive": 1.234},
        "base_value": 0.1,
        "warnings": model_input.warnings,
        "settings": {"features": kind, "seed": seed},
    }
    return Explanation(**(arguments | fields))


def comparison(text=SENTENCE, methods=tuple(LABELS), *, attention=True, **fields):
    explanations = tuple(explanation(text, method, **fields) for method in methods)
    length = 1 + sum(map(len, explanations[0].spans))
    rng = np.random.default_rng(5)
    matrices = rng.dirichlet(np.full(length, 0.2), size=(6, length)) if attention else None
    return Comparison(explanations=explanations, attention=matrices)


def with_pairs():
    pairs = Pairs(
        features=np.array([[0, 1], [2, 5], [1, 6]]), scores=np.array([0.2, -0.5, 0.1]), stderr=None
    )
    return explanation(method="interactions", pairs=pairs)


def sample_image(name="photo.png", width=28, height=21):
    """Return an image of a bright disc in a corner, in colors."""
    y, x = np.mgrid[:height, :width]
    red = np.where((x - width / 3) ** 2 + (y - height / 3) ** 2 < 30, 250, 40)
    return read_image(np.stack([red, 8 * y, 8 * x], axis=2).astype(np.uint8), name)


def explained_image(method="shapley", *, given=None, grid=(3, 7), splitter=None, seed=0, **fields):
    """Return random scores for the patches of an image, or for what a splitter makes of it."""
    given = given or sample_image()
    boxes = grid_boxes((0, 0, *given.size), *grid)
    cut = segment_image(splitter, given, "mine") if splitter else PatchedImage(given, boxes)
    names = cut.token_names()
    rng = np.random.default_rng([seed, *method.encode()])
    scores, signed = rng.normal(size=len(names)) ** 3 / 5, method not in SIGNLESS
    own_value = {
        "text": given.label,
        "features": names,
        "spans": ((),) * len(names),
        "scores": scores if signed else np.abs(scores),
        "stderr": np.abs(scores) / 7 + 0.02 if signed else None,
        "method": method,
        "label": LABELS.get(method, method),
        "signed": signed,
        "classes": ("Shirt", "Bag", "Boot"),
        "target": "Bag",
        "prediction": {"Shirt": 0.2, "Bag": 1.2, "Boot": -1.0},
        "base_value": 0.1,
        "settings": {"features": "segments" if splitter else "patches"},
        "image": cut.stored_image(np.arange(len(names)), len(names)),
    }
    return Explanation(**(own_value | fields))


def compared_images(methods=("shapley", "lime", "alpha-avg"), **fields):
    return Comparison(explanations=tuple(explained_image(method, **fields) for method in methods))
