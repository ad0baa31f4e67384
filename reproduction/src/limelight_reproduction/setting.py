"""What an experiment is given: data, models, how much to do, and where to say how far it is."""

__all__ = ["CARRIED", "CARRIED_SEED", "PAPER_SEEDS", "Need", "Setting"]

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, final

import numpy as np

from limelight import AttentionClassifier, InputError, LabeledTexts, Model, load, read_labeled
from limelight.data.images import read_labeled_images
from limelight.models import reason_missing
from limelight.models.attention import PatchClassifier
from limelight_reproduction.collapsed_folder import is_collapsed, load_collapsed
from limelight_reproduction.document import Review, the_review

SENTIMENT = ("negative", "positive")
_NUMBERED = ("0", "1")
CLASSES = {
    "imdb": SENTIMENT,
    "sst2": SENTIMENT,
    "ag_news": ("World", "Sports", "Business", "Sci/Tech"),
    "sick": ("contradiction", "neutral", "entailment"),
    "fashion_mnist": (
        "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
        "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
    ),
}  # fmt: skip
PAPER_SEEDS = range(7)
# A model of the recipe, trained on a processor: see `collapsed_folder` for its form.
CARRIED, CARRIED_SEED = Path(__file__).parent / "paper_model", 3
# "gpu": a graphics card, without which hours pass; "sick": SICK's files; "pair-model": a model of
# sentence pairs; "pictures": Fashion-MNIST's files; "picture-model": a deep model of pictures.
Need = Literal["gpu", "sick", "pair-model", "pictures", "picture-model"]
# Inputs, beside "imdb test" and such.
SHIPPED_MODEL, PAPER_MODEL, PAIR_MODEL = "shipped model", "paper model", "pair model"
PICTURE_MODEL = "picture model"
_SUFFIXES = (".parquet", ".csv", ".jsonl", ".csv.gz", ".jsonl.gz", ".npz")
T = TypeVar("T")


