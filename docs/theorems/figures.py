"""Draw the figures of these pages again and write them, with their captions, into the pages.

python docs/theorems/figures.py [ID ...]
"""

__all__ = ["FIGURES", "section", "with_section"]

import re
import sys
from collections.abc import Callable
from pathlib import Path

from drawn import (
    certificates,
    first_order,
    lemmas,
    limits,
    mean_fields,
    orders,
    patches,
    power_games,
    quadrature,
    samples,
    second_orders,
    sentences,
    tokens,
    word_values,
)
from drawn.picture import Picture, svg

HERE = Path(__file__).parent
FIGURES: dict[str, Callable[[], Picture]] = {
    "attention": tokens.attention_rows,
    "gradient": tokens.cls_gradient,
    "integrated-gradients": tokens.proven_panels,
    "ratio-game": tokens.replaced_and_deleted,
    "patches": patches.by_number_of_patches,
    "power-game": power_games.coefficients_and_values,
    "table-rounding": quadrature.moved_averages,
    "reciprocal-sum": quadrature.exponentials,
    "removal-mixture": quadrature.removals,
    "certificate": certificates.errors_below_bounds,
    "lime": limits.without_samples,
    "lime-recurrence": limits.two_roads,
    "lime-fit": limits.explained,
    "lime-variance": samples.before_sampling,
    "lime-deletion": limits.deleted,
    "shapley": word_values.converging,
    "owen": sentences.inside_sentences,
    "banzhaf": word_values.added_up,
    "leave-one-out": word_values.stand_ins,
    "interactions": word_values.pairs,
    "faithfulness-ceiling": orders.between_chance_and_ceiling,
    "lime-theorem": first_order.printed,
    "lime-first-order": first_order.corrected,
    "mean-field": mean_fields.near_and_far,
    "second-order": second_orders.errors_and_bounds,
    "lime-limit": first_order.many_words,
    "proposition-b1": first_order.survivors,
    "lemma-d1": lemmas.lemma_d1,
    "lemma-d2": lemmas.lemma_d2,
    "lemma-d3": lemmas.lemma_d3,
    "lemma-d4": lemmas.lemma_d4,
    "lemma-d5": lemmas.lemma_d5,
}


def section(theorem: str, picture: Picture) -> str:
    """Return what a page says below its heading "Figure"."""
    return f"![{picture.alt}](images/{theorem}.svg)\n\n{picture.caption}\n"


def with_section(page: str, content: str) -> str:
    """Return ``page`` with ``content`` as its section "Figure", which stands before "Oracle"."""
    page = re.sub(r"## Figure\n.*?(?=^## )", "", page, flags=re.MULTILINE | re.DOTALL)
    return page.replace("## Oracle\n", f"## Figure\n\n{content}\n## Oracle\n")


def main(theorems: list[str]) -> None:
    """Draw the figures of ``theorems``, all where none is named."""
    for theorem in theorems or FIGURES:
        picture = FIGURES[theorem]()
        (HERE / "images").mkdir(exist_ok=True)
        (HERE / "images" / f"{theorem}.svg").write_bytes(svg(picture.figure))
        page = HERE / f"{theorem}.md"
        text = page.read_text("utf-8")
        page.write_text(with_section(text, section(theorem, picture)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
