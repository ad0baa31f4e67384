"""Measure the comments of sections 4 and 5: do they hold, and under which condition?"""

__all__ = ["EXPERIMENT", "measure"]

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from limelight import AttentionClassifier
from limelight_reproduction.document import list_texts
from limelight_reproduction.drawing import BLUE, GREY, INK, ORANGE, VERMILLION, canvas, style_axes
from limelight_reproduction.experiment import (
    Experiment,
    Findings,
    Numbers,
    Part,
    Table,
    Verdict,
    parts_for_both_models,
    round_for_json,
)
from limelight_reproduction.one_layer.claims import (
    AFFINE,
    CLAIMS,
    CORRELATED,
    DOES_NOT_HOLD,
    HOLDS,
    NEAR_ZERO,
    NEGATIVE,
    TRUE_SIGN,
    Claim,
    describe_correlations,
    is_correlated,
    median,
)
from limelight_reproduction.one_layer.collapsed_texts import collapse_texts
from limelight_reproduction.one_layer.comments_gradient import (
    count_negative_heads,
    gradient_statistics,
)
from limelight_reproduction.one_layer.comments_lime import lime_statistics
from limelight_reproduction.one_layer.dilution import BANDWIDTH, dilution_game, measure_dilution
from limelight_reproduction.one_layer.subjects import COLORS, MODELS, SENTENCE
from limelight_reproduction.setting import Setting
from limelight_reproduction.spread import summarize_spread

DOCUMENTS = 500
_CHUNK = 20  # number of documents with gradients in memory

_PAIR_LABELS = {
    "alpha-avg ~ g-avg": "α-avg and G-avg",
    "alpha-avg ~ |g-avg|": "α-avg and |G-avg|",
    "alpha-avg ~ g-l1": "α-avg and G-l1",
    "alpha-max ~ g-l2": "α-max and G-l2",
    "lime ~ g-avg": "LIME and G-avg",
    "lime ~ gxi": "LIME and G×I",
    "lime ~ alpha u": "LIME and α u",
    "gxi ~ alpha u": "G×I and α u",
}


def measure(setting: Setting, model: AttentionClassifier) -> Numbers:
    """Measure the spread over test reviews of every statistic that a claim needs."""
    texts = list_texts(setting.sample_texts("imdb", "test", DOCUMENTS))
    statistics: list[dict[str, float | None]] = []
    word_counts: list[int] = []
    for start in range(0, len(texts), _CHUNK):
        chunk = texts[start : start + _CHUNK]
        word_texts = collapse_texts(model, chunk)
        token_texts = collapse_texts(model, chunk, features="positions")
        pairs = zip(gradient_statistics(token_texts), lime_statistics(word_texts), strict=True)
        statistics += [
            token_statistics | word_statistics for token_statistics, word_statistics in pairs
        ]
        word_counts += map(len, word_texts.features)
        setting.tick(start + len(chunk), len(texts))
    return round_for_json(
        {
            "documents": len(texts),
            "words": float(np.median(word_counts)),
            "heads": model.sizes["K"],
            "negative_heads": count_negative_heads(collapse_texts(model, [SENTENCE])),
            "spread": summarize_spread(statistics),
        }
    )


def figures(numbers: Mapping[str, Numbers]) -> Iterator[tuple[str, str, Any]]:
    """Draw the correlations over documents, and the counterexample to comment 5 (iii)."""
    yield (
        "comments-correlations",
        "Correlations between explanations: median and quartiles over test reviews. Right of the "
        f"dashed line ({CORRELATED:g}) we call two explanations correlated.",
        _draw_correlations(numbers),
    )
    yield (
        "comments-counterexample",
        "One head, four words. The first has W_ℓ v = 0, the others speak for the class. Its LIME "
        "coefficient moves with its attention all the same.",
        _draw_counterexample(numbers["counterexample"]),
    )