@final
@dataclass(kw_only=True)
class Setting:
    """One run of the reproduction.

    ``data`` is a folder with the IMDB files, or with folders ``imdb``, ``sst2``, ``ag_news`` and
    ``sick``. ``tick(done, total)`` is called by whatever takes long. Models and texts are its
    inputs: each is read once, and ``used`` names those that were asked for.
    """

    data: Path
    models: Path
    """Where models that are trained on the way are kept."""
    quick: bool = False
    seed: int = 0
    device: str = "cpu"
    paper_model: Path | None = None
    pair_model: Path | None = None
    picture_model: Path | None = None
    tick: Callable[[int, int], None] = field(default=lambda _done, _total: None)
    used: set[str] = field(default_factory=set, init=False, repr=False)
    _held: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise InputError(f"seed must be at least 0; got {self.seed}.")

    @property
    def review(self) -> Review:
        """The document of Figures 4 and 6, looked for once."""
        texts = self.texts("imdb", "test")
        return self._once("review", lambda: the_review(texts))

    @property
    def shipped(self) -> AttentionClassifier:
        """The model of this package."""
        return self._input(SHIPPED_MODEL, load)

    @property
    def paper(self) -> AttentionClassifier:
        """The model of the paper's recipe that the experiments look at: given, or carried along."""
        folder = CARRIED if self.paper_model is None else self.paper_model
        return self._input(PAPER_MODEL, lambda: _classifier(folder))

    def fingerprint(self, name: str) -> str:
        """Return what tells the input ``name`` ("paper model", "imdb test") from any other."""
        if name == SHIPPED_MODEL:
            return self.shipped.fingerprint
        if name == PAPER_MODEL:
            return self.paper.fingerprint
        if name == PAIR_MODEL:
            return self.of_pairs.fingerprint
        if name == PICTURE_MODEL:
            return self.deep_pictures.fingerprint
        return self._once(f"digest of {name}", lambda: self.texts(*name.split()).digest)

    def find(self, name: str) -> None:
        """Read what a part may ask for ("imdb test", or "review"), or say that it is not there."""
        if name == "review":
            _ = self.review
        else:
            self.fingerprint(name)

    @property
    def papers_model(self) -> str:
        """Which model of the paper's recipe the experiments look at, in a sentence."""
        if self.paper_model is None:
            return (
                "“The paper's recipe” is the model that travels with the package (`limelight train "
                f"--recipe paper`, seed {CARRIED_SEED}, in collapsed form)."
            )
        training = self.paper.record.get("training", {})
        how = ", ".join(f"{key} {training[key]}" for key in ("recipe", "seed") if key in training)
        return (
            f"“The paper's recipe” is the model that was given, '{self.paper_model}' "
            f"({how or 'how it was trained is not recorded'}); where a part is stored, it is the "
            "model that travels with the package."
        )

    def _input(self, name: str, read: Callable[[], T]) -> T:
        self.used.add(name)
        return self._once(name, read)

    def _once(self, name: str, read: Callable[[], T]) -> T:
        if name not in self._held:
            self._held[name] = read()
        return cast(T, self._held[name])

    @property
    def of_pairs(self) -> Model:
        """The classifier of sentence pairs, which must be given."""
        if (folder := self.pair_model) is None:
            raise InputError("this needs a classifier of sentence pairs; name it by --pair-model.")
        return self._input(PAIR_MODEL, lambda: _pair_classifier(folder, self.device))

    @property
    def deep_pictures(self) -> Model:
        """The deep classifier of pictures, which must be given."""
        if (folder := self.picture_model) is None:
            raise InputError("this needs a deep model of pictures; name it by --picture-model.")
        return self._input(PICTURE_MODEL, lambda: load(folder, device=self.device))

    @property
    def of_pictures(self) -> PatchClassifier:
        """The paper's classifier over patches, trained now on Fashion-MNIST if need be."""
        return self._once("model over patches", self._patch_model)

    def _patch_model(self) -> PatchClassifier:
        folder = self.models / ("patches-quick" if self.quick else "patches")
        if not (folder / "config.json").exists():
            from limelight import train  # it loads torch, which most experiments do without
            from limelight.training import RECIPES

            recipe = RECIPES["pictures"]
            train(
                self.texts("fashion_mnist", "train"),
                recipe=replace(recipe, epochs=1) if self.quick else recipe,
                seed=self.seed,
                output=folder,
                device=self.device,
                progress=lambda at: self.tick(at.step, at.steps),
            )
        return cast(PatchClassifier, load(folder))

    def has(self, need: Need) -> bool:
        """Whether there is what a part may need."""
        if need == "gpu":
            return self.device.startswith("cuda")
        if need == "sick":
            return all(_file(self.data / "sick", part) for part in ("train", "test"))
        if need == "pictures":
            return all(_file(self.data / "fashion_mnist", part) for part in ("train", "test"))
        if need == "picture-model":
            return self.picture_model is not None
        return self.pair_model is not None

    def unfinished(self, name: str) -> Path:
        """Return the folder in which a part that takes long keeps what it has done."""
        return self.models.parent / "unfinished" / name

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

    def texts(self, name: str, part: str) -> LabeledTexts:
        """Return the ``part`` ("train", "test") of the data set ``name``, read once."""
        read = read_labeled_images if name == "fashion_mnist" else read_labeled
        return self._input(
            f"{name} {part}",
            lambda: read(self._place(name, part), part=_part(part), labels=CLASSES[name]),
        )

    def some_texts(self, name: str, part: str, count: int) -> LabeledTexts:
        """Return ``count`` of these texts, drawn with the seed; the same ones for every model."""
        texts = self.texts(name, part)
        rows = np.random.default_rng([self.seed, 71]).permutation(len(texts))[:count]
        return LabeledTexts(
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


def _pair_classifier(folder: Path, device: str) -> Model:
    """Return the model in ``folder``, which must read pairs and know SICK's classes."""
    model: Model = load(folder, device=device)
    if (why := reason_missing(model, "reads_pairs")) is not None:
        raise InputError(f"'{folder}' must hold a model that reads two texts together, and {why}.")
    if model.classes != CLASSES["sick"]:
        raise InputError(
            f"the model of pairs must know SICK's classes, {', '.join(CLASSES['sick'])}, in this "
            f"order; '{folder}' knows {', '.join(model.classes)}."
        )
    return model


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
