"""The results page of the documentation: the tables that readers need, and all measurements.

`python benchmarks/tables.py` writes it to docs/reference/results.md from the stored results.
"""

__all__ = ["results_page"]

import re
from collections.abc import Callable, Sequence

from cluster_cost import cost_table
from conversations_page import documents_table, injections_table
from drives import drives_table
from eraser_page import eraser_tables
from results import find_result, markdown, measured_with, read_result
from transformer_table import transformer_table

GENERATED = "<!-- generated -->\n"
GAMES = {
    "smooth": "smooth",
    "peaked": "peaked",
    "rare": "rare effect",
    "smooth_rare": "smooth and rare",
    "zero_one": "0 or 1",
}
ANSWER_METHODS = {
    "context-cite": (16, 32, 64, 128),
    "shapley": (64, 128),
    "banzhaf": (64, 128),
    "lime": (64, 128),
    "loo": (17,),
    "lrp": (3,),
    "gxi": (3,),
    "alpha-avg": (1,),
}
# Methods with a fixed number of calls have another name in the stored result.
STORED_NAMES = {
    "loo": "leave-one-out",
    "lrp": "lrp",
    "gxi": "gradient × input",
    "alpha-avg": "attention",
}
ESTIMATOR_CALLS = (30, 100, 400)
CEILING_TEXTS = {
    "shipped": "sentences of reviews, shipped model",
    "random_1": "random games, one head",
    "random_2": "random games, two heads",
    "random_6": "random games, six heads",
}
DECISION_TEXTS = {
    "shipped_imdb": "shipped model, IMDB",
    "shipped_sst2": "shipped model, SST-2",
    "paper_imdb": "the paper's recipe, IMDB",
    "paper_sst2": "the paper's recipe, SST-2",
    "tfidf_imdb": "TF-IDF, two classes, IMDB",
    "tfidf_ag_news": "TF-IDF, four classes, AG News",
}
REVIEW_LENGTHS = {
    "counterfactual_search_80_cuda": "first 80 words",
    "counterfactual_search_cuda": "complete",
}
LONG_DOCUMENT_METHODS = {
    "zoom": "zoom",
    "shapley": "shapley of every word, two pairs of orders",
    "lime on sentences": "lime on sentences",
    "loo": "loo of every word",
}
TIMES = """
- A time is the median of several repeats, in processor time of one thread, or wall time on a GPU.
- Compared programs run in turn. Cold starts run seven times with warm file caches.
- Peak memory is VmHWM.
- `prediction` compares with a torch module in float32, in the fastest of three batch sizes.
- `lime` and `shap` get the tokens of the median review. Removed tokens become UNK. `lime` \
explains positions with 5,000 samples and all features. `shap` uses its defaults for text.
- In `huggingface`, each package explains the same logit of the same reviews, with a batched \
predict function. limelight scores the features that `lime` scores.
- A distance compares scores with 25,000 samples of the same definition, for three reviews. \
captum's LIME has 12,500. `shap` has none, because it computes Owen values.
- "Same standard error" is the ratio of times multiplied by the ratio of variances.
"""
LEARNED_ROWS = {
    "50 texts": ("learned from 50 texts", "1"),
    "200 texts": ("learned from 200 texts", "1"),
    "500 texts": ("learned from 500 texts", "1"),
    "1500 texts": ("learned from 1,500 texts", "1"),
    "1 pair": ("one pair of orders", "about 200"),
    "2 pairs": ("two pairs of orders", "about 400"),
    "1500 texts and 1 pair(s)": ("learned from 1,500 texts, and one pair", "about 200"),
    "25 pairs": ("25 pairs of orders", "about 5,000"),
}


