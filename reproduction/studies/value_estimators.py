"""Estimators of Shapley values from other packages, as functions of a game and a number of calls.

Each estimator has the settings that its authors recommend for values of all features:

* limelight: `explain(…, "shapley", budget=…)`, with its default sampler, or with one sampler.
* shapiq: `LeverageSHAP`, `OddSHAP`, `ProxySPEX` (with its search of settings, which is the
  default), `SPEX`, `PermutationSamplingSV`, and `KernelSHAP` with its pairing trick.
* shap: `KernelExplainer`, which pairs masks, without its default selection of ten features
  (`l1_reg=False`). `PermutationExplainer`, which draws pairs of orders.
* captum: `KernelShap` and `ShapleyValueSampling`.
* interpreto: the masks and the regression of its `KernelShap`.

A package is imported only by its own estimators. The package `leverageshap` of the authors is not
on PyPI. shapiq 1.8 declares Python 3.12. Its source also runs with Python 3.11, if `override` comes
from `typing_extensions` and its two `type` statements are plain assignments.
"""

import contextlib
import io
import warnings
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

import limelight
from limelight.errors import DomainError
from limelight.shapes import Bool, Float

Values = Float[np.ndarray, " d"]
Masks = Bool[np.ndarray, "n d"]
Outputs = Callable[[Masks], Float[np.ndarray, " n"]]
# Without LightGBM these classes use another tree, or raise an error.
_REQUIRED = {"ProxySPEX": "lightgbm", "OddSHAP": "lightgbm", "SPEX": "sparse_transform"}


class OverBudgetError(Exception):
    """An estimator calls the game more often than its budget allows."""


class CountedGame:
    """A function of masks that counts its calls and enforces a budget."""

    def __init__(self, outputs: Outputs, d: int, *, budget: int | None = None) -> None:
        self.outputs, self.d, self.budget, self.calls = outputs, d, budget, 0

    def __call__(self, keep: Masks) -> Float[np.ndarray, " n"]:
        """Return the outputs for masks."""
        masks = np.asarray(keep, bool).reshape(-1, self.d)
        self.calls += len(masks)
        if self.budget is not None and self.calls > self.budget:
            raise OverBudgetError(f"{self.calls} calls exceed the budget of {self.budget}.")
        return self.outputs(masks)


class TabulatedGame(CountedGame):
    """A game with stored outputs of all masks. Row s belongs to the features in the bits of s."""

    def __init__(self, table: Float[np.ndarray, " n"], *, budget: int | None = None) -> None:
        d = len(table).bit_length() - 1
        super().__init__(lambda keep: table[keep @ (1 << np.arange(d))], d, budget=budget)


Estimate = Callable[[CountedGame, int, int], Values | None]


class Estimator(NamedTuple):
    """An estimator of Shapley values.

    ``estimate`` takes a game, a number of calls and a seed. It returns None if the method needs
    more calls. ``package`` is the package that must be installed, and ``converges`` says whether
    the method claims the exact values for many calls.
    """

    label: str
    package: str
    estimate: Estimate
    converges: bool = True


# Programs that the comparison would use if they could be installed.
NOT_INSTALLABLE = {"leverageshap": "not on PyPI, so shapiq's LeverageSHAP stands for it"}


def missing_packages() -> dict[str, str]:
    """Return why an estimator cannot run, by its package or its class in a package."""
    return {
        package: reason
        for package in sorted({estimator.package for estimator in ESTIMATORS.values()})
        if (reason := _reason_missing(package))
    }


@cache
def _reason_missing(package: str) -> str:
    """Return why a package, or a class of a package, is missing, and "" if it is there."""
    module, _, name = package.partition(".")
    if find_spec(module) is None:
        return f"{module} is not installed"
    try:
        imported = import_module(module)
    except ImportError as error:
        return f"{module} cannot be imported: {error}"
    if name and not hasattr(imported, name):
        return f"{module} {version(module)} has no {name}"
    if name in _REQUIRED and find_spec(_REQUIRED[name]) is None:
        return f"{name} needs {_REQUIRED[name]}, which is not installed"
    return ""


