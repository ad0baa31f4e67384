"""The frames of the pages: a head, the way to other views, and places that scripts fill."""

import json
from collections.abc import Sequence

from limelight.pages.markup import Html, data_block, element, raw, section
from limelight.serving.served import Served, model_facts
from limelight.serving.texts import MOST_CHARACTERS


def typing_page(served: Served) -> str:
    """Return the page on which a text is typed and explained."""
    if not served.models:
        parts = [section("Type and see", element("p", "No model is served here."))]
        return framed("Type and see", parts, served, script=None)
    facts = {"models": [model_facts(one) for one in served.models]}
    parts = [
        _asked(),
        element("p", id="trouble", class_="trouble", role="alert", hidden=True),
        element("div", id="readings", class_="readings"),
        element("div", id="closer"),
    ]
    return framed("What moves the model?", parts, served, script="typing.js", facts=facts)


def _asked() -> Html:
    text = element(
        "textarea",
        id="text",
        rows=3,
        maxlength=MOST_CHARACTERS,
        spellcheck="false",
        dir="auto",
        placeholder="Type or paste a text, and see what moves the model.",
    )
    return element(
        "section",
        element("label", element("h2", "Your text"), text, for_="text"),
        element("div", id="choices", class_="choices"),
        element("div", id="changes", class_="changes", aria_live="polite"),
        id="asked",
    )


def texts_page(served: Served) -> str:
    """Return the page of the texts of a run."""
    parts = [
        element("p", id="trouble", class_="trouble", role="alert", hidden=True),
        element(
            "section",
            element("h2", "Texts"),
            element("div", id="filters", class_="filters", role="search"),
            element("p", "Reading the run", id="texts-status", class_="note", role="status"),
            element("div", id="texts"),
        ),
        element("section", id="one", hidden=True),
        element(
            "details",
            element("summary", "Texts that could not be explained"),
            element("ul", class_="apart"),
            id="failed",
            hidden=True,
        ),
    ]
    facts = {"typing": bool(served.models)}
    title = "What does the model do on these texts?"
    kept = ("texts.json", "texts.json")
    return framed(title, parts, served, script="texts.js", here="texts", facts=facts, kept=kept)


def waiting_page(served: Served, here: str, sentence: str) -> str:
    """Return a page that looks again in a second."""
    parts = [section("One moment", element("p", sentence, role="status"))]
    return framed("One moment", parts, served, script="waiting.js", here=here)


def trouble_page(served: Served, here: str, sentence: str) -> str:
    """Return a page that says why there is nothing to show."""
    said = element("p", f"{sentence[:1].upper()}{sentence[1:]}", class_="trouble", role="alert")
    return framed("That did not work", [said], served, script=None, here=here)


def navigation(served: Served, here: str, *, kept: tuple[str, str] | None = None) -> Html:
    """Return links to the views that there are; ``here`` is the one that is shown.

    ``kept`` is an address and the name of the file as which it can be downloaded.
    """
    places = []
    if served.models:
        places.append(("./", "Type and see"))
    if served.run is not None:
        places += [("texts", "Texts"), ("summary", "Words, mistakes, slices")]
    if served.judgement is not None:
        places.append(("judgement", "Judgement"))
    links = [
        element("a", name, href=place, aria_current="page" if place == here else None)
        for place, name in places
    ]
    shown = links if len(places) > 1 else []
    if kept is not None:
        address, name = kept
        shown.append(element("a", f"Download {name}", href=address, download=name, class_="kept"))
    return element("nav", *shown, class_="views", aria_label="Views") if shown else raw()


def framed(
    title: str,
    parts: Sequence[Html],
    served: Served,
    *,
    script: str | None,
    here: str = "./",
    facts: object = None,
    kept: tuple[str, str] | None = None,
) -> str:
    """Return a page whose style and scripts are files of the server."""
    body = raw(
        element(
            "header",
            element("p", "limelight", class_="brand"),
            element("h1", title),
            element("button", "Dark", type="button", id="theme", hidden=True),
            navigation(served, here, kept=kept),
        ),
        element("main", *parts),
        element(
            "noscript",
            element("main", element("p", "This page needs JavaScript to ask the model.")),
        ),
        element("footer", "Served by limelight on this machine. This page needs no network."),
        data_block("limelight-facts", json.dumps(facts, ensure_ascii=False)),
    )
    document = element("head", _head(title, script)) + element("body", body)
    return f'<!doctype html>\n<html lang="en" class="limelight">{document}</html>\n'


def _head(title: str, script: str | None) -> Html:
    """Return what stands before the body: names of files, no style and no script by itself."""
    modules = [script] if script is not None else []
    return raw(
        Html('<meta charset="utf-8">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html('<meta name="color-scheme" content="light dark">'),
        element("title", f"{title} · limelight"),
        Html('<link rel="icon" href="data:,">'),
        Html('<link rel="stylesheet" href="page/style.css">'),
        *(
            Html(f'<script type="module" src="page/{name}"></script>')
            for name in (*modules, "theme.js")
        ),
    )
