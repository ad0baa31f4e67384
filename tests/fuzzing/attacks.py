"""Attacks: seeded cases for the command line, model folders, JSON results and servers.

``python tests/fuzzing/attacks.py KIND COUNT [SEED]`` runs COUNT of them, with tests and
tests/models on the path, and says how many ended with which exit code; anything but 0 and 2 is
printed with its case. The kinds are commands, folders, results, answers (of servers), pretrained
(Hugging Face folders), learned (folders of learned methods) and runs (explained data sets).
"""

import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from pathlib import Path
from unittest import mock

import numpy as np
from completions import completions
from safetensors.numpy import load, save

from limelight.cli import main
from limelight.errors import InputError
from limelight.models import endpoint
from limelight.models.attention import save_folder
from limelight.results import Comparison, Explanation

from tiny_models import tiny_model, update_digests

TEXT = "the plot is bad , the acting good"
DEEP = "[" * 100_000
NAMES = (
    "explain",
    "compare",
    "predict",
    "methods",
    "evaluate",
    "data",
    "train",
    "x",
    "explain-data",
)
OPTIONS = (
    "--method", "-m", "--methods", "--target", "-t", "--features", "--scale", "--protect",
    "--window", "--set", "--file", "-f", "--lines", "--model", "--device", "--format", "--output",
    "-o", "--each", "--data", "--seed", "--text", "--recipe", "--help", "--version", "--x",
)  # fmt: skip
VALUES = (
    "", "-", "--", "=", "a", TEXT, "lime", "shapley", "loo", "gxi", "ig", "anchors", "lime,loo",
    "0", "1", "-1", "7", "9" * 5000, "1e300", "nan", "inf", "--5", "positive", "predicted",
    "words", "tokens", "positions", "sentences", "logit", "probability", "json", "csv", "html",
    "png", "terminal", "docx", "/", "/dev/null", "/dev/zero", "/nowhere/x.json", "a\0b", "\ud800",
    "\U0001f600 \u202e x", "hub:", "hub:a", "hub:a/b/c", "cpu", "cuda:9", "meta", "x.docx",
    "bandwidth=1e300", "bandwidth=1e-300", "bandwidth=0", "bandwidth=nan", "bandwidth=inf",
    "tolerance=1e-300", "tolerance=2", "samples=1", "samples=1e400", "seed=-1", "seed=1e30",
    "penalty=1e300", "rows=0", "replacement=x", "per_head=true", "top=-1", "x=1", "steps=0",
    "bandwidth=" + "[" * 5000, "threshold=2", "=" * 9, "layer=99", "max_samples=2", "[b]x[/b]",
)  # fmt: skip


def command(rng):
    """Return a random argument vector: a command, options with values, and texts."""
    arguments = [str(rng.choice(NAMES, p=[0.35, 0.2, 0.1] + [0.05] * 5 + [0.1]))]
    for _ in range(rng.integers(0, 5)):
        kind = rng.random()
        if kind < 0.6:
            arguments += [OPTIONS[rng.integers(len(OPTIONS))], VALUES[rng.integers(len(VALUES))]]
        elif kind < 0.85:
            arguments.append(VALUES[rng.integers(len(VALUES))])
        else:
            arguments.append(TEXT)
    return arguments