def package_versions() -> dict[str, str]:
    """Return the versions of the packages that are compared."""
    versions = {}
    for name in ("shapiq", "shap", "captum", "interpreto", "lightgbm", "sparse-transform"):
        with contextlib.suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


def estimate_with_limelight(sampler: str) -> Estimate:
    """Return `explain` with a budget, on a model that reads the names of the features."""

    def estimate(game: CountedGame, calls: int, seed: int) -> Values | None:
        names = [f"w{j:02}" for j in range(game.d)]
        number = {name: j for j, name in enumerate(names)}

        def predict(texts: list[str]) -> Float[np.ndarray, "n 1"]:
            keep = np.zeros((len(texts), game.d), bool)
            for row, text in zip(keep, texts, strict=True):
                row[[number[name] for name in text.split()]] = True
            return game(keep)[:, None]

        model = limelight.wrap(predict, classes=["other", "target"], scale="logit")
        settings: dict[str, Any] = {"target": "target", "sampler": sampler, "seed": seed}
        try:
            explanation = limelight.explain(
                model, " ".join(names), "shapley", budget=f"{calls} calls", **settings
            )
        except DomainError:  # a regression needs two calls for each feature
            return None
        return np.asarray(explanation.scores)

    return estimate


def estimate_with_shapiq(name: str, **options: Any) -> Estimate:
    """Return an approximator of shapiq."""

    def estimate(game: CountedGame, calls: int, seed: int) -> Values | None:
        import shapiq

        approximator = getattr(shapiq, name)(n=game.d, random_state=seed, **options)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of scikit-learn and LightGBM
                interactions = approximator.approximate(calls, game)
        except ValueError as error:
            if "budget" in str(error).lower():
                return None
            raise
        values = interactions.dict_values
        # SPEX leaves out values of 0.
        return np.array([values.get((j,), 0.0) for j in range(game.d)])

    return estimate


def estimate_with_shap_kernel(game: CountedGame, calls: int, seed: int) -> Values | None:
    """Return the values of shap's `KernelExplainer` without a selection of features."""
    import shap

    np.random.seed(seed)
    explainer = shap.KernelExplainer(lambda rows: game(rows > 0.5), np.zeros((1, game.d)))
    with contextlib.redirect_stderr(io.StringIO()):
        # The outputs without and with all features are two of the calls.
        values = explainer.shap_values(
            np.ones((1, game.d)), nsamples=calls - game.calls - 1, l1_reg=False, silent=True
        )
    return np.asarray(values)[0]


def estimate_with_shap_orders(game: CountedGame, calls: int, seed: int) -> Values | None:
    """Return the values of shap's `PermutationExplainer`: pairs of orders."""
    import shap

    if calls < 2 * game.d + 1:
        return None
    masker = shap.maskers.Independent(np.zeros((1, game.d)), max_samples=1)
    explainer = shap.PermutationExplainer(lambda rows: game(rows > 0.5), masker, seed=seed)
    explanation = explainer(np.ones((1, game.d)), max_evals=calls, silent=True)
    return np.asarray(explanation.values)[0]


def _torch_function(game: CountedGame) -> Callable[[Any], Any]:
    """Return a game as a function of tensors."""
    import torch

    return lambda rows: torch.from_numpy(game(rows.numpy() > 0.5))


def estimate_with_captum_kernel(game: CountedGame, calls: int, seed: int) -> Values | None:
    """Return the values of captum's `KernelShap`."""
    import torch
    from captum.attr import KernelShap

    torch.manual_seed(seed)
    inputs = torch.ones(1, game.d, dtype=torch.float64)
    values = KernelShap(_torch_function(game)).attribute(
        inputs, baselines=torch.zeros_like(inputs), n_samples=calls, perturbations_per_eval=calls
    )
    return np.asarray(values.numpy()[0], float)


