"""``limelight train``, ``limelight learn`` and ``limelight data``."""

from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from cyclopts import Parameter

from limelight.cli.console import (
    handle_interrupt,
    parse_value,
    print_stderr,
    show_progress,
    split_settings,
)
from limelight.cli.groups import BUDGET, INPUT, MODEL, OUTPUT, TRAINING
from limelight.cli.options import (
    AnswerColumn,
    LabelColumn,
    ModelOptions,
    OutputFile,
    PairColumn,
    Seed,
    TextColumn,
    WholeNumber,
    WholeNumberOrNone,
)
from limelight.cli.texts import read_answers
from limelight.data import LabeledTexts, imdb, read_labeled, read_texts
from limelight.data.images import read_labeled_images
from limelight.errors import InputError, unknown_name_message

if TYPE_CHECKING:
    from limelight.training import Progress, Recipe


def train(
    data: Annotated[Path | None, Parameter(group=INPUT)] = None,
    *,
    images: Annotated[Path | None, Parameter(group=INPUT)] = None,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    labels: Annotated[str | None, Parameter(name=["--labels", "--classes"], group=INPUT)] = None,
    validation: Annotated[str | None, Parameter(group=INPUT)] = None,
    device: Annotated[str | None, Parameter(group=MODEL)] = None,
    recipe: Annotated[str, Parameter(group=TRAINING)] = "default",
    epochs: Annotated[WholeNumberOrNone, Parameter(group=TRAINING)] = None,
    set: Annotated[tuple[str, ...], Parameter(group=TRAINING)] = (),
    seed: Seed = 0,
    fresh: Annotated[bool, Parameter(group=OUTPUT)] = False,
    output: OutputFile,
    precision: Annotated[Literal["float32", "float16"], Parameter(group=OUTPUT)] = "float32",
) -> None:
    """Train an AttentionClassifier on labeled texts or images.

    If the command was interrupted, run the same command again to continue.

    Parameters
    ----------
    data
        File of texts and labels (.parquet, .csv, .tsv, .jsonl, or the last three with .gz), or
        a folder of such files. For the aclImdb folder, the training reviews are used.
    images
        Images with labels, instead of texts: a folder with one folder of images per class, a
        .parquet file with a column of PNG or JPEG files, or an .npz file of NumPy arrays.
    labels
        Classes in the order of the label numbers, as in negative,positive, or the class of each
        label, as in neg=negative,pos=positive.
    validation
        Data to select the best epoch: a file, or the share of the texts to hold out, such as 0.1.
        0 trains on all texts and keeps the last epoch.
    device
        Device to train on: "cpu" or "cuda". Default: a GPU if there is one.
    recipe
        Training settings. "default" stops when the accuracy on held-out texts stops rising.
        "images" is for images, "paper" is the training of the paper, and "shipped" is the training
        of the IMDB model of this package.
    epochs
        Train for exactly this number of epochs. Default: the recipe decides.
    set
        Another setting of the recipe as name=value, such as dropout=0.4. Repeat for more settings.
    fresh
        Start again, and replace the model in the output folder. Default: continue an interrupted
        training.
    output
        Folder for the model, its training history and its checkpoint. If the command was
        interrupted, run it again to continue.
    precision
        Precision of the stored weights. "float16" halves the size.
    """
    from limelight import train as train_classifier  # raises an error if torch is missing
    from limelight.training import find_recipe

    if (source := images or data) is None or (images and data):
        raise InputError("train needs either a file of texts or --images FOLDER.")
    recipe_name = "images" if images and recipe == "default" else recipe
    settings = _change_recipe(find_recipe(recipe_name), set, epochs)
    reader = read_labeled_images if images else read_labeled
    read = partial(reader, text_column=text_column, label_column=label_column, labels=labels)
    texts = read(source)
    validation_data: LabeledTexts | float | None = None
    if validation is not None:
        try:
            validation_data = float(validation)
        except ValueError:
            validation_data = read(validation, texts.class_names, part="test")
    for warning in texts.warnings:
        print_stderr(warning)

    def describe_checkpoint() -> str:
        """Say where the checkpoint of an interrupted training is, and how to continue."""
        if (output / "checkpoint.safetensors").exists():
            return f"The checkpoint is in '{output}'. Run the same command again to continue."
        return "Run the same command again to start anew."

    def report(progress: "Progress") -> None:
        """Move the bar in a terminal; otherwise print one line per epoch."""
        best = "" if progress.best is None else f", best accuracy {progress.best:.1%}"
        display(progress.step, progress.steps, f"epoch {progress.epoch}{best}")
        if progress.epoch_ended and not display.is_live:
            display.announce(_epoch_line(progress))

    with handle_interrupt(describe_checkpoint), show_progress("training") as display:
        model = train_classifier(
            texts,
            recipe=settings,
            output=output,
            validation=validation_data,
            seed=seed,
            device=device,
            progress=report,
            resume=not fresh,
            precision=precision,
        )
    record = model.record["training"]
    best = record["kept_epoch"]
    score = record["validation_accuracy"][best - 1]
    accuracy = "" if score is None else f", validation accuracy {score:.2%}"
    print(f"{output}: epoch {best} kept{accuracy}")
    if warning := record.get("warning"):
        print_stderr(f"Warning: {warning}", style="bold")


