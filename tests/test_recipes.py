"""Every recipe of the documentation runs as it is written, and its scores are right."""

import json
import math
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import limelight

PAGE = Path(__file__).resolve().parents[1] / "docs" / "recipes.md"
MOST = {"A language model behind an endpoint": 16}  # lines of each recipe, ten unless said here
TEXT = "a superb film but the plot is bad ."


def recipes():
    sections = re.findall(r"^## (.*?)$(.*?)(?=^## |\Z)", PAGE.read_text("utf-8"), re.M | re.S)
    return {title: re.findall(r"^```py\n(.*?)^```", body, re.M | re.S) for title, body in sections}


def run(title, **names):
    """Run the recipe with what it is said to have; return what it made."""
    (block,) = recipes()[title]
    made = {"limelight": limelight, "text": TEXT, **names}
    exec(compile(block, title, "exec"), made)
    return made


@pytest.mark.parametrize("title", recipes())
def test_a_recipe_is_short(title):
    """Blank lines and imports do not count."""
    (block,) = recipes()[title]
    lines = [line for line in block.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith(("import ", "from "))]
    assert len(lines) <= MOST.get(title, 10)


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
        said = json.dumps({"choices": [choice]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

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
    made = run("A language model behind an endpoint", URL=server, KEY="secret")
    scores = dict(zip(made["explanation"].features, made["explanation"].scores, strict=True))
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
    made = run("Similarity to a query", **encoder)
    query = embedded_alone(encoder, "a superb film")
    texts = [TEXT, "a superb film", "bad plot ."]
    wanted = [[embedded_alone(encoder, text) @ query] for text in texts]
    np.testing.assert_allclose(made["model"].logits(texts), wanted, rtol=1e-5)
    assert wanted[1] == pytest.approx([1.0])
    assert made["explanation"].scale == "score"
    assert made["explanation"].scores.sum() == pytest.approx(
        wanted[0][0] - made["explanation"].base_value, abs=1e-5
    )


def test_the_recipe_of_a_head_is_its_probability(encoder):
    made = run("Similarity to a query", **encoder)
    texts = ["a superb film", "good film .", "bad plot", "the plot is bad ."]
    trained = run(
        "An embedding with a head (SetFit)",
        embed=made["embed"],
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
    made = run("The mean of word vectors (fastText, static embeddings)", network=network,
               text="good film unknown film")  # fmt: skip
    read = [0, 2, 2, 3]
    expected = network.head @ network.table[read].mean(axis=0)
    np.testing.assert_allclose(made["model"].logits(["good film unknown film"])[0], expected)
    assert made["explanation"].bound is not None
    assert made["explanation"].target == "yes"


def test_the_recipe_of_an_onnx_folder_is_its_network(encoder, tmp_path):
    onnx = pytest.importorskip("onnx", reason="the recipe needs onnx, to write a folder for it")
    pytest.importorskip("onnxruntime", reason="the recipe needs onnxruntime")
    tokenizer, rng = encoder["tokenizer"], np.random.default_rng(0)
    table = rng.standard_normal((len(tokenizer), 2)).astype(np.float32)
    write_onnx(onnx, table, tmp_path / "model.onnx")
    made = run("An ONNX folder", folder=tmp_path, tokenizer=tokenizer)
    for text in (TEXT, "a film"):
        wanted = table[tokenizer(text)["input_ids"]].sum(axis=0)
        np.testing.assert_allclose(made["model"].logits([text])[0], wanted, rtol=1e-5)
    # Words that become [MASK] change a sum by what the two rows of the table differ by.
    mask = table[tokenizer.mask_token_id, 1]
    for word, score in zip(made["explanation"].features, made["explanation"].scores, strict=True):
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
    given = [
        helper.make_tensor_value_info(name, kinds.INT64, ["n", "T"])
        for name in ("input_ids", "attention_mask")
    ]
    told = [helper.make_tensor_value_info("logits", kinds.FLOAT, ["n", 2])]
    constants = {"table": table, "last": np.array([2]), "middle": np.array([1])}
    held = [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "sums", given, told, held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, path)
