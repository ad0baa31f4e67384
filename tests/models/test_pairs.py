"""Pairs of texts: one document with two parts, encoded as the tokenizer encodes a pair."""

import functools
import inspect
import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import processors

import limelight
from limelight.errors import DomainError, InputError
from limelight.explainers import METHODS, usable_methods
from limelight.models.hugging_face.subwords import allocate_room
from shape_checks import no_type_checks

import known
from tiny_models import tiny_model
from tiny_transformers import LIMIT, tiny, unusual

PAIR = ("a superb film", "the film is bad")
WORDS = ("a", "superb", "film", "the", "film", "is", "bad")
MARKS = [("[CLS]", 2), ("[SEP]", 3)]
TYPED = "[CLS] $A [SEP] $B:1 [SEP]:1"  # as BERT has it
DOUBLE = "[CLS] $A [SEP] [SEP] $B [SEP]"  # as RoBERTa has it
FAMILIES = {
    "bert": TYPED,
    "electra": TYPED,
    "deberta-v2": TYPED,  # which has no table of segments, whatever the tokenizer says
    "roberta": DOUBLE,
    "distilbert": DOUBLE,
    "xlnet": TYPED,
    "gpt2": None,
}
CHEAP = {"anchors": known.CHEAP["anchors"]}


@functools.cache
def load_model(family="bert", template=None, classes=None):
    changes = {} if classes is None else {"id2label": dict(enumerate(classes))}
    network, tokenizer = unusual(family) if family == "xlnet" else tiny(family, **changes)
    template = FAMILIES[family] if template is None else template
    if template is not None:
        tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair=template, special_tokens=MARKS
        )
    types = ["token_type_ids"] if template == TYPED else []
    tokenizer.model_input_names = ["input_ids", "attention_mask", *types]
    return limelight.wrap(network, tokenizer=tokenizer)


def reference_outputs(model, pair, **options):
    """The network's own answer to a pair, one at a time, as transformers documents it."""
    if "" in pair:  # transformers takes an empty text for none; its tokenizer does not
        result = model.tokenizer.backend_tokenizer.encode(*pair)
        arguments = {
            "input_ids": torch.tensor([result.ids]),
            "token_type_ids": torch.tensor([result.type_ids]),
        }
    else:
        arguments = dict(model.tokenizer(*pair, return_tensors="pt", **options))
    if model.network.config.model_type in ("deberta-v2", "roberta", "distilbert"):
        arguments.pop("token_type_ids", None)
    with torch.no_grad():
        return model.network(**arguments).logits[0].double().numpy()


def write_pair(keep, stands):
    """PAIR with ``stands`` for the words that do not stay, or without them."""
    spelt = [word if stay else stands for word, stay in zip(WORDS, keep, strict=True)]
    return tuple(" ".join(filter(None, part)) for part in (spelt[:3], spelt[3:]))


def all_masks():
    return np.array(list(itertools.product([False, True], repeat=len(WORDS))))


STANDS = {"mask": "[MASK]", "unk": "[UNK]", "delete": ""}
ASKED = [
    ("bert", "mask"),
    ("bert", "unk"),
    ("bert", "delete"),
    ("roberta", "mask"),
    ("roberta", "delete"),
    ("distilbert", "delete"),
    ("deberta-v2", "mask"),
    ("electra", "unk"),
    ("xlnet", "mask"),
]


@pytest.mark.parametrize(("family", "replacement"), ASKED)
def test_every_mask_of_a_pair_is_answered_as_the_network_answers_that_pair(family, replacement):
    model = load_model(family)
    game = limelight.game(model, PAIR, replacement=replacement)
    assert game.features == WORDS  # "film" stands on both sides and is two features
    masks = all_masks()
    expected = [reference_outputs(model, write_pair(keep, STANDS[replacement])) for keep in masks]
    np.testing.assert_allclose(game(masks), expected, rtol=1e-4, atol=1e-5)


def test_segments_matter_to_a_network_that_has_them_and_the_comparison_can_fail():
    model = load_model()
    output = model.logits([PAIR])[0]
    ids = torch.tensor(model.tokenizer(*PAIR)["input_ids"])[None]
    untold = model.network(input_ids=ids).logits[0].detach().numpy()
    assert np.abs(output - untold).max() > 1e-3
    np.testing.assert_allclose(output, reference_outputs(model, PAIR), rtol=1e-5)


