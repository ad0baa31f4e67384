"""From labeled texts to a model folder."""

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

_SHOWN = 2000  # training texts that are asked where none were held out
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
    """Return the classifier trained on ``data``, and write it to the folder ``output``.

    ``data`` are labeled texts, or what :func:`limelight.read_labeled` makes them of: a path or a
    table. ``validation`` is a data set of its own, or the share of ``data`` to hold out; with 0 the
    model is fitted on everything and its last epoch is kept. The same arguments give the same model
    on the same machine; a run that was killed continues where it was when called again with them,
    unless ``resume`` is false. ``precision`` "float16" halves the size of the finished weights.
    ``labels`` names the classes of labels, as :func:`limelight.read_labeled` takes it. With
    ``images`` the path is that of images with labels: folders by class, a table, arrays of NumPy.
    """
    if precision not in PRECISIONS:
        raise InputError(unknown_name_message("precision", precision, PRECISIONS))
    if seed < 0:
        raise InputError(f"seed must be at least 0; got {seed}.")
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
    folder = None if output is None else _usable_folder(Path(output), fresh=not resume)
    with contextlib.nullcontext() if folder is None else folder_lock(folder, _BUSY):
        if folder is not None:
            remove_abandoned_parts(folder)
        prepared = prepare(data, recipe, validation=validation, seed=seed)
        # Another device or torch rounds its sums otherwise: a run is to be of one of them.
        made_by = {"seed": seed, "device": device, "torch": torch.__version__}
        checkpoint = None
        if folder is not None:
            arguments = {
                **asdict(recipe),
                **prepared.record,
                "validation_sha256": None if validation is None else validation.digest,
                "classes": list(prepared.classes),
                **made_by,
            }
            checkpoint = Checkpoint(folder, arguments, checkpoint_minutes)
            if not resume:
                checkpoint.path.unlink(missing_ok=True)
        training = fit(
            prepared, recipe, seed=seed, device=device, progress=progress, checkpoint=checkpoint
        )
        record = _record(prepared, recipe, training, **made_by)
        if data.warnings:
            record["labels"] = list(data.warnings)
        with torch.no_grad():
            for name, weight in (training.best or training.kept).items():
                training.weights[name].copy_(weight)
        classifier = training.module.to_classifier(
            prepared.vocabulary, prepared.classes, record={"training": record}
        ).with_precision(precision)
        if folder is not None:
            _save(classifier, training, folder)
    return classifier


_BUSY = "another training is writing to the output folder"


def usable_device(device: str | None) -> str:
    """Return ``device``, or the graphics card if there is one, else the processor."""
    found = "cuda" if torch.cuda.is_available() else "cpu"
    kind = (device or found).partition(":")[0]
    if kind not in ("cpu", "cuda"):
        raise InputError(unknown_name_message("device", kind, ("cpu", "cuda")))
    if kind == "cuda" and found == "cpu":
        raise InputError("torch finds no CUDA device here; leave --device out or say cpu.")
    return device or found


def _usable_folder(folder: Path, *, fresh: bool) -> Path:
    """Return ``folder``, made if need be, after checking that training may write there."""
    known = {*FILES, CHECKPOINT, HISTORY, "README.md"}
    make_writable_folder(folder)
    foreign = [p.name for p in folder.iterdir() if p.name not in known and p.name[0] != "."]
    if foreign:
        raise InputError(
            f"the output folder '{folder}' holds other files ({sorted(foreign)[0]!r}); "
            "choose a new or empty one."
        )
    began = (folder / CHECKPOINT).exists() or not (folder / "config.json").exists()
    if not (fresh or began or is_incomplete_folder(folder)):
        raise InputError(
            f"the output folder '{folder}' already holds a trained model; "
            "choose another, or start over with --fresh."
        )
    return folder


def _record(
    prepared: PreparedData, recipe: Recipe, training: Training, *, seed: int, **machine: str
) -> dict[str, Any]:
    """Return what the config says about the training: no times, so that it can be repeated."""
    settings = asdict(recipe)
    changes = {
        name: {k: v for k, v in settings.items() if v != getattr(known, k)}
        for name, known in RECIPES.items()
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
        "validation_accuracy": [entry["accuracy"] for entry in training.history],
        **machine,
        **({"warning": warning} if warning else {}),
    }


def no_learning_warning(prepared: PreparedData, training: Training) -> str | None:
    """Say that the kept weights are no better than always giving the most frequent class.

    They are better, and None comes back, if their accuracy is two standard errors above the share
    of that class, or with few texts half the way from it to 1.
    """
    held, what = prepared.validation, "held-out texts"
    if held is None:
        # Spread over all of them: a file may be sorted by label.
        step = -(-len(prepared.training) // _SHOWN)
        held = prepared.training.rows(np.arange(0, len(prepared.training), step))
        what = "training texts"
    best = training.best_epoch or {}
    score = accuracy(training, held) if prepared.validation is None else best["accuracy"]
    share = float(np.bincount(held.labels).max()) / len(held)
    noise = 2 * math.sqrt(share * (1 - share) / len(held))
    if score > share + min(noise, (1 - share) / 2):
        return None
    frequent = prepared.classes[int(np.bincount(held.labels).argmax())]
    # Above the share, but within what luck does to so few texts: nothing is shown, either way.
    if prepared.record.get("validation") not in (None, "held out"):  # a set with labels of its own
        doubt = below_chance_warning(round(score * len(held)), len(held), len(prepared.classes))
        if doubt is not None:
            return doubt
    verdict = "HAS LEARNED NOTHING" if score <= share else "HAS NOT SHOWN THAT IT LEARNED ANYTHING"
    return (
        f"THE MODEL {verdict}: it gets {score:.1%} of the {len(held):,} {what} right, and always "
        f"answering {frequent!r} gets {share:.1%}. Check that the labels belong to their texts; "
        "if they do, give more texts, or train for longer (--epochs)."
    )


def _save(classifier: AttentionClassifier, training: Training, folder: Path) -> None:
    """Put the model and its history in ``folder``; the checkpoint goes when all is in place."""
    with explain_write_errors(folder, MAKE_ROOM):
        write_atomically(folder / HISTORY, json.dumps(training.history, indent=2) + "\n")
        write_files(classifier, folder)
        if (folder / CHECKPOINT).exists():
            (folder / CHECKPOINT).unlink()
