"""Explanations as HTML: one self-contained page, or a fragment for other pages."""

import base64
import json
import struct
import zlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from limelight.pages.markup import (
    Html,
    data_block,
    element,
    escaped,
    headed_table,
    raw,
    resource,
    scrolling,
    whole_page,
)
from limelight.pages.palette import inline_colour, largest, level, palette_css, side, strengths
from limelight.pages.pieces import SHOWN_REST, Piece, pieces, shortened, token_strings_of, writable
from limelight.pages.wording import (
    Disagreement,
    Outcome,
    against_reference,
    aims,
    all_occurrences,
    anchor_sentence,
    minus,
    notices,
    outcomes,
    percent,
    precision_sentence,
    reference,
    said,
    strongest_disagreements,
    unranked,
    written,
)
from limelight.results import Comparison, Explanation, Pairs
from limelight.results.codec import settings_with_facts
from limelight.shapes import Float, Num


def words(e: Explanation, *, titles: bool = False, inline: bool = False) -> Html:
    """Return the text with one ``span`` per feature; its class is its colour.

    ``titles`` adds the score as a tooltip, for places where no script can, and ``inline`` the light
    colour as a style of its own, for places that drop style sheets, as mail programs do.
    Of the text past the window only the beginning is shown; :func:`unread` has the rest.
    """
    sizes, peak = strengths(e), largest(e)
    top = int(np.argmax(np.abs(sizes))) if peak else -1
    steps = [f"{side(e, size)[0]}{step}" if (step := level(size)) else "" for size in sizes]
    parts: list[Html] = []
    cut = shortened(pieces(e))
    for piece, room in zip(cut, _room(cut), strict=True):
        if piece.opens:
            parts.append(element("span", piece.opens, class_="side"))
            continue
        if piece.feature is None:
            parts.append(escaped(piece.text) if piece.seen else _unread_note(piece.text))
            continue
        j = piece.feature
        classes = " ".join(filter(None, ("w", room, steps[j], "top" if j == top else "")))
        title = written(float(e.scores[j]), peak=peak, signed=e.signed) if titles else None
        style = inline_colour(side(e, sizes[j]), level(sizes[j])) if inline else None
        parts.append(
            element("span", piece.text, class_=classes, data_f=j, title=title, style=style)
        )
    return raw(*parts)


def _room(cut: Sequence[Piece]) -> list[str]:
    """Return on which sides a piece has room for its tint: "s" its start, "e" its end.

    A tint that reaches out covers what is there, so it may where there is a space, and never over
    the last letter of a word that a comma follows.
    """
    around = [" ", *(piece.text or " " for piece in cut), " "]
    return [
        " ".join(
            name
            for name, free in (("s", before[-1:].isspace()), ("e", after[:1].isspace()))
            if free
        )
        for before, after in zip(around[:-2], around[2:], strict=True)
    ]


def unread(e: Explanation) -> Html:
    """Return what the model did not read, where :func:`words` shows only the start of it."""
    rest = e.text[e.explained_end :]
    if len(rest) <= SHOWN_REST:
        return raw()
    return element("p", rest, class_="words cut", dir="auto")


def _unread_note(text: str) -> Html:
    mark = element("span", "not read from here", class_="stop")
    return raw(mark, element("span", text, class_="cut", title="past the model's window: not read"))


def scale_note(e: Explanation) -> str:
    """Say which score has the full colour."""
    if not (peak := largest(e)):
        return "all scores are 0"
    number = written(peak, peak=peak, signed=False)
    return f"±{number}" if e.signed else f"0 to {number}"


