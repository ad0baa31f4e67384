"""What an experiment is given: data, models, how much to do, and where to say how far it is."""

__all__ = ["Setting"]

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal, final

import numpy as np

from limelight.datasets import LabelledTexts, read_labelled
from limelight.errors import InputError
from limelight.loading import load
from limelight.model import AttentionClassifier, load_folder

SENTIMENT = ("negative", "positive")
CLASSES = {
    "imdb": SENTIMENT,
    "sst2": SENTIMENT,
    "ag_news": ("World", "Sports", "Business", "Sci/Tech"),
}
_SUFFIXES = (".parquet", ".csv", ".jsonl", ".csv.gz", ".jsonl.gz")


@final
@dataclass(kw_only=True)
class Setting:
    """One run of the reproduction.

    ``data`` is a folder with the IMDB files, or with folders ``imdb``, ``sst2`` and ``ag_news``.
    ``tick(done, total)`` is called by whatever takes long.
    """

    data: Path
    models: Path
    """Where models that are trained on the way are kept."""
    quick: bool = False
    seed: int = 0
    device: str = "cpu"
    paper_model: Path | None = None
    tick: Callable[[int, int], None] = field(default=lambda _done, _total: None)

    @cached_property
    def shipped(self) -> AttentionClassifier:
        """The model of this package."""
        return load()

    @cached_property
    def paper(self) -> AttentionClassifier:
        """The model of the paper's recipe, seed 3: given, trained before, or trained now."""
        if self.paper_model is not None:
            return load_folder(self.paper_model)
        folder = self.models / "paper"
        if not (folder / "config.json").exists():
            from limelight.training import train

            train(
                self.texts("imdb", "train"),
                recipe="paper",
                seed=3,
                output=folder,
                device=self.device,
                progress=lambda at: self.tick(at.step, at.steps),
            )
        return load_folder(folder)

    @property
    def has_paper(self) -> bool:
        """Whether the paper's model is there already."""
        return self.paper_model is not None or (self.models / "paper" / "config.json").exists()

    def texts(self, name: str, part: str) -> LabelledTexts:
        """Return the ``part`` ("train", "test") of the data set ``name``."""
        return read_labelled(self._place(name, part), CLASSES[name], part=_part(part))

    def some_texts(self, name: str, part: str, count: int) -> LabelledTexts:
        """Return ``count`` of these texts, drawn with the seed; the same ones for every model."""
        texts = self.texts(name, part)
        rows = np.random.default_rng([self.seed, 71]).permutation(len(texts))[:count]
        return LabelledTexts(
            [texts.texts[i] for i in rows], texts.labels[rows], texts.classes, texts.source
        )

    def _place(self, name: str, part: str) -> Path:
        """Return the file of ``part``, or the folder of the IMDB archive that holds it."""
        homes = [self.data / name, *([self.data] if name == "imdb" else [])]
        for home in homes:
            for file in sorted(home.glob(f"{part}*")):
                if file.name.removeprefix(file.name.split(".")[0]) in _SUFFIXES:
                    return file
            for archive in (home, home / "aclImdb"):
                if name == "imdb" and (archive / part / "pos").is_dir():
                    return archive
        raise InputError(
            f"the {part} texts of {name} are not in '{self.data}': there must be "
            f"{name}/{part}.parquet (or .csv, .jsonl){', or aclImdb' if name == 'imdb' else ''}."
        )


def _part(part: str) -> Literal["train", "test"]:
    return "train" if part == "train" else "test"
