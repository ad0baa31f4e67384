"""The order of search results: pages that answer questions come before pages that prove theorems.

zensical ranks a match in a title above a match in a text, and cannot rank pages. So this module
writes a rank into each entry of the search index and lets the search compare ranks.
"""

import json
from collections.abc import Mapping
from pathlib import Path

INDEX = "search.json"
INDEX_SCRIPT = "search.js"  # the same index for pages on a disk
WORKERS = "assets/javascripts/workers"
SEARCH_LAST = 3  # entries of this rank come after all others, even if their titles match
# The first match decides. An entry of a lower rank comes first if the matches are equally good.
RANKS = {
    "faq.html": 0,
    "quickstart.html": 0,
    "installing.html": 0,
    "explanation/standard-errors.html": 0,
    "api/": 2,
    "reference/results.html": 2,
    "research/": SEARCH_LAST,
    "theorems/": SEARCH_LAST,
    "project/": SEARCH_LAST,
    "reproduction.html": SEARCH_LAST,
    "reference/measurements.html": SEARCH_LAST,
    "reference/architectures.html": SEARCH_LAST,
}
_DEFAULT_RANK = 1
# Other spellings that readers type, which entries with these words in a title get as well.
SYNONYMS = {
    "10,000 texts": "10000 thousands of texts",
    "answer of a language model": "RAG retrieval passages documents",
    "Checks in CI": "continuous integration test a model",
    "multi-label": "multilabel",
    "out of memory": "OOM CUDA",
    "quantized": "quantization int8 4-bit bitsandbytes GPTQ AWQ adapter slow tokenizer",
    "save memory": "CUDA out of memory OOM",
    "license": "licence",
    "GPU": "CUDA graphics card",
    "Hugging Face classifier": "BERT RoBERTa transformers",
}
# Parts of the minified script of the pinned zensical, and what they become.
_PATCHES = {
    # the place where the script gets the index
    "case 0:let e=(r=t.data.config.lang)": (
        "case 0:self.ranks=t.data.items.map(i=>i.rank);let e=(r=t.data.config.lang)"
    ),
    # entries of the last rank come after all others
    "l.items.sort(ht(...s))": (
        f"l.items.sort(ht((o,u)=>(self.ranks[o.id]==={SEARCH_LAST})-(self.ranks[u.id]==={SEARCH_LAST}),...s))"
    ),
    # between matches in the same field, the rank decides
    "if(f=s(o.matches[d],u.matches[d]),f!==0||(f=a(": (
        "if(f=s(o.matches[d],u.matches[d]),f!==0||(f=self.ranks[o.id]-self.ranks[u.id],f!==0)||(f=a("
    ),
}


class SearchError(Exception):
    """The script of the search is another than the one that this module knows."""


def rank(location: str) -> int:
    """Return the rank of an entry of the search index by its address."""
    return next(
        (value for start, value in RANKS.items() if location.startswith(start)), _DEFAULT_RANK
    )


def rank_search(site: Path) -> None:
    """Write ranks and other spellings into the search index of a built site.

    Raises
    ------
    SearchError
        If the script of the search has no place where it could compare ranks.
    """
    index = json.loads((site / INDEX).read_text("utf-8"))
    index["items"] = [_ranked(entry) for entry in index["items"]]
    text = json.dumps(index, ensure_ascii=False, separators=(",", ":"))
    (site / INDEX).write_text(text, "utf-8")
    (site / INDEX_SCRIPT).write_text(f"var __index = {text};\n", "utf-8")
    (script,) = (site / WORKERS).glob("search.*.js")
    script.write_text(patch_script(script.read_text("utf-8")), "utf-8")


def patch_script(script: str) -> str:
    """Return the script of the search with the comparison of ranks."""
    for part, replacement in _PATCHES.items():
        if script.count(part) != 1:
            raise SearchError(
                f"the search of this zensical has no {part!r}. "
                "Install the version in constraints.txt, or adapt scripts/docs_site/search.py."
            )
        script = script.replace(part, replacement)
    return script


def _ranked(entry: Mapping[str, object]) -> dict[str, object]:
    title = str(entry["title"]).lower()
    words = " ".join(other for word, other in SYNONYMS.items() if word.lower() in title)
    text = f"{entry['text']}<p>{words}</p>" if words else entry["text"]
    return {**entry, "text": text, "rank": rank(str(entry["location"]))}
