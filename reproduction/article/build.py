"""Build the article: every number from a file, every figure by code, one PDF.

python reproduction/article/build.py                 build/article/article.pdf
python reproduction/article/build.py --pages         and its pages as PNG, to look at
python reproduction/article/build.py --numbers       print every number with its source; no PDF

`numbers.toml` names each number of the text: the file, the place in it and how it is written. The
text holds keys alone; a key that is missing, left over or not found stops the build. The script
`scripts/article` gets the typesetter (the package `typst`, a wheel of 34 MB) and runs this.
"""

__all__ = ["Source", "numbers", "used_keys"]

import argparse
import json
import math
import re
import statistics
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from limelight.provenance import describe_stamps

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RESULTS = ROOT / "reproduction/src/limelight_reproduction/results.json"
TEXT, NUMBERS, BIBLIOGRAPHY = HERE / "article.typ", HERE / "numbers.toml", HERE / "references.bib"
REPRODUCE = "limelight reproduce --data DIR --output DIR --only "
KEY = re.compile(r'\bn\("([^"]+)"\)')
OF_LISTS = {
    "mean": statistics.mean,
    "deviation": statistics.stdev,
    "least": min,
    "most": max,
    "count": len,
}
PICTURES = "images"  # the experiment on pictures, told where its results are stored
FIGURES = {"figure-4": "figure-4-paper", "error": "error", "multiplicity": "multiplicity"}
THEOREMS = ("certificate", "faithfulness-ceiling")
WIDTH, HEIGHT = 7.4, 2.3  # of the figure that is drawn here, in inches


class Source(NamedTuple):
    """How a number is written, where it stands, the command that makes it, and its stamps.

    A stamp says which limelight measured the number. A number that is quoted or computed by a test
    has none.
    """

    text: str
    place: str
    command: str
    stamps: tuple[dict[str, str], ...] = ()


def numbers() -> dict[str, Source]:
    """Return every number of `numbers.toml` by its key."""
    table = tomllib.loads(NUMBERS.read_text("utf-8"))
    found = {}
    for key, entry in table.items():
        try:
            found[key] = _source(entry)
        except (KeyError, IndexError, LookupError, ValueError, TypeError, OSError) as error:
            raise SystemExit(f"numbers.toml: '{key}' is not found: {error!r}.") from error
    return found


def used_keys() -> list[str]:
    """Return the keys of the text in the order of their first use."""
    return list(dict.fromkeys(KEY.findall(TEXT.read_text("utf-8"))))


def _source(entry: dict[str, Any]) -> Source:
    if "paper" in entry:  # what others have published, quoted
        return Source(entry["paper"], entry["where"], "")
    if "measured" in entry:
        path = entry["measured"]
        experiment, *rest = path if isinstance(path, list) else path.split("/")
        found, path = _read(RESULTS)["experiments"][experiment], rest
        place = "results.json: " + "/".join([experiment, *path])
        command = REPRODUCE + experiment
        text = _written(_at(found, path), entry)
        return Source(text, place, command, _stamps_of_command(command))
    if "benchmark" in entry:
        found = _read(_result_file(entry["benchmark"]))
        value, place = _of_benchmark(found, entry), f"{entry['benchmark']}.json: "
        place += entry.get("id", entry.get("field", ""))
        stamps = tuple(one.get("stamp", found["stamp"]) for one in found["measures"])
        return Source(_written(value, entry), place, _plain_command(found["command"]), stamps)
    page = ROOT / entry["file"]
    value = _match(entry["find"], page.read_text("utf-8"))
    command = _command_of(page, entry)
    return Source(_written(value, entry), entry["file"], command, _stamps_of_command(command))


def _result_file(name: str) -> Path:
    """Return the file of a stored result of a study or a benchmark."""
    study = ROOT / f"reproduction/studies/results/{name}.json"
    return study if study.exists() else ROOT / f"benchmarks/results/{name}.json"


def _stamps_of_command(command: str) -> tuple[dict[str, str], ...]:
    """Return the stamps of the experiment that a command measures; none for another command."""
    experiment = command.removeprefix(REPRODUCE)
    parts = _read(RESULTS)["experiments"].get(experiment, {}) if experiment != command else {}
    return tuple(
        {"limelight": part["limelight"], "commit": part["commit"]} for part in parts.values()
    )


