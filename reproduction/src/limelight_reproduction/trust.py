"""The section "When attention may be trusted", a summary of all experiments."""

__all__ = ["DeepShares", "trust_section"]

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import final

from limelight_reproduction.experiment import Numbers
from limelight_reproduction.intervals import training_interval
from limelight_reproduction.questions.reliability import first_word_share
from limelight_reproduction.questions.reliability_measured import TRUSTED_LEAD
from limelight_reproduction.results import Results

Interval = Sequence[float]


@final
@dataclass(frozen=True, kw_only=True)
class DeepShares:
    """Shares of a pretrained six-layer model, each with its 95 % interval.

    They are measured outside the reproduction.
    """

    attention: Interval
    shapley: Interval


def trust_section(results: Results, deep: DeepShares | None = None) -> str:
    """Return three paragraphs about trust in attention, with a link for every number.

    ``results`` must contain every experiment.
    """
    paragraphs = [_trusted_uses(results), _untrusted_uses(results, deep), _alternatives(results)]
    return "\n\n".join(paragraphs) + "\n"


def _trusted_uses(results: Results) -> str:
    shipped, paper = (_numbers(results, "reliability", part) for part in ("shipped", "paper"))
    same = [
        _numbers(results, "attention-summaries", part)["pairs"]["alpha-avg alpha-max"][1]
        for part in ("shipped", "paper")
    ]
    correlations = [numbers["signs"]["words"] for numbers in (shipped, paper)]
    return (
        "**It may be trusted to say which words matter at all, in a model of one layer.** There "
        f"α-avg ranks the words of a review as the exact |Shapley values| do to "
        f"{_quartiles(shipped['rho'])} with the shipped model and {_quartiles(paper['rho'])} with "
        "the paper's recipe (median and quartiles of the rank correlation, "
        f"[reliability](#reliability)), whether the heads are averaged or the largest is taken "
        f"(they have {min(same):.2f} or more with each other, "
        "[attention-summaries](#attention-summaries)) and however long the text is (rank "
        f"correlation with the number of words {_signed_interval(correlations[0])} and "
        f"{_signed_interval(correlations[1])}). Its "
        f"first word is among the three strongest in {first_word_share(shipped, 'leads', 'all')} "
        f"and {first_word_share(paper, 'leads', 'all')} of the reviews, and where it gets "
        f"{TRUSTED_LEAD:.0f} times the attention of the next one, which is rare, in "
        f"{first_word_share(shipped, 'leads', 'good')} and "
        f"{first_word_share(paper, 'leads', 'good')}. Nothing else that we tried tells in which "
        "reviews it is better: how far attention can be relied on is a property of the model."
    )


def _untrusted_uses(results: Results, deep: DeepShares | None) -> str:
    shipped, paper = (_numbers(results, "reliability", part) for part in ("shipped", "paper"))
    erasure = _numbers(results, "erasure", "paper")["unk"]
    never = {name: f"{1 - share:.0%}" for name, share in erasure["flips"].items()}
    needs = {name: f"{share[1]:.1%}" for name, share in erasure["shares"].items()}
    controls = _numbers(results, "controls", "held")["kinds"]
    lost = training_interval(controls["uniform"]["lost"], controls["uniform"]["text_error"])
    ranks = [fmean(controls[kind]["alpha_lime"]) for kind in ("free", "uniform")]
    depth = {layers: _last_layer(results, layers) for layers in (1, 6)}
    pairs = _numbers(results, "pairs", "words")["faithful_by"]
    by_answer = {name: _share(shares["alpha-avg"]) for name, shares in pairs.items()}
    pretrained = (
        ""
        if deep is None
        else " Of a six-layer MiniLM no ceiling is known: on the way to the best order found it "
        f"goes {_share(deep.attention)}, and Shapley values {_share(deep.shapley)} "
        "([α-avg](methods/alpha-avg.md))."
    )
    return (
        "**It may not be trusted for the sign, for an order of removal, in deeper models, or as a "
        "cause.** Its first word speaks for the decision in "
        f"{first_word_share(shipped, 'sure', 'all')} and {first_word_share(paper, 'sure', 'all')} "
        "of the reviews, where a coin has 50%. On the way from a random order of removal to a "
        "proven ceiling, which no order exceeds and none need reach, attention goes "
        f"{_share(shipped['shares']['alpha-avg'])} with the shipped model, where Shapley values go "
        f"{_share(shipped['shares']['shapley'])}{_greedy(shipped)}. With the paper's recipe it "
        f"goes {_share(paper['shares']['alpha-avg'])}, and Shapley values "
        f"{_share(paper['shares']['shapley'])}{_greedy(paper)} ([reliability](#reliability))."
        f"{pretrained} However many words go by attention, the decision never changes in "
        f"{never['alpha-avg']} of the reviews, by G×I in {never['gxi']}; where it does, it takes "
        f"{needs['alpha-avg']} of the words, by G×I {needs['gxi']} ([erasure](#erasure)). With "
        f"depth its ranks go, too: the last layer's have {depth[1]} with |LIME| at one layer and "
        f"{depth[6]} at six ([next-checks](#next-checks)), and where two sentences are compared it "
        f"goes {by_answer['neutral']} of the way to the best of all orders if the model says "
        f"neutral, but {by_answer['contradiction']} for contradictions and "
        f"{by_answer['entailment']} for entailments ([pairs](#pairs)). And a model need not use "
        f"it: with attention held uniform {100 * lost[0]:.1f} [{100 * lost[1]:.1f}, "
        f"{100 * lost[2]:.1f}] points of accuracy are lost, and the ranks of α-avg with |LIME| "
        f"fall from {ranks[0]:.2f} to {ranks[1]:.2f} ([controls](#controls))."
    )


def _alternatives(results: Results) -> str:
    shipped, paper = (_numbers(results, "reliability", part) for part in ("shipped", "paper"))
    return (
        "**What to read instead.** The norm of what attention adds to the outputs, ‖W_ℓ αv‖, costs "
        "the same forward pass and ranks words as |Shapley values| do to "
        f"{shipped['norm_rho'][1]:.2f} and {paper['norm_rho'][1]:.2f}; with a sign and a bound, "
        "LIME and Shapley values themselves, which are exact on one layer; and on your own model, "
        "whatever `limelight.judge` finds."
    )


def _numbers(results: Results, experiment: str, part: str) -> Numbers:
    return results[experiment][part].numbers


def _greedy(numbers: Numbers) -> str:
    """Return the share of the greedy order in parentheses, or an empty text without one."""
    return f" (the greedy order {_share(numbers['greedy'])})" if "greedy" in numbers else ""


def _last_layer(results: Results, layers: int) -> str:
    """Return the range over trainings on IMDB of the median correlation with |LIME|.

    The correlation is that of the last layer's attention in networks of ``layers`` layers.
    """
    medians = [
        result.numbers["spearman"]["last_lime"][1]
        for name, result in results["next-checks"].items()
        if name == f"imdb-{layers}" or name.startswith(f"imdb-{layers}-again")
    ]
    return f"{min(medians):.2f} to {max(medians):.2f}"


def _quartiles(spread: Interval) -> str:
    return f"{spread[1]:.2f} [{spread[0]:.2f}, {spread[2]:.2f}]"


def _share(share: Interval) -> str:
    return f"{share[0]:.2f} [{share[1]:.2f}, {share[2]:.2f}]"


def _signed_interval(correlation: Numbers) -> str:
    low, high = correlation["interval"]
    return f"{correlation['rank']:+.2f} [{low:+.2f}, {high:+.2f}]"