def test_pairs_without_a_separator_are_read_with_a_warning():
    model = load_model("gpt2")
    e = limelight.explain(model, PAIR, "loo")
    np.testing.assert_allclose(
        list(e.prediction.values()), reference_outputs(model, PAIR), rtol=1e-5
    )
    assert any("puts nothing between the two texts" in warning for warning in e.warnings)
    assert not any(
        "nothing between" in n for n in limelight.explain(load_model(), PAIR, "loo").warnings
    )


def typed_gradient(model, pair, target):
    """Autograd at the embedded pair, by the network's own arguments."""
    arguments = model.tokenizer(*pair, return_tensors="pt")
    points = model.network.get_input_embeddings()(arguments.pop("input_ids")).detach()
    points.requires_grad_()
    logit = model.network(inputs_embeds=points, **arguments).logits[0, target]
    (gradient,) = torch.autograd.grad(logit, points)
    return points.detach()[0].double().numpy(), gradient[0].double().numpy()


def test_gradients_of_a_pair_equal_those_of_the_network_with_segments():
    model = load_model()
    points, gradient = typed_gradient(model, PAIR, 1)
    pieces = model.read(PAIR).encoding
    at = [int(np.flatnonzero(pieces.token == j)[0]) for j in range(len(WORDS))]
    expected = {
        "gxi": (points * gradient).sum(axis=1)[at],
        "g-l1": np.abs(gradient).sum(axis=1)[at],
        "g-avg": gradient.mean(axis=1)[at],
    }
    for method, values in expected.items():
        e = limelight.explain(model, PAIR, method, target=1)
        np.testing.assert_allclose(e.scores, values, rtol=1e-4, atol=1e-6)


