"""The table of docs/reference/architectures.md: the methods that work for each architecture."""

__all__ = ["merged", "page_with_matrix", "slim"]

import json
import re
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

from limelight.provenance import describe_stamps

VERDICTS = Path(__file__).parent / "verdicts.json"
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "architectures.md"
START, END = "<!-- zoo -->\n", "<!-- end of zoo -->\n"
GROUPS = {
    "`loo`, `lime`, `shapley`, `banzhaf`, `interactions`, `anchors`": (
        "loo", "lime", "lime-sampled", "shapley", "banzhaf", "interactions", "anchors",
    ),
    "`context-cite`": ("context-cite",),
    "`owen`": ("owen",),
    "`zoom`": ("zoom",),
    "`gxi`, `g-…`, `ig`": ("g-avg", "g-l1", "g-l2", "gxi", "ig"),
    "`lrp`": ("lrp",),
    "`alpha-…`": ("alpha-avg", "alpha-max", "alpha-grad"),
    "`rollout`, `flow`, `generic-attention`": ("rollout", "flow", "generic-attention"),
}  # fmt: skip
# Stored reasons, as patterns, and how the page words them.
PLAIN_REASONS = {
    r"the network computes ('\w+'), in which nothing is known to be a weight":
        r"LRP has no rule for the operation \1 in this architecture",
    "the network does not show the attention of a single stack of layers":
        "the network does not return the attention of a single stack of layers",
    "masking a token out does not hide it from this model":
        "a token that is masked out still changes the output",
    "the network shows no table that embeds its tokens by get_input_embeddings":
        "the network has no embedding table for its tokens",
    "the network mixes its tokens by other means than attention too":
        "the network also mixes its tokens by other operations than attention",
    r"the network shows (\d+) layers of attention and computes (\d+)":
        r"the network returns \1 layers of attention and computes \2",
    "the attention of the network does not go from every token to every token":
        "the attention of the network does not connect every token with every other token",
    "the network embeds its tokens in more than vectors":
        "the embedding of the network returns more than vectors",
    "what the network shows as attention are not weights that add up to one":
        "the attention weights that the network returns do not add up to one",
    r"this network fails when it is asked for them \(":
        "the network raises an error (",
    "the network reads its tokens by more than one embedding":
        "the network reads its tokens through more than one embedding",
    "the network does not read a text as one row of embedded tokens, so gradients at its words are "
    "not known":
        "the network does not read a text as one row of embedded tokens",
    "which position the head of the network reads cannot be seen: its outputs do not depend on the "
    "attention that it shows":
        "the outputs do not depend on the attention weights that the network returns",
}  # fmt: skip
REMARKS = {"loo pad": "no `pad`", "loo delete": "no `delete`", "long": "long texts"}


def slim(found: dict[str, Any]) -> dict[str, Any]:
    """Return a visit as it is stored: what is right, and what was said about the rest."""
    if "verdicts" not in found:
        return found
    rest: dict[str, list[str]] = {}
    for name, verdict in found["verdicts"].items():
        if verdict["word"] not in ("right", "unchecked"):
            rest.setdefault(f"{verdict['word']}: {verdict['said']}", []).append(name)
    words: dict[str, list[str]] = {"right": [], "unchecked": []}
    for name, verdict in found["verdicts"].items():
        words.get(verdict["word"], []).append(name)
    return {**words, "rest": rest, "warnings": found["warnings"]}


