"""How far standard errors hold for sampled answers, and how rankings without errors change.

python benchmarks/sampled_answers.py

A server in this process answers "yes" with the probability p(S) of a logistic model of the
documents S that a prompt contains. So the expected agreement with "yes" is p(S), and all masks give
the exact values. Each run draws a new model.

Coverage is the share of scores that are within two standard errors of the exact values. The target,
written before the results: at least .93 in each of six cells. "Masks alone" are the errors of the
same masks with the expected agreements in place of the answers. They are 0 if all masks are
evaluated.

Rankings compare two runs with the same server. limelight evaluates all 64 masked prompts of six
documents twice. As in llmSHAP, the first answers give Shapley values without errors, and the second
answers give those of another run. So limelight and the two runs use the same calls. A difference of
two documents is significant if limelight's interval for it does not contain 0.
"""

import json
from collections.abc import Iterator
from itertools import combinations
from typing import Any
from unittest.mock import patch

import numpy as np

import limelight
from limelight.models.endpoint import ServerClient
from limelight.sampling.all_masks import (
    banzhaf_values_from_all_masks,
    lime_from_all_masks,
    shapley_values_from_all_masks,
)
from limelight.sampling.sample import Game
from limelight.theory.enumeration import enumerate_masks, shapley_matrix
from results import Measure, command_line, report

MIN_COVERAGE = 0.93
RUNS, RANKINGS = 300, 200
QUESTION = "Does Clara work in Norway?"
RANKED_DOCUMENTS = 6
# Method, its label, number of documents, and settings. With 12 documents, masks are sampled. With
# 5 documents, all of them are evaluated, but for leave-one-out.
CELLS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "shapley": ("Shapley, 240 calls, 12 documents", 12, {"budget": "240 calls"}),
    "banzhaf": ("Banzhaf, 240 calls, 12 documents", 12, {"budget": "240 calls"}),
    "lime": ("LIME, 240 calls, 12 documents", 12, {"budget": "240 calls"}),
    "shapley_all": ("Shapley, all 32 masks twice", 5, {"budget": "80 calls"}),
    "banzhaf_all": ("Banzhaf, all 32 masks five times", 5, {"budget": "170 calls"}),
    "loo": ("LOO, ten answers", 5, {}),
}


class LogisticServer:
    """Answers "yes" with a probability that depends on the documents in the prompt.

    At temperature 0 it returns the probability itself.
    """

    def __init__(self, d: int, rng: np.random.Generator) -> None:
        self.rng = rng
        self.answers: dict[int, list[float]] = {}  # by the number of a mask, in order
        slope = rng.standard_normal(d)
        slope[rng.choice(d, 2, replace=False)] += 1.5
        keep = enumerate_masks(d)
        z = keep @ slope + 1.5 * (keep[:, 0] & keep[:, 1]) - 0.5 * slope.sum()
        self.probabilities = 1 / (1 + np.exp(-z))
        self.documents = [f"Fact {j}x." for j in range(d)]
        self.powers = 1 << np.arange(d)

    def send(self, _: Any, payload: bytes) -> tuple[int, dict[str, str], bytes]:
        """Answer a request, as `ServerClient._send` does."""
        body = json.loads(payload)
        content = body["messages"][-1]["content"]
        mask = np.array([document in content for document in self.documents])
        number = int(mask @ self.powers)
        probability = float(self.probabilities[number])
        answer = "yes" if self.rng.random() < probability else "no"
        self.answers.setdefault(number, []).append(float(answer == "yes"))
        if body["temperature"] == 0:
            answer = repr(probability)
        return 200, {}, json.dumps({"choices": [{"message": {"content": answer}}]}).encode()

    def game(self, keep: np.ndarray) -> np.ndarray:
        """Return the expected agreement for each mask."""
        return self.probabilities[keep @ self.powers][:, None]

    def explain(self, method: str, *, expected: bool = False, **options: Any) -> Any:
        """Explain the answer "yes", or its expected agreement."""
        model = limelight.wrap_endpoint(
            "http://localhost",
            model="logistic",
            agreement=read_number if expected else ["yes", "no"],
            temperature=0 if expected else 1,
            estimate=None,
            parallel=1,
        )
        with patch.object(ServerClient, "_send", lambda *arguments: self.send(*arguments)):
            return limelight.explain(
                model, QUESTION, method, documents=self.documents, answer="yes", **options
            )


def read_number(_: str, answer: str) -> float:
    """Return the number that an answer consists of."""
    return float(answer)


def exact_values(game: Game, d: int, method: str) -> np.ndarray:
    """Return the exact scores of a method from all masks."""
    if method == "shapley":
        return shapley_values_from_all_masks(game, d)[0]
    if method == "banzhaf":
        return banzhaf_values_from_all_masks(game, d)[0]
    if method == "lime":
        return lime_from_all_masks(game, d).scores[0]
    full = np.ones((1, d), bool)
    return game(full)[0, 0] - game(full ^ np.eye(d, dtype=bool))[:, 0]


