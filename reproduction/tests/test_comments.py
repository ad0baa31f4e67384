"""The comments on the theorems: statistics by another road, verdicts at their thresholds."""

import itertools
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LinearRegression

import limelight
from limelight.theory.enumeration import enumerate_masks, lime_by_enumeration
from limelight.theory.gradient import head_gradients
from limelight.theory.lime import lime
from limelight.theory.ratio_game import RatioGame, value
from limelight_reproduction.one_layer import claims, comments, comments_gradient, comments_lime
from limelight_reproduction.one_layer.collapsed_texts import collapse_texts
from limelight_reproduction.one_layer.dilution import dilution_game, measure_dilution
from limelight_reproduction.spread import adjusted_r2, correlation, summarize_spread
from limelight_reproduction.theory.paper import lime_theorem

ROOT = Path(__file__).resolve().parents[2]
TEXTS = ["w1 w2 w3 w4 w5 w6 w2", "w7 w8 w9 w10 w11 w1 w2 w12 w13 w14"]


@pytest.fixture
def model(toy_model):
    return toy_model(5, scale=0.6)


def scores(model, method, features):
    request = {"target": "positive", "scale": "score", "features": features}
    explanation = limelight.explain(model, TEXTS, method, **request)
    return [e.scores for e in explanation]


# -------------------------------------------------------------- spread


def test_quartiles_leave_out_what_is_not_defined():
    result = summarize_spread([{"x": v} for v in (1.0, 2.0, 3.0, 4.0, 5.0, None)])
    assert result == {"x": (2.0, 3.0, 4.0)}


def test_correlation_of_a_constant_is_not_defined():
    assert correlation(np.ones(4), np.arange(4.0)) is None


def test_adjusted_r2_is_that_of_a_linear_regression():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3, 17)), rng.normal(size=17)
    plain = LinearRegression().fit(X.T, y).score(X.T, y)
    assert adjusted_r2(X, y) == pytest.approx(1 - (1 - plain) * 16 / 13)
    assert adjusted_r2(X, 2 + X[1] - X[0]) == pytest.approx(1)
    assert adjusted_r2(X[:, :4], y[:4]) is None
    assert adjusted_r2(X, np.ones(17)) is None


# -------------------------------------------------------------- section 4


def test_correlations_of_section_4_are_those_of_the_public_methods(model):
    seen = collapse_texts(model, TEXTS, features="positions")
    result = comments_gradient.gradient_statistics(seen)
    for x, y in comments_gradient.PAIRS:
        element, other = (scores(model, name.strip("|"), "positions") for name in (x, y))
        for i, index in enumerate(result):
            b = np.abs(other[i]) if y.startswith("|") else other[i]
            assert index[f"pearson {x} ~ {y}"] == pytest.approx(np.corrcoef(element[i], b)[0, 1])
            rank = stats.spearmanr(element[i], b).statistic
            assert index[f"spearman {x} ~ {y}"] == pytest.approx(rank)


def test_signs_are_compared_with_leave_one_out_at_every_token(model):
    seen = collapse_texts(model, TEXTS, features="positions")
    result = comments_gradient.gradient_statistics(seen)
    effects = scores(model, "loo", "positions")
    for method in ("g-avg", "gxi"):
        for index, row, effect in zip(
            result, scores(model, method, "positions"), effects, strict=True
        ):
            assert index[f"negative {method}"] == pytest.approx(np.mean(row < 0))
            agree = np.mean(row * effect > 0)
            assert index[f"sign as leave-one-out {method}"] == pytest.approx(agree)


def test_a_typical_value_leaves_the_main_term_of_the_gradient(model):
    seen = collapse_texts(model, TEXTS, features="positions")
    heads = head_gradients(**seen.arrays.gradient_arguments(seen.weights))[:, :, 1:]
    main = seen.alpha[:, :, 1:, None] * seen.value[:, None, :]
    remainder = np.linalg.norm(heads - main, axis=-1) / np.linalg.norm(main, axis=-1)
    assert comments_gradient._second_term_ratio(seen) == pytest.approx(remainder)
    T = len(TEXTS[1].split())
    result = comments_gradient.gradient_statistics(seen)[1]["typical"]
    assert result == pytest.approx(np.mean(remainder[1, :, :T] <= comments_gradient.TYPICAL))


def test_the_last_layer_turned_round_turns_the_heads_that_are_negative(model):
    turned = replace(model, W_l=-model.W_l)
    counts = [
        comments_gradient.count_negative_heads(collapse_texts(m, TEXTS[:1]))
        for m in (model, turned)
    ]
    assert sum(counts) == model.sizes["K"]


