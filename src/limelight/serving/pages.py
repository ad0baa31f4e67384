"""The pages of the server: the way to other views, and places that scripts fill."""

import json
from typing import TYPE_CHECKING

from limelight.pages.markup import data_block, part, rendered
from limelight.serving.served import Served, model_facts
from limelight.serving.texts import MOST_CHARACTERS
from limelight.text import name_of_one, plural, unit_name

if TYPE_CHECKING:
    from markupsafe import Markup


def typing_page(served: Served) -> str:
    """Return the page on which a text is typed and explained."""
    if not served.models:
        return _message(served, "./", "Type and see", "No model is served here.")
    facts = {"models": [model_facts(one, served.features) for one in served.models]}
    body = rendered("typing.html", most=MOST_CHARACTERS, pictures=served.pictures)
    return _page("What moves the model?", body, served, script="typing.js", facts=facts)


def texts_page(served: Served) -> str:
    """Return the page of the texts of a run."""
    facts = {"typing": bool(served.models)}
    title = "What does the model do on these texts?"
    above = navigation(served, "texts", kept=("texts.json", "texts.json"))
    return _page(title, rendered("texts.html"), served, script="texts.js", above=above, facts=facts)


def waiting_page(served: Served, here: str, sentence: str) -> str:
    """Return a page that looks again in a second."""
    return _message(served, here, "One moment", sentence, script="waiting.js")


def trouble_page(served: Served, here: str, sentence: str) -> str:
    """Return a page that says why there is nothing to show."""
    said = f"{sentence[:1].upper()}{sentence[1:]}"
    return _message(served, here, "That did not work", said, trouble=True)


def navigation(served: Served, here: str, *, kept: tuple[str, str] | None = None) -> "Markup":
    """Return links to the views that there are; ``here`` is the one that is shown.

    ``kept`` is an address and the name of the file as which it can be downloaded.
    """
    places = []
    if served.models:
        places.append(("./", "Drop a picture" if served.pictures else "Type and see"))
    if served.run is not None:
        noun = name_of_one(unit_name(served.run.record.question.features))
        places += [
            ("texts", "Texts"),
            ("summary", f"{plural(noun).capitalize()}, mistakes, slices"),
        ]
    if served.judgement is not None:
        places.append(("judgement", "Judgement"))
    return part("navigation", places if len(places) > 1 else [], here, kept, served.notices)


def _message(
    served: Served,
    here: str,
    title: str,
    sentence: str,
    *,
    script: str | None = None,
    trouble: bool = False,
) -> str:
    body = rendered("message.html", title=title, sentence=sentence, trouble=trouble)
    return _page(title, body, served, script=script, above=navigation(served, here))


def _page(
    title: str,
    body: "Markup",
    served: Served,
    *,
    script: str | None,
    above: "Markup | None" = None,
    facts: object = None,
) -> str:
    """Return a page whose style and scripts are files of the server."""
    return rendered(
        "page.html",
        title=title,
        window=title,
        head=part("served_files", [*([] if script is None else [script]), "theme.js"]),
        above=navigation(served, "./") if above is None else above,
        body=body,
        footer="Served by limelight on this machine. This page needs no network.",
        data=data_block("limelight-facts", json.dumps(facts, ensure_ascii=False)),
        program="",
    )
