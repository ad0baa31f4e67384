"""The reproduction as pages of the documentation, every number from the stored results."""

__all__ = ["documentation_page", "summary"]

from collections.abc import Iterator, Sequence

from limelight.experiments.experiment import Table
from limelight.experiments.report import Row, shown

_INTRODUCTION = """\
# What we found when we reproduced the paper

[Attention Meets Post-hoc Interpretability](https://proceedings.mlr.press/v235/lopardo24a.html)
(Lopardo, Precioso and Garreau, ICML 2024) is the paper that this library starts from. We ran its
experiments again, measured the claims that it makes in words, and went through the questions that
it leaves open. Most of it holds: away from [cls] Theorem 4.1 is the gradient to the last digit,
its accuracies are what its recipe gives, its figures can be drawn again. Where we found something
else, this page says what was measured and how. We may have read a sentence differently than it was
meant, and the authors may see it differently; corrections are welcome.

```
limelight reproduce --data DIR --output DIR --quick
```

runs everything below in some minutes on two cores and writes a report like this page, with figures
(PNG, SVG), tables (CSV) and `results.json`. Without `--quick` it takes as many texts as are named
here, about two hours on two cores, and trains the model of the paper's recipe first. The deep
networks want a graphics card (`--device cuda`; about ten minutes on an H200 for all of them);
without one, their numbers are those stored in the package. `--only figure-4` runs one experiment,
`--only figure-4.paper` one part of it, and a run that was killed continues where it was. `DIR`
holds IMDB's `train` and `test` files as `limelight data imdb` leaves them; SST-2 and AG News are
read from `sst2` and `ag_news` beside `imdb`, and only the deep networks want them.

Two models appear throughout: *the paper's recipe* (seed 3 of `limelight train --recipe paper`) and
*the shipped model* (`default`, the same architecture with regularisation). This page is written by
`python docs/reproduction.py` from `src/limelight/experiments/results.json`; a test fails when they
differ.
"""


def documentation_page(rows: Sequence[Row], images: str) -> str:
    """Return the whole page; figures are files in the folder ``images``."""
    return "\n".join([_INTRODUCTION, *(line for row in rows for line in _section(row, images))])


def _section(row: Row, images: str) -> Iterator[str]:
    yield f"## {row.experiment.title}\n"
    yield f"{row.findings.headline}\n"
    yield f"**The paper.** {row.experiment.paper}\n"
    yield "**What we measured.**\n"
    yield "\n".join(f"- {sentence}" for sentence in row.findings.measured) + "\n"
    for name, caption in row.figures.items():
        yield f"![{caption}]({images}/{name}.png)\n"
    if row.findings.table is not None:
        yield _table(row.findings.table) + "\n"
    yield f"**What it means.** {row.findings.meaning}\n"
    command = f"limelight reproduce --data DIR --output DIR --only {row.experiment.name}"
    yield f"Command: `{command}`\n"


def _table(table: Table) -> str:
    lines = [table.columns, ["---"] * len(table.columns)]
    lines += [[shown(cell, table.digits) for cell in row] for row in table.rows]
    return "\n".join(f"| {' | '.join(_cell(c) for c in line)} |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def summary(rows: Sequence[Row], names: Sequence[str]) -> str:
    """Return the findings of some experiments, a line each."""
    by_name = {row.experiment.name: row for row in rows}
    return "\n".join(f"- {by_name[name].findings.headline}" for name in names)
