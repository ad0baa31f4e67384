"""Long runs: what each tool's scores of a text tend to as it asks the model more often."""

__all__ = ["References"]

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import limelight
from limelight.models.hugging_face.model import HuggingFace
from results import STAMP
from transformer_rivals import MASK, WORD, Counted, captum_lime, groups

TEXTS = 3  # of which long runs are made


class References:
    """Scores of long runs by tool and text, kept in a file so that a slow machine need not make
    them.

    LIME's limit for ours; the same for lime, of the function of texts that it asks; Shapley values
    by many orders for KernelSHAP and ours; captum's own LIME of half as many samples.
    """

    def __init__(self, model: HuggingFace, path: Path | None, samples: int) -> None:
        self._model, self._path, self._samples = model, path, samples
        self._known: dict[str, dict[str, Any]] = {}
        if path is not None and path.exists():
            self._known = json.loads(path.read_text(encoding="utf-8"))
        self._texts: list[str] = []

    def distance(self, tool: str, text: str, scores: np.ndarray) -> float | None:
        """Return the root mean square difference to the long run; None where there is none."""
        if text not in self._texts:
            self._texts.append(text)
        make = self._makers().get(tool)
        if make is None or self._texts.index(text) >= TEXTS:
            return None
        key = f"{tool} {hashlib.sha256(text.encode()).hexdigest()[:16]}"
        if key not in self._known:
            scores_of_run = [round(float(x), 6) for x in make(text)]
            self._known[key] = {"stamp": STAMP, "scores": scores_of_run}
            print(f"long run for {key}", flush=True)
            if self._path is not None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._path.write_text(json.dumps(self._known, indent=0) + "\n", encoding="utf-8")
        return float(np.sqrt(np.mean((scores - np.array(self._known[key]["scores"])) ** 2)))

    def _makers(self) -> dict[str, Callable[[str], np.ndarray]]:
        return {
            "ours_mask": lambda text: self._lime(text, "mask"),
            "ours_delete": lambda text: self._lime(text, "delete"),
            "lime_mask": lambda text: self._lime_of_function(text, "mask"),
            "lime_delete": lambda text: self._lime_of_function(text, "delete"),
            "ours_shapley": self._shapley,
            "captum_kernelshap": self._shapley,
            "captum_lime": lambda text: captum_lime(self._ask(), text, self._samples // 2, seed=1),
        }

    def _ask(self) -> Counted:
        return Counted(self._model, batch=512)

    def _lime(self, text: str, how: str) -> np.ndarray:
        words = groups(self._model, text, bow=how == "delete")
        return self._long(self._model, text, replacement=how, features=words)

    def _lime_of_function(self, text: str, how: str) -> np.ndarray:
        function = limelight.wrap(
            self._ask(),
            classes=self._model.classes,
            scale="logit",
            mask=MASK,
            words=lambda given: [m.span() for m in WORD.finditer(given)],
            batch_size=4096,
        )
        features = "words" if how == "delete" else "positions"
        return self._long(function, text, replacement=how, features=features)

    def _long(self, model: Any, text: str, **options: Any) -> np.ndarray:
        return limelight.explain(
            model, text, "lime", scale="score", samples=self._samples, seed=2, **options
        ).scores

    def _shapley(self, text: str) -> np.ndarray:
        d = len(set(self._model.read(text).tokens.strings))
        pairs = max(2, self._samples // (2 * (d - 1)))
        options = {"replacement": "mask", "pairs": pairs, "seed": 2, "scale": "score"}
        return limelight.explain(self._model, text, "shapley", **options).scores