def results_page(order: Sequence[str]) -> str:
    """Return the results page in Markdown, with the measurements in an order of their names."""
    sections: list[tuple[str, str, Callable[[], str]]] = [
        ("Speed", "", speed_table),
        ("Faithfulness of all methods", "faithfulness", shares_table),
        ("Share and seconds on a transformer", "transformer", transformer_table),
        ("Answers of language models", "answers", answers_table),
        ("Documents behind an answer", "documents", documents_table),
        ("Prompt injections", "injections", injections_table),
        ("Learned methods", "learned", learned_table),
        ("Standard errors of learned methods", "learned-errors", learned_errors_table),
        ("Long documents", "long-documents", long_documents_table),
        ("Images", "images", images_table),
        ("Coverage of standard errors", "coverage", coverage_table),
        ("Coefficients and exact values", "coefficients", coefficient_table),
        ("Estimators of Shapley values", "estimators", estimators_table),
        ("How tight the ceiling is", "ceilings", ceilings_table),
        ("Counterfactuals and anchors", "decisions", decisions_table),
        ("Certain ranks", "ranks", ranks_table),
        ("Default number of calls", "default-calls", default_calls_table),
        ("Large data sets", "data-sets", cost_table),
        ("Strongest words of the shipped model", "words-shipped", lambda: drives_table("shipped")),
        ("Strongest words of MiniLM", "words-minilm", lambda: drives_table("minilm")),
        ("Human rationales, shipped model", "eraser-shipped", lambda: eraser_tables("shipped")),
        ("Human rationales, MiniLM", "eraser-minilm", lambda: eraser_tables("minilm")),
    ]
    parts = [
        GENERATED,
        "# Results of all benchmarks\n",
        "This page holds the measured numbers of the documentation. Each table names the version "
        "and the commit of limelight that measured it. A share of 0 is a random order of the "
        "features, and 1 is the best order. The numbers in brackets are 95 % intervals. "
        "[All measurements](#measurements) follow these tables.\n",
    ]
    for title, anchor, table in sections:
        mark = f'<a id="{anchor}"></a>\n\n' if anchor else ""
        parts.append(f"{mark}## {title}\n\n{table().strip()}\n")
    return "\n".join([*parts, *measurement_tables(order)])


def measurement_tables(order: Sequence[str]) -> list[str]:
    """Return a section with every stored measurement, one table for each result."""
    parts = [
        '<a id="measurements"></a>\n\n## All measurements\n',
        "Each table is named after its stored result, in `benchmarks/results` or "
        "`reproduction/studies/results`. The files also have the best repeats, notes and versions. "
        "Times are measured as follows:",
        TIMES,
    ]
    for name in filter(lambda name: find_result(name).exists(), order):
        result = read_result(name)
        parts.append(f"### {name}.json\n\n{_circumstances(name, result)}\n\n{markdown(result)}\n")
    return parts


# --- tables -------------------------------------------------------------------------------------


