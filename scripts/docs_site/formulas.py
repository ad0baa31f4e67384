"""Formulas of the built pages: KaTeX renders them when the site is built, not in the browser."""

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from html import unescape
from pathlib import Path

from docs_site.navigation import ROOT

KATEX_VERSION = "0.16.22"
STYLE_SHEET = "katex/katex.min.css"
_INSTALL_FOLDER = ROOT / "build" / "katex"
_PACKAGE = _INSTALL_FOLDER / "node_modules" / "katex"
# The extension arithmatex marks formulas so.
_FORMULA = re.compile(
    r'<span class="arithmatex">\\\((?P<inline>.*?)\\\)</span>'
    r'|<div class="arithmatex">\s*\\\[(?P<display>.*?)\\\]\s*</div>',
    re.S,
)
_RENDER_SCRIPT = """
const katex = require(process.argv[1]);
const formulas = JSON.parse(require("fs").readFileSync(0, "utf8"));
const rendered = formulas.map(({ tex, displayMode }) => {
  try {
    return { html: katex.renderToString(tex, { displayMode, strict: "error" }) };
  } catch (error) {
    return { error: String(error.message) };
  }
});
process.stdout.write(JSON.stringify(rendered));
"""


class FormulaError(Exception):
    """A formula that KaTeX cannot read, or KaTeX that cannot be installed."""


def install_katex() -> Path:
    """Install KaTeX with npm below ``build`` if it is not there, and return its folder."""
    manifest = _PACKAGE / "package.json"
    if manifest.is_file() and json.loads(manifest.read_text("utf-8"))["version"] == KATEX_VERSION:
        return _PACKAGE
    if shutil.which("npm") is None:
        raise FormulaError("the formulas need Node.js with npm. Install Node.js and build again.")
    _INSTALL_FOLDER.mkdir(parents=True, exist_ok=True)
    options = ["--silent", "--no-audit", "--no-fund", "--no-save", "--prefix", str(_INSTALL_FOLDER)]
    subprocess.run(["npm", "install", *options, f"katex@{KATEX_VERSION}"], check=True)
    return _PACKAGE


def copy_style(folder: Path) -> None:
    """Copy the style sheet of KaTeX and its fonts into ``folder``."""
    source, target = install_katex() / "dist", folder / STYLE_SHEET
    (target.parent / "fonts").mkdir(parents=True, exist_ok=True)
    style = (source / "katex.min.css").read_text("utf-8")
    # Every browser of the last ten years reads woff2, so the other formats stay away.
    style = re.sub(r',url\(fonts/[\w-]+\.(?:woff|ttf)\) format\("\w+"\)', "", style)
    target.write_text(style, "utf-8")
    for font in (source / "fonts").glob("*.woff2"):
        shutil.copyfile(font, target.parent / "fonts" / font.name)


def render_formulas(pages: Mapping[Path, str]) -> dict[Path, str]:
    """Return the HTML of every page with its formulas rendered.

    Raises
    ------
    FormulaError
        If KaTeX cannot read a formula. The message names the pages.
    """
    formulas = sorted({_formula(match) for text in pages.values() for match in _finditer(text)})
    if not formulas:
        return dict(pages)
    request = [{"tex": tex, "displayMode": display} for tex, display in formulas]
    command = ["node", "-e", _RENDER_SCRIPT, str(install_katex())]
    answer = subprocess.run(command, input=json.dumps(request), text=True, capture_output=True)
    if answer.returncode:
        raise FormulaError(answer.stderr)
    rendered = dict(zip(formulas, json.loads(answer.stdout), strict=True))
    if errors := {formula: row["error"] for formula, row in rendered.items() if "error" in row}:
        lines = [
            f"{path.name}: {tex} ({errors[tex, display]})"
            for path, text in pages.items()
            for tex, display in {_formula(match) for match in _finditer(text)}
            if (tex, display) in errors
        ]
        raise FormulaError("\n".join(lines))
    return {
        path: _FORMULA.sub(lambda match: rendered[_formula(match)]["html"], text)
        for path, text in pages.items()
    }


def _finditer(text: str) -> list[re.Match[str]]:
    return list(_FORMULA.finditer(text))


def _formula(match: re.Match[str]) -> tuple[str, bool]:
    """Return the TeX source of a match, and whether it stands on a line of its own."""
    is_display = match["display"] is not None
    return unescape(match["display"] if is_display else match["inline"]).strip(), is_display