def legend(explanations: Sequence[Explanation]) -> Html:
    """Say what the colours mean; they are told apart by colour-blind readers too."""
    target, other = explanations[0].target, explanations[0].against
    keys: list[Html] = []
    if any(e.signed for e in explanations):
        keys.append(_key("f", f"for {target}"))
        keys.append(_key("a", f"against {target}" if other is None else f"for {other}"))
    if not all(e.signed for e in explanations):
        keys.append(_key("n", "size only: the method gives no sign"))
    keys.append(element("span", element("span", "word", class_="w top"), " strongest"))
    if any(not piece.seen for piece in pieces(explanations[0])):
        keys.append(
            element("span", element("span", "grey", class_="cut"), " not read by the model")
        )
    note = "Deeper colour, larger score. The colours are safe for colour-blind readers."
    if len(explanations) > 1:
        note += " Each method has its own scale: the number after its words is the deepest colour."
    if any(len(spans) > 1 for spans in explanations[0].spans):
        note += f" {all_occurrences(explanations[0])}"
    return element("div", *keys, element("span", note, class_="note"), class_="legend")


def _key(hue: str, meaning: str) -> Html:
    swatches = [element("i", class_=f"swatch {hue}{step}") for step in (2, 6, 10)]
    return element("span", element("span", *swatches, aria_hidden="true"), " ", meaning)


def head_table(e: Explanation) -> Html:
    """Return the strongest features head by head, all heads on one scale."""
    if e.heads is None:
        return Html("")
    order = np.argsort(-np.abs(e.scores), kind="stable")[:SHOWN_FEATURES].tolist()
    peak = float(np.abs(e.heads).max(initial=0.0))
    head = ["word", *(f"head {k + 1}" for k in range(len(e.heads)))]
    rows = []
    for j in order:
        cells = [_head_cell(e, float(score), peak) for score in e.heads[:, j]]
        rows.append(element("tr", element("th", element("bdi", e.names[j]), scope="row"), *cells))
    caption = f"{e.label} of each head alone"
    table = headed_table(head, rows, caption=caption, class_="numbers matrix")
    return element("details", element("summary", "Head by head"), scrolling(table, "Head by head"))


def _head_cell(e: Explanation, score: float, peak: float) -> Html:
    step = level(score / peak) if peak else 0
    shade = f"{side(e, score)[0]}{step}" if step else None
    number = written(score if e.signed else abs(score), peak=peak, signed=e.signed)
    return element("td", minus(number), class_=shade)


LABELLED = 16  # more tokens than this leave no room for their names
INK = (58, 70, 186)
CELLS = 128  # a finer picture than this is only bytes


def attention_section(c: Comparison) -> Html:
    """Return one picture per head; the first row, of [cls], is all that the classifier reads."""
    matrices = c.attention
    if matrices is None:
        return raw()
    T = matrices.shape[-1]
    block = -(-T // CELLS)
    tokens = (token_strings_of(c.explanations[0]) + ["·"] * T)[:T]
    figures = [_figure(head, matrix, tokens, block) for head, matrix in enumerate(matrices)]
    note = (
        "Row: the token that asks; column: the token attended to. The classifier reads only the "
        "first row, that of [cls]. Each head has its own scale; opacity is the square root."
    )
    if block > 1:
        note += f" A cell shows the largest of {block} × {block} values."
    return raw(
        element("p", note, class_="note"),
        element("div", *figures, class_="heads"),
        element(
            "p", "Point at a cell to read its value.", class_="readout", id="attention-readout"
        ),
        data_block("limelight-tokens", json.dumps({"tokens": tokens, "block": block})),
    )


def _figure(head: int, matrix: Float[np.ndarray, "T T"], tokens: list[str], block: int) -> Html:
    T, peak = len(tokens), float(matrix.max()) or 1.0
    # The root keeps small weights visible; the script squares the opacity to read the value.
    pixels = np.round(np.sqrt(pooled(matrix, block) / peak) * 255).astype(np.uint8)
    address = "data:image/png;base64," + base64.b64encode(matrix_png(pixels)).decode()
    row, strongest = matrix[0], int(matrix[0].argmax())
    said = (
        f"Head {head + 1}. [cls] attends most to “{tokens[strongest]}” ({row[strongest]:.2f}); "
        f"largest value {peak:.2f}."
    )
    image = element(
        "img", src=address, alt=said, class_="head", data_head=head, data_peak=f"{peak:.6g}"
    ).removesuffix("</img>")
    caption = element("figcaption", element("b", f"Head {head + 1}"), f" full colour = {peak:.2f}")
    if T > LABELLED:
        return element("figure", caption, element("div", Html(image), class_="grid"))
    down = element("ol", *(element("li", token) for token in tokens), class_="down")
    across = element("ol", *(element("li", token) for token in tokens), class_="across")
    grid = element("div", down, Html(image), across, class_="grid named", data_size=T)
    return element("figure", caption, grid)


def pooled(matrix: Float[np.ndarray, "T T"], block: int) -> Float[np.ndarray, "S S"]:
    """Return the largest value of every ``block`` × ``block`` square."""
    T = len(matrix)
    padded = np.pad(matrix, (0, -T % block))
    size = len(padded) // block
    return padded.reshape(size, block, size, block).max(axis=(1, 3))


def matrix_png(pixels: Num[np.ndarray, "S S"]) -> bytes:
    """Return an image whose opacity is the value, so that it lies on light and dark paper."""
    height, width = pixels.shape
    rows = np.zeros((height, width + 1), dtype=np.uint8)  # each row starts with its filter: none
    rows[:, 1:] = pixels
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            _chunk(b"PLTE", bytes(INK) * 256),
            _chunk(b"tRNS", bytes(range(256))),
            _chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)),
            _chunk(b"IEND", b""),
        )
    )