def _draw_correlations(numbers: Mapping[str, Numbers]) -> Any:
    figure, grid = canvas(7.2, 3.6, columns=2)
    heights = np.arange(len(_PAIR_LABELS))
    for axes, kind in zip(grid, ("pearson", "spearman"), strict=True):
        for name, shift in zip(MODELS, (-0.14, 0.14), strict=True):
            quartiles = [numbers[name]["spread"][f"{kind} {pair}"] for pair in _PAIR_LABELS]
            low, middle, high = np.transpose(quartiles)
            axes.hlines(heights + shift, low, high, color=COLORS[name], linewidth=2.2, alpha=0.55)
            marker = "o" if name == "shipped" else "D"
            axes.plot(
                middle,
                heights + shift,
                marker,
                color=COLORS[name],
                markersize=4.5,
                label=MODELS[name],
            )
        axes.axvline(CORRELATED, color=GREY, linestyle="--", linewidth=0.9)
        axes.axvline(0, color=GREY, linewidth=0.7)
        axes.set(xlim=(-1, 1.06), ylim=(len(_PAIR_LABELS) - 0.5, -0.5))
        axes.set_yticks(heights, list(_PAIR_LABELS.values()))
        style_axes(axes, title=f"{kind.capitalize()}'s correlation")
        axes.label_outer()
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=8, frameon=False, loc="outside lower center", ncols=2)
    return figure


def _draw_counterexample(numbers: Numbers) -> Any:
    figure, axes = canvas(5.2, 3.2)
    axes.axhline(0, color=GREY, linewidth=0.7)
    axes.plot(
        numbers["alpha"], numbers["other_words"], color=GREY, linewidth=1.4, label="the other words"
    )
    axes.plot(
        numbers["alpha"],
        numbers["printed"],
        color=VERMILLION,
        linewidth=2,
        label="Eq. 19 as printed",
    )
    axes.plot(
        numbers["alpha"],
        numbers["first_order"],
        "--",
        color=ORANGE,
        linewidth=1.8,
        label="first order, centered",
    )
    axes.plot(
        numbers["alpha"],
        numbers["all_subsets"],
        "o-",
        color=BLUE,
        markersize=3.5,
        label="LIME, all subsets",
    )
    style_axes(axes, x="attention α to the word with W_ℓ v = 0", y="its LIME coefficient")
    axes.legend(fontsize=8, frameon=False, labelcolor=INK, loc="lower left")
    return figure


