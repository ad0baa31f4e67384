"""Build the article as a PDF: all numbers come from files, and code draws all figures.

python reproduction/article/build.py                 build/article/article.pdf
python reproduction/article/build.py --pages         and its pages as PNG, to look at
python reproduction/article/build.py --numbers       print all numbers with their sources

`numbers.toml` has an entry for each number of the text: the file, the location and the format. The
text contains only keys. The build stops if a key is missing, unused or not found. `coverage.toml`
has the rows of the table of coverage. The script `scripts/article` installs the typesetter (the
package `typst`, a wheel of 34 MB) and runs this.
"""

__all__ = ["CoverageRow", "Source", "coverage_rows", "describe_versions", "numbers", "used_keys"]

import argparse
import json
import math
import re
import runpy
import statistics
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatch
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from limelight.provenance import describe_stamps

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RESULTS = ROOT / "reproduction/src/limelight_reproduction/results.json"
TEXT, NUMBERS, BIBLIOGRAPHY = HERE / "article.typ", HERE / "numbers.toml", HERE / "references.bib"
COVERAGE = HERE / "coverage.toml"
PROGRAMS = ("benchmarks", "reproduction/studies")  # folders of the programs that store results
OPTIONS = " --data DIR --output DIR"  # of every command that reproduces
REPRODUCE = f"limelight reproduce{OPTIONS} --only "
KEY = re.compile(r'\bn\("([^"]+)"\)')
INTERVAL = re.compile(r"95 % interval (\S+) to (\S+)")
LIST_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "mean": statistics.mean,
    "deviation": statistics.stdev,
    "least": min,
    "most": max,
    "count": len,
    "total": sum,
}
FIGURES = ("error", "figure-4", "images", "multiplicity")  # experiments
THEOREMS = ("certificate", "certain-ranks", "decisions", "faithfulness-ceiling")
WIDTH, HEIGHT = 7.4, 2.3  # of the figure that is drawn here, in inches


class Source(NamedTuple):
    """A number as text, its location, the command that measures it, and its stamps.

    A stamp is the version of limelight that measured the number. Quoted numbers and numbers that a
    test computes have no stamp.
    """

    text: str
    place: str
    command: str
    stamps: tuple[dict[str, str], ...] = ()


class CoverageRow(NamedTuple):
    """A row of the table of coverage: a kind of error and the cells that its rule judges.

    ``worst`` is the value that is farthest from the rule. ``unjudged`` counts the cells that the
    rule does not judge, and ``worst_unjudged`` is the worst of their values, or empty.
    """

    error: str
    truth: str
    rule: str
    first: str
    judged: int
    met: int
    worst: str
    unjudged: int
    worst_unjudged: str
    source: Source


def coverage_rows() -> list[CoverageRow]:
    """Judge the stored cells of every row of `coverage.toml` by the rule of the row."""
    return [_coverage_row(row) for row in tomllib.loads(COVERAGE.read_text("utf-8"))["row"]]


def _coverage_row(row: dict[str, Any]) -> CoverageRow:
    """Judge the cells of a row."""
    results = _read(_result_file(row["file"]))
    cells, unjudged = _split_cells(results["measures"], row)
    is_floor = "at_least" in row
    limit = row["at_least"] if is_floor else row["at_most"]
    values = [_cell_value(cell, row) for cell in cells]
    met = sum(value >= limit if is_floor else value <= limit for value in values)
    count = len(cells)
    if "count" in row:  # only a summary of the cells is stored
        if met < len(cells):
            raise ValueError(f"the stored summary of {row['file']} misses the rule")
        count = met = int(_match(row["count"], cells[0]["note"]))
    worst = min if is_floor else max
    without = [_cell_value(cell, row) for cell in unjudged if cell["note"] != row.get("always")]
    rule = f"{'≥' if is_floor else '≤'} {limit:g}"
    rule += f" in {row['share']:.0%} of cells" if "share" in row else ""
    stamps = tuple(cell.get("stamp", results["stamp"]) for cell in cells + unjudged)
    return CoverageRow(
        error=row["error"],
        truth=row["truth"],
        rule=rule,
        first=row["first"],
        judged=count,
        met=met,
        worst=_format_share(worst(values), is_floor=is_floor),
        unjudged=len(unjudged),
        worst_unjudged=_format_share(worst(without), is_floor=is_floor) if without else "",
        source=Source(
            text=f"{met} of {count} cells",
            place=f"{row['file']}.json: {row['cells']}",
            command=_plain_command(results["command"]),
            stamps=stamps,
        ),
    )


