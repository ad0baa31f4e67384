"""Sentences about sentence pairs: numbers in, words out."""

__all__ = ["MEANING", "measured", "share", "value"]

from collections.abc import Mapping, Sequence

from limelight_reproduction.experiment import Numbers
from limelight_reproduction.questions.one_sentence import READ
from limelight_reproduction.questions.pair_rows import METHODS
from limelight_reproduction.setting import CLASSES


def value(interval: Sequence[float] | None) -> str:
    """Return a mean with its interval, where there are any."""
    if interval is None:
        return "unknown"
    # Rounded first, plus zero: what rounds to nothing has no sign.
    middle, *ends = (f"{round(one, 2) + 0.0:.2f}" for one in interval)
    return middle + (f" [{', '.join(ends)}]" if ends else "")


def share(interval: Sequence[float] | None) -> str:
    """Return a share in percent with its interval, where there are any."""
    if interval is None:
        return "unknown"
    middle, *ends = interval
    return f"{middle:.0%}" + (f" [{100 * ends[0]:.0f}, {100 * ends[1]:.0f}]" if ends else "")


def _each(found: Mapping[str, Sequence[float] | None]) -> str:
    """Return what was found for every method, without intervals."""
    known = {said: found[name] for name, said in METHODS.items()}
    return ", ".join(f"{said} {one[0]:.2f}" for said, one in known.items() if one is not None)


def measured(numbers: Mapping[str, Numbers], verdicts: int, changed: Sequence[str]) -> list[str]:
    """Return what was measured, a sentence or two for each question.

    Of so many ``verdicts``, the ``changed`` ones are others where words are deleted.
    """
    words, hidden, trained = (numbers[part] for part in ("words", "hidden", "one-layer"))
    return [
        _which(words, hidden),
        _orders(words),
        _agreement(words),
        _places(words),
        _flips(words),
        _between(words),
        _pays(words),
        *_negation(words),
        _deleted(numbers["deleted"], verdicts, changed),
        _hidden(hidden),
        _trained(trained, hidden),
    ]


def _which(words: Numbers, hidden: Numbers) -> str:
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


def _orders(words: Numbers) -> str:
    by_class = ", ".join(
        f"{name} {value(of['alpha-avg'])}"
        for name, of in words["faithful_by"].items()
        if of["alpha-avg"] is not None
    )
    return (
        "Way from a random order (0) to the best of all orders (1): "
        + _each(words["faithful"])
        + f". α-avg by the model's answer: {by_class}. LIME comes "
        f"{value(words['lime_over_attention'])} further than α-avg."
    )


def _agreement(words: Numbers) -> str:
    return (
        "Rank correlation of sizes with |Shapley values|: "
        + _each(words["rank"])
        + f". Of the three strongest words α-avg shares {share(words['top']['alpha-avg'])} with "
        f"them, LIME {share(words['top']['lime'])}, chance {share(words['top_chance'][:1])}."
    )


def _places(words: Numbers) -> str:
    first, last = words["special"][0], words["special"][-1]
    return (
        f"{share(words['second_words'][:1])} of the words stand in the second sentence; of the "
        f"sizes of scores {_each(words['second'])}. {_unshared(words)} Special tokens take "
        f"{share(first)} of the attention of [CLS] in the first layer, "
        f"{share(max(words['special']))} where it is most, and {share(last)} in the last."
    )


def _unshared(words: Numbers) -> str:
    told = [
        f"{name} {of['words'][0]:.0%} of the words, {of['alpha-avg'][0]:.0%} of α-avg, "
        f"{of['shapley'][0]:.0%} of Shapley values"
        for name, of in words["unshared"].items()
        if name != "all" and of["words"] is not None
    ]
    return f"On words that only one sentence has lie: {'; '.join(told)}."


def _flips(words: Numbers) -> str:
    told = []
    for name in ("all", *CLASSES["sick"]):
        first = words["flips"][name]["first"]
        if first["best"] is not None:
            told.append(
                f"{'all pairs' if name == 'all' else name} {first['best'][0]:.0%} (random word "
                f"{first['random'][0]:.0%}, first of α-avg {first['alpha-avg'][0]:.0%}, of LIME "
                f"{first['lime'][0]:.0%}, of leave-one-out {first['loo'][0]:.0%})"
            )
    needed = words["flips"]["all"]["needed"]
    return (
        "Pairs whose decision changes when the right single word goes: "
        + "; ".join(told)
        + f". Until it changes, {needed['best'][0]:.0%} of the words must go at least, "
        f"{needed['alpha-avg'][0]:.0%} in the order of α-avg, {needed['lime'][0]:.0%} in LIME's, "
        f"{needed['random'][0]:.0%} in a random one."
    )


