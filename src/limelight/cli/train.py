"""``limelight train``, ``limelight learn`` and ``limelight data``."""

from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from cyclopts import Parameter

from limelight.cli.console import named_values, noted, parsed_value, show_progress, tell
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
from limelight.cli.texts import answers_in
from limelight.data import LabelledTexts, imdb, read_labelled, read_texts
from limelight.data.pictures import read_pictures
from limelight.errors import InputError, nearest

if TYPE_CHECKING:
    from limelight.training import Progress, Recipe


def train(
    data: Path | None = None,
    *,
    images: Path | None = None,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    output: OutputFile,
    recipe: str = "default",
    validation: str | None = None,
    labels: Annotated[str | None, Parameter(name=["--labels", "--classes"])] = None,
    seed: Seed = 0,
    epochs: WholeNumberOrNone = None,
    set: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    device: str | None = None,
    fresh: bool = False,
    precision: Literal["float32", "float16"] = "float32",
) -> None:
    """Train the paper's classifier and write it to a folder.

    A run that was interrupted continues when the same command is given again.

    Parameters
    ----------
    data
        File of texts and labels (.parquet, .csv, .tsv, .jsonl, the last three also .gz), a folder
        of them, or the aclImdb folder, of which the training reviews are taken.
    images
        Pictures with labels, instead of texts: a folder with a folder of pictures for each class, a
        table with PNG or JPEG files in a column (.parquet, as Hugging Face writes it), or arrays of
        NumPy (.npz). The classifier then reads patches.
    output
        Folder for the model, its history and, while training, its checkpoint.
    recipe
        "default" trains until the held-out texts are answered no better, and is "pictures" where
        there are pictures; "paper" is the authors' training, and "shipped" that of the IMDB model
        of this package.
    validation
        File to pick the best epoch with, or the share of the data to hold out for it; 0 fits on
        everything and keeps the last epoch.
    labels
        Names of the classes in the order of their numbers, separated by commas:
        "negative,positive"; or the class of each label: "neg=negative,pos=positive".
    epochs
        Epochs to train, all of them, instead of the recipe's.
    set
        Change any other setting of the recipe: "dropout=0.4". May be repeated.
    device
        "cpu" or "cuda"; by default the graphics card if there is one.
    fresh
        Start over instead of continuing, and replace a model that is there already.
    precision
        Precision in which the finished weights are stored; "float16" is half the size.
    """
    from limelight import train as trained  # says which extra is missing, if torch is
    from limelight.training import recipe_named

    if (given := images or data) is None or (images and data):
        raise InputError(
            "train learns from a file of texts, or from pictures (--images); give one."
        )
    usual = "pictures" if images and recipe == "default" else recipe
    settings = _changed(recipe_named(usual), set, epochs)
    reader = read_pictures if images else read_labelled
    read = partial(reader, text_column=text_column, label_column=label_column, labels=labels)
    texts = read(given)
    held: LabelledTexts | float | None = None
    if validation is not None:
        try:
            held = float(validation)
        except ValueError:
            held = read(validation, texts.class_names, part="test")
    for notice in texts.notices:
        tell(notice)

    def kept() -> str:
        if (output / "checkpoint.safetensors").exists():
            return f"The checkpoint is in '{output}'; give the same command to go on from there."
        return "Give the same command to start again."

    def told(at: "Progress") -> None:
        """Move the bar on a terminal; elsewhere say one line per epoch."""
        best = "" if at.best is None else f", best accuracy {at.best:.1%}"
        display(at.step, at.steps, f"epoch {at.epoch}{best}")
        if at.epoch_ended and not display.is_live:
            display.announce(_line(at))

    with noted(kept), show_progress("training") as display:
        model = trained(
            texts,
            recipe=settings,
            output=output,
            validation=held,
            seed=seed,
            device=device,
            progress=told,
            resume=not fresh,
            precision=precision,
        )
    record = model.record["training"]
    best = record["kept_epoch"]
    score = record["validation_accuracy"][best - 1]
    measured = "" if score is None else f", validation accuracy {score:.2%}"
    print(f"{output}: epoch {best} kept{measured}")
    if notice := record.get("notice"):
        tell(f"Notice: {notice}", style="bold")


