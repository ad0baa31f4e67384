"""Labels of data meet the classes of a model by name, and nothing is guessed about numbers."""

import json

import numpy as np
import pyarrow as pa
import pytest

import limelight
from limelight.cli import main
from limelight.data import LabeledTexts, read_labeled, wilson_interval
from limelight.data.labels import ClassLabels, below_chance_warning, label_classes
from limelight.errors import InputError

NEWS = ["World", "Sports", "Business", "Sci/Tech"]  # in the order of the numbers of AG News
CLASSES = sorted(NEWS)
TEXTS = [f"about {NEWS[i % 4].lower()} today" for i in range(60)]
NUMBERS = [i % 4 for i in range(60)]


@pytest.fixture
def model():
    def score(texts):
        return [[5.0 * (name.lower() in text) for name in CLASSES] for text in texts]

    return limelight.wrap(score, classes=CLASSES, scale="logit")


@pytest.mark.parametrize(
    ("classes", "label", "number"),
    [
        (CLASSES, "World", 3),
        (CLASSES, " sci/tech ", 1),
        (CLASSES, 0, None),
        (CLASSES, "0", None),
        (CLASSES, None, None),
        (("pos", "Pos"), "Pos", 1),
        (("pos", "Pos"), "POS", None),
        (("negative", "positive"), "pos", None),
        (("negative", "positive"), True, None),
        (("1", "0"), 0, 1),
        (("1", "0"), "1.0", 0),
        (("1", "0"), np.int64(1), 0),
        (("0", "1"), True, 1),
        (("LABEL_1", "LABEL_0"), 0, 1),
        (("LABEL_1", "LABEL_0"), 0.0, 1),
        (("LABEL_0", "LABEL_1"), "2", None),
        (("x #0", "x #2"), 0, None),
    ],
)
def test_a_label_is_a_class_by_its_name_or_not_at_all(classes, label, number):
    assert ClassLabels(classes).number(label) == number


@pytest.mark.parametrize(
    "label_map",
    [
        NEWS,
        "World, Sports,Business,Sci/Tech",
        dict(enumerate(NEWS)),
        "0=world,1=sports,2=business,3=sci/tech",
    ],
)
def test_the_labels_of_the_user_come_before_the_names(label_map):
    named = ClassLabels(CLASSES, label_map)
    assert [CLASSES[named.number(i)] for i in range(4)] == NEWS
    assert named.number("3.0") == CLASSES.index("Sci/Tech")
    assert named.number("Business") == 0  # names stay names
    assert named.describe_unmatched([0, 1, "World"]) is None
    with pytest.raises(InputError, match=r"unknown class: 'Worlds'\. Did you mean 'World'\?"):
        ClassLabels(CLASSES, ["Worlds"])


def test_labels_that_become_one_class_bring_a_warning(model):
    data = {"text": TEXTS, "label": [NEWS[i].lower()[:1] + str(i) for i in NUMBERS]}
    separate_labels = {"w0": "World", "s1": "Sports", "b2": "Business", "s3": "Sci/Tech"}
    assert not limelight.evaluate(model, data, labels=separate_labels).warnings
    judgment = limelight.evaluate(model, data, labels=separate_labels | {"s3": "sports"})
    message = "labels (--labels) merges the labels 's1', 's3' into one class, 'Sports'."
    assert judgment.warnings == (message,)
    labeled = read_labeled(data, labels=separate_labels | {"s3": "Sports"})
    assert labeled.warnings == (message,)


def test_classes_that_are_exchanged_are_exchanged_once(model):
    swapped = {"World": "Sports", "Sports": "World"}
    data = {"text": ["about world today", "about sports today"], "label": ["Sports", "World"]}
    assert limelight.evaluate(model, data, labels=swapped).accuracy == 1.0


def test_labels_without_a_class_are_listed_with_the_classes():
    message = ClassLabels(("negative", "positive")).describe_unmatched(
        ["pos", "neg", "positive", None]
    )
    assert message == (
        "the labels 'neg', 'pos' match no class of the model ('negative', 'positive'). Set labels "
        "(--labels) to LABEL=CLASS for each label, separated by commas."
    )
    assert "'0', '2', '10' match" in ClassLabels(CLASSES).describe_unmatched([10, 2, 0])
    assert "and 12 others match" in ClassLabels(CLASSES).describe_unmatched(range(20))


