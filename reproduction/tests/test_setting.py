"""Where the data of a run may lie, and that they are read once."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

import limelight
from limelight import InputError
from limelight.text import token_strings
from limelight_reproduction import setting as module
from limelight_reproduction.document import OPENING, TOKENS, WORDS, keep_letters_and_digits
from limelight_reproduction.setting import Setting

ROWS = [{"text": f"w{i} w{i + 1}", "label": i % 2} for i in range(6)]


def make_setting(data, **changes):
    return Setting(data=data, models=data / "models", **changes)


def write(path, rows=ROWS):
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "\n".join(map(json.dumps, rows)) + "\n"
    if path.suffix == ".parquet":
        pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(lines.encode()))
    elif path.suffix == ".csv":
        path.write_text("text,label\n" + "".join(f"{r['text']},{r['label']}\n" for r in rows))
    else:
        path.write_text(lines)


def archive(home, *, parts=("train", "test")):
    for part in parts:
        for label in ("neg", "pos"):
            place = home / "aclImdb" / part / label
            place.mkdir(parents=True)
            (place / "0_1.txt").write_text(f"a {part} {label} review", "utf-8")


# --------------------------------------------------------------- where they lie


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("imdb", "imdb/test.parquet"),
        ("imdb", "imdb/test.csv"),
        ("imdb", "test.jsonl.gz"),
        ("imdb", "test.parquet"),
        ("sst2", "sst2/test.jsonl"),
        ("ag_news", "ag_news/test_500.jsonl"),
        ("ag_news", "ag_news/test_10k.parquet"),
    ],
)
def test_files_are_found_in_the_folder_of_the_data_set_or_for_imdb_beside_it(tmp_path, name, file):
    write(tmp_path / file)
    texts = make_setting(tmp_path).texts(name, "test")
    assert list(texts.texts) == [row["text"] for row in ROWS]
    assert texts.labels.tolist() == [row["label"] for row in ROWS]
    assert texts.classes == module.CLASSES[name]


@pytest.mark.parametrize("under", [".", "imdb"])
def test_the_archive_is_read_as_limelight_data_leaves_it(tmp_path, under):
    archive(tmp_path / under)
    setting = make_setting(tmp_path)
    for part in ("train", "test"):
        texts = setting.texts("imdb", part)
        assert list(texts.texts) == [f"a {part} neg review", f"a {part} pos review"]
        assert texts.labels.tolist() == [0, 1]


def test_the_archive_itself_may_be_the_data_folder(tmp_path):
    archive(tmp_path)
    texts = make_setting(tmp_path / "aclImdb").texts("imdb", "test")
    assert texts.texts[0] == "a test neg review"


@pytest.mark.parametrize(
    "other", ["test-labels.csv", "test_rationales.csv", "testing.csv", "test.old.csv", "test_1.txt"]
)
def test_a_file_of_another_name_is_not_taken_for_the_data(tmp_path, other):
    write(tmp_path / "imdb" / other, [{"text": "wrong", "label": 0}])
    with pytest.raises(InputError, match="the test texts of imdb are not in"):
        make_setting(tmp_path).texts("imdb", "test")
    write(tmp_path / "imdb" / "test.jsonl")
    assert len(make_setting(tmp_path).texts("imdb", "test")) == len(ROWS)


def test_the_whole_set_has_priority_and_two_subsets_raise_an_error(tmp_path):
    for size in ("5k", "10k"):
        write(tmp_path / "ag_news" / f"train_{size}.jsonl", ROWS[:2])
    with pytest.raises(InputError) as caught:
        make_setting(tmp_path).texts("ag_news", "train")
    assert str(caught.value) == (
        f"'{tmp_path / 'ag_news'}' has several subsets (train_10k.jsonl, train_5k.jsonl) "
        "and no train file. Leave one."
    )
    write(tmp_path / "ag_news" / "train.jsonl")
    assert len(make_setting(tmp_path).texts("ag_news", "train")) == len(ROWS)


@pytest.mark.parametrize(
    ("name", "more"), [("imdb", ", or aclImdb"), ("sst2", ""), ("ag_news", "")]
)
def test_missing_data_raise_an_error(tmp_path, name, more):
    write(tmp_path / "train.jsonl")  # not the test set, and not in the folder of another set
    with pytest.raises(InputError) as caught:
        make_setting(tmp_path).texts(name, "test")
    assert str(caught.value) == (
        f"the test texts of {name} are not in '{tmp_path}'. Add {name}/test.parquet (or "
        f".csv, .jsonl){more}."
    )


def test_an_archive_without_test_reviews_is_no_test_set(tmp_path):
    archive(tmp_path, parts=("train",))
    assert len(make_setting(tmp_path).texts("imdb", "train")) == 2
    with pytest.raises(InputError, match="the test texts of imdb are not in"):
        make_setting(tmp_path).texts("imdb", "test")


# ----------------------------------------------------------------- reading them


def test_texts_are_read_once(tmp_path, monkeypatch):
    write(tmp_path / "imdb" / "test.jsonl")
    read, calls = module.read_labeled, []

    def count_read(path, *args, **kwargs):
        calls.append(path.name)
        return read(path, *args, **kwargs)

    monkeypatch.setattr(module, "read_labeled", count_read)
    setting = make_setting(tmp_path)
    full = setting.texts("imdb", "test")
    setting.sample_texts("imdb", "test", 3)
    assert setting.texts("imdb", "test") is full
    assert calls == ["test.jsonl"]


def test_some_texts_are_drawn_with_the_seed_and_keep_their_labels(tmp_path):
    rows = [{"text": f"w{i}", "label": i % 2} for i in range(50)]
    write(tmp_path / "test.jsonl", rows)
    samples = [
        make_setting(tmp_path, seed=seed).sample_texts("imdb", "test", 20) for seed in (3, 3, 4)
    ]
    assert samples[0].texts == samples[1].texts != samples[2].texts
    assert len(set(samples[0].texts)) == 20
    label = {row["text"]: row["label"] for row in rows}
    for values in samples:
        assert [label[text] for text in values.texts] == values.labels.tolist()
    fewer = make_setting(tmp_path, seed=3).sample_texts("imdb", "test", 5)
    assert fewer.texts == samples[0].texts[:5]
    assert len(make_setting(tmp_path).sample_texts("imdb", "test", 1000)) == 50


def test_inputs_are_recorded_at_every_use(tmp_path, toy_model):
    limelight.save_folder(toy_model(), tmp_path / "model")
    write(tmp_path / "test.jsonl", [{"text": OPENING, "label": 0}])
    setting = make_setting(tmp_path, paper_model=tmp_path / "model")
    for ask, names in (
        (lambda: setting.review, {"imdb test"}),
        (lambda: setting.sample_texts("imdb", "test", 1), {"imdb test"}),
        (lambda: setting.recipe_model, {"paper model"}),
        (lambda: setting.shipped_model, {"shipped model"}),
    ):
        for _ in range(2):  # what is held already is noted like what is read now
            setting.used.clear()
            ask()
            assert setting.used == names
    assert setting.fingerprint("paper model") == toy_model().fingerprint
    assert setting.fingerprint("imdb test") == setting.texts("imdb", "test").digest


def test_a_negative_seed_raises_an_error():
    with pytest.raises(InputError, match=r"^seed must be at least 0, not -1\.$"):
        make_setting(Path(), seed=-1)


# -------------------------------------------------------------- the paper's model


def test_another_kind_of_model_is_not_taken_for_the_papers(tmp_path, monkeypatch):
    other = limelight.wrap(lambda texts: [[0.5, 0.5]] * len(texts), classes=["a", "b"])
    monkeypatch.setattr(module, "load", lambda _: other)
    with pytest.raises(InputError) as caught:
        _ = make_setting(tmp_path, paper_model=tmp_path).recipe_model
    assert str(caught.value) == (
        f"the model in '{tmp_path}' is not an AttentionClassifier of the paper. Train one "
        "with `limelight train --recipe paper`."
    )


def test_the_papers_model_is_the_one_in_the_folder(tmp_path, toy_model):
    model = toy_model()
    limelight.save_folder(model, tmp_path / "model")
    result = make_setting(tmp_path, paper_model=tmp_path / "model").recipe_model
    assert result.fingerprint == model.fingerprint


@pytest.mark.parametrize("classes", [("0", "1"), ("negative", "positive")])
def test_a_model_of_numbered_classes_speaks_of_sentiment(tmp_path, toy_model, classes):
    limelight.save_folder(replace(toy_model(), classes=classes), tmp_path / "model")
    result = make_setting(tmp_path, paper_model=tmp_path / "model").recipe_model
    assert result.classes == ("negative", "positive")


def test_a_model_of_other_classes_raises_an_error(tmp_path, toy_model):
    limelight.save_folder(replace(toy_model(), classes=("ham", "spam")), tmp_path / "model")
    with pytest.raises(InputError) as caught:
        _ = make_setting(tmp_path, paper_model=tmp_path / "model").recipe_model
    assert str(caught.value) == (
        "the paper's model must have IMDB's classes, negative and positive (or 0 and 1), "
        f"but '{tmp_path / 'model'}' has ham, spam."
    )


def test_without_a_folder_the_papers_model_is_the_one_that_is_carried(tmp_path):
    model = make_setting(tmp_path).recipe_model
    sizes = {"d_e": 128, "K": 6, "d_att": 64, "d_out": 64, "C": 2, "T_max": 256}
    assert sizes.items() <= model.sizes.items()
    training = model.record["training"]
    assert (training["recipe"], training["changed"], training["seed"]) == ("paper", {}, 3)


# ------------------------------------------------------------------ the document


def test_texts_are_stripped_as_the_authors_strip_them():
    assert keep_letters_and_digits("It's <br />fine, 7/10!") == "It s br fine 7 10"


def test_the_review_is_found_by_its_words_wherever_it_stands(tmp_path):
    rows = [*ROWS, {"text": OPENING + ", giving it such grades.", "label": 0}]
    write(tmp_path / "test.jsonl", rows)
    setting = make_setting(tmp_path)
    assert setting.review.number == len(ROWS)
    assert setting.review.text.startswith("I find it amazing that so many people probably Poles")
    assert setting.review is setting.review


def test_data_without_the_review_say_what_they_lack(tmp_path):
    write(tmp_path / "test.jsonl")
    with pytest.raises(InputError, match=r"^no test review begins with “I find it amazing, that"):
        _ = make_setting(tmp_path).review


def test_the_review_of_imdb_has_the_size_that_the_paper_gives(shared):
    review = make_setting(shared / "data").review
    strings = token_strings(review.text)
    assert (review.number, len(strings), len(set(strings))) == (9657, TOKENS, WORDS)