def _chunk(kind: bytes, content: bytes) -> bytes:
    checksum = struct.pack(">I", zlib.crc32(kind + content))
    return struct.pack(">I", len(content)) + kind + content + checksum


def disagreement_section(c: Comparison, *, matrix: bool = True) -> Html:
    """Return the table against the reference, the worst pairs, and all rank correlations."""
    pairs = strongest_disagreements(c)
    rows = [
        element("li", element("b", f"{pair.first} and {pair.second}"), f": {minus(pair.sentence)}.")
        for pair in pairs
    ]
    worst = raw(element("h3", "Furthest apart"), element("ul", *rows, class_="apart"))
    sentence = unranked(c)
    table = raw(_table(c), element("p", sentence, class_="note") if sentence else raw())
    parts = [table, worst if rows and len(c.explanations) > 2 else raw()]
    columns = element("div", *(element("div", part) for part in parts), class_="columns")
    return raw(columns, _matrix(c) if matrix and len(c.explanations) > 2 else raw())


def _table(c: Comparison) -> Html:
    held_against = c.explanations[reference(c)].label
    head = ("method", "rank correlation", "opposite signs", "top words shared")
    return headed_table(
        head, map(_row, against_reference(c)), caption=f"Held against {held_against}"
    )


def _row(row: Disagreement) -> Html:
    ranks, signs = row.rank_correlation, row.sign_conflicts
    shared = "–" if row.shared_top is None else f"{row.shared_top} of {row.top}"
    return element(
        "tr",
        element("th", row.first, scope="row"),
        element("td", _number(ranks), class_="weak" if ranks is not None and ranks < 0.5 else None),
        element("td", "–" if signs is None else signs, class_="weak" if signs else None),
        element("td", shared, class_="weak" if row.shared_top == 0 else None),
    )


def _matrix(c: Comparison) -> Html:
    """Return the rank correlation of every pair; deeper colour, closer agreement."""
    names = [e.label for e in c]
    rows = []
    for name, line in zip(names, c.agreement.rank_correlation, strict=True):
        cells = [element("td", _number(value), class_=_shade(value)) for value in line]
        rows.append(element("tr", element("th", name, scope="row"), *cells))
    caption = "Rank correlation of the sizes of the scores, every pair of methods"
    table = headed_table(("", *names), rows, caption=caption, class_="numbers matrix")
    return scrolling(table, "Rank correlations of all pairs")


def _shade(value: float | None) -> str | None:
    if value is None or not (step := level(value * 0.8)):
        return None
    return f"n{step}" if value > 0 else f"a{step}"


def _number(value: float | None) -> str:
    return "–" if value is None else minus(f"{value:+.2f}")


