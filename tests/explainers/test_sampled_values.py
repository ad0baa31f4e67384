"""Banzhaf values and pair interactions of any model: against the definition, mask by mask."""

import io
import itertools
import math
import re
from statistics import NormalDist

import numpy as np
import pytest
from rich.console import Console

import limelight
from limelight.errors import DomainError
from limelight.explainers.banzhaf import select_strongest_pairs
from limelight.sampling.pairs import PairSampler, fit_pair_interactions
from limelight.sampling.regression import fit_sampled_lime
from limelight.sampling.sample import Sample, make_coin_sampler

WORDS = [f"w{i}" for i in range(20)]


def bumpy(seed, d):
    """A function of which words are there, with effects of one, two and three of them."""
    rng = np.random.default_rng(seed)
    terms = [
        (frozenset(rng.choice(d, size, replace=False).tolist()), float(rng.standard_normal()))
        for size in (1, 1, 1, 2, 2, 2, 3)
    ]
    return lambda keep: math.tanh(sum(value for words, value in terms if words <= keep)) + 3.0


def wrap_model(score):
    request = []

    def answer(texts):
        request.extend(texts)
        return np.array([[score(frozenset(int(w[1:]) for w in t.split()))] for t in texts])

    return limelight.wrap(answer, classes=["no", "yes"], scale="logit"), request


def banzhaf_by_definition(score, d):
    values = np.zeros(d)
    for j in range(d):
        other_values = [k for k in range(d) if k != j]
        for size in range(d):
            for sets in itertools.combinations(other_values, size):
                values[j] += (score(frozenset((*sets, j))) - score(frozenset(sets))) / 2 ** (d - 1)
    return values


def pair_by_definition(score, d, j, k, index):
    other_values = [i for i in range(d) if i not in (j, k)]
    total = 0.0
    for size in range(d - 1):
        count = math.comb(d - 2, size)
        weight = 1 / ((d - 1) * count) if index == "shapley" else 0.5 ** (d - 2)
        for sets in map(frozenset, itertools.combinations(other_values, size)):
            pair, value, two, none = (score(sets | x) for x in ({j, k}, {j}, {k}, frozenset()))
            total += weight * (pair - value - two + none)
    return total


def test_few_words_have_banzhaf_values_without_sampling():
    d = 7
    score = bumpy(0, d)
    model, request = wrap_model(score)
    e = limelight.explain(model, " ".join(WORDS[:d]), "banzhaf")
    np.testing.assert_allclose(e.scores, banzhaf_by_definition(score, d), atol=1e-12)
    assert e.stderr is None
    assert not e.warnings
    assert len(set(request)) == 2**d


@pytest.mark.parametrize("index", ["shapley", "banzhaf"])
def test_few_words_have_interactions_without_sampling(index):
    d = 6
    score = bumpy(1, d)
    e = limelight.explain(
        wrap_model(score)[0], " ".join(WORDS[:d]), "interactions", index=index, top=None
    )
    assert len(e.pairs.scores) == d * (d - 1) // 2
    for (j, k), result in zip(e.pairs.features.tolist(), e.pairs.scores, strict=True):
        assert result == pytest.approx(pair_by_definition(score, d, j, k, index), abs=1e-12)
    assert e.pairs.stderr is None
    assert e.stderr is None


@pytest.mark.usefixtures("short_texts_are_sampled")
@pytest.mark.parametrize("seed", range(3))
def test_sampled_values_lie_within_their_errors(seed):
    d = 9
    score = bumpy(seed, d)
    model, text = wrap_model(score)[0], " ".join(WORDS[:d])
    e = limelight.explain(model, text, "banzhaf", samples=300, seed=seed)
    assert (np.abs(e.scores - banzhaf_by_definition(score, d)) <= 5 * e.stderr).all()
    assert 0 < e.stderr.max() < 0.3
    for index in ("shapley", "banzhaf"):
        e = limelight.explain(
            model, text, "interactions", index=index, samples=500, top=None, seed=seed
        )
        truth = [pair_by_definition(score, d, j, k, index) for j, k in e.pairs.features.tolist()]
        assert (np.abs(e.pairs.scores - truth) <= 5 * e.pairs.stderr).all()
        assert 0 < e.pairs.stderr.max() < 1.0


