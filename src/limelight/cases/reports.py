"""Reports of checks: a table for terminals, JSON lines, and JUnit XML for build servers."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from xml.etree import ElementTree

from limelight.cases.check_cases import CheckResult
from limelight.errors import escape_controls
from limelight.results.table import Cell, Column, Table

_MARKS = {"passed": "ok", "failed": "failed", "error": "failed"}
# The elements of JUnit XML for results that have not passed.
_ELEMENTS = {"failed": "failure", "error": "error"}


def results_table(results: Sequence[CheckResult]) -> Table:
    """Return a table with one row for each check."""
    columns = (
        Column("result"),
        Column("case", fold=True),
        Column("check"),
        Column("measured and required", fold=True),
    )
    rows = [
        (Cell(result.outcome, _MARKS[result.outcome]), result.case, result.key, result.sentence)
        for result in results
    ]
    return Table(columns, rows)


def summarize_results(results: Sequence[CheckResult]) -> str:
    """Return one line with the number of results of each outcome."""
    counts = {outcome: _count(results, outcome) for outcome in _MARKS}
    parts = [f"{counts['passed']} passed"]
    if counts["failed"]:
        parts.append(f"{counts['failed']} failed")
    if counts["error"]:
        parts.append(f"{counts['error']} error{'s' * (counts['error'] != 1)}")
    cases = len({result.case for result in results})
    return f"{', '.join(parts)} in {cases} case{'s' * (cases != 1)}"


def results_json(results: Sequence[CheckResult]) -> str:
    """Return one line of JSON for each check."""
    return "".join(f"{json.dumps(asdict(result), ensure_ascii=False)}\n" for result in results)


def results_junit(results: Sequence[CheckResult], path: Path) -> str:
    """Return the results as JUnit XML: one test suite, with one test case for each check.

    Parameters
    ----------
    results
        The results of all cases.
    path
        The check file, which names the suite.
    """
    counts = {
        "tests": str(len(results)),
        "failures": str(_count(results, "failed")),
        "errors": str(_count(results, "error")),
        "skipped": "0",
        "time": f"{sum(result.seconds for result in results):.3f}",
    }
    root = ElementTree.Element("testsuites", {"name": "limelight", **counts})
    suite = ElementTree.SubElement(root, "testsuite", {"name": _clean_text(str(path)), **counts})
    for result in results:
        attributes = {
            "classname": _clean_text(f"{path.name.removesuffix('.toml')}.{result.case}"),
            "name": result.key,
            "time": f"{result.seconds:.3f}",
        }
        case = ElementTree.SubElement(suite, "testcase", attributes)
        sentence = _clean_text(result.sentence)
        if (name := _ELEMENTS.get(result.outcome)) is not None:
            attributes = {"message": sentence, "type": result.key}
            ElementTree.SubElement(case, name, attributes).text = sentence
        else:
            ElementTree.SubElement(case, "system-out").text = sentence
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True).decode() + "\n"


def _count(results: Sequence[CheckResult], outcome: str) -> int:
    return sum(result.outcome == outcome for result in results)


def _clean_text(text: str) -> str:
    """Escape the characters that XML cannot contain."""
    return escape_controls(text).replace("\ufffe", "\\ufffe").replace("\uffff", "\\uffff")