# -------------------------------------------------------------- section 5


def test_correlations_of_section_5_are_those_of_the_public_methods(model):
    result = comments_lime.lime_statistics(collapse_texts(model, TEXTS))
    names = {"alpha u": "alpha-grad"}
    for x, y in comments_lime.PAIRS:
        element, other = (scores(model, names.get(name, name), "words") for name in (x, y))
        for i, index in enumerate(result):
            expected = np.corrcoef(element[i], other[i])[0, 1]
            assert index[f"pearson {x} ~ {y}"] == pytest.approx(expected, abs=1e-5)


def test_the_leading_term_is_taken_off_lime_and_gxi_as_a_regression_does(model):
    """Comment 5 (i) excepts the term that is proportional to α_t u_t."""
    result = comments_lime.lime_statistics(collapse_texts(model, TEXTS))
    rows = (scores(model, name, "words") for name in ("lime", "gxi", "alpha-grad"))
    for index, lime_scores, gxi, term in zip(result, *rows, strict=True):
        element, other = (
            x - LinearRegression().fit(term[:, None], x).predict(term[:, None])
            for x in (lime_scores, gxi)
        )
        key = "lime ~ gxi without alpha u"
        assert index[f"pearson {key}"] == pytest.approx(np.corrcoef(element, other)[0, 1], abs=1e-4)
        assert index[f"spearman {key}"] == pytest.approx(stats.spearmanr(element, other).statistic)
        less = np.corrcoef(lime_scores - term, gxi - term)[0, 1]
        assert index["pearson lime ~ gxi less alpha u"] == pytest.approx(less, abs=1e-4)


def one_game(model, text):
    return collapse_texts(model, [text]).games


def most_attended_word(game):
    return int((game.a[0] / (game.D0[0] + game.a[0].sum(axis=-1))[:, None]).mean(axis=0).argmax())


def test_interventions_on_a_word_are_those_of_all_subsets(model):
    result = comments_lime.lime_statistics(collapse_texts(model, TEXTS))
    for text, index in zip(TEXTS, result, strict=True):
        game = one_game(model, text)
        j = most_attended_word(game)
        full, empty = (game.D0[0] + x[0].sum(axis=-1) for x in (game.a, game.b))
        balanced = game.B[0, 0, :, j] / empty * full
        for key, A_j in (("no value", 0.0), ("value of unknown", balanced)):
            A = game.A.copy()
            A[0, 0, :, j] = A_j
            beta = lime_by_enumeration(replace(game, A=A)).scores[0, 0]
            share = abs(beta[j]) / np.abs(beta).max()
            assert index[key] == pytest.approx(share, abs=1e-4)
        a, A = game.a.copy(), game.A.copy()
        A[0, 0, :, j] = 0.0
        with_attention = lime_by_enumeration(replace(game, A=A)).scores[0, 0]
        a[0, :, j] = 0.0
        without = lime_by_enumeration(replace(game, a=a, A=A)).scores[0, 0]
        influence = abs(with_attention[j] - without[j]) / np.abs(with_attention).max()
        assert index["influence without value"] == pytest.approx(influence, abs=1e-4)
        beta = lime_by_enumeration(game).scores[0, 0]
        untouched = abs(beta[j]) / np.abs(beta).max()
        assert index["untouched"] == pytest.approx(untouched, abs=1e-4)


def test_moving_attention_keeps_the_value_and_the_other_words(model):
    game = one_game(model, TEXTS[0])
    (result,) = comments_lime._linearity(game, np.array([most_attended_word(game)]))
    j, u = most_attended_word(game), game.A[0, 0] / game.a[0]
    alpha = game.a[0] / (game.D0[0] + game.a[0].sum(axis=-1))[:, None]
    i = int(alpha[:, j].argmax())
    targets = np.linspace(0, min(2 * alpha[i, j], 0.95), comments_lime.STEPS)
    answers = []
    for target in targets:
        a, A = game.a[0, i].copy(), game.A[0, 0, i].copy()
        a[j] = target / (1 - target) * (game.D0[0, i] + np.delete(a, j).sum())
        A[j] = a[j] * u[i, j]
        element = replace(
            game,
            D0=game.D0[0, i : i + 1],
            a=a[None],
            b=game.b[0, i : i + 1],
            N0=game.N0[0, :, i : i + 1],
            A=A[None, None],
            B=game.B[0, :, i : i + 1],
            sizes=None,
            error=None,
        )
        answers.append(lime_by_enumeration(element).scores[0, j])
    assert result == pytest.approx(adjusted_r2(targets[None], np.array(answers)), abs=1e-5)


