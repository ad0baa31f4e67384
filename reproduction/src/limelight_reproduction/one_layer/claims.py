"""The comments of sections 4 and 5 as claims with a rule for the verdict on each."""

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
    "describe_correlations",
    "is_correlated",
    "median",
]

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from limelight_reproduction.experiment import Numbers
from limelight_reproduction.one_layer.comments_gradient import TYPICAL

CORRELATED = 0.5  # minimum of the median Pearson and Spearman correlations over documents
NEGATIVE = 0.1  # minimum share of tokens with a negative gradient explanation
TRUE_SIGN = 2 / 3  # minimum share of tokens with the sign of leave-one-out
AFFINE = 0.9  # minimum R² of "approximately affine"
NEAR_ZERO = 0.05  # maximum of a coefficient, as a share of the document's largest coefficient

HOLDS, DOES_NOT_HOLD = "holds", "does not hold"


@final
@dataclass(frozen=True, kw_only=True)
class Claim:
    """A statement of the paper, with functions that decide it from the numbers of one model."""

    section: str
    statement: str
    statistics: tuple[str, ...]
    """The statistics whose medians over documents decide the verdict."""
    verdict: Callable[[Numbers], str]
    """Returns whether the statement holds, and under which condition."""
    evidence: Callable[[Numbers], str]
    """Returns the numbers behind the verdict, as words."""


def median(numbers: Numbers, key: str) -> float:
    """Return the median over documents of one statistic."""
    return float(numbers["spread"][key][1])


def describe_correlations(numbers: Numbers, pair: str) -> str:
    """Return Pearson's and Spearman's correlation of a pair of methods in words."""
    pearson, spearman = median(numbers, f"pearson {pair}"), median(numbers, f"spearman {pair}")
    return f"{pearson:+.2f} (ranks {spearman:+.2f})".replace("-", "−")


def is_correlated(numbers: Numbers, pair: str) -> bool:
    """Return whether Pearson's and Spearman's correlation of a pair are large and positive."""
    return min(median(numbers, f"{kind} {pair}") for kind in ("pearson", "spearman")) >= CORRELATED


def _correlation_keys(*pairs: str) -> tuple[str, ...]:
    """Return the names of Pearson's and Spearman's correlation of each pair of methods."""
    return tuple(f"{kind} {pair}" for pair in pairs for kind in ("pearson", "spearman"))


def _choose_verdict(*cases: tuple[bool, str]) -> str:
    """Return the verdict of the first case that holds. If no case holds, the claim fails."""
    return next((verdict for holds, verdict in cases if holds), DOES_NOT_HOLD)


