"""The same columns as a file of every format that is read."""

import csv
import gzip
import io
import json

ENDINGS = ("csv", "tsv", "jsonl", "parquet", "csv.gz", "tsv.gz", "jsonl.gz")


def write_table(path, columns):
    """Write ``columns``, by name, in the format that the name of the file asks for."""
    ending = path.name.split(".")[1]
    if ending == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table({name: list(cells) for name, cells in columns.items()}), path)
        return path
    rows, text = list(zip(*columns.values(), strict=True)), io.StringIO(newline="")
    if ending == "jsonl":
        text.writelines(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows)
    else:
        delimiter = {"csv": ",", "tsv": "\t"}[ending]
        csv.writer(text, delimiter=delimiter).writerows([list(columns), *rows])
    content = text.getvalue().encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path
