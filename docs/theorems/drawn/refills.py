"""The figure about random refilling."""

__all__ = ["draw_refilling"]

import numpy as np

import limelight
from drawn.games import LONG
from drawn.picture import Picture, legend, logarithmic, panels
from limelight import explain
from limelight_reproduction.drawing import BLUE, GREY, ORANGE, VERMILLION

# Words of reviews, so that the figure needs no data set.
BACKGROUND = (
    "the film is a story about a man and his family , and it was not bad but the acting of the "
    "lead is poor . i liked this movie because the music and the script are great . one of the "
    "worst plots ever , with boring scenes and no end . an excellent cast , good fun to watch"
)
_DRAWS = (10, 30, 100, 300, 1000, 3000)


def draw_refilling() -> Picture:
    """Draw Shapley values with refills against UNK, and means of draws against the exact mean."""
    model = limelight.load(background=[BACKGROUND])
    unk = explain(model, LONG, "shapley")
    refilled = explain(model, LONG, "shapley", replacement="refill", tolerance=1e-8)
    figure, (left_axes, right_axes) = panels(
        ("words of a review", "Shapley value with UNK", "with random words"),
        ("half of the words removed", "random refills", "distance from the exact mean"),
    )
    left_axes.plot(unk.scores, refilled.scores, "o", color=BLUE, markersize=3)
    edge = [unk.scores.min(), unk.scores.max()]
    left_axes.plot(edge, edge, color=GREY, linewidth=0.8)
    mask = np.arange(len(unk.scores)) % 2 == 0
    exact = float(limelight.game(model, LONG, replacement="refill")(mask[None])[0, 0])
    draws = _draw_outputs(model, mask, max(_DRAWS))
    spread = float(draws.std(ddof=1))
    distances = [abs(float(draws[:n].mean()) - exact) for n in _DRAWS]
    right_axes.plot(_DRAWS, distances, "o-", color=BLUE, markersize=4, label="mean of draws")
    right_axes.plot(_DRAWS, spread / np.sqrt(_DRAWS), ":", color=ORANGE, label="σ/√n")
    mean_word = _output_at_mean_word(model, mask)
    right_axes.axhline(
        abs(mean_word - exact), color=VERMILLION, linewidth=0.9, label="the mean word"
    )
    logarithmic(right_axes)
    legend(right_axes, loc="upper right", bbox_to_anchor=(1, 0.93))
    changed = int((np.sign(unk.scores) != np.sign(refilled.scores)).sum())
    return Picture(
        figure=figure,
        alt="Left: Shapley values of a review with random words against those with UNK, near the "
        "diagonal. Right: means of random refills approach the exact mean, and the output at the "
        "mean word does not.",
        numbers=(str(len(unk.scores)), str(changed)),
    )


def _draw_outputs(model: limelight.AttentionClassifier, mask: np.ndarray, count: int) -> np.ndarray:
    """Return the outputs of random refills of the words outside a mask."""
    from limelight.explainers import prepare_batch

    batch = prepare_batch(model, [LONG])
    ids, features = batch.inputs[0].encoding.ids, batch.features[0].feature_index
    rng, background = np.random.default_rng(0), model.background
    if background is None:
        raise ValueError("the model has no background.")
    rows = np.tile(ids, (count, 1))
    (places,) = np.nonzero(~mask[features])
    draws = rng.choice(background.ids, size=(count, len(places)), p=background.probability)
    rows[:, places] = draws
    return model.logits_of_ids(list(rows))[:, 0]


def _output_at_mean_word(model: limelight.AttentionClassifier, mask: np.ndarray) -> float:
    """Return the output with the mean embedding of the background at the removed positions."""
    from dataclasses import replace

    background = model.background
    if background is None:
        raise ValueError("the model has no background.")
    embedding = np.array(model.embedding, np.float64)
    mean = background.probability @ embedding[background.ids]
    row = int(background.ids[0])
    embedding[row] = mean
    single = replace(model, embedding=embedding, background=None)
    from limelight.explainers import prepare_batch

    batch = prepare_batch(model, [LONG])
    ids, features = batch.inputs[0].encoding.ids, batch.features[0].feature_index
    filled = np.where(mask[features], ids, row)
    # A kept word must not be the row that was changed.
    if (ids[mask[features]] == row).any():
        raise ValueError("choose another row of the background.")
    return float(single.logits_of_ids([filled])[0, 0])
