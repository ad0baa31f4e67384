"""Every recipe of the documentation runs as it is written, and its scores are right."""

import contextlib
import importlib.util
import json
import math
import os
import re
import shutil
import subprocess
import sys
import threading
import types
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import limelight

from tiny_models import update_digests

HOW_TO = Path(__file__).resolve().parents[1] / "docs" / "how-to"
PAGES = [HOW_TO / "other-models.md", HOW_TO / "tracking.md"]
MOST = 20  # lines of a recipe
TEXT = "a superb film but the plot is bad ."


def recipes():
    pattern = re.compile(r"^## (.*?)$(.*?)(?=^## |\Z)", re.M | re.S)
    sections = [section for page in PAGES for section in pattern.findall(page.read_text("utf-8"))]
    return {
        title: re.findall(r"^```(?:py|yaml)\n(.*?)^```", body, re.M | re.S)
        for title, body in sections
    }


def run(title, **names):
    """Run the recipe with what it is said to have; return what it made."""
    block = recipes()[title][-1]  # a shorter way may stand before it
    created = {"limelight": limelight, "text": TEXT, **names}
    exec(compile(block, title, "exec"), created)
    return created


@pytest.mark.parametrize("title", recipes())
def test_a_recipe_is_short(title):
    """Blank lines and imports do not count."""
    for block in recipes()[title]:
        lines = [line for line in block.splitlines() if line.strip()]
        lines = [line for line in lines if not line.startswith(("import ", "from "))]
        assert len(lines) <= MOST


def test_every_recipe_is_tested():
    tests = [name for name in globals() if name.startswith("test_the_recipe")]
    assert len(tests) == len(recipes())


class Oracle(BaseHTTPRequestHandler):
    """A chat server that likes "superb" by 3 and "film" by 1 and dislikes "bad" by 2."""

    likes: ClassVar = {"superb": 3.0, "film": 1.0, "bad": -2.0}
    asked: ClassVar = []

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        content = body["messages"][0]["content"].split("\n\n")[1]
        odds = sum(self.likes.get(word, 0.0) for word in set(content.split()))
        self.asked.append((self.path, self.headers["Authorization"], body))
        good, bad = (math.log(0.8 / (1 + math.exp(-sign * odds))) for sign in (1, -1))
        # A word in two spellings has the chance of both, and how they share it may depend on the
        # text; the rarer spelling comes later.
        share = 0.9 if "plot" in content else 0.6
        spelt = [("Good", math.log(share)), ("good", math.log(1 - share))]
        top = [(" bad", bad), *((token, good + part) for token, part in spelt)]
        top += [("Well", math.log(0.05)), ("never", -9999.0)]
        listed = [{"token": token, "logprob": p} for token, p in top]
        choice = {"logprobs": {"content": [{**listed[0], "top_logprobs": listed}]}}
        message = json.dumps({"choices": [choice]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(message)))
        self.end_headers()
        self.wfile.write(message)

    def log_message(self, *_):
        """Be quiet."""