SHOWN_WORDS = 12
SHOWN_PAIRS = 12


def pair_section(e: Explanation) -> Html:
    """Return the words that take part in the strongest pairs against each other, then the pairs."""
    if e.pairs is None or not len(e.pairs.scores):
        return raw()
    return raw(_pair_matrix(e, e.pairs), _list(e, e.pairs))


def anchor_note(e: Explanation) -> Html:
    """Say which words hold the prediction, if the method says so."""
    return raw() if e.anchor is None else element("p", anchor_sentence(e, e.anchor))


def _pair_matrix(e: Explanation, pairs: Pairs) -> Html:
    order = np.argsort(-np.abs(pairs.scores), kind="stable")
    strongest = dict.fromkeys(pairs.features[order].ravel().tolist())
    shown = sorted(list(strongest)[:SHOWN_WORDS])
    scores = {frozenset(p): s for p, s in zip(pairs.features.tolist(), pairs.scores, strict=True)}
    peak = float(np.abs(pairs.scores).max())
    head = ["", *(element("bdi", e.names[j]) for j in shown)]
    rows = [
        element(
            "tr",
            element("th", element("bdi", e.names[i]), scope="row"),
            *(_pair_cell(scores.get(frozenset((i, j))) if i != j else None, peak) for j in shown),
        )
        for i in shown
    ]
    caption = "What two words do together beyond what each does alone"
    return scrolling(headed_table(head, rows, caption=caption, class_="numbers matrix"), "Pairs")


def _pair_cell(score: float | None, peak: float) -> Html:
    if score is None:
        return element("td", "")
    step = level(score / peak) if peak else 0
    shade = f"{'f' if score >= 0 else 'a'}{step}" if step else None
    return element("td", minus(written(float(score), peak=peak)), class_=shade)


def _list(e: Explanation, pairs: Pairs) -> Html:
    order = np.argsort(-np.abs(pairs.scores), kind="stable")[:SHOWN_PAIRS].tolist()
    peak = float(np.abs(pairs.scores).max())
    rows = [
        element(
            "tr",
            element("th", *_names(e, pairs.features[k].tolist()), scope="row"),
            element("td", minus(written(float(pairs.scores[k]), peak=peak))),
            *_error(pairs, k, peak),
        )
        for k in order
    ]
    columns = ("pair", "score") if pairs.stderr is None else ("pair", "score", "standard error")
    return headed_table(columns, rows, caption=f"The strongest pairs, {e.label}")


def _error(pairs: Pairs, k: int, peak: float) -> list[Html]:
    if pairs.stderr is None:
        return []
    return [element("td", written(float(pairs.stderr[k]), peak=peak, signed=False))]


def _names(e: Explanation, pair: list[int]) -> list[object]:
    first, second = (element("bdi", e.names[j]) for j in pair)
    return [first, " × ", second]


SHOWN_FEATURES = 20


def prediction(e: Explanation) -> Html:
    """Return what the model says, class by class, and which class is explained."""
    rows = [
        element(
            "div",
            element("dt", outcome.name),
            element("dd", *_sure(outcome)),
            raw() if outcome.probability is None else _meter(outcome.probability),
            class_="outcome chosen" if outcome.chosen else "outcome",
        )
        for outcome in outcomes(e)
    ]
    less = () if e.against is None else (" less that of ", element("b", e.against))
    facts = [element("p", f"Explained: the {e.scale} of ", element("b", e.target), *less, ".")]
    if e.base_value is not None:
        facts.append(element("p", f"With every word removed: {minus(f'{e.base_value:+.3f}')}."))
    return element(
        "div", element("dl", *rows), element("div", *facts, class_="note"), class_="says"
    )


def _sure(outcome: Outcome) -> list[Html]:
    """Return the probability with the logit beside it, or the score that there is instead."""
    number = "" if outcome.logit is None else minus(f"{outcome.logit:+.3f}")
    if outcome.probability is None:
        return [element("b", number)]
    beside = f" logit {number}" if number else ""
    return [element("b", percent(outcome.probability)), element("span", beside, class_="note")]


