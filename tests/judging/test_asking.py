"""Judging where a model has to be asked: what it takes, what is best, what is drawn."""

import math
import zlib

import numpy as np
import pytest

import limelight
from limelight import InputError, Judgment, judge
from limelight.explainers import prepare_batch
from limelight.judging import estimate as estimating
from limelight.judging.candidates import ScoredText
from limelight.judging.removals import Areas, GreedySearch, JudgedOrder, make_removals
from limelight.judging.texts import SearchedText, run_searches
from limelight.models.text_game import TextGame
from limelight.progress import Estimate

from tiny_models import random_texts, tiny_model

MODEL = tiny_model(3, T_max=31, scale=0.4)
TEXTS = [text for text in random_texts(60, seed=5, longest=8) if len(set(text.split())) > 3][:6]


def wrap_as_function(asked=None):
    """The same model as somebody's function."""

    def answer(texts):
        if asked is not None:
            asked.append(len(texts))
        f = MODEL.logits(texts)[:, 0]
        return np.stack([0 * f, f], axis=1)

    return limelight.wrap(answer, classes=MODEL.classes, scale="logit", mask="UNK")


def words(model, text):
    return len(limelight.game(model, text))


def test_a_search_takes_the_word_next_that_leaves_the_least():
    weights = np.array([3.0, 1.0, 2.0, 5.0])
    model = limelight.wrap(length_outputs, classes=["length"], scale="score")
    best = JudgedOrder("best", [[3], [2], [1], [0]], Areas(1.0, 0.0, 0.0))
    worse = JudgedOrder("worse", [[0, 1, 2, 3]], Areas(0.5, 1.0, 1.0))
    search = GreedySearch(single_text(model, "a b c d").removals, [worse, best])
    assert search.order == [3, 2, 1, 0]
    while not search.is_finished:
        search.choose(-(~search.masks() @ weights))
    assert search.order == [3, 0, 2, 1]
    assert search.is_finished
    assert single_text(model, "a").search.is_finished


def test_several_searches_take_their_steps_in_one_question(monkeypatch):
    """Three words and four: the three steps of the longer are all that is asked for both."""
    weights, questions = {"a": 3.0, "b": 1.0, "c": 2.0, "d": 5.0}, []

    def answer(texts):
        return [[sum(weights[word] for word in text.split())] for text in texts]

    def joint_call(games, masks):
        questions.append([len(mask) for mask in masks])

    monkeypatch.setattr(TextGame, "precompute_outputs", staticmethod(joint_call))
    model = limelight.wrap(answer, classes=["total"], scale="score")
    values = [single_text(model, text) for text in ("a b c", "d c b a", "a")]
    run_searches(values, math.inf)
    assert [value.search.order for value in values] == [[0, 2, 1], [0, 3, 1, 2], [0]]
    assert questions == [[3, 4], [2, 3], [2]]


def single_text(model, text):
    """A text that no candidate has scored."""
    batch = prepare_batch(model, [text], scale="score")
    removals = make_removals(batch, replacement="delete", seed=0)
    return SearchedText(ScoredText(0, batch, [], []), removals)


def length_outputs(texts):
    return [[float(len(text))] for text in texts]


def test_a_search_without_time_keeps_its_start():
    request = single_text(
        limelight.wrap(length_outputs, classes=["length"], scale="score"), "a b c"
    )
    start = request.search.order
    run_searches([request], 0.0)
    assert request.search.order == start
    assert not request.search.is_finished


def test_a_model_that_refuses_a_question_of_the_search_ends_that_text_alone():
    def moody(texts):
        bad = [t for t in texts if "w9" in t and "w1" not in t.split() and len(t.split()) == 5]
        if bad:
            raise RuntimeError("no")
        return [[1.0 * len(t), 2.0] for t in texts]

    model = limelight.wrap(moody, classes=["a", "b"], scale="logit")
    texts = ["w1 w2 w3 w4 w5 w9", "w1 w2 w3 w4"]
    judgment = judge(model, texts, {"mine": lambda m, t: np.arange(words(m, t), 0, -1.0)})
    assert "the function fails on the text" in judgment.texts[0].reason
    assert judgment.texts[1].reason is None


def test_a_warning_names_the_methods_with_the_best_orders():
    def leave_one_out_scores(model, text, target):
        return limelight.explain(MODEL, text, "loo", target=target).scores

    judgment = judge(wrap_as_function(), TEXTS, {"mine": leave_one_out_scores}, budget=0.0)
    assert {text.best for text in judgment.texts_with_room} == {"mine"}
    sentence = f"relative to the best order found: mine ({len(judgment.texts_with_room)})."
    assert any(sentence in warning for warning in judgment.warnings)
    full = judge(wrap_as_function(), TEXTS, {"alike": lambda m, t: np.ones(words(m, t))})
    assert {text.best for text in full.texts_with_room} == {"greedy"}
    assert any("best order found: greedy (" in warning for warning in full.warnings)


