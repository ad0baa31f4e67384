"""The documentation page about the reproduction, with numbers from the stored results."""

__all__ = ["documentation_page"]

from collections.abc import Iterator, Sequence

from limelight.provenance import describe_stamps
from limelight_reproduction.experiment import Table
from limelight_reproduction.report import ReportRow, format_cell
from limelight_reproduction.results import load_stored_results
from limelight_reproduction.trust import DeepShares, trust_section

_INTRODUCTION = """\
# What we found when we reproduced the paper

[Attention Meets Post-hoc Interpretability](https://proceedings.mlr.press/v235/lopardo24a.html)
(Lopardo, Precioso and Garreau, ICML 2024) is the paper that this library starts from. We ran its
experiments again, measured the claims that it makes in words, and went through the questions that
it leaves open.

%(verdicts)s

Where we found something else than the paper, this page says what was measured and how. We may have
read a sentence differently than it was meant, and the authors may see it differently; corrections
are welcome.

<a id="trust"></a>

## When attention may be trusted

%(trust)s
## How it is measured

```
pip install ./reproduction
limelight reproduce --data DIR --output DIR --quick
```

measures in less than ten minutes on two cores whatever needs no graphics card, says beforehand
which parts those are, and writes a report like this page that grows meanwhile and marks what is
stored, with figures (PNG, SVG), tables (CSV) and `results.json`. Without `--quick` it takes as many
texts as this page says (%(cpu)d minutes of measuring in the stored run, on one core of a busy
machine). The deep networks and the seeds of the recipe want a graphics card (`--device cuda`;
%(gpu)d minutes on an H200); without one, their numbers are those stored in the package.
`--only figure-4` runs one experiment, `--only figure-4.paper` one part of it, and a run that was
killed continues where it was. `DIR` holds IMDB's `train` and `test` files as `limelight data imdb`
leaves them; SST-2 and AG News are read from `sst2` and `ag_news` beside `imdb`, and only the deep
networks want them. Sentence pairs want SICK in `sick` and `--pair-model DIR`, a classifier of pairs
in Hugging Face's form; where either is missing, their numbers are the stored ones too.

Two models appear throughout: *the paper's recipe* (seed 3 of `limelight train --recipe paper`; what
other seeds give is measured for accuracy and for the error of Theorem 5.1) and *the shipped model*
(`default`, the same architecture with regularisation, one seed). The model of the paper's recipe
travels with the package in collapsed form: of every word what the heads read of it, in float16,
which is all that predictions and explanations need. Another one is taken from `--paper-model`, as
`limelight train --recipe paper` leaves it; the report names it, and keeps no numbers of another.
Every number of the paper's recipe is of the weights that are carried, except where several seeds
are compared. LIME, where it samples, is our
`lime-sampled`: the `lime` package's draws, weights and regression on the model's own tokens, which
tests hold against the package. As in the paper, the explained number is the output of the positive
class, `scale="score"`. Only `judge` takes the log-odds. This page is written by
`python docs/reproduction.py` from
`reproduction/src/limelight_reproduction/results.json`; a test fails when they differ.

## The article

```
scripts/article
```

builds `build/article/article.pdf` in a minute: ten pages in the form of a reproduction paper, with
the claims in the authors' words, what we found, the proofs by name and related work. Its numbers
are read from the same results and from those of the benchmarks, its figures are drawn anew, and its
last page lists the command of every number. `reproduction/article/README.md` says how to change it.
"""


def documentation_page(
    rows: Sequence[ReportRow], images: str, deep: DeepShares | None = None
) -> str:
    """Return the page about the reproduction, with figures from the folder ``images``.

    ``deep`` has the shares of a deep model, which are measured outside the reproduction.
    """
    introduction = _INTRODUCTION % {
        "verdicts": _verdict_table(rows),
        "trust": trust_section(load_stored_results(), deep),
        **_minutes(rows),
    }
    return "\n".join(
        [introduction, *(line for row in rows for line in _section_lines(row, images))]
    )


def _verdict_table(rows: Sequence[ReportRow]) -> str:
    """Return the table of all verdicts with links to their sections."""
    lines = [["claim or question", "verdict", "number", "section"], ["---"] * 4]
    for row in rows:
        link = f"[{row.experiment.name}](#{row.experiment.name})"
        lines += [
            [verdict.claim, verdict.holds, verdict.number, link]
            for verdict in row.findings.verdicts
        ]
    stored = load_stored_results()
    stamps = (result.stamp for row in rows for result in stored[row.experiment.name].values())
    table = _join_lines(lines)
    return f"{table}\n\n{describe_stamps(stamps)}"


def _minutes(rows: Sequence[ReportRow]) -> dict[str, float]:
    """Return the minutes that the stored measurements took with and without a GPU."""
    minutes = {"cpu": 0.0, "gpu": 0.0}
    for row in rows:
        for part in row.experiment.parts:
            device = "gpu" if "gpu" in part.needs else "cpu"
            minutes[device] += load_stored_results()[row.experiment.name][part.name].seconds / 60
    return minutes


def _section_lines(row: ReportRow, images: str) -> Iterator[str]:
    """Yield the blocks of the section about an experiment."""
    yield f'<a id="{row.experiment.name}"></a>\n'
    yield f"## {row.experiment.title}\n"
    yield f"{row.findings.headline}\n"
    yield f"**The paper.** {row.experiment.paper}\n"
    yield "**What we measured.**\n"
    yield "\n".join(f"- {sentence}" for sentence in row.findings.measured) + "\n"
    for name, caption in row.figures.items():
        yield f"![{caption}]({images}/{name}.png)\n"
    if row.findings.table is not None:
        yield _format_table(row.findings.table) + "\n"
    yield f"**What it means.** {row.findings.meaning}\n"
    command = f"limelight reproduce --data DIR --output DIR --only {row.experiment.name}"
    yield f"Command: `{command}`. {row.stamp}\n"


def _format_table(table: Table) -> str:
    """Return a result table in Markdown."""
    lines = [table.columns, ["---"] * len(table.columns)]
    lines += [[format_cell(cell, table.digits) for cell in row] for row in table.rows]
    return _join_lines(lines)


def _join_lines(lines: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table of cells."""
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def _cell(text: str) -> str:
    """Escape the text of a Markdown table cell."""
    return text.replace("|", "\\|").replace("\n", " ")