def _meter(share: float) -> Html:
    drawn = element(
        "svg",
        element("rect", width=f"{100 * share:.2f}", height="4", rx="0"),
        viewBox="0 0 100 4",
        preserveAspectRatio="none",
    )
    return element("dd", drawn, class_="meter", aria_hidden="true")


def notice_list(explanations: Sequence[Explanation], more: Sequence[str] = ()) -> Html:
    """Return what the reader must know, or nothing."""
    found = [*more, *notices(explanations)]
    if not found:
        return raw()
    rows = [element("li", notice) for notice in found]
    return element("ul", *rows, class_="notices", role="note", aria_label="Notices")


def overview(explanations: Sequence[Explanation], *, titles: bool = False) -> Html:
    """Return the paper's Figure 1: every method one row, its scale at the end."""
    rows = []
    for j, e in enumerate(explanations):
        name = element("span", e.label) if titles else _chooser(j, e)
        coloured = words(e, titles=titles, inline=titles)
        text = element("p", coloured, class_="words", dir="auto", data_m=j)
        scale = element("span", scale_note(e), class_="scale", title="score drawn in full colour")
        rows.append(element("div", element("h3", name), text, scale, class_="method"))
    size = "overview long" if len(explanations[0].text) > 300 else "overview"
    return raw(element("div", *rows, class_=size), legend(explanations))


def _chooser(index: int, e: Explanation) -> Html:
    return element("button", e.label, type="button", data_choose=index, title="look closer")


def tabs(explanations: Sequence[Explanation]) -> Html:
    """Return one tab per method."""
    buttons = [
        element(
            "button",
            e.label,
            type="button",
            role="tab",
            id=f"tab-{j}",
            aria_controls=f"panel-{j}",
            aria_selected="false" if j else "true",
            tabindex=-1 if j else 0,
        )
        for j, e in enumerate(explanations)
    ]
    return element("div", *buttons, role="tablist", aria_label="Method", class_="tabs")


def panel(index: int, e: Explanation, *, tabbed: bool) -> Html:
    """Return one method in full: its text, its strongest features, how far to trust them."""
    about = precision_sentence(e)
    group = {"role": "group", "aria_label": f"The text and its scores, {e.label}"}
    text = element(
        "div", words(e), class_="words reading", dir="auto", data_m=index, data_walk=True, **group
    )
    named = {"role": "tabpanel", "aria_labelledby": f"tab-{index}"} if tabbed else {}
    return element(
        "div",
        text,
        element("p", "Point at a word, or tab here and use the arrow keys.", class_="readout"),
        element("h3", e.label, " ", element("span", about, class_="note"), class_="about"),
        anchor_note(e),
        score_table(e),
        pair_section(e),
        head_table(e),
        class_="panel",
        id=f"panel-{index}",
        **named,
    )


def score_table(e: Explanation, count: int = SHOWN_FEATURES) -> Html:
    """Return the strongest features with their scores, errors and bars."""
    order = np.argsort(-np.abs(e.scores), kind="stable")[:count].tolist()
    peak = largest(e)
    reach = peak if e.stderr is None else float((np.abs(e.scores) + e.stderr).max(initial=0.0))
    head = ["word", "score", *(["± s.e."] if e.stderr is not None else []), ""]
    rows = [_score_row(e, j, peak, reach) for j in order]
    left = len(e.features) - len(rows)
    caption = f"The {len(rows)} strongest of {len(e.features)} words" if left else "All words"
    return headed_table(head, rows, caption=f"{caption}, {e.label}", class_="scores")