def merged(old: dict[str, Any], new: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return a stored visit with what a visit to ``names`` alone found in the place of theirs."""
    if "right" not in old or "right" not in new:
        return new
    again = set(names)
    rest = {said: [n for n in which if n not in again] for said, which in old["rest"].items()}
    for said, which in new["rest"].items():
        rest[said] = [*rest.get(said, []), *which]
    words = {
        word: [*(n for n in old[word] if n not in again), *new[word]]
        for word in ("right", "unchecked")
    }
    kept = {said: which for said, which in rest.items() if which}
    # A merged visit rests on runs of both.
    stamps = [*old["stamps"], *(stamp for stamp in new["stamps"] if stamp not in old["stamps"])]
    return {**words, "rest": kept, "warnings": new["warnings"], "stamps": stamps}


def page_with_matrix(page: str, stored: dict[str, Any]) -> str:
    """Return ``page`` with the table that ``stored`` verdicts make."""
    head, rest = page.split(START)
    _, tail = rest.split(END)
    return head + START + matrix(stored) + END + tail


def matrix(stored: dict[str, Any]) -> str:
    """Return the table, one row for families that allow the same, and what was not tested."""
    families = stored["families"]
    asked = {family: found for family, found in families.items() if "right" in found}
    tried = set().union(*map(_known, asked.values()))
    groups = {title: names for title, names in GROUPS.items() if tried & set(names)}
    reasons: list[str] = []
    rows: dict[tuple[str, ...], list[str]] = {}
    for family, found in asked.items():
        cells = tuple(_cell(found, groups[title], reasons) for title in groups)
        rows.setdefault((*cells, _remarks(found, reasons)), []).append(family)
    left = len(families) - len(asked)
    ordered = sorted(rows.items(), key=lambda row: (-len(row[1]), row[1]))
    lines = [
        f"transformers {stored['transformers']} has {len(families)} architectures of sequence "
        f"classifiers. {len(asked)} were tested, {left} {'was' if left == 1 else 'were'} not. "
        + describe_stamps(chain.from_iterable(found["stamps"] for found in families.values())),
        "",
        "| architectures | " + " | ".join(groups) + " | remarks |",
        "| --- |" + " --- |" * (len(groups) + 1),
        *(f"| {', '.join(names)} | {' | '.join(cells)} |" for cells, names in ordered),
        "",
        *(f"{i}. {reason[0].upper()}{reason[1:]}." for i, reason in enumerate(reasons, start=1)),
        "",
        *_unasked({family: found for family, found in families.items() if family not in asked}),
    ]
    return "\n".join(lines) + "\n"


def _known(found: dict[str, Any]) -> set[str]:
    """Return what a family was asked."""
    return {*found["right"], *found["unchecked"], *chain.from_iterable(found["rest"].values())}


def _cell(found: dict[str, Any], names: Iterable[str], reasons: list[str]) -> str:
    """Return ✓, the number of the reason why not, or a dash for what was not tried."""
    said = {text for text, which in found["rest"].items() if set(which) & set(names)}
    if not said:
        return "✓" if set(names) <= _known(found) else "–"
    return ", ".join(sorted({_number(_reason(text), reasons) for text in said}))


def _remarks(found: dict[str, Any], reasons: list[str]) -> str:
    """Return what else is not as with most: replacements, long texts, batches, noise."""
    parts = []
    for name, what in REMARKS.items():
        for text, which in found["rest"].items():
            if name in which:
                parts.append(f"{what}: {_number(_reason(text), reasons)}")
    for warning in found["warnings"]:
        if "change with padding" in warning:
            parts.append("batches of one length")
        elif "differently from call to call" in warning:
            parts.append("random outputs")
    return "; ".join(parts)


def _number(reason: str, reasons: list[str]) -> str:
    if reason not in reasons:
        reasons.append(reason)
    return str(reasons.index(reason) + 1)


def _reason(text: str) -> str:
    """Return the clause of a refusal that says why, without the name of the class."""
    word, _, said = text.partition(": ")
    if word != "refused":
        return text
    clause = re.sub(r"^.*?(needs .*?, and |cannot be used: )", "", said)
    clause = re.split(r"; use |\. Use ", clause)[0].rstrip(".")
    clause = re.sub(r"\w+For\w*SequenceClassification", "the network", clause)
    clause = re.sub(r" \(a row adds up to .*?\)", "", clause)
    clause = re.sub(r"on the text '.*?' \(", "on a text (", clause)
    for pattern, plain in PLAIN_REASONS.items():
        clause = re.sub(pattern, plain, clause)
    return clause


def _unasked(families: dict[str, Any]) -> list[str]:
    lines = [
        f"* {family}: {' '.join((found.get('refused') or found['unbuilt']).split())[:200]}"
        for family, found in sorted(families.items())
    ]
    return ["Not tested:", "", *lines] if lines else []


def stored() -> dict[str, Any]:
    """Return the verdicts of the last visit to all families."""
    found: dict[str, Any] = json.loads(VERDICTS.read_text(encoding="utf-8"))
    return found


def main() -> None:
    """Write the table into the page."""
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(page_with_matrix(page, stored()), encoding="utf-8")


if __name__ == "__main__":
    main()
