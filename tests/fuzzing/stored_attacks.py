"""Attacks on what limelight stores in folders: learned methods ("learned") and runs ("runs").

Each case damages a copy of a folder in one way and uses it as a user would. The case is right if
all goes on, or if it ends with one sentence. Cases join those of :mod:`attacks`.
"""

import contextlib
import json
import os
import shutil
import signal
import struct
import tempfile
import traceback
import warnings
from hashlib import sha256
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from attacks import CASES, flip_bytes_of, link_file, ran, truncate_file
from safetensors.numpy import load, save

import limelight
from limelight.errors import InputError
from limelight.explainers.learned import _record_digest
from limelight.runs import Run
from limelight.runs.columns import find_texts, text_columns
from limelight.runs.record import _digest as plan_digest
from limelight.runs.record import plan_identity
from limelight.runs.rows import shard_bytes, stamp_shard

LIMIT = 30  # seconds: a pipe or a device that is read never ends
WORDS = [f"w{i}" for i in range(12)]
WEIGHT = dict(zip(WORDS, np.linspace(-1, 1, 12), strict=True))
ODD = (
    None, -1, 0, 1, 2.5, True, 10**400, 2**63, 1e308, float("nan"), float("inf"), "", "x", "inf",
    "9" * 4000, "\ud800", "\0", [], [[]], [None], ["a", "a"], [10**400], {}, {"a": 1}, [-1, 99],
)  # fmt: skip


def score(texts):
    results = [sum(WEIGHT.get(word, 0.0) for word in text.split()) for text in texts]
    return np.array([[-x, x] for x in results])


MODEL = limelight.wrap(score, classes=["a", "b"], scale="logit", name="sum of weights")


def random_texts(count, seed):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, rng.integers(2, 6))) for _ in range(count)]


def pipe(rng, file):
    file.unlink()
    os.mkfifo(file)


def folder_instead(rng, file):
    file.unlink()
    file.mkdir()
    if rng.random() < 0.5:
        (file / "x").write_text("x")


def grow(rng, file):
    with file.open("r+b") as opened:
        opened.truncate(file.stat().st_size + int(rng.choice([1, 100, 10**6, 10**11])))


def empty(rng, file):
    file.write_bytes(b"")


def remove(rng, file):
    file.unlink()


def hide(rng, file):
    """Link to a file that has the right content: only what follows links can be read."""
    other = file.parent.parent / f"{file.name}.elsewhere"
    file.rename(other)
    file.symlink_to(other)


FILE_DAMAGES = (
    flip_bytes_of, flip_bytes_of, flip_bytes_of, truncate_file, link_file, pipe, folder_instead,
    grow, empty, remove, hide,
)  # fmt: skip


def changed_json(rng, content):
    """Return JSON in which one value, at any depth, is odd, missing or nested without end."""
    if rng.random() < 0.05:
        return ("[" * 100_000, '{"a":' * 50_000, "[" * 90_000 + "]" * 90_000)[rng.integers(3)]
    value = inner = json.loads(content)
    while True:
        keys = sorted(inner) if isinstance(inner, dict) else list(range(len(inner)))
        key = keys[rng.integers(len(keys))]
        if not isinstance(inner[key], dict | list) or not inner[key] or rng.random() < 0.25:
            break
        inner = inner[key]
    if rng.random() < 0.2:
        del inner[key]
    elif isinstance(inner[key], list) and rng.random() < 0.4:
        inner[key] = [*inner[key], *inner[key]]
    else:
        inner[key] = ODD[rng.integers(len(ODD))]
    return value


# ---- learned methods


def change_method(rng, folder):
    """Change a value of the record; its digest is right, or missing, or as it was."""
    file = folder / "method.json"
    record = changed_json(rng, file.read_text())
    if isinstance(record, dict):
        how = rng.random()
        with contextlib.suppress(UnicodeError, RecursionError):
            record |= {"sha256": _record_digest(record)} if how < 0.6 else {}
        if how > 0.9:
            record.pop("sha256", None)
    file.write_text(record if isinstance(record, str) else json.dumps(record))


