"""The ground of a text: its tables where the model collapses, else the model itself."""

__all__ = ["text_ground"]

from dataclasses import fields

from limelight.explainers.reading import Reading
from limelight.explainers.target_game import TargetGame
from limelight.judging.asked_ground import AskedGround
from limelight.judging.grounds import Ground
from limelight.judging.proven_ground import ProvenGround
from limelight.sampling.masks import text_rng
from limelight.theory.namespace import host_array
from limelight.theory.per_document import one_document
from limelight.theory.ratio_game import RatioGame

Place = tuple[Reading, int]


def text_ground(one: Reading, *, replacement: str, seed: int, among: Place | None = None) -> Ground:
    """Return the ground of the one document of ``one``.

    ``among`` is a reading of several, and its place there: their tables are made together. Tables
    replace words the model's own way, and are of its outputs themselves; with another
    ``replacement``, or for probabilities, the model is asked.
    """
    rng = text_rng(seed, one.documents[0].text)
    own_way = replacement == one.model.replacements[0]
    if one.collapses and own_way and one.targets.scale != "probability":
        reading, i = (one, 0) if among is None else among
        return ProvenGround(_on_host(one_document(reading.ratio_game, i)), rng)
    full = float(one.targets.value(one.outputs)[0])
    return AskedGround(TargetGame(one, replacement), len(one.features[0]), full, rng)


def _on_host(game: RatioGame) -> RatioGame:
    """Return the game as NumPy arrays: orders are sorted and drawn here."""
    parts = {one.name: getattr(game, one.name) for one in fields(game)}
    return RatioGame(**{name: None if x is None else host_array(x) for name, x in parts.items()})