CLAIMS = (
    Claim(
        section="4 (i)",
        statement="α-avg is correlated with G-l1",
        statistics=_correlation_keys("alpha-avg ~ g-l1"),
        verdict=lambda numbers: _choose_verdict(
            (is_correlated(numbers, "alpha-avg ~ g-l1"), HOLDS)
        ),
        evidence=lambda numbers: (
            f"correlation {describe_correlations(numbers, 'alpha-avg ~ g-l1')}"
        ),
    ),
    Claim(
        section="4 (i)",
        statement="α-avg is correlated with G-avg",
        statistics=_correlation_keys("alpha-avg ~ g-avg", "alpha-avg ~ |g-avg|"),
        verdict=lambda numbers: _choose_verdict(
            (is_correlated(numbers, "alpha-avg ~ g-avg"), HOLDS),
            (is_correlated(numbers, "alpha-avg ~ |g-avg|"), "holds if G-avg is read as |G-avg|"),
        ),
        evidence=lambda numbers: (
            f"correlation {describe_correlations(numbers, 'alpha-avg ~ g-avg')}, "
            f"with |G-avg| {describe_correlations(numbers, 'alpha-avg ~ |g-avg|')}"
        ),
    ),
    Claim(
        section="4 (i)",
        statement="the same does not hold for α-max and G-l2",
        statistics=_correlation_keys("alpha-max ~ g-l2"),
        verdict=lambda numbers: _choose_verdict(
            (not is_correlated(numbers, "alpha-max ~ g-l2"), HOLDS)
        ),
        evidence=lambda numbers: (
            f"correlation of α-max with G-l2 {describe_correlations(numbers, 'alpha-max ~ g-l2')}, "
            f"of α-avg with G-l2 {describe_correlations(numbers, 'alpha-avg ~ g-l2')}, of α-max "
            f"with G-l1 {describe_correlations(numbers, 'alpha-max ~ g-l1')}"
        ),
    ),
    Claim(
        section="4 (ii)",
        statement="positive attention can go with a negative gradient explanation",
        statistics=("negative gxi",),
        verdict=lambda numbers: _choose_verdict(
            (median(numbers, "negative gxi") >= NEGATIVE, HOLDS)
        ),
        evidence=lambda numbers: (
            f"G×I is negative at {median(numbers, 'negative gxi'):.1%} of the tokens, G-avg at "
            f"{median(numbers, 'negative g-avg'):.1%}"
        ),
    ),
    Claim(
        section="4 (ii)",
        statement="in one head, a typical value leaves only α_t W_vᵀW_ℓᵀ of the gradient",
        statistics=("typical",),
        # The paper itself requires a typical value, so the verdict needs no condition.
        verdict=lambda numbers: _choose_verdict((median(numbers, "typical") > 0, HOLDS)),
        evidence=lambda numbers: (
            f"the rest of Eq. 14 is at most {TYPICAL:.0%} of that term at "
            f"{median(numbers, 'typical'):.0%} of tokens and heads; the term's G-avg is negative "
            f"in {numbers['negative_heads']} of {numbers['heads']} heads"
        ),
    ),
    Claim(
        section="4 (ii)",
        statement="the sign of the gradient explanation reflects what the model does",
        statistics=("sign as leave-one-out g-avg", "sign as leave-one-out gxi"),
        verdict=lambda numbers: _choose_verdict(
            (median(numbers, "sign as leave-one-out g-avg") >= TRUE_SIGN, HOLDS),
            (
                median(numbers, "sign as leave-one-out gxi") >= TRUE_SIGN,
                "holds if the gradient is read as G×I",
            ),
        ),
        evidence=lambda numbers: (
            f"the sign is that of leave-one-out at "
            f"{median(numbers, 'sign as leave-one-out g-avg'):.0%} of the tokens for G-avg and at "
            f"{median(numbers, 'sign as leave-one-out gxi'):.0%} for G×I"
        ),
    ),
    Claim(
        section="5 (i)",
        statement="LIME is quite different from gradient explanations, but for the leading term",
        statistics=_correlation_keys("lime ~ gxi without alpha u"),
        # The paper itself excludes the leading term, so the verdict needs no condition.
        verdict=lambda numbers: _choose_verdict(
            (not is_correlated(numbers, "lime ~ gxi without alpha u"), HOLDS)
        ),
        evidence=lambda numbers: (
            "correlation of LIME with G×I, the best multiple of α_t u_t removed from both, "
            f"{describe_correlations(numbers, 'lime ~ gxi without alpha u')}; α_t u_t itself "
            f"subtracted from both, {describe_correlations(numbers, 'lime ~ gxi less alpha u')}; "
            f"nothing removed, {describe_correlations(numbers, 'lime ~ gxi')}, and with G-avg "
            f"{describe_correlations(numbers, 'lime ~ g-avg')}"
        ),
    ),
    Claim(
        section="5 (i)",
        statement="both have the leading term α_t W_ℓ v_t",
        statistics=_correlation_keys("lime ~ alpha u", "gxi ~ alpha u"),
        verdict=lambda numbers: _choose_verdict(
            (
                is_correlated(numbers, "lime ~ alpha u")
                and is_correlated(numbers, "gxi ~ alpha u"),
                HOLDS,
            )
        ),
        evidence=lambda numbers: (
            "correlation of that term with LIME "
            f"{describe_correlations(numbers, 'lime ~ alpha u')}, with G×I "
            f"{describe_correlations(numbers, 'gxi ~ alpha u')}"
        ),
    ),
    Claim(
        section="5 (ii)",
        statement="LIME is approximately an affine transformation of the α_t",
        statistics=("r2 from alpha", "r2 of moving alpha"),
        verdict=lambda numbers: _choose_verdict(
            (median(numbers, "r2 from alpha") >= AFFINE, HOLDS),
            (
                median(numbers, "r2 of moving alpha") >= AFFINE,
                "holds if every word has a slope of its own, set by its value",
            ),
        ),
        evidence=lambda numbers: (
            f"R² {median(numbers, 'r2 from alpha'):.2f} from the heads' α_t with the same "
            f"coefficients for all words, {median(numbers, 'r2 from alpha u'):.3f} from their α_t "
            f"u_t, {median(numbers, 'r2 of moving alpha'):.3f} when α_t of one word moves and u_t "
            "stays"
        ),
    ),
    Claim(
        section="5 (iii)",
        statement="if W_ℓ v_t = 0, the influence of α_t disappears whatever its value",
        statistics=("influence without value",),
        verdict=lambda numbers: _choose_verdict(
            (median(numbers, "influence without value") <= NEAR_ZERO, HOLDS)
        ),
        evidence=lambda numbers: (
            "where the value of the most attended word is set to 0 in every head, its coefficient "
            f"still moves by {median(numbers, 'influence without value'):.0%} of the largest one "
            f"as its α_t goes to 0; it is {median(numbers, 'no value'):.0%} of the largest (place "
            f"{median(numbers, 'rank of no value'):.0f} of {numbers['words']:.0f}), with its value "
            f"{median(numbers, 'untouched'):.0%}"
        ),
    ),
    Claim(
        section="5 (iv)",
        statement="LIME is near zero where α_t v_t ≈ α_{h,t} v_{h,t}",
        statistics=("lime near unknown", "value of unknown"),
        verdict=lambda numbers: _choose_verdict(
            (
                max(median(numbers, "lime near unknown"), median(numbers, "value of unknown"))
                <= NEAR_ZERO,
                HOLDS,
            ),
            (
                median(numbers, "lime near unknown") <= NEAR_ZERO,
                "holds if the word has little attention, too",
            ),
        ),
        evidence=lambda numbers: (
            f"the tenth of the words with the smallest gap has "
            f"{median(numbers, 'lime near unknown'):.1%} of the largest coefficient and "
            f"{median(numbers, 'attention near unknown'):.0%} of a word's usual attention; the "
            f"most attended word, its gap set to 0, keeps {median(numbers, 'value of unknown'):.0%}"
        ),
    ),
)
