"""The JSON Schemas of records, as they are shipped in ``limelight/results/schemas``."""

import inspect

import msgspec


def schema_file(record):
    """Return the file; to write one anew, put this where it lies."""
    schema = strip_indentation(msgspec.json.schema(record))
    return msgspec.json.format(msgspec.json.encode(schema), indent=2) + b"\n"


def strip_indentation(schema):
    """Take the indentation out of descriptions: Python 3.13 does so with every docstring."""
    if isinstance(schema, list):
        return [strip_indentation(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: inspect.cleandoc(part)
        if name == "description" and isinstance(part, str)
        else strip_indentation(part)
        for name, part in schema.items()
    }
