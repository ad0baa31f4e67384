"""Settings of all methods as keywords, so that a mistyped one fails before anything runs."""

__all__ = ["Settings"]

from typing import TypedDict


class Settings(TypedDict, total=False):
    """What ``explain`` and ``compare`` take by name.

    ``limelight methods`` says which method takes which, and what each means there.
    """

    bandwidth: float
    batch: int | None
    beam: int
    delta: float
    feature_selection: str
    fit: bool
    heads: int | None
    index: str
    layer: str | int
    max_pairs: int
    max_samples: int | None
    max_size: int | None
    max_steps: int
    num_features: int | None
    pairs: int | None
    penalty: float
    per_head: bool
    replacement: str
    ridge: float
    row0: bool
    rows: int | None
    samples: int | None
    seed: int
    sizes: str
    slack: float
    steps: int
    threshold: float
    tolerance: float | None
    top: int | None
    values: str
