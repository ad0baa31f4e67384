"""Text of the report about sentence pairs, built from its numbers."""

__all__ = ["MEANING", "describe_results", "format_mean", "format_share"]

from collections.abc import Mapping, Sequence

from limelight_reproduction.experiment import Numbers
from limelight_reproduction.questions.one_sentence import SENTENCE_CHOICES
from limelight_reproduction.questions.pair_rows import METHODS
from limelight_reproduction.setting import CLASSES


def format_mean(interval: Sequence[float] | None) -> str:
    """Format a mean with its interval, or "unknown"."""
    if interval is None:
        return "unknown"
    # Rounding first and adding zero removes the sign of a rounded zero.
    middle, *ends = (f"{round(bound, 2) + 0.0:.2f}" for bound in interval)
    return middle + (f" [{', '.join(ends)}]" if ends else "")


def format_share(interval: Sequence[float] | None) -> str:
    """Format a share in percent with its interval, or "unknown"."""
    if interval is None:
        return "unknown"
    middle, *ends = interval
    return f"{middle:.0%}" + (f" [{100 * ends[0]:.0f}, {100 * ends[1]:.0f}]" if ends else "")


def _list_means(intervals: Mapping[str, Sequence[float] | None]) -> str:
    """List the mean of every method, without intervals."""
    interval_by_label = {label: intervals[name] for name, label in METHODS.items()}
    return ", ".join(
        f"{label} {interval[0]:.2f}"
        for label, interval in interval_by_label.items()
        if interval is not None
    )


def describe_results(
    numbers: Mapping[str, Numbers], verdicts: int, changed: Sequence[str]
) -> list[str]:
    """Describe the results, with one or two sentences for each question.

    ``verdicts`` is the number of verdicts about words, ``changed`` those that deletion changes.
    """
    words, hidden, trained = (numbers[part] for part in ("words", "hidden", "one-layer"))
    return [
        _describe_pairs(words, hidden),
        _describe_orders(words),
        _describe_agreement(words),
        _describe_positions(words),
        _describe_flips(words),
        _describe_variance(words),
        _describe_word_attention(words),
        *_describe_negation(words),
        _describe_deletion(numbers["deleted"], verdicts, changed),
        _describe_hidden_sentences(hidden),
        _describe_one_layer(trained, hidden),
    ]


def _describe_pairs(words: Numbers, hidden: Numbers) -> str:
    """Describe the model, the pairs and the measurements."""
    least, mean, most = words["words"]
    classes = ", ".join(f"{count} {name}" for name, count in words["classes"].items())
    return (
        f"MiniLM fine-tuned on SICK ({hidden['right']['whole']:.1%} of {hidden['pairs']:,} test "
        f"pairs right), {words['pairs']} test pairs of at most {most} words, "
        f"{words['share_of_test']:.0%} of those drawn ({least} to {most} words, {mean:.1f} on "
        f"average; a word on both sides is two). The model was asked about every set of words "
        "that can be replaced by [MASK], so that LIME, Shapley values, interactions, random and "
        f"best orders are exact. Explained is the output of the class it gives ({classes}). All "
        "intervals are 95 % bootstrap intervals over pairs; of the seven rules that make verdicts "
        "of them five were written before a test pair was measured and two (Thorne et al., "
        "attention as association) after five had been; what deletion does and where the words "
        "of one sentence only stand was asked later."
    )


def _describe_orders(words: Numbers) -> str:
    """Describe how close the order of each method is to the best order."""
    by_class = ", ".join(
        f"{name} {format_mean(method_means['alpha-avg'])}"
        for name, method_means in words["faithful_by"].items()
        if method_means["alpha-avg"] is not None
    )
    return (
        "Way from a random order (0) to the best of all orders (1): "
        + _list_means(words["faithful"])
        + f". α-avg by the model's answer: {by_class}. LIME comes "
        f"{format_mean(words['lime_over_attention'])} further than α-avg."
    )