def estimate_with_captum_orders(game: CountedGame, calls: int, seed: int) -> Values | None:
    """Return the values of captum's `ShapleyValueSampling`: single orders."""
    import torch
    from captum.attr import ShapleyValueSampling

    # Each order calls all prefixes but the empty one, which is called once.
    orders = (calls - 2) // game.d
    if orders < 1:
        return None
    torch.manual_seed(seed)
    inputs = torch.ones(1, game.d, dtype=torch.float64)
    values = ShapleyValueSampling(_torch_function(game)).attribute(
        inputs, baselines=torch.zeros_like(inputs), n_samples=orders
    )
    return np.asarray(values.numpy()[0], float)


def estimate_with_interpreto(game: CountedGame, calls: int, seed: int) -> Values | None:
    """Return the values of interpreto's `KernelShap`: its masks, then its regression."""
    import torch
    from interpreto.attributions.aggregations.linear_regression_aggregation import (
        Kernels,
        LinearRegressionAggregator,
    )
    from interpreto.attributions.perturbations.shap_perturbation import ShapTokenPerturbator

    torch.manual_seed(seed)
    # The package draws at most 2^d masks at a time. More calls are several draws.
    most = 2**game.d
    sizes = [most] * (calls // most) + [calls % most] * (calls % most > 0)
    draws = [ShapTokenPerturbator(n_perturbations=size).get_mask(game.d) for size in sizes]
    is_removed = torch.cat(draws)
    outputs = torch.from_numpy(game(is_removed.numpy() < 0.5)).float()[:, None]
    aggregator = LinearRegressionAggregator(distance_function=None, similarity_kernel=Kernels.ONES)
    return np.asarray(aggregator.aggregate(outputs, is_removed)[0].numpy(), float)


ESTIMATORS = {
    "default": Estimator("limelight, default", "limelight", estimate_with_limelight("auto")),
    "orders": Estimator("limelight, orders", "limelight", estimate_with_limelight("orders")),
    "regression": Estimator(
        "limelight, regression", "limelight", estimate_with_limelight("regression")
    ),
    "leverage": Estimator(
        "Leverage SHAP (shapiq)", "shapiq.LeverageSHAP", estimate_with_shapiq("LeverageSHAP")
    ),
    "odd": Estimator("OddSHAP (shapiq)", "shapiq.OddSHAP", estimate_with_shapiq("OddSHAP")),
    "proxyspex": Estimator(
        "ProxySPEX (shapiq)",
        "shapiq.ProxySPEX",
        estimate_with_shapiq("ProxySPEX", index="SV", max_order=1),
        converges=False,
    ),
    "spex": Estimator(
        "SPEX (shapiq)",
        "shapiq.SPEX",
        estimate_with_shapiq("SPEX", index="SV", max_order=1),
        converges=False,
    ),
    "shapiq_kernel": Estimator(
        "paired KernelSHAP (shapiq)",
        "shapiq.KernelSHAP",
        estimate_with_shapiq("KernelSHAP", pairing_trick=True),
    ),
    "shapiq_orders": Estimator(
        "orders (shapiq)",
        "shapiq.PermutationSamplingSV",
        estimate_with_shapiq("PermutationSamplingSV"),
    ),
    "shap_kernel": Estimator("paired KernelSHAP (shap)", "shap", estimate_with_shap_kernel),
    "shap_orders": Estimator("pairs of orders (shap)", "shap", estimate_with_shap_orders),
    "captum_kernel": Estimator("KernelSHAP (captum)", "captum", estimate_with_captum_kernel),
    "captum_orders": Estimator("orders (captum)", "captum", estimate_with_captum_orders),
    "interpreto": Estimator(
        "KernelSHAP (interpreto)", "interpreto", estimate_with_interpreto, converges=False
    ),
}