def test_sampled_values_of_a_long_text_are_those_of_its_exact_game():
    """Another road: the closed forms of the paper's classifier, which sample nothing."""
    model = limelight.load()
    text = (
        "The plot is predictable and slow, and nobody will remember the dull music, but the two "
        "leads are superb, often funny, and worth every minute of a long, bad, beautiful film."
    )
    game = limelight.game(model, text)
    d = len(game)
    assert d > 20
    exact = limelight.explain(model, text, "banzhaf")
    sample = Sample(
        lambda keep: (game(keep) - game(~keep))[:, -1:] / 2,
        make_coin_sampler(d),
        np.random.default_rng(0),
        d=d,
        row0=False,
    )
    sample.grow(1000)
    fit = fit_sampled_lime(sample, ridge=0.0)
    assert (np.abs(fit.scores[0] - exact.scores) <= 5 * fit.stderr[0]).all()
    for index in ("shapley", "banzhaf"):
        exact = limelight.explain(model, text, "interactions", index=index, top=None)
        sampler = PairSampler(d, index)
        rng = np.random.default_rng(1)
        sample = Sample(lambda keep: game(keep)[:, -1:], sampler, rng, d=d, row0=False)
        sample.grow(3000)
        fit = fit_pair_interactions(sample, sampler=sampler)
        i, j = exact.pairs.features.T
        off, stderr = fit.scores[0, i, j] - exact.pairs.scores, fit.stderr[0, i, j]
        assert (np.abs(off) <= 5 * stderr).all()
        assert np.abs(off).max() > 0.2 * stderr.mean()  # the errors are not idle


@pytest.mark.parametrize("index", ["shapley", "banzhaf"])
def test_the_mean_of_many_samples_is_the_interaction(index):
    """Unbiased although the line is fitted to the same masks: 40 masks of 6 words, 400 times."""
    d, score = 6, bumpy(2, 6)
    game = lambda keep: np.array([[score(frozenset(np.flatnonzero(row)))] for row in keep])  # noqa: E731
    sampler, result = PairSampler(d, index), []
    for seed in range(400):
        sample = Sample(game, sampler, np.random.default_rng(seed), d=d, row0=False)
        sample.grow(40)
        result.append(fit_pair_interactions(sample, sampler=sampler).scores[0])
    mean, error = np.mean(result, axis=0), np.std(result, axis=0) / math.sqrt(len(result))
    for j, k in itertools.combinations(range(d), 2):
        truth = pair_by_definition(score, d, j, k, index)
        assert abs(mean[j, k] - truth) <= 5 * error[j, k]


def test_a_model_without_interactions_gives_a_warning_that_none_is_significant():
    model, _ = wrap_model(lambda keep: float(sum(keep)))
    text = " ".join(WORDS[:14])
    e = limelight.explain(model, text, "interactions", samples=1000)
    assert e.warnings[:2] == (
        "All 1,000 samples agree, so effects that occur in fewer than 0.3 % of samples may be "
        "missing. The standard errors allow for an effect of 91.",
        "None of the 91 pairs has an interaction that differs significantly from 0. Raise samples.",
    )
    assert (e.pairs.stderr > 0).all()
    e = limelight.explain(model, text, "banzhaf")
    np.testing.assert_allclose(e.scores, np.arange(14), atol=1e-9)
    assert e.warnings[0].startswith("All 500 samples agree")


def test_a_constant_model_has_the_warning_alone():
    model, _ = wrap_model(lambda _: 1.5)
    e = limelight.explain(model, " ".join(WORDS[:14]), "lime")
    assert e.stderr is None
    assert e.warnings == (
        "All 1,000 samples agree, so effects that occur in fewer than 0.3 % of samples may be "
        "missing. There are no standard errors, because the output has not changed yet.",
    )
    for sampler, sample_count in (("orders", 38), ("regression", 499)):
        e = limelight.explain(model, " ".join(WORDS[:14]), "shapley", sampler=sampler)
        assert e.stderr is None
        assert e.warnings[0].startswith(f"All {sample_count} samples agree, so ")


