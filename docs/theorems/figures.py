"""Draw the figures of the theorem pages and write their image lines into the pages.

The captions are written by hand. The command lists the numbers that a caption lacks.

python docs/theorems/figures.py [ID ...]
"""

__all__ = ["FIGURES", "missing_numbers", "read_section", "replace_image"]

import argparse
import re
from collections.abc import Callable
from pathlib import Path

from drawn import (
    certificates,
    changed_decisions,
    first_order,
    lemmas,
    limits,
    mean_fields,
    orders,
    patches,
    power_games,
    quadrature,
    ranks,
    refills,
    samples,
    second_orders,
    sentences,
    tokens,
    word_values,
)
from drawn.picture import Picture, svg

HERE = Path(__file__).parent
FIGURES: dict[str, Callable[[], Picture]] = {
    "attention": tokens.draw_attention,
    "gradient": tokens.draw_cls_gradient,
    "integrated-gradients": tokens.draw_path_bounds,
    "ratio-game": tokens.draw_replacement_and_deletion,
    "patches": patches.draw_patch_counts,
    "power-game": power_games.draw_coefficients,
    "table-rounding": quadrature.draw_rounding,
    "reciprocal-sum": quadrature.draw_exponentials,
    "removal-mixture": quadrature.draw_removals,
    "certificate": certificates.draw_errors_and_bounds,
    "lime": limits.draw_limit_and_bounds,
    "lime-recurrence": limits.draw_recurrence,
    "lime-fit": limits.draw_r2,
    "lime-variance": samples.draw_standard_errors,
    "lime-deletion": limits.draw_deletion,
    "shapley": word_values.draw_shapley_samples,
    "owen": sentences.draw_owen_values,
    "banzhaf": word_values.draw_banzhaf_values,
    "leave-one-out": word_values.draw_synonyms,
    "interactions": word_values.draw_interactions,
    "refilling": refills.draw_refilling,
    "certain-ranks": ranks.draw_certificates,
    "faithfulness-ceiling": orders.draw_chance_and_ceiling,
    "decisions": changed_decisions.draw_bounds_of_margins,
    "lime-theorem": first_order.draw_printed_formula,
    "lime-first-order": first_order.draw_corrected_formula,
    "mean-field": mean_fields.draw_mean_field,
    "second-order": second_orders.draw_second_order,
    "lime-limit": first_order.draw_word_counts,
    "proposition-b1": first_order.draw_conditionals,
    "lemma-d1": lemmas.draw_lemma_d1,
    "lemma-d2": lemmas.draw_lemma_d2,
    "lemma-d3": lemmas.draw_lemma_d3,
    "lemma-d4": lemmas.draw_lemma_d4,
    "lemma-d5": lemmas.draw_lemma_d5,
}


_SECTION = re.compile(r"^## Figure\n\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_IMAGE = re.compile(r"(?<=^## Figure\n\n)!\[[^\n]*\]\([^\n]*\)$", re.MULTILINE)


def read_section(page: str) -> str:
    """Return the text below the heading "Figure" of a page: the image and its caption."""
    match = _SECTION.search(page)
    if match is None:
        raise ValueError("the page has no section with the heading Figure.")
    return match[1]


def replace_image(page: str, theorem: str, picture: Picture) -> str:
    """Replace the image of a page. The caption and the rest of the page do not change."""
    if _IMAGE.search(page) is None:
        raise ValueError("the page has no image below the heading Figure.")
    return _IMAGE.sub(lambda _: f"![{picture.alt}](images/{theorem}.svg)", page)


def missing_numbers(page: str, picture: Picture) -> list[str]:
    """List the numbers of a figure that are not in the caption of the page."""
    section = read_section(page)
    return [
        number
        for number in picture.numbers
        if not re.search(rf"(?<![\d.]){re.escape(number)}(?!\d|\.\d)", section)
    ]


def main() -> None:
    """Draw the figures that the command line names, or all."""
    parser = argparse.ArgumentParser(description="Draw the figures of the theorem pages.")
    parser.add_argument("theorems", metavar="ID", nargs="*", help="theorems, default all")
    theorems = parser.parse_args().theorems or list(FIGURES)
    if unknown := [theorem for theorem in theorems if theorem not in FIGURES]:
        parser.error(f"no figure of {', '.join(unknown)}. Figures: {', '.join(FIGURES)}.")
    (HERE / "images").mkdir(exist_ok=True)
    for theorem in theorems:
        picture = FIGURES[theorem]()
        (HERE / "images" / f"{theorem}.svg").write_bytes(svg(picture.figure))
        path = HERE / f"{theorem}.md"
        page = path.read_text("utf-8")
        path.write_text(replace_image(page, theorem, picture), encoding="utf-8")
        if numbers := missing_numbers(page, picture):
            print(f"{path.name}: write {', '.join(numbers)} in the caption.")


if __name__ == "__main__":
    main()