def coverage_measures(runs: int) -> Iterator[Measure]:
    """Yield the coverage of two standard errors in each cell, with and without the answers."""
    for number, (cell, (title, d, options)) in enumerate(CELLS.items()):
        method, covered, covered_by_masks, sizes = cell.partition("_")[0], [], [], []
        for run in range(runs):
            server = LogisticServer(d, np.random.default_rng([run, number]))
            exact = exact_values(server.game, d, method)
            seed = {} if method == "loo" else {"seed": run}
            e = server.explain(method, **seed, **options)
            masks = server.explain(method, expected=True, **seed, **options)
            error = np.zeros(d) if masks.stderr is None else masks.stderr
            distance = np.abs(e.scores - exact)
            covered += (distance <= 2 * e.stderr).tolist()
            covered_by_masks += (distance <= 2 * error + 1e-12).tolist()
            sizes.append(float(np.median(e.stderr)))
        note = f"{runs} models; median standard error {np.median(sizes):.3f}"
        yield Measure(
            id=f"coverage_{cell}",
            what=f"{title}: within two standard errors",
            value=round(float(np.mean(covered)), 4),
            at_least=MIN_COVERAGE,
            note=note,
        )
        yield Measure(
            id=f"masks_{cell}",
            what=f"{title}: the same with errors of masks alone",
            value=round(float(np.mean(covered_by_masks)), 4),
        )


def ranking_measures(runs: int) -> Iterator[Measure]:
    """Yield how often orders of documents change between two runs, with and without errors."""
    top_changes = top_claims = changes = significant = claims = false_claims = pairs = 0
    d = RANKED_DOCUMENTS
    for run in range(runs):
        server = LogisticServer(d, np.random.default_rng([run, 77]))
        e = server.explain("shapley", budget="140 calls")
        # Other answers to the empty and the complete prompt are no part of the scores.
        outputs = np.array([server.answers[number][:2] for number in range(2**d)])
        outputs[-1] = server.answers[2**d - 1][-2:]
        first, second = shapley_matrix(d).T @ outputs[:, 0], shapley_matrix(d).T @ outputs[:, 1]
        # Control: the two runs have the same calls as the explanation.
        np.testing.assert_allclose((first + second) / 2, e.scores, atol=1e-9)
        exact = exact_values(server.game, d, "shapley")
        top_changes += bool(np.argmax(first) != np.argmax(second))
        top_claims += bool(np.argmax(first) != np.argmax(second)) and 1 in e.certain_tops
        for i, j in combinations(range(d), 2):
            sign = interval_sign(e, i, j)
            pairs += 1
            claims += bool(sign)
            false_claims += sign * (exact[i] - exact[j]) < 0
            if (first[i] - first[j]) * (second[i] - second[j]) < 0:
                changes += 1
                significant += bool(sign)
    yield Measure(
        id="ranking_top_changes",
        what="single answers: another top document in a second run",
        value=round(float(top_changes / runs), 3),
        note=f"{runs} models, {2**d} calls in each run",
    )
    yield Measure(
        id="ranking_top_certain",
        what="of these: the top document is certain in limelight",
        value=round(float(top_claims / max(top_changes, 1)), 4),
        below=0.05,
    )
    yield Measure(
        id="ranking_pair_changes",
        what="single answers: pairs of documents in another order in a second run",
        value=round(float(changes / pairs), 3),
        note=f"{changes} of {pairs} pairs",
    )
    yield Measure(
        id="ranking_significant_changes",
        what="of these pairs: significant difference in limelight",
        value=round(float(significant / max(changes, 1)), 4),
        below=0.05,
    )
    yield Measure(
        id="ranking_claims",
        what="all pairs: significant difference in limelight",
        value=round(float(claims / pairs), 3),
    )
    yield Measure(
        id="ranking_false_claims",
        what="all pairs: significant difference of the wrong sign",
        value=round(float(false_claims / pairs), 4),
        below=0.025,
    )


def interval_sign(e: Any, i: int, j: int) -> int:
    """Return the sign of the difference of two scores, 0 if its interval contains 0."""
    low, high = e.difference(i, j).interval
    return int(low > 0) - int(high < 0)


def main() -> None:
    """Run the benchmark."""
    arguments = command_line(__doc__ or "").parse_args()
    runs, rankings = (2, 2) if arguments.smoke else (RUNS, RANKINGS)
    measures = [*coverage_measures(runs), *ranking_measures(rankings)]
    report("sampled_answers", measures, arguments, data="logistic models of 5, 6 and 12 documents")


if __name__ == "__main__":
    main()
