"""The table that turns the tokens of a transformers network into vectors."""

__all__ = ["embedding_rows", "input_table"]

from typing import Any

from limelight.errors import DomainError


def input_table(network: Any) -> Any:
    """Return the input embedding; not every network has a single one."""
    try:
        table = network.get_input_embeddings()
    except NotImplementedError:
        table = None
    if getattr(table, "weight", None) is None:
        raise DomainError(f"{type(network).__name__} has no table that embeds its tokens.")
    return table


def embedding_rows(network: Any) -> int | None:
    """Return how many tokens the input embedding knows; None where there is not one table."""
    try:
        return int(input_table(network).weight.shape[0])
    except DomainError:
        return None
