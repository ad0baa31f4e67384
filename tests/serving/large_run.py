"""A run of many texts, made from the explanations of a few."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

import limelight
from limelight.runs import Run
from limelight.runs.rows import shard_bytes
from limelight.runs.run import RunFolder

GOOD, BAD = ["good", "great", "superb", "moving"], ["bad", "awful", "dull", "boring"]
REST = [
    "the",
    "film",
    "plot",
    "acting",
    "is",
    "was",
    "a",
    "story",
    "and",
    "but",
    "with",
    "scene",
    "music",
    "very",
    "not",
    "it",
]


def reviews(count, seed=0):
    """Texts of random words and their labels, which the model gets right more often than not."""
    rng = np.random.default_rng(seed)
    texts, labels = [], []
    for _ in range(count):
        label = int(rng.integers(2))
        strong = GOOD if rng.random() < (0.8 if label else 0.2) else BAD
        words = [*rng.choice(REST, rng.integers(4, 20)), *rng.choice(strong, 2)]
        texts.append(" ".join(rng.permutation(words)))
        labels.append(("negative", "positive")[label])
    return texts, labels


def small_run(folder, texts, labels, methods=("loo", "gxi")):
    table = pa.table({"text": texts, "label": labels, "id": [f"t{i}" for i in range(len(texts))]})
    pq.write_table(table, folder / "few.parquet")
    return limelight.explain_data(
        limelight.load(), folder / "few.parquet", list(methods), output=folder / "few"
    )


def large_run(folder, count, few=250):
    """Return a run of ``count`` texts: the same ``few`` again and again, with other numbers."""
    source = small_run(folder, *reviews(few))
    (table,) = source.tables()
    record = source.record
    (file,) = record.data.files
    again = replace(
        record,
        data=replace(record.data, files=[replace(file, rows=count)]),
        shards=replace(record.shards, texts=few, count=count // few),
    )
    place = RunFolder(folder / "many")
    place.path.mkdir()
    numbers = np.array(table["row"])
    with place.lock_folder():
        place.begin(again)
        for shard in range(count // few):
            rows = numbers + shard * few
            changed = {"row": pa.array(rows), "id": pa.array([f"t{row}" for row in rows])}
            part = table
            for name, values in changed.items():
                part = part.set_column(
                    part.schema.get_field_index(name), part.schema.field(name), values
                )
            place.write(shard, shard_bytes(part))
    return Run(folder / "many")
