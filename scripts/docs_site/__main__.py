"""Build the site of ``docs/zensical.toml``; ``scripts/docs`` runs this."""

import argparse
import json
import os.path
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

from live_pages import add_frames, write_live_pages
from llms import write_llms
from packaging.version import Version

import limelight

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
NPM = ROOT / "build/npm/node_modules"  # scripts/docs installs the packages
CONFIG = tomllib.loads((DOCS / "zensical.toml").read_text("utf-8"))
_LINK = re.compile(r"(\]\()([^)#\s:]+)((?:#[^)\s]*)?\))")
_FENCE = re.compile(r"^(```.*?^```\n)", re.M | re.S)


def site_path(source: Path) -> Path:
    """Return the path of a file in the site: as below ``docs``, or below ``project``."""
    if source.is_relative_to(DOCS):
        return source.relative_to(DOCS)
    path = Path("project") / source.relative_to(ROOT)
    # A README would become the index of its folder, and lose its name in the address.
    return path.with_name("overview.md") if path.name == "README.md" else path


def stage(pages: Path) -> None:
    """Copy all pages and the files to which they link, with links between their new places."""
    sources, done = [*DOCS.rglob("*.md"), ROOT / "CHANGELOG.md"], set[Path]()

    def rewrite(match: re.Match[str]) -> str:
        file = (source.parent / match[2]).resolve()
        file = DOCS / "index.md" if file == ROOT / "README.md" else file
        if not file.is_file():
            raise SystemExit(f"{source.relative_to(ROOT)} links to {match[2]}: there is no file.")
        sources.append(file)
        return f"{match[1]}{os.path.relpath(site_path(file), site_path(source).parent)}{match[3]}"

    while sources:
        if (source := sources.pop()) in done:
            continue
        done.add(source)
        target = pages / site_path(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            # Links inside of code are text; every second part is a fenced block.
            parts = _FENCE.split(source.read_text("utf-8"))
            parts[::2] = [_LINK.sub(rewrite, part) for part in parts[::2]]
            text = add_frames("".join(parts), "../" * len(site_path(source).parts[1:]))
            target.write_text(text, "utf-8")
        else:
            shutil.copyfile(source, target)


def build(folder: Path) -> Path:
    """Build the site in ``folder / "site"`` and return its folder."""
    pages, site, config = folder / "pages", folder / "site", folder / "zensical.toml"
    for old in (pages, site):
        shutil.rmtree(old, ignore_errors=True)
    stage(pages)
    for name in ("site.css", "versions.html"):
        text = (DOCS / "site" / name).read_text("utf-8")
        (pages / name).write_text(text.replace("{version}", limelight.__version__), "utf-8")
    text = (DOCS / "zensical.toml").read_text("utf-8").replace("{version}", limelight.__version__)
    config.write_text(text.replace("{theme}", str(DOCS / "site/theme")), "utf-8")
    unused = shutil.ignore_patterns("*.*js", "*.ttf", "*.woff", "contrib", "*.md", "katex*[!n].css")
    shutil.copytree(NPM / "katex/dist", pages / "katex", ignore=unused)
    shutil.copyfile(NPM / "iframe-worker/shim/index.js", pages / "iframe-worker.js")
    write_live_pages(pages, limelight.load())
    zensical = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    subprocess.run([*zensical, "--config-file", config], check=True)
    script = Path(__file__).with_name("formulas.js")
    subprocess.run(["node", script, NPM / "katex", site], check=True)
    rank_search(site)
    write_llms(pages, site, CONFIG["project"]["nav"])
    return site


def rank_search(site: Path) -> None:
    """Write the ranks and synonyms of ``zensical.toml`` into the search, which has neither."""
    search = CONFIG["search"]
    index = json.loads((site / "search.json").read_text("utf-8"))
    for entry in index["items"]:
        ranks = (n for start, n in search["ranks"].items() if entry["location"].startswith(start))
        title, entry["rank"] = entry["title"].lower(), next(ranks, 1)
        words = [other for word, other in search["synonyms"].items() if word.lower() in title]
        entry["text"] += f"<p>{' '.join(words)}</p>" if words else ""
    text = json.dumps(index, ensure_ascii=False, separators=(",", ":"))
    (site / "search.json").write_text(text, "utf-8")
    (site / "search.js").write_text(f"var __index = {text};\n", "utf-8")
    (script,) = (site / "assets/javascripts/workers").glob("search.*.js")
    script.write_text(patch_script(script.read_text("utf-8")), "utf-8")


def patch_script(script: str) -> str:
    """Return the script of the search with the comparison of ranks."""
    for part, replacement in CONFIG["search"]["patches"].items():
        if script.count(part) != 1:
            raise SystemExit(f"The search has no {part!r}. Install zensical of constraints.txt.")
        script = script.replace(part, replacement)
    return script


def publish(site: Path, place: Path, version: str) -> None:
    """Put the site into ``place / version`` and list all versions in ``place``, newest first."""
    shutil.rmtree(place / version, ignore_errors=True)
    shutil.copytree(site, place / version)
    names = sorted((p.parent.name for p in place.glob("*/index.html")), key=Version, reverse=True)
    (place / "versions.js").write_text(f"window.limelightVersions = {names};\n", "utf-8")
    links = "".join(f'<li><a href="{name}/index.html">limelight {name}</a></li>' for name in names)
    page = (DOCS / "site/versions.html").read_text("utf-8").partition("<p>")[0]
    (place / "index.html").write_text(f"{page}<ul>{links}</ul>\n", "utf-8")


def write_zip(site: Path, version: str) -> Path:
    """Write the site as a zip beside it and return its path; equal sites make equal files."""
    target = site.parent / f"limelight-docs-{version}.zip"
    part = target.with_suffix(".part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        for page in sorted(path for path in site.rglob("*") if path.is_file()):
            name = f"limelight-docs-{version}/{page.relative_to(site).as_posix()}"
            file.writestr(zipfile.ZipInfo(name), page.read_bytes(), zipfile.ZIP_DEFLATED)
    return part.replace(target)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="scripts/docs", description="Build the documentation.")
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build")
    parser.add_argument("--publish", type=Path, metavar="PLACE", help="copy it beside others")
    options = parser.parse_args()
    site = build(options.folder.resolve())
    print(f"{site / 'index.html'}, offline: {write_zip(site, limelight.__version__)}")
    if options.publish:
        publish(site, options.publish, limelight.__version__)