def test_below_chance_takes_more_than_bad_luck():
    assert below_chance_warning(0, 3, 2) is None
    assert below_chance_warning(13, 1000, 4) == (
        "The accuracy on 1,000 texts is 1.3%, which is below chance (25.0%). Check which class "
        "each label means, and set labels (--labels)."
    )
    assert below_chance_warning(250, 1000, 4) is None
    assert below_chance_warning(0, 0, 4) is None


def test_no_function_reads_a_number_as_the_position_of_a_class(model, tmp_path):
    data = {"text": TEXTS, "label": NUMBERS}
    for numbered in (data, read_labeled(data), LabeledTexts(TEXTS, np.array(NUMBERS))):
        with pytest.raises(InputError, match=r"the labels '0', '1', '2', '3' match no class"):
            limelight.evaluate(model, numbered)
        assert limelight.evaluate(model, numbered, labels=NEWS).accuracy == 1
    turned = limelight.evaluate(model, data, labels=CLASSES)
    assert any("below chance (25.0%). Check" in warning for warning in turned.warnings)
    named = read_labeled(data, labels=NEWS)
    assert named.classes == tuple(NEWS)
    assert limelight.evaluate(model, named).accuracy == 1  # in another order than the model's

    heard = []
    run = limelight.explain_data(model, data, "loo", output=tmp_path / "run", progress=heard.append)
    assert any(warning.warning and "match no class" in warning.warning for warning in heard)
    judgment = run.summary()
    assert [view["right"] for view in judgment.views.records()] == [None] * 4
    assert "'3' match no class of the model ('Business', " in judgment.warnings[0]
    summary = limelight.Run(run.path, labels=NEWS).summary()
    assert summary.warnings == ()
    assert sum(view["right"] for view in summary.views.records()) == 60
    (warning,) = limelight.Run(run.path, labels=CLASSES).summary().warnings
    assert "The accuracy on 60 texts is 0.0%" in warning
    again = limelight.explain_data(model, data, "loo", output=tmp_path / "said", labels=NEWS)
    assert again.texts()["label"].to_pylist()[:4] == NEWS
    assert again.summary().warnings == ()
    with pytest.raises(InputError, match="its map of labels is"):
        limelight.explain_data(model, data, "loo", output=tmp_path / "said")
    with pytest.raises(
        InputError, match=r"needs a column of labels, and the data have none\. .*label_column"
    ):
        limelight.explain_data(model, TEXTS, "loo", output=tmp_path / "none", labels=NEWS)


def test_labels_in_capital_letters_are_the_same_classes(model):
    words = {"text": TEXTS, "label": [NEWS[i].upper() for i in NUMBERS]}
    assert limelight.evaluate(model, words).accuracy == 1


def test_labels_of_several_files_and_kinds_are_spelled_alike():
    assert label_classes({1: "a", "2.0": " b "}) == {"1": "a", "2": "b"}
    assert label_classes(None) == {}


def test_labels_of_judged_data_are_compared_with_the_classes(model, tmp_path, capsys):
    """A judgment needs no labels, but labels that do not fit bring a warning."""
    data = {"text": TEXTS, "label": NUMBERS}

    def label_warnings(labels=None, **changed):
        judgment = limelight.judge(model, data | changed, ["loo"], columns=[], labels=labels)
        return [warning for warning in judgment.warnings if "label" in warning]

    (warning,) = label_warnings()
    assert warning == (
        "The labels '0', '1', '2', '3' match no class of the model ('Business', 'Sci/Tech', "
        "'Sports', 'World'). Set labels (--labels) to the classes in the order of the numbers, "
        "such as Business,Sci/Tech,…."
    )
    assert label_warnings(NEWS) == label_warnings(label=[NEWS[i] for i in NUMBERS]) == []
    (warning,) = label_warnings(CLASSES)
    assert "The accuracy on 60 texts is 0.0%" in warning
    merged = dict(enumerate(NEWS)) | {4: "World"}
    assert label_warnings(merged)[0].endswith("one class, 'World'.")
    # Whichever class is judged, the one that is predicted is compared.
    judgment = limelight.judge(model, data, ["loo"], columns=[], labels=NEWS, target="World")
    assert not any("label" in warning for warning in judgment.warnings)
    with pytest.raises(InputError, match=r"does not apply, because these texts have no labels\."):
        limelight.judge(model, TEXTS, ["loo"], labels=NEWS)


