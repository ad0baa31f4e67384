"""``limelight.train``: train a classifier on labeled texts or images."""

import contextlib
import json
import math
import os
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from limelight.data.images import read_labeled_images
from limelight.data.labeled import LabeledTexts, read_labeled
from limelight.data.labels import Labels, below_chance_warning
from limelight.errors import InputError, unknown_name_message
from limelight.files import folder_lock, remove_abandoned_parts, write_atomically
from limelight.models.attention import AttentionClassifier
from limelight.models.attention.folder import FILES, is_incomplete_folder, write_files
from limelight.training.images import has_images
from limelight.training.loop import Progress, Training, accuracy, fit
from limelight.training.recipe import RECIPES, Recipe, find_recipe
from limelight.training.state import (
    CHECKPOINT,
    MAKE_ROOM,
    Checkpoint,
    explain_write_errors,
    make_writable_folder,
)
from limelight.training.texts import PreparedData, prepare

_MAX_CHECKED = 2000  # training texts on which the accuracy is checked if none are held out
HISTORY = "history.json"
PRECISIONS = ("float32", "float16")


def train(
    data: Any,
    *,
    recipe: Recipe | str = "default",
    output: str | os.PathLike[str] | None = None,
    validation: Any = None,
    seed: int = 0,
    device: str | None = None,
    progress: Callable[[Progress], None] | None = None,
    resume: bool = True,
    checkpoint_minutes: float = 5.0,
    precision: str = "float32",
    labels: Labels | None = None,
    images: bool = False,
) -> AttentionClassifier:
    """Train a classifier with attention on labeled texts or images.

    The same arguments give the same model on the same machine. If a run was interrupted, the same
    call continues it.

    Parameters
    ----------
    data
        Labeled texts, or a path or a table as :func:`limelight.read_labeled` takes it. At least
        two classes.
    recipe
        A name of ``limelight.training.RECIPES``, or a ``Recipe`` with your own settings.
    output
        Folder for the model. It must be new or empty, or have an interrupted run.
    validation
        A data set, or the share of ``data`` to hold out. Default: the share of the recipe. With 0
        the model is trained on all texts and the last epoch is used.
    seed
        The seed of all randomness.
    device
        "cpu" or "cuda". Default: the GPU if there is one.
    progress
        Called with a :class:`limelight.training.Progress` every few steps.
    resume
        Continue an interrupted run in the folder. With False the training starts again.
    checkpoint_minutes
        Minutes between two checkpoints.
    precision
        "float32" or "float16". "float16" halves the size of the finished weights.
    labels
        The classes of the labels, as in :func:`limelight.read_labeled`.
    images
        Read images with labels: a folder with a folder per class, a table, or NumPy arrays.

    Returns
    -------
    The trained classifier.

    Raises
    ------
    InputError
        If an argument is invalid, if the data cannot be trained on, or if the folder has other
        files or the run of other arguments.

    Examples
    --------
    >>> import limelight
    >>> texts = ["a superb film", "a dull film", "superb and moving", "dull and long"] * 8
    >>> labels = ["good", "bad"] * 16
    >>> model = limelight.train({"text": texts, "label": labels}, validation=0.25)
    >>> model.classes
    ('bad', 'good')
    >>> limelight.predict(model, "a superb plot")["class"]
    'good'
    """
    if precision not in PRECISIONS:
        raise InputError(unknown_name_message("precision", precision, PRECISIONS))
    if seed < 0:
        raise InputError(f"seed must be at least 0, not {seed}.")
    read = read_labeled_images if images else read_labeled
    if not isinstance(data, LabeledTexts):
        data = read(data, labels=labels)
    if isinstance(recipe, str):
        is_default = recipe == "default"
        recipe = find_recipe("images" if is_default and has_images(data) else recipe)
    if isinstance(validation, int | float):
        recipe, validation = replace(recipe, validation=float(validation)), None
    if not isinstance(validation, LabeledTexts | None):
        validation = read(validation, data.class_names, part="test", labels=labels)
    device = usable_device(device)
    folder = None if output is None else _check_folder(Path(output), restart=not resume)
    with contextlib.nullcontext() if folder is None else folder_lock(folder, _BUSY):
        if folder is not None:
            remove_abandoned_parts(folder)
        prepared = prepare(data, recipe, validation=validation, seed=seed)
        # Another device or torch version rounds sums differently, so it must not continue the run.
        environment = {"seed": seed, "device": device, "torch": torch.__version__}
        checkpoint = None
        if folder is not None:
            arguments = {
                **asdict(recipe),
                **prepared.record,
                "validation_sha256": None if validation is None else validation.digest,
                "classes": list(prepared.classes),
                **environment,
            }
            checkpoint = Checkpoint(folder, arguments, checkpoint_minutes)
            if not resume:
                checkpoint.path.unlink(missing_ok=True)
        training = fit(
            prepared, recipe, seed=seed, device=device, progress=progress, checkpoint=checkpoint
        )
        record = _training_record(prepared, recipe, training, **environment)
        if data.warnings:
            record["labels"] = list(data.warnings)
        with torch.no_grad():
            for name, weight in (training.best or training.validated_weights).items():
                training.weights[name].copy_(weight)
        classifier = training.module.to_classifier(
            prepared.vocabulary, prepared.classes, record={"training": record}
        ).with_precision(precision)
        if folder is not None:
            _save_model(classifier, training, folder)
    return classifier