@pytest.fixture
def server():
    Oracle.asked.clear()
    serving = ThreadingHTTPServer(("127.0.0.1", 0), Oracle)
    thread = threading.Thread(target=serving.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{serving.server_port}"
    serving.shutdown()
    serving.server_close()
    thread.join()


def test_the_recipe_of_an_endpoint_asks_for_log_probabilities(server):
    process = run("A language model behind an endpoint", URL=server, KEY="secret")
    scores = dict(zip(process["explanation"].features, process["explanation"].scores, strict=True))
    for word, score in scores.items():  # the log-odds add up, so Shapley values are their parts
        assert score == pytest.approx(Oracle.likes.get(word, 0.0), abs=1e-6)
    path, key, body = Oracle.asked[0]
    assert (path, key) == ("/v1/chat/completions", "Bearer secret")
    assert (body["logprobs"], body["max_tokens"]) == (True, 1)
    assert len(Oracle.asked) <= 200


@pytest.fixture
def encoder():
    """A random BERT with a tokenizer of a dozen words."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    from models.tiny_transformers import word_pieces

    torch.manual_seed(0)
    tokenizer = word_pieces()
    size = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3}
    config = transformers.BertConfig(
        vocab_size=len(tokenizer), intermediate_size=17, initializer_range=0.7, **size
    )
    encoder = transformers.BertModel(config).eval()
    return {"torch": torch, "tokenizer": tokenizer, "encoder": encoder}


def embedded_alone(encoder, text):
    """Oracle: the mean of the last states of one text, without padding."""
    torch = encoder["torch"]
    batch = encoder["tokenizer"](text, return_tensors="pt")
    with torch.inference_mode():
        mean = encoder["encoder"](**batch).last_hidden_state[0].mean(dim=0).double().numpy()
    return mean / np.linalg.norm(mean)


def test_the_recipe_of_a_similarity_is_a_cosine(encoder):
    process = run("Similarity to a query", **encoder)
    query = embedded_alone(encoder, "a superb film")
    texts = [TEXT, "a superb film", "bad plot ."]
    wanted = [[embedded_alone(encoder, text) @ query] for text in texts]
    np.testing.assert_allclose(process["model"].logits(texts), wanted, rtol=1e-5)
    assert wanted[1] == pytest.approx([1.0])
    assert process["explanation"].scale == "score"
    assert process["explanation"].scores.sum() == pytest.approx(
        wanted[0][0] - process["explanation"].base_value, abs=1e-5
    )


def test_the_recipe_of_a_head_is_its_probability(encoder):
    process = run("Similarity to a query", **encoder)
    texts = ["a superb film", "good film .", "bad plot", "the plot is bad ."]
    trained = run(
        "An embedding with a head (SetFit)",
        embed=process["embed"],
        texts=texts,
        labels=[1, 1, 0, 0],
    )
    head = trained["head"]
    odds = [head.decision_function([embedded_alone(encoder, text)])[0] for text in texts]
    np.testing.assert_allclose(
        np.diff(np.log(trained["model"].predict_proba(texts)), axis=1)[:, 0],
        odds,
        rtol=1e-4,
        atol=1e-6,
    )
    assert trained["explanation"].classes == ("negative", "positive")


class FastText:
    """What fastText's own model shows; its output is the softmax of a matrix times the mean."""

    words = ("good", "bad", "film", "</s>")
    table = np.random.default_rng(0).normal(size=(4, 3))
    head = np.random.default_rng(1).normal(size=(2, 3))

    def get_words(self):
        return list(self.words)

    def get_word_vector(self, word):
        return self.table[self.words.index(word)]

    def get_output_matrix(self):
        return self.head

    def get_labels(self):
        return ["__label__no", "__label__yes"]


def test_the_recipe_of_a_mean_of_vectors_is_its_network():
    network = FastText()
    process = run("The mean of word vectors (fastText, static embeddings)", network=network,
               text="good film unknown film")  # fmt: skip
    read = [0, 2, 2, 3]
    expected = network.head @ network.table[read].mean(axis=0)
    np.testing.assert_allclose(process["model"].logits(["good film unknown film"])[0], expected)
    assert process["explanation"].bound is None
    assert process["explanation"].target == "yes"


def test_the_recipe_of_an_onnx_folder_is_its_network(encoder, tmp_path):
    onnx = pytest.importorskip("onnx", reason="the recipe needs onnx, to write a folder for it")
    pytest.importorskip("onnxruntime", reason="the recipe needs onnxruntime")
    tokenizer, rng = encoder["tokenizer"], np.random.default_rng(0)
    table = rng.standard_normal((len(tokenizer), 2)).astype(np.float32)
    write_onnx(onnx, table, tmp_path / "model.onnx")
    process = run("An ONNX folder", folder=tmp_path, tokenizer=tokenizer)
    for text in (TEXT, "a film"):
        wanted = table[tokenizer(text)["input_ids"]].sum(axis=0)
        np.testing.assert_allclose(process["model"].logits([text])[0], wanted, rtol=1e-5)
    # Words that become [MASK] change a sum by what the two rows of the table differ by.
    mask = table[tokenizer.mask_token_id, 1]
    for word, score in zip(
        process["explanation"].features, process["explanation"].scores, strict=True
    ):
        lost = table[tokenizer.convert_tokens_to_ids(word), 1] - mask
        assert score == pytest.approx(float(lost), abs=1e-5)


def write_onnx(onnx, table, path):
    """Write the network that adds up the rows of ``table`` where the attention mask is 1."""
    helper, kinds = onnx.helper, onnx.TensorProto
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["rows"]),
        helper.make_node("Cast", ["attention_mask"], ["seen"], to=kinds.FLOAT),
        helper.make_node("Unsqueeze", ["seen", "last"], ["column"]),
        helper.make_node("Mul", ["rows", "column"], ["kept"]),
        helper.make_node("ReduceSum", ["kept", "middle"], ["logits"], keepdims=0),
    ]
    arguments = [
        helper.make_tensor_value_info(name, kinds.INT64, ["n", "T"])
        for name in ("input_ids", "attention_mask")
    ]
    output = [helper.make_tensor_value_info("logits", kinds.FLOAT, ["n", 2])]
    constants = {"table": table, "last": np.array([2]), "middle": np.array([1])}
    contained = [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "sums", arguments, output, contained)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, path)


REVIEWS = (
    *["a superb film with lovely music,positive", "an awful film with dull music,negative"] * 6,
    *["superb acting and a lovely plot,positive", "awful acting and a dull plot,negative"] * 6,
)