def test_attention_of_a_pair_equals_that_of_the_network_with_segments():
    model = load_model.__wrapped__()  # a network of its own, which is changed
    model.network.set_attn_implementation("eager")
    out = model.network(**model.tokenizer(*PAIR, return_tensors="pt"), output_attentions=True)
    row = torch.stack(out.attentions)[-1, 0].mean(dim=0)[0].detach().numpy()
    pieces = model.read(PAIR).encoding
    expected = [row[pieces.token == j].sum() for j in range(len(WORDS))]
    e = limelight.explain(model, PAIR, "alpha-avg", layer="last")
    np.testing.assert_allclose(e.scores, expected, rtol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_gives_a_pair_the_scores_of_the_same_tokens_in_one_text(method):
    """Without segments, a pair is the text in which the separator is spelt out and protected."""
    model = load_model("distilbert", template="[CLS] $A [SEP] $B [SEP]")
    text = f"{PAIR[0]} [SEP] {PAIR[1]}"
    options = {"features": "positions", "target": 1, **CHEAP.get(method, {})}
    if method not in usable_methods(model):
        with pytest.raises(
            InputError, match="needs a model with tables, such as AttentionClassifier"
        ):
            limelight.explain(model, PAIR, method, **options)
        return
    value = limelight.explain(model, text, method, protect=["[SEP]"], **options)
    two = limelight.explain(model, PAIR, method, **options)
    assert (value.features, two.features) == (WORDS, WORDS)
    assert len(value.text) == len(two.text) + len("[SEP] ")
    if method in ("owen", "zoom"):  # whose sentences are of the text, and the pair has two of them
        return
    # These draw their samples by the text, which differs here.
    noise = 7 * two.stderr if method in known.DRAWN else 1e-9
    assert (np.abs(two.scores - value.scores) <= noise + 1e-5 * np.abs(value.scores)).all()
    if method == "anchors":
        assert two.anchor == value.anchor
        return
    swapped = limelight.explain(model, PAIR[::-1], method, **options)
    assert not np.allclose(np.sort(swapped.scores), np.sort(two.scores), rtol=1e-5, atol=0)


def test_shapley_values_of_a_pair_are_those_of_all_subsets():
    model = load_model()
    values = {
        tuple(keep): reference_outputs(model, write_pair(keep, "[MASK]"))[1] for keep in all_masks()
    }
    d = len(WORDS)
    expected = np.zeros(d)
    for keep, value in values.items():
        size = sum(keep)
        for j in range(d):
            sign, other_values = (1, size - 1) if keep[j] else (-1, size)
            weight = 1 / (d * float(_choose(d - 1, other_values)))
            expected[j] += sign * weight * value
    e = limelight.explain(model, PAIR, "shapley", target=1, pairs=400)
    assert e.stderr is None  # so many orders are all subsets
    np.testing.assert_allclose(e.scores, expected, rtol=1e-3, atol=1e-5)


def _choose(n, k):
    return np.prod([(n - i) / (i + 1) for i in range(k)])


def test_one_side_of_a_pair_can_be_explained():
    model = load_model()
    e = limelight.explain(model, PAIR, "loo", side="second")
    assert e.features == WORDS[3:]
    assert e.part_names == ("second",) * 4
    assert e.settings["side"] == "second"
    full = limelight.explain(model, PAIR, "loo")
    np.testing.assert_allclose(e.scores, full.scores[3:], rtol=1e-5)
    assert limelight.game(model, PAIR, side="first").features == WORDS[:3]
    pair = limelight.explain(model, PAIR, "loo", side="second", protect=["film"])
    assert pair.features == ("the", "is", "bad")
    assert "side" not in full.settings
    with pytest.raises(InputError, match="unknown side: 'premise'"):
        limelight.explain(model, PAIR, "loo", side="premise")
    with pytest.raises(InputError, match="this is a single text"):
        limelight.explain(model, "a film", "loo", side="first")


def test_features_do_not_cross_from_one_side_to_the_other():
    model = load_model()
    sentences = limelight.explain(
        model, ("a film. bad", "good plot. bad"), "loo", features="sentences"
    )
    assert sentences.features == ("a film.", "bad", "good plot.", "bad")
    model_input = model.read(PAIR)
    groups = [0] * len(model_input.tokens)
    e = limelight.explain(model, PAIR, "loo", features=groups)
    assert e.spans == ((model_input.parts[0].span, model_input.parts[1].span),)
    tokens = limelight.explain(model, ("predictable", "predictable film"), "gxi", features="tokens")
    assert tokens.features == ("predict", "able", "predict", "able", "film")


@given(st.integers(1, 40), st.integers(1, 40), st.integers(2, 30))
def test_what_is_read_of_a_long_pair_is_what_longest_first_leaves(first, second, room):
    _, tokenizer = tiny("bert")
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair=TYPED, special_tokens=MARKS
    )
    pair = "good " * first, "bad " * second
    ids = tokenizer(*pair, truncation=True, max_length=room + 3)["input_ids"]
    remaining = [ids.count(tokenizer.convert_tokens_to_ids(word)) for word in ("good", "bad")]
    assert allocate_room(np.array([[first, second]]), room).tolist() == [remaining]


@pytest.mark.parametrize(
    "pair",
    [
        ("good plot " * 20, "bad " * 5 + "film"),
        ("bad", "film is " * 20),
        ("a " * 20 + "film", "but " * 20 + "film"),
    ],
)
def test_a_long_pair_is_cut_as_its_tokenizer_cuts_it_with_any_words_deleted(pair):
    model = load_model()
    e = limelight.explain(model, pair, "loo", replacement="delete")
    options = {"truncation": True, "max_length": LIMIT}
    np.testing.assert_allclose(
        list(e.prediction.values()), reference_outputs(model, pair, **options), rtol=1e-4
    )
    assert any("The longer text is cut first" in warning for warning in e.warnings)
    game = limelight.game(model, pair, replacement="delete")
    masks = np.vstack([~np.eye(len(game), dtype=bool), np.ones((1, len(game)), bool)])
    named = [
        (word, 0 if s == "first" else 1) for word, s in zip(e.features, e.part_names, strict=True)
    ]
    for keep, answer in zip(masks, game(masks), strict=True):
        gone = {name for name, stay in zip(named, keep, strict=True) if not stay}
        remainder = tuple(
            " ".join(word for word in text.split() if (word, side) not in gone)
            for side, text in enumerate(pair)
        )
        np.testing.assert_allclose(
            answer, reference_outputs(model, remainder, **options), rtol=1e-4, atol=1e-5
        )


