"""The comments of sections 4 and 5 as claims that numbers decide."""

__all__ = [
    "AFFINE",
    "CLAIMS",
    "CORRELATED",
    "DOES_NOT_HOLD",
    "HOLDS",
    "NEAR_ZERO",
    "NEGATIVE",
    "TRUE_SIGN",
    "Claim",
    "both",
    "correlated",
    "median",
]

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from limelight_reproduction.experiment import Numbers
from limelight_reproduction.one_layer.comments_gradient import TYPICAL

CORRELATED = 0.5  # the least median over documents, of Pearson's and of Spearman's correlation
NEGATIVE = 0.1  # the least share of tokens to which it must happen
TRUE_SIGN = 2 / 3  # the least share of tokens with the sign of leave-one-out
AFFINE = 0.9  # the least R² of "approximately affine"
NEAR_ZERO = 0.05  # the largest share of the document's largest coefficient

HOLDS, DOES_NOT_HOLD = "holds", "does not hold"


@final
@dataclass(frozen=True, kw_only=True)
class Claim:
    """One statement of the paper: the verdict on it for one model, and the numbers behind it."""

    where: str
    says: str
    verdict: Callable[[Numbers], str]
    shown: Callable[[Numbers], str]


def median(n: Numbers, key: str) -> float:
    """Return the median over documents of one statistic."""
    return float(n["spread"][key][1])


def both(n: Numbers, pair: str) -> str:
    """Return the two correlations of a pair in words."""
    pearson, spearman = median(n, f"pearson {pair}"), median(n, f"spearman {pair}")
    return f"{pearson:+.2f} (ranks {spearman:+.2f})".replace("-", "−")


def correlated(n: Numbers, pair: str) -> bool:
    """Return whether both correlations of a pair are large and positive."""
    return min(median(n, f"{kind} {pair}") for kind in ("pearson", "spearman")) >= CORRELATED


def _first(*cases: tuple[bool, str]) -> str:
    """Return the verdict of the first case that is true; where none is, the claim fails."""
    return next((verdict for holds, verdict in cases if holds), DOES_NOT_HOLD)