def speed_table() -> str:
    """Return how fast limelight is next to lime, shap, captum and PyTorch."""
    names = ("prediction", "gradients", "perturbation", "corpus", "corpus_cuda")
    value = {key: number for name in names for key, number in _values(name).items()}
    second = {key: number / 1000 for key, number in value.items()}  # stored in milliseconds
    rows = [
        ("task", "limelight", "alternative", "ratio"),
        (
            "LIME",
            f"{value['lime_words']:.1f} ms, error at most 7e-06",
            f"`lime`, 5000 samples, with our fast predictions: {second['lime_package']:.1f} s, "
            f"error {value['lime_package_error']:.3f}",
            f"{value['lime_speedup_package_words']:,.0f}",
        ),
        (
            "LIME",
            f"{value['lime_words']:.1f} ms",
            f"`lime`, 5000 samples, on a PyTorch module: {second['lime_torch']:.0f} s",
            f"{value['lime_speedup_torch_words']:,.0f}",
        ),
        (
            "Shapley values of tokens",
            f"{value['shapley_positions']:.1f} ms, error at most {value['shapley_bound']:.0e}",
            f"`shap`, its default for text, with our fast predictions: "
            f"{second['shapley_package']:.2f} s, error {value['shapley_package_error']:.2f}",
            f"{value['shapley_speedup']:.0f}",
        ),
        (
            "integrated gradients",
            f"{value['ig_ours']:.1f} ms",
            f"`captum`, 50 steps, PyTorch module: {second['ig_captum_full']:.2f} s",
            f"{value['ig_speedup_full']:.0f}",
        ),
        (
            "norm of the gradient",
            f"{value['gl1_ours']:.2f} ms",
            f"`captum` Saliency, PyTorch module: {value['gl1_captum_full']:.1f} ms",
            f"{value['gl1_speedup_full']:.0f}",
        ),
        (
            "gradient × input",
            f"{value['gxi_ours']:.2f} ms",
            f"`captum` InputXGradient, PyTorch module: {value['gxi_captum_full']:.1f} ms",
            f"{value['gxi_speedup_full']:.0f}",
        ),
        (
            "predictions from token ids",
            f"{value['documents_ours']:,.0f} texts/s",
            f"the model as a PyTorch module: {value['documents_float32']:.0f} texts/s",
            f"{value['prediction_speedup_float32']:.0f}",
        ),
    ]
    gpu, hugging_face = _values("gpu_overhead"), _values("huggingface_cuda")
    more = (
        "One review of median length (118 words, 202 tokens) under the shipped model, one thread, "
        "both sides in one run. An error is the largest of any score.\n\n"
        f"{_table(rows)}\n\n"
        f"- A cold `limelight compare` takes {second['cold_compare_default']:.2f} s.\n"
        f"- All 25,000 test reviews of IMDB get exact LIME scores in {value['corpus_seconds']:.0f} "
        f"s on two cores, and in {gpu['exact_seconds']:.1f} s on an H200, from texts to "
        "explanations.\n"
        f"- Ten reviews under MiniLM on an H200, 5000 samples: "
        f"{hugging_face['ours_mask_seconds']:.1f} s with limelight and "
        f"{hugging_face['lime_mask_seconds']:.1f} s with `lime`.\n"
        f"- Masked texts per second on an H200, ten reviews in one call: LIME "
        f"{gpu['lime_rate']:,.0f}, Shapley {gpu['shapley_rate']:,.0f}, the bare MiniLM "
        f"{gpu['bare_rate']:,.0f}. With a call for each review: LIME "
        f"{gpu['lime_alone_rate']:,.0f}, Shapley {gpu['shapley_alone_rate']:,.0f}.\n"
        f"- 10,000 reviews with a learned method on an H200: {gpu['learned_seconds']:.0f} s. The "
        f"model alone takes {gpu['model_seconds']:.0f} s to read and predict them."
    )
    return f"{more}\n\n{measured_with(*names, 'gpu_overhead', 'huggingface_cuda')}"


def shares_table() -> str:
    """Return the share of every method on the shipped model and on MiniLM."""
    columns = {"shipped model": "judging_every", "MiniLM": "judging_cuda_every"}
    cells: dict[str, dict[str, str]] = {}
    for title, name in columns.items():
        for measure in read_result(name)["measures"]:
            method, _, setting = measure["id"].partition(", ")
            row = f"`{method}`" + (f", `{setting}`" if setting else "")
            low, high = re.findall(r"-?\d\.\d+", measure["note"])
            text = _with_minus(f"{measure['value']:.3f} [{low}, {high}]")
            cells.setdefault(row, {})[title] = text
    rows = [("method", *columns)]
    rows += [(row, *(cells[row].get(title, "–") for title in columns)) for row in sorted(cells)]
    return (
        "110 reviews of IMDB with about 100 words. Shapley values of the shipped model are exact, "
        "those of MiniLM are sampled.\n\n"
        f"{_table(rows)}\n\n{measured_with(*columns.values())}"
    )


def answers_table() -> str:
    """Return how well methods find the fact that an answer came from."""
    value = _values("answers")
    kinds = ("drop without 1", "drop without 3", "LDS", "share")
    rows = [("method", "calls", *kinds)]
    for method, budgets in ANSWER_METHODS.items():
        for calls in budgets:
            numbers = [_find(value, method, calls, kind) for kind in kinds]
            digits = (2, 1, 3, 3)
            texts = [
                "–" if number is None else _with_minus(f"{number:.{count}f}")
                for number, count in zip(numbers, digits, strict=True)
            ]
            rows.append((f"`{method}`", str(calls), *texts))
    return (
        "SmolLM2-135M-Instruct answers 200 questions about sixteen facts. Drop: how much the "
        "log-probability of the answer falls without the strongest fact, or the three strongest. "
        "LDS: rank correlation between sums of scores and the log-probability on random halves of "
        f"the facts.\n\n{_table(rows)}\n\n{measured_with('answers')}"
    )