def test_a_tuple_is_one_pair_and_a_list_is_several():
    model = load_model()
    value = limelight.explain(model, PAIR, "loo")
    assert value.text == "a superb film\nthe film is bad"
    assert tuple(part.span for part in value.parts) == ((0, 13), (14, 29))
    assert [value.text[slice(*part.span)] for part in value.parts] == list(PAIR)
    values = limelight.explain(model, [PAIR, ("a", "film")], "loo")
    assert values[0].spans == value.spans
    np.testing.assert_allclose(values[0].scores, value.scores, rtol=1e-4, atol=1e-5)
    assert values[1].features == ("a", "film")
    assert limelight.compare(model, PAIR, methods=["loo", "gxi"])["loo"].parts == value.parts
    assert set(limelight.explain_classes(model, PAIR, "loo")) == set(model.classes)


@pytest.mark.parametrize("wrong", [("a", "b", "c"), ("a",), ("a", 3), (), (["a"], "b")])
@pytest.mark.parametrize("verb", [limelight.explain, limelight.compare, limelight.judge])
def test_another_tuple_raises_an_error(verb, wrong):
    model, message = (
        load_model(),
        r"a tuple must be a pair of two texts, but this one has \d entries",
    )
    with no_type_checks(), pytest.raises(InputError, match=message):
        verb(model, wrong)


@pytest.mark.parametrize("verb", [limelight.explain, limelight.compare, limelight.game])
def test_a_pair_raises_an_error_for_a_model_of_single_texts(verb):
    with pytest.raises(
        InputError,
        match="a pair of texts needs a model that reads pairs of texts, but AttentionClassifier",
    ):
        verb(tiny_model(), PAIR)
    function = limelight.wrap(lambda texts: np.full((len(texts), 2), 0.5), classes=["a", "b"])
    with pytest.raises(InputError, match="wrap it with pairs=True"):
        verb(function, PAIR)


MIXED = ["a film", PAIR, "a plot"]
ODD = [PAIR, ("a", "b", "c"), PAIR]


@pytest.mark.parametrize(
    ("pairs", "arguments", "sentence"),
    [
        (
            False,
            MIXED,
            "text 1 (counting from 0): the text is a pair, but this function takes single",
        ),
        (
            True,
            [PAIR, "a film"],
            "text 1 (counting from 0): this function takes pairs. Give a tuple",
        ),
        (False, [PAIR], "the text is a pair, but this function takes single texts"),
        (
            None,
            ODD,
            "text 1 (counting from 0): a tuple must be a pair of two texts, but this one has "
            "3 entries",
        ),
        (None, ODD[1:2], "a tuple must be a pair of two texts, but this one has 3 entries"),
    ],
)
def test_the_message_names_the_text_of_another_kind(pairs, arguments, sentence):
    def odds(texts):
        return [[0.3, 0.7] for _ in texts]

    model = load_model() if pairs is None else limelight.wrap(odds, classes=["a", "b"], pairs=pairs)
    unchecked = inspect.unwrap(type(model).logits)  # types are checked while tests run
    with pytest.raises(InputError) as caught:
        unchecked(model, arguments)
    assert str(caught.value).startswith(sentence)


def test_windows_do_not_divide_pairs():
    with pytest.raises(InputError, match=r"windows are for single texts \(leave window out\)"):
        limelight.explain(load_model(), PAIR, "loo", window="auto")


@pytest.mark.parametrize(("pair", "name"), [(("", "film"), "first"), (("film", " \n"), "second")])
def test_both_texts_of_a_pair_need_words(pair, name):
    with pytest.raises(InputError, match=f"the {name} text of the pair has no words"):
        limelight.explain(load_model(), pair, "loo")
    function = limelight.wrap(overlap, classes=["apart", "alike"], pairs=True)
    with pytest.raises(InputError, match=f"the {name} text of the pair has no words"):
        limelight.explain(function, pair, "loo")


