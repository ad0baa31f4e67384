"""A whole page around its sections: one file that asks nothing of the network."""

__all__ = ["section", "whole_page"]

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path

from limelight.render.markup import NOTHING, Html, data_block, element, raw, resource, resource_path
from limelight.render.palette import palette_css
from limelight.render.script_bundle import bundled


def whole_page(
    title: str,
    sections: Sequence[Html],
    *,
    sheets: Sequence[str | Path],
    script: str | Path,
    data: str,
    by: str = "",
    images: bool = False,
    above: Html = NOTHING,
) -> str:
    """Return the page; ``data`` is JSON for the shipped ``script``, ``sheets`` its styles.

    Both are names in ``page/``, or paths; a script may import modules, which become part of it.
    ``by`` follows the title in the name of the window. Its policy lets only these styles and this
    script run, by their digests, and with ``images`` pictures that the page itself holds. ``above``
    ends the header: the way to other pages, where there are any.
    """
    style = "\n".join((palette_css(), *map(resource, sheets)))
    program = "\n".join(bundled(resource_path(name)) for name in (script, "theme.js"))
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(program)}'; "
        f"{'img-src data:; ' if images else ''}base-uri 'none'; form-action 'none'"
    )
    head = raw(
        Html('<meta charset="utf-8">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html('<meta name="color-scheme" content="light dark">'),
        element("title", f"{title} {by} · limelight" if by else f"{title} · limelight"),
        Html(f"<style>{style}</style>"),
    )
    body = raw(
        element(
            "header",
            element("p", "limelight", class_="brand"),
            element("h1", title),
            element("button", "Dark", type="button", id="theme", hidden=True),
            above,
        ),
        element("main", *sections),
        element("footer", "Made by limelight. This page holds its own data and needs no network."),
        data_block("limelight-data", data),
        Html(f'<script type="module">{program}</script>'),
    )
    document = element("head", head) + element("body", body)
    return f'<!doctype html>\n<html lang="en" class="limelight">{document}</html>\n'


def section(title: str, *content: Html) -> Html:
    """Return a titled section."""
    return element("section", element("h2", title), *content)


def _digest(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
