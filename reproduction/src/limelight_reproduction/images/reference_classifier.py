"""A reference implementation of the paper's classifier over patches, with full self-attention.

It is slow and clear, and computes in double precision. Tests compare the theorems with it.
"""

__all__ = ["ReferencePatchClassifier", "random_images", "random_patch_classifier"]

from typing import Any

import numpy as np
import torch
from torch import nn

from limelight.models.attention import PatchClassifier
from limelight.shapes import Array, Float
from limelight.text import ImageInput, Vocabulary


class ReferencePatchClassifier(nn.Module):  # type: ignore[misc]
    """A classifier that embeds all patches, computes the full attention, and reads [cls]."""

    def __init__(self, model: PatchClassifier) -> None:
        super().__init__()
        self.grid, self.size = model.grid, model.patch_size
        names = ("embedding", "W_q", "W_k", "W_v", "W_l", "patch_mean", "patch_in", "patch_bias")
        for name in (*names, "patch_out", "positions"):
            self.register_buffer(name, torch.tensor(getattr(model, name), dtype=torch.float64))

    def embed(self, pixels: Float[Array, "n H W channels"]) -> Float[Array, "n T_max d_e"]:
        """Embed [cls] and the patches of images with values from 0 to 1, with positions."""
        (rows, columns), (height, width) = self.grid, self.size
        patches = [
            pixels[:, height * i : height * (i + 1), width * j : width * (j + 1)].flatten(1)
            for i in range(rows)
            for j in range(columns)
        ]
        hidden = torch.relu(
            (torch.stack(patches, 1) - self.patch_mean) @ self.patch_in.T + self.patch_bias
        )
        e = self.embedding[1] + (hidden - torch.relu(self.patch_bias)) @ self.patch_out.T
        first = self.embedding[0].expand(len(pixels), 1, -1)
        return torch.cat([first, e], dim=1) + self.positions

    def forward(self, e: Float[Array, "n T_max d_e"]) -> Float[Array, "n C"]:
        """Return the outputs for embedded images."""
        query, key, value = (
            torch.einsum("ntd,kad->nkta", e, W) for W in (self.W_q, self.W_k, self.W_v)
        )
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        heads = torch.softmax(scores, dim=-1) @ value
        return torch.einsum("nko,kco->nc", heads[:, :, 0], self.W_l) / len(self.W_l)

    def mask_outputs(self, pixels: np.ndarray, keep: np.ndarray) -> Float[np.ndarray, "n C"]:
        """Return the outputs for an image whose removed patches become the mean patch."""
        mean = np.tile(self.patch_mean.numpy().reshape(*self.size, -1), (*self.grid, 1))
        pixel_mask = keep.reshape(-1, *self.grid).repeat(self.size[0], 1).repeat(self.size[1], 2)
        masked = np.where(pixel_mask[..., None], pixels / 255, mean)
        with torch.no_grad():
            outputs: np.ndarray = self(self.embed(torch.from_numpy(masked))).numpy()
        return outputs


def random_patch_classifier(
    rng: np.random.Generator,
    grid: tuple[int, int],
    *,
    size: tuple[int, int] = (2, 2),
    **changes: Any,
) -> PatchClassifier:
    """Return a classifier with random weights and small logits.

    Parameters
    ----------
    rng
        Source of the random weights.
    grid
        The number of rows and columns of patches.
    size
        The height and width of a patch in pixels.
    changes
        Fields of the classifier that replace the defaults.

    Returns
    -------
    The classifier.
    """
    T, p, d_e, d_h, K, C = grid[0] * grid[1], size[0] * size[1], 8, 6, 2, 2

    def normal(*shape: int) -> np.ndarray:
        """Draw weights with a standard deviation of one over the root of the inputs."""
        return rng.standard_normal(shape) / np.sqrt(shape[-1])

    fields: dict[str, Any] = {
        "embedding": normal(2, d_e) * 2,
        "W_q": normal(K, 4, d_e),
        "W_k": normal(K, 4, d_e),
        "W_v": normal(K, 4, d_e),
        "W_l": normal(K, C, 4),
        "patch_mean": np.full(p, 0.5),
        "patch_in": normal(d_h, p) * 2,
        "patch_bias": normal(d_h),
        "patch_out": normal(d_e, d_h) * 2,
        "position_table": normal(1 + T, d_e) * 2,
        "patch_size": size,
        "grid": grid,
        "T_max": 1 + T,
        "classes": ("one", "other"),
        "vocabulary": Vocabulary(("[cls]", "UNK")),
    }
    return PatchClassifier(**fields | changes)


def random_images(rng: np.random.Generator, model: PatchClassifier, count: int) -> list[ImageInput]:
    """Draw images of noise in the size of ``model``."""
    width, height = model.image_size
    return [
        ImageInput(rng.integers(0, 256, (height, width, 1), dtype=np.uint8)) for _ in range(count)
    ]