def test_a_single_text_for_a_model_of_pairs_gives_a_warning():
    def warnings(text):
        model = load_model(classes=("contradiction", "neutral", "entailment"))
        return limelight.explain(model, text, "loo").warnings

    assert any(
        "its class 'contradiction' describes a pair" in warning for warning in warnings("a film")
    )
    assert warnings(PAIR) == ()


def overlap(pairs):
    """The share of the second text's words that the first has."""
    shares = [len(set(a.split()) & set(b.split())) / max(len(b.split()), 1) for a, b in pairs]
    return np.array([[1 - share, share] for share in shares]) * 0.8 + 0.1


def test_a_function_of_pairs_gets_tuples_and_nothing_else():
    seen = []

    def heard(pairs):
        seen.extend(pairs)
        return overlap(pairs)

    model = limelight.wrap(heard, classes=["apart", "alike"], pairs=True)
    game = limelight.game(model, PAIR)
    masks = all_masks()
    chances = 1 / (1 + np.exp(-game(masks)))
    expected = overlap([write_pair(keep, "") for keep in masks])
    np.testing.assert_allclose(chances, expected, rtol=1e-9)
    assert {type(value) for value in seen} == {tuple}
    assert PAIR in seen
    with pytest.raises(InputError, match=r"this function takes pairs. Give a tuple of two texts"):
        limelight.explain(model, "a superb film")
    e = limelight.explain(model, PAIR, "loo", protect=["is"], scale="probability")
    assert [w for w in e.features if w == "film"] == ["film"] * 2
    masked = limelight.wrap(heard, classes=["apart", "alike"], pairs=True, mask="_")
    limelight.game(masked, PAIR)(~np.eye(len(WORDS), dtype=bool))
    assert ("a superb _", "the film is bad") in seen


def test_judging_pairs_names_words_with_their_side():
    judgment = limelight.judge(load_model(), [PAIR, PAIR[::-1]], ["loo", "gxi"], columns=[])
    assert judgment.texts[0].words == tuple(
        f"{word} ({'first' if i < 3 else 'second'})" for i, word in enumerate(WORDS)
    )
    heard = []

    def own(model, pair):
        heard.append(pair)
        return np.arange(len(WORDS))

    stored = {PAIR: limelight.explain(load_model(), PAIR, "loo")}
    limelight.judge(load_model(), [PAIR], {"own": own, "stored": stored}, columns=[])
    assert heard[0] == PAIR


def test_one_side_of_pairs_is_judged_by_its_own_words():
    model, full = load_model(), limelight.explain(load_model(), PAIR, "loo")
    half = limelight.explain(model, PAIR, "loo", side="second")
    other = limelight.explain(model, PAIR, "loo", side="first")
    values = {"whole": [full], "half": [half], "other": [other], "loo": "loo"}
    judgment = limelight.judge(model, [PAIR], values, side="second", target=1, columns=[])
    (text,) = judgment.texts
    assert judgment.settings["side"] == "second"
    assert text.words == tuple(f"{word} (second)" for word in WORDS[3:])
    keep = np.argsort(text.curves["whole"].words)[None, :] >= np.arange(5)[:, None]
    outputs = limelight.game(model, PAIR, side="second")(keep)
    f = outputs[:, 1] - outputs[:, 0] if len(model.classes) == 2 else outputs[:, 1]
    areas = text.areas
    assert areas["whole"] == pytest.approx(f[0] - f[1:].mean(), rel=1e-3, abs=1e-4)
    assert areas["half"] == areas["whole"] == pytest.approx(areas["loo"])
    assert "other" not in areas
    assert "side" not in limelight.judge(model, [PAIR], ["loo"], columns=[]).settings


def test_judging_a_side_of_single_texts_raises_an_error():
    with pytest.raises(
        InputError, match="side 'first' needs pairs of texts, but these are single texts"
    ):
        limelight.judge(load_model(), ["a superb film", "a film"], ["loo"], side="first")
    with pytest.raises(InputError, match="unknown side: 'third'"):
        limelight.judge(load_model(), [PAIR], ["loo"], side="third")


def test_verify_raises_an_error_for_a_pair():
    with pytest.raises((InputError, DomainError), match="needs a model that reads pairs of texts"):
        list(limelight.verify(tiny_model(), PAIR))
