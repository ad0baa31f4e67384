"""The comments of sections 4 and 5, each measured: it holds, it holds if, or it does not hold."""

__all__ = ["EXPERIMENT"]

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from limelight import AttentionClassifier
from limelight_reproduction.document import strings
from limelight_reproduction.drawing import BLUE, GREY, INK, ORANGE, VERMILLION, canvas, plain
from limelight_reproduction.experiment import (
    Experiment,
    Findings,
    Numbers,
    Part,
    Table,
    Verdict,
    compact,
    on_both_models,
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
    both,
    correlated,
    median,
)
from limelight_reproduction.one_layer.collapsed_texts import collapsed_texts
from limelight_reproduction.one_layer.comments_gradient import gradient_statistics, negative_heads
from limelight_reproduction.one_layer.comments_lime import lime_statistics
from limelight_reproduction.one_layer.dilution import BANDWIDTH, diluting_game, dilution
from limelight_reproduction.one_layer.subjects import COLOURS, MODELS, SENTENCE
from limelight_reproduction.setting import Setting
from limelight_reproduction.spread import spread

DOCUMENTS = 500
_CHUNK = 20  # documents whose gradients are held at a time

_DRAWN = {
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
    """Return the spread over test reviews of every statistic that a claim needs."""
    texts = strings(setting.some_texts("imdb", "test", DOCUMENTS))
    found: list[dict[str, float | None]] = []
    words: list[int] = []
    for start in range(0, len(texts), _CHUNK):
        chunk = texts[start : start + _CHUNK]
        by_word = collapsed_texts(model, chunk)
        by_token = collapsed_texts(model, chunk, features="positions")
        pairs = zip(gradient_statistics(by_token), lime_statistics(by_word), strict=True)
        found += [of_tokens | of_words for of_tokens, of_words in pairs]
        words += map(len, by_word.features)
        setting.tick(start + len(chunk), len(texts))
    return compact(
        {
            "documents": len(texts),
            "words": float(np.median(words)),
            "heads": model.sizes["K"],
            "negative_heads": negative_heads(collapsed_texts(model, [SENTENCE])),
            "spread": spread(found),
        }
    )


def figures(numbers: Mapping[str, Numbers]) -> Iterator[tuple[str, str, Any]]:
    """Draw the correlations over documents, and the counterexample to comment (iii)."""
    yield (
        "comments-correlations",
        "Correlations between explanations: median and quartiles over test reviews. Right of the "
        f"dashed line ({CORRELATED:g}) we call two explanations correlated.",
        _correlations(numbers),
    )
    yield (
        "comments-counterexample",
        "One head, four words. The first has W_ℓ v = 0, the others speak for the class. Its LIME "
        "coefficient moves with its attention all the same.",
        _counterexample(numbers["counterexample"]),
    )


def _correlations(numbers: Mapping[str, Numbers]) -> Any:
    figure, grid = canvas(7.2, 3.6, columns=2)
    rows = np.arange(len(_DRAWN))
    for axes, kind in zip(grid, ("pearson", "spearman"), strict=True):
        for name, shift in zip(MODELS, (-0.14, 0.14), strict=True):
            spreads = [numbers[name]["spread"][f"{kind} {pair}"] for pair in _DRAWN]
            low, middle, high = np.transpose(spreads)
            axes.hlines(rows + shift, low, high, color=COLOURS[name], linewidth=2.2, alpha=0.55)
            mark = "o" if name == "shipped" else "D"
            axes.plot(
                middle, rows + shift, mark, color=COLOURS[name], markersize=4.5, label=MODELS[name]
            )
        axes.axvline(CORRELATED, color=GREY, linestyle="--", linewidth=0.9)
        axes.axvline(0, color=GREY, linewidth=0.7)
        axes.set(xlim=(-1, 1.06), ylim=(len(_DRAWN) - 0.5, -0.5))
        axes.set_yticks(rows, list(_DRAWN.values()))
        plain(axes, title=f"{kind.capitalize()}'s correlation")
        axes.label_outer()
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=8, frameon=False, loc="outside lower center", ncols=2)
    return figure