def test_sampled_chance_is_that_of_a_long_run():
    exact = judge(MODEL, TEXTS, ["loo"])
    request = judge(wrap_as_function(), TEXTS, ["loo"], seed=4)
    for value, other in zip(exact.texts_with_room, request.texts_with_room, strict=True):
        assert abs(other.deletion.chance - value.deletion.chance) < 5 * other.deletion.stderr + 1e-9


def test_an_order_within_two_errors_of_sampled_chance_has_no_room_above_it():
    def hash_outputs(texts):
        return [[0.0, zlib.crc32(text.encode()) / 2**32] for text in texts]

    model = limelight.wrap(hash_outputs, classes=["a", "b"], scale="logit")
    texts = [" ".join(f"w{i}{j}" for j in range(6)) for i in range(24)]
    falling = {"falling": lambda m, t: -np.arange(float(words(m, t)))}
    judgment = judge(model, texts, falling, budget=0, columns=[], curves=False)
    levels = [text.deletion for text in judgment.texts]
    room, error = np.array([(m.ceiling - m.chance, m.stderr) for m in levels]).T
    assert [text.has_room for text in judgment.texts] == (room > 2 * error).tolist()
    assert ((room > 0) & (room <= 2 * error)).any()
    assert (room > 2 * error).any()


def test_texts_whose_chance_stays_imprecise_are_counted():
    rng = np.random.default_rng(4)
    noise = {}

    def bumpy(texts):
        return [[0.0, noise.setdefault(t, rng.normal()) + (len(t) > 30)] for t in texts]

    model = limelight.wrap(bumpy, classes=["a", "b"], scale="logit")
    texts = [" ".join(f"w{i}" for i in range(k, k + 12)) for k in range(3)]
    judgment = judge(model, texts, ["loo"], budget=0.0)
    room = [t.deletion for t in judgment.texts_with_room]
    worse = sum(m.stderr > 0.01 * (m.ceiling - m.chance) for m in room)
    assert worse
    sentence = f"Chance is imprecise on {worse} of {len(room)} texts: its standard error is up to "
    (warning,) = (warning for warning in judgment.warnings if warning.startswith(sentence))
    assert warning.endswith("the best order, not 1%. If you set budget (--budget), raise it.")


def test_probability_of_the_papers_classifier_is_sampled_and_best_found():
    judgment = judge(MODEL, TEXTS, ["loo", "lime-sampled"], scale="probability", samples=300)
    assert judgment.ceiling_kind == "best found"
    for text, arguments in zip(judgment.texts, TEXTS, strict=True):
        assert text.full == pytest.approx(MODEL.predict_proba([arguments]).max())
        assert text.deletion.stderr is not None
        assert text.deletion.ceiling >= max(text.deletion.areas.values())


def test_a_second_replacement_judges_the_same_scores_again():
    judgment = judge(MODEL, TEXTS, ["loo", "gxi", "alpha-avg"], second_replacement="delete")
    single = judge(MODEL, TEXTS, ["loo", "gxi", "alpha-avg"])
    assert judgment.methods == single.methods
    assert judgment.second.settings["replacement"] == "delete"
    assert judgment.second.ceiling_kind == "best found"
    assert [m.method for m in judgment.second.methods] == ["loo", "gxi", "alpha-avg"]
    first, second = judgment.texts[0], judgment.second.texts[0]
    order = first.curves["loo"].words
    assert (second.curves["loo"].words == order).all()
    f = limelight.game(MODEL, TEXTS[0], replacement="delete")
    keep = np.argsort(order)[None, :] >= np.arange(len(order) + 1)[:, None]
    sign = 1.0 if first.target == MODEL.classes[1] else -1.0
    np.testing.assert_allclose(
        second.curves["loo"].points, sign * f(keep)[:, 0], rtol=1e-5, atol=1e-6
    )
    assert judgment.warnings[-1].startswith(
        "If 'delete' replaces removed words, the order of the methods is "
    )
    assert Judgment.from_json(judgment.to_json()) == judgment


def test_the_warning_of_a_second_replacement_names_differences_that_change_their_sign():
    flip = np.array([5.0, 4.0, 3.0, 2.0, 1.0])

    def answer(texts):  # with a mask the first words count, without it the last ones
        rows = []
        for text in texts:
            parts = text.split()
            masked = "MASK" in parts
            weights = flip if masked else flip[::-1]
            target = {f"w{j}" for j in range(5)} & set(parts)
            rows.append([0.0, sum(weights[int(w[1:])] for w in target)])
        return rows

    model = limelight.wrap(answer, classes=["a", "b"], scale="logit", mask="MASK")
    texts = ["w0 w1 w2 w3 w4" + " x" * k for k in range(10)]
    values = {
        "first": lambda m, t: np.arange(words(m, t), 0, -1.0),
        "last": lambda m, t: [*np.arange(5.0), *(-np.ones(words(m, t) - 5))],
    }
    judgment = judge(model, texts, values, second_replacement="delete")
    assert [m.method for m in judgment.rank_methods()] == ["first", "last"]
    assert [m.method for m in judgment.second.rank_methods()] == ["last", "first"]
    assert judgment.warnings[-1].endswith(
        "the order of the methods is last, first. Significant differences that change their sign: "
        "first and last."
    )