def _describe_agreement(words: Numbers) -> str:
    """Describe the agreement of the methods with Shapley values."""
    return (
        "Rank correlation of sizes with |Shapley values|: "
        + _list_means(words["rank"])
        + f". Of the three strongest words α-avg shares {format_share(words['top']['alpha-avg'])} "
        f"with them, LIME {format_share(words['top']['lime'])}, chance "
        f"{format_share(words['top_chance'][:1])}."
    )


def _describe_positions(words: Numbers) -> str:
    """Describe the scores of the second sentence, of unshared words and of special tokens."""
    first, last = words["special"][0], words["special"][-1]
    return (
        f"{format_share(words['second_words'][:1])} of the words stand in the second sentence; of "
        f"the sizes of scores {_list_means(words['second'])}. {_describe_unshared_words(words)} "
        f"Special tokens take {format_share(first)} of the attention of [CLS] in the first layer, "
        f"{format_share(max(words['special']))} where it is most, and {format_share(last)} in the "
        "last."
    )


def _describe_unshared_words(words: Numbers) -> str:
    """Describe the scores of words that occur in one sentence only."""
    descriptions = [
        f"{name} {class_numbers['words'][0]:.0%} of the words, {class_numbers['alpha-avg'][0]:.0%} "
        f"of α-avg, {class_numbers['shapley'][0]:.0%} of Shapley values"
        for name, class_numbers in words["unshared"].items()
        if name != "all" and class_numbers["words"] is not None
    ]
    return f"On words that only one sentence has lie: {'; '.join(descriptions)}."


def _describe_flips(words: Numbers) -> str:
    """Describe how many words must be removed to change the decision."""
    descriptions = []
    for name in ("all", *CLASSES["sick"]):
        first = words["flips"][name]["first"]
        if first["best"] is not None:
            descriptions.append(
                f"{'all pairs' if name == 'all' else name} {first['best'][0]:.0%} (random word "
                f"{first['random'][0]:.0%}, first of α-avg {first['alpha-avg'][0]:.0%}, of LIME "
                f"{first['lime'][0]:.0%}, of leave-one-out {first['loo'][0]:.0%})"
            )
    needed = words["flips"]["all"]["needed"]
    return (
        "Pairs whose decision changes when the right single word goes: "
        + "; ".join(descriptions)
        + f". Until it changes, {needed['best'][0]:.0%} of the words must go at least, "
        f"{needed['alpha-avg'][0]:.0%} in the order of α-avg, {needed['lime'][0]:.0%} in LIME's, "
        f"{needed['random'][0]:.0%} in a random one."
    )


def _describe_variance(words: Numbers) -> str:
    """Describe the causes of the variance of the output."""
    descriptions = [
        f"{'all pairs' if name == 'all' else name} {format_share(parts['across'])}"
        for name, parts in words["variation"].items()
        if parts["across"] is not None
    ]
    variation = words["variation"]["all"]
    return (
        "Every word removed with probability ½, the share of the answer's variance that words of "
        "both sentences make together: "
        + "; ".join(descriptions)
        + f". Single words of the first sentence make {format_share(variation['first'])}, of the "
        f"second {format_share(variation['second'])}, words within one sentence together "
        f"{format_share(variation['within'])}; interactions of exactly two words across make "
        f"{format_share(variation['across_two'])}. LIME's linear model explains "
        f"{format_share(words['linear'])} under its own weights."
    )


def _describe_word_attention(words: Numbers) -> str:
    """Describe interactions of words, and the attention between words."""
    size, layers = words["size"], words["pays_by_layer"]
    best = max(range(len(layers)), key=lambda layer: layers[layer][0])
    return (
        f"The mean size of an interaction of two words is {size['across'][0]:.2f} across the "
        f"sentences, {size['within'][0]:.2f} within one and {format_mean(size['same'])} between "
        f"the two places of the same word; the strongest of a pair lies across in "
        f"{format_share(words['strongest_across'])} (of all pairs of words "
        f"{format_share(words['pairs_across'][:1])} do). Attention between two words, either way, "
        f"over all layers and heads, has rank correlation {format_mean(words['pays'])} with it, "
        f"{format_mean(words['pays_other'])} without words that are the same; the best layer is "
        f"number {best + 1}, with {format_mean(layers[best])}."
    )


