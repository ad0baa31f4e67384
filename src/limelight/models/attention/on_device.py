"""The classifier's tables on a torch device. The only module of this package that imports torch,
and only where a device is asked for.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from limelight.errors import InputError, MissingExtraError
from limelight.models.attention.tables import TableErrors, Tables, error_bounds
from limelight.shapes import Float, Int
from limelight.text import UNK
from limelight.theory.ratio_game import RatioGame, denominator_range


class DeviceTables:
    """Logits and values of words and positions in float64, and what is computed from them there."""

    def __init__(self, tables: Tables, errors: TableErrors, device: str) -> None:
        import torch

        self._torch, self._device = torch, device
        self._word_logit, self._word_value, self._position_logit, self._position_value = (
            self._sent(array)
            for array in (
                tables.word_logit,
                tables.word_value,
                tables.position_logit,
                tables.position_value,
            )
        )
        self._by_word = self._sent(errors.by_word)
        self._units: list[Any] | None = None
        if (units := tables.units) is not None:
            self._units = [self._sent(x) for x in (units.word, units.position, units.weight)]

    def outputs(self, ids: Int[np.ndarray, "n T_max"]) -> Float[np.ndarray, "n C"]:
        """Return f for every document: the mean over heads of Σ_t α_t u_t."""
        logit, u = self._read(ids)
        alpha = self._torch.softmax(logit, dim=1)
        return (alpha[:, :, None] * u).sum(dim=1).mean(dim=-1).cpu().numpy()

    def game(
        self,
        ids: Int[np.ndarray, "n T_max"],
        base_ids: Int[np.ndarray, "n T_max"],
        of_position: Int[np.ndarray, "n T_max"],
        sizes: Int[np.ndarray, " n"],
    ) -> RatioGame:
        """Return the ratio games of some documents as tensors of the device."""
        torch, d = self._torch, int(sizes.max())
        (logit, u), (base_logit, base_u) = self._read(ids), self._read(base_ids)
        top = torch.maximum(logit, base_logit).amax(dim=1, keepdim=True)
        g, g_h = (torch.exp(x - top)[:, :, None] for x in (logit, base_logit))
        terms = torch.cat([g, g_h, g * u, g_h * base_u], dim=2)  # n T_max (2 + 2C) K
        place = self._sent(np.where(of_position >= 0, of_position, d))
        sums = terms.new_zeros((len(ids), d + 1, *terms.shape[2:]))
        sums.scatter_add_(1, place[:, :, None, None].expand_as(terms), terms)
        a, b, A, B = sums.movedim(1, -1).contiguous().split([1, 1, u.shape[2], u.shape[2]], dim=1)
        game = RatioGame(
            D0=a[:, 0, :, -1],
            a=a[:, 0, :, :-1],
            b=b[:, 0, :, :-1],
            N0=A[..., -1],
            A=A[..., :-1],
            B=B[..., :-1],
            sizes=self._sent(sizes),
        )
        rows = self._by_word[self._sent(ids).long()]
        known = error_bounds(torch.maximum(rows.amax(dim=1), self._by_word[UNK]), ids.shape[1])
        return replace(game, error=known.of_outputs(denominator_range(game)[0]))

    def _read(self, ids: Int[np.ndarray, "n T_max"]) -> tuple[Any, Any]:
        """Logits (n, T_max, K) and values (n, T_max, C, K) of words at their places."""
        rows = self._sent(ids).long()
        logit = self._word_logit[rows] + self._position_logit
        if self._units is not None:
            word, position, weight = self._units
            for head in range(logit.shape[-1]):  # one at a time: units take d_h times the room
                h = word[:, head][rows] + position[:, head]
                logit[..., head] += self._torch.tanh(h) @ weight[head]
        return logit, self._word_value[rows] + self._position_value

    def _sent(self, array: np.ndarray) -> Any:
        return self._torch.from_numpy(np.ascontiguousarray(array)).to(self._device)


def device_tables(tables: Tables, errors: TableErrors, device: str) -> DeviceTables:
    """Return the tables on ``device``, or say what is missing for it."""
    try:
        import torch
    except ImportError:
        raise MissingExtraError(f"device {device!r} needs torch", "train") from None
    try:
        torch.empty(0, dtype=torch.float64, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        (reason, *_) = str(error).splitlines() or [""]
        raise InputError(
            f"device {device!r} cannot be used here ({reason.rstrip('.')}); "
            "leave device out to compute with NumPy."
        ) from None
    return DeviceTables(tables, errors, device)