def test_words_near_unknown_are_the_tenth_with_the_smallest_gap():
    beta = np.array([0.01, -2.0, 1.0, 0.5])
    alpha = np.array([[0.1, 0.2, 0.3, 0.2]])
    result = comments_lime._statistics_near_unknown(beta, alpha, np.array([0.0, 1.0, 2.0, 3.0]))
    assert result["lime near unknown"] == pytest.approx(0.005)
    assert result["lime of a word"] == pytest.approx(0.375)
    assert result["attention near unknown"] == pytest.approx(0.5)


# -------------------------------------------------------------- the counterexample


def lime_by_hand(game):
    """Oracle: weighted least squares on all subsets but the untouched one."""
    keep = enumerate_masks(game.d)[:-1]
    removed = game.d - keep.sum(axis=1)
    sets = stats.binom(game.d, 0.5).pmf(removed) * 2**game.d
    weight = np.exp(-((1 - np.sqrt(1 - removed / game.d)) ** 2) / (2 * 0.25**2)) / sets
    f = value(game, keep)[0]
    return LinearRegression().fit(keep, f, sample_weight=weight).coef_


@pytest.mark.parametrize("alpha", [0.0, 0.35, 0.8])
def test_the_counterexample_by_hand(alpha):
    result = measure_dilution()
    at = int(np.argmin(np.abs(np.array(result["alpha"]) - alpha)))
    beta = lime_by_hand(dilution_game(alpha))
    assert result["all_subsets"][at] == pytest.approx(beta[0], abs=1e-5)
    assert result["other_words"][at] == pytest.approx(beta[1], abs=1e-5)


def plain_formulas(text):
    """Write the formulas of KaTeX as the report writes them, and leave out all spaces."""
    for mark, plain in ((r"\s|\$|\\(?=exp)", ""), ("−", "-"), (r"\^2", "²")):
        text = re.sub(mark, plain, text)
    text = re.sub(r"\\frac\{([^{}]+)\}\{([^{}]+)\}", r"(\1)/(\2)", text)
    return re.sub(r"\\sqrt\{([^{}]+)\}", r"√(\1)", text)


@pytest.mark.parametrize("page", ["docs/reproduction.md", "docs/theorems/misprints.md"])
def test_the_counterexample_can_be_computed_again_from_the_numbers_on_the_page(page):
    """Least squares over the 15 sets, from f, the weights and the sizes that the page states."""
    _, text = re.split(r"ounterexample to (?:5|comments) \(iii\)", (ROOT / page).read_text("utf-8"))
    text = plain_formulas(text)
    fixed, moving = map(float, re.findall(r"\(Z_2\+Z_3\+Z_4\)/\((\d+)\+(\d+)Z_1\)", text)[0])
    rate, d = map(int, re.findall(r"exp\(-(\d+)\(1-√\(1-s/(\d)\)\)²\)", text)[0])
    g, u, g_others, u_others = map(
        float,
        re.findall(
            r"firstwordhasg=(\d+)andu=(\d).*?other[a-z]*haveg=(\d)andu=(\d)",
            text,
        )[0],
    )
    # What the page says of the words gives its f: D = 1 + Σ g, UNK and [cls] having g = 1.
    assert (1 + 1 + 3 * g_others, g - 1, u, u_others) == (fixed, moving, 0, 1)
    rows, targets, weights = [], [], []
    for Z in itertools.product((0, 1), repeat=d):
        if (s := d - sum(Z)) > 0:
            rows.append([1, *Z])
            targets.append(sum(Z[1:]) / (fixed + moving * Z[0]))
            near = math.exp(-rate * (1 - math.sqrt(1 - s / d)) ** 2)
            weights.append(near / math.comb(d, s))
    assert len(rows) == 15
    root = np.sqrt(weights)
    beta = np.linalg.lstsq(np.array(rows) * root[:, None], targets * root, rcond=None)[0][1:]
    matches = re.findall(r"([+-]?0\.\d{3})(?:beside|forthefirstwordand)([+-]?0\.\d{3})", text)
    assert [float(x) for x in matches[0]] == pytest.approx(beta[:2], abs=5e-4)
    assert beta[1] == pytest.approx(beta[2])