def learned_table() -> str:
    """Return the share of learned methods next to sampled Shapley values."""
    value = _values("learning")
    rows = [("scores", "model calls", "share")]
    for key, (scores, calls) in LEARNED_ROWS.items():
        rows.append((scores, calls, f"{value[f'share, {key}']:.3f}"))
    return (
        "MiniLM, 110 reviews of IMDB. [Speed](#speed) has the times of 10,000 reviews.\n\n"
        f"{_table(rows)}\n\n{measured_with('learning')}"
    )


def learned_errors_table() -> str:
    """Return how often ±2 standard errors of learned methods held, by model, texts and pairs."""
    result = read_result("learned_errors")
    rows: dict[str, list[str]] = {}
    pairs = dict.fromkeys(
        measure["what"].split(", ")[2].split(":")[0] for measure in result["measures"]
    )
    for measure in result["measures"]:
        row = ", ".join(measure["what"].split(", ")[:2])
        worst, width = (part.split() for part in measure["note"].split("; "))
        cell = f"{measure['value']:.3f} ({worst[0]} at worst; {width[2]} times)"
        rows.setdefault(row, []).append(cell)
    table = _table(
        [("±2 standard errors hold", *pairs), *((name, *cells) for name, cells in rows.items())]
    )
    return f"{table}\n\n{result['data'].capitalize()}. {measured_with('learned_errors')}"


def long_documents_table() -> str:
    """Return calls and shares of zoom and of other methods on long documents."""
    measures = {row["id"]: row for row in read_result("long_documents_cuda")["measures"]}
    rows = [("method", "calls", "share", "calls, 3,000 words", "share, 3,000 words")]
    for key, name in LONG_DOCUMENT_METHODS.items():
        cells = []
        for kind in ("reviews", "3,000 words"):
            measure = measures[f"{kind}_{key}"]
            cells += [measure["note"].split(" calls")[0], f"{measure['value']:.3f}"]
        rows.append((name, *cells))
    return (
        "MiniLM with windows: 20 reviews of more than 600 words, and five documents of 3,000 "
        f"words. The share is that of the features that `zoom` chose.\n\n{_table(rows)}\n\n"
        f"{measured_with('long_documents_cuda')}"
    )


def images_table() -> str:
    """Return the shares of methods on images."""
    result = read_result("images")
    rows = [("method", "share")]
    for measure in result["measures"]:
        if measure["id"].startswith("share_"):
            low, high = re.findall(r"-?\d\.\d+", measure["note"])
            method = measure["id"].removeprefix("share_")
            rows.append((f"`{method}`", f"{measure['value']:.2f} [{low}, {high}]"))
    return f"{result['data']}.\n\n{_table(rows)}\n\n{measured_with('images')}"


def coverage_table() -> str:
    """Return the share of ±2 standard errors that held, by method and kind of game."""
    rows: dict[str, dict[str, str]] = {}
    for measure in read_result("coverage")["measures"]:
        method, game = measure["what"].split(": ")
        held, warnings, _ = (float(part.split()[-1]) for part in measure["note"].split("; "))
        text = f"{held:.2f}"
        if warnings >= 0.005:
            text += f" ({measure['value']:.2f}; {warnings:.0%})"
        rows.setdefault(method, {})[game] = text
    table = _table(
        [
            ("method", *GAMES.values()),
            *((name, *(row[game] for game in GAMES.values())) for name, row in rows.items()),
        ]
    )
    return (
        "Each cell is the share of scores whose exact value lies within two standard errors, on "
        "games of one kind. The brackets show the share that was covered or came with a warning, "
        f"and how often a warning came.\n\n{table}\n\n{measured_with('coverage')}"
    )