def test_a_probability_that_never_moves_may_yet_move_by_one():
    """A 0/1 function whose effect 1,000 masks of 14 words do not see."""
    full = " ".join(WORDS[:14])
    model = limelight.wrap(
        lambda texts: np.array([[1.0, 0.0] for _ in texts]), classes=["no", "yes"]
    )
    for method, step, own_value in (
        ("shapley", 1 / 38, {"sampler": "orders"}),
        ("shapley", None, {"sampler": "regression"}),
        ("lime", None, {}),
    ):
        e = limelight.explain(model, full, method, scale="probability", **own_value)
        np.testing.assert_allclose(e.scores, 0, atol=1e-12)
        assert (e.stderr > 0).all()
        if step is not None:
            np.testing.assert_allclose(e.stderr, 1.5 * step)


@pytest.mark.parametrize(("method", "least"), [("banzhaf", 74), ("interactions", 42)])
def test_too_few_samples_raise_an_error_before_the_first_call(method, least):
    model, calls = wrap_model(lambda keep: float(len(keep)))
    text = " ".join(WORDS)
    with pytest.raises(DomainError, match=f"need at least {least} samples, not {least - 1}"):
        limelight.explain(model, text, method, samples=least - 1)
    assert not calls
    limelight.explain(model, text, method, samples=least)


@pytest.mark.parametrize("d", [5, 16, 20])
def test_the_fewest_samples_determine_banzhaf_values_or_raise_an_error(d):
    """Of five words, one mask alone decides a slope in one of these samples."""
    model, _ = wrap_model(bumpy(3, d))
    fewest, message = limelight.explainers.Banzhaf().sample_size.minimum(d), set()
    for seed in range(20):
        own_value = {"samples": fewest, "max_samples": fewest, "seed": seed}
        try:
            e = limelight.explain(model, " ".join(WORDS[:d]), "banzhaf", **own_value)
        except DomainError as error:
            message.add(str(error))
        else:
            assert np.isfinite(e.stderr).all()
    sentence = "22 samples do not determine the Banzhaf values of 5 features. Set samples to 44."
    assert message == ({sentence} if d == 5 else set())


def test_pairs_show_their_errors_everywhere():
    model, _ = wrap_model(bumpy(4, 12))
    e = limelight.explain(model, " ".join(WORDS[:12]), "interactions", samples=400, top=5)
    again = limelight.Explanation.from_json(e.to_json())
    np.testing.assert_array_equal(again.pairs.stderr, e.pairs.stderr)
    assert '<th scope="col">standard error</th>' in e.as_html()
    console = Console(file=io.StringIO(), width=90)
    console.print(e)
    lines = [line.split() for line in console.file.getvalue().splitlines()]
    assert ["pair", "score", "±"] in lines
    (row,) = [line for line in lines if "×" in line and len(line) == 5][:1]
    assert float(row[-1]) == pytest.approx(e.pairs.stderr[0], abs=5e-4)


def test_compare_checks_settings_before_the_first_call():
    model, calls = wrap_model(lambda keep: float(len(keep)))
    with pytest.raises(DomainError, match="10 samples do not determine LIME's scores"):
        limelight.compare(model, " ".join(WORDS), methods=["loo", "lime"], samples=10)
    assert not calls
    c = limelight.compare(model, " ".join(WORDS), samples=10)  # LIME is one of the defaults here
    assert [e.method for e in c.explanations] == ["shapley", "loo"]
    assert any(warning.startswith("LIME is left out") for warning in c.warnings)


