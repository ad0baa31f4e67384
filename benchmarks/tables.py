"""Write the tables of README.md from the JSON files, so that its numbers are those measured.

python benchmarks/tables.py            write
python benchmarks/tables.py --check    fail where the page and the files differ
"""

import argparse
import json
import sys
from pathlib import Path

from results import RESULTS, markdown

README = Path(__file__).parent / "README.md"
START, END = "<!-- results -->\n", "<!-- end of results -->\n"
ORDER = (
    "prediction",
    "gradients",
    "perturbation",
    "corpus",
    "corpus_cuda",
    "datasets",
    "judging",
    "judging_deep",
    "judging_cuda",
    "ceilings",
    "huggingface",
    "huggingface_cuda",
)


def main() -> None:
    """Write README.md, or check it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    page = README.read_text(encoding="utf-8")
    head, rest = page.split(START)
    _, tail = rest.split(END)
    new = head + START + sections() + END + tail
    if not parser.parse_args().check:
        README.write_text(new, encoding="utf-8")
    elif new != page:
        sys.exit("benchmarks/README.md is not what its results say; run benchmarks/tables.py.")


def sections() -> str:
    """Return one section per result file."""
    texts = []
    for name in ORDER:
        if (path := RESULTS / f"{name}.json").exists():
            found = json.loads(path.read_text(encoding="utf-8"))
            texts.append(f"\n## {name}\n\n{_circumstances(found)}\n\n{markdown(found)}\n\n")
    return "".join(texts)


def _circumstances(found: dict) -> str:
    machine, when = found["machine"], found["date"][:16].replace("T", " ")
    parts = [
        f"`{found['command']}`, {when} UTC",
        *([found["device"]] if "device" in found else []),
        f"{machine['cpu']}, {machine['cores']} cores, load {machine['load']} when it ended",
        found["data"],
        ", ".join(f"{name} {version}" for name, version in found["versions"].items()),
    ]
    return ". ".join(parts) + "."


if __name__ == "__main__":
    main()
