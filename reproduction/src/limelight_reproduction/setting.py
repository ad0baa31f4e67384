"""What an experiment is given: data, models, how much to do, and where to say how far it is."""

__all__ = ["CARRIED", "CARRIED_SEED", "PAPER_SEEDS", "Setting"]

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, final

import numpy as np

from limelight import AttentionClassifier, InputError, LabelledTexts, load, read_labelled
from limelight_reproduction.collapsed_folder import is_collapsed, load_collapsed
from limelight_reproduction.document import Review, the_review

SENTIMENT = ("negative", "positive")
_NUMBERED = ("0", "1")
CLASSES = {
    "imdb": SENTIMENT,
    "sst2": SENTIMENT,
    "ag_news": ("World", "Sports", "Business", "Sci/Tech"),
}
PAPER_SEEDS = range(7)
# A model of the recipe, seed 3, trained on a processor: see `collapsed_folder` for its form.
CARRIED = Path(__file__).parent / "paper_model"
CARRIED_SEED = 3
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
    _read: dict[tuple[str, str], LabelledTexts] = field(
        default_factory=dict, init=False, repr=False
    )

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise InputError(f"seed must be at least 0; got {self.seed}.")

    @cached_property
    def review(self) -> Review:
        """The document of Figures 4 and 6, looked for once."""
        return the_review(self.texts("imdb", "test"))

    @cached_property
    def shipped(self) -> AttentionClassifier:
        """The model of this package."""
        return load()

    @cached_property
    def paper(self) -> AttentionClassifier:
        """The model of the paper's recipe that the experiments look at: given, or carried along."""
        return _classifier(CARRIED if self.paper_model is None else self.paper_model)

    def paper_of_seed(self, seed: int) -> AttentionClassifier:
        """Return the model of the paper's recipe with this seed, trained now if need be."""
        folder = self.models / f"paper-{seed}"
        if not (folder / "config.json").exists():
            from limelight import train  # it loads torch, which most experiments do without

            train(
                self.texts("imdb", "train"),
                recipe="paper",
                seed=seed,
                output=folder,
                device=self.device,
                progress=lambda at: self.tick(at.step, at.steps),
            )
        return _classifier(folder)

    def texts(self, name: str, part: str) -> LabelledTexts:
        """Return the ``part`` ("train", "test") of the data set ``name``, read once."""
        if (name, part) not in self._read:
            self._read[name, part] = read_labelled(
                self._place(name, part), CLASSES[name], part=_part(part)
            )
        return self._read[name, part]

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
            if file := _file(home, part):
                return file
            for archive in (home, home / "aclImdb"):
                if name == "imdb" and (archive / part / "pos").is_dir():
                    return archive
        raise InputError(
            f"the {part} texts of {name} are not in '{self.data}': there must be "
            f"{name}/{part}.parquet (or .csv, .jsonl){', or aclImdb' if name == 'imdb' else ''}."
        )


def _classifier(folder: Path) -> AttentionClassifier:
    """Return the model in ``folder``: the paper's classifier, with IMDB's two classes.

    Files of labels alone call them "0" and "1", and so does a model that was trained on such files.
    """
    model = load_collapsed(folder) if is_collapsed(folder) else load(folder)
    if not isinstance(model, AttentionClassifier):
        raise InputError(
            f"'{folder}' holds another kind of model; the experiments need the paper's classifier, "
            "as `limelight train --recipe paper` leaves it."
        )
    if model.classes not in (SENTIMENT, _NUMBERED):
        raise InputError(
            f"the paper's model must know IMDB's classes, {' and '.join(SENTIMENT)} (or 0 and 1); "
            f"'{folder}' knows {', '.join(model.classes)}."
        )
    return replace(model, classes=SENTIMENT)


def _file(home: Path, part: str) -> Path | None:
    """Return "test.csv" for "test", else the only subset such as "test_10k.csv" or "test_500.csv".

    A file of another name ("test_rationales.csv") may hold anything and is not read.
    """
    for suffix in _SUFFIXES:
        if (whole := home / f"{part}{suffix}").is_file():
            return whole
    subset = re.compile(rf"{part}_\d+k?({'|'.join(map(re.escape, _SUFFIXES))})")
    found = sorted(file for file in home.glob(f"{part}_*") if subset.fullmatch(file.name))
    if len(found) > 1:
        raise InputError(
            f"'{home}' holds several subsets ({', '.join(file.name for file in found)}) and no "
            f"{part} file; leave one."
        )
    return found[0] if found else None


def _part(part: str) -> Literal["train", "test"]:
    return "train" if part == "train" else "test"
