"""``limelight learn``."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from limelight.cli.console import ProgressShown, tell
from limelight.cli.options import (
    ModelOptions,
    PairColumn,
    Seed,
    TextColumn,
    WholeNumber,
    WholeNumberOrNone,
)
from limelight.data import read_texts


def learn(
    *,
    model: ModelOptions = ModelOptions(),  # noqa: B008  (it is frozen)
    data: Path,
    output: Annotated[Path, Parameter(name=["--output", "-o"])],
    text_column: TextColumn = None,
    pair_column: PairColumn = None,
    texts: WholeNumber = 500,
    pairs: WholeNumber = 3,
    budget: str | None = None,
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
        to be explained.
    output
        Folder for the method and for the values that were drawn.
    texts
        How many texts to draw values of, evenly spread over the data.
    pairs
        Pairs of orders drawn of each text, 2 (d − 1) calls of the model each for d words.
    budget
        How much to spend on drawing in all: "30min", or "100000 calls". Fewer pairs are drawn, then
        fewer texts, until it suffices.
    judged
        Texts on which the share is measured, of those kept aside; by default as many as take a
        quarter of the calls of drawing.
    seed
        Same seed, same method.
    """
    from limelight import learn as learned  # says which extra is missing, if torch is

    given = read_texts(data, text_column=text_column, pair_column=pair_column, limit=texts)
    try:
        with (shown := ProgressShown("learning", estimated=True)) as moved:
            found = learned(
                model.load(),
                given,
                pairs=pairs,
                output=output,
                budget=budget,
                judged=judged,
                seed=seed,
                progress=moved,
                estimate=lambda ahead: shown.say(f"Drawing takes {ahead}."),
            )
    except KeyboardInterrupt as stop:
        stop.add_note(f"values drawn so far are kept in '{output}'. The same command goes on.")
        raise
    print(f"{output}: {found}")
    if notice := found.report.get("notice"):
        tell(f"Notice: {notice}", style="bold")
