"""Small runs for tests: a record, a shard of texts, and a folder."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import limelight
from limelight.data.columns import INPUT, DataColumns, DataFileRecord, DataRecord
from limelight.explainers.registry import configure_method
from limelight.request import Request, prepare_model
from limelight.runs.record import (
    MethodRecord,
    ModelRecord,
    RunRecord,
    ShardPlan,
)
from limelight.runs.statistics import WordMoments

from tiny_models import tiny_model


def make_record(model, methods, texts, *, shard=3, store_texts=True, **request):
    chosen = [configure_method(name, model, {}) for name in methods]
    return RunRecord(
        schema="limelight.run/2",
        version=limelight.__version__,
        model=ModelRecord(
            fingerprint=model.fingerprint,
            classes=list(model.classes),
            link=model.link,
            source=None,
            identity={},
        ),
        methods=[
            MethodRecord(
                id=configured.method.id,
                label=configured.method.label,
                signed=configured.method.signed,
                settings=configured.settings_used(),
            )
            for configured in chosen
        ],
        request=prepare_model(model, Request(**request))[1],
        data=DataRecord(
            files=[DataFileRecord(path="memory", rows=len(texts), bytes=0, sha256="")],
            columns=DataColumns(text="text", id=None, label=None, carried=[]),
            store_texts=store_texts,
        ),
        shards=ShardPlan(texts=shard, count=-(-len(texts) // shard)),
    )


def texts_table(texts, first=0):
    rows = range(first, first + len(texts))
    columns = {
        "row": list(rows),
        "id": [f"id {row}" for row in rows],
        "text": texts,
        "label": ["1"] * len(texts),
        "pair": [None] * len(texts),
        "at": [None] * len(texts),
        "error": [None] * len(texts),
    }
    return pa.table(columns, schema=pa.schema(list(INPUT.items())))


def make_run(folder, texts, *, model=None, methods=("gxi",), labels=None, name="run", **options):
    """Explain ``texts``, with ids, labels and other ``columns``, seven to a shard."""
    model = tiny_model(outputs=2) if model is None else model
    columns = {"text": texts, "id": [f"t{i}" for i in range(len(texts))]}
    columns |= {"label": labels} if labels is not None else {}
    columns |= options.pop("columns", {})
    path = folder / f"{name}.parquet"
    pq.write_table(pa.table(columns), path)
    options = {"shard_texts": 7, **options}
    return limelight.explain_data(model, path, list(methods), output=folder / name, **options)


def moments(*samples):
    """Return the moments of words that have these scores, each in texts of their own."""
    rows = [
        (len(x), sum(x), sum(v * v for v in x), sum(map(abs, x)), sum(v > 0 for v in x), len(x))
        for x in samples
    ]
    return WordMoments(*np.array(rows, dtype=float).T)


def select_words(summary, *kinds):
    """Return the rows of the words of these kinds: "for", "against", "size" or "phrase"."""
    return [word for word in summary.words.records() if word["kind"] in kinds]