def learn(
    *,
    model: ModelOptions = ModelOptions(),  # noqa: B008  (it is frozen)
    data: Path,
    output: OutputFile,
    text_column: TextColumn = None,
    pair_column: PairColumn = None,
    answer_column: AnswerColumn = None,
    texts: WholeNumber = 500,
    pairs: WholeNumber = 3,
    budget: str = "30min",
    judged: WholeNumberOrNone = None,
    seed: Seed = 0,
) -> None:
    """Fit a method to a model that explains a text at the price of one forward pass.

    Shapley values of some texts are sampled, and small networks learn to say them from what the
    model holds of each word. The method is then called learned:OUTPUT by every command. A command
    that was interrupted goes on when it is given again.

    Parameters
    ----------
    data
        File of texts (.parquet, .csv, .tsv, .jsonl, the last three also .gz), like those that are
        to be explained; of a model that reads pictures, a folder of them, or a table or .npz file.
    output
        Folder for the method and for the values that were drawn.
    texts
        How many texts to draw values of, evenly spread over the data.
    pairs
        Pairs of orders drawn of each text, 2 (d − 1) calls of the model each for d words.
    budget
        How much to spend on drawing in all: "2h", or "100000 calls". Fewer pairs are drawn, then
        fewer texts, until it suffices; what that leaves is said before anything is drawn. A time
        becomes a number of calls at the start, so a machine that becomes slower takes longer.
    judged
        Texts on which the share is measured, of those kept aside; by default as many as take a
        quarter of the calls of drawing.
    """
    from limelight import learn as learned  # says which extra is missing, if torch is

    given = read_texts(data, text_column=text_column, pair_column=pair_column, limit=texts)
    answers = answers_in(data, answer_column, text_column=text_column, limit=texts)

    def kept() -> str:
        drawn = any(output.glob("drawn/part-*"))
        return f"Values drawn so far are kept in '{output}'. The same command goes on." * drawn

    with noted(kept), show_progress("learning", announced=True) as display:
        found = learned(
            model.load(),
            given,
            pairs=pairs,
            answer=answers,
            output=output,
            budget=budget,
            judged=judged,
            seed=seed,
            progress=display,
            estimate=lambda sentence: display.announce(f"{sentence} (--budget {budget})."),
        )
    print(f"{output}: {found}")  # a notice comes first


def _changed(recipe: "Recipe", pairs: tuple[str, ...], epochs: int | None) -> "Recipe":
    """Return ``recipe`` with the settings in ``pairs`` ("name=value") changed."""
    from limelight.explainers.method import made

    values = asdict(recipe)
    special: dict[str, Any] = {"none": None, "true": True, "false": False}
    if epochs is not None:
        values |= {"epochs": epochs, "patience": None}
    for name, value in named_values(pairs):
        if name not in values:
            raise InputError(nearest("setting", name, values))
        values[name] = special.get(value.lower(), parsed_value(value))
    return cast("Recipe", made(type(recipe), **values))


def _line(at: "Progress") -> str:
    of = "" if at.patience is not None else f"/{at.epochs}"
    score = "" if at.accuracy is None else f", validation accuracy {at.accuracy:.2%}"
    if at.best is not None and at.accuracy is not None and at.best > at.accuracy:
        score += f" (best {at.best:.2%})"
    return f"epoch {at.epoch}{of}, loss {at.loss:.4f}{score}, {at.seconds:.0f} s"


def data(
    name: Literal["imdb"],
    *,
    output: OutputFile,
    url: str | None = None,
) -> None:
    """Download a public data set, check it, and unpack it.

    Run the same command again to continue a download that was interrupted.

    Parameters
    ----------
    name
        The data set: "imdb", 50,000 film reviews (Maas et al. 2011, 84 MB).
    output
        Folder in which the data set's own folder is put.
    url
        Another place to download the same file from; it is checked all the same.
    """
    archive = imdb.IMDB if url is None else replace(imdb.IMDB, url=url)
    with show_progress("download", announced=True) as display:

        def report(stage: str, done: int, total: int) -> None:
            display(done, total, f"{stage} {done / 1e6:.0f} of {total / 1e6:.0f} MB")

        folder = {"imdb": imdb.fetch_imdb}[name](output, archive=archive, progress=report)
    print(folder)
