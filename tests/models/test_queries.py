"""What models say something about in a text: its spans, an answer to it, or the text as a whole."""

from functools import cache

import numpy as np
import pytest
from test_answers import ANSWER, TEXT, writer

import limelight
from limelight.errors import InputError
from limelight.models.queries import expand_queries, expand_texts, join_queries, read_input
from limelight.request import Request, prepare_model
from limelight.text import AnswerQuery, QueriedText

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
WORDS = "Anna met Bob in Rome."


class Names:
    """Finds words with a capital letter, and counts how often it is called for their spans."""

    def __init__(self):
        self.found = 0

    def __call__(self, texts):
        self.found += 1
        return [
            [
                (text.index(word), text.index(word) + len(word), "NAME", 0.8)
                for word in dict.fromkeys(text.replace(".", " ").split())
                if word[0].isupper()
            ]
            for text in texts
        ]


def tagger():
    return limelight.wrap(Names(), tags=["NAME"])


@cache
def classifier():
    def score(texts):
        return np.array([[len(text) % 7 / 7, 1 - len(text) % 7 / 7] for text in texts])

    return limelight.wrap(score, classes=["a", "b"])


def queried_words(expanded):
    return [WORDS[place.start : place.end] for value in expanded for place in value.queries]


def test_a_classifier_has_one_empty_query():
    assert expand_queries(classifier(), WORDS) == [QueriedText(WORDS)]
    assert list(expand_texts(classifier(), [WORDS, ""])) == [[WORDS], [""]]


def test_a_tagger_has_a_query_for_each_span_or_the_one_that_is_named():
    model = tagger()
    assert queried_words(expand_queries(model, WORDS)) == ["Anna", "Bob", "Rome"]
    assert queried_words(expand_queries(model, QueriedText(WORDS, selector=1))) == ["Bob"]
    assert queried_words(expand_queries(model, QueriedText(WORDS, selector="met"))) == ["met"]
    assert expand_queries(model, "nobody is here") == []


def test_queries_that_a_text_brings_along_are_not_looked_for():
    model = tagger()
    joint = join_queries(expand_queries(model, WORDS))
    calls = model.function.found
    assert queried_words(expand_queries(model, joint)) == ["Anna", "Bob", "Rome"]
    assert len(read_input(model, joint).queries) == 3
    assert model.function.found == calls


def test_a_text_is_read_with_a_single_query():
    with pytest.raises(InputError, match="the model finds 3 spans here"):
        read_input(tagger(), WORDS)
    with pytest.raises(InputError, match="the model finds no span in this text"):
        read_input(tagger(), "nobody is here")
    assert len(read_input(tagger(), "then Anna left").queries) == 1


def test_a_language_model_has_the_answer_that_is_given_or_generated_or_its_sentences():
    model = writer()
    (arguments,) = expand_queries(model, QueriedText(TEXT, selector=ANSWER))
    assert arguments.queries == (AnswerQuery(ANSWER),)
    (generated,) = expand_queries(model, TEXT)
    assert generated.queries[0].is_generated
    selected = QueriedText(TEXT, selector="Good film. The plot.")
    sentences = expand_queries(model, selected, by_sentence=True)
    assert [sentence.queries[0].part for sentence in sentences] == ["Good film.", "The plot."]
    assert expand_queries(model, TEXT, generate=False) == [QueriedText(TEXT)]


def test_an_unreadable_text_stays_and_texts_without_any_query_raise_an_error():
    model = tagger()
    *rows, last = expand_texts(model, [WORDS, "", "nobody"])
    assert [len(row) for row in rows] == [3, 1]
    assert rows[1] == [""]
    assert last == []
    with pytest.raises(InputError, match="no span in these texts"):
        list(expand_texts(model, ["nobody", "no one"]))


@pytest.mark.parametrize(
    "call",
    [
        lambda model: limelight.explain(model, WORDS, "loo", at=0),
        lambda model: limelight.compare(model, WORDS, methods=["loo", "shapley"], at=0),
        lambda model: limelight.explain_spans(model, WORDS, "loo"),
        lambda model: limelight.judge(model, [WORDS], ["loo"], columns=[]),
        lambda model: limelight.predict(model, WORDS),
    ],
)
def test_each_input_is_expanded_once(call, monkeypatch):
    model, seen = tagger(), []
    inside = type(model).spans

    def spans(self, text, **options):
        seen.append(text)
        return inside(self, text, **options)

    monkeypatch.setattr(type(model), "spans", spans)
    call(model)
    assert seen == [WORDS]


def test_a_model_is_prepared_for_a_question_and_the_question_for_the_model():
    model, request = prepare_model(classifier(), Request())
    assert model is classifier()
    assert (request.features, request.scale) == ("words", "logit")
    again = prepare_model(model, request)
    assert again[0] is model
    assert again[1] is request
    _, request = prepare_model(writer(), Request())
    assert (request.features, request.scale) == ("auto", "score")  # depends on the input


def test_answers_of_a_list_go_to_their_texts_and_a_text_keeps_its_own():
    own_value = QueriedText("b", (AnswerQuery("no"),))
    first, second = Request(answer=["yes", None]).attach_queries(["a", own_value])
    assert first == QueriedText("a", selector="yes")
    assert second == own_value
    with pytest.raises(InputError, match="not 1 answer for 2 texts"):
        Request(answer=["yes"]).attach_queries(["a", "b"])
    texts = ["a", "b"]
    assert Request().attach_queries(texts) is texts