def ran(arguments):
    """Run the command line on an empty standard input; return exit code and standard error."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="replace") for _ in "ab")
    stdin = io.TextIOWrapper(io.BytesIO(b""))
    before, sys.stdin = sys.stdin, stdin
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main(arguments)
    except SystemExit as remaining:
        err.flush()
        return remaining.code or 0, err.buffer.getvalue().decode()
    except BaseException:
        return -1, traceback.format_exc()
    finally:
        sys.stdin = before
    return -1, "main came back"


def damaged_folder(rng, undamaged, place):
    """Copy the model folder ``undamaged`` to ``place`` and damage it in one way; return how."""
    shutil.copytree(undamaged, place)
    how = DAMAGES[rng.integers(len(DAMAGES))]
    how(rng, place)
    return how.__name__


def flip_bytes(rng, folder):
    flip_bytes_of(rng, _any_file(rng, folder))


def flip_bytes_of(rng, file):
    content = bytearray(file.read_bytes())
    for at in rng.integers(0, len(content), rng.integers(1, 9)):
        content[at] ^= 1 << int(rng.integers(8))
    file.write_bytes(bytes(content))


def truncate(rng, folder):
    truncate_file(rng, _any_file(rng, folder))


def truncate_file(rng, file):
    content = file.read_bytes()
    file.write_bytes(content[: int(rng.integers(len(content)))])


def leave_out(rng, folder):
    _any_file(rng, folder).unlink()


def link_to_a_device(rng, folder):
    link_file(rng, _any_file(rng, folder))


def link_file(rng, file):
    file.unlink()
    file.symlink_to(str(rng.choice(["/dev/zero", "/dev/null", "/dev/full", "/", str(file)])))


def nest_deep(rng, folder):
    deep = ("[" * 100_000, '{"a":' * 50_000, "[" * 90_000 + "]" * 90_000)
    (folder / "config.json").write_text(deep[rng.integers(3)])


def change_config(rng, folder):
    odd = (10**400, 10**9, -1, 0, 1, 2.5, True, None, "x", [], {}, ["a"], ["\ud800", "b"], [[1], 2])
    odd += (float("nan"), float("inf"), 1e308, "9" * 4000, 2**63, ["\0", "b"], ["", "a"], 1e-300)
    change_json(rng, folder / "config.json", odd)


def change_json(rng, file, odd):
    content = json.loads(file.read_text())
    name = sorted(content)[rng.integers(len(content))]
    content[name] = odd[rng.integers(len(odd))]
    file.write_text(json.dumps(content))


def change_shapes(rng, folder):
    weights = load((folder / "model.safetensors").read_bytes())
    name = sorted(weights)[rng.integers(len(weights))]
    shape = list(weights[name].shape)
    if rng.random() < 0.5:
        shape[rng.integers(len(shape))] = int(rng.choice([0, 1, 100]))
        weights[name] = np.zeros(shape)
    else:  # no heads at all: every array agrees
        weights = {n: w[:0] if n != "embedding" else w for n, w in weights.items()}
    (folder / "model.safetensors").write_bytes(save(weights))
    update_digests(folder)


def change_numbers(rng, folder):
    weights = load((folder / "model.safetensors").read_bytes())
    name = sorted(weights)[rng.integers(len(weights))]
    odd = np.array([np.nan, np.inf, 1e308, 5e-324, 1e150, -1e200])[rng.integers(6)]
    weights[name] = np.where(rng.random(weights[name].shape) < 0.3, odd, weights[name])
    if rng.random() < 0.3:
        weights[name] = weights[name].astype(np.int32)
    (folder / "model.safetensors").write_bytes(save(weights))
    update_digests(folder)


def change_vocabulary(rng, folder):
    odd = ("", "\n", "[cls]\n", "[cls]\nUNK\n" * 9, "\ufeff[cls]\nUNK\n", "x\n" * 23)
    (folder / "vocab.txt").write_text(odd[rng.integers(len(odd))])
    update_digests(folder)


def claim_a_hugging_face_model(rng, folder):
    config = {"model_type": str(rng.choice(["bert", "x"])), "hidden_size": "x", "vocab_size": -1}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(bytes(rng.integers(0, 256, 100, dtype=np.uint8)))


DAMAGES = (
    flip_bytes, flip_bytes, truncate, leave_out, link_to_a_device, nest_deep, change_config,
    change_config, change_shapes, change_numbers, change_vocabulary, claim_a_hugging_face_model,
)  # fmt: skip


def _any_file(rng, folder):
    return folder / ("config.json", "vocab.txt", "model.safetensors")[rng.integers(3)]


def damaged_result(rng, content):
    """Return a JSON result with some of its values or letters changed."""
    if rng.random() < 0.3:
        letters = list(content)
        for at in rng.integers(0, len(letters), rng.integers(1, 5)):
            letters[at] = str(rng.choice(list('0-9"[]{},:en\\ \ud800')))
        return "".join(letters)
    if rng.random() < 0.1:
        return content[: int(rng.integers(len(content)))]
    record = json.loads(content)
    for _ in range(rng.integers(1, 4)):
        _change_somewhere(rng, record)
    return json.dumps(record).replace('"DEEP"', DEEP)


def _change_somewhere(rng, value):
    odd = (None, -1, 0, 10**30, 10**399, -0.5, float("nan"), float("inf"), 1e308, "x", "inf", "",
           [], {}, [[0, 99]], [[5, 1]], [-1], [99], True, "DEEP", "\ud800",
           {"text": "inf"})  # fmt: skip
    while True:
        keys = sorted(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = keys[rng.integers(len(keys))]
        if not isinstance(value[key], dict | list) or rng.random() < 0.3:
            value[key] = odd[rng.integers(len(odd))]
            return
        value = value[key]


def read_back(content):
    """Return 0 if a result could be read and written again, 2 if it was refused in a sentence."""
    kind = Comparison if '"limelight.comparison/2"' in content else Explanation
    try:
        result = kind.from_json(content)
    except InputError as error:
        return 2, str(error)
    except BaseException:
        return -1, traceback.format_exc()
    return (0, "") if kind.from_json(result.to_json()) == result else (-1, "not the same again")


def command_cases(count, seed):
    """Yield (case, exit code, standard error) of random command lines."""
    for i in range(count):
        arguments = command(np.random.default_rng([seed, i]))
        with _elsewhere():
            yield arguments, *ran(arguments)


def folder_cases(count, seed, damage=damaged_folder):
    """Yield (case, exit code, standard error) of damaged model folders."""
    with tempfile.TemporaryDirectory() as home:
        save_folder(tiny_model(outputs=3), Path(home) / "undamaged")
        for i in range(count):
            rng, place = np.random.default_rng([seed, i]), Path(home) / str(i)
            how = damage(rng, Path(home) / "undamaged", place)
            arguments = ["explain", "w1 w2 w3 w4", "--model", str(place), "--format", "json"]
            yield f"{how} {i}", *ran([*arguments, "-m", ("lime", "shapley", "loo", "gxi")[i % 4]])
            shutil.rmtree(place)


def result_cases(count, seed):
    """Yield (case, code, sentence) of damaged JSON results."""
    import limelight

    model = tiny_model(3)
    undamaged = [
        limelight.explain(model, "w1 w2 w3 w1", method).to_json()
        for method in ("lime", "interactions", "anchors", "lime-sampled")
    ]
    undamaged.append(limelight.compare(model, "w1 w2 w3").to_json())
    for i in range(count):
        rng = np.random.default_rng([seed, i])
        content = damaged_result(rng, undamaged[i % len(undamaged)])
        yield content, *read_back(content)


def answer_cases(count, seed):
    """Yield (case, code, sentence) of damaged answers of a server with a language model."""
    import limelight

    # A broken answer is asked for again, after a wait.
    with completions() as server, mock.patch.object(endpoint, "_sleep"):
        full = server.completion
        for i in range(count):
            rng = np.random.default_rng([seed, i])
            server.completion = lambda body, rng=rng: _perhaps_damaged(rng, full(body))
            options = {"answer": "mars is red ."} if i % 2 else {}
            model = limelight.wrap_endpoint(
                server.url, model="tiny", template="{text}\nanswer :", estimate=None, parallel=1
            )
            try:
                limelight.explain(model, "mars is red . the moon is cold .", "loo", **options)
                yield i, 0, ""
            except InputError as error:
                yield i, 2 if str(error).isprintable() and len(str(error)) < 520 else -1, str(error)
            except BaseException:
                yield i, -1, traceback.format_exc()


def _perhaps_damaged(rng, completion):
    if rng.random() < 0.3:
        _change_somewhere(rng, completion)
    return completion


@contextlib.contextmanager
def _elsewhere():
    """Work in an empty folder: a random command may write files."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as home:
        os.chdir(home)
        try:
            yield
        finally:
            os.chdir(before)


CASES = {
    "commands": command_cases,
    "folders": folder_cases,
    "results": result_cases,
    "answers": answer_cases,
}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    kind, count, *rest = sys.argv[1:]
    sys.modules["attacks"] = sys.modules["__main__"]  # one table of cases, under either name
    import pretrained_attacks  # noqa: F401
    import stored_attacks  # noqa: F401

    codes = Counter()
    for case, code, said in CASES[kind](int(count), int(rest[0]) if rest else 0):
        codes[code] += 1
        if code not in (0, 2) or "Traceback" in said:
            print(f"{code}: {str(case)[:300]!r}\n{said[-1500:]}\n")
    print(f"{kind}: {sum(codes.values())} cases, exit codes {dict(codes)}")