@pytest.mark.parametrize("marked", ["", ",marks"])
def test_the_command_judge_reads_labels_too(tmp_path, capsys, marked):
    rows = [("a good film", "pos"), ("a bad film", "neg")] * 3
    marks = ',"[[0, 1]]"' if marked else ""
    lines = [f"{text},{label}{marks}" for text, label in rows]
    (tmp_path / "x.csv").write_text("\n".join([f"text,sentiment{marked}", *lines]))
    command = ["judge", "-d", str(tmp_path / "x.csv"), "-m", "gxi", "--format", "json"]
    command += ["--rationales", "marks"] if marked else []
    for more, matched in (["--labels", "neg=negative,pos=positive"], True), ([], False):
        with pytest.raises(SystemExit) as ended:
            main([*command, "--label-column", "sentiment", *more])
        assert ended.value.code == 0
        warnings = json.loads(capsys.readouterr().out)["warnings"]
        assert any("'neg', 'pos' match no class" in warning for warning in warnings) == (
            not matched
        )


def test_a_model_of_one_output_has_no_classes_to_match(tmp_path):
    stars = limelight.wrap(
        lambda texts: [[float(len(t))] for t in texts], classes=["stars"], scale="score"
    )
    data = {"text": ["a film", "a good film"], "label": [1.5, 4.0]}
    run = limelight.explain_data(stars, data, "loo", output=tmp_path / "run")
    assert run.summary().warnings == ()
    assert not any(
        "--labels" in warning for warning in limelight.judge(stars, data, ["loo"]).warnings
    )
    with pytest.raises(
        InputError, match="evaluate needs a classifier, and this model has a single output or"
    ):
        limelight.evaluate(stars, data)


def test_a_classifier_without_probabilities_is_evaluated_by_its_largest_output(model):
    scores = limelight.wrap(
        lambda texts: [[-3.0 + ("good" in t), -2.5] for t in texts],
        classes=["yes", "no"],
        scale="score",
    )
    data = {"text": ["good", "bad", "so so"], "label": ["yes", "no", "yes"]}
    assert limelight.evaluate(scores, data).confusion.tolist() == [[1, 1], [0, 1]]


@pytest.mark.parametrize("kind", ["list", "arrow", "numpy"])
@pytest.mark.parametrize(
    ("classes", "right"), [(["False", "True"], 2), (["0", "1"], 2), (["no", "yes"], None)]
)
def test_labels_that_are_true_or_false_are_so_in_every_table(tmp_path, kind, classes, right):
    model = limelight.wrap(lambda texts: [[0.9 - 0.8 * ("g" in t)] for t in texts], classes=classes)
    table = {"text": ["good", "bad"], "label": [True, False]}
    tables = {
        "list": table,
        "arrow": pa.table(table),
        "numpy": {name: np.array(values) for name, values in table.items()},
    }[kind]
    run = limelight.explain_data(model, tables, "loo", output=tmp_path / "run", progress=False)
    (view,) = run.summary().views.records()
    if right is None:
        with pytest.raises(InputError, match="match no class of the model"):
            limelight.evaluate(model, tables)
        assert view["right"] is None
        assert limelight.evaluate(model, tables, labels=["yes", "no"]).accuracy == 1
    else:
        assert limelight.evaluate(model, tables).accuracy == 0
        assert view["right"] == 0


def test_the_interval_solves_its_equation():
    """Oracle: at its ends the observed share is z standard errors away."""
    z = 1.959963984540054
    for right, total in ((0, 7), (3, 7), (7, 7), (21_700, 25_000)):
        low, high = wilson_interval(right, total)
        assert low - 1e-12 < right / total < high + 1e-12
        assert low < high
        for end in (low, high):
            distance = abs(right / total - end)
            assert distance == pytest.approx(z * np.sqrt(end * (1 - end) / total), abs=1e-7)


def test_the_interval_reaches_the_end_where_nothing_else_was_seen():
    for total in (1, 7, 10, 37, 25_000):
        assert wilson_interval(0, total)[0] == 0.0
        assert wilson_interval(total, total)[1] == 1.0
        assert 0 < wilson_interval(0, total)[1] < 1