def _between(words: Numbers) -> str:
    told = [
        f"{'all pairs' if name == 'all' else name} {share(of['across'])}"
        for name, of in words["variation"].items()
        if of["across"] is not None
    ]
    of = words["variation"]["all"]
    return (
        "Every word removed with probability ½, the share of the answer's variance that words of "
        "both sentences make together: "
        + "; ".join(told)
        + f". Single words of the first sentence make {share(of['first'])}, of the second "
        f"{share(of['second'])}, words within one sentence together {share(of['within'])}; "
        f"interactions of exactly two words across make {share(of['across_two'])}. LIME's linear "
        f"model explains {share(words['linear'])} under its own weights."
    )


def _pays(words: Numbers) -> str:
    size, layers = words["size"], words["pays_by_layer"]
    best = max(range(len(layers)), key=lambda layer: layers[layer][0])
    return (
        f"The mean size of an interaction of two words is {size['across'][0]:.2f} across the "
        f"sentences, {size['within'][0]:.2f} within one and {value(size['same'])} between the two "
        f"places of the same word; the strongest of a pair lies across in "
        f"{share(words['strongest_across'])} (of all pairs of words "
        f"{share(words['pairs_across'][:1])} do). Attention between two words, either way, over "
        f"all layers and heads, has rank correlation {value(words['pays'])} with it, "
        f"{value(words['pays_other'])} without words that are the same; the best layer is number "
        f"{best + 1}, with {value(layers[best])}."
    )


def _negation(words: Numbers) -> list[str]:
    of = words["negation"]
    if not of["first"]:
        return []
    return [
        f"{of['pairs']} of the {of['contradictions']} pairs called contradictions have a negation; "
        f"without it the decision changes in {share(of['decides'])}, without one other word in "
        f"{share(of['others_decide'])}. It is the first word of each method in these shares "
        f"(chance {of['chance'][0]:.2f}): {_each(of['first'])}."
    ]


def _deleted(of: Numbers, verdicts: int, changed: Sequence[str]) -> str:
    told = (
        f"The same {of['pairs']} pairs with words deleted and not masked: the way to the best "
        f"order is {share(of['faithful']['alpha-avg'])} for α-avg, {share(of['faithful']['lime'])} "
        f"for LIME and {share(of['faithful']['shapley'])} for Shapley values, "
        f"{share(of['variation']['all']['across'])} of the variance lies between the sentences, "
        f"and attention between words has rank correlation {value(of['pays'])} with their "
        "interaction. "
    )
    if not changed:
        return told + f"All {verdicts} verdicts about words are the same."
    return told + (
        f"{verdicts - len(changed)} of {verdicts} verdicts about words are the same; another is "
        f"{'; '.join(changed)}."
    )


def _hidden(of: Numbers) -> str:
    contradictions = of["becomes"]["exchanged"][0]
    stay = contradictions[0] / max(sum(contradictions), 1)
    return (
        f"With the second sentence masked MiniLM gets {of['right']['first']:.1%} right, with the "
        f"first masked {of['right']['second']:.1%} (always “neutral”: {of['frequent']:.1%}), and "
        f"decides as before in {of['stays']['first']:.0%} and {of['stays']['second']:.0%}. With "
        f"the second sentence of another pair {of['stays']['exchanged']:.0%} of its decisions "
        f"stay; of {sum(contradictions):,} contradictions {stay:.0%} remain contradictions."
    )


def _trained(of: Numbers, hidden: Numbers) -> str:
    return (
        f"The paper's classifier, trained on {of['training']:,} pairs of which it reads "
        + ", ".join(f"{said}: {of['right'][name]:.1%}" for name, said in READ.items())
        + f" right (“neutral” {of['frequent']:.1%}, MiniLM {hidden['right']['whole']:.1%})."
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