def change_arrays(rng, folder):
    """Change an array of the weights; the digest in the record is right."""
    arrays = load((folder / "model.safetensors").read_bytes())
    name = sorted(arrays)[rng.integers(len(arrays))]
    array, how = arrays[name].copy(), rng.integers(8)
    if how == 0:
        odd = np.array([np.nan, np.inf, 1e308, -1e30, 0.0, 1e-300])[rng.integers(6)]
        with np.errstate(all="ignore"):
            array = np.where(rng.random(array.shape) < 0.4, odd, array).astype(array.dtype)
    elif how == 1:
        shape = list(array.shape)
        shape[rng.integers(len(shape))] = int(rng.choice([0, 1, 100]))
        array = np.ones(shape, array.dtype)
    elif how == 2:
        array = array.astype(str(rng.choice(["int32", "bool", "float16", "uint8", "float64"])))
    elif how == 3:
        array = array[None]
    elif how == 4:
        array = array.reshape(-1)[:1].reshape(())
    elif how == 5:
        array = array[::-1].copy()
    if how == 6:
        del arrays[name]
    elif how == 7:
        arrays[name + ".more"] = array
    else:
        arrays[name] = array
    if rng.random() < 0.1:
        arrays = {}
    content = save(arrays)
    if rng.random() < 0.2:  # a header that somebody made
        header = json.dumps({name: {"dtype": str(rng.choice(["F8_E4M3", "BF16", "I3"])),
                                    "shape": [1], "data_offsets": [0, 1]}}).encode()  # fmt: skip
        content = struct.pack("<Q", len(header)) + header + b"\0"
    (folder / "model.safetensors").write_bytes(content)
    sign_method(folder, weights=sha256(content).hexdigest())


def sign_method(folder, **changes):
    file = folder / "method.json"
    record = json.loads(file.read_text()) | changes
    file.write_text(json.dumps(record | {"sha256": _record_digest(record)}))


def swap_methods(rng, folder, other):
    name = ("method.json", "model.safetensors")[rng.integers(2)]
    shutil.copy(other / name, folder / name)
    if rng.random() < 0.5:
        content = (folder / "model.safetensors").read_bytes()
        sign_method(folder, weights=sha256(content).hexdigest())


def learned_cases(count, seed):
    """Yield (case, code, sentence) of damaged folders of learned methods."""
    with tempfile.TemporaryDirectory() as home:
        undamaged, other = Path(home) / "undamaged", Path(home) / "other"
        for folder, features in ((undamaged, "words"), (other, "positions")):
            method = limelight.learn(
                MODEL, random_texts(40, 3), features=features, output=folder, judged=0, pairs=2
            )
            assert method
            shutil.rmtree(folder / "samples")
        for i in range(count):
            rng, place = np.random.default_rng([seed, i]), Path(home) / str(i)
            place.mkdir()
            folder = place / "method"
            shutil.copytree(undamaged, folder)
            how = rng.random()
            if how < 0.3:
                damage = FILE_DAMAGES[rng.integers(len(FILE_DAMAGES))]
                damage(rng, folder / ("method.json", "model.safetensors")[rng.integers(2)])
            elif how < 0.95:
                damage = (change_method, change_arrays)[int(how < 0.6)]
                damage(rng, folder)
            else:
                damage = swap_methods
                damage(rng, folder, other)
            with within_limit():
                if i % 2:
                    request = ["explain", "w1 w2 w3 w7 x", "--model", "stored_attacks:MODEL"]
                    result = ran([*request, "-m", f"learned:{folder}", "--format", "json"])
                else:
                    result = call_safely(
                        lambda folder=folder: limelight.explain(
                            MODEL, "w1 w2 w3 w7 x", limelight.LearnedMethod.load(folder)
                        ).to_json()
                    )
            yield f"{damage.__name__} {i}", *result
            shutil.rmtree(place)