def swap_two_words(folder, *words):
    """Write the shipped model with two words in each other's place of the vocabulary."""
    shutil.copytree(Path(limelight.__file__).parent / "shipped" / "imdb", folder)
    file = folder / "vocab.txt"
    listed = file.read_text("utf-8").splitlines()
    first, second = (listed.index(word) for word in words)
    listed[first], listed[second] = words[1], words[0]
    file.write_text("\n".join(listed) + "\n", "utf-8")
    update_digests(folder)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with texts, the model of a release, its run, and what the branch made of it."""
    pytest.importorskip("duckdb", reason="the recipe needs the extra data")
    monkeypatch.chdir(tmp_path)
    Path("reviews.csv").write_text("\n".join(("text,label", *REVIEWS)), "utf-8")
    limelight.explain_data(limelight.load(), "reviews.csv", "lime", output="runs/released")
    swap_two_words(tmp_path / "model", "superb", "awful")
    return tmp_path


@pytest.mark.slow
def test_the_recipe_of_an_action_posts_the_summary(project, monkeypatch):
    yaml = pytest.importorskip("yaml")
    (block,) = recipes()["A GitHub Action that posts the summary"]
    (job,) = yaml.safe_load(block)["jobs"].values()
    *_, page = job["steps"]
    posted = project / "posted.md"
    program = f'limelight() {{ "{sys.executable}" -m limelight "$@"; }}\n'
    for step in job["steps"]:
        assert re.fullmatch(r"actions/[\w-]+@v\d+", step.get("uses", "actions/x@v1"))
        if "run" in step and not step["run"].startswith("pip install"):
            output = os.environ | {"GITHUB_STEP_SUMMARY": str(posted)}
            done = ["bash", "-e", "-o", "pipefail", "-c", program + step["run"]]
            subprocess.run(done, env=output, check=True, capture_output=True)
    text = posted.read_text("utf-8")
    assert all(line.startswith("    ") for line in text.splitlines())
    assert text.count("superb") > 2  # in the summary, and in what has moved
    assert Path(page["with"]["path"]).is_file()


class Logged(dict):
    """What a stub was told, by the name of what was called."""

    def note(self, name):
        return lambda *arguments, **named: self.__setitem__(name, (*arguments, *named.values()))


def test_the_recipe_of_mlflow_logs_a_page_and_a_table(project, monkeypatch):
    output = Logged()
    if (real := installed_package("mlflow")) is None:
        names = ("log_params", "log_metric", "log_text", "log_table")
        stub = {name: output.note(name) for name in names}
        monkeypatch.setitem(
            sys.modules, "mlflow", package("mlflow", **stub, start_run=yield_entered)
        )
        run("MLflow")
        page, name = output["log_text"]
        table, file = output["log_table"]
    else:
        monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        real.set_tracking_uri((project / "tracking").as_uri())
        run("MLflow")
        (stored,) = real.search_runs(output_format="list")
        name, file = "what-drives-it.html", "words.json"
        page = real.artifacts.load_text(f"{stored.info.artifact_uri}/{name}")
        table = real.load_table(file).to_dict("list")
        right = limelight.evaluate(limelight.load("model"), "reviews.csv").accuracy
        assert stored.data.metrics["accuracy"] == right < 1  # two words were swapped
    assert (name, file) == ("what-drives-it.html", "words.json")
    assert page.startswith("<!doctype html>")
    assert {"superb", "awful"} <= set(table["word"])
    assert len(table["word"]) == len(table["mean"])


def test_the_recipe_of_weights_and_biases_logs_a_page_and_a_table(project, monkeypatch):
    output = Logged()
    if installed_package("wandb") is None:
        session = package("session", log=output.note("log"))
        stub = {name: output.note(name) for name in ("Html", "Table")}
        stub["init"] = lambda **arguments: output.update(init=arguments) or yield_entered(session)
        monkeypatch.setitem(sys.modules, "wandb", package("wandb", **stub))
        run("Weights & Biases")
        (page, inject), (columns, rows) = output["Html"], output["Table"]
        assert output["init"]["mode"] == "offline"
        assert inject is False
        assert set(output["log"][0]) == {"what drives it", "words"}
    else:
        monkeypatch.setenv("WANDB_SILENT", "true")
        process = run("Weights & Biases")
        page, rows = process["run"].summary().to_html(), process["rows"]
        columns = process["words"].column_names
        (content,) = Path("wandb").glob("offline-run-*/files/media/html/*.html")
        assert content.read_text("utf-8") == page
        (stored,) = Path("wandb").glob("offline-run-*/files/media/table/*.json")
        assert json.loads(stored.read_text("utf-8"))["columns"] == columns
    assert page.startswith("<!doctype html>")
    assert {len(row) for row in rows} == {len(columns)}
    assert {"superb", "awful"} <= {row[columns.index("word")] for row in rows}


def installed_package(name):
    """The package itself where it is installed: then the recipe runs against it."""
    return importlib.import_module(name) if importlib.util.find_spec(name) else None


def package(name, **members):
    created = types.ModuleType(name)
    created.__dict__.update(members)
    return created


@contextlib.contextmanager
def yield_entered(entered=None, **_):
    yield entered
