"""What stands for a removed word, where a user leaves it to the model."""

__all__ = ["replacement_in_place", "resolved_replacement"]

from limelight.errors import DomainError, InputError, nearest
from limelight.models.protocol import Model, Withdraws


def resolved_replacement(model: Model, name: str) -> str:
    """Return what "auto" means for ``model``, or ``name`` if the model can do it."""
    if name == "auto":
        return model.replacements[0]
    if name not in model.replacements:
        if isinstance(model, Withdraws) and (why := model.withdrawn.get(name)) is not None:
            *most, last = map(repr, model.replacements)
            others = " or ".join(filter(None, (", ".join(most), last)))
            raise InputError(f"replacement {name!r} cannot be used: {why}. Use {others} instead.")
        raise InputError(nearest("replacement", name, ["auto", *model.replacements]))
    return name


def replacement_in_place(model: Model, name: str) -> str:
    """Return the replacement that leaves every other word in its place; "auto" never deletes."""
    if name != "auto":
        return resolved_replacement(model, name)
    staying = [one for one in model.replacements if one != "delete"]
    if not staying:
        raise DomainError(
            "integrated gradients start from a mask, unknown or padding token; this model has "
            "none of them. Use 'lime' or 'shapley'."
        )
    return staying[0]