# ---- runs


def run_files(folder):
    return [folder / "run.json", *sorted((folder / "shards").iterdir())]


def any_shard(rng, folder):
    shards = sorted((folder / "shards").iterdir())
    return shards[rng.integers(len(shards))]


def change_plan(rng, folder):
    """Change a value of the plan; its digest is right, or missing, or as it was."""
    file = folder / "run.json"
    plan = changed_json(rng, file.read_text())
    if isinstance(plan, dict):
        how = rng.random()
        with contextlib.suppress(Exception):
            plan |= {"sha256": plan_digest(plan)} if how < 0.4 else {}
        if how > 0.6:
            plan.pop("sha256", None)
    file.write_text(plan if isinstance(plan, str) else json.dumps(plan))


def copy_shard(rng, folder):
    content = any_shard(rng, folder).read_bytes()
    any_shard(rng, folder).write_bytes(content)


def copy_foreign_shard(rng, folder, other):
    shard = any_shard(rng, folder)
    shutil.copy(other / "shards" / shard.name, shard)


def copy_foreign_plan(rng, folder, other):
    shutil.copy(other / "run.json", folder / "run.json")


def odd_entry(rng, value):
    """Return something of the type of ``value``, or of another."""
    odd = (None, float("nan"), float("inf"), -1.0, 0, 10**9, "", "x", "{", "\\ud800", '{"a": [1]}')
    if isinstance(value, list) and rng.random() < 0.8:
        if not value or rng.random() < 0.4:
            return ([], [None], value + value, value[:-1], value[::-1])[rng.integers(5)]
        value = list(value)
        at = rng.integers(len(value))
        value[at] = odd_entry(rng, value[at])
        return value
    if isinstance(value, dict) and rng.random() < 0.8:
        name = sorted(value)[rng.integers(len(value))]
        return value | {name: odd_entry(rng, value[name])}
    return odd[rng.integers(len(odd))]


def rewrite_shard(rng, folder):
    """Write a shard anew with other columns, types, rows or cells, and with a right digest."""
    path = any_shard(rng, folder)
    table, how = pq.read_table(path), rng.integers(10)
    names = table.column_names
    name = names[rng.integers(len(names))]
    at = names.index(name)
    if how == 0:
        table = table.drop_columns([name])
    elif how == 1:
        table = table.rename_columns([f"{n}_" if n == name else n for n in names])
    elif how == 2:
        kinds = (pa.string(), pa.float64(), pa.int32(), pa.list_(pa.float64()), pa.null())
        kind = kinds[rng.integers(len(kinds))]
        values = pa.nulls(len(table), kind)
        with contextlib.suppress(pa.ArrowException):
            values = table[name].cast(kind)
        table = table.set_column(at, name, values)
    elif how == 3:
        rows = rng.permutation(len(table))
        rows = rows[: rng.integers(len(rows) + 1)] if rng.random() < 0.5 else rows
        table = table.take(pa.array(rows))
    elif how == 4:
        table = table.append_column(("more", name)[rng.integers(2)], table[name])
    elif how == 5:
        table = table.select([names[i] for i in rng.permutation(len(names))])
    else:
        cells = table[name].to_pylist()
        for row in rng.integers(0, len(cells), rng.integers(1, 4)):
            cells[row] = odd_entry(rng, cells[row])
        with contextlib.suppress(pa.ArrowException, OverflowError, TypeError, UnicodeError):
            table = table.set_column(at, name, pa.array(cells, table.schema.field(name).type))
    with contextlib.suppress(pa.ArrowException):
        content = shard_bytes(table)
        identity = plan_identity(folder / "run.json")
        path.write_bytes(stamp_shard(content, identity, int(path.stem)))


