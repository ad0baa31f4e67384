"""Counterfactuals on a terminal and as HTML: the removed features struck out, before and after."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.style import Style
from rich.text import Text

from limelight.rendering import wording
from limelight.rendering.html import FRAGMENT_TEXTS, WordElement, text_html
from limelight.rendering.images import removed_parts_html
from limelight.rendering.markup import (
    render_fragment,
    render_macro,
    render_page,
    render_template,
    table_html,
)
from limelight.rendering.palette import inline_style
from limelight.rendering.terminal import (
    CUT_MARK,
    PAST_WINDOW,
    Look,
    table_text,
    terminal_view,
    word_style,
)
from limelight.rendering.text_parts import (
    collapse_spaces,
    replace_surrogates,
    shorten_unread,
    split_text,
)
from limelight.results.counterfactual import Counterfactual
from limelight.results.table import Cell, Column, Table
from limelight.text import AnswerQuery, pluralize

if TYPE_CHECKING:
    from markupsafe import Markup

REASONS = {
    "proven": "proven",
    "checked": "checked on this text, not proven",
    "evaluated": "all were evaluated",
}
_SHADE = 5  # of removed words, light enough to read them
_SHOWN_CLASSES = 12
_NAMED_PATCHES = 20


def change_sentence(c: Counterfactual) -> str:
    """Say which prediction changes, and how many features are removed for it."""
    nouns = pluralize(c.feature_noun)
    subject = "the answer" if c.kind == "answer" else "the prediction"
    if c.size == 0:
        return f"The model predicts {c.desired_class} already, so nothing has to be removed."
    goal = "" if c.desired_class is None else f" to {c.desired_class}"
    if c.is_robust:
        return (
            f"No removal of {nouns} changes {subject}{_before(c)}{goal} ({REASONS[c.bound_kind]})."
        )
    if c.prediction_after is None:
        return f"The search found no removal of {nouns} that changes {subject}{_before(c)}{goal}."
    removal = f"Removing {_count(c, len(c.removed))}"
    if c.kind in ("score", "answer"):
        (before,), (after,) = c.prediction.values(), c.prediction_after.values()
        output = "score"
        if isinstance(c.query, AnswerQuery):
            output = f"{c.query.output_name} of the answer"
        verb = "lowers" if after < before else "raises"
        values = f"from {before:.4g} to {after:.4g}"
        return f"{removal} {verb} the {output} {values}, past the threshold of {c.threshold:.4g}."
    return f"{removal} changes {subject} from {c.predicted_class} to {c.predicted_class_after}."


def _before(c: Counterfactual) -> str:
    """Return the prediction before the removal, as it follows its noun."""
    return "" if c.kind in ("score", "answer") else f" {c.predicted_class}"


def _count(c: Counterfactual, count: int) -> str:
    """Return a number of features in words."""
    noun = c.feature_noun
    return f"1 {noun}" if count == 1 else f"{count} {pluralize(noun)}"


def minimum_sentence(c: Counterfactual) -> str:
    """Return a sentence about smaller removals, or "" if there is none."""
    noun, reason = c.feature_noun, REASONS[c.bound_kind]
    if c.is_robust or c.size in (0, 1):
        return ""
    if c.is_minimal:
        smaller = f"No single {noun}" if c.size == 2 else f"No smaller set of {pluralize(noun)}"
        return f"{smaller} does ({reason})."
    fewest = _count(c, c.certified_radius)
    if c.size is None:
        is_known = f"No removal of {fewest} changes it ({reason})."
        return is_known if c.certified_radius else ""
    if not c.certified_radius:
        return "A smaller set may exist."
    return (
        f"The smallest set has {c.lower_bound} to {_count(c, c.size)}: no removal of {fewest} "
        f"changes it ({reason})."
    )


def outcome_table(c: Counterfactual) -> Table:
    """Return the output of each class before and after the removal."""
    columns = ["before"] + ["after"] * (c.size not in (None, 0))
    states = [c]
    if len(columns) > 1 and c.prediction_after is not None:
        after = c.prediction_after
        states.append(replace(c, prediction=after, prediction_after=None, removed=()))
    outcomes = [wording.class_outcomes(state) for state in states]
    if c.kind in ("score", "answer"):
        name = c.query.output_name if isinstance(c.query, AnswerQuery) else "score"
        values = [next(iter(state.prediction.values())) for state in states]
        rows: list[tuple[Any, ...]] = [(name, *(f"{value:.4g}" for value in values))]
    else:
        chosen = [set(state.predicted_class.split(", ")) for state in states]
        first = sorted(outcomes[0], key=lambda outcome: -_strength(outcome))
        by_name = [{outcome.name: outcome for outcome in group} for group in outcomes]
        rows = [
            (
                outcome.name,
                *(
                    Cell(_format_outcome(group[outcome.name]), "weak" * (outcome.name in names))
                    for group, names in zip(by_name, chosen, strict=True)
                ),
            )
            for outcome in first
        ]
    heading = "output" if c.kind in ("score", "answer") else "class"
    table = Table([Column(heading, max_letters=40), *(Column(name, "s") for name in columns)], rows)
    return table.head(_SHOWN_CLASSES)


def _strength(outcome: wording.ClassOutcome) -> float:
    return outcome.probability if outcome.probability is not None else outcome.logit or 0.0


def _format_outcome(outcome: wording.ClassOutcome) -> str:
    if outcome.probability is not None:
        return wording.format_percent(outcome.probability)
    return "" if outcome.logit is None else f"{outcome.logit:+.3f}"


STABILITY_NOTE = (
    "How often the prediction stays if {} are removed at random. Each interval contains the true "
    "share with 95 % confidence."
)


def stability_table(c: Counterfactual) -> Table:
    """Return how often the prediction stays after random removals of several sizes."""
    columns = (
        Column(f"{pluralize(c.feature_noun)} removed", "d", short_heading="removed"),
        Column("prediction stays", "s", short_heading="stays"),
        Column("95 % interval", "s", short_heading="interval"),
        Column("draws", ","),
    )
    rows = [
        (
            stability.size,
            wording.format_percent(stability.probability),
            "all sets"
            if stability.low == stability.high
            else f"{stability.low:.1%} to {stability.high:.1%}",
            stability.draws,
        )
        for stability in c.stability
    ]
    return Table(columns, rows)


@terminal_view()
def counterfactual_text(c: Counterfactual, look: Look) -> Iterator[RenderableType]:
    """Yield the change, the text with the removed features struck out, and tables."""
    yield look.line(change_sentence(c), "bold")
    if minimum := minimum_sentence(c):
        yield look.line(minimum)
    yield Text()
    yield Padding(_strike_words(c, look), (0, 0, 1, 2))
    yield table_text(outcome_table(c), look)
    if prompt := wording.prompt_sentence(c):
        yield look.line(prompt, "dim")
    if c.stability:
        yield Text()
        yield look.line(STABILITY_NOTE.format(pluralize(c.feature_noun)), "dim")
        yield table_text(stability_table(c), look)
    yield from look.warning_lines(c.warnings)


def counterfactuals_text(counterfactuals: Sequence[Counterfactual]) -> RenderableType:
    """Return counterfactuals of texts, one after the other."""
    views = [view for c in counterfactuals for view in (counterfactual_text(c), Text())]
    return Group(*views[:-1])


def _strike_words(c: Counterfactual, look: Look) -> Text:
    """Strike the removed features out, or put them in brackets on a console without colors."""
    text = Text(overflow="fold")
    if c.image is not None:
        names = f"Removed {pluralize(c.feature_noun)}: {_name_removed(c)}"
        return text.append(look.safe(names))
    style = word_style("against", 1.0) + Style(strike=True)
    mark = " [not read]" if look.ascii else CUT_MARK
    for part in shorten_unread(split_text(c), mark):
        visible = look.safe(collapse_spaces(part.text))
        if part.label:
            name = look.safe(collapse_spaces(part.label))
            text.append("\n" if text else "").append(f"{name}: ", "dim")
        elif c.has_block_features and not visible.strip():
            text.append("\n")
        elif part.feature in c.removed:
            text.append(visible if look.color else f"[-{visible}-]", style if look.color else "")
        else:
            text.append(visible, PAST_WINDOW if not part.is_read else "")
    text.rstrip()  # a file ends in a line end
    return text


def words_html(c: Counterfactual, *, inline: bool = False) -> "Markup":
    """Return the text with the removed features in ``del`` elements, or the image without them."""
    if c.image is not None:
        return removed_parts_html(c.image, c.removed)

    def describe_word(feature: int) -> WordElement:
        """Mark a removed feature."""
        is_removed = feature in c.removed
        return WordElement(
            classes=(f"a{_SHADE}" * is_removed,),
            style=inline_style("against", _SHADE * is_removed * inline),
            kind="removed" if is_removed else "word",
        )

    return text_html(c, describe_word)


def _legend(c: Counterfactual) -> str:
    """Say how the removed features are marked."""
    nouns = pluralize(c.feature_noun)
    if not c.removed:
        return f"No {c.feature_noun} is removed."
    marked = f"Struck out: the removed {nouns}."
    if c.image is not None:
        marked = f"Covered: {_name_removed(c)}."
    return f"{marked} The replacement is {c.replacement!r}. {wording.prompt_sentence(c)}".strip()


def _name_removed(c: Counterfactual) -> str:
    """Return the names of the removed features, but not of too many."""
    more = " …" * (len(c.removed) > _NAMED_PATCHES)
    return (", ".join(c.removed_features[:_NAMED_PATCHES]) or "none") + more


def counterfactual_page(c: Counterfactual) -> str:
    """Return one counterfactual as a self-contained page."""
    c = _replace_surrogates(c)
    settings = {
        "replacement": c.replacement,
        "desired_class": c.desired_class,
        "threshold": c.threshold,
        "lower_bound": c.lower_bound,
        "bound_kind": c.bound_kind,
        **c.settings,
        **c.diagnostics,
        "model": c.model,
        "version": c.version,
    }
    noun = "image" if c.image is not None else "text"
    nouns = pluralize(c.feature_noun)
    body = render_template(
        "counterfactual.html",
        counterfactual=c,
        change=change_sentence(c),
        minimum=minimum_sentence(c),
        outcomes=table_html(outcome_table(c), kind="numbers"),
        heading=f"The {noun} without the removed {nouns}" if c.removed else f"The {noun}",
        legend=_legend(c),
        words=words_html(c),
        stability=table_html(stability_table(c), kind="numbers") if c.stability else "",
        stability_note=STABILITY_NOTE.format(nouns),
        settings=[
            (name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
            for name, value in settings.items()
            if value is not None
        ],
    )
    subject = "the answer" if c.kind == "answer" else "the prediction"
    data = replace(c, image=None if c.image is None else replace(c.image, png=None, regions=None))
    return render_page(
        f"What would change {subject}?",
        body,
        sheets=("words.css", "page.css"),
        script="theme.js",
        data=data.to_json(),
        subtitle=c.predicted_class,
    )


def counterfactual_fragment(c: Counterfactual) -> str:
    """Return a counterfactual for a notebook, an app or a mail."""
    return counterfactuals_fragment([c])


def counterfactuals_fragment(counterfactuals: Sequence[Counterfactual]) -> str:
    """Return counterfactuals for a notebook. Only the first texts are shown."""
    views = [
        _view(c, inline=True, has_outcomes=len(counterfactuals) == 1)
        for c in counterfactuals[:FRAGMENT_TEXTS]
    ]
    left_out = len(counterfactuals) - len(views)
    return render_fragment("counterfactual_fragment.html", views=views, left_out=left_out)


def counterfactual_section(c: Counterfactual) -> "Markup":
    """Return a counterfactual for a section of a page that has the style sheets of limelight."""
    return render_macro("counterfactual", _view(c, inline=False, has_outcomes=True))


def _view(c: Counterfactual, *, inline: bool, has_outcomes: bool) -> dict[str, Any]:
    """Return the sentences and elements of a counterfactual for a template."""
    c = _replace_surrogates(c)
    return {
        "change": change_sentence(c),
        "minimum": minimum_sentence(c),
        "words": words_html(c, inline=inline),
        "is_image": c.image is not None,
        "outcomes": table_html(outcome_table(c)) if has_outcomes else "",
        "warnings": c.warnings,
    }


def _replace_surrogates(c: Counterfactual) -> Counterfactual:
    """Return ``c`` without lone surrogates, which no file can contain."""
    return replace(
        c, text=replace_surrogates(c.text), features=tuple(map(replace_surrogates, c.features))
    )