def _score_row(e: Explanation, j: int, peak: float, reach: float) -> Html:
    count = len(e.spans[j])
    times = element("span", f" ×{count}", class_="note") if count > 1 else raw()
    error = None if e.stderr is None else float(e.stderr[j])
    cells = [
        element("th", element("bdi", e.names[j]), times, scope="row"),
        element("td", minus(written(float(e.scores[j]), peak=peak, signed=e.signed))),
    ]
    if error is not None:
        cells.append(element("td", written(error, peak=peak, signed=False), class_="note"))
    bar = _bar(float(e.scores[j]), error, reach or 1.0, signed=e.signed)
    return element("tr", *cells, element("td", bar, class_="bar"), data_f=j)


def _bar(score: float, error: float | None, reach: float, *, signed: bool) -> Html:
    """Return a bar from zero, with a whisker of one standard error each way."""
    zero, unit = (50.0, 50 / reach) if signed else (0.0, 100 / reach)
    end = zero + (score if signed else abs(score)) * unit
    hue = "n" if not signed else "f" if score >= 0 else "a"
    left, width = min(zero, end), abs(end - zero)
    parts = [
        element("rect", x=f"{left:.2f}", y=3, width=f"{width:.2f}", height=6, class_=f"bar-{hue}")
    ]
    if error is not None:
        low, high = end - error * unit, end + error * unit
        lines = f"M{low:.2f} 6H{high:.2f}M{low:.2f} 4v4M{high:.2f} 4v4"
        parts.append(element("path", d=lines, class_="whisker"))
    if signed:
        parts.append(element("path", d="M50 0v12", class_="axis"))
    return element(
        "svg", *parts, viewBox="0 0 100 12", preserveAspectRatio="none", aria_hidden="true"
    )


def all_scores(explanations: Sequence[Explanation]) -> Html:
    """Return every score of every method as one table: the page in text."""
    peaks = [largest(e) for e in explanations]
    head = ("word", *(e.label for e in explanations))
    rows = []
    for j, feature in enumerate(explanations[0].names):
        cells = [
            element("td", minus(written(float(e.scores[j]), peak=peak, signed=e.signed, digits=4)))
            for e, peak in zip(explanations, peaks, strict=True)
        ]
        rows.append(element("tr", element("th", element("bdi", feature), scope="row"), *cells))
    table = headed_table(head, rows, caption="Every score, in the order of the text")
    return scrolling(table, "All scores")


def settings(explanations: Sequence[Explanation]) -> Html:
    """Return how to compute each explanation again, and how it went; what all share once."""
    every = [settings_with_facts(e) | dict(e.diagnostics) for e in explanations]
    shared = {
        key: value
        for key, value in every[0].items()
        if all(key in one and one[key] == value for one in every)
    }
    groups = [("All methods" if len(explanations) > 1 else explanations[0].label, shared)]
    for e, known in zip(explanations, every, strict=True) if len(explanations) > 1 else ():
        own = {key: value for key, value in known.items() if key not in shared}
        groups.append((e.label, {"method": e.method, **own}))
    return raw(*(_setting_group(name, values) for name, values in groups))


def _setting_group(name: str, values: dict[str, object]) -> Html:
    rows = [
        element("div", element("dt", key), element("dd", _setting(value)))
        for key, value in values.items()
    ]
    return raw(element("h3", name), element("dl", *rows, class_="settings"))


