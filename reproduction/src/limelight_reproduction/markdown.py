"""The documentation page about the reproduction, with numbers from the stored results."""

__all__ = ["documentation_page"]

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

from limelight.provenance import describe_stamps
from limelight_reproduction.experiment import Table
from limelight_reproduction.report import ReportRow, format_cell
from limelight_reproduction.results import load_stored_results
from limelight_reproduction.trust import DeepShares, trust_section

# Both ends are positive: a dash before a minus sign would be hard to read.
_INTERVAL = re.compile(r"\(([+]?[\d.]+%?) to ([+]?[\d.]+%?)\)")
_INTRODUCTION = """\
# What we found when we reproduced the paper

[Attention Meets Post-hoc Interpretability](https://proceedings.mlr.press/v235/lopardo24a.html)
(Lopardo, Precioso and Garreau, ICML 2024) is the paper that this library starts from. We ran its
experiments again, measured the claims that it makes in words, and studied the questions that it
leaves open.

%(verdicts)s

If we found something else than the paper, this page says what we measured and how. We may have read
a sentence differently than it was meant, and the authors may see it differently. Corrections are
welcome.

<a id="trust"></a>

## When attention may be trusted

%(trust)s
## How it is measured

```
pip install ./reproduction
limelight reproduce --data DIR --output DIR --quick
```

This command takes less than ten minutes on two cores. It measures everything that needs no GPU, and
writes a report like this page. The report marks the numbers that come from the stored results.

Without `--quick` it takes as many texts as this page says (%(cpu)d minutes of measuring in the
stored run, on one core of a busy machine). The deep networks and the seeds of the recipe need a GPU
(`--device cuda`; %(gpu)d minutes on an H200). `--only figure-4` runs one experiment, and
`--only figure-4.paper` one part of it. If you stop a run, the same command continues it.

`DIR` contains IMDB's `train` and `test` files, as `limelight data imdb` writes them, with SST-2, AG
News and SICK in `sst2`, `ag_news` and `sick`. `limelight reproduce --help` lists the models that
some parts need.

The page has two models: *the paper's recipe* (seed 3 of `limelight train --recipe paper`; other
seeds are measured for accuracy and for the error of Theorem 5.1) and *the shipped model*
(`default`, the same architecture with regularization, one seed). The package includes the model of
the paper's recipe: for every word, it has the numbers that the heads read, in float16. Every number
of the paper's recipe is measured on these weights, except where several seeds are compared.

Sampled LIME is our `lime-sampled`: the draws, weights and regression of the `lime` package on the
model's own tokens. Tests compare it with the package. As in the paper, the explained number is the
output of the positive class, `scale="score"`. Only `judge` uses the log-odds.

## The article

```
scripts/article
```

This command builds `build/article/article.pdf`, ten pages with the claims in the authors' words,
our findings and related work. Its numbers come from the same results.
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
    sections = (line for row in rows for line in _section_lines(row, images))
    return _INTERVAL.sub(r"(\1–\2)", "\n".join([introduction, *sections]))


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
    above: list[str] = []
    for row in table.rows:
        cells = [format_cell(cell, table.digits) for cell in row]
        # Labels that repeat the row above are left out, up to the first that differs.
        pairs = zip(cells, above, strict=False)
        repeated = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        lines.append([""] * repeated + cells[repeated:])
        above = cells
    return _join_lines(lines)


def _join_lines(lines: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table of cells."""
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def _cell(text: str) -> str:
    """Escape the text of a Markdown table cell."""
    return text.replace("|", "\\|").replace("\n", " ")
