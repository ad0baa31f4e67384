"""The classifier's tables on a torch device. The only module of this package that imports torch,
and only where a device is asked for.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from limelight.errors import InputError, MissingExtraError
from limelight.models.attention.tables import ErrorBounds
from limelight.shapes import Float, Int
from limelight.text import UNK
from limelight.theory.ratio_game import RatioGame, denominator_range

if TYPE_CHECKING:
    from limelight.models.attention.classifier import AttentionClassifier
    from limelight.models.attention.collapsed import CollapsedDocuments
else:
    AttentionClassifier = CollapsedDocuments = Any  # which ask for this module


class DeviceTables:
    """Logits and values of words and positions in float64, and what is computed from them there."""

    def __init__(self, model: AttentionClassifier) -> None:
        try:
            import torch
        except ImportError:
            raise MissingExtraError(f"device {model.device!r} needs torch", "train") from None
        self._torch, self._device = torch, model.device
        try:
            # Of double precision: Apple's device has none, and says so only when asked for it.
            torch.empty(0, dtype=torch.float64, device=model.device)
        except (RuntimeError, AssertionError, TypeError) as error:
            (reason, *_) = str(error).splitlines() or [""]
            raise InputError(
                f"device {model.device!r} cannot be used here ({reason.rstrip('.')}); "
                "leave device out to compute with NumPy."
            ) from None
        tables, units = model.tables, model.tables.units
        self._logits = self._sent(tables.word_logit), self._sent(tables.position_logit)
        self._values = self._sent(tables.word_value), self._sent(tables.position_value)
        self._by_word = self._sent(model.table_errors.by_word)
        parts = () if units is None else (units.word, units.position, units.weight)
        self._units = [self._sent(x) for x in parts]

    def outputs(self, ids: Int[np.ndarray, "n T_max"]) -> Float[np.ndarray, "n C"]:
        """Return f for every document: the mean over heads of Σ_t α_t u_t."""
        logit, u = self._read(self._sent(ids).long())
        alpha = self._torch.softmax(logit, dim=1)
        return (alpha[:, :, None] * u).sum(dim=1).mean(dim=-1).cpu().numpy()

    def game(self, documents: CollapsedDocuments) -> RatioGame:
        """Return the ratio games of some documents as tensors of the device."""
        torch, sizes = self._torch, np.array([len(own) for own in documents.features])
        # Indices of torch have 64 bits.
        ids, base_ids = (self._sent(x).long() for x in (documents.ids, documents.base_ids))
        (logit, u), (base_logit, base_u) = self._read(ids), self._read(base_ids)
        top = torch.maximum(logit, base_logit).amax(dim=1, keepdim=True)
        g, g_h = (torch.exp(x - top)[:, :, None] for x in (logit, base_logit))
        terms = torch.cat([g, g_h, g * u, g_h * base_u], dim=2)  # n T_max (2 + 2C) K
        d, of_position = int(sizes.max()), documents.of_position
        # What always stays is summed in a place of its own, the last.
        place = self._sent(np.where(of_position >= 0, of_position, d))
        sums = terms.new_zeros((len(ids), d + 1, *terms.shape[2:]))
        # A GPU adds in any order, and not the same one each time; the bounds hold for all of them.
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
        seen = self._sent(documents.seen_ids).long()
        largest = torch.maximum(self._by_word[seen].amax(dim=1), self._by_word[UNK])
        known = ErrorBounds.of(largest, seen.shape[1])
        return replace(game, error=known.of_outputs(denominator_range(game)[0]))

    def _read(self, rows: Any) -> tuple[Any, Any]:
        """Logits (n, T_max, K) and values (n, T_max, C, K) of words at their places."""
        (word, position), (word_value, position_value) = self._logits, self._values
        logit = word[rows] + position
        if self._units:
            word, position, weight = self._units
            for head in range(logit.shape[-1]):  # one at a time: units take d_h times the room
                h = word[:, head][rows] + position[:, head]
                logit[..., head] += self._torch.tanh(h) @ weight[head]
        return logit, word_value[rows] + position_value

    def _sent(self, array: np.ndarray) -> Any:
        return self._torch.from_numpy(np.ascontiguousarray(array)).to(self._device)