def _of_benchmark(found: dict[str, Any], entry: dict[str, Any]) -> Any:
    """Return a measure's value, or what a pattern finds in its words or in a field of the file."""
    if "field" in entry:
        return _match(entry["note"], found[entry["field"]])
    measure = next(one for one in found["measures"] if one["id"] == entry["id"])
    for words in ("note", "what"):
        if words in entry:
            return _match(entry[words], measure[words])
    return measure["value"]


@cache
def _read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def _at(found: Any, path: list[str]) -> Any:
    """Return what stands at a path; ``*`` takes every part, ``NAME-*`` those that begin so."""
    for i, step in enumerate(path):
        if step.endswith("*"):
            parts = [found[key] for key in found if key.startswith(step[:-1])]
            return [_at(part, path[i + 1 :]) for part in parts]
        found = found[int(step)] if isinstance(found, list) else found[step]
    return found


def _match(pattern: str, text: str) -> str:
    """Return the one group of the one match: two matches would leave open which is meant."""
    found = re.findall(pattern, text)
    if len(found) != 1:
        raise LookupError(f"{pattern!r} has {len(found)} matches")
    return str(found[0])


def _written(value: Any, entry: dict[str, Any]) -> str:
    if "of" in entry:
        value = OF_LISTS[entry["of"]](value)
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
    raised = str.maketrans("−0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    power = str(int(exponent.replace("−", "-"))).replace("-", "−").translate(raised)
    return f"10{power}" if mantissa == "1" else f"{mantissa}·10{power}"


def _plain_command(command: str) -> str:
    return re.sub(r" --output \S+", "", command)


def _command_of(page: Path, entry: dict[str, Any]) -> str:
    """Return the command of a page's number: of its experiment, its figure, or its test."""
    text = page.read_text("utf-8")
    place = next(re.finditer(entry["find"], text)).start()
    if page.suffix == ".py":
        return f"python {page.relative_to(ROOT)}"
    if page.suffix == ".toml":
        return ""
    if page.name == "reproduction.md":
        ids = re.findall(r'<a id="([^"]+)">', text[:place])
        known = _read(RESULTS)["experiments"]
        return REPRODUCE + ids[-1] if ids[-1] in known else REPRODUCE.removesuffix(" --only ")
    heading = re.findall(r"^## (.*)$", text[:place], re.MULTILINE)[-1]
    if heading == "Figure":
        return f"python docs/theorems/figures.py {page.stem}"
    test = re.findall(r"`((?:reproduction/)?tests/\S+?\.py[^`]*)`", text)
    return f"python -m pytest {test[0]}"


def typst_numbers(found: dict[str, Source], keys: list[str]) -> str:
    """Return the file that the text reads: numbers, and the table of their commands."""
    lines = [f"  {_quoted(key)}: {_quoted(found[key].text)}," for key in keys]
    rows = []
    for command, sources in _by_command(found, keys).items():
        told = " · ".join(source.text for source in sources)
        if sources[0].stamps:
            told += f". {describe_stamps(sources[0].stamps)}"
        rows.append(f"  ({_quoted(command)}, {_quoted(told)}),")
    if has_pictures():
        rows.append(f"  ({_quoted(REPRODUCE + PICTURES)}, {_quoted('what is said of pictures')}),")
    return "\n".join(
        [
            "// Written by build.py; not to be edited.",
            "#let numbers = (",
            *lines,
            ")",
            "#let n(key) = numbers.at(key)",
            "#let commands = (",
            *rows,
            ")",
            "",
        ]
    )


def _by_command(found: dict[str, Source], keys: list[str]) -> dict[str, list[Source]]:
    grouped: dict[str, list[Source]] = {}
    for key in keys:
        if found[key].command:
            grouped.setdefault(found[key].command, []).append(found[key])
    return grouped


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def has_pictures() -> bool:
    """Whether the experiment on pictures is known here and stored as a whole."""
    from limelight_reproduction.registry import EXPERIMENTS

    parts = _read(RESULTS)["experiments"].get(PICTURES, {})
    known = [one for one in EXPERIMENTS if one.name == PICTURES]
    return bool(known) and all(part.name in parts for part in known[0].parts)


def pictures_section(folder: Path) -> str:
    """Return what is said of pictures: what the experiment found, or that it is still to come."""
    if not has_pictures():
        return (
            "No result of this kind is stored yet. A classifier that reads the patches of a "
            "picture by one layer of attention is a ratio game over patches, and nothing in "
            "@sec-exact speaks of words; measuring it is future work.\n"
        )
    from limelight_reproduction.registry import EXPERIMENTS
    from limelight_reproduction.report import build_row
    from limelight_reproduction.results import load_stored_results

    experiment = next(one for one in EXPERIMENTS if one.name == PICTURES)
    row = build_row(experiment, load_stored_results()[PICTURES], folder, suffixes=(".svg",))
    told = (
        "Test pictures of Fashion-MNIST were cut into patches and read by the paper's architecture "
        "and by a vision transformer of six layers, each trained on its training pictures. "
    ) + " ".join(_as_typst(one) for one in (row.findings.headline, row.findings.meaning))
    for name, caption in list(row.figures.items())[:1]:
        image = f"image({_quoted(name + '.svg')}, width: 90%)"
        told += f"\n\n#figure({image}, caption: [#text({_quoted(caption)})])"
    return told + "\n"


def _as_typst(markdown: str) -> str:
    """Return a paragraph of the report as Typst: a link as the name of its page, a minus as one."""
    parts = re.split(r"\[([^\]]+)\]\([^)]*\)", re.sub(r"(?<![\w.])-(?=\d)", "−", markdown))
    return "".join(
        f"#{'raw' if place % 2 else 'text'}({_quoted(part)})" for place, part in enumerate(parts)
    )


def draw(folder: Path) -> None:
    """Draw every figure of the article as SVG, letters as outlines, so that no font is needed."""
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


def rivals() -> Any:
    """Draw R² of every kind of local model: median and quartiles over texts."""
    from limelight_reproduction.drawing import canvas, style_axes

    found = _read(_result_file("surrogate_rivals_cuda"))
    of = {one["id"]: one for one in found["measures"]}
    names = ("line", "pairs", "boosting", "slalom", "ratio_game")
    labels = ("a line", "all pairs", "boosting", "SLALOM", "ratio game")
    figure, axes = canvas(WIDTH, HEIGHT, columns=2, square=True)
    for one, kind in zip(axes, ("reviews", "sentences"), strict=True):
        for n, shift, color in ((200, -0.14, "#7b858e"), (1000, 0.14, "#0072b2")):
            rows = [of[f"r2_{kind}_mask_{n}_{name}"] for name in names]
            ends = [[float(x) for x in re.findall(r"-?[\d.]+", row["note"])[-2:]] for row in rows]
            places = [i + shift for i in range(len(names))]
            one.hlines(places, *zip(*ends, strict=True), color=color, linewidth=3, alpha=0.35)
            one.plot([row["value"] for row in rows], places, "o", color=color, label=f"{n:,} masks")
        one.set_yticks(range(len(names)), labels)
        one.invert_yaxis()
        one.set_xlim(-0.05, 1.03)
        style_axes(one, title=f"{kind}, words masked", x="R² on masks that no fit has seen")
    axes[0].legend(fontsize=7, frameon=False, loc="lower left")
    return figure


def problems(found: dict[str, Source], keys: list[str]) -> Iterator[str]:
    """Yield what is wrong between the text and the numbers."""
    for key in keys:
        if key not in found:
            yield f"the text names '{key}', which numbers.toml does not have"
    for key in found:
        if key not in keys:
            yield f"numbers.toml has '{key}', which the text does not use"


def main() -> None:
    """Write numbers and figures, and set the article."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "article")
    parser.add_argument("--numbers", action="store_true", help="print numbers and sources only")
    parser.add_argument("--pages", action="store_true", help="also write the pages as PNG")
    arguments = parser.parse_args()
    found, keys = numbers(), used_keys()
    if wrong := list(problems(found, keys)):
        sys.exit("\n".join(wrong))
    if arguments.numbers:
        for key in keys:
            print(f"{key:28} {found[key].text:>12}  {found[key].place}  {found[key].command}")
        return
    if find_spec("limelight_reproduction") is None:
        sys.exit("The figures are drawn by limelight-reproduction: pip install . ./reproduction")
    folder = arguments.output
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "numbers.typ").write_text(typst_numbers(found, keys), "utf-8")
    (folder / "pictures.typ").write_text(pictures_section(folder), "utf-8")
    for file in (TEXT, BIBLIOGRAPHY):
        (folder / file.name).write_text(file.read_text("utf-8"), "utf-8")
    draw(folder)
    _set(folder, pages=arguments.pages)


def _set(folder: Path, *, pages: bool) -> None:
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