def coefficient_table() -> str:
    """Return what coefficient × value says next to exact values, a column for each data set."""
    result = read_result("linear_coefficients")
    rows: dict[str, list[str]] = {}
    columns: dict[str, str] = {}
    for measure in result["measures"]:
        title, what = measure["what"].split(": ", 1)
        columns[title] = measure["note"]
        rows.setdefault(what, []).append(f"{measure['value']:.3f}".replace("-", "−"))
    table = _table(
        [
            ("", *columns),
            ("texts", *columns.values()),
            *((what, *cells) for what, cells in rows.items()),
        ]
    )
    return f"{table}\n\n{result['data']}. {measured_with('linear_coefficients')}"


def estimators_table() -> str:
    """Return errors and shares of estimators of Shapley values at equal numbers of calls."""
    result = read_result("shapley_baselines")
    sources = {"minilm": "MiniLM", "gpt2": "GPT-2", "nli": "MiniLM, pairs"}
    cells = {(row["source"], row["method"], row["calls"]): row for row in result["cells"]}
    columns = [(source, calls) for source in sources for calls in ESTIMATOR_CALLS]
    headings = [f"{sources[source]}, {calls} calls" for source, calls in columns]
    rows = [("error / share", *headings)]
    for method, label in result["labels"].items():
        method_cells = [cells[source, method, calls] for source, calls in columns]
        numbers = [f"{row['error']:.3f} / {row['share']:.2f}" for row in method_cells]
        rows.append((label, *map(_with_minus, numbers)))
    return (
        "The error is |estimate − values| / |values|. All methods call the same games of ten "
        "words, whose values are known. limelight's default draws orders for 30 calls, and solves "
        f"a regression for 100 and 400.\n\n{_table(rows)}\n\n"
        f"{result['data']}. {measured_with('shapley_baselines')}"
    )


def ceilings_table() -> str:
    """Return how close the best order comes to the proven ceiling."""
    value = _values("ceilings")
    rows = [
        ("texts", "share of the best order, median", "smallest", "share of greedy, median"),
        *(
            (
                name,
                f"{value[f'{key}_best']:.3f}",
                f"{value[f'{key}_worst']:.3f}",
                f"{value[f'{key}_greedy']:.3f}",
            )
            for key, name in CEILING_TEXTS.items()
        ),
    ]
    return (
        "200 short texts of each kind, on which the best order is known. A share of 1 means that "
        f"an order attains the ceiling.\n\n{_table(rows)}\n\n{measured_with('ceilings')}"
    )


def decisions_table() -> str:
    """Return how many texts are settled by a proof, and how large the sets are."""
    value = _values("decisions")
    proofs = [
        (
            "texts",
            "settled",
            "robust",
            "words to remove",
            "milliseconds",
            "words of an anchor",
            "smallest anchor proven",
        ),
        *(
            (
                name,
                f"{value[f'{key}_settled']:.0%}",
                f"{value[f'{key}_robust']:.0%}",
                f"{value[f'{key}_size']:g}",
                f"{value[f'{key}_ms']:.1f}",
                f"{value[f'{key}_words']:g}",
                f"{value[f'{key}_smallest']:.0%}",
            )
            for key, name in DECISION_TEXTS.items()
        ),
    ]
    searches = [("reviews", "search", "calls", "found a set", "mean size", "as small as greedy")]
    for file, length in REVIEW_LENGTHS.items():
        value = _values(file)
        calls = f"{value['greedy.calls']:,.0f}"
        shares = f"{value['greedy.found']:.0%}", f"{value['greedy.mean']:.1f}"
        searches.append((length, "greedy, no limit", calls, *shares, ""))
        for budget in (200, 1000):
            as_small = value[f"{budget}.smaller"] + value[f"{budget}.equal"]
            shares = f"{value[f'{budget}.found']:.0%}", f"{value[f'{budget}.mean']:.1f}"
            searches.append((length, "limelight", f"{budget:,}", *shares, f"{as_small:.0%}"))
    return (
        "Models with exact scores, 500 texts each, anchors of the first 100 of them. A text is "
        "settled if the smallest number of words to remove is proven, or if no removal changes the "
        "prediction (robust). Sizes and times are medians on one core. All anchors are "
        f"subset-minimal.\n\n{_table(proofs)}\n\n"
        "MiniLM, 40 reviews of IMDB. Greedy search removes the best word until the prediction "
        f"changes, and then puts words back.\n\n{_table(searches)}\n\n"
        f"{measured_with('decisions', *REVIEW_LENGTHS)}"
    )