def findings(numbers: Mapping[str, Numbers]) -> Findings:
    """Summarize the verdicts on every claim for both models."""
    verdicts = [(claim, _verdicts_by_model(claim, numbers)) for claim in CLAIMS]
    confirmed = [claim for claim, model_verdicts in verdicts if set(model_verdicts) == {HOLDS}]
    refuted = [claim for claim, model_verdicts in verdicts if DOES_NOT_HOLD in model_verdicts]
    conditional_count = len(CLAIMS) - len(confirmed) - len(refuted)
    return Findings(
        headline=(
            f"Of {len(CLAIMS)} claims in words {len(confirmed)} hold, {conditional_count} hold "
            f"under a condition that is not in their words, {len(refuted)} do not."
        ),
        verdicts=[
            Verdict(
                claim="The comments on Theorems 4.1 and 5.1, in words",
                holds=f"{len(confirmed)} hold, {conditional_count} under a condition, "
                f"{len(refuted)} do not",
                number=f"not: {_join_claims(refuted)}"
                if refuted
                else f"all {len(CLAIMS)} on both models",
                parts=tuple(MODELS),
            )
        ],
        measured=[
            f"Of {len(CLAIMS)} statements, measured on {numbers['shipped']['documents']} test "
            f"reviews with the shipped model and {numbers['paper']['documents']} with the paper's "
            f"recipe, {len(confirmed)} hold on both models, {conditional_count} hold under a "
            f"condition, and {len(refuted)} do not hold on at least one.",
            "The rule of the verdicts: a statement holds if it does as it is worded, with the "
            "conditions that the paper states, on both models; under a condition, if it does so "
            "once something is added that is not in its words, which the verdict names; else it "
            "does not. Statements are shortened, so they stand without quotation marks.",
            *(
                _describe_verdicts(claim, model_verdicts, numbers)
                for claim, model_verdicts in verdicts
            ),
            "The verdict on the first statement of 5 (i) depends on what is taken off as the "
            "leading term, which the paper calls proportional to α_t W_ℓ v_t. We take off the "
            "multiple that fits best. With α_t W_ℓ v_t itself, the correlation is "
            f"{describe_correlations(numbers['shipped'], 'lime ~ gxi less alpha u')} with the "
            "shipped model and "
            f"{describe_correlations(numbers['paper'], 'lime ~ gxi less alpha u')} with the "
            "paper's recipe." + _describe_rank_rule(numbers["paper"]),
            "No threshold is needed for what 4 (i) says of G-l2: in one head the gradient at a "
            "token is α_t times a vector, so G-l2 is α_t times its Euclidean length exactly as "
            "G-l1 is α_t times its sum of absolute values. What carries one over carries over the "
            "other; and G-avg is α_t times a mean that may have either sign.",
            _describe_counterexample(numbers["counterexample"]),
            "Four words are few for a theorem on long texts, so here is one for 5 (iii) of any "
            "size and any bandwidth: every position has g = 1 and u = 1, UNK too, but for one word "
            "with u = 0 and any g. Whatever else is removed, f is 1 − α_t with that word and 1 "
            "without it, so its LIME coefficient is −α_t; Eq. 19 as printed gives −(3/2) α_{h,t} "
            "whatever α_t.",
            "What the words mean here, fixed for both models: correlated, a median over reviews of "
            f"at least {CORRELATED:g} for Pearson's and Spearman's correlation; can happen, at "
            f"{NEGATIVE:.0%} of the tokens or more; the right sign, that of leave-one-out at two "
            f"thirds of the tokens ({TRUE_SIGN:.2f}); affine, an adjusted R² of at least "
            f"{AFFINE:g}; near zero, at most {NEAR_ZERO:.0%} of the largest coefficient of the "
            "review.",
        ],
        meaning=_meaning(confirmed, refuted, numbers),
        table=_table(numbers),
    )


def _describe_rank_rule(numbers: Numbers) -> str:
    """Explain that ranks alone decide the verdict on 5 (i), if Pearson's correlation is large."""
    pearson, ranks = (
        median(numbers, f"{kind} lime ~ gxi without alpha u") for kind in ("pearson", "spearman")
    )
    if not ranks < CORRELATED <= pearson:
        return ""
    return (
        f" With the paper's recipe Pearson's correlation is {pearson:.2f}. The verdict rests on "
        f"the rank correlation, {ranks:.2f}."
    )


def _join_claims(claims: Sequence[Claim]) -> str:
    return "; ".join(f"{claim.section}, {claim.statement}" for claim in claims)


def _verdicts_by_model(claim: Claim, numbers: Mapping[str, Numbers]) -> list[str]:
    return [claim.verdict(numbers[name]) for name in MODELS]


def _describe_verdicts(claim: Claim, verdicts: list[str], numbers: Mapping[str, Numbers]) -> str:
    sentences = " ".join(
        f"{MODELS[name].capitalize()}: {verdict}; {claim.evidence(numbers[name])}."
        for name, verdict in zip(MODELS, verdicts, strict=True)
    )
    return f"Section {claim.section}: {claim.statement}. {sentences}"


