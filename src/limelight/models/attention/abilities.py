"""What the paper's classifier can show, or why it does not."""

__all__ = ["ABILITIES"]

from collections.abc import Mapping
from types import MappingProxyType

from limelight.models.protocol import Capability

_BY_TABLES = "the paper's classifier is explained from its tables, which need no such pass"
ABILITIES: Mapping[Capability, str | None] = MappingProxyType(
    {
        "collapses": None,
        "chooses": None,
        "shuffles": None,
        "attends": _BY_TABLES,
        "relays": _BY_TABLES,
        "differentiates": _BY_TABLES,
        "freezes": _BY_TABLES,
        "pieces": "the paper's classifier reads whole words, not pieces of them",
        "cuts": "the paper's classifier is explained exactly, on the window it was trained for",
        "pairs": "the paper's classifier reads one text; load a model that was trained on pairs",
    }
)
