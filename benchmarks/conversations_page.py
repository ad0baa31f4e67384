"""Tables of the results page about documents and prompt injections, from the stored results."""

__all__ = ["CALLS", "DROPS", "HEADS", "SIZES", "documents_table", "injections_table"]

import re
from collections.abc import Sequence

from results import measured_with, read_result

# Documents of a question, model calls, and removed documents in the columns of ContextCite.
SIZES, CALLS, DROPS = (16, 60), (32, 64, 128), (1, 3, 5)
HEADS = (*(f"drop of {count}" for count in DROPS), "LDS", "source first")
INJECTION_METHODS = {"default": "banzhaf", "leave-one-out": "loo", "lrp": "lrp"}


def documents_table() -> str:
    """Return the columns of ContextCite for questions with documents."""
    result = read_result("documents")
    measures = {row["id"]: row for row in result["measures"]}
    rows = [("documents", "method", "calls", *HEADS[:-1])]
    for size in SIZES:
        for calls in CALLS:
            for name in ("default", "context-cite"):
                cells = [measures[f"{size} documents, {name}, {calls}: {head}"] for head in HEADS]
                method = "banzhaf" if name == "default" else name
                rows.append((str(size), f"`{method}`", str(calls), *numbers(cells[:-1])))
        cells = [measures[f"{size} documents, leave-one-out: {head}"] for head in HEADS]
        rows.append((str(size), "`loo`", str(size + 1), *numbers(cells[:-1])))
    behind = measures["behind"]["value"]
    return (
        f"SmolLM2-135M-Instruct answers {result['data'].split(',')[0].split(';')[0]}. Drop: how "
        "much the log-probability of the answer falls without the documents of the highest scores. "
        f"`banzhaf` is significantly behind `context-cite` in {behind:.0f} of 24 columns. "
        "By definition, `loo` has the largest possible drop of 1. With 60 documents it is also "
        "ahead of `banzhaf` with 32 calls in the drop of 5.\n\n"
        f"{write_table(rows)}\n\n{measured_with('documents')}"
    )


def injections_table() -> str:
    """Return how well scores find the injected message and its tokens."""
    result = read_result("injections")
    value = {row["id"]: row["value"] for row in result["measures"]}
    heads = ("injected message first", *(f"tokens recovered at {share} %" for share in (5, 10, 20)))
    rows = [("method", *heads, "AUC", "false alarms", "detections")]
    for name, method in INJECTION_METHODS.items():
        label = f"{name}, malicious against no injection"
        keys = [*(f"{head}: {name}" for head in heads)]
        keys += [f"{label}: {what}" for what in ("AUC", "false alarms", "detections")]
        rows.append((f"`{method}`", *(f"{value[key]:.2f}" for key in keys)))
    chance = [value["first, chance"], *(value[f"{head}, chance"] for head in heads[1:])]
    rows.append(("chance", *(f"{number:.2f}" for number in chance), "0.50", "0.10", "0.10"))
    cases, unknown = result["data"].split(" ")[0], result["cases_by_commit"].get("unknown", 0)
    note = f" The commit of {unknown} of the conversations was not recorded." * bool(unknown)
    return (
        f"{cases} conversations of AgentDojo with a malicious tool call, explained with "
        f"SmolLM2-135M-Instruct. {value['token cases']:.0f} of them have scores of sentences and "
        "tokens. The last three columns compare the score of tools minus user and system with "
        "conversations without injection, at the conformal threshold for α = 0.1. Each method "
        f"misses about half of the injections.\n\n{write_table(rows)}\n\n"
        f"{measured_with('injections')}{note}"
    )


def numbers(measures: Sequence[dict]) -> list[str]:
    """Return the values of drops and of the LDS."""
    texts = [f"{measure['value']:.2f}" for measure in measures]
    return [re.sub(r"^-", "−", text) for text in texts]


def write_table(rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown whose first row is the heading."""
    heading, *body = rows
    lines = [heading, ["---"] * len(heading), *body]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)
