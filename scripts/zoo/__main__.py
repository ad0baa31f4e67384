"""Visit every sequence classifier of transformers, each in a process of its own.

PYTHONPATH=scripts python -m zoo              visit all, store what was found, write the page
PYTHONPATH=scripts python -m zoo bert xlnet   visit some and print what is not right
PYTHONPATH=scripts python -m zoo --only lrp   ask all by one method again, the rest as stored
PYTHONPATH=scripts python -m zoo.matrix       write the page from what is stored
"""

import argparse
import json
import multiprocessing
import time
import warnings
from collections.abc import Collection
from pathlib import Path
from typing import Any

warnings.simplefilter("ignore")

import torch  # noqa: E402
import transformers  # noqa: E402

import limelight.explainers.lime  # noqa: F401, E402  loaded once, before any fork
from limelight.provenance import source_stamp  # noqa: E402
from zoo import animals, matrix  # noqa: E402
from zoo.visit import visit  # noqa: E402

SECONDS = 300


def main() -> None:
    """Visit the families that were named, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*")
    parser.add_argument("--output", type=Path, help="where to store what was found")
    parser.add_argument("--all", action="store_true", help="print refusals too")
    parser.add_argument("--only", nargs="+", default=[], help="methods; the others as stored")
    given = parser.parse_args()
    shown = {"wrong", "broken", *(["refused", "unchecked"] if given.all else [])}
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    place = given.output or (None if given.families else matrix.VERDICTS)
    before = matrix.stored()["families"] if given.only else {}
    stamp = source_stamp()
    families: dict[str, Any] = dict(before) if place == matrix.VERDICTS else {}
    for family in given.families or animals.FAMILIES:
        start = time.perf_counter()
        found = isolated(family, given.only)
        print(
            f"{family} ({time.perf_counter() - start:.0f} s): {summary(found, shown)}", flush=True
        )
        families[family] = {**matrix.slim(found), "stamps": [stamp]}
        if given.only and family in before:
            families[family] = matrix.merged(before[family], families[family], given.only)
        if place is not None:  # after each: the visit takes long, and may be cut short
            _store(families, place)
    if place == matrix.VERDICTS:
        matrix.main()


def _store(families: dict[str, Any], place: Path) -> None:
    content = {"transformers": transformers.__version__, "families": families}
    place.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def isolated(family: str, names: Collection[str] = ()) -> dict[str, Any]:
    """Visit one family in a process of its own, for so many seconds at most; see :func:`visit`."""
    fork = multiprocessing.get_context("fork")
    here, there = fork.Pipe(duplex=False)
    child = fork.Process(target=_send, args=(family, names, there))
    child.start()
    there.close()
    found: dict[str, Any] = {"unbuilt": f"no answer within {SECONDS} s"}
    if here.poll(SECONDS):
        try:
            found = here.recv()
        except EOFError:
            found = {"unbuilt": "its process died"}
    child.terminate()
    child.join()
    return found


def _send(family: str, names: Collection[str], pipe: Any) -> None:
    try:
        found = visit(family, names)
    except Exception as error:
        found = {"unbuilt": f"{type(error).__name__}: {error}"[:300]}
    pipe.send(found)


def summary(found: dict[str, Any], shown: set[str]) -> str:
    """Say in a line what came of a visit."""
    if "verdicts" not in found:
        return str(found)
    lines = [
        f"\n    {name}: {verdict['word']} {verdict['said'][:240]}"
        for name, verdict in found["verdicts"].items()
        if verdict["word"] in shown
    ]
    words = [verdict["word"] for verdict in found["verdicts"].values()]
    counts = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
    return counts + "".join(f"\n    {n}" for n in found["warnings"]) + "".join(lines)


if __name__ == "__main__":
    main()