def test_of_explanations_of_every_class_the_judged_one_is_taken():
    def counts(texts):
        return [[t.count("w1"), t.count("w2"), 0.5 + 2 * t.count("w3")] for t in texts]

    model = limelight.wrap(counts, classes=["a", "b", "c"], scale="logit")
    texts = ["w1 w2 w3 x y", "w1 w1 w2 k"]
    stored = [e for t in texts for e in limelight.explain_classes(model, t, "loo").values()]
    judgment = judge(model, texts, {"stored": stored, "loo": "loo"}, columns=[])
    assert [text.target for text in judgment.texts] == ["c", "a"]
    for text in judgment.texts:
        assert text.reasons == {}
        assert text.areas["stored"] == pytest.approx(text.areas["loo"])


def test_stored_explanations_are_found_by_text_when_they_are_needed():
    class ByText(dict):
        looked = 0

        def get(self, text, default=None):
            self.looked += 1
            return super().get(text, default)

    stored = ByText((e.text, e) for e in limelight.explain(MODEL, TEXTS, "loo"))
    judgment = judge(MODEL, TEXTS[:3], {"run": stored, "loo": "loo"})
    assert stored.looked == 3
    for text in judgment.texts:
        assert text.areas["run"] == pytest.approx(text.areas["loo"])
    every = judge(MODEL, TEXTS[:3], [iter(limelight.explain(MODEL, TEXTS[:3], "loo")), "gxi"])
    assert [m.method for m in every.methods] == ["loo", "gxi"]


def test_an_estimate_comes_first_and_is_near_the_number_of_calls():
    request, output = [], []
    model = wrap_as_function(request)
    judge(
        model,
        TEXTS,
        ["loo", "shapley"],
        pairs=4,
        estimate=lambda e: output.append((e, sum(request))),
    )
    ((estimate, before),) = output
    assert before < 100  # a few texts were read and a few masks tried
    assert 0.4 < estimate.calls / sum(request) < 2.5
    assert estimate.seconds > 0
    assert str(Estimate.from_calls(613_482, 5_000.0)) == (
        "about 610,000 model calls, about 83 minutes"
    )
    assert str(Estimate.from_calls(7, 0.2)) == "about 7 model calls, about 1 second"
    judge(MODEL, TEXTS, ["loo"], estimate=lambda _: pytest.fail("nothing is asked here"))


def test_a_budget_ends_the_search_and_the_estimate_knows_that_it_ends_nothing_else(monkeypatch):
    monkeypatch.setattr(estimating, "measure_call_seconds", lambda _: 0.01)
    output, text = {}, " ".join(f"w{i}" for i in range(14))
    for budget in (None, 0, 1, 1e9):
        keep = output.setdefault(budget, [])
        judge(wrap_as_function(), [text], ["loo"], columns=[], budget=budget, estimate=keep.append)
    ((without,), (none,), (values,), (enough,)) = output.values()
    assert enough == without
    assert values.seconds == pytest.approx(none.seconds + 1)
    assert 0 < none.seconds < without.seconds - 1
    assert none.calls == pytest.approx(none.seconds / 0.01, abs=1)


def test_progress_never_runs_backwards_and_ends_at_the_end():
    heard = []
    judge(
        wrap_as_function(), TEXTS, ["loo"], progress=lambda done, total: heard.append((done, total))
    )
    done = [value for value, _ in heard]
    assert done == sorted(done)
    assert len(done) > len(TEXTS)  # parts of texts, too
    assert heard[-1] == (len(TEXTS), len(TEXTS))


def test_what_a_text_leaves_of_the_budget_is_for_those_that_follow(monkeypatch):
    dealt = []

    def stop_search(searched, *, seconds, curves):
        dealt.append(seconds)
        raise InputError("that is enough.")

    monkeypatch.setattr(SearchedText, "judge", stop_search)
    judge(wrap_as_function(), TEXTS[:4], ["loo"], budget=12_000)
    assert dealt == pytest.approx([3000, 4000, 6000, 12_000], rel=0.1)
    dealt.clear()
    judge(wrap_as_function(), TEXTS[:2], ["loo"], second_replacement="delete", budget=12_000)
    assert dealt == pytest.approx([3000, 3000, 6000, 6000], rel=0.1)
    dealt.clear()
    judge(wrap_as_function(), TEXTS[:1], ["loo"])
    assert dealt == [math.inf]
