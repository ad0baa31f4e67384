"""The setting of a run: data, models, sizes, and a function that reports the progress."""

__all__ = ["BUNDLED_MODEL", "BUNDLED_SEED", "PAPER_SEEDS", "Need", "Setting"]

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, final

import numpy as np

from limelight import AttentionClassifier, InputError, LabeledTexts, Model, load, read_labeled
from limelight.data.images import read_labeled_images
from limelight.models import reason_missing
from limelight.models.attention import PatchClassifier
from limelight_reproduction.collapsed_folder import is_collapsed, load_collapsed
from limelight_reproduction.document import Review, find_review

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
# How `train` is called with a recipe, beyond its seed. The shipped model is trained on all reviews.
TRAINING_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "paper": {},
    "shipped": {"validation": 0, "precision": "float16"},
}
# A model of the recipe that was trained on a CPU. `collapsed_folder` describes its file format.
BUNDLED_MODEL, BUNDLED_SEED = Path(__file__).parent / "paper_model", 3
# "gpu": a GPU, because a CPU takes hours; "sick": SICK's files; "pair-model": a classifier of
# sentence pairs; "images": Fashion-MNIST's files; "image-model": a deep classifier of images;
# "text-model": a deep classifier of film reviews.
Need = Literal["gpu", "sick", "pair-model", "images", "image-model", "text-model"]
# Names of inputs that are models. Inputs that are texts are named "imdb test" and so on.
SHIPPED_MODEL, PAPER_MODEL, PAIR_MODEL = "shipped model", "paper model", "pair model"
IMAGE_MODEL = "picture model"  # the stored results have this name
TEXT_MODEL = "text model"
_SUFFIXES = (".parquet", ".csv", ".jsonl", ".csv.gz", ".jsonl.gz", ".npz")
T = TypeVar("T")


