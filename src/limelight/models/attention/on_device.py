"""The classifier's tables on a torch device. The only module of this package that imports torch,
and only where a device is asked for.
"""

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from limelight.errors import InputError, MissingExtraError
from limelight.models.attention.tables import TableErrors, Tables
from limelight.theory.namespace import array_like

if TYPE_CHECKING:
    from limelight.models.attention.classifier import AttentionClassifier
else:
    AttentionClassifier = Any  # which asks for this module


def tables_on_device(model: AttentionClassifier) -> tuple[Tables, TableErrors]:
    """Return the tables of a model and their errors as tensors of its device, in float64."""
    try:
        import torch
    except ImportError:
        raise MissingExtraError(f"device {model.device!r} needs torch", "train") from None
    try:
        # Of double precision: Apple's device has none, and says so only when asked for it.
        there = torch.empty(0, dtype=torch.float64, device=model.device)
    except (RuntimeError, AssertionError, TypeError) as error:
        (reason, *_) = str(error).splitlines() or [""]
        raise InputError(
            f"device {model.device!r} cannot be used here ({reason.rstrip('.')}); "
            "leave device out to compute with NumPy."
        ) from None

    def sent(tables: Any) -> Any:
        own = {one.name: getattr(tables, one.name) for one in fields(tables)}
        arrays = {name: x for name, x in own.items() if name != "units"}
        return replace(tables, **{name: array_like(x, there) for name, x in arrays.items()})

    units = None if model.tables.units is None else sent(model.tables.units)
    errors = TableErrors._make(array_like(x, there) for x in model.table_errors)
    return replace(sent(model.tables), units=units), errors
