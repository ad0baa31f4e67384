"""Settings of limelight's methods as keywords of functions, for type checkers.

``python docs/methods/settings.py`` writes the fields from the settings classes of the methods.
"""

from typing import Any, TypedDict


class MethodSettings(TypedDict, total=False):
    """Settings of methods, without ``replacement`` and ``seed``, which are keywords of functions.

    ``limelight methods`` lists the settings of each method with their meanings.
    """

    answers: int | None
    bandwidth: float
    batch: int | None
    delta: float
    feature_selection: str
    few_calls: int | None
    fit: bool
    index: str
    layer: int | str
    max_pairs: int
    max_samples: int | None
    max_size: int | None
    max_steps: int
    nodes: int | None
    num_features: int | None
    opened: int | None
    orders: int | None
    pairs: int | None
    penalty: float
    per_head: bool
    ridge: float
    row0: bool
    rows: int | None
    sampler: str
    samples: int | None
    sizes: str
    spare: int
    start: Any
    steps: int
    threshold: float | None
    tolerance: float | None
    top: int | None
    until: str | None
    within: str | None