def _describe_negation(words: Numbers) -> list[str]:
    """Describe how often each method finds the negation of a contradiction."""
    negation = words["negation"]
    if not negation["first"]:
        return []
    return [
        f"{negation['pairs']} of the {negation['contradictions']} pairs called contradictions have "
        f"a negation; without it the decision changes in {format_share(negation['decides'])}, "
        f"without one other word in {format_share(negation['others_decide'])}. It is the first "
        f"word of each method in these shares (chance {negation['chance'][0]:.2f}): "
        f"{_list_means(negation['first'])}."
    ]


def _describe_deletion(numbers: Numbers, verdicts: int, changed: Sequence[str]) -> str:
    """Describe the results with deleted words."""
    description = (
        f"The same {numbers['pairs']} pairs with words deleted and not masked: the way to the best "
        f"order is {format_share(numbers['faithful']['alpha-avg'])} for α-avg, "
        f"{format_share(numbers['faithful']['lime'])} for LIME and "
        f"{format_share(numbers['faithful']['shapley'])} for Shapley values, "
        f"{format_share(numbers['variation']['all']['across'])} of the variance lies between the "
        "sentences, and attention between words has rank correlation "
        f"{format_mean(numbers['pays'])} with their interaction. "
    )
    if not changed:
        return description + f"All {verdicts} verdicts about words are the same."
    return description + (
        f"{verdicts - len(changed)} of {verdicts} verdicts about words are the same; another is "
        f"{'; '.join(changed)}."
    )


def _describe_hidden_sentences(numbers: Numbers) -> str:
    """Describe the decisions with a hidden or exchanged sentence."""
    contradictions = numbers["becomes"]["exchanged"][0]
    stay = contradictions[0] / max(sum(contradictions), 1)
    return (
        f"With the second sentence masked MiniLM gets {numbers['right']['first']:.1%} right, with "
        f"the first masked {numbers['right']['second']:.1%} (always “neutral”: "
        f"{numbers['frequent']:.1%}), and decides as before in {numbers['stays']['first']:.0%} and "
        f"{numbers['stays']['second']:.0%}. With the second sentence of another pair "
        f"{numbers['stays']['exchanged']:.0%} of its decisions stay; of {sum(contradictions):,} "
        f"contradictions {stay:.0%} remain contradictions."
    )


def _describe_one_layer(numbers: Numbers, hidden: Numbers) -> str:
    """Describe the accuracy of the paper's classifier."""
    return (
        f"The paper's classifier, trained on {numbers['training']:,} pairs of which it reads "
        + ", ".join(
            f"{label}: {numbers['right'][name]:.1%}" for name, label in SENTENCE_CHOICES.items()
        )
        + f" right (“neutral” {numbers['frequent']:.1%}, MiniLM {hidden['right']['whole']:.1%})."
    )


MEANING = (
    "Where two sentences are compared, what is attended to and what decides come apart. Attention "
    "of the last layer lies on the words that only one sentence has. That is half the way where "
    "the model finds the pair neutral, and hardly any way where it finds a contradiction or an "
    "entailment: the negation, without which every contradiction that has one is given up, is to "
    "attention a word like any other, while LIME, Shapley values, integrated gradients and LRP "
    "name it first. In the layers before, [CLS] looks at special tokens and little else. Shapley "
    "values and LIME are the best orders that scores of words give and still leave almost a third "
    "of the way, since a quarter of what the answer varies by is what words of both sentences do "
    "together, most of all in entailments, and most of all the same word in both. The method "
    "`interactions` shows such pairs; attention between two words hardly tells them (which the "
    "paper, whose word for it is association, does not say it would). The model does compare: "
    "with the second sentence "
    "of another pair nearly everything becomes neutral, and neither one sentence nor one layer of "
    "attention over both comes near it. All this is one model and one data set, whose "
    "contradictions are mostly negations, on its shorter half; and the model calls a pair of "
    "[MASK]s alone a contradiction, which is why everything was measured with deletion as well."
)
