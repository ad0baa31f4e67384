"""The tutorials run as they are written and print what they say; they need ../shared."""

import contextlib
import io
import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
NEEDED = {
    "long-document": (),
    "language-model": ("../shared/models/gpt2-mini-imdb", "../shared/data/imdb/test.parquet"),
    "tags": (),
    "answers": ("../shared/models/gpt2-mini-imdb",),
    "documents": ("../shared/models/gpt2-mini-imdb",),
    "messages": ("../shared/models/gpt2-mini-imdb",),
    "steps": ("../shared/models/gpt2-mini-imdb",),
    "injections": ("../shared/models/gpt2-mini-imdb",),
    "images": (
        "../shared/models/vit-mini-fashion",
        "../shared/data/fashion_mnist/test.parquet",
    ),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("language-model", marks=pytest.mark.slow),
        "tags",
        "answers",
        "documents",
        "messages",
        "steps",
        "injections",
        pytest.param("images", marks=pytest.mark.slow),
    ],
)
def test_a_tutorial_runs_and_prints_what_it_says(name, monkeypatch, tmp_path):
    """Comments that fill a line are outputs, in order; dots stand for digits."""
    # Pages may write files, which must not stay in the checkout.
    (tmp_path / "checkout").mkdir()
    (tmp_path / "shared").symlink_to(ROOT.parent / "shared")
    monkeypatch.chdir(tmp_path / "checkout")
    if missing := [place for place in NEEDED[name] if not Path(place).exists()]:
        pytest.skip(f"the tutorial needs {missing[0]}")
    (path,) = [
        path
        for folder in ("tutorials", "how-to")
        if (path := ROOT / "docs" / folder / f"{name}.md").exists()
    ]
    page = path.read_text("utf-8")
    names = {}
    for _, tabbed in re.findall(r"^( *)```python\n(.*?)^\1```", page, re.M | re.S):
        block = textwrap.dedent(tabbed)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(block, name, "exec"), names)
        printed = iter(out.getvalue().splitlines())
        for promised in re.findall(r"^# (.*)$", block, re.M):
            pattern = re.escape(promised).replace(r"\.\.\.", r"\d*")
            assert any(re.fullmatch(pattern, line) for line in printed), promised


def test_links_of_tutorials_lead_somewhere():
    for page in (ROOT / "docs" / "tutorials").glob("*.md"):
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text("utf-8")):
            assert (page.parent / target).exists() or "://" in target, (page.name, target)
