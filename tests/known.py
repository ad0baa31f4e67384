"""The methods by what they ask of a model: what several tests enumerate is said here, once.

Names that a test is about are written out, and the rest follows from the registry: a new method
that only asks a model for answers is added to ``BY_ASKING``, one that reads something else nowhere.
"""

from limelight.explainers import METHODS

# By calls of a model alone, so that a function is enough.
BY_ASKING = (
    "lime",
    "lime-sampled",
    "loo",
    "shapley",
    "owen",
    "zoom",
    "banzhaf",
    "interactions",
    "context-cite",
    "anchors",
)


# Without those of other packages that are installed, such as the reproduction's.
OURS = [name for name, row in METHODS.items() if row.settings.__module__.startswith("limelight.")]


def methods_need(*capabilities):
    """Return the methods whose last way, that of the most models, needs one of these."""
    return [name for name, row in METHODS.items() if row.implementations[-1].needs in capabilities]


ONLY_EXACT = methods_need("tables", "exact_game")
DEEP = [name for name in METHODS if name not in ONLY_EXACT]  # which networks have too
# Samples are all that these have: they bring standard errors, and no exact value to check.
DRAWN = [
    name for name, row in METHODS.items() if [used.needs for used in row.implementations] == [None]
]

# As few samples as each takes, for what holds whatever they say.
CHEAP = {
    "lime": {"samples": 40},
    "lime-sampled": {"samples": 40},
    "shapley": {"pairs": 2},
    "anchors": {"samples": 20, "max_samples": 50, "batch": 5},
    "context-cite": {"samples": 20},
}