CLAIMS = (
    Claim(
        where="4 (i)",
        says="α-avg is correlated with G-l1",
        verdict=lambda n: _first((correlated(n, "alpha-avg ~ g-l1"), HOLDS)),
        shown=lambda n: f"correlation {both(n, 'alpha-avg ~ g-l1')}",
    ),
    Claim(
        where="4 (i)",
        says="α-avg is correlated with G-avg",
        verdict=lambda n: _first(
            (correlated(n, "alpha-avg ~ g-avg"), HOLDS),
            (correlated(n, "alpha-avg ~ |g-avg|"), "holds if G-avg is read as |G-avg|"),
        ),
        shown=lambda n: (
            f"correlation {both(n, 'alpha-avg ~ g-avg')}, "
            f"with |G-avg| {both(n, 'alpha-avg ~ |g-avg|')}"
        ),
    ),
    Claim(
        where="4 (i)",
        says="the same does not hold for α-max and G-l2",
        verdict=lambda n: _first((not correlated(n, "alpha-max ~ g-l2"), HOLDS)),
        shown=lambda n: (
            f"correlation of α-max with G-l2 {both(n, 'alpha-max ~ g-l2')}, of α-avg with G-l2 "
            f"{both(n, 'alpha-avg ~ g-l2')}, of α-max with G-l1 {both(n, 'alpha-max ~ g-l1')}"
        ),
    ),
    Claim(
        where="4 (ii)",
        says="positive attention can go with a negative gradient explanation",
        verdict=lambda n: _first((median(n, "negative gxi") >= NEGATIVE, HOLDS)),
        shown=lambda n: (
            f"G×I is negative at {median(n, 'negative gxi'):.1%} of the tokens, G-avg at "
            f"{median(n, 'negative g-avg'):.1%}"
        ),
    ),
    Claim(
        where="4 (ii)",
        says="in one head, a typical value leaves only α_t W_vᵀW_ℓᵀ of the gradient",
        # That the value is typical is the paper's own condition, so nothing is added to it.
        verdict=lambda n: _first((median(n, "typical") > 0, HOLDS)),
        shown=lambda n: (
            f"the rest of Eq. 14 is at most {TYPICAL:.0%} of that term at "
            f"{median(n, 'typical'):.0%} of tokens and heads; the term's G-avg is negative in "
            f"{n['negative_heads']} of {n['heads']} heads"
        ),
    ),
    Claim(
        where="4 (ii)",
        says="the sign of the gradient explanation reflects what the model does",
        verdict=lambda n: _first(
            (median(n, "sign as leave-one-out g-avg") >= TRUE_SIGN, HOLDS),
            (
                median(n, "sign as leave-one-out gxi") >= TRUE_SIGN,
                "holds if the gradient is read as G×I",
            ),
        ),
        shown=lambda n: (
            f"the sign is that of leave-one-out at "
            f"{median(n, 'sign as leave-one-out g-avg'):.0%} of the tokens for G-avg and at "
            f"{median(n, 'sign as leave-one-out gxi'):.0%} for G×I"
        ),
    ),
    Claim(
        where="5 (i)",
        says="LIME is quite different from gradient explanations, but for the leading term",
        # The paper itself excepts the leading term, so nothing is added to its words.
        verdict=lambda n: _first((not correlated(n, "lime ~ gxi without alpha u"), HOLDS)),
        shown=lambda n: (
            "correlation of LIME with G×I, the best multiple of α_t u_t removed from both, "
            f"{both(n, 'lime ~ gxi without alpha u')}; α_t u_t itself subtracted from both, "
            f"{both(n, 'lime ~ gxi less alpha u')}; nothing removed, {both(n, 'lime ~ gxi')}, and "
            f"with G-avg {both(n, 'lime ~ g-avg')}"
        ),
    ),
    Claim(
        where="5 (i)",
        says="both have the leading term α_t W_ℓ v_t",
        verdict=lambda n: _first(
            (correlated(n, "lime ~ alpha u") and correlated(n, "gxi ~ alpha u"), HOLDS)
        ),
        shown=lambda n: (
            f"correlation of that term with LIME {both(n, 'lime ~ alpha u')}, with G×I "
            f"{both(n, 'gxi ~ alpha u')}"
        ),
    ),
    Claim(
        where="5 (ii)",
        says="LIME is approximately an affine transformation of the α_t",
        verdict=lambda n: _first(
            (median(n, "r2 from alpha") >= AFFINE, HOLDS),
            (
                median(n, "r2 of moving alpha") >= AFFINE,
                "holds if every word has a slope of its own, set by its value",
            ),
        ),
        shown=lambda n: (
            f"R² {median(n, 'r2 from alpha'):.2f} from the heads' α_t with the same coefficients "
            f"for all words, {median(n, 'r2 from alpha u'):.3f} from their α_t u_t, "
            f"{median(n, 'r2 of moving alpha'):.3f} when α_t of one word moves and u_t stays"
        ),
    ),
    Claim(
        where="5 (iii)",
        says="if W_ℓ v_t = 0, the influence of α_t disappears whatever its value",
        verdict=lambda n: _first((median(n, "influence without value") <= NEAR_ZERO, HOLDS)),
        shown=lambda n: (
            "where the value of the most attended word is set to 0 in every head, its coefficient "
            f"still moves by {median(n, 'influence without value'):.0%} of the largest one as its "
            f"α_t goes to 0; it is {median(n, 'no value'):.0%} of the largest (place "
            f"{median(n, 'rank of no value'):.0f} of {n['words']:.0f}), with its value "
            f"{median(n, 'untouched'):.0%}"
        ),
    ),
    Claim(
        where="5 (iv)",
        says="LIME is near zero where α_t v_t ≈ α_{h,t} v_{h,t}",
        verdict=lambda n: _first(
            (
                max(median(n, "lime near unknown"), median(n, "value of unknown")) <= NEAR_ZERO,
                HOLDS,
            ),
            (
                median(n, "lime near unknown") <= NEAR_ZERO,
                "holds if the word has little attention, too",
            ),
        ),
        shown=lambda n: (
            f"the tenth of the words with the smallest gap has "
            f"{median(n, 'lime near unknown'):.1%} of the largest coefficient and "
            f"{median(n, 'attention near unknown'):.0%} of a word's usual attention; the most "
            f"attended word, its gap set to 0, keeps {median(n, 'value of unknown'):.0%}"
        ),
    ),
)