def test_a_heavy_tail_gives_a_warning():
    rng = np.random.default_rng(3)
    slope = rng.normal(0, 1.5, 20)
    heavy, _ = wrap_model(lambda words: float(np.exp(slope[list(words)].sum())))
    tame, _ = wrap_model(lambda words: float(slope[list(words)].sum() ** 2))
    for method in ("lime", "shapley", "banzhaf", "interactions", "context-cite"):
        results = [
            limelight.explain(model, " ".join(WORDS[:20]), method) for model in (heavy, tame)
        ]
        heavy_warning, tame_warning = (
            re.search("determines? most of the variance", " ".join(e.warnings)) for e in results
        )
        assert heavy_warning
        assert not tame_warning


def test_errors_of_the_strongest_pairs_allow_for_their_selection():
    matrix = np.arange(36.0).reshape(6, 6)
    even = np.ones((6, 6))
    assert select_strongest_pairs(matrix, even, None).stderr.tolist() == [1.0] * 15
    assert select_strongest_pairs(matrix, even, 15).stderr.tolist() == [1.0] * 15
    (wider,) = select_strongest_pairs(matrix, even, 1).stderr
    normal = NormalDist()
    assert wider == pytest.approx(normal.inv_cdf(1 - 0.025 / 15) / normal.inv_cdf(0.975))
    # Noise alone: of the ten largest of 780, ±2 of an error of 1 would hold none.
    rng = np.random.default_rng(0)
    chosen = [
        select_strongest_pairs(rng.normal(size=(40, 40)), np.ones((40, 40)), 10) for _ in range(50)
    ]
    assert np.mean([np.abs(value.scores) <= 2 * value.stderr for value in chosen]) > 0.93
    assert all((np.abs(element.scores) > 2).all() for element in chosen)


def test_context_cite_warns_if_every_score_is_zero():
    model, _ = wrap_model(lambda keep: float(len(keep) >= 13))
    branches = set()
    for seed in range(12):
        e = limelight.explain(model, " ".join(WORDS[:16]), "context-cite", seed=seed)
        warnings = [warning for warning in e.warnings if warning.startswith("Every score is 0")]
        branches.add(bool(warnings))
        assert bool(warnings) == (not e.scores.any())
        assert warnings in (
            [],
            [
                "Every score is 0, but the output is 1 for the text and 0 without it. Raise "
                "samples, or use 'shapley', which explains the difference."
            ],
        )
        assert (e.stderr > 0).all()
    assert branches == {True, False}


def test_context_cite_warns_of_a_penalty_above_every_effect():
    effects = np.linspace(0.5, 1, 16)
    model, _ = wrap_model(lambda keep: float(effects[list(keep)].sum()))
    text = " ".join(WORDS[:16])
    e = limelight.explain(model, text, "context-cite", penalty=5.0)
    assert not e.scores.any()
    assert e.warnings == (
        "Every score is 0 although the output varies, because the penalty exceeds every single "
        "effect. Set a lower penalty, or use 'interactions' if features act only together.",
    )
    assert not limelight.explain(model, text, "context-cite").warnings
    rounded, _ = wrap_model(lambda kept_words: 1.0 + 1e-8 * len(kept_words))
    assert not [
        warning
        for warning in limelight.explain(rounded, text, "context-cite").warnings
        if warning.startswith("Every score")
    ]
    constant, _ = wrap_model(lambda _: 1.0)
    (warning,) = limelight.explain(constant, text, "context-cite").warnings
    assert warning.startswith("All 64 samples agree, so effects")


def test_no_error_of_context_cite_is_zero_if_the_output_changes():
    """The LASSO drops words of a threshold whose effect is above the penalty."""
    model, _ = wrap_model(lambda keep: float(len(keep) >= 12))
    effect = math.comb(15, 11) / 2**15  # every word's Banzhaf value
    limit = effect - 2 * 0.01  # the penalty shrinks slopes of standardised masks, twice as small
    contained = []
    for seed in range(20):
        e = limelight.explain(model, " ".join(WORDS[:16]), "context-cite", samples=256, seed=seed)
        assert (e.stderr > 0).all()
        contained.append(np.abs(e.scores - limit) <= 2 * e.stderr)
    assert np.mean(contained) >= 0.93