def test_a_word_without_value_moves_lime_and_not_equation_19():
    result = measure_dilution()
    assert result["printed"] == [0.0] * len(result["alpha"])
    assert result["all_subsets"][-1] < -0.2
    assert result["error"] < 1e-8


@pytest.mark.parametrize("g", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("bandwidth", [0.25, np.inf])
def test_the_counterexample_of_any_size_in_the_regime_of_the_theorem(g, bandwidth):
    d, T_max = 128, 16384
    a, u = np.ones((1, d)), np.ones((1, 1, d))
    a[0, 0], u[0, 0, 0] = g, 0.0
    fixed = np.array([T_max - d], dtype=float)
    game = RatioGame(
        D0=fixed, a=a, b=np.ones((1, d)), N0=fixed[None], A=u * a, B=np.ones((1, 1, d))
    )
    alpha, alpha_h = g / (fixed + a.sum()), 1 / (fixed + d)
    assert lime(game, bandwidth=bandwidth, tolerance=1e-9).scores[0, 0] == pytest.approx(-alpha[0])
    assert lime_theorem(game)[0, 0] == pytest.approx(-1.5 * alpha_h[0])


def test_a_word_that_weighs_what_unknown_weighs_dilutes_nothing():
    assert lime_by_hand(dilution_game(0.2))[0] == pytest.approx(0, abs=1e-12)


def test_the_word_has_the_attention_of_the_claim():
    game = dilution_game(0.3)
    assert game.a[0, 0] / (game.D0[0] + game.a[0].sum()) == pytest.approx(0.3)


# -------------------------------------------------------------- verdicts


@pytest.fixture(scope="module")
def measured_statistics(shipped):
    """Statistics of a few short reviews; every claim finds its numbers in them."""
    texts = [
        "a dull plot, but the actors are wonderful and the music is great.",
        "what a waste of time: bad acting, bad script and no story at all.",
        "one of the best films of the year, moving and funny, see it twice!",
    ]
    by_word = collapse_texts(shipped, texts)
    by_token = collapse_texts(shipped, texts, features="positions")
    pairs = zip(
        comments_gradient.gradient_statistics(by_token),
        comments_lime.lime_statistics(by_word),
        strict=True,
    )
    return {
        "documents": 3,
        "words": 12.0,
        "heads": 6,
        "negative_heads": 6,
        "spread": summarize_spread([a | b for a, b in pairs]),
    }


def change_statistics(measured, **medians):
    changes = {key: (0.0, value, 1.0) for key, value in medians.items()}
    return measured | {"spread": measured["spread"] | changes}


def claim(says):
    (result,) = [element for element in claims.CLAIMS if says in element.statement]
    return result


@pytest.mark.parametrize(
    ("says", "medians", "verdict"),
    [
        ("G-l1", {"pearson alpha-avg ~ g-l1": 0.5, "spearman alpha-avg ~ g-l1": 0.6}, "holds"),
        (
            "G-l1",
            {"pearson alpha-avg ~ g-l1": 0.49, "spearman alpha-avg ~ g-l1": 0.9},
            "does not hold",
        ),
        (
            "with G-avg",
            {
                "pearson alpha-avg ~ g-avg": -0.9,
                "spearman alpha-avg ~ g-avg": -0.9,
                "pearson alpha-avg ~ |g-avg|": 0.9,
                "spearman alpha-avg ~ |g-avg|": 0.9,
            },
            "holds if G-avg is read as |G-avg|",
        ),
        ("α-max", {"pearson alpha-max ~ g-l2": 0.4}, "holds"),
        ("positive attention", {"negative gxi": 0.09}, "does not hold"),
        ("typical", {"typical": 0.02}, "holds"),
        ("typical", {"typical": 0.0}, "does not hold"),
        (
            "reflects",
            {"sign as leave-one-out g-avg": 0.6, "sign as leave-one-out gxi": 0.6},
            "does not hold",
        ),
        ("quite different", {"spearman lime ~ gxi without alpha u": 0.49}, "holds"),
        (
            "quite different",
            {
                "pearson lime ~ gxi without alpha u": 0.5,
                "spearman lime ~ gxi without alpha u": 0.5,
                "pearson lime ~ gxi": 0.3,
            },
            "does not hold",
        ),
        ("have the leading term", {"spearman gxi ~ alpha u": 0.3}, "does not hold"),
        ("affine", {"r2 from alpha": 0.9}, "holds"),
        ("affine", {"r2 from alpha": 0.89, "r2 of moving alpha": 0.89}, "does not hold"),
        ("disappears", {"influence without value": 0.05, "no value": 0.3}, "holds"),
        ("disappears", {"influence without value": 0.06, "no value": 0.0}, "does not hold"),
        ("near zero", {"lime near unknown": 0.01, "value of unknown": 0.01}, "holds"),
        (
            "near zero",
            {"lime near unknown": 0.01, "value of unknown": 0.3},
            "holds if the word has little attention, too",
        ),
        ("near zero", {"lime near unknown": 0.06, "value of unknown": 0.3}, "does not hold"),
    ],
)
def test_a_verdict_changes_at_its_threshold(says, medians, verdict, measured_statistics):
    assert claim(says).verdict(change_statistics(measured_statistics, **medians)) == verdict


def test_every_claim_has_a_row_and_a_sentence_with_its_numbers(measured_statistics, stored):
    numbers = {
        "shipped": measured_statistics,
        "paper": measured_statistics,
        "counterexample": measure_dilution(),
    }
    result = comments.findings(stored(numbers))
    assert len(result.table.rows) == len(claims.CLAIMS) == 11
    assert all(len(row) == len(result.table.columns) for row in result.table.rows)
    for element in claims.CLAIMS:
        assert any(
            element.statement in s and element.evidence(measured_statistics) in s
            for s in result.measured
        )


def test_the_meaning_says_only_what_the_numbers_say(measured_statistics):
    toy = measure_dilution()
    agree = {"pearson lime ~ gxi": 0.9, "spearman lime ~ gxi": 0.9}
    distance = {"pearson lime ~ gxi": 0.1, "spearman lime ~ gxi": 0.1}
    pair = [
        comments.findings({"shipped": n, "paper": n, "counterexample": toy}).meaning
        for n in (
            change_statistics(measured_statistics, **agree),
            change_statistics(measured_statistics, **distance),
        )
    ]
    assert "G×I and LIME largely agree" in pair[0]
    assert "G×I and LIME largely agree" not in pair[1]


def test_the_page_says_where_ranks_alone_decide_the_verdict_on_5_i(measured_statistics):
    pair, toy = "lime ~ gxi without alpha u", measure_dilution()

    def sentences(pearson, spearman):
        n = change_statistics(
            measured_statistics, **{f"pearson {pair}": pearson, f"spearman {pair}": spearman}
        )
        result = comments.findings({"shipped": n, "paper": n, "counterexample": toy})
        return " ".join(result.measured)

    assert (
        "With the paper's recipe Pearson's correlation is 0.62. The verdict rests on the rank "
        "correlation, 0.31."
    ) in sentences(0.62, 0.31)
    assert "The verdict rests on" not in sentences(0.62, 0.61)


def test_the_figures_need_only_stored_numbers(measured_statistics, stored):
    numbers = stored(
        {
            "shipped": measured_statistics,
            "paper": measured_statistics,
            "counterexample": measure_dilution(),
        }
    )
    names = [name for name, _, figure in comments.figures(numbers) if figure.axes]
    assert names == ["comments-correlations", "comments-counterexample"]


def test_toy_reviews_are_measured_in_chunks_with_progress(toy_setting, model):
    heard = []
    toy_setting.tick = lambda done, total: heard.append((done, total))
    result = comments.measure(toy_setting, model)
    assert heard == [(20, 30), (30, 30)]
    assert result["documents"] == 30
    assert result["words"] == 11
    assert 0 <= result["negative_heads"] <= result["heads"] == 3


def test_the_statistics_of_a_claim_are_those_that_decide_its_verdict(stored, toy_setting):
    numbers = stored(comments.measure(toy_setting, toy_setting.recipe_model))

    def verdict(claim, changed):
        return claim.verdict(
            numbers | {"spread": numbers["spread"] | {key: [x] * 3 for key, x in changed.items()}}
        )

    for claim in claims.CLAIMS:
        # Low, middling and high values reach every side of every threshold.
        cases = list(itertools.product((0.0, 0.02, 0.7, 0.95), repeat=len(claim.statistics)))
        verdicts = {
            case: verdict(claim, dict(zip(claim.statistics, case, strict=True))) for case in cases
        }
        for i in range(len(claim.statistics)):
            assert any(
                verdicts[case] != verdicts[(*case[:i], x, *case[i + 1 :])]
                for case in cases
                for x in (0.0, 0.95)
            ), (claim.statement, claim.statistics[i])
        others = numbers["spread"].keys() - set(claim.statistics)
        for x in (-1.0, 1.0):
            assert verdict(claim, dict.fromkeys(others, x)) == verdict(claim, {})