def _setting(value: object) -> Html:
    return escaped(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


FRAGMENT_FEATURES = 8
FRAGMENT_TEXTS = 20


def explanation_page(e: Explanation) -> str:
    """Return one explanation as a page that needs no network."""
    e = _writable(e)
    main = [
        _section("The model says", prediction(e), notice_list([e])),
        _section(f"What {e.label} says", legend([e]), panel(0, e, tabbed=False)),
        _not_read(e),
        _folded("Every score", all_scores([e])),
        _folded("Settings", settings([e])),
    ]
    return _page(e, e.label, main, e.to_json())


def comparison_page(c: Comparison) -> str:
    """Return a comparison as a page that needs no network."""
    c = replace(c, explanations=tuple(map(_writable, c)))
    several = c.explanations
    panels = [panel(j, e, tabbed=True) for j, e in enumerate(several)]
    main = [
        _section("The model says", prediction(several[0]), notice_list(several, c.notices)),
        _section("Every method, side by side", overview(several)),
        _section("One method, closer", tabs(several), *panels, identifier="closer"),
        _section("Where the methods disagree", disagreement_section(c)) if several[1:] else raw(),
        _section("What the heads attend to", attention_section(c)) if _has_heads(c) else raw(),
        _not_read(several[0]),
        _folded("Every score", all_scores(several)),
        _folded("Settings", settings(several)),
    ]
    return _page(several[0], f"{len(several)} methods", main, c.to_json())


def explanation_fragment(e: Explanation) -> str:
    """Return an explanation for a notebook, an app or a mail: :func:`_fragment`."""
    return _fragment(
        _model_says(e),
        element("p", element("b", e.label), f" for {e.aim}. {precision_sentence(e)}"),
        element("p", words(e, titles=True, inline=True), class_="words", dir="auto"),
        legend([e]),
        score_table(e, FRAGMENT_FEATURES),
        notice_list([e]),
    )


def explanations_fragment(several: Sequence[Explanation]) -> str:
    """Return explanations of several texts for a notebook: the words of each, and its prediction.

    A page of thousands would freeze the notebook, so only the first ones are shown.
    """
    shown = several[:FRAGMENT_TEXTS]
    cards = [
        element(
            "li",
            _model_says(e, _for_and_against(e)),
            element("p", words(e, titles=True, inline=True), class_="words", dir="auto"),
            notice_list([e]),
        )
        for e in shown
    ]
    left = len(several) - len(shown)
    return _fragment(
        element("p", _heading(several)),
        legend(shown[:1]) if shown else raw(),
        element("ol", *cards, start=0),
        element("p", f"and {left} more texts", class_="note") if left else raw(),
    )


def _for_and_against(e: Explanation) -> str:
    if e.against is None:
        return f" Words for and against {e.target}:"
    return f" Words for {e.target} and for {e.against}:"


def _heading(several: Sequence[Explanation]) -> str:
    count = len(several)
    methods = " and ".join(dict.fromkeys(e.label for e in several))
    if count < 2:
        return f"{methods} of one text." if count else "No explanations."
    return f"{methods} of {count} texts, each on a scale of its own."


def _model_says(e: Explanation, then: str = "") -> Html:
    name, how_sure = said(e)
    return element("p", "The model says ", element("b", name), how_sure, then)


def comparison_fragment(c: Comparison) -> str:
    """Return a comparison for the same places: every method, then where they disagree."""
    parts = [_model_says(c.explanations[0]), overview(c.explanations, titles=True)]
    if len(c.explanations) > 1:
        parts.append(disagreement_section(c, matrix=False))
    return _fragment(*parts, notice_list(c.explanations, c.notices))


def _fragment(*content: Html) -> str:
    """Return a piece of a page: no script, styles that touch nothing else.

    The colours of words stand in their own styles too, so they survive where the sheet is dropped.
    """
    palette = palette_css(over_inline=True)
    style = f"<style>{palette}\n{resource('words.css')}\n{resource('fragment.css')}</style>"
    return element("div", Html(style), *content, class_="limelight fragment")


def _section(title: str, *content: Html, identifier: str | None = None) -> Html:
    return element("section", element("h2", title), *content, id=identifier)


def _folded(title: str, *content: Html) -> Html:
    return element("details", element("summary", title), *content)


def _not_read(e: Explanation) -> Html:
    rest = unread(e)
    return _folded("What the model did not read", rest) if rest else raw()


def _page(e: Explanation, by: str, main: Sequence[Html], json: str) -> str:
    return whole_page(
        f"What speaks for {aims(e)}?",
        main,
        sheets=("words.css", "page.css"),
        script="page.js",
        data=json,
        by=by,
        images=True,
    )


def _writable(e: Explanation) -> Explanation:
    """Replace lone surrogates, which no file and no JSON can hold."""
    return replace(e, text=writable(e.text), features=tuple(map(writable, e.features)))


def _has_heads(c: Comparison) -> bool:
    return c.attention is not None and c.attention.size > 0
