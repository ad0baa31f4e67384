"""Small runs for tests: a record, a shard of texts, and a folder."""

import pyarrow as pa

import limelight
from limelight.corpus.run_record import (
    DataColumns,
    DataFileRecord,
    DataRecord,
    MethodRecord,
    ModelRecord,
    QuestionRecord,
    RunRecord,
    ShardPlan,
)
from limelight.corpus.shard_work import input_schema
from limelight.explainers.registry import configured

QUESTION = {
    "target": None,
    "against": None,
    "all_classes": False,
    "features": "words",
    "scale": "logit",
    "protect": [],
    "window": None,
}


def record_of(model, methods, texts, *, shard=3, texts_kept=True, **question):
    chosen = [configured(name, model, {}) for name in methods]
    return RunRecord(
        schema="limelight.run/1",
        version=limelight.__version__,
        model=ModelRecord(
            fingerprint=model.fingerprint,
            classes=list(model.classes),
            link=model.link,
            source=None,
        ),
        methods=[
            MethodRecord(
                id=one.method.id,
                label=one.method.label,
                signed=one.method.signed,
                settings=one.asked(),
            )
            for one in chosen
        ],
        question=QuestionRecord(**{**QUESTION, **question}),
        data=DataRecord(
            files=[DataFileRecord(path="memory", rows=len(texts), bytes=0, sha256="")],
            columns=DataColumns(text="text", id=None, label=None, carried=[]),
            texts_kept=texts_kept,
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
        "error": [None] * len(texts),
    }
    return pa.table(columns, schema=input_schema())
