"""Zero-shot pipelines as models of their labels, against the pipelines themselves."""

import re

import numpy as np
import pytest
from all_subsets import shapley_by_subsets
from tokenizers import processors
from transformers import pipeline

import limelight
from limelight import InputError

from tiny_transformers import tiny

TEXT = "A superb film, but the plot is predictable."
LABELS = ["good", "bad", "the plot"]
NAMES = {
    "last": ("contradiction", "neutral", "entailment"),
    "first": ("entailment", "neutral", "contradiction"),
    "two": ("entailment", "not_entailment"),
}


def zero_shot(names="last", **options):
    classes = NAMES.get(names, names)
    numbers = {name: i for i, name in enumerate(classes)}
    network, tokenizer = tiny("bert", labels=len(classes), id2label=dict(enumerate(classes)))
    network.config.label2id = numbers
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    tokenizer.model_max_length = 31
    return pipeline(
        "zero-shot-classification", model=network, tokenizer=tokenizer, device="cpu", **options
    )


def probabilities(classifier, texts, labels=LABELS, **options):
    """What the pipeline itself says of each text, in the order of the labels."""
    rows = []
    for text in texts:
        result = classifier(text, candidate_labels=labels, **options)
        scores = dict(zip(result["labels"], result["scores"], strict=True))
        rows.append([scores[label] for label in labels])
    return np.array(rows)


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("names", NAMES)
def test_probabilities_are_those_of_the_pipeline(names, multi_label):
    classifier = zero_shot(names)
    model = limelight.wrap(classifier, classes=LABELS, multi_label=multi_label)
    texts = [TEXT, "good", " ".join(["superb film ."] * 20)]  # the last one is cut
    expected = probabilities(classifier, texts, multi_label=multi_label)
    np.testing.assert_allclose(model.predict_proba(texts), expected, rtol=1e-5, atol=1e-6)
    assert expected.std(axis=1).min() > 0.01


def test_scores_are_those_of_all_subsets_by_the_pipeline():
    classifier = zero_shot(hypothesis_template="The film is {}.")
    model = limelight.wrap(classifier, classes=LABELS)
    text = "superb plot bad"
    e = limelight.explain(model, text, "shapley", target="bad", scale="probability")
    masks = np.array([[i >> j & 1 for j in range(3)] for i in range(8)], bool)
    output = [" ".join(np.array(text.split())[mask]) for mask in masks]
    # The pipeline refuses an empty text, so a space stands for it.
    chances = probabilities(classifier, [text or " " for text in output])[:, 1]
    np.testing.assert_allclose(e.scores, shapley_by_subsets(masks, chances), atol=1e-5)


def test_labels_and_template_may_come_with_the_pipeline():
    options = {"candidate_labels": LABELS, "hypothesis_template": "It is {}.", "multi_label": True}
    classifier = zero_shot(**options)
    model = limelight.wrap(classifier)
    assert model.classes == tuple(LABELS)
    expected = probabilities(classifier, [TEXT], multi_label=True)
    np.testing.assert_allclose(model.predict_proba([TEXT]), expected, rtol=1e-5)
    plain = limelight.wrap(zero_shot(), classes=LABELS, multi_label=True)
    named = limelight.wrap(classifier, name="mine")
    assert len({model.fingerprint, plain.fingerprint, named.fingerprint}) == 3
    assert named.fingerprint.startswith("mine ")


def test_a_text_that_is_cut_is_reported():
    model = limelight.wrap(zero_shot(), classes=LABELS)
    e = limelight.explain(model, " ".join(["superb film ."] * 20), "loo")
    assert any("the model reads" in warning for warning in e.warnings)
    assert not any("the model reads" in n for n in limelight.explain(model, TEXT, "loo").warnings)


def test_the_advice_for_a_pipeline_without_labels_works():
    with pytest.raises(InputError) as refused:
        limelight.wrap(zero_shot())
    code = re.search(r"Write (.*)\.$", str(refused.value)).group(1)
    model = eval(code, {"limelight": limelight, "pipeline": zero_shot()})
    assert limelight.explain(model, TEXT, "loo").target in ("sports", "politics")