def learn(
    *,
    data: Annotated[Path, Parameter(group=INPUT)],
    text_column: TextColumn = None,
    pair_column: PairColumn = None,
    answer_column: AnswerColumn = None,
    texts: Annotated[WholeNumber, Parameter(group=INPUT)] = 500,
    model: ModelOptions = ModelOptions(),  # noqa: B008  (it is frozen)
    pairs: Annotated[WholeNumber, Parameter(group=BUDGET)] = 3,
    budget: Annotated[str, Parameter(group=BUDGET)] = "30min",
    judged: Annotated[WholeNumberOrNone, Parameter(group=BUDGET)] = None,
    seed: Seed = 0,
    output: OutputFile,
) -> None:
    """Train a fast method for a model: it explains a text in one forward pass.

    Small networks learn to predict sampled Shapley values from the hidden states of the model. Use
    the new method with --method learned:OUTPUT. If the command was interrupted, run the same
    command again to continue.

    Parameters
    ----------
    data
        File of texts like those that you want to explain (.parquet, .csv, .tsv or .jsonl). The last
        three may end in .gz. For image models: a folder of images, a .parquet or an .npz file.
    texts
        Number of texts to learn from, evenly spread over the data.
    pairs
        Pairs of orders to sample per text. Each pair takes 2 (d − 1) model calls for d words.
    budget
        Limit for all sampling: a time ("2h") or a number of model calls ("100000 calls"). To fit
        the limit, the command samples fewer pairs, then fewer texts.
    judged
        Number of held-out texts that measure the faithfulness of the method. Default: as many as a
        quarter of the model calls allow.
    output
        Folder for the method and the sampled values. Use the method with --method learned:FOLDER.
        If the command was interrupted, run it again to continue.
    """
    from limelight import learn as learn_method  # raises an error if torch is missing

    documents = read_texts(data, text_column=text_column, pair_column=pair_column, limit=texts)
    answers = read_answers(data, answer_column, text_column=text_column, limit=texts)

    with show_progress("learning", announced=True) as display:
        method = learn_method(
            model.load(),
            documents,
            pairs=pairs,
            answer=answers,
            output=output,
            budget=budget,
            judged=judged,
            seed=seed,
            progress=display,
            estimate=lambda sentence: display.announce(f"{sentence} (--budget {budget})."),
        )
    print(f"{output}: {method}")


def _change_recipe(recipe: "Recipe", pairs: tuple[str, ...], epochs: int | None) -> "Recipe":
    """Return a copy of the recipe with the settings in ``pairs`` ("name=value")."""
    from limelight.explainers.method import make_settings

    values = asdict(recipe)
    constants: dict[str, Any] = {"none": None, "true": True, "false": False}
    if epochs is not None:
        values |= {"epochs": epochs, "patience": None}
    for name, value in split_settings(pairs):
        if name not in values:
            raise InputError(unknown_name_message("setting", name, values))
        values[name] = constants.get(value.lower(), parse_value(value))
    return cast("Recipe", make_settings(type(recipe), **values))


def _epoch_line(progress: "Progress") -> str:
    """Return a line with the loss and the accuracy of an epoch."""
    total = "" if progress.patience is not None else f"/{progress.epochs}"
    accuracy, best = progress.accuracy, progress.best
    score = "" if accuracy is None else f", validation accuracy {accuracy:.2%}"
    if best is not None and accuracy is not None and best > accuracy:
        score += f" (best {best:.2%})"
    seconds = f"{progress.seconds:.0f} s"
    return f"epoch {progress.epoch}{total}, loss {progress.loss:.4f}{score}, {seconds}"


def data(
    name: Annotated[Literal["imdb"], Parameter(group=INPUT)],
    *,
    url: Annotated[str | None, Parameter(group=INPUT)] = None,
    output: OutputFile,
) -> None:
    """Download a public data set, check it, and unpack it.

    If the download was interrupted, run the same command again to continue.

    Parameters
    ----------
    name
        The data set. "imdb": 50,000 film reviews (Maas et al. 2011, 84 MB).
    url
        Address of a copy of the file. The copy must have the same checksum.
    output
        Folder in which to create the folder of the data set.
    """
    archive = imdb.IMDB if url is None else replace(imdb.IMDB, url=url)
    with show_progress("download", announced=True) as display:

        def report(stage: str, done: int, total: int) -> None:
            """Show how many megabytes are done."""
            display(done, total, f"{stage} {done / 1e6:.0f} of {total / 1e6:.0f} MB")

        folder = {"imdb": imdb.fetch_imdb}[name](output, archive=archive, progress=report)
    print(folder)
