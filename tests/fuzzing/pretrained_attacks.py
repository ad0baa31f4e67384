"""Attacks on folders of Hugging Face models: bad weights, wrong configurations, foreign code.

A case that runs code from the folder leaves a file there, which ``marked`` sees.
"""

import json
import pickle
import shutil
import tempfile
from pathlib import Path

import attacks
import numpy as np
import torch
from safetensors.torch import load, save

from tiny_transformers import tiny

FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
MARK = "foreign code was here"
ODD = (10**400, 10**9, -1, 0, 1, 2.5, True, None, "x", [], {}, ["a"], float("nan"), float("inf"),
       1e308, "9" * 4000, 2**63, "\ud800", "\0", [[1], 2], {"a": {"b": []}}, 1e-300)  # fmt: skip


def undamaged_folder(home):
    """Save a small BERT with its tokenizer; return where."""
    network, tokenizer = tiny("bert")
    network.save_pretrained(home / "undamaged")
    tokenizer.save_pretrained(home / "undamaged")
    return home / "undamaged"


def any_file(rng, folder):
    return folder / FILES[rng.integers(len(FILES))]


def flip_bytes(rng, folder):
    attacks.flip_bytes_of(rng, any_file(rng, folder))


def truncate(rng, folder):
    attacks.truncate_file(rng, any_file(rng, folder))


def leave_out(rng, folder):
    any_file(rng, folder).unlink()


def link_to_a_device(rng, folder):
    attacks.link_file(rng, any_file(rng, folder))


def nest_deep(rng, folder):
    deep = ("[" * 100_000, '{"a":' * 50_000, "[" * 90_000 + "]" * 90_000)
    file = folder / str(rng.choice([name for name in FILES if name.endswith("json")]))
    file.write_text(deep[rng.integers(3)])


def make_huge(rng, folder):
    file = folder / str(rng.choice([name for name in FILES if name.endswith("json")]))
    with file.open("ab") as end:
        end.truncate((1 << 28) + 1)  # zeros that take no room on the disk


def change_config(rng, folder):
    attacks.change_json(rng, folder / "config.json", ODD)


def change_tokenizer_config(rng, folder):
    attacks.change_json(rng, folder / "tokenizer_config.json", ODD)


def change_tokenizer(rng, folder):
    content = json.loads((folder / "tokenizer.json").read_text())
    value = content
    while True:
        keys = sorted(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            break
        key = keys[rng.integers(len(keys))]
        if not isinstance(value[key], dict | list) or rng.random() < 0.3:
            value[key] = ODD[rng.integers(len(ODD))]
            break
        value = value[key]
    (folder / "tokenizer.json").write_text(json.dumps(content))


def change_shapes(rng, folder):
    weights = load((folder / "model.safetensors").read_bytes())
    name = sorted(weights)[rng.integers(len(weights))]
    shape = list(weights[name].shape)
    shape[rng.integers(len(shape))] = int(rng.choice([0, 1, 100]))
    weights[name] = torch.zeros(shape)
    (folder / "model.safetensors").write_bytes(save(weights))


def change_numbers(rng, folder):
    weights = load((folder / "model.safetensors").read_bytes())
    name = sorted(weights)[rng.integers(len(weights))]
    odd = (float("nan"), float("inf"), 1e38, 1e-45, -1e20)[rng.integers(5)]
    weights[name] = torch.full_like(weights[name], odd)
    if rng.random() < 0.3:
        weights[name] = weights[name].to((torch.int32, torch.bool, torch.float64)[rng.integers(3)])
    (folder / "model.safetensors").write_bytes(save(weights))


def rename_weights(rng, folder):
    weights = load((folder / "model.safetensors").read_bytes())
    name = sorted(weights)[rng.integers(len(weights))]
    weights["x." + name] = weights.pop(name)
    (folder / "model.safetensors").write_bytes(save(weights))


def bring_code(rng, folder):
    """Ask for classes that stand in a file beside the weights."""
    mark = str(folder / MARK)
    (folder / "own.py").write_text(f"open({mark!r}, 'w').close()\n")
    parts = ("AutoConfig", "AutoModelForSequenceClassification", "AutoTokenizer", "AutoModel")
    foreign = {part: f"own.{part}" for part in parts}
    foreign["AutoTokenizer"] = ["own.Slow", "own.Fast"]
    for name in ("config.json", "tokenizer_config.json"):
        content = json.loads((folder / name).read_text())
        content["auto_map"] = foreign
        if rng.random() < 0.5:
            content |= {"model_type": "own", "tokenizer_class": "Own", "architectures": ["Own"]}
        (folder / name).write_text(json.dumps(content))


class _Runs:
    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return open, (self.mark, "w")


def pickle_code(rng, folder):
    """Put the weights into an old file, which runs whatever it holds if it is trusted."""
    (folder / "model.safetensors").unlink()
    odd = _Runs(str(folder / MARK))
    content = (pickle.dumps(odd), pickle.dumps({"a": odd}), bytes(rng.integers(0, 256, 99, "u1")))
    kind = rng.integers(4)
    if kind == 3:
        torch.save({"bert.embeddings.word_embeddings.weight": odd}, folder / "pytorch_model.bin")
    else:
        (folder / "pytorch_model.bin").write_bytes(content[kind])


DAMAGES = (
    flip_bytes, flip_bytes, truncate, leave_out, link_to_a_device, nest_deep, make_huge,
    change_config, change_config, change_config, change_tokenizer_config, change_tokenizer,
    change_shapes, change_numbers, rename_weights, bring_code, pickle_code,
)  # fmt: skip


def damage_copy(rng, undamaged, place):
    """Copy the folder ``undamaged`` to ``place`` and damage it in one way; return how."""
    shutil.copytree(undamaged, place)
    how = DAMAGES[rng.integers(len(DAMAGES))]
    how(rng, place)
    return how.__name__


def pretrained_cases(count, seed, damage=damage_copy):
    """Yield (case, exit code, standard error) of damaged folders."""
    with tempfile.TemporaryDirectory() as home:
        undamaged = undamaged_folder(Path(home))
        for i in range(count):
            rng, place = np.random.default_rng([seed, i]), Path(home) / str(i)
            how = damage(rng, undamaged, place)
            arguments = ["explain", "a superb film", "--model", str(place), "--format", "json"]
            code, message = attacks.ran(
                [*arguments, "-m", ("loo", "gxi", "alpha-avg", "lime")[i % 4]]
            )
            if (place / MARK).exists():
                code, message = -2, f"{MARK}: {message}"
            yield f"{how} {i}", code, message
            shutil.rmtree(place)


attacks.CASES["pretrained"] = pretrained_cases