def damage_place(rng, folder):
    """Put something else where the folder of shards, or its lock, belongs."""
    if rng.random() < 0.5:
        (folder / ".lock").unlink(missing_ok=True)
        (folder / ".lock").touch()
        (pipe, folder_instead, link_file)[rng.integers(3)](rng, folder / ".lock")
        return
    shutil.rmtree(folder / "shards")
    (folder / "shards").touch()
    (pipe, link_file, empty, remove)[rng.integers(4)](rng, folder / "shards")


READERS = (
    repr, list, lambda run: run.errors(), lambda run: run.texts(), lambda run: run.explanation(5),
    lambda run: run.explanation(2, "shapley"), lambda run: run.words(), lambda run: run.mistakes(),
    lambda run: run.summary(by="stars").to_json(), lambda run: run.summary().to_html(),
    lambda run: run.slices("label"), lambda run: run.slices(), lambda run: run.representative(),
    lambda run: run.sql("SELECT * FROM texts"), lambda run: run.sql("SELECT * FROM words"),
    lambda run: run.dataset.to_table(), lambda run: run.failed, text_columns,
    lambda run: find_texts(run, "w1"), lambda run: run.compare(Run(run.path)),
    lambda run: [element.to_json() for element in run],
)  # fmt: skip


def explain_folder(folder, **asked):
    data = {"text": random_texts(12, 1), "label": ["a", "b"] * 6, "stars": list(range(12))}
    asked = {"shard_texts": 4, "progress": False, "output": folder} | asked
    return limelight.explain_data(MODEL, data, ["loo", "shapley"], **asked)


def run_cases(count, seed):
    """Yield (case, code, sentence) of damaged runs, which are read, and gone on with."""
    with tempfile.TemporaryDirectory() as home:
        undamaged, other = Path(home) / "undamaged", Path(home) / "other"
        explain_folder(undamaged)
        explain_folder(other, scale="probability")
        for i in range(count):
            rng, place = np.random.default_rng([seed, i]), Path(home) / str(i)
            place.mkdir()
            folder = place / "run"
            shutil.copytree(undamaged, folder)
            how = rng.random()
            if how < 0.3:
                damage, files = FILE_DAMAGES[rng.integers(len(FILE_DAMAGES))], run_files(folder)
                damage(rng, files[rng.integers(len(files))])
            elif how < 0.45:
                damage = (copy_foreign_plan, copy_foreign_shard)[rng.integers(2)]
                damage(rng, folder, other)
            else:
                damages = (change_plan, change_plan, copy_shard, damage_place, *[rewrite_shard] * 4)
                damage = damages[rng.integers(len(damages))]
                damage(rng, folder)
            for reader in rng.permutation(len(READERS))[:3]:
                with within_limit():
                    result = call_safely(lambda at=reader, folder=folder: READERS[at](Run(folder)))
                yield f"{damage.__name__} {i} reader {reader}", *result
            with within_limit():
                output = place / "x.json"
                code, message = ran(["summarize", str(folder), "-o", str(output)])
                if output.exists() != (code == 0):
                    code, message = (
                        -1,
                        f"code {code} and a file that should not be there: {message}",
                    )
                yield f"{damage.__name__} {i} command", code, message
            with within_limit():
                result = call_safely(lambda folder=folder: explain_folder(folder))
            yield f"{damage.__name__} {i} resumed", *result
            shutil.rmtree(place)


def call_safely(use):
    """Return 0 if a call succeeds, 2 if it ends with one sentence; else what it raised."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            use()
    except InputError as error:
        return (2, str(error)) if str(error).strip() else (-1, "an empty sentence")
    except BaseException:
        return -1, traceback.format_exc()
    return 0, ""


@contextlib.contextmanager
def within_limit():
    """End a case that waits for ever."""

    def late(*_):
        raise TimeoutError(f"it took more than {LIMIT} seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(LIMIT)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def is_right(code, said):
    """Whether a case went on, or ended with one sentence."""
    if code == 0:
        return True
    return code == 2 and "Traceback" not in said and len(said.strip().splitlines()) == 1


CASES |= {"learned": learned_cases, "runs": run_cases}
