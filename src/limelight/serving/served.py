"""What a server shows: models, and a run or a judgement if there are any; and its pages."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from limelight.explainers.learned import LEARNED, Learned
from limelight.explainers.method import chosen_way
from limelight.explainers.registry import METHODS, default_method
from limelight.models import Model, resolved_replacement, why_not
from limelight.pages.markup import data_block, part, rendered
from limelight.question import Question
from limelight.results.judgement import Judgement
from limelight.serving.texts import MOST_CHARACTERS
from limelight.text import FEATURES, Cutter, name_of_one, plural, unit_name
from limelight.text.features import OF_PICTURES

if TYPE_CHECKING:
    from markupsafe import Markup

    from limelight.runs import Run


_FIRST_SHOWN = ("shapley", "lime", "alpha-avg")
# Where asking takes a while, LRP stands there at once, beside what `explain` takes: on deep models
# it reaches two thirds of the way from chance to the best order, and attention a sixth.
_AT_ONCE = "lrp"
_FIRST_SHOWN_LEARNED = (LEARNED, "shapley")  # which is more faithful still, and as quick


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class ServedModel:
    """A model under the name that the page gives it, and a method that was learned from it."""

    name: str
    model: Model
    learned: Learned | None = None

    def methods(self, names: Sequence[str]) -> list[Any]:
        """Return the methods that a page names; it names no folder of this machine."""
        own = self.learned or LEARNED
        return [own if name.partition(":")[0] == LEARNED else name for name in names]


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Served:
    """All that a page can ask about."""

    models: tuple[ServedModel, ...] = ()
    run: "Run | None" = None
    judgement: Judgement | None = None
    seconds: float = 120.0  # that a question may take
    notices: tuple[str, ...] = ()  # what every page says: not all of it is about one model
    features: str | Cutter | None = None  # what is scored at first

    @property
    def pictures(self) -> bool:
        """Whether its models read pictures; all of them do, or none."""
        return any(why_not(one.model, "pictures") is None for one in self.models)


def model_facts(served: ServedModel, unit: str | Cutter | None = None) -> dict[str, Any]:
    """Return what the page must know of a model before it asks anything."""
    model = served.model
    unit = Question(features=unit).units(model)
    methods = {} if served.learned is None else {LEARNED: served.learned.method}
    methods |= METHODS
    found = {name: chosen_way(method, model) for name, method in methods.items()}
    ways = {name: way for name, way in found.items() if way is not None}
    rows = [
        {
            "id": name,
            "label": methods[name].label,
            "formula": methods[name].formula,
            "exactness": way.exactness,
            # What asks the model many times waits until the reader pauses.
            "quick": way.calls is None,
            "pairs": name == "interactions",
        }
        for name, way in ways.items()
    ]
    own = default_method(model)
    is_deep = _AT_ONCE in ways and ways["shapley"].calls is not None
    first = (_AT_ONCE, own) if is_deep or own not in _FIRST_SHOWN else _FIRST_SHOWN
    first = first if served.learned is None else _FIRST_SHOWN_LEARNED
    pieces = ["tokens"] if why_not(model, "pieces") is None else []
    pictures = why_not(model, "pictures") is None
    units = OF_PICTURES if pictures else (*FEATURES, *pieces)
    return {
        "name": served.name,
        "classes": list(model.classes),
        "methods": rows,
        "first": [name for name in first if name in ways],
        "features": [*units, *([unit_name(unit)] if callable(unit) else [])],
        "pictures": pictures,
        "unit": unit_name(unit),
        "scales": ["score"] if model.link == "none" else ["logit", "probability"],
        "replacement": resolved_replacement(model, "auto"),
        "spans": why_not(model, "spans") is None,
        "heads": any("per_head" in way.settings for way in ways.values()),
    }


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