def _split_cells(
    measures: list[dict[str, Any]], row: dict[str, Any]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the cells that the rule of a row judges, and the cells that it does not judge."""
    cells = [m for m in measures if re.fullmatch(row["cells"], m["id"])]
    unjudged = [m for m in measures if re.fullmatch(row.get("others", "(?!)"), m["id"])]
    unjudged += [cell for cell in cells if cell["note"] == row.get("always")]
    return [cell for cell in cells if cell["note"] != row.get("always")], unjudged


def _cell_value(measure: dict[str, Any], row: dict[str, Any]) -> float:
    """Return the number of a cell: its value, or the match of a pattern in its note."""
    value = _match(row["note"], measure["note"]) if "note" in row else measure["value"]
    return float(value)


def _format_share(value: float, *, is_floor: bool) -> str:
    """Format a share with three digits, rounded away from its rule but never onto the number 1."""
    digits = math.floor(value * 1000) if is_floor or 0.999 < value < 1 else math.ceil(value * 1000)
    return f"{digits / 1000:.3f}"


def numbers() -> dict[str, Source]:
    """Return every number of `numbers.toml` by its key."""
    table = tomllib.loads(NUMBERS.read_text("utf-8"))
    sources = {}
    for key, entry in table.items():
        try:
            sources[key] = _source(entry)
        except (KeyError, IndexError, LookupError, ValueError, TypeError, OSError) as error:
            raise SystemExit(f"numbers.toml: '{key}' is not found: {error!r}.") from error
    return sources


def used_keys() -> list[str]:
    """Return the keys of the text in the order of their first use."""
    return list(dict.fromkeys(KEY.findall(TEXT.read_text("utf-8"))))


def _source(entry: dict[str, Any]) -> Source:
    """Read the number of an entry."""
    if "paper" in entry:  # quoted from a publication
        return Source(entry["paper"], entry["where"], "")
    if "measured" in entry:
        path = entry["measured"]
        experiment, *keys = path if isinstance(path, list) else path.split("/")
        results = _read(RESULTS)["experiments"][experiment]
        place = "results.json: " + "/".join([experiment, *keys])
        command = REPRODUCE + experiment + (f".{keys[0]}" if keys[0] in results else "")
        parts = [part for name, part in results.items() if fnmatch(name, keys[0])]
        text = _format_number(_select(results, keys), entry)
        return Source(text, place, command, _part_stamps(parts))
    if "benchmark" in entry:
        results = _read(_result_file(entry["benchmark"]))
        value, place = _benchmark_value(results, entry), f"{entry['benchmark']}.json: "
        place += entry.get("id", entry.get("ids", entry.get("field", "")))
        measures = [
            measure
            for measure in results["measures"]
            if re.fullmatch(
                entry.get("ids", re.escape(entry.get("id", measure["id"]))), measure["id"]
            )
        ]
        stamps = tuple(measure.get("stamp", results["stamp"]) for measure in measures)
        command = _plain_command(results["command"])
        return Source(_format_number(value, entry), place, command, stamps)
    page = ROOT / entry["file"]
    value = _match(entry["find"], page.read_text("utf-8"))
    command = _page_command(page, entry)
    return Source(_format_number(value, entry), entry["file"], command, _command_stamps(command))


def _result_file(name: str) -> Path:
    """Return the file of a stored result of a study or a benchmark."""
    study = ROOT / f"reproduction/studies/results/{name}.json"
    return study if study.exists() else ROOT / f"benchmarks/results/{name}.json"


def _command_stamps(command: str) -> tuple[dict[str, str], ...]:
    """Return the stamps of the experiment that a command runs, or nothing for other commands."""
    experiment = command.removeprefix(REPRODUCE)
    parts = _read(RESULTS)["experiments"].get(experiment, {}) if experiment != command else {}
    return _part_stamps(parts.values())


def _part_stamps(parts: Iterable[dict[str, Any]]) -> tuple[dict[str, str], ...]:
    """Return the version and commit of parts of an experiment."""
    return tuple({"limelight": part["limelight"], "commit": part["commit"]} for part in parts)


def _benchmark_value(results: dict[str, Any], entry: dict[str, Any]) -> Any:
    """Return the value of a measure, or the match of a pattern in its texts or in a field."""
    if "field" in entry:
        return _match(entry["note"], results[entry["field"]])
    if "ids" in entry:
        measures = [m for m in results["measures"] if re.fullmatch(entry["ids"], m["id"])]
        if "note" in entry:
            return [float(_match(entry["note"], measure["note"])) for measure in measures]
        values = [measure["value"] for measure in measures]
        return [value for value in values if value > entry.get("above", -math.inf)]
    measure = next(measure for measure in results["measures"] if measure["id"] == entry["id"])
    if entry.get("of") == "interval":
        return [measure["value"], *map(float, INTERVAL.findall(measure["note"])[0])]
    for field in ("note", "what"):
        if field in entry:
            return _match(entry[field], measure[field])
    return measure["value"]


@cache
def _read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def _select(results: Any, path: list[str]) -> Any:
    """Return the value at a path. ``*`` selects all parts, and ``NAME-*`` parts with this start."""
    for i, step in enumerate(path):
        if step.endswith("*"):
            parts = [results[key] for key in results if key.startswith(step[:-1])]
            return [_select(part, path[i + 1 :]) for part in parts]
        results = results[int(step)] if isinstance(results, list) else results[step]
    return results


def _match(pattern: str, text: str) -> str:
    """Return the group of the only match of a pattern."""
    matches = re.findall(pattern, text)
    if len(matches) != 1:
        raise LookupError(f"{pattern!r} has {len(matches)} matches")
    return str(matches[0])


def _format_number(value: Any, entry: dict[str, Any]) -> str:
    """Format a number as its entry says, with real minus signs and exponents."""
    if entry.get("of") == "interval":
        number, low, high = (_format_number(part, {"as": entry["as"]}) for part in value)
        return f"{number} ({low}, {high})"
    if "of" in entry:
        value = LIST_FUNCTIONS[entry["of"]](value)
    if isinstance(value, str) and "as" in entry:
        value = float(value)
    if isinstance(value, str):
        return value.replace("-", "−")
    form = entry.get("as", "g")
    if not math.isfinite(value):
        raise ValueError(f"{value} is no number")
    text = format(value, form).replace("-", "−")
    mantissa, mark, exponent = text.partition("e")
    if not mark:
        return text
    superscripts = str.maketrans("−0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    power = str(int(exponent.replace("−", "-"))).replace("-", "−").translate(superscripts)
    return f"10{power}" if mantissa == "1" else f"{mantissa}·10{power}"


def _plain_command(command: str) -> str:
    """Return a stored command with the program in its present folder, and without its output."""

    def find_program(match: re.Match[str]) -> str:
        folders = [folder for folder in PROGRAMS if (ROOT / folder / match[1]).exists()]
        return f"python {folders[0]}/{match[1]}" if folders else match[0]

    return re.sub(r"python (?:\S+/)?(\w+\.py)", find_program, re.sub(r" --output \S+", "", command))


def _page_command(page: Path, entry: dict[str, Any]) -> str:
    """Return the command of a number on a page: its experiment, its figure, or its test."""
    if "test" in entry:
        return f"python -m pytest {entry['test']}"
    text = page.read_text("utf-8")
    place = next(re.finditer(entry["find"], text)).start()
    if page.suffix == ".py":
        return f"python {page.relative_to(ROOT)}"
    if page.suffix == ".toml":
        return ""
    if page.name == "reproduction.md":
        ids = re.findall(r'<a id="([^"]+)">', text[:place])
        experiments = _read(RESULTS)["experiments"]
        return REPRODUCE + ids[-1] if ids[-1] in experiments else REPRODUCE.removesuffix(" --only ")
    heading = re.findall(r"^## (.*)$", text[:place], re.MULTILINE)[-1]
    if heading == "Figure":
        return f"python docs/theorems/figures.py {page.stem}"
    catalogue = runpy.run_path(str(page.with_name("catalogue.py")))
    (test,) = (theorem.test for theorem in catalogue["THEOREMS"] if theorem.id == page.stem)
    return f"python -m pytest {test.replace('::', ' -k ')}"


def typst_numbers(numbers_by_key: dict[str, Source], keys: list[str]) -> str:
    """Return the Typst file with the numbers and the table of their commands."""
    lines = [f"  {_quote(key)}: {_quote(numbers_by_key[key].text)}," for key in keys]
    coverage = coverage_rows()
    sources = [numbers_by_key[key] for key in keys] + [row.source for row in coverage]
    rows = []
    for command, group in _group_by_command(sources).items():
        for version, texts in _group_by_version(group).items():
            row = (command.replace(OPTIONS, ""), " · ".join(texts), version)
            rows.append(f"  ({', '.join(map(_quote, row))}),")
    stamped = [source for source in sources if source.stamps]
    unknown = sum(any(not _has_commit(stamp) for stamp in source.stamps) for source in stamped)
    cells = [
        (row.error, row.truth, row.rule, row.first, f"{row.met} of {row.judged}", row.worst)
        + ((f"{row.unjudged}", row.worst_unjudged or "–") if row.unjudged else ("–", "–"))
        for row in coverage
    ]
    return "\n".join(
        [
            "// Written by build.py. Do not edit.",
            "#let numbers = (",
            *lines,
            ")",
            "#let n(key) = numbers.at(key)",
            "#let commands = (",
            *rows,
            ")",
            "#let coverage = (",
            *(f"  ({', '.join(map(_quote, row))})," for row in cells),
            ")",
            f"#let versions = {_quote(describe_versions(sources))}",
            f"#let measured = {_quote(f'{len(stamped):,}')}",
            f"#let unknown = {_quote(f'{unknown:,}')}",
            "",
        ]
    )


def _has_commit(stamp: dict[str, str]) -> bool:
    """Return whether a result stored the commit of its code."""
    return re.match("[0-9a-f]{40}", stamp["commit"]) is not None


def _group_by_command(sources: Iterable[Source]) -> dict[str, list[Source]]:
    """Group the numbers that have a command by their commands."""
    groups: dict[str, list[Source]] = {}
    for source in sources:
        if source.command:
            groups.setdefault(source.command, []).append(source)
    return groups


def _group_by_version(sources: list[Source]) -> dict[str, list[str]]:
    """Group the texts of numbers by the version and commit that measured them."""
    groups: dict[str, list[str]] = {}
    for source in sources:
        groups.setdefault(_describe_version(source.stamps), []).append(source.text)
    return groups


def _describe_version(stamps: Iterable[dict[str, str]]) -> str:
    """Return versions and commits without the words that every row of a table would repeat."""
    sentence = describe_stamps(stamps) if (stamps := tuple(stamps)) else ""
    return sentence.removeprefix("Measured with ").removesuffix(".").replace("limelight ", "")


def describe_versions(sources: Iterable[Source]) -> str:
    """Say how many measured numbers each version and commit produced.

    A number of several results counts for each of their versions.
    """
    counts: dict[str, Counter[str]] = {}
    for source in sources:
        for version, commit in {(stamp["limelight"], stamp["commit"]) for stamp in source.stamps}:
            label = _describe_version([{"limelight": version, "commit": commit}])
            counts.setdefault(version, Counter())[label.partition(", commit ")[2]] += 1
    groups = []
    for version in sorted(counts, reverse=True):
        commits = [f"{commit} ({count})" for commit, count in counts[version].most_common()]
        groups.append(f"version {version}, commit {', '.join(commits)}")
    return "; ".join(groups)


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def draw(folder: Path) -> None:
    """Draw every figure of the article as SVG, with letters as outlines."""
    import matplotlib as mpl

    from limelight_reproduction.registry import EXPERIMENTS
    from limelight_reproduction.report import build_row
    from limelight_reproduction.results import load_stored_results

    sys.path.insert(0, str(ROOT / "docs" / "theorems"))
    from figures import FIGURES as DRAWN

    with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": "limelight"}):
        for experiment in EXPERIMENTS:
            if experiment.name in FIGURES:
                build_row(
                    experiment, load_stored_results()[experiment.name], folder, suffixes=(".svg",)
                )
        for theorem in THEOREMS:
            DRAWN[theorem]().figure.savefig(folder / f"{theorem}.svg")
        rivals().savefig(folder / "rivals.svg")
        baselines().savefig(folder / "baselines.svg")


def rivals() -> Any:
    """Draw R² of every kind of local model, with median and quartiles over texts."""
    from limelight_reproduction.drawing import canvas, style_axes

    results = _read(_result_file("surrogate_rivals_cuda"))
    measures = {measure["id"]: measure for measure in results["measures"]}
    names = ("line", "pairs", "boosting", "slalom", "ratio_game")
    labels = ("linear", "all pairs", "boosting", "SLALOM", "ratio game")
    figure, grid = canvas(WIDTH, HEIGHT, columns=2, square=True)
    for axes, kind in zip(grid, ("reviews", "sentences"), strict=True):
        for n, shift, color in ((200, -0.14, "#7b858e"), (1000, 0.14, "#0072b2")):
            rows = [measures[f"r2_{kind}_mask_{n}_{name}"] for name in names]
            ends = [[float(x) for x in re.findall(r"-?[\d.]+", row["note"])[-2:]] for row in rows]
            heights = [i + shift for i in range(len(names))]
            axes.hlines(heights, *zip(*ends, strict=True), color=color, linewidth=3, alpha=0.35)
            axes.plot(
                [row["value"] for row in rows], heights, "o", color=color, label=f"{n:,} masks"
            )
        axes.set_yticks(range(len(names)), labels)
        axes.invert_yaxis()
        axes.set_xlim(-0.05, 1.03)
        style_axes(axes, title=f"{kind}, words masked", x="R² on masks that no fit has seen")
    grid[0].legend(fontsize=7, frameon=False, loc="lower left")
    return figure


# Colors and marks of the methods in the figure of estimators. limelight's default is drawn last.
BASELINES = {
    "orders": ("#56b4e9", "o"),
    "shap_orders": ("#7b858e", "v"),
    "captum_orders": ("#7b858e", "s"),
    "shapiq_orders": ("#7b858e", "D"),
    "leverage": ("#009e73", "^"),
    "odd": ("#e69f00", "P"),
    "shapiq_kernel": ("#cc79a7", "X"),
    "shap_kernel": ("#cc79a7", "v"),
    "captum_kernel": ("#d55e00", "s"),
    "interpreto": ("#d55e00", "D"),
    "regression": ("#004c7f", "^"),
    "default": ("#0072b2", "o"),
}


def baselines() -> Any:
    """Draw errors and shares of estimators of Shapley values, with intervals over texts."""
    from limelight_reproduction.drawing import canvas, style_axes

    results = _read(_result_file("shapley_baselines"))
    cells = results["cells"]
    sources = {"minilm": "MiniLM", "gpt2": "GPT-2", "nli": "MiniLM, pairs"}
    figure, grid = canvas(WIDTH, 2.2 * HEIGHT, rows=2, columns=len(sources))
    for kind, row in zip(("error", "share"), grid, strict=True):
        for axes, (source, title) in zip(row, sources.items(), strict=True):
            for method, (color, mark) in BASELINES.items():
                line = [
                    cell for cell in cells if cell["source"] == source and cell["method"] == method
                ]
                if line:
                    _draw_estimator(axes, line, kind, results["labels"][method], color, mark)
            axes.set_xscale("log")
            if kind == "error":
                axes.set_yscale("log")
            ends = [end for cell in cells for end in cell[f"{kind}_interval"]]
            margin = 0.05 * (max(ends) - min(ends))
            low = 0.9 * min(ends) if kind == "error" else min(ends) - margin
            axes.set_ylim(low, max(ends) + margin)
            ticks = sorted({cell["calls"] for cell in cells})
            axes.set_xticks(ticks, [str(calls) for calls in ticks])
            axes.minorticks_off()
            is_first = source == next(iter(sources))
            label = "error of the values" if kind == "error" else "share"
            style_axes(
                axes,
                title=title if kind == "error" else "",
                x="model calls" if kind == "share" else "",
                y=label if is_first else "",
            )
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=7, frameon=False)
    return figure


def _draw_estimator(
    axes: Any, line: list[dict[str, Any]], kind: str, label: str, color: str, mark: str
) -> None:
    """Draw the means of one estimator with their intervals."""
    calls, values = ([cell[key] for cell in line] for key in ("calls", kind))
    low, high = zip(*(cell[f"{kind}_interval"] for cell in line), strict=True)
    is_default = label.endswith("default")
    axes.vlines(calls, low, high, color=color, linewidth=2 if is_default else 1, alpha=0.5)
    axes.plot(
        calls,
        values,
        color=color,
        marker=mark,
        markersize=4,
        linewidth=2 if is_default else 0.8,
        label=label,
    )


def problems(numbers_by_key: dict[str, Source], keys: list[str]) -> Iterator[str]:
    """Yield differences between the keys of the text and the keys of the numbers."""
    for key in keys:
        if key not in numbers_by_key:
            yield f"the text names '{key}', which numbers.toml does not have"
    for key in numbers_by_key:
        if key not in keys:
            yield f"numbers.toml has '{key}', which the text does not use"


def main() -> None:
    """Write numbers and figures, and typeset the article."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "article")
    parser.add_argument("--numbers", action="store_true", help="print numbers and sources only")
    parser.add_argument("--pages", action="store_true", help="also write the pages as PNG")
    arguments = parser.parse_args()
    numbers_by_key, keys = numbers(), used_keys()
    if messages := list(problems(numbers_by_key, keys)):
        sys.exit("\n".join(messages))
    if arguments.numbers:
        for key in keys:
            source = numbers_by_key[key]
            print(f"{key:28} {source.text:>12}  {source.place}  {source.command}")
        return
    if find_spec("limelight_reproduction") is None:
        sys.exit("The figures are drawn by limelight-reproduction: pip install . ./reproduction")
    folder = arguments.output
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "numbers.typ").write_text(typst_numbers(numbers_by_key, keys), "utf-8")
    for file in (TEXT, BIBLIOGRAPHY):
        (folder / file.name).write_text(file.read_text("utf-8"), "utf-8")
    draw(folder)
    _typeset(folder, pages=arguments.pages)


def _typeset(folder: Path, *, pages: bool) -> None:
    sys.path.insert(0, str(folder / "packages"))  # where scripts/article installs it
    try:
        import typst
    except ImportError:
        sys.exit("The article is set by the package typst: run scripts/article, which gets it.")
    typst.compile(folder / TEXT.name, output=folder / "article.pdf")
    print(f"{folder / 'article.pdf'}: {(folder / 'article.pdf').stat().st_size:,} bytes")
    if pages:
        typst.compile(folder / TEXT.name, output=folder / "page-{0p}.png", format="png", ppi=110)


if __name__ == "__main__":
    main()