def _counterexample(n: Numbers) -> Any:
    figure, axes = canvas(5.2, 3.2)
    axes.axhline(0, color=GREY, linewidth=0.7)
    axes.plot(n["alpha"], n["other_words"], color=GREY, linewidth=1.4, label="the other words")
    axes.plot(n["alpha"], n["printed"], color=VERMILLION, linewidth=2, label="Eq. 19 as printed")
    axes.plot(
        n["alpha"],
        n["first_order"],
        "--",
        color=ORANGE,
        linewidth=1.8,
        label="first order, centered",
    )
    axes.plot(
        n["alpha"], n["all_subsets"], "o-", color=BLUE, markersize=3.5, label="LIME, all subsets"
    )
    plain(axes, x="attention α to the word with W_ℓ v = 0", y="its LIME coefficient")
    axes.legend(fontsize=8, frameon=False, labelcolor=INK, loc="lower left")
    return figure


def findings(numbers: Mapping[str, Numbers]) -> Findings:
    """Give the verdict on every claim for both models."""
    verdicts = [(claim, _verdicts(claim, numbers)) for claim in CLAIMS]
    fully = [claim for claim, found in verdicts if set(found) == {HOLDS}]
    failed = [claim for claim, found in verdicts if DOES_NOT_HOLD in found]
    between = len(CLAIMS) - len(fully) - len(failed)
    return Findings(
        headline=(
            f"Of {len(CLAIMS)} claims in words {len(fully)} hold, {between} hold under a condition "
            f"that is not in their words, {len(failed)} do not."
        ),
        verdicts=[
            Verdict(
                claim="The comments on Theorems 4.1 and 5.1, in words",
                holds=f"{len(fully)} hold, {between} under a condition, {len(failed)} do not",
                number=f"not: {_listed(failed)}" if failed else f"all {len(CLAIMS)} on both models",
                parts=tuple(MODELS),
            )
        ],
        measured=[
            f"Of {len(CLAIMS)} statements, measured on {numbers['shipped']['inputs']} test "
            f"reviews with the shipped model and {numbers['paper']['inputs']} with the paper's "
            f"recipe, {len(fully)} hold on both models, {between} hold under a condition, and "
            f"{len(failed)} do not hold on at least one.",
            "The rule of the verdicts: a statement holds if it does as it is worded, with the "
            "conditions that the paper states, on both models; under a condition, if it does so "
            "once something is added that is not in its words, which the verdict names; else it "
            "does not. Statements are shortened, so they stand without quotation marks.",
            *(_sentence(claim, found, numbers) for claim, found in verdicts),
            "The verdict on the first statement of 5 (i) depends on what is taken off as the "
            "leading term, which the paper calls proportional to α_t W_ℓ v_t. We take off the "
            "multiple that fits best. With α_t W_ℓ v_t itself, the correlation is "
            f"{both(numbers['shipped'], 'lime ~ gxi less alpha u')} with the shipped model and "
            f"{both(numbers['paper'], 'lime ~ gxi less alpha u')} with the paper's recipe."
            + _rank_rule(numbers["paper"]),
            "No threshold is needed for what 4 (i) says of G-l2: in one head the gradient at a "
            "token is α_t times a vector, so G-l2 is α_t times its Euclidean length exactly as "
            "G-l1 is α_t times its sum of absolute values. What carries one over carries over the "
            "other; and G-avg is α_t times a mean that may have either sign.",
            _of_counterexample(numbers["counterexample"]),
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
        meaning=_meaning(fully, failed, numbers),
        table=_table(numbers),
    )


def _rank_rule(of: Numbers) -> str:
    """Say that ranks alone decide the verdict on 5 (i), if Pearson's correlation is large."""
    pearson, ranks = (
        median(of, f"{kind} lime ~ gxi without alpha u") for kind in ("pearson", "spearman")
    )
    if not ranks < CORRELATED <= pearson:
        return ""
    return (
        f" With the paper's recipe Pearson's correlation is {pearson:.2f}. The verdict rests on "
        f"the rank correlation, {ranks:.2f}."
    )


def _listed(claims: Sequence[Claim]) -> str:
    return "; ".join(f"{claim.where}, {claim.says}" for claim in claims)


def _verdicts(claim: Claim, numbers: Mapping[str, Numbers]) -> list[str]:
    return [claim.verdict(numbers[name]) for name in MODELS]


def _sentence(claim: Claim, found: list[str], numbers: Mapping[str, Numbers]) -> str:
    said = " ".join(
        f"{MODELS[name].capitalize()}: {verdict}; {claim.shown(numbers[name])}."
        for name, verdict in zip(MODELS, found, strict=True)
    )
    return f"Section {claim.where}: {claim.says}. {said}"


def _of_counterexample(n: Numbers) -> str:
    at = n["alpha"].index(0.5)
    game = diluting_game(n["alpha"][at])
    g = game.a[0, 0]
    removed, added = game.D0[0] + game.a[0, 1:].sum() + game.b[0, 0], g - game.b[0, 0]
    return (
        "A counterexample to 5 (iii) and to 5 (iv), with all its numbers. One head, no padding, "
        f"[cls] with g = {game.D0[0]:g} and u = 0, and {game.d} different words. The first word "
        f"has g = {g:g} and u = 0, so α = {n['alpha'][at]:g}. The other words have g = 1 and "
        "u = 1, and UNK has g = 1 and u = 0 at every position. So f(Z) = (Z_2 + Z_3 + Z_4)/"
        f"({removed:g} + {added:g} Z_1), and for the first word α_t u_t = α_{{h,t}} u_{{h,t}} = 0. "
        f"LIME has the bandwidth {BANDWIDTH:g}, an intercept and no penalty. It removes s words, s "
        f"uniform on 1 to {game.d}, all sets of s words alike, and weighs a set by exp(−"
        f"{1 / (2 * BANDWIDTH**2):g} (1 − √(1 − s/{game.d}))²). Over all subsets the coefficient "
        f"of the first word is {n['all_subsets'][at]:+.3f} beside {n['other_words'][at]:+.3f} of "
        f"every other word, and falls to {n['all_subsets'][-1]:+.3f} at α = {n['alpha'][-1]:g} (g "
        f"= {diluting_game(n['alpha'][-1]).a[0, 0]:g}); Eq. 19 as printed gives "
        f"{n['printed'][at]:g}. Enumeration and the exact formula differ by at most "
        f"{n['error']:.0e}."
    )


def _meaning(fully: list[Claim], failed: list[Claim], numbers: Mapping[str, Numbers]) -> str:
    models = [numbers[name] for name in MODELS]
    toy = numbers["counterexample"]
    said = {
        "Attention and the size of the gradient go together, since each gradient is α_t times "
        "something; so do the summaries that the paper sets apart, α-max and G-l2.": all(
            correlated(n, pair) for n in models for pair in ("alpha-avg ~ g-l1", "alpha-max ~ g-l2")
        ),
        "The sign of G-avg, a mean over arbitrary axes of the embedding, says little.": all(
            median(n, "sign as leave-one-out g-avg") < TRUE_SIGN for n in models
        ),
        "G×I and LIME largely agree: both are led by α_t u_t.": all(
            correlated(n, pair) for n in models for pair in ("lime ~ gxi", "lime ~ alpha u")
        ),
        "A word without a value of its own still takes attention from the others and so dilutes "
        "them; LIME sees that, and so does the centered first order, but not Eq. 19.": bool(
            np.ptp(toy["all_subsets"]) > NEAR_ZERO > np.ptp(toy["printed"])
        ),
    }
    counted = (
        f"As worded, {len(fully)} of the {len(CLAIMS)} statements hold on both models, and "
        f"{len(failed)} fail on at least one. Other thresholds than ours would move those near "
        "them, and the authors may read their own words differently."
    )
    return " ".join([*(sentence for sentence, holds in said.items() if holds), counted])


def _table(numbers: Mapping[str, Numbers]) -> Table:
    columns = ["section", "the paper says"]
    for said in MODELS.values():
        columns += [said, f"measured, {said}"]
    rows = [
        [
            claim.where,
            claim.says,
            *(
                cell
                for name in MODELS
                for cell in (claim.verdict(numbers[name]), claim.shown(numbers[name]))
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
        *on_both_models(measure, version=3),
        Part(name="counterexample", measure=lambda _setting: dilution(), reads=(), version=2),
    ),
    figures=figures,
    findings=findings,
)
