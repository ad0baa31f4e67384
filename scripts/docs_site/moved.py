"""Pages that have moved: their old addresses lead on, so that links from outside still arrive."""

from html import escape
from pathlib import Path

# Where each page of 0.2 stands now. A place of the old page that the new one has too is kept.
MOVED = {
    "eraser.html": "judging.html#measured-erasers-movie-reviews",
    "live.html": "serve.html#a-page-without-python",
    "more-models.html": "training.html#options-of-the-classifier",
    "planning.html": "plan.html",
    "plausibility.html": "judging.html#would-people-mark-the-same-words",
    "summaries.html": "datasets.html#what-drives-a-model",
    "transformers.html": "choosing.html#which-method-on-my-transformer",
}
_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>This page has moved</title>
<meta http-equiv="refresh" content="3; url={target}">
<link rel="canonical" href="{target}">
<script>location.replace(location.hash ? "{page}" + location.hash : "{target}")</script>
<p>This page has moved: <a href="{target}">it is here now</a>.
<a href="index.html">All pages</a>.</p>
</html>
"""


def write_moved(site: Path) -> None:
    """Write a page at every old address that leads to the new one, with and without a script."""
    for old, new in MOVED.items():
        target = escape(new)
        page = _PAGE.format(target=target, page=target.partition("#")[0])
        (site / old).write_text(page, encoding="utf-8")