def ranks_table() -> str:
    """Return how often the top 3 are certain, and after how many calls."""
    value = _values("certain_ranks")
    shares = [
        ("pairs of orders", "top 3, with `until`", "top 3", "any set of 3 or more"),
        *(
            (
                f"{pairs}",
                f"{value[f'reviews_top3_{pairs}']:.2f}",
                f"{value[f'reviews_top3_unasked_{pairs}']:.2f}",
                f"{value[f'reviews_largest_{pairs}']:.2f}",
            )
            for pairs in (5, 10, 25, 100)
        ),
    ]
    calls = [
        ("until certain", "top 1", "top 3", "top 5"),
        ("median calls", *(f"{value[f'calls_shipped_{k}']:,.0f}" for k in (1, 3, 5))),
    ]
    wrong = max(
        number
        for key, number in value.items()
        if key.startswith(("orders", "until", "kernel", "banzhaf", "lime"))
        and not key.endswith("rare_beside_smooth")
    )
    return (
        "The shipped model, sampled with Shapley values of 60 reviews. The first table has the "
        f"share of reviews with a certain set.\n\n{_table(shares)}\n\n{_table(calls)}\n\n"
        f"On 18 kinds of games and ten sample sizes, at most {wrong:.1%} of 400 runs had a wrong "
        "certificate. One further kind, a rare effect beside many small ones, has "
        f"{value['orders_10_rare_beside_smooth']:.0%} wrong runs at 10 pairs and "
        f"{value['orders_100_rare_beside_smooth']:.1%} at 100. "
        f"{measured_with('certain_ranks')}"
    )


# --- parts --------------------------------------------------------------------------------------


def default_calls_table() -> str:
    """Return cost and errors of sampled Shapley values for several numbers of calls."""
    value = _values("default_calls")
    columns = {
        "calls": ("calls", ",.0f"),
        "seconds": ("processor_seconds", ".1f"),
        "rank correlation": ("correlation", ".3f"),
        "top 3": ("top", ".2f"),
        "certain top 3": ("certain", ".2f"),
        "standard error": ("stderr", ".3f"),
    }
    candidates = {"300": "300", "500": "500", "1000": "1,000", "until": '`until="top 3"`'}
    rows = [("texts", "budget", *columns)]
    rows += [
        (
            source,
            title,
            *(f"{value[f'{source}_{name}_{key}']:{digits}}" for key, digits in columns.values()),
        )
        for source in ("sentences", "reviews")
        for name, title in candidates.items()
    ]
    return (
        f"MiniLM on one core. {read_result('default_calls')['data']}. Rank correlation and top 3 "
        "compare with a run of 2,000 calls. The rule in the program chooses "
        f"{value['default_calls']:,.0f} calls as the default.\n\n{_table(rows)}\n\n"
        f"{measured_with('default_calls')}"
    )


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown whose first row is the heading."""
    heading, *body = rows
    lines = [heading, ["---"] * len(heading), *body]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)


def _with_minus(text: str) -> str:
    """Write the minus signs of numbers as such."""
    return re.sub(r"-(?=\d)", "−", text)


def _values(name: str) -> dict[str, float]:
    """Return the values of a result by their ids, without hyphens in the ids."""
    return {row["id"].replace("-", ""): row["value"] for row in read_result(name)["measures"]}


def _find(value: dict[str, float], method: str, calls: int, kind: str) -> float | None:
    """Return a number of the benchmark of answers; None if it was not measured."""
    name = STORED_NAMES.get(method, f"{method}, {calls} calls")
    return value.get(f"{name}: {kind}".replace("-", ""))


def _circumstances(name: str, result: dict) -> str:
    """Describe the command, machine and data of a result."""
    machine, date = result["machine"], result["date"][:10]
    device = result.get("device", f"{machine['cpu']}, {machine['cores']} cores")
    return f"`{result['command']}`, {date}. {device}. {result['data']}. {measured_with(name)}"