def _describe_counterexample(numbers: Numbers) -> str:
    i = numbers["alpha"].index(0.5)
    game = dilution_game(numbers["alpha"][i])
    g = game.a[0, 0]
    constant, slope = game.D0[0] + game.a[0, 1:].sum() + game.b[0, 0], g - game.b[0, 0]
    return (
        "A counterexample to 5 (iii) and to 5 (iv), with all its numbers. One head, no padding, "
        f"[cls] with g = {game.D0[0]:g} and u = 0, and {game.d} different words. The first word "
        f"has g = {g:g} and u = 0, so α = {numbers['alpha'][i]:g}. The other words have g = 1 and "
        "u = 1, and UNK has g = 1 and u = 0 at every position. So f(Z) = (Z_2 + Z_3 + Z_4)/"
        f"({constant:g} + {slope:g} Z_1), and for the first word α_t u_t = α_{{h,t}} u_{{h,t}} = "
        f"0. LIME has the bandwidth {BANDWIDTH:g}, an intercept and no penalty. It removes s "
        f"words, s uniform on 1 to {game.d}, all sets of s words alike, and weighs a set by exp(−"
        f"{1 / (2 * BANDWIDTH**2):g} (1 − √(1 − s/{game.d}))²). Over all subsets the coefficient "
        f"of the first word is {numbers['all_subsets'][i]:+.3f} beside "
        f"{numbers['other_words'][i]:+.3f} of every other word, and falls to "
        f"{numbers['all_subsets'][-1]:+.3f} at α = {numbers['alpha'][-1]:g} (g = "
        f"{dilution_game(numbers['alpha'][-1]).a[0, 0]:g}); Eq. 19 as printed gives "
        f"{numbers['printed'][i]:g}. Enumeration and the exact formula differ by at most "
        f"{numbers['error']:.0e}."
    )


def _meaning(confirmed: list[Claim], refuted: list[Claim], numbers: Mapping[str, Numbers]) -> str:
    models = [numbers[name] for name in MODELS]
    counterexample = numbers["counterexample"]
    conclusions = {
        "Attention and the size of the gradient go together, since each gradient is α_t times "
        "something; so do the summaries that the paper sets apart, α-max and G-l2.": all(
            is_correlated(model_numbers, pair)
            for model_numbers in models
            for pair in ("alpha-avg ~ g-l1", "alpha-max ~ g-l2")
        ),
        "The sign of G-avg, a mean over arbitrary axes of the embedding, says little.": all(
            median(model_numbers, "sign as leave-one-out g-avg") < TRUE_SIGN
            for model_numbers in models
        ),
        "G×I and LIME largely agree: both are led by α_t u_t.": all(
            is_correlated(model_numbers, pair)
            for model_numbers in models
            for pair in ("lime ~ gxi", "lime ~ alpha u")
        ),
        "A word without a value of its own still takes attention from the others and so dilutes "
        "them; LIME sees that, and so does the centered first order, but not Eq. 19.": bool(
            np.ptp(counterexample["all_subsets"]) > NEAR_ZERO > np.ptp(counterexample["printed"])
        ),
    }
    summary = (
        f"As worded, {len(confirmed)} of the {len(CLAIMS)} statements hold on both models, and "
        f"{len(refuted)} fail on at least one. Other thresholds than ours would move those near "
        "them, and the authors may read their own words differently."
    )
    return " ".join([*(sentence for sentence, holds in conclusions.items() if holds), summary])


def _table(numbers: Mapping[str, Numbers]) -> Table:
    columns = ["section", "the paper says"]
    for label in MODELS.values():
        columns += [label, f"measured, {label}"]
    rows = [
        [
            claim.section,
            claim.statement,
            *(
                cell
                for name in MODELS
                for cell in (claim.verdict(numbers[name]), claim.evidence(numbers[name]))
            ),
        ]
        for claim in CLAIMS
    ]
    return Table(columns=columns, rows=rows)


EXPERIMENT = Experiment(
    name="comments",
    title="Sections 4 and 5: the comments on the theorems",
    paper=(
        "Comments (i) and (ii) on Theorem 4.1 and (i) to (iv) on Theorem 5.1: how attention, "
        "gradients and LIME are related, in words."
    ),
    parts=(
        *parts_for_both_models(measure, version=3),
        Part(
            name="counterexample", measure=lambda _setting: measure_dilution(), reads=(), version=2
        ),
    ),
    figures=figures,
    findings=findings,
)