_BUSY = "another training is writing to the output folder"


def usable_device(device: str | None) -> str:
    """Return ``device`` after a check; without one, "cuda" if torch finds a GPU, else "cpu"."""
    default = "cuda" if torch.cuda.is_available() else "cpu"
    kind = (device or default).partition(":")[0]
    if kind not in ("cpu", "cuda"):
        raise InputError(unknown_name_message("device", kind, ("cpu", "cuda")))
    if kind == "cuda" and default == "cpu":
        raise InputError("torch finds no CUDA device. Leave --device out, or use --device cpu.")
    return device or default


def _check_folder(folder: Path, *, restart: bool) -> Path:
    """Create the output folder; raise `InputError` if a training must not write there."""
    model_files = {*FILES, CHECKPOINT, HISTORY, "README.md"}
    make_writable_folder(folder)
    foreign = [p.name for p in folder.iterdir() if p.name not in model_files and p.name[0] != "."]
    if foreign:
        raise InputError(
            f"the output folder '{folder}' contains other files ({sorted(foreign)[0]!r}). Choose "
            "a new or empty folder."
        )
    is_unfinished = (folder / CHECKPOINT).exists() or not (folder / "config.json").exists()
    if not (restart or is_unfinished or is_incomplete_folder(folder)):
        raise InputError(
            f"the output folder '{folder}' already contains a trained model. Choose another, or "
            "start over with --fresh."
        )
    return folder


def _training_record(
    prepared: PreparedData, recipe: Recipe, training: Training, *, seed: int, **machine: str
) -> dict[str, Any]:
    """Return the record of a training for ``config.json``, without times, so that it repeats."""
    settings = asdict(recipe)
    changes = {
        name: {k: v for k, v in settings.items() if v != getattr(stock_recipe, k)}
        for name, stock_recipe in RECIPES.items()
    }
    closest = min(changes, key=lambda name: len(changes[name]))
    warning = no_learning_warning(prepared, training)
    return {
        "recipe": closest,
        "changed": changes[closest],
        "settings": settings,
        "seed": seed,
        **prepared.record,
        "kept_epoch": (training.best_epoch or {})["epoch"],
        "validation_accuracy": [epoch["accuracy"] for epoch in training.history],
        **machine,
        **({"warning": warning} if warning else {}),
    }


def no_learning_warning(prepared: PreparedData, training: Training) -> str | None:
    """Return a warning if the model is no better than always predicting the most frequent class.

    The model is better if its accuracy is two standard errors above the share of that class. For
    few texts it is enough if the accuracy is half the way from the share to 1.
    """
    texts, noun = prepared.validation, "held-out texts"
    if texts is None:
        # Spread over all of them: a file may be sorted by label.
        step = -(-len(prepared.training) // _MAX_CHECKED)
        texts = prepared.training.rows(np.arange(0, len(prepared.training), step))
        noun = "training texts"
    best = training.best_epoch or {}
    score = accuracy(training, texts) if prepared.validation is None else best["accuracy"]
    share = float(np.bincount(texts.labels).max()) / len(texts)
    noise = 2 * math.sqrt(share * (1 - share) / len(texts))
    if score > share + min(noise, (1 - share) / 2):
        return None
    frequent = prepared.classes[int(np.bincount(texts.labels).argmax())]
    # Above the share, but within the noise of so few texts: nothing is shown, either way.
    if prepared.record.get("validation") not in (None, "held out"):  # a set with labels of its own
        warning = below_chance_warning(round(score * len(texts)), len(texts), len(prepared.classes))
        if warning is not None:
            return warning
    verdict = "HAS LEARNED NOTHING" if score <= share else "HAS NOT SHOWN THAT IT LEARNED ANYTHING"
    return (
        f"THE MODEL {verdict}: it gets {score:.1%} of the {len(texts):,} {noun} right, and always "
        f"predicting {frequent!r} gets {share:.1%}. Check the labels, give more texts, or train "
        "for longer (--epochs)."
    )


def _save_model(classifier: AttentionClassifier, training: Training, folder: Path) -> None:
    """Write the model and its history to ``folder``; then delete the checkpoint."""
    with explain_write_errors(folder, MAKE_ROOM):
        write_atomically(folder / HISTORY, json.dumps(training.history, indent=2) + "\n")
        write_files(classifier, folder)
        if (folder / CHECKPOINT).exists():
            (folder / CHECKPOINT).unlink()