@final
@dataclass(kw_only=True)
class Setting:
    """The setting of one run of the reproduction.

    ``data`` is a folder with the IMDB files, or with folders ``imdb``, ``sst2``, ``ag_news`` and
    ``sick``. Long measurements call ``tick(done, total)``. The inputs are models and texts. Each
    input is read once, and ``used`` contains the names of those that were read.
    """

    data: Path
    models: Path
    """Folder for the models that the run trains."""
    quick: bool = False
    seed: int = 0
    device: str = "cpu"
    paper_model: Path | None = None
    pair_model: Path | None = None
    image_model: Path | None = None
    text_model: Path | None = None
    tick: Callable[[int, int], None] = field(default=lambda _done, _total: None)
    used: set[str] = field(default_factory=set, init=False, repr=False)
    _cache: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise InputError(f"seed must be at least 0, not {self.seed}.")

    @property
    def review(self) -> Review:
        """The review of Figures 4 and 6."""
        texts = self.texts("imdb", "test")
        return self._read_once("review", lambda: find_review(texts))

    @property
    def shipped_model(self) -> AttentionClassifier:
        """The model "default" of limelight."""
        return self._input(SHIPPED_MODEL, load)

    @property
    def recipe_model(self) -> AttentionClassifier:
        """The model of the paper's recipe: the one in ``paper_model``, or the included one."""
        folder = BUNDLED_MODEL if self.paper_model is None else self.paper_model
        return self._input(PAPER_MODEL, lambda: _load_recipe_model(folder))

    def fingerprint(self, name: str) -> str:
        """Return the fingerprint of an input, for example "paper model" or "imdb test"."""
        if name == SHIPPED_MODEL:
            return self.shipped_model.fingerprint
        if name == PAPER_MODEL:
            return self.recipe_model.fingerprint
        if name == PAIR_MODEL:
            return self.pair_classifier.fingerprint
        if name == IMAGE_MODEL:
            return self.image_classifier.fingerprint
        if name == TEXT_MODEL:
            return self.text_classifier.fingerprint
        return self._read_once(f"digest of {name}", lambda: self.texts(*name.split()).digest)

    def check_input(self, name: str) -> None:
        """Read an input of a part ("imdb test", "review"); raise `InputError` if it is missing."""
        if name == "review":
            _ = self.review
        else:
            self.fingerprint(name)

    @property
    def model_sentence(self) -> str:
        """A sentence for the report about the model of the paper's recipe that is measured."""
        if self.paper_model is None:
            return (
                "“The paper's recipe” is the model that travels with the package (`limelight train "
                f"--recipe paper`, seed {BUNDLED_SEED}, in collapsed form)."
            )
        training = self.recipe_model.record.get("training", {})
        facts = [f"{key} {training[key]}" for key in ("recipe", "seed") if key in training]
        details = ", ".join(facts) or "how it was trained is not recorded"
        return (
            f"“The paper's recipe” is the model that was given, '{self.paper_model}' "
            f"({details}); where a part is stored, it is the "
            "model that travels with the package."
        )

    def _input(self, name: str, read: Callable[[], T]) -> T:
        self.used.add(name)
        return self._read_once(name, read)

    def _read_once(self, name: str, read: Callable[[], T]) -> T:
        if name not in self._cache:
            self._cache[name] = read()
        return cast(T, self._cache[name])

    @property
    def pair_classifier(self) -> Model:
        """The classifier of sentence pairs in ``pair_model``; it has no default."""
        if (folder := self.pair_model) is None:
            raise InputError(
                "this needs a classifier of sentence pairs. Name it with --pair-model."
            )
        return self._input(PAIR_MODEL, lambda: _load_pair_classifier(folder, self.device))

    @property
    def image_classifier(self) -> Model:
        """The deep image classifier in ``image_model``; it has no default."""
        if (folder := self.image_model) is None:
            raise InputError("this needs a deep model of images. Name it with --image-model.")
        return self._input(IMAGE_MODEL, lambda: load(folder, device=self.device))

    @property
    def text_classifier(self) -> Model:
        """The deep classifier of film reviews in ``text_model``; it has no default."""
        if (folder := self.text_model) is None:
            raise InputError("this needs a deep classifier of reviews. Name it with --text-model.")
        return self._input(TEXT_MODEL, lambda: load(folder, device=self.device))

    @property
    def patch_classifier(self) -> PatchClassifier:
        """The paper's classifier over image patches; it is trained on Fashion-MNIST if needed."""
        return self._read_once("model over patches", self._load_patch_classifier)

    def _load_patch_classifier(self) -> PatchClassifier:
        folder = self.models / ("patches-quick" if self.quick else "patches")
        if not (folder / "config.json").exists():
            from limelight import train  # it loads torch, which most experiments do without
            from limelight.training import RECIPES

            recipe = RECIPES["images"]
            train(
                self.texts("fashion_mnist", "train"),
                recipe=replace(recipe, epochs=1) if self.quick else recipe,
                seed=self.seed,
                output=folder,
                device=self.device,
                progress=lambda progress: self.tick(progress.step, progress.steps),
            )
        return cast(PatchClassifier, load(folder))

    def has(self, need: Need) -> bool:
        """Whether the need of a part is met."""
        if need == "gpu":
            return self.device.startswith("cuda")
        if need == "sick":
            return all(_find_file(self.data / "sick", part) for part in ("train", "test"))
        if need == "images":
            return all(_find_file(self.data / "fashion_mnist", part) for part in ("train", "test"))
        if need == "image-model":
            return self.image_model is not None
        if need == "text-model":
            return self.text_model is not None
        return self.pair_model is not None

    def progress_folder(self, name: str) -> Path:
        """Return the folder in which a long part saves its intermediate results."""
        return self.models.parent / "unfinished" / name

    def train_recipe_model(self, seed: int, recipe: str = "paper") -> AttentionClassifier:
        """Train a recipe with ``seed``, or load the model if the run has trained it."""
        folder = self.models / f"{recipe}-{seed}"
        if not (folder / "config.json").exists():
            from limelight import train  # it loads torch, which most experiments do without

            train(
                self.texts("imdb", "train"),
                recipe=recipe,
                seed=seed,
                output=folder,
                device=self.device,
                progress=lambda progress: self.tick(progress.step, progress.steps),
                **TRAINING_OPTIONS[recipe],
            )
        return _load_recipe_model(folder)

    def texts(self, name: str, part: str) -> LabeledTexts:
        """Return the ``part`` ("train" or "test") of the data set ``name``."""
        read = read_labeled_images if name == "fashion_mnist" else read_labeled

        def read_texts() -> LabeledTexts:
            """Read the file of the part."""
            path = self._find_source(name, part)
            return read(path, part=_typed_part(part), labels=CLASSES[name])

        return self._input(f"{name} {part}", read_texts)

    def sample_texts(self, name: str, part: str, count: int) -> LabeledTexts:
        """Draw ``count`` texts of a data set with the seed of the run, the same for every model."""
        texts = self.texts(name, part)
        rows = np.random.default_rng([self.seed, 71]).permutation(len(texts))[:count]
        return LabeledTexts(
            [texts.texts[i] for i in rows], texts.labels[rows], texts.classes, texts.source
        )

    def _find_source(self, name: str, part: str) -> Path:
        """Return the file of ``part``, or the folder of the IMDB archive that holds it."""
        folders = [self.data / name, *([self.data] if name == "imdb" else [])]
        for folder in folders:
            if file := _find_file(folder, part):
                return file
            for archive in (folder, folder / "aclImdb"):
                if name == "imdb" and (archive / part / "pos").is_dir():
                    return archive
        raise InputError(
            f"the {part} texts of {name} are not in '{self.data}'. Add {name}/{part}.parquet (or "
            f".csv, .jsonl){', or aclImdb' if name == 'imdb' else ''}."
        )


