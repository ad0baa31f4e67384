"""Sites of several versions side by side, and one of them as a zip that opens from a disk.

A site stands in a folder named for its version. Beside the folders lie ``index.html``, which lists
them, and ``versions.js``, from which the page ``versions.html`` of every site, also of an older
one, knows the others. It is a script and not JSON, because a page on a disk may load one.
"""

import json
import re
import shutil
import zipfile
from html import escape
from pathlib import Path

VERSIONS = "versions.html"
_SCRIPT = "versions.js"
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
body {{ font-family: system-ui; margin: 4rem auto; max-width: 40rem; padding: 0 1rem }}
</style>
</head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
"""
# Without the script, and in a site that stands alone, the sentence that is there remains.
_OTHERS = """<p>You are reading the pages of limelight {version}.
<a href="index.html">All pages</a>.</p>
<p id="others">No other version lies beside this one.</p>
<script>
const script = document.createElement("script");
script.src = "../{script}";
script.onload = () => {{
  const list = document.createElement("ul");
  for (const version of window.limelightVersions) {{
    const link = document.createElement("a");
    link.href = "../" + encodeURIComponent(version) + "/index.html";
    link.textContent = version;
    list.append(document.createElement("li"));
    list.lastChild.append(link);
  }}
  document.querySelector("#others").replaceWith(list);
}};
document.head.append(script);
</script>"""


def write_versions(site: Path, version: str) -> None:
    """Write the page of a site that names its version and leads to others."""
    body = _OTHERS.format(version=escape(version), script=_SCRIPT)
    page = _PAGE.format(title="Versions of these pages", body=body)
    (site / VERSIONS).write_text(page, encoding="utf-8")


def publish(site: Path, place: Path, version: str) -> None:
    """Put the site into ``place / version`` and list all versions that stand in ``place``."""
    shutil.rmtree(place / version, ignore_errors=True)
    shutil.copytree(site, place / version)
    known = sorted((one.parent.name for one in place.glob("*/index.html")), key=_age)
    listed = "".join(
        f'<li><a href="{escape(name)}/index.html">limelight {escape(name)}</a></li>\n'
        for name in known
    )
    page = _PAGE.format(title="limelight: versions", body=f"<ul>\n{listed}</ul>")
    (place / "index.html").write_text(page, encoding="utf-8")
    script = f"window.limelightVersions = {json.dumps(known)};\n"
    (place / _SCRIPT).write_text(script, encoding="utf-8")


def _age(name: str) -> tuple[list[int], bool]:
    """Return what sorts the newest version first, and a version behind what came before it."""
    return [-int(part) for part in re.findall(r"\d+", name)[:3]], "dev" in name


def zipped(site: Path, version: str) -> Path:
    """Write the site as a zip beside it and return its path; equal sites make equal files."""
    target = site.parent / f"limelight-docs-{version}.zip"
    part = target.with_suffix(".part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        for page in sorted(one for one in site.rglob("*") if one.is_file()):
            name = f"limelight-docs-{version}/{page.relative_to(site).as_posix()}"
            file.writestr(zipfile.ZipInfo(name), page.read_bytes(), zipfile.ZIP_DEFLATED)
    part.replace(target)
    return target