def _load_recipe_model(folder: Path) -> AttentionClassifier:
    """Load the model in ``folder``, an `AttentionClassifier` with IMDB's two classes.

    Some data files have the labels 0 and 1 without class names. Models that were trained on such
    files have the classes "0" and "1", which are replaced by IMDB's names.
    """
    model = load_collapsed(folder) if is_collapsed(folder) else load(folder)
    if not isinstance(model, AttentionClassifier):
        raise InputError(
            f"the model in '{folder}' is not an AttentionClassifier of the paper. Train one with "
            "`limelight train --recipe paper`."
        )
    if model.classes not in (SENTIMENT, _NUMBERED):
        raise InputError(
            f"the paper's model must have IMDB's classes, {' and '.join(SENTIMENT)} (or 0 and 1), "
            f"but '{folder}' has {', '.join(model.classes)}."
        )
    return replace(model, classes=SENTIMENT)


def _load_pair_classifier(folder: Path, device: str) -> Model:
    """Load the model in ``folder``, which must read pairs and have SICK's classes."""
    model: Model = load(folder, device=device)
    if (reason := reason_missing(model, "reads_pairs")) is not None:
        raise InputError(
            f"'{folder}' must contain a model that reads two texts together, but {reason}."
        )
    if model.classes != CLASSES["sick"]:
        raise InputError(
            f"the model of pairs must have SICK's classes, {', '.join(CLASSES['sick'])}, in this "
            f"order, but '{folder}' has {', '.join(model.classes)}."
        )
    return model


def _find_file(folder: Path, part: str) -> Path | None:
    """Return the file of a part: "test.csv", else the only subset, such as "test_10k.csv".

    Files with other names ("test_rationales.csv") are not read.
    """
    for suffix in _SUFFIXES:
        if (file := folder / f"{part}{suffix}").is_file():
            return file
    subset = re.compile(rf"{part}_\d+k?({'|'.join(map(re.escape, _SUFFIXES))})")
    subsets = sorted(file for file in folder.glob(f"{part}_*") if subset.fullmatch(file.name))
    if len(subsets) > 1:
        raise InputError(
            f"'{folder}' has several subsets ({', '.join(file.name for file in subsets)}) and "
            f"no {part} file. Leave one."
        )
    return subsets[0] if subsets else None


def _typed_part(part: str) -> Literal["train", "test"]:
    return "train" if part == "train" else "test"
